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
#include "engine_cpu.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#define TILE_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))
#define TILE_ISA avx512
#define TILE_HEIGHT 12
#define TILE_CHUNK 16
#define TILE_NARROW

typedef __m512 Vector;
#define VECTOR_LANES 16
#define vector_zero() _mm512_setzero_ps()
#define vector_lowest() _mm512_set1_ps(-__builtin_inff())
#define vector_load(p) _mm512_loadu_ps(p)
#define vector_store(p, v) _mm512_storeu_ps(p, v)
#define vector_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define vector_add(a, b) _mm512_add_ps(a, b)
#define vector_max(a, b) _mm512_max_ps(a, b)

static inline __attribute__((always_inline)) TILE_TARGET __m512
vector_broadcast(const char *address)
{
	float value;

	memcpy(&value, address, sizeof(value));
	return _mm512_set1_ps(value);
}

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

static inline __attribute__((always_inline)) TILE_TARGET void
vector_fold_max(__m512 v, float *maxima)
{
	__m256 half = _mm256_max_ps(_mm512_extractf32x8_ps(v, 0), _mm512_extractf32x8_ps(v, 1));
	__m128 quarter = _mm_max_ps(_mm256_extractf128_ps(half, 0), _mm256_extractf128_ps(half, 1));

	_mm_storeu_ps(maxima, _mm_max_ps(quarter, _mm_loadu_ps(maxima)));
}

#define DOT_ROWS 4
#include "kernel_dot.h"

const MaxsimKernels maxsim_kernels_avx512 = {
	.name = "avx512",
	.height = TILE_HEIGHT,
	/* measured: two dot kernels are faster than a half-empty vector */
	.shapes = {
		{.lanes = 32, .least = 25, .tiles = {wide_f32_tiles, wide_f16_tiles, wide_bf16_tiles}},
		{.lanes = 16, .least = 9, .tiles = {narrow_f32_tiles, narrow_f16_tiles, narrow_bf16_tiles}},
		{.lanes = 4, .least = 1, .by_token = true, .tiles = {dot_f32_tiles, dot_f16_tiles, dot_bf16_tiles}},
	},
	.pace = 64 * 1000 * 1000,
};

#endif /* __x86_64__ */
