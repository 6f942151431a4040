/*
 * cuda_cases.c
 *		The CUDA engine's named cases: batches of many documents, repetition, lanes
 *		side by side, large addresses, memory that runs out, misuse.
 */
#include "cuda_test.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NTHREADS 4

typedef struct Batch
{
	uint32_t n;
	MaxsimCudaDocument *documents;
	size_t *offsets; /* bytes in the arena */
	float *scores;
} Batch;

/*
 * n documents of random lengths anywhere in the first size bytes of the arena, in
 * both memories, 16 bytes aligned.
 */
static Batch
make_batch(uint32_t n, uint32_t shortest, uint32_t longest, size_t row_size, size_t size)
{
	Batch batch = {n, allocate(n * sizeof(MaxsimCudaDocument)), allocate(n * sizeof(size_t)), allocate(n * sizeof(float))};
	uint32_t i;

	for (i = 0; i < n; i++)
	{
		uint32_t length = shortest + random_below(longest - shortest + 1);

		batch.offsets[i] = random_below((uint32_t) ((size - length * row_size) / 16) + 1) * (size_t) 16;
		batch.documents[i] = (MaxsimCudaDocument){(random_below(2) ? gpu_arena : host_arena) + batch.offsets[i], length};
		batch.scores[i] = 0;
	}
	return batch;
}

static void
free_batch(Batch *batch)
{
	free(batch->documents);
	free(batch->offsets);
	free(batch->scores);
}

/* Fills what batches read, for one format. */
static size_t
fill_arena(MaxsimFormat format)
{
	size_t size = quick ? 1 << 20 : 8 << 20;

	fill(arena, size / maxsim_element_size(format), format, false);
	upload(size);
	return size;
}

static void
test_ragged(void)
{
	static const uint32_t dims[] = {128, 128, 128, 128, 100, 320, 1024};
	static const uint32_t queries[] = {32, 64, 100, 600, 20, 40, 17};
	int format;
	int i;
	uint32_t j;

	for (format = 0; format < MAXSIM_NFORMATS; format++)
	{
		size_t size = fill_arena(format);

		for (i = 0; i < LENGTHOF(dims); i++)
		{
			const uint32_t longest = dims[i] > 500 || quick ? 40 : 300;
			Batch batch = make_batch(few ? 20 : quick ? 200
													  : 2000,
									 0, longest, dims[i] * maxsim_element_size(format), size);
			MaxsimQuery query;

			make_query(&query, queries[i], dims[i], format, false, false);
			if (set_query(lane, &query, format, "ragged") && score(lane, batch.documents, batch.n, batch.scores, "ragged"))
				for (j = 0; j < batch.n; j += 7)
				{
					uint32_t length = batch.documents[j].ntokens;
					double tolerance;
					double expected = reference_score(&query, arena + batch.offsets[j], length, format, &tolerance);
					float alone = 0;

					check(length == 0 ? batch.scores[j] == -INFINITY : fabs(batch.scores[j] - expected) <= tolerance,
						  "ragged %s query %u dim %u, document %u: %.9g, expected %.9g", format_names[format], queries[i],
						  dims[i], length, (double) batch.scores[j], expected);
					if (j % 5 == 0 && score(lane, batch.documents + j, 1, &alone, "ragged"))
						check(same_bits(alone, batch.scores[j]), "ragged %s query %u dim %u, document %u: %.9g, alone %.9g",
							  format_names[format], queries[i], dims[i], length, (double) batch.scores[j], (double) alone);
				}
			free_query(&query);
			free_batch(&batch);
		}
	}
}

