/*
 * cuda_test.c
 *		The CUDA engine against a double-precision reference: tables of shapes.
 *
 * Data are random: the seed is printed first, and given as an argument it repeats a
 * run.  A failure is a line with its values; the last line counts them.  Named cases
 * are in cuda_cases.c, the reference in cuda_reference.c.
 *
 *		cuda_test [--quick | --few] [seed]
 *
 * --quick keeps shapes small, for compute-sanitizer's memcheck; --few takes but a few
 * of those, for its racecheck.
 */
#define _GNU_SOURCE
#include "cuda_test.h"
#include "element.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define MAX_DOCUMENTS 64

MaxsimCudaDevice *device;
MaxsimPlanDevice plan_device;
MaxsimCudaLane *lane;
bool quick;
bool few;
char *arena;
uint64_t host_arena;
uint64_t gpu_arena;

bool
expect(MaxsimCudaStatus status, MaxsimCudaStatus expected, const char *what, const char *message)
{
	check(status == expected, "%s: status %d, not %d: %s", what, status, expected, message);
	if (status == MAXSIM_CUDA_DEVICE_LOST && expected != status)
	{
		puts("the device is lost");
		(void) check_result();
		exit(1);
	}
	return status == expected;
}

float
random_float(void)
{
	return (float) ((int32_t) random_below(1u << 24) - (1 << 23)) * 0x1p-24f;
}

bool
set_query(MaxsimCudaLane *on, const MaxsimQuery *query, MaxsimFormat format, const char *what)
{
	char message[MAXSIM_MESSAGE_SIZE] = "";

	return expect(maxsim_cuda_query(on, query, format, message), MAXSIM_CUDA_OK, what, message);
}

bool
score(MaxsimCudaLane *on, const MaxsimCudaDocument *documents, uint32_t n, float *scores, const char *what)
{
	static __thread MaxsimCudaLane *last_lane;
	static __thread uint32_t last_n;
	char message[MAXSIM_MESSAGE_SIZE] = "";
	const float *result;

	/* the lane's memory for scores is where they were last time */
	if (on == last_lane && maxsim_cuda_wait(on, &result, message) == MAXSIM_CUDA_OK)
		memset((void *) result, 0xff, last_n * sizeof(float));
	last_lane = on;
	last_n = n;
	if (!expect(maxsim_cuda_submit(on, documents, n, message), MAXSIM_CUDA_OK, what, message) ||
		!expect(maxsim_cuda_wait(on, &result, message), MAXSIM_CUDA_OK, what, message))
		return false;
	if (n > 0)
		memcpy(scores, result, n * sizeof(float));
	return true;
}

void
upload(size_t size)
{
	char message[MAXSIM_MESSAGE_SIZE] = "";
	const float *scores;

	if (maxsim_cuda_copy(lane, gpu_arena, arena, size, message) != MAXSIM_CUDA_OK ||
		maxsim_cuda_submit(lane, NULL, 0, message) != MAXSIM_CUDA_OK ||
		maxsim_cuda_wait(lane, &scores, message) != MAXSIM_CUDA_OK)
		check(false, "upload of %zu bytes: %s", size, message);
}

