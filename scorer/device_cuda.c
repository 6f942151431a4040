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

/*
 * More than keep a GPU busy: where all cores are, a thread that waits for its lane's
 * batch comes back late, and others should not wait for it.
 */
#define LANES_PER_DEVICE 32

typedef struct Lane
{
	MaxsimCudaLane *lane;
	uint32_t n;                            /* documents of the batch in flight */
	uint32_t places[SCORER_MAX_DOCUMENTS]; /* where in the slot they stand */
	MaxsimCudaDocument documents[SCORER_MAX_DOCUMENTS];
	MaxsimCudaMove moves[SCORER_MAX_DOCUMENTS];
} Lane;

typedef struct Device
{
	MaxsimCudaDevice *device;
	uint64_t mapping; /* where it sees the mapping */
	uint64_t arena;
	uint64_t arena_size;
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

/* Gives a device its arena; without it, it works as well, and the report says why. */
static void
open_arena(Device *device, const char *cache, uint64_t memory, ScorerReport *report)
{
	uint64_t size = scorer_arena_bytes(cache, memory);

	if (size == 0)
		return;
	if (size > memory)
		snprintf(report->arena_message, sizeof(report->arena_message),
				 "flash_maxsim.gpu_cache_size is %llu MB, but the device has %llu MB",
				 (unsigned long long) size >> 20, (unsigned long long) memory >> 20);
	else if (maxsim_cuda_alloc(device->device, size, &device->arena, report->arena_message) == MAXSIM_CUDA_OK)
		device->arena_size = size;
}

static uint64_t
arena_size(int number)
{
	return number >= 0 && number < ndevices ? devices[number].arena_size : 0;
}

/* Opens device number and its lanes. */
static MaxsimCudaStatus
open_device(int number, ScorerMapping *mapping, const char *cache, ScorerReport *report)
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
	open_arena(device, cache, info.memory, report);
	report->arena_sizes[ndevices] = device->arena_size;
	snprintf(report->devices[ndevices], sizeof(report->devices[0]), "%s", info.name);
	report->ndevices = ++ndevices;
	return MAXSIM_CUDA_OK;
}

/* Opens every device that can be used. */
static MaxsimCudaStatus
open_all(int count, ScorerMapping *mapping, const char *cache, ScorerReport *report)
{
	MaxsimCudaStatus status = MAXSIM_CUDA_OK;

	for (int number = 0; number < count && ndevices < SCORER_MAX_DEVICES; number++)
	{
		status = open_device(number, mapping, cache, report);
		if (status == MAXSIM_CUDA_UNAVAILABLE)
			fprintf(stderr, "flash_maxsim scorer leaves out a GPU: %s\n", report->message);
		else if (status != MAXSIM_CUDA_OK)
			return status;
	}
	return ndevices > 0 ? MAXSIM_CUDA_OK : status;
}

/* Opens the devices of a list, which must be there, every one. */
static MaxsimCudaStatus
open_listed(const char *list, const int *numbers, int n, int count, ScorerMapping *mapping, const char *cache,
			ScorerReport *report)
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
		status = open_device(numbers[i], mapping, cache, report);
	return status;
}

static bool
open_cuda(ScorerMapping *mapping, const char *list, const char *cache, ScorerReport *report)
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
		status = n == 0 ? open_all(count, mapping, cache, report)
						: open_listed(list, numbers, n, count, mapping, cache, report);

	if (status == MAXSIM_CUDA_OK)
		return true;
	/* memory may be had, and a lost device be back, at the next start */
	report->no_device = status != MAXSIM_CUDA_OUT_OF_MEMORY && status != MAXSIM_CUDA_DEVICE_LOST;
	return false;
}

/* The thread's last lane on each device, which may still have its query. */
static _Thread_local Lane *last_lanes[SCORER_MAX_DEVICES];