/* The same launch again and again, with the cache holding the documents and without. */
static void
test_repeated(void)
{
	static const struct
	{
		MaxsimFormat format;
		uint32_t ntokens;
		uint32_t dim;
		uint32_t longest;
	} shapes[] = {{MAXSIM_F16, 32, 128, 300}, {MAXSIM_BF16, 20, 128, 60}, {MAXSIM_F16, 32, 64, 200}, {MAXSIM_F16, 32, 96, 200}, {MAXSIM_F16, 32, 256, 100}, {MAXSIM_F16, 40, 320, 100}, {MAXSIM_BF16, 32, 1024, 50}, {MAXSIM_F16, 64, 128, 300}, {MAXSIM_F16, 128, 128, 300}, {MAXSIM_F16, 512, 128, 300}, {MAXSIM_F16, 1024, 128, 300}, {MAXSIM_F32, 32, 128, 200}, {MAXSIM_F32, 32, 1024, 50}};
	const int rounds = few ? 1 : quick ? 3
									   : 400;
	const size_t large = ARENA_SIZE / 2; /* above any second-level cache */
	int i;
	int round;
	uint32_t j;

	for (i = 0; i < LENGTHOF(shapes); i++)
	{
		const size_t row_size = shapes[i].dim * maxsim_element_size(shapes[i].format);
		size_t size = fill_arena(shapes[i].format);
		Batch batch = make_batch(few ? 20 : quick ? 40
												  : 600,
								 1, shapes[i].longest, row_size, size);
		float *again = allocate(batch.n * sizeof(float));
		MaxsimCudaDocument flush[64];
		float ignored[64];
		long wrong = 0;
		MaxsimQuery query;

		for (j = 0; j < batch.n; j++) /* all in GPU memory */
			batch.documents[j].address = gpu_arena + batch.offsets[j];
		for (j = 0; j < 64; j++)
			flush[j] = (MaxsimCudaDocument){gpu_arena + large + j * (large / 64), (uint32_t) (large / 64 / row_size)};
		make_query(&query, shapes[i].ntokens, shapes[i].dim, shapes[i].format, false, false);
		if (set_query(lane, &query, shapes[i].format, "repeated") &&
			score(lane, batch.documents, batch.n, batch.scores, "repeated"))
			for (round = 0; round < rounds; round++)
			{
				if (!quick && round % 8 == 0)
					(void) score(lane, flush, 64, ignored, "flush");
				(void) score(lane, batch.documents, batch.n, again, "repeated");
				for (j = 0; j < batch.n; j++)
					wrong += !same_bits(batch.scores[j], again[j]);
			}
		check(wrong == 0, "repeated %s query %u dim %u: %ld scores of %ld differ", format_names[shapes[i].format],
			  shapes[i].ntokens, shapes[i].dim, wrong, (long) rounds * batch.n);
		free_query(&query);
		free_batch(&batch);
		free(again);
	}
}

/* A thread with a lane of its own. */
typedef struct Worker
{
	pthread_t thread;
	MaxsimCudaLane *lane;
	Batch batch;
	MaxsimQuery query;
	float *again;
	long wrong;
} Worker;

static void *
work(void *arg)
{
	Worker *worker = arg;
	int round;
	uint32_t j;

	for (round = 0; round < (few ? 1 : quick ? 3
											 : 200);
		 round++)
	{
		(void) set_query(worker->lane, &worker->query, MAXSIM_F16, "concurrent");
		(void) score(worker->lane, worker->batch.documents, worker->batch.n, worker->again, "concurrent");
		for (j = 0; j < worker->batch.n; j++)
			worker->wrong += !same_bits(worker->batch.scores[j], worker->again[j]);
	}
	return NULL;
}

static void
test_lanes(void)
{
	static const uint32_t queries[NTHREADS] = {32, 128, 700, 64};
	char message[MAXSIM_MESSAGE_SIZE] = "";
	Worker workers[NTHREADS];
	size_t size = fill_arena(MAXSIM_F16);
	int i;

	for (i = 0; i < NTHREADS; i++)
	{
		Worker *worker = workers + i;

		worker->batch = make_batch(few ? 10 : 100, 0, quick ? 40 : 400, 256, size);
		worker->again = allocate(100 * sizeof(float));
		worker->wrong = 0;
		make_query(&worker->query, queries[i], 128, MAXSIM_F16, false, true);
		if (!expect(maxsim_cuda_lane_open(device, &worker->lane, message), MAXSIM_CUDA_OK, "lane", message) ||
			!set_query(worker->lane, &worker->query, MAXSIM_F16, "lane") ||
			!score(worker->lane, worker->batch.documents, worker->batch.n, worker->batch.scores, "lane"))
			return;
	}
	for (i = 0; i < NTHREADS; i++)
		if (pthread_create(&workers[i].thread, NULL, work, workers + i) != 0)
			abort();
	for (i = 0; i < NTHREADS; i++)
	{
		(void) pthread_join(workers[i].thread, NULL);
		check(workers[i].wrong == 0, "lane %d: %ld scores differ", i, workers[i].wrong);
		maxsim_cuda_lane_close(workers[i].lane);
		free_query(&workers[i].query);
		free_batch(&workers[i].batch);
		free(workers[i].again);
	}
}

