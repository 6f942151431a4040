/*
 * kernel_mma.cuh
 *		MaxSim with mma.sync: the query in registers, documents streamed past it.
 *
 * A block of threads takes a piece of a document, or a cluster shares it.  Groups of
 * WARPS warps take tiles of document tokens in turn, each group through a ring of
 * its own that the copy engine fills (before compute capability 9.0: cp.async).  The
 * warps of a group split the dimension and exchange their sums through shared
 * memory; with one warp there is nothing to exchange.
 *
 * Query tokens are the rows of the product, document tokens its columns, so that a
 * running maximum is two registers for 16 query tokens.  The dimension is permuted:
 * a lane's 16 bytes of a document token are what it needs for two steps of 16
 * dimensions, and the query is laid out to match (query.cuh).  So shared memory
 * holds documents just as they lie in memory.
 *
 * Beyond a tile's last token the last one is repeated: that changes no maximum.
 */
#ifndef MAXSIM_KERNEL_MMA_CUH
#define MAXSIM_KERNEL_MMA_CUH

#include "finish.cuh"

/* How elements become operands. */
struct ElementF16
{
	typedef __half Operand;
	static const int SIZE = 2;
	static const int PLANES = 1;
};

struct ElementBf16
{
	typedef __nv_bfloat16 Operand;
	static const int SIZE = 2;
	static const int PLANES = 1;
};

struct ElementF32
{
	typedef __nv_bfloat16 Operand;
	static const int SIZE = 4;
	static const int PLANES = 3;
};

template <class E, int DIM, int EIGHTS_, int WARPS_, int STAGES_, int SIXTEENS_>
struct MmaShape
{
	typedef E Element;
	static const int WARPS = WARPS_;       /* in a group */
	static const int STAGES = STAGES_;     /* tiles in flight a group */
	static const int SIXTEENS = SIXTEENS_; /* of query tokens */
	static const int EIGHTS = EIGHTS_;     /* of document tokens in a tile */
	static const int TOKENS = SIXTEENS * 16;
	static const int TILE = EIGHTS * 8;
	static const int ROW = DIM * E::SIZE;
	static const int STAGE = TILE * ROW;
	static const int GROUPS = MAXSIM_MMA_GROUPS(WARPS);
	static const int GROUP_THREADS = WARPS * MAXSIM_WARP;
	static const int THREADS = GROUPS * GROUP_THREADS;
	static const int STEPS = DIM / WARPS / 16;                                  /* of 16 dimensions a warp */
	static const int UNITS = SIXTEENS * EIGHTS;                                 /* of 16 query by 8 document tokens */
	static const int OWN = WARPS == 1 ? SIXTEENS : (UNITS + WARPS - 1) / WARPS; /* running maxima, in pairs */
	static const int EXCHANGE = MAXSIM_MMA_EXCHANGE(EIGHTS, WARPS, SIXTEENS);
	static const int MEMORY = MAXSIM_MMA_MEMORY(ROW, EIGHTS, WARPS, STAGES, SIXTEENS);

	/* blocks that a multiprocessor can hold by registers: query, sums, addresses */
	static const int REGISTERS = STEPS * E::PLANES * SIXTEENS * 4 + UNITS * 4 + 40;
	static const int BLOCKS_ = 65536 / (THREADS * (REGISTERS <= 128 ? 128 : REGISTERS <= 168 ? 168
																							 : 255));
	static const int BLOCKS = BLOCKS_ < 1 ? 1 : BLOCKS_ > 4 ? 4
															: BLOCKS_;
	static_assert(DIM % (WARPS * 16) == 0 && (WARPS == 1 || E::PLANES == 3 || DIM / WARPS % 32 == 0), "no such split");
	static_assert(WARPS == 1 || WARPS >= EIGHTS, "a warp's units must differ in their query tokens");
};

/* Where a group gets its tiles from. */
struct MmaSource
{
	const char *tokens;
	uint32_t ntokens;
	uint32_t ring;     /* shared address */
	uint32_t barriers; /* shared address of the group's */
	uint64_t policy;   /* see cache_policy() */
};

template <class S>
__device__ __forceinline__ uint32_t
tokens_of_tile(const MmaSource &source, uint32_t tile)
{
	return min((uint32_t) S::TILE, source.ntokens - tile * S::TILE);
}

