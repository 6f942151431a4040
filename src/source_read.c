/*
 * source_read.c
 *		Reading the rows of a source by id: see source.h.
 *
 * Rows are read by queries of our own through SPI, so that column privileges, row
 * security, views, partitions, foreign tables and any index on the id work as in
 * a query of the caller's; a receiver of our own takes each row's document without
 * detoasting it.
 *
 * There are three ways.  By id, as the caller would, in a partitioned table one by one
 * where that spares its partitions.  By place: the cache remembers
 * where a row with an id was last seen, and a row that is visible there and has the id
 * is the row, where a unique index says that there is no other; what is not found so is
 * looked up by id.  That saves descending an index, and all sessions meet at its root.
 * And by reading all of a table that is not much larger than the list of ids.
 */
#include "postgres.h"
#include "compat.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "optimizer/plancat.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "cache.h"
#include "source.h"

/* A table of so many rows an id, and of a page an id, is read as a whole. */
#define SCAN_ROWS_PER_ID 4

/* For fewer ids, or where fewer than half have a known place, a query more is not worth it. */
#define MIN_PLACES 8

/* Ids that lie within so many bits are looked up in a bitmap. */
#define MAX_BITMAP_BITS (UINT64CONST(1) << 26)

/* Plans that the session keeps, found by the text of their query. */
#define MAX_PLANS 16

typedef struct KeptPlan
{
	char *sql;
	Oid argument_type;
	int cursor_options;
	SPIPlanPtr plan;
} KeptPlan;

static KeptPlan kept_plans[MAX_PLANS];
static int next_plan = 0;

/* reads in progress: a source can be a view that reads another source */
static int depth = 0;

/* An id and where its row should be. */
typedef struct Place
{
	uint64 tid; /* block and offset, in their order */
	int64 id;
	bool found;
} Place;

/* The ids that are wanted of all that are read. */
typedef struct WantedIds
{
	const int64 *ids; /* [n], sorted, where there is no bitmap */
	int n;
	int64 least;
	int64 most;
	uint8 *bitmap;
} WantedIds;

/* What receives the rows of the query. */
typedef struct RowReceiver
{
	DestReceiver pub;
	const Source *source;
	SourceRow row;
	void *arg;
	const WantedIds *wanted; /* NULL: every row is */
	Place *places;           /* [nplaces], by tid; NULL: rows may be anywhere */
	int nplaces;
	int next_place;
} RowReceiver;

#define ST_SORT sort_places
#define ST_ELEMENT_TYPE Place
#define ST_COMPARE(a, b) ((a)->tid < (b)->tid ? -1 : (a)->tid > (b)->tid)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

#define ST_SORT sort_ids
#define ST_ELEMENT_TYPE int64
#define ST_COMPARE(a, b) (*(a) < *(b) ? -1 : *(a) > *(b))
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * The plan of a query, kept from an earlier call where there was one.  PostgreSQL
 * re-plans it by itself when the relation or the role has changed.
 */
static SPIPlanPtr
plan_of(const char *sql, Oid argument_type, int cursor_options)
{
	KeptPlan *kept;
	SPIPlanPtr plan;

	for (int i = 0; i < MAX_PLANS; i++)
	{
		kept = &kept_plans[i];
		if (kept->sql != NULL && kept->argument_type == argument_type &&
			kept->cursor_options == cursor_options && strcmp(kept->sql, sql) == 0)
			return kept->plan;
	}

	plan = SPI_prepare_cursor(sql, OidIsValid(argument_type) ? 1 : 0, &argument_type, cursor_options);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));

	kept = &kept_plans[next_plan];
	if (kept->sql != NULL)
	{
		/* a calling level may be executing it */
		if (depth > 0)
			return plan;
		SPI_freeplan(kept->plan);
		pfree(kept->sql);
		kept->sql = NULL;
	}
	next_plan = (next_plan + 1) % MAX_PLANS;
	SPI_keepplan(plan);
	kept->plan = plan;
	kept->argument_type = argument_type;
	kept->cursor_options = cursor_options;
	kept->sql = MemoryContextStrdup(TopMemoryContext, sql);
	return plan;
}

