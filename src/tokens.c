/*
 * tokens.c
 *		See tokens.h.
 */
#include "postgres.h"
#include "compat.h"

#include <math.h>

#include "access/tupmacs.h"
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

/* Bytes of an element of a type of numbers; 0: they vary, or the type is another one. */
static uint32
element_size(Oid type)
{
	switch (type)
	{
		case INT2OID:
			return sizeof(int16);
		case INT4OID:
		case FLOAT4OID:
			return sizeof(int32);
		case INT8OID:
		case FLOAT8OID:
			return sizeof(int64);
		default:
			return 0;
	}
}

/*
 * Whether what an array's header says fits its size.  A bitmap may stand for elements
 * that are NULL, and then the value has not all of them.
 */
static bool
is_header_sound(ArrayType *array, bool *has_null)
{
	uint64 size = VARSIZE(array);
	uint64 begin;
	uint64 n;

	*has_null = false;
	if (size < sizeof(ArrayType) || ARR_NDIM(array) < 0 || ARR_NDIM(array) > MAXDIM)
		return false;
	begin = ARR_OVERHEAD_NONULLS((uint64) ARR_NDIM(array));
	if (size < begin)
		return false;
	n = ARR_NDIM(array) > 0;
	for (int i = 0; i < ARR_NDIM(array); i++)
	{
		/* an element takes a bit at least; so the product stays within 64 bits */
		n *= (uint32) ARR_DIMS(array)[i];
		if (ARR_DIMS(array)[i] < 0 || n > 8 * size)
			return false;
	}
	if (ARR_HASNULL(array))
	{
		begin = ARR_OVERHEAD_WITHNULLS((uint64) ARR_NDIM(array), n);
		if (ARR_NDIM(array) == 0 || array->dataoffset < 0 || (uint64) array->dataoffset != begin || size < begin)
			return false;
		*has_null = array_contains_nulls(array);
	}
	if (*has_null)
		return true;
	/* elements whose size varies take a byte at least */
	if (element_size(ARR_ELEMTYPE(array)) == 0)
		return n > 0 ? size - begin >= n : size == begin;
	return size - begin == n * element_size(ARR_ELEMTYPE(array));
}

/* An error unless the header fits, and elements are of a type.  Returns whether one is NULL. */
static bool
check_array(ArrayType *array, const char *name, Oid type)
{
	bool has_null;

	if (!is_header_sound(array, &has_null))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array is corrupted: header of %s does not fit its size, %u bytes", name, (unsigned) VARSIZE(array))));
	if (OidIsValid(type) && ARR_ELEMTYPE(array) != type)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array is corrupted: elements of %s are of type %u, not %u", name, ARR_ELEMTYPE(array), type)));
	return has_null;
}

static void
null_error(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not contain NULL", name)));
}

uint32
tokens_check_list(ArrayType *array, const char *name, Oid type, const char *hint)
{
	bool has_null = check_array(array, name, type);

	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("%s must have 1 dimension, not %d", name, ARR_NDIM(array)),
				 hint != NULL ? errhint("%s", hint) : 0));
	if (has_null)
		null_error(name);
	return ARR_NDIM(array) == 0 ? 0 : ARR_DIMS(array)[0];
}

void
tokens_check_matrix(ArrayType *array, Oid type, uint32 *ntokens, uint32 *dim)
{
	bool has_null = check_array(array, "array of token vectors", type);

	tokens_check_array_header(array, ntokens, dim);
	if (has_null)
		null_error("array of token vectors");
}

const char *
tokens_next_element(const char **at, const char *end, uint64 number)
{
	const char *element = *at;
	int64 room = 0;

	/* a byte that is not 0 is no padding, but a short header */
	if (element < end)
		element = (const char *) att_align_pointer(element, TYPALIGN_INT, -1, element);
	if (element < end)
		room = end - element;
	if (room < 1 || VARATT_IS_EXTERNAL(element) || (!VARATT_IS_1B(element) && room < VARHDRSZ) ||
		VARATT_IS_COMPRESSED(element) || (VARATT_IS_4B(element) && VARSIZE_4B(element) < VARHDRSZ) ||
		VARSIZE_ANY(element) > room)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array is corrupted: it ends within its element number %llu, or that is damaged",
						(unsigned long long) number)));
	*at = element + VARSIZE_ANY(element);
	return element;
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
			null_error("array of token vectors");
	}
}

