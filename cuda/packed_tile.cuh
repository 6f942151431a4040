/*
 * packed_tile.cuh
 *		What MAXSIM_FAMILY_PACKED does with a tile: 16 document tokens of i8 or b1 in
 *		shared memory by the query's image there, and the maxima of that.
 *
 * Document tokens are the rows of the product, from registers: i8 as it is, b1 as 64
 * and -64.  Query tokens are its columns, each twice, since a component is two int8.
 * The dimension is permuted so that what a lane needs of a row lies together, and the
 * query laid out to match (kernel_query.cu).  What is read beyond a row meets zeros.
 */
#ifndef MAXSIM_PACKED_TILE_CUH
#define MAXSIM_PACKED_TILE_CUH

#include "finish.cuh"
#include "wgmma.cuh"

#include <float.h>
#include <limits.h>

#define ROW 128 /* bytes of a query token's chunk in the image */

/* What a launch is given beside MaxsimLaunch. */
struct PackedShape
{
	uint32_t row_size;
	uint32_t chunks; /* the dimension is multiplied in so many parts */
	uint32_t stages;
	uint32_t stage_tokens;
	uint32_t stage_size; /* bytes */

	/*
	 * -64 as int8, four times: read from here, it stays in a register.  The compiler
	 * makes two instructions of one with two constants.
	 */
	uint32_t minus;
};

/* Rows of i8, in chunks of STEPS times 32 dimensions. */
template <int STEPS_>
struct PackedI8
{
	static const int STEPS = STEPS_;
	typedef float Best; /* what maxima are kept as */

	/* What this lane multiplies of two rows' chunk; they are shared addresses. */
	static __device__ __forceinline__ void
	load(uint4 a[STEPS], const uint32_t rows[2], uint32_t chunk, uint32_t)
	{
		const uint32_t at = 4 + (chunk * 4 + threadIdx.x % 4) * (STEPS * 8);

#pragma unroll
		for (int step = 0; step < STEPS; step++)
			a[step] = uint4{load_shared_4(rows[0] + at + step * 8), load_shared_4(rows[1] + at + step * 8),
							load_shared_4(rows[0] + at + step * 8 + 4), load_shared_4(rows[1] + at + step * 8 + 4)};
	}
};

/* The same of b1: a lane has a word of each row, or shares it with the next one. */
template <int STEPS_>
struct PackedB1
{
	static const int STEPS = STEPS_;
	typedef int Best;

	static __device__ __forceinline__ void
	load(uint4 a[STEPS], const uint32_t rows[2], uint32_t chunk, uint32_t minus)
	{
		const uint32_t lane = threadIdx.x % 4;
		const uint32_t at = STEPS == 4 ? chunk * 16 + lane * 4 : lane / 2 * 4;
		uint32_t words[2];

#pragma unroll
		for (int i = 0; i < 2; i++)
			words[i] = load_shared_4(rows[i] + at) << (STEPS == 4 ? 0 : lane % 2 * 4);
#pragma unroll
		for (int step = 0; step < STEPS; step++)
			a[step] = uint4{expand(words[0], step * 2, minus), expand(words[1], step * 2, minus),
							expand(words[0], step * 2 + 1, minus), expand(words[1], step * 2 + 1, minus)};
	}

	/* Bit i of each byte, the highest first, as 64 where it is set: minus turned in two bits. */
	static __device__ __forceinline__ uint32_t
	expand(uint32_t word, int i, uint32_t minus)
	{
		return (word << i & 0x80808080) ^ minus;
	}
};

/*
 * acc = 16 document tokens by 2 N columns, or with add acc += that; a has the documents'
 * part of a step, and the chunk is where the image has its rows.
 */
template <int N>
static __device__ __forceinline__ void
multiply_step(int (&acc)[N], const uint4 &a, uint32_t chunk, uint32_t step, bool add)
{
#if MAXSIM_HAS_WGMMA
	multiply_integers(acc, a, describe_rows(chunk) + step * 2, add);
#else
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;

#pragma unroll
	for (int n = 0; n < N / 4; n++)
	{
		const uint32_t row = chunk + n * (8 * ROW);
		const uint32_t b0 = load_shared_4(row + place_unit(lane / 4, step * 2) + lane % 4 * 4);
		const uint32_t b1 = load_shared_4(row + place_unit(lane / 4, step * 2 + 1) + lane % 4 * 4);

		if (!add)
			acc[n * 4] = acc[n * 4 + 1] = acc[n * 4 + 2] = acc[n * 4 + 3] = 0;
		mma_16832(acc + n * 4, a, b0, b1);
	}
#endif
}

/* acc = a chunk of 16 document tokens by 2 N columns, or acc += that where it is not the first. */
template <class P, int N>
static __device__ __forceinline__ void
multiply_chunk(int (&acc)[N], const uint32_t rows[2], uint32_t image, uint32_t chunk, const PackedShape &shape)
{
	uint4 a[P::STEPS];

	P::load(a, rows, chunk, shape.minus);
#if MAXSIM_HAS_WGMMA
	multiply_begin();
#endif
#pragma unroll
	for (int step = 0; step < P::STEPS; step++)
		multiply_step<N>(acc, a[step], image + chunk * (2 * N * ROW), step, chunk > 0 || step > 0);
#if MAXSIM_HAS_WGMMA
	multiply_commit();
	multiply_wait<0>();
#endif
}

