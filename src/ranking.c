/*
 * ranking.c
 *		See ranking.h.
 */
#include "postgres.h"
#include "compat.h"

#include "utils/memutils.h"

#include "ranking.h"

#define RANKING_START 256

/* The order of results. */
static inline int
compare_documents(const RankedDocument *left, const RankedDocument *right)
{
	if (left->is_null != right->is_null)
		return left->is_null ? 1 : -1;
	if (!left->is_null && left->score != right->score)
		return left->score > right->score ? -1 : 1;
	return left->id < right->id ? -1 : left->id > right->id;
}

/* sorting millions can be given up */
#define ST_SORT sort_documents
#define ST_ELEMENT_TYPE RankedDocument
#define ST_COMPARE(a, b) compare_documents(a, b)
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

void
ranking_init(Ranking *ranking, uint64 limit)
{
	ranking->n = 0;
	ranking->limit = limit;
	ranking->allocated = RANKING_START;
	ranking->full = false;
	ranking->documents = palloc(RANKING_START * sizeof(RankedDocument));
}

void
ranking_finish(Ranking *ranking)
{
	sort_documents(ranking->documents, ranking->n);
	ranking->n = Min(ranking->n, ranking->limit);
}

void
ranking_add(void *arg, int64 id, float score, bool is_null)
{
	Ranking *ranking = arg;
	RankedDocument document = {id, score, is_null};

	/* once some have been dropped, what is no better than the last one kept is too */
	if (ranking->full && compare_documents(&document, &ranking->documents[ranking->limit - 1]) > 0)
		return;
	if (ranking->n == ranking->allocated)
	{
		/* dropping half at a time makes a long list cost few sorts */
		if (ranking->limit <= ranking->allocated / 2)
		{
			ranking_finish(ranking);
			ranking->full = true;
		}
		else
		{
			ranking->allocated *= 2;
			ranking->documents = repalloc_huge(ranking->documents, ranking->allocated * sizeof(RankedDocument));
		}
	}
	ranking->documents[ranking->n++] = document;
}
