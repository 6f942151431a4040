/*
 * launch.cu
 *		From a plan to its kernel family.
 */
#include "kernels.h"

cudaError_t
maxsim_launch_mma(const MaxsimQueryPlan *plan, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	if (format == MAXSIM_F32)
		return maxsim_launch_mma_f32(launch->dim, launch, stream);
	if (format == MAXSIM_F16)
		return maxsim_launch_mma_f16(launch->dim, plan->block_tokens, launch, stream);
	return maxsim_launch_mma_bf16(launch->dim, plan->block_tokens, launch, stream);
}

cudaError_t
maxsim_launch_score(const MaxsimQueryPlan *plan, MaxsimFormat format, const MaxsimLaunch *launch, cudaStream_t stream)
{
	switch (plan->family)
	{
		case MAXSIM_FAMILY_MMA:
			return maxsim_launch_mma(plan, format, launch, stream);
		case MAXSIM_FAMILY_ROWS:
			return maxsim_launch_rows(plan->block_tokens, format, launch, stream);
		case MAXSIM_FAMILY_BLOCKS:
			return maxsim_launch_blocks(plan->block_tokens, format, launch, stream);
		case MAXSIM_FAMILY_PACKED:
			return maxsim_launch_packed(plan, format, launch, stream);
		default:
			return maxsim_launch_generic(format, launch, stream);
	}
}

/* The families whose launchers load their kernels when given no work. */
cudaError_t
maxsim_preload_others(void)
{
	static const MaxsimFormat formats[MAXSIM_NFORMATS] = {MAXSIM_F16, MAXSIM_BF16, MAXSIM_F32, MAXSIM_I8, MAXSIM_B1};
	cudaError_t error = cudaSuccess;
	int major = 0;
	int device = 0;

	for (int i = 0; i < MAXSIM_NFORMATS && error == cudaSuccess; i++)
		error = maxsim_launch_generic(formats[i], NULL, 0);
	if (error == cudaSuccess)
		error = cudaGetDevice(&device);
	if (error == cudaSuccess)
		error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
	for (int i = 0; i < 2 && error == cudaSuccess && major == 9; i++)
	{
		error = maxsim_launch_rows(64, formats[i], NULL, 0);
		if (error == cudaSuccess)
			error = maxsim_launch_rows(128, formats[i], NULL, 0);
		for (uint32_t tokens = 256; tokens <= 512 && error == cudaSuccess; tokens += 128)
			error = maxsim_launch_blocks(tokens, formats[i], NULL, 0);
	}
	return error;
}
