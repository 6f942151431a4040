/*
 * kernel_query.cu
 *		Lays a query out as each kernel family wants it.
 *
 * A query is rounded to the documents' format; for f32 it becomes three planes of
 * bf16 (split_pair).  Whoever calls has checked that it fits.  For i8 and b1 each
 * token is divided by a power of two, so that its largest component lies from 1 to 2,
 * and the exponent of that power is kept behind the image.  Then it becomes f16, or
 * integers for MAXSIM_FAMILY_PACKED.  So any finite query fits, and keeps 11 bits of
 * that component, or 13.  What is beyond the query is 0.  All layouts but that of
 * integers come in pairs of elements, numbered from 0.
 */
#include "device.cuh"
#include "kernels.h"

#define THREADS 256

/* A pair of a query token's elements, and what it is laid out for. */
typedef struct QueryPlace
{
	uint32_t token;
	uint32_t pair; /* elements 2 * pair and 2 * pair + 1 */
	uint32_t plane;
	uint32_t planes;
	uint32_t tokens;  /* of a block */
	uint32_t ntokens; /* of all blocks */
	uint32_t depth;   /* dimension, padded */
} QueryPlace;

/*
 * mma.sync operand A, 16 by 16: word w of lane l holds row l / 4 + 8 (w % 2),
 * columns 2 (l % 4) + 8 (w / 2) and the next.  step counts 16 columns.
 */
static __device__ __forceinline__ size_t
place_fragment(const QueryPlace &place, uint32_t step, uint32_t quarter, uint32_t half)
{
	const uint32_t sixteens = place.tokens / 16;
	const uint32_t block = place.token / place.tokens;
	const uint32_t sixteen = place.token % place.tokens / 16;
	const uint32_t lane = place.token % 8 * 4 + quarter;
	const uint32_t word = place.token / 8 % 2 + half * 2;

	return (((((size_t) block * (place.depth / 16) + step) * place.planes + place.plane) * sixteens + sixteen) * 32 + lane) * 4 + word;
}

/*
 * MAXSIM_FAMILY_MMA: the columns are permuted so that 16 bytes of a document token
 * serve a lane for two steps, or one where 16 dimensions or float32 leave but one.
 */
static __device__ size_t
place_mma(const QueryPlace &place)
{
	const uint32_t k = place.pair * 2;

	if (place.planes == 3 || k >= place.depth / 32 * 32)
		return place_fragment(place, k / 16, k % 16 / 4, k % 4 / 2);
	return place_fragment(place, k / 32 * 2 + k % 8 / 4, k % 32 / 8, k % 4 / 2);
}

/* MAXSIM_FAMILY_ROWS: operand A of wgmma from registers, four sixteens a warpgroup. */
static __device__ size_t
place_rows(const QueryPlace &place)
{
	const uint32_t k = place.pair * 2;

	return place_fragment(place, k / 16, k % 8 / 2, k % 16 / 8);
}

/*
 * MAXSIM_FAMILY_BLOCKS: shared memory as wgmma reads it.  Two halves of the
 * dimension, in each a token has 128 bytes, whose 16-byte units are permuted.
 */
static __device__ size_t
place_blocks(const QueryPlace &place)
{
	const uint32_t block = place.token / place.tokens;
	const uint32_t row = place.token % place.tokens;
	const uint32_t half = place.pair / 32;
	const uint32_t unit = place.pair % 32 / 4 ^ row % 8;

	return (((size_t) block * 2 + half) * place.tokens + row) * 32 + unit * 4 + place.pair % 4;
}

/* MAXSIM_FAMILY_GENERIC: rows. */
static __device__ size_t
place_generic(const QueryPlace &place)
{
	return ((size_t) place.plane * place.ntokens + place.token) * (place.depth / 2) + place.pair;
}

