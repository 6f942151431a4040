/*
 * batch_plan.c
 *		Putting batch scans into plans: see batch_scan.h.
 *
 * It is done to the finished plan.  Where a node computes maxsim(query, document) for each
 * of its rows it computes the document instead, which is a pointer, and the query or its
 * weights, if they are not the same for all of them, and a node above it the scores of
 * many rows at once.  The rows that leave that node are those that left the other, so
 * nothing else in the plan changes: sorts, limits, joins, partitions and parallel workers
 * are the planner's.
 *
 * A batch reads rows ahead.  So a node is left alone if its rows may not all be wanted,
 * under a limit without a sort for example, and a call that may not be made for each
 * row, in a CASE for example.  What asks for a statement's rows may stop all the same, as
 * a function in SQL does after one: so only what a sort, a hash or an aggregation reads
 * is read ahead at once, elsewhere no more than has been asked for so far.
 */
#include "postgres.h"
#include "compat.h"

#include "access/sysattr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/clauses.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"

#include "batch_call.h"
#include "batch_documents.h"
#include "batch_scan.h"

/* fewer rows are not worth a node */
#define MIN_ROWS 10

/* of our nodes; the planner counts its own from 0 */
#define FIRST_NODE_ID 1000000000

/* where a score will be, until all columns before the scores are known */
#define SCORE_PLACEHOLDER 10000

bool maxsim_enable_batch_scan = true;

static planner_hook_type previous_planner = NULL;
static int next_node_id;
static bool below_gather; /* the plan in work is */
static List *subplans;    /* of the statement in work */

/* A node in the making. */
typedef struct Wrapping
{
	const Plan *plan;  /* the node that computes the calls */
	List *child_tlist; /* what the node below is to compute */
	List *calls;       /* FuncExprs, all different */
	List *columns;     /* of their documents, in child_tlist */
	List *queries;     /* columns of their queries; 0: one for all rows */
	List *weights;     /* columns of their weights; 0: those of all rows, or none */
	bool failed;       /* it cannot be done */
	bool read_whole;   /* whoever asks for the first row asks for all */
} Wrapping;

/* Which rows of a plan will be asked for, once there is one. */
typedef enum Demand
{
	ROWS_SOME, /* nobody knows */
	ROWS_ALL,  /* all, unless the client stops */
	ROWS_WHOLE /* all */
} Demand;

/* The column of the child that computes an expression. */
static int
column_for(Wrapping *wrapping, Expr *expr)
{
	TargetEntry *entry = NULL;

	/* random() that is written twice is computed twice */
	if (!contain_volatile_functions((Node *) expr))
		entry = tlist_member(expr, wrapping->child_tlist);
	if (entry == NULL)
	{
		entry = makeTargetEntry(copyObject(expr), list_length(wrapping->child_tlist) + 1, NULL, false);
		wrapping->child_tlist = lappend(wrapping->child_tlist, entry);
	}
	return entry->resno;
}

static Var *
index_var(Expr *expr, int column)
{
	return makeVar(INDEX_VAR, column, exprType((Node *) expr), exprTypmod((Node *) expr),
				   exprCollation((Node *) expr), 0);
}

/* The column of an argument that is of the row; 0: it is one for all rows, or none. */
static int
column_if_of_row(Wrapping *wrapping, Expr *argument)
{
	return contain_var_clause((Node *) argument) ? column_for(wrapping, argument) : 0;
}

