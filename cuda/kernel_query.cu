/*
 * kernel_query.cu
 *		Lays a query out as each kernel family wants it.
 *
 * A query is rounded to the documents' format; for f32 it becomes three planes of
 * bf16 (split_pair).  Whoever calls has checked that it fits.  For i8 and b1 it
 * becomes f16: each token is divided by a power of two, so that its largest component
 * lies from 1 to 2, and the exponent of that power is kept behind the image.  So any
 * finite query fits, and keeps 11 bits of that component.  All layouts come in pairs
 * of elements, numbered from 0; what is beyond the query is 0.
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
 * MAXSIM_FAMILY_BLOCKS and _PACKED: shared memory as wgmma reads it.  Parts of 64
 * dimensions, in each a token has 128 bytes, whose 16-byte units are permuted.
 */
static __device__ size_t
place_swizzled(const QueryPlace &place)
{
	const uint32_t block = place.token / place.tokens;
	const uint32_t row = place.token % place.tokens;
	const uint32_t part = place.pair / 32;
	const uint32_t unit = place.pair % 32 / 4 ^ row % 8;

	return (((size_t) block * (place.depth / 64) + part) * place.tokens + row) * 32 + unit * 4 + place.pair % 4;
}

/*
 * MAXSIM_FAMILY_PACKED: the dimensions of a pair, in the order in which documents are
 * expanded (kernel_packed.cu); launch.dim and more for none.
 */
static __device__ uint2
packed_dimensions(MaxsimFormat format, uint32_t dim, uint32_t chunk, uint32_t padded, uint32_t pair)
{
	const uint32_t inner = pair * 2 % padded;
	const uint32_t begin = pair * 2 / padded * chunk;
	const uint32_t step = inner / 16;
	const uint32_t lane = inner % 8 / 2; /* of four */
	const uint32_t half = inner % 16 / 8;

	if (inner >= chunk)
		return uint2{dim, dim};
	if (format == MAXSIM_I8)
	{
		const uint32_t first = begin + (lane * (chunk / 16) + step) * 4 + half * 2;

		return uint2{first, first + 1};
	}
	const uint32_t first = begin + step / 4 * 64 + lane * 8 + step % 4 * 2 + half;

	/* of two words; of one its bytes' halves */
	return uint2{first, first + (step / 4 * 64 + 64 <= chunk ? 32 : 4)};
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
	uint32_t chunk; /* MAXSIM_FAMILY_PACKED */
	uint32_t padded_chunk;
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
		const uint2 from = launch.family == MAXSIM_FAMILY_PACKED ? packed_dimensions(launch.format, launch.dim, launch.chunk, launch.padded_chunk, pair)
																 : uint2{pair * 2, pair * 2 + 1};

		x = from.x < launch.dim ? row[from.x] : 0;
		y = from.y < launch.dim ? row[from.y] : 0;
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
		size_t to = launch.family == MAXSIM_FAMILY_MMA       ? place_mma(place)
					: launch.family == MAXSIM_FAMILY_ROWS    ? place_rows(place)
					: launch.family == MAXSIM_FAMILY_GENERIC ? place_generic(place)
															 : place_swizzled(place);

		launch.image[to] = parts[place.plane];
	}
}

cudaError_t
maxsim_launch_query(const MaxsimQueryPlan *plan, MaxsimFormat format, const float *tokens, const float *weights,
					uint32_t ntokens, uint32_t dim, void *image, float *padded_weights, cudaStream_t stream)
{
	const uint32_t padded = plan->nblocks * plan->block_tokens;
	const uint64_t pairs = (uint64_t) padded * (plan->depth / 2);
	int32_t *exponents = maxsim_plan_is_packed(format) ? (int32_t *) ((uint32_t *) image + pairs) : NULL;
	const uint32_t chunk = maxsim_plan_chunk(format, dim);
	QueryLaunch launch = {tokens, weights, (uint32_t *) image, exponents, padded_weights, ntokens, dim, padded,
						  plan->block_tokens, plan->depth, chunk, maxsim_plan_padded_chunk(chunk), plan->family, format};

	if (exponents != NULL)
	{
		const unsigned tokens_of_block = THREADS / MAXSIM_WARP;

		maxsim_query_exponents<<<(padded + tokens_of_block - 1) / tokens_of_block, THREADS, 0, stream>>>(launch);
	}
	maxsim_query_layout<<<(unsigned) ((pairs + THREADS - 1) / THREADS), THREADS, 0, stream>>>(launch);
	return cudaGetLastError();
}
