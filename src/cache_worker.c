/*
 * cache_worker.c
 *		The background worker that keeps room in the document cache.
 *
 * It empties segments before they are needed, so that no query waits for that.  Which
 * ones: of documents that came once, in a scan say, first those that came earliest,
 * as long as these take more than a tenth of the tier; then of the lasting ones the
 * earliest.  Documents that were used since are spared: moved to a lasting segment, up
 * to half of what a segment holds, so that emptying always gains room.
 * (S3-FIFO, Yang and others, 2023, and CLOCK before it, by segments.)
 */
#include "postgres.h"
#include "compat.h"

#include "libpq/pqsignal.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"

#include "cache_internal.h"
#include "engine_gpu.h"
#include "prewarm.h"
#include "stats.h"

#define IDLE_MS 1000
/* while documents of before are loaded */
#define SOON_MS 100
/* while segments wait for their last readers */
#define RETIRED_MS 5

/* A document that is spared. */
typedef struct Spared
{
	uint32 entry;
	CacheKey key;
	uint64 from;
	uint32 size;
	CacheAdmission place;
} Spared;

/* Frees what no reader can be at any more; returns how many segments still wait. */
static uint32
free_retired(CacheTier *tier)
{
	uint64 oldest = cache_oldest_reader();
	uint32 waiting = 0;

	for (uint32 i = 0; i < tier->nsegments; i++)
	{
		CacheSegment *segment = &tier->segments[i];

		if (segment->state != SEGMENT_RETIRED)
			continue;
		if (segment->retired_at > oldest)
			waiting++;
		else
		{
			segment->state = SEGMENT_FREE;
			tier->nfree++;
		}
	}
	return waiting;
}

/* Whether the directory is about to be full. */
static bool
few_entries(void)
{
	return cache_shared->nfree_entries < cache_shared->nentries / 64;
}

/*
 * The segment to be emptied next, or NULL.  One that is being filled only where the
 * directory is full before the segment is.
 */
static CacheSegment *
choose_victim(CacheTier *tier)
{
	SegmentKind first = tier->count[SEGMENT_FRESH] > cache_fresh_share(tier) ? SEGMENT_FRESH : SEGMENT_LASTING;
	CacheSegment *victims[SEGMENT_KINDS] = {NULL};

	for (uint32 i = 0; i < tier->nsegments; i++)
	{
		CacheSegment *segment = &tier->segments[i];
		CacheSegment **victim = &victims[segment->kind];

		if ((segment->state == SEGMENT_FULL || (segment->state == SEGMENT_OPEN && few_entries())) && (*victim == NULL || segment->sequence < (*victim)->sequence))
			*victim = segment;
	}
	return victims[first] != NULL ? victims[first] : victims[1 - first];
}

/*
 * Drops the documents of a segment that were not used, and lists in *spared those that
 * were, with room for them elsewhere.  They stay on the segment's list.
 */
static uint32
drop_unused(uint32 number, CacheSegment *segment, Spared **spared)
{
	CacheTier *tier = &cache_shared->tiers[number];
	uint64 room = tier->segment_size / 2;
	uint32 kept = CACHE_NONE;
	uint32 n = 0;

	/* before anything is changed, since it may be an error */
	for (uint32 entry = segment->first; entry != CACHE_NONE; entry = cache_list(number, entry))
		n++;
	*spared = MemoryContextAllocHuge(CurrentMemoryContext, Max(n, 1) * sizeof(Spared));
	n = 0;
	for (uint32 entry = segment->first, next; entry != CACHE_NONE; entry = next)
	{
		CacheEntry *e = &cache_entries[entry];
		Spared *s;

		next = cache_list(number, entry);
		s = &(*spared)[n];
		s->size = cache_entry_size(e);
		if (e->uses == 0 || cache_outdated(e) || s->size > room ||
			!cache_reserve_locked(number, s->size, SEGMENT_LASTING, true, &s->place))
		{
			cache_locate(entry, number, CACHE_NOWHERE);
			stats_add(STATS_EVICTED, 1);
			continue;
		}
		e->uses--;
		s->entry = entry;
		s->key = e->key;
		s->from = cache_offset(e, number);
		room -= s->size;
		n++;
		if (number == CACHE_HOST)
			cache_links[entry].host = kept;
		else
			cache_links[entry].device = kept;
		kept = entry;
	}
	segment->first = kept;
	return n;
}

/* Copies within a device's arena; false: the scorer could not. */
static bool
copy_on_device(uint32 tier, const Spared *spared, uint32 n)
{
	MaxsimQuery query = {.dim = 1};
	uint32 counts[MAXSIM_NFORMATS] = {0};
	const char *reason;
	GpuSlot slot;
	bool ok = true;

	maxsim_engine = ENGINE_AUTO;
	if (!gpu_ready() || !gpu_acquire(&slot, true))
		return false;
	for (uint32 done = 0; done < n && ok; done += counts[MAXSIM_F16])
	{
		ScorerDocument *table = scorer_documents(slot.slot);

		counts[MAXSIM_F16] = Min(n - done, SCORER_MAX_DOCUMENTS);
		for (uint32 i = 0; i < counts[MAXSIM_F16]; i++, table++)
		{
			const Spared *s = &spared[done + i];

			/* elements of no dimension in particular */
			table->offset = s->from;
			table->ntokens = (s->size + 1) / 2;
			table->device = table->copy_device = tier - CACHE_DEVICE(0);
			table->copy_to = s->place.offset;
		}
		/* should this process end meanwhile, nothing comes to where it is copied from and to */
		atomic_store(&slot.slot->reader_epoch, pg_atomic_read_u64(&cache_shared->epoch));
		gpu_submit(&slot, &query, counts, 0);
		ok = gpu_wait(&slot, &reason) == MAXSIM_OK;
	}
	gpu_release(&slot);
	return ok;
}

