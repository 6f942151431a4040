/*
 * kernel_mma_f16.cu
 *		The mma.sync kernels for f16 documents.
 */
#include "kernel_mma.cuh"

#define LAUNCH(d, eights, warps, stages, wide_warps, wide_stages)                             \
	if (dim == d && block_tokens == 32)                                                       \
		return launch_mma<MmaShape<ElementF16, d, eights, warps, stages, 2>>(launch, stream); \
	if (dim == d && block_tokens == 64)                                                       \
		return launch_mma<MmaShape<ElementF16, d, eights, warps, stages, 4>>(launch, stream);

cudaError_t
maxsim_launch_mma_f16(uint32_t dim, uint32_t block_tokens, const MaxsimLaunch *launch, cudaStream_t stream)
{
	MAXSIM_MMA_DIMENSIONS(LAUNCH)
	return cudaErrorInvalidValue;
}

/* A device with too little shared memory for one of them does without it. */
#define PRELOAD(d, eights, warps, stages, wide_warps, wide_stages)             \
	status = preload_mma<MmaShape<ElementF16, d, eights, warps, stages, 2>>(); \
	if (status != cudaSuccess && status != cudaErrorInvalidValue)              \
		return status;                                                         \
	status = preload_mma<MmaShape<ElementF16, d, eights, warps, stages, 4>>(); \
	if (status != cudaSuccess && status != cudaErrorInvalidValue)              \
		return status;

cudaError_t
maxsim_preload_mma_f16(void)
{
	cudaError_t status;

	MAXSIM_MMA_DIMENSIONS(PRELOAD)
	(void) cudaGetLastError();
	return cudaSuccess;
}
