/*
 * stats.h
 *		Counters of what reranks and the document cache do, for maxsim_stats().
 *
 * They are in shared memory wherever the library was preloaded; elsewhere nothing is
 * counted but for EXPLAIN, and no times are taken.  A batch adds up on its own and flushes once a buffer.
 */
#ifndef MAXSIM_STATS_H
#define MAXSIM_STATS_H

#include "portability/instr_time.h"

/* In the order of maxsim_stats(); the script that creates it says what they count. */
typedef enum StatsCounter
{
	STATS_BATCHES,
	STATS_DOCUMENTS,
	STATS_HITS_HOST,
	STATS_HITS_GPU,
	STATS_MISSES,
	STATS_REFETCHED,
	STATS_BYTES_FETCHED,
	STATS_BYTES_UPLOADED,
	STATS_BYTES_READ_BY_GPU,
	STATS_ADMITTED_HOST,
	STATS_ADMITTED_GPU,
	STATS_EVICTED,
	STATS_MOVED,
	STATS_DOCUMENTS_CPU,
	STATS_DOCUMENTS_SCORER,
	STATS_FALLBACKS, /* one for each ScorerFallback */
	STATS_FETCH_TIME = STATS_FALLBACKS + 4,
	STATS_WAIT_TIME,
	STATS_SCORE_TIME,
	STATS_COUNTERS
} StatsCounter;

#define STATS_TIMES (STATS_COUNTERS - STATS_FETCH_TIME)

/* What is still to be flushed.  Zeros are a beginning. */
typedef struct Stats
{
	uint64 counts[STATS_COUNTERS];
	instr_time times[STATS_TIMES];     /* all of it, */
	uint64 flushed_times[STATS_TIMES]; /* so that flushing rounds but once */
	uint64 *totals;                    /* [STATS_COUNTERS], which are added to as well; or NULL */
} Stats;

/* NULL unless the library was preloaded. */
extern struct StatsShared *stats_shared;

/*
 * stats_preload	To be called while the library is being preloaded.
 * stats_flush		Adds counts and times to the shared ones.
 * stats_add		Adds to a shared counter at once.
 * stats_start, stats_stop
 *					The time between them is added to one of the times.
 */
extern void stats_preload(void);
extern void stats_flush(Stats *stats);
extern void stats_add(StatsCounter counter, uint64 n);

static inline void
stats_start(instr_time *start)
{
	if (stats_shared != NULL)
		INSTR_TIME_SET_CURRENT(*start);
	else
		INSTR_TIME_SET_ZERO(*start);
}

static inline void
stats_stop(Stats *stats, StatsCounter time, instr_time start)
{
	instr_time end;

	if (stats_shared == NULL)
		return;
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_ACCUM_DIFF(stats->times[time - STATS_FETCH_TIME], end, start);
}

#endif /* MAXSIM_STATS_H */
