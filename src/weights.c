/*
 * weights.c
 *		See weights.h.
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/pg_type.h"

#include "element.h"
#include "tokens.h"
#include "weights.h"

/* One number for each token, so far as the header tells. */
static void
check_shape(ArrayType *array, uint32 ntokens)
{
	uint32 n = tokens_check_list(array, "weights", FLOAT8OID,
								 "One number for each query token is written ARRAY[1,0.5] or '{1,0.5}'.");

	if (n != ntokens)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("query and weights have different numbers of tokens: %u and %u", ntokens, n)));
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
	const double *values;
	float *weights;
	bool any = false;

	check_shape(array, ntokens);
	values = (const double *) ARR_DATA_PTR(array);
	weights = palloc_extended(Max(ntokens, 1) * sizeof(float), MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < ntokens; i++)
	{
		if (i % INTERRUPT_VALUES == 0)
			CHECK_FOR_INTERRUPTS();
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
