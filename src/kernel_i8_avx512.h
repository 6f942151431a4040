/*
 * kernel_i8_avx512.h
 *		i8 documents with AVX-512, with VNNI and without: what the two share.
 *
 * Included after kernel_avx512.h.  The includer defines I8_TARGET (the target attribute) and
 * ints_dot(sums, a, b), which adds products of pairs of 16-bit integers to Ints.
 */

#define shorts_store(out, in) _mm512_storeu_si512(out, _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *) (in))))
#define shorts_store_part(out, in, count) \
	_mm512_storeu_si512(out, _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((1u << (count)) - 1, in)))

#include "kernel_i8.h"

#define DOT_ROWS 4
#include "kernel_i8_dot.h"

#define I8_METHOD(name)                                                        \
	const MaxsimMethod name = {                                                \
		.packing = &maxsim_packing_i8,                                         \
		.height = TILE_HEIGHT,                                                 \
		.widen = i8_widen,                                                     \
		.shapes = {                                                            \
			{.lanes = 32, .least = 17, .tiles = i8_wide_tiles},                \
			{.lanes = 16, .least = 5, .tiles = i8_narrow_tiles},               \
			{.lanes = 4, .least = 1, .by_token = true, .tiles = i8_dot_tiles}, \
		},                                                                     \
	}
