/*
 * engine_internal.h
 *		What the files of the CUDA engine's host side share.
 */
#ifndef MAXSIM_ENGINE_INTERNAL_H
#define MAXSIM_ENGINE_INTERNAL_H

#include "engine_cuda.h"
#include "kernels.h"

struct MaxsimCudaDevice
{
	int number;
	MaxsimCudaInfo info;
	MaxsimPlanDevice plan;
};

/* Registered memory of the host, as devices see it. */
typedef struct MaxsimCudaMapping
{
	uint64_t begin;
	uint64_t end;
} MaxsimCudaMapping;

/* More mappings work too, but documents in them are scored where they are. */
#define MAXSIM_CUDA_MAPPINGS 8

extern int maxsim_cuda_mappings(MaxsimCudaMapping mappings[MAXSIM_CUDA_MAPPINGS]);

/*
 * The status that an error of CUDA's amounts to, with its sentence; what is an
 * action, size its bytes or 0.  An error that passes is cleared.
 */
extern MaxsimCudaStatus maxsim_cuda_failure(cudaError_t error, const char *what, size_t size,
											char message[MAXSIM_MESSAGE_SIZE]);

#endif /* MAXSIM_ENGINE_INTERNAL_H */