/* Starts to fetch a tile into a stage: one thread of the group, or all before 9.0. */
template <class S>
__device__ __forceinline__ void
fetch_tile(const MmaSource &source, uint32_t tile, uint32_t stage)
{
	const uint32_t bytes = tokens_of_tile<S>(source, tile) * S::ROW;
	const char *from = source.tokens + (size_t) tile * S::STAGE;
	const uint32_t to = source.ring + stage * S::STAGE;

#if __CUDA_ARCH__ >= 900
	const uint32_t barrier = source.barriers + stage * 8;

	mbarrier_expect(barrier, bytes);
	copy_bulk(to, from, bytes, barrier, source.policy);
#else
	for (uint32_t at = threadIdx.x % S::GROUP_THREADS * 16; at < bytes; at += S::GROUP_THREADS * 16)
		copy_16(to + at, from + at);
#endif
}

template <class S>
__device__ __forceinline__ void
group_barrier(uint32_t group)
{
	if (S::WARPS == 1)
		__syncwarp();
	else
		barrier_among(1 + group, S::GROUP_THREADS);
}

/* One step of 16 dimensions: every 16 query tokens by every 8 document tokens. */
template <class S>
__device__ __forceinline__ void
multiply_step(float acc[S::SIXTEENS][S::EIGHTS][4], const uint4 (*query)[S::SIXTEENS], int eight,
			  const uint32_t b0[], const uint32_t b1[])
{
	typename S::Element::Operand operand = {};

	/* the small products first, to lose the least */
#pragma unroll
	for (int order = 2 * (S::Element::PLANES == 3); order >= 0; order--)
#pragma unroll
		for (int plane = 0; plane <= order; plane++)
#pragma unroll
			for (int m = 0; m < S::SIXTEENS; m++)
				mma_16816(acc[m][eight], query[plane][m], b0[order - plane], b1[order - plane], operand);
}

/*
 * acc = query by the tile, over this warp's part of the dimension, whose first byte
 * in a row is offset.
 */
template <class S>
__device__ __forceinline__ void
multiply_tile(float acc[S::SIXTEENS][S::EIGHTS][4], const uint4 (*query)[S::Element::PLANES][S::SIXTEENS],
			  uint32_t tile, uint32_t ntokens)
{
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;
	const uint32_t part = threadIdx.x / MAXSIM_WARP % S::WARPS * (S::ROW / S::WARPS);
	uint32_t rows[S::EIGHTS];

#pragma unroll
	for (int n = 0; n < S::EIGHTS; n++)
	{
		rows[n] = tile + min(n * 8 + lane / 4, ntokens - 1) * S::ROW + part;
#pragma unroll
		for (int m = 0; m < S::SIXTEENS; m++)
			acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
	}
	if constexpr (S::Element::PLANES == 3)
	{
#pragma unroll
		for (int step = 0; step < S::STEPS; step++)
#pragma unroll
			for (int n = 0; n < S::EIGHTS; n++)
			{
				uint4 v = load_shared_16(rows[n] + step * 64 + lane % 4 * 16);
				uint32_t b0[3];
				uint32_t b1[3];

				split_pair(__uint_as_float(v.x), __uint_as_float(v.y), b0);
				split_pair(__uint_as_float(v.z), __uint_as_float(v.w), b1);
				multiply_step<S>(acc, query[step], n, b0, b1);
			}
	}
	else
	{
#pragma unroll
		for (int step = 0; step + 1 < S::STEPS; step += 2)
#pragma unroll
			for (int n = 0; n < S::EIGHTS; n++)
			{
				uint4 v = load_shared_16(rows[n] + step * 32 + lane % 4 * 16);

				multiply_step<S>(acc, query[step], n, &v.x, &v.y);
				multiply_step<S>(acc, query[step + 1], n, &v.z, &v.w);
			}
		if constexpr (S::STEPS % 2 == 1)
#pragma unroll
			for (int n = 0; n < S::EIGHTS; n++)
			{
				uint2 v = load_shared_8(rows[n] + (S::STEPS - 1) * 32 + lane % 4 * 8);

				multiply_step<S>(acc, query[S::STEPS - 1], n, &v.x, &v.y);
			}
	}
}

