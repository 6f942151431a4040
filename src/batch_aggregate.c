/*
 * batch_aggregate.c
 *		Calls in the arguments of aggregates: see batch_wrap.h.
 */
#include "postgres.h"
#include "compat.h"

#include "access/sysattr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"

#include "batch_scan.h"
#include "batch_volatile.h"
#include "batch_wrap.h"

/* What is changed of an aggregation: calls in arguments of its aggregates. */
typedef struct AggregateCalls
{
	BatchWrapping wrapping;
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
		Var *var = (Var *) batch_score_var(&calls->wrapping, node, &call);

		if (IsA(var, Var))
		{
			/* our node's columns: the child's, then the scores */
			var->varno = OUTER_VAR;
			var->varattno += calls->ncolumns + 1 - BATCH_SCORE_PLACEHOLDER;
		}
		calls->found = true;
		return (Node *) var;
	}
	if (batch_call_first_part(node) != NULL)
	{
		Node *copy = copyObject(node);
		Node **part = batch_call_first_part(copy);

		*part = split_argument(*part, context);
		return copy;
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
used_columns(const Agg *aggregation, const List *targetlist, const List *qual)
{
	Bitmapset *columns = add_columns(NULL, aggregation->grpColIdx, aggregation->numCols);
	ListCell *cell;

	pull_varattnos((Node *) targetlist, OUTER_VAR, &columns);
	pull_varattnos((Node *) qual, OUTER_VAR, &columns);
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
 * Makes columns NULL that a batch scan returns and its reader does not use.  The planner lets
 * the node below an aggregation return whole rows of its table, which cost that node nothing,
 * but one that keeps them a copy.  What a volatile function does is wanted all the same.
 */
static void
drop_columns(Plan *plan, const Bitmapset *used)
{
	const CustomScan *scan = (const CustomScan *) plan;
	Bitmapset *used_of_child = NULL;
	ListCell *cell;

	if (!IsA(plan, CustomScan) || scan->methods != &batch_scan_methods)
		return;
	foreach (cell, plan->targetlist)
	{
		TargetEntry *entry = lfirst(cell);
		Node *expr = (Node *) entry->expr;

		if (!bms_is_member(entry->resno - FirstLowInvalidHeapAttributeNumber, used) && !contain_volatile_functions(expr))
			entry->expr = (Expr *) makeNullConst(exprType(expr), exprTypmod(expr), exprCollation(expr));
	}
	/* its child may be another one: arguments of its calls are columns of that */
	pull_varattnos((Node *) plan->targetlist, INDEX_VAR, &used_of_child);
	pull_varattnos((Node *) plan->qual, INDEX_VAR, &used_of_child);
	pull_varattnos((Node *) list_copy_tail(scan->custom_scan_tlist, list_length(scan->custom_scan_tlist) - list_length(scan->custom_private)), OUTER_VAR, &used_of_child);
	drop_columns(plan->lefttree, used_of_child);
}

/* Puts a node below an aggregation whose aggregates have calls as arguments. */
static void
wrap_input(Plan *plan, bool read_whole, BatchPlanning *planning)
{
	AggregateCalls calls = {{.planning = planning, .plan = plan, .read_whole = read_whole}, list_length(plan->lefttree->targetlist), false};
	List *targetlist;
	List *qual;
	List *tlist = NIL;
	Bitmapset *used;
	ListCell *cell;

	foreach (cell, plan->lefttree->targetlist)
	{
		TargetEntry *entry = lfirst(cell);
		Var *var = batch_index_var(entry->expr, entry->resno);
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
	used = used_columns((const Agg *) plan, targetlist, qual);
	foreach (cell, calls.wrapping.child_tlist)
	{
		TargetEntry *column = lfirst(cell);

		if (bms_is_member(column->resno - FirstLowInvalidHeapAttributeNumber, used))
			calls.wrapping.failed |= !batch_can_keep(&calls.wrapping, column->expr);
	}
	if (!calls.found || !batch_can_make_scan(&calls.wrapping) || list_length(calls.wrapping.child_tlist) != calls.ncolumns ||
		batch_reorders(&(BatchDivision){.plan = plan, .tlist = targetlist, .qual = qual}, planning))
		return;
	plan->targetlist = targetlist;
	plan->qual = qual;
	for (int i = 0; i < list_length(calls.wrapping.calls); i++)
	{
		Expr *call = list_nth(calls.wrapping.calls, i);

		tlist = lappend(tlist, makeTargetEntry((Expr *) batch_index_var(call, BATCH_SCORE_PLACEHOLDER + i),
											   list_length(tlist) + 1, NULL, true));
	}
	plan->lefttree = batch_make_scan(plan->lefttree, tlist, NIL, &calls.wrapping);
}

void
batch_wrap_input(Plan *aggregation, bool read_whole, BatchPlanning *planning)
{
	wrap_input(aggregation, read_whole, planning);
	drop_columns(aggregation->lefttree, used_columns((const Agg *) aggregation, aggregation->targetlist, aggregation->qual));
}
