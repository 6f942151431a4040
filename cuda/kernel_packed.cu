/*
 * kernel_packed.cu
 *		MaxSim for i8 and b1, which become f16 on their way from shared memory into
 *		registers.
 *
 * A warp takes a range of pieces of documents, in tiles of 16 document tokens, through
 * a ring of its own that the copy engine fills (before compute capability 9.0:
 * cp.async).  Document tokens are the rows of the product, from registers; query tokens
 * are its columns, from an image in shared memory that the block shares.  Where wgmma
 * exists, four warps multiply together, each its own documents; elsewhere mma.sync
 * does the same, warp by warp.
 *
 * The dimension is permuted so that what a lane needs of a row lies together: four
 * bytes of i8 for a step of 16 dimensions; one byte of each of two words of b1 for four
 * steps.  The query's image is laid out to match (kernel_query.cu).
 *
 * A query token is divided by a power of two (kernel_query.cu).  A sum is multiplied
 * by the document token's scale and the largest of these powers, the maximum by what
 * its own is less than that.
 *
 * Beyond a piece's last token the last one is repeated: that changes no maximum.
 */
#include "finish.cuh"
#include "wgmma.cuh"

#include <float.h>

#define TILE 16
#define UNIT 64 /* dimensions of 128 bytes of the query's image */
#define SUM_BITS 20 /* a sum, of components below 2 and 128, is below 2 to that, if a row fits shared memory */
#define SLOTS 8 /* pieces that a warp knows of: what it fetches is less than that ahead */
#define GROUP_WARPS (MAXSIM_WARPGROUP / MAXSIM_WARP)

/* What a launch is given beside MaxsimLaunch. */
struct PackedShape
{
	uint32_t row_size;
	uint32_t units;  /* of the query's image */
	uint32_t chunks; /* the dimension is multiplied in so many parts */
	uint32_t stages;
	uint32_t stage_tokens;
	uint32_t stage_size; /* bytes */

	/*
	 * Minus one in f16, twice: read from here, it stays in a register.  The compiler
	 * makes two instructions of one with two constants.
	 */
	uint32_t minus_ones;
};

/* A warp's shared memory beside its ring. */
struct __align__(16) PackedWarp
{
	MaxsimPiece pieces[SLOTS]; /* by turns */
	MaxsimPiece ends[2];       /* the first two taken */
	uint64_t barriers[MAXSIM_PACKED_STAGES];
	uint32_t ntiles;
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

/* Takes rows of i8: CHUNK dimensions at a time, in steps of 16. */
template <int CHUNK_>
struct PackedI8
{
	static const int CHUNK = CHUNK_;
	static const int STEPS = CHUNK / 16;
	static const bool SCALED = true;

	struct Words
	{
		uint32_t word[STEPS];
	};

	/* What this lane needs of a row's chunk; at is the row's shared address. */
	static __device__ __forceinline__ void
	load(Words &words, uint32_t at, uint32_t chunk)
	{
		at += 4 + chunk * CHUNK + threadIdx.x % 4 * (STEPS * 4);
#pragma unroll
		for (int step = 0; step < STEPS; step++)
			words.word[step] = load_shared_4(at + step * 4);
	}

	/* 1,024 + 128 + n is a number that f16 holds with n in its last bits. */
	static __device__ __forceinline__ uint32_t
	to_f16(uint32_t offset, uint32_t selector)
	{
		const uint32_t bits = __byte_perm(offset, 0x64646464, selector);
		const uint32_t base = 0x64806480;
		const __half2 pair = __hsub2(*reinterpret_cast<const __half2 *>(&bits), *reinterpret_cast<const __half2 *>(&base));

		return *reinterpret_cast<const uint32_t *>(&pair);
	}

	/* Two pairs of a row for a step. */
	static __device__ __forceinline__ uint2
	expand(const Words &words, int step, uint32_t)
	{
		const uint32_t offset = words.word[step] ^ 0x80808080;

		return uint2{to_f16(offset, 0x4140), to_f16(offset, 0x4342)};
	}
};

/* The same for b1: a bit's place in a pair of f16 is that of the signs. */
template <int CHUNK_>
struct PackedB1
{
	static const int CHUNK = CHUNK_;
	static const int STEPS = CHUNK / 16;
	static const int WHOLE = CHUNK / 64; /* of four steps, from two words of a row */
	static const bool SCALED = false;

	struct Words
	{
		uint32_t word[WHOLE + (CHUNK % 64 != 0)];
	};

