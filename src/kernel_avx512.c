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

#include "kernel_tile.h"

static TILE_TARGET void
widen_f16_avx512(const char *rows, size_t stride, uint32_t nrows, uint32_t depth, float *out)
{
	const __mmask16 tail = (1u << depth % 16) - 1;

	for (; nrows > 0; nrows--, rows += stride, out += MAXSIM_PANEL)
	{
		uint32_t k;

		for (k = 0; k + 16 <= depth; k += 16)
			_mm512_storeu_ps(out + k, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) (rows + 2 * k))));
		if (tail)
			_mm512_storeu_ps(out + k, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(tail, rows + 2 * k)));
	}
}

static TILE_TARGET void
widen_bf16_avx512(const char *rows, size_t stride, uint32_t nrows, uint32_t depth, float *out)
{
	const __mmask16 tail = (1u << depth % 16) - 1;

	for (; nrows > 0; nrows--, rows += stride, out += MAXSIM_PANEL)
	{
		uint32_t k;
		__m256i half;

		for (k = 0; k + 16 <= depth; k += 16)
		{
			half = _mm256_loadu_si256((const __m256i *) (rows + 2 * k));
			_mm512_storeu_si512(out + k, _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
		}
		if (tail)
		{
			half = _mm256_maskz_loadu_epi16(tail, rows + 2 * k);
			_mm512_storeu_si512(out + k, _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
		}
	}
}

const MaxsimKernels maxsim_kernels_avx512 = {
	.name = "avx512",
	.height = TILE_HEIGHT,
	.shapes = {{.lanes = 32, .tiles = wide_tiles}, {.lanes = 16, .tiles = narrow_tiles}},
	.widen = {NULL, widen_f16_avx512, widen_bf16_avx512},
	.pace = 64 * 1000 * 1000,
};

#endif /* __x86_64__ */
