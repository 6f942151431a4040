/*
 * batch_wrap.h
 *		Putting one batch scan above or below a node of a finished plan.
 */
#ifndef MAXSIM_BATCH_WRAP_H
#define MAXSIM_BATCH_WRAP_H

#include "nodes/plannodes.h"

#include "batch_call.h"

/* A node above the one in work. */
typedef struct BatchAncestor
{
	const Plan *plan;
	bool reads_whole; /* it reads its input to the end before it returns a row */
	const struct BatchAncestor *above;
} BatchAncestor;

/* The statement in work. */
typedef struct BatchPlanning
{
	int next_node_id;
	bool below_gather; /* the plan in work is */
	const BatchAncestor *ancestors;
	List *subplans;
} BatchPlanning;

/* A node in the making. */
typedef struct BatchWrapping
{
	BatchPlanning *planning;
	const Plan *plan;  /* the node that computes the calls */
	List *child_tlist; /* what the node below is to compute */
	List *calls;       /* FuncExprs, all different */
	List *columns;     /* of their documents, in child_tlist */
	List *queries;     /* columns of their queries; 0: one for all rows */
	List *weights;     /* columns of their weights; 0: those of all rows, or none */
	bool failed;       /* it cannot be done */
	bool read_whole;   /* whoever asks for the first row asks for all */
} BatchWrapping;

/* Where a score will be, until all columns before the scores are known: a column from this number on. */
#define BATCH_SCORE_PLACEHOLDER 10000

/*
 * batch_wrap_rows	Puts a node above one that computes calls for each of its rows, and returns it; or
 *					the same one, if that cannot be done.
 * batch_wrap_input	Puts one below an aggregation whose aggregates have calls as arguments.
 *
 * What both are made of:
 *
 * batch_index_var	The column with that number of a node's scan tuple, which an expression computed.
 * batch_score_var	Where the score of a call will be; a call that occurs twice is made once.
 * batch_can_keep	Whether the value of an expression can be kept while further rows are read.
 * batch_can_make_scan	Whether what has been gathered can be a node.
 * batch_make_scan	The node above child, which computes tlist from child's rows and the scores, for rows
 *					that meet qual.
 */
extern Plan *batch_wrap_rows(Plan *plan, bool read_whole, BatchPlanning *planning);
extern void batch_wrap_input(Plan *aggregation, bool read_whole, BatchPlanning *planning);
extern Var *batch_index_var(Expr *expr, int column);
extern Node *batch_score_var(BatchWrapping *wrapping, Node *node, const BatchCall *call);
extern bool batch_can_keep(const BatchWrapping *wrapping, Expr *expr);
extern bool batch_can_make_scan(const BatchWrapping *wrapping);
extern Plan *batch_make_scan(Plan *child, List *tlist, List *qual, const BatchWrapping *wrapping);

#endif /* MAXSIM_BATCH_WRAP_H */
