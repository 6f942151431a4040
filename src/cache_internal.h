/*
 * cache_internal.h
 *		The cache's shared memory, for the files that make up the cache.
 */
#ifndef MAXSIM_CACHE_INTERNAL_H
#define MAXSIM_CACHE_INTERNAL_H

#include "port/atomics.h"
#include "storage/lwlock.h"

#include "cache.h"
#include "scorer.h"

#define CACHE_NONE UINT32_MAX
#define CACHE_SEGMENTS 512 /* of a tier, at the most */

/* A document is moved to lasting segments when it was used, and used again to stay there. */
#define CACHE_USES 3

/*
 * A document of the directory: a cache line.  Read without a lock: version is odd
 * while it is written.
 */
typedef struct CacheEntry
{
	uint32 version;
	uint32 next; /* in its bucket, or among the free ones */
	CacheKey key;
	uint32 ntokens;
	uint16 dim;
	uint8 format;
	uint8 uses;  /* lookups since it was last spared, up to CACHE_USES; lost updates do not matter */
	uint32 wrap; /* of the object id counter, in which it passes the key's value */
	uint32 device_tier;
	uint64 host; /* offsets; CACHE_NOWHERE */
	uint64 device;
} CacheEntry;

StaticAssertDecl(sizeof(CacheEntry) == 64, "an entry is a cache line");

/* Neighbours in the lists of the segments that an entry lies in. */
typedef struct CacheLinks
{
	uint32 host;
	uint32 device;
} CacheLinks;

typedef enum SegmentState
{
	SEGMENT_FREE,
	SEGMENT_OPEN, /* being filled */
	SEGMENT_FULL,
	SEGMENT_EMPTYING, /* nothing may be entered any more */
	SEGMENT_RETIRED   /* free once its last readers have ended */
} SegmentState;

/* Fresh documents come into segments that are emptied first. */
typedef enum SegmentKind
{
	SEGMENT_FRESH,
	SEGMENT_LASTING,
	SEGMENT_KINDS
} SegmentKind;

typedef struct CacheSegment
{
	SegmentState state;
	SegmentKind kind;
	uint32 generation; /* counts its fillings */
	uint32 first;      /* entry of its list */
	uint64 used;
	uint64 sequence;   /* which was opened before which */
	uint64 retired_at; /* epoch */
} CacheSegment;

typedef struct CacheTier
{
	uint32 nsegments; /* 0: no such arena */
	uint32 segment_size;
	uint32 alignment;
	uint32 open[SEGMENT_KINDS];
	uint32 count[SEGMENT_KINDS];
	uint32 nfree;
	uint32 documents;
	uint64 bytes; /* of documents */
	CacheSegment segments[CACHE_SEGMENTS];
} CacheTier;

/* A reader's epoch, on a cache line of its own; 0: it reads nothing. */
typedef struct CacheReader
{
	pg_atomic_uint64 epoch;
	char padding[56];
} CacheReader;

typedef struct CacheShared
{
	LWLock lock; /* of everything but what is read without one */
	pg_atomic_uint64 epoch;
	pg_atomic_uint64 oid; /* the object id counter when last looked at, with its wraps above 32 bits */
	uint32 nentries;
	uint32 mask;          /* of buckets and seen */
	uint32 free_entry;    /* one that was used before, or CACHE_NONE */
	uint32 first_unused;  /* and all after it */
	uint32 nfree_entries; /* both kinds */
	uint32 nreaders;
	uint64 sequence;
	Latch *worker; /* NULL: none */
	CacheTier tiers[CACHE_TIERS];
} CacheShared;

extern CacheShared *cache_shared;
extern CacheEntry *cache_entries;
extern CacheLinks *cache_links;
extern CacheReader *cache_readers;

/*
 * With the lock held:
 * cache_find		The entry of a key, or CACHE_NONE.
 * cache_locate		Sets where a document lies in a tier; CACHE_NOWHERE takes it out, and
 *					an entry that then lies nowhere goes.  Does not touch segments' lists.
 * cache_empty		Takes out all documents of a segment.
 * cache_list		The next entry of a segment of that tier after an entry.
 * cache_clear		Empties a tier and sets its size.
 */
extern uint32 cache_find(const CacheKey *key);
extern void cache_locate(uint32 entry, uint32 tier, uint64 offset);
extern uint32 cache_list(uint32 tier, uint32 entry);
extern void cache_empty(uint32 tier, CacheSegment *segment);
extern void cache_clear(uint32 tier, uint64 size);

/* Where an entry lies in a tier. */
static inline uint64
cache_offset(const CacheEntry *entry, uint32 tier)
{
	if (tier == CACHE_HOST)
		return entry->host;
	return entry->device_tier == tier ? entry->device : CACHE_NOWHERE;
}

static inline uint32
cache_segment_of(uint32 tier, uint64 offset)
{
	return offset / cache_shared->tiers[tier].segment_size;
}

/* Segments that should be free, or soon be. */
static inline uint32
cache_low_water(const CacheTier *tier)
{
	return Max(2, tier->nsegments / 32);
}

/* Segments of fresh documents that are not emptied before lasting ones. */
static inline uint32
cache_fresh_share(const CacheTier *tier)
{
	return Max(1, tier->nsegments / 10);
}

static inline uint64
cache_entry_size(const CacheEntry *entry)
{
	return (uint64) entry->ntokens * maxsim_row_size(entry->format, entry->dim);
}

/* Copies an entry, without the lock; false: it is being written. */
static inline bool
cache_read_entry(uint32 number, CacheEntry *copy)
{
	const volatile CacheEntry *entry = &cache_entries[number];
	uint32 version = entry->version;

	pg_read_barrier();
	memcpy(copy, &cache_entries[number], sizeof(CacheEntry));
	pg_read_barrier();
	return version % 2 == 0 && entry->version == version;
}

/* Whether an entry's value id may have been given to other bytes. */
extern bool cache_outdated(const CacheEntry *entry);

/* cache_arena.c */
extern bool cache_reserve_locked(uint32 tier, uint32 size, SegmentKind kind, bool last, CacheAdmission *place);
extern uint64 cache_oldest_reader(void);
extern uint64 cache_oid_now(void);

#endif /* MAXSIM_CACHE_INTERNAL_H */
