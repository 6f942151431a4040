/*
 * cache_load.c
 *		See cache_load.h.
 *
 * A document's room is given by the cache as for one that was scored, and a device's
 * copy made by a request of the scorer's without a query.  When no segment is free,
 * the cache's worker empties one; a load waits for it, which nobody who scores does.
 */
#include "postgres.h"
#include "compat.h"

#include "pgstat.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "buffers.h"
#include "cache_internal.h"
#include "cache_load.h"
#include "stats.h"

/* how long the cache's worker has for a free segment, and how often that is looked for */
#define ROOM_LIMIT_MS 2000
#define ROOM_POLL_MS 2

static uint32
first_tier(const CacheLoad *load)
{
	return load->on_devices ? CACHE_DEVICE(0) : CACHE_HOST;
}

static uint32
ntiers(const CacheLoad *load)
{
	return load->on_devices ? gpu_devices() : 1;
}

static bool
has_tier(const CacheLoad *load)
{
	for (uint32 i = 0; i < ntiers(load); i++)
	{
		if (cache_has(first_tier(load) + i))
			return true;
	}
	return false;
}

const char *
load_tier_missing(bool on_devices)
{
	static char reason[MAXSIM_MESSAGE_SIZE];
	CacheLoad load = {.on_devices = on_devices};

	if (on_devices && !gpu_connect(reason))
		return reason;
	if (has_tier(&load))
		return NULL;
	return on_devices ? "the scorer has no memory for documents" : "flash_maxsim.host_cache_size is 0, or more than there was";
}

void
load_init(CacheLoad *load, bool on_devices)
{
	memset(load, 0, sizeof(*load));
	load->on_devices = on_devices;
	load->incarnation = gpu_incarnation();
	load->admissions = palloc_array(CacheAdmission, BUFFER_MAX_DOCUMENTS);
}

Size
load_largest(const CacheLoad *load)
{
	return Min(cache_shared->tiers[first_tier(load)].segment_size, MaxAllocSize) + 4 * BUFFER_ALIGNMENT;
}

/* Whether the tiers have a document already. */
static bool
find(const CacheLoad *load, const CacheKey *key, CachedDocument *found)
{
	bool is_there;

	cache_read_begin();
	is_there = cache_lookup(key, found);
	cache_read_end();
	/* it need not stay: only that it was there counts */
	return is_there && (load->on_devices ? found->device_offset != CACHE_NOWHERE : found->host != NULL);
}

/* A document that was there takes its part of what the load may fill. */
static void
note_found(CacheLoad *load, const CachedDocument *found)
{
	uint64 size = (uint64) found->ntokens * maxsim_row_size(found->format, found->dim);
	uint32 tier = load->on_devices ? CACHE_DEVICE(found->device) : CACHE_HOST;

	load->tiers[tier].found += TYPEALIGN(cache_shared->tiers[tier].alignment, size);
}

bool
load_tiers_are_empty(const CacheLoad *load)
{
	for (uint32 i = 0; i < ntiers(load); i++)
	{
		if (cache_has(first_tier(load) + i) && cache_shared->tiers[first_tier(load) + i].documents > 0)
			return false;
	}
	return true;
}

void
load_count(CacheLoad *load, const CacheKey *key)
{
	CachedDocument found;

	load->counted = true;
	if (find(load, key, &found))
		note_found(load, &found);
}

bool
load_wants(CacheLoad *load, const CacheKey *key, Size size)
{
	CachedDocument found;

	if (!OidIsValid(key->value))
		load->uncached++;
	else if (find(load, key, &found))
	{
		load->already++;
		if (!load->counted)
			note_found(load, &found);
	}
	else if (size > load->room)
		load->too_large++;
	else if (load->full)
		load->no_room++;
	else
		return true;
	return false;
}

void
load_add(CacheLoad *load, const CacheKey *key, MaxsimFormat format, const void *elements, uint32 ntokens, uint32 dim)
{
	CacheAdmission *admission = &load->admissions[load->n++];

	memset(admission, 0, sizeof(*admission));
	admission->key = *key;
	admission->format = format;
	admission->ntokens = ntokens;
	admission->dim = dim;
	admission->size = (uint64) ntokens * maxsim_row_size(format, dim);
	admission->source = elements;
	admission->lasting = true;
}

/* Counts those documents whose size no segment has, and keeps the others. */
static void
drop_too_large(CacheLoad *load)
{
	uint32 n = load->n;

	load->n = 0;
	for (uint32 i = 0; i < n; i++)
	{
		if (load->admissions[i].size > cache_shared->tiers[first_tier(load)].segment_size)
			load->too_large++;
		else
			load->admissions[load->n++] = load->admissions[i];
	}
}

/*
 * How many of the documents, from the first, go into what this load may still fill of
 * a tier: as many segments as it has, but those that are kept free or for fresh documents,
 * and what it holds already.
 */
static uint32
fitting(const CacheLoad *load, uint32 number)
{
	const LoadedTier *loaded = &load->tiers[number];
	const CacheTier *tier = &cache_shared->tiers[number];
	uint32 limit = tier->nsegments - Min(cache_low_water(tier) + Min(tier->count[SEGMENT_FRESH], cache_fresh_share(tier)), tier->nsegments);
	uint64 left = (uint64) (limit - Min(loaded->segments, limit)) * tier->segment_size;
	uint32 n = 0;

	if (loaded->segments > 0 && loaded->end % tier->segment_size > 0)
		left += tier->segment_size - loaded->end % tier->segment_size;
	left -= Min(left, loaded->found);
	while (n < load->n && TYPEALIGN(tier->alignment, load->admissions[n].size) <= left)
		left -= TYPEALIGN(tier->alignment, load->admissions[n++].size);
	return n;
}

