/*
 * kernel_avx512.c
 *		The tile kernel with AVX-512 F, BW, VL and DQ.
 *
 * 12 rows × 2 vectors take 24 of the 32 registers for accumulators: two
 * multiply-add ports with a latency of 4 want at least 8.  A step is 24
 * multiply-adds and 14 loads.
 */
#include "engine_cpu.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#define TILE_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))
#define TILE_ISA avx512
#define TILE_HEIGHT 12
#define TILE_CHUNK 16

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

const MaxsimKernels maxsim_kernels_avx512 = {
	.name = "avx512",
	.height = TILE_HEIGHT,
	.shapes = {
		{.lanes = 32, .tiles = {wide_f32_tiles, wide_f16_tiles, wide_bf16_tiles}},
		{.lanes = 16, .tiles = {narrow_f32_tiles, narrow_f16_tiles, narrow_bf16_tiles}},
	},
	.pace = 64 * 1000 * 1000,
};

#endif /* __x86_64__ */
