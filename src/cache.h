/*
 * cache.h
 *		The document cache: where documents that were fetched before lie now, in the
 *		host arena of the mapping or in the arena of a GPU.
 *
 * A TOAST value never changes, so its identity says what its bytes are: whoever can
 * see a row holds the pointer to its document, and a hit is exact under MVCC without
 * any invalidation.  src/README.md tells of the one exception, a reused value id, and
 * of how arenas and readers work.
 *
 * Only with shared_preload_libraries = 'flash_maxsim' and a cache size that is not 0.
 */
#ifndef MAXSIM_CACHE_H
#define MAXSIM_CACHE_H

#include "access/detoast.h"

#include "engine.h"

/* What a document column holds. */
typedef enum DocumentType
{
	DOCUMENT_MULTIVEC,
	DOCUMENT_REAL_ARRAY,
	DOCUMENT_DOUBLE_ARRAY
} DocumentType;

/* The identity of a TOAST value.  Compared as bytes: no padding. */
typedef struct CacheKey
{
	Oid database;
	Oid relation;
	Oid value; /* InvalidOid: not to be cached */
	uint32 raw_size;
	uint32 external_info;
	uint32 type; /* a DocumentType, since arrays are kept as they are scored */
} CacheKey;

/* Tiers: the host's, then one for each GPU. */
#define CACHE_HOST 0
#define CACHE_DEVICE(n) (1 + (n))
#define CACHE_TIERS (1 + 16)

#define CACHE_NOWHERE UINT64_MAX

/* A document that is in the cache. */
typedef struct CachedDocument
{
	MaxsimFormat format;
	uint32 ntokens;
	uint32 dim;
	const char *host; /* its elements; NULL: not in the host arena */
	int device;
	uint64 device_offset; /* in the arena of device; CACHE_NOWHERE: in none */
} CachedDocument;

/* A document that is to come into a tier. */
typedef struct CacheAdmission
{
	CacheKey key;
	MaxsimFormat format;
	uint32 ntokens;
	uint32 dim;
	uint32 size; /* bytes of its elements */
	const void *source;
	bool lasting; /* not to be dropped before it has been used again */
	uint32 tier;
	uint32 segment;
	uint32 generation;
	uint64 offset; /* in the tier's arena; CACHE_NOWHERE: refused */
} CacheAdmission;

/* settings of the server's start */
extern int maxsim_host_cache_size; /* in MB */
extern char *maxsim_gpu_cache_size;
extern int maxsim_cache_documents;

/*
 * cache_enabled	Whether there is a directory at all.
 * cache_has		Whether that tier has an arena now; cache_has_any: whether one has.
 *
 * cache_key		The key of a value of the current database.
 *
 * cache_read_begin, cache_read_renew, cache_read_end
 *					What a lookup finds stays where it is from begin to end; renew lets
 *					go of what was found so far.  They nest, and then renew does nothing.
 *					At the backend's exit everything ends.
 * cache_epoch		For ScorerSlot.reader_epoch: what was found so far stays until the
 *					scorer is done with the slot.
 * cache_lookup		Between begin and end.  Without a lock.
 * cache_expect		Starts to bring where a key is looked up into the processor's cache; a
 *					little later cache_expect_entry, with what it returned, what is there.
 *
 * cache_seen_before	Whether the document was looked for lately, which it now was.
 * cache_reserve	Room in a tier for n documents, all or some.  Refused are documents
 *					too large, and all while no segment is free; nobody waits.  Between
 *					begin and end.
 * cache_admit		Enters documents whose elements have been written where there was
 *					room, and says how many.  Those that another backend has entered
 *					meanwhile are dropped.
 * cache_host_address	Of an offset in the host arena.
 *
 * cache_put_place, cache_get_place
 *					Remember where the row of an id was seen, as block number and 16 bits
 *					of offset.  What is remembered may be wrong, or of another id.
 */
extern bool cache_enabled(void);
extern bool cache_has(uint32 tier);
extern bool cache_has_any(void);
extern CacheKey cache_key(const struct varatt_external *pointer, DocumentType type);
extern void cache_read_begin(void);
extern void cache_read_renew(void);
extern void cache_read_end(void);
extern uint64 cache_epoch(void);
extern bool cache_lookup(const CacheKey *key, CachedDocument *document);
extern uint32 cache_expect(const CacheKey *key);
extern void cache_expect_entry(uint32 bucket);
extern bool cache_seen_before(const CacheKey *key);
extern void cache_reserve(uint32 tier, CacheAdmission *admissions, uint32 n);
extern uint32 cache_admit(const CacheAdmission *admissions, uint32 n);
extern char *cache_host_address(uint64 offset);
extern void cache_put_place(Oid relation, int64 id, uint64 place);
extern bool cache_get_place(Oid relation, int64 id, uint64 *place);

/*
 * For the library's start: cache_define_settings; cache_configured, whether they ask for
 * a cache; cache_scorer_argument, what the scorer is told of them; cache_shared_size,
 * bytes of PostgreSQL's shared memory; cache_host_bytes, of the mapping;
 * cache_available_memory, that the machine could give now, or 0 where that is not known;
 * cache_start, in the shared memory hook; cache_worker_main, the background worker.
 */
extern void cache_define_settings(void);
extern bool cache_configured(void);
extern const char *cache_scorer_argument(void);
extern Size cache_shared_size(void);
extern uint64 cache_host_bytes(void);
extern uint64 cache_available_memory(void);
extern void cache_start(void);

/* For the scorer's worker: its arenas are there, empty; they are lost. */
extern void cache_devices_ready(int ndevices, const uint64 *sizes);
extern void cache_devices_lost(void);

extern PGDLLEXPORT void cache_worker_main(Datum arg);

#endif /* MAXSIM_CACHE_H */
