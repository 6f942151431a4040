/*
 * batch_wrap.c
 *		See batch_wrap.h.
 *
 * The node that computed calls computes their documents instead, which are pointers, and the
 * query or the weights, if they are not the same for all rows.  The one above it has the
 * node's target list and the conditions that were split off.
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"

#include "batch_documents.h"
#include "batch_scan.h"
#include "batch_volatile.h"
#include "batch_wrap.h"

/* No pointer, or one to what lasts. */
bool
batch_can_keep(const BatchWrapping *wrapping, Expr *expr)
{
	return get_typlen(exprType((Node *) expr)) != -1 || !document_may_go((Node *) expr, wrapping->plan, wrapping->planning->subplans);
}

/* The column of the child that computes an expression. */
static int
column_for(BatchWrapping *wrapping, Expr *expr)
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

/* The same, if its value is kept while further rows are read. */
static int
kept_column_for(BatchWrapping *wrapping, Expr *expr)
{
	wrapping->failed |= !batch_can_keep(wrapping, expr);
	return column_for(wrapping, expr);
}

Var *
batch_index_var(Expr *expr, int column)
{
	return makeVar(INDEX_VAR, column, exprType((Node *) expr), exprTypmod((Node *) expr),
				   exprCollation((Node *) expr), 0);
}

/* The column of an argument that is of the row; 0: it is one for all rows, or none. */
static int
column_if_of_row(BatchWrapping *wrapping, Expr *argument)
{
	return contain_var_clause((Node *) argument) ? column_for(wrapping, argument) : 0;
}

/* The score of a call that is made anyway; NULL: it is not. */
static Node *
known_score(const BatchWrapping *wrapping, const Node *node)
{
	for (int i = 0; i < list_length(wrapping->calls); i++)
	{
		if (equal(list_nth(wrapping->calls, i), node))
			return (Node *) batch_index_var((Expr *) node, BATCH_SCORE_PLACEHOLDER + i);
	}
	return NULL;
}

/* Where the score of a call will be; a call that occurs twice is made once. */
Node *
batch_score_var(BatchWrapping *wrapping, Node *node, const BatchCall *call)
{
	int n = list_length(wrapping->calls);
	Node *score = known_score(wrapping, node);

	if (score != NULL)
		return score;
	if (n == BATCH_SCAN_FUNCTIONS)
	{
		wrapping->failed = true;
		return node;
	}
	wrapping->calls = lappend(wrapping->calls, node);
	wrapping->columns = lappend_int(wrapping->columns, kept_column_for(wrapping, call->document));
	wrapping->queries = lappend_int(wrapping->queries, column_if_of_row(wrapping, call->query));
	wrapping->weights = lappend_int(wrapping->weights, column_if_of_row(wrapping, call->weights));
	return (Node *) batch_index_var((Expr *) node, BATCH_SCORE_PLACEHOLDER + n);
}

/* Whether an expression's place in the plan matters. */
static bool
is_of_its_node(const Node *node)
{
	return IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) || IsA(node, Aggref) || IsA(node, WindowFunc) ||
		   IsA(node, GroupingFunc);
}

/*
 * expression_tree_mutator: what our node computes of an expression that it may not have to
 * compute.  Nothing is computed ahead but the columns in it, and no whole row of a table, which
 * has its documents fetched.
 */
static Node *
defer(Node *node, void *context)
{
	BatchWrapping *wrapping = context;
	Node *score;

	if (node == NULL)
		return NULL;
	score = known_score(wrapping, node);
	if (score != NULL)
		return score;
	if (is_of_its_node(node) || (IsA(node, Var) && ((Var *) node)->varattno == 0))
	{
		wrapping->failed = true;
		return node;
	}
	if (IsA(node, Var))
		return (Node *) batch_index_var((Expr *) node, kept_column_for(wrapping, (Expr *) node));
	return expression_tree_mutator(node, defer, context);
}

static Node *split(Node *node, void *context);

/* A node whose first part has calls: its other parts may not have to be computed. */
static Node *
split_first_part(Node *node, BatchWrapping *wrapping)
{
	Node *copy = copyObject(node);
	Node **part = batch_call_first_part(copy);
	Node *first = split(*part, wrapping);

	*part = makeBoolConst(true, false);
	copy = expression_tree_mutator(copy, defer, wrapping);
	*batch_call_first_part(copy) = first;
	return copy;
}

/* expression_tree_mutator: what our node computes in place of an expression of the child's. */
static Node *
split(Node *node, void *context)
{
	BatchWrapping *wrapping = context;
	BatchCall call;

	if (node == NULL)
		return NULL;
	if (batch_call_read(node, &call))
		return batch_score_var(wrapping, node, &call);
	if (IsA(node, Var))
		return (Node *) batch_index_var((Expr *) node, kept_column_for(wrapping, (Expr *) node));
	if (is_of_its_node(node))
	{
		wrapping->failed = true;
		return node;
	}
	if (batch_call_first_part(node) != NULL && batch_call_within(node))
		return split_first_part(node, wrapping);
	/* what is computed on a condition only is left whole, and computed row by row */
	if (!batch_call_is_unconditional(node) && !IsA(node, Const) && !IsA(node, Param))
	{
		if (!contain_var_clause(node))
			return node;
		return (Node *) batch_index_var((Expr *) node, kept_column_for(wrapping, (Expr *) node));
	}
	return expression_tree_mutator(node, split, context);
}

