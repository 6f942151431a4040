/*
 * kernel_rows.cu
 *		MaxSim with wgmma for up to 128 query tokens, dimension 128: compute
 *		capability 9.0a.
 *
 * A block of threads is three warpgroups.  Each takes a range of pieces of documents
 * in tiles of 64 document tokens.  Query tokens are the product's rows, from
 * registers; a tile is operand B, in a ring of stages that cp.async fills: it writes
 * the layout that wgmma wants and repeats the last token where a tile has fewer.  The
 * ring runs on into the next piece while the last one is being finished.  The query
 * comes once a block, to where the rings get to later.
 */
#include "finish.cuh"
#include "range.cuh"
#include "wgmma.cuh"

#define TILE 64
#define STEPS 8   /* of 16 dimensions */
#define ROW 256   /* bytes of a document token */
#define HALF 8192 /* bytes of a tile's half of the dimension */
#define STAGE (2 * HALF)
#define STAGES 4
#define AHEAD (STAGES - 1) /* tiles under way */
#define WARPS 4            /* in a warpgroup */
#define GROUPS MAXSIM_ROWS_GROUPS
#define THREADS (GROUPS * MAXSIM_WARPGROUP)
#define RING (STAGES * STAGE)
#define SLOTS 8 /* pieces that a group knows of: what it fetches is less than STAGES ahead */

/* Shared memory behind the rings: a group's own, and what the groups share. */
struct __align__(16) RowsGroup
{
	MaxsimPiece pieces[SLOTS]; /* by turns */
	MaxsimPiece ends[2];       /* the first two taken */
	float parts[2][WARPS];     /* of a piece's sum, by turns */
};

template <int M>
struct RowsControl
{
	RowsGroup groups[GROUPS];
	float weights[M * 64];
};

#define MEMORY(m) (GROUPS * RING + sizeof(RowsControl<m>))

#if MAXSIM_HAS_WGMMA

static __device__ __forceinline__ void
group_barrier(void)
{
	barrier_among(1 + threadIdx.x / MAXSIM_WARPGROUP, MAXSIM_WARPGROUP);
}

/* Has a piece copied with the tile that is fetched next, and into the first-level cache. */
static __device__ __forceinline__ void
look_ahead(const MaxsimLaunch &launch, PieceRange range, uint32_t turn, MaxsimPiece *pieces)
{
	const uint32_t part = threadIdx.x % MAXSIM_WARPGROUP;

	if (part < sizeof(MaxsimPiece) / 16 && turn < range.npieces)
		copy_16_cached(shared_address(pieces + turn % SLOTS) + part * 16, (const char *) piece_at(launch, range, turn) + part * 16);
}

/* What is to be fetched next, of a range of pieces. */
struct RowsCursor
{
	const char *from; /* this thread's part of the next tile's first token */
	uint32_t left;    /* tokens of the piece, from there on */
	uint32_t turn;    /* of the piece */
};

/* A thread's part of a tile: every eighth token, offset(i) bytes from the first one on. */
template <class Offset>
static __device__ __forceinline__ void
copy_tile(uint32_t to, const char *from, bool evict_first, Offset offset)
{
	if (evict_first)
#pragma unroll
		for (int i = 0; i < TILE / 8; i++)
			copy_16_hinted(to + i * 1024, from + offset(i), cache_policy(true));
	else
#pragma unroll
		for (int i = 0; i < TILE / 8; i++)
			copy_16(to + i * 1024, from + offset(i));
}

/* Fetches the cursor's tile, if there is one, and moves on. */
static __device__ __forceinline__ void
fetch_tile(const MaxsimLaunch &launch, PieceRange range, RowsCursor &cursor, uint32_t to, MaxsimPiece *pieces)
{
	if (cursor.turn < range.npieces && cursor.left > TILE)
	{
		copy_tile(to, cursor.from, launch.evict_first, [](int i)
				  { return i * 8 * ROW; });
		cursor.from += TILE * ROW;
		cursor.left -= TILE;
	}
	else if (cursor.turn < range.npieces)
	{
		const int last = (int) cursor.left - 1 - (int) (threadIdx.x % MAXSIM_WARPGROUP / 16);

		/* beyond the last token that one */
		copy_tile(to, cursor.from, launch.evict_first, [last](int i)
				  { return min(i * 8, last) * ROW; });
		cursor.turn++;
		if (cursor.turn < range.npieces)
		{
			const MaxsimPiece *piece = piece_at(launch, range, cursor.turn);

			cursor.from = (const char *) piece->address + threadIdx.x % MAXSIM_WARPGROUP * 16;
			cursor.left = piece->ntokens;
			look_ahead(launch, range, cursor.turn + 1, pieces);
		}
	}
	copy_commit();
}

