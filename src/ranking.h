/*
 * ranking.h
 *		Scored ids in the order of results: score descending, then id ascending,
 *		documents without a score last.
 */
#ifndef MAXSIM_RANKING_H
#define MAXSIM_RANKING_H

typedef struct RankedDocument
{
	int64 id;
	float score;
	bool is_null;
} RankedDocument;

typedef struct Ranking
{
	RankedDocument *documents;
	uint64 n;
	uint64 allocated;
	uint64 limit; /* only that many best ones are wanted */
	bool full;    /* documents[limit - 1] was the last of these when it was looked at last */
} Ranking;

/*
 * ranking_init		Starts an empty one in the current memory context.  Memory grows
 *					with the limit, or the number of documents if that is smaller.
 * ranking_add		Takes a document; a BatchDeliver with a Ranking as its arg.
 * ranking_finish	Brings the documents into order and drops those beyond the limit.
 */
#define RANKING_ALL PG_UINT64_MAX
extern void ranking_init(Ranking *ranking, uint64 limit);
extern void ranking_add(void *ranking, int64 id, float score, bool is_null);
extern void ranking_finish(Ranking *ranking);

#endif /* MAXSIM_RANKING_H */
