/*
 * engine_small.c
 *		Named cases of i8 and b1 documents: the ends of the ranges, what the query is
 *		rounded to, and signs.
 */
#include "engine_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const uint32_t some_dims[] = {1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130, 255, 256, 257, 300, 1024, 4096, 65535};

/* The score of rows given as bytes. */
static float
score_rows(const MaxsimEngine *engine, const MaxsimQuery *query, MaxsimFormat format, const void *rows, uint32_t ntokens)
{
	MaxsimDocument document = {rows, ntokens};
	void *memory;
	float score;

	score_batch(engine, prepare(engine, query, format, &memory), &document, 1, &score);
	free(memory);
	return score;
}

/* Rows of one int8 each, with scales of their own. */
static void
put_constant_rows(char *rows, uint32_t dim, uint32_t ntokens, const float *scales, const int *values)
{
	uint32_t i;

	for (i = 0; i < ntokens; i++, rows += maxsim_row_size(MAXSIM_I8, dim))
	{
		memcpy(rows, &scales[i], sizeof(float));
		memset(rows + sizeof(float), values[i], dim);
	}
}

/* The largest sums there are, of either sign: they must not overflow. */
static void
test_i8_sums(const MaxsimEngine *engine)
{
	static const float queries[] = {32767, -32767, 1, 0x1p-149f, 0x1.fffffep127f / 32768};
	static const float ones[] = {1};
	int i;
	int j;
	int sign;

	for (i = 0; i < LENGTHOF(some_dims); i++)
		for (j = 0; j < LENGTHOF(queries); j++)
			for (sign = -1; sign <= 1; sign += 2)
			{
				const uint32_t dim = some_dims[i];
				const int value = 127 * sign;
				float *tokens = allocate(dim * sizeof(float));
				char *row = allocate(maxsim_row_size(MAXSIM_I8, dim));
				MaxsimQuery q = {tokens, NULL, 1, dim, false};
				double expected = (double) queries[j] * value * dim;
				float score;
				uint32_t k;

				for (k = 0; k < dim; k++)
					tokens[k] = queries[j];
				put_constant_rows(row, dim, 1, ones, &value);
				score = score_rows(engine, &q, MAXSIM_I8, row, 1);
				check(fabs(score - expected) <= 1e-4 * fabs(expected) || (float) expected == score,
					  "%s i8 %g * %d, dim %u: %.9g, expected %.9g", engine->name, (double) queries[j], value, dim,
					  (double) score, expected);
				if (j < 3 && fabs(expected) < 1 << 24)
					check((double) score == (double) (float) expected, "%s i8 %g * %d, dim %u: %.9g, not exactly %.9g", engine->name,
						  (double) queries[j], value, dim, (double) score, expected);
				free(tokens);
				free(row);
			}
}

/* A row's scale counts before the maximum is taken; no scale is too large or small. */
static void
test_i8_scales(const MaxsimEngine *engine)
{
	static const struct
	{
		float query;
		float scales[3];
		int values[3];
		double expected; /* a dimension */
	} cases[] = {
		{1, {1, 0.25f, 3}, {100, 127, 30}, 100},
		{1, {0, 1, 1}, {127, -1, -100}, 0},
		{-1, {0, 1, 1}, {127, 1, 100}, 0},
		{1, {2, 1, 0.5f}, {-1, -1, -1}, -0.5},
		{1, {1e-20f, 2e-20f, 0}, {127, 126, 127}, 126 * 2e-20},
		{1e30f, {1e-20f, 2e-20f, 0}, {127, 126, 127}, 126 * 2e-20 * 1e30},
		{1e-4f, {1e34f, 2e34f, 2.6e36f}, {127, 126, 0}, 126 * 2e30},
		{1e-30f, {2.6e36f, 2e36f, 2.6e36f}, {-127, 126, 0}, 126 * 2e6},
		{1e-45f, {2.6e36f, 2e36f, 1}, {-127, 126, 0}, 126 * 2e36 * 0x1p-149},
		{3e38f, {1e-26f, 2e-26f, 0}, {-127, 126, 0}, 126 * 6e12},
	};
	static const uint32_t dims[] = {1, 128, 300};
	int i;
	int j;

	for (i = 0; i < LENGTHOF(cases); i++)
		for (j = 0; j < LENGTHOF(dims); j++)
		{
			const uint32_t dim = dims[j];
			const double expected = cases[i].expected * dim;
			float tokens[300];
			char rows[3 * (sizeof(float) + 300)];
			MaxsimQuery q = {tokens, NULL, 1, dim, false};
			float score;
			uint32_t k;

			for (k = 0; k < dim; k++)
				tokens[k] = cases[i].query;
			put_constant_rows(rows, dim, 3, cases[i].scales, cases[i].values);
			score = score_rows(engine, &q, MAXSIM_I8, rows, 3);
			check(fabs(score - expected) <= 3e-5 * fabs(expected), "%s i8 scales, case %d, dim %u: %.9g, expected %.9g",
				  engine->name, i, dim, (double) score, expected);
		}
}

