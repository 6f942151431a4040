/*
 * rerank.c
 *		The SQL functions maxsim_rerank and maxsim_scores: documents of a source, by
 *		id, scored against one query.
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "batch.h"
#include "ranking.h"
#include "source.h"

/* The argument as token vectors, for the overloads of a function. */
static Tokens
query_argument_multivec(FunctionCallInfo fcinfo)
{
	return tokens_from_multivec(PG_GETARG_MULTIVEC_P(0));
}

static Tokens
query_argument_array(FunctionCallInfo fcinfo)
{
	return tokens_from_array(PG_GETARG_ARRAYTYPE_P(0));
}

static ArrayType *
ids_argument(FunctionCallInfo fcinfo)
{
	ArrayType *ids = PG_GETARG_ARRAYTYPE_P(1);

	source_check_ids(ids);
	return ids;
}

/* An optional argument of weights; NULL: not given. */
static ArrayType *
weights_argument(FunctionCallInfo fcinfo, int argument)
{
	return PG_ARGISNULL(argument) ? NULL : PG_GETARG_ARRAYTYPE_P(argument);
}

static void
add_row_to_batch(void *arg, int64 id, Datum document, bool is_null)
{
	batch_add(arg, id, document, is_null);
}

/* Scores the source's documents with these ids and delivers them. */
static void
score_source(FunctionCallInfo fcinfo, const Tokens *tokens, ArrayType *weights, ArrayType *ids,
			 BatchDeliver deliver, void *arg)
{
	char *name = PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2));
	Source *source = source_resolve(name, fcinfo->flinfo->fn_oid);
	PreparedQuery query;
	Batch *batch;

	query_init(&query, tokens, weights, SCORE_SUM);
	if (ARR_NDIM(ids) == 0)
		return;
	batch = batch_begin(&query, source->type, source->name, deliver, arg);
	batch_let_wait(batch);
	source_read(source, ids, add_row_to_batch, batch);
	batch_end(batch);
}

static uint64
top_k_argument(FunctionCallInfo fcinfo)
{
	int32 top_k;

	if (PG_ARGISNULL(3))
		return RANKING_ALL;
	top_k = PG_GETARG_INT32(3);
	if (top_k < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("top_k must be at least 1, not %d", top_k)));
	return top_k;
}

