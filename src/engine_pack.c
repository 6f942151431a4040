/*
 * engine_pack.c
 *		See engine_pack.h.
 */
#include "engine_pack.h"
#include "element.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define I8_MULTIPLE (MAXSIM_I8_ALIGNMENT / (uint32_t) sizeof(int16_t))

/* The value as an element of that format holds it; infinite if none does. */
static inline float
round_to_format(float value, MaxsimFormat format)
{
	switch (format)
	{
		case MAXSIM_F16:
			return maxsim_f16_to_f32(maxsim_f16_from_f32(value));
		case MAXSIM_BF16:
			return maxsim_bf16_to_f32(maxsim_bf16_from_f32(value));
		default:
			return value;
	}
}

static bool
pack_floats(const MaxsimLane *lane, MaxsimFormat format, const float *token, uint32_t dim, MaxsimUnit *unit,
			uint32_t *misfit)
{
	uint32_t done;
	uint32_t depth;
	uint32_t k;

	*unit = (MaxsimUnit){1, 0};
	for (done = 0; done < dim; done += depth)
	{
		float *panel = (float *) lane->query + (size_t) done * lane->lanes;

		depth = dim - done < MAXSIM_PANEL ? dim - done : MAXSIM_PANEL;
		for (k = 0; k < depth; k++)
		{
			float value = token ? round_to_format(token[done + k], format) : 0;

			if (!maxsim_is_finite(value))
			{
				*misfit = done + k;
				return false;
			}
			panel[lane->by_token ? lane->lane * depth + k : k * lane->lanes + lane->lane] = value;
		}
	}
	return true;
}

/* The largest power of two, as its exponent, times which value is at most limit. */
static int
largest_exponent(double value, double limit)
{
	int exponent;

	if (value == 0)
		return 0;
	frexp(limit / value, &exponent);
	return exponent - 1;
}

static double
largest_component(const float *token, uint32_t dim)
{
	double largest = 0;
	uint32_t k;

	for (k = 0; k < dim; k++)
		if (fabs((double) token[k]) > largest)
			largest = fabs((double) token[k]);
	return largest;
}

static bool
pack_f32(const MaxsimLane *lane, const float *token, uint32_t dim, MaxsimUnit *unit, uint32_t *misfit)
{
	return pack_floats(lane, MAXSIM_F32, token, dim, unit, misfit);
}

static bool
pack_f16(const MaxsimLane *lane, const float *token, uint32_t dim, MaxsimUnit *unit, uint32_t *misfit)
{
	return pack_floats(lane, MAXSIM_F16, token, dim, unit, misfit);
}

static bool
pack_bf16(const MaxsimLane *lane, const float *token, uint32_t dim, MaxsimUnit *unit, uint32_t *misfit)
{
	return pack_floats(lane, MAXSIM_BF16, token, dim, unit, misfit);
}

/* A multiple of a power of two for each component, of int16. */
static bool
pack_i8(const MaxsimLane *lane, const float *token, uint32_t dim, MaxsimUnit *unit, uint32_t *misfit)
{
	const int exponent = token ? largest_exponent(largest_component(token, dim), INT16_MAX) : 0;
	const double scale = ldexp(1, exponent);
	size_t done;
	size_t depth;
	size_t k;

	for (done = 0; done < dim; done += depth)
	{
		int16_t *panel = (int16_t *) lane->query + done * lane->lanes;

		depth = dim - done < MAXSIM_PANEL ? (dim - done + I8_MULTIPLE - 1) / I8_MULTIPLE * I8_MULTIPLE : MAXSIM_PANEL;
		for (k = 0; k < depth; k++)
		{
			int16_t *place = &panel[lane->by_token ? lane->lane * depth + k
												   : (k / 2 * lane->lanes + lane->lane) * 2 + k % 2];

			*place = token && k < dim - done ? (int16_t) rint((double) token[done + k] * scale) : 0;
		}
	}
	*unit = (MaxsimUnit){ldexp(1 / (double) MAXSIM_I8_UNIT, -exponent), 0};
	(void) misfit;
	return true;
}

