/*
 * batch_scan.h
 *		Plans in which maxsim() is scored in batches: a custom scan node, put above the
 *		node that would have called the function row by row.
 */
#ifndef MAXSIM_BATCH_SCAN_H
#define MAXSIM_BATCH_SCAN_H

#include "nodes/extensible.h"
#include "nodes/plannodes.h"

#include "cache.h"

/* flash_maxsim.enable_batch_scan */
extern bool maxsim_enable_batch_scan;

/* Calls of maxsim() that one node scores, at the most. */
#define BATCH_SCAN_FUNCTIONS 4

/*
 * What a node knows of a call.  Columns are those of its child's rows, counted from 1.  The
 * queries that are one for all rows are its custom_exprs, with a NULL for the others.
 * Its scan tuple, described by custom_scan_tlist, is the child's row and then the scores.
 */
typedef struct BatchScanCall
{
	Oid function;
	DocumentType type;
	int document;      /* its column */
	int query;         /* its column; 0: none */
	bool own_document; /* the columns are for nothing else */
	bool own_query;
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