/* The running maxima of 16 x SIXTEENS query tokens in a warp that has whole sums. */
template <class S>
__device__ __forceinline__ void
take_maxima(float best[S::OWN][2], const float acc[S::SIXTEENS][S::EIGHTS][4])
{
#pragma unroll
	for (int m = 0; m < S::SIXTEENS; m++)
#pragma unroll
		for (int n = 0; n < S::EIGHTS; n++)
		{
			best[m][0] = fmaxf(best[m][0], fmaxf(acc[m][n][0], acc[m][n][1]));
			best[m][1] = fmaxf(best[m][1], fmaxf(acc[m][n][2], acc[m][n][3]));
		}
}

/* Puts this warp's sums where the group sees them; unit u of lane l at [u][l]. */
template <class S>
__device__ __forceinline__ void
put_sums(float4 *exchange, const float acc[S::SIXTEENS][S::EIGHTS][4])
{
	float4 *out = exchange + threadIdx.x / MAXSIM_WARP % S::WARPS * S::UNITS * MAXSIM_WARP + threadIdx.x % MAXSIM_WARP;

#pragma unroll
	for (int m = 0; m < S::SIXTEENS; m++)
#pragma unroll
		for (int n = 0; n < S::EIGHTS; n++)
			out[(m * S::EIGHTS + n) * MAXSIM_WARP] = make_float4(acc[m][n][0], acc[m][n][1], acc[m][n][2], acc[m][n][3]);
}

/* Adds up the sums of this warp's units and takes them into its running maxima. */
template <class S>
__device__ __forceinline__ void
take_exchanged(float best[S::OWN][2], const float4 *exchange)
{
	const uint32_t warp = threadIdx.x / MAXSIM_WARP % S::WARPS;
	const float4 *in = exchange + threadIdx.x % MAXSIM_WARP;

#pragma unroll
	for (int i = 0; i < S::OWN; i++)
	{
		uint32_t unit = warp + i * S::WARPS;
		float4 sum;

		if (unit >= S::UNITS)
			break;
		sum = in[unit * MAXSIM_WARP];
#pragma unroll
		for (int w = 1; w < S::WARPS; w++)
		{
			float4 v = in[(w * S::UNITS + unit) * MAXSIM_WARP];

			sum.x += v.x;
			sum.y += v.y;
			sum.z += v.z;
			sum.w += v.w;
		}
		best[i][0] = fmaxf(best[i][0], fmaxf(sum.x, sum.y));
		best[i][1] = fmaxf(best[i][1], fmaxf(sum.z, sum.w));
	}
}

/* The warp's maxima, in mine[TOKENS]. */
template <class S>
__device__ __forceinline__ void
put_maxima(float best[S::OWN][2], float *mine)
{
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;

	if (S::WARPS > 1)
	{
		for (int token = lane; token < S::TOKENS; token += MAXSIM_WARP)
			mine[token] = -INFINITY;
		__syncwarp();
	}
#pragma unroll
	for (int i = 0; i < S::OWN; i++)
	{
		uint32_t unit = threadIdx.x / MAXSIM_WARP % S::WARPS + i * S::WARPS;
		uint32_t sixteen = S::WARPS == 1 ? i : unit / S::EIGHTS;

#pragma unroll
		for (int half = 0; half < 2; half++)
		{
			best[i][half] = fmaxf(best[i][half], __shfl_xor_sync(MAXSIM_ALL_LANES, best[i][half], 1));
			best[i][half] = fmaxf(best[i][half], __shfl_xor_sync(MAXSIM_ALL_LANES, best[i][half], 2));
			if (lane % 4 == 0 && sixteen < S::SIXTEENS)
				mine[sixteen * 16 + half * 8 + lane / 4] = best[i][half];
		}
	}
}

