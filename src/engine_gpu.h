/*
 * engine_gpu.h
 *		A backend's side of the scorer: slots of the mapping, and waiting for scores.
 */
#ifndef MAXSIM_ENGINE_GPU_H
#define MAXSIM_ENGINE_GPU_H

#include "utils/timestamp.h"

#include "query.h"
#include "scorer.h"

/* flash_maxsim.engine */
typedef enum EngineChoice
{
	ENGINE_AUTO,
	ENGINE_CPU,
	ENGINE_CUDA
} EngineChoice;

extern int maxsim_engine;

/* A slot held by this backend. */
typedef struct GpuSlot
{
	ScorerSlot *slot; /* NULL: none */
	uint32 number;
	uint64 request;
	uint32 connection; /* that the request was sent on */
	bool in_flight;
	TimestampTz deadline; /* when the scorer is taken for hung */
} GpuSlot;

/*
 * gpu_connect		Whether the scorer takes work now, connecting to it if need be; if
 *					not, reason, of MAXSIM_MESSAGE_SIZE bytes, says why.
 * gpu_ready		The same as flash_maxsim.engine wants it: where that is cuda, an error
 *					that says why not; where it is auto, counted and false.
 * gpu_incarnation	Of the scorer that this backend is connected to.
 * gpu_devices		How many devices it has; at least 1.
 * gpu_acquire		Takes a free slot.  wait: waits for one, interruptibly, some seconds at the
 *					most, unless this backend already holds one.  False: none.
 * gpu_data			The slot's memory for query and documents.
 * gpu_put_query	Copies a query to the start of the slot's memory, one of signs as the query
 *					whose components are 1 and -1; returns the bytes that it takes there,
 *					gpu_query_size().
 * gpu_submit		Sends it to the scorer: the query that was put there, documents of
 *					format f, counts[f] of them, in the order of formats in its table; work,
 *					in multiply-adds, says how long that may take.  A query without tokens
 *					only has documents copied.
 *					If the scorer is gone, gpu_wait tells.
 * gpu_wait			Waits, interruptibly, until the scorer is done with a slot.  If that
 *					failed, *reason says why; the documents are still in the slot.
 * gpu_release		Gives a slot back, whatever its state.
 */
extern bool gpu_connect(char *reason);
extern bool gpu_ready(void);
extern uint32 gpu_incarnation(void);
extern int gpu_devices(void);
extern bool gpu_acquire(GpuSlot *slot, bool wait);
extern char *gpu_data(const GpuSlot *slot);
extern uint64 gpu_query_size(const MaxsimQuery *query);
extern uint64 gpu_put_query(const GpuSlot *slot, const MaxsimQuery *query);
extern void gpu_submit(GpuSlot *slot, const MaxsimQuery *query, const uint32 counts[MAXSIM_NFORMATS],
					   uint64 work);
extern MaxsimStatus gpu_wait(GpuSlot *slot, const char **reason);
extern void gpu_release(GpuSlot *slot);

extern void gpu_count_fallback(ScorerFallback reason);

#endif /* MAXSIM_ENGINE_GPU_H */
