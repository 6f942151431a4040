/*
 * tensor.c
 *		The SQL functions flash_maxsim_rerank_direct and flash_maxsim_rerank: one
 *		query against documents that lie in one tensor, scattered or packed.
 *
 * They mirror the operations of the same names in GPU inference servers, with two
 * differences: documents outside the tensor are an error instead of a wild read,
 * and a max_seqlen_d below the longest document is an error instead of a cut.
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "query.h"

/* An argument that is an array of n integers, of one dimension, without NULLs. */
static const int64 *
integers_argument(FunctionCallInfo fcinfo, int argument, const char *name, int *n)
{
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(argument);

	*n = tokens_check_list(array, name, INT8OID, NULL);
	return (const int64 *) ARR_DATA_PTR(array);
}

/* Document i as tokens offset to offset + length - 1 of the tensor. */
static MaxsimDocument
document_of_tensor(const Tokens *tensor, int i, int64 offset, int64 length, int64 max_length)
{
	MaxsimDocument document;

	if (length < 0 || length > max_length)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("document %d has length %lld, outside 0 to max_seqlen_d = %lld",
						i + 1, (long long) length, (long long) max_length)));
	if (offset < 0 || offset > tensor->ntokens || length > tensor->ntokens - offset)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("document %d, %lld tokens from offset %lld, is outside a tensor of %u tokens",
						i + 1, (long long) length, (long long) offset, tensor->ntokens)));
	document.tokens = (const char *) tensor->elements +
					  (uint64) offset * maxsim_row_size(tensor->format, tensor->dim);
	document.ntokens = length;
	return document;
}

/* Whether one of the first n arguments, which are not optional, is NULL. */
static bool
has_null(FunctionCallInfo fcinfo, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (PG_ARGISNULL(i))
			return true;
	}
	return false;
}

/* Scores documents of one tensor; the result is minus infinity for an empty one. */
static Datum
score_documents(const Tokens *query_tokens, ArrayType *weights, const Tokens *tensor,
				const MaxsimDocument *documents, int n)
{
	PreparedQuery query;
	ArrayType *result;
	float *scores;
	uint64 size = ARR_OVERHEAD_NONULLS(1) + (uint64) n * sizeof(float);

	query_init(&query, query_tokens, weights, SCORE_SUM);
	if (tensor->ntokens > 0)
		tokens_check_dims(query_tokens->dim, tensor->dim);
	if (n == 0)
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(FLOAT4OID));
	if (size > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("result for %d documents exceeds the maximum of 1 GB", n)));
	result = palloc0(size);
	SET_VARSIZE(result, size);
	result->ndim = 1;
	result->elemtype = FLOAT4OID;
	ARR_DIMS(result)
	[0] = n;
	ARR_LBOUND(result)
	[0] = 1;
	scores = (float *) ARR_DATA_PTR(result);
	query_score(&query, tensor->format, documents, n, scores, NULL, 0);
	for (int i = 0; i < n; i++)
	{
		if (documents[i].ntokens > 0)
			query_check_score(scores[i]);
	}
	PG_RETURN_ARRAYTYPE_P(result);
}

static Datum
rerank_direct(FunctionCallInfo fcinfo, Tokens query, Tokens tensor)
{
	int noffsets;
	int nlengths;
	const int64 *offsets = integers_argument(fcinfo, 2, "doc_offsets", &noffsets);
	const int64 *lengths = integers_argument(fcinfo, 3, "doc_lengths", &nlengths);
	int64 max_length = PG_GETARG_INT64(4);
	MaxsimDocument *documents;

	if (noffsets != nlengths)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("doc_offsets and doc_lengths have different numbers of documents: %d and %d",
						noffsets, nlengths)));
	documents = palloc_extended(Max(noffsets, 1) * sizeof(MaxsimDocument), MCXT_ALLOC_HUGE);
	for (int i = 0; i < noffsets; i++)
		documents[i] = document_of_tensor(&tensor, i, offsets[i], lengths[i], max_length);
	return score_documents(&query, PG_ARGISNULL(5) ? NULL : PG_GETARG_ARRAYTYPE_P(5), &tensor, documents, noffsets);
}

