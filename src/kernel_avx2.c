/*
 * kernel_avx2.c
 *		The tile kernel with AVX2, FMA and F16C.
 *
 * 6 rows × 2 vectors take 12 of the 16 registers for accumulators; the query's
 * two vectors and one broadcast fill 15.
 */
#include "engine_pack.h"

#ifdef __x86_64__

#include "kernel_avx2.h"

#define TILE_CHUNK 16

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

#define DOT_ROWS 2
#include "kernel_dot.h"

/* measured: two dot kernels are as fast as one vector of 6 accumulators */
#define METHOD(name, wide_after, dot_after)                                                                \
	static const MaxsimMethod name##_method = {                                                            \
		.packing = &maxsim_packing_##name,                                                                 \
		.height = TILE_HEIGHT,                                                                             \
		.shapes = {                                                                                        \
			{.lanes = 16, .least = 9, .tiles = wide_##name##_tiles, .further = wide_after},                \
			{.lanes = 4, .least = 1, .by_token = true, .tiles = dot_##name##_tiles, .further = dot_after}, \
		},                                                                                                 \
	};

METHOD(f32, NULL, NULL)
METHOD(f16, wide_f32_tiles, dot_f32_tiles)
METHOD(bf16, wide_f32_tiles, dot_f32_tiles)

const MaxsimKernels maxsim_kernels_avx2 = {
	.methods = {&f32_method, &f16_method, &bf16_method, &maxsim_i8_avx2, &maxsim_b1_avx2, &maxsim_signs_avx2},
	.pace = 32 * 1000 * 1000,
};

#endif /* __x86_64__ */
