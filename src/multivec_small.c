/*
 * multivec_small.c
 *		Making multivecs in the small formats, i8 and b1, from what has such components
 *		already: integers with scales, and bit strings.
 */
#include "postgres.h"
#include "compat.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/varbit.h"

#include "element.h"
#include "multivec.h"
#include "tokens.h"

/*
 * The next element of an array of bit strings, which is this one counted from 1, and its
 * length in bits; *at goes behind it.
 */
static const char *
next_bits(const char **at, const char *end, int number, int32 *nbits)
{
	const char *element = tokens_next_element(at, end, number);
	const char *data = VARDATA_ANY(element);

	if (VARSIZE_ANY_EXHDR(element) < sizeof(int32))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array is corrupted: its bit string number %d has only %d bytes", number, (int) VARSIZE_ANY(element))));
	memcpy(nbits, data, sizeof(int32));
	if (*nbits < 0 || ((int64) *nbits + 7) / 8 != VARSIZE_ANY_EXHDR(element) - sizeof(int32))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array is corrupted: length of its bit string number %d, %d, does not fit its size, %d bytes", number,
						*nbits, (int) VARSIZE_ANY(element))));
	return data + sizeof(int32);
}

/* multivec(bit[]), multivec(bit varying[]): a token for each bit string, in format b1. */
PG_FUNCTION_INFO_V1(multivec_from_bits);
Datum
multivec_from_bits(PG_FUNCTION_ARGS)
{
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(0);
	int n = tokens_check_list(array, "array of bit strings", InvalidOid, NULL);
	const char *end = (const char *) array + VARSIZE(array);
	const char *at = ARR_DATA_PTR(array);
	const char *bits;
	Multivec *value;
	int32 dim;

	if (n == 0)
		PG_RETURN_POINTER(multivec_create(MAXSIM_B1, 0, 0));
	bits = next_bits(&at, end, 1, &dim);
	multivec_check_dim(dim);
	/* what does not fit into the array is an error below, before it is written */
	value = multivec_create(MAXSIM_B1, dim, Min(n, 1 + (end - at) / maxsim_row_size(MAXSIM_B1, dim)));
	for (int i = 0; i < n; i++)
	{
		int32 nbits = dim;

		if (i % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
		if (i > 0)
			bits = next_bits(&at, end, i + 1, &nbits);
		if (nbits != dim)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_EXCEPTION),
					 errmsg("bit strings of one multivec have different lengths: number 1 has %d bits, number %d has %d",
							dim, i + 1, nbits)));
		memcpy(value->elements + i * maxsim_row_size(MAXSIM_B1, dim), bits, maxsim_row_size(MAXSIM_B1, dim));
	}
	multivec_check_rows(MAXSIM_B1, value->elements, n, dim, NULL);
	PG_RETURN_POINTER(value);
}

/* The scale of each token, rounded to float32, or NULL: all 1. */
static const float *
scales_argument(FunctionCallInfo fcinfo, int argument, uint32 ntokens)
{
	const double *values;
	ArrayType *array;
	float *scales;
	uint32 n;

	if (PG_ARGISNULL(argument))
		return NULL;
	array = PG_GETARG_ARRAYTYPE_P(argument);
	n = tokens_check_list(array, "scales", FLOAT8OID, NULL);
	if (n != ntokens)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("number of scales and number of tokens differ: %u and %u", n, ntokens)));
	values = (const double *) ARR_DATA_PTR(array);
	scales = palloc_extended(Max(n, 1) * sizeof(float), MCXT_ALLOC_HUGE);
	for (uint32 t = 0; t < n; t++)
	{
		if (t % INTERRUPT_VALUES == 0)
			CHECK_FOR_INTERRUPTS();
		scales[t] = (float) values[t];
		if (values[t] < 0 || !maxsim_is_finite(scales[t]))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("%g is out of range for the scale of a token in multivec format i8", values[t]),
					 errdetail("It is that of token %u.", t + 1)));
	}
	return scales;
}

/*
 * multivec_i8(components integer[], scales double precision[]): component k of token t is
 * scales[t] * components[t][k].
 */
PG_FUNCTION_INFO_V1(multivec_i8);
Datum
multivec_i8(PG_FUNCTION_ARGS)
{
	ArrayType *array;
	const float *scales;
	const int32 *components;
	Multivec *value;
	uint32 ntokens;
	uint32 dim;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	array = PG_GETARG_ARRAYTYPE_P(0);
	tokens_check_matrix(array, INT4OID, &ntokens, &dim);
	scales = scales_argument(fcinfo, 1, ntokens);
	components = (const int32 *) ARR_DATA_PTR(array);
	value = multivec_create(MAXSIM_I8, dim, ntokens);
	for (uint32 t = 0; t < ntokens; t++)
	{
		char *row = value->elements + t * maxsim_row_size(MAXSIM_I8, dim);
		float scale = scales != NULL ? scales[t] : 1;

		CHECK_FOR_INTERRUPTS();
		memcpy(row, &scale, sizeof(scale));
		for (uint32 k = 0; k < dim; k++)
		{
			uint64 i = (uint64) t * dim + k;

			if (components[i] < -127 || components[i] > 127)
				ereport(ERROR,
						(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						 errmsg("%d is out of range for multivec format i8", components[i]),
						 errdetail("It is number %llu of the value; components go from -127 to 127.",
								   (unsigned long long) i + 1)));
			row[sizeof(scale) + k] = (char) components[i];
		}
	}
	multivec_check_rows(MAXSIM_I8, value->elements, ntokens, dim, NULL);
	PG_RETURN_POINTER(value);
}
