/*
 * kernel_i8_avx2.c
 *		i8 documents with AVX2.
 */
#include "engine_pack.h"

#ifdef __x86_64__

#include "kernel_avx2.h"

#define I8_TARGET TILE_TARGET

typedef int32_t Ints __attribute__((vector_size(32)));

/* An addition that stays where it is: clang would make trees, and spill them. */
static inline __attribute__((always_inline)) TILE_TARGET Ints
ints_dot(Ints sums, Ints a, Ints b)
{
	sums += (Ints) _mm256_madd_epi16((__m256i) a, (__m256i) b);
	__asm__(""
			: "+x"(sums));
	return sums;
}

#define shorts_store(out, in) \
	_mm256_storeu_si256((__m256i *) (out), _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) (in))))

/* Through a buffer, since there is no load of a part of a vector of bytes. */
static inline __attribute__((always_inline)) TILE_TARGET void
shorts_store_part(char *out, const char *in, size_t count)
{
	char buffer[16] = {0};

	memcpy(buffer, in, count);
	shorts_store(out, buffer);
}

#include "kernel_i8.h"

#define DOT_ROWS 2
#include "kernel_i8_dot.h"

const MaxsimMethod maxsim_i8_avx2 = {
	.packing = &maxsim_packing_i8,
	.height = TILE_HEIGHT,
	.widen = i8_widen,
	.shapes = {
		{.lanes = 16, .least = 9, .tiles = i8_wide_tiles},
		{.lanes = 8, .least = 5, .tiles = i8_narrow_tiles},
		{.lanes = 4, .least = 1, .by_token = true, .tiles = i8_dot_tiles},
	},
};

#endif /* __x86_64__ */
