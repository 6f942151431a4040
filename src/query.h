/*
 * query.h
 *		One query on one engine: prepared once for each document format that turns
 *		up, and then used for any number of documents.
 */
#ifndef MAXSIM_QUERY_H
#define MAXSIM_QUERY_H

#include "engine.h"
#include "tokens.h"
#include "weights.h"

/* What is made of the terms that query tokens have with a document. */
typedef enum ScoreKind
{
	SCORE_SUM,  /* maxsim(): their sum */
	SCORE_MEAN, /* maxsim_mean(): divided by the weight of the query's tokens */
	SCORE_SIGNS /* maxsim_hamming(): their sum, of the signs of the query's components */
} ScoreKind;

typedef struct PreparedQuery
{
	ScoreKind kind;

	const MaxsimEngine *engine;
	MaxsimQuery query;   /* its token vectors may be the caller's */
	double total_weight; /* of its tokens: their number, unless there are weights */
	MemoryContext context;
	MaxsimPrepared *prepared[MAXSIM_NFORMATS]; /* NULL: not needed so far */
} PreparedQuery;

/*
 * query_of			Token vectors and their weights, NULL for all 1, as engines take them:
 *					tokens of weight 0 are left out, so that a masked query is the query
 *					of its other tokens, bit for bit.  numbers, unless NULL, gets the place
 *					of each token among all of them.  Points to what belongs to the caller,
 *					or was palloc'd.  An error if there are no tokens.
 * query_init		Starts a query of the caller's, whose token vectors and current
 *					memory context must last as long; weights as above.
 * query_check_format	An error if such documents cannot be scored for the query.
 * query_prepared	The query as the engine wants it for documents of format.
 * query_score		Scores documents of one format; interrupts are honoured.  What will be read
 *					next may be said; NULL: nothing.
 * query_score_one	The score of one document that is not empty.
 * query_result		What the kind of score makes of a sum.
 */
extern MaxsimQuery query_of(const Tokens *tokens, ArrayType *weights, uint32 *numbers);
extern void query_init(PreparedQuery *query, const Tokens *tokens, ArrayType *weights, ScoreKind kind);
extern void query_check_format(const PreparedQuery *query, MaxsimFormat format);
extern MaxsimPrepared *query_prepared(PreparedQuery *query, MaxsimFormat format);
extern void query_score(PreparedQuery *query, MaxsimFormat format, const MaxsimDocument *documents,
						uint32 ndocuments, float *scores, const char *ahead, Size ahead_size);
extern float query_score_one(PreparedQuery *query, const Tokens *document);
extern float query_result(const PreparedQuery *query, float sum);

/* For an engine's MaxsimInterrupt: raises what is pending. */
extern bool query_check_interrupts(void *arg);

/* An error unless a score is finite; returns it. */
extern float query_check_score(float score);

/*
 * For who keeps a query and looks whether the next one is another: a copy of an argument
 * as it came, which may be a TOAST pointer, and whether two are the same bytes.  NULL is
 * an argument that there is not.
 */
extern struct varlena *query_keep_value(const void *value);
extern bool query_same_value(const struct varlena *kept, const void *value);

#endif /* MAXSIM_QUERY_H */
