/*
 * scorer.h
 *		The scorer process as the server sees it: its settings, what is shared about
 *		it, and the background worker that keeps it running.
 *
 * Only with shared_preload_libraries = 'flash_maxsim'.
 */
#ifndef MAXSIM_SCORER_H
#define MAXSIM_SCORER_H

#include "port/atomics.h"
#include "storage/spin.h"

#include "../scorer/protocol.h"

typedef enum ScorerState
{
	SCORER_STARTING,
	SCORER_READY,
	SCORER_RESTARTING, /* it ended, and is started again after a while */
	SCORER_UNAVAILABLE /* no device to run on, or no mapping */
} ScorerState;

/* Why work that the scorer could have done was done by the CPU. */
typedef enum ScorerFallback
{
	FALLBACK_NOT_READY,
	FALLBACK_NO_SLOT,
	FALLBACK_TOO_LARGE, /* query or document exceeds a slot */
	FALLBACK_FAILED,    /* the scorer ended, hung or reported an error */
	NUM_FALLBACKS
} ScorerFallback;

/* In PostgreSQL's shared memory; made anew at every start and crash restart. */
typedef struct ScorerControl
{
	slock_t mutex; /* protects the following until the counters */
	ScorerState state;
	pid_t pid; /* 0: none */
	int ndevices;
	char engine[16];
	char devices[SCORER_MAX_DEVICES][64];
	char reason[MAXSIM_MESSAGE_SIZE]; /* why it is not ready */

	pg_atomic_uint32 incarnation; /* counts starts of the scorer */
	pg_atomic_uint64 next_request;
	pg_atomic_uint64 batches; /* scored by the scorer */
	pg_atomic_uint64 documents;
	pg_atomic_uint64 fallbacks[NUM_FALLBACKS];
} ScorerControl;

/* NULL unless the library was preloaded. */
extern ScorerControl *scorer_control;

/* NULL if there is no memory for it. */
extern ScorerMapping *scorer_mapping;
extern int scorer_mapping_fd;

/* settings of the server's start */
extern int maxsim_slots;
extern int maxsim_slot_size; /* in kB */
extern char *maxsim_devices;
extern int maxsim_scorer_engine;

typedef enum ScorerEngine
{
	SCORER_ENGINE_OFF,
	SCORER_ENGINE_CUDA,
	SCORER_ENGINE_CPU
} ScorerEngine;

/*
 * scorer_preload		To be called while the library is being preloaded.
 * scorer_absence		Why there is no control structure.
 * scorer_sweep_slots	Frees abandoned slots that no running scorer uses.
 * scorer_worker_main	The background worker.
 */
extern void scorer_preload(void);
extern const char *scorer_absence(void);
extern void scorer_sweep_slots(void);
extern PGDLLEXPORT void scorer_worker_main(Datum arg);

#endif /* MAXSIM_SCORER_H */
