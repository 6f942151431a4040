/*
 * engine_test.c
 *		Every CPU engine against a double-precision reference.
 *
 * Each instruction set is forced by name and goes through the same tables of
 * shapes, formats and named cases.  Data are random: the seed is printed first,
 * and given as an argument it repeats a run.  A failure is a line with its
 * values; the last line counts them.
 *
 *		engine_test [--quick] [seed]
 *
 * --quick keeps shapes small, for emulators and sanitizers.
 */
#define _GNU_SOURCE
#include "engine_test.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAX_ENGINES 8
#define MAX_DOCUMENTS 64

const char *const format_names[MAXSIM_NFORMATS] = {"f32", "f16", "bf16"};
static const MaxsimEngine *engines[MAX_ENGINES];
static int nengines;
bool quick;
static uint64_t random_state;
static long npassed;
static long nfailed;

void
check(bool good, const char *format, ...)
{
	va_list arguments;

	if (good)
	{
		npassed++;
		return;
	}
	nfailed++;
	va_start(arguments, format);
	fputs("FAIL ", stdout);
	vprintf(format, arguments);
	putchar('\n');
	va_end(arguments);
}

uint32_t
random_u32(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t) (random_state >> 32);
}

uint32_t
random_below(uint32_t n)
{
	return (uint32_t) (((uint64_t) random_u32() * n) >> 32);
}

float
random_float(void)
{
	return (float) ((int32_t) random_u32() >> 7) * 0x1p-24f;
}

void *
allocate(size_t size)
{
	void *memory = malloc(size ? size : 1);

	if (memory == NULL)
	{
		printf("out of memory: %zu bytes\n", size);
		exit(1);
	}
	return memory;
}

bool
same_bits(float a, float b)
{
	return maxsim_float_bits(a) == maxsim_float_bits(b);
}

float
round_to_format(float value, MaxsimFormat format)
{
	if (format == MAXSIM_F16)
		return maxsim_f16_to_f32(maxsim_f16_from_f32(value));
	if (format == MAXSIM_BF16)
		return maxsim_bf16_to_f32(maxsim_bf16_from_f32(value));
	return value;
}

void
put_element(void *elements, size_t i, float value, MaxsimFormat format)
{
	uint16_t half = format == MAXSIM_F16 ? maxsim_f16_from_f32(value) : maxsim_bf16_from_f32(value);

	if (format == MAXSIM_F32)
		memcpy((char *) elements + 4 * i, &value, 4);
	else
		memcpy((char *) elements + 2 * i, &half, 2);
}

/*
 * The score in double precision of a query already rounded, and how far from it
 * an engine may be: 1e-5 of the sum of |terms|, and the rounding errors of
 * products that cancel.
 */
static double
reference_score(const MaxsimQuery *query, const float *document, uint32_t ntokens, double *tolerance)
{
	const uint32_t dim = query->dim;
	double score = 0;
	uint32_t i;
	uint32_t j;
	uint32_t k;

	*tolerance = 0;
	if (ntokens == 0)
		return -INFINITY;
	for (i = 0; i < query->ntokens; i++)
	{
		const float *token = query->tokens + (size_t) i * dim;
		double weight = query->weights ? query->weights[i] : 1;
		double best = -INFINITY;
		double magnitude = 0;
		uint32_t winner = 0;

		for (j = 0; j < ntokens; j++)
		{
			const float *row = document + (size_t) j * dim;
			double sums[4] = {0};
			double dot;

			for (k = 0; k + 4 <= dim; k += 4)
			{
				sums[0] += (double) token[k] * row[k];
				sums[1] += (double) token[k + 1] * row[k + 1];
				sums[2] += (double) token[k + 2] * row[k + 2];
				sums[3] += (double) token[k + 3] * row[k + 3];
			}
			for (; k < dim; k++)
				sums[0] += (double) token[k] * row[k];
			dot = sums[0] + sums[1] + sums[2] + sums[3];
			if (dot > best)
			{
				best = dot;
				winner = j;
			}
		}
		for (k = 0; k < dim; k++)
			magnitude += fabs((double) token[k] * document[(size_t) winner * dim + k]);
		score += weight * best;
		*tolerance += fabs(weight) * (1e-5 * fabs(best) + 4e-7 * magnitude);
	}
	return score;
}

