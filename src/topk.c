/*
 * topk.c
 *		The aggregate maxsim_topk(query, id, document, k[, weights]): the ids of the best k
 *		documents of a group.
 *
 * Documents of all groups of a node go to one batch, as long as they are scored against
 * the same query; what it holds is scored when it is full, and when a result is asked
 * for.  A group keeps the best k and at most as many again.
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "libpq/pqformat.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "batch.h"

/* more would not be a few best ones; and twice as many fit into memory */
#define MAX_K 1000000

typedef struct Hit
{
	Datum id;
	bool is_null;
	float score;
} Hit;

/* What the groups of an aggregate node share; belongs to its call site. */
typedef struct CallSite
{
	MemoryContext context; /* of the query and the batch */
	struct varlena *query_value;
	struct varlena *weights_value; /* NULL: none */
	PreparedQuery query;
	Batch *batch; /* NULL: nothing is waiting to be scored */
	MemoryContextCallback emptied;
	bool has_one_query; /* and weights: the same for all rows, so that nobody need compare them */
} CallSite;

/* A group's state. */
typedef struct Topk
{
	MemoryContext context;
	TypeCacheEntry *type; /* of ids */
	int k;
	int n;
	int capacity;
	Hit *hits;      /* [capacity] */
	CallSite *site; /* NULL: came from elsewhere, all scored */
	MemoryContextCallback forget;
} Topk;

/* A document that waits to be scored. */
typedef struct Waiting
{
	Topk *topk;
	Datum id;
	bool is_null;
} Waiting;

/* Best first: by score, then by id, as the id's type orders it. */
static int
compare_hits(const Hit *a, const Hit *b, TypeCacheEntry *type)
{
	if (a->score != b->score)
		return a->score > b->score ? -1 : 1;
	if (a->is_null || b->is_null)
		return (int) a->is_null - (int) b->is_null;
	if (!OidIsValid(type->cmp_proc_finfo.fn_oid))
		return 0;
	return DatumGetInt32(FunctionCall2Coll(&type->cmp_proc_finfo, type->typcollation, a->id, b->id));
}

#define ST_SORT sort_hits
#define ST_ELEMENT_TYPE Hit
#define ST_COMPARE_ARG_TYPE TypeCacheEntry
#define ST_COMPARE(a, b, type) compare_hits(a, b, type)
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

static void
free_id(const Topk *topk, const Hit *hit)
{
	if (!topk->type->typbyval && !hit->is_null)
		pfree(DatumGetPointer(hit->id));
}

/* Drops what is not among the best k. */
static void
keep_best(Topk *topk)
{
	sort_hits(topk->hits, topk->n, topk->type);
	for (int i = topk->k; i < topk->n; i++)
		free_id(topk, &topk->hits[i]);
	topk->n = Min(topk->n, topk->k);
}

static void
add_hit(Topk *topk, Hit hit)
{
	if (topk->n == topk->capacity)
	{
		if (topk->n >= 2 * topk->k)
			keep_best(topk);
		else
		{
			topk->capacity = Min(2 * topk->capacity, 2 * topk->k);
			topk->hits = repalloc_huge(topk->hits, topk->capacity * sizeof(Hit));
		}
	}
	topk->hits[topk->n++] = hit;
}

/* The id in the group's own memory. */
static Datum
copy_id(const Topk *topk, Datum id, bool is_null)
{
	MemoryContext old;

	if (is_null || topk->type->typbyval)
		return id;
	old = MemoryContextSwitchTo(topk->context);
	id = topk->type->typlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(id))
								  : datumCopy(id, false, topk->type->typlen);
	MemoryContextSwitchTo(old);
	return id;
}

static Topk *
new_topk(MemoryContext context, Oid id_type, int k)
{
	Topk *topk = MemoryContextAllocZero(context, sizeof(Topk));

	topk->context = context;
	topk->type = lookup_type_cache(id_type, TYPECACHE_CMP_PROC_FINFO);
	topk->k = k;
	topk->capacity = Min(2 * k, 16);
	topk->hits = MemoryContextAllocHuge(context, topk->capacity * sizeof(Hit));
	return topk;
}

/* A BatchDeliver, with the address of a Waiting as the id. */
static void
deliver(void *arg, int64 id, float score, bool is_null)
{
	Waiting *waiting = (Waiting *) (uintptr_t) id;
	Hit hit = {waiting->id, waiting->is_null, score};

	(void) arg;
	/* without tokens there is no score, and no place in a ranking */
	if (is_null)
		free_id(waiting->topk, &hit);
	else
		add_hit(waiting->topk, hit);
	pfree(waiting);
}

/* Has everything scored that is waiting. */
static void
finish_batch(CallSite *site)
{
	Batch *batch = site == NULL ? NULL : site->batch;

	if (batch == NULL)
		return;
	site->batch = NULL;
	batch_end(batch);
}

/* When a group's memory goes before its result was asked for: documents that wait go too. */
static void
forget(void *arg)
{
	Topk *topk = arg;

	if (topk->site->batch != NULL)
		MemoryContextReset(topk->site->context);
}

