/*
 * kernel_blocks.cu
 *		MaxSim with wgmma for more than 128 query tokens, dimension 128: compute
 *		capability 9.0a.
 *
 * A block of threads holds up to 512 query tokens in shared memory and walks its
 * range of pieces in tiles of 128 document tokens.  One warpgroup fetches tiles into
 * a ring of stages with cp.async, in the layout that wgmma wants; two multiply.  Each
 * of those has two sets of accumulators, so that the maximum over one is taken while
 * the other is being computed.  More query tokens are more blocks a range.
 */
#include "finish.cuh"
#include "wgmma.cuh"

#define TILE 128
#define SHORT_TILE 32 /* where a document's last tile has no more, as a page of 1,030 */
#define ROW 256       /* bytes of a token */
#define HALF (TILE * 128)
#define STAGE (2 * HALF)
#define STAGES 3
#define WARPS 8 /* that multiply */
#define THREADS (3 * MAXSIM_WARPGROUP)
#define QUERY(m) ((m) *128 * ROW) /* bytes of the query, m products of 128 */
#define SLOTS (STAGES + 1)        /* documents whose sums can be under way */

/* Shared memory behind the query and the stages. */
struct BlocksControl
{
	uint64_t query;
	uint64_t full[STAGES];
	uint64_t empty[STAGES];
	uint64_t summed[SLOTS];
	float parts[SLOTS][WARPS];
};

#define MEMORY(m) (QUERY(m) + STAGES * STAGE + sizeof(BlocksControl))

#if MAXSIM_HAS_WGMMA

/* A tile of 128 tokens from first on, by a warpgroup. */
static __device__ __forceinline__ void
fetch_tile(const MaxsimPiece &piece, uint32_t first, uint32_t stage)
{
	const uint32_t unit = threadIdx.x % 16;
	const uint32_t row = threadIdx.x % MAXSIM_WARPGROUP / 16;
	const char *from = (const char *) piece.address + unit * 16;
	const uint32_t to = stage + unit / 8 * HALF + place_unit(row, unit % 8);

#pragma unroll
	for (int i = 0; i < TILE / 8; i++)
		copy_16(to + i * 1024, from + (size_t) min(first + row + i * 8, piece.ntokens - 1) * ROW);
	copy_commit();
}

/* The warpgroup that fetches.  A tile is handed on when the next one is under way. */
static __device__ __forceinline__ void
fetch_range(const MaxsimLaunch &launch, uint32_t range, uint32_t stages, BlocksControl *control)
{
	const uint32_t end = launch.ranges[range + 1].first;
	uint32_t tile = 0;

	for (uint32_t number = launch.ranges[range].first; number < end; number++)
	{
		const MaxsimPiece piece = launch.pieces[number];

		for (uint32_t first = 0; first < piece.ntokens; first += TILE, tile++)
		{
			if (tile >= STAGES)
				mbarrier_wait(shared_address(&control->empty[tile % STAGES]), (tile / STAGES - 1) % 2);
			fetch_tile(piece, first, stages + tile % STAGES * STAGE);
			if (tile > 0)
			{
				copy_wait<1>();
				fence_async_proxy();
				mbarrier_arrive(shared_address(&control->full[(tile - 1) % STAGES]));
			}
		}
	}
	copy_wait<0>();
	fence_async_proxy();
	if (tile > 0)
		mbarrier_arrive(shared_address(&control->full[(tile - 1) % STAGES]));
}

/* Starts acc = 64 query tokens by the first N of a tile. */
template <class Operand, int M, int N>
static __device__ __forceinline__ void
multiply_tile(float acc[N / 2], uint64_t query, uint64_t tile)
{
	multiply_begin();
#pragma unroll
	for (int step = 0; step < 8; step++)
	{
		const uint64_t a = query + (step / 4 * (QUERY(M) / 2) + step % 4 * 32) / 16;
		const uint64_t b = tile + (step / 4 * HALF + step % 4 * 32) / 16;

		if constexpr (N == TILE)
			multiply_128_shared(acc, a, b, step > 0, Operand());
		else
			multiply_32_shared(acc, a, b, step > 0, Operand());
	}
	multiply_commit();
}

