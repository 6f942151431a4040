/*
 * batch_scan.h
 *		Plans in which maxsim() is scored in batches: a custom scan node, put above the
 *		node that would have called the function row by row.
 */
#ifndef MAXSIM_BATCH_SCAN_H
#define MAXSIM_BATCH_SCAN_H

#include "nodes/extensible.h"
#include "nodes/plannodes.h"

/* flash_maxsim.enable_batch_scan */
extern bool maxsim_enable_batch_scan;

/* Calls of maxsim() that one node scores, at the most. */
#define BATCH_SCAN_FUNCTIONS 4

/*
 * A node has in its custom_exprs the queries, and in its custom_private a list of
 * integers for each: the column of its child's rows that has the document, counted from
 * 1; a DocumentType; whether the column is for nothing else; and, the same for all,
 * whether all rows are read by whoever reads one.  Its scan tuple, described by
 * custom_scan_tlist, is the child's row and then the scores.
 */

/*
 * batch_scan_install	Has the planner put the node into plans.
 * batch_scan_methods	Of the node.
 */
extern void batch_scan_install(void);
extern const CustomScanMethods batch_scan_methods;

#endif /* MAXSIM_BATCH_SCAN_H */
