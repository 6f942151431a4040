/*
 * prewarm_progress.c
 *		Loads in progress, as other sessions see them: prewarm.h.
 */
#include "postgres.h"
#include "compat.h"

#include "mb/pg_wchar.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "prewarm.h"

#define MAX_PROGRESS 16

struct PrewarmProgress
{
	int pid; /* 0: none; this and what follows until the counters under the mutex */
	Oid database;
	uint64 total;
	TimestampTz started;
	char source[4 * NAMEDATALEN];

	pg_atomic_uint64 documents;
	pg_atomic_uint64 loaded;
	pg_atomic_uint64 bytes;
};

static struct
{
	slock_t mutex;
	PrewarmProgress records[MAX_PROGRESS];
} *shared = NULL;

Size
progress_shared_size(void)
{
	return MAXALIGN(sizeof(*shared));
}

void
progress_start(void)
{
	bool found;

	shared = ShmemInitStruct("flash_maxsim prewarm", sizeof(*shared), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(*shared));
	SpinLockInit(&shared->mutex);
	for (int i = 0; i < MAX_PROGRESS; i++)
	{
		pg_atomic_init_u64(&shared->records[i].documents, 0);
		pg_atomic_init_u64(&shared->records[i].loaded, 0);
		pg_atomic_init_u64(&shared->records[i].bytes, 0);
	}
}

static void
end_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	SpinLockAcquire(&shared->mutex);
	for (int i = 0; i < MAX_PROGRESS; i++)
	{
		if (shared->records[i].pid == MyProcPid)
			shared->records[i].pid = 0;
	}
	SpinLockRelease(&shared->mutex);
}

PrewarmProgress *
progress_begin(const char *source, uint64 total)
{
	static bool registered = false;
	TimestampTz now = GetCurrentTimestamp();
	/* cut between two characters */
	int length = pg_mbcliplen(source, strlen(source), sizeof(shared->records[0].source) - 1);
	PrewarmProgress *progress = NULL;

	if (shared == NULL)
		return NULL;
	if (!registered)
		before_shmem_exit(end_at_exit, 0);
	registered = true;
	SpinLockAcquire(&shared->mutex);
	for (int i = 0; i < MAX_PROGRESS && progress == NULL; i++)
	{
		if (shared->records[i].pid == 0)
			progress = &shared->records[i];
	}
	if (progress != NULL)
	{
		progress->pid = MyProcPid;
		progress->database = MyDatabaseId;
		progress->total = total;
		progress->started = now;
		memcpy(progress->source, source, length);
		progress->source[length] = '\0';
		pg_atomic_write_u64(&progress->documents, 0);
		pg_atomic_write_u64(&progress->loaded, 0);
		pg_atomic_write_u64(&progress->bytes, 0);
	}
	SpinLockRelease(&shared->mutex);
	return progress;
}

void
progress_update(PrewarmProgress *progress, const CacheLoad *load)
{
	if (progress == NULL)
		return;
	pg_atomic_write_u64(&progress->documents, load->documents);
	pg_atomic_write_u64(&progress->loaded, load->loaded);
	pg_atomic_write_u64(&progress->bytes, load->bytes);
}

void
progress_end(PrewarmProgress *progress)
{
	if (progress == NULL)
		return;
	SpinLockAcquire(&shared->mutex);
	progress->pid = 0;
	SpinLockRelease(&shared->mutex);
}

/* maxsim_prewarm_progress(): a row for each load in progress. */
PG_FUNCTION_INFO_V1(maxsim_prewarm_progress);
Datum
maxsim_prewarm_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < MAX_PROGRESS && shared != NULL; i++)
	{
		PrewarmProgress *record = &shared->records[i];
		PrewarmProgress copy;
		Datum values[8];
		bool nulls[8] = {false};
		int n = 0;

		SpinLockAcquire(&shared->mutex);
		memcpy(&copy, record, offsetof(PrewarmProgress, documents));
		SpinLockRelease(&shared->mutex);
		if (copy.pid == 0)
			continue;
		values[n++] = Int32GetDatum(copy.pid);
		values[n++] = ObjectIdGetDatum(copy.database);
		values[n++] = CStringGetTextDatum(copy.source);
		values[n++] = Int64GetDatum(pg_atomic_read_u64(&record->documents));
		values[n++] = Int64GetDatum(pg_atomic_read_u64(&record->loaded));
		values[n++] = Int64GetDatum(pg_atomic_read_u64(&record->bytes));
		nulls[n] = copy.total == 0;
		values[n++] = Int64GetDatum(copy.total);
		values[n++] = TimestampTzGetDatum(copy.started);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
