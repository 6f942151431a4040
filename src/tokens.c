/*
 * tokens.c
 *		See tokens.h.
 */
#include "postgres.h"
#include "compat.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "element.h"
#include "tokens.h"

void
tokens_check_dims(uint32 query_dim, uint32 doc_dim)
{
	if (query_dim != doc_dim)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("query and document have different dimensions: %u and %u", query_dim, doc_dim)));
}

Tokens
tokens_from_multivec(const Multivec *value)
{
	Tokens tokens = {value->elements, value->format, value->ntokens, value->dim};

	return tokens;
}

void
tokens_check_array_header(const ArrayType *array, uint32 *ntokens, uint32 *dim)
{
	*ntokens = *dim = 0;
	if (ARR_NDIM(array) == 0)
		return;
	if (ARR_NDIM(array) != 2)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("array of token vectors must have 2 dimensions, not %d", ARR_NDIM(array)),
				 ARR_NDIM(array) == 1 ? errhint("One token vector is written ARRAY[[1,2,3]] or '{{1,2,3}}'.") : 0));
	if (ARR_DIMS(array)[0] < 0 || ARR_DIMS(array)[1] < 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array has negative dimensions: %d and %d", ARR_DIMS(array)[0], ARR_DIMS(array)[1])));
	if (ARR_DIMS(array)[1] > MULTIVEC_MAX_DIM)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("token vectors cannot have %d dimensions, the maximum is %d",
						ARR_DIMS(array)[1], MULTIVEC_MAX_DIM)));
	*ntokens = ARR_DIMS(array)[0];
	*dim = ARR_DIMS(array)[1];
}

void
tokens_check_bitmap(const bits8 *bitmap, uint64 n)
{
	for (uint64 i = 0; i < n; i++)
	{
		if (!(bitmap[i / 8] & (1 << i % 8)))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("array of token vectors must not contain NULL")));
	}
}

void
tokens_narrow_doubles(const double *values, uint64 n, uint64 before, float *out)
{
	for (uint64 i = 0; i < n; i++)
	{
		double value = values[i];

		out[i] = (float) value;
		if (!maxsim_is_finite(out[i]) && value - value == 0)
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("%g is out of range for multivec format f32", value),
					 errdetail("It is number %llu of the value.", (unsigned long long) (before + i + 1))));
	}
}

/*
 * The elements of a numeric[] as float32, by way of their text, as
 * numeric_float4() has it; that refuses what rounds to 0, though, which no other
 * type's conversion does.
 */
static void
numerics_to_float(ArrayType *array, uint64 n, float *out)
{
	Datum *elements;
	int count;

	deconstruct_array(array, NUMERICOID, -1, false, TYPALIGN_INT, &elements, NULL, &count);
	Assert((uint64) count == n);
	for (uint64 i = 0; i < n; i++)
	{
		char *text = DatumGetCString(DirectFunctionCall1(numeric_out, elements[i]));

		out[i] = strtof(text, NULL);
		if (!maxsim_is_finite(out[i]) && strpbrk(text, "0123456789") != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("%.40s%s is out of range for multivec format f32", text, strlen(text) > 40 ? "..." : ""),
					 errdetail("It is number %llu of the value.", (unsigned long long) i + 1)));
		pfree(text);
	}
	pfree(elements);
}

Tokens
tokens_from_array(ArrayType *array)
{
	Tokens tokens = {ARR_DATA_PTR(array), MAXSIM_F32, 0, 0};
	float *copy = NULL;
	uint64 n;

	tokens_check_array_header(array, &tokens.ntokens, &tokens.dim);
	n = (uint64) tokens.ntokens * tokens.dim;
	if (ARR_HASNULL(array))
		tokens_check_bitmap(ARR_NULLBITMAP(array), n);
	if (ARR_ELEMTYPE(array) != FLOAT4OID)
		tokens.elements = copy = palloc_extended(Max(n, 1) * sizeof(float), MCXT_ALLOC_HUGE);
	switch (ARR_ELEMTYPE(array))
	{
		case FLOAT4OID:
			break;
		case FLOAT8OID:
			tokens_narrow_doubles((const double *) ARR_DATA_PTR(array), n, 0, copy);
			break;
		case INT2OID:
			for (uint64 i = 0; i < n; i++)
				copy[i] = ((const int16 *) ARR_DATA_PTR(array))[i];
			break;
		case INT4OID:
			for (uint64 i = 0; i < n; i++)
				copy[i] = ((const int32 *) ARR_DATA_PTR(array))[i];
			break;
		case INT8OID:
			for (uint64 i = 0; i < n; i++)
				copy[i] = ((const int64 *) ARR_DATA_PTR(array))[i];
			break;
		case NUMERICOID:
			numerics_to_float(array, n, copy);
			break;
		default:
			elog(ERROR, "unexpected array element type %u", ARR_ELEMTYPE(array));
	}
	multivec_check_floats(tokens.elements, n, 0, NULL);
	return tokens;
}

const float *
tokens_to_float(const Tokens *tokens)
{
	uint64 n = (uint64) tokens->ntokens * tokens->dim;
	float *floats;

	if (tokens->format == MAXSIM_F32)
		return tokens->elements;
	floats = palloc_extended(Max(n, 1) * sizeof(float), MCXT_ALLOC_HUGE);
	multivec_load(tokens->format, tokens->elements, tokens->ntokens, tokens->dim, floats);
	return floats;
}

void
tokens_normalize(float *tokens, uint64 ntokens, uint32 dim)
{
	for (uint64 t = 0; t < ntokens; t++)
	{
		float *token = tokens + t * dim;
		double squares = 0;
		double length;

		CHECK_FOR_INTERRUPTS();
		for (uint32 k = 0; k < dim; k++)
			squares += (double) token[k] * token[k];
		if (squares == 0)
			continue;
		length = sqrt(squares);
		for (uint32 k = 0; k < dim; k++)
			token[k] = (float) (token[k] / length);
	}
}