static void
receiver_startup(DestReceiver *self, int operation, TupleDesc tupdesc)
{
	RowReceiver *receiver = (RowReceiver *) self;

	(void) operation;
	if (getBaseType(TupleDescAttr(tupdesc, 0)->atttypid) != receiver->source->id_type ||
		getBaseType(TupleDescAttr(tupdesc, 1)->atttypid) != receiver->source->document_type)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("source \"%s\" was altered while it was being read", receiver->source->name)));
}

/* Whether an id is in a sorted list; *position is where it first is, or would be. */
static bool
find_id(const int64 *ids, int n, int64 id, int *position)
{
	int low = 0;
	int high = n;

	while (low < high)
	{
		int middle = low + (high - low) / 2;

		if (ids[middle] < id)
			low = middle + 1;
		else
			high = middle;
	}
	*position = low;
	return low < n && ids[low] == id;
}

static bool
is_wanted(const WantedIds *wanted, int64 id)
{
	int position;

	if (id < wanted->least || id > wanted->most)
		return false;
	if (wanted->bitmap != NULL)
	{
		uint64 bit = (uint64) id - (uint64) wanted->least;

		return (wanted->bitmap[bit / 8] >> bit % 8 & 1) != 0;
	}
	return find_id(wanted->ids, wanted->n, id, &position);
}

static uint64
tid_number(const ItemPointerData *tid)
{
	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16 | ItemPointerGetOffsetNumberNoCheck(tid);
}

/*
 * Whether the row at tid was looked for there by that id.  Rows come in the order of
 * places, as a rule.
 */
static bool
is_in_place(RowReceiver *receiver, uint64 tid, int64 id)
{
	Place *places = receiver->places;
	int i = receiver->next_place;
	bool found = false;

	if (i > 0 && places[i - 1].tid >= tid)
		i = 0;
	while (i < receiver->nplaces && places[i].tid < tid)
		i++;
	receiver->next_place = i;
	for (; i < receiver->nplaces && places[i].tid == tid; i++)
	{
		/* an id that was asked for twice is still one row */
		if (places[i].id == id)
			found = places[i].found = true;
	}
	return found;
}

static bool
receiver_row(TupleTableSlot *slot, DestReceiver *self)
{
	RowReceiver *receiver = (RowReceiver *) self;
	const Source *source = receiver->source;
	int64 key;
	bool is_null;
	Datum id = slot_getattr(slot, 1, &is_null);
	Datum document;

	if (is_null)
		return true; /* only where all rows are read */
	switch (source->id_type)
	{
		case INT8OID:
			key = DatumGetInt64(id);
			break;
		case INT4OID:
			key = DatumGetInt32(id);
			break;
		default:
			key = DatumGetInt16(id);
	}
	if (receiver->wanted != NULL && !is_wanted(receiver->wanted, key))
		return true;
	document = slot_getattr(slot, 2, &is_null);
	if (source->shows_ctid && (receiver->places != NULL || receiver->wanted == NULL))
	{
		bool no_tid;
		ItemPointer tid = (ItemPointer) DatumGetPointer(slot_getattr(slot, 3, &no_tid));

		if (receiver->places != NULL)
		{
			if (!is_in_place(receiver, tid_number(tid), key))
				return true;
		}
		else if (source->has_unique_index)
			cache_put_place(source->relation, key, tid_number(tid));
	}
	receiver->row(receiver->arg, key, document, is_null);
	return true;
}

static void
receiver_shutdown(DestReceiver *self)
{
	(void) self;
}

/* A query of the source's rows, of all that meet a condition. */
static char *
select_rows(const Source *source, const char *condition)
{
	return psprintf("SELECT %s, %s%s FROM %s%s", source->id_column, source->document_column,
					source->shows_ctid ? ", ctid" : "", source->relation_name, condition);
}

