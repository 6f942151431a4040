/*
 * cache_load.h
 *		Taking documents to a tier of the cache without scoring them.
 *
 * Documents are loaded as lasting ones.  A load fills each arena once: what exceeds it
 * is left out, rather than to replace what the same load has brought, or what of its
 * source was there: a source that can be read twice is counted first.
 */
#ifndef MAXSIM_CACHE_LOAD_H
#define MAXSIM_CACHE_LOAD_H

#include "cache.h"
#include "engine_gpu.h"

/* What a load has put into a tier. */
typedef struct LoadedTier
{
	uint64 found;    /* bytes of the source's documents that were there */
	uint32 segments; /* that it has put something into */
	uint32 segment;  /* the last of them */
	uint32 generation;
	uint64 end; /* of the last document */
} LoadedTier;

typedef struct CacheLoad
{
	bool on_devices; /* or in the host arena */

	/* counts: every document adds to documents and to one of those up to no_room */
	uint64 documents;
	uint64 loaded;
	uint64 already;  /* were there */
	uint64 uncached; /* never are: NULL, without tokens, stored inline or compressed */
	uint64 too_large;
	uint64 no_room;
	uint64 bytes; /* of loaded */

	Size room;    /* of a buffer */
	bool counted; /* what is there of the source, before anything was loaded */
	bool full;    /* nothing more is loaded */
	uint32 incarnation;
	uint32 turn;
	TimestampTz blocked_since;  /* 0: it is not */
	CacheAdmission *admissions; /* [n], in a buffer */
	uint32 n;
	LoadedTier tiers[CACHE_TIERS];
} CacheLoad;

/*
 * load_tier_missing	NULL, or why nothing can be loaded to the devices, or the host arena.
 * load_init	Starts a load, in the current memory context.
 * load_tiers_are_empty	Whether there is no document yet where it loads to.
 * load_count	Counts a document of the source before any is added, which then must have been done
 *				for all of them.
 * load_wants	Whether a document of size bytes is to be fetched and added; else it
 *				has been counted.
 * load_add		A document that has been fetched; its elements must stay until load_run.
 * load_run		Takes the documents that were added to the cache: those in a slot of the
 *				mapping to the devices.  Waits, interruptibly, a while for room.  Between
 *				cache_read_begin and cache_read_end.
 * load_largest	Bytes that a document can have at the most.
 */
extern const char *load_tier_missing(bool on_devices);
extern void load_init(CacheLoad *load, bool on_devices);
extern bool load_tiers_are_empty(const CacheLoad *load);
extern void load_count(CacheLoad *load, const CacheKey *key);
extern bool load_wants(CacheLoad *load, const CacheKey *key, Size size);
extern void load_add(CacheLoad *load, const CacheKey *key, MaxsimFormat format, const void *elements,
					 uint32 ntokens, uint32 dim);
extern void load_run(CacheLoad *load, GpuSlot *slot);
extern Size load_largest(const CacheLoad *load);

#endif /* MAXSIM_CACHE_LOAD_H */