static __device__ __forceinline__ void
take_maxima(float best[2], const float acc[TILE / 2])
{
#pragma unroll
	for (int i = 0; i < TILE / 2; i += 4)
	{
		best[0] = fmaxf(best[0], fmaxf(acc[i], acc[i + 1]));
		best[1] = fmaxf(best[1], fmaxf(acc[i + 2], acc[i + 3]));
	}
}

/* The score of a piece; of one that is cut the maxima, to be added up at the end. */
template <int M>
static __device__ __forceinline__ void
finish_piece(const MaxsimLaunch &launch, RowsGroup *group, uint32_t turn, float best[M * 2], const float *weights)
{
	typedef SumByRow<M, WARPS> Summer;
	const MaxsimPiece &piece = group->pieces[turn % SLOTS];
	const int warp = threadIdx.x % MAXSIM_WARPGROUP / MAXSIM_WARP;
	float *parts = group->parts[turn % 2];

	join_lanes<M>(best);
	if (turn < 2 && threadIdx.x % MAXSIM_WARPGROUP == 0)
		group->ends[turn] = piece;
	if (is_cut(piece))
	{
		put_rows<M, WARPS>(maxima_of(launch, piece, 0, M * 64), warp, best);
		return;
	}
	parts[warp] = Summer::part(weights, warp, best);
	group_barrier();
	if (warp == 0)
		finish_whole<Summer, M * 64>(launch, piece, 0, parts[0] + parts[1] + parts[2] + parts[3]);
}

/* Adds up the pieces of a range that are cut: a warp for each. */
template <int M>
static __device__ __forceinline__ void
finish_ends(const MaxsimLaunch &launch, const MaxsimPiece *ends, uint32_t npieces)
{
	const uint32_t warp = threadIdx.x % MAXSIM_WARPGROUP / MAXSIM_WARP;

	group_barrier();
	if (warp < 2 && warp < npieces && is_cut(ends[warp]))
		finish_cut<SumByRow<M, WARPS>, M * 64>(launch, ends[warp]);
}

/* The last stage of a ring, which is the first to be used late: half of the query. */
static __device__ __forceinline__ uint32_t
query_part(uint32_t rings, int part)
{
	return rings + part * RING + (STAGES - 1) * STAGE;
}

/* Starts acc = 64 query tokens by a tile. */
template <class Operand, int M>
static __device__ __forceinline__ void
multiply_tile(float acc[TILE / 2], const uint4 query[STEPS][M], int m, uint64_t tile)
{
	multiply_begin();
#pragma unroll
	for (int step = 0; step < STEPS; step++)
		multiply_64_registers(acc, query[step][m], tile + (step / 4 * HALF + step % 4 * 32) / 16, step > 0, Operand());
	multiply_commit();
}

#endif