/* sums = 16 document tokens by N query tokens; rows are the shared addresses of a lane's two. */
template <class P, int N>
static __device__ __forceinline__ void
multiply_tile(int sums[N / 2], const uint32_t rows[2], uint32_t image, const PackedShape &shape)
{
	int acc[N];

	/* the first chunk, most often the only one, has its places in registers */
	multiply_chunk<P, N>(acc, rows, image, 0, shape);
	for (uint32_t chunk = 1; chunk < shape.chunks; chunk++)
		multiply_chunk<P, N>(acc, rows, image, chunk, shape);
#pragma unroll
	for (int i = 0; i < N / 2; i++)
		sums[i] = acc[i] * 128 + acc[N / 2 + i];
}

/*
 * The powers of two by which sums of i8 are multiplied, beside the scale: whole, and the
 * same in two parts, for scales below 1 and for others.  The first part is for the scale,
 * the second for what a sum then is, so that neither of these leaves float32's range
 * unless their product does.
 */
struct PackedPowers
{
	float whole;
	float parts[2][2];
};

/* Whether a factor is far from the ends of float32's range, so that no part of a product is near them. */
static __device__ __forceinline__ bool
is_moderate(float factor)
{
	return factor >= 0x1p-80f && factor <= 0x1p80f;
}

/* Running maxima of a lane's columns, [N / 8][2], over its two rows; i8 by their scales. */
template <int N>
static __device__ __forceinline__ void
take_maxima(float best[N / 4], const int sums[N / 2], const uint32_t rows[2], const PackedPowers &powers)
{
	const float scales[2] = {__uint_as_float(load_shared_4(rows[0])), __uint_as_float(load_shared_4(rows[1]))};
	const float factors[2] = {scales[0] * powers.whole, scales[1] * powers.whole};

	/* mostly; the bits are the same both ways */
	if (__all_sync(MAXSIM_ALL_LANES, is_moderate(factors[0]) && is_moderate(factors[1])))
	{
#pragma unroll
		for (int i = 0; i < N / 4; i++)
			best[i] = fmaxf(best[i], fmaxf((float) sums[i / 2 * 4 + i % 2] * factors[0],
										   (float) sums[i / 2 * 4 + 2 + i % 2] * factors[1]));
		return;
	}
#pragma unroll
	for (int j = 0; j < 2; j++)
	{
		const float *parts = powers.parts[scales[j] >= 1];
		const float factor = fminf(scales[j] * parts[0], FLT_MAX);

#pragma unroll
		for (int i = 0; i < N / 4; i++)
			best[i] = fmaxf(best[i], (float) sums[i / 2 * 4 + j * 2 + i % 2] * factor * parts[1]);
	}
}

template <int N>
static __device__ __forceinline__ void
take_maxima(int best[N / 4], const int sums[N / 2], const uint32_t[2], const PackedPowers &)
{
#pragma unroll
	for (int i = 0; i < N / 4; i++)
		best[i] = max(best[i], max(sums[i / 2 * 4 + i % 2], sums[i / 2 * 4 + 2 + i % 2]));
}

/* Below anything else. */
static __device__ __forceinline__ void
clear_best(float &best)
{
	best = -INFINITY;
}

static __device__ __forceinline__ void
clear_best(int &best)
{
	best = INT_MIN;
}

/*
 * Query tokens as columns: of 32, lane l ends up with the one of 8 (l / 8) that its
 * last bits tell.
 */
template <int N>
struct SumByColumn
{
	static const int COUNT = N / MAXSIM_WARP;

	static __device__ __forceinline__ int
	token(int i)
	{
		const int lane = threadIdx.x % MAXSIM_WARP;

		return i * MAXSIM_WARP + lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2;
	}

	static __device__ __forceinline__ float
	sum(const float *weights, const float maxima[COUNT])
	{
		return sum_tokens<SumByColumn>(weights, maxima);
	}
};

/* The maximum over the eight lanes that share columns, each of which keeps one of eight. */
template <class Best>
static __device__ __forceinline__ Best
join_columns(const Best best[8])
{
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;
	Best kept[8];

#pragma unroll
	for (int i = 0; i < 8; i++)
		kept[i] = best[i];
#pragma unroll
	for (int half = 4; half > 0; half /= 2)
#pragma unroll
		for (int i = 0; i < half; i++)
		{
			const bool upper = lane & half * 4;
			const Best other = __shfl_xor_sync(MAXSIM_ALL_LANES, upper ? kept[i] : kept[half + i], half * 4);

			kept[i] = max(upper ? kept[half + i] : kept[i], other);
		}
	return kept[0];
}

#endif /* MAXSIM_PACKED_TILE_CUH */
