/*
 * scorer.c
 *		Shared memory of the scorer: a small control structure among PostgreSQL's own,
 *		and the mapping that the scorer's process and its GPUs can reach as well.
 *
 * PostgreSQL's shared memory is an anonymous mapping that a program started by exec
 * cannot attach, so the mapping is a memfd.  The postmaster makes it, and backends
 * inherit it at one address.  After a crash it makes a new one: a scorer of before
 * the crash may still be writing to the old one while it dies.
 */
#include "postgres.h"
#include "compat.h"

#include <sys/mman.h>
#include <unistd.h>

#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "cache.h"
#include "prewarm.h"
#include "scorer.h"

ScorerControl *scorer_control = NULL;
ScorerMapping *scorer_mapping = NULL;
int scorer_mapping_fd = -1;

int maxsim_slots = 32;
int maxsim_slot_size = 4096;
char *maxsim_devices = NULL;
int maxsim_scorer_engine = SCORER_ENGINE_CUDA;

static shmem_startup_hook_type previous_shmem_startup = NULL;
#if PG_VERSION_NUM >= 150000
static shmem_request_hook_type previous_shmem_request = NULL;
#endif

static void
request_shared_memory(void)
{
#if PG_VERSION_NUM >= 150000
	if (previous_shmem_request != NULL)
		previous_shmem_request();
#endif
	RequestAddinShmemSpace(MAXALIGN(sizeof(ScorerControl)));
	if (cache_configured())
		RequestAddinShmemSpace(add_size(cache_shared_size(), progress_shared_size()));
}

static void
unmap(void)
{
	if (scorer_mapping != NULL)
		munmap(scorer_mapping, scorer_mapping->size);
	if (scorer_mapping_fd >= 0)
		close(scorer_mapping_fd);
	scorer_mapping = NULL;
	scorer_mapping_fd = -1;
}

/* The host arena's size: none, rather than more than there is. */
static uint64
arena_bytes(void)
{
	uint64 wanted = cache_host_bytes();
	uint64 available = cache_available_memory();

	if (wanted == 0 || available == 0 || wanted <= available)
		return wanted;
	ereport(LOG,
			(errmsg("flash_maxsim has no cache in the host's memory: flash_maxsim.host_cache_size is %llu MB, but %llu MB are available",
					(unsigned long long) wanted >> 20, (unsigned long long) available >> 20)));
	return 0;
}

/*
 * Makes the mapping, or leaves none and says why in the control structure: the
 * server must come up without it.
 */
static void
make_mapping(void)
{
	uint64 data_size = (uint64) maxsim_slot_size * 1024;
	uint64 stride = SCORER_DATA_OFFSET + data_size;
	uint64 slots_end = SCORER_PAGE + maxsim_slots * stride;
	uint64 arena_size = arena_bytes();
	uint64 size = slots_end + arena_size;
	void *address = MAP_FAILED;

	unmap();
#ifdef __linux__
	scorer_mapping_fd = memfd_create("flash_maxsim", MFD_CLOEXEC);
	if (scorer_mapping_fd >= 0 && ftruncate(scorer_mapping_fd, size) == 0)
		address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, scorer_mapping_fd, 0);
#else
	errno = ENOSYS;
#endif
	if (address == MAP_FAILED)
	{
		scorer_control->state = SCORER_UNAVAILABLE;
		snprintf(scorer_control->reason, sizeof(scorer_control->reason),
				 "could not map %llu bytes for %d slots: %s", (unsigned long long) size, maxsim_slots, strerror(errno));
		ereport(LOG, (errmsg("flash_maxsim scores on the CPU only: %s", scorer_control->reason)));
		unmap();
		return;
	}
	scorer_mapping = address;
	scorer_mapping->magic = SCORER_MAGIC;
	scorer_mapping->version = SCORER_PROTOCOL_VERSION;
	scorer_mapping->epoch = (uint64) GetCurrentTimestamp() ^ (uint64) MyProcPid << 48;
	scorer_mapping->size = size;
	scorer_mapping->nslots = maxsim_slots;
	scorer_mapping->slot_stride = stride;
	scorer_mapping->data_size = data_size;
	scorer_mapping->arena_offset = slots_end;
	scorer_mapping->arena_size = arena_size;
}

static void
start_shared_memory(void)
{
	bool found;

	if (previous_shmem_startup != NULL)
		previous_shmem_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	scorer_control = ShmemInitStruct("flash_maxsim scorer", sizeof(ScorerControl), &found);
	if (!found)
	{
		memset(scorer_control, 0, sizeof(ScorerControl));
		SpinLockInit(&scorer_control->mutex);
		scorer_control->state = SCORER_STARTING;
		strcpy(scorer_control->reason, "scorer is starting");
		if (maxsim_scorer_engine == SCORER_ENGINE_OFF)
		{
			scorer_control->state = SCORER_UNAVAILABLE;
			strlcpy(scorer_control->reason, scorer_absence(), sizeof(scorer_control->reason));
		}
		pg_atomic_init_u32(&scorer_control->incarnation, 0);
		pg_atomic_init_u64(&scorer_control->next_request, 1);
		pg_atomic_init_u64(&scorer_control->batches, 0);
		pg_atomic_init_u64(&scorer_control->documents, 0);
		for (int i = 0; i < NUM_FALLBACKS; i++)
			pg_atomic_init_u64(&scorer_control->fallbacks[i], 0);
		make_mapping();
	}
	LWLockRelease(AddinShmemInitLock);
	if (cache_configured())
	{
		cache_start();
		progress_start();
	}
}

/* A background worker that runs as long as the server does. */
static void
register_worker(const char *name, const char *function)
{
	BackgroundWorker worker = {0};

	strlcpy(worker.bgw_name, name, BGW_MAXLEN);
	strlcpy(worker.bgw_type, name, BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "flash_maxsim", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, function, BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = 1;
	RegisterBackgroundWorker(&worker);
}

void
scorer_preload(void)
{
	if (maxsim_scorer_engine == SCORER_ENGINE_OFF && !cache_configured())
		return;
#if PG_VERSION_NUM >= 150000
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
#else
	request_shared_memory();
#endif
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;

	if (cache_configured())
		register_worker("flash_maxsim cache", "cache_worker_main");
	if (maxsim_scorer_engine != SCORER_ENGINE_OFF)
		register_worker("flash_maxsim scorer", "scorer_worker_main");
}

const char *
scorer_absence(void)
{
	/* the setting exists only where the library was preloaded */
	return maxsim_devices != NULL ? "flash_maxsim.scorer_engine is off" : "flash_maxsim is not in shared_preload_libraries";
}

void
scorer_sweep_slots(void)
{
	uint32 incarnation = pg_atomic_read_u32(&scorer_control->incarnation);
	bool running;

	SpinLockAcquire(&scorer_control->mutex);
	running = scorer_control->pid != 0;
	SpinLockRelease(&scorer_control->mutex);

	for (uint32 i = 0; i < scorer_mapping->nslots; i++)
	{
		ScorerSlot *slot = scorer_slot(scorer_mapping, i);
		uint64 word = atomic_load(&slot->word);

		if (SLOT_STATE(word) == SLOT_ABANDONED &&
			(!running || atomic_load(&slot->incarnation) != incarnation))
			atomic_compare_exchange_strong(&slot->word, &word, SLOT_WORD(SLOT_REQUEST(word), SLOT_FREE));
	}
}
