/*
 * cuda_reference.c
 *		Rows of every format, random ones and given ones, and the score that the CUDA
 *		engine should come to, in double precision.
 */
#include "cuda_test.h"
#include "element.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const format_names[MAXSIM_NFORMATS] = {"f32", "f16", "bf16", "i8", "b1"};

static float
round_to_format(float value, MaxsimFormat format)
{
	if (format == MAXSIM_F16)
		return maxsim_f16_to_f32(maxsim_f16_from_f32(value));
	if (format == MAXSIM_BF16)
		return maxsim_bf16_to_f32(maxsim_bf16_from_f32(value));
	return value;
}

/* A power of two as scale, so that the largest component is 64 to 127 times it. */
static void
put_i8(char *row, const float *values, uint32_t dim)
{
	float largest = 0;
	float scale;
	uint32_t k;

	for (k = 0; k < dim; k++)
		largest = fmaxf(largest, fabsf(values[k]));
	scale = largest > 0 ? ldexpf(1, ilogbf(largest) - 6) : 0;
	memcpy(row, &scale, sizeof(scale));
	for (k = 0; k < dim; k++)
	{
		float value = scale > 0 ? rintf(values[k] / scale) : 0;

		row[sizeof(scale) + k] = (char) (int8_t) fmaxf(-127, fminf(127, value));
	}
}

void
put_row(void *row, const float *values, uint32_t dim, MaxsimFormat format)
{
	uint32_t k;

	if (format == MAXSIM_F32)
		memcpy(row, values, dim * sizeof(float));
	else if (format == MAXSIM_I8)
		put_i8(row, values, dim);
	else if (format == MAXSIM_B1)
	{
		memset(row, 0, maxsim_row_size(format, dim));
		for (k = 0; k < dim; k++)
			if (values[k] > 0)
				((uint8_t *) row)[k / 8] |= (uint8_t) (0x80 >> k % 8);
	}
	else
		for (k = 0; k < dim; k++)
		{
			uint16_t half = format == MAXSIM_F16 ? maxsim_f16_from_f32(values[k]) : maxsim_bf16_from_f32(values[k]);

			memcpy((char *) row + 2 * k, &half, sizeof(half));
		}
}

static void
get_row(const void *row, double *values, uint32_t dim, MaxsimFormat format)
{
	const char *bytes = row;
	uint16_t half;
	float number;
	uint32_t k;

	for (k = 0; k < dim; k++)
		switch (format)
		{
			case MAXSIM_F32:
				memcpy(&number, bytes + 4 * (size_t) k, sizeof(number));
				values[k] = number;
				break;
			case MAXSIM_I8:
				memcpy(&number, bytes, sizeof(number));
				values[k] = (double) number * (int8_t) bytes[sizeof(number) + k];
				break;
			case MAXSIM_B1:
				values[k] = (uint8_t) bytes[k / 8] & 0x80 >> k % 8 ? 1 : -1;
				break;
			default:
				memcpy(&half, bytes + 2 * (size_t) k, sizeof(half));
				values[k] = format == MAXSIM_F16 ? maxsim_f16_to_f32(half) : maxsim_bf16_to_f32(half);
		}
}

/*
 * A query token as the engine rounds it; for i8 and b1 with its largest component from 1
 * to 2, to f16, or to bits below 2 where there are any.
 */
static void
round_token(const float *token, double *rounded, uint32_t dim, MaxsimFormat format, int bits)
{
	float largest = 0;
	int exponent;
	uint32_t k;

	for (k = 0; k < dim; k++)
	{
		rounded[k] = round_to_format(token[k], format);
		largest = fmaxf(largest, fabsf(token[k]));
	}
	if ((format != MAXSIM_I8 && format != MAXSIM_B1) || largest == 0)
		return;
	exponent = ilogbf(largest);
	for (k = 0; k < dim; k++)
		rounded[k] = bits > 0 ? ldexp(rint(ldexp(token[k], bits - 1 - exponent)), exponent + 1 - bits)
							  : ldexp(round_to_format(ldexpf(token[k], -exponent), MAXSIM_F16), exponent);
}

