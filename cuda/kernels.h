/*
 * kernels.h
 *		Between the engine's host side and its kernels: what a launch is given.
 */
#ifndef MAXSIM_KERNELS_H
#define MAXSIM_KERNELS_H

#include "engine_cuda.h"
#include "plan.h"

#include <cuda_runtime.h>

/*
 * Score the pieces.  All pointers are the device's; scores may be pinned memory of
 * the host.  arrivals are all 0 before a launch and after it.
 */
typedef struct MaxsimLaunch
{
	const MaxsimPiece *pieces; /* [npieces] */
	const MaxsimRange *ranges; /* [nranges + 1] */
	const void *image;         /* the query as maxsim_launch_query() laid it out */
	const float *weights;      /* [nblocks * block_tokens], 0 beyond ntokens */
	float *scores;             /* out: [ndocuments] */
	float *sums;               /* [nslots][nblocks]: a block's part of a score */
	float *maxima;             /* [nmaxima][nblocks * block_tokens] */
	uint32_t *arrivals;        /* [nslots] */
	uint32_t npieces;
	uint32_t nranges;
	uint32_t nblocks;
	uint32_t cluster;
	uint32_t processors; /* of the device */
	uint32_t dim;
	bool evict_first;
} MaxsimLaunch;

/*
 * The exponent of a query token without a component but 0, or beyond the query: smaller
 * than any, so that it decides nothing.
 */
#define MAXSIM_NO_EXPONENT (-1000)

/* What a kernel family offers: cudaErrorInvalidValue where it has no such kernel. */
extern cudaError_t maxsim_launch_mma(const MaxsimQueryPlan *plan, MaxsimFormat format,
									 const MaxsimLaunch *launch, cudaStream_t stream);
extern cudaError_t maxsim_launch_mma_f16(uint32_t dim, uint32_t block_tokens, const MaxsimLaunch *launch,
										 cudaStream_t stream);
extern cudaError_t maxsim_launch_mma_bf16(uint32_t dim, uint32_t block_tokens, const MaxsimLaunch *launch,
										  cudaStream_t stream);
extern cudaError_t maxsim_launch_mma_f32(uint32_t dim, const MaxsimLaunch *launch, cudaStream_t stream);
extern cudaError_t maxsim_launch_rows(uint32_t block_tokens, MaxsimFormat format, const MaxsimLaunch *launch,
									  cudaStream_t stream);
extern cudaError_t maxsim_launch_blocks(uint32_t block_tokens, MaxsimFormat format, const MaxsimLaunch *launch,
										cudaStream_t stream);
extern cudaError_t maxsim_launch_packed(const MaxsimQueryPlan *plan, MaxsimFormat format, const MaxsimLaunch *launch,
										cudaStream_t stream);
extern cudaError_t maxsim_launch_generic(MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream);

/*
 * The same for a plan, whatever its family: what the engine calls, and what the
 * benchmark times.
 */
extern cudaError_t maxsim_launch_score(const MaxsimQueryPlan *plan, MaxsimFormat format,
									   const MaxsimLaunch *launch, cudaStream_t stream);

/*
 * Lays a query out as plan's kernel wants it.  tokens [ntokens][dim] and weights
 * (NULL: all 1) may be pinned memory of the host.
 */
extern cudaError_t maxsim_launch_query(const MaxsimQueryPlan *plan, MaxsimFormat format, const float *tokens,
									   const float *weights, uint32_t ntokens, uint32_t dim, void *image,
									   float *padded_weights, cudaStream_t stream);

typedef MaxsimCudaMove MaxsimMove;

extern cudaError_t maxsim_launch_move(const MaxsimMove *moves, uint32_t nmoves, cudaStream_t stream);

/* Loads every kernel of a family, so that the first batch does not wait for that. */
extern cudaError_t maxsim_preload_mma_f16(void);
extern cudaError_t maxsim_preload_mma_bf16(void);
extern cudaError_t maxsim_preload_mma_f32(void);
extern cudaError_t maxsim_preload_packed(void);
extern cudaError_t maxsim_preload_others(void);

#endif /* MAXSIM_KERNELS_H */
