/*
 * engine_shapes.c
 *		Queries and documents of many shapes, of random values, against a reference in
 *		double precision; each engine against itself in other batches and in slices.
 */
#define _GNU_SOURCE
#include "engine_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_DOCUMENTS 64

static double worst[NKINDS]; /* error as a part of the sum of |terms| */

/* How far an engine may be from the reference, and what the terms add up to. */
typedef struct Bounds
{
	double tolerance;
	double terms; /* the sum of |terms| */
} Bounds;

static double
largest_of(const float *values, uint32_t n)
{
	double largest = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		largest = fmax(largest, fabs((double) values[i]));
	return largest;
}

/* The largest sum of absolute values of a token. */
static double
largest_sum(const float *tokens, uint32_t ntokens, uint32_t dim)
{
	double largest = 0;
	uint32_t i;
	uint32_t k;

	for (i = 0; i < ntokens; i++)
	{
		double sum = 0;

		for (k = 0; k < dim; k++)
			sum += fabs((double) tokens[(size_t) i * dim + k]);
		largest = fmax(largest, sum);
	}
	return largest;
}

/* The score in double precision of a query already rounded, or with its signs. */
static double
reference_score(int kind, const MaxsimQuery *query, const float *document, uint32_t ntokens, Bounds *bounds)
{
	const uint32_t dim = query->dim;
	const double sum_of_row = kind < MAXSIM_I8 ? 0 : largest_sum(document, ntokens, dim);
	double score = 0;
	uint32_t i;
	uint32_t j;
	uint32_t k;

	*bounds = (Bounds){0, 0};
	if (ntokens == 0)
		return -INFINITY;
	for (i = 0; i < query->ntokens; i++)
	{
		const float *token = query->tokens + (size_t) i * dim;
		double weight = query->weights ? query->weights[i] : 1;
		double best = -INFINITY;
		double allowed = 0;
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

		/* a component is off by half of a step at most, of which the largest has 2048 or 2^14 */
		if (kind == MAXSIM_I8)
			allowed = largest_of(token, dim) * sum_of_row * (1 / 32767.0 + 4e-7);
		else if (kind == MAXSIM_B1)
			allowed = largest_of(token, dim) * sum_of_row * (1 / 4095.0 + 4e-7);
		else if (kind != SIGNS)
		{
			for (k = 0; k < dim; k++)
				allowed += 4e-7 * fabs((double) token[k] * document[(size_t) winner * dim + k]);
			allowed += 1e-5 * fabs(best);
		}
		score += weight * best;
		bounds->tolerance += fabs(weight) * allowed;
		bounds->terms += fabs(weight * best);
	}

	/* the score is a float */
	bounds->tolerance += 1e-7 * fabs(score);
	return score;
}

/*
 * Everything the table of shapes needs: a query, and documents that overlap in
 * an arena of rows which ends where no page can be read.
 */
typedef struct Shape
{
	int kind;
	MaxsimQuery query; /* rounded to the format */
	char *mapping;
	size_t mapping_size;
	float *decoded;  /* the arena as floats */
	float *directed; /* the query as the reference multiplies it */
	MaxsimDocument documents[MAX_DOCUMENTS];
	double expected[MAX_DOCUMENTS];
	Bounds bounds[MAX_DOCUMENTS];
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

	shape->directed = allocate(n * sizeof(float));
	for (i = 0; i < n; i++)
	{
		tokens[i] = round_to_format(random_value(shape), format_of(shape->kind));
		shape->directed[i] = shape->kind != SIGNS ? tokens[i] : tokens[i] > 0 ? 1
																			  : -1;
	}
	for (i = 0; weighted && i < ntokens; i++)
		weights[i] = i % 5 == 2 ? 0 : random_value(shape);
	shape->query = (MaxsimQuery){tokens, weights, ntokens, dim, shape->kind == SIGNS};
}

/*
 * A random token, in a row and as floats.  A scale of i8 has 16 bits, so that floats
 * hold its multiples.
 */
