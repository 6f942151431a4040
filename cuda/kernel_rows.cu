/*
 * kernel_rows.cu
 *		MaxSim with wgmma for up to 128 query tokens, dimension 128: compute
 *		capability 9.0a.
 *
 * A warpgroup takes pieces of documents, one after another, in tiles of 64 document
 * tokens.  Query tokens are the product's rows, from registers; a tile is operand B,
 * in a ring of stages that cp.async fills: it writes the layout that wgmma wants and
 * repeats the last token where a tile has fewer.  The ring runs on into the next
 * piece while the last one is being finished.
 */
#include "finish.cuh"
#include "wgmma.cuh"

#define TILE 64
#define STEPS 8   /* of 16 dimensions */
#define ROW 256   /* bytes of a document token */
#define HALF 8192 /* bytes of a tile's half of the dimension */
#define STAGE (2 * HALF)
#define STAGES 4
#define WARPS 4
#define MEMORY (STAGES * STAGE)
#define BLOCKS_PER_PROCESSOR 3

#if MAXSIM_HAS_WGMMA

/* The pieces of a block: a range, or one and every so many after it. */
struct RowsShare
{
	uint32_t begin;
	uint32_t end;
	uint32_t step;
};

/* What is to be fetched next. */
struct RowsCursor
{
	uint64_t address;
	uint32_t ntokens;
	uint32_t number; /* of the piece */
	uint32_t first;  /* token of the next tile */
};

/* Fetches the cursor's tile into a stage, if there is one, and moves on. */
static __device__ __forceinline__ void
fetch_tile(const MaxsimLaunch &launch, const RowsShare &share, RowsCursor &cursor, uint32_t stage)
{
	const uint32_t unit = threadIdx.x % 16;
	const uint32_t row = threadIdx.x / 16;

	if (cursor.number < share.end)
	{
		const char *from = (const char *) cursor.address + unit * 16;
		const uint32_t to = stage + unit / 8 * HALF + place_unit(row, unit % 8);

#pragma unroll
		for (int i = 0; i < TILE / 8; i++)
			copy_16(to + i * 1024, from + (size_t) min(cursor.first + row + i * 8, cursor.ntokens - 1) * ROW);
		cursor.first += TILE;
		if (cursor.first >= cursor.ntokens)
		{
			cursor.first = 0;
			cursor.number += share.step;
			if (cursor.number < share.end)
			{
				cursor.address = launch.pieces[cursor.number].address;
				cursor.ntokens = launch.pieces[cursor.number].ntokens;
			}
		}
	}
	copy_commit();
}

template <int M>
static __device__ __forceinline__ void
take_maxima(float best[M * 2], const float acc[M][TILE / 2])
{
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int i = 0; i < TILE / 2; i += 4)
		{
			best[m * 2] = fmaxf(best[m * 2], fmaxf(acc[m][i], acc[m][i + 1]));
			best[m * 2 + 1] = fmaxf(best[m * 2 + 1], fmaxf(acc[m][i + 2], acc[m][i + 3]));
		}
}

/* The score of a piece, or what this block has of it.  parts is not in use. */
template <int M>
static __device__ __forceinline__ void
finish_piece(const MaxsimLaunch &launch, const MaxsimPiece &piece, float best[M * 2], float *parts)
{
	typedef SumByRow<M, WARPS> Summer;
	const int warp = threadIdx.x / MAXSIM_WARP;

	join_lanes<M>(best);
	if (is_cut(piece))
	{
		put_rows<M, WARPS>(maxima_of(launch, piece, 0, M * 64), warp, best);
		__syncthreads();
		if (warp == 0)
			finish_cut<Summer, M * 64>(launch, piece);
		return;
	}
	parts[warp] = Summer::part(launch.weights, warp, best);
	__syncthreads();
	if (warp == 0)
		finish_whole<Summer, M * 64>(launch, piece, 0, parts[0] + parts[1] + parts[2] + parts[3]);
}

#endif

template <class Operand, int M>
static __global__ void
__launch_bounds__(MAXSIM_WARPGROUP, BLOCKS_PER_PROCESSOR)
	maxsim_rows_sm90a(const __grid_constant__ MaxsimLaunch launch)
{
#if MAXSIM_HAS_WGMMA
	extern __shared__ __align__(1024) char memory[];
	float(*parts)[WARPS] = (float(*)[WARPS])(memory + MEMORY);
	const uint32_t stages = shared_address(memory);
	const uint4 *image = (const uint4 *) launch.image + threadIdx.x;
	uint4 query[STEPS][M];
	uint32_t tile = 0;
	uint32_t turn = 0;
	RowsShare share = {blockIdx.x, launch.npieces, gridDim.x};

	if (launch.nranges > 0)
		share = {launch.ranges[blockIdx.x], launch.ranges[blockIdx.x + 1], 1};
	RowsCursor cursor = {launch.pieces[share.begin].address, launch.pieces[share.begin].ntokens, share.begin, 0};

	for (int i = 0; i < STAGES - 1; i++)
		fetch_tile(launch, share, cursor, stages + i * STAGE);
#pragma unroll
	for (int step = 0; step < STEPS; step++)
#pragma unroll
		for (int m = 0; m < M; m++)
			query[step][m] = __ldg(image + (step * M + m) * MAXSIM_WARPGROUP);

	for (uint32_t number = share.begin; number < share.end; number += share.step, turn++)
	{
		const MaxsimPiece piece = launch.pieces[number];
		float best[M * 2];

#pragma unroll
		for (int i = 0; i < M * 2; i++)
			best[i] = -INFINITY;
		for (uint32_t first = 0; first < piece.ntokens; first += TILE, tile++)
		{
			const uint32_t stage = stages + tile % STAGES * STAGE;
			const uint64_t b = describe_rows(stage);
			float acc[M][TILE / 2];

			copy_wait<STAGES - 2>();
			fence_async_proxy();
			__syncthreads();
			multiply_begin();
#pragma unroll
			for (int m = 0; m < M; m++)
#pragma unroll
				for (int step = 0; step < STEPS; step++)
					multiply_64_registers(acc[m], query[step][m], b + (step / 4 * HALF + step % 4 * 32) / 16, step > 0, Operand());
			multiply_commit();

			/* into the stage before: all warps were done with it at the barrier */
			fetch_tile(launch, share, cursor, stages + (tile + STAGES - 1) % STAGES * STAGE);
			multiply_wait<0>();
			take_maxima<M>(best, acc);
		}
		finish_piece<M>(launch, piece, best, parts[turn % 2]);
	}
	copy_wait<0>();
#endif
}

template <class Operand, int M>
static cudaError_t
launch_rows(const MaxsimLaunch *launch, cudaStream_t stream)
{
	const int size = MEMORY + 2 * WARPS * (int) sizeof(float);
	unsigned grid;

	if (launch == NULL)
		return cudaFuncSetAttribute(maxsim_rows_sm90a<Operand, M>, cudaFuncAttributeMaxDynamicSharedMemorySize, size);
	grid = launch->nranges > 0 ? launch->nranges : launch->npieces;
	maxsim_rows_sm90a<Operand, M><<<grid, MAXSIM_WARPGROUP, size, stream>>>(*launch);
	return cudaGetLastError();
}

cudaError_t
maxsim_launch_rows(uint32_t block_tokens, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	if (format == MAXSIM_F16)
		return block_tokens == 64 ? launch_rows<__half, 1>(launch, stream) : launch_rows<__half, 2>(launch, stream);
	return block_tokens == 64 ? launch_rows<__nv_bfloat16, 1>(launch, stream) : launch_rows<__nv_bfloat16, 2>(launch, stream);
}
