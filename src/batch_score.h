/*
 * batch_score.h
 *		A call of a batch scan at work: documents of a window of rows go to a batch, as long
 *		as the query stays the same, and their scores come back by the number of the row.
 */
#ifndef MAXSIM_BATCH_SCORE_H
#define MAXSIM_BATCH_SCORE_H

#include "nodes/execnodes.h"

#include "batch.h"
#include "batch_scan.h"

/* An argument of a call beside the document: its query, or its weights. */
typedef struct ScoreArgument
{
	int column;            /* of the child's rows, from 1; 0: it is one for all rows */
	ExprState *expression; /* computes that; NULL: there is no such argument */
	Datum value;           /* then, detoasted; else as the row has it, flat */
	bool is_null;
	struct varlena *used; /* a copy of the row's, of the query in use */
} ScoreArgument;

typedef struct ScoreCall
{
	BatchScanCall plan;
	ScoreArgument query;
	ScoreArgument weights;
	MemoryContext context; /* of the query in use */
	bool has_query;        /* there is one */
	PreparedQuery prepared;
	uint64 nqueries; /* so far, and documents, where queries are of the row */
	uint64 ndocuments;
	FmgrInfo function; /* called for each row if the query changes too often */
	Batch *batch;      /* NULL: none open */
	float *scores;     /* [of the window] */
	bool *nulls;
} ScoreCall;

/*
 * score_init		Makes call number of a node ready; its memory lies within context.
 * score_start		Computes what is the same for all rows; the current memory context, which
 *					then has room for the scores of n rows, must last until score_reset.
 * score_add		Has the document of row number n scored, unless that or another argument is
 *					NULL.  The batch lies in window, and adds to totals what it did.  Whether
 *					there was a document.
 * score_finish		Returns when all documents have their scores.
 * score_reset		Forgets everything but how often queries changed.
 */
extern void score_init(ScoreCall *call, CustomScanState *node, int number, const BatchScanCall *plan, MemoryContext context);
extern void score_start(ScoreCall *call, ExprContext *econtext, int n);
extern bool score_add(ScoreCall *call, int n, const TupleTableSlot *slot, ExprContext *econtext, MemoryContext window, uint64 *totals);
extern void score_finish(ScoreCall *call);
extern void score_reset(ScoreCall *call);

#endif /* MAXSIM_BATCH_SCORE_H */
