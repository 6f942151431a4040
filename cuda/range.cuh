/*
 * range.cuh
 *		A range of pieces of documents, for kernels whose warps or warpgroups take one each.
 */
#ifndef MAXSIM_RANGE_CUH
#define MAXSIM_RANGE_CUH

#include "kernels.h"

struct PieceRange
{
	uint32_t first;
	uint32_t npieces;
};

/*
 * The order in which a range's pieces are taken: the first and the last, which can be
 * cut, before all others, so that their maxima have long arrived when they are added up.
 */
static __device__ __forceinline__ const MaxsimPiece *
piece_at(const MaxsimLaunch &launch, PieceRange range, uint32_t turn)
{
	return launch.pieces + range.first + (turn == 0 ? 0 : turn == 1 ? range.npieces - 1
																	: turn - 1);
}

#endif /* MAXSIM_RANGE_CUH */
