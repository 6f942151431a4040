/*
 * batch_scan.c
 *		The custom scan node that scores maxsim() in batches: see batch_scan.h.
 *
 * It takes rows from its child, a window of them, gives their documents to batches, keeps
 * of the rows the columns that its target list and conditions use, and hands those on that meet
 * the conditions, with their scores, when the batches have delivered.  Between windows it holds nothing of what others need: no slot of the
 * scorer's, no epoch of the cache's.
 */
#include "postgres.h"
#include "compat.h"

#include "access/parallel.h"
#include "access/sysattr.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "batch_scan.h"
#include "batch_score.h"

/*
 * Rows of a window, at the most.  Where the rows may not all be asked for, no more are read
 * ahead than have been asked for: a row that nobody wants may be an error.
 */
#define LAST_WINDOW 4096
/* and bytes of rows that it keeps */
#define WINDOW_BYTES (4 * 1024 * 1024)

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
	ScoreCall calls[BATCH_SCAN_FUNCTIONS];
	MemoryContext context; /* of the scan: queries */
	MemoryContext window;  /* of a window: rows and batches */
	int ncolumns;          /* of the child's rows */
	int last_column;       /* of those that are kept or scored; counted from 1 */
	int nkept;             /* columns that are kept */
	int *kept;             /* [nkept] which, counted from 0 */
	TupleTableSlot *row;   /* a kept row: those columns */
	MinimalTuple *rows;    /* [LAST_WINDOW] kept rows, if there are columns to keep */
	int nrows;
	int next;
	bool read_whole; /* all rows will be asked for */
	int64 ndone;     /* rows, handed on or found not to be wanted, since the start or a rescan */
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
	List *list = list_make5_int((int) call->function, (int) call->type, call->document, call->query, call->weights);

	return list_concat(list, list_make3_int((int) call->kind, call->weighted, call->read_whole));
}

static BatchScanCall
read_private(const List *list)
{
	BatchScanCall call = {
		.function = (Oid) linitial_int(list),
		.type = (DocumentType) lsecond_int(list),
		.document = lthird_int(list),
		.query = lfourth_int(list),
		.weights = list_nth_int(list, 4),
		.kind = (ScoreKind) list_nth_int(list, 5),
		.weighted = list_nth_int(list, 6) != 0,
		.read_whole = list_nth_int(list, 7) != 0,
	};

	return call;
}

/* Finds the columns of the child's rows that are kept: those that the target list or conditions use. */
static void
find_columns(BatchScanState *state, EState *estate)
{
	TupleDesc rows = ExecGetResultType(outerPlanState(&state->css));
	const Plan *plan = state->css.ss.ps.plan;
	Bitmapset *used = NULL;
	TupleDesc kept;

	pull_varattnos((Node *) plan->targetlist, INDEX_VAR, &used);
	pull_varattnos((Node *) plan->qual, INDEX_VAR, &used);
	state->ncolumns = rows->natts;
	state->kept = palloc(rows->natts * sizeof(int));
	for (int i = 0; i < rows->natts; i++)
	{
		if (bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, used))
			state->kept[state->nkept++] = i;
	}
	kept = CreateTemplateTupleDesc(state->nkept);
	for (int i = 0; i < state->nkept; i++)
		TupleDescCopyEntry(kept, i + 1, rows, state->kept[i] + 1);
	state->row = ExecInitExtraTupleSlot(estate, kept, &TTSOpsMinimalTuple);
	if (state->nkept > 0)
		state->last_column = state->kept[state->nkept - 1] + 1;
	for (int i = 0; i < state->ncalls; i++)
	{
		const BatchScanCall *call = &state->calls[i].plan;

		state->last_column = Max(state->last_column, Max(call->document, Max(call->query, call->weights)));
	}
	/* columns that are not kept stay so */
	memset(state->css.ss.ss_ScanTupleSlot->tts_isnull, true, rows->natts * sizeof(bool));
}

static void
begin(CustomScanState *node, EState *estate, int eflags)
{
	BatchScanState *state = (BatchScanState *) node;
	CustomScan *scan = (CustomScan *) node->ss.ps.plan;
	ListCell *cell;

	/* rows are handed on once, forward */
	outerPlanState(node) = ExecInitNode(outerPlan(scan), estate, eflags & ~(EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK | EXEC_FLAG_REWIND));
	state->context = AllocSetContextCreate(estate->es_query_cxt, "maxsim batch scan", ALLOCSET_DEFAULT_SIZES);
	state->window = AllocSetContextCreate(state->context, "maxsim batch scan window", ALLOCSET_DEFAULT_SIZES);

	foreach (cell, scan->custom_private)
	{
		BatchScanCall call = read_private(lfirst(cell));

		score_init(&state->calls[state->ncalls], node, state->ncalls, &call, state->context);
		state->ncalls++;
		state->read_whole = call.read_whole;
	}
	find_columns(state, estate);
}

