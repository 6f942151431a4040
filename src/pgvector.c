/*
 * pgvector.c
 *		Casts between multivec and arrays of pgvector's types vector and halfvec, for
 *		the extension flash_maxsim_pgvector.
 *
 * Nothing of pgvector is called or included, so this library is built and loaded where
 * there is none.  The arrays' bytes are read as pgvector stores them, and are believed no
 * more than any others: a damaged array is an error and not a read past its end.
 */
#include "postgres.h"
#include "compat.h"

#include "utils/array.h"
#include "utils/lsyscache.h"

#include "multivec.h"
#include "tokens.h"

/* A vector or halfvec: dim numbers in format f32 or f16. */
typedef struct StoredVector
{
	int32 vl_len_; /* varlena header, do not touch directly */
	int16 dim;
	int16 unused; /* 0 */
	char elements[FLEXIBLE_ARRAY_MEMBER];
} StoredVector;

#define VECTOR_HEADER_SIZE offsetof(StoredVector, elements)
/* as many dimensions as pgvector allows */
#define VECTOR_MAX_DIM 16000

/*
 * Checks an array's header.  Returns how many vectors it says there are, none of them
 * NULL, and where the first one begins, which is within the array or its end.
 */
static uint32
check_array(const ArrayType *array, uint64 *begin)
{
	uint64 size = VARSIZE(array);
	bool has_bitmap;
	int n;

	if (size < sizeof(ArrayType))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array of %llu bytes is shorter than its header", (unsigned long long) size)));
	*begin = size;
	if (ARR_NDIM(array) == 0)
		return 0;
	if (ARR_NDIM(array) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("array of vectors must have 1 dimension, not %d", ARR_NDIM(array))));
	n = size < ARR_OVERHEAD_NONULLS(1) ? -1 : ARR_DIMS(array)[0];
	has_bitmap = ARR_HASNULL(array);
	*begin = has_bitmap ? ARR_OVERHEAD_WITHNULLS(1, (uint64) Max(n, 0)) : ARR_OVERHEAD_NONULLS(1);
	if (n < 0 || size < *begin || (has_bitmap && array->dataoffset != (int64) *begin))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array's header does not fit its size: %d vectors, but %llu bytes",
						n, (unsigned long long) size)));
	if (has_bitmap)
		tokens_check_bitmap(ARR_NULLBITMAP(array), n);
	return n;
}

/* Vector number n, counted from 1, of an array, which should begin there. */
static const StoredVector *
check_vector(const ArrayType *array, uint64 at, MaxsimFormat format, uint32 n)
{
	uint64 size = VARSIZE(array);
	const StoredVector *vector = (const StoredVector *) ((const char *) array + at);

	if (at + VECTOR_HEADER_SIZE > size)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array of %llu bytes ends before its vector number %u", (unsigned long long) size, n)));
	if (!VARATT_IS_4B_U(vector) || vector->dim < 1 || vector->unused != 0 ||
		VARSIZE_4B(vector) != VECTOR_HEADER_SIZE + multivec_elements_size(format, vector->dim, 1) ||
		at + VARSIZE_4B(vector) > size)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("vector number %u of an array has an unknown header: %u bytes, dimension %d, reserved %d",
						n, VARSIZE_4B(vector), vector->dim, vector->unused)));
	return vector;
}

static Multivec *
multivec_from_vectors(const ArrayType *array, MaxsimFormat format)
{
	uint64 at;
	uint32 n = check_array(array, &at);
	uint64 row = 0;
	Multivec *value = NULL;

	if (n == 0)
		return multivec_create(format, 0, 0);
	for (uint32 t = 0; t < n; t++)
	{
		const StoredVector *vector = check_vector(array, at, format, t + 1);

		CHECK_FOR_INTERRUPTS();
		if (t == 0)
		{
			/* what does not fit into the array is an error below, before it is written */
			row = multivec_elements_size(format, vector->dim, 1);
			value = multivec_create(format, vector->dim, Min(n, (VARSIZE(array) - at) / (VECTOR_HEADER_SIZE + row)));
		}
		else if (vector->dim != (int64) value->dim)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_EXCEPTION),
					 errmsg("vectors of an array have different dimensions: %u and %d", value->dim, vector->dim),
					 errdetail("The second is number %u of the array.", t + 1)));
		memcpy(value->elements + t * row, vector->elements, row);
		at = INTALIGN(at + VECTOR_HEADER_SIZE + row);
	}
	multivec_check_rows(format, value->elements, n, value->dim, NULL);
	return value;
}

