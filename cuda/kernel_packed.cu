/*
 * kernel_packed.cu
 *		MaxSim for i8 and b1 with the tensor cores' integers.
 *
 * A warp takes a range of pieces of documents, in tiles of 16 document tokens, through
 * a ring of its own that the copy engine fills (before compute capability 9.0:
 * cp.async).  Document tokens are the rows of the product, from registers: i8 as it is,
 * b1 as 64 and -64.  Query tokens are its columns, from an image in shared memory that
 * the block shares: each twice, since a component is two int8.  Where wgmma exists,
 * four warps multiply together, each its own documents; elsewhere mma.sync does the
 * same, warp by warp.
 *
 * The dimension is permuted so that what a lane needs of a row lies together, and the
 * query laid out to match (kernel_query.cu).  What is read beyond a row meets zeros.
 *
 * Sums are exact.  A query token was divided by a power of two: a sum is multiplied by
 * the document token's scale and the largest of these powers, the maximum by what its
 * own is less than that.
 *
 * Beyond a piece's last token the last one is repeated: that changes no maximum.
 */
#include "finish.cuh"
#include "wgmma.cuh"

#include <float.h>
#include <limits.h>
#include <type_traits>

#define UNIT 64 /* dimensions of 128 bytes of the query's image */
#define TILE 16
#define ROW 128     /* bytes of a query token's chunk in the image */
#define SUM_BITS 32 /* sums are below two to that */
#define SLOTS 8 /* pieces that a warp knows of: what it fetches is less than that ahead */
#define GROUP_WARPS (MAXSIM_WARPGROUP / MAXSIM_WARP)

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

	/*
	 * Two powers of two for scales below 1, and two for others, that come to the same:
	 * the first for the scale, the second for what a sum then is, so that neither of
	 * these leaves float32's range unless their product does.
	 */
	float powers[2][2];
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

/* Running maxima of a lane's columns, [N / 8][2], over its two rows; i8 by their scales. */
template <int N>
static __device__ __forceinline__ void
take_maxima(float best[N / 4], const int sums[N / 2], const uint32_t rows[2], const float powers[2][2])
{
	float factors[2][2];

#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		const float scale = __uint_as_float(load_shared_4(rows[i]));
		const bool large = scale >= 1;

		factors[i][0] = fminf(scale * powers[large][0], FLT_MAX);
		factors[i][1] = powers[large][1];
	}
#pragma unroll
	for (int i = 0; i < N / 4; i++)
	{
		const float first = (float) sums[i / 2 * 4 + i % 2] * factors[0][0] * factors[0][1];
		const float second = (float) sums[i / 2 * 4 + 2 + i % 2] * factors[1][0] * factors[1][1];

		best[i] = fmaxf(best[i], fmaxf(first, second));
	}
}

template <int N>
static __device__ __forceinline__ void
take_maxima(int best[N / 4], const int sums[N / 2], const uint32_t[2], const float[2][2])
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
		float sum = 0;

#pragma unroll
		for (int i = 0; i < COUNT; i++)
			sum = fmaf(weights[token(i)], maxima[i], sum);
		return sum_lanes(sum);
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

/* A warp's pieces. */
struct PackedRange
{
	uint32_t first;
	uint32_t npieces;
};

/*
 * The order in which a range's pieces are taken: the first and the last, which can be
 * cut, before all others, so that their maxima have long arrived when they are added up.
 */
static __device__ __forceinline__ const MaxsimPiece *
piece_at(const MaxsimLaunch &launch, PackedRange range, uint32_t turn)
{
	return launch.pieces + range.first + (turn == 0 ? 0 : turn == 1 ? range.npieces - 1
																	: turn - 1);
}

/* What is to be fetched next, the same in all lanes but for ahead. */
struct PackedCursor
{
	const char *from;
	uint32_t left; /* tokens of the piece, from there on */
	uint32_t turn; /* of the piece */
	uint4 ahead;   /* half of the next piece: even and odd lanes */
};

static __device__ __forceinline__ void
look_ahead(const MaxsimLaunch &launch, PackedRange range, uint32_t turn, PackedCursor &cursor)
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
fetch_stage(const MaxsimLaunch &launch, const PackedShape &shape, PackedRange range, PackedCursor &cursor,
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
	if (lane < 2)
	{
		const int first = most / 2 + (lane == 0 ? SUM_BITS : -SUM_BITS);

		control->powers[lane][0] = scalbnf(1, first);
		control->powers[lane][1] = scalbnf(1, most - first);
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
	PackedRange range = {0, 0};
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