	/* This lane's byte of each word; of a last one alone its halves, too, where pairs want them. */
	static __device__ __forceinline__ void
	load(Words &words, uint32_t at, uint32_t chunk)
	{
		const uint32_t selector = threadIdx.x % 4 * 0x1111 + 0x4400;

		at += chunk * (CHUNK / 8);
		if constexpr (CHUNK == 128)
		{
			const uint4 v = load_shared_16(at);

			words.word[0] = __byte_perm(v.x, v.y, selector);
			words.word[1] = __byte_perm(v.z, v.w, selector);
		}
		else if constexpr (CHUNK == 64)
		{
			const uint2 v = load_shared_8(at);

			words.word[0] = __byte_perm(v.x, v.y, selector);
		}
		else
		{
			words.word[0] = __byte_perm(load_shared_4(at), load_shared_4(at + 4), selector);
			words.word[WHOLE] = __byte_perm(load_shared_4(at + WHOLE * 8), 0, threadIdx.x % 4 + 0x4440) * (1u << 8 | 1u << 28);
		}
	}

	/* 1 where the bit is set, which is then the sign bit of minus one turned. */
	static __device__ __forceinline__ uint2
	expand(const Words &words, int step, uint32_t minus_ones)
	{
		const uint32_t word = words.word[step / 4] << step % 4 * 2;

		return uint2{(word & 0x80008000) ^ minus_ones, (word << 1 & 0x80008000) ^ minus_ones};
	}
};

/*
 * acc = 16 document tokens by N query tokens, or with add acc += that; a has the
 * documents' f16 of a step, whose part of the image is the unit's step-th.
 */
template <int N>
static __device__ __forceinline__ void
multiply_step(float acc[N / 2], const uint4 &a, uint32_t unit, uint32_t step, bool add)
{
#if MAXSIM_HAS_WGMMA
	multiply_registers<N>(acc, a, describe_rows(unit) + step * 2, add);
#else
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;

#pragma unroll
	for (int n = 0; n < N / 8; n++)
	{
		const uint32_t row = unit + n * 1024;
		const uint32_t b0 = load_shared_4(row + place_unit(lane / 4, step * 2) + lane % 4 * 4);
		const uint32_t b1 = load_shared_4(row + place_unit(lane / 4, step * 2 + 1) + lane % 4 * 4);

		if (!add)
			acc[n * 4] = acc[n * 4 + 1] = acc[n * 4 + 2] = acc[n * 4 + 3] = 0;
		mma_16816(acc + n * 4, a, b0, b1, __half());
	}
#endif
}

/* acc = two rows' chunk by the query tokens; rows are shared addresses. */
template <class P, int N>
static __device__ __forceinline__ void
multiply_chunk(float acc[N / 2], const uint32_t rows[2], uint32_t image, uint32_t chunk, uint32_t minus_ones)
{
	const uint32_t units = (P::CHUNK + UNIT - 1) / UNIT;
	typename P::Words words[2];

	image += chunk * units * (N * 128);
	P::load(words[0], rows[0], chunk);
	P::load(words[1], rows[1], chunk);
#pragma unroll
	for (int half = 0; half < 2; half++)
	{
		const int begin = half == 0 ? 0 : (P::STEPS + 1) / 2;
		const int end = half == 0 ? (P::STEPS + 1) / 2 : P::STEPS;
		uint4 a[(P::STEPS + 1) / 2];

#pragma unroll
		for (int step = begin; step < end; step++)
		{
			const uint2 first = P::expand(words[0], step, minus_ones);
			const uint2 second = P::expand(words[1], step, minus_ones);

			a[step - begin] = uint4{first.x, second.x, first.y, second.y};
		}
#if MAXSIM_HAS_WGMMA
		multiply_begin();
#endif
#pragma unroll
		for (int step = begin; step < end; step++)
			multiply_step<N>(acc, a[step - begin], image + step / 4 * (N * 128), step % 4, step > 0);
#if MAXSIM_HAS_WGMMA
		multiply_commit();
#endif
	}
#if MAXSIM_HAS_WGMMA
	multiply_wait<0>();
#endif
}

/* sums = two rows by the query tokens. */
template <class P, int N>
static __device__ __forceinline__ void
multiply_tile(float sums[N / 2], const uint32_t rows[2], uint32_t image, const PackedShape &shape)
{
	multiply_chunk<P, N>(sums, rows, image, 0, shape.minus_ones);

	/* the tensor cores cut off what they add, so they add but a little */
	if constexpr (N <= MAXSIM_PACKED_DEEP)
		for (uint32_t chunk = 1; chunk < shape.chunks; chunk++)
		{
			float acc[N / 2];

			multiply_chunk<P, N>(acc, rows, image, chunk, shape.minus_ones);
#pragma unroll
			for (int i = 0; i < N / 2; i++)
				sums[i] += acc[i];
		}
}

/* Running maxima of a lane's columns, [N / 8][2]. */
template <int N>
static __device__ __forceinline__ void
take_maxima(float best[N / 4], const float sums[N / 2])
{
#pragma unroll
	for (int i = 0; i < N / 4; i++)
		best[i] = fmaxf(best[i], fmaxf(sums[i / 2 * 4 + i % 2], sums[i / 2 * 4 + 2 + i % 2]));
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
static __device__ __forceinline__ float
join_columns(const float best[8])
{
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;
	float kept[8];

#pragma unroll
	for (int i = 0; i < 8; i++)
		kept[i] = best[i];
#pragma unroll
	for (int half = 4; half > 0; half /= 2)
#pragma unroll
		for (int i = 0; i < half; i++)
		{
			const bool upper = lane & half * 4;
			const float other = __shfl_xor_sync(MAXSIM_ALL_LANES, upper ? kept[i] : kept[half + i], half * 4);

			kept[i] = fmaxf(upper ? kept[half + i] : kept[i], other);
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
template <int N>
static __device__ __forceinline__ void
finish_piece(const MaxsimLaunch &launch, const PackedControl<N> *control, const MaxsimPiece &piece, const float best[N / 4])
{
	typedef SumByColumn<N> Summer;
	float maxima[Summer::COUNT];

#pragma unroll
	for (int i = 0; i < Summer::COUNT; i++)
		maxima[i] = scalbnf(join_columns(best + i * 8), control->exponents[Summer::token(i)]);
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

/* The query's weights and powers, by one warp. */
template <class P, int N>
static __device__ __forceinline__ void
prepare_query(const MaxsimLaunch &launch, const PackedShape &shape, PackedControl<N> *control)
{
	const uint32_t lane = threadIdx.x % MAXSIM_WARP;
	const int32_t *from = (const int32_t *) ((const char *) launch.image + (size_t) launch.nblocks * shape.units * (N * 128));
	int exponents[N / MAXSIM_WARP];
	float largest = MAXSIM_NO_EXPONENT;
	int most = 0;

#pragma unroll
	for (int i = 0; i < N / MAXSIM_WARP; i++)
	{
		exponents[i] = __ldg(from + (size_t) blockIdx.y * N + i * MAXSIM_WARP + lane);
		largest = fmaxf(largest, (float) exponents[i]);
	}
	if (P::SCALED)
	{
#pragma unroll
		for (int mask = 16; mask > 0; mask /= 2)
			largest = fmaxf(largest, __shfl_xor_sync(MAXSIM_ALL_LANES, largest, mask));
		most = (int) largest;
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
		control->exponents[i * MAXSIM_WARP + lane] = exponents[i] - most;
		control->weights[i * MAXSIM_WARP + lane] = __ldg(launch.weights + (size_t) blockIdx.y * N + i * MAXSIM_WARP + lane);
	}
}

/* Tiles of a range, by a warp. */
static __device__ __forceinline__ uint32_t
count_tiles(const MaxsimLaunch &launch, PackedRange range)
{
	uint32_t n = 0;

#pragma unroll 1
	for (uint32_t i = threadIdx.x % MAXSIM_WARP; i < range.npieces; i += MAXSIM_WARP)
		n += (__ldg(&launch.pieces[range.first + i].ntokens) + TILE - 1) / TILE;
#pragma unroll
	for (int mask = 16; mask > 0; mask /= 2)
		n += __shfl_xor_sync(MAXSIM_ALL_LANES, n, mask);
	return n;
}

/* How often the loop goes round: where warps multiply together, as often for each. */
static __device__ __forceinline__ uint32_t
count_turns(const PackedWarp *warps, uint32_t warp)
{
#if MAXSIM_HAS_WGMMA
	uint32_t most = 0;

	for (uint32_t i = 0; i < GROUP_WARPS; i++)
		most = max(most, warps[warp / GROUP_WARPS * GROUP_WARPS + i].ntiles);
	return most;
#else
	return warps[warp].ntiles;
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
	const uint32_t number = warp * gridDim.x + blockIdx.x;
	const uint32_t image = shared_address(memory);
	const uint32_t image_size = shape.units * (N * 128);
	const uint32_t ring_size = shape.stages * shape.stage_size;
	const uint32_t ring = image + image_size + warp * ring_size;
	PackedControl<N> *control = (PackedControl<N> *) (memory + image_size + blockDim.x / MAXSIM_WARP * ring_size);
	PackedWarp *own = control->warps + warp;
	PackedRange range = {0, 0};
	PackedCursor cursor = {NULL, 0, 0, {0, 0, 0, 0}};

	/* the first tokens on their way */
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
		cursor.from = (const char *) start.address;
		cursor.left = start.ntokens;
		look_ahead(launch, range, 0, cursor);
		keep_piece(cursor, 0, own);
		look_ahead(launch, range, 1, cursor);
	}
#pragma unroll 1
	for (uint32_t i = 0; i < shape.stages; i++)
		fetch_stage(launch, shape, range, cursor, own, ring, i);

	/* the query */
#pragma unroll 4
	for (uint32_t at = threadIdx.x * 16; at < image_size; at += blockDim.x * 16)
		*(uint4 *) (memory + at) = __ldg((const uint4 *) ((const char *) launch.image + (size_t) blockIdx.y * image_size + at));
	if (warp == 0)
		prepare_query<P, N>(launch, shape, control);
	const uint32_t ntiles = count_tiles(launch, range);

	if (lane == 0)
		own->ntiles = ntiles;
#if MAXSIM_HAS_WGMMA
	fence_async_proxy();
#endif
	__syncthreads();

	const uint32_t nturns = count_turns(control->warps, warp);
	uint32_t turn = 0;   /* of the piece */
	uint32_t left = 0;   /* its tokens from the stage's first on */
	uint32_t ntokens = 1; /* the stage's */
	uint32_t at = 0;     /* the tile's first token in the stage */
	uint32_t stage = 0;
	uint32_t parity = 0;
	float best[N / 4];

	for (uint32_t i = 0; i < nturns; i++)
	{
		uint32_t rows[2];
		float sums[N / 2];

		/* a warp whose range has ended goes on for the others' sake */
		if (i < ntiles && at == 0)
		{
			if (left == 0)
			{
				left = own->pieces[turn % SLOTS].ntokens;
#pragma unroll
				for (int j = 0; j < N / 4; j++)
					best[j] = -INFINITY;
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
		if constexpr (P::SCALED)
		{
			float factors[2][2];

#pragma unroll
			for (int j = 0; j < 2; j++)
			{
				const float scale = __uint_as_float(load_shared_4(rows[j]));
				const float *powers = control->powers[scale >= 1];

				factors[j][0] = fminf(scale * powers[0], FLT_MAX);
				factors[j][1] = powers[1];
			}
#pragma unroll
			for (int j = 0; j < N / 2; j++)
				sums[j] = sums[j] * factors[j / 2 % 2][0] * factors[j / 2 % 2][1];
		}
		take_maxima<N>(best, sums);
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
		finish_piece<N>(launch, control, piece, best);
		turn++;
	}
	__syncwarp();
#pragma unroll 1
	for (uint32_t i = 0; i < 2 && i < range.npieces; i++)
		if (is_cut(own->ends[i]))
			finish_cut<SumByColumn<N>, N>(launch, own->ends[i]);
#if __CUDA_ARCH__ < 900
	copy_wait<0>();
#endif
}

template <class P, int N>
static cudaError_t
launch_packed(const MaxsimQueryPlan *plan, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	PackedShape shape;
	uint32_t nblocks;
	uint32_t size;

	if (launch == NULL)
	{
		cudaFuncAttributes attributes;

		return cudaFuncGetAttributes(&attributes, maxsim_packed<P, N>);
	}
	shape.row_size = (uint32_t) maxsim_row_size(format, launch->dim);
	shape.units = plan->depth / UNIT;
	shape.chunks = launch->dim / P::CHUNK;
	shape.stages = plan->stages;
	shape.stage_tokens = plan->stage_tokens;
	shape.stage_size = maxsim_plan_stage_size(plan->stage_tokens, shape.row_size);
	shape.minus_ones = 0xbc00bc00;
	size = (uint32_t) (shape.units * (N * 128) + plan->warps * shape.stages * shape.stage_size + sizeof(PackedControl<N>));
	nblocks = launch->nranges < launch->processors ? launch->nranges : launch->processors;
	cudaError_t status = cudaFuncSetAttribute(maxsim_packed<P, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) size);

	if (status != cudaSuccess)
		return status;
	maxsim_packed<P, N><<<dim3(nblocks, launch->nblocks), plan->warps * MAXSIM_WARP, size, stream>>>(*launch, shape);
	return cudaGetLastError();
}

template <class P>
static cudaError_t
launch_chunks(const MaxsimQueryPlan *plan, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
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
maxsim_launch_packed(const MaxsimQueryPlan *plan, MaxsimFormat format, uint32_t chunk, const MaxsimLaunch *launch,
					 cudaStream_t stream)
{
	const bool bits = format == MAXSIM_B1;

	switch (chunk)
	{
		case 48:
			return launch_chunks<PackedI8<48>>(plan, format, launch, stream);
		case 64:
			return bits ? launch_chunks<PackedB1<64>>(plan, format, launch, stream)
						: launch_chunks<PackedI8<64>>(plan, format, launch, stream);
		case 96:
			return bits ? launch_chunks<PackedB1<96>>(plan, format, launch, stream)
						: launch_chunks<PackedI8<96>>(plan, format, launch, stream);
		case 128:
			return bits ? launch_chunks<PackedB1<128>>(plan, format, launch, stream)
						: launch_chunks<PackedI8<128>>(plan, format, launch, stream);
		default:
			return cudaErrorInvalidValue;
	}
}