void
tokens_narrow_doubles(const double *values, uint64 n, uint64 before, float *out)
{
	for (uint64 i = 0; i < n; i++)
	{
		double value = values[i];

		if (i % INTERRUPT_VALUES == 0)
			CHECK_FOR_INTERRUPTS();
		out[i] = (float) value;
		if (!maxsim_is_finite(out[i]) && value - value == 0)
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("%g is out of range for multivec format f32", value),
					 errdetail("It is number %llu of the value.", (unsigned long long) (before + i + 1))));
	}
}

/* A numeric as float32; what lies behind its varlena header may be damaged. */
static float
numeric_to_float(const char *element, uint64 number)
{
	uint32 size = VARSIZE_ANY_EXHDR(element);
	uint16 header = 0;
	float value;
	char *text;

	/* the header is one word, or two where its first bit is not set */
	if (size >= sizeof(header))
		memcpy(&header, VARDATA_ANY(element), sizeof(header));
	if (size < ((header & 0x8000) != 0 ? sizeof(header) : 2 * sizeof(header)))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array is corrupted: its numeric number %llu has only %u bytes", (unsigned long long) number, size)));
	text = DatumGetCString(DirectFunctionCall1(numeric_out, PointerGetDatum(element)));
	value = strtof(text, NULL);
	if (!maxsim_is_finite(value) && strpbrk(text, "0123456789") != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%.40s%s is out of range for multivec format f32", text, strlen(text) > 40 ? "..." : ""),
				 errdetail("It is number %llu of the value.", (unsigned long long) number)));
	pfree(text);
	return value;
}

/*
 * The elements of a numeric[] as float32, by way of their text, as
 * numeric_float4() has it; that refuses what rounds to 0, though, which no other
 * type's conversion does.
 */
static void
numerics_to_float(ArrayType *array, uint64 n, float *out)
{
	const char *end = (const char *) array + VARSIZE(array);
	const char *at = ARR_DATA_PTR(array);

	for (uint64 i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		out[i] = numeric_to_float(tokens_next_element(&at, end, i + 1), i + 1);
	}
}

/* n integers as float32, in one loop for each type. */
static void
integers_to_float(Oid type, const char *data, uint64 n, float *out)
{
	switch (type)
	{
		case INT2OID:
			for (uint64 i = 0; i < n; i++)
				out[i] = ((const int16 *) data)[i];
			break;
		case INT4OID:
			for (uint64 i = 0; i < n; i++)
				out[i] = ((const int32 *) data)[i];
			break;
		case INT8OID:
			for (uint64 i = 0; i < n; i++)
				out[i] = ((const int64 *) data)[i];
			break;
	}
}

Tokens
tokens_from_array(ArrayType *array)
{
	Tokens tokens = {NULL, MAXSIM_F32, 0, 0};
	float *copy = NULL;
	const char *data;
	uint64 n;
	Oid type;

	tokens_check_matrix(array, InvalidOid, &tokens.ntokens, &tokens.dim);
	n = (uint64) tokens.ntokens * tokens.dim;
	data = ARR_DATA_PTR(array);
	tokens.elements = data;
	type = ARR_ELEMTYPE(array);
	if (type != FLOAT4OID)
		tokens.elements = copy = palloc_extended(Max(n, 1) * sizeof(float), MCXT_ALLOC_HUGE);
	switch (type)
	{
		case FLOAT4OID:
			break;
		case FLOAT8OID:
			tokens_narrow_doubles((const double *) data, n, 0, copy);
			break;
		case INT2OID:
		case INT4OID:
		case INT8OID:
			for (uint64 i = 0; i < n; i += INTERRUPT_VALUES)
			{
				CHECK_FOR_INTERRUPTS();
				integers_to_float(type, data + i * element_size(type), Min(n - i, INTERRUPT_VALUES), copy + i);
			}
			break;
		case NUMERICOID:
			numerics_to_float(array, n, copy);
			break;
		default:
			elog(ERROR, "unexpected array element type %u", type);
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
