/*
 * weights.c
 *		See weights.h.
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/pg_type.h"

#include "element.h"
#include "weights.h"

static void
check_shape(ArrayType *array, uint32 ntokens)
{
	int64 n;

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
	n = ARR_NDIM(array) == 0 ? 0 : ARR_DIMS(array)[0];
	if (n != ntokens)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("query and weights have different numbers of tokens: %u and %lld", ntokens, (long long) n)));
	if (ARR_DATA_OFFSET(array) + n * sizeof(double) > VARSIZE(array))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array of %lld numbers has %u bytes", (long long) n, (unsigned) VARSIZE(array))));
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