static __device__ uint32_t
round_pair(float x, float y, MaxsimFormat format)
{
	if (format != MAXSIM_BF16)
	{
		__half2 pair = __floats2half2_rn(x, y);

		return *reinterpret_cast<uint32_t *>(&pair);
	}
	__nv_bfloat162 pair = __floats2bfloat162_rn(x, y);

	return *reinterpret_cast<uint32_t *>(&pair);
}

typedef struct QueryLaunch
{
	const float *tokens; /* [ntokens][dim] */
	const float *weights;
	uint32_t *image;
	int32_t *exponents; /* behind the image; NULL: the format has none */
	float *padded_weights;
	uint32_t ntokens;
	uint32_t dim;
	uint32_t padded_tokens;
	uint32_t block_tokens;
	uint32_t depth;
	MaxsimFamily family;
	MaxsimFormat format;
} QueryLaunch;

/* The exponent of each token's largest component, by a warp. */
static __global__ void
maxsim_query_exponents(const QueryLaunch launch)
{
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;
	const uint64_t token = (uint64_t) blockIdx.x * (THREADS / MAXSIM_WARP) + threadIdx.x / MAXSIM_WARP;
	float largest = 0;

	if (token >= launch.padded_tokens)
		return;
	if (token < launch.ntokens)
		for (uint32_t k = lane; k < launch.dim; k += MAXSIM_WARP)
			largest = fmaxf(largest, fabsf(launch.tokens[token * launch.dim + k]));
#pragma unroll
	for (int mask = 16; mask > 0; mask /= 2)
		largest = fmaxf(largest, __shfl_xor_sync(MAXSIM_ALL_LANES, largest, mask));
	if (lane == 0)
		launch.exponents[token] = largest > 0 ? ilogbf(largest) : MAXSIM_NO_EXPONENT;
}

static __global__ void
maxsim_query_layout(const QueryLaunch launch)
{
	const uint64_t at = (uint64_t) blockIdx.x * THREADS + threadIdx.x;
	const uint32_t token = (uint32_t) (at / (launch.depth / 2));
	const uint32_t pair = (uint32_t) (at % (launch.depth / 2));
	float x = 0;
	float y = 0;
	uint32_t parts[3];

	if (token >= launch.padded_tokens)
		return;
	if (token < launch.ntokens)
	{
		const float *row = launch.tokens + (size_t) token * launch.dim;

		x = pair * 2 < launch.dim ? row[pair * 2] : 0;
		y = pair * 2 + 1 < launch.dim ? row[pair * 2 + 1] : 0;
		if (launch.exponents != NULL)
		{
			x = scalbnf(x, -launch.exponents[token]);
			y = scalbnf(y, -launch.exponents[token]);
		}
	}
	if (pair == 0)
		launch.padded_weights[token] = token >= launch.ntokens ? 0 : launch.weights ? launch.weights[token]
																					: 1;
	QueryPlace place = {token, pair, 0, launch.format == MAXSIM_F32 ? 3u : 1u, launch.block_tokens, launch.padded_tokens, launch.depth};

	if (launch.format == MAXSIM_F32)
		split_pair(x, y, parts);
	else
		parts[0] = round_pair(x, y, launch.format);
	for (; place.plane < place.planes; place.plane++)
	{
		size_t to = launch.family == MAXSIM_FAMILY_MMA      ? place_mma(place)
					: launch.family == MAXSIM_FAMILY_ROWS   ? place_rows(place)
					: launch.family == MAXSIM_FAMILY_BLOCKS ? place_blocks(place)
															: place_generic(place);

		launch.image[to] = parts[place.plane];
	}
}

/*
 * The dimension at a place of the chunk that kernel_packed.cu multiplies: step, half of
 * it, lane of four, byte of a word.
 */
