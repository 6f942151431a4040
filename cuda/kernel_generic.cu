/*
 * kernel_generic.cu
 *		MaxSim for any dimension and format, on any device with mma.sync for bf16.
 *
 * A block of threads takes a piece of a document and 64 query tokens.  It walks the
 * document in tiles of 64 tokens, and each tile in 64 dimensions at a time, which it
 * copies to shared memory element by element, f32 split in three (split_pair).  Four
 * warps have 16 document tokens each.  Elements need their own alignment only.
 *
 * i8 and b1 become f16 as they are copied, which holds them exactly, and rows are read
 * byte by byte, at any alignment.  A sum of such products is multiplied by the
 * document token's scale and the query token's power of two before it counts for the
 * maximum.  Both together may be a number where one of them alone is out of range, so
 * that the fraction is multiplied first, and all exponents are added.
 */
#include "finish.cuh"

#define THREADS 128
#define TOKENS 64         /* query tokens */
#define TILE 64           /* document tokens */
#define DEPTH 64          /* dimensions at a time */
#define PITCH (DEPTH + 8) /* elements a row in shared memory: no bank twice */
#define SIXTEENS (TOKENS / 16)

/* What a format is multiplied as: some planes of a type of the tensor cores. */
template <MaxsimFormat format>
struct Operands
{
	typedef __half Element;
	static const int planes = 1;
	static const bool packed = format == MAXSIM_I8 || format == MAXSIM_B1;
};

template <>
struct Operands<MAXSIM_BF16>
{
	typedef __nv_bfloat16 Element;
	static const int planes = 1;
	static const bool packed = false;
};

template <>
struct Operands<MAXSIM_F32>
{
	typedef __nv_bfloat16 Element;
	static const int planes = 3;
	static const bool packed = false;
};

template <MaxsimFormat format>
struct GenericMemory
{
	uint16_t query[Operands<format>::planes][TOKENS][PITCH];
	uint16_t document[Operands<format>::planes][TILE][PITCH];

	/* i8: the document tokens' scales, fraction * 2^exponent */
	float fractions[TILE];
	int exponents[TILE];
};

/* Elements of a query token in the image. */
static __device__ __forceinline__ size_t
padded_depth(const MaxsimLaunch &launch)
{
	return ((size_t) launch.dim + DEPTH - 1) / DEPTH * DEPTH;
}

/* 64 query tokens by DEPTH dimensions, from rows of depth elements. */
template <MaxsimFormat format>
static __device__ __forceinline__ void
load_query(GenericMemory<format> *memory, const MaxsimLaunch &launch, uint32_t from)
{
	const size_t depth = padded_depth(launch);
	const size_t ntokens = (size_t) launch.nblocks * TOKENS;

	for (int plane = 0; plane < Operands<format>::planes; plane++)
		for (int i = threadIdx.x; i < TOKENS * DEPTH / 8; i += THREADS)
		{
			size_t token = blockIdx.y * TOKENS + i / (DEPTH / 8);
			const uint4 *row = (const uint4 *) ((const uint16_t *) launch.image + (plane * ntokens + token) * depth + from);

			*(uint4 *) &memory->query[plane][i / (DEPTH / 8)][i % (DEPTH / 8) * 8] = __ldg(row + i % (DEPTH / 8));
		}
}

/* The row of a tile's document token i, which is the last one beyond it. */
template <MaxsimFormat format>
static __device__ __forceinline__ const uint8_t *
row_of(const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t first, int i)
{
	const size_t row_size = format == MAXSIM_F32  ? (size_t) launch.dim * 4
							: format == MAXSIM_I8 ? (size_t) launch.dim + 4
							: format == MAXSIM_B1 ? ((size_t) launch.dim + 7) / 8
												  : (size_t) launch.dim * 2;

	return (const uint8_t *) piece.address + min(first + i, piece.ntokens - 1) * row_size;
}

/* The scales of a tile of i8. */
static __device__ __forceinline__ void
load_scales(GenericMemory<MAXSIM_I8> *memory, const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t first)
{
	for (int i = threadIdx.x; i < TILE; i += THREADS)
	{
		const uint8_t *row = row_of<MAXSIM_I8>(launch, piece, first, i);
		uint32_t bits = 0;

		for (int byte = 0; byte < 4; byte++)
			bits |= (uint32_t) __ldg(row + byte) << byte * 8;
		memory->fractions[i] = frexpf(__uint_as_float(bits), &memory->exponents[i]);
	}
}

