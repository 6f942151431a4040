/*
 * kernel_neon.c
 *		The tile kernel with the vector instructions of 64-bit ARM.
 *
 * 12 rows × 2 vectors of 4 lanes take 24 of the 32 registers for accumulators.
 */
#include "engine_cpu.h"

#ifdef __aarch64__

#include <arm_neon.h>
#include <string.h>

#define TILE_TARGET
#define TILE_ISA neon
#define TILE_HEIGHT 12
#define TILE_CHUNK 16
#define TILE_NARROW

typedef float32x4_t Vector;
#define VECTOR_LANES 4
#define vector_zero() vdupq_n_f32(0)
#define vector_lowest() vdupq_n_f32(-__builtin_inff())
#define vector_load(p) vld1q_f32(p)
#define vector_store(p, v) vst1q_f32(p, v)
#define vector_fma(a, b, c) vfmaq_f32(c, a, b)
#define vector_add(a, b) vaddq_f32(a, b)
#define vector_max(a, b) vmaxnmq_f32(a, b) /* the number where one is a NaN */

static inline __attribute__((always_inline)) float32x4_t
vector_broadcast(const char *address)
{
	float value;

	memcpy(&value, address, sizeof(value));
	return vdupq_n_f32(value);
}

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

const MaxsimKernels maxsim_kernels_neon = {
	.name = "neon",
	.height = TILE_HEIGHT,
	.shapes = {
		{.lanes = 8, .least = 5, .tiles = {wide_f32_tiles, wide_f16_tiles, wide_bf16_tiles}},
		{.lanes = 4, .least = 1, .tiles = {narrow_f32_tiles, narrow_f16_tiles, narrow_bf16_tiles}},
	},
	.pace = 8 * 1000 * 1000,
};

#endif /* __aarch64__ */