template <int N>
static __device__ __forceinline__ void
take_maxima(float best[2], const float acc[N / 2])
{
	float other[2] = {fmaxf(acc[4], acc[5]), fmaxf(acc[6], acc[7])};

	best[0] = fmaxf(best[0], fmaxf(acc[0], acc[1]));
	best[1] = fmaxf(best[1], fmaxf(acc[2], acc[3]));
#pragma unroll
	for (int i = 8; i < N / 2; i += 8)
	{
		best[0] = fmaxf(best[0], fmaxf(acc[i], acc[i + 1]));
		best[1] = fmaxf(best[1], fmaxf(acc[i + 2], acc[i + 3]));
		other[0] = fmaxf(other[0], fmaxf(acc[i + 4], acc[i + 5]));
		other[1] = fmaxf(other[1], fmaxf(acc[i + 6], acc[i + 7]));
	}
	best[0] = fmaxf(best[0], other[0]);
	best[1] = fmaxf(best[1], other[1]);
}

/* All of a warpgroup's query tokens by a stage, then lets the stage be refilled. */
template <class Operand, int M, int N>
static __device__ __forceinline__ void
take_stage(float best[M * 2], uint64_t query, uint64_t tile, uint64_t *empty)
{
	float acc[2][N / 2];

	multiply_tile<Operand, M, N>(acc[0], query, tile);
#pragma unroll
	for (int m = 1; m < M; m++)
	{
		multiply_tile<Operand, M, N>(acc[m % 2], query + m * 128 * 128 / 16, tile);
		multiply_wait<1>();
		take_maxima<N>(best + (m - 1) * 2, acc[(m - 1) % 2]);
	}
	multiply_wait<0>();
	if (threadIdx.x % MAXSIM_WARP == 0)
		mbarrier_arrive(shared_address(empty));
	take_maxima<N>(best + (M - 1) * 2, acc[(M - 1) % 2]);
}

/*
 * The warps' parts of a piece come together in the first warp.  A slot is free
 * again: the stage of this tile was refilled after the first warp had gone past the
 * piece that used the slot before.
 */
template <int M>
static __device__ __forceinline__ void
finish_piece(const MaxsimLaunch &launch, const MaxsimPiece &piece, uint32_t block, uint32_t turn, float best[M * 2],
			 BlocksControl *control)
{
	typedef SumByRow<M, WARPS> Summer;
	const int warp = threadIdx.x / MAXSIM_WARP - MAXSIM_WARPGROUP / MAXSIM_WARP;
	const int lane = threadIdx.x % MAXSIM_WARP;
	float *parts = control->parts[turn % SLOTS];
	const uint32_t summed = shared_address(&control->summed[turn % SLOTS]);

	join_lanes<M>(best);
	if (is_cut(piece))
		put_rows<M, WARPS>(maxima_of(launch, piece, block, M * 128), warp, best);
	else
	{
		float part = Summer::part(launch.weights + (size_t) block * M * 128, warp, best);

		if (lane == 0)
			parts[warp] = part;
	}
	__syncwarp();
	if (lane == 0)
		mbarrier_arrive(summed);
	if (warp > 0)
		return;
	mbarrier_wait(summed, turn / SLOTS % 2);
	if (is_cut(piece))
		finish_cut<Summer, M * 128>(launch, piece);
	else
	{
		float sum = parts[0];

#pragma unroll
		for (int w = 1; w < WARPS; w++)
			sum += parts[w];
		finish_whole<Summer, M * 128>(launch, piece, block, sum);
	}
}

