/*
 * kernel_avx2.c
 *		The tile kernel with AVX2, FMA and F16C.
 *
 * 6 rows × 2 vectors take 12 of the 16 registers for accumulators; the query's
 * two vectors and one broadcast fill 15.
 */
#include "engine_cpu.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#define TILE_TARGET __attribute__((target("avx2,fma,f16c")))
#define TILE_ISA avx2
#define TILE_HEIGHT 6
#define TILE_CHUNK 16

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

/*
 * A 16-bit element is the upper half of a float32, or it is converted.  A row's
 * last few elements go through a register: nothing reads beyond the row.
 */
static inline __attribute__((always_inline)) TILE_TARGET __m256
vector_widen(const char *address, uint32_t count, MaxsimFormat format)
{
	__m128i half = _mm_setzero_si128();

	if (count >= 8)
		half = _mm_loadu_si128((const __m128i *) address);
	else
		memcpy(&half, address, 2 * count);
	if (format == MAXSIM_F16)
		return _mm256_cvtph_ps(half);
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

#include "kernel_tile.h"

/* What kernel_dot.h asks for. */
static inline __attribute__((always_inline)) TILE_TARGET __m256
vector_part(const char *address, uint32_t count, MaxsimFormat format)
{
	const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

	if (format != MAXSIM_F32)
		return vector_widen(address, count, format);
	if (count >= 8)
		return _mm256_loadu_ps((const float *) address);
	return _mm256_maskload_ps((const float *) address, _mm256_cmpgt_epi32(_mm256_set1_epi32((int) count), lanes));
}

static inline __attribute__((always_inline)) TILE_TARGET __m256
vector_quad(__m256 a, __m256 b, __m256 c, __m256 d)
{
	return _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
}

static inline __attribute__((always_inline)) TILE_TARGET __m256
vector_block(__m256 a, __m256 b)
{
	return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

static inline __attribute__((always_inline)) TILE_TARGET void
vector_fold_max(__m256 v, float *maxima)
{
	__m128 half = _mm_max_ps(_mm256_extractf128_ps(v, 0), _mm256_extractf128_ps(v, 1));

	_mm_storeu_ps(maxima, _mm_max_ps(half, _mm_loadu_ps(maxima)));
}

#define DOT_ROWS 2
#include "kernel_dot.h"

const MaxsimKernels maxsim_kernels_avx2 = {
	.name = "avx2",
	.height = TILE_HEIGHT,
	/* measured: two dot kernels are as fast as one vector of 6 accumulators */
	.shapes = {
		{.lanes = 16, .least = 9, .tiles = {wide_f32_tiles, wide_f16_tiles, wide_bf16_tiles}},
		{.lanes = 4, .least = 1, .by_token = true, .tiles = {dot_f32_tiles, dot_f16_tiles, dot_bf16_tiles}},
	},
	.pace = 32 * 1000 * 1000,
};

#endif /* __x86_64__ */
