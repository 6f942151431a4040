/*
 * batch_scan.h
 *		Plans in which maxsim() and its kind are scored in batches: a custom scan
 *		node, put above the node that would have called the function row by row.
 */
#ifndef MAXSIM_BATCH_SCAN_H
#define MAXSIM_BATCH_SCAN_H

#include "nodes/extensible.h"
#include "nodes/plannodes.h"

#include "cache.h"
#include "query.h"

/* flash_maxsim.enable_batch_scan */
extern bool maxsim_enable_batch_scan;

/* Calls that one node scores, at the most. */
#define BATCH_SCAN_FUNCTIONS 4

/*
 * What a node knows of a call.  Columns are those of its child's rows, counted from 1.
 * Its scan tuple, described by custom_scan_tlist, is the child's row and then the scores, each
 * as the call that it is: the query and the weights that are one for all rows are read there,
 * and nowhere else, since a plan that goes to a parallel worker is written out as text.  Of
 * the row it has only the columns that the node's target list or conditions use; the others are NULL.
 */
typedef struct BatchScanCall
{
	Oid function;
	DocumentType type;
	ScoreKind kind;
	bool weighted;   /* there is an argument of weights */
	int document;    /* its column */
	int query;       /* its column; 0: none */
	int weights;     /* their column; 0: none */
	bool read_whole; /* the same for all: who asks for the first row asks for all */
} BatchScanCall;

/*
 * batch_scan_install	Has the planner put the node into plans.
 * batch_scan_methods	Of the node.
 * batch_scan_private	A call as an element of custom_private.
 */
extern void batch_scan_install(void);
extern const CustomScanMethods batch_scan_methods;
extern List *batch_scan_private(const BatchScanCall *call);

#endif /* MAXSIM_BATCH_SCAN_H */
