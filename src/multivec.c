/*
 * multivec.c
 *		The type multivec itself: its limits and checks, and its input and output
 *		functions.
 *
 * Every value is checked twice: when it is made, so that no NaN, no infinity and
 * no wrong size is ever stored, and when it is read, because a damaged page or a
 * forged binary value must be an error and not a read past its end.
 */
#include "postgres.h"
#include "compat.h"

#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "multivec.h"

StaticAssertDecl(offsetof(Multivec, elements) == 16, "multivec's header must keep elements 16-byte aligned");

/* the binary form's first byte; see multivec_recv */
#define MULTIVEC_WIRE_VERSION 1

void
multivec_check_dim(int32 dim)
{
	if (dim < 1 || dim > MULTIVEC_MAX_DIM)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("dimension of type multivec must be between 1 and %d, not %d", MULTIVEC_MAX_DIM, dim)));
}

uint64
multivec_size(MaxsimFormat format, uint64 dim, uint64 ntokens)
{
	if (dim > MULTIVEC_MAX_DIM)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("multivec cannot have %llu dimensions, the maximum is %d",
						(unsigned long long) dim, MULTIVEC_MAX_DIM)));
	if (ntokens > MaxAllocSize ||
		MULTIVEC_HEADER_SIZE + multivec_elements_size(format, dim, ntokens) > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("multivec of %llu tokens of dimension %llu in format %s exceeds the maximum of 1 GB",
						(unsigned long long) ntokens, (unsigned long long) dim,
						multivec_format_name(format))));
	return MULTIVEC_HEADER_SIZE + multivec_elements_size(format, dim, ntokens);
}

Multivec *
multivec_create(MaxsimFormat format, uint64 dim, uint64 ntokens)
{
	uint64 size = multivec_size(format, dim, ntokens);
	Multivec *value = palloc(size);

	memset(value, 0, MULTIVEC_HEADER_SIZE);
	SET_VARSIZE(value, size);
	value->format = format;
	value->dim = dim;
	value->ntokens = ntokens;
	return value;
}

bool
multivec_is_sound(const Multivec *value, uint64 size)
{
	return size >= MULTIVEC_HEADER_SIZE &&
		   value->format < MAXSIM_NFORMATS && value->unused1 == 0 && value->unused2 == 0 &&
		   value->dim <= MULTIVEC_MAX_DIM && (value->dim > 0 || value->ntokens == 0) &&
		   multivec_elements_size(value->format, value->dim, value->ntokens) == size - MULTIVEC_HEADER_SIZE;
}

void
multivec_check(const Multivec *value, uint64 size)
{
	if (multivec_is_sound(value, size))
		return;
	if (size < MULTIVEC_HEADER_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("multivec of %llu bytes is shorter than its header of %zu bytes",
						(unsigned long long) size, MULTIVEC_HEADER_SIZE)));
	if (value->format >= MAXSIM_NFORMATS || value->unused1 != 0 || value->unused2 != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("multivec has an unknown header: format %u, reserved %u and %u",
						value->format, value->unused1, value->unused2)));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("multivec's header does not fit its size: %u tokens of dimension %u in format %s, but %llu bytes of elements",
					value->ntokens, value->dim, multivec_format_name(value->format),
					(unsigned long long) size - MULTIVEC_HEADER_SIZE)));
}

Multivec *
multivec_from_datum(Datum datum)
{
	Multivec *value = (Multivec *) PG_DETOAST_DATUM(datum);

	multivec_check(value, VARSIZE(value));
	return value;
}

Oid
multivec_type_oid(Oid fn_oid)
{
	Oid namespace = get_func_namespace(fn_oid);
	Oid type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("multivec"),
							   ObjectIdGetDatum(namespace));

	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("type multivec does not exist in the schema of extension flash_maxsim")));
	return type;
}

/*
 * A type modifier: the dimension in the low 16 bits, above it the format + 1, or
 * 0 where any format will do.
 */