/* The larger of two exponents: what is safe for any components, and what the sums of blocks allow. */
static int
b1_exponent(const float *token, uint32_t dim)
{
	double largest_sum = 0;
	double sum = 0;
	uint32_t k;
	int by_component = largest_exponent(largest_component(token, dim), UINT16_MAX / MAXSIM_B1_BLOCK);
	int by_sum;

	for (k = 0; k < dim; k++)
	{
		sum = (k % MAXSIM_B1_BLOCK == 0 ? 0 : sum) + fabs((double) token[k]);
		if (sum > largest_sum)
			largest_sum = sum;
	}

	/* each component may be rounded up by a half */
	by_sum = largest_exponent(largest_sum, UINT16_MAX - MAXSIM_B1_BLOCK / 2);
	return by_component > by_sum ? by_component : by_sum;
}

/* Tables.  A pattern's sum is that of the pattern without its lowest bit, and that bit's component. */
static bool
pack_b1(const MaxsimLane *lane, const float *token, uint32_t dim, MaxsimUnit *unit, uint32_t *misfit)
{
	const uint32_t pairs = lane->lane_pairs;
	const uint32_t within = lane->lane % (2 * pairs);
	const uint32_t place = lane->lane - within + within % pairs * 2 + within / pairs;
	const int exponent = token ? b1_exponent(token, dim) : 0;
	const double scale = ldexp(1, exponent);
	uint16_t *table = (uint16_t *) lane->query + place;
	double sum = 0;
	size_t done;

	for (done = 0; done < ((size_t) dim + 7) / 8 * 8; done += 4)
	{
		int components[4] = {0}; /* by bit: the first dimension is the highest */
		int sums[16] = {0};
		uint32_t i;

		for (i = 0; token && i < 4 && done + i < dim; i++)
		{
			const int value = (int) rint((double) token[done + i] * scale);

			components[3 - i] = value;
			sums[0] += value < 0 ? -value : 0;
			sum += abs(value);
		}
		for (i = 0; i < 16; i++)
		{
			if (i > 0)
				sums[i] = sums[i & (i - 1)] + components[__builtin_ctz(i)];
			*table = (uint16_t) sums[i];
			table += lane->lanes;
		}
	}

	/* what agrees less what does not is twice what agrees less everything */
	*unit = (MaxsimUnit){ldexp(2, -exponent), -sum / 2};
	(void) misfit;
	return true;
}

/* Likewise: a kernel counts, negatively, the signs that differ. */
static bool
pack_signs(const MaxsimLane *lane, const float *token, uint32_t dim, MaxsimUnit *unit, uint32_t *misfit)
{
	uint64_t *words = (uint64_t *) lane->query + lane->lane;
	size_t done;

	for (done = 0; done < dim; done += 64)
	{
		unsigned char bytes[8] = {0};
		uint32_t i;

		for (i = 0; token && i < 64 && i < dim - done; i++)
			if (token[done + i] > 0)
				bytes[i / 8] |= (unsigned char) (0x80 >> i % 8);
		memcpy(words, bytes, sizeof(bytes));
		words += lane->lanes;
	}
	*unit = (MaxsimUnit){2, (double) dim / 2};
	(void) misfit;
	return true;
}

const MaxsimPacking maxsim_packing_f32 = {.pack = pack_f32, .row = 32, .query = 32, .multiple = 1};
const MaxsimPacking maxsim_packing_f16 = {.pack = pack_f16, .row = 16, .query = 32, .wide = 32, .multiple = 1};
const MaxsimPacking maxsim_packing_bf16 = {.pack = pack_bf16, .row = 16, .query = 32, .wide = 32, .multiple = 1};
const MaxsimPacking maxsim_packing_i8 = {
	.pack = pack_i8, .header = sizeof(float), .row = 8, .query = 16, .wide = 16, .multiple = I8_MULTIPLE};
const MaxsimPacking maxsim_packing_i8_float = {
	.pack = pack_f32, .header = sizeof(float), .row = 8, .query = 32, .wide = 32, .multiple = 1};
const MaxsimPacking maxsim_packing_b1 = {.pack = pack_b1, .row = 1, .query = 64, .multiple = 8};
const MaxsimPacking maxsim_packing_signs = {.pack = pack_signs, .row = 1, .query = 1, .multiple = 64};