/* Documents of a shape against the reference, and against themselves elsewhere. */
static void
check_documents(const MaxsimQuery *query, MaxsimFormat format, const uint32_t *lengths, const size_t *offsets,
				uint32_t n, bool integers, float *scores)
{
	const size_t row_size = maxsim_row_size(format, query->dim);
	MaxsimCudaDocument documents[MAX_DOCUMENTS];
	MaxsimCudaDocument other[MAX_DOCUMENTS];
	float again[MAX_DOCUMENTS] = {0};
	char what[96];
	uint32_t i;

	snprintf(what, sizeof(what), "%s%s query %u%s dim %u", format_names[format], integers ? " integers" : "",
			 query->ntokens, query->weights ? " weighted" : "", query->dim);
	if (!set_query(lane, query, format, what))
		return;
	for (i = 0; i < n; i++)
	{
		uint64_t base = i % 2 ? gpu_arena : host_arena;

		documents[i] = (MaxsimCudaDocument){base + offsets[i] * row_size, lengths[i]};

		/* reversed, in the other memory */
		base = i % 2 ? host_arena : gpu_arena;
		other[n - 1 - i] = (MaxsimCudaDocument){base + offsets[i] * row_size, lengths[i]};
	}
	if (!score(lane, documents, n, scores, what) || !score(lane, other, n, again, what))
		return;
	for (i = 0; i < n; i++)
	{
		double tolerance;
		double expected = reference_score(query, arena + offsets[i] * row_size, lengths[i], format, &tolerance);
		float alone;

		if (lengths[i] == 0)
			check(scores[i] == -INFINITY, "%s, no tokens: %g", what, (double) scores[i]);
		else
			check(fabs(scores[i] - expected) <= (integers ? 0 : tolerance),
				  "%s, document %u: %.9g, expected %.9g, off by %.3g, allowed %.3g", what, lengths[i],
				  (double) scores[i], expected, scores[i] - expected, integers ? 0 : tolerance);
		check(same_bits(scores[i], again[n - 1 - i]), "%s, document %u: %.9g, elsewhere %.9g", what, lengths[i],
			  (double) scores[i], (double) again[n - 1 - i]);
		if (i % 3 == 0 && score(lane, &documents[i], 1, &alone, what))
			check(same_bits(scores[i], alone), "%s, document %u: %.9g, alone %.9g", what, lengths[i],
				  (double) scores[i], (double) alone);
	}
}

/* One query length and dimension, with the documents that are not too much work. */
static void
run_shape(MaxsimFormat format, uint32_t ntokens, uint32_t dim, uint64_t most_work, bool integers)
{
	static const uint32_t all_lengths[] = {17, 0, 1, 33, 15, 16, 31, 32, 0, 127, 128, 129, 1, 1030, 8192};
	const size_t row_size = maxsim_row_size(format, dim);
	const size_t shift = random_below(2) ? 2 : 1 + random_below(15);
	uint32_t lengths[MAX_DOCUMENTS];
	size_t offsets[MAX_DOCUMENTS];
	float scores[MAX_DOCUMENTS] = {0};
	float shifted[MAX_DOCUMENTS] = {0};
	uint32_t n = 0;
	uint32_t longest = 1;
	size_t nrows;
	MaxsimQuery query;
	int i;

	for (i = 0; i < LENGTHOF(all_lengths); i++)
		if ((uint64_t) all_lengths[i] * dim * ntokens <= most_work)
		{
			lengths[n++] = all_lengths[i];
			longest = all_lengths[i] > longest ? all_lengths[i] : longest;
		}
	nrows = longest + random_below(100);
	for (i = 0; i < (int) n; i++)
		offsets[i] = i % 3 == 2 ? nrows - lengths[i] : random_below((uint32_t) (nrows - lengths[i]) + 1);
	fill_rows(arena, nrows, dim, format, integers);
	make_query(&query, ntokens, dim, integers, random_below(2));

	upload(nrows * row_size);
	check_documents(&query, format, lengths, offsets, n, integers, scores);

	/* at an address of another alignment */
	memmove(arena + shift, arena, nrows * row_size);
	upload(nrows * row_size + shift);
	arena += shift;
	host_arena += shift;
	gpu_arena += shift;
	check_documents(&query, format, lengths, offsets, n, integers, shifted);
	arena -= shift;
	host_arena -= shift;
	gpu_arena -= shift;
	for (i = 0; i < (int) n; i++)
		check(same_bits(scores[i], shifted[i]), "%s query %u dim %u, document %u: %.9g, shifted by %zu bytes %.9g",
			  format_names[format], ntokens, dim, lengths[i], (double) scores[i], shift, (double) shifted[i]);
	free_query(&query);
}