/* Bytes of an array of a value's tokens; an error where pgvector or PostgreSQL has none so large. */
static uint64
vectors_size(const Multivec *value, MaxsimFormat format)
{
	uint64 stride = INTALIGN(VECTOR_HEADER_SIZE + multivec_elements_size(format, value->dim, 1));
	uint64 size = ARR_OVERHEAD_NONULLS(1) + value->ntokens * stride;

	if (value->dim > VECTOR_MAX_DIM)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("vectors cannot have %u dimensions, the maximum is %d", value->dim, VECTOR_MAX_DIM)));
	if (size > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("array of %u vectors of dimension %u exceeds the maximum of 1 GB", value->ntokens, value->dim)));
	return size;
}

/* The value's elements, which are in format f32 or f16 here, as an array of vectors of a type. */
static ArrayType *
make_vectors(const Multivec *value, MaxsimFormat format, const char *elements, Oid type)
{
	uint64 size = vectors_size(value, format);
	uint64 row = multivec_elements_size(format, value->dim, 1);
	uint64 at = ARR_OVERHEAD_NONULLS(1);
	ArrayType *array = palloc0(size);

	SET_VARSIZE(array, size);
	array->ndim = 1;
	array->elemtype = type;
	ARR_DIMS(array)
	[0] = value->ntokens;
	ARR_LBOUND(array)
	[0] = 1;
	for (uint32 t = 0; t < value->ntokens; t++)
	{
		StoredVector *vector = (StoredVector *) ((char *) array + at);

		CHECK_FOR_INTERRUPTS();
		SET_VARSIZE(vector, VECTOR_HEADER_SIZE + row);
		vector->dim = value->dim;
		memcpy(vector->elements, elements + t * row, row);
		at = INTALIGN(at + VECTOR_HEADER_SIZE + row);
	}
	return array;
}

/* The type of the vectors that a function returns an array of. */
static Oid
vector_type(FunctionCallInfo fcinfo)
{
	Oid type = get_element_type(get_func_rettype(fcinfo->flinfo->fn_oid));

	if (!OidIsValid(type))
		elog(ERROR, "function %u returns no array", fcinfo->flinfo->fn_oid);
	return type;
}

static Datum
vectors_from_multivec(FunctionCallInfo fcinfo, MaxsimFormat format)
{
	Multivec *value = PG_GETARG_MULTIVEC_P(0);
	Oid type = vector_type(fcinfo);
	uint64 n = (uint64) value->ntokens * value->dim;
	const void *elements = value->elements;
	Tokens tokens;

	if (n == 0)
		PG_RETURN_ARRAYTYPE_P(construct_empty_array(type));
	(void) vectors_size(value, format);
	if (value->format != format)
	{
		tokens = tokens_from_multivec(value);
		elements = tokens_to_float(&tokens);
		if (format == MAXSIM_F16)
		{
			void *halves = palloc_extended(n * sizeof(uint16), MCXT_ALLOC_HUGE);

			multivec_store(MAXSIM_F16, elements, value->ntokens, value->dim, halves, NULL);
			elements = halves;
		}
	}
	PG_RETURN_ARRAYTYPE_P(make_vectors(value, format, elements, type));
}

static Datum
cast_from_vectors(FunctionCallInfo fcinfo, MaxsimFormat format)
{
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(0);
	Multivec *value = multivec_from_vectors(array, format);

	PG_FREE_IF_COPY(array, 0);
	PG_RETURN_POINTER(value);
}

/* multivec(vector[]) */
PG_FUNCTION_INFO_V1(multivec_from_vector_array);
Datum
multivec_from_vector_array(PG_FUNCTION_ARGS)
{
	return cast_from_vectors(fcinfo, MAXSIM_F32);
}

/* multivec(halfvec[]) */
PG_FUNCTION_INFO_V1(multivec_from_halfvec_array);
Datum
multivec_from_halfvec_array(PG_FUNCTION_ARGS)
{
	return cast_from_vectors(fcinfo, MAXSIM_F16);
}

PG_FUNCTION_INFO_V1(multivec_to_vector_array);
Datum
multivec_to_vector_array(PG_FUNCTION_ARGS)
{
	return vectors_from_multivec(fcinfo, MAXSIM_F32);
}

PG_FUNCTION_INFO_V1(multivec_to_halfvec_array);
Datum
multivec_to_halfvec_array(PG_FUNCTION_ARGS)
{
	return vectors_from_multivec(fcinfo, MAXSIM_F16);
}
