/*
 * batch_score.c
 *		See batch_score.h.
 */
#include "postgres.h"
#include "compat.h"

#include "access/detoast.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "batch_score.h"

/* After so many queries, documents that there must have been of each for batches to go on. */
#define TRIAL_QUERIES 32
#define MIN_DOCUMENTS 8

/* The argument in a column, or computed by an expression, if it is one for all rows. */
static ScoreArgument
make_argument(CustomScanState *node, int column, Expr *expression)
{
	ScoreArgument argument = {.column = column};

	if (column == 0)
		argument.expression = ExecInitExpr(expression, &node->ss.ps);
	return argument;
}

/* Whether a call's query or weights are of the row. */
static bool
is_of_row(const ScoreCall *call)
{
	return call->query.column > 0 || call->weights.column > 0;
}

/* What PostgreSQL checks of a function before it calls it. */
static void
check_execute(Oid function)
{
	AclResult result = maxsim_function_aclcheck(function);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

void
score_init(ScoreCall *call, CustomScanState *node, int number, const BatchScanCall *plan, MemoryContext context)
{
	const CustomScan *scan = (const CustomScan *) node->ss.ps.plan;
	int column = list_length(scan->custom_scan_tlist) - list_length(scan->custom_private) + number;
	const FuncExpr *function = (const FuncExpr *) ((TargetEntry *) list_nth(scan->custom_scan_tlist, column))->expr;

	check_execute(plan->function);
	call->plan = *plan;
	call->query = make_argument(node, plan->query, linitial(function->args));
	if (plan->weighted)
		call->weights = make_argument(node, plan->weights, lthird(function->args));
	call->context = AllocSetContextCreate(context, "maxsim batch scan query", ALLOCSET_DEFAULT_SIZES);
	if (is_of_row(call))
		fmgr_info_cxt(plan->function, &call->function, node->ss.ps.state->es_query_cxt);
}

static void
compute_argument(ScoreArgument *argument, ExprContext *econtext)
{
	Datum value;

	if (argument->expression == NULL)
		return;
	value = ExecEvalExprSwitchContext(argument->expression, econtext, &argument->is_null);
	if (!argument->is_null)
		argument->value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
}

void
score_start(ScoreCall *call, ExprContext *econtext, int n)
{
	call->scores = palloc(n * sizeof(float));
	call->nulls = palloc(n * sizeof(bool));
	compute_argument(&call->query, econtext);
	compute_argument(&call->weights, econtext);
}

/*
 * The row's argument as bytes that say which value it is.  A pointer to memory, to an array as
 * PL/pgSQL makes it for example, does not: another row's value may be where this one's was.
 */
static Datum
comparable(Datum datum, ExprContext *econtext)
{
	struct varlena *value = (struct varlena *) DatumGetPointer(datum);
	MemoryContext old;

	if (!VARATT_IS_EXTERNAL(value) || VARATT_IS_EXTERNAL_ONDISK(value))
		return datum;
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	value = detoast_external_attr(value);
	MemoryContextSwitchTo(old);
	return PointerGetDatum(value);
}

/* Takes an argument from the row, unless it is one for all rows; false: it is NULL. */
static bool
take_argument(ScoreArgument *argument, const TupleTableSlot *slot, ExprContext *econtext)
{
	if (argument->column > 0)
	{
		argument->is_null = slot->tts_isnull[argument->column - 1];
		if (!argument->is_null)
			argument->value = comparable(slot->tts_values[argument->column - 1], econtext);
	}
	return !argument->is_null;
}

/* Whether an argument is that of the query in use: the same bytes, which may be a TOAST pointer. */
static bool
is_used(const ScoreArgument *argument)
{
	return argument->column == 0 || query_same_value(argument->used, DatumGetPointer(argument->value));
}

/* The argument for the query that is to be used, detoasted. */
static struct varlena *
use_argument(ScoreArgument *argument)
{
	if (argument->column == 0)
		return (struct varlena *) DatumGetPointer(argument->value);
	argument->used = query_keep_value(DatumGetPointer(argument->value));
	return PG_DETOAST_DATUM_COPY(argument->value);
}

/* Makes a row's query, with its weights, that of the call: mostly it is. */
static void
use_query(ScoreCall *call)
{
	MemoryContext old;
	Multivec *value;
	ArrayType *weights = NULL;
	Tokens tokens;

	if (call->has_query && is_used(&call->query) && is_used(&call->weights))
		return;
	score_finish(call);
	call->has_query = false;
	MemoryContextReset(call->context);
	old = MemoryContextSwitchTo(call->context);
	value = (Multivec *) use_argument(&call->query);
	multivec_check(value, VARSIZE(value));
	tokens = tokens_from_multivec(value);
	if (call->plan.weighted)
		weights = (ArrayType *) use_argument(&call->weights);
	query_init(&call->prepared, &tokens, weights, call->plan.kind);
	MemoryContextSwitchTo(old);
	call->nqueries++;
	call->has_query = true;
}

/* Whether queries change too often for batches to be worth it. */
static bool
is_changing(const ScoreCall *call)
{
	return is_of_row(call) && call->nqueries >= TRIAL_QUERIES && call->ndocuments < call->nqueries * MIN_DOCUMENTS;
}

/* Scores a document as a call of the function does. */
static void
call_function(ScoreCall *call, int n, Datum document, ExprContext *econtext)
{
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	int nargs = call->plan.weighted ? 3 : 2;
	LOCAL_FCINFO(fcinfo, 3);
	Datum score;

	InitFunctionCallInfoData(*fcinfo, &call->function, nargs, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = call->query.value;
	fcinfo->args[1].value = document;
	fcinfo->args[2].value = call->weights.value;
	for (int i = 0; i < nargs; i++)
		fcinfo->args[i].isnull = false;
	score = FunctionCallInvoke(fcinfo);
	call->nulls[n] = fcinfo->isnull;
	if (!fcinfo->isnull)
		call->scores[n] = DatumGetFloat4(score);
	MemoryContextSwitchTo(old);
}

/* A BatchDeliver. */
static void
deliver(void *arg, int64 id, float score, bool is_null)
{
	ScoreCall *call = arg;

	call->scores[id] = is_null ? 0 : query_result(&call->prepared, score);
	call->nulls[id] = is_null;
}

bool
score_add(ScoreCall *call, int n, const TupleTableSlot *slot, ExprContext *econtext, MemoryContext window, uint64 *totals)
{
	int column = call->plan.document - 1;
	Datum document = slot->tts_values[column];

	if (!take_argument(&call->query, slot, econtext) || !take_argument(&call->weights, slot, econtext) ||
		slot->tts_isnull[column])
	{
		call->nulls[n] = true;
		return false;
	}
	if (is_changing(call))
	{
		call_function(call, n, document, econtext);
		return true;
	}
	use_query(call);
	call->ndocuments++;
	if (call->batch == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(window);

		call->batch = batch_begin(&call->prepared, call->plan.type, NULL, deliver, call);
		batch_let_wait(call->batch);
		batch_count(call->batch, totals);
		MemoryContextSwitchTo(old);
	}
	batch_add(call->batch, n, document, false);
	return true;
}

void
score_finish(ScoreCall *call)
{
	Batch *batch = call->batch;

	call->batch = NULL;
	if (batch != NULL)
		batch_end(batch);
}

void
score_reset(ScoreCall *call)
{
	call->batch = NULL;
	call->has_query = false;
	MemoryContextReset(call->context);
}
