/*
 * weights.c
 *		See weights.h.
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/pg_type.h"

#include "element.h"
#include "weights.h"

/*
 * What an array's header says of its numbers, n of them, if the value has room for that.  A
 * bitmap stands for a number that is NULL, and then the value has not all of them.
 */
static bool
read_header(ArrayType *array, int64 *n, bool *has_null)
{
	int ndim = ARR_NDIM(array);
	uint64 size = VARSIZE(array);
	uint64 offset = ARR_OVERHEAD_NONULLS(ndim);

	*n = 0;
	*has_null = false;
	if (size < offset)
		return false;
	if (ndim == 1)
		*n = ARR_DIMS(array)[0];
	if (*n < 0)
		return false;
	if (ARR_HASNULL(array))
	{
		offset = MAXALIGN(offset + (*n + 7) / 8);
		if (ndim == 0 || (uint64) array->dataoffset != offset || size < offset)
			return false;
		*has_null = array_contains_nulls(array);
	}
	return *has_null || size == offset + *n * sizeof(double);
}

/* One number for each token, so far as the header tells. */
static void
check_shape(ArrayType *array, uint32 ntokens)
{
	bool has_null;
	int64 n;

	if (VARSIZE(array) >= sizeof(ArrayType) && ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("weights must have 1 dimension, not %d", ARR_NDIM(array)),
				 errhint("One number for each query token is written ARRAY[1,0.5] or '{1,0.5}'.")));
	if (VARSIZE(array) < sizeof(ArrayType) || ARR_NDIM(array) < 0 || !read_header(array, &n, &has_null))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array of weights is corrupted: its header does not fit its size, %u bytes", (unsigned) VARSIZE(array))));
	if (ARR_ELEMTYPE(array) != FLOAT8OID)
		elog(ERROR, "unexpected array element type %u", ARR_ELEMTYPE(array));
	if (has_null)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("weights must not contain NULL")));
	if (n != ntokens)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("query and weights have different numbers of tokens: %u and %lld", ntokens, (long long) n)));
}

/* A weight as float32; number counts from 1, for the message. */
static float
check_weight(double value, uint32 number)
{
	float weight = (float) value;

	if (value - value != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%s is not allowed in weights", value != value ? "NaN" : "infinity"),
				 errdetail("It is weight number %u.", number)));
	if (value < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("weights must not be negative, as %g is", value),
				 errdetail("It is weight number %u.", number)));
	if (!maxsim_is_finite(weight))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("weight %g is out of range for type real", value),
				 errdetail("It is weight number %u.", number)));
	return weight;
}

float *
weights_from_array(ArrayType *array, uint32 ntokens)
{
	const double *values = (const double *) ARR_DATA_PTR(array);
	float *weights;
	bool any = false;

	check_shape(array, ntokens);
	weights = palloc_extended(Max(ntokens, 1) * sizeof(float), MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < ntokens; i++)
	{
		weights[i] = check_weight(values[i], i + 1);
		any |= weights[i] > 0;
	}
	if (!any)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 ntokens == 1 ? errmsg("the only weight is 0") : errmsg("all %u weights are 0", ntokens),
				 errhint("At least one query token must count.")));
	return weights;
}
