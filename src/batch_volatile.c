/*
 * batch_volatile.c
 *		See batch_volatile.h.
 */
#include "postgres.h"
#include "compat.h"

#include "miscadmin.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"

#include "batch_volatile.h"

/* With volatile functions; or with subqueries, if those count. */
static bool
is_volatile(List *list, bool subqueries)
{
	return contain_volatile_functions((Node *) list) || (subqueries && contain_subplans((Node *) list));
}

static bool tree_is_volatile(const Plan *plan, bool subqueries);

static bool
any_is_volatile(const List *plans, bool subqueries)
{
	ListCell *cell;

	foreach (cell, plans)
	{
		if (tree_is_volatile(lfirst(cell), subqueries))
			return true;
	}
	return false;
}

/* What a node computes besides its target list and conditions, without what is below it. */
static bool
rest_is_volatile(const Plan *plan, bool subqueries)
{
	switch (nodeTag(plan))
	{
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			return is_volatile(((const Join *) plan)->joinqual, subqueries);
		case T_FunctionScan:
			return is_volatile(((const FunctionScan *) plan)->functions, subqueries);
		case T_ValuesScan:
			return is_volatile(((const ValuesScan *) plan)->values_lists, subqueries);
		case T_CteScan:
			return subqueries;
		default:
			return false;
	}
}

static bool
node_is_volatile(const Plan *plan, bool subqueries)
{
	return is_volatile(plan->targetlist, subqueries) || is_volatile(plan->qual, subqueries) || rest_is_volatile(plan, subqueries);
}

static bool
inputs_are_volatile(const Plan *plan, bool subqueries)
{
	if (tree_is_volatile(plan->lefttree, subqueries) || tree_is_volatile(plan->righttree, subqueries))
		return true;
	switch (nodeTag(plan))
	{
		case T_Append:
			return any_is_volatile(((const Append *) plan)->appendplans, subqueries);
		case T_MergeAppend:
			return any_is_volatile(((const MergeAppend *) plan)->mergeplans, subqueries);
		case T_SubqueryScan:
			return tree_is_volatile(((const SubqueryScan *) plan)->subplan, subqueries);
		default:
			return false;
	}
}

static bool
tree_is_volatile(const Plan *plan, bool subqueries)
{
	check_stack_depth();
	return plan != NULL && (node_is_volatile(plan, subqueries) || inputs_are_volatile(plan, subqueries));
}

/* Whether a node above the one in work calls volatile functions for its rows, one by one. */
static bool
above_is_volatile(const BatchPlanning *planning, bool subqueries)
{
	for (const BatchAncestor *ancestor = planning->ancestors; ancestor != NULL; ancestor = ancestor->above)
	{
		if (node_is_volatile(ancestor->plan, subqueries))
			return true;
		if (ancestor->reads_whole)
			return false;
	}
	return false;
}

bool
batch_reorders(const BatchDivision *division, const BatchPlanning *planning)
{
	/* a subquery in a subquery is one of the statement's as well */
	bool subqueries = any_is_volatile(planning->subplans, false);

	if (!is_volatile(division->tlist, subqueries) && !is_volatile(division->qual, subqueries) && !above_is_volatile(planning, subqueries))
		return false;
	return is_volatile(division->child_tlist, subqueries) || is_volatile(division->child_qual, subqueries) ||
		   rest_is_volatile(division->plan, subqueries) || inputs_are_volatile(division->plan, subqueries);
}
