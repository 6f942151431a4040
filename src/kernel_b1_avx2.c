/*
 * kernel_b1_avx2.c
 *		b1 documents, and a query's signs, with AVX2.
 */
#include "engine_pack.h"

#ifdef __x86_64__

#include "kernel_avx2.h"

#define B1_COLUMNS 2
#define B1_REGISTER "x"
#include "kernel_b1.h"

typedef uint64_t Words4 __attribute__((vector_size(32)));

/* Bits of each half byte by a table, then the sums of eight bytes. */
static inline __attribute__((always_inline)) TILE_TARGET Words4
counts_of(Words4 words)
{
	const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
										   0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
	const __m256i mask = _mm256_set1_epi8(15);
	const __m256i low = _mm256_and_si256((__m256i) words, mask);
	const __m256i high = _mm256_and_si256(_mm256_srli_epi16((__m256i) words, 4), mask);
	const __m256i bytes = _mm256_add_epi8(_mm256_shuffle_epi8(table, low), _mm256_shuffle_epi8(table, high));

	return (Words4) _mm256_sad_epu8(bytes, _mm256_setzero_si256());
}

#define SIGNS_TARGET TILE_TARGET
#define SIGNS_LANES 4
#define SIGNS_ROWS 1
#define counts_min(a, b) ((Words) _mm256_min_epu32((__m256i) (a), (__m256i) (b))) /* upper halves are 0 */
#include "kernel_signs.h"

const MaxsimMethod maxsim_b1_avx2 = {B1_METHOD};
const MaxsimMethod maxsim_signs_avx2 = {SIGNS_METHOD};

#endif /* __x86_64__ */
