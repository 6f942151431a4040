/*
 * batch_call.h
 *		Calls in a plan that can be scored in batches: of maxsim(), maxsim_mean() and
 *		maxsim_hamming().
 */
#ifndef MAXSIM_BATCH_CALL_H
#define MAXSIM_BATCH_CALL_H

#include "nodes/primnodes.h"

#include "cache.h"
#include "query.h"

/* What a call computes; expressions are the call's own. */
typedef struct BatchCall
{
	DocumentType type;
	ScoreKind kind;
	Expr *query;
	Expr *document;
	Expr *weights; /* NULL: none */
} BatchCall;

/*
 * batch_call_read	Whether a node of an expression is a call that can be scored in batches:
 *					with a document of the row; query and weights are the same for all
 *					rows, or of the row as well and may be the same in the next.  Then what
 *					it computes.
 * batch_call_arguments	Of such a call, in the function's order.
 * batch_call_within	Whether an expression has such a call that is made for every row.
 * batch_call_is_unconditional	Whether all arguments of a node are computed, whatever their
 *					values.
 * batch_call_first_part	Of a node that may not compute all its arguments, the place of the one
 *					that it computes first and so always; NULL: there is none.
 */
extern bool batch_call_read(Node *node, BatchCall *call);
extern List *batch_call_arguments(const BatchCall *call);
extern bool batch_call_within(Node *node);
extern bool batch_call_is_unconditional(Node *node);
extern Node **batch_call_first_part(Node *node);

#endif /* MAXSIM_BATCH_CALL_H */
