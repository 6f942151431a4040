/*
 * engine_cuda.cu
 *		Lanes: a query and a batch of documents to launches of kernels.
 *
 * A batch is one launch.  Only documents whose rows are not aligned as the kernel
 * wants them, or which it would not read from the host as fast as the bus allows, are
 * first copied to GPU memory, in as many passes as keep that memory small.  Memory grows with the query and the number of documents, never with
 * a document's length, and is kept for the next batch.
 */
#include "buffer.h"
#include "engine_internal.h"

#include "element.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * A wait asks again and again for so long, in nanoseconds, then with short sleeps,
 * and at last leaves it to the driver, whose wake-up costs 100 us and more.
 */
#define SPIN 50000
#define DOZE 20000000
#define NAP 10000

/* Documents moved at a time, in bytes; one that is larger goes alone. */
#define MOVE_BYTES (64u << 20)

struct MaxsimCudaLane
{
	MaxsimCudaDevice *device;
	cudaStream_t stream;
	cudaEvent_t done;
	bool busy;

	/* the query */
	bool has_query;
	bool has_weights;
	MaxsimFormat format;
	uint32_t ntokens;
	uint32_t dim;
	MaxsimQueryPlan plan;
	uint64_t misaligned; /* bits of an address that must be 0 */
	bool reads_host;     /* the kernel reads documents once, in large pieces */
	Buffer query;        /* pinned: what the caller gave */
	Buffer image;        /* GPU */
	Buffer weights;      /* GPU */

	/* the batch */
	MaxsimCudaMapping mappings[MAXSIM_CUDA_MAPPINGS];
	int nmappings;
	Buffer documents; /* host: addresses, lengths, order */
	Buffer work;      /* pinned: pieces, ranges, moves, as in GPU memory */
	Buffer gpu_work;  /* GPU */
	Buffer scores;    /* pinned, written by the kernels */
	Buffer sums;      /* GPU */
	Buffer maxima;    /* GPU */
	Buffer arrivals;  /* GPU, all 0 between launches */
	Buffer moved;     /* GPU */
	Buffer moves;     /* pinned: the caller's */
};

/* Documents that are scored by one launch, and where in work its arrays are. */
typedef struct Pass
{
	uint32_t first;
	uint32_t ndocuments;
	uint32_t nmoves;
	size_t work; /* offsets */
	size_t ranges;
	size_t moves;
	size_t end;
} Pass;

MaxsimCudaStatus
maxsim_cuda_lane_open(MaxsimCudaDevice *device, MaxsimCudaLane **lane, char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaLane *opened = (MaxsimCudaLane *) calloc(1, sizeof(*opened));
	cudaError_t error;

	*lane = NULL;
	if (opened == NULL)
	{
		snprintf(message, MAXSIM_MESSAGE_SIZE, "out of memory: could not allocate a lane");
		return MAXSIM_CUDA_OUT_OF_MEMORY;
	}
	opened->device = device;
	error = cudaSetDevice(device->number);
	if (error == cudaSuccess)
		error = cudaStreamCreateWithFlags(&opened->stream, cudaStreamNonBlocking);
	if (error == cudaSuccess)
		error = cudaEventCreateWithFlags(&opened->done, cudaEventDisableTiming | cudaEventBlockingSync);
	if (error != cudaSuccess)
	{
		if (opened->stream != NULL)
			(void) cudaStreamDestroy(opened->stream);
		free(opened);
		return maxsim_cuda_failure(error, "open a lane", 0, message);
	}
	*lane = opened;
	return MAXSIM_CUDA_OK;
}