/*
 * A document made of the same 64 MB many times scores as those 64 MB do, whatever its
 * size; and so does the part behind 2^32 bytes, or 2^31 elements, alone.
 */
static void
test_large(void)
{
	static const uint32_t queries[] = {32, 128, 600};
	const size_t block = (size_t) 64 << 20;
	const uint32_t nblocks = 96;
	const uint32_t tokens = (uint32_t) (block / 256);
	char message[MAXSIM_MESSAGE_SIZE] = "";
	MaxsimCudaDocument documents[3];
	uint64_t memory;
	float scores[3] = {0};
	uint32_t i;
	int j;

	fill(arena, block / 2, MAXSIM_F16, false);
	upload(block);
	if (!expect(maxsim_cuda_alloc(device, block * nblocks, &memory, message), MAXSIM_CUDA_OK, "6 GB", message))
		return;
	for (i = 0; i < nblocks; i++)
		(void) maxsim_cuda_copy(lane, memory + i * block, arena, block, message);
	documents[0] = (MaxsimCudaDocument){host_arena, tokens};
	documents[1] = (MaxsimCudaDocument){memory, tokens * nblocks};
	documents[2] = (MaxsimCudaDocument){memory + block * (nblocks - 1), tokens};
	for (j = 0; j < LENGTHOF(queries); j++)
	{
		MaxsimQuery query;

		make_query(&query, queries[j], 128, MAXSIM_F16, false, false);
		if (set_query(lane, &query, MAXSIM_F16, "large") && score(lane, documents, 3, scores, "large"))
			check(same_bits(scores[0], scores[1]) && same_bits(scores[0], scores[2]),
				  "query %u, 64 MB: %.9g, 96 times that: %.9g, the last of them: %.9g", queries[j], (double) scores[0],
				  (double) scores[1], (double) scores[2]);
		free_query(&query);
	}
	expect(maxsim_cuda_free(device, memory, message), MAXSIM_CUDA_OK, "free", message);
}

static void
test_memory(void)
{
	char message[MAXSIM_MESSAGE_SIZE] = "";
	uint64_t memory = 1;
	MaxsimCudaDocument document = {gpu_arena, 10};
	MaxsimQuery query;
	float score_before = 0;
	float score_after = 1;

	make_query(&query, 32, 128, MAXSIM_F16, false, false);
	(void) fill_arena(MAXSIM_F16);
	(void) set_query(lane, &query, MAXSIM_F16, "memory");
	(void) score(lane, &document, 1, &score_before, "memory");
	expect(maxsim_cuda_alloc(device, (size_t) 1 << 50, &memory, message), MAXSIM_CUDA_OUT_OF_MEMORY, "2^50 bytes", message);
	check(memory == 0 && strstr(message, "1125899906842624") != NULL, "2^50 bytes: %s", message);

	/* the same for a batch that must be moved to be aligned */
	document.address++;
	document.ntokens = 4000000000u;
	expect(maxsim_cuda_submit(lane, &document, 1, message), MAXSIM_CUDA_OUT_OF_MEMORY, "a document of 1 TB", message);
	document = (MaxsimCudaDocument){gpu_arena, 10};
	(void) score(lane, &document, 1, &score_after, "memory");
	check(same_bits(score_before, score_after), "after memory ran out: %g, before %g", (double) score_after,
		  (double) score_before);
	free_query(&query);
}

