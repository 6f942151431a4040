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
#include "device_list.h"

#ifdef MAXSIM_CUDA

#include "../cuda/engine_cuda.h"

#define LANES_PER_DEVICE 8

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

/* Opens device number and its lanes. */
static MaxsimCudaStatus
open_device(int number, ScorerMapping *mapping, ScorerReport *report)
{
	Device *device = &devices[ndevices];
	MaxsimCudaInfo info;
	MaxsimCudaStatus status = maxsim_cuda_open(number, &device->device, report->message);

	/* the first device pins the mapping for all of them */
	if (status == MAXSIM_CUDA_OK && ndevices == 0)
		status = maxsim_cuda_register(device->device, mapping, mapping->size, report->message);
	if (status == MAXSIM_CUDA_OK)
		status = maxsim_cuda_address(device->device, mapping, &device->mapping, report->message);
	while (status == MAXSIM_CUDA_OK && device->nfree < LANES_PER_DEVICE)
	{
		Lane *lane = malloc(sizeof(Lane));

		if (lane == NULL)
		{
			snprintf(report->message, sizeof(report->message), "scorer is out of memory");
			return MAXSIM_CUDA_OUT_OF_MEMORY;
		}
		status = maxsim_cuda_lane_open(device->device, &lane->lane, report->message);
		device->free_lanes[device->nfree++] = lane;
	}
	if (status != MAXSIM_CUDA_OK)
		return status;
	maxsim_cuda_info(device->device, &info);
	snprintf(report->devices[ndevices], sizeof(report->devices[0]), "%s", info.name);
	report->ndevices = ++ndevices;
	return MAXSIM_CUDA_OK;
}

/* Opens every device that can be used. */
static MaxsimCudaStatus
open_all(int count, ScorerMapping *mapping, ScorerReport *report)
{
	MaxsimCudaStatus status = MAXSIM_CUDA_OK;

	for (int number = 0; number < count && ndevices < SCORER_MAX_DEVICES; number++)
	{
		status = open_device(number, mapping, report);
		if (status == MAXSIM_CUDA_UNAVAILABLE)
			fprintf(stderr, "flash_maxsim scorer leaves out a GPU: %s\n", report->message);
		else if (status != MAXSIM_CUDA_OK)
			return status;
	}
	return ndevices > 0 ? MAXSIM_CUDA_OK : status;
}

/* Opens the devices of a list, which must be there, every one. */
static MaxsimCudaStatus
open_listed(const char *list, const int *numbers, int n, int count, ScorerMapping *mapping, ScorerReport *report)
{
	MaxsimCudaStatus status = MAXSIM_CUDA_OK;

	for (int i = 0; i < n; i++)
	{
		if (numbers[i] < count)
			continue;
		snprintf(report->message, sizeof(report->message),
				 count == 1 ? "flash_maxsim.devices is \"%.40s\", but there is no GPU %d: the only one is 0"
							: "flash_maxsim.devices is \"%.40s\", but there is no GPU %d: they are 0 to %d",
				 list, numbers[i], count - 1);
		return MAXSIM_CUDA_UNAVAILABLE;
	}
	for (int i = 0; i < n && status == MAXSIM_CUDA_OK; i++)
		status = open_device(numbers[i], mapping, report);
	return status;
}

static bool
open_cuda(ScorerMapping *mapping, const char *list, ScorerReport *report)
{
	int numbers[SCORER_MAX_DEVICES];
	int n = scorer_read_devices(list, numbers);
	int count;
	MaxsimCudaStatus status = maxsim_cuda_count(&count, report->message);

	if (status == MAXSIM_CUDA_OK && n < 0)
	{
		snprintf(report->message, sizeof(report->message), "\"%.40s\" is not a list of devices", list);
		status = MAXSIM_CUDA_INVALID;
	}
	else if (status == MAXSIM_CUDA_OK)
		status = n == 0 ? open_all(count, mapping, report) : open_listed(list, numbers, n, count, mapping, report);

	if (status == MAXSIM_CUDA_OK)
		return true;
	/* memory may be had, and a lost device be back, at the next start */
	report->no_device = status != MAXSIM_CUDA_OUT_OF_MEMORY && status != MAXSIM_CUDA_DEVICE_LOST;
	return false;
}

/* A lane of the least busy device, when there is one; of equals, all have their turn. */
static Lane *
take_lane(Device **device)
{
	static int last = 0;
	int best;
	Lane *lane;

	pthread_mutex_lock(&mutex);
	for (;;)
	{
		best = (last + 1) % ndevices;
		for (int i = 2; i <= ndevices; i++)
		{
			int candidate = (last + i) % ndevices;

			if (devices[candidate].nfree > devices[best].nfree)
				best = candidate;
		}
		if (devices[best].nfree > 0)
			break;
		pthread_cond_wait(&lane_freed, &mutex);
	}
	last = best;
	*device = &devices[best];
	lane = (*device)->free_lanes[--(*device)->nfree];
	pthread_mutex_unlock(&mutex);
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
	report->no_device = 1;
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