/* At the first row of a scan. */
static void
start(BatchScanState *state)
{
	MemoryContext old = MemoryContextSwitchTo(state->context);

	state->rows = palloc(LAST_WINDOW * sizeof(MinimalTuple));
	for (int i = 0; i < state->ncalls; i++)
		score_start(&state->calls[i], state->css.ss.ps.ps_ExprContext, LAST_WINDOW);
	MemoryContextSwitchTo(old);
}

/* Keeps a row: the columns of it that are used.  Returns the bytes that takes. */
static Size
keep_row(BatchScanState *state, TupleTableSlot *slot)
{
	MemoryContext old;
	MinimalTuple row;

	if (state->nkept == 0)
		return 0;
	ExecClearTuple(state->row);
	for (int i = 0; i < state->nkept; i++)
	{
		state->row->tts_values[i] = slot->tts_values[state->kept[i]];
		state->row->tts_isnull[i] = slot->tts_isnull[state->kept[i]];
	}
	old = MemoryContextSwitchTo(state->window);
	row = maxsim_form_minimal_tuple(state->row->tts_tupleDescriptor, state->row->tts_values, state->row->tts_isnull);
	MemoryContextSwitchTo(old);
	state->rows[state->nrows] = row;
	return row->t_len;
}

/* Takes the next rows from the child and has them scored. */
static void
read_window(BatchScanState *state)
{
	int size = state->read_whole ? LAST_WINDOW : (int) Max(Min(state->ndone, LAST_WINDOW), 1);
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
			start(state);
		slot_getsomeattrs(slot, state->last_column);
		for (int i = 0; i < state->ncalls; i++)
			state->figures.documents += score_add(&state->calls[i], state->nrows, slot, state->css.ss.ps.ps_ExprContext,
												  state->window, state->figures.totals);
		bytes += keep_row(state, slot);
		state->nrows++;
		ResetExprContext(state->css.ss.ps.ps_ExprContext);
	}
	for (int i = 0; i < state->ncalls; i++)
		score_finish(&state->calls[i]);
	state->figures.windows += state->nrows > 0;
	/* now, as the leader may not wait for a worker's end */
	if (IsParallelWorker() && state->shared != NULL)
		*state->shared = state->figures;
}

/* The scan tuple of row number n: the columns that were kept of the child's, then the scores. */
static void
fill_scan_tuple(BatchScanState *state, int n)
{
	TupleTableSlot *scan = state->css.ss.ss_ScanTupleSlot;
	int ncolumns = state->ncolumns;

	ExecClearTuple(scan);
	if (state->nkept > 0)
	{
		ExecStoreMinimalTuple(state->rows[n], state->row, false);
		slot_getallattrs(state->row);
	}
	for (int i = 0; i < state->nkept; i++)
	{
		scan->tts_values[state->kept[i]] = state->row->tts_values[i];
		scan->tts_isnull[state->kept[i]] = state->row->tts_isnull[i];
	}
	for (int i = 0; i < state->ncalls; i++)
	{
		const ScoreCall *call = &state->calls[i];

		scan->tts_isnull[ncolumns + i] = call->nulls[n];
		scan->tts_values[ncolumns + i] = call->nulls[n] ? (Datum) 0 : Float4GetDatum(call->scores[n]);
	}
	ExecStoreVirtualTuple(scan);
}

/* Whether the row meets the conditions. */
static bool
passes(CustomScanState *node, ExprContext *econtext)
{
	if (ExecQual(node->ss.ps.qual, econtext))
		return true;
	InstrCountFiltered1(node, 1);
	return false;
}

static TupleTableSlot *
next_row(CustomScanState *node)
{
	BatchScanState *state = (BatchScanState *) node;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	do
	{
		if (state->next == state->nrows)
		{
			if (!state->at_end)
				read_window(state);
			if (state->nrows == 0 || state->next == state->nrows)
				return ExecClearTuple(node->ss.ps.ps_ResultTupleSlot);
		}
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		fill_scan_tuple(state, state->next++);
		state->ndone++;
		econtext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;
	} while (!passes(node, econtext));
	if (node->ss.ps.ps_ProjInfo == NULL)
		return node->ss.ss_ScanTupleSlot;
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
		score_reset(&state->calls[i]);
	state->rows = NULL;
	state->nrows = state->next = 0;
	state->at_end = false;
	state->ndone = 0;
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
