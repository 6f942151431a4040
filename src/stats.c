/*
 * stats.c
 *		See stats.h; and the SQL functions maxsim_stats and maxsim_stats_reset.
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "scorer.h"
#include "stats.h"

typedef struct StatsShared
{
	pg_atomic_uint64 counters[STATS_COUNTERS];
	pg_atomic_uint64 reset; /* TimestampTz of the last reset, or of the server's start */
} StatsShared;

StaticAssertDecl(STATS_FALLBACKS + NUM_FALLBACKS == STATS_FETCH_TIME, "each fallback has a counter");

StatsShared *stats_shared = NULL;

static shmem_startup_hook_type previous_shmem_startup = NULL;
#if PG_VERSION_NUM >= 150000
static shmem_request_hook_type previous_shmem_request = NULL;
#endif

static void
request_shared_memory(void)
{
#if PG_VERSION_NUM >= 150000
	if (previous_shmem_request != NULL)
		previous_shmem_request();
#endif
	RequestAddinShmemSpace(MAXALIGN(sizeof(StatsShared)));
}

static void
start_shared_memory(void)
{
	bool found;

	if (previous_shmem_startup != NULL)
		previous_shmem_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	stats_shared = ShmemInitStruct("flash_maxsim stats", sizeof(StatsShared), &found);
	if (!found)
	{
		for (int i = 0; i < STATS_COUNTERS; i++)
			pg_atomic_init_u64(&stats_shared->counters[i], 0);
		pg_atomic_init_u64(&stats_shared->reset, GetCurrentTimestamp());
	}
	LWLockRelease(AddinShmemInitLock);
}

void
stats_preload(void)
{
#if PG_VERSION_NUM >= 150000
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
#else
	request_shared_memory();
#endif
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
}

void
stats_add(StatsCounter counter, uint64 n)
{
	if (stats_shared != NULL && n > 0)
		pg_atomic_fetch_add_u64(&stats_shared->counters[counter], n);
}

void
stats_flush(Stats *stats)
{
	if (stats_shared == NULL && stats->totals == NULL)
		return;
	for (int i = 0; i < STATS_TIMES; i++)
	{
		uint64 time = INSTR_TIME_GET_MICROSEC(stats->times[i]);

		stats->counts[STATS_FETCH_TIME + i] = time - stats->flushed_times[i];
		stats->flushed_times[i] = time;
	}
	for (int i = 0; i < STATS_COUNTERS; i++)
	{
		stats_add(i, stats->counts[i]);
		if (stats->totals != NULL)
			stats->totals[i] += stats->counts[i];
		stats->counts[i] = 0;
	}
}

/* maxsim_stats(): the counters; zeros where the library was not preloaded. */
PG_FUNCTION_INFO_V1(maxsim_stats);
Datum
maxsim_stats(PG_FUNCTION_ARGS)
{
	TupleDesc tupdesc;
	Datum values[STATS_COUNTERS + 1];
	bool nulls[STATS_COUNTERS + 1] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	for (int i = 0; i < STATS_COUNTERS; i++)
		values[i] = Int64GetDatum(stats_shared ? (int64) pg_atomic_read_u64(&stats_shared->counters[i]) : 0);
	nulls[STATS_COUNTERS] = stats_shared == NULL;
	values[STATS_COUNTERS] = TimestampTzGetDatum(stats_shared ? (TimestampTz) pg_atomic_read_u64(&stats_shared->reset) : 0);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

/* maxsim_stats_reset(): what is added meanwhile may be counted before it or after it. */
PG_FUNCTION_INFO_V1(maxsim_stats_reset);
Datum
maxsim_stats_reset(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	if (stats_shared != NULL)
	{
		for (int i = 0; i < STATS_COUNTERS; i++)
			pg_atomic_write_u64(&stats_shared->counters[i], 0);
		pg_atomic_write_u64(&stats_shared->reset, GetCurrentTimestamp());
	}
	PG_RETURN_VOID();
}
