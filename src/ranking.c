/*
 * ranking.c
 *		See ranking.h.
 */
#include "postgres.h"
#include "compat.h"

#include "utils/memutils.h"

#include "ranking.h"

#define RANKING_START 256

/* The order of results, as a qsort comparator; sorting millions can be given up. */
static int
compare_documents(const void *a, const void *b)
{
	const RankedDocument *left = a;
	const RankedDocument *right = b;

	CHECK_FOR_INTERRUPTS();
	if (left->is_null != right->is_null)
		return left->is_null ? 1 : -1;
	if (!left->is_null && left->score != right->score)
		return left->score > right->score ? -1 : 1;
	return left->id < right->id ? -1 : left->id > right->id;
}

void
ranking_init(Ranking *ranking, uint64 limit)
{
	ranking->n = 0;
	ranking->limit = limit;
	ranking->allocated = RANKING_START;
	ranking->documents = palloc(RANKING_START * sizeof(RankedDocument));
}

void
ranking_finish(Ranking *ranking)
{
	qsort(ranking->documents, ranking->n, sizeof(RankedDocument), compare_documents);
	ranking->n = Min(ranking->n, ranking->limit);
}

void
ranking_add(void *arg, int64 id, float score, bool is_null)
{
	Ranking *ranking = arg;
	RankedDocument *document;

	if (ranking->n == ranking->allocated)
	{
		/* dropping half at a time makes a long list cost few sorts */
		if (ranking->limit <= ranking->allocated / 2)
			ranking_finish(ranking);
		else
		{
			ranking->allocated *= 2;
			ranking->documents = repalloc_huge(ranking->documents, ranking->allocated * sizeof(RankedDocument));
		}
	}
	document = &ranking->documents[ranking->n++];
	document->id = id;
	document->score = score;
	document->is_null = is_null;
}