/* The maxima over all warps of the block, of a lane's query tokens. */
template <class S>
__device__ __forceinline__ void
join_warps(float maxima[S::TOKENS / MAXSIM_WARP], const float (*by_warp)[S::TOKENS])
{
#pragma unroll
	for (int i = 0; i < S::TOKENS / MAXSIM_WARP; i++)
	{
		const int token = SumByLane<S::TOKENS>::token(i);

		maxima[i] = by_warp[0][token];
#pragma unroll
		for (int w = 1; w < S::THREADS / MAXSIM_WARP; w++)
			maxima[i] = fmaxf(maxima[i], by_warp[w][token]);
	}
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/* Where the first block of a cluster gets the maxima of the others. */
template <class S>
struct MmaCluster
{
	uint64_t barrier;
	float maxima[3][S::TOKENS];
};

/* By a block's first warp; only the first block then has the maxima over all. */
template <class S>
__device__ __forceinline__ void
join_cluster(float maxima[S::TOKENS / MAXSIM_WARP], uint32_t rank, uint32_t nranks, MmaCluster<S> *cluster)
{
	const uint32_t barrier = shared_address(&cluster->barrier);

	if (rank > 0)
	{
#pragma unroll
		for (int i = 0; i < S::TOKENS / MAXSIM_WARP; i++)
			store_remote(shared_address(&cluster->maxima[rank - 1][SumByLane<S::TOKENS>::token(i)]), barrier, 0, maxima[i]);
		return;
	}
	mbarrier_wait_remote(barrier);
#pragma unroll
	for (int i = 0; i < S::TOKENS / MAXSIM_WARP; i++)
		for (uint32_t r = 1; r < nranks; r++)
			maxima[i] = fmaxf(maxima[i], cluster->maxima[r - 1][SumByLane<S::TOKENS>::token(i)]);
}

#endif

template <class S>
__global__ void
__launch_bounds__(S::THREADS, S::BLOCKS)
	maxsim_mma(const __grid_constant__ MaxsimLaunch launch)
{
	extern __shared__ __align__(128) char memory[];
	__shared__ __align__(8) uint64_t barriers[S::GROUPS][S::STAGES];
	__shared__ float by_warp[S::THREADS / MAXSIM_WARP][S::TOKENS];
	__shared__ float weights[S::TOKENS];
	const uint32_t group = threadIdx.x / S::GROUP_THREADS;
	const bool leader = threadIdx.x % S::GROUP_THREADS == 0;
	float4 *exchange = (float4 *) (memory + S::GROUPS * S::STAGES * S::STAGE + group * S::EXCHANGE);
	uint4 query[S::STEPS][S::Element::PLANES][S::SIXTEENS];
	float best[S::OWN][2];
	float maxima[S::TOKENS / MAXSIM_WARP];
	uint32_t rank = 0;
	uint32_t nranks = 1;
	uint32_t number = blockIdx.x;

#if __CUDA_ARCH__ >= 900
	__shared__ MmaCluster<S> cluster;

	if (launch.cluster > 1)
	{
		rank = cluster_rank();
		nranks = launch.cluster;
		number = cluster_number();
	}
#endif
	const MaxsimPiece piece = launch.pieces[number];

#if __CUDA_ARCH__ >= 900
	if (leader)
	{
		for (int i = 0; i < S::STAGES; i++)
			mbarrier_init(shared_address(barriers[group] + i), 1);
		if (nranks > 1 && threadIdx.x == 0)
		{
			mbarrier_init(shared_address(&cluster.barrier), 1);
			mbarrier_expect(shared_address(&cluster.barrier), (nranks - 1) * S::TOKENS * sizeof(float));
		}
		mbarrier_init_fence();
	}
	if (nranks > 1)
	{
		__syncwarp();
		cluster_arrive();
	}
#endif

	const MmaSource source = {(const char *) piece.address, piece.ntokens,
							  shared_address(memory) + group * S::STAGES * S::STAGE,
							  shared_address(barriers[group]), cache_policy(launch.evict_first)};
	const uint32_t ntiles = (piece.ntokens + S::TILE - 1) / S::TILE;
	const uint32_t step = S::GROUPS * nranks;
	uint32_t tile = rank * S::GROUPS + group;

	/* the first tiles on their way */
#if __CUDA_ARCH__ >= 900
	if (leader)
	{
		for (uint32_t i = 0; i < S::STAGES && tile + i * step < ntiles; i++)
			fetch_tile<S>(source, tile + i * step, i);
	}
	group_barrier<S>(group);
#else
	for (uint32_t i = 0; i < S::STAGES; i++)
	{
		if (tile + i * step < ntiles)
			fetch_tile<S>(source, tile + i * step, i);
		copy_commit();
	}
#endif

	/* this warp's part of the query: [block][step][plane][sixteen][lane] */
	const uint4 *image = (const uint4 *) launch.image + threadIdx.x % MAXSIM_WARP +
						 ((size_t) blockIdx.y * S::WARPS + threadIdx.x / MAXSIM_WARP % S::WARPS) * S::STEPS *
							 (S::Element::PLANES * S::SIXTEENS * MAXSIM_WARP);
#pragma unroll
	for (int i = 0; i < S::STEPS; i++)
#pragma unroll
		for (int plane = 0; plane < S::Element::PLANES; plane++)
#pragma unroll
			for (int m = 0; m < S::SIXTEENS; m++)
				query[i][plane][m] = __ldg(image + ((i * S::Element::PLANES + plane) * S::SIXTEENS + m) * MAXSIM_WARP);

	/* for the block that takes this one's place */
	if (threadIdx.x == S::THREADS - 1 && number + launch.processors * S::BLOCKS < launch.npieces)
		prefetch_line(launch.pieces + number + launch.processors * S::BLOCKS);
	if (threadIdx.x < S::TOKENS)
		weights[threadIdx.x] = __ldg(launch.weights + blockIdx.y * S::TOKENS + threadIdx.x);
#pragma unroll
	for (int m = 0; m < S::OWN; m++)
		best[m][0] = best[m][1] = -INFINITY;

	for (uint32_t i = 0; tile < ntiles; i++, tile += step)
	{
		const uint32_t stage = i % S::STAGES;
		const uint32_t next = tile + S::STAGES * step;
		float acc[S::SIXTEENS][S::EIGHTS][4];

#if __CUDA_ARCH__ >= 900
		mbarrier_wait(source.barriers + stage * 8, i / S::STAGES % 2);
#else
		copy_wait<S::STAGES - 1>();
		group_barrier<S>(group);
#endif
		multiply_tile<S>(acc, query, source.ring + stage * S::STAGE, tokens_of_tile<S>(source, tile));

		/*
		 * A stage may be refilled only when every load from it has arrived, and a
		 * barrier alone does not wait for that.  The exchange of sums does, since
		 * they come of the loads.  With one warp, the maxima do: the comparison,
		 * always true, needs the products of all lanes.
		 */
		if constexpr (S::WARPS > 1)
		{
			float4 *half = exchange + i % 2 * (S::EXCHANGE / 2 / sizeof(float4));

			put_sums<S>(half, acc);
			group_barrier<S>(group);
			take_exchanged<S>(best, half);
		}
		else
		{
			take_maxima<S>(best, acc);
			__syncwarp();
		}
#if __CUDA_ARCH__ >= 900
		if (leader && next < ntiles && (S::WARPS > 1 || best[0][0] >= -INFINITY))
			fetch_tile<S>(source, next, stage);
#else
		if (next < ntiles && (S::WARPS > 1 || best[0][0] >= -INFINITY))
			fetch_tile<S>(source, next, stage);
		copy_commit();
#endif
	}

	put_maxima<S>(best, by_warp[threadIdx.x / MAXSIM_WARP]);
	__syncthreads();
#if __CUDA_ARCH__ >= 900
	if (nranks > 1)
		cluster_wait();
#endif
	if (threadIdx.x >= MAXSIM_WARP)
		return;
	join_warps<S>(maxima, by_warp);
#if __CUDA_ARCH__ >= 900
	if (nranks > 1)
		join_cluster<S>(maxima, rank, nranks, &cluster);
#endif
	if (rank == 0)
		finish_lanes<S::TOKENS>(launch, piece, blockIdx.y, maxima, weights);
}

template <class S>
static cudaError_t
launch_mma(const MaxsimLaunch *launch, cudaStream_t stream)
{
	cudaLaunchConfig_t config = {};
	cudaLaunchAttribute attribute = {};

	config.gridDim = dim3(launch->npieces * launch->cluster, launch->nblocks);
	config.blockDim = dim3(S::THREADS);
	config.dynamicSmemBytes = S::MEMORY;
	config.stream = stream;
	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = launch->cluster;
	attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
	config.attrs = &attribute;
	config.numAttrs = launch->cluster > 1 ? 1 : 0;
	return cudaLaunchKernelEx(&config, maxsim_mma<S>, *launch);
}

/* Lets the kernel have its shared memory, which also loads it. */
template <class S>
static cudaError_t
preload_mma(void)
{
	return cudaFuncSetAttribute(maxsim_mma<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::MEMORY);
}

#endif /* MAXSIM_KERNEL_MMA_CUH */
