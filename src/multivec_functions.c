/*
 * multivec_functions.c
 *		Making multivecs from other types and from one another, and looking into them.
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
	multivec_load(value->format, value->elements, value->ntokens, value->dim, (float *) ARR_DATA_PTR(array));
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
	row = maxsim_row_size(format, dim);
	if (size % row != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%llu bytes are no whole number of tokens of %llu bytes (dimension %d in format %s)",
						(unsigned long long) size, (unsigned long long) row, dim, name)));
	value = multivec_create(format, dim, size / row);
	memcpy(value->elements, VARDATA_ANY(bytes), size);
	multivec_check_rows(format, value->elements, value->ntokens, dim, NULL);
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
	uint64 row = maxsim_row_size(header->format, header->dim);
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
				 errmsg_plural("slice of length %d from token %d is outside a multivec of %u token",
							   "slice of length %d from token %d is outside a multivec of %u tokens",
							   header->ntokens, (int) count, (int) first, header->ntokens)));
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
				 errmsg_plural("token %d is outside a multivec of %u token",
							   "token %d is outside a multivec of %u tokens", header->ntokens, n, header->ntokens)));
	PG_RETURN_ARRAYTYPE_P(tokens_as_array(slice_from_datum(PG_GETARG_DATUM(0), header, n - 1, 1), 1));
}

/* The first dim components of each token, in the value's format and not rounded anew. */
static Multivec *
truncated(const Multivec *value, uint32 dim)
{
	Multivec *result = multivec_create(value->format, dim, value->ntokens);
	uint64 from_size = maxsim_row_size(value->format, value->dim);
	uint64 to_size = maxsim_row_size(value->format, dim);

	for (uint64 t = 0; t < value->ntokens; t++)
	{
		char *row = result->elements + t * to_size;

		memcpy(row, value->elements + t * from_size, to_size);
		if (value->format == MAXSIM_B1 && dim % 8 != 0)
			row[to_size - 1] &= 0xff << (8 - dim % 8);
	}
	return result;
}

/* Each token scaled to unit length.  Signs have no length but their own, so b1 becomes i8. */
static Multivec *
normalized(const Multivec *value)
{
	MaxsimFormat format = value->format == MAXSIM_B1 ? MAXSIM_I8 : value->format;
	Multivec *result = multivec_create(format, value->dim, value->ntokens);
	float *floats = palloc_extended(Max((uint64) value->ntokens * value->dim, 1) * sizeof(float), MCXT_ALLOC_HUGE);

	multivec_load(value->format, value->elements, value->ntokens, value->dim, floats);
	tokens_normalize(floats, value->ntokens, value->dim);
	multivec_store(format, floats, value->ntokens, value->dim, result->elements, NULL);
	pfree(floats);
	return result;
}

/* multivec_normalize(mv): each token to unit length, tokens of zeros stay. */
PG_FUNCTION_INFO_V1(multivec_normalize);
Datum
multivec_normalize(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(normalized(PG_GETARG_MULTIVEC_P(0)));
}

/* multivec_truncate(mv, dim, unit_length): the first dimensions of each token. */
PG_FUNCTION_INFO_V1(multivec_truncate);
Datum
multivec_truncate(PG_FUNCTION_ARGS)
{
	Multivec *value = PG_GETARG_MULTIVEC_P(0);
	int32 dim = PG_GETARG_INT32(1);
	Multivec *result;

	multivec_check_dim(dim);
	/* a value without tokens may have no dimension yet */
	if (dim > value->dim && value->dim > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("multivec of dimension %u cannot be truncated to %d dimensions", value->dim, dim)));
	result = truncated(value, dim);
	if (PG_GETARG_BOOL(2))
		result = normalized(result);
	PG_RETURN_POINTER(result);
}