MaxsimPrepared *
prepare(const MaxsimEngine *engine, const MaxsimQuery *query, MaxsimFormat format, void **memory)
{
	size_t size = engine->prepared_size(query, format);
	MaxsimPrepared *prepared = NULL;
	char message[MAXSIM_MESSAGE_SIZE] = "";

	*memory = allocate(size + 1);
	memset(*memory, 0xff, size + 1);
	if (engine->prepare(query, format, (char *) *memory + 1, &prepared, message) != MAXSIM_OK)
		check(false, "%s %s prepare: %s", engine->name, format_names[format], message);
	return prepared;
}

void
score_batch(const MaxsimEngine *engine, MaxsimPrepared *prepared, const MaxsimDocument *documents,
			uint32_t ndocuments, float *scores)
{
	MaxsimBatch batch = {prepared, documents, ndocuments, scores, NULL, NULL};

	memset(scores, 0xff, ndocuments * sizeof(float));
	if (engine->score(&batch) != MAXSIM_OK)
		check(false, "%s score: not MAXSIM_OK", engine->name);
}

float
score_floats(const MaxsimEngine *engine, const MaxsimQuery *query, MaxsimFormat format,
			 const float *values, uint32_t ntokens)
{
	size_t n = (size_t) ntokens * query->dim;
	void *elements = allocate(n * maxsim_element_size(format));
	MaxsimDocument document = {elements, ntokens};
	void *memory;
	float score;
	size_t i;

	for (i = 0; i < n; i++)
		put_element(elements, i, values[i], format);
	score_batch(engine, prepare(engine, query, format, &memory), &document, 1, &score);
	free(memory);
	free(elements);
	return score;
}

/*
 * Everything the table of shapes needs: a query, and documents that overlap in
 * an arena of elements which ends where no page can be read.
 */
typedef struct Shape
{
	MaxsimFormat format;
	MaxsimQuery query; /* rounded to the format */
	char *mapping;
	size_t mapping_size;
	float *decoded; /* the arena as floats */
	MaxsimDocument documents[MAX_DOCUMENTS];
	double expected[MAX_DOCUMENTS];
	double tolerance[MAX_DOCUMENTS];
	uint32_t ndocuments;
	bool integers;
} Shape;

/* A random value: a small integer, or anything between -1 and 1. */
static float
random_value(const Shape *shape)
{
	return shape->integers ? (float) ((int) random_below(9) - 4) : random_float();
}

static void
make_query(Shape *shape, uint32_t ntokens, uint32_t dim, bool weighted)
{
	size_t n = (size_t) ntokens * dim;
	float *tokens = allocate(n * sizeof(float));
	float *weights = weighted ? allocate(ntokens * sizeof(float)) : NULL;
	size_t i;

	for (i = 0; i < n; i++)
		tokens[i] = round_to_format(random_value(shape), shape->format);
	for (i = 0; weighted && i < ntokens; i++)
		weights[i] = i % 5 == 2 ? 0 : random_value(shape);
	shape->query = (MaxsimQuery){tokens, weights, ntokens, dim};
}

