/*
 * kernel_mma_f32.cu
 *		The mma.sync kernels for f32 documents, in true float32: see split_pair().
 */
#include "kernel_mma.cuh"

#define LAUNCH(d, eights, warps, stages, wide_warps, wide_stages) \
	if (dim == d)                                                 \
		return launch_mma<MmaShape<ElementF32, d, 2, wide_warps, wide_stages, 2>>(launch, stream);

cudaError_t
maxsim_launch_mma_f32(uint32_t dim, const MaxsimLaunch *launch, cudaStream_t stream)
{
	MAXSIM_MMA_DIMENSIONS(LAUNCH)
	return cudaErrorInvalidValue;
}

/* A device with too little shared memory for one of them does without it. */
#define PRELOAD(d, eights, warps, stages, wide_warps, wide_stages)                  \
	status = preload_mma<MmaShape<ElementF32, d, 2, wide_warps, wide_stages, 2>>(); \
	if (status != cudaSuccess && status != cudaErrorInvalidValue)                   \
		return status;

cudaError_t
maxsim_preload_mma_f32(void)
{
	cudaError_t status;

	MAXSIM_MMA_DIMENSIONS(PRELOAD)
	(void) cudaGetLastError();
	return cudaSuccess;
}
