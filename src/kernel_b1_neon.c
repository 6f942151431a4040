/*
 * kernel_b1_neon.c
 *		b1 documents, and a query's signs, with the vector instructions of 64-bit ARM.
 */
#include "engine_pack.h"

#ifdef __aarch64__

#include "kernel_neon.h"

#define B1_COLUMNS 2
#define B1_REGISTER "w"
#include "kernel_b1.h"

#define SIGNS_TARGET
#define SIGNS_LANES 2
#define SIGNS_ROWS 4
#define counts_of(words) ((Words) vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(vcntq_u8((uint8x16_t) (words))))))
#define counts_min(a, b) ((Words) vminq_u32((uint32x4_t) (a), (uint32x4_t) (b))) /* upper halves are 0 */
#include "kernel_signs.h"

const MaxsimMethod maxsim_b1_neon = {B1_METHOD};
const MaxsimMethod maxsim_signs_neon = {SIGNS_METHOD};

#endif /* __aarch64__ */