/* Runs such a query, whose argument is an array, and frees its text. */
static void
run_query(RowReceiver *receiver, char *sql, Oid argument_type, Datum argument, int cursor_options)
{
	ParamListInfo params = makeParamList(1);
	SPIExecuteOptions options = {0};
	SPIPlanPtr plan;
	int result;

	params->params[0].value = argument;
	params->params[0].isnull = false;
	params->params[0].pflags = PARAM_FLAG_CONST;
	params->params[0].ptype = argument_type;
	options.params = OidIsValid(argument_type) ? params : NULL;
	options.read_only = true;
	options.dest = &receiver->pub;

	SPI_connect();
	plan = plan_of(sql, argument_type, cursor_options);
	depth++;
	PG_TRY();
	{
		result = SPI_execute_plan_extended(plan, &options);
	}
	PG_FINALLY();
	{
		depth--;
	}
	PG_END_TRY();
	if (result != SPI_OK_SELECT)
		elog(ERROR, "could not execute \"%s\": %s", sql, SPI_result_code_string(result));
	SPI_finish();
	pfree(sql);
}

/* An array of n elements of a type of fixed length, to be filled. */
static ArrayType *
make_array(Oid type, int n, Size element_size)
{
	Size size = ARR_OVERHEAD_NONULLS(1) + n * element_size;
	ArrayType *array = palloc_extended(size, MCXT_ALLOC_HUGE);

	SET_VARSIZE(array, size);
	array->ndim = 1;
	array->dataoffset = 0;
	array->elemtype = type;
	*ARR_DIMS(array) = n;
	*ARR_LBOUND(array) = 1;
	return array;
}

/*
 * The ids in the type of the id column, because PostgreSQL looks up in a hash table
 * only what has the same type.  An id that this type cannot hold is not in the source.
 */
static ArrayType *
ids_for_column(ArrayType *ids, Oid id_type)
{
	const int64 *from = (const int64 *) ARR_DATA_PTR(ids);
	int n = ArrayGetNItems(ARR_NDIM(ids), ARR_DIMS(ids));
	int kept = 0;
	ArrayType *result;
	int32 *to_int4;
	int16 *to_int2;

	if (id_type == INT8OID)
		return ids;
	result = palloc(ARR_OVERHEAD_NONULLS(1) + n * sizeof(int32));
	to_int4 = (int32 *) ((char *) result + ARR_OVERHEAD_NONULLS(1));
	to_int2 = (int16 *) to_int4;
	for (int i = 0; i < n; i++)
	{
		if (id_type == INT4OID && from[i] >= PG_INT32_MIN && from[i] <= PG_INT32_MAX)
			to_int4[kept++] = from[i];
		else if (id_type == INT2OID && from[i] >= PG_INT16_MIN && from[i] <= PG_INT16_MAX)
			to_int2[kept++] = from[i];
	}
	if (kept == 0)
		return construct_empty_array(id_type);
	SET_VARSIZE(result, ARR_OVERHEAD_NONULLS(1) + kept * (id_type == INT4OID ? sizeof(int32) : sizeof(int16)));
	result->ndim = 1;
	result->dataoffset = 0;
	result->elemtype = id_type;
	*ARR_DIMS(result) = kept;
	*ARR_LBOUND(result) = 1;
	return result;
}

static void
read_by_id(RowReceiver *receiver, ArrayType *ids)
{
	const Source *source = receiver->source;
	char *condition = psprintf(" WHERE %s OPERATOR(pg_catalog.=) ANY ($1)", source->id_column);

	/*
	 * With an index on the id, the plan is the same for any ids, and planning for
	 * a thousand of them would cost more than it helps.  Without one, the rows are
	 * scanned, and only a plan that knows the ids looks them up in a hash table, or
	 * leaves out other servers.
	 */
	run_query(receiver, select_rows(source, condition), source->ids_type,
			  PointerGetDatum(ids_for_column(ids, source->id_type)),
			  source->has_index && !source->is_spread ? CURSOR_OPT_GENERIC_PLAN : CURSOR_OPT_CUSTOM_PLAN);
	pfree(condition);
}

