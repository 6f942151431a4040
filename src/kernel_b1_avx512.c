/*
 * kernel_b1_avx512.c
 *		b1 documents with AVX-512; a query's signs also with VPOPCNTDQ.
 */
#include "engine_pack.h"

#ifdef __x86_64__

#include "kernel_avx512.h"

#define B1_COLUMNS 1
#define B1_REGISTER "v"
#include "kernel_b1.h"

#define SIGNS_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq,fma")))
#define SIGNS_LANES 8
#define SIGNS_ROWS 4
#define counts_of(words) ((Words) _mm512_popcnt_epi64((__m512i) (words)))
#define counts_min(a, b) ((Words) _mm512_min_epu64((__m512i) (a), (__m512i) (b)))
#include "kernel_signs.h"

const MaxsimMethod maxsim_b1_avx512 = {B1_METHOD};
const MaxsimMethod maxsim_signs_avx512 = {SIGNS_METHOD};

#endif /* __x86_64__ */
