/*
 * batch_plan.c
 *		Putting batch scans into plans: see batch_scan.h.
 *
 * It is done to the finished plan.  Where a node computes maxsim(query, document) for each
 * of its rows it computes the document instead, which is a pointer, and the query or its
 * weights, if they are not the same for all of them, and a node above it the scores of
 * many rows at once; and where a condition has calls, it moves to that node.  The rows that
 * leave it are those that left the other, so nothing else in the plan changes: sorts, limits,
 * joins, partitions and parallel workers are the planner's.
 *
 * A batch reads rows ahead.  So a node is left alone if its rows may not all be wanted,
 * under a limit without a sort for example, and a call that may not be made for each
 * row, behind THEN in a CASE for example.  What asks for a statement's rows may stop all the same, as
 * a function in SQL does after one: so only what a sort, a hash or an aggregation reads
 * is read ahead at once, elsewhere no more than has been asked for so far.
 */
#include "postgres.h"
#include "compat.h"

#include "miscadmin.h"
#include "optimizer/planner.h"

#include "batch_call.h"
#include "batch_scan.h"
#include "batch_wrap.h"

/* fewer rows are not worth a node */
#define MIN_ROWS 10

/* what the planner thinks of maxsim(...) > 5 */
#define CONDITION_SELECTIVITY 0.333

/* of our nodes; the planner counts its own from 0 */
#define FIRST_NODE_ID 1000000000

bool maxsim_enable_batch_scan = true;

static planner_hook_type previous_planner = NULL;

/* Which rows of a plan will be asked for, once there is one. */
typedef enum Demand
{
	ROWS_SOME, /* nobody knows */
	ROWS_ALL,  /* all, unless the client stops */
	ROWS_WHOLE /* all */
} Demand;

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

/* For how many rows a node makes calls, as the planner estimates; 0: it makes none. */
static double
rows_of_calls(const Plan *plan)
{
	if (batch_call_within((Node *) plan->qual))
		return plan->plan_rows / CONDITION_SELECTIVITY;
	return batch_call_within((Node *) plan->targetlist) ? plan->plan_rows : 0;
}

static Plan *add_batch_scans(Plan *plan, Demand demand, BatchPlanning *planning);

static void
add_to_list(List *plans, Demand demand, BatchPlanning *planning)
{
	ListCell *cell;

	foreach (cell, plans)
		lfirst(cell) = add_batch_scans(lfirst(cell), demand, planning);
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
add_batch_scans(Plan *plan, Demand demand, BatchPlanning *planning)
{
	Demand below;
	bool saved_below_gather = planning->below_gather;
	BatchAncestor self = {.plan = plan, .above = planning->ancestors};

	if (plan == NULL)
		return NULL;
	check_stack_depth();
	below = demand_below(plan, demand);
	self.reads_whole = demand_below(plan, ROWS_SOME) == ROWS_WHOLE;
	switch (nodeTag(plan))
	{
		case T_LockRows:
		case T_RecursiveUnion:
		case T_CustomScan:
		case T_ForeignScan:
			return plan;
		default:
			break;
	}
	planning->ancestors = &self;
	switch (nodeTag(plan))
	{
		case T_Append:
			add_to_list(((Append *) plan)->appendplans, demand, planning);
			break;
		case T_MergeAppend:
			add_to_list(((MergeAppend *) plan)->mergeplans, demand, planning);
			break;
		case T_SubqueryScan:
			((SubqueryScan *) plan)->subplan = add_batch_scans(((SubqueryScan *) plan)->subplan, demand, planning);
			break;
		default:
			break;
	}
	planning->below_gather |= IsA(plan, Gather) || IsA(plan, GatherMerge);
	plan->lefttree = add_batch_scans(plan->lefttree, below, planning);
	planning->below_gather = saved_below_gather;
	/* a join may stop reading its inner side; a hash it reads whole */
	plan->righttree = add_batch_scans(plan->righttree, ROWS_SOME, planning);

	if (IsA(plan, Agg) && below != ROWS_SOME && plan->lefttree != NULL && plan->lefttree->plan_rows >= MIN_ROWS)
		batch_wrap_input(plan, below == ROWS_WHOLE, planning);
	planning->ancestors = self.above;
	if (demand == ROWS_SOME || !computes_rows(plan) || rows_of_calls(plan) < MIN_ROWS)
		return plan;
	return batch_wrap_rows(plan, demand == ROWS_WHOLE, planning);
}

static PlannedStmt *
plan_statement(Query *query, const char *string, int cursor_options, ParamListInfo params)
{
	PlannedStmt *statement = previous_planner != NULL ? previous_planner(query, string, cursor_options, params)
													  : standard_planner(query, string, cursor_options, params);
	BatchPlanning planning;

	if (!maxsim_enable_batch_scan || statement->rowMarks != NIL ||
		(statement->commandType != CMD_SELECT && statement->commandType != CMD_INSERT))
		return statement;
	planning = (BatchPlanning){.next_node_id = FIRST_NODE_ID, .subplans = statement->subplans};
	/* a cursor may be read backward, or not to its end */
	statement->planTree = add_batch_scans(statement->planTree,
										  (cursor_options & (CURSOR_OPT_SCROLL | CURSOR_OPT_FAST_PLAN)) == 0 ? ROWS_ALL : ROWS_SOME, &planning);
	add_to_list(statement->subplans, ROWS_SOME, &planning);
	return statement;
}

void
batch_scan_install(void)
{
	RegisterCustomScanMethods(&batch_scan_methods);
	previous_planner = planner_hook;
	planner_hook = plan_statement;
}
