/*
 * finish.cuh
 *		From the maxima of a block's query tokens to a document's score, for every
 *		kernel family.
 *
 * A document in one piece with one block of query tokens is done at once.  Otherwise
 * each block leaves what it has in GPU memory, and the last one to come adds all up.
 * Either way the same sums are made in the same order, so that the cutting of
 * documents changes no bit.
 *
 * A family's Summer makes the weighted sum over a block's query tokens, by one warp
 * together and the same in all its lanes: a lane has COUNT of them, token(i) each.
 */
#ifndef MAXSIM_FINISH_CUH
#define MAXSIM_FINISH_CUH

#include "device.cuh"
#include "kernels.h"

/* The sum over lanes, the same in each. */
__device__ __forceinline__ float
sum_lanes(float value)
{
#pragma unroll
	for (int mask = 16; mask > 0; mask /= 2)
		value += __shfl_xor_sync(MAXSIM_ALL_LANES, value, mask);
	return value;
}

/* The weighted sum for a Summer that has each query token in one lane. */
template <class Summer>
__device__ __forceinline__ float
sum_tokens(const float *weights, const float maxima[Summer::COUNT])
{
	float sum = 0;

#pragma unroll
	for (int i = 0; i < Summer::COUNT; i++)
		sum = fmaf(weights[Summer::token(i)], maxima[i], sum);
	return sum_lanes(sum);
}

/* Query tokens in lanes, lane by lane. */
template <int TOKENS>
struct SumByLane
{
	static const int COUNT = TOKENS / MAXSIM_WARP; /* of query tokens a lane has */

	static __device__ __forceinline__ int
	token(int i)
	{
		return i * MAXSIM_WARP + threadIdx.x % MAXSIM_WARP;
	}

	static __device__ __forceinline__ float
	sum(const float *weights, const float maxima[COUNT])
	{
		return sum_tokens<SumByLane>(weights, maxima);
	}
};

/*
 * Query tokens as wgmma's rows: a warp has 16 in each of M products, tokens
 * m * 16 * WARPS + warp * 16 on; a lane has two of those, lane / 4 and that + 8.
 */
template <int M, int WARPS>
struct SumByRow
{
	static const int COUNT = WARPS * M * 2;

	static __device__ __forceinline__ int
	token(int i)
	{
		return i / 2 % M * 16 * WARPS + i / 2 / M * 16 + i % 2 * 8 + threadIdx.x % MAXSIM_WARP / 4;
	}

	/* One warp's part of the sum. */
	static __device__ __forceinline__ float
	part(const float *weights, int warp, const float maxima[M * 2])
	{
		const float *mine = weights + warp * 16 + threadIdx.x % MAXSIM_WARP / 4;
		float sum = 0;

#pragma unroll
		for (int i = 0; i < M * 2; i++)
			sum = fmaf(mine[i / 2 * 16 * WARPS + i % 2 * 8], maxima[i], sum);
#pragma unroll
		for (int mask = 4; mask < MAXSIM_WARP; mask *= 2)
			sum += __shfl_xor_sync(MAXSIM_ALL_LANES, sum, mask);
		return sum;
	}

	static __device__ __forceinline__ float
	sum(const float *weights, const float maxima[COUNT])
	{
		float sum = part(weights, 0, maxima);

#pragma unroll
		for (int warp = 1; warp < WARPS; warp++)
			sum += part(weights, warp, maxima + warp * M * 2);
		return sum;
	}
};

/* Counts this block in; true in the block that comes last, which then sees what the others wrote. */
__device__ __forceinline__ bool
arrive_last(uint32_t *arrivals, uint32_t expected)
{
	uint32_t before = 0;

	fence_device();
	__syncwarp();
	if (threadIdx.x % MAXSIM_WARP == 0)
	{
		before = atomicAdd(arrivals, 1);
		if (before + 1 == expected)
			*arrivals = 0;
	}
	before = __shfl_sync(MAXSIM_ALL_LANES, before, 0);
	fence_device();
	return before + 1 == expected;
}

/* The maxima over a document's pieces; their loads are all under way at once. */
template <class Summer>
__device__ __forceinline__ void
join_pieces(float best[Summer::COUNT], const float *maxima, size_t width, uint32_t npieces)
{
#pragma unroll
	for (int j = 0; j < Summer::COUNT; j++)
		best[j] = -INFINITY;
#pragma unroll(Summer::COUNT > 8 ? 1 : 8)
	for (uint32_t i = 0; i < npieces; i++)
#pragma unroll
		for (int j = 0; j < Summer::COUNT; j++)
			best[j] = fmaxf(best[j], __ldcg(maxima + i * width + Summer::token(j)));
}