/* Where the score of a call will be; a call that occurs twice is made once. */
static Node *
score_var(Wrapping *wrapping, Node *node, const BatchCall *call)
{
	ListCell *cell;
	int n = 0;

	foreach (cell, wrapping->calls)
	{
		if (equal(lfirst(cell), node))
			return (Node *) index_var((Expr *) node, SCORE_PLACEHOLDER + n);
		n++;
	}
	if (n == BATCH_SCAN_FUNCTIONS || document_may_go((Node *) call->document, wrapping->plan, subplans))
	{
		wrapping->failed = true;
		return node;
	}
	wrapping->calls = lappend(wrapping->calls, node);
	wrapping->columns = lappend_int(wrapping->columns, column_for(wrapping, call->document));
	wrapping->queries = lappend_int(wrapping->queries, column_if_of_row(wrapping, call->query));
	wrapping->weights = lappend_int(wrapping->weights, column_if_of_row(wrapping, call->weights));
	return (Node *) index_var((Expr *) node, SCORE_PLACEHOLDER + n);
}

/* expression_tree_mutator: what our node computes in place of an expression of the child's. */
static Node *
split(Node *node, void *context)
{
	Wrapping *wrapping = context;
	BatchCall call;

	if (node == NULL)
		return NULL;
	if (batch_call_read(node, &call))
		return score_var(wrapping, node, &call);
	if (IsA(node, Var))
		return (Node *) index_var((Expr *) node, column_for(wrapping, (Expr *) node));
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) || IsA(node, Aggref) || IsA(node, WindowFunc) ||
		IsA(node, GroupingFunc))
	{
		wrapping->failed = true;
		return node;
	}
	/* what is computed on a condition only is left whole, and computed row by row */
	if (!batch_call_is_unconditional(node) && !IsA(node, Const) && !IsA(node, Param))
	{
		if (!contain_var_clause(node))
			return node;
		return (Node *) index_var((Expr *) node, column_for(wrapping, (Expr *) node));
	}
	return expression_tree_mutator(node, split, context);
}

/* expression_tree_mutator: scores' places, now that there are *context columns before them. */
static Node *
place_scores(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR && ((Var *) node)->varattno >= SCORE_PLACEHOLDER)
		return (Node *) index_var((Expr *) node, ((Var *) node)->varattno - SCORE_PLACEHOLDER + 1 + *(int *) context);
	return expression_tree_mutator(node, place_scores, context);
}

/* A column of the child's, as the scan tuple's description has it. */
static Expr *
column_expr(const CustomScan *scan, int column)
{
	return copyObject(((TargetEntry *) list_nth(scan->custom_scan_tlist, column - 1))->expr);
}

/* The node above child, which computes tlist from child's rows and the scores. */
static Plan *
make_batch_scan(Plan *child, List *tlist, const Wrapping *wrapping)
{
	CustomScan *scan = makeNode(CustomScan);
	Plan *plan = &scan->scan.plan;
	int ncolumns = list_length(wrapping->child_tlist);
	ListCell *cell;

	plan->startup_cost = child->startup_cost;
	plan->total_cost = child->total_cost;
	plan->plan_rows = child->plan_rows;
	plan->plan_width = child->plan_width;
	plan->parallel_safe = child->parallel_safe;
	plan->parallel_aware = below_gather; /* it is given shared memory then, for EXPLAIN */
	plan->plan_node_id = next_node_id++;
	plan->extParam = bms_copy(child->extParam);
	plan->allParam = bms_copy(child->allParam);
	plan->lefttree = child;
	plan->targetlist = (List *) place_scores((Node *) tlist, &ncolumns);
	scan->methods = &batch_scan_methods;
#if PG_VERSION_NUM >= 150000
	scan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
#endif

	foreach (cell, wrapping->child_tlist)
	{
		TargetEntry *entry = lfirst(cell);
		Var *var = index_var(entry->expr, entry->resno);

		var->varno = OUTER_VAR;
		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist, makeTargetEntry((Expr *) var, entry->resno, NULL, false));
	}
	for (int i = 0; i < list_length(wrapping->calls); i++)
	{
		FuncExpr *function = copyObject(list_nth(wrapping->calls, i));
		BatchScanCall private = {.function = function->funcid, .read_whole = wrapping->read_whole};
		BatchCall call;

		(void) batch_call_read((Node *) function, &call);
		private.type = call.type;
		private.kind = call.kind;
		private.weighted = call.weights != NULL;
		private.document = list_nth_int(wrapping->columns, i);
		private.query = list_nth_int(wrapping->queries, i);
		private.weights = list_nth_int(wrapping->weights, i);
		call.document = column_expr(scan, private.document);
		if (private.query > 0)
			call.query = column_expr(scan, private.query);
		if (private.weights > 0)
			call.weights = column_expr(scan, private.weights);
		scan->custom_private = lappend(scan->custom_private, batch_scan_private(&private));
		function->args = batch_call_arguments(&call);
		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist,
										  makeTargetEntry((Expr *) function, list_length(scan->custom_scan_tlist) + 1, NULL, false));
	}
	return plan;
}

