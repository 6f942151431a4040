/*
 * cache.c
 *		The directory of the document cache: see cache.h.
 *
 * Entries are found through buckets of chains.  Writers hold the lock; readers do
 * not: each entry has a version, and a chain that changes under a reader makes it miss
 * at worst, which costs a fetch and nothing else.
 */
#include "postgres.h"
#include "compat.h"

#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"

#include "cache_internal.h"

/* a chain longer than that was changed under its reader, or is not worth reading */
#define MAX_STEPS 64

/* one of so many gives way to another: of two alone each would drive out the other for ever */
#define SEEN_SET 8

CacheShared *cache_shared = NULL;
CacheEntry *cache_entries;
CacheLinks *cache_links;
CacheReader *cache_readers;
static uint64 *places;  /* of rows: a place and 16 bits of a hash */
static uint32 *buckets; /* first entry */
static uint32 *seen;    /* hashes of documents that were looked for and not found */

/* Spreads every bit over all of them (the finalizer of MurmurHash3). */
static uint64
mix(uint64 x)
{
	x = (x ^ x >> 33) * UINT64CONST(0xff51afd7ed558ccd);
	x = (x ^ x >> 33) * UINT64CONST(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

static uint64
hash_key(const CacheKey *key)
{
	uint64 low = (uint64) key->relation << 32 | key->value;
	uint64 high = (uint64) key->database << 32 | (key->raw_size ^ key->external_info << 3 ^ key->type << 29);

	return mix(mix(low) + high);
}

bool
cache_enabled(void)
{
	return cache_shared != NULL;
}

bool
cache_has(uint32 tier)
{
	return cache_shared != NULL && cache_shared->tiers[tier].nsegments > 0;
}

bool
cache_has_any(void)
{
	for (uint32 tier = 0; tier < CACHE_TIERS; tier++)
		if (cache_has(tier))
			return true;
	return false;
}

CacheKey
cache_key(const struct varatt_external *pointer, DocumentType type)
{
	CacheKey key = {MyDatabaseId, pointer->va_toastrelid, pointer->va_valueid,
					pointer->va_rawsize, pointer->va_extinfo, type};

	return key;
}

/*
 * The object id counter with its wraps, which the lock's holders and the worker note
 * often enough not to miss one.  A wrap is more than half of the numbers back.  Less than
 * that is a standby's counter, which runs ahead of its primary's until that tells the
 * exact number when it is shut down.
 */
uint64
cache_oid_now(void)
{
	uint64 noted = pg_atomic_read_u64(&cache_shared->oid);
	uint32 now;
	uint64 oid;

	pg_read_barrier();
	now = maxsim_next_oid();
	oid = (noted & ~UINT64CONST(0xffffffff)) | now;
	return now < (uint32) noted && (uint32) noted - now > PG_UINT32_MAX / 2 ? oid + (UINT64CONST(1) << 32) : oid;
}

/*
 * Value ids come from one counter, and one can be given to other bytes only when the
 * counter has come round to it again.  The entry says in which round that is.
 */
bool
cache_outdated(const CacheEntry *entry)
{
	return cache_oid_now() >= ((uint64) entry->wrap << 32 | entry->key.value);
}

bool
cache_lookup(const CacheKey *key, CachedDocument *document)
{
	volatile uint32 *bucket = &buckets[hash_key(key) & cache_shared->mask];
	uint32 number = *bucket;
	CacheEntry entry;

	for (int step = 0; step < MAX_STEPS && number != CACHE_NONE; step++)
	{
		if (!cache_read_entry(number, &entry))
			return false;
		if (memcmp(&entry.key, key, sizeof(CacheKey)) == 0)
		{
			if (cache_outdated(&entry))
				return false;
			if (entry.uses < CACHE_USES)
				cache_entries[number].uses = entry.uses + 1;
			document->format = entry.format;
			document->ntokens = entry.ntokens;
			document->dim = entry.dim;
			document->host = entry.host == CACHE_NOWHERE ? NULL : cache_host_address(entry.host);
			document->device = (int) entry.device_tier - 1;
			document->device_offset = entry.device;
			return true;
		}
		number = entry.next;
	}
	return false;
}

uint32
cache_expect(const CacheKey *key)
{
	uint32 bucket = hash_key(key) & cache_shared->mask;

	__builtin_prefetch(&buckets[bucket]);
	return bucket;
}

void
cache_expect_entry(uint32 bucket)
{
	uint32 number = buckets[bucket];

	/* its uses may be counted */
	if (number != CACHE_NONE)
		__builtin_prefetch(&cache_entries[number], 1);
}

bool
cache_seen_before(const CacheKey *key)
{
	uint64 hash = hash_key(key);
	uint32 *set = &seen[hash & cache_shared->mask & ~(SEEN_SET - 1)];
	uint32 mark = (uint32) (hash >> 32);

	for (int i = 0; i < SEEN_SET; i++)
	{
		if (set[i] == mark)
			return true;
	}
	/* the oldest one goes */
	memmove(set + 1, set, (SEEN_SET - 1) * sizeof(uint32));
	set[0] = mark;
	return false;
}

static uint64
hash_row(Oid relation, int64 id)
{
	return mix(mix(id) + ((uint64) MyDatabaseId << 32 | relation));
}

void
cache_put_place(Oid relation, int64 id, uint64 place)
{
	uint64 hash = hash_row(relation, id);
	volatile uint64 *entry = cache_shared == NULL ? NULL : &places[hash & cache_shared->mask];
	uint64 value = place << 16 | hash >> 48;

	/* unchanged, it stays in every core's cache */
	if (entry != NULL && *entry != value)
		*entry = value;
}

bool
cache_get_place(Oid relation, int64 id, uint64 *place)
{
	uint64 hash = hash_row(relation, id);
	uint64 value = *(volatile uint64 *) &places[hash & cache_shared->mask];

	*place = value >> 16;
	return (*place & 0xffff) != 0 && (value & 0xffff) == hash >> 48;
}

uint32
cache_find(const CacheKey *key)
{
	uint32 number = buckets[hash_key(key) & cache_shared->mask];

	while (number != CACHE_NONE && memcmp(&cache_entries[number].key, key, sizeof(CacheKey)) != 0)
		number = cache_entries[number].next;
	return number;
}

static void
begin_write(CacheEntry *entry)
{
	entry->version++;
	pg_write_barrier();
}

static void
end_write(CacheEntry *entry)
{
	pg_write_barrier();
	entry->version++;
}

/* Takes an entry out of the directory. */
static void
remove_entry(uint32 number)
{
	CacheEntry *entry = &cache_entries[number];
	uint32 *link = &buckets[hash_key(&entry->key) & cache_shared->mask];

	while (*link != number)
		link = &cache_entries[*link].next;
	*link = entry->next;
	begin_write(entry);
	memset(&entry->key, 0, sizeof(CacheKey));
	entry->next = cache_shared->free_entry;
	end_write(entry);
	cache_shared->free_entry = number;
	cache_shared->nfree_entries++;
}

void
cache_locate(uint32 number, uint32 tier, uint64 offset)
{
	CacheEntry *entry = &cache_entries[number];
	CacheTier *shared = &cache_shared->tiers[tier];
	bool had = cache_offset(entry, tier) != CACHE_NOWHERE;
	bool has = offset != CACHE_NOWHERE;

	begin_write(entry);
	if (tier == CACHE_HOST)
		entry->host = offset;
	else
	{
		entry->device = offset;
		entry->device_tier = has ? tier : 0;
	}
	end_write(entry);
	shared->documents += has - had;
	shared->bytes += (int64) (has - had) * (int64) cache_entry_size(entry);
	if (entry->host == CACHE_NOWHERE && entry->device == CACHE_NOWHERE)
		remove_entry(number);
}

uint32
cache_list(uint32 tier, uint32 entry)
{
	return tier == CACHE_HOST ? cache_links[entry].host : cache_links[entry].device;
}

void
cache_empty(uint32 tier, CacheSegment *segment)
{
	uint32 base = segment - cache_shared->tiers[tier].segments;

	for (uint32 number = segment->first, next; number != CACHE_NONE; number = next)
	{
		uint64 offset = cache_offset(&cache_entries[number], tier);

		next = cache_list(tier, number);
		/* it may have been moved since, or be another document by now */
		if (offset != CACHE_NOWHERE && cache_segment_of(tier, offset) == base)
			cache_locate(number, tier, CACHE_NOWHERE);
	}
	segment->first = CACHE_NONE;
}

/* A new entry for a document that lies nowhere yet; CACHE_NONE: the directory is full. */
static uint32
new_entry(const CacheAdmission *admission)
{
	uint32 number = cache_shared->free_entry;
	uint32 *bucket = &buckets[hash_key(&admission->key) & cache_shared->mask];
	uint64 oid = cache_oid_now();
	CacheEntry *entry;

	if (cache_shared->nfree_entries == 0)
		return CACHE_NONE;
	pg_atomic_write_u64(&cache_shared->oid, oid);
	if (number == CACHE_NONE)
	{
		number = cache_shared->first_unused++;
		memset(&cache_entries[number], 0, sizeof(CacheEntry));
		cache_entries[number].next = CACHE_NONE;
	}
	entry = &cache_entries[number];
	cache_shared->free_entry = entry->next;
	cache_shared->nfree_entries--;

	begin_write(entry);
	entry->key = admission->key;
	entry->ntokens = admission->ntokens;
	entry->dim = admission->dim;
	entry->format = admission->format;
	entry->uses = 0;
	entry->wrap = (oid >> 32) + (admission->key.value < (uint32) oid);
	entry->host = entry->device = CACHE_NOWHERE;
	entry->device_tier = 0;
	entry->next = *bucket;
	end_write(entry);
	pg_write_barrier();
	*bucket = number;
	return number;
}

/* Takes an entry off the list of a segment that it lies in. */
static void
unlink_entry(uint32 number, uint32 tier, CacheSegment *segment)
{
	uint32 *link = &segment->first;

	while (*link != number)
		link = tier == CACHE_HOST ? &cache_links[*link].host : &cache_links[*link].device;
	*link = cache_list(tier, number);
}

/* Takes an outdated entry out of the directory; false: the worker is about to. */
static bool
forget(uint32 number)
{
	const CacheEntry *entry = &cache_entries[number];
	const uint32 tiers[] = {CACHE_HOST, entry->device_tier};
	CacheSegment *segments[] = {NULL, NULL};

	for (int i = 0; i < 2; i++)
	{
		uint64 offset = i == 1 && tiers[1] == 0 ? CACHE_NOWHERE : cache_offset(entry, tiers[i]);

		if (offset == CACHE_NOWHERE)
			continue;
		segments[i] = &cache_shared->tiers[tiers[i]].segments[cache_segment_of(tiers[i], offset)];
		if (segments[i]->state == SEGMENT_EMPTYING)
			return false;
	}
	for (int i = 0; i < 2; i++)
	{
		if (segments[i] == NULL)
			continue;
		unlink_entry(number, tiers[i], segments[i]);
		cache_locate(number, tiers[i], CACHE_NOWHERE);
	}
	return true;
}

/* Enters one document, unless its room was taken back or it has been entered by another; false: not entered. */
static bool
admit(const CacheAdmission *admission)
{
	CacheTier *tier = &cache_shared->tiers[admission->tier];
	CacheSegment *segment = &tier->segments[admission->segment];
	uint32 number;

	if (admission->offset == CACHE_NOWHERE || segment->generation != admission->generation ||
		(segment->state != SEGMENT_OPEN && segment->state != SEGMENT_FULL))
		return false;
	number = cache_find(&admission->key);
	if (number != CACHE_NONE && cache_outdated(&cache_entries[number]))
	{
		if (!forget(number))
			return false;
		number = CACHE_NONE;
	}
	if (number == CACHE_NONE)
		number = new_entry(admission);
	else if (admission->tier == CACHE_HOST ? cache_entries[number].host != CACHE_NOWHERE
										   : cache_entries[number].device != CACHE_NOWHERE)
		return false;
	if (number == CACHE_NONE)
		return false;
	if (admission->tier == CACHE_HOST)
		cache_links[number].host = segment->first;
	else
		cache_links[number].device = segment->first;
	segment->first = number;
	cache_locate(number, admission->tier, admission->offset);
	return true;
}

uint32
cache_admit(const CacheAdmission *admissions, uint32 n)
{
	uint32 entered = 0;

	LWLockAcquire(&cache_shared->lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < n; i++)
		entered += admit(&admissions[i]);
	LWLockRelease(&cache_shared->lock);
	return entered;
}

/* Of all memory, so much may go to the directory of a cache whose size is beyond what there is. */
#define MEMORY_SHARE 32

/* The same at every call. */
static uint32
nentries(void)
{
	static uint64 n = 0;
	const char *gpu = cache_scorer_argument();
	uint64 available;

	if (n > 0)
		return n;
	n = maxsim_cache_documents;
	/* documents of 4 kB, and of what share a GPU gives we know nothing yet */
	if (n == 0)
	{
		bool share = strchr(gpu, '%') != NULL;

		n = cache_host_bytes() / 4096 + (share ? 2 * 1024 * 1024 : strtoull(gpu, NULL, 10) / 4096);
		available = cache_available_memory();
		if (available > 0)
			n = Min(n, available / MEMORY_SHARE / (sizeof(CacheEntry) + sizeof(CacheLinks) + 4 * sizeof(uint32)));
	}
	n = Min(Max(n, 1024), 1 << 28);
	return n;
}

/* A power of two. */
static uint32
nbuckets(void)
{
	uint32 n = 1024;

	while (n < nentries())
		n *= 2;
	return n;
}

Size
cache_shared_size(void)
{
	Size size = MAXALIGN(sizeof(CacheShared)) + 128;

	size = add_size(size, mul_size(nentries(), sizeof(CacheEntry) + sizeof(CacheLinks)));
	size = add_size(size, mul_size(nbuckets(), 2 * sizeof(uint32) + sizeof(uint64)));
	return add_size(size, mul_size(maxsim_max_procs(), sizeof(CacheReader)));
}

void
cache_start(void)
{
	bool found;
	char *memory = ShmemInitStruct("flash_maxsim cache", cache_shared_size(), &found);
	uint32 n = nentries();

	cache_shared = (CacheShared *) memory;
	cache_entries = (CacheEntry *) TYPEALIGN(64, memory + sizeof(CacheShared));
	cache_readers = (CacheReader *) (cache_entries + n);
	cache_links = (CacheLinks *) (cache_readers + maxsim_max_procs());
	places = (uint64 *) (cache_links + n);
	buckets = (uint32 *) (places + nbuckets());
	seen = buckets + nbuckets();
	if (found)
		return;

	memset(cache_shared, 0, sizeof(CacheShared));
	LWLockInitialize(&cache_shared->lock, LWLockNewTrancheId());
	LWLockRegisterTranche(cache_shared->lock.tranche, "flash_maxsim_cache");
	pg_atomic_init_u64(&cache_shared->epoch, 1);
	pg_atomic_init_u64(&cache_shared->oid, 0);
	cache_shared->nentries = cache_shared->nfree_entries = n;
	cache_shared->mask = nbuckets() - 1;
	cache_shared->nreaders = maxsim_max_procs();
	/* entries are made when they are first used: memory that no document needs is never touched */
	cache_shared->free_entry = CACHE_NONE;
	for (uint32 i = 0; i < cache_shared->nreaders; i++)
		pg_atomic_init_u64(&cache_readers[i].epoch, 0);
	memset(buckets, 0xff, nbuckets() * sizeof(uint32));
	memset(seen, 0, nbuckets() * sizeof(uint32));
	memset(places, 0, nbuckets() * sizeof(uint64));
	for (uint32 tier = 0; tier < CACHE_TIERS; tier++)
		cache_clear(tier, 0);
	if (scorer_mapping != NULL)
		cache_clear(CACHE_HOST, scorer_mapping->arena_size);
}
