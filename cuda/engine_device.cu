/*
 * engine_device.cu
 *		Devices of the CUDA engine: what there is, why there is none, and memory.
 *
 * The runtime is linked statically and finds the driver when first called, so that
 * the program starts on any machine and can tell what is missing.
 */
#include "engine_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST_MAJOR 8 /* compute capability: mma.sync for bf16 */

/* What is registered, by any device: see MAXSIM_CUDA_MAPPINGS. */
static pthread_mutex_t mappings_mutex = PTHREAD_MUTEX_INITIALIZER;
static MaxsimCudaMapping mappings[MAXSIM_CUDA_MAPPINGS];
static int nmappings;

/* Says what an error of the start means to who runs the machine. */
static MaxsimCudaStatus
unavailable(cudaError_t error, char *message)
{
	int driver = 0;

	(void) cudaDriverGetVersion(&driver);
	(void) cudaGetLastError();
	if (driver == 0)
		snprintf(message, MAXSIM_MESSAGE_SIZE, "no NVIDIA driver");
	else if (error == cudaErrorInsufficientDriver)
		snprintf(message, MAXSIM_MESSAGE_SIZE, "the NVIDIA driver is too old for CUDA %d: it supports CUDA %d.%d",
				 CUDART_VERSION / 1000, driver / 1000, driver % 1000 / 10);
	else if (error == cudaErrorNoDevice)
		snprintf(message, MAXSIM_MESSAGE_SIZE, "no NVIDIA GPU is visible to this process");
	else
		snprintf(message, MAXSIM_MESSAGE_SIZE, "could not start CUDA: %s", cudaGetErrorString(error));
	return MAXSIM_CUDA_UNAVAILABLE;
}

MaxsimCudaStatus
maxsim_cuda_failure(cudaError_t error, const char *what, size_t size, char message[MAXSIM_MESSAGE_SIZE])
{
	switch (error)
	{
		case cudaErrorMemoryAllocation:
			(void) cudaGetLastError();
			snprintf(message, MAXSIM_MESSAGE_SIZE, "out of GPU or pinned memory: could not %s (%zu bytes)", what, size);
			return MAXSIM_CUDA_OUT_OF_MEMORY;
		case cudaErrorInsufficientDriver:
		case cudaErrorNoDevice:
		case cudaErrorInitializationError:
		case cudaErrorSystemDriverMismatch:
		case cudaErrorDevicesUnavailable:
			return unavailable(error, message);
		case cudaErrorInvalidValue:
		case cudaErrorInvalidDevice:
		case cudaErrorHostMemoryAlreadyRegistered:
		case cudaErrorHostMemoryNotRegistered:
		case cudaErrorNotSupported:
		case cudaErrorOperatingSystem:
		case cudaErrorInvalidConfiguration:
			(void) cudaGetLastError();
			snprintf(message, MAXSIM_MESSAGE_SIZE, "could not %s: %s", what, cudaGetErrorString(error));
			return MAXSIM_CUDA_INVALID;
		default:
			snprintf(message, MAXSIM_MESSAGE_SIZE, "the GPU failed: could not %s: %s", what, cudaGetErrorString(error));
			return MAXSIM_CUDA_DEVICE_LOST;
	}
}

MaxsimCudaStatus
maxsim_cuda_count(int *count, char message[MAXSIM_MESSAGE_SIZE])
{
	cudaError_t error = cudaGetDeviceCount(count);

	if (error == cudaSuccess && *count > 0)
		return MAXSIM_CUDA_OK;
	*count = 0;
	return unavailable(error == cudaSuccess ? cudaErrorNoDevice : error, message);
}

/* Loads all kernels now: the first batch then compiles and loads nothing. */
static cudaError_t
load_kernels(void)
{
	cudaError_t error = maxsim_preload_mma_f16();

	if (error == cudaSuccess)
		error = maxsim_preload_mma_bf16();
	if (error == cudaSuccess)
		error = maxsim_preload_mma_f32();
	if (error == cudaSuccess)
		error = maxsim_preload_packed();
	if (error == cudaSuccess)
		error = maxsim_preload_others();
	return error;
}

static MaxsimCudaStatus
describe(MaxsimCudaDevice *device, char *message)
{
	struct cudaDeviceProp properties;
	cudaError_t error = cudaGetDeviceProperties(&properties, device->number);

	if (error == cudaSuccess)
		error = cudaDriverGetVersion(&device->info.driver);
	if (error != cudaSuccess)
		return maxsim_cuda_failure(error, "read the properties of the GPU", 0, message);
	snprintf(device->info.name, sizeof(device->info.name), "%.63s", properties.name);
	device->info.memory = properties.totalGlobalMem;
	device->info.major = properties.major;
	device->info.minor = properties.minor;
	device->info.processors = properties.multiProcessorCount;
	device->plan.major = properties.major;
	device->plan.minor = properties.minor;
	device->plan.processors = (uint32_t) properties.multiProcessorCount;
	device->plan.block_memory = (uint32_t) properties.sharedMemPerBlockOptin;
	device->info.block_memory = device->plan.block_memory;
	if (properties.major < OLDEST_MAJOR)
	{
		snprintf(message, MAXSIM_MESSAGE_SIZE, "GPU %d (%.63s) has compute capability %d.%d, and %d.0 is needed",
				 device->number, properties.name, properties.major, properties.minor, OLDEST_MAJOR);
		return MAXSIM_CUDA_UNAVAILABLE;
	}
	return MAXSIM_CUDA_OK;
}