static Datum
rerank_packed(FunctionCallInfo fcinfo, Tokens query, Tokens tensor)
{
	int n;
	const int64 *ends = integers_argument(fcinfo, 2, "cu_seqlens", &n);
	int64 max_length = PG_GETARG_INT64(3);
	MaxsimDocument *documents;

	if (n == 0 || ends[0] != 0 || ends[n - 1] != tensor.ntokens)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cu_seqlens must begin with 0 and end with the number of tokens, %u", tensor.ntokens),
				 n == 0 ? errdetail("It is empty.")
						: errdetail("It begins with %lld and ends with %lld.",
									(long long) ends[0], (long long) ends[n - 1])));
	documents = palloc_extended(n * sizeof(MaxsimDocument), MCXT_ALLOC_HUGE);
	for (int i = 0; i + 1 < n; i++)
	{
		/* first the order, so that the difference cannot overflow */
		if (ends[i + 1] < ends[i] || ends[i + 1] > tensor.ntokens)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("cu_seqlens must not decrease or exceed the number of tokens, %u", tensor.ntokens),
					 errdetail("Document %d begins at %lld and ends at %lld.", i + 1,
							   (long long) ends[i], (long long) ends[i + 1])));
		documents[i] = document_of_tensor(&tensor, i, ends[i], ends[i + 1] - ends[i], max_length);
	}
	return score_documents(&query, PG_ARGISNULL(4) ? NULL : PG_GETARG_ARRAYTYPE_P(4), &tensor, documents, n - 1);
}

/* flash_maxsim_rerank_direct(q, batch_tensor, doc_offsets, doc_lengths, max_seqlen_d[, weights]) */
PG_FUNCTION_INFO_V1(flash_maxsim_rerank_direct_multivec);
Datum
flash_maxsim_rerank_direct_multivec(PG_FUNCTION_ARGS)
{
	if (has_null(fcinfo, 5))
		PG_RETURN_NULL();
	return rerank_direct(fcinfo, tokens_from_multivec(PG_GETARG_MULTIVEC_P(0)),
						 tokens_from_multivec(PG_GETARG_MULTIVEC_P(1)));
}

PG_FUNCTION_INFO_V1(flash_maxsim_rerank_direct_real_array);
Datum
flash_maxsim_rerank_direct_real_array(PG_FUNCTION_ARGS)
{
	if (has_null(fcinfo, 5))
		PG_RETURN_NULL();
	return rerank_direct(fcinfo, tokens_from_multivec(PG_GETARG_MULTIVEC_P(0)),
						 tokens_from_array(PG_GETARG_ARRAYTYPE_P(1)));
}

/* flash_maxsim_rerank(q, packed, cu_seqlens, max_seqlen_d[, weights]) */
PG_FUNCTION_INFO_V1(flash_maxsim_rerank_multivec);
Datum
flash_maxsim_rerank_multivec(PG_FUNCTION_ARGS)
{
	if (has_null(fcinfo, 4))
		PG_RETURN_NULL();
	return rerank_packed(fcinfo, tokens_from_multivec(PG_GETARG_MULTIVEC_P(0)),
						 tokens_from_multivec(PG_GETARG_MULTIVEC_P(1)));
}

PG_FUNCTION_INFO_V1(flash_maxsim_rerank_real_array);
Datum
flash_maxsim_rerank_real_array(PG_FUNCTION_ARGS)
{
	if (has_null(fcinfo, 4))
		PG_RETURN_NULL();
	return rerank_packed(fcinfo, tokens_from_multivec(PG_GETARG_MULTIVEC_P(0)),
						 tokens_from_array(PG_GETARG_ARRAYTYPE_P(1)));
}
