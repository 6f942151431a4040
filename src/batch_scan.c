/*
 * batch_scan.c
 *		The custom scan node that scores maxsim() in batches: see batch_scan.h.
 *
 * It takes rows from its child, a window of them, gives their documents to batches, keeps
 * the rows without the documents, and hands them on with their scores when the batches
 * have delivered.  Between windows it holds nothing of what others need: no slot of the
 * scorer's, no epoch of the cache's.
 */
#include "postgres.h"
#include "compat.h"

#include "access/parallel.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "batch.h"
#include "batch_scan.h"

/*
 * Rows of a window, at the most.  Where the rows may not all be asked for, no more are read
 * ahead than have been asked for: a row that nobody wants may be an error.
 */
#define LAST_WINDOW 4096
/* and bytes of rows that it keeps */
#define WINDOW_BYTES (4 * 1024 * 1024)

/* After so many queries, documents that there must have been of each for batches to go on. */
#define TRIAL_QUERIES 32
#define MIN_DOCUMENTS 8

/* One call of maxsim(). */
typedef struct Call
{
	BatchScanCall plan;
	ExprState *expression; /* of the query, if it is one for all rows */
	bool is_null;          /* that query is */
	MemoryContext context; /* of the following, of the query */
	struct varlena *value; /* as the row had it, if it is of the row; NULL: none yet */
	Tokens tokens;
	bool has_query; /* prepared */
	PreparedQuery query;
	uint64 nqueries; /* so far, where they are of the row, and documents */
	uint64 ndocuments;
	FmgrInfo function; /* called for each row if the query changes too often */
	Batch *batch;      /* NULL: none open */
	float *scores;     /* of the window, [LAST_WINDOW] */
	bool *nulls;
} Call;

/* What EXPLAIN says. */
typedef struct Figures
{
	uint64 documents;
	uint64 windows;
	uint64 totals[STATS_COUNTERS]; /* of the batches */
} Figures;

typedef struct BatchScanState
{
	CustomScanState css;
	int ncalls;
	Call calls[BATCH_SCAN_FUNCTIONS];
	MemoryContext context; /* of the scan: queries */
	MemoryContext window;  /* of a window: rows and batches */
	TupleTableSlot *row;   /* a kept row */
	bool *row_nulls;       /* of a row that is to be kept */
	MinimalTuple *rows;    /* [LAST_WINDOW] */
	int nrows;
	int next;
	bool read_whole; /* all rows will be asked for */
	int64 handed_on; /* rows, since the start or a rescan */
	bool at_end;
	Figures figures;
	Figures *shared; /* a worker's own, or all workers' [nworkers]; NULL: none */
	int nworkers;
} BatchScanState;

static const CustomExecMethods exec_methods;

static Node *
create_state(CustomScan *scan)
{
	BatchScanState *state = (BatchScanState *) newNode(sizeof(BatchScanState), T_CustomScanState);

	(void) scan;
	state->css.methods = &exec_methods;
	return (Node *) state;
}

List *
batch_scan_private(const BatchScanCall *call)
{
	List *list = list_make4_int((int) call->function, (int) call->type, call->document, call->query);

	return list_concat(list, list_make3_int(call->own_document, call->own_query, call->read_whole));
}

static BatchScanCall
read_private(const List *list)
{
	BatchScanCall call = {
		.function = (Oid) linitial_int(list),
		.type = (DocumentType) lsecond_int(list),
		.document = lthird_int(list),
		.query = lfourth_int(list),
		.own_document = list_nth_int(list, 4) != 0,
		.own_query = list_nth_int(list, 5) != 0,
		.read_whole = list_nth_int(list, 6) != 0,
	};

	return call;
}

static void
begin(CustomScanState *node, EState *estate, int eflags)
{
	BatchScanState *state = (BatchScanState *) node;
	CustomScan *scan = (CustomScan *) node->ss.ps.plan;
	ListCell *expression;
	ListCell *call;

	/* rows are handed on once, forward */
	outerPlanState(node) = ExecInitNode(outerPlan(scan), estate, eflags & ~(EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK | EXEC_FLAG_REWIND));
	state->row = ExecInitExtraTupleSlot(estate, ExecGetResultType(outerPlanState(node)), &TTSOpsMinimalTuple);
	state->context = AllocSetContextCreate(estate->es_query_cxt, "maxsim batch scan", ALLOCSET_DEFAULT_SIZES);
	state->row_nulls = palloc(state->row->tts_tupleDescriptor->natts * sizeof(bool));
	state->window = AllocSetContextCreate(state->context, "maxsim batch scan window", ALLOCSET_DEFAULT_SIZES);

	forboth(expression, scan->custom_exprs, call, scan->custom_private)
	{
		Call *c = &state->calls[state->ncalls++];

		c->plan = read_private(lfirst(call));
		c->expression = ExecInitExpr(lfirst(expression), &node->ss.ps);
		c->context = AllocSetContextCreate(state->context, "maxsim batch scan query", ALLOCSET_DEFAULT_SIZES);
		if (c->plan.query > 0)
			fmgr_info_cxt(c->plan.function, &c->function, estate->es_query_cxt);
		state->read_whole = c->plan.read_whole;
	}
}

