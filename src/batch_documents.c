/*
 * batch_documents.c
 *		See batch_documents.h.
 *
 * A document's expression is followed down the plan, column by column, to the scans
 * that it comes from.
 */
#include "postgres.h"
#include "compat.h"

#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"

#include "batch_documents.h"

/* Whether column number n of a plan's rows may go; 0: any. */
static bool
column_may_go(const Plan *plan, AttrNumber n, const List *subplans)
{
	ListCell *cell;

	if (plan == NULL)
		return false;
	if (n > 0 && n <= list_length(plan->targetlist)) /* they are numbered by their places */
		return document_may_go((Node *) ((const TargetEntry *) list_nth(plan->targetlist, n - 1))->expr, plan, subplans);
	foreach (cell, plan->targetlist)
	{
		if (document_may_go((Node *) ((const TargetEntry *) lfirst(cell))->expr, plan, subplans))
			return true;
	}
	return false;
}

static bool
any_column_may_go(const List *plans, AttrNumber n, const List *subplans)
{
	ListCell *cell;

	foreach (cell, plans)
	{
		if (column_may_go(lfirst(cell), n, subplans))
			return true;
	}
	return false;
}

/* A column of what a node scans. */
static bool
scanned_may_go(const Plan *plan, AttrNumber n, const List *subplans)
{
	switch (nodeTag(plan))
	{
		case T_FunctionScan:
			return contain_volatile_functions((Node *) ((const FunctionScan *) plan)->functions);
		case T_ValuesScan:
			return contain_volatile_functions((Node *) ((const ValuesScan *) plan)->values_lists);
		case T_SubqueryScan:
			return column_may_go(((const SubqueryScan *) plan)->subplan, n, subplans);
		case T_CteScan:
			return column_may_go(list_nth(subplans, ((const CteScan *) plan)->ctePlanId - 1), n, subplans);
		default:
			return false;
	}
}

static bool
var_may_go(const Var *var, const Plan *plan, const List *subplans)
{
	AttrNumber n = var->varattno;

	if (var->varno == INNER_VAR)
		return column_may_go(plan->righttree, n, subplans);
	if (var->varno == INDEX_VAR && IsA(plan, CustomScan) && n > 0 &&
		n <= list_length(((const CustomScan *) plan)->custom_scan_tlist))
	{
		const TargetEntry *entry = list_nth(((const CustomScan *) plan)->custom_scan_tlist, n - 1);

		return document_may_go((Node *) entry->expr, plan, subplans);
	}
	if (var->varno != OUTER_VAR)
		return scanned_may_go(plan, n, subplans);
	switch (nodeTag(plan))
	{
		case T_Append:
			return any_column_may_go(((const Append *) plan)->appendplans, n, subplans);
		case T_MergeAppend:
			return any_column_may_go(((const MergeAppend *) plan)->mergeplans, n, subplans);
		case T_RecursiveUnion:
			return column_may_go(plan->lefttree, n, subplans) || column_may_go(plan->righttree, n, subplans);
		default:
			return column_may_go(plan->lefttree, n, subplans);
	}
}

bool
document_may_go(Node *document, const Plan *plan, const List *subplans)
{
	ListCell *cell;

	check_stack_depth();
	if (contain_volatile_functions(document))
		return true;
	foreach (cell, pull_var_clause(document, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_RECURSE_PLACEHOLDERS))
	{
		if (var_may_go(lfirst(cell), plan, subplans))
			return true;
	}
	return false;
}
