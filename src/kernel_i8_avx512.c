/*
 * kernel_i8_avx512.c
 *		i8 documents with AVX-512 without VNNI.
 */
#include "engine_pack.h"

#ifdef __x86_64__

#include "kernel_avx512.h"

#define I8_TARGET TILE_TARGET

typedef int32_t Ints __attribute__((vector_size(64)));

/* An addition that stays where it is: clang would make trees, and spill them. */
static inline __attribute__((always_inline)) TILE_TARGET Ints
ints_dot(Ints sums, Ints a, Ints b)
{
	sums += (Ints) _mm512_madd_epi16((__m512i) a, (__m512i) b);
	__asm__(""
			: "+v"(sums));
	return sums;
}

#include "kernel_i8_avx512.h"

I8_METHOD(maxsim_i8_avx512);

#endif /* __x86_64__ */
