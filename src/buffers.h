/*
 * buffers.h
 *		The memory that a batch gathers documents in, and how what a buffer holds gets
 *		its scores: by the CPU at once, or by the scorer while the next one is filled.
 */
#ifndef MAXSIM_BUFFERS_H
#define MAXSIM_BUFFERS_H

#include "cache.h"
#include "cache_load.h"
#include "engine_gpu.h"
#include "query.h"
#include "stats.h"

/* flash_maxsim.batch_size, in kB: of the buffer where the CPU scores */
extern int maxsim_batch_size;
#define MAXSIM_BATCH_SIZE_MIN 1024 /* a row of any dimension fits */
#define MAXSIM_BATCH_SIZE_DEFAULT 1024

/* documents gathered before they are scored, at the most */
#define BUFFER_MAX_DOCUMENTS SCORER_MAX_DOCUMENTS
#define BUFFER_ALIGNMENT 64

/*
 * Takes the score of a document; is_null where the document is NULL or has no
 * tokens.  Documents are not delivered in the order in which they were added.
 */
typedef void (*BatchDeliver)(void *arg, int64 id, float score, bool is_null);

/* Where a document's elements are. */
typedef enum DocumentPlace
{
	IN_BUFFER,
	IN_HOST_CACHE,
	IN_DEVICE_CACHE
} DocumentPlace;

/* What is known of a document beside its elements. */
typedef struct DocumentInfo
{
	int64 id;
	CacheKey key; /* of no value: it is not for the cache */
	DocumentPlace place;
	int device;
	uint64 device_offset;
} DocumentInfo;

/* The documents of one format in a buffer. */
typedef struct DocumentList
{
	MaxsimDocument *documents; /* [capacity]; tokens is NULL where the device alone has them */
	DocumentInfo *infos;
	float *scores;
	uint32 n;
	uint32 capacity;
} DocumentList;

/*
 * Brings a document that the cache was to have, for the CPU; the memory is the
 * caller's to free.
 */
typedef void *(*BatchFetch)(void *arg, const CacheKey *key);

typedef struct BatchBuffer
{
	char *memory; /* 2 * BUFFER_ALIGNMENT longer than size */
	Size size;
	Size fill; /* what is gathered before it is scored; a longer document may use all of size */
	Size used;
	uint32 ndocuments;
	uint32 ngpu_hits;  /* of those, found on a device */
	bool needs_device; /* some documents are nowhere else */
	DocumentList lists[MAXSIM_NFORMATS];
	GpuSlot slot;               /* whose memory it is, if it is a slot's */
	CacheAdmission *admissions; /* [nadmissions], what the scorer copies to a device's arena */
	uint32 nadmissions;
	uint32 max_admissions;
	uint64 bytes_in_host;  /* of documents that the scorer reads there */
	uint64 bytes_uploaded; /* of those, copied to a device's arena */
} BatchBuffer;

typedef struct BatchBuffers
{
	PreparedQuery *query; /* NULL: load */
	CacheLoad *load;      /* documents are taken to the cache, without scores */
	MemoryContext context;
	BatchDeliver deliver;
	void *deliver_arg;
	BatchFetch fetch;
	void *fetch_arg;
	int64 id;          /* of the document in work, for errors */
	const char *ahead; /* memory that is read next, when the buffer has been scored; NULL: not known */
	Size ahead_size;
	Stats stats;

	BatchBuffer pair[2]; /* the second one only with the scorer */
	BatchBuffer *current;
	bool use_scorer;
	bool reading;       /* the cache */
	uint32 incarnation; /* of the scorer whose devices the documents were looked up for */
	MemoryContextCallback release;
} BatchBuffers;

/*
 * buffers_init		Takes the first buffer.  A reset of context, where buffers must lie,
 *					gives everything back, whatever goes on.
 * buffers_init_load	The same for documents that only are to come into the cache.
 * buffers_use_slot	Makes a slot's memory a buffer, with the query in front of it.
 * buffers_flush	Has what the current buffer holds scored, now or soon; afterwards the
 *					current one is empty.
 * buffers_add		Puts a document that lies in the current buffer, of which it takes up
 *					the bytes before end, on its list.
 * buffers_add_cached	Puts one that the cache has there instead; false: not where it could
 *					be scored, and it must be brought.
 * buffers_deliver	Delivers a score that was found elsewhere.
 * buffers_finish	Returns when everything has been delivered.
 */
extern void buffers_init(BatchBuffers *buffers, PreparedQuery *query, MemoryContext context,
						 BatchDeliver deliver, void *arg, BatchFetch fetch, void *fetch_arg);
extern void buffers_init_load(BatchBuffers *buffers, CacheLoad *load, MemoryContext context);
extern void buffers_use_slot(BatchBuffer *buffer, const MaxsimQuery *query);
extern void buffers_flush(BatchBuffers *buffers);
extern void buffers_add(BatchBuffers *buffers, int64 id, const CacheKey *key, MaxsimFormat format,
						const char *elements, uint32 ntokens, uint32 dim, const char *end);
extern bool buffers_add_cached(BatchBuffers *buffers, int64 id, const CacheKey *key);
extern void buffers_deliver(BatchBuffers *buffers, int64 id, float score, bool is_null);
extern void buffers_finish(BatchBuffers *buffers);

#endif /* MAXSIM_BUFFERS_H */