static Datum
rerank(FunctionCallInfo fcinfo, Tokens (*query_argument)(FunctionCallInfo))
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Ranking ranking;
	Tokens tokens;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		return (Datum) 0;

	ranking_init(&ranking, top_k_argument(fcinfo));
	tokens = query_argument(fcinfo);
	score_source(fcinfo, &tokens, weights_argument(fcinfo, 4), ids_argument(fcinfo), ranking_add, &ranking);
	ranking_finish(&ranking);

	for (uint64 i = 0; i < ranking.n; i++)
	{
		Datum values[2] = {Int64GetDatum(ranking.documents[i].id), Float4GetDatum(ranking.documents[i].score)};
		bool nulls[2] = {false, ranking.documents[i].is_null};

		CHECK_FOR_INTERRUPTS();
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* maxsim_rerank(query multivec, doc_ids bigint[], source text, top_k integer, weights double precision[]) */
PG_FUNCTION_INFO_V1(maxsim_rerank_multivec);
Datum
maxsim_rerank_multivec(PG_FUNCTION_ARGS)
{
	return rerank(fcinfo, query_argument_multivec);
}

/* maxsim_rerank(query real[], doc_ids bigint[], source text, top_k integer, weights double precision[]) */
PG_FUNCTION_INFO_V1(maxsim_rerank_real_array);
Datum
maxsim_rerank_real_array(PG_FUNCTION_ARGS)
{
	return rerank(fcinfo, query_argument_array);
}

/* Where in the input an id stands. */
typedef struct IdPosition
{
	int64 id;
	uint32 position;
} IdPosition;

/* The scores of maxsim_scores in the order of its input. */
typedef struct AlignedScores
{
	IdPosition *ids; /* [n], by id, then by position */
	Datum *scores;   /* [n] */
	bool *nulls;     /* [n] */
	bool *found;     /* [n] */
	uint32 n;
	const char *source;
} AlignedScores;

/* Millions of ids take seconds to sort, and nothing is lost when that is given up. */
static int
compare_id_positions(const void *a, const void *b)
{
	const IdPosition *left = a;
	const IdPosition *right = b;

	CHECK_FOR_INTERRUPTS();
	if (left->id != right->id)
		return left->id < right->id ? -1 : 1;
	return left->position < right->position ? -1 : left->position > right->position;
}

/* A BatchDeliver. */
static void
deliver_aligned(void *arg, int64 id, float score, bool is_null)
{
	AlignedScores *aligned = arg;
	uint32 low = 0;
	uint32 high = aligned->n;

	/* the first place with this id */
	while (low < high)
	{
		uint32 middle = low + (high - low) / 2;

		if (aligned->ids[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < aligned->n && aligned->ids[low].id == id; low++)
	{
		uint32 position = aligned->ids[low].position;

		if (aligned->found[position])
			ereport(ERROR,
					(errcode(ERRCODE_CARDINALITY_VIOLATION),
					 errmsg("id %lld occurs more than once in the source", (long long) id),
					 errhint("maxsim_rerank returns a row for each document.")));
		aligned->found[position] = true;
		aligned->scores[position] = Float4GetDatum(score);
		aligned->nulls[position] = is_null;
	}
}

static Datum
scores(FunctionCallInfo fcinfo, Tokens (*query_argument)(FunctionCallInfo))
{
	AlignedScores aligned = {0};
	ArrayType *ids;
	Tokens tokens;
	int dims[1];
	int lower_bounds[1] = {1};

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	ids = ids_argument(fcinfo);
	tokens = query_argument(fcinfo);

	aligned.n = dims[0] = ARR_NDIM(ids) == 0 ? 0 : ARR_DIMS(ids)[0];
	aligned.ids = palloc_extended((aligned.n + 1) * sizeof(IdPosition), MCXT_ALLOC_HUGE);
	aligned.scores = palloc_extended((aligned.n + 1) * sizeof(Datum), MCXT_ALLOC_HUGE);
	aligned.nulls = palloc(aligned.n + 1);
	aligned.found = palloc0(aligned.n + 1);
	memset(aligned.nulls, true, aligned.n);
	for (uint32 i = 0; i < aligned.n; i++)
	{
		aligned.ids[i].id = ((const int64 *) ARR_DATA_PTR(ids))[i];
		aligned.ids[i].position = i;
	}
	qsort(aligned.ids, aligned.n, sizeof(IdPosition), compare_id_positions);

	score_source(fcinfo, &tokens, weights_argument(fcinfo, 3), ids, deliver_aligned, &aligned);
	if (aligned.n == 0)
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(FLOAT4OID));
	PG_RETURN_ARRAYTYPE_P(construct_md_array(aligned.scores, aligned.nulls, 1, dims, lower_bounds,
											 FLOAT4OID, sizeof(float4), true, TYPALIGN_INT));
}

/* maxsim_scores(query multivec, doc_ids bigint[], source text, weights double precision[]) */
PG_FUNCTION_INFO_V1(maxsim_scores_multivec);
Datum
maxsim_scores_multivec(PG_FUNCTION_ARGS)
{
	return scores(fcinfo, query_argument_multivec);
}

/* maxsim_scores(query real[], doc_ids bigint[], source text, weights double precision[]) */
PG_FUNCTION_INFO_V1(maxsim_scores_real_array);
Datum
maxsim_scores_real_array(PG_FUNCTION_ARGS)
{
	return scores(fcinfo, query_argument_array);
}