/* The score from what all blocks left, by one warp. */
template <class Summer, int TOKENS>
__device__ __forceinline__ void
add_up(const MaxsimLaunch &launch, const MaxsimPiece &piece)
{
	const size_t width = (size_t) launch.nblocks * TOKENS;
	float score = 0;

	for (uint32_t block = 0; block < launch.nblocks; block++)
	{
		float sum;

		if (piece.npieces == 1)
			sum = __ldcg(launch.sums + (size_t) piece.slot * launch.nblocks + block);
		else
		{
			float best[Summer::COUNT];

			join_pieces<Summer>(best, launch.maxima + piece.first * width + (size_t) block * TOKENS, width, piece.npieces);
			sum = Summer::sum(launch.weights + (size_t) block * TOKENS, best);
		}
		score = block == 0 ? sum : score + sum;
	}
	if (threadIdx.x % MAXSIM_WARP == 0)
		launch.scores[piece.document] = score;
}

/* Whether a piece's maxima go to GPU memory. */
__device__ __forceinline__ bool
is_cut(const MaxsimPiece &piece)
{
	return piece.npieces > 1;
}

__device__ __forceinline__ float *
maxima_of(const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t block, int tokens)
{
	return launch.maxima + ((size_t) (piece.first + piece.index) * launch.nblocks + block) * tokens;
}

/* By one warp, for a piece whose maxima are in GPU memory (is_cut). */
template <class Summer, int TOKENS>
__device__ __forceinline__ void
finish_cut(const MaxsimLaunch &launch, const MaxsimPiece &piece)
{
	if (arrive_last(launch.arrivals + piece.slot, piece.npieces * launch.nblocks))
		add_up<Summer, TOKENS>(launch, piece);
}

/* By one warp, for some such pieces of different documents at once: n of them, at most 32. */
template <class Summer, int TOKENS>
__device__ __forceinline__ void
finish_cuts(const MaxsimLaunch &launch, const MaxsimPiece *pieces, uint32_t n)
{
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;
	bool last = false;

	fence_device();
	__syncwarp();
	if (lane < n && is_cut(pieces[lane]))
	{
		uint32_t *arrivals = launch.arrivals + pieces[lane].slot;

		last = atomicAdd(arrivals, 1) + 1 == pieces[lane].npieces * launch.nblocks;
		if (last)
			*arrivals = 0;
	}
	const uint32_t complete = __ballot_sync(MAXSIM_ALL_LANES, last);

	fence_device();
#pragma unroll 1
	for (uint32_t i = 0; i < n; i++)
		if (complete >> i & 1)
			add_up<Summer, TOKENS>(launch, pieces[i]);
}

/* By one warp, for a whole document whose query tokens of this block came to sum. */
template <class Summer, int TOKENS>
__device__ __forceinline__ void
finish_whole(const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t block, float sum)
{
	const bool first_lane = threadIdx.x % MAXSIM_WARP == 0;

	if (launch.nblocks == 1)
	{
		if (first_lane)
			launch.scores[piece.document] = sum;
		return;
	}
	if (first_lane)
		__stcg(launch.sums + (size_t) piece.slot * launch.nblocks + block, sum);
	if (arrive_last(launch.arrivals + piece.slot, launch.nblocks))
		add_up<Summer, TOKENS>(launch, piece);
}

/* A warp's maxima in rows, the same in each four lanes, to GPU memory. */
template <int M, int WARPS>
__device__ __forceinline__ void
put_rows(float *out, int warp, const float best[M * 2])
{
	const int lane = threadIdx.x % MAXSIM_WARP;

#pragma unroll
	for (int i = 0; i < M * 2; i++)
		if (lane % 4 == 0)
			__stcg(out + i / 2 * 16 * WARPS + warp * 16 + i % 2 * 8 + lane / 4, best[i]);
}

/* A lane's maxima over the columns that four lanes share. */
template <int M>
__device__ __forceinline__ void
join_lanes(float best[M * 2])
{
#pragma unroll
	for (int i = 0; i < M * 2; i++)
	{
		best[i] = fmaxf(best[i], __shfl_xor_sync(MAXSIM_ALL_LANES, best[i], 1));
		best[i] = fmaxf(best[i], __shfl_xor_sync(MAXSIM_ALL_LANES, best[i], 2));
	}
}

/* Both, by a warp whose lanes have the maxima; weights are the block's. */
template <int TOKENS>
__device__ __forceinline__ void
finish_lanes(const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t block, const float *maxima,
			 const float *weights)
{
	typedef SumByLane<TOKENS> Summer;

	if (is_cut(piece))
	{
		float *out = maxima_of(launch, piece, block, TOKENS);

#pragma unroll
		for (int i = 0; i < Summer::COUNT; i++)
			__stcg(out + Summer::token(i), maxima[i]);
		finish_cut<Summer, TOKENS>(launch, piece);
	}
	else
		finish_whole<Summer, TOKENS>(launch, piece, block, Summer::sum(weights, maxima));
}

/* The same, for maxima in shared memory. */
template <int TOKENS>
__device__ __forceinline__ void
finish_shared(const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t block, const float *maxima)
{
	float mine[TOKENS / MAXSIM_WARP];

#pragma unroll
	for (int i = 0; i < TOKENS / MAXSIM_WARP; i++)
		mine[i] = maxima[SumByLane<TOKENS>::token(i)];
	finish_lanes<TOKENS>(launch, piece, block, mine, launch.weights + (size_t) block * TOKENS);
}

#endif /* MAXSIM_FINISH_CUH */