void
maxsim_cuda_lane_close(MaxsimCudaLane *lane)
{
	if (lane == NULL)
		return;
	(void) cudaSetDevice(lane->device->number);
	(void) cudaStreamSynchronize(lane->stream);
	release(&lane->query, cudaFreeHost);
	release(&lane->work, cudaFreeHost);
	release(&lane->scores, cudaFreeHost);
	release(&lane->moves, cudaFreeHost);
	release(&lane->image, cudaFree);
	release(&lane->weights, cudaFree);
	release(&lane->gpu_work, cudaFree);
	release(&lane->sums, cudaFree);
	release(&lane->maxima, cudaFree);
	release(&lane->arrivals, cudaFree);
	release(&lane->moved, cudaFree);
	free(lane->documents.memory);
	(void) cudaEventDestroy(lane->done);
	(void) cudaStreamDestroy(lane->stream);
	(void) cudaGetLastError();
	free(lane);
}

static MaxsimCudaStatus
refuse_busy(const MaxsimCudaLane *lane, char *message)
{
	if (!lane->busy)
		return MAXSIM_CUDA_OK;
	snprintf(message, MAXSIM_MESSAGE_SIZE, "the lane has a batch in flight");
	return MAXSIM_CUDA_INVALID;
}

MaxsimCudaStatus
maxsim_cuda_copy(MaxsimCudaLane *lane, uint64_t to, const void *from, size_t size, char message[MAXSIM_MESSAGE_SIZE])
{
	cudaError_t error = cudaSetDevice(lane->device->number);

	if (error == cudaSuccess)
		error = cudaMemcpyAsync((void *) to, from, size, cudaMemcpyHostToDevice, lane->stream);
	return error == cudaSuccess ? MAXSIM_CUDA_OK : maxsim_cuda_failure(error, "copy to the GPU", size, message);
}

MaxsimCudaStatus
maxsim_cuda_move(MaxsimCudaLane *lane, const MaxsimCudaMove *moves, uint32_t nmoves, char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaStatus status = refuse_busy(lane, message);
	cudaError_t error;

	if (status != MAXSIM_CUDA_OK || nmoves == 0)
		return status;
	error = cudaSetDevice(lane->device->number);
	if (error == cudaSuccess) /* moves before these may still be read */
		error = cudaStreamSynchronize(lane->stream);
	if (error != cudaSuccess)
		return maxsim_cuda_failure(error, "copy documents to the GPU", 0, message);
	if ((status = grow_pinned(&lane->moves, nmoves * sizeof(*moves), "copy documents to the GPU", message)) != MAXSIM_CUDA_OK)
		return status;
	memcpy(lane->moves.memory, moves, nmoves * sizeof(*moves));
	error = maxsim_launch_move((const MaxsimMove *) lane->moves.memory, nmoves, lane->stream);
	return error == cudaSuccess ? MAXSIM_CUDA_OK : maxsim_cuda_failure(error, "copy documents to the GPU", 0, message);
}

/* Whether the lane still has this query, so that nothing need be done. */
static bool
has_query(const MaxsimCudaLane *lane, const MaxsimQuery *query, MaxsimFormat format)
{
	const size_t size = (size_t) query->ntokens * query->dim * sizeof(float);
	const char *staged = (const char *) lane->query.memory;

	return lane->has_query && lane->format == format && lane->ntokens == query->ntokens && lane->dim == query->dim &&
		   lane->has_weights == (query->weights != NULL) && memcmp(staged, query->tokens, size) == 0 &&
		   (query->weights == NULL || memcmp(staged + aligned(size), query->weights, query->ntokens * sizeof(float)) == 0);
}