/* 64 document tokens by DEPTH dimensions; beyond the last token that one, beyond dim zeros. */
template <MaxsimFormat format>
static __device__ __forceinline__ void
load_document(GenericMemory<format> *memory, const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t first, uint32_t from)
{
#pragma unroll 4
	for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS)
	{
		const uint8_t *row = row_of<format>(launch, piece, first, i / DEPTH);
		const uint32_t k = from + i % DEPTH;
		uint32_t parts[3] = {0, 0, 0};

		if constexpr (format == MAXSIM_F32)
			split_pair(k < launch.dim ? __ldg((const float *) row + k) : 0.0f, 0.0f, parts);
		else if constexpr (format == MAXSIM_I8)
			parts[0] = __half_as_ushort(__short2half_rn(k < launch.dim ? (int8_t) __ldg(row + 4 + k) : 0));
		else
			parts[0] = k < launch.dim ? __ldg((const uint16_t *) row + k) : 0;
		for (int plane = 0; plane < Operands<format>::planes; plane++)
			memory->document[plane][i / DEPTH][i % DEPTH] = (uint16_t) parts[plane];
	}
}

/* Eight dimensions of b1, the first in the highest bit, as f16: 1 or -1. */
static __device__ __forceinline__ uint4
expand_bits(uint32_t bits)
{
	uint32_t words[4];

#pragma unroll
	for (int i = 0; i < 4; i++)
		words[i] = (bits >> (7 - i * 2) & 1 ? 0x3c00u : 0xbc00u) | (bits >> (6 - i * 2) & 1 ? 0x3c000000u : 0xbc000000u);
	return uint4{words[0], words[1], words[2], words[3]};
}

/* The same of b1; what is beyond dim meets zeros of the query. */
template <>
__device__ __forceinline__ void
load_document(GenericMemory<MAXSIM_B1> *memory, const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t first, uint32_t from)
{
	for (int i = threadIdx.x; i < TILE * DEPTH / 8; i += THREADS)
	{
		const uint8_t *row = row_of<MAXSIM_B1>(launch, piece, first, i / (DEPTH / 8));
		const uint32_t k = from + i % (DEPTH / 8) * 8;
		const uint32_t bits = k < launch.dim ? __ldg(row + k / 8) : 0;

		*(uint4 *) &memory->document[0][i / (DEPTH / 8)][i % (DEPTH / 8) * 8] = expand_bits(bits);
	}
}

template <MaxsimFormat format>
static __device__ __forceinline__ void
multiply(float acc[SIXTEENS][2][4], const GenericMemory<format> *memory)
{
	const int planes = Operands<format>::planes;
	const int lane = threadIdx.x % MAXSIM_WARP;
	const int warp = threadIdx.x / MAXSIM_WARP;

	for (int k = lane % 4 * 2; k < DEPTH; k += 16)
#pragma unroll
		for (int order = 2 * (planes == 3); order >= 0; order--)
#pragma unroll
			for (int plane = 0; plane <= order; plane++)
			{
				uint32_t b[2][2];

#pragma unroll
				for (int n = 0; n < 2; n++)
				{
					const uint16_t *row = memory->document[order - plane][warp * 16 + n * 8 + lane / 4];

					b[n][0] = *(const uint32_t *) (row + k);
					b[n][1] = *(const uint32_t *) (row + k + 8);
				}
#pragma unroll
				for (int m = 0; m < SIXTEENS; m++)
				{
					const uint16_t *row = memory->query[plane][m * 16 + lane / 4];
					uint4 a = {*(const uint32_t *) (row + k), *(const uint32_t *) (row + 8 * PITCH + k),
							   *(const uint32_t *) (row + k + 8), *(const uint32_t *) (row + 8 * PITCH + k + 8)};

#pragma unroll
					for (int n = 0; n < 2; n++)
						mma_16816(acc[m][n], a, b[n][0], b[n][1], typename Operands<format>::Element());
				}
			}
}

/* The exponents of the query tokens that a thread has sums of. */
static __device__ __forceinline__ void
load_exponents(int exponents[SIXTEENS][2], const MaxsimLaunch &launch)
{
	const size_t ntokens = (size_t) launch.nblocks * TOKENS;
	const int32_t *from = (const int32_t *) ((const uint16_t *) launch.image + ntokens * padded_depth(launch));

#pragma unroll
	for (int i = 0; i < SIXTEENS * 2; i++)
		exponents[i / 2][i % 2] = __ldg(from + (size_t) blockIdx.y * TOKENS + i * 8 + threadIdx.x % MAXSIM_WARP / 4);
}

/* A tile's sums to dot products: by the scales of document tokens and the exponents of query tokens. */
template <MaxsimFormat format>
static __device__ __forceinline__ void
scale_sums(float sums[SIXTEENS][2][4], const GenericMemory<format> *memory, const int exponents[SIXTEENS][2])
{
#pragma unroll
	for (int i = 0; i < 4; i++) /* a thread's document tokens */
	{
		const int token = threadIdx.x / MAXSIM_WARP * 16 + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
		const float fraction = format == MAXSIM_I8 ? memory->fractions[token] : 1;
		const int exponent = format == MAXSIM_I8 ? memory->exponents[token] : 0;

#pragma unroll
		for (int j = 0; j < SIXTEENS * 2; j++) /* its query tokens */
		{
			float *sum = &sums[j / 2][i / 2][j % 2 * 2 + i % 2];

			*sum = scalbnf(*sum * fraction, exponent + exponents[j / 2][j % 2]);
		}
	}
}

