/*
 * kernel_generic.cu
 *		MaxSim for any dimension, on any device with mma.sync for bf16.
 *
 * A block of threads takes a piece of a document and 64 query tokens.  It walks the
 * document in tiles of 64 tokens, and each tile in 64 dimensions at a time, which it
 * copies to shared memory element by element, f32 split in three (split_pair).  Four
 * warps have 16 document tokens each.  Elements need their own alignment only.
 */
#include "finish.cuh"

#define THREADS 128
#define TOKENS 64         /* query tokens */
#define TILE 64           /* document tokens */
#define DEPTH 64          /* dimensions at a time */
#define PITCH (DEPTH + 8) /* elements a row in shared memory: no bank twice */
#define SIXTEENS (TOKENS / 16)

template <int planes>
struct GenericMemory
{
	uint16_t query[planes][TOKENS][PITCH];
	uint16_t document[planes][TILE][PITCH];
};

/* 64 query tokens by DEPTH dimensions, from rows of depth elements. */
template <int planes>
static __device__ __forceinline__ void
load_query(GenericMemory<planes> *memory, const MaxsimLaunch &launch, uint32_t from)
{
	const size_t depth = (launch.dim + DEPTH - 1) / DEPTH * DEPTH;
	const size_t ntokens = (size_t) launch.nblocks * TOKENS;

	for (int plane = 0; plane < planes; plane++)
		for (int i = threadIdx.x; i < TOKENS * DEPTH / 8; i += THREADS)
		{
			size_t token = blockIdx.y * TOKENS + i / (DEPTH / 8);
			const uint4 *row = (const uint4 *) ((const uint16_t *) launch.image + (plane * ntokens + token) * depth + from);

			*(uint4 *) &memory->query[plane][i / (DEPTH / 8)][i % (DEPTH / 8) * 8] = __ldg(row + i % (DEPTH / 8));
		}
}

/* The same of a document; beyond its last token that one, beyond dim zeros. */
template <int planes>
static __device__ __forceinline__ void
load_document(GenericMemory<planes> *memory, const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t first, uint32_t from)
{
#pragma unroll 4
	for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS)
	{
		uint32_t token = min(first + i / DEPTH, piece.ntokens - 1);
		uint32_t k = from + i % DEPTH;
		size_t at = (size_t) token * launch.dim + k;

		if constexpr (planes == 3)
		{
			uint32_t parts[3];

			split_pair(k < launch.dim ? __ldg((const float *) piece.address + at) : 0.0f, 0.0f, parts);
			for (int plane = 0; plane < planes; plane++)
				memory->document[plane][i / DEPTH][i % DEPTH] = (uint16_t) parts[plane];
		}
		else
			memory->document[0][i / DEPTH][i % DEPTH] = k < launch.dim ? __ldg((const uint16_t *) piece.address + at) : 0;
	}
}

template <class Operand, int planes>
static __device__ __forceinline__ void
multiply(float acc[SIXTEENS][2][4], const GenericMemory<planes> *memory, Operand operand)
{
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
						mma_16816(acc[m][n], a, b[n][0], b[n][1], operand);
				}
			}
}

template <class Operand, int planes>
static __global__ void
__launch_bounds__(THREADS)
	maxsim_generic(const __grid_constant__ MaxsimLaunch launch)
{
	extern __shared__ __align__(16) char bytes[];
	__shared__ float by_warp[THREADS / MAXSIM_WARP][TOKENS];
	GenericMemory<planes> *memory = (GenericMemory<planes> *) bytes;
	const MaxsimPiece piece = launch.pieces[blockIdx.x];
	const int lane = threadIdx.x % MAXSIM_WARP;
	float best[SIXTEENS][2];

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
			load_query<planes>(memory, launch, from);
			load_document<planes>(memory, launch, piece, first, from);
			__syncthreads();
			multiply<Operand, planes>(acc, memory, Operand());

			/* the tensor cores cut off what they add, so they add but a little */
#pragma unroll
			for (int i = 0; i < SIXTEENS * 2 * 4; i++)
				sums[i / 8][i / 4 % 2][i % 4] += acc[i / 8][i / 4 % 2][i % 4];
		}
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

template <class Operand, int planes>
static cudaError_t
launch_generic(const MaxsimLaunch *launch, cudaStream_t stream)
{
	const size_t size = sizeof(GenericMemory<planes>);
	cudaError_t status = cudaFuncSetAttribute(maxsim_generic<Operand, planes>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) size);

	if (status != cudaSuccess || launch == NULL)
		return status;
	maxsim_generic<Operand, planes><<<dim3(launch->npieces, launch->nblocks), THREADS, size, stream>>>(*launch);
	return cudaGetLastError();
}

cudaError_t
maxsim_launch_generic(MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	if (format == MAXSIM_F32)
		return launch_generic<__nv_bfloat16, 3>(launch, stream);
	if (format == MAXSIM_F16)
		return launch_generic<__half, 1>(launch, stream);
	return launch_generic<__nv_bfloat16, 1>(launch, stream);
}