/* The first value that becomes infinite in the format is an error. */
static MaxsimCudaStatus
check_range(const MaxsimQuery *query, MaxsimFormat format, char *message)
{
	static const char *const names[MAXSIM_NFORMATS] = {"f32", "f16", "bf16", "i8", "b1"};
	/* bits of the least */
	static const uint32_t limits[MAXSIM_NFORMATS] = {0x7f800000, 0x477ff000, 0x7f7f8000, 0x7f800000, 0x7f800000};
	const size_t n = (size_t) query->ntokens * query->dim;
	int32_t most = 0; /* signed, for the compiler's vectors */
	size_t i;

	for (i = 0; i < n; i++)
	{
		int32_t bits = (int32_t) (maxsim_float_bits(query->tokens[i]) & 0x7fffffff);

		most = bits > most ? bits : most;
	}
	if ((uint32_t) most < limits[format])
		return MAXSIM_CUDA_OK;
	for (i = 0; (maxsim_float_bits(query->tokens[i]) & 0x7fffffff) < limits[format];)
		i++;
	snprintf(message, MAXSIM_MESSAGE_SIZE, "query value %.9g (token %zu, dimension %zu) is out of range for format %s",
			 (double) query->tokens[i], i / query->dim + 1, i % query->dim + 1, names[format]);
	return MAXSIM_CUDA_OUT_OF_RANGE;
}

MaxsimCudaStatus
maxsim_cuda_query(MaxsimCudaLane *lane, const MaxsimQuery *query, MaxsimFormat format,
				  char message[MAXSIM_MESSAGE_SIZE])
{
	const size_t size = (size_t) query->ntokens * query->dim * sizeof(float);
	const size_t weights_size = query->weights != NULL ? query->ntokens * sizeof(float) : 0;
	MaxsimCudaStatus status = refuse_busy(lane, message);
	cudaError_t error;
	char *staged;

	if (status != MAXSIM_CUDA_OK || has_query(lane, query, format))
		return status;
	if ((status = check_range(query, format, message)) != MAXSIM_CUDA_OK)
		return status;
	lane->has_query = false;
	if (query->ntokens == 0 || query->dim == 0 ||
		!maxsim_plan_query(&lane->device->plan, format, query->ntokens, query->dim, &lane->plan))
	{
		snprintf(message, MAXSIM_MESSAGE_SIZE, "a query of %u tokens of dimension %u cannot be scored on the GPU",
				 query->ntokens, query->dim);
		return MAXSIM_CUDA_INVALID;
	}
	error = cudaSetDevice(lane->device->number);
	if (error == cudaSuccess) /* a query before this one may still be read */
		error = cudaStreamSynchronize(lane->stream);
	if (error != cudaSuccess)
		return maxsim_cuda_failure(error, "prepare a query", size, message);
	if ((status = grow_pinned(&lane->query, aligned(size) + weights_size, "hold a query", message)) != MAXSIM_CUDA_OK ||
		(status = grow_gpu(&lane->image, lane->plan.image_size, "hold a query", message)) != MAXSIM_CUDA_OK ||
		(status = grow_gpu(&lane->weights, (size_t) lane->plan.nblocks * lane->plan.block_tokens * sizeof(float),
						   "hold a query", message)) != MAXSIM_CUDA_OK)
		return status;
	staged = (char *) lane->query.memory;
	memcpy(staged, query->tokens, size);
	if (query->weights != NULL)
		memcpy(staged + aligned(size), query->weights, weights_size);
	error = maxsim_launch_query(&lane->plan, format, (const float *) staged,
								query->weights != NULL ? (const float *) (staged + aligned(size)) : NULL,
								query->ntokens, query->dim, lane->image.memory, (float *) lane->weights.memory,
								lane->stream);
	if (error != cudaSuccess)
		return maxsim_cuda_failure(error, "prepare a query", size, message);
	lane->misaligned = lane->plan.alignment - 1;
	lane->reads_host = (lane->plan.family == MAXSIM_FAMILY_MMA || lane->plan.family == MAXSIM_FAMILY_PACKED) &&
					   lane->plan.nblocks == 1;
	lane->format = format;
	lane->ntokens = query->ntokens;
	lane->dim = query->dim;
	lane->has_weights = query->weights != NULL;
	lane->has_query = true;
	return MAXSIM_CUDA_OK;
}