static bool
copy_spared(uint32 tier, const Spared *spared, uint32 n)
{
	if (n == 0)
		return true;
	if (tier != CACHE_HOST)
		return copy_on_device(tier, spared, n);
	for (uint32 i = 0; i < n; i++)
		memcpy(cache_host_address(spared[i].place.offset), cache_host_address(spared[i].from), spared[i].size);
	return true;
}

/* Gives spared documents their new place, and the segment to its last readers. */
static void
retire(uint32 number, CacheSegment *segment, const Spared *spared, uint32 n, bool copied)
{
	CacheTier *tier = &cache_shared->tiers[number];
	uint32 entry;

	for (uint32 i = n; i-- > 0 && copied;)
	{
		CacheSegment *to = &tier->segments[spared[i].place.segment];
		uint32 *link = number == CACHE_HOST ? &cache_links[spared[i].entry].host : &cache_links[spared[i].entry].device;

		/* the list is in the reverse order, and nobody else changes it */
		Assert(segment->first == spared[i].entry);
		segment->first = *link;
		*link = to->first;
		to->first = spared[i].entry;
		cache_locate(spared[i].entry, number, spared[i].place.offset);
		stats_add(STATS_MOVED, 1);
	}
	while ((entry = segment->first) != CACHE_NONE)
	{
		segment->first = cache_list(number, entry);
		cache_locate(entry, number, CACHE_NOWHERE);
		stats_add(STATS_EVICTED, 1);
	}
	segment->state = SEGMENT_RETIRED;
	segment->generation++;
	tier->count[segment->kind]--;
	segment->retired_at = pg_atomic_add_fetch_u64(&cache_shared->epoch, 1);
}

/* Empties a segment, if there is one to be emptied. */
static bool
empty_segment(uint32 number)
{
	CacheTier *tier = &cache_shared->tiers[number];
	CacheSegment *segment;
	Spared *spared;
	uint32 generation;
	uint32 n;
	bool copied;

	LWLockAcquire(&cache_shared->lock, LW_EXCLUSIVE);
	segment = choose_victim(tier);
	if (segment == NULL)
	{
		LWLockRelease(&cache_shared->lock);
		return false;
	}
	if (segment->state == SEGMENT_OPEN)
		tier->open[segment->kind] = CACHE_NONE;
	segment->state = SEGMENT_EMPTYING;
	generation = segment->generation;
	n = drop_unused(number, segment, &spared);
	LWLockRelease(&cache_shared->lock);

	copied = copy_spared(number, spared, n);

	LWLockAcquire(&cache_shared->lock, LW_EXCLUSIVE);
	/* the device may have been lost with all that was on it */
	if (segment->generation == generation && segment->state == SEGMENT_EMPTYING)
		retire(number, segment, spared, n, copied);
	LWLockRelease(&cache_shared->lock);
	pfree(spared);
	return true;
}

/* Keeps free segments in a tier; true: some wait for readers. */
static bool
tend(uint32 number)
{
	CacheTier *tier = &cache_shared->tiers[number];
	uint32 waiting;
	bool few;

	if (tier->nsegments == 0)
		return false;
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		LWLockAcquire(&cache_shared->lock, LW_EXCLUSIVE);
		pg_atomic_write_u64(&cache_shared->oid, cache_oid_now());
		waiting = free_retired(tier);
		few = tier->nfree + waiting < cache_low_water(tier) ||
			  (waiting == 0 && few_entries());
		LWLockRelease(&cache_shared->lock);
		if (!few || !empty_segment(number))
			return waiting > 0;
	}
}

static void
forget_latch(int code, Datum arg)
{
	(void) code;
	(void) arg;
	LWLockReleaseAll(); /* an error may have come while it was held */
	LWLockAcquire(&cache_shared->lock, LW_EXCLUSIVE);
	cache_shared->worker = NULL;
	LWLockRelease(&cache_shared->lock);
}

/* What a worker before this one left half emptied. */
static void
recover(void)
{
	for (uint32 number = 0; number < CACHE_TIERS; number++)
	{
		CacheTier *tier = &cache_shared->tiers[number];

		for (uint32 i = 0; i < tier->nsegments; i++)
		{
			if (tier->segments[i].state == SEGMENT_EMPTYING)
				retire(number, &tier->segments[i], NULL, 0, false);
		}
	}
}

void
cache_worker_main(Datum arg)
{
	MemoryContext context;

	(void) arg;
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	if (cache_shared == NULL)
		proc_exit(0);
	context = AllocSetContextCreate(TopMemoryContext, "maxsim cache worker", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	autoprewarm_begin();
	before_shmem_exit(forget_latch, 0);
	LWLockAcquire(&cache_shared->lock, LW_EXCLUSIVE);
	cache_shared->worker = MyLatch;
	recover();
	LWLockRelease(&cache_shared->lock);

	for (;;)
	{
		bool waiting = false;
		long pause;

		for (uint32 tier = 0; tier < CACHE_TIERS; tier++)
			waiting |= tend(tier);
		pause = waiting ? RETIRED_MS : IDLE_MS;
		if (autoprewarm_tick())
			pause = Min(pause, SOON_MS);
		MemoryContextReset(context);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 pause, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
}