static void
make_shape(Shape *shape, MaxsimFormat format, uint32_t ntokens, uint32_t dim, const uint32_t *lengths,
		   uint32_t nlengths, bool integers)
{
	const size_t page = (size_t) sysconf(_SC_PAGESIZE);
	const size_t size = maxsim_element_size(format);
	uint32_t longest = 0;
	size_t nelements;
	size_t pages;
	char *arena;
	size_t i;

	shape->format = format;
	shape->integers = integers;
	make_query(shape, ntokens, dim, random_below(2));
	for (i = 0; i < nlengths; i++)
		longest = lengths[i] > longest ? lengths[i] : longest;
	nelements = (size_t) longest * dim + random_below(100);
	pages = (nelements * size + page - 1) / page;
	shape->mapping_size = (pages + 1) * page;
	shape->mapping = mmap(NULL, shape->mapping_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (shape->mapping == MAP_FAILED || mprotect(shape->mapping + pages * page, page, PROT_NONE) != 0)
	{
		perror("mmap");
		exit(1);
	}
	arena = shape->mapping + pages * page - nelements * size;

	shape->decoded = allocate(nelements * sizeof(float));
	for (i = 0; i < nelements; i++)
	{
		shape->decoded[i] = round_to_format(random_value(shape), format);
		put_element(arena, i, shape->decoded[i], format);
	}

	/* anywhere, except that every third document ends with the arena */
	shape->ndocuments = nlengths;
	for (i = 0; i < nlengths; i++)
	{
		size_t room = nelements - (size_t) lengths[i] * dim;
		size_t begin = i % 3 == 2 ? room : random_below((uint32_t) room + 1);

		shape->documents[i] = (MaxsimDocument){arena + begin * size, lengths[i]};
		shape->expected[i] =
			reference_score(&shape->query, shape->decoded + begin, lengths[i], &shape->tolerance[i]);
		if (integers)
			shape->tolerance[i] = 0;
	}
}

static void
free_shape(Shape *shape)
{
	free((void *) shape->query.tokens);
	free((void *) shape->query.weights);
	free(shape->decoded);
	munmap(shape->mapping, shape->mapping_size);
}

/* The score of a document folded in random slices. */
static float
score_in_slices(const MaxsimEngine *engine, MaxsimPrepared *prepared, const MaxsimDocument *document, size_t row_size)
{
	const char *tokens = document->tokens;
	uint32_t left = document->ntokens;

	engine->begin(prepared);
	while (left > 0)
	{
		uint32_t n = random_below(left < 40 ? left + 1 : left / 2);

		if (engine->fold(prepared, tokens, n, NULL, NULL) != MAXSIM_OK)
			check(false, "%s fold: not MAXSIM_OK", engine->name);
		tokens += n * row_size;
		left -= n;
	}
	return engine->finish(prepared);
}

/* One engine on one shape: against the reference, and against itself. */
static void
check_shape(const MaxsimEngine *engine, Shape *shape)
{
	const uint32_t n = shape->ndocuments;
	const MaxsimQuery *query = &shape->query;
	const size_t row_size = query->dim * maxsim_element_size(shape->format);
	MaxsimDocument shuffled[MAX_DOCUMENTS];
	float scores[MAX_DOCUMENTS];
	float again[MAX_DOCUMENTS];
	char name[128];
	void *memory;
	MaxsimPrepared *prepared = prepare(engine, query, shape->format, &memory);
	uint32_t i;

	score_batch(engine, prepared, shape->documents, n, scores);
	for (i = 0; i < n; i++)
		shuffled[i] = shape->documents[n - 1 - i];
	score_batch(engine, prepared, shuffled, n, again);
	for (i = 0; i < n; i++)
	{
		const MaxsimDocument *document = &shape->documents[i];
		double off = (double) scores[i] - shape->expected[i];
		float sliced;
		float alone;

		snprintf(name, sizeof(name), "%s %s%s query %u, document %u, dim %u", engine->name,
				 format_names[shape->format], shape->integers ? " integers" : "", query->ntokens,
				 document->ntokens, query->dim);
		if (document->ntokens == 0)
			check(scores[i] == -INFINITY, "%s: %g, not -inf", name, (double) scores[i]);
		else
			check(fabs(off) <= shape->tolerance[i], "%s: %.9g, expected %.9g, off by %.3g, allowed %.3g", name,
				  (double) scores[i], shape->expected[i], off, shape->tolerance[i]);
		check(same_bits(scores[i], again[n - 1 - i]), "%s: %.9g, in another batch %.9g", name,
			  (double) scores[i], (double) again[n - 1 - i]);
		sliced = score_in_slices(engine, prepared, document, row_size);
		check(same_bits(scores[i], sliced), "%s: %.9g, in slices %.9g", name, (double) scores[i], (double) sliced);
		score_batch(engine, prepared, document, 1, &alone);
		check(same_bits(scores[i], alone), "%s: %.9g, alone %.9g", name, (double) scores[i], (double) alone);
	}
	free(memory);
}

/* A query length and dimension with the documents that are not too much work. */
static void
run_shape(uint32_t ntokens, uint32_t dim, uint64_t most_work)
{
	static const uint32_t all_lengths[] = {17, 0, 1, 33, 15, 16, 31, 32, 0, 127, 128, 129, 1, 1030, 8192};
	uint32_t lengths[LENGTHOF(all_lengths)];
	uint32_t n = 0;
	int format;
	int i;

	for (i = 0; i < LENGTHOF(all_lengths); i++)
		if ((uint64_t) all_lengths[i] * dim * ntokens <= most_work)
			lengths[n++] = all_lengths[i];
	for (format = 0; format < MAXSIM_NFORMATS; format++)
		for (i = 0; i < 2; i++)
		{
			Shape shape;
			int j;

			/* with small integers, all engines must agree exactly */
			make_shape(&shape, format, ntokens, dim, lengths, n, i == 0);
			for (j = 0; j < nengines; j++)
				check_shape(engines[j], &shape);
			free_shape(&shape);
		}
}

static void
test_shapes(void)
{
	static const uint32_t dims[] = {1, 3, 48, 64, 96, 100, 128, 256, 320, 640, 1024, 2560};
	static const uint32_t queries[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 20, 24, 25, 31, 32, 33, 36, 48, 64, 128, 1024};
	const uint64_t most_work = quick ? 100 * 1000 : 3 * 1000 * 1000;
	int i;
	int j;

	for (i = 0; i < LENGTHOF(dims); i++)
		for (j = 0; j < LENGTHOF(queries); j++)
			if ((uint64_t) dims[i] * queries[j] <= most_work)
				run_shape(queries[j], dims[i], most_work);
	run_shape(5, 16000, quick ? 80 * 1000 : 33 * 80 * 1000);
	if (!quick)
	{
		run_shape(32, 128, 8192 * 32 * 128);
		run_shape(1024, 128, 129 * 1024 * 128);
	}
}

int
main(int argc, char **argv)
{
	uint64_t seed = (uint64_t) time(NULL) ^ (uint64_t) getpid() << 32;
	bool supported;
	int i;

	for (i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--quick") == 0)
			quick = true;
		else
			seed = strtoull(argv[i], NULL, 0);
	}
	random_state = seed * 0x9e3779b97f4a7c15u + 1;
	printf("seed %llu\n", (unsigned long long) seed);

	for (i = 0; maxsim_cpu_engine_at(i, &supported) != NULL && nengines < MAX_ENGINES; i++)
	{
		const MaxsimEngine *engine = maxsim_cpu_engine_at(i, &supported);

		printf("engine %s: %s\n", engine->name, supported ? "tested" : "not supported here");
		if (!supported)
			continue;
		engines[nengines++] = engine;
		check(maxsim_cpu_engine() == engines[0], "best engine: %s, not %s", maxsim_cpu_engine()->name,
			  engines[0]->name);
	}
	fflush(stdout);

	for (i = 0; i < nengines; i++)
		run_cases(engines[i]);
	test_shapes();
	printf("%ld passed, %ld failed\n", npassed, nfailed);
	return nfailed != 0;
}
