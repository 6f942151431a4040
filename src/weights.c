/*
 * weights.c
 *		See weights.h.
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/pg_type.h"

#include "element.h"
#include "weights.h"

/* Whether what the header says is what the value has room for. */
static bool
is_sound(ArrayType *array, int64 *n)
{
	uint64 size = VARSIZE(array);
	uint64 offset;

	*n = 0;
	if (size < sizeof(ArrayType) || ARR_NDIM(array) < 0)
		return false;
	if (ARR_NDIM(array) > 1)
		return true;
	if (ARR_NDIM(array) == 1 && size >= ARR_OVERHEAD_NONULLS(1))
		*n = ARR_DIMS(array)[0];
	offset = ARR_HASNULL(array) ? MAXALIGN(ARR_OVERHEAD_NONULLS(ARR_NDIM(array)) + (*n + 7) / 8)
								: ARR_OVERHEAD_NONULLS(ARR_NDIM(array));
	return *n >= 0 && (!ARR_HASNULL(array) || (uint64) array->dataoffset == offset) && offset + *n * sizeof(double) == size;
}

static void
check_shape(ArrayType *array, uint32 ntokens)
{
	int64 n;

	if (!is_sound(array, &n))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array's header does not fit its size: %lld weights, but %u bytes", (long long) n, (unsigned) VARSIZE(array))));
	if (ARR_ELEMTYPE(array) != FLOAT8OID)
		elog(ERROR, "unexpected array element type %u", ARR_ELEMTYPE(array));
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("weights must have 1 dimension, not %d", ARR_NDIM(array)),
				 errhint("One number for each query token is written ARRAY[1,0.5] or '{1,0.5}'.")));
	if (array_contains_nulls(array))
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
				 errmsg("all %u weights are 0", ntokens),
				 errhint("At least one query token must count.")));
	return weights;
}
