/*
 * prewarm.c
 *		The SQL function maxsim_prewarm: documents of a source into the cache, without
 *		scoring them.
 */
#include "postgres.h"
#include "compat.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "batch.h"
#include "prewarm.h"
#include "source.h"
#include "toast.h"

/* A call of maxsim_prewarm. */
typedef struct Prewarm
{
	const Source *source;
	ArrayType *ids; /* NULL: all */
	Batch *batch;
	CacheLoad load;
	PrewarmProgress *progress;
	double interval_ms; /* of notices; 0: none */
	TimestampTz last_notice;
} Prewarm;

static void
give_notice(Prewarm *prewarm)
{
	TimestampTz now = GetCurrentTimestamp();

	if (now - prewarm->last_notice < prewarm->interval_ms * 1000)
		return;
	prewarm->last_notice = now;
	ereport(NOTICE,
			(errmsg("%llu documents read, %llu loaded, %llu MB",
					(unsigned long long) prewarm->load.documents, (unsigned long long) prewarm->load.loaded,
					(unsigned long long) prewarm->load.bytes >> 20)));
}

/* A SourceRow. */
static void
load_row(void *arg, int64 id, Datum document, bool is_null)
{
	Prewarm *prewarm = arg;

	prewarm->load.documents++;
	batch_add(prewarm->batch, id, document, is_null);
	progress_update(prewarm->progress, &prewarm->load);
	if (prewarm->interval_ms > 0)
		give_notice(prewarm);
}

/* A SourceRow, when the source is read for the first of two times. */
static void
count_row(void *arg, int64 id, Datum document, bool is_null)
{
	Prewarm *prewarm = arg;
	struct varatt_external pointer;
	uint32 size;
	CacheKey key;

	(void) id;
	if (is_null || !toast_is_external((struct varlena *) DatumGetPointer(document), &pointer, &size))
		return;
	key = cache_key(&pointer, prewarm->source->type);
	load_count(&prewarm->load, &key);
}

/* How many rows there will be; 0: not known. */
static uint64
expected_rows(const Source *source, ArrayType *ids)
{
	HeapTuple tuple;
	float4 rows = 0;

	if (ids != NULL)
		return ARR_NDIM(ids) == 0 ? 0 : ARR_DIMS(ids)[0];
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(source->relation));
	if (HeapTupleIsValid(tuple))
	{
		rows = ((Form_pg_class) GETSTRUCT(tuple))->reltuples;
		ReleaseSysCache(tuple);
	}
	return rows > 0 ? rows : 0;
}

/* Whether to load to the devices; an error where there is no such tier. */
static bool
choose_devices(const char *tier)
{
	const char *missing;

	if (strcmp(tier, "host") != 0 && strcmp(tier, "gpu") != 0 && strcmp(tier, "auto") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown tier \"%s\"", tier),
				 errhint("Tiers are auto, gpu and host.")));
	if (!cache_enabled())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no cache of documents"),
				 errhint("It needs shared_preload_libraries = 'flash_maxsim' and flash_maxsim.gpu_cache_size or flash_maxsim.host_cache_size at the server's start.")));

	missing = strcmp(tier, "host") == 0 ? "" : load_tier_missing(true);
	if (missing == NULL)
		return true;
	if (strcmp(tier, "gpu") == 0 || (strcmp(tier, "auto") == 0 && !cache_has(CACHE_HOST)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no cache of documents on a GPU: %s", missing),
				 errhint("It needs flash_maxsim.gpu_cache_size at the server's start, and a scorer that is ready.")));
	missing = load_tier_missing(false);
	if (missing != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no cache of documents in the host's memory: %s", missing),
				 errhint("It needs flash_maxsim.host_cache_size at the server's start.")));
	return false;
}

static void
read_rows(Prewarm *prewarm, SourceRow row)
{
	if (prewarm->ids == NULL)
		source_read_all(prewarm->source, row, prewarm);
	else if (ARR_NDIM(prewarm->ids) > 0)
		source_read(prewarm->source, prewarm->ids, row, prewarm);
}

/* Reading twice is only for what is no more than a table: a view may do anything. */
static void
load_source(Prewarm *prewarm, bool on_devices)
{
	load_init(&prewarm->load, on_devices);
	prewarm->last_notice = GetCurrentTimestamp();
	prewarm->progress = progress_begin(prewarm->source->name, expected_rows(prewarm->source, prewarm->ids));
	PG_TRY();
	{
		if (prewarm->source->is_plain && !load_tiers_are_empty(&prewarm->load))
			read_rows(prewarm, count_row);
		prewarm->batch = batch_begin_load(&prewarm->load, prewarm->source->type, prewarm->source->name);
		read_rows(prewarm, load_row);
		batch_end(prewarm->batch);
	}
	PG_FINALLY();
	{
		progress_end(prewarm->progress);
	}
	PG_END_TRY();
}

/* maxsim_prewarm(source text, ids bigint[], tier text, progress_interval double precision) */
PG_FUNCTION_INFO_V1(maxsim_prewarm);
Datum
maxsim_prewarm(PG_FUNCTION_ARGS)
{
	Prewarm prewarm = {0};
	ArrayType *ids = PG_ARGISNULL(1) ? NULL : PG_GETARG_ARRAYTYPE_P(1);
	char *name = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	double interval = PG_ARGISNULL(3) ? 0 : PG_GETARG_FLOAT8(3);
	bool on_devices;
	TupleDesc tupdesc;
	Datum values[7];
	bool nulls[7] = {false};
	int n = 0;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (isnan(interval) || interval < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("progress_interval must be a number of seconds, or 0 for none, not %g", interval)));
	if (ids != NULL)
		source_check_ids(ids);
	on_devices = choose_devices(PG_ARGISNULL(2) ? "auto" : text_to_cstring(PG_GETARG_TEXT_PP(2)));
	prewarm.source = source_resolve(name, fcinfo->flinfo->fn_oid);
	prewarm.ids = ids;
	prewarm.interval_ms = interval * 1000;
	load_source(&prewarm, on_devices);

	values[n++] = Int64GetDatum(prewarm.load.documents);
	values[n++] = Int64GetDatum(prewarm.load.loaded);
	values[n++] = Int64GetDatum(prewarm.load.already);
	values[n++] = Int64GetDatum(prewarm.load.uncached);
	values[n++] = Int64GetDatum(prewarm.load.too_large);
	values[n++] = Int64GetDatum(prewarm.load.no_room);
	values[n++] = Int64GetDatum(prewarm.load.bytes);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