template <MaxsimFormat format>
static __global__ void
__launch_bounds__(THREADS)
	maxsim_generic(const __grid_constant__ MaxsimLaunch launch)
{
	extern __shared__ __align__(16) char bytes[];
	__shared__ float by_warp[THREADS / MAXSIM_WARP][TOKENS];
	GenericMemory<format> *memory = (GenericMemory<format> *) bytes;
	const MaxsimPiece piece = launch.pieces[blockIdx.x];
	const int lane = threadIdx.x % MAXSIM_WARP;
	float best[SIXTEENS][2];
	int exponents[SIXTEENS][2];

	if constexpr (Operands<format>::packed)
		load_exponents(exponents, launch);
#pragma unroll
	for (int m = 0; m < SIXTEENS; m++)
		best[m][0] = best[m][1] = -INFINITY;
	for (uint32_t first = 0; first < piece.ntokens; first += TILE)
	{
		float sums[SIXTEENS][2][4] = {};

		for (uint32_t from = 0; from < launch.dim; from += DEPTH)
		{
			float acc[SIXTEENS][2][4] = {};

			__syncthreads();
			if constexpr (format == MAXSIM_I8)
				if (from == 0)
					load_scales(memory, launch, piece, first);
			load_query<format>(memory, launch, from);
			load_document<format>(memory, launch, piece, first, from);
			__syncthreads();
			multiply<format>(acc, memory);

			/* the tensor cores cut off what they add, so they add but a little */
#pragma unroll
			for (int i = 0; i < SIXTEENS * 2 * 4; i++)
				sums[i / 8][i / 4 % 2][i % 4] += acc[i / 8][i / 4 % 2][i % 4];
		}
		if constexpr (Operands<format>::packed)
			scale_sums<format>(sums, memory, exponents);
#pragma unroll
		for (int m = 0; m < SIXTEENS; m++)
#pragma unroll
			for (int n = 0; n < 2; n++)
			{
				best[m][0] = fmaxf(best[m][0], fmaxf(sums[m][n][0], sums[m][n][1]));
				best[m][1] = fmaxf(best[m][1], fmaxf(sums[m][n][2], sums[m][n][3]));
			}
	}
#pragma unroll
	for (int m = 0; m < SIXTEENS; m++)
#pragma unroll
		for (int half = 0; half < 2; half++)
		{
			float value = best[m][half];

			value = fmaxf(value, __shfl_xor_sync(MAXSIM_ALL_LANES, value, 1));
			value = fmaxf(value, __shfl_xor_sync(MAXSIM_ALL_LANES, value, 2));
			if (lane % 4 == 0)
				by_warp[threadIdx.x / MAXSIM_WARP][m * 16 + half * 8 + lane / 4] = value;
		}
	__syncthreads();
	if (threadIdx.x >= MAXSIM_WARP)
		return;
	for (int token = lane; token < TOKENS; token += MAXSIM_WARP)
		for (int w = 1; w < THREADS / MAXSIM_WARP; w++)
			by_warp[0][token] = fmaxf(by_warp[0][token], by_warp[w][token]);
	__syncwarp();
	finish_shared<TOKENS>(launch, piece, blockIdx.y, by_warp[0]);
}

template <MaxsimFormat format>
static cudaError_t
launch_generic(const MaxsimLaunch *launch, cudaStream_t stream)
{
	const size_t size = sizeof(GenericMemory<format>);
	cudaError_t status = cudaFuncSetAttribute(maxsim_generic<format>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) size);

	if (status != cudaSuccess || launch == NULL)
		return status;
	maxsim_generic<format><<<dim3(launch->npieces, launch->nblocks), THREADS, size, stream>>>(*launch);
	return cudaGetLastError();
}

cudaError_t
maxsim_launch_generic(MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	switch (format)
	{
		case MAXSIM_F32:
			return launch_generic<MAXSIM_F32>(launch, stream);
		case MAXSIM_F16:
			return launch_generic<MAXSIM_F16>(launch, stream);
		case MAXSIM_BF16:
			return launch_generic<MAXSIM_BF16>(launch, stream);
		case MAXSIM_I8:
			return launch_generic<MAXSIM_I8>(launch, stream);
		case MAXSIM_B1:
			return launch_generic<MAXSIM_B1>(launch, stream);
		default:
			return cudaErrorInvalidValue;
	}
}