/* expression_tree_mutator: scores' places, now that there are *context columns before them. */
static Node *
place_scores(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR && ((Var *) node)->varattno >= BATCH_SCORE_PLACEHOLDER)
		return (Node *) batch_index_var((Expr *) node, ((Var *) node)->varattno - BATCH_SCORE_PLACEHOLDER + 1 + *(int *) context);
	return expression_tree_mutator(node, place_scores, context);
}

/* A column of the child's, as the scan tuple's description has it. */
static Expr *
column_expr(const CustomScan *scan, int column)
{
	return copyObject(((TargetEntry *) list_nth(scan->custom_scan_tlist, column - 1))->expr);
}

/* With calls to make, and columns that a row can have: a join may return more. */
bool
batch_can_make_scan(const BatchWrapping *wrapping)
{
	return !wrapping->failed && wrapping->calls != NIL && list_length(wrapping->child_tlist) <= MaxTupleAttributeNumber;
}

/* The node above child, which computes tlist from child's rows and the scores where qual holds. */
Plan *
batch_make_scan(Plan *child, List *tlist, List *qual, const BatchWrapping *wrapping)
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
	plan->parallel_aware = wrapping->planning->below_gather; /* it is given shared memory then, for EXPLAIN */
	plan->plan_node_id = wrapping->planning->next_node_id++;
	plan->extParam = bms_copy(child->extParam);
	plan->allParam = bms_copy(child->allParam);
	plan->lefttree = child;
	plan->targetlist = (List *) place_scores((Node *) tlist, &ncolumns);
	plan->qual = (List *) place_scores((Node *) qual, &ncolumns);
	scan->methods = &batch_scan_methods;
#if PG_VERSION_NUM >= 150000
	scan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
#endif

	foreach (cell, wrapping->child_tlist)
	{
		TargetEntry *entry = lfirst(cell);
		Var *var = batch_index_var(entry->expr, entry->resno);

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
wrap_target_list(Plan *plan, bool read_whole, BatchPlanning *planning)
{
	BatchWrapping wrapping = {.planning = planning, .plan = plan, .read_whole = read_whole};
	List *tlist = NIL;
	ListCell *cell;

	foreach (cell, plan->targetlist)
	{
		TargetEntry *entry = lfirst(cell);
		TargetEntry *ours = flatCopyTargetEntry(entry);

		if (batch_call_within((Node *) entry->expr))
			ours->expr = (Expr *) split((Node *) entry->expr, &wrapping);
		else
			ours->expr = (Expr *) batch_index_var(entry->expr, kept_column_for(&wrapping, entry->expr));
		tlist = lappend(tlist, ours);
	}
	if (!batch_can_make_scan(&wrapping) ||
		batch_reorders(&(BatchDivision){plan, wrapping.child_tlist, plan->qual, tlist, NIL}, planning))
		return plan;
	plan->targetlist = wrapping.child_tlist;
	return batch_make_scan(plan, tlist, NIL, &wrapping);
}

/* The place of the first condition with calls in a list of them, counted from 0; their number: there is none. */
static int
first_condition(List *qual)
{
	int n = 0;

	while (n < list_length(qual) && !batch_call_within(list_nth(qual, n)))
		n++;
	return n;
}

/*
 * Puts a node above one that computes calls in its conditions.  Those after the first with a
 * call go with it, and so does the target list, since rows that fail must not be computed.
 */
static Plan *
wrap_filter(Plan *plan, bool read_whole, BatchPlanning *planning)
{
	BatchWrapping wrapping = {.planning = planning, .plan = plan, .read_whole = read_whole};
	int first = first_condition(plan->qual);
	List *qual = list_make1(split(list_nth(plan->qual, first), &wrapping));
	List *tlist = NIL;
	List *remaining;
	ListCell *cell;

	for (int i = first + 1; i < list_length(plan->qual); i++)
		qual = lappend(qual, defer(list_nth(plan->qual, i), &wrapping));
	foreach (cell, plan->targetlist)
	{
		TargetEntry *entry = lfirst(cell);
		TargetEntry *ours = flatCopyTargetEntry(entry);

		ours->expr = (Expr *) defer((Node *) entry->expr, &wrapping);
		tlist = lappend(tlist, ours);
	}
	remaining = list_truncate(list_copy(plan->qual), first);
	if (!batch_can_make_scan(&wrapping) ||
		batch_reorders(&(BatchDivision){plan, wrapping.child_tlist, remaining, tlist, qual}, planning))
		return plan;
	plan->qual = remaining;
	plan->targetlist = wrapping.child_tlist;
	return batch_make_scan(plan, tlist, qual, &wrapping);
}

Plan *
batch_wrap_rows(Plan *plan, bool read_whole, BatchPlanning *planning)
{
	if (first_condition(plan->qual) < list_length(plan->qual))
		plan = wrap_filter(plan, read_whole, planning);
	/* calls that conditions do not have, for rows that have passed them */
	if (batch_call_within((Node *) plan->targetlist))
		plan = wrap_target_list(plan, read_whole, planning);
	return plan;
}