/*
 * When the call site's own memory goes, or is emptied.  After an error it may go before
 * that of the groups, which must not touch it then.
 */
static void
emptied(void *arg)
{
	CallSite *site = arg;

	site->batch = NULL;
	site->query_value = NULL;
}

/* Whether an aggregate's argument, counted from 0, is a constant or a parameter, or not there. */
static bool
is_constant(const Aggref *aggregate, int n)
{
	const Node *expression;

	if (n >= list_length(aggregate->aggargtypes))
		return true;
	expression = (const Node *) ((const TargetEntry *) list_nth(aggregate->args, n))->expr;
	return IsA(expression, Const) || (IsA(expression, Param) && ((const Param *) expression)->paramkind == PARAM_EXTERN);
}

static CallSite *
call_site(FunctionCallInfo fcinfo)
{
	CallSite *site = fcinfo->flinfo->fn_extra;

	if (site == NULL)
	{
		const Aggref *aggregate = AggGetAggref(fcinfo);

		site = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(CallSite));
		site->context = AllocSetContextCreate(fcinfo->flinfo->fn_mcxt, "maxsim_topk", ALLOCSET_DEFAULT_SIZES);
		site->has_one_query = aggregate != NULL && is_constant(aggregate, 0) && is_constant(aggregate, 4);
		fcinfo->flinfo->fn_extra = site;
	}
	return site;
}

/* Makes the call site's batch one for the row's query and weights. */
static void
open_batch(CallSite *site, FunctionCallInfo fcinfo)
{
	const Multivec *query;
	const ArrayType *weights;
	MemoryContext old;
	Tokens tokens;

	if (site->has_one_query && site->batch != NULL)
		return;
	query = PG_GETARG_MULTIVEC_P(1);
	weights = PG_NARGS() > 5 && !PG_ARGISNULL(5) ? PG_GETARG_ARRAYTYPE_P(5) : NULL;
	if (site->query_value != NULL && (!query_same_value(site->query_value, query) ||
									  !query_same_value(site->weights_value, weights)))
	{
		finish_batch(site);
		MemoryContextReset(site->context);
	}
	old = MemoryContextSwitchTo(site->context);
	if (site->query_value == NULL)
	{
		struct varlena *copy = query_keep_value(query);

		site->weights_value = query_keep_value(weights);
		tokens = tokens_from_multivec((Multivec *) copy);
		query_init(&site->query, &tokens, (ArrayType *) site->weights_value, SCORE_SUM);
		site->query_value = copy;
		site->emptied.func = emptied;
		site->emptied.arg = site;
		MemoryContextRegisterResetCallback(site->context, &site->emptied);
	}
	if (site->batch == NULL)
		site->batch = batch_begin(&site->query, DOCUMENT_MULTIVEC, NULL, deliver, NULL);
	MemoryContextSwitchTo(old);
}

static MemoryContext
aggregate_context(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "maxsim_topk called outside of an aggregation");
	return context;
}

/* maxsim_topk_add(internal, query multivec, id anyelement, document multivec, k integer[, weights double precision[]]) */
PG_FUNCTION_INFO_V1(maxsim_topk_add);
Datum
maxsim_topk_add(PG_FUNCTION_ARGS)
{
	MemoryContext context = aggregate_context(fcinfo);
	Topk *topk = PG_ARGISNULL(0) ? NULL : (Topk *) PG_GETARG_POINTER(0);
	CallSite *site = call_site(fcinfo);
	Waiting *waiting;
	int k;

	if (PG_ARGISNULL(4))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("k must not be NULL")));
	k = PG_GETARG_INT32(4);
	if (k < 1 || k > MAX_K)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("k must be from 1 to %d, not %d", MAX_K, k)));
	if (topk == NULL)
	{
		Oid type = get_fn_expr_argtype(fcinfo->flinfo, 2);

		if (!OidIsValid(type))
			elog(ERROR, "could not determine the type of ids");
		topk = new_topk(context, type, k);
		topk->site = site;
		topk->forget.func = forget;
		topk->forget.arg = topk;
		MemoryContextRegisterResetCallback(context, &topk->forget);
	}
	else if (topk->k != k)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("k must be the same for all rows of a group, not %d and %d", topk->k, k)));
	if (PG_ARGISNULL(1) || PG_ARGISNULL(3))
		PG_RETURN_POINTER(topk);

	open_batch(site, fcinfo);
	waiting = MemoryContextAlloc(context, sizeof(Waiting));
	waiting->topk = topk;
	waiting->is_null = PG_ARGISNULL(2);
	waiting->id = waiting->is_null ? (Datum) 0 : copy_id(topk, PG_GETARG_DATUM(2), false);
	batch_add(site->batch, (int64) (uintptr_t) waiting, PG_GETARG_DATUM(3), false);
	PG_RETURN_POINTER(topk);
}