static void
fill_row_i8(char *row, uint32_t dim, bool integers)
{
	float scale = integers ? 1 + random_below(2) : (float) (1 + random_below(1000)) * 1e-3f;
	uint32_t k;

	memcpy(row, &scale, sizeof(scale));
	for (k = 0; k < dim; k++)
		row[sizeof(scale) + k] = (char) (int8_t) (integers ? (int) random_below(9) - 4 : (int) random_below(255) - 127);
}

void
fill_rows(void *rows, size_t n, uint32_t dim, MaxsimFormat format, bool integers)
{
	const size_t row_size = maxsim_row_size(format, dim);
	float *values = allocate(dim * sizeof(float));
	size_t i;
	uint32_t k;

	for (i = 0; i < n; i++)
	{
		char *row = (char *) rows + i * row_size;

		for (k = 0; k < dim && format != MAXSIM_I8; k++)
			values[k] = integers ? (float) ((int) random_below(9) - 4) : random_float();
		if (format == MAXSIM_I8)
			fill_row_i8(row, dim, integers);
		else
			put_row(row, values, dim, format);
	}
	free(values);
}

void
make_query(MaxsimQuery *query, uint32_t ntokens, uint32_t dim, bool integers, bool weighted)
{
	size_t n = (size_t) ntokens * dim;
	float *tokens = allocate(n * sizeof(float));
	float *weights = weighted ? allocate(ntokens * sizeof(float)) : NULL;
	float size = 1;
	size_t i;

	/* unrounded: the engine must round as the reference does; tokens of different lengths */
	for (i = 0; i < n; i++)
	{
		if (i % dim == 0)
			size = ldexpf(1, (int) random_below(9) - 6);
		tokens[i] = integers ? (float) ((int) random_below(9) - 4) : random_float() * size;
	}
	for (i = 0; weighted && i < ntokens; i++)
		weights[i] = i % 5 == 2 ? 0 : integers ? (float) ((int) random_below(9) - 4)
											   : random_float();
	*query = (MaxsimQuery){tokens, weights, ntokens, dim, false};
}

void
free_query(MaxsimQuery *query)
{
	free((void *) query->tokens);
	free((void *) query->weights);
}

double
reference_score(const MaxsimQuery *query, const void *document, uint32_t ntokens, MaxsimFormat format,
				double *tolerance)
{
	const uint32_t dim = query->dim;
	const size_t row_size = maxsim_row_size(format, dim);
	const size_t n = (size_t) ntokens * dim;
	double *values = allocate(n * sizeof(double));
	MaxsimQueryPlan plan;
	double score = 0;
	double allowed = 0;
	uint32_t i;
	size_t k;
	int bits;

	(void) maxsim_plan_query(&plan_device, format, query->ntokens, dim, &plan);
	bits = plan.family == MAXSIM_FAMILY_PACKED ? MAXSIM_PACKED_BITS : 0;

	for (k = 0; k < ntokens; k++)
		get_row((const char *) document + k * row_size, values + k * dim, dim, format);
#pragma omp parallel for reduction(+ \
								   : score, allowed) schedule(static) if ((uint64_t) n * query->ntokens > 200000)
	for (i = 0; i < query->ntokens; i++)
	{
		double weight = query->weights ? query->weights[i] : 1;
		double best = -INFINITY;
		double magnitude = 0;
		double token[dim];
		uint32_t winner = 0;
		uint32_t j;
		uint32_t l;

		round_token(query->tokens + (size_t) i * dim, token, dim, format, bits);
		for (j = 0; j < ntokens; j++)
		{
			const double *row = values + (size_t) j * dim;
			double sums[4] = {0};
			double dot;

			for (l = 0; l + 4 <= dim; l += 4)
			{
				sums[0] += token[l] * row[l];
				sums[1] += token[l + 1] * row[l + 1];
				sums[2] += token[l + 2] * row[l + 2];
				sums[3] += token[l + 3] * row[l + 3];
			}
			for (; l < dim; l++)
				sums[0] += token[l] * row[l];
			dot = sums[0] + sums[1] + sums[2] + sums[3];
			if (dot > best)
			{
				best = dot;
				winner = j;
			}
		}
		for (l = 0; ntokens > 0 && l < dim; l++)
			magnitude += fabs(token[l] * values[(size_t) winner * dim + l]);
		score += weight * best;
		allowed += fabs(weight) * (1e-5 * fabs(best) + 4e-7 * magnitude);
	}
	free(values);
	*tolerance = allowed;
	return ntokens == 0 ? -INFINITY : score;
}