/*
 * Where an id says in which partition its row is, each is looked up by itself, in that
 * one: a list would be looked up in every partition, as a whole.  OFFSET 0 keeps the
 * planner from another kind of join, which it would choose for fewer ids than come.
 */
static void
read_by_partition(RowReceiver *receiver, ArrayType *ids)
{
	const Source *source = receiver->source;
	int n = ArrayGetNItems(ARR_NDIM(ids), ARR_DIMS(ids));
	ArrayType *sorted = make_array(INT8OID, n, sizeof(int64));
	int64 *list = (int64 *) ARR_DATA_PTR(sorted);
	int kept = 0;

	memcpy(list, ARR_DATA_PTR(ids), n * sizeof(int64));
	sort_ids(list, n);
	for (int i = 0; i < n; i++)
	{
		if (kept == 0 || list[i] != list[kept - 1])
			list[kept++] = list[i];
	}
	*ARR_DIMS(sorted) = kept;
	SET_VARSIZE(sorted, ARR_OVERHEAD_NONULLS(1) + kept * sizeof(int64));
	run_query(receiver,
			  psprintf("SELECT found.* FROM pg_catalog.unnest($1) AS wanted (id), LATERAL "
					   "(SELECT d.%s, d.%s FROM %s AS d WHERE d.%s OPERATOR(pg_catalog.=) wanted.id OFFSET 0) AS found",
					   source->id_column, source->document_column, source->relation_name, source->id_column),
			  source->ids_type, PointerGetDatum(ids_for_column(sorted, source->id_type)), CURSOR_OPT_GENERIC_PLAN);
}

/* Whether the table has not many more rows and pages than there are ids. */
static bool
is_small_for(const Source *source, int n)
{
	Relation relation = table_open(source->relation, AccessShareLock);
	BlockNumber pages;
	double tuples;
	double all_visible;

	estimate_rel_size(relation, NULL, &pages, &tuples, &all_visible);
	table_close(relation, AccessShareLock);
	return pages <= (BlockNumber) n && tuples <= (double) n * SCAN_ROWS_PER_ID;
}

static void
read_and_choose(RowReceiver *receiver, const int64 *ids, int n)
{
	WantedIds wanted = {NULL, n, PG_INT64_MAX, PG_INT64_MIN, NULL};
	uint64 range;

	for (int i = 0; i < n; i++)
	{
		wanted.least = Min(wanted.least, ids[i]);
		wanted.most = Max(wanted.most, ids[i]);
	}
	range = (uint64) wanted.most - (uint64) wanted.least;
	if (range < MAX_BITMAP_BITS)
	{
		wanted.bitmap = palloc0(range / 8 + 1);
		for (int i = 0; i < n; i++)
		{
			uint64 bit = (uint64) ids[i] - (uint64) wanted.least;

			wanted.bitmap[bit / 8] |= 1 << bit % 8;
		}
	}
	else
	{
		int64 *sorted = palloc_extended(n * sizeof(int64), MCXT_ALLOC_HUGE);

		memcpy(sorted, ids, n * sizeof(int64));
		sort_ids(sorted, n);
		wanted.ids = sorted;
	}
	receiver->wanted = &wanted;
	run_query(receiver, select_rows(receiver->source, ""), InvalidOid, (Datum) 0, CURSOR_OPT_GENERIC_PLAN);
	receiver->wanted = NULL;
}

/*
 * Takes ids that were found out of those that are still to be looked up.  The place of an
 * id that is given twice may have been changed by another session between the two: then
 * its row was in one of them and not in the other.  Returns how many are left.
 */
static int
drop_found(int64 *missing, int nmissing, const Place *places, int nplaces)
{
	bool *drop = palloc0(nmissing);
	int nunique = 0;
	int left = 0;
	int position;

	sort_ids(missing, nmissing);
	for (int i = 0; i < nmissing; i++)
	{
		if (nunique == 0 || missing[i] != missing[nunique - 1])
			missing[nunique++] = missing[i];
	}
	for (int i = 0; i < nplaces; i++)
	{
		if (places[i].found && find_id(missing, nunique, places[i].id, &position))
			drop[position] = true;
	}
	for (int i = 0; i < nunique; i++)
	{
		if (!drop[i])
			missing[left++] = missing[i];
	}
	pfree(drop);
	return left;
}