MaxsimCudaStatus
maxsim_cuda_open(int number, MaxsimCudaDevice **device, char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaDevice *opened;
	MaxsimCudaStatus status;
	cudaError_t error;
	int count;

	*device = NULL;
	status = maxsim_cuda_count(&count, message);
	if (status != MAXSIM_CUDA_OK)
		return status;
	if (number < 0 || number >= count)
	{
		snprintf(message, MAXSIM_MESSAGE_SIZE, "there is no GPU %d: the GPUs are 0 to %d", number, count - 1);
		return MAXSIM_CUDA_UNAVAILABLE;
	}
	opened = (MaxsimCudaDevice *) calloc(1, sizeof(*opened));
	if (opened == NULL)
	{
		snprintf(message, MAXSIM_MESSAGE_SIZE, "out of memory: could not allocate a device");
		return MAXSIM_CUDA_OUT_OF_MEMORY;
	}
	opened->number = number;
	status = describe(opened, message);
	if (status == MAXSIM_CUDA_OK)
	{
		error = cudaSetDevice(number);
		if (error == cudaSuccess)
			error = load_kernels();
		if (error != cudaSuccess)
			status = maxsim_cuda_failure(error, "load the kernels", 0, message);
	}
	if (status == MAXSIM_CUDA_OK)
		*device = opened;
	else
		free(opened);
	return status;
}

void
maxsim_cuda_info(const MaxsimCudaDevice *device, MaxsimCudaInfo *info)
{
	*info = device->info;
}

void
maxsim_cuda_close(MaxsimCudaDevice *device)
{
	free(device);
}

int
maxsim_cuda_mappings(MaxsimCudaMapping copy[MAXSIM_CUDA_MAPPINGS])
{
	int n;

	(void) pthread_mutex_lock(&mappings_mutex);
	n = nmappings;
	memcpy(copy, mappings, sizeof(mappings));
	(void) pthread_mutex_unlock(&mappings_mutex);
	return n;
}

static void
remember_mapping(uint64_t address, size_t size)
{
	(void) pthread_mutex_lock(&mappings_mutex);
	if (nmappings < MAXSIM_CUDA_MAPPINGS)
	{
		mappings[nmappings].begin = address;
		mappings[nmappings++].end = address + size;
	}
	(void) pthread_mutex_unlock(&mappings_mutex);
}

static void
forget_mapping(uint64_t address)
{
	int i;

	(void) pthread_mutex_lock(&mappings_mutex);
	for (i = 0; i < nmappings; i++)
		if (mappings[i].begin == address)
		{
			mappings[i] = mappings[--nmappings];
			break;
		}
	(void) pthread_mutex_unlock(&mappings_mutex);
}

MaxsimCudaStatus
maxsim_cuda_address(MaxsimCudaDevice *device, void *mapping, uint64_t *address, char message[MAXSIM_MESSAGE_SIZE])
{
	void *mapped = NULL;
	cudaError_t error = cudaSetDevice(device->number);

	if (error == cudaSuccess)
		error = cudaHostGetDevicePointer(&mapped, mapping, 0);
	*address = (uint64_t) mapped;
	return error == cudaSuccess ? MAXSIM_CUDA_OK : maxsim_cuda_failure(error, "address a mapping", 0, message);
}

MaxsimCudaStatus
maxsim_cuda_register(MaxsimCudaDevice *device, void *mapping, size_t size, char message[MAXSIM_MESSAGE_SIZE])
{
	cudaError_t error = cudaSetDevice(device->number);
	MaxsimCudaStatus status;
	uint64_t address;

	if (error == cudaSuccess)
		error = cudaHostRegister(mapping, size, cudaHostRegisterPortable | cudaHostRegisterMapped);
	if (error != cudaSuccess)
		return maxsim_cuda_failure(error, "pin a mapping", size, message);
	status = maxsim_cuda_address(device, mapping, &address, message);
	if (status == MAXSIM_CUDA_OK)
		remember_mapping(address, size);
	else
		(void) cudaHostUnregister(mapping);
	return status;
}

MaxsimCudaStatus
maxsim_cuda_unregister(MaxsimCudaDevice *device, void *mapping, char message[MAXSIM_MESSAGE_SIZE])
{
	uint64_t address = 0;
	MaxsimCudaStatus status = maxsim_cuda_address(device, mapping, &address, message);
	cudaError_t error;

	if (status != MAXSIM_CUDA_OK)
		return status;
	forget_mapping(address);
	error = cudaHostUnregister(mapping);
	return error == cudaSuccess ? MAXSIM_CUDA_OK : maxsim_cuda_failure(error, "unpin a mapping", 0, message);
}

MaxsimCudaStatus
maxsim_cuda_alloc(MaxsimCudaDevice *device, size_t size, uint64_t *address, char message[MAXSIM_MESSAGE_SIZE])
{
	void *memory = NULL;
	cudaError_t error = cudaSetDevice(device->number);

	if (error == cudaSuccess)
		error = cudaMalloc(&memory, size);
	*address = (uint64_t) memory;
	return error == cudaSuccess ? MAXSIM_CUDA_OK : maxsim_cuda_failure(error, "allocate GPU memory", size, message);
}

MaxsimCudaStatus
maxsim_cuda_free(MaxsimCudaDevice *device, uint64_t address, char message[MAXSIM_MESSAGE_SIZE])
{
	cudaError_t error = cudaSetDevice(device->number);

	if (error == cudaSuccess)
		error = cudaFree((void *) address);
	return error == cudaSuccess ? MAXSIM_CUDA_OK : maxsim_cuda_failure(error, "free GPU memory", 0, message);
}
