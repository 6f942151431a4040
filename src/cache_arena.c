/*
 * cache_arena.c
 *		The arenas of the document cache: segments that are filled from their start and
 *		emptied as a whole, and the readers that an emptied one waits for.
 *
 * Documents of all sizes come one after another, so that nothing is lost between
 * them.  Room is given by moving a segment's end, taken back by emptying the segment,
 * and never in between: no free lists, no fragments.
 *
 * A reader publishes the epoch in which it began; a segment that was emptied in a
 * later one is used again only when no reader has an earlier one.  There is nothing to
 * unpin after an error or a crash: a reader's record is reset with its batch or at its
 * exit, and a slot's epoch counts only while the scorer has the slot.
 */
#include "postgres.h"
#include "compat.h"

#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "cache_internal.h"

/* for the end of a segment, and so that a document fits into a slot's copy */
#define HOST_ALIGNMENT 64
/* GPU memory is read fastest at such addresses */
#define DEVICE_ALIGNMENT 256

/* unless the tier is too small for four of them, of which documents can be in two */
#define MIN_SEGMENT (1024 * 1024)
#define SEGMENT_UNIT (64 * 1024)

static CacheReader *
my_reader(void)
{
	return &cache_readers[maxsim_proc_number()];
}

/* how many reads are nested, and whether our exit is taken care of */
static int read_depth = 0;

static void
end_reading_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	pg_atomic_write_u64(&my_reader()->epoch, 0);
}

static void
publish_epoch(void)
{
	pg_atomic_write_u64(&my_reader()->epoch, pg_atomic_read_u64(&cache_shared->epoch));
	pg_memory_barrier();
}

void
cache_read_begin(void)
{
	static bool registered = false;

	if (cache_shared == NULL || read_depth++ > 0)
		return;
	if (!registered)
		before_shmem_exit(end_reading_at_exit, 0);
	registered = true;
	publish_epoch();
}

void
cache_read_renew(void)
{
	if (cache_shared != NULL && read_depth == 1)
		publish_epoch();
}

void
cache_read_end(void)
{
	if (cache_shared == NULL || --read_depth > 0)
		return;
	pg_atomic_write_u64(&my_reader()->epoch, 0);
}

uint64
cache_epoch(void)
{
	return cache_shared == NULL ? 0 : pg_atomic_read_u64(&my_reader()->epoch);
}

/* The earliest epoch in which somebody began who is still reading. */
uint64
cache_oldest_reader(void)
{
	uint64 oldest = UINT64_MAX;

	/* readers before slots: a reader hands what it reads over to its slot */
	pg_memory_barrier();
	for (uint32 i = 0; i < cache_shared->nreaders; i++)
	{
		uint64 epoch = pg_atomic_read_u64(&cache_readers[i].epoch);

		if (epoch > 0)
			oldest = Min(oldest, epoch);
	}
	pg_memory_barrier();
	for (uint32 i = 0; scorer_mapping != NULL && i < scorer_mapping->nslots; i++)
	{
		ScorerSlot *slot = scorer_slot(scorer_mapping, i);
		SlotState state = SLOT_STATE(atomic_load(&slot->word));
		uint64 epoch = atomic_load(&slot->reader_epoch);

		if ((state == SLOT_SUBMITTED || state == SLOT_RUNNING || state == SLOT_ABANDONED) && epoch > 0)
			oldest = Min(oldest, epoch);
	}
	return oldest;
}

char *
cache_host_address(uint64 offset)
{
	return (char *) scorer_mapping + scorer_mapping->arena_offset + offset;
}

/* Opens a free segment; false: none. */
static bool
open_segment(CacheTier *tier, SegmentKind kind, bool last)
{
	/* the last one is for documents that are moved, so that others can be emptied */
	if (tier->nfree <= (last ? 0 : 1))
		return false;
	for (uint32 i = 0; i < tier->nsegments; i++)
	{
		CacheSegment *segment = &tier->segments[i];

		if (segment->state != SEGMENT_FREE)
			continue;
		segment->state = SEGMENT_OPEN;
		segment->kind = kind;
		segment->generation++;
		segment->first = CACHE_NONE;
		segment->used = 0;
		segment->sequence = ++cache_shared->sequence;
		tier->open[kind] = i;
		tier->count[kind]++;
		tier->nfree--;
		return true;
	}
	return false;
}

