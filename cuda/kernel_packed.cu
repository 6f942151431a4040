/*
 * kernel_packed.cu
 *		MaxSim for i8 and b1 with the tensor cores' integers.
 *
 * A warp takes a range of pieces of documents, in tiles of 16 document tokens
 * (packed_tile.cuh), through a ring of its own that the copy engine fills (before compute
 * capability 9.0: cp.async).  The block shares nothing but the query.  Where wgmma exists,
 * four warps multiply together, each its own documents; elsewhere mma.sync does the same,
 * warp by warp.
 *
 * Sums are exact.  A query token was divided by a power of two: a sum is multiplied by
 * the document token's scale and the largest of these powers, the maximum by what its
 * own is less than that.
 *
 * Beyond a piece's last token the last one is repeated: that changes no maximum.
 */
#include "packed_tile.cuh"
#include "range.cuh"

#include <type_traits>

#define TILE 16
#define SUM_BITS 32 /* sums are below two to that */
#define SLOTS 8     /* pieces that a warp knows of: what it fetches is less than that ahead */
#define GROUP_WARPS (MAXSIM_WARPGROUP / MAXSIM_WARP)

/* A warp's shared memory beside its ring. */
struct __align__(16) PackedWarp
{
	MaxsimPiece pieces[SLOTS]; /* by turns */
	MaxsimPiece ends[2];       /* the first two taken */
	uint64_t barriers[MAXSIM_PACKED_STAGES];
};

template <int N>
struct PackedControl
{
	PackedWarp warps[MAXSIM_PACKED_WARPS];
	float weights[N];
	int exponents[N]; /* of two, what a maximum is multiplied by */
	PackedPowers powers;
};

/* What is to be fetched next, the same in all lanes but for ahead. */
struct PackedCursor
{
	const char *from;
	uint32_t left; /* tokens of the piece, from there on */
	uint32_t turn; /* of the piece */
	uint4 ahead;   /* half of the next piece: even and odd lanes */
};

static __device__ __forceinline__ void
look_ahead(const MaxsimLaunch &launch, PieceRange range, uint32_t turn, PackedCursor &cursor)
{
	if (turn < range.npieces)
		cursor.ahead = __ldg((const uint4 *) piece_at(launch, range, turn) + threadIdx.x % 2);
}

/* Makes the piece that was looked ahead to the warp's turn-th. */
static __device__ __forceinline__ void
keep_piece(const PackedCursor &cursor, uint32_t turn, PackedWarp *own)
{
	if (threadIdx.x % MAXSIM_WARP < 2)
		((uint4 *) (own->pieces + turn % SLOTS))[threadIdx.x % 2] = cursor.ahead;
	__syncwarp();
}

/* Fetches the cursor's next tokens, if there are any, and moves on. */
static __device__ __forceinline__ void
fetch_stage(const MaxsimLaunch &launch, const PackedShape &shape, PieceRange range, PackedCursor &cursor,
			PackedWarp *own, uint32_t ring, uint32_t stage)
{
	if (cursor.turn < range.npieces)
	{
		const uint32_t n = min(cursor.left, shape.stage_tokens);
		const uint32_t bytes = (n * shape.row_size + 15) / 16 * 16;
		const uint32_t to = ring + stage * shape.stage_size;

#if __CUDA_ARCH__ >= 900
		if (threadIdx.x % MAXSIM_WARP == 0)
		{
			const uint32_t barrier = shared_address(own->barriers + stage);

			mbarrier_expect(barrier, bytes);
			copy_bulk(to, cursor.from, bytes, barrier, cache_policy(launch.evict_first));
		}
#else
		for (uint32_t at = threadIdx.x % MAXSIM_WARP * 16; at < bytes; at += MAXSIM_WARP * 16)
			copy_16(to + at, cursor.from + at);
#endif
		cursor.from += n * shape.row_size;
		cursor.left -= n;
		if (cursor.left == 0 && ++cursor.turn < range.npieces)
		{
			keep_piece(cursor, cursor.turn, own);
			cursor.from = (const char *) ((uint64_t) __shfl_sync(MAXSIM_ALL_LANES, cursor.ahead.y, 0) << 32 |
										  __shfl_sync(MAXSIM_ALL_LANES, cursor.ahead.x, 0));
			cursor.left = __shfl_sync(MAXSIM_ALL_LANES, cursor.ahead.z, 0);
			look_ahead(launch, range, cursor.turn + 1, cursor);
		}
	}
#if __CUDA_ARCH__ < 900
	copy_commit();
#endif
}