/*
 * Reads rows where they were last seen, if enough places are known; returns the ids that
 * are still to be looked up, NULL if none is.
 */
static ArrayType *
read_in_places(RowReceiver *receiver, ArrayType *ids)
{
	const int64 *list = (const int64 *) ARR_DATA_PTR(ids);
	int n = ArrayGetNItems(ARR_NDIM(ids), ARR_DIMS(ids));
	Place *places;
	int64 *missing;
	ArrayType *tids;
	ArrayType *rest;
	int nplaces = 0;
	int nmissing = 0;

	/* beyond that, an array of places would not fit into a gigabyte */
	if (n < MIN_PLACES || n > 64 * 1024 * 1024)
		return ids;
	places = palloc_extended(n * sizeof(Place), MCXT_ALLOC_HUGE);
	missing = palloc_extended(n * sizeof(int64), MCXT_ALLOC_HUGE);
	for (int i = 0; i < n; i++)
	{
		Place *place = &places[nplaces];

		place->id = list[i];
		place->found = false;
		if (cache_get_place(receiver->source->relation, list[i], &place->tid))
			nplaces++;
		else
			missing[nmissing++] = list[i];
	}
	if (nplaces < n / 2)
		return ids;

	sort_places(places, nplaces);
	tids = make_array(TIDOID, nplaces, sizeof(ItemPointerData));
	for (int i = 0; i < nplaces; i++)
		ItemPointerSet((ItemPointerData *) ARR_DATA_PTR(tids) + i, places[i].tid >> 16, places[i].tid & 0xffff);
	receiver->places = places;
	receiver->nplaces = nplaces;
	run_query(receiver, select_rows(receiver->source, " WHERE ctid OPERATOR(pg_catalog.=) ANY ($1)"), get_array_type(TIDOID),
			  PointerGetDatum(tids), CURSOR_OPT_GENERIC_PLAN);
	receiver->places = NULL;

	for (int i = 0; i < nplaces; i++)
	{
		if (!places[i].found)
			missing[nmissing++] = places[i].id;
	}
	if (nmissing > 0)
		nmissing = drop_found(missing, nmissing, places, nplaces);
	if (nmissing == 0)
		return NULL;
	rest = make_array(INT8OID, nmissing, sizeof(int64));
	memcpy(ARR_DATA_PTR(rest), missing, nmissing * sizeof(int64));
	return rest;
}

void
source_read(const Source *source, ArrayType *ids, SourceRow row, void *arg)
{
	/* SPI takes DestNone for a caller that wants no rows */
	RowReceiver receiver = {{receiver_row, receiver_startup, receiver_shutdown, receiver_shutdown, DestTuplestore}, source, row, arg, NULL, NULL, 0, 0};
	int n = ArrayGetNItems(ARR_NDIM(ids), ARR_DIMS(ids));

	if (source->is_plain && n > 0 && is_small_for(source, n))
	{
		read_and_choose(&receiver, (const int64 *) ARR_DATA_PTR(ids), n);
		return;
	}
	if (source->shows_ctid && source->has_unique_index && cache_enabled())
		ids = read_in_places(&receiver, ids);
	if (ids != NULL && source->is_divided_by_id && !source->is_spread)
		read_by_partition(&receiver, ids);
	else if (ids != NULL)
		read_by_id(&receiver, ids);
}

void
source_read_all(const Source *source, SourceRow row, void *arg)
{
	RowReceiver receiver = {{receiver_row, receiver_startup, receiver_shutdown, receiver_shutdown, DestTuplestore}, source, row, arg, NULL, NULL, 0, 0};

	run_query(&receiver, select_rows(source, ""), InvalidOid, (Datum) 0, CURSOR_OPT_GENERIC_PLAN);
}
