/*
 * query.c
 *		See query.h.  Turns an engine's status and sentence into an error.
 */
#include "postgres.h"
#include "compat.h"

#include "element.h"
#include "query.h"

void
query_init(PreparedQuery *query, const Tokens *tokens)
{
	if (tokens->ntokens == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("query has no tokens"),
				 errhint("A query needs at least one token vector.")));
	memset(query, 0, sizeof(*query));
	query->engine = maxsim_cpu_engine();
	query->context = CurrentMemoryContext;
	query->query.tokens = tokens_to_float(tokens);
	query->query.ntokens = tokens->ntokens;
	query->query.dim = tokens->dim;
}

MaxsimPrepared *
query_prepared(PreparedQuery *query, MaxsimFormat format)
{
	char message[MAXSIM_MESSAGE_SIZE];
	size_t size;
	void *memory;

	if (query->prepared[format] != NULL)
		return query->prepared[format];

	size = query->engine->prepared_size(&query->query, format);
	if (size == 0 || size > MaxAllocHugeSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("query of %u tokens of dimension %u is too large", query->query.ntokens, query->query.dim)));
	memory = MemoryContextAllocHuge(query->context, size);
	if (query->engine->prepare(&query->query, format, memory, &query->prepared[format], message) != MAXSIM_OK)
	{
		query->prepared[format] = NULL;
		pfree(memory);
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s", message)));
	}
	return query->prepared[format];
}

bool
query_check_interrupts(void *arg)
{
	(void) arg;
	CHECK_FOR_INTERRUPTS();
	return false;
}

void
query_score(PreparedQuery *query, MaxsimFormat format, const MaxsimDocument *documents,
			uint32 ndocuments, float *scores)
{
	MaxsimBatch batch = {query_prepared(query, format), documents, ndocuments, scores, query_check_interrupts, NULL};

	if (query->engine->score(&batch) != MAXSIM_OK)
		elog(ERROR, "engine \"%s\" stopped without being asked to", query->engine->name);
}

float
query_score_one(PreparedQuery *query, const Tokens *document)
{
	MaxsimDocument one = {document->elements, document->ntokens};
	float score;

	tokens_check_dims(query->query.dim, document->dim);
	query_score(query, document->format, &one, 1, &score);
	return query_check_score(score);
}

float
query_check_score(float score)
{
	if (!maxsim_is_finite(score))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("score is out of range for type real"),
				 errdetail("The dot products of query and document exceed float32.")));
	return score;
}
