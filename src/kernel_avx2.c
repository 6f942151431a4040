/*
 * kernel_avx2.c
 *		The tile kernel with AVX2, FMA and F16C.
 *
 * 6 rows × 2 vectors take 12 of the 16 registers for accumulators; the query's
 * two vectors and one broadcast fill 15.
 */
#include "engine_cpu.h"

#ifdef __x86_64__

#include "element.h"

#include <immintrin.h>

#define TILE_TARGET __attribute__((target("avx2,fma,f16c")))
#define TILE_ISA avx2
#define TILE_HEIGHT 6

typedef __m256 Vector;
#define VECTOR_LANES 8
#define vector_zero() _mm256_setzero_ps()
#define vector_lowest() _mm256_set1_ps(-__builtin_inff())
#define vector_load(p) _mm256_loadu_ps(p)
#define vector_store(p, v) _mm256_storeu_ps(p, v)
#define vector_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vector_add(a, b) _mm256_add_ps(a, b)
#define vector_max(a, b) _mm256_max_ps(a, b)

static inline __attribute__((always_inline)) TILE_TARGET __m256
vector_broadcast(const char *address)
{
	float value;

	memcpy(&value, address, sizeof(value));
	return _mm256_set1_ps(value);
}

#include "kernel_tile.h"

static inline __attribute__((always_inline)) TILE_TARGET __m256
eight_from_f16(__m128i half)
{
	return _mm256_cvtph_ps(half);
}

static inline __attribute__((always_inline)) TILE_TARGET __m256
eight_from_bf16(__m128i half)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* A row's last few elements go through a buffer: nothing reads beyond the row. */
#define DEFINE_WIDEN(name, eight_from)                                                                    \
	static TILE_TARGET void                                                                               \
	name(const char *rows, size_t stride, uint32_t nrows, uint32_t depth, float *out)                     \
	{                                                                                                     \
		for (; nrows > 0; nrows--, rows += stride, out += MAXSIM_PANEL)                                   \
		{                                                                                                 \
			uint32_t k;                                                                                   \
                                                                                                          \
			for (k = 0; k + 8 <= depth; k += 8)                                                           \
				_mm256_storeu_ps(out + k, eight_from(_mm_loadu_si128((const __m128i *) (rows + 2 * k)))); \
			if (k < depth)                                                                                \
			{                                                                                             \
				__m128i half = _mm_setzero_si128();                                                       \
                                                                                                          \
				memcpy(&half, rows + 2 * k, 2 * (depth - k));                                             \
				_mm256_storeu_ps(out + k, eight_from(half));                                              \
			}                                                                                             \
		}                                                                                                 \
	}

DEFINE_WIDEN(widen_f16_avx2, eight_from_f16)
DEFINE_WIDEN(widen_bf16_avx2, eight_from_bf16)

const MaxsimKernels maxsim_kernels_avx2 = {
	.name = "avx2",
	.height = TILE_HEIGHT,
	.shapes = {{.lanes = 16, .tiles = wide_tiles}, {.lanes = 8, .tiles = narrow_tiles}},
	.widen = {NULL, widen_f16_avx2, widen_bf16_avx2},
	.pace = 32 * 1000 * 1000,
};

#endif /* __x86_64__ */