static void
test_range(void)
{
	static const struct
	{
		float value;
		MaxsimFormat format;
		MaxsimCudaStatus status;
		const char *words;
	} cases[] = {{65504, MAXSIM_F16, MAXSIM_CUDA_OK, ""},
				 {65519, MAXSIM_F16, MAXSIM_CUDA_OK, ""},
				 {-65520, MAXSIM_F16, MAXSIM_CUDA_OUT_OF_RANGE, "-65520 (token 2, dimension 3)"},
				 {3.38e38f, MAXSIM_BF16, MAXSIM_CUDA_OK, ""},
				 {3.4e38f, MAXSIM_BF16, MAXSIM_CUDA_OUT_OF_RANGE, "format bf16"},
				 {3.4e38f, MAXSIM_F32, MAXSIM_CUDA_OK, ""}};
	float tokens[2][4] = {{1, 2, 3, 4}, {1, 2, 3, 4}};
	MaxsimQuery query = {tokens[0], NULL, 2, 4};
	int i;

	for (i = 0; i < LENGTHOF(cases); i++)
	{
		char message[MAXSIM_MESSAGE_SIZE] = "";

		tokens[1][2] = cases[i].value;
		expect(maxsim_cuda_query(lane, &query, cases[i].format, message), cases[i].status, "range", message);
		check(strstr(message, cases[i].words) != NULL, "range: \"%s\" is not in \"%s\"", cases[i].words, message);
	}
}

/* Products beyond what f16 holds, and all below zero. */
static void
test_values(void)
{
	char message[MAXSIM_MESSAGE_SIZE] = "";
	MaxsimCudaDocument documents[2] = {{host_arena, 1}, {host_arena + 4096, 2}};
	float tokens[128];
	MaxsimQuery query = {tokens, NULL, 1, 128};
	float scores[2];
	int format;
	int i;

	for (format = 0; format < MAXSIM_NFORMATS; format++)
	{
		for (i = 0; i < 128; i++)
		{
			tokens[i] = 300;
			put_element(arena, i, 300, format);
			put_element(arena + 4096, i, -1, format);
			put_element(arena + 4096, 128 + i, -2, format);
		}
		if (set_query(lane, &query, format, "values") && score(lane, documents, 2, scores, "values"))
			check(scores[0] == 11520000 && scores[1] == -38400, "%s: %g and %g, not 11520000 and -38400",
				  format_names[format], (double) scores[0], (double) scores[1]);
	}
	(void) message;
}

static void
test_misuse(void)
{
	char message[MAXSIM_MESSAGE_SIZE] = "";
	MaxsimCudaDocument empty[3] = {{0, 0}, {0, 0}, {0, 0}};
	MaxsimCudaDevice *other;
	MaxsimCudaLane *fresh;
	float tokens[1] = {1};
	MaxsimQuery query = {tokens, NULL, 0, 1};
	float scores[3] = {0};
	const float *result;
	int count;

	expect(maxsim_cuda_count(&count, message), MAXSIM_CUDA_OK, "count", message);
	expect(maxsim_cuda_open(count, &other, message), MAXSIM_CUDA_UNAVAILABLE, "open", message);
	expect(maxsim_cuda_lane_open(device, &fresh, message), MAXSIM_CUDA_OK, "lane", message);
	expect(maxsim_cuda_submit(fresh, empty, 3, message), MAXSIM_CUDA_INVALID, "no query", message);
	expect(maxsim_cuda_query(fresh, &query, MAXSIM_F16, message), MAXSIM_CUDA_INVALID, "a query of no tokens", message);
	query.ntokens = 1;
	expect(maxsim_cuda_query(fresh, &query, MAXSIM_F16, message), MAXSIM_CUDA_OK, "query", message);
	if (score(fresh, empty, 3, scores, "empty"))
		check(scores[0] == -INFINITY && scores[2] == -INFINITY, "empty documents: %g", (double) scores[0]);
	expect(maxsim_cuda_submit(fresh, empty, 0, message), MAXSIM_CUDA_OK, "no documents", message);
	expect(maxsim_cuda_submit(fresh, empty, 3, message), MAXSIM_CUDA_INVALID, "in flight", message);
	expect(maxsim_cuda_query(fresh, &query, MAXSIM_F16, message), MAXSIM_CUDA_INVALID, "in flight", message);
	expect(maxsim_cuda_wait(fresh, &result, message), MAXSIM_CUDA_OK, "wait", message);
	maxsim_cuda_lane_close(fresh);
}

void
test_cases(void)
{
	test_misuse();
	test_range();
	test_values();
	test_memory();
	test_ragged();
	test_repeated();
	test_lanes();
	if (!quick)
		test_large();
}