/* A warpgroup that multiplies: every other 64 query tokens, from its own on. */
template <class Operand, int M>
static __device__ __forceinline__ void
multiply_range(const MaxsimLaunch &launch, uint32_t range, uint32_t block, uint32_t memory, BlocksControl *control)
{
	const uint32_t own = threadIdx.x / MAXSIM_WARPGROUP - 1;
	const uint64_t query = describe_rows(memory + own * 64 * 128);
	const uint32_t end = launch.ranges[range + 1].first;
	uint32_t tile = 0;
	uint32_t turn = 0;

	mbarrier_wait(shared_address(&control->query), 0);
	for (uint32_t number = launch.ranges[range].first; number < end; number++, turn++)
	{
		const MaxsimPiece piece = launch.pieces[number];
		float best[M * 2];

#pragma unroll
		for (int i = 0; i < M * 2; i++)
			best[i] = -INFINITY;
		for (uint32_t first = 0; first < piece.ntokens; first += TILE, tile++)
		{
			const uint32_t stage = tile % STAGES;
			const uint64_t b = describe_rows(memory + QUERY(M) + stage * STAGE);

			mbarrier_wait(shared_address(&control->full[stage]), tile / STAGES % 2);
			if (piece.ntokens - first > SHORT_TILE)
				take_stage<Operand, M, TILE>(best, query, b, &control->empty[stage]);
			else
				take_stage<Operand, M, SHORT_TILE>(best, query, b, &control->empty[stage]);
		}
		finish_piece<M>(launch, piece, block, turn, best, control);
	}
}

#endif

template <class Operand, int M>
static __global__ void
__launch_bounds__(THREADS, 1)
	maxsim_blocks_sm90a(const __grid_constant__ MaxsimLaunch launch)
{
#if MAXSIM_HAS_WGMMA
	extern __shared__ __align__(1024) char memory[];
	BlocksControl *control = (BlocksControl *) (memory + QUERY(M) + STAGES * STAGE);
	const uint32_t range = blockIdx.x % launch.nranges;
	const uint32_t block = blockIdx.x / launch.nranges;

	if (threadIdx.x == 0)
	{
		const uint32_t barrier = shared_address(&control->query);

		mbarrier_init(barrier, 1);
		for (int i = 0; i < STAGES; i++)
		{
			mbarrier_init(shared_address(&control->full[i]), MAXSIM_WARPGROUP);
			mbarrier_init(shared_address(&control->empty[i]), WARPS);
		}
		for (int i = 0; i < SLOTS; i++)
			mbarrier_init(shared_address(&control->summed[i]), WARPS);
		mbarrier_init_fence();
		mbarrier_expect(barrier, QUERY(M));
		for (int m = 0; m < M; m++)
			copy_bulk(shared_address(memory) + QUERY(m), (const char *) launch.image + (size_t) block * QUERY(M) + QUERY(m),
					  QUERY(1), barrier, 0);
	}
	__syncthreads();
	if (threadIdx.x < MAXSIM_WARPGROUP)
	{
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		fetch_range(launch, range, shared_address(memory) + QUERY(M), control);
	}
	else
	{
		asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
		multiply_range<Operand, M>(launch, range, block, shared_address(memory), control);
	}
#endif
}

template <class Operand, int M>
static cudaError_t
launch_blocks(const MaxsimLaunch *launch, cudaStream_t stream)
{
	if (launch == NULL)
		return cudaFuncSetAttribute(maxsim_blocks_sm90a<Operand, M>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) MEMORY(M));
	maxsim_blocks_sm90a<Operand, M><<<launch->nranges * launch->nblocks, THREADS, MEMORY(M), stream>>>(*launch);
	return cudaGetLastError();
}

cudaError_t
maxsim_launch_blocks(uint32_t block_tokens, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	switch (block_tokens)
	{
		case 256:
			return format == MAXSIM_F16 ? launch_blocks<__half, 2>(launch, stream) : launch_blocks<__nv_bfloat16, 2>(launch, stream);
		case 384:
			return format == MAXSIM_F16 ? launch_blocks<__half, 3>(launch, stream) : launch_blocks<__nv_bfloat16, 3>(launch, stream);
		case 512:
			return format == MAXSIM_F16 ? launch_blocks<__half, 4>(launch, stream) : launch_blocks<__nv_bfloat16, 4>(launch, stream);
		default:
			return cudaErrorInvalidValue;
	}
}