/* Puts a node above one that computes calls in its target list. */
static Plan *
wrap_target_list(Plan *plan, bool read_whole)
{
	Wrapping wrapping = {.plan = plan, .read_whole = read_whole};
	List *tlist = NIL;
	ListCell *cell;

	foreach (cell, plan->targetlist)
	{
		TargetEntry *entry = lfirst(cell);
		TargetEntry *ours = flatCopyTargetEntry(entry);

		if (batch_call_within((Node *) entry->expr))
			ours->expr = (Expr *) split((Node *) entry->expr, &wrapping);
		else
			ours->expr = (Expr *) index_var(entry->expr, column_for(&wrapping, entry->expr));
		tlist = lappend(tlist, ours);
	}
	if (wrapping.failed || wrapping.calls == NIL)
		return plan;
	plan->targetlist = wrapping.child_tlist;
	return make_batch_scan(plan, tlist, &wrapping);
}

/* What is changed of an aggregation: calls in arguments of its aggregates. */
typedef struct AggregateCalls
{
	Wrapping wrapping;
	int ncolumns; /* of the child's rows, which our node hands on */
	bool found;
} AggregateCalls;

/* Whether an argument is a column of the child's, or one for all rows. */
static bool
is_column_or_constant(Expr *argument)
{
	return argument == NULL || IsA(argument, Var) || !contain_var_clause((Node *) argument);
}

/* expression_tree_mutator: calls in the arguments of an aggregate. */
static Node *
split_argument(Node *node, void *context)
{
	AggregateCalls *calls = context;
	BatchCall call;

	if (node == NULL)
		return NULL;
	if (batch_call_read(node, &call) && IsA(call.document, Var) && is_column_or_constant(call.query) &&
		is_column_or_constant(call.weights))
	{
		Var *var = (Var *) score_var(&calls->wrapping, node, &call);

		if (IsA(var, Var))
		{
			/* our node's columns: the child's, then the scores */
			var->varno = OUTER_VAR;
			var->varattno += calls->ncolumns + 1 - SCORE_PLACEHOLDER;
		}
		calls->found = true;
		return (Node *) var;
	}
	if (!batch_call_is_unconditional(node))
		return node;
	return expression_tree_mutator(node, split_argument, context);
}

/* expression_tree_mutator: aggregates, whose arguments are computed for every row. */
static Node *
split_aggregates(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Aggref))
	{
		Aggref *aggregate = (Aggref *) node;

		if (aggregate->aggfilter == NULL && !DO_AGGSPLIT_COMBINE(aggregate->aggsplit))
		{
			aggregate = copyObject(aggregate);
			aggregate->args = (List *) split_argument((Node *) aggregate->args, context);
		}
		return (Node *) aggregate;
	}
	return expression_tree_mutator(node, split_aggregates, context);
}

static Bitmapset *
add_columns(Bitmapset *columns, const AttrNumber *numbers, int n)
{
	for (int i = 0; i < n; i++)
		columns = bms_add_member(columns, numbers[i] - FirstLowInvalidHeapAttributeNumber);
	return columns;
}