static void
make_token(const Shape *shape, char *row, float *token)
{
	const float scale = shape->integers ? (float) random_below(3) : (float) random_below(65536) * 0x1p-20f;
	const MaxsimFormat format = format_of(shape->kind);
	uint32_t k;

	for (k = 0; k < shape->query.dim; k++)
		if (format == MAXSIM_I8)
		{
			const int value = shape->integers ? (int) random_below(9) - 4 : (int) random_below(255) - 127;

			token[k] = scale * (float) value;
			row[sizeof(scale) + k] = (char) value;
		}
		else if (format == MAXSIM_B1)
			token[k] = random_below(2) ? 1 : -1;
		else
			token[k] = round_to_format(random_value(shape), format);
	if (format == MAXSIM_I8)
		memcpy(row, &scale, sizeof(scale));
	else
		put_rows(row, format, token, 1, shape->query.dim);
}

static void
make_shape(Shape *shape, int kind, uint32_t ntokens, uint32_t dim, const uint32_t *lengths, uint32_t nlengths,
		   bool integers)
{
	const size_t page = (size_t) sysconf(_SC_PAGESIZE);
	const size_t row_size = maxsim_row_size(format_of(kind), dim);
	uint32_t nrows = 0;
	size_t pages;
	char *arena;
	uint32_t i;

	shape->kind = kind;
	shape->integers = integers;
	make_query(shape, ntokens, dim, random_below(2));
	for (i = 0; i < nlengths; i++)
		nrows = lengths[i] > nrows ? lengths[i] : nrows;
	nrows += random_below(20);
	pages = (nrows * row_size + page - 1) / page;
	shape->mapping_size = (pages + 1) * page;
	shape->mapping = mmap(NULL, shape->mapping_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (shape->mapping == MAP_FAILED || mprotect(shape->mapping + pages * page, page, PROT_NONE) != 0)
	{
		perror("mmap");
		exit(1);
	}
	arena = shape->mapping + pages * page - nrows * row_size;

	shape->decoded = allocate((size_t) nrows * dim * sizeof(float));
	for (i = 0; i < nrows; i++)
		make_token(shape, arena + i * row_size, shape->decoded + (size_t) i * dim);

	/* anywhere, except that every third document ends with the arena */
	shape->ndocuments = nlengths;
	for (i = 0; i < nlengths; i++)
	{
		const MaxsimQuery directed = {shape->directed, shape->query.weights, ntokens, dim, false};
		uint32_t room = nrows - lengths[i];
		uint32_t begin = i % 3 == 2 ? room : random_below(room + 1);

		shape->documents[i] = (MaxsimDocument){arena + begin * row_size, lengths[i]};
		shape->expected[i] = reference_score(kind, &directed, shape->decoded + (size_t) begin * dim, lengths[i],
											 &shape->bounds[i]);
		if (integers)
			shape->bounds[i].tolerance = 0;
	}
}

static void
free_shape(Shape *shape)
{
	free((void *) shape->query.tokens);
	free((void *) shape->query.weights);
	free(shape->decoded);
	free(shape->directed);
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
	const size_t row_size = maxsim_row_size(format_of(shape->kind), query->dim);
	MaxsimDocument shuffled[MAX_DOCUMENTS];
	float scores[MAX_DOCUMENTS];
	float again[MAX_DOCUMENTS];
	char name[128];
	void *memory;
	MaxsimPrepared *prepared = prepare(engine, query, format_of(shape->kind), &memory);
	uint32_t i;

	score_batch(engine, prepared, shape->documents, n, scores);
	for (i = 0; i < n; i++)
		shuffled[i] = shape->documents[n - 1 - i];
	score_batch(engine, prepared, shuffled, n, again);
	for (i = 0; i < n; i++)
	{
		const MaxsimDocument *document = &shape->documents[i];
		const Bounds *bounds = &shape->bounds[i];
		double off = (double) scores[i] - shape->expected[i];
		float sliced;
		float alone;

		snprintf(name, sizeof(name), "%s %s%s query %u, document %u, dim %u", engine->name,
				 kind_names[shape->kind], shape->integers ? " integers" : "", query->ntokens,
				 document->ntokens, query->dim);
		if (document->ntokens == 0)
			check(scores[i] == -INFINITY, "%s: %g, not -inf", name, (double) scores[i]);
		else
			check(fabs(off) <= bounds->tolerance, "%s: %.9g, expected %.9g, off by %.3g, allowed %.3g", name,
				  (double) scores[i], shape->expected[i], off, bounds->tolerance);

		/* as the contract has it, where no term is near 0: there is much to choose from */
		if (document->ntokens >= 100 && query->dim >= 48)
		{
			const double limit = shape->kind == MAXSIM_I8 || shape->kind == MAXSIM_B1 ? 1e-3 : 1e-5;

			check(fabs(off) <= limit * bounds->terms, "%s: off by %.3g, the contract's %.3g", name, off,
				  limit * bounds->terms);
			if (bounds->terms > 0)
				worst[shape->kind] = fmax(worst[shape->kind], fabs(off) / bounds->terms);
		}
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
run_shape(int kind, uint32_t ntokens, uint32_t dim, uint64_t most_work)
{
	static const uint32_t all_lengths[] = {17, 0, 1, 33, 15, 16, 31, 32, 0, 127, 128, 129, 1, 1030, 8192};
	uint32_t lengths[LENGTHOF(all_lengths)];
	uint32_t n = 0;
	int i;

	for (i = 0; i < LENGTHOF(all_lengths); i++)
		if ((uint64_t) all_lengths[i] * dim * ntokens <= most_work)
			lengths[n++] = all_lengths[i];
	for (i = 0; i < 2; i++)
	{
		Shape shape;
		int j;

		/* with small integers, all engines must agree exactly */
		make_shape(&shape, kind, ntokens, dim, lengths, n, i == 0);
		for (j = 0; j < nengines; j++)
			check_shape(engines[j], &shape);
		free_shape(&shape);
	}
}

/* Every dimension and query length of the formats whose kernels have ends in both. */
static void
test_small_shapes(int kind, uint64_t most_work)
{
	static const uint32_t dims[] = {1024, 4096, 65535};
	uint32_t i;

	for (i = 1; i <= 300; i++)
		run_shape(kind, 1 + random_below(40), i, most_work / 4);
	for (i = 1; i <= 130; i++)
		run_shape(kind, i, 1 + random_below(260), most_work / 4);
	for (i = 0; i < (uint32_t) LENGTHOF(dims); i++)
		run_shape(kind, 3 + random_below(30), dims[i], quick ? most_work : 17 * 33 * (uint64_t) dims[i]);
}

void
test_shapes(void)
{
	static const uint32_t dims[] = {1, 3, 48, 64, 96, 100, 128, 256, 320, 640, 1024, 2560};
	static const uint32_t queries[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 20, 24, 25, 31, 32, 33, 36, 48, 64, 128, 1024};
	const uint64_t most_work = quick ? 100 * 1000 : 3 * 1000 * 1000;
	int kind;
	int i;
	int j;

	for (kind = 0; kind < NKINDS; kind++)
	{
		for (i = 0; i < LENGTHOF(dims); i++)
			for (j = 0; j < LENGTHOF(queries); j++)
				if ((uint64_t) dims[i] * queries[j] <= most_work)
					run_shape(kind, queries[j], dims[i], most_work);
		run_shape(kind, 5, 16000, quick ? 80 * 1000 : 33 * 80 * 1000);
		if (kind >= MAXSIM_I8)
			test_small_shapes(kind, most_work);
		if (!quick)
		{
			run_shape(kind, 32, 128, 8192 * 32 * 128);
			run_shape(kind, 1024, 128, 129 * 1024 * 128);
		}
		printf("%s: off by %.2g of the sum of |terms| at most\n", kind_names[kind], worst[kind]);
		fflush(stdout);
	}
}
