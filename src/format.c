/*
 * format.c
 *		See format.h.
 */
#include "postgres.h"
#include "compat.h"

#include <float.h>
#include <math.h>

#include "element.h"
#include "format.h"

/* An i8 token: its scale, then as many components. */
#define SCALE_SIZE sizeof(float)
#define I8_MAX 127

/* Values that are checked together. */
#define CHECK_BLOCK 64

/* Added to a small float32 and taken off again, it leaves an integer. */
#define ROUND 0x1.8p23f

static const char *const format_names[MAXSIM_NFORMATS] = {"f32", "f16", "bf16", "i8", "b1"};

MaxsimFormat
multivec_format_by_name(const char *name)
{
	int format = 0;

	while (format < MAXSIM_NFORMATS && pg_strcasecmp(name, format_names[format]) != 0)
		format++;
	if (format == MAXSIM_NFORMATS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("multivec format \"%s\" does not exist", name),
				 errhint("Formats are f32, f16, bf16, i8 and b1.")));
	return (MaxsimFormat) format;
}

const char *
multivec_format_name(MaxsimFormat format)
{
	return format_names[format];
}

/* Whether all components are float32 with that scale. */
static bool
is_scale(float scale)
{
	return (double) scale * I8_MAX <= FLT_MAX;
}

static float
scale_of(const char *row)
{
	float scale;

	memcpy(&scale, row, SCALE_SIZE);
	return scale;
}

/*
 * The least scale at which 127 is not below largest, in float32.  So that of 127 times
 * a scale that was found like this is the same scale again, and text keeps a value.
 */
static float
scale_for(float largest)
{
	float scale = largest / I8_MAX;

	while (scale * I8_MAX < largest)
		scale = nextafterf(scale, INFINITY);
	while (scale > 0 && nextafterf(scale, 0) * I8_MAX >= largest)
		scale = nextafterf(scale, 0);
	/* next to the largest float32 */
	if (!is_scale(scale))
		scale = nextafterf(scale, 0);
	return scale;
}

static void
load_i8(const char *row, uint32 dim, float *out)
{
	const int8 *components = (const int8 *) (row + SCALE_SIZE);
	float scale = scale_of(row);

	for (uint32 k = 0; k < dim; k++)
		out[k] = scale * components[k];
}

static void
store_i8(const float *values, uint32 dim, char *row)
{
	int8 *components = (int8 *) (row + SCALE_SIZE);
	float largest = 0;
	float scale;

	for (uint32 k = 0; k < dim; k++)
		largest = Max(largest, fabsf(values[k]));
	scale = scale_for(largest);
	memcpy(row, &scale, SCALE_SIZE);
	for (uint32 k = 0; k < dim; k++)
	{
		float quotient = scale > 0 ? values[k] / scale : 0;

		/* rounds to nearest, ties to even */
		quotient = (quotient + ROUND) - ROUND;
		components[k] = (int8) Max(Min(quotient, I8_MAX), -I8_MAX);
	}
}

static void
load_b1(const char *row, uint32 dim, float *out)
{
	for (uint32 k = 0; k < dim; k++)
		out[k] = ((uint8) row[k / 8] << k % 8 & 0x80) != 0 ? 1 : -1;
}

static void
store_b1(const float *values, uint32 dim, char *row)
{
	memset(row, 0, (dim + 7) / 8);
	for (uint32 k = 0; k < dim; k++)
		row[k / 8] |= (values[k] > 0) * 0x80 >> k % 8;
}

/* Tokens that have INTERRUPT_VALUES values or a few more. */
static uint64
tokens_at_once(uint32 dim)
{
	return INTERRUPT_VALUES / Max(dim, 1) + 1;
}

static void
load_rows(MaxsimFormat format, const void *rows, uint64 ntokens, uint32 dim, float *out)
{
	const size_t row_size = maxsim_row_size(format, dim);
	const uint64 n = ntokens * dim;
	const uint16 *halves = rows;
	const char *row = rows;

	switch (format)
	{
		case MAXSIM_F32:
			memcpy(out, rows, n * sizeof(float));
			break;
		case MAXSIM_F16:
			for (uint64 i = 0; i < n; i++)
				out[i] = maxsim_f16_to_f32(halves[i]);
			break;
		case MAXSIM_BF16:
			for (uint64 i = 0; i < n; i++)
				out[i] = maxsim_bf16_to_f32(halves[i]);
			break;
		case MAXSIM_I8:
			for (uint64 t = 0; t < ntokens; t++)
				load_i8(row + t * row_size, dim, out + t * dim);
			break;
		case MAXSIM_B1:
			for (uint64 t = 0; t < ntokens; t++)
				load_b1(row + t * row_size, dim, out + t * dim);
			break;
	}
}

void
multivec_load(MaxsimFormat format, const void *rows, uint64 ntokens, uint32 dim, float *out)
{
	const size_t row_size = maxsim_row_size(format, dim);
	const uint64 step = tokens_at_once(dim);

	for (uint64 t = 0; t < ntokens; t += step)
	{
		CHECK_FOR_INTERRUPTS();
		load_rows(format, (const char *) rows + t * row_size, Min(ntokens - t, step), dim, out + t * dim);
	}
}

/* Whether all values of a block are finite: without a branch, so that compilers take several at once. */
static bool
block_is_finite(const float *values)
{
	uint32 infinite = 0;

	for (int i = 0; i < CHECK_BLOCK; i++)
		infinite |= (uint32) !maxsim_is_finite(values[i]);
	return infinite == 0;
}