/*
 * The columns of its child's that an aggregation uses, numbered as pull_varattnos does: in its
 * expressions, and to group and to sort by, also in the further steps of grouping sets.
 */
static Bitmapset *
used_columns(const Agg *aggregation)
{
	Bitmapset *columns = add_columns(NULL, aggregation->grpColIdx, aggregation->numCols);
	ListCell *cell;

	pull_varattnos((Node *) aggregation->plan.targetlist, OUTER_VAR, &columns);
	pull_varattnos((Node *) aggregation->plan.qual, OUTER_VAR, &columns);
	foreach (cell, aggregation->chain)
	{
		const Agg *step = lfirst(cell);
		const Sort *sort = (const Sort *) step->plan.lefttree;

		columns = add_columns(columns, step->grpColIdx, step->numCols);
		if (sort != NULL)
			columns = add_columns(columns, sort->sortColIdx, sort->numCols);
	}
	return columns;
}

/*
 * Makes columns of a target list NULL that are not used.  The planner lets the node below an
 * aggregation return whole rows of its table, which cost that node nothing, but one that
 * keeps them a copy.
 */
static void
drop_columns(List *tlist, const Bitmapset *used)
{
	ListCell *cell;

	foreach (cell, tlist)
	{
		TargetEntry *entry = lfirst(cell);
		Node *expr = (Node *) entry->expr;

		if (!bms_is_member(entry->resno - FirstLowInvalidHeapAttributeNumber, used))
			entry->expr = (Expr *) makeNullConst(exprType(expr), exprTypmod(expr), exprCollation(expr));
	}
}

/* Puts a node below an aggregation whose aggregates have calls as arguments. */
static void
wrap_input(Plan *plan, bool read_whole)
{
	AggregateCalls calls = {{.plan = plan, .read_whole = read_whole}, list_length(plan->lefttree->targetlist), false};
	List *targetlist;
	List *qual;
	List *tlist = NIL;
	ListCell *cell;

	foreach (cell, plan->lefttree->targetlist)
	{
		TargetEntry *entry = lfirst(cell);
		Var *var = index_var(entry->expr, entry->resno);
		TargetEntry *ours = flatCopyTargetEntry(entry);
		TargetEntry *column = makeTargetEntry((Expr *) var, entry->resno, NULL, false);

		/* documents are found among the child's columns as the aggregation names them */
		column->expr = (Expr *) copyObject(var);
		((Var *) column->expr)->varno = OUTER_VAR;
		calls.wrapping.child_tlist = lappend(calls.wrapping.child_tlist, column);
		ours->expr = (Expr *) var;
		tlist = lappend(tlist, ours);
	}
	targetlist = (List *) split_aggregates((Node *) plan->targetlist, &calls);
	qual = (List *) split_aggregates((Node *) plan->qual, &calls);
	if (!calls.found || calls.wrapping.failed || list_length(calls.wrapping.child_tlist) != calls.ncolumns)
		return;
	plan->targetlist = targetlist;
	plan->qual = qual;
	drop_columns(tlist, used_columns((const Agg *) plan));
	for (int i = 0; i < list_length(calls.wrapping.calls); i++)
	{
		Expr *call = list_nth(calls.wrapping.calls, i);

		tlist = lappend(tlist, makeTargetEntry((Expr *) index_var(call, SCORE_PLACEHOLDER + i),
											   list_length(tlist) + 1, NULL, true));
	}
	plan->lefttree = make_batch_scan(plan->lefttree, tlist, &calls.wrapping);
}

/* Whether a node computes its target list from rows of one kind, one by one. */
static bool
computes_rows(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
		case T_SubqueryScan:
		case T_FunctionScan:
		case T_ValuesScan:
		case T_CteScan:
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			return true;
		case T_Result:
			return plan->lefttree != NULL;
		default:
			return false;
	}
}

static Plan *add_batch_scans(Plan *plan, Demand demand);