#define TYPMOD_DIM(typmod) ((uint32) (typmod) &0xffff)
#define TYPMOD_HAS_FORMAT(typmod) (((typmod) >> 16) != 0)
#define TYPMOD_FORMAT(typmod) ((MaxsimFormat) (((typmod) >> 16) - 1))

/*
 * An error unless a type modifier is one that multivec_typmod_in makes: anybody can
 * call the functions that take one with any integer.
 */
static void
check_typmod(int32 typmod)
{
	if (typmod >= 0 && (TYPMOD_DIM(typmod) == 0 || (typmod >> 16) > MAXSIM_NFORMATS))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid type modifier of type multivec: %d", typmod)));
}

/* A dimension as the first type modifier has it. */
static int32
typmod_dim(const char *text)
{
	const char *digits = text + (*text == '-' || *text == '+');

	if (*digits == '\0' || digits[strspn(digits, "0123456789")] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid dimension of type multivec: \"%s\"", text),
				 errhint("Write multivec(dimension) or multivec(dimension, format), for example multivec(128, f16).")));
	return pg_strtoint32(text);
}

PG_FUNCTION_INFO_V1(multivec_typmod_in);
Datum
multivec_typmod_in(PG_FUNCTION_ARGS)
{
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(0);
	Datum *elements;
	int n;
	int32 dim;

	deconstruct_array(array, CSTRINGOID, -2, false, TYPALIGN_CHAR, &elements, NULL, &n);
	if (n < 1 || n > 2)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("type multivec takes one or two modifiers, not %d", n),
				 errhint("Write multivec(dimension) or multivec(dimension, format).")));
	dim = typmod_dim(DatumGetCString(elements[0]));
	multivec_check_dim(dim);
	if (n == 1)
		PG_RETURN_INT32(dim);
	PG_RETURN_INT32(dim | (multivec_format_by_name(DatumGetCString(elements[1])) + 1) << 16);
}

/* A type modifier as it is written behind the type. */
static char *
typmod_text(int32 typmod)
{
	if (typmod < 0)
		return pstrdup("");
	if (!TYPMOD_HAS_FORMAT(typmod))
		return psprintf("(%u)", TYPMOD_DIM(typmod));
	return psprintf("(%u,%s)", TYPMOD_DIM(typmod), multivec_format_name(TYPMOD_FORMAT(typmod)));
}

PG_FUNCTION_INFO_V1(multivec_typmod_out);
Datum
multivec_typmod_out(PG_FUNCTION_ARGS)
{
	int32 typmod = PG_GETARG_INT32(0);

	check_typmod(typmod);
	PG_RETURN_CSTRING(typmod_text(typmod));
}

/* An error, soft where escontext allows, unless dim is what typmod asks for. */
static bool
check_typmod_dim(int32 typmod, uint64 dim, struct Node *escontext)
{
	if (typmod < 0 || dim == TYPMOD_DIM(typmod))
		return true;
	ereturn(escontext, false,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("value of dimension %llu does not fit type multivec%s", (unsigned long long) dim, typmod_text(typmod))));
}

/* A value as typmod wants it: the same one where it is so already. */
static Multivec *
apply_typmod(Multivec *value, int32 typmod)
{
	MaxsimFormat format = typmod >= 0 && TYPMOD_HAS_FORMAT(typmod) ? TYPMOD_FORMAT(typmod) : value->format;
	uint32 dim = typmod >= 0 && value->ntokens == 0 ? TYPMOD_DIM(typmod) : value->dim;
	uint64 n = (uint64) value->dim * value->ntokens;
	Multivec *result;
	float *values;

	check_typmod(typmod);
	check_typmod_dim(typmod, dim, NULL);
	if (format == value->format && dim == value->dim)
		return value;
	values = palloc_extended(Max(n, 1) * sizeof(float), MCXT_ALLOC_HUGE);
	multivec_load(value->format, value->elements, value->ntokens, value->dim, values);
	result = multivec_create(format, dim, value->ntokens);
	multivec_store(format, values, value->ntokens, dim, result->elements, NULL);
	pfree(values);
	return result;
}