/* Moves a lane, if it is free, to the end of the device's list. */
static void
prefer_lane(Device *device, const Lane *lane)
{
	for (int i = 0; i < device->nfree; i++)
	{
		if (device->free_lanes[i] == lane)
		{
			Lane *last = device->free_lanes[device->nfree - 1];

			device->free_lanes[device->nfree - 1] = device->free_lanes[i];
			device->free_lanes[i] = last;
		}
	}
}

/* The device with most lanes free; of equals, all have their turn. */
static int
least_busy_device(void)
{
	static int last = 0;
	int best;

	pthread_mutex_lock(&mutex);
	best = (last + 1) % ndevices;
	for (int i = 2; i <= ndevices; i++)
	{
		int candidate = (last + i) % ndevices;

		if (devices[candidate].nfree > devices[best].nfree)
			best = candidate;
	}
	last = best;
	pthread_mutex_unlock(&mutex);
	return best;
}

/* A lane of the device, when there is one. */
static Lane *
take_lane(Device *device)
{
	Lane **last = &last_lanes[device - devices];

	pthread_mutex_lock(&mutex);
	while (device->nfree == 0)
		pthread_cond_wait(&lane_freed, &mutex);
	prefer_lane(device, *last);
	*last = device->free_lanes[--device->nfree];
	pthread_mutex_unlock(&mutex);
	return *last;
}

static void
give_lane_back(Device *device, Lane *lane)
{
	pthread_mutex_lock(&mutex);
	device->free_lanes[device->nfree++] = lane;
	pthread_cond_broadcast(&lane_freed);
	pthread_mutex_unlock(&mutex);
}

/* The address by which device sees a document, wherever it lies. */
static uint64_t
address_of(const Device *device, int space, uint64_t offset)
{
	return (space == SCORER_IN_MAPPING ? device->mapping : devices[space].arena) + offset;
}

/*
 * The device that a document is scored on: whose memory it lies in or comes to; other
 * says who takes those of the mapping.
 */
static int
home_of(const ScorerDocument *document, int other)
{
	if (document->copy_to != SCORER_NO_COPY)
		return document->copy_device;
	return document->device != SCORER_IN_MAPPING ? document->device : other;
}

/*
 * Starts what a device has to do for documents first to first + n - 1 of the slot,
 * which have one format.
 */
static MaxsimCudaStatus
submit(ScorerMapping *mapping, ScorerSlot *slot, const Device *device, Lane *lane, int other,
	   MaxsimFormat format, uint32_t first, uint32_t n)
{
	MaxsimQuery query = scorer_query(mapping, slot);
	uint64_t row = slot->query_dim * maxsim_element_size(format);
	const ScorerDocument *documents = scorer_documents(slot);
	MaxsimCudaStatus status = MAXSIM_CUDA_OK;
	uint32_t nmoves = 0;

	lane->n = 0;
	for (uint32_t i = first; i < first + n; i++)
	{
		const ScorerDocument *document = &documents[i];
		uint64_t address;

		if (home_of(document, other) != device - devices)
			continue;
		address = address_of(device, document->device, document->offset);
		if (document->copy_to != SCORER_NO_COPY)
		{
			uint64_t to = address_of(device, document->copy_device, document->copy_to);

			lane->moves[nmoves++] = (MaxsimCudaMove){address, to, scorer_copy_size(document->ntokens * row)};
			address = to;
		}
		lane->documents[lane->n] = (MaxsimCudaDocument){address, document->ntokens};
		lane->places[lane->n++] = i;
	}
	if (lane->n == 0)
		return MAXSIM_CUDA_OK;
	if (query.ntokens > 0)
		status = maxsim_cuda_query(lane->lane, &query, format, slot->message);
	if (status == MAXSIM_CUDA_OK && nmoves > 0)
		status = maxsim_cuda_move(lane->lane, lane->moves, nmoves, slot->message);
	if (status == MAXSIM_CUDA_OK)
		status = maxsim_cuda_submit(lane->lane, lane->documents, query.ntokens > 0 ? lane->n : 0, slot->message);
	if (status != MAXSIM_CUDA_OK)
		lane->n = 0; /* nothing to wait for */
	return status;
}

