/*
 * fake_cuda.c
 *		cuda/engine_cuda.h without a GPU: imaginary devices that score with the CPU
 *		engine, fail when they are told to, and count what they did.
 *
 * Linked into a scorer for tests alone, in place of the CUDA engine.  That runs in
 * the data directory, where a test leaves lines in the file fake_cuda:
 *
 *		devices N				there are N of them, one without the file; of 0,
 *								there is no driver
 *		slow DEVICE MS			each of its batches takes MS milliseconds more
 *		fail CALL STATUS DEVICE N
 *								CALL, a name of call_names, fails with STATUS, a name of
 *								status_names, on that device, on any if it is -1, until
 *								N calls of this kind have failed in all
 *
 * and finds numbers in fake_cuda.counts, which outlives the process: the failures of
 * each kind of call so far, and the batches of each device.
 *
 * What the caller promises is checked; the process aborts where it is not kept.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../cuda/engine_cuda.h"

#define MAX_DEVICES 32
#define PAGE 4096

typedef enum Call
{
	CALL_COUNT,
	CALL_OPEN,
	CALL_REGISTER,
	CALL_LANE,
	CALL_QUERY,
	CALL_SUBMIT,
	CALL_WAIT,
	CALL_ALLOC,
	CALL_MOVE,
	NUM_CALLS
} Call;

static const char *const call_names[NUM_CALLS] = {"count", "open", "register", "lane", "query", "submit", "wait", "alloc", "move"};
static const char *const status_names[] = {"ok", "pending", "unavailable", "invalid", "range", "memory", "lost"};

/* fake_cuda.counts */
typedef struct Counts
{
	_Atomic uint64_t failures[NUM_CALLS];
	_Atomic uint64_t batches[MAX_DEVICES];
} Counts;

struct MaxsimCudaDevice
{
	int number;
	atomic_int nlanes; /* open */
	char *memory;
	size_t memory_size;
};

struct MaxsimCudaLane
{
	MaxsimCudaDevice *device;
	atomic_int nusers; /* threads within a call */

	MaxsimFormat format;
	uint32_t dim;
	MaxsimPrepared *query; /* NULL: none */
	void *query_memory;

	MaxsimDocument *documents;
	float *scores;
	uint32_t n;
	bool submitted; /* a batch, of which there are scores or will be */
	bool busy;
	struct timespec done; /* when it will be */
};

/* The one registered mapping; a device sees it at an address of its own. */
static char *mapping = NULL;
static size_t mapping_size;
static atomic_bool lost = false;
static atomic_int is_open[MAX_DEVICES];
static pthread_once_t counts_once = PTHREAD_ONCE_INIT;
static Counts *counts;