static bool
must_move(const MaxsimCudaLane *lane, const MaxsimCudaDocument *document)
{
	int i;

	if (document->ntokens == 0)
		return false;
	if ((document->address & lane->misaligned) != 0)
		return true;
	for (i = 0; i < lane->nmappings && !lane->reads_host; i++)
		if (document->address >= lane->mappings[i].begin && document->address < lane->mappings[i].end)
			return true;
	return false;
}

static size_t
row_size(const MaxsimCudaLane *lane)
{
	return maxsim_row_size(lane->format, lane->dim);
}

/* The documents from first on that one launch takes; sets *moved, bytes to move. */
static Pass
next_pass(const MaxsimCudaLane *lane, const MaxsimCudaDocument *documents, uint32_t ndocuments, uint32_t first,
		  size_t work, size_t *moved)
{
	Pass pass = {first, 0, 0, work, 0, 0, 0};
	size_t npieces;

	*moved = 0;
	for (; first < ndocuments; first++, pass.ndocuments++)
	{
		size_t size;

		if (!must_move(lane, documents + first))
			continue;
		size = aligned(documents[first].ntokens * row_size(lane));
		if (pass.nmoves > 0 && *moved + size > MOVE_BYTES)
			break;
		*moved += size;
		pass.nmoves++;
	}
	npieces = maxsim_plan_most_pieces(&lane->device->plan, pass.ndocuments);
	pass.ranges = work + aligned(npieces * sizeof(MaxsimPiece));
	pass.moves = pass.ranges + aligned((maxsim_plan_most_ranges(&lane->device->plan) + 1) * sizeof(MaxsimRange));
	pass.end = pass.moves + aligned(pass.nmoves * sizeof(MaxsimMove));
	return pass;
}

/* Room for all passes of a batch. */
static MaxsimCudaStatus
prepare_batch(MaxsimCudaLane *lane, const MaxsimCudaDocument *documents, uint32_t ndocuments, char *message)
{
	MaxsimCudaStatus status;
	size_t most_moved = 0;
	size_t work = 0;
	uint32_t first = 0;

	while (first < ndocuments)
	{
		size_t moved;
		Pass pass = next_pass(lane, documents, ndocuments, first, work, &moved);

		most_moved = moved > most_moved ? moved : most_moved;
		work = pass.end;
		first += pass.ndocuments;
	}
	if ((status = grow_host(&lane->documents, (size_t) ndocuments * 16, message)) != MAXSIM_CUDA_OK ||
		(status = grow_pinned(&lane->scores, ndocuments * sizeof(float), "hold the scores", message)) != MAXSIM_CUDA_OK ||
		(status = grow_pinned(&lane->work, work, "hold a batch", message)) != MAXSIM_CUDA_OK ||
		(status = grow_gpu(&lane->gpu_work, work, "hold a batch", message)) != MAXSIM_CUDA_OK)
		return status;
	return grow_gpu(&lane->moved, most_moved, "copy documents to the GPU", message);
}

/* Memory for what blocks leave each other. */
static MaxsimCudaStatus
prepare_sums(MaxsimCudaLane *lane, const MaxsimBatchPlan *batch, char *message)
{
	const size_t width = (size_t) lane->plan.nblocks * lane->plan.block_tokens;
	const size_t arrivals = lane->arrivals.size;
	MaxsimCudaStatus status;
	cudaError_t error;

	if ((status = grow_gpu(&lane->sums, (size_t) batch->nslots * lane->plan.nblocks * sizeof(float), "add up scores",
						   message)) != MAXSIM_CUDA_OK ||
		(status = grow_gpu(&lane->maxima, batch->nmaxima * width * sizeof(float), "cut documents", message)) != MAXSIM_CUDA_OK ||
		(status = grow_gpu(&lane->arrivals, batch->nslots * sizeof(uint32_t), "add up scores", message)) != MAXSIM_CUDA_OK)
		return status;
	if (lane->arrivals.size == arrivals)
		return MAXSIM_CUDA_OK;
	error = cudaMemsetAsync(lane->arrivals.memory, 0, lane->arrivals.size, lane->stream);
	return error == cudaSuccess ? MAXSIM_CUDA_OK : maxsim_cuda_failure(error, "add up scores", 0, message);
}

