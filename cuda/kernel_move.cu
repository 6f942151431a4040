/*
 * kernel_move.cu
 *		Copies documents to GPU memory before they are scored there.
 *
 * That is for rows not aligned as a kernel wants them, and for documents in memory of
 * the host that a kernel would read more than once, or in pieces too small for the
 * bus.  Some blocks of threads share a move; on compute capability 9.0 and later one
 * thread of a block has the copy engine do it, through a ring in shared memory.
 */
#include "device.cuh"
#include "kernels.h"

#define THREADS 128
#define SHARES 8 /* blocks a move */
#define CHUNK 8192
#define STAGES 4

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

static __device__ __forceinline__ void
fetch_chunk(const MaxsimMove &move, uint64_t at, uint32_t stage, uint32_t barrier)
{
	const uint32_t bytes = (uint32_t) min((uint64_t) CHUNK, move.size - at);

	mbarrier_expect(barrier, bytes);
	copy_bulk(stage, (const char *) move.from + at, bytes, barrier, 0);
}

/* Every gridDim.y-th chunk, by one thread. */
static __device__ void
move_chunks(const MaxsimMove &move, uint32_t ring, uint32_t barriers)
{
	const uint64_t step = (uint64_t) gridDim.y * CHUNK;
	const uint64_t first = (uint64_t) blockIdx.y * CHUNK;
	uint64_t at = first;

	for (int i = 0; i < STAGES; i++)
		mbarrier_init(barriers + i * 8, 1);
	mbarrier_init_fence();
	for (int i = 0; i < STAGES && first + i * step < move.size; i++)
		fetch_chunk(move, first + i * step, ring + i * CHUNK, barriers + i * 8);
	for (uint32_t i = 0; at < move.size; i++, at += step)
	{
		const uint32_t before = (i + STAGES - 1) % STAGES;
		const uint64_t next = at + (STAGES - 1) * step;

		mbarrier_wait(barriers + i % STAGES * 8, i / STAGES % 2);
		store_bulk((char *) move.to + at, ring + i % STAGES * CHUNK, (uint32_t) min((uint64_t) CHUNK, move.size - at));

		/* the stage before is free when its store has read it */
		store_bulk_wait<1>();
		if (i > 0 && next < move.size)
			fetch_chunk(move, next, ring + before * CHUNK, barriers + before * 8);
	}
	store_bulk_wait<0>();
}

#endif

/* Elements of a type that both addresses and the size are multiples of. */
template <class Element>
static __device__ void
move_elements(const MaxsimMove &move)
{
	const uint64_t n = move.size / sizeof(Element);

	for (uint64_t at = (uint64_t) blockIdx.y * THREADS + threadIdx.x; at < n; at += (uint64_t) gridDim.y * THREADS)
		((Element *) move.to)[at] = ((const Element *) move.from)[at];
}

static __global__ void
__launch_bounds__(THREADS)
	maxsim_move(const MaxsimMove *moves)
{
	const MaxsimMove whole = moves[blockIdx.x];
	const uint32_t unit = whole.from % 16 == 0 ? 16 : whole.from % 4 == 0 ? 4
												  : whole.from % 2 == 0   ? 2
																		  : 1;
	const MaxsimMove move = {whole.from, whole.to, whole.size / unit * unit};
	const uint32_t rest = (uint32_t) (whole.size - move.size);

	if (blockIdx.y == 0 && threadIdx.x < rest)
		((uint8_t *) move.to)[move.size + threadIdx.x] = ((const uint8_t *) move.from)[move.size + threadIdx.x];
	if (unit == 16)
	{
#if __CUDA_ARCH__ >= 900
		__shared__ __align__(128) char ring[STAGES * CHUNK];
		__shared__ __align__(8) uint64_t barriers[STAGES];

		if (threadIdx.x == 0)
			move_chunks(move, shared_address(ring), shared_address(barriers));
#else
		move_elements<uint4>(move);
#endif
	}
	else if (unit == 4)
		move_elements<uint32_t>(move);
	else if (unit == 2)
		move_elements<uint16_t>(move);
	else
		move_elements<uint8_t>(move);
}

cudaError_t
maxsim_launch_move(const MaxsimMove *moves, uint32_t nmoves, cudaStream_t stream)
{
	maxsim_move<<<dim3(nmoves, SHARES), THREADS, 0, stream>>>(moves);
	return cudaGetLastError();
}