/* The tier whose turn it is, and how many documents it may be given; 0: none. */
static uint32
choose_tier(CacheLoad *load, uint32 *tier)
{
	for (uint32 i = 0; i < ntiers(load); i++)
	{
		uint32 n;

		*tier = first_tier(load) + load->turn++ % ntiers(load);
		n = cache_has(*tier) ? fitting(load, *tier) : 0;
		if (n > 0)
			return n;
	}
	return 0;
}

static void
note_loaded(CacheLoad *load, const CacheAdmission *admission)
{
	LoadedTier *loaded = &load->tiers[admission->tier];
	uint32 alignment = cache_shared->tiers[admission->tier].alignment;

	if (loaded->segments == 0 || loaded->segment != admission->segment || loaded->generation != admission->generation)
		loaded->segments++;
	loaded->segment = admission->segment;
	loaded->generation = admission->generation;
	loaded->end = admission->offset + TYPEALIGN(alignment, admission->size);
	load->loaded++;
	load->bytes += admission->size;
}

pg_noreturn static void device_lost(const char *reason);

static void
device_lost(const char *reason)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("could not load documents to a GPU: %s", reason),
			 errhint("Those that were there are lost with the scorer. Load them again when maxsim_scorer() says that it is ready.")));
}

/* Has those of the first n documents that have room copied there by the scorer. */
static void
copy_to_device(CacheLoad *load, GpuSlot *slot, uint32 n)
{
	static const MaxsimQuery no_query = {.dim = 1};
	uint32 counts[MAXSIM_NFORMATS] = {0};
	ScorerDocument *table = scorer_documents(slot->slot);
	const char *reason;
	MaxsimStatus status;

	for (uint32 i = 0; i < n; i++)
	{
		const CacheAdmission *admission = &load->admissions[i];

		if (admission->offset == CACHE_NOWHERE)
			continue;
		/* elements of no dimension in particular */
		table->offset = (const char *) admission->source - (char *) scorer_mapping;
		table->ntokens = (admission->size + 1) / 2;
		table->device = SCORER_IN_MAPPING;
		table->copy_device = admission->tier - CACHE_DEVICE(0);
		table->copy_to = admission->offset;
		table++;
		counts[MAXSIM_F16]++;
	}
	if (counts[MAXSIM_F16] == 0)
		return;
	/* the room stays ours until the scorer is done, even if we are gone by then */
	atomic_store(&slot->slot->reader_epoch, cache_epoch());
	gpu_submit(slot, &no_query, counts, 0);
	status = gpu_wait(slot, &reason);
	slot->in_flight = false;
	if (status != MAXSIM_OK)
		device_lost(reason);
}

static void
copy_to_host(const CacheLoad *load, uint32 n)
{
	for (uint32 i = 0; i < n; i++)
	{
		const CacheAdmission *admission = &load->admissions[i];

		if (admission->offset != CACHE_NOWHERE)
			memcpy(cache_host_address(admission->offset), admission->source, admission->size);
	}
}

/* Counts those of the first n documents that had room, and keeps the others. */
static void
drop_loaded(CacheLoad *load, uint32 n)
{
	uint32 all = load->n;

	load->n = 0;
	for (uint32 i = 0; i < all; i++)
	{
		if (i >= n || load->admissions[i].offset == CACHE_NOWHERE)
			load->admissions[load->n++] = load->admissions[i];
		else
			note_loaded(load, &load->admissions[i]);
	}
}

/* Waits a moment; false: there was no room for so long that there will be none. */
static bool
wait_for_room(CacheLoad *load)
{
	TimestampTz now = GetCurrentTimestamp();

	if (load->blocked_since == 0)
		load->blocked_since = now;
	if (TimestampDifferenceExceeds(load->blocked_since, now, ROOM_LIMIT_MS))
		return false;
	/* segments must not wait for us: nothing that we have found or reserved is needed any more */
	cache_read_renew();
	if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ROOM_POLL_MS, PG_WAIT_EXTENSION) & WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return true;
}

void
load_run(CacheLoad *load, GpuSlot *slot)
{
	uint32 tier;
	uint32 n;

	drop_too_large(load);
	while (load->n > 0 && !load->full)
	{
		uint32 before = load->n;

		if (load->on_devices && gpu_incarnation() != load->incarnation)
			device_lost("scorer was restarted");
		if (!has_tier(load))
			device_lost("scorer has ended");
		n = choose_tier(load, &tier);
		if (n > 0)
		{
			cache_reserve(tier, load->admissions, n);
			if (load->on_devices)
				copy_to_device(load, slot, n);
			else
				copy_to_host(load, n);
			stats_add(load->on_devices ? STATS_ADMITTED_GPU : STATS_ADMITTED_HOST, cache_admit(load->admissions, n));
			drop_loaded(load, n);
		}
		if (load->n < before)
			load->blocked_since = 0;
		else
			load->full = n == 0 || !wait_for_room(load);
	}
	load->no_room += load->n;
	load->n = 0;
}