/* Computes the queries that are the same for all rows of a scan. */
static void
compute_queries(BatchScanState *state)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(state->context);

	state->rows = palloc(LAST_WINDOW * sizeof(MinimalTuple));
	for (int i = 0; i < state->ncalls; i++)
	{
		Call *call = &state->calls[i];
		Datum value;

		call->scores = palloc(LAST_WINDOW * sizeof(float));
		call->nulls = palloc(LAST_WINDOW * sizeof(bool));
		call->is_null = false;
		if (call->plan.query > 0)
			continue;
		value = ExecEvalExprSwitchContext(call->expression, econtext, &call->is_null);
		if (!call->is_null)
			call->tokens = tokens_from_multivec((Multivec *) PG_DETOAST_DATUM_COPY(value));
	}
	MemoryContextSwitchTo(old);
}

/* A BatchDeliver. */
static void
deliver(void *arg, int64 id, float score, bool is_null)
{
	Call *call = arg;

	call->scores[id] = score;
	call->nulls[id] = is_null;
}

/* Scores what is left in a call's batch. */
static void
finish_batch(Call *call)
{
	Batch *batch = call->batch;

	call->batch = NULL;
	if (batch != NULL)
		batch_end(batch);
}

/* Makes a row's query that of the call: mostly it is. */
static void
use_query(Call *call, Datum datum)
{
	struct varlena *value = (struct varlena *) DatumGetPointer(datum);
	Size size = VARSIZE_ANY(value);
	MemoryContext old;

	/* the same bytes, which may be a TOAST pointer */
	if (call->value != NULL && VARSIZE_ANY(call->value) == size && memcmp(call->value, value, size) == 0)
		return;
	finish_batch(call);
	call->value = NULL;
	call->has_query = false;
	MemoryContextReset(call->context);
	old = MemoryContextSwitchTo(call->context);
	call->tokens = tokens_from_multivec((Multivec *) PG_DETOAST_DATUM_COPY(datum));
	call->value = palloc(size);
	memcpy(call->value, value, size);
	call->nqueries++;
	MemoryContextSwitchTo(old);
}

/* Whether queries change too often for batches to be worth it. */
static bool
is_changing(const Call *call)
{
	return call->nqueries >= TRIAL_QUERIES && call->ndocuments < call->nqueries * MIN_DOCUMENTS;
}