/* Room for a document of size bytes; last: the last free segment may be opened for it. */
bool
cache_reserve_locked(uint32 tier_number, uint32 size, SegmentKind kind, bool last, CacheAdmission *place)
{
	CacheTier *tier = &cache_shared->tiers[tier_number];
	uint64 needed = TYPEALIGN(tier->alignment, size);
	CacheSegment *segment;

	place->tier = tier_number;
	place->offset = CACHE_NOWHERE;
	if (size == 0 || needed > tier->segment_size)
		return false;
	if (tier->open[kind] != CACHE_NONE && tier->segments[tier->open[kind]].used + needed > tier->segment_size)
	{
		tier->segments[tier->open[kind]].state = SEGMENT_FULL;
		tier->open[kind] = CACHE_NONE;
	}
	if (tier->open[kind] == CACHE_NONE && !open_segment(tier, kind, last))
		return false;
	segment = &tier->segments[tier->open[kind]];
	place->segment = tier->open[kind];
	place->generation = segment->generation;
	place->offset = (uint64) place->segment * tier->segment_size + segment->used;
	segment->used += needed;
	return true;
}

void
cache_reserve(uint32 tier, CacheAdmission *admissions, uint32 n)
{
	bool refused = false;
	Latch *worker;

	LWLockAcquire(&cache_shared->lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < n; i++)
	{
		if (admissions[i].dim > PG_UINT16_MAX || cache_shared->nfree_entries == 0)
			admissions[i].offset = CACHE_NOWHERE;
		else
			(void) cache_reserve_locked(tier, admissions[i].size, admissions[i].lasting ? SEGMENT_LASTING : SEGMENT_FRESH,
										false, &admissions[i]);
		refused |= admissions[i].offset == CACHE_NOWHERE;
	}
	refused |= cache_shared->tiers[tier].nfree <= 2;
	worker = cache_shared->worker;
	LWLockRelease(&cache_shared->lock);
	if (refused && worker != NULL)
		SetLatch(worker);
}

void
cache_clear(uint32 number, uint64 size)
{
	CacheTier *tier = &cache_shared->tiers[number];

	for (uint32 i = 0; i < tier->nsegments; i++)
		cache_empty(number, &tier->segments[i]);
	tier->segment_size = Max(size / CACHE_SEGMENTS, Min(Max(size / 64, Min(MIN_SEGMENT, size / 4)), 4 * MIN_SEGMENT));
	tier->segment_size = Max(tier->segment_size / SEGMENT_UNIT, 1) * SEGMENT_UNIT;
	tier->nsegments = Min(size / tier->segment_size, CACHE_SEGMENTS);
	tier->alignment = number == CACHE_HOST ? HOST_ALIGNMENT : DEVICE_ALIGNMENT;
	tier->nfree = tier->nsegments;
	for (int kind = 0; kind < SEGMENT_KINDS; kind++)
	{
		tier->open[kind] = CACHE_NONE;
		tier->count[kind] = 0;
	}
	for (uint32 i = 0; i < CACHE_SEGMENTS; i++)
	{
		tier->segments[i].state = SEGMENT_FREE;
		tier->segments[i].first = CACHE_NONE;
		tier->segments[i].generation++; /* whoever has room in it has it no more */
	}
}

void
cache_devices_ready(int ndevices, const uint64 *sizes)
{
	if (cache_shared == NULL)
		return;
	LWLockAcquire(&cache_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ndevices; i++)
		cache_clear(CACHE_DEVICE(i), sizes[i]);
	LWLockRelease(&cache_shared->lock);
}

void
cache_devices_lost(void)
{
	if (cache_shared == NULL)
		return;
	LWLockAcquire(&cache_shared->lock, LW_EXCLUSIVE);
	for (uint32 tier = CACHE_DEVICE(0); tier < CACHE_TIERS; tier++)
		cache_clear(tier, 0);
	LWLockRelease(&cache_shared->lock);
}