static __device__ uint32_t
packed_dimension(MaxsimFormat format, uint32_t steps, uint32_t place)
{
	const uint32_t word = place / 32 * 2 + place % 32 / 16; /* step and half */
	const uint32_t lane = place % 16 / 4;
	const uint32_t byte = place % 4;

	if (format == MAXSIM_I8)
		return (lane * (steps * 2) + word) * 4 + byte;
	if (steps == 4) /* bit by bit of a lane's word */
		return lane * 32 + byte * 8 + word;
	return lane / 2 * 32 + byte * 8 + lane % 2 * 4 + word; /* of half of a word's bytes */
}

/*
 * MAXSIM_FAMILY_PACKED: a component is 128 high + low, both int8.  For each chunk of
 * the dimension, and of each block, rows of 128 bytes: first the query tokens' high
 * parts, then their low ones.  The 16-byte units of a row are permuted as wgmma reads
 * them.  A thread makes four bytes of both.
 */
static __global__ void
maxsim_query_integers(const QueryLaunch launch, uint32_t steps)
{
	const uint64_t at = (uint64_t) blockIdx.x * THREADS + threadIdx.x;
	const uint32_t token = (uint32_t) (at / (launch.depth / 4));
	const uint32_t word = (uint32_t) (at % (launch.depth / 4));
	const uint32_t row = token % launch.block_tokens;
	uint32_t high = 0;
	uint32_t low = 0;

	if (token >= launch.padded_tokens)
		return;
	for (uint32_t byte = 0; byte < 4; byte++)
	{
		const uint32_t place = word % 32 * 4 + byte;
		const uint32_t k = word / 32 * (steps * 32) + packed_dimension(launch.format, steps, place);

		if (token < launch.ntokens && place < steps * 32 && k < launch.dim)
		{
			const float value = launch.tokens[(size_t) token * launch.dim + k];
			const int n = __float2int_rn(scalbnf(value, MAXSIM_PACKED_BITS - 1 - launch.exponents[token]));
			const int upper = (n + 64) >> 7;

			high |= (uint32_t) (upper & 0xff) << byte * 8;
			low |= (uint32_t) ((n - upper * 128) & 0xff) << byte * 8;
		}
	}
	uint32_t *to = launch.image + (((size_t) token / launch.block_tokens * (launch.depth / 128) + word / 32) * (launch.block_tokens * 2) + row) * 32 +
				   (word % 32 / 4 ^ row % 8) * 4 + word % 4;

	to[0] = high;
	to[launch.block_tokens * 32] = low;
	if (word == 0)
		launch.padded_weights[token] = token >= launch.ntokens ? 0 : launch.weights ? launch.weights[token]
																					: 1;
}

cudaError_t
maxsim_launch_query(const MaxsimQueryPlan *plan, MaxsimFormat format, const float *tokens, const float *weights,
					uint32_t ntokens, uint32_t dim, void *image, float *padded_weights, cudaStream_t stream)
{
	const uint32_t padded = plan->nblocks * plan->block_tokens;
	const uint64_t pairs = (uint64_t) padded * (plan->depth / 2);
	int32_t *exponents = maxsim_plan_is_packed(format) ? (int32_t *) ((uint32_t *) image + pairs) : NULL;
	QueryLaunch launch = {tokens, weights, (uint32_t *) image, exponents, padded_weights, ntokens, dim, padded,
						  plan->block_tokens, plan->depth, plan->family, format};

	if (exponents != NULL)
	{
		const unsigned tokens_of_block = THREADS / MAXSIM_WARP;

		maxsim_query_exponents<<<(padded + tokens_of_block - 1) / tokens_of_block, THREADS, 0, stream>>>(launch);
	}
	if (plan->family == MAXSIM_FAMILY_PACKED)
		maxsim_query_integers<<<(unsigned) ((pairs / 2 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(launch, maxsim_plan_steps(format, dim));
	else
		maxsim_query_layout<<<(unsigned) ((pairs + THREADS - 1) / THREADS), THREADS, 0, stream>>>(launch);
	return cudaGetLastError();
}
