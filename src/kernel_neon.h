/*
 * kernel_neon.h
 *		Vectors of 64-bit ARM, as the kernels' headers want them.
 */

#include <arm_neon.h>
#include <string.h>

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
#define vector_from_ints(v) vcvtq_f32_u32((uint32x4_t) (v))

static inline __attribute__((always_inline)) float32x4_t
vector_broadcast(const char *address)
{
	float value;

	memcpy(&value, address, sizeof(value));
	return vdupq_n_f32(value);
}
