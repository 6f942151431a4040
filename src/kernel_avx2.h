/*
 * kernel_avx2.h
 *		Vectors of AVX2, FMA and F16C, as the kernels' headers want them.
 */

#include <immintrin.h>
#include <string.h>

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
#define vector_multiply(a, b) _mm256_mul_ps(a, b)
#define vector_set(x) _mm256_set1_ps(x)
#define vector_from_ints(v) _mm256_cvtepi32_ps((__m256i) (v))

static inline __attribute__((always_inline)) TILE_TARGET __m256
vector_broadcast(const char *address)
{
	float value;

	memcpy(&value, address, sizeof(value));
	return _mm256_set1_ps(value);
}

static inline __attribute__((always_inline)) TILE_TARGET void
vector_fold_max(__m256 v, float *maxima)
{
	__m128 half = _mm_max_ps(_mm256_extractf128_ps(v, 0), _mm256_extractf128_ps(v, 1));

	_mm_storeu_ps(maxima, _mm_max_ps(half, _mm_loadu_ps(maxima)));
}

/* What kernel_i8_dot.h asks for: vector_quad and vector_block of kernel_avx2.c, of integers. */
#define ints_quad(a, b, c, d)                                          \
	_mm256_hadd_epi32(_mm256_hadd_epi32((__m256i) (a), (__m256i) (b)), \
					  _mm256_hadd_epi32((__m256i) (c), (__m256i) (d)))
#define ints_block(a, b) \
	((Ints) _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)))

/* Two floats, each in 128 bits. */
static inline __attribute__((always_inline)) TILE_TARGET __m256
vector_scales(const char *a, const char *b)
{
	return _mm256_blend_ps(vector_broadcast(a), vector_broadcast(b), 0xf0);
}
