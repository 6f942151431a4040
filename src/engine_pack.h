/*
 * engine_pack.h
 *		How the CPU engine lays out the query for each method.
 *
 * A group's packed query is a panel after another.  With depth the dimensions of
 * the panel, rounded up to the packing's multiple, a panel is
 *
 *	f32, f16, bf16	float [depth][lanes], or [lanes][depth] if by_token, rounded to
 *					the format.
 *	i8				int16 [depth / 2][lanes][2], or [lanes][depth] if by_token:
 *					multiples of a power of two of the token's own, the largest
 *					component's being 14 bits or more.  Or as f32, documents too.
 *	b1				uint16 [depth / 4][16][lanes], a table of sums: for each 4
 *					dimensions and each pattern of their bits, the absolute values of
 *					the components whose sign is the bit's.  Again multiples of a power of
 *					two, of 12 bits or more, such that the sum over MAXSIM_B1_BLOCK
 *					dimensions never exceeds 16 bits.  Lanes i and i + lane_pairs, in each
 *					2 * lane_pairs of them, are neighbours, so that they are halves of an
 *					uint32.
 *	signs			uint64 [depth / 64][lanes], bits in the order of the documents'.
 *
 * What a kernel finds for a lane, the maximum, is not yet the largest dot product:
 * that is factor * (maximum + offset).
 */
#ifndef MAXSIM_ENGINE_PACK_H
#define MAXSIM_ENGINE_PACK_H

#include "engine_cpu.h"

#define MAXSIM_B1_BLOCK 16 /* two bytes of a row */

/* Bytes; the last panel of i8 is filled up to a multiple of it, which vectors of any size are. */
#define MAXSIM_I8_ALIGNMENT 64

/*
 * An i8 kernel multiplies a row's sum by this, then by the row's scale: so no scale
 * is too large, and none above 1e-26 too small.
 */
#define MAXSIM_I8_UNIT 0x1p-40f

/* Where a query token goes. */
typedef struct MaxsimLane
{
	char *query;    /* the group's */
	uint32_t lanes; /* of the group */
	uint32_t lane;
	bool by_token;
	uint32_t lane_pairs;
} MaxsimLane;

/* What makes dot products of maxima. */
typedef struct MaxsimUnit
{
	double factor;
	double offset;
} MaxsimUnit;

/*
 * A packing: how to pack one query token into its lane, or zeros if token is NULL,
 * and sizes in bits but for the header.  False: the value of dimension *misfit is out
 * of range for the format.
 */
struct MaxsimPacking
{
	bool (*pack)(const MaxsimLane *lane, const float *token, uint32_t dim, MaxsimUnit *unit, uint32_t *misfit);
	uint32_t header;   /* bytes of a document token before its first dimension */
	uint32_t row;      /* of a document token, a dimension */
	uint32_t query;    /* of a packed query token, a dimension */
	uint32_t wide;     /* of a converted document token, a dimension */
	uint32_t multiple; /* to which the last panel's dimensions are rounded up */
};

extern MAXSIM_HIDDEN const MaxsimPacking maxsim_packing_f32;
extern MAXSIM_HIDDEN const MaxsimPacking maxsim_packing_f16;
extern MAXSIM_HIDDEN const MaxsimPacking maxsim_packing_bf16;
extern MAXSIM_HIDDEN const MaxsimPacking maxsim_packing_i8;
extern MAXSIM_HIDDEN const MaxsimPacking maxsim_packing_i8_float; /* documents of i8, a query of f32 */
extern MAXSIM_HIDDEN const MaxsimPacking maxsim_packing_b1;
extern MAXSIM_HIDDEN const MaxsimPacking maxsim_packing_signs;

#endif /* MAXSIM_ENGINE_PACK_H */
