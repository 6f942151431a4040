/*
 * query.h
 *		One query on one engine: prepared once for each document format that turns
 *		up, and then used for any number of documents.
 */
#ifndef MAXSIM_QUERY_H
#define MAXSIM_QUERY_H

#include "engine.h"
#include "tokens.h"

typedef struct PreparedQuery
{
	const MaxsimEngine *engine;
	MaxsimQuery query; /* its token vectors belong to the caller */
	MemoryContext context;
	MaxsimPrepared *prepared[MAXSIM_NFORMATS]; /* NULL: not needed so far */
} PreparedQuery;

/*
 * query_init		Starts a query of the caller's, whose token vectors and current
 *					memory context must last as long.  An error if it has no tokens.
 * query_prepared	The query as the engine wants it for documents of format.
 * query_score		Scores documents of one format; interrupts are honoured.
 * query_score_one	The score of one document that is not empty.
 */
extern void query_init(PreparedQuery *query, const Tokens *tokens);
extern MaxsimPrepared *query_prepared(PreparedQuery *query, MaxsimFormat format);
extern void query_score(PreparedQuery *query, MaxsimFormat format, const MaxsimDocument *documents,
						uint32 ndocuments, float *scores);
extern float query_score_one(PreparedQuery *query, const Tokens *document);

/* For an engine's MaxsimInterrupt: raises what is pending. */
extern bool query_check_interrupts(void *arg);

/* An error unless a score is finite; returns it. */
extern float query_check_score(float score);

#endif /* MAXSIM_QUERY_H */