/* Addresses and lengths of a pass; what must be moved is given its new place. */
static void
list_documents(const MaxsimCudaLane *lane, const MaxsimCudaDocument *documents, const Pass *pass,
			   uint64_t *addresses, uint32_t *lengths, MaxsimMove *moves)
{
	uint64_t to = (uint64_t) lane->moved.memory;
	float *scores = (float *) lane->scores.memory;
	uint32_t i;

	for (i = 0; i < pass->ndocuments; i++)
	{
		const MaxsimCudaDocument *document = documents + pass->first + i;
		uint64_t size = document->ntokens * row_size(lane);

		addresses[i] = document->address;
		lengths[i] = document->ntokens;
		if (document->ntokens == 0)
			scores[pass->first + i] = -INFINITY;
		else if (must_move(lane, document))
		{
			*moves++ = MaxsimMove{document->address, to, size};
			addresses[i] = to;
			to += aligned(size);
		}
	}
}

static MaxsimCudaStatus
launch_pass(MaxsimCudaLane *lane, const MaxsimCudaDocument *documents, const Pass *pass, char *message)
{
	char *work = (char *) lane->work.memory;
	char *gpu_work = (char *) lane->gpu_work.memory;
	uint64_t *addresses = (uint64_t *) lane->documents.memory;
	uint32_t *lengths = (uint32_t *) (addresses + pass->ndocuments);
	uint32_t *order = lengths + pass->ndocuments;
	MaxsimBatchPlan batch;
	MaxsimLaunch launch;
	MaxsimCudaStatus status;
	size_t ranges = 0;
	size_t used;
	cudaError_t error;

	list_documents(lane, documents, pass, addresses, lengths, (MaxsimMove *) (work + pass->moves));
	maxsim_plan_batch(&lane->device->plan, &lane->plan, (uint32_t) row_size(lane), lengths, pass->ndocuments, &batch);
	maxsim_plan_pieces(&batch, &lane->plan, (uint32_t) row_size(lane), addresses, lengths, pass->ndocuments, order,
					   (MaxsimPiece *) (work + pass->work), (MaxsimRange *) (work + pass->ranges));
	if (batch.npieces == 0)
		return MAXSIM_CUDA_OK;
	used = batch.npieces * sizeof(MaxsimPiece);
	if (batch.nranges > 0)
	{
		/* right behind the pieces, so that nothing unused is copied */
		memmove(work + pass->work + aligned(used), work + pass->ranges, (batch.nranges + 1) * sizeof(MaxsimRange));
		ranges = pass->work + aligned(used);
		used = aligned(used) + (batch.nranges + 1) * sizeof(MaxsimRange);
	}
	if ((status = prepare_sums(lane, &batch, message)) != MAXSIM_CUDA_OK)
		return status;
	memset(&launch, 0, sizeof(launch));
	launch.pieces = (const MaxsimPiece *) (gpu_work + pass->work);
	launch.ranges = (const MaxsimRange *) (gpu_work + ranges);
	launch.image = lane->image.memory;
	launch.weights = (const float *) lane->weights.memory;
	launch.scores = (float *) lane->scores.memory + pass->first;
	launch.sums = (float *) lane->sums.memory;
	launch.maxima = (float *) lane->maxima.memory;
	launch.arrivals = (uint32_t *) lane->arrivals.memory;
	launch.npieces = batch.npieces;
	launch.nranges = batch.nranges;
	launch.nblocks = lane->plan.nblocks;
	launch.cluster = batch.cluster;
	launch.processors = lane->device->plan.processors;
	launch.dim = lane->dim;
	launch.evict_first = batch.evict_first;
	error = cudaMemcpyAsync(gpu_work + pass->work, work + pass->work,
							pass->nmoves > 0 ? pass->end - pass->work : used, cudaMemcpyHostToDevice, lane->stream);
	if (error == cudaSuccess && pass->nmoves > 0)
		error = maxsim_launch_move((const MaxsimMove *) (gpu_work + pass->moves), pass->nmoves, lane->stream);
	if (error == cudaSuccess)
		error = maxsim_launch_score(&lane->plan, lane->format, &launch, lane->stream);
	return error == cudaSuccess ? MAXSIM_CUDA_OK : maxsim_cuda_failure(error, "start a batch", 0, message);
}

