/*
 * batch.h
 *		Gathers documents into a buffer and has them scored, a buffer at a time.
 *
 * Memory is one buffer of flash_maxsim.batch_size, or two slots of the scorer's
 * mapping, however many documents come and however long they are: a document that
 * exceeds the buffer is scored in slices.
 */
#ifndef MAXSIM_BATCH_H
#define MAXSIM_BATCH_H

#include "buffers.h"
#include "cache_load.h"

typedef struct Batch Batch;

/*
 * batch_begin	Starts gathering for one query.  The batch lives in the current memory
 *				context, whose reset gives everything back, also after an error.  Errors
 *				name the document they are about, and the source, if that is not NULL.
 * batch_begin_load	The same for documents that only are to come into the cache.
 * batch_let_wait	Allows documents in TOAST to be read a little later than they are added: whose
 *				rows nobody takes away until batch_end, as an aggregate's arguments' may be.
 * batch_count	Has what the batch does added to totals[STATS_COUNTERS] as well, until its end.
 * batch_add	Adds a document, as a slot has it: TOAST pointer, inline or NULL.  It is
 *				not needed afterwards.  Needs an active snapshot.
 * batch_end	Scores and delivers, or loads, what is left, and gives everything back.
 */
extern Batch *batch_begin(PreparedQuery *query, DocumentType type, const char *source, BatchDeliver deliver, void *arg);
extern Batch *batch_begin_load(CacheLoad *load, DocumentType type, const char *source);
extern void batch_let_wait(Batch *batch);
extern void batch_count(Batch *batch, uint64 *totals);
extern void batch_add(Batch *batch, int64 id, Datum document, bool is_null);
extern void batch_end(Batch *batch);

#endif /* MAXSIM_BATCH_H */
