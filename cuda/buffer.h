/*
 * buffer.h
 *		Memory that a lane keeps from batch to batch and that grows as they do: of the
 *		GPU, pinned, or the host's own.
 */
#ifndef MAXSIM_BUFFER_H
#define MAXSIM_BUFFER_H

#include "engine_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Where an array for the device begins. */
#define ALIGNMENT 256

typedef struct Buffer
{
	void *memory;
	size_t size;
} Buffer;

static inline size_t
aligned(size_t size)
{
	return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

typedef cudaError_t (*Allocate)(void **memory, size_t size);

static inline cudaError_t
allocate_pinned(void **memory, size_t size)
{
	return cudaHostAlloc(memory, size, cudaHostAllocPortable | cudaHostAllocMapped);
}

static inline cudaError_t
allocate_gpu(void **memory, size_t size)
{
	return cudaMalloc(memory, size);
}

static inline void
release(Buffer *buffer, cudaError_t (*release_memory)(void *memory))
{
	if (buffer->memory != NULL)
		(void) release_memory(buffer->memory);
	buffer->memory = NULL;
	buffer->size = 0;
}

/* At least size bytes, of undefined content if it had less. */
static inline MaxsimCudaStatus
grow(Buffer *buffer, size_t size, Allocate allocate_memory, cudaError_t (*release_memory)(void *memory),
	 const char *what, char *message)
{
	cudaError_t error;

	if (size <= buffer->size)
		return MAXSIM_CUDA_OK;
	release(buffer, release_memory);
	size = aligned(size + size / 4);
	error = allocate_memory(&buffer->memory, size);
	if (error != cudaSuccess)
	{
		buffer->memory = NULL;
		return maxsim_cuda_failure(error, what, size, message);
	}
	buffer->size = size;
	return MAXSIM_CUDA_OK;
}

static inline MaxsimCudaStatus
grow_gpu(Buffer *buffer, size_t size, const char *what, char *message)
{
	return grow(buffer, size, allocate_gpu, cudaFree, what, message);
}

static inline MaxsimCudaStatus
grow_pinned(Buffer *buffer, size_t size, const char *what, char *message)
{
	return grow(buffer, size, allocate_pinned, cudaFreeHost, what, message);
}

static inline MaxsimCudaStatus
grow_host(Buffer *buffer, size_t size, char *message)
{
	if (size <= buffer->size)
		return MAXSIM_CUDA_OK;
	free(buffer->memory);
	buffer->memory = malloc(size);
	buffer->size = buffer->memory == NULL ? 0 : size;
	if (buffer->memory != NULL)
		return MAXSIM_CUDA_OK;
	snprintf(message, MAXSIM_MESSAGE_SIZE, "out of memory: could not allocate %zu bytes for a batch", size);
	return MAXSIM_CUDA_OUT_OF_MEMORY;
}

#endif /* MAXSIM_BUFFER_H */