/* Scores a document as a call of the function does. */
static void
call_function(BatchScanState *state, Call *call, int n, Datum query, Datum document)
{
	MemoryContext old = MemoryContextSwitchTo(state->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	LOCAL_FCINFO(fcinfo, 2);
	Datum score;

	InitFunctionCallInfoData(*fcinfo, &call->function, 2, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = query;
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = document;
	fcinfo->args[1].isnull = false;
	score = FunctionCallInvoke(fcinfo);
	call->nulls[n] = fcinfo->isnull;
	if (!fcinfo->isnull)
		call->scores[n] = DatumGetFloat4(score);
	MemoryContextSwitchTo(old);
}

/* Has the document of row number n scored: it is given to the call's batch. */
static void
add_document(BatchScanState *state, Call *call, int n, const TupleTableSlot *slot)
{
	int column = call->plan.document - 1;
	int query = call->plan.query - 1;
	Datum document = slot->tts_values[column];

	if (call->is_null || slot->tts_isnull[column] || (query >= 0 && slot->tts_isnull[query]))
	{
		call->nulls[n] = true;
		return;
	}
	state->figures.documents++;
	if (query >= 0)
	{
		if (is_changing(call))
		{
			call_function(state, call, n, slot->tts_values[query], document);
			return;
		}
		use_query(call, slot->tts_values[query]);
		call->ndocuments++;
	}
	if (!call->has_query)
	{
		MemoryContext old = MemoryContextSwitchTo(call->context);

		query_init(&call->query, &call->tokens);
		call->has_query = true;
		MemoryContextSwitchTo(old);
	}
	if (call->batch == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(state->window);

		call->batch = batch_begin(&call->query, call->plan.type, NULL, deliver, call);
		batch_count(call->batch, state->figures.totals);
		MemoryContextSwitchTo(old);
	}
	batch_add(call->batch, n, document, false);
}

/* Makes columns NULL that only were for scores. */
static void
hide_columns(const BatchScanState *state, bool *nulls)
{
	for (int i = 0; i < state->ncalls; i++)
	{
		const BatchScanCall *call = &state->calls[i].plan;

		if (call->own_document)
			nulls[call->document - 1] = true;
		if (call->own_query)
			nulls[call->query - 1] = true;
	}
}

/* Keeps a row, without documents that only were for their scores. */
static MinimalTuple
keep_row(BatchScanState *state, TupleTableSlot *slot)
{
	MemoryContext old = MemoryContextSwitchTo(state->window);
	int ncolumns = slot->tts_tupleDescriptor->natts;
	MinimalTuple row;

	memcpy(state->row_nulls, slot->tts_isnull, ncolumns * sizeof(bool));
	hide_columns(state, state->row_nulls);
	row = maxsim_form_minimal_tuple(slot->tts_tupleDescriptor, slot->tts_values, state->row_nulls);
	MemoryContextSwitchTo(old);
	return row;
}

/* Takes the next rows from the child and has them scored. */
static void
read_window(BatchScanState *state)
{
	int size = state->read_whole ? LAST_WINDOW : (int) Max(Min(state->handed_on, LAST_WINDOW), 1);
	Size bytes = 0;

	state->next = state->nrows = 0;
	MemoryContextReset(state->window);
	while (state->nrows < size && bytes < WINDOW_BYTES && !state->at_end)
	{
		TupleTableSlot *slot = ExecProcNode(outerPlanState(&state->css));

		if (TupIsNull(slot))
		{
			state->at_end = true;
			break;
		}
		if (state->rows == NULL)
			compute_queries(state);
		slot_getallattrs(slot);
		for (int i = 0; i < state->ncalls; i++)
			add_document(state, &state->calls[i], state->nrows, slot);
		state->rows[state->nrows] = keep_row(state, slot);
		bytes += state->rows[state->nrows++]->t_len;
		ResetExprContext(state->css.ss.ps.ps_ExprContext);
	}
	for (int i = 0; i < state->ncalls; i++)
		finish_batch(&state->calls[i]);
	state->figures.windows += state->nrows > 0;
	/* now, as the leader may not wait for a worker's end */
	if (IsParallelWorker() && state->shared != NULL)
		*state->shared = state->figures;
}

/* The scan tuple of row number n: the child's columns, then the scores. */
static void
fill_scan_tuple(BatchScanState *state, int n)
{
	TupleTableSlot *scan = state->css.ss.ss_ScanTupleSlot;
	int ncolumns = state->row->tts_tupleDescriptor->natts;

	ExecStoreMinimalTuple(state->rows[n], state->row, false);
	slot_getallattrs(state->row);
	ExecClearTuple(scan);
	memcpy(scan->tts_values, state->row->tts_values, ncolumns * sizeof(Datum));
	memcpy(scan->tts_isnull, state->row->tts_isnull, ncolumns * sizeof(bool));
	for (int i = 0; i < state->ncalls; i++)
	{
		const Call *call = &state->calls[i];

		scan->tts_isnull[ncolumns + i] = call->nulls[n];
		scan->tts_values[ncolumns + i] = call->nulls[n] ? (Datum) 0 : Float4GetDatum(call->scores[n]);
	}
	ExecStoreVirtualTuple(scan);
}

static TupleTableSlot *
next_row(CustomScanState *node)
{
	BatchScanState *state = (BatchScanState *) node;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	if (state->next == state->nrows)
	{
		if (!state->at_end)
			read_window(state);
		if (state->nrows == 0 || state->next == state->nrows)
			return ExecClearTuple(node->ss.ps.ps_ResultTupleSlot);
	}
	ResetExprContext(econtext);
	fill_scan_tuple(state, state->next++);
	state->handed_on++;
	if (node->ss.ps.ps_ProjInfo == NULL)
		return node->ss.ss_ScanTupleSlot;
	econtext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;
	return ExecProject(node->ss.ps.ps_ProjInfo);
}

/* Forgets the rows, and the queries, which a rescan may change. */
static void
reset(BatchScanState *state)
{
	ExecClearTuple(state->row);
	ExecClearTuple(state->css.ss.ss_ScanTupleSlot);
	MemoryContextReset(state->window);
	for (int i = 0; i < state->ncalls; i++)
	{
		state->calls[i].batch = NULL;
		state->calls[i].has_query = false;
		state->calls[i].value = NULL;
		MemoryContextReset(state->calls[i].context);
	}
	state->rows = NULL;
	state->nrows = state->next = 0;
	state->at_end = false;
	state->handed_on = 0;
	MemoryContextResetOnly(state->context);
}

static void
rescan(CustomScanState *node)
{
	PlanState *child = outerPlanState(node);

	reset((BatchScanState *) node);
	/* with changed parameters, it has been told, and does it when it is asked for a row */
	if (child->chgParam == NULL)
		ExecReScan(child);
}

static void
end(CustomScanState *node)
{
	BatchScanState *state = (BatchScanState *) node;

	reset(state);
	ExecEndNode(outerPlanState(node));
}

static Size
estimate_shared(CustomScanState *node, ParallelContext *pcxt)
{
	(void) node;
	return mul_size(Max(pcxt->nworkers, 1), sizeof(Figures));
}

static void
initialize_shared(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	BatchScanState *state = (BatchScanState *) node;

	state->shared = coordinate;
	state->nworkers = pcxt->nworkers;
	memset(coordinate, 0, Max(pcxt->nworkers, 1) * sizeof(Figures));
}

/* A worker goes on with what one of its number has done before a rescan. */
static void
initialize_worker(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	BatchScanState *state = (BatchScanState *) node;

	(void) toc;
	state->shared = (Figures *) coordinate + ParallelWorkerNumber;
	state->figures = *state->shared;
}

/* The leader takes over what workers did, before the shared memory goes. */
static void
shutdown_shared(CustomScanState *node)
{
	BatchScanState *state = (BatchScanState *) node;

	if (IsParallelWorker() || state->shared == NULL)
		return;
	for (int i = 0; i < state->nworkers; i++)
	{
		state->figures.documents += state->shared[i].documents;
		state->figures.windows += state->shared[i].windows;
		for (int k = 0; k < STATS_COUNTERS; k++)
			state->figures.totals[k] += state->shared[i].totals[k];
	}
	state->shared = NULL;
}

/* A count; in text only if there is something to be said. */
static void
explain_count(ExplainState *es, const char *label, uint64 n)
{
	if (n > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyUInteger(label, NULL, n, es);
}

/* What the node did, in all processes: nothing of it under COSTS OFF, since it varies. */
static void
explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	BatchScanState *state = (BatchScanState *) node;
	const uint64 *totals = state->figures.totals;
	bool by_cpu = totals[STATS_DOCUMENTS_CPU] > 0;
	bool by_scorer = totals[STATS_DOCUMENTS_SCORER] > 0;

	(void) ancestors;
	if (!es->analyze || !es->costs)
		return;
	if (by_scorer)
		ExplainPropertyText("Engine", by_cpu ? "cpu, scorer" : "scorer", es);
	else
		ExplainPropertyText("Engine", by_cpu ? "cpu" : "none", es);
	ExplainPropertyUInteger("Documents", NULL, state->figures.documents, es);
	ExplainPropertyUInteger("Batch Windows", NULL, state->figures.windows, es);
	explain_count(es, "Host Cache Hits", totals[STATS_HITS_HOST]);
	explain_count(es, "GPU Cache Hits", totals[STATS_HITS_GPU]);
	explain_count(es, "Documents Fetched", totals[STATS_MISSES] + totals[STATS_REFETCHED]);
	explain_count(es, "Bytes Fetched", totals[STATS_BYTES_FETCHED]);
	if (stats_shared == NULL || !es->timing)
		return;
	ExplainPropertyFloat("Fetch Time", "ms", totals[STATS_FETCH_TIME] / 1000.0, 3, es);
	ExplainPropertyFloat("Wait Time", "ms", totals[STATS_WAIT_TIME] / 1000.0, 3, es);
	ExplainPropertyFloat("Score Time", "ms", totals[STATS_SCORE_TIME] / 1000.0, 3, es);
}

const CustomScanMethods batch_scan_methods = {"MaxSim", create_state};

static const CustomExecMethods exec_methods = {
	.CustomName = "MaxSim",
	.BeginCustomScan = begin,
	.ExecCustomScan = next_row,
	.EndCustomScan = end,
	.ReScanCustomScan = rescan,
	.EstimateDSMCustomScan = estimate_shared,
	.InitializeDSMCustomScan = initialize_shared,
	.InitializeWorkerCustomScan = initialize_worker,
	.ShutdownCustomScan = shutdown_shared,
	.ExplainCustomScan = explain,
};