/* Components that are all the largest, or one that is far larger than all others. */
static void
test_b1_sums(const MaxsimEngine *engine)
{
	static const float values[] = {1, 4095, -4095, 2730.25f, 0x1p-149f, 0x1p100f};
	int i;
	int j;

	for (i = 0; i < LENGTHOF(some_dims); i++)
		for (j = 0; j < LENGTHOF(values); j++)
		{
			const uint32_t dim = some_dims[i];
			const uint32_t odd = random_below(dim);
			const size_t row_size = maxsim_row_size(MAXSIM_B1, dim);
			float *tokens = allocate(dim * sizeof(float));
			float *signs = allocate(2 * dim * sizeof(float));
			char *rows = allocate(2 * row_size);
			MaxsimQuery q = {tokens, NULL, 1, dim, false};
			double expected = 0;
			float scores[2];
			float found;
			uint32_t k;

			for (k = 0; k < dim; k++)
			{
				tokens[k] = values[j];
				signs[k] = random_below(2) ? 1 : -1;
				signs[dim + k] = values[j] > 0 ? 1 : -1;
				expected += (double) values[j] * (double) signs[k];
			}
			put_rows(rows, MAXSIM_B1, signs, 2, dim);
			scores[0] = score_rows(engine, &q, MAXSIM_B1, rows, 1);
			scores[1] = score_rows(engine, &q, MAXSIM_B1, rows, 2);
			check(fabs(scores[0] - expected) <= fabs((double) values[j]) * dim / 4095,
				  "%s b1 %g, dim %u: %.9g, expected %.9g", engine->name, (double) values[j], dim, (double) scores[0], expected);
			if (j != 3 && dim <= 4096)
				check((double) scores[0] == (double) (float) expected &&
						  scores[1] == fabsf(values[j]) * (float) dim,
					  "%s b1 %g, dim %u: %.9g and %.9g, not exactly %.9g and %.9g", engine->name, (double) values[j], dim,
					  (double) scores[0], (double) scores[1], expected, fabs((double) values[j]) * dim);

			/* what is lost below 12 bits of the largest */
			tokens[odd] = values[j] * 4096;
			found = score_rows(engine, &q, MAXSIM_B1, rows, 1);
			expected += ((double) tokens[odd] - (double) values[j]) * (double) signs[odd];
			check(fabs(found - expected) <= fabs((double) tokens[odd]) * dim / 4095,
				  "%s b1 %g and one of 4096 times that, dim %u: %.9g, expected %.9g", engine->name, (double) values[j], dim,
				  (double) found, expected);
			free(tokens);
			free(signs);
			free(rows);
		}
}