static void
add_to_list(List *plans, Demand demand)
{
	ListCell *cell;

	foreach (cell, plans)
		lfirst(cell) = add_batch_scans(lfirst(cell), demand);
}

/* Which rows of its first child a plan asks for. */
static Demand
demand_below(const Plan *plan, Demand demand)
{
	switch (nodeTag(plan))
	{
		case T_Limit:
			return ROWS_SOME;
		case T_MergeJoin: /* stops where the other side ends */
			return ROWS_SOME;
		case T_HashJoin: /* looks at one row before it hashes the other side */
			return Min(demand, ROWS_ALL);
		case T_WindowAgg:
#if PG_VERSION_NUM >= 150000
			if (((const WindowAgg *) plan)->runCondition != NIL)
				return ROWS_SOME;
#endif
			return demand;
		case T_Sort:
		case T_Hash:
			return ROWS_WHOLE;
		case T_Agg:
			if (((const Agg *) plan)->aggstrategy == AGG_HASHED || ((const Agg *) plan)->aggstrategy == AGG_PLAIN)
				return ROWS_WHOLE;
			return demand;
		default:
			return demand;
	}
}

static Plan *
add_batch_scans(Plan *plan, Demand demand)
{
	Demand below;
	bool saved_below_gather = below_gather;

	if (plan == NULL)
		return NULL;
	check_stack_depth();
	below = demand_below(plan, demand);
	switch (nodeTag(plan))
	{
		case T_LockRows:
		case T_RecursiveUnion:
		case T_CustomScan:
		case T_ForeignScan:
			return plan;
		case T_Append:
			add_to_list(((Append *) plan)->appendplans, demand);
			break;
		case T_MergeAppend:
			add_to_list(((MergeAppend *) plan)->mergeplans, demand);
			break;
		case T_SubqueryScan:
			((SubqueryScan *) plan)->subplan = add_batch_scans(((SubqueryScan *) plan)->subplan, demand);
			break;
		default:
			break;
	}
	below_gather |= IsA(plan, Gather) || IsA(plan, GatherMerge);
	plan->lefttree = add_batch_scans(plan->lefttree, below);
	below_gather = saved_below_gather;
	/* a join may stop reading its inner side; a hash it reads whole */
	plan->righttree = add_batch_scans(plan->righttree, ROWS_SOME);

	if (IsA(plan, Agg) && below != ROWS_SOME && plan->lefttree != NULL && plan->lefttree->plan_rows >= MIN_ROWS)
		wrap_input(plan, below == ROWS_WHOLE);
	if (demand == ROWS_SOME || !computes_rows(plan) || plan->plan_rows < MIN_ROWS ||
		!batch_call_within((Node *) plan->targetlist))
		return plan;
	return wrap_target_list(plan, demand == ROWS_WHOLE);
}

static PlannedStmt *
plan_statement(Query *query, const char *string, int cursor_options, ParamListInfo params)
{
	PlannedStmt *statement = previous_planner != NULL ? previous_planner(query, string, cursor_options, params)
													  : standard_planner(query, string, cursor_options, params);

	if (!maxsim_enable_batch_scan || statement->rowMarks != NIL ||
		(statement->commandType != CMD_SELECT && statement->commandType != CMD_INSERT))
		return statement;
	next_node_id = FIRST_NODE_ID;
	below_gather = false;
	subplans = statement->subplans;
	/* a cursor may be read backward, or not to its end */
	statement->planTree = add_batch_scans(statement->planTree,
										  (cursor_options & (CURSOR_OPT_SCROLL | CURSOR_OPT_FAST_PLAN)) == 0 ? ROWS_ALL : ROWS_SOME);
	add_to_list(statement->subplans, ROWS_SOME);
	return statement;
}

void
batch_scan_install(void)
{
	RegisterCustomScanMethods(&batch_scan_methods);
	previous_planner = planner_hook;
	planner_hook = plan_statement;
}
