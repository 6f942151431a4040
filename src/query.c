/*
 * query.c
 *		See query.h.  Turns an engine's status and sentence into an error.
 */
#include "postgres.h"
#include "compat.h"

#include "element.h"
#include "query.h"

/* The query without its tokens of weight 0; weights are changed. */
static void
leave_out_masked(MaxsimQuery *query, float *weights, uint32 *numbers)
{
	uint32 left = 0;
	uint32 kept = 0;
	float *tokens;

	for (uint32 i = 0; i < query->ntokens; i++)
		left += weights[i] > 0;
	tokens = palloc_extended((uint64) left * query->dim * sizeof(float), MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < query->ntokens; i++)
	{
		if (weights[i] == 0)
			continue;
		memcpy(tokens + (uint64) kept * query->dim, query->tokens + (uint64) i * query->dim, query->dim * sizeof(float));
		if (numbers != NULL)
			numbers[kept] = i;
		weights[kept++] = weights[i];
	}
	query->tokens = tokens;
	query->ntokens = kept;
}

MaxsimQuery
query_of(const Tokens *tokens, ArrayType *weights, uint32 *numbers)
{
	MaxsimQuery query = {.ntokens = tokens->ntokens, .dim = tokens->dim};
	bool masked = false;
	bool all_one = true;
	float *values;

	if (tokens->ntokens == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("query has no tokens"),
				 errhint("A query needs at least one token vector.")));
	query.tokens = tokens_to_float(tokens);
	for (uint32 i = 0; i < query.ntokens && numbers != NULL; i++)
		numbers[i] = i;
	if (weights == NULL)
		return query;
	values = weights_from_array(weights, query.ntokens);
	for (uint32 i = 0; i < query.ntokens; i++)
	{
		masked |= values[i] == 0;
		all_one &= values[i] == 0 || values[i] == 1;
	}
	if (masked)
		leave_out_masked(&query, values, numbers);
	query.weights = all_one ? NULL : values;
	return query;
}

void
query_init(PreparedQuery *query, const Tokens *tokens, ArrayType *weights, ScoreKind kind)
{
	memset(query, 0, sizeof(*query));
	query->kind = kind;
	query->engine = maxsim_cpu_engine();
	query->context = CurrentMemoryContext;
	query->query = query_of(tokens, weights, NULL);
	query->query.signs = kind == SCORE_SIGNS;
	query->total_weight = query->query.weights == NULL ? query->query.ntokens : 0;
	for (uint32 i = 0; i < query->query.ntokens && query->query.weights != NULL; i++)
		query->total_weight += query->query.weights[i];
}

void
query_check_format(const PreparedQuery *query, MaxsimFormat format)
{
	if (query->kind == SCORE_SIGNS && format != MAXSIM_B1)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("maxsim_hamming compares documents in format b1, not %s", multivec_format_name(format)),
				 errhint("Cast the document to multivec(%u, b1), or keep it so.", query->query.dim)));
}

MaxsimPrepared *
query_prepared(PreparedQuery *query, MaxsimFormat format)
{
	char message[MAXSIM_MESSAGE_SIZE];
	size_t size;
	void *memory;

	if (query->prepared[format] != NULL)
		return query->prepared[format];

	query_check_format(query, format);
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
			uint32 ndocuments, float *scores, const char *ahead, Size ahead_size)
{
	MaxsimBatch batch = {
		.query = query_prepared(query, format),
		.documents = documents,
		.ndocuments = ndocuments,
		.scores = scores,
		.interrupt = query_check_interrupts,
		.ahead = ahead,
		.ahead_size = ahead_size,
	};

	if (query->engine->score(&batch) != MAXSIM_OK)
		elog(ERROR, "engine \"%s\" stopped without being asked to", query->engine->name);
}

float
query_score_one(PreparedQuery *query, const Tokens *document)
{
	MaxsimDocument one = {document->elements, document->ntokens};
	float score;

	tokens_check_dims(query->query.dim, document->dim);
	query_score(query, document->format, &one, 1, &score, NULL, 0);
	return query_check_score(score);
}

float
query_result(const PreparedQuery *query, float sum)
{
	return query->kind == SCORE_MEAN ? query_check_score((float) (sum / query->total_weight)) : sum;
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

struct varlena *
query_keep_value(const void *value)
{
	struct varlena *copy;

	if (value == NULL)
		return NULL;
	copy = palloc(VARSIZE_ANY(value));
	memcpy(copy, value, VARSIZE_ANY(value));
	return copy;
}

bool
query_same_value(const struct varlena *kept, const void *value)
{
	if (kept == NULL || value == NULL)
		return kept == value;
	return VARSIZE_ANY(kept) == VARSIZE_ANY(value) && memcmp(kept, value, VARSIZE_ANY(value)) == 0;
}
