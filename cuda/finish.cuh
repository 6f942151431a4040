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
 * A family gives a Summer: value(get) is the weighted sum over the query tokens of a
 * block, made by one warp together and the same in all its lanes, where get(i) is
 * the maximum of query token i of the block.
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

/* Query tokens in lanes, lane by lane. */
template <int TOKENS>
struct SumByLane
{
	template <class Get>
	static __device__ __forceinline__ float
	value(const float *weights, Get get)
	{
		const int lane = threadIdx.x % MAXSIM_WARP;
		float sum = 0;

#pragma unroll
		for (int i = 0; i < TOKENS; i += MAXSIM_WARP)
			sum = fmaf(weights[i + lane], get(i + lane), sum);
		return sum_lanes(sum);
	}
};

/*
 * Query tokens as wgmma's rows: a warp has 16 in each of M products, tokens
 * m * 16 * WARPS + warp * 16 on; a lane has two of those, lane / 4 and that + 8.
 */
template <int M, int WARPS>
struct SumByRow
{
	/* One warp's part, where get(m, half) is the maximum of a lane's token. */
	template <class Get>
	static __device__ __forceinline__ float
	part(const float *weights, int warp, Get get)
	{
		const float *mine = weights + warp * 16 + threadIdx.x % MAXSIM_WARP / 4;
		float sum = 0;

#pragma unroll
		for (int m = 0; m < M; m++)
		{
			sum = fmaf(mine[m * 16 * WARPS], get(m, 0), sum);
			sum = fmaf(mine[m * 16 * WARPS + 8], get(m, 1), sum);
		}
#pragma unroll
		for (int mask = 4; mask < MAXSIM_WARP; mask *= 2)
			sum += __shfl_xor_sync(MAXSIM_ALL_LANES, sum, mask);
		return sum;
	}

	template <class Get>
	static __device__ __forceinline__ float
	value(const float *weights, Get get)
	{
		const int row = threadIdx.x % MAXSIM_WARP / 4;
		float sum = 0;

		for (int warp = 0; warp < WARPS; warp++)
		{
			float next = part(weights, warp, [&](int m, int half)
							  { return get(m * 16 * WARPS + warp * 16 + half * 8 + row); });

			sum = warp == 0 ? next : sum + next;
		}
		return sum;
	}
};

/* Counts this block in; true in the block that comes last, which then sees what the others wrote. */
__device__ __forceinline__ bool
arrive_last(uint32_t *arrivals, uint32_t expected)
{
	uint32_t before = 0;

	__threadfence();
	__syncwarp();
	if (threadIdx.x % MAXSIM_WARP == 0)
	{
		before = atomicAdd(arrivals, 1);
		if (before + 1 == expected)
			*arrivals = 0;
	}
	before = __shfl_sync(MAXSIM_ALL_LANES, before, 0);
	__threadfence();
	return before + 1 == expected;
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
		const float *maxima = launch.maxima + piece.first * width + (size_t) block * TOKENS;
		float sum;

		if (piece.npieces == 1)
			sum = __ldcg(launch.sums + (size_t) piece.slot * launch.nblocks + block);
		else
			sum = Summer::value(launch.weights + (size_t) block * TOKENS, [&](int token)
								{
				float best = -INFINITY;

				for (uint32_t i = 0; i < piece.npieces; i++)
					best = fmaxf(best, __ldcg(maxima + i * width + token));
				return best; });
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
put_rows(float *out, int warp, const float best[M][2])
{
	const int lane = threadIdx.x % MAXSIM_WARP;

#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int half = 0; half < 2; half++)
			if (lane % 4 == 0)
				__stcg(out + m * 16 * WARPS + warp * 16 + half * 8 + lane / 4, best[m][half]);
	__threadfence();
}

/* A lane's maxima over the columns that four lanes share. */
template <int M>
__device__ __forceinline__ void
join_lanes(float best[M][2])
{
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int half = 0; half < 2; half++)
		{
			best[m][half] = fmaxf(best[m][half], __shfl_xor_sync(MAXSIM_ALL_LANES, best[m][half], 1));
			best[m][half] = fmaxf(best[m][half], __shfl_xor_sync(MAXSIM_ALL_LANES, best[m][half], 2));
		}
}

/* Both, by the block's first warp, for maxima in shared memory. */
template <int TOKENS>
__device__ __forceinline__ void
finish_shared(const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t block, const float *maxima)
{
	typedef SumByLane<TOKENS> Summer;

	if (is_cut(piece))
	{
		float *out = maxima_of(launch, piece, block, TOKENS);

		for (int i = threadIdx.x % MAXSIM_WARP; i < TOKENS; i += MAXSIM_WARP)
			__stcg(out + i, maxima[i]);
		finish_cut<Summer, TOKENS>(launch, piece);
	}
	else
		finish_whole<Summer, TOKENS>(
			launch, piece, block,
			Summer::value(launch.weights + (size_t) block * TOKENS, [&](int token)
						  { return maxima[token]; }));
}

#endif /* MAXSIM_FINISH_CUH */
