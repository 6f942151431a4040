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
 * n documents of random lengths anywhere in the first size bytes of the arena, in both
 * memories: 16 bytes aligned, but those of i8 and b1 at any of its rows.
 */
static Batch
make_batch(uint32_t n, uint32_t shortest, uint32_t longest, MaxsimFormat format, uint32_t dim, size_t size)
{
	const size_t row_size = maxsim_row_size(format, dim);
	const size_t step = format == MAXSIM_I8 || format == MAXSIM_B1 ? row_size : 16;
	Batch batch = {n, allocate(n * sizeof(MaxsimCudaDocument)), allocate(n * sizeof(size_t)), allocate(n * sizeof(float))};
	uint32_t i;

	for (i = 0; i < n; i++)
	{
		uint32_t length = shortest + random_below(longest - shortest + 1);

		batch.offsets[i] = random_below((uint32_t) ((size - length * row_size) / step) + 1) * step;
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

/* Fills what batches read with rows; returns their size. */
static size_t
fill_arena(MaxsimFormat format, uint32_t dim)
{
	const size_t row_size = maxsim_row_size(format, dim);
	size_t n = (quick ? 1 << 20 : 8 << 20) / row_size;

	fill_rows(arena, n, dim, format, false);
	upload(n * row_size);
	return n * row_size;
}

static void
test_ragged(void)
{
	static const uint32_t dims[] = {128, 128, 128, 128, 100, 320, 1024, 96};
	static const uint32_t queries[] = {32, 64, 100, 600, 20, 40, 17, 33};
	int format;
	int i;
	uint32_t j;

	for (format = 0; format < MAXSIM_NFORMATS; format++)
	{
		for (i = 0; i < LENGTHOF(dims); i++)
		{
			const size_t size = fill_arena(format, dims[i]);
			const uint32_t longest = dims[i] > 500 || quick ? 40 : 300;
			Batch batch = make_batch(few ? 20 : quick ? 200
													  : 2000,
									 0, longest, format, dims[i], size);
			MaxsimQuery query;

			make_query(&query, queries[i], dims[i], false, false);
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
	} shapes[] = {{MAXSIM_F16, 32, 128, 300}, {MAXSIM_BF16, 20, 128, 60}, {MAXSIM_F16, 32, 64, 200}, {MAXSIM_F16, 32, 96, 200}, {MAXSIM_F16, 32, 256, 100}, {MAXSIM_F16, 40, 320, 100}, {MAXSIM_BF16, 32, 1024, 50}, {MAXSIM_F16, 64, 128, 300}, {MAXSIM_F16, 128, 128, 300}, {MAXSIM_F16, 512, 128, 300}, {MAXSIM_F16, 1024, 128, 300}, {MAXSIM_F32, 32, 128, 200}, {MAXSIM_F32, 32, 1024, 50}, {MAXSIM_I8, 32, 128, 300}, {MAXSIM_I8, 100, 100, 200}, {MAXSIM_I8, 64, 96, 200}, {MAXSIM_I8, 300, 128, 200}, {MAXSIM_I8, 32, 1024, 50}, {MAXSIM_B1, 32, 128, 300}, {MAXSIM_B1, 128, 128, 300}, {MAXSIM_B1, 40, 320, 200}, {MAXSIM_B1, 65, 1001, 50}};
	const int rounds = few ? 1 : quick ? 3
									   : 400;
	const size_t large = ARENA_SIZE / 2; /* above any second-level cache */
	int i;
	int round;
	uint32_t j;

	for (i = 0; i < LENGTHOF(shapes); i++)
	{
		const size_t row_size = maxsim_row_size(shapes[i].format, shapes[i].dim);
		size_t size = fill_arena(shapes[i].format, shapes[i].dim);
		Batch batch = make_batch(few ? 20 : quick ? 40
												  : 600,
								 1, shapes[i].longest, shapes[i].format, shapes[i].dim, size);
		float *again = allocate(batch.n * sizeof(float));
		MaxsimCudaDocument flush[64];
		float ignored[64];
		long wrong = 0;
		MaxsimQuery query;

		for (j = 0; j < batch.n; j++) /* all in GPU memory */
			batch.documents[j].address = gpu_arena + batch.offsets[j];
		for (j = 0; j < 64; j++)
			flush[j] = (MaxsimCudaDocument){gpu_arena + large + j * (large / 64), (uint32_t) (large / 64 / row_size)};
		make_query(&query, shapes[i].ntokens, shapes[i].dim, false, false);
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
	size_t size = fill_arena(MAXSIM_F16, 128);
	int i;

	for (i = 0; i < NTHREADS; i++)
	{
		Worker *worker = workers + i;

		worker->batch = make_batch(few ? 10 : 100, 0, quick ? 40 : 400, MAXSIM_F16, 128, size);
		worker->again = allocate(100 * sizeof(float));
		worker->wrong = 0;
		make_query(&worker->query, queries[i], 128, false, true);
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
 * A document made of the same block many times scores as that block does, whatever its
 * size; and so does the part behind 2^32 bytes, or 2^31 elements, alone.
 */
static void
check_large(MaxsimFormat format, uint32_t dim)
{
	static const uint32_t queries[] = {32, 128, 600};
	const size_t row_size = maxsim_row_size(format, dim);
	const uint32_t tokens = (uint32_t) (((size_t) 64 << 20) / row_size);
	const size_t block = tokens * row_size;
	const uint32_t nblocks = 96;
	char message[MAXSIM_MESSAGE_SIZE] = "";
	MaxsimCudaDocument documents[3];
	uint64_t memory;
	float scores[3] = {0};
	uint32_t i;
	int j;

	fill_rows(arena, tokens, dim, format, false);
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

		make_query(&query, queries[j], dim, false, false);
		if (set_query(lane, &query, format, "large") && score(lane, documents, 3, scores, "large"))
			check(same_bits(scores[0], scores[1]) && same_bits(scores[0], scores[2]),
				  "%s query %u, 64 MB: %.9g, 96 times that: %.9g, the last of them: %.9g", format_names[format],
				  queries[j], (double) scores[0], (double) scores[1], (double) scores[2]);
		free_query(&query);
	}
	expect(maxsim_cuda_free(device, memory, message), MAXSIM_CUDA_OK, "free", message);
}

static void
test_large(void)
{
	check_large(MAXSIM_F16, 128);
	check_large(MAXSIM_I8, 123);
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

	make_query(&query, 32, 128, false, false);
	(void) fill_arena(MAXSIM_F16, 128);
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
				 {3.4e38f, MAXSIM_F32, MAXSIM_CUDA_OK, ""},
				 {3.4e38f, MAXSIM_I8, MAXSIM_CUDA_OK, ""},
				 {-INFINITY, MAXSIM_I8, MAXSIM_CUDA_OUT_OF_RANGE, "-inf (token 2, dimension 3) is out of range for format i8"},
				 {3.4e38f, MAXSIM_B1, MAXSIM_CUDA_OK, ""},
				 {INFINITY, MAXSIM_B1, MAXSIM_CUDA_OUT_OF_RANGE, "format b1"}};
	float tokens[2][4] = {{1, 2, 3, 4}, {1, 2, 3, 4}};
	MaxsimQuery query = {tokens[0], NULL, 2, 4, false};
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
	MaxsimCudaDocument documents[2] = {{host_arena, 1}, {host_arena + 4096, 2}};
	float tokens[128];
	MaxsimQuery query = {tokens, NULL, 1, 128, false};
	float scores[2];
	int format;
	int i;

	for (format = 0; format < MAXSIM_NFORMATS; format++)
	{
		const float first = format == MAXSIM_B1 ? 38400 : 11520000; /* b1 keeps signs alone */
		const size_t row_size = maxsim_row_size(format, 128);
		float ones[128];
		float twos[128];

		for (i = 0; i < 128; i++)
		{
			tokens[i] = 300;
			ones[i] = -1;
			twos[i] = -2;
		}
		put_row(arena, tokens, 128, format);
		put_row(arena + 4096, ones, 128, format);
		put_row(arena + 4096 + row_size, twos, 128, format);
		if (set_query(lane, &query, format, "values") && score(lane, documents, 2, scores, "values"))
			check(scores[0] == first && scores[1] == -38400, "%s: %g and %g, not %g and -38400", format_names[format],
				  (double) scores[0], (double) scores[1], (double) first);
	}
}

/* Query values and scales of any size, each token with its own: only what they come to counts. */
static void
test_magnitudes(void)
{
	static const float magnitudes[] = {0, 1e-44f, 1e-38f, 1e-20f, 1e-3f, 1, 1e20f, 3e38f};
	static const float scales[] = {0, 1e-42f, 1e-37f, 1e-20f, 1, 1e20f, 2e36f, 3e38f};
	static const uint32_t dims[] = {100, 128}; /* of two families */
	float tokens[2 * 128];
	float weights[2] = {1, -0.5f};
	MaxsimCudaDocument document = {host_arena, 3};
	int format;
	int i;
	int j;
	uint32_t k;

	for (format = MAXSIM_I8; format <= MAXSIM_B1; format++)
		for (i = 0; i < LENGTHOF(magnitudes) * LENGTHOF(dims); i++)
			for (j = 0; j < (format == MAXSIM_I8 ? LENGTHOF(scales) : 1); j++)
			{
				const uint32_t dim = dims[i % LENGTHOF(dims)];
				const int first = i / LENGTHOF(dims);
				MaxsimQuery query = {tokens, weights, 2, dim, false};
				double tolerance;
				double expected;
				float got = 0;

				for (k = 0; k < dim; k++)
				{
					tokens[k] = random_float() * magnitudes[first];
					tokens[dim + k] = random_float() * magnitudes[LENGTHOF(magnitudes) - 1 - first] * 1e-30f;
				}
				fill_rows(arena, 3, dim, format, false);
				if (format == MAXSIM_I8)
					memcpy(arena + maxsim_row_size(format, dim), &scales[j], sizeof(float));
				expected = reference_score(&query, arena, 3, format, &tolerance);
				if (fabs(expected) > 3e38)
					continue;
				if (set_query(lane, &query, format, "magnitudes") && score(lane, &document, 1, &got, "magnitudes"))
					check(fabs(got - expected) <= tolerance + 1e-44, "%s query of %g, dim %u, scale %g: %.9g, expected %.9g",
						  format_names[format], (double) magnitudes[first], dim, (double) scales[j], (double) got, expected);
			}
}

/* Integers as large as 11 bits and an int8 hold, whose sums float32 holds: to the bit. */
static void
test_integers(void)
{
	float tokens[16][64];
	MaxsimQuery query = {tokens[0], NULL, 16, 64, false};
	MaxsimCudaDocument document = {host_arena + 1, 70};
	const size_t row_size = maxsim_row_size(MAXSIM_I8, 64);
	double tolerance;
	double expected;
	float got = 0;
	int i;
	int k;

	for (i = 0; i < 16; i++)
		for (k = 0; k < 64; k++)
			tokens[i][k] = (float) ((int) random_below(2001) - 1000);
	for (i = 0; i < 70; i++)
	{
		static const float one = 1;
		char *row = arena + 1 + i * row_size;

		memcpy(row, &one, sizeof(one));
		for (k = 0; k < 64; k++)
			row[sizeof(one) + k] = (char) (int8_t) ((int) random_below(201) - 100);
	}
	expected = reference_score(&query, arena + 1, 70, MAXSIM_I8, &tolerance);
	if (set_query(lane, &query, MAXSIM_I8, "integers") && score(lane, &document, 1, &got, "integers"))
		check(got == expected, "i8, integers: %.9g, expected %.9g", (double) got, expected);
}

/* Signs of a query by signs of documents, as 1 and -1: any number of them agrees, to the bit. */
static void
test_signs(void)
{
	static const uint32_t dims[] = {1, 96, 128, 131, 1024};
	static const uint32_t queries[] = {1, 32, 70};
	float scores[40];
	int i;
	int j;
	uint32_t k;

	for (i = 0; i < LENGTHOF(dims) * LENGTHOF(queries); i++)
	{
		const uint32_t dim = dims[i / LENGTHOF(queries)];
		const size_t row_size = maxsim_row_size(MAXSIM_B1, dim);
		MaxsimCudaDocument documents[40];
		MaxsimQuery query;

		make_query(&query, queries[i % LENGTHOF(queries)], dim, false, false);
		for (k = 0; k < query.ntokens * dim; k++)
			((float *) query.tokens)[k] = query.tokens[k] > 0 ? 1 : -1;
		fill_rows(arena, 41 * 20, dim, MAXSIM_B1, false);
		for (j = 0; j < LENGTHOF(documents); j++)
			documents[j] = (MaxsimCudaDocument){host_arena + j * 20 * row_size, (uint32_t) j + 1};
		if (set_query(lane, &query, MAXSIM_B1, "signs") && score(lane, documents, LENGTHOF(documents), scores, "signs"))
			for (j = 0; j < LENGTHOF(documents); j++)
			{
				double tolerance;
				double expected = reference_score(&query, arena + j * 20 * row_size, documents[j].ntokens, MAXSIM_B1, &tolerance);

				check(scores[j] == expected, "signs, query %u dim %u, document %d: %.9g, expected %.9g", query.ntokens, dim,
					  j + 1, (double) scores[j], expected);
			}
		free_query(&query);
	}
}

/* Documents that end where an allocation does: memcheck tells of what is read behind them. */
static void
test_ends(void)
{
	static const uint32_t dims[] = {1, 64, 96, 100, 128, 131};
	const size_t size = 1 << 18;
	const uint32_t ntokens = 70;
	char message[MAXSIM_MESSAGE_SIZE] = "";
	uint64_t memory;
	int format;
	int i;

	if (!expect(maxsim_cuda_alloc(device, size, &memory, message), MAXSIM_CUDA_OK, "256 kB", message))
		return;
	for (format = 0; format < MAXSIM_NFORMATS; format++)
		for (i = 0; i < LENGTHOF(dims); i++)
		{
			const size_t bytes = ntokens * maxsim_row_size(format, dims[i]);
			MaxsimCudaDocument documents[2] = {{memory + size - bytes, ntokens}, {host_arena, ntokens}};
			float scores[2] = {0, 1};
			MaxsimQuery query;

			fill_rows(arena, ntokens, dims[i], format, false);
			(void) maxsim_cuda_copy(lane, documents[0].address, arena, bytes, message);
			make_query(&query, 33, dims[i], false, false);
			if (set_query(lane, &query, format, "ends") && score(lane, documents, 2, scores, "ends"))
				check(same_bits(scores[0], scores[1]), "%s dim %u: at the end of memory %.9g, elsewhere %.9g",
					  format_names[format], dims[i], (double) scores[0], (double) scores[1]);
			free_query(&query);
		}
	expect(maxsim_cuda_free(device, memory, message), MAXSIM_CUDA_OK, "free", message);
}

static void
test_misuse(void)
{
	char message[MAXSIM_MESSAGE_SIZE] = "";
	MaxsimCudaDocument empty[3] = {{0, 0}, {0, 0}, {0, 0}};
	MaxsimCudaDevice *other;
	MaxsimCudaLane *fresh;
	float tokens[1] = {1};
	MaxsimQuery query = {tokens, NULL, 0, 1, false};
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
	test_magnitudes();
	test_integers();
	test_signs();
	test_ends();
	test_memory();
	test_ragged();
	test_repeated();
	test_lanes();
	if (!quick)
		test_large();
}