/* Until the oldest stage under way is there. */
static __device__ __forceinline__ void
wait_for_stage(const PackedShape &shape, const PackedWarp *own, uint32_t stage, uint32_t parity)
{
#if __CUDA_ARCH__ >= 900
	mbarrier_wait(shared_address(own->barriers + stage), parity);
#else
	if (shape.stages == MAXSIM_PACKED_STAGES)
		copy_wait<MAXSIM_PACKED_STAGES - 1>();
	else
		copy_wait<1>();
	__syncwarp();
#endif
}

/* The score of a piece; of one that is cut the maxima, to be added up at the end. */
template <class Best, int N>
static __device__ __forceinline__ void
finish_piece(const MaxsimLaunch &launch, const PackedControl<N> *control, const MaxsimPiece &piece, const Best best[N / 4])
{
	typedef SumByColumn<N> Summer;
	float maxima[Summer::COUNT];

#pragma unroll
	for (int i = 0; i < Summer::COUNT; i++)
		maxima[i] = scalbnf((float) join_columns(best + i * 8), control->exponents[Summer::token(i)]);
	if (is_cut(piece))
	{
		float *out = maxima_of(launch, piece, blockIdx.y, N);

#pragma unroll
		for (int i = 0; i < Summer::COUNT; i++)
			__stcg(out + Summer::token(i), maxima[i]);
	}
	else
		finish_whole<Summer, N>(launch, piece, blockIdx.y, Summer::sum(control->weights, maxima));
}

/* Starts to copy the query's image. */
static __device__ __forceinline__ void
fetch_image(const MaxsimLaunch &launch, uint32_t to, uint32_t size)
{
	const char *from = (const char *) launch.image + (size_t) blockIdx.y * size;

#pragma unroll 1
	for (uint32_t at = threadIdx.x * 16; at < size; at += blockDim.x * 16)
		copy_16(to + at, from + at);
	copy_commit();
}

/* The query's exponents and weights, of a lane's tokens. */
template <int N>
struct PackedQuery
{
	int exponents[N / MAXSIM_WARP];
	float weights[N / MAXSIM_WARP];
};

/* Starts to load them. */
template <int N>
static __device__ __forceinline__ void
load_query(const MaxsimLaunch &launch, const PackedShape &shape, PackedQuery<N> &query)
{
	const size_t first = (size_t) blockIdx.y * N + threadIdx.x % MAXSIM_WARP;
	const int32_t *exponents = (const int32_t *) ((const char *) launch.image + (size_t) launch.nblocks * shape.chunks * (2 * N * ROW));

#pragma unroll
	for (int i = 0; i < N / MAXSIM_WARP; i++)
	{
		query.exponents[i] = __ldg(exponents + first + i * MAXSIM_WARP);
		query.weights[i] = __ldg(launch.weights + first + i * MAXSIM_WARP);
	}
}

/* Makes of them what the block needs, by one warp; SCALED: documents have scales. */
template <bool SCALED, int N>
static __device__ __forceinline__ void
prepare_query(const PackedQuery<N> &query, PackedControl<N> *control)
{
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;
	int most = 6; /* documents are 64 and -64 */

	if (SCALED)
	{
		most = query.exponents[0];
#pragma unroll
		for (int i = 1; i < N / MAXSIM_WARP; i++)
			most = max(most, query.exponents[i]);
#pragma unroll
		for (int mask = 16; mask > 0; mask /= 2)
			most = max(most, __shfl_xor_sync(MAXSIM_ALL_LANES, most, mask));
		most -= MAXSIM_PACKED_BITS - 1;
	}
	if (lane == 0)
		control->powers.whole = scalbnf(1, most);
	if (lane < 2)
	{
		const int first = most / 2 + (lane == 0 ? SUM_BITS : -SUM_BITS);

		control->powers.parts[lane][0] = scalbnf(1, first);
		control->powers.parts[lane][1] = scalbnf(1, most - first);
	}
#pragma unroll
	for (int i = 0; i < N / MAXSIM_WARP; i++)
	{
		control->exponents[i * MAXSIM_WARP + lane] = query.exponents[i] - (MAXSIM_PACKED_BITS - 1) - most;
		control->weights[i * MAXSIM_WARP + lane] = query.weights[i];
	}
}

/* The number of a warp's range: neighbours in order lie in different blocks. */
static __device__ __forceinline__ uint32_t
range_of(uint32_t warp)
{
	return warp * gridDim.x + blockIdx.x;
}

