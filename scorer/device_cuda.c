/*
 * device_cuda.c
 *		Scores requests on the GPUs, where the scorer was built with CUDA.
 *
 * Each GPU has a few lanes, so that requests of different backends overlap on it;
 * a request takes a lane of the GPU that has most of them free.  GPU memory does
 * not grow with the number of backends.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#ifdef MAXSIM_CUDA

#include "../cuda/engine_cuda.h"

/*
 * More than keep a GPU busy: where all cores are, a thread that waits for its lane's
 * batch comes back late, and others should not wait for it.
 */
#define LANES_PER_DEVICE 32

typedef struct Lane
{
	MaxsimCudaLane *lane;
	MaxsimCudaDocument documents[SCORER_MAX_DOCUMENTS];
} Lane;

typedef struct Device
{
	MaxsimCudaDevice *device;
	uint64_t mapping; /* where it sees the mapping */
	Lane *free_lanes[LANES_PER_DEVICE];
	int nfree;
} Device;

static Device devices[SCORER_MAX_DEVICES];
static int ndevices;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t lane_freed = PTHREAD_COND_INITIALIZER;

static MaxsimStatus
status_of(MaxsimCudaStatus status)
{
	switch (status)
	{
		case MAXSIM_CUDA_OK:
			return MAXSIM_OK;
		case MAXSIM_CUDA_OUT_OF_RANGE:
			return MAXSIM_OUT_OF_RANGE;
		case MAXSIM_CUDA_OUT_OF_MEMORY:
			return MAXSIM_OUT_OF_MEMORY;
		case MAXSIM_CUDA_DEVICE_LOST:
			return MAXSIM_DEVICE_LOST;
		default:
			return MAXSIM_INVALID;
	}
}

/* Opens device number and its lanes; false: the report's message says why not. */
static bool
open_device(int number, ScorerMapping *mapping, ScorerReport *report)
{
	Device *device = &devices[ndevices];
	MaxsimCudaInfo info;

	if (maxsim_cuda_open(number, &device->device, report->message) != MAXSIM_CUDA_OK)
		return false;
	/* the first device pins the mapping for all of them */
	if (ndevices == 0 &&
		maxsim_cuda_register(device->device, mapping, mapping->size, report->message) != MAXSIM_CUDA_OK)
		return false;
	if (maxsim_cuda_address(device->device, mapping, &device->mapping, report->message) != MAXSIM_CUDA_OK)
		return false;
	while (device->nfree < LANES_PER_DEVICE)
	{
		Lane *lane = malloc(sizeof(Lane));

		if (lane == NULL)
		{
			snprintf(report->message, sizeof(report->message), "scorer is out of memory");
			return false;
		}
		if (maxsim_cuda_lane_open(device->device, &lane->lane, report->message) != MAXSIM_CUDA_OK)
			return false;
		device->free_lanes[device->nfree++] = lane;
	}
	maxsim_cuda_info(device->device, &info);
	snprintf(report->devices[ndevices], sizeof(report->devices[0]), "%s", info.name);
	report->ndevices = ++ndevices;
	return true;
}

/* Whether a list like "0,2" holds that number; "all" holds every one. */
static bool
is_listed(const char *list, int number)
{
	if (strcmp(list, "all") == 0)
		return true;
	while (*list != '\0')
	{
		char *end;
		long listed = strtol(list, &end, 10);

		if (end != list && listed == number)
			return true;
		list = *end == '\0' ? end : end + 1;
	}
	return false;
}

static bool
open_cuda(ScorerMapping *mapping, const char *list, ScorerReport *report)
{
	int count;

	if (maxsim_cuda_count(&count, report->message) != MAXSIM_CUDA_OK)
		return false;
	for (int number = 0; number < count && ndevices < SCORER_MAX_DEVICES; number++)
	{
		if (is_listed(list, number) && !open_device(number, mapping, report))
			return false;
	}
	if (ndevices == 0)
		snprintf(report->message, sizeof(report->message),
				 "flash_maxsim.devices is \"%.40s\", but the devices are 0 to %d", list, count - 1);
	return ndevices > 0;
}