/* An error unless tokens of b may follow those of a. */
static void
check_concat(const Multivec *a, const Multivec *b)
{
	if (a->dim != b->dim)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("multivecs to be concatenated have different dimensions: %u and %u", a->dim, b->dim)));
	if (a->format != b->format)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("multivecs to be concatenated have different formats: %s and %s",
						multivec_format_name(a->format), multivec_format_name(b->format)),
				 errhint("Cast one of them, for example to multivec(%u, %s).", a->dim, multivec_format_name(a->format))));
}

/* multivec_concat(a, b): the tokens of a, then those of b. */
PG_FUNCTION_INFO_V1(multivec_concat);
Datum
multivec_concat(PG_FUNCTION_ARGS)
{
	Multivec *a = PG_GETARG_MULTIVEC_P(0);
	Multivec *b = PG_GETARG_MULTIVEC_P(1);
	uint64 a_size = multivec_elements_size(a->format, a->dim, a->ntokens);
	Multivec *result;

	/* without tokens and dimension there is nothing to disagree about */
	if (a->dim == 0)
		PG_RETURN_POINTER(b);
	if (b->dim == 0)
		PG_RETURN_POINTER(a);
	check_concat(a, b);
	result = multivec_create(a->format, a->dim, (uint64) a->ntokens + b->ntokens);
	memcpy(result->elements, a->elements, a_size);
	memcpy(result->elements + a_size, b->elements, multivec_elements_size(b->format, b->dim, b->ntokens));
	PG_RETURN_POINTER(result);
}

/* The state of multivec_concat_agg: a value that grows. */
typedef struct Concat
{
	Multivec *value;
	uint64 capacity; /* bytes that value has room for */
} Concat;

static MemoryContext
concat_context(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "multivec_concat_agg called outside of an aggregation");
	return context;
}

/* Appends the tokens of a value. */
static void
concat_add(Concat *concat, const Multivec *value)
{
	uint64 old_size = VARSIZE(concat->value);
	uint64 ntokens = (uint64) concat->value->ntokens + value->ntokens;
	uint64 size;

	check_concat(concat->value, value);
	size = multivec_size(value->format, value->dim, ntokens);
	if (size > concat->capacity)
	{
		concat->capacity = Min(2 * size, MaxAllocSize);
		concat->value = repalloc(concat->value, concat->capacity);
	}
	memcpy((char *) concat->value + old_size, value->elements, size - old_size);
	SET_VARSIZE(concat->value, size);
	concat->value->ntokens = ntokens;
}

/* multivec_concat_add(internal, multivec) */
PG_FUNCTION_INFO_V1(multivec_concat_add);
Datum
multivec_concat_add(PG_FUNCTION_ARGS)
{
	MemoryContext context = concat_context(fcinfo);
	Concat *concat = PG_ARGISNULL(0) ? NULL : (Concat *) PG_GETARG_POINTER(0);
	Multivec *value;

	if (PG_ARGISNULL(1))
	{
		if (concat == NULL)
			PG_RETURN_NULL();
		PG_RETURN_POINTER(concat);
	}
	value = PG_GETARG_MULTIVEC_P(1);
	if (concat == NULL)
		concat = MemoryContextAllocZero(context, sizeof(Concat));
	if (concat->value != NULL && concat->value->dim > 0)
	{
		if (value->dim > 0)
			concat_add(concat, value);
	}
	else
	{
		if (concat->value != NULL)
			pfree(concat->value);
		concat->capacity = VARSIZE(value);
		concat->value = MemoryContextAlloc(context, concat->capacity);
		memcpy(concat->value, value, concat->capacity);
	}
	PG_FREE_IF_COPY(value, 1);
	PG_RETURN_POINTER(concat);
}

/* multivec_concat_final(internal) */
PG_FUNCTION_INFO_V1(multivec_concat_final);
Datum
multivec_concat_final(PG_FUNCTION_ARGS)
{
	Concat *concat;
	Multivec *result;

	(void) concat_context(fcinfo);
	concat = (Concat *) PG_GETARG_POINTER(0);
	result = palloc(VARSIZE(concat->value));
	memcpy(result, concat->value, VARSIZE(concat->value));
	PG_RETURN_POINTER(result);
}