/* Waits for what submit() started. */
static MaxsimCudaStatus
collect(ScorerSlot *slot, Lane *lane)
{
	const float *scores;
	MaxsimCudaStatus status;

	if (lane->n == 0)
		return MAXSIM_CUDA_OK;
	status = maxsim_cuda_wait(lane->lane, &scores, slot->message);
	for (uint32_t i = 0; i < lane->n && status == MAXSIM_CUDA_OK && slot->query_ntokens > 0; i++)
		scorer_scores(slot)[lane->places[i]] = scores[i];
	return status;
}

/* Which devices a request needs; sets *other to the one that takes what none has. */
static void
choose_devices(ScorerSlot *slot, uint32_t n, bool needed[SCORER_MAX_DEVICES], int *other)
{
	const ScorerDocument *documents = scorer_documents(slot);
	bool any = false;

	memset(needed, 0, SCORER_MAX_DEVICES * sizeof(bool));
	*other = -1;
	for (uint32_t i = 0; i < n; i++)
	{
		int home = home_of(&documents[i], -1);

		if (home < 0)
			any = true;
		else
		{
			needed[home] = true;
			*other = home;
		}
	}
	if (any && *other < 0)
	{
		*other = least_busy_device();
		needed[*other] = true;
	}
}

static MaxsimStatus
score_cuda(ScorerMapping *mapping, ScorerSlot *slot)
{
	Lane *lanes[SCORER_MAX_DEVICES] = {NULL};
	bool needed[SCORER_MAX_DEVICES];
	MaxsimCudaStatus status = MAXSIM_CUDA_OK;
	uint32_t first = 0;
	uint32_t n = 0;
	int other;

	for (int format = 0; format < MAXSIM_NFORMATS; format++)
		n += slot->ndocuments[format];
	choose_devices(slot, n, needed, &other);

	/* in one order, so that no two requests wait for each other */
	for (int i = 0; i < ndevices; i++)
		lanes[i] = needed[i] ? take_lane(&devices[i]) : NULL;
	for (int format = 0; format < MAXSIM_NFORMATS && status == MAXSIM_CUDA_OK; format++)
	{
		n = slot->ndocuments[format];
		for (int i = 0; i < ndevices; i++)
		{
			if (lanes[i] != NULL)
				lanes[i]->n = 0;
			if (lanes[i] != NULL && n > 0 && status == MAXSIM_CUDA_OK)
				status = submit(mapping, slot, &devices[i], lanes[i], other, format, first, n);
		}
		for (int i = 0; i < ndevices; i++)
		{
			/* what was started must end, whatever became of the rest */
			MaxsimCudaStatus collected = lanes[i] != NULL ? collect(slot, lanes[i]) : MAXSIM_CUDA_OK;

			status = status == MAXSIM_CUDA_OK ? collected : status;
		}
		first += n;
	}
	for (int i = 0; i < ndevices; i++)
	{
		if (lanes[i] != NULL)
			give_lane_back(&devices[i], lanes[i]);
	}
	return status_of(status);
}

#else

static bool
open_cuda(ScorerMapping *mapping, const char *devices, const char *cache, ScorerReport *report)
{
	(void) mapping;
	(void) devices;
	(void) cache;
	report->no_device = 1;
	snprintf(report->message, sizeof(report->message), "scorer was built without CUDA");
	return false;
}

static uint64_t
arena_size(int number)
{
	(void) number;
	return 0;
}

static MaxsimStatus
score_cuda(ScorerMapping *mapping, ScorerSlot *slot)
{
	(void) mapping;
	(void) slot;
	return MAXSIM_INVALID;
}

#endif

const ScorerDevice scorer_device_cuda = {"cuda", open_cuda, arena_size, score_cuda};