/* The state with everything scored and nothing but the best k. */
static Topk *
finished(Topk *topk)
{
	finish_batch(topk->site);
	keep_best(topk);
	return topk;
}

/* maxsim_topk_combine(internal, internal) */
PG_FUNCTION_INFO_V1(maxsim_topk_combine);
Datum
maxsim_topk_combine(PG_FUNCTION_ARGS)
{
	MemoryContext context = aggregate_context(fcinfo);
	Topk *to = PG_ARGISNULL(0) ? NULL : (Topk *) PG_GETARG_POINTER(0);
	Topk *from = PG_ARGISNULL(1) ? NULL : (Topk *) PG_GETARG_POINTER(1);

	if (from == NULL)
	{
		if (to == NULL)
			PG_RETURN_NULL();
		PG_RETURN_POINTER(to);
	}
	finished(from);
	if (to == NULL)
		to = new_topk(context, from->type->type_id, from->k);
	else if (to->k != from->k)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("k must be the same for all rows of a group, not %d and %d", to->k, from->k)));
	for (int i = 0; i < from->n; i++)
	{
		Hit hit = from->hits[i];

		hit.id = copy_id(to, hit.id, hit.is_null);
		add_hit(to, hit);
	}
	PG_RETURN_POINTER(to);
}

/* maxsim_topk_serial(internal) */
PG_FUNCTION_INFO_V1(maxsim_topk_serial);
Datum
maxsim_topk_serial(PG_FUNCTION_ARGS)
{
	Topk *topk;
	StringInfoData buffer;

	(void) aggregate_context(fcinfo);
	topk = finished((Topk *) PG_GETARG_POINTER(0));
	pq_begintypsend(&buffer);
	pq_sendint32(&buffer, topk->type->type_id);
	pq_sendint32(&buffer, topk->k);
	pq_sendint32(&buffer, topk->n);
	for (int i = 0; i < topk->n; i++)
	{
		const Hit *hit = &topk->hits[i];
		Size size = datumEstimateSpace(hit->id, hit->is_null, topk->type->typbyval, topk->type->typlen);
		char *end;

		pq_sendfloat4(&buffer, hit->score);
		enlargeStringInfo(&buffer, size);
		end = buffer.data + buffer.len;
		datumSerialize(hit->id, hit->is_null, topk->type->typbyval, topk->type->typlen, &end);
		buffer.len += size;
	}
	PG_RETURN_BYTEA_P(pq_endtypsend(&buffer));
}

/* maxsim_topk_deserial(bytea, internal) */
PG_FUNCTION_INFO_V1(maxsim_topk_deserial);
Datum
maxsim_topk_deserial(PG_FUNCTION_ARGS)
{
	bytea *bytes = PG_GETARG_BYTEA_PP(0);
	StringInfoData buffer;
	Oid type;
	int k;
	int n;
	Topk *topk;

	(void) aggregate_context(fcinfo);
	initStringInfo(&buffer);
	appendBinaryStringInfo(&buffer, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	type = pq_getmsgint(&buffer, 4);
	k = pq_getmsgint(&buffer, 4);
	n = pq_getmsgint(&buffer, 4);
	topk = new_topk(CurrentMemoryContext, type, k);
	for (int i = 0; i < n; i++)
	{
		Hit hit;
		char *at;

		hit.score = pq_getmsgfloat4(&buffer);
		at = buffer.data + buffer.cursor;
		hit.id = datumRestore(&at, &hit.is_null);
		buffer.cursor = at - buffer.data;
		add_hit(topk, hit);
	}
	pq_getmsgend(&buffer);
	PG_RETURN_POINTER(topk);
}

/* maxsim_topk_final(internal) */
PG_FUNCTION_INFO_V1(maxsim_topk_final);
Datum
maxsim_topk_final(PG_FUNCTION_ARGS)
{
	Oid hit_type = get_element_type(get_func_rettype(fcinfo->flinfo->fn_oid));
	TupleDesc descriptor;
	ArrayBuildState *result = NULL;
	Oid output;
	bool is_varlena;
	Topk *topk;

	(void) aggregate_context(fcinfo);
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	topk = finished((Topk *) PG_GETARG_POINTER(0));
	descriptor = lookup_rowtype_tupdesc_copy(hit_type, -1);
	BlessTupleDesc(descriptor);
	getTypeOutputInfo(topk->type->type_id, &output, &is_varlena);
	result = initArrayResult(hit_type, CurrentMemoryContext, false);
	for (int i = 0; i < topk->n; i++)
	{
		const Hit *hit = &topk->hits[i];
		bool nulls[2] = {hit->is_null, false};
		Datum values[2] = {0, Float4GetDatum(hit->score)};

		CHECK_FOR_INTERRUPTS();
		if (!hit->is_null)
			values[0] = CStringGetTextDatum(OidOutputFunctionCall(output, hit->id));
		result = accumArrayResult(result, HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls)), false,
								  hit_type, CurrentMemoryContext);
	}
	PG_RETURN_DATUM(makeArrayResult(result, CurrentMemoryContext));
}
