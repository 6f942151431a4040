/*
 * kernel_b1_portable.c
 *		b1 documents in plain C: the definition that the other kernels are read against.
 */
#include "engine_pack.h"

#include <string.h>

#define LANES 8

static void
fold_maxima(const MaxsimTile *tile, const float *sums)
{
	int lane;

	for (lane = 0; lane < LANES; lane++)
		if (sums[lane] > tile->maxima[lane])
			tile->maxima[lane] = sums[lane];
}

static void
b1_tile(const MaxsimTile *tile)
{
	uint32_t row;

	for (row = 0; row < tile->nrows; row++)
	{
		const char *bits = tile->rows + row * tile->stride;
		const uint16_t *table = tile->query;
		float *totals = tile->totals + row * LANES;
		uint32_t ints[LANES] = {0};
		float sums[LANES];
		uint32_t k;
		int lane;

		for (k = 0; k < tile->depth; k += 4, table += 16 * LANES)
		{
			const int byte = (unsigned char) bits[k / 8];
			const uint16_t *entry = table + (k % 8 == 0 ? byte >> 4 : byte & 15) * LANES;

			for (lane = 0; lane < LANES; lane++)
				ints[lane] += entry[lane];
		}
		for (lane = 0; lane < LANES; lane++)
		{
			sums[lane] = (float) ints[lane];
			if (!tile->first)
				sums[lane] += totals[lane];
			if (!tile->last)
				totals[lane] = sums[lane];
		}
		if (tile->last)
			fold_maxima(tile, sums);
	}
}

/* Bits set: sums of neighbouring 1, 2, 4 and then 8 of 8 bits, without a table. */
static inline uint32_t
count_bits(uint64_t word)
{
	word -= word >> 1 & 0x5555555555555555u;
	word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
	return (uint32_t) (word * 0x0101010101010101u >> 56);
}

static void
signs_tile(const MaxsimTile *tile)
{
	const size_t nbytes = ((size_t) tile->depth + 7) / 8;
	uint32_t row;

	for (row = 0; row < tile->nrows; row++)
	{
		const char *bits = tile->rows + row * tile->stride;
		const uint64_t *query = tile->query;
		uint32_t counts[LANES] = {0};
		float sums[LANES];
		size_t k;
		int lane;

		for (k = 0; k < nbytes; k += 8, query += LANES)
		{
			uint64_t word = 0;

			memcpy(&word, bits + k, nbytes - k < 8 ? nbytes - k : 8);
			for (lane = 0; lane < LANES; lane++)
				counts[lane] += count_bits(word ^ query[lane]);
		}
		for (lane = 0; lane < LANES; lane++)
			sums[lane] = -(float) counts[lane];
		fold_maxima(tile, sums);
	}
}

static const MaxsimTileKernel b1_tiles[] = {b1_tile};
static const MaxsimTileKernel signs_tiles[] = {signs_tile};

const MaxsimMethod maxsim_b1_portable = {
	.packing = &maxsim_packing_b1,
	.height = 128,
	.any_height = true,
	.lane_pairs = 1, /* in order */
	.shapes = {{.lanes = LANES, .least = 1, .tiles = b1_tiles}},
};

const MaxsimMethod maxsim_signs_portable = {
	.packing = &maxsim_packing_signs,
	.height = 128,
	.any_height = true,
	.shapes = {{.lanes = LANES, .least = 1, .tiles = signs_tiles}},
};