MaxsimCudaStatus
maxsim_cuda_submit(MaxsimCudaLane *lane, const MaxsimCudaDocument *documents, uint32_t ndocuments,
				   char message[MAXSIM_MESSAGE_SIZE])
{
	MaxsimCudaStatus status = refuse_busy(lane, message);
	cudaError_t error;
	size_t moved;
	Pass pass = {0, 0, 0, 0, 0, 0, 0};

	if (status != MAXSIM_CUDA_OK)
		return status;
	if (!lane->has_query && ndocuments > 0)
	{
		snprintf(message, MAXSIM_MESSAGE_SIZE, "the lane has no query");
		return MAXSIM_CUDA_INVALID;
	}
	error = cudaSetDevice(lane->device->number);
	if (error != cudaSuccess)
		return maxsim_cuda_failure(error, "start a batch", 0, message);
	lane->nmappings = maxsim_cuda_mappings(lane->mappings);
	status = prepare_batch(lane, documents, ndocuments, message);
	while (status == MAXSIM_CUDA_OK && pass.first + pass.ndocuments < ndocuments)
	{
		pass = next_pass(lane, documents, ndocuments, pass.first + pass.ndocuments, pass.end, &moved);
		status = launch_pass(lane, documents, &pass, message);
	}
	if (status == MAXSIM_CUDA_OK && (error = cudaEventRecord(lane->done, lane->stream)) != cudaSuccess)
		status = maxsim_cuda_failure(error, "start a batch", 0, message);
	if (status == MAXSIM_CUDA_OK)
		lane->busy = true;
	else
		(void) cudaStreamSynchronize(lane->stream);
	return status;
}

static MaxsimCudaStatus
finish(MaxsimCudaLane *lane, cudaError_t error, const float **scores, char *message)
{
	lane->busy = false;
	*scores = (const float *) lane->scores.memory;
	return error == cudaSuccess ? MAXSIM_CUDA_OK : maxsim_cuda_failure(error, "score a batch", 0, message);
}

MaxsimCudaStatus
maxsim_cuda_poll(MaxsimCudaLane *lane, const float **scores, char message[MAXSIM_MESSAGE_SIZE])
{
	cudaError_t error = cudaSuccess;

	if (lane->busy && (error = cudaSetDevice(lane->device->number)) == cudaSuccess)
		error = cudaEventQuery(lane->done);
	if (error != cudaErrorNotReady)
		return finish(lane, error, scores, message);
	return MAXSIM_CUDA_PENDING;
}

static int64_t
now(void)
{
	struct timespec time;

	(void) clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t) time.tv_sec * 1000000000 + time.tv_nsec;
}

MaxsimCudaStatus
maxsim_cuda_wait(MaxsimCudaLane *lane, const float **scores, char message[MAXSIM_MESSAGE_SIZE])
{
	static const struct timespec nap = {0, NAP};
	const int64_t start = now();
	MaxsimCudaStatus status;
	cudaError_t error;

	while ((status = maxsim_cuda_poll(lane, scores, message)) == MAXSIM_CUDA_PENDING)
	{
		int64_t waited = now() - start;

		if (waited >= DOZE)
			break;
		if (waited >= SPIN)
			(void) nanosleep(&nap, NULL);
	}
	if (status != MAXSIM_CUDA_PENDING)
		return status;
	error = cudaEventSynchronize(lane->done);
	return finish(lane, error, scores, message);
}
