/*
 * cache_functions.c
 *		The SQL functions that show what is in the document cache: maxsim_cache and
 *		maxsim_cache_tiers.
 */
#include "postgres.h"
#include "compat.h"

#include "utils/builtins.h"
#include "utils/hsearch.h"

#include "cache_internal.h"

/* an entry that is being written is so for some instructions: it is looked at again */
#define READ_ATTEMPTS 1000

/* What the cache holds of a TOAST relation. */
typedef struct RelationUse
{
	struct
	{
		Oid database;
		Oid relation;
	} key;
	int64 documents;
	int64 host_bytes;
	int64 device_bytes;
} RelationUse;

/* Adds up the directory's entries by relation, without the lock. */
static HTAB *
count_relations(void)
{
	HASHCTL control = {0};
	HTAB *uses;

	control.keysize = sizeof(((RelationUse *) NULL)->key);
	control.entrysize = sizeof(RelationUse);
	control.hcxt = CurrentMemoryContext;
	uses = hash_create("maxsim cache relations", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (uint32 number = 0; number < cache_shared->nentries; number++)
	{
		CacheEntry entry;
		RelationUse *use;
		uint64 size;
		bool found;
		bool whole = false;

		if (number % 4096 == 0)
			CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < READ_ATTEMPTS && !whole; i++)
			whole = cache_read_entry(number, &entry);
		/* free, or on its way in or out */
		if (!whole || !OidIsValid(entry.key.value) ||
			(entry.host == CACHE_NOWHERE && entry.device == CACHE_NOWHERE))
			continue;
		use = hash_search(uses, &entry.key.database, HASH_ENTER, &found);
		if (!found)
			use->documents = use->host_bytes = use->device_bytes = 0;
		size = cache_entry_size(&entry);
		use->documents++;
		use->host_bytes += entry.host != CACHE_NOWHERE ? size : 0;
		use->device_bytes += entry.device != CACHE_NOWHERE ? size : 0;
	}
	return uses;
}

StaticAssertDecl(offsetof(CacheKey, relation) == offsetof(CacheKey, database) + sizeof(Oid),
				 "a key begins with what relations are told apart by");

/* maxsim_cache(): a row for each TOAST relation of which there are documents. */
PG_FUNCTION_INFO_V1(maxsim_cache);
Datum
maxsim_cache(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	HASH_SEQ_STATUS scan;
	RelationUse *use;

	InitMaterializedSRF(fcinfo, 0);
	if (!cache_enabled())
		return (Datum) 0;
	hash_seq_init(&scan, count_relations());
	while ((use = hash_seq_search(&scan)) != NULL)
	{
		Datum values[5] = {ObjectIdGetDatum(use->key.database), ObjectIdGetDatum(use->key.relation),
						   Int64GetDatum(use->documents), Int64GetDatum(use->host_bytes),
						   Int64GetDatum(use->device_bytes)};
		bool nulls[5] = {false};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* What a tier's row shows. */
typedef struct TierUse
{
	uint32 segments;
	uint32 free_segments;
	uint64 size;
	uint64 used;   /* by documents */
	uint64 unused; /* room that documents can have now */
	uint32 documents;
} TierUse;

/* With the lock held. */
static TierUse
tier_use(const CacheTier *tier)
{
	TierUse use = {tier->nsegments, tier->nfree, (uint64) tier->nsegments * tier->segment_size, tier->bytes,
				   (uint64) tier->nfree * tier->segment_size, tier->documents};

	for (int kind = 0; kind < SEGMENT_KINDS; kind++)
	{
		if (tier->nsegments > 0 && tier->open[kind] != CACHE_NONE)
			use.unused += tier->segment_size - tier->segments[tier->open[kind]].used;
	}
	return use;
}

/* maxsim_cache_tiers(): a row for each arena that there is, all as of one moment. */
PG_FUNCTION_INFO_V1(maxsim_cache_tiers);
Datum
maxsim_cache_tiers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TierUse uses[CACHE_TIERS];
	uint32 free_entries;
	uint32 used_entries;

	InitMaterializedSRF(fcinfo, 0);
	if (!cache_enabled())
		return (Datum) 0;
	LWLockAcquire(&cache_shared->lock, LW_SHARED);
	for (uint32 tier = 0; tier < CACHE_TIERS; tier++)
		uses[tier] = tier_use(&cache_shared->tiers[tier]);
	free_entries = cache_shared->nfree_entries;
	used_entries = cache_shared->nentries - free_entries;
	LWLockRelease(&cache_shared->lock);

	for (uint32 tier = 0; tier < CACHE_TIERS; tier++)
	{
		const TierUse *use = &uses[tier];
		const char *name = tier == CACHE_HOST ? "host" : psprintf("gpu %u", tier - CACHE_DEVICE(0));
		Datum values[9] = {CStringGetTextDatum(name), Int64GetDatum(use->size), Int64GetDatum(use->used),
						   Int64GetDatum(use->size - use->used - use->unused), Int32GetDatum(use->segments),
						   Int32GetDatum(use->free_segments), Int64GetDatum(use->documents),
						   Int64GetDatum(used_entries), Int64GetDatum(free_entries)};
		bool nulls[9] = {false};

		if (use->segments > 0)
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