PG_FUNCTION_INFO_V1(multivec_in);
Datum
multivec_in(PG_FUNCTION_ARGS)
{
	char *text = PG_GETARG_CSTRING(0);
	int32 typmod = PG_GETARG_INT32(2);
	struct Node *escontext = fcinfo->context;
	MaxsimFormat format = typmod >= 0 && TYPMOD_HAS_FORMAT(typmod) ? TYPMOD_FORMAT(typmod) : MAXSIM_F32;
	Multivec *value;
	float *values;
	uint64 ntokens;
	uint64 dim;

	check_typmod(typmod);
	if (!multivec_parse(text, &values, &ntokens, &dim, escontext))
		PG_RETURN_NULL();
	if (ntokens == 0 && typmod >= 0)
		dim = TYPMOD_DIM(typmod);
	if (!check_typmod_dim(typmod, dim, escontext))
		PG_RETURN_NULL();
	value = multivec_create(format, dim, ntokens);
	if (!multivec_store(format, values, ntokens, dim, value->elements, escontext))
		PG_RETURN_NULL();
	pfree(values);
	PG_RETURN_POINTER(value);
}

PG_FUNCTION_INFO_V1(multivec_out);
Datum
multivec_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(multivec_print(PG_GETARG_MULTIVEC_P(0)));
}

/*
 * The binary form: version 1, format code (0 f32, 1 f16, 2 bf16, 3 i8, 4 b1), two
 * zero bytes, dimension and token count as 32-bit integers in network byte order,
 * then the rows as they are stored (engine.h), little-endian, so that a tensor's
 * bytes go in and out as they are.
 */
PG_FUNCTION_INFO_V1(multivec_recv);
Datum
multivec_recv(PG_FUNCTION_ARGS)
{
	StringInfo message = (StringInfo) PG_GETARG_POINTER(0);
	int32 typmod = PG_GETARG_INT32(2);
	Multivec *value;
	int version = pq_getmsgbyte(message);
	int format = pq_getmsgbyte(message);
	int reserved = pq_getmsgint(message, 2);
	uint32 dim = pq_getmsgint(message, 4);
	uint32 ntokens = pq_getmsgint(message, 4);
	uint64 size;

	if (version != MULTIVEC_WIRE_VERSION || format >= MAXSIM_NFORMATS || reserved != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("binary multivec has an unknown header: version %d, format %d, reserved %d",
						version, format, reserved)));
	size = multivec_elements_size(format, dim, ntokens);
	if (size != message->len - message->cursor || (dim == 0 && ntokens > 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("binary multivec of %u tokens of dimension %u in format %s needs %llu bytes of elements, found %d",
						ntokens, dim, multivec_format_name(format), (unsigned long long) size,
						message->len - message->cursor)));
	value = multivec_create(format, dim, ntokens);
	pq_copymsgbytes(message, value->elements, size);
	multivec_check_rows(format, value->elements, ntokens, dim, NULL);
	PG_RETURN_POINTER(apply_typmod(value, typmod));
}

PG_FUNCTION_INFO_V1(multivec_send);
Datum
multivec_send(PG_FUNCTION_ARGS)
{
	Multivec *value = PG_GETARG_MULTIVEC_P(0);
	StringInfoData message;

	pq_begintypsend(&message);
	pq_sendbyte(&message, MULTIVEC_WIRE_VERSION);
	pq_sendbyte(&message, value->format);
	pq_sendint16(&message, 0);
	pq_sendint32(&message, value->dim);
	pq_sendint32(&message, value->ntokens);
	pq_sendbytes(&message, value->elements, VARSIZE(value) - MULTIVEC_HEADER_SIZE);
	PG_RETURN_BYTEA_P(pq_endtypsend(&message));
}

/* multivec_coerce(multivec, integer, boolean): the cast that applies a type modifier. */
PG_FUNCTION_INFO_V1(multivec_coerce);
Datum
multivec_coerce(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(apply_typmod(PG_GETARG_MULTIVEC_P(0), PG_GETARG_INT32(1)));
}