bool
multivec_check_floats(const float *values, uint64 n, uint64 before, struct Node *escontext)
{
	uint64 i = 0;

	while (i + CHECK_BLOCK <= n && block_is_finite(values + i))
	{
		i += CHECK_BLOCK;
		if (i % INTERRUPT_VALUES == 0)
			CHECK_FOR_INTERRUPTS();
	}
	while (i < n && maxsim_is_finite(values[i]))
		i++;
	if (i == n)
		return true;
	ereturn(escontext, false,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("%s is not allowed in type multivec", values[i] != values[i] ? "NaN" : "infinity"),
			 errdetail("It is number %llu of the value.", (unsigned long long) (before + i + 1))));
}

static bool
check_i8(const char *row, uint32 dim, uint64 token, struct Node *escontext)
{
	const int8 *components = (const int8 *) (row + SCALE_SIZE);
	float scale = scale_of(row);

	if (signbit(scale) || !is_scale(scale))
		ereturn(escontext, false,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%g is out of range for the scale of a token in multivec format i8", scale),
				 errdetail("It is that of token %llu.", (unsigned long long) token + 1)));
	for (uint32 k = 0; k < dim; k++)
	{
		if (components[k] < -I8_MAX)
			ereturn(escontext, false,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("%d is out of range for multivec format i8", components[k]),
					 errdetail("It is number %llu of the value.", (unsigned long long) (token * dim + k + 1))));
	}
	return true;
}

static bool
check_b1(const char *row, uint32 dim, uint64 token, struct Node *escontext)
{
	if (dim % 8 == 0 || ((uint8) row[dim / 8] & (0xff >> dim % 8)) == 0)
		return true;
	ereturn(escontext, false,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("multivec in format b1 has bits beyond its dimension of %u", dim),
			 errdetail("They are those of token %llu.", (unsigned long long) token + 1)));
}

/* multivec_check_rows for tokens that so many others of the value come before. */
static bool
check_rows(MaxsimFormat format, const void *rows, uint64 ntokens, uint32 dim, uint64 before, struct Node *escontext)
{
	const size_t row_size = maxsim_row_size(format, dim);
	const uint64 n = ntokens * dim;
	const uint16 *halves = rows;
	const char *row = rows;
	uint64 i = 0;
	float value;

	switch (format)
	{
		case MAXSIM_F32:
			return multivec_check_floats(rows, n, before * dim, escontext);
		case MAXSIM_F16:
			while (i < n && maxsim_f16_is_finite(halves[i]))
				i++;
			break;
		case MAXSIM_BF16:
			while (i < n && maxsim_bf16_is_finite(halves[i]))
				i++;
			break;
		case MAXSIM_I8:
			for (uint64 t = 0; t < ntokens; t++)
				if (!check_i8(row + t * row_size, dim, before + t, escontext))
					return false;
			return true;
		case MAXSIM_B1:
			for (uint64 t = 0; t < ntokens; t++)
				if (!check_b1(row + t * row_size, dim, before + t, escontext))
					return false;
			return true;
	}
	if (i == n)
		return true;
	load_rows(format, halves + i, 1, 1, &value);
	return multivec_check_floats(&value, 1, before * dim + i, escontext);
}

bool
multivec_check_rows(MaxsimFormat format, const void *rows, uint64 ntokens, uint32 dim, struct Node *escontext)
{
	const size_t row_size = maxsim_row_size(format, dim);
	const uint64 step = tokens_at_once(dim);

	for (uint64 t = 0; t < ntokens; t += step)
	{
		CHECK_FOR_INTERRUPTS();
		if (!check_rows(format, (const char *) rows + t * row_size, Min(ntokens - t, step), dim, t, escontext))
			return false;
	}
	return true;
}

/* multivec_store of finite values, for tokens that so many others of the value come before. */
static bool
store_rows(MaxsimFormat format, const float *values, uint64 ntokens, uint32 dim, void *rows, uint64 before,
		   struct Node *escontext)
{
	const size_t row_size = maxsim_row_size(format, dim);
	const uint64 n = ntokens * dim;
	uint16 *halves = rows;
	char *row = rows;
	uint64 i = 0;

	switch (format)
	{
		case MAXSIM_F32:
			memcpy(rows, values, n * sizeof(float));
			return true;
		case MAXSIM_F16:
			while (i < n && maxsim_f16_is_finite(halves[i] = maxsim_f16_from_f32(values[i])))
				i++;
			break;
		case MAXSIM_BF16:
			while (i < n && maxsim_bf16_is_finite(halves[i] = maxsim_bf16_from_f32(values[i])))
				i++;
			break;
		case MAXSIM_I8:
			for (uint64 t = 0; t < ntokens; t++)
				store_i8(values + t * dim, dim, row + t * row_size);
			return true;
		case MAXSIM_B1:
			for (uint64 t = 0; t < ntokens; t++)
				store_b1(values + t * dim, dim, row + t * row_size);
			return true;
	}
	if (i == n)
		return true;
	ereturn(escontext, false,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("%g is out of range for multivec format %s", values[i], multivec_format_name(format)),
			 errdetail("It is number %llu of the value.", (unsigned long long) (before * dim + i + 1))));
}

bool
multivec_store(MaxsimFormat format, const float *values, uint64 ntokens, uint32 dim, void *rows,
			   struct Node *escontext)
{
	const size_t row_size = maxsim_row_size(format, dim);
	const uint64 step = tokens_at_once(dim);

	if (!multivec_check_floats(values, ntokens * dim, 0, escontext))
		return false;
	for (uint64 t = 0; t < ntokens; t += step)
	{
		CHECK_FOR_INTERRUPTS();
		if (!store_rows(format, values + t * dim, Min(ntokens - t, step), dim, (char *) rows + t * row_size, t, escontext))
			return false;
	}
	return true;
}