/* A query that is a unit vector finds the sign of every bit. */
static void
test_b1_bits(const MaxsimEngine *engine)
{
	enum
	{
		DIM = 300,
		NTOKENS = 64,
	};
	float *values = random_values(NTOKENS * DIM);
	char *rows = allocate(NTOKENS * maxsim_row_size(MAXSIM_B1, DIM));
	float *units = calloc((DIM + 1) * DIM, sizeof(float)); /* and one of zeros */
	MaxsimDocument documents[NTOKENS];
	float scores[NTOKENS];
	uint32_t at;
	uint32_t i;

	put_rows(rows, MAXSIM_B1, values, NTOKENS, DIM);
	for (i = 0; i < NTOKENS; i++)
		documents[i] = (MaxsimDocument){rows + i * maxsim_row_size(MAXSIM_B1, DIM), 1};
	for (at = 0; at < DIM; at++)
	{
		const float weights[2] = {1, 0};
		const MaxsimQuery q = {units + (size_t) at * DIM, weights, 1 + at % 2, DIM, false};
		void *memory;

		units[(size_t) at * DIM + at] = 0.1f;
		score_batch(engine, prepare(engine, &q, MAXSIM_B1, &memory), documents, NTOKENS, scores);
		free(memory);
		for (i = 0; i < NTOKENS; i++)
		{
			const float expected = values[i * DIM + at] > 0 ? 0.1f : -0.1f;

			check(fabsf(scores[i] - expected) <= 0.1f / 4095, "%s b1 bit %u: %.9g, expected %.9g", engine->name, at,
				  (double) scores[i], (double) expected);
		}
	}
	free(units);
	free(values);
	free(rows);
}

/* dim - 2 * distance, exactly; what is not above 0 has the sign of -1. */
static void
test_signs(const MaxsimEngine *engine)
{
	static const float values[] = {1, 0x1p-149f, 3e38f, 0, -0.0f, -0x1p-149f, -3};
	int i;

	for (i = 0; i < LENGTHOF(some_dims); i++)
	{
		const uint32_t dim = some_dims[i];
		float *tokens = allocate(dim * sizeof(float));
		float *bits = allocate(dim * sizeof(float));
		char *row = allocate(maxsim_row_size(MAXSIM_B1, dim));
		MaxsimQuery q = {tokens, NULL, 1, dim, true};
		long distance = 0;
		float score;
		uint32_t k;

		for (k = 0; k < dim; k++)
		{
			const uint32_t choice = random_below(LENGTHOF(values));

			tokens[k] = values[choice];
			bits[k] = random_float();
			distance += (choice < 3) != (bits[k] > 0);
		}
		put_rows(row, MAXSIM_B1, bits, 1, dim);
		score = score_rows(engine, &q, MAXSIM_B1, row, 1);
		check(score == (float) ((long) dim - 2 * distance), "%s signs, dim %u: %.9g, expected %ld", engine->name, dim,
			  (double) score, (long) dim - 2 * distance);
		free(tokens);
		free(bits);
		free(row);
	}
}

/* Only bits have signs alone. */
static void
test_signs_formats(const MaxsimEngine *engine)
{
	static const float one = 1;
	MaxsimQuery q = {&one, NULL, 1, 1, true};
	int f;

	for (f = 0; f < MAXSIM_NFORMATS; f++)
	{
		void *memory = allocate(engine->prepared_size(&q, f));
		MaxsimPrepared *prepared = NULL;
		char message[MAXSIM_MESSAGE_SIZE] = "";
		MaxsimStatus status = engine->prepare(&q, f, memory, &prepared, message);

		if (f == MAXSIM_B1)
			check(status == MAXSIM_OK, "%s signs for b1: status %d, %s", engine->name, status, message);
		else
			check(status == MAXSIM_INVALID && strstr(message, "signs") != NULL && strstr(message, kind_names[f]) != NULL,
				  "%s signs for %s: status %d, %s", engine->name, kind_names[f], status, message);
		free(memory);
	}
}

void
run_small_cases(const MaxsimEngine *engine)
{
	test_i8_sums(engine);
	test_i8_scales(engine);
	test_b1_sums(engine);
	test_b1_bits(engine);
	test_signs(engine);
	test_signs_formats(engine);
}
