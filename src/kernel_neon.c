/*
 * kernel_neon.c
 *		The tile kernel with the vector instructions of 64-bit ARM.
 *
 * 12 rows × 2 vectors of 4 lanes take 24 of the 32 registers for accumulators.
 */
#include "engine_cpu.h"

#ifdef __aarch64__

#include "element.h"

#include <arm_neon.h>

#define TILE_TARGET
#define TILE_ISA neon
#define TILE_HEIGHT 12

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

#include "kernel_tile.h"

static inline float32x4_t
four_from_f16(uint16x4_t half)
{
	return vcvt_f32_f16(vreinterpret_f16_u16(half));
}

static inline float32x4_t
four_from_bf16(uint16x4_t half)
{
	return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(half), 16));
}

/* A row's last few elements go through a buffer: nothing reads beyond the row. */
#define DEFINE_WIDEN(name, four_from)                                                 \
	static void                                                                       \
	name(const char *rows, size_t stride, uint32_t nrows, uint32_t depth, float *out) \
	{                                                                                 \
		for (; nrows > 0; nrows--, rows += stride, out += MAXSIM_PANEL)               \
		{                                                                             \
			uint32_t k;                                                               \
			uint16_t half[4];                                                         \
                                                                                      \
			for (k = 0; k + 4 <= depth; k += 4)                                       \
			{                                                                         \
				memcpy(half, rows + 2 * k, sizeof(half));                             \
				vst1q_f32(out + k, four_from(vld1_u16(half)));                        \
			}                                                                         \
			if (k < depth)                                                            \
			{                                                                         \
				memset(half, 0, sizeof(half));                                        \
				memcpy(half, rows + 2 * k, 2 * (depth - k));                          \
				vst1q_f32(out + k, four_from(vld1_u16(half)));                        \
			}                                                                         \
		}                                                                             \
	}

DEFINE_WIDEN(widen_f16_neon, four_from_f16)
DEFINE_WIDEN(widen_bf16_neon, four_from_bf16)

const MaxsimKernels maxsim_kernels_neon = {
	.name = "neon",
	.height = TILE_HEIGHT,
	.shapes = {{.lanes = 8, .tiles = wide_tiles}, {.lanes = 4, .tiles = narrow_tiles}},
	.widen = {NULL, widen_f16_neon, widen_bf16_neon},
	.pace = 8 * 1000 * 1000,
};

#endif /* __aarch64__ */