static void
test_shapes(void)
{
	static const uint32_t dims[] = {1, 3, 48, 64, 96, 100, 128, 256, 288, 320, 640, 768, 1024, 2560};
	static const uint32_t queries[] = {1, 2, 5, 16, 31, 32, 33, 48, 64, 65, 100, 128, 129, 300, 512, 513, 1024};
	const uint64_t most_work = quick ? 150 * 1000 : 3 * 1000 * 1000;
	int format;
	int i;
	int j;

	for (format = 0; format < MAXSIM_NFORMATS; format++)
	{
		for (i = 0; i < LENGTHOF(dims); i++)
			for (j = 0; j < LENGTHOF(queries); j++)
				if (!quick || (i + j + format) % (few ? 29 : 3) == 0)
				{
					run_shape(format, queries[j], dims[i], most_work, true);
					run_shape(format, queries[j], dims[i], most_work, false);
				}
		run_shape(format, 32, 128, quick ? most_work : (uint64_t) 8192 * 32 * 128, false);
		run_shape(format, 1024, 128, quick ? most_work : (uint64_t) 8192 * 1024 * 128, false);
		if (!quick)
		{
			run_shape(format, 128, 128, (uint64_t) 8192 * 128 * 128, false);
			run_shape(format, 48, 320, (uint64_t) 8192 * 48 * 320, false);
			run_shape(format, 33, 1024, (uint64_t) 8192 * 33 * 1024, false);
			run_shape(format, 8192, 128, (uint64_t) 129 * 8192 * 128, false);
		}
	}
}

static bool
start(void)
{
	char message[MAXSIM_MESSAGE_SIZE] = "";
	MaxsimCudaInfo info;

	if (maxsim_cuda_open(0, &device, message) != MAXSIM_CUDA_OK)
	{
		printf("SKIP: %s\n", message);
		return false;
	}
	maxsim_cuda_info(device, &info);
	plan_device = (MaxsimPlanDevice){info.major, info.minor, (uint32_t) info.processors, info.block_memory};
	printf("%s, %.1f GB, compute capability %d.%d, %d multiprocessors, driver for CUDA %d.%d\n", info.name,
		   (double) info.memory * 1e-9, info.major, info.minor, info.processors, info.driver / 1000,
		   info.driver % 1000 / 10);
	arena = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return arena != MAP_FAILED &&
		   expect(maxsim_cuda_lane_open(device, &lane, message), MAXSIM_CUDA_OK, "lane", message) &&
		   expect(maxsim_cuda_register(device, arena, ARENA_SIZE, message), MAXSIM_CUDA_OK, "register", message) &&
		   expect(maxsim_cuda_address(device, arena, &host_arena, message), MAXSIM_CUDA_OK, "address", message) &&
		   expect(maxsim_cuda_alloc(device, ARENA_SIZE, &gpu_arena, message), MAXSIM_CUDA_OK, "alloc", message);
}

int
main(int argc, char **argv)
{
	char message[MAXSIM_MESSAGE_SIZE] = "";
	uint64_t seed = (uint64_t) time(NULL);
	MaxsimQuery query;

	for (; argc > 1; argc--, argv++)
		if (strcmp(argv[1], "--quick") == 0)
			quick = true;
		else if (strcmp(argv[1], "--few") == 0)
			quick = few = true;
		else
			seed = strtoull(argv[1], NULL, 0);
	printf("seed %llu\n", (unsigned long long) seed);
	random_start(seed);
	if (!start())
		return check_result();
	make_query(&query, 1, 1, true, false);
	(void) set_query(lane, &query, MAXSIM_F32, "first query"); /* upload() wants one */
	free_query(&query);
	test_cases();
	test_shapes();
	maxsim_cuda_lane_close(lane);
	expect(maxsim_cuda_free(device, gpu_arena, message), MAXSIM_CUDA_OK, "free", message);
	expect(maxsim_cuda_unregister(device, arena, message), MAXSIM_CUDA_OK, "unregister", message);
	maxsim_cuda_close(device);
	return check_result();
}
