/*
 * kernel_neon.c
 *		The tile kernel with the vector instructions of 64-bit ARM.
 *
 * 12 rows × 2 vectors of 4 lanes take 24 of the 32 registers for accumulators.
 */
#include "engine_pack.h"

#ifdef __aarch64__

#include "kernel_neon.h"

#define TILE_CHUNK 16
#define TILE_NARROW

/*
 * A 16-bit element is the upper half of a float32, or it is converted.  A row's
 * last few elements go through a buffer: nothing reads beyond the row.
 */
static inline __attribute__((always_inline)) float32x4_t
vector_widen(const char *address, uint32_t count, MaxsimFormat format)
{
	uint16_t buffer[4] = {0};
	uint16x4_t half;

	if (count >= 4)
		memcpy(buffer, address, sizeof(buffer));
	else
		memcpy(buffer, address, 2 * count);
	half = vld1_u16(buffer);
	if (format == MAXSIM_F16)
		return vcvt_f32_f16(vreinterpret_f16_u16(half));
	return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(half), 16));
}

#include "kernel_tile.h"

/*
 * i8 becomes float32 for all groups at once: products of 16 bits would take as many
 * instructions.
 */
static void
widen_i8(const MaxsimTile *tile)
{
	const char *row = tile->rows;
	float *wide = tile->wide;
	uint32_t i;
	uint32_t k;

	for (i = 0; i < tile->nrows; i++, row += tile->stride, wide += MAXSIM_PANEL)
	{
		const float32x4_t scale = vector_broadcast(tile->starts + i * tile->row_size);

		for (k = 0; k < tile->depth; k += 8)
		{
			int8_t buffer[8] = {0};
			int16x8_t shorts;

			memcpy(buffer, row + k, tile->depth - k < 8 ? tile->depth - k : 8);
			shorts = vmovl_s8(vld1_s8(buffer));
			vst1q_f32(wide + k, vmulq_f32(scale, vcvtq_f32_s32(vmovl_s16(vget_low_s16(shorts)))));
			vst1q_f32(wide + k + 4, vmulq_f32(scale, vcvtq_f32_s32(vmovl_high_s16(shorts))));
		}
	}
}

#define METHOD(name, wide_after, narrow_after)                                                 \
	static const MaxsimMethod name##_method = {                                                \
		.packing = &maxsim_packing_##name,                                                     \
		.height = TILE_HEIGHT,                                                                 \
		.shapes = {                                                                            \
			{.lanes = 8, .least = 5, .tiles = wide_##name##_tiles, .further = wide_after},     \
			{.lanes = 4, .least = 1, .tiles = narrow_##name##_tiles, .further = narrow_after}, \
		},                                                                                     \
	};

METHOD(f32, NULL, NULL)
METHOD(f16, wide_f32_tiles, narrow_f32_tiles)
METHOD(bf16, wide_f32_tiles, narrow_f32_tiles)

static const MaxsimMethod i8_method = {
	.packing = &maxsim_packing_i8_float,
	.height = TILE_HEIGHT,
	.widen = widen_i8,
	.shapes = {
		{.lanes = 8, .least = 5, .tiles = wide_f32_tiles},
		{.lanes = 4, .least = 1, .tiles = narrow_f32_tiles},
	},
};

const MaxsimKernels maxsim_kernels_neon = {
	.methods = {&f32_method, &f16_method, &bf16_method, &i8_method, &maxsim_b1_neon, &maxsim_signs_neon},
	.pace = 8 * 1000 * 1000,
};

#endif /* __aarch64__ */