__attribute__((noreturn, format(printf, 1, 2))) static void
violation(const char *format, ...)
{
	va_list arguments;

	fputs("fake_cuda: violation: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	abort();
}

/* --- what tests say and read ------------------------------------------------- */

static void
map_counts(void)
{
	int file = open("fake_cuda.counts", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (file < 0 || ftruncate(file, sizeof(Counts)) != 0)
		violation("could not write fake_cuda.counts");
	counts = mmap(NULL, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (counts == MAP_FAILED)
		violation("could not map fake_cuda.counts");
	close(file);
}

/* What the test's lines say of a call on a device. */
typedef struct Orders
{
	int ndevices;
	int slow;
	MaxsimCudaStatus status; /* of the call, until there are so many failures */
	uint64_t failures;
} Orders;

static Orders
read_orders(int device, Call call)
{
	Orders orders = {.ndevices = 1, .status = MAXSIM_CUDA_OK};
	FILE *file = fopen("fake_cuda", "re");
	char line[200];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		char call_name[20];
		char status_name[20];
		int which;
		int value;
		unsigned long long n;

		if (sscanf(line, "devices %d", &value) == 1 && value <= MAX_DEVICES)
			orders.ndevices = value;
		else if (sscanf(line, "slow %d %d", &which, &value) == 2)
			orders.slow = which == device ? value : orders.slow;
		else if (sscanf(line, "fail %19s %19s %d %llu", call_name, status_name, &which, &n) == 4)
		{
			if (strcmp(call_name, call_names[call]) != 0 || (which >= 0 && which != device))
				continue;
			for (int i = 0; i <= MAXSIM_CUDA_DEVICE_LOST; i++)
			{
				if (strcmp(status_name, status_names[i]) == 0)
					orders.status = i;
			}
			orders.failures = n;
		}
		else
			violation("could not read the order: %s", line);
	}
	if (file != NULL)
		fclose(file);
	return orders;
}

/* Whether a call is to fail: then it is counted among the failures. */
static bool
is_to_fail(Call call, uint64_t failures)
{
	uint64_t n = atomic_load(&counts->failures[call]);

	while (n < failures)
	{
		if (atomic_compare_exchange_weak(&counts->failures[call], &n, n + 1))
			return true;
	}
	return false;
}

/*
 * Says what a call on a device, or with -1 on none, comes to.  A lost device is lost
 * to the whole process.
 */
static MaxsimCudaStatus
order(int device, Call call, char *message)
{
	Orders orders = read_orders(device, call);
	MaxsimCudaStatus status;

	pthread_once(&counts_once, map_counts);
	status = is_to_fail(call, orders.failures) ? orders.status : MAXSIM_CUDA_OK;
	if (status == MAXSIM_CUDA_DEVICE_LOST)
		atomic_store(&lost, true);
	if (atomic_load(&lost))
		status = MAXSIM_CUDA_DEVICE_LOST;
	if (status != MAXSIM_CUDA_OK)
		snprintf(message, MAXSIM_MESSAGE_SIZE, "imaginary GPU %d: %s at %s", device, status_names[status], call_names[call]);
	return status;
}

static int
device_count(void)
{
	return read_orders(-1, CALL_COUNT).ndevices;
}

static int
slowness(int device)
{
	return read_orders(device, CALL_COUNT).slow;
}

/* --- devices ----------------------------------------------------------------- */

MaxsimCudaStatus
maxsim_cuda_count(int *count, char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaStatus status = order(-1, CALL_COUNT, message);

	*count = status == MAXSIM_CUDA_OK ? device_count() : 0;
	if (status == MAXSIM_CUDA_OK && *count == 0)
	{
		snprintf(message, MAXSIM_MESSAGE_SIZE, "no imaginary driver");
		status = MAXSIM_CUDA_UNAVAILABLE;
	}
	return status;
}

MaxsimCudaStatus
maxsim_cuda_open(int number, MaxsimCudaDevice **device, char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaStatus status = order(number, CALL_OPEN, message);

	*device = NULL;
	if (number < 0 || number >= device_count())
		violation("device %d, and there are %d", number, device_count());
	if (status != MAXSIM_CUDA_OK)
		return status;
	if (atomic_exchange(&is_open[number], 1))
		violation("device %d opened twice", number);
	*device = calloc(1, sizeof(**device));
	if (*device == NULL)
		violation("out of memory");
	(*device)->number = number;
	return MAXSIM_CUDA_OK;
}

void
maxsim_cuda_info(const MaxsimCudaDevice *device, MaxsimCudaInfo *info)
{
	memset(info, 0, sizeof(*info));
	snprintf(info->name, sizeof(info->name), "imaginary GPU %d", device->number);
	info->memory = (uint64_t) 1 << 30;
	info->major = 9;
	info->processors = 1;
	info->block_memory = 64 * 1024;
	info->driver = 13000;
}

void
maxsim_cuda_close(MaxsimCudaDevice *device)
{
	if (atomic_load(&device->nlanes) != 0)
		violation("device %d closed with open lanes", device->number);
	atomic_store(&is_open[device->number], 0);
	free(device);
}

MaxsimCudaStatus
maxsim_cuda_register(MaxsimCudaDevice *device, void *memory, size_t size, char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaStatus status = order(device->number, CALL_REGISTER, message);

	if (mapping != NULL)
		violation("a second mapping registered");
	if ((uintptr_t) memory % PAGE != 0 || size % PAGE != 0 || size == 0)
		violation("a mapping of %zu bytes at %p registered", size, memory);
	if (status == MAXSIM_CUDA_OK)
	{
		mapping = memory;
		mapping_size = size;
	}
	return status;
}

MaxsimCudaStatus
maxsim_cuda_unregister(MaxsimCudaDevice *device, void *memory, char message[MAXSIM_MESSAGE_SIZE])
{
	(void) message;
	if (memory == NULL || memory != mapping)
		violation("what device %d never registered", device->number);
	mapping = NULL;
	return MAXSIM_CUDA_OK;
}

/* Where a device sees the mapping: nowhere that the host has anything. */
static uint64_t
device_address(const MaxsimCudaDevice *device)
{
	return (uint64_t) (device->number + 1) << 56;
}

MaxsimCudaStatus
maxsim_cuda_address(MaxsimCudaDevice *device, void *memory, uint64_t *address, char message[MAXSIM_MESSAGE_SIZE])
{
	(void) message;
	if (memory == NULL || memory != mapping)
		violation("the address of what was never registered, on device %d", device->number);
	*address = device_address(device);
	return MAXSIM_CUDA_OK;
}

/* A device's memory: one piece of the host's, at addresses of its own too. */
#define MEMORY_BIT ((uint64_t) 1 << 55)

MaxsimCudaStatus
maxsim_cuda_alloc(MaxsimCudaDevice *device, size_t size, uint64_t *address, char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaStatus status = order(device->number, CALL_ALLOC, message);

	*address = 0;
	if (device->memory != NULL)
		violation("a second arena on device %d", device->number);
	if (status != MAXSIM_CUDA_OK)
		return status;
	device->memory = malloc(size);
	if (device->memory == NULL)
		violation("out of memory");
	device->memory_size = size;
	*address = device_address(device) | MEMORY_BIT;
	return MAXSIM_CUDA_OK;
}

MaxsimCudaStatus
maxsim_cuda_free(MaxsimCudaDevice *device, uint64_t address, char message[MAXSIM_MESSAGE_SIZE])
{
	(void) message;
	if (address != 0 && device->memory == NULL)
		violation("memory freed that device %d never had", device->number);
	free(device->memory);
	device->memory = NULL;
	return MAXSIM_CUDA_OK;
}

MaxsimCudaStatus
maxsim_cuda_copy(MaxsimCudaLane *lane, uint64_t to, const void *from, size_t size, char message[MAXSIM_MESSAGE_SIZE])
{
	(void) to;
	(void) from;
	(void) message;
	violation("a copy of %zu bytes to device %d", size, lane->device->number);
}

/* --- lanes ------------------------------------------------------------------- */

static void
enter(MaxsimCudaLane *lane)
{
	if (atomic_fetch_add(&lane->nusers, 1) != 0)
		violation("two threads in a lane of device %d", lane->device->number);
}

static void
leave(MaxsimCudaLane *lane)
{
	atomic_fetch_sub(&lane->nusers, 1);
}

MaxsimCudaStatus
maxsim_cuda_lane_open(MaxsimCudaDevice *device, MaxsimCudaLane **lane, char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaStatus status = order(device->number, CALL_LANE, message);

	*lane = NULL;
	if (status != MAXSIM_CUDA_OK)
		return status;
	*lane = calloc(1, sizeof(**lane));
	if (*lane == NULL)
		violation("out of memory");
	(*lane)->device = device;
	atomic_fetch_add(&device->nlanes, 1);
	return MAXSIM_CUDA_OK;
}

void
maxsim_cuda_lane_close(MaxsimCudaLane *lane)
{
	enter(lane);
	atomic_fetch_sub(&lane->device->nlanes, 1);
	free(lane->query_memory);
	free(lane->documents);
	free(lane->scores);
	free(lane);
}

MaxsimCudaStatus
maxsim_cuda_query(MaxsimCudaLane *lane, const MaxsimQuery *query, MaxsimFormat format, char message[MAXSIM_MESSAGE_SIZE])
{
	const MaxsimEngine *engine = maxsim_cpu_engine();
	MaxsimCudaStatus status;

	enter(lane);
	if (lane->busy)
		violation("a query while a batch is in flight on device %d", lane->device->number);
	if (query->ntokens == 0 || query->dim == 0 || format >= MAXSIM_NFORMATS)
		violation("a query of %u tokens of dimension %u, format %d", query->ntokens, query->dim, (int) format);
	lane->query = NULL;
	status = order(lane->device->number, CALL_QUERY, message);
	if (status == MAXSIM_CUDA_OK)
	{
		free(lane->query_memory);
		lane->query_memory = malloc(engine->prepared_size(query, format));
		if (lane->query_memory == NULL)
			violation("out of memory");
		if (engine->prepare(query, format, lane->query_memory, &lane->query, message) != MAXSIM_OK)
		{
			lane->query = NULL;
			status = MAXSIM_CUDA_OUT_OF_RANGE;
		}
		lane->format = format;
		lane->dim = query->dim;
	}
	leave(lane);
	return status;
}

/* Where the host finds what lies in the mapping or in the device's memory. */
static char *
find(const MaxsimCudaDevice *device, uint64_t address, uint64_t size)
{
	uint64_t offset = address - device_address(device);
	bool in_memory = device->memory != NULL && (offset & MEMORY_BIT) != 0;
	char *base = in_memory ? device->memory : mapping;
	size_t total = in_memory ? device->memory_size : mapping_size;

	if (in_memory)
		offset -= MEMORY_BIT;
	if (base == NULL || offset > total || size > total - offset)
		violation("%llu bytes at %llx are not in the mapping of %zu bytes, nor in the memory of device %d",
				  (unsigned long long) size, (unsigned long long) address, mapping_size, device->number);
	return base + offset;
}

static MaxsimDocument
find_document(const MaxsimCudaLane *lane, const MaxsimCudaDocument *document)
{
	uint64_t size = (uint64_t) document->ntokens * maxsim_row_size(lane->format, lane->dim);

	return (MaxsimDocument){find(lane->device, document->address, size), document->ntokens};
}

MaxsimCudaStatus
maxsim_cuda_move(MaxsimCudaLane *lane, const MaxsimCudaMove *moves, uint32_t nmoves, char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaStatus status;

	enter(lane);
	if (lane->busy)
		violation("a move while a batch is in flight on device %d", lane->device->number);
	status = order(lane->device->number, CALL_MOVE, message);
	for (uint32_t i = 0; i < nmoves && status == MAXSIM_CUDA_OK; i++)
	{
		if (moves[i].size % 16 != 0 || ((moves[i].to - device_address(lane->device)) & MEMORY_BIT) == 0)
			violation("a move of %llu bytes to %llx on device %d", (unsigned long long) moves[i].size,
					  (unsigned long long) moves[i].to, lane->device->number);
		memcpy(find(lane->device, moves[i].to, moves[i].size), find(lane->device, moves[i].from, moves[i].size), moves[i].size);
	}
	leave(lane);
	return status;
}

MaxsimCudaStatus
maxsim_cuda_submit(MaxsimCudaLane *lane, const MaxsimCudaDocument *documents, uint32_t ndocuments,
				   char message[MAXSIM_MESSAGE_SIZE])
{
	int device = lane->device->number;
	MaxsimCudaStatus status;

	enter(lane);
	if (lane->busy)
		violation("a batch while another is in flight on device %d", device);
	if (lane->query == NULL && ndocuments > 0)
		violation("%u documents without a query on device %d", ndocuments, device);
	lane->submitted = false;
	free(lane->documents);
	free(lane->scores);
	lane->documents = malloc((ndocuments + 1) * sizeof(MaxsimDocument));
	lane->scores = malloc((ndocuments + 1) * sizeof(float));
	if (lane->documents == NULL || lane->scores == NULL)
		violation("out of memory");
	for (uint32_t i = 0; i < ndocuments; i++)
		lane->documents[i] = find_document(lane, &documents[i]);
	lane->n = ndocuments;

	status = order(device, CALL_SUBMIT, message);
	if (status == MAXSIM_CUDA_OK)
	{
		long milliseconds = slowness(device);

		clock_gettime(CLOCK_MONOTONIC, &lane->done);
		lane->done.tv_sec += milliseconds / 1000;
		lane->done.tv_nsec += milliseconds % 1000 * 1000000;
		if (lane->done.tv_nsec >= 1000000000)
		{
			lane->done.tv_sec++;
			lane->done.tv_nsec -= 1000000000;
		}
		lane->submitted = lane->busy = true;
		atomic_fetch_add(&counts->batches[device], 1);
	}
	leave(lane);
	return status;
}

/* Documents are read as late as a device may read them. */
MaxsimCudaStatus
maxsim_cuda_wait(MaxsimCudaLane *lane, const float **scores, char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaStatus status = MAXSIM_CUDA_OK;

	enter(lane);
	if (!lane->submitted)
		violation("waiting for no batch on device %d", lane->device->number);
	if (lane->busy)
	{
		MaxsimBatch batch = {.query = lane->query, .documents = lane->documents, .ndocuments = lane->n, .scores = lane->scores};

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &lane->done, NULL) != 0)
			continue;
		status = order(lane->device->number, CALL_WAIT, message);
		if (status == MAXSIM_CUDA_OK && lane->n > 0 && maxsim_cpu_engine()->score(&batch) != MAXSIM_OK)
			violation("the CPU engine could not score");
		lane->busy = false;
		lane->submitted = status == MAXSIM_CUDA_OK;
	}
	*scores = lane->scores;
	leave(lane);
	return status;
}

MaxsimCudaStatus
maxsim_cuda_poll(MaxsimCudaLane *lane, const float **scores, char message[MAXSIM_MESSAGE_SIZE])
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (lane->busy && (now.tv_sec < lane->done.tv_sec ||
					   (now.tv_sec == lane->done.tv_sec && now.tv_nsec < lane->done.tv_nsec)))
		return MAXSIM_CUDA_PENDING;
	return maxsim_cuda_wait(lane, scores, message);
}