/*
 * How often the loop goes round: once for each tile; where warps multiply together, as
 * often for each of them.
 */
static __device__ __forceinline__ uint32_t
count_turns(const MaxsimLaunch &launch, uint32_t warp, uint32_t ntiles)
{
#if MAXSIM_HAS_WGMMA
	const uint32_t other = range_of(warp / GROUP_WARPS * GROUP_WARPS + threadIdx.x % GROUP_WARPS);
	uint32_t most = other < launch.nranges ? __ldg(&launch.ranges[other].ntiles) : 0;

#pragma unroll
	for (int mask = GROUP_WARPS / 2; mask > 0; mask /= 2)
		most = max(most, __shfl_xor_sync(MAXSIM_ALL_LANES, most, mask));
	return most;
#else
	return ntiles;
#endif
}

template <class P, int N>
static __global__ void
__launch_bounds__(MAXSIM_PACKED_WARPS_OF(N) * MAXSIM_WARP, 1)
	maxsim_packed(const __grid_constant__ MaxsimLaunch launch, const __grid_constant__ PackedShape shape)
{
	extern __shared__ __align__(1024) char memory[];
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;
	const uint32_t warp = __shfl_sync(MAXSIM_ALL_LANES, threadIdx.x / MAXSIM_WARP, 0); /* in a uniform register */
	const uint32_t number = range_of(warp);
	const uint32_t image = shared_address(memory);
	const uint32_t image_size = shape.chunks * (2 * N * ROW);
	const uint32_t ring_size = shape.stages * shape.stage_size;
	const uint32_t ring = image + image_size + warp * ring_size;
	PackedControl<N> *control = (PackedControl<N> *) (memory + image_size + blockDim.x / MAXSIM_WARP * ring_size);
	PackedWarp *own = control->warps + warp;
	PieceRange range = {0, 0};
	PackedCursor cursor = {NULL, 0, 0, {0, 0, 0, 0}};
	uint32_t ntiles = 0;

	PackedQuery<N> query;

	/* all that does not wait for anything, then the first tokens, on their way */
	fetch_image(launch, image, image_size);
	if (warp == 0)
		load_query(launch, shape, query);
#if __CUDA_ARCH__ >= 900
	if (lane == 0)
	{
#pragma unroll 1
		for (uint32_t i = 0; i < shape.stages; i++)
			mbarrier_init(shared_address(own->barriers + i), 1);
		mbarrier_init_fence();
	}
	__syncwarp();
#endif
	if (number < launch.nranges)
	{
		const MaxsimRange start = launch.ranges[number];

		range = {start.first, launch.ranges[number + 1].first - start.first};
		ntiles = start.ntiles;
		cursor.from = (const char *) start.address;
		cursor.left = start.ntokens;
		look_ahead(launch, range, 1, cursor);
		fetch_stage(launch, shape, range, cursor, own, ring, 0);
		if (lane < 2)
			((uint4 *) own->pieces)[lane] = __ldg((const uint4 *) (launch.pieces + range.first) + lane);
	}
	const uint32_t nturns = count_turns(launch, warp, ntiles);

	if (warp == 0)
		prepare_query<std::is_same<typename P::Best, float>::value, N>(query, control);
#pragma unroll 1
	for (uint32_t i = 1; i < shape.stages; i++)
		fetch_stage(launch, shape, range, cursor, own, ring, i);
	copy_wait<0>();
#if MAXSIM_HAS_WGMMA
	fence_async_proxy();
#endif
	__syncthreads();

	uint32_t turn = 0;    /* of the piece */
	uint32_t left = 0;    /* its tokens from the stage's first on */
	uint32_t ntokens = 1; /* the stage's */
	uint32_t at = 0;      /* the tile's first token in the stage */
	uint32_t stage = 0;
	uint32_t parity = 0;
	typename P::Best best[N / 4];

	for (uint32_t i = 0; i < nturns; i++)
	{
		uint32_t rows[2];
		int sums[N / 2];

		/* a warp whose range has ended goes on for the others' sake */
		if (i < ntiles && at == 0)
		{
			if (left == 0)
			{
				left = own->pieces[turn % SLOTS].ntokens;
#pragma unroll
				for (int j = 0; j < N / 4; j++)
					clear_best(best[j]);
			}
			ntokens = min(left, shape.stage_tokens);
			wait_for_stage(shape, own, stage, parity);
		}
#pragma unroll
		for (int j = 0; j < 2; j++)
			rows[j] = ring + stage * shape.stage_size + min(at + j * 8 + lane / 4, ntokens - 1) * shape.row_size;
		multiply_tile<P, N>(sums, rows, image, shape);
		if (i >= ntiles)
			continue;
		take_maxima<N>(best, sums, rows, control->powers);
		at += TILE;
		if (at < ntokens)
			continue;

		/*
		 * A stage may be refilled only when every load from it has arrived: the
		 * products of all rows were waited for, and so were the scales.
		 */
		at = 0;
		left -= ntokens;
		const MaxsimPiece piece = own->pieces[turn % SLOTS];

		__syncwarp();
		fetch_stage(launch, shape, range, cursor, own, ring, stage);
		if (++stage == shape.stages)
		{
			stage = 0;
			parity ^= 1;
		}
		if (left > 0)
			continue;
		if (turn < 2 && lane == 0)
			own->ends[turn] = piece;
		finish_piece<typename P::Best, N>(launch, control, piece, best);
		turn++;
	}
	finish_cuts<SumByColumn<N>, N>(launch, own->ends, min(range.npieces, 2u));
#if __CUDA_ARCH__ < 900
	copy_wait<0>();
#endif
}