template <class Operand, int M>
static __global__ void
__launch_bounds__(THREADS, 1)
	maxsim_rows_sm90a(const __grid_constant__ MaxsimLaunch launch)
{
#if MAXSIM_HAS_WGMMA
	extern __shared__ __align__(1024) char memory[];
	RowsControl<M> *control = (RowsControl<M> *) (memory + GROUPS * RING);
	const uint32_t thread = threadIdx.x % MAXSIM_WARPGROUP;
	const uint32_t number = threadIdx.x / MAXSIM_WARPGROUP * gridDim.x + blockIdx.x;
	RowsGroup *group = control->groups + threadIdx.x / MAXSIM_WARPGROUP;
	MaxsimRange start = {0, 0, 0};
	PieceRange range = {0, 0};
	uint4 query[STEPS][M];
	uint32_t tile = 0;

	/* the query, and behind it a first tile */
	for (int i = threadIdx.x; i < M * STAGE / 16; i += THREADS)
		copy_16(query_part(shared_address(memory), i / (STAGE / 16)) + i % (STAGE / 16) * 16, (const char *) launch.image + i * 16);
	copy_commit();
	if (number < launch.nranges)
	{
		start = launch.ranges[number];
		range = {start.first, launch.ranges[number + 1].first - start.first};
	}

	/* a thread's place in a stage, as an address that differs by lane */
	const uint32_t ring = __shfl_sync(MAXSIM_ALL_LANES, shared_address(memory) + threadIdx.x / MAXSIM_WARPGROUP * RING, 0);
	const uint32_t place = ring + thread % 16 / 8 * HALF + place_unit(thread / 16, thread % 8);
	RowsCursor cursor = {(const char *) start.address + thread * 16, start.ntokens, 0};

	look_ahead(launch, range, 0, group->pieces);
	look_ahead(launch, range, 1, group->pieces);
	fetch_tile(launch, range, cursor, place, group->pieces);
	if (threadIdx.x < M * 64)
		control->weights[threadIdx.x] = launch.weights[threadIdx.x];
	copy_wait<1>();
	__syncthreads();
#pragma unroll
	for (int step = 0; step < STEPS; step++)
#pragma unroll
		for (int m = 0; m < M; m++)
		{
			const int at = (step * M + m) * MAXSIM_WARPGROUP * 16;

			query[step][m] = load_shared_16(query_part(shared_address(memory), at / STAGE) + at % STAGE + thread * 16);
		}
	__syncthreads();
	for (int i = 1; i < AHEAD; i++)
		fetch_tile(launch, range, cursor, place + i * STAGE, group->pieces);

	for (uint32_t turn = 0; turn < range.npieces; turn++)
	{
		const uint32_t ntokens = turn == 0 ? start.ntokens : group->pieces[turn % SLOTS].ntokens;
		float best[M * 2];

#pragma unroll
		for (int i = 0; i < M * 2; i++)
			best[i] = -INFINITY;
		for (uint32_t first = 0; first < ntokens; first += TILE, tile++)
		{
			const uint64_t b = describe_rows(ring + tile % STAGES * STAGE);
			float acc[M][TILE / 2];

			copy_wait<AHEAD - 1>();
			fence_async_proxy();
			group_barrier();
#pragma unroll
			for (int m = 0; m < M; m++)
				multiply_tile<Operand, M>(acc[m], query, m, b);
			if constexpr (M > 1)
			{
				multiply_wait<1>();
				take_maxima(best, acc[0]);
			}

			/* into the stage before: all warps were done with it at the barrier */
			fetch_tile(launch, range, cursor, place + (tile + AHEAD) % STAGES * STAGE, group->pieces);
			multiply_wait<0>();
			take_maxima(best + M * 2 - 2, acc[M - 1]);
		}
		finish_piece<M>(launch, group, turn, best, control->weights);
	}
	finish_ends<M>(launch, group->ends, range.npieces);
	copy_wait<0>();
#endif
}

template <class Operand, int M>
static cudaError_t
launch_rows(const MaxsimLaunch *launch, cudaStream_t stream)
{
	uint32_t nblocks;

	if (launch == NULL)
		return cudaFuncSetAttribute(maxsim_rows_sm90a<Operand, M>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) MEMORY(M));
	nblocks = launch->nranges < launch->processors ? launch->nranges : launch->processors;
	maxsim_rows_sm90a<Operand, M><<<nblocks, THREADS, MEMORY(M), stream>>>(*launch);
	return cudaGetLastError();
}

cudaError_t
maxsim_launch_rows(uint32_t block_tokens, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	if (format == MAXSIM_F16)
		return block_tokens == 64 ? launch_rows<__half, 1>(launch, stream) : launch_rows<__half, 2>(launch, stream);
	return block_tokens == 64 ? launch_rows<__nv_bfloat16, 1>(launch, stream) : launch_rows<__nv_bfloat16, 2>(launch, stream);
}
