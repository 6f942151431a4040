/*
 * kernel_portable.c
 *		MaxSim in plain C: the definition that the other kernels are read against,
 *		and what runs where there are none.
 *
 * Groups of 8 query tokens and tiles of one row keep it short; compilers make
 * vectors of the inner loop where the base architecture has any.
 */
#include "element.h"
#include "engine_pack.h"

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

/* The other formats differ in the conversion alone. */
#define DEFINE_TILE(name, to_f32)                                  \
	static void                                                    \
	name(const MaxsimTile *tile)                                   \
	{                                                              \
		MaxsimTile converted = *tile;                              \
		float *wide = tile->wide;                                  \
		uint32_t k;                                                \
                                                                   \
		for (k = 0; k < tile->depth; k++)                          \
		{                                                          \
			uint16_t element;                                      \
                                                                   \
			memcpy(&element, tile->rows + 2 * k, sizeof(element)); \
			wide[k] = to_f32(element);                             \
		}                                                          \
		converted.rows = tile->wide;                               \
		tile_1x8_f32_portable(&converted);                         \
	}

DEFINE_TILE(tile_1x8_f16_portable, maxsim_f16_to_f32)
DEFINE_TILE(tile_1x8_bf16_portable, maxsim_bf16_to_f32)

static void
tile_1x8_i8_portable(const MaxsimTile *tile)
{
	const float scale = load_float(tile->starts);
	MaxsimTile converted = *tile;
	float *wide = tile->wide;
	uint32_t k;

	for (k = 0; k < tile->depth; k++)
		wide[k] = scale * (float) (int8_t) tile->rows[k];
	converted.rows = tile->wide;
	tile_1x8_f32_portable(&converted);
}

static const MaxsimTileKernel f32_tiles[] = {tile_1x8_f32_portable};
static const MaxsimTileKernel f16_tiles[] = {tile_1x8_f16_portable};
static const MaxsimTileKernel bf16_tiles[] = {tile_1x8_bf16_portable};
static const MaxsimTileKernel i8_float_tiles[] = {tile_1x8_i8_portable};

#define METHOD(name)                                                     \
	static const MaxsimMethod name##_method = {                          \
		.packing = &maxsim_packing_##name,                               \
		.height = 1,                                                     \
		.shapes = {{.lanes = LANES, .least = 1, .tiles = name##_tiles}}, \
	};

METHOD(f32)
METHOD(f16)
METHOD(bf16)
METHOD(i8_float)

const MaxsimKernels maxsim_kernels_portable = {
	.methods = {&f32_method, &f16_method, &bf16_method, &i8_float_method, &maxsim_b1_portable, &maxsim_signs_portable},
	.pace = 1000 * 1000,
};