/* The thread's last one, which may still have its query. */
static _Thread_local Lane *last_lane;

/* Moves the thread's last lane, if it is free, to the end of the device's list. */
static void
prefer_last_lane(Device *device)
{
	for (int i = 0; i < device->nfree; i++)
	{
		if (device->free_lanes[i] == last_lane)
		{
			device->free_lanes[i] = device->free_lanes[device->nfree - 1];
			device->free_lanes[device->nfree - 1] = last_lane;
		}
	}
}

/* A lane of the least busy device, when there is one. */
static Lane *
take_lane(Device **device)
{
	Lane *lane;

	pthread_mutex_lock(&mutex);
	for (;;)
	{
		*device = &devices[0];
		for (int i = 1; i < ndevices; i++)
		{
			if (devices[i].nfree > (*device)->nfree)
				*device = &devices[i];
		}
		if ((*device)->nfree > 0)
			break;
		pthread_cond_wait(&lane_freed, &mutex);
	}
	prefer_last_lane(*device);
	lane = (*device)->free_lanes[--(*device)->nfree];
	pthread_mutex_unlock(&mutex);
	last_lane = lane;
	return lane;
}

static void
give_lane_back(Device *device, Lane *lane)
{
	pthread_mutex_lock(&mutex);
	device->free_lanes[device->nfree++] = lane;
	pthread_cond_signal(&lane_freed);
	pthread_mutex_unlock(&mutex);
}

/* Scores documents first to first + n - 1 of the slot, which have one format. */
static MaxsimCudaStatus
score_format(ScorerMapping *mapping, ScorerSlot *slot, const Device *device, Lane *lane,
			 MaxsimFormat format, uint32_t first, uint32_t n)
{
	MaxsimQuery query = {(const float *) ((char *) mapping + slot->query_offset), NULL,
						 slot->query_ntokens, slot->query_dim};
	const ScorerDocument *documents = scorer_documents(slot) + first;
	const float *scores;
	MaxsimCudaStatus status = maxsim_cuda_query(lane->lane, &query, format, slot->message);

	if (status != MAXSIM_CUDA_OK)
		return status;
	for (uint32_t i = 0; i < n; i++)
	{
		lane->documents[i].address = device->mapping + documents[i].offset;
		lane->documents[i].ntokens = documents[i].ntokens;
	}
	status = maxsim_cuda_submit(lane->lane, lane->documents, n, slot->message);
	if (status == MAXSIM_CUDA_OK)
		status = maxsim_cuda_wait(lane->lane, &scores, slot->message);
	if (status == MAXSIM_CUDA_OK)
		memcpy(scorer_scores(slot) + first, scores, n * sizeof(float));
	return status;
}

static MaxsimStatus
score_cuda(ScorerMapping *mapping, ScorerSlot *slot)
{
	MaxsimCudaStatus status = MAXSIM_CUDA_OK;
	uint32_t first = 0;
	Device *device;
	Lane *lane = take_lane(&device);

	for (int format = 0; format < MAXSIM_NFORMATS && status == MAXSIM_CUDA_OK; format++)
	{
		if (slot->ndocuments[format] > 0)
			status = score_format(mapping, slot, device, lane, format, first, slot->ndocuments[format]);
		first += slot->ndocuments[format];
	}
	give_lane_back(device, lane);
	return status_of(status);
}

#else

static bool
open_cuda(ScorerMapping *mapping, const char *devices, ScorerReport *report)
{
	(void) mapping;
	(void) devices;
	snprintf(report->message, sizeof(report->message), "scorer was built without CUDA");
	return false;
}

static MaxsimStatus
score_cuda(ScorerMapping *mapping, ScorerSlot *slot)
{
	(void) mapping;
	(void) slot;
	return MAXSIM_INVALID;
}

#endif

const ScorerDevice scorer_device_cuda = {"cuda", open_cuda, score_cuda};
