/*
 * multivec_functions.c
 *		Making multivecs from other types, and looking into them.
 */
#include "postgres.h"
#include "compat.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "multivec.h"
#include "tokens.h"

/* multivec(real[]), and of double precision[], numeric[] and arrays of integers */
PG_FUNCTION_INFO_V1(multivec_from_array);
Datum
multivec_from_array(PG_FUNCTION_ARGS)
{
	Tokens tokens = tokens_from_array(PG_GETARG_ARRAYTYPE_P(0));
	Multivec *value = multivec_create(MAXSIM_F32, tokens.dim, tokens.ntokens);

	memcpy(value->elements, tokens.elements, multivec_elements_size(MAXSIM_F32, tokens.dim, tokens.ntokens));
	PG_RETURN_POINTER(value);
}

/*
 * Elements [ntokens][dim] as a real[] of 2 dimensions, or of 1 where the tokens
 * are one.
 */
static ArrayType *
tokens_as_array(const Multivec *value, int ndim)
{
	uint64 n = (uint64) value->ntokens * value->dim;
	uint64 size = ARR_OVERHEAD_NONULLS(ndim) + n * sizeof(float);
	ArrayType *array;
	int *dims;
	int *lower_bounds;

	if (n == 0)
		return construct_empty_array(FLOAT4OID);
	if (size > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("array of %u tokens of dimension %u exceeds the maximum of 1 GB",
						value->ntokens, value->dim)));
	array = palloc0(size);
	SET_VARSIZE(array, size);
	array->ndim = ndim;
	array->elemtype = FLOAT4OID;
	/* where these are depends on ndim */
	dims = ARR_DIMS(array);
	lower_bounds = ARR_LBOUND(array);
	dims[0] = value->ntokens;
	dims[ndim - 1] = value->dim;
	for (int i = 0; i < ndim; i++)
		lower_bounds[i] = 1;
	multivec_load(value->format, value->elements, n, (float *) ARR_DATA_PTR(array));
	return array;
}

PG_FUNCTION_INFO_V1(multivec_to_real_array);
Datum
multivec_to_real_array(PG_FUNCTION_ARGS)
{
	Multivec *value = PG_GETARG_MULTIVEC_P(0);

	PG_RETURN_ARRAYTYPE_P(tokens_as_array(value, 2));
}

/* multivec(bytea, integer, text): raw little-endian numbers, row after row. */
PG_FUNCTION_INFO_V1(multivec_from_bytea);
Datum
multivec_from_bytea(PG_FUNCTION_ARGS)
{
	bytea *bytes = PG_GETARG_BYTEA_PP(0);
	int32 dim = PG_GETARG_INT32(1);
	char *name = text_to_cstring(PG_GETARG_TEXT_PP(2));
	uint64 size = VARSIZE_ANY_EXHDR(bytes);
	MaxsimFormat format = multivec_format_by_name(name);
	Multivec *value;
	uint64 row;

	multivec_check_dim(dim);
	row = dim * maxsim_element_size(format);
	if (size % row != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%llu bytes are no whole number of tokens of %llu bytes (dimension %d in format %s)",
						(unsigned long long) size, (unsigned long long) row, dim, name)));
	value = multivec_create(format, dim, size / row);
	memcpy(value->elements, VARDATA_ANY(bytes), size);
	multivec_elements_finite(format, value->elements, size / maxsim_element_size(format), 0, NULL);
	PG_RETURN_POINTER(value);
}

/*
 * The header of a value, checked against its size, without fetching its elements.
 */
static Multivec *
header_from_datum(Datum datum)
{
	Multivec *header = (Multivec *) PG_DETOAST_DATUM_SLICE(datum, 0, MULTIVEC_HEADER_SIZE - VARHDRSZ);

	multivec_check(header, toast_raw_datum_size(datum));
	return header;
}

/* Tokens first to first + count - 1 of a value; first is counted from 0. */
static Multivec *
slice_from_datum(Datum datum, const Multivec *header, uint32 first, uint32 count)
{
	uint64 row = (uint64) header->dim * maxsim_element_size(header->format);
	Multivec *slice = multivec_create(header->format, header->dim, count);
	struct varlena *bytes;

	if (count == 0)
		return slice;
	bytes = PG_DETOAST_DATUM_SLICE(datum, MULTIVEC_HEADER_SIZE - VARHDRSZ + first * row, count * row);
	if (VARSIZE(bytes) - VARHDRSZ != count * row)
		elog(ERROR, "multivec ends within a slice");
	memcpy(slice->elements, VARDATA(bytes), count * row);
	pfree(bytes);
	return slice;
}

PG_FUNCTION_INFO_V1(multivec_ntokens);
Datum
multivec_ntokens(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(header_from_datum(PG_GETARG_DATUM(0))->ntokens);
}

PG_FUNCTION_INFO_V1(multivec_dim);
Datum
multivec_dim(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(header_from_datum(PG_GETARG_DATUM(0))->dim);
}

PG_FUNCTION_INFO_V1(multivec_format);
Datum
multivec_format(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(multivec_format_name(header_from_datum(PG_GETARG_DATUM(0))->format)));
}

/* multivec_slice(mv, first, count): tokens counted from 1, all of them must exist. */
PG_FUNCTION_INFO_V1(multivec_slice);
Datum
multivec_slice(PG_FUNCTION_ARGS)
{
	Multivec *header = header_from_datum(PG_GETARG_DATUM(0));
	int64 first = PG_GETARG_INT32(1);
	int64 count = PG_GETARG_INT32(2);

	if (first < 1 || count < 0 || first + count - 1 > header->ntokens)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("slice of %d tokens from token %d is outside a multivec of %u tokens",
						(int) count, (int) first, header->ntokens)));
	PG_RETURN_POINTER(slice_from_datum(PG_GETARG_DATUM(0), header, first - 1, count));
}

/* multivec_token(mv, n): token n, counted from 1, as a real[] of one dimension. */
PG_FUNCTION_INFO_V1(multivec_token);
Datum
multivec_token(PG_FUNCTION_ARGS)
{
	Multivec *header = header_from_datum(PG_GETARG_DATUM(0));
	int32 n = PG_GETARG_INT32(1);

	if (n < 1 || n > (int64) header->ntokens)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("token %d is outside a multivec of %u tokens", n, header->ntokens)));
	PG_RETURN_ARRAYTYPE_P(tokens_as_array(slice_from_datum(PG_GETARG_DATUM(0), header, n - 1, 1), 1));
}
