/*
 * kernel_portable.c
 *		MaxSim in plain C: the definition that the other kernels are read against,
 *		and what runs where there are none.
 *
 * Groups of 8 query tokens and tiles of one row keep it short; compilers make
 * vectors of the inner loop where the base architecture has any.
 */
#include "engine_cpu.h"
#include "element.h"

#define LANES 8

static inline float
load_float(const char *address)
{
	float value;

	memcpy(&value, address, sizeof(value));
	return value;
}

static void
tile_1x8_f32_portable(const MaxsimTile *tile)
{
	const float *query = tile->query;
	float sums[LANES] = {0};
	uint32_t k;
	int lane;

	for (k = 0; k < tile->depth; k++, query += LANES)
	{
		const float scalar = load_float(tile->rows + k * sizeof(float));

		for (lane = 0; lane < LANES; lane++)
			sums[lane] += scalar * query[lane];
	}

	for (lane = 0; lane < LANES; lane++)
	{
		if (!tile->first)
			sums[lane] += tile->totals[lane];
		if (!tile->last)
			tile->totals[lane] = sums[lane];
		else if (sums[lane] > tile->maxima[lane])
			tile->maxima[lane] = sums[lane];
	}
}

/* The 16-bit formats differ in the conversion alone. */
#define DEFINE_TILE(name, to_f32)                                  \
	static void                                                    \
	name(const MaxsimTile *tile)                                   \
	{                                                              \
		MaxsimTile converted = *tile;                              \
		uint32_t k;                                                \
                                                                   \
		for (k = 0; k < tile->depth; k++)                          \
		{                                                          \
			uint16_t element;                                      \
                                                                   \
			memcpy(&element, tile->rows + 2 * k, sizeof(element)); \
			tile->wide[k] = to_f32(element);                       \
		}                                                          \
		converted.rows = (const char *) tile->wide;                \
		tile_1x8_f32_portable(&converted);                         \
	}

DEFINE_TILE(tile_1x8_f16_portable, maxsim_f16_to_f32)
DEFINE_TILE(tile_1x8_bf16_portable, maxsim_bf16_to_f32)

static const MaxsimTileKernel f32_tiles[] = {tile_1x8_f32_portable};
static const MaxsimTileKernel f16_tiles[] = {tile_1x8_f16_portable};
static const MaxsimTileKernel bf16_tiles[] = {tile_1x8_bf16_portable};

const MaxsimKernels maxsim_kernels_portable = {
	.name = "portable",
	.height = 1,
	.shapes = {{.lanes = LANES, .least = 1, .tiles = {f32_tiles, f16_tiles, bf16_tiles}}},
	.pace = 1000 * 1000,
};
