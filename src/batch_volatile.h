/*
 * batch_volatile.h
 *		Volatile functions of a plan whose calls a batch scan would put in another order.
 */
#ifndef MAXSIM_BATCH_VOLATILE_H
#define MAXSIM_BATCH_VOLATILE_H

#include "batch_wrap.h"

/* What a node is divided into: what stays in it, for rows ahead, and what goes to the node above it. */
typedef struct BatchDivision
{
	const Plan *plan;
	List *child_tlist;
	List *child_qual;
	List *tlist;
	List *qual;
} BatchDivision;

/*
 * batch_reorders	Whether volatile functions would be called both for rows ahead, in a node or
 *					below it, and for rows that come out of the batch scan above it.  What one
 *					of them does may be what another one returns, as nextval() and currval().
 */
extern bool batch_reorders(const BatchDivision *division, const BatchPlanning *planning);

#endif /* MAXSIM_BATCH_VOLATILE_H */
