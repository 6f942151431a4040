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

/* What is to be fetched next, of a range of pieces. */
struct RowsCursor
{
	const char *from; /* this thread's part of the next tile's first token */
	uint32_t left;    /* tokens of the piece, from there on */
	uint32_t number;  /* of the piece */
	uint32_t end;     /* of the range */
};

static __device__ __forceinline__ void
next_piece(const MaxsimLaunch &launch, RowsCursor &cursor)
{
	if (cursor.number < cursor.end)
	{
		cursor.from = (const char *) launch.pieces[cursor.number].address + threadIdx.x * 16;
		cursor.left = launch.pieces[cursor.number].ntokens;
	}
}

/* Fetches the cursor's tile into a stage, if there is one, and moves on. */
static __device__ __forceinline__ void
fetch_tile(const MaxsimLaunch &launch, RowsCursor &cursor, uint32_t stage)
{
	const uint32_t row = threadIdx.x / 16;
	const uint32_t to = stage + threadIdx.x % 16 / 8 * HALF + place_unit(row, threadIdx.x % 8);

	if (cursor.number < cursor.end && cursor.left > TILE)
	{
#pragma unroll
		for (int i = 0; i < TILE / 8; i++)
			copy_16(to + i * 1024, cursor.from + i * 8 * ROW);
		cursor.from += TILE * ROW;
		cursor.left -= TILE;
	}
	else if (cursor.number < cursor.end)
	{
		/* beyond the last token that one */
#pragma unroll
		for (int i = 0; i < TILE / 8; i++)
			copy_16(to + i * 1024, cursor.from + ((int) min(row + i * 8, cursor.left - 1) - (int) row) * ROW);
		cursor.number++;
		next_piece(launch, cursor);
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

/*
 * The score of a piece; of one that is cut the maxima, to be added up at the end.
 * parts is not in use.
 */
template <int M>
static __device__ __forceinline__ void
finish_piece(const MaxsimLaunch &launch, uint32_t number, float best[M * 2], float *parts)
{
	typedef SumByRow<M, WARPS> Summer;
	const MaxsimPiece piece = launch.pieces[number];
	const int warp = threadIdx.x / MAXSIM_WARP;

	join_lanes<M>(best);
	if (is_cut(piece))
	{
		put_rows<M, WARPS>(maxima_of(launch, piece, 0, M * 64), warp, best);
		return;
	}
	parts[warp] = Summer::part(launch.weights, warp, best);
	__syncthreads();
	if (warp == 0)
		finish_whole<Summer, M * 64>(launch, piece, 0, parts[0] + parts[1] + parts[2] + parts[3]);
}

/* Only the first and the last piece of a range can be cut: a warp for each. */
template <int M>
static __device__ __forceinline__ void
finish_range(const MaxsimLaunch &launch, uint32_t first, uint32_t last)
{
	const uint32_t warp = threadIdx.x / MAXSIM_WARP;

	__syncthreads();
	if (warp == 0 || (warp == 1 && first != last))
	{
		const MaxsimPiece piece = launch.pieces[warp == 0 ? first : last];

		if (is_cut(piece))
			finish_cut<SumByRow<M, WARPS>, M * 64>(launch, piece);
	}
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
	const uint32_t first_piece = launch.ranges[blockIdx.x];
	RowsCursor cursor = {NULL, 0, first_piece, launch.ranges[blockIdx.x + 1]};
	uint32_t tile = 0;

	next_piece(launch, cursor);
	for (int i = 0; i < STAGES - 1; i++)
		fetch_tile(launch, cursor, stages + i * STAGE);
#pragma unroll
	for (int step = 0; step < STEPS; step++)
#pragma unroll
		for (int m = 0; m < M; m++)
			query[step][m] = __ldg(image + (step * M + m) * MAXSIM_WARPGROUP);

	const uint32_t end = cursor.end;

	for (uint32_t number = first_piece; number < end; number++)
	{
		const uint32_t ntokens = launch.pieces[number].ntokens;
		float best[M * 2];

#pragma unroll
		for (int i = 0; i < M * 2; i++)
			best[i] = -INFINITY;
		for (uint32_t first = 0; first < ntokens; first += TILE, tile++)
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
			fetch_tile(launch, cursor, stages + (tile + STAGES - 1) % STAGES * STAGE);
			multiply_wait<0>();
			take_maxima<M>(best, acc);
		}
		finish_piece<M>(launch, number, best, parts[number % 2]);
	}
	finish_range<M>(launch, first_piece, end - 1);
	copy_wait<0>();
#endif
}

template <class Operand, int M>
static cudaError_t
launch_rows(const MaxsimLaunch *launch, cudaStream_t stream)
{
	const int size = MEMORY + 2 * WARPS * (int) sizeof(float);

	if (launch == NULL)
		return cudaFuncSetAttribute(maxsim_rows_sm90a<Operand, M>, cudaFuncAttributeMaxDynamicSharedMemorySize, size);
	maxsim_rows_sm90a<Operand, M><<<launch->nranges, MAXSIM_WARPGROUP, size, stream>>>(*launch);
	return cudaGetLastError();
}

cudaError_t
maxsim_launch_rows(uint32_t block_tokens, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	if (format == MAXSIM_F16)
		return block_tokens == 64 ? launch_rows<__half, 1>(launch, stream) : launch_rows<__half, 2>(launch, stream);
	return block_tokens == 64 ? launch_rows<__nv_bfloat16, 1>(launch, stream) : launch_rows<__nv_bfloat16, 2>(launch, stream);
}
