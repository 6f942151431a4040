/*
 * kernel_i8_avx512_vnni.c
 *		i8 documents with AVX-512 and VNNI, whose instruction does all of a step.
 */
#include "engine_pack.h"

#ifdef __x86_64__

#include "kernel_avx512.h"

#define I8_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")))

typedef int32_t Ints __attribute__((vector_size(64)));
#define ints_dot(sums, a, b) ((Ints) _mm512_dpwssd_epi32((__m512i) (sums), (__m512i) (a), (__m512i) (b)))
#define shorts_store(out, in) _mm512_storeu_si512(out, _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *) (in))))
#define shorts_store_part(out, in, count) \
	_mm512_storeu_si512(out, _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((1u << (count)) - 1, in)))

#include "kernel_i8.h"

#define DOT_ROWS 4
#include "kernel_i8_dot.h"

const MaxsimMethod maxsim_i8_avx512_vnni = {
	.packing = &maxsim_packing_i8,
	.height = TILE_HEIGHT,
	.widen = i8_widen,
	.shapes = {
		{.lanes = 32, .least = 17, .tiles = i8_wide_tiles},
		{.lanes = 16, .least = 5, .tiles = i8_narrow_tiles},
		{.lanes = 4, .least = 1, .by_token = true, .tiles = i8_dot_tiles},
	},
};

#endif /* __x86_64__ */
