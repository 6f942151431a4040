/*
 * kernel_avx512.h
 *		Vectors of AVX-512 F, BW, VL and DQ, as the kernels' headers want them.
 */

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
#define vector_multiply(a, b) _mm512_mul_ps(a, b)
#define vector_set(x) _mm512_set1_ps(x)
#define vector_from_ints(v) _mm512_cvtepi32_ps((__m512i) (v))

static inline __attribute__((always_inline)) TILE_TARGET __m512
vector_broadcast(const char *address)
{
	float value;

	memcpy(&value, address, sizeof(value));
	return _mm512_set1_ps(value);
}

static inline __attribute__((always_inline)) TILE_TARGET void
vector_fold_max(__m512 v, float *maxima)
{
	__m256 half = _mm256_max_ps(_mm512_extractf32x8_ps(v, 0), _mm512_extractf32x8_ps(v, 1));
	__m128 quarter = _mm_max_ps(_mm256_extractf128_ps(half, 0), _mm256_extractf128_ps(half, 1));

	_mm_storeu_ps(maxima, _mm_max_ps(quarter, _mm_loadu_ps(maxima)));
}

/* What kernel_i8_dot.h asks for: vector_quad and vector_block of kernel_avx512.c, of integers. */
static inline __attribute__((always_inline)) TILE_TARGET __m512i
quad_512(__m512i a, __m512i b, __m512i c, __m512i d)
{
	__m512i ac = _mm512_add_epi32(_mm512_unpacklo_epi32(a, c), _mm512_unpackhi_epi32(a, c));
	__m512i bd = _mm512_add_epi32(_mm512_unpacklo_epi32(b, d), _mm512_unpackhi_epi32(b, d));

	return _mm512_add_epi32(_mm512_unpacklo_epi32(ac, bd), _mm512_unpackhi_epi32(ac, bd));
}

static inline __attribute__((always_inline)) TILE_TARGET __m512i
block_512(__m512i a, __m512i b, __m512i c, __m512i d)
{
	__m512i ab = _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xee));
	__m512i cd = _mm512_add_epi32(_mm512_shuffle_i32x4(c, d, 0x44), _mm512_shuffle_i32x4(c, d, 0xee));

	return _mm512_add_epi32(_mm512_shuffle_i32x4(ab, cd, 0x88), _mm512_shuffle_i32x4(ab, cd, 0xdd));
}

#define ints_quad(a, b, c, d) quad_512((__m512i) (a), (__m512i) (b), (__m512i) (c), (__m512i) (d))
#define ints_block(a, b, c, d) ((Ints) block_512(a, b, c, d))

/* Four floats, each in 128 bits. */
static inline __attribute__((always_inline)) TILE_TARGET __m512
vector_scales(const char *a, const char *b, const char *c, const char *d)
{
	const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
	int32_t bits[4];

	memcpy(&bits[0], a, sizeof(float));
	memcpy(&bits[1], b, sizeof(float));
	memcpy(&bits[2], c, sizeof(float));
	memcpy(&bits[3], d, sizeof(float));
	return _mm512_castsi512_ps(_mm512_permutexvar_epi32(places, _mm512_castsi128_si512(_mm_setr_epi32(bits[0], bits[1], bits[2], bits[3]))));
}
