/*
 * engine_cuda.h
 *		MaxSim on NVIDIA GPUs, for a process that owns the CUDA contexts.
 *
 * Plain C: neither CUDA's types nor PostgreSQL's.  The score contract is that of
 * engine.h, and here too "one engine" means bit for bit: a score depends on its
 * query, its document, and the kind of device, not on the batch around it, nor on
 * where the document lies or how it is aligned.
 *
 *		device	one GPU; any number of them, each opened once.
 *		lane	a stream of its own on a device, with a query and one batch in
 *				flight.  One thread at a time uses a lane; lanes of one device
 *				run concurrently.
 *
 * Documents lie in memory that the device can read: in a host mapping that was
 * registered, or in GPU memory from maxsim_cuda_alloc(), mixed at will.
 *
 * Every function returns a status, and with any but MAXSIM_CUDA_OK and
 * MAXSIM_CUDA_PENDING a sentence in message.  Nothing here exits, prints or throws.
 * After MAXSIM_CUDA_DEVICE_LOST nothing works on that device, nor as a rule on any
 * other, until the process is started anew.
 */
#ifndef MAXSIM_ENGINE_CUDA_H
#define MAXSIM_ENGINE_CUDA_H

#include "engine.h"

#ifdef __cplusplus
extern "C"
{
#endif

	typedef enum MaxsimCudaStatus
	{
		MAXSIM_CUDA_OK = 0,
		MAXSIM_CUDA_PENDING,       /* the batch is still being scored */
		MAXSIM_CUDA_UNAVAILABLE,   /* no driver, no such device, or one too old */
		MAXSIM_CUDA_INVALID,       /* the caller asked for what cannot be */
		MAXSIM_CUDA_OUT_OF_RANGE,  /* a query value does not fit the documents' format */
		MAXSIM_CUDA_OUT_OF_MEMORY, /* of the GPU or of pinned memory; the lane works on */
		MAXSIM_CUDA_DEVICE_LOST    /* a fault that lasts as long as the process */
	} MaxsimCudaStatus;

	typedef struct MaxsimCudaDevice MaxsimCudaDevice;
	typedef struct MaxsimCudaLane MaxsimCudaLane;

	typedef struct MaxsimCudaInfo
	{
		char name[64];
		uint64_t memory; /* bytes */
		int major;       /* compute capability */
		int minor;
		int processors;        /* streaming multiprocessors */
		uint32_t block_memory; /* bytes of shared memory that a block of threads can have */
		int driver;            /* CUDA version of the driver, 13000 for 13.0 */
	} MaxsimCudaInfo;

	/* A document where the device reads it: ntokens rows. */
	typedef struct MaxsimCudaDocument
	{
		uint64_t address; /* as the device sees it; any alignment */
		uint32_t ntokens;
	} MaxsimCudaDocument;

	/* A document to be copied to GPU memory, to a multiple of 16 bytes. */
	typedef struct MaxsimCudaMove
	{
		uint64_t from;
		uint64_t to;
		uint64_t size; /* bytes */
	} MaxsimCudaMove;

	/* How many devices there are; says why there is none. */
	extern MaxsimCudaStatus maxsim_cuda_count(int *count, char message[MAXSIM_MESSAGE_SIZE]);

	/* Opens device number (0 and up): makes its context, loads its kernels. */
	extern MaxsimCudaStatus maxsim_cuda_open(int number, MaxsimCudaDevice **device,
											 char message[MAXSIM_MESSAGE_SIZE]);
	extern void maxsim_cuda_info(const MaxsimCudaDevice *device, MaxsimCudaInfo *info);

	/* All of its lanes must be closed. */
	extern void maxsim_cuda_close(MaxsimCudaDevice *device);

	/*
 * Pins a mapping of the host's, page-aligned, so that every device can read it.
 * Registering touches all of its pages.  Once a process, whatever the number of
 * devices.
 */
	extern MaxsimCudaStatus maxsim_cuda_register(MaxsimCudaDevice *device, void *mapping, size_t size,
												 char message[MAXSIM_MESSAGE_SIZE]);
	extern MaxsimCudaStatus maxsim_cuda_unregister(MaxsimCudaDevice *device, void *mapping,
												   char message[MAXSIM_MESSAGE_SIZE]);

	/* The address by which the device reads the start of a registered mapping. */
	extern MaxsimCudaStatus maxsim_cuda_address(MaxsimCudaDevice *device, void *mapping, uint64_t *address,
												char message[MAXSIM_MESSAGE_SIZE]);

	/* Memory of the GPU.  free takes 0 too. */
	extern MaxsimCudaStatus maxsim_cuda_alloc(MaxsimCudaDevice *device, size_t size, uint64_t *address,
											  char message[MAXSIM_MESSAGE_SIZE]);
	extern MaxsimCudaStatus maxsim_cuda_free(MaxsimCudaDevice *device, uint64_t address,
											 char message[MAXSIM_MESSAGE_SIZE]);

	extern MaxsimCudaStatus maxsim_cuda_lane_open(MaxsimCudaDevice *device, MaxsimCudaLane **lane,
												  char message[MAXSIM_MESSAGE_SIZE]);

	/* Waits for what is in flight. */
	extern void maxsim_cuda_lane_close(MaxsimCudaLane *lane);

	/*
 * Copies from the host to GPU memory in the lane's order: before the batches that
 * are submitted later.  From registered memory the copy goes on after the return,
 * and the source must stay as it is until the lane has been waited for.
 */
	extern MaxsimCudaStatus maxsim_cuda_copy(MaxsimCudaLane *lane, uint64_t to, const void *from, size_t size,
											 char message[MAXSIM_MESSAGE_SIZE]);

	/*
 * Copies documents to GPU memory, of this device, in the lane's order: from GPU memory
 * or from a registered mapping, to multiples of 16 bytes.  moves is not needed after
 * the return; what is copied must stay until a batch that is submitted later is done.
 * The lane must have no batch in flight.
 */
	extern MaxsimCudaStatus maxsim_cuda_move(MaxsimCudaLane *lane, const MaxsimCudaMove *moves, uint32_t nmoves,
											 char message[MAXSIM_MESSAGE_SIZE]);

	/*
 * The query of the lane's next batches, for documents of one format.  It is copied
 * before the return.  The lane must have no batch in flight.
 */
	extern MaxsimCudaStatus maxsim_cuda_query(MaxsimCudaLane *lane, const MaxsimQuery *query, MaxsimFormat format,
											  char message[MAXSIM_MESSAGE_SIZE]);

	/*
 * Starts to score documents against the lane's query.  documents is not needed
 * after the return; what the documents' addresses point to must stay until the
 * batch is done.  The lane must have no batch in flight.  No documents, without a
 * query even: a batch that is done when what came before is.
 */
	extern MaxsimCudaStatus maxsim_cuda_submit(MaxsimCudaLane *lane, const MaxsimCudaDocument *documents,
											   uint32_t ndocuments, char message[MAXSIM_MESSAGE_SIZE]);

	/*
 * The scores of the batch in flight, in the order of its documents, or
 * MAXSIM_CUDA_PENDING; wait never returns that.  *scores is the lane's memory and
 * lasts until the next submit.  With no batch in flight: the last batch again.
 */
	extern MaxsimCudaStatus maxsim_cuda_poll(MaxsimCudaLane *lane, const float **scores,
											 char message[MAXSIM_MESSAGE_SIZE]);
	extern MaxsimCudaStatus maxsim_cuda_wait(MaxsimCudaLane *lane, const float **scores,
											 char message[MAXSIM_MESSAGE_SIZE]);

#ifdef __cplusplus
}
#endif

#endif /* MAXSIM_ENGINE_CUDA_H */
