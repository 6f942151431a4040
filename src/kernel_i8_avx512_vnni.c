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

#include "kernel_i8_avx512.h"

I8_METHOD(maxsim_i8_avx512_vnni);

#endif /* __x86_64__ */
