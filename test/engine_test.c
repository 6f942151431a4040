/*
 * engine_test.c
 *		Every CPU engine against a double-precision reference: what the tests share.
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
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const char *const kind_names[NKINDS] = {"f32", "f16", "bf16", "i8", "b1", "signs"};
const MaxsimEngine *engines[MAX_ENGINES];
int nengines;
bool quick;

float
random_float(void)
{
	return (float) ((int32_t) random_u32() >> 7) * 0x1p-24f;
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

MaxsimFormat
format_of(int kind)
{
	return kind == SIGNS ? MAXSIM_B1 : (MaxsimFormat) kind;
}

float *
random_values(size_t n)
{
	float *values = allocate(n * sizeof(float));
	size_t i;

	for (i = 0; i < n; i++)
		values[i] = random_float();
	return values;
}

static void
put_i8(char *row, const float *values, uint32_t dim)
{
	float largest = 0;
	float scale = 0;
	int exponent;
	uint32_t i;

	for (i = 0; i < dim; i++)
		largest = fmaxf(largest, fabsf(values[i]));
	if (largest > 0)
	{
		frexpf(largest / 127, &exponent);
		scale = ldexpf(1, exponent);
	}
	for (i = 0; i < dim; i++)
		if (scale > 0 && rintf(values[i] / scale) != values[i] / scale)
			scale = largest / 127;
	memcpy(row, &scale, sizeof(scale));
	for (i = 0; i < dim; i++)
		row[sizeof(scale) + i] = (char) (scale > 0 ? (int) rintf(values[i] / scale) : 0);
}

void
put_rows(void *rows, MaxsimFormat format, const float *values, uint32_t ntokens, uint32_t dim)
{
	char *row = rows;
	uint32_t i;
	uint32_t k;

	for (i = 0; i < ntokens; i++, row += maxsim_row_size(format, dim), values += dim)
	{
		if (format == MAXSIM_I8)
		{
			put_i8(row, values, dim);
			continue;
		}
		memset(row, 0, maxsim_row_size(format, dim));
		for (k = 0; k < dim; k++)
		{
			uint16_t half = format == MAXSIM_F16 ? maxsim_f16_from_f32(values[k]) : maxsim_bf16_from_f32(values[k]);

			if (format == MAXSIM_F32)
				memcpy(row + sizeof(float) * k, &values[k], sizeof(float));
			else if (format != MAXSIM_B1)
				memcpy(row + sizeof(half) * k, &half, sizeof(half));
			else if (values[k] > 0)
				row[k / 8] = (char) (row[k / 8] | 0x80 >> k % 8);
		}
	}
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
		check(false, "%s %s prepare: %s", engine->name, kind_names[format], message);
	return prepared;
}

void
score_batch(const MaxsimEngine *engine, MaxsimPrepared *prepared, const MaxsimDocument *documents,
			uint32_t ndocuments, float *scores)
{
	MaxsimBatch batch = {.query = prepared, .documents = documents, .ndocuments = ndocuments, .scores = scores};

	memset(scores, 0xff, ndocuments * sizeof(float));
	if (engine->score(&batch) != MAXSIM_OK)
		check(false, "%s score: not MAXSIM_OK", engine->name);
}

float
score_floats(const MaxsimEngine *engine, const MaxsimQuery *query, MaxsimFormat format,
			 const float *values, uint32_t ntokens)
{
	void *rows = allocate(ntokens * maxsim_row_size(format, query->dim));
	MaxsimDocument document = {rows, ntokens};
	void *memory;
	float score;

	put_rows(rows, format, values, ntokens, query->dim);
	score_batch(engine, prepare(engine, query, format, &memory), &document, 1, &score);
	free(memory);
	free(rows);
	return score;
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
	random_start(seed);
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
	{
		run_cases(engines[i]);
		run_small_cases(engines[i]);
	}
	test_shapes();
	return check_result();
}
