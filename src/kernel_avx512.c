/*
 * kernel_avx512.c
 *		The tile kernel with AVX-512 F, BW, VL and DQ.
 *
 * 12 rows × 2 vectors take 24 of the 32 registers for accumulators: two
 * multiply-add ports with a latency of 4 want at least 8.  A step of 12 cycles is
 *
 *		24 multiply-adds		vfmadd231ps		2 a cycle
 *		12 document scalars		vbroadcastss	2 loads a cycle, no other port
 *		 2 query vectors		vmovups
 *
 * so multiply-adds are the limit, with a third of the loads to spare for
 * conversions and prefetches.  Not vdpbf16ps: it has half the rate.
 */
#include "engine_pack.h"

#ifdef __x86_64__

#include "kernel_avx512.h"

#define TILE_CHUNK 16
#define TILE_NARROW

/* A 16-bit element is the upper half of a float32, or it is converted. */
static inline __attribute__((always_inline)) TILE_TARGET __m512
vector_widen(const char *address, uint32_t count, MaxsimFormat format)
{
	__m256i half;

	if (count >= 16)
		half = _mm256_loadu_si256((const __m256i *) address);
	else
		half = _mm256_maskz_loadu_epi16((__mmask16) ((1u << count) - 1), address);
	if (format == MAXSIM_F16)
		return _mm512_cvtph_ps(half);
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

#include "kernel_tile.h"

/* What kernel_dot.h asks for. */
static inline __attribute__((always_inline)) TILE_TARGET __m512
vector_part(const char *address, uint32_t count, MaxsimFormat format)
{
	if (format != MAXSIM_F32)
		return vector_widen(address, count, format);
	if (count >= 16)
		return _mm512_loadu_ps(address);
	return _mm512_maskz_loadu_ps((__mmask16) ((1u << count) - 1), address);
}

/* Interleaving adds up pairs, twice: (a, c) and (b, d), then those two. */
static inline __attribute__((always_inline)) TILE_TARGET __m512
vector_quad(__m512 a, __m512 b, __m512 c, __m512 d)
{
	__m512 ac = _mm512_add_ps(_mm512_unpacklo_ps(a, c), _mm512_unpackhi_ps(a, c));
	__m512 bd = _mm512_add_ps(_mm512_unpacklo_ps(b, d), _mm512_unpackhi_ps(b, d));

	return _mm512_add_ps(_mm512_unpacklo_ps(ac, bd), _mm512_unpackhi_ps(ac, bd));
}

/* Lower halves onto upper halves, then quarters. */
static inline __attribute__((always_inline)) TILE_TARGET __m512
vector_block(__m512 a, __m512 b, __m512 c, __m512 d)
{
	__m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
	__m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));

	return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
}

#define DOT_ROWS 4
#include "kernel_dot.h"

/* measured: two dot kernels are faster than a half-empty vector */
#define METHOD(name, wide_after, narrow_after, dot_after)                                                  \
	static const MaxsimMethod name##_method = {                                                            \
		.packing = &maxsim_packing_##name,                                                                 \
		.height = TILE_HEIGHT,                                                                             \
		.shapes = {                                                                                        \
			{.lanes = 32, .least = 25, .tiles = wide_##name##_tiles, .further = wide_after},               \
			{.lanes = 16, .least = 9, .tiles = narrow_##name##_tiles, .further = narrow_after},            \
			{.lanes = 4, .least = 1, .by_token = true, .tiles = dot_##name##_tiles, .further = dot_after}, \
		},                                                                                                 \
	};

METHOD(f32, NULL, NULL, NULL)
METHOD(f16, wide_f32_tiles, narrow_f32_tiles, dot_f32_tiles)
METHOD(bf16, wide_f32_tiles, narrow_f32_tiles, dot_f32_tiles)

#define PACE (64 * 1000 * 1000)

const MaxsimKernels maxsim_kernels_avx512 = {
	.methods = {&f32_method, &f16_method, &bf16_method, &maxsim_i8_avx512_vnni, &maxsim_b1_avx512, &maxsim_signs_avx512},
	.pace = PACE,
};

const MaxsimKernels maxsim_kernels_avx512_vnni = {
	.methods = {&f32_method, &f16_method, &bf16_method, &maxsim_i8_avx512_vnni, &maxsim_b1_avx512, &maxsim_signs_avx2},
	.pace = PACE,
};

const MaxsimKernels maxsim_kernels_avx512_base = {
	.methods = {&f32_method, &f16_method, &bf16_method, &maxsim_i8_avx512, &maxsim_b1_avx512, &maxsim_signs_avx2},
	.pace = PACE,
};

#endif /* __x86_64__ */