template <class P, int N>
static cudaError_t
launch_packed(const MaxsimQueryPlan *plan, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	static_assert(sizeof(PackedControl<N>) <= MAXSIM_PACKED_CONTROL, "the plan reckons with less");
	const uint32_t row_size = (uint32_t) maxsim_row_size(format, launch->dim);
	const PackedShape shape = {row_size,
							   plan->depth / ROW,
							   plan->stages,
							   plan->stage_tokens,
							   maxsim_plan_stage_size(plan->stage_tokens, row_size),
							   0xc0c0c0c0};
	const uint32_t nblocks = launch->nranges < launch->processors ? launch->nranges : launch->processors;
	const size_t size = shape.chunks * (2 * N * ROW) + plan->warps * shape.stages * shape.stage_size + sizeof(PackedControl<N>);
	cudaError_t status = cudaFuncSetAttribute(maxsim_packed<P, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) size);

	if (status != cudaSuccess)
		return status;
	maxsim_packed<P, N><<<dim3(nblocks, launch->nblocks), plan->warps * MAXSIM_WARP, size, stream>>>(*launch, shape);
	return cudaGetLastError();
}

template <class P>
static cudaError_t
launch_steps(const MaxsimQueryPlan *plan, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	switch (plan->block_tokens)
	{
		case 32:
			return launch_packed<P, 32>(plan, format, launch, stream);
		case 64:
			return launch_packed<P, 64>(plan, format, launch, stream);
		case 128:
			return launch_packed<P, 128>(plan, format, launch, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

cudaError_t
maxsim_launch_packed(const MaxsimQueryPlan *plan, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	const uint32_t steps = maxsim_plan_steps(format, launch->dim);

	if (format == MAXSIM_I8 && steps == 2)
		return launch_steps<PackedI8<2>>(plan, format, launch, stream);
	if (format == MAXSIM_I8 && steps == 3)
		return launch_steps<PackedI8<3>>(plan, format, launch, stream);
	if (format == MAXSIM_I8 && steps == 4)
		return launch_steps<PackedI8<4>>(plan, format, launch, stream);
	if (format == MAXSIM_B1 && steps == 2)
		return launch_steps<PackedB1<2>>(plan, format, launch, stream);
	if (format == MAXSIM_B1 && steps == 4)
		return launch_steps<PackedB1<4>>(plan, format, launch, stream);
	return cudaErrorInvalidValue;
}

/* Loads the kernels, so that the first batch does not wait for that. */
template <class P>
static cudaError_t
preload_steps(void)
{
	cudaFuncAttributes attributes;
	cudaError_t status = cudaFuncGetAttributes(&attributes, maxsim_packed<P, 32>);

	if (status == cudaSuccess)
		status = cudaFuncGetAttributes(&attributes, maxsim_packed<P, 64>);
	if (status == cudaSuccess)
		status = cudaFuncGetAttributes(&attributes, maxsim_packed<P, 128>);
	return status;
}

cudaError_t
maxsim_preload_packed(void)
{
	cudaError_t status = preload_steps<PackedI8<2>>();

	if (status == cudaSuccess)
		status = preload_steps<PackedI8<3>>();
	if (status == cudaSuccess)
		status = preload_steps<PackedI8<4>>();
	if (status == cudaSuccess)
		status = preload_steps<PackedB1<2>>();
	if (status == cudaSuccess)
		status = preload_steps<PackedB1<4>>();
	return status;
}
