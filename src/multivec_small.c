/*
 * multivec_small.c
 *		Making multivecs in the small formats, i8 and b1, from what has such components
 *		already: integers with scales, and bit strings.
 */
#include "postgres.h"
#include "compat.h"

#include <math.h>

#include "access/tupmacs.h"
#include "utils/array.h"
#include "utils/varbit.h"

#include "element.h"
#include "multivec.h"
#include "tokens.h"

/*
 * The next element of an array of bit strings, and its length in bits; *at goes behind
 * it.  An array from outside is not believed.
 */
static const char *
next_bits(const char **at, const char *end, int32 *nbits)
{
	const char *element = (const char *) att_align_pointer(*at, TYPALIGN_INT, -1, *at);
	const char *data;

	if (element >= end || VARATT_IS_EXTERNAL(element) || VARATT_IS_COMPRESSED(element) ||
		VARSIZE_ANY(element) > end - element || VARSIZE_ANY_EXHDR(element) < sizeof(int32))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array of bit strings ends within one, or is damaged")));
	data = VARDATA_ANY(element);
	memcpy(nbits, data, sizeof(int32));
	if (*nbits < 0 || ((int64) *nbits + 7) / 8 != VARSIZE_ANY_EXHDR(element) - sizeof(int32))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("bit string's length of %d does not fit its size of %d bytes", *nbits,
						(int) VARSIZE_ANY(element))));
	*at = element + VARSIZE_ANY(element);
	return data + sizeof(int32);
}

/* multivec(bit[]), multivec(bit varying[]): a token for each bit string, in format b1. */
PG_FUNCTION_INFO_V1(multivec_from_bits);
Datum
multivec_from_bits(PG_FUNCTION_ARGS)
{
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(0);
	const char *end = (const char *) array + VARSIZE(array);
	const char *at = ARR_DATA_PTR(array);
	const char *bits = NULL;
	Multivec *value;
	int32 dim = 0;
	int n;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("array of bit strings must have 1 dimension, not %d", ARR_NDIM(array))));
	n = ARR_NDIM(array) == 0 ? 0 : ARR_DIMS(array)[0];
	if (ARR_HASNULL(array))
		tokens_check_bitmap(ARR_NULLBITMAP(array), n);
	if (n > 0)
	{
		bits = next_bits(&at, end, &dim);
		multivec_check_dim(dim);
	}
	value = multivec_create(MAXSIM_B1, dim, n);
	for (int i = 0; i < n; i++)
	{
		int32 nbits = dim;

		if (i % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
		if (i > 0)
			bits = next_bits(&at, end, &nbits);
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

/* The scale of each token, or NULL: all 1. */
static const float *
scales_argument(FunctionCallInfo fcinfo, int argument, uint32 ntokens)
{
	ArrayType *array;
	uint32 n;

	if (PG_ARGISNULL(argument))
		return NULL;
	array = PG_GETARG_ARRAYTYPE_P(argument);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("scales must have 1 dimension, not %d", ARR_NDIM(array))));
	n = ARR_NDIM(array) == 0 ? 0 : ARR_DIMS(array)[0];
	if (array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("scales must not contain NULL")));
	if (n != ntokens)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("number of scales and number of tokens differ: %u and %u", n, ntokens)));
	return (const float *) ARR_DATA_PTR(array);
}

/* multivec_i8(components integer[], scales real[]): component k of token t is scales[t] * components[t][k]. */
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
	tokens_check_array_header(array, &ntokens, &dim);
	if (ARR_HASNULL(array))
		tokens_check_bitmap(ARR_NULLBITMAP(array), (uint64) ntokens * dim);
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
