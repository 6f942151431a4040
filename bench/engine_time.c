/*
 * engine_time.c
 *		How long the engine that the extension would pick takes for a document.
 *
 *		engine_time QUERYxTOKENSxDIM FORMAT
 *
 * prints microseconds a document: "hot", one document again and again; and
 * "stream", documents in random order from memory that no cache holds.  The
 * benchmarks of SQL run it between their rounds, so that both see the same
 * processor; bench/engine_bench.c is the one that looks at the engines closely.
 */
#include "../src/element.h"
#include "../src/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STREAM_BYTES ((size_t) 320 << 20)
#define ALIGNMENT 16
#define BATCH 64
#define SECONDS 0.05

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

/* Fills n elements of a format of floats with values between -1 and 1; they repeat, which saves time. */
static void
fill(MaxsimFormat format, char *out, size_t n)
{
	const size_t size = format == MAXSIM_F32 ? sizeof(float) : sizeof(uint16_t);
	const size_t period = n < 1 << 20 ? n : 1 << 20;

	for (size_t i = 0; i < period; i++)
	{
		float value = (float) rand() / (float) RAND_MAX * 2 - 1;

		if (format == MAXSIM_F32)
			((float *) out)[i] = value;
		else
			((uint16_t *) out)[i] = format == MAXSIM_F16 ? maxsim_f16_from_f32(value) : maxsim_bf16_from_f32(value);
	}
	for (size_t i = period; i < n; i += period)
		memcpy(out + i * size, out, (n - i < period ? n - i : period) * size);
}

/* Microseconds a document over as many passes as take a while. */
static double
time_documents(const MaxsimEngine *engine, MaxsimPrepared *query, const MaxsimDocument *documents, uint32_t ndocuments)
{
	static float scores[BATCH];
	MaxsimBatch batch = {.query = query, .scores = scores};
	double start = now();
	double elapsed;
	long n = 0;
	uint32_t first = 0;

	do
	{
		batch.documents = documents + first;
		batch.ndocuments = ndocuments - first < BATCH ? ndocuments - first : BATCH;
		engine->score(&batch);
		n += batch.ndocuments;
		first = (first + batch.ndocuments) % ndocuments;
		elapsed = now() - start;
	} while (elapsed < SECONDS);
	return elapsed * 1e6 / (double) n;
}

int
main(int argc, char **argv)
{
	static const char *const format_names[] = {"f32", "f16", "bf16"};
	const MaxsimEngine *engine = maxsim_cpu_engine();
	MaxsimFormat format = MAXSIM_F32;
	MaxsimQuery query = {0};
	MaxsimPrepared *prepared;
	MaxsimDocument *documents;
	char message[MAXSIM_MESSAGE_SIZE];
	uint32_t ntokens, ndocuments;
	size_t distance;
	float *tokens;
	char *arena;
	double hot, stream;

	if (argc != 3 || sscanf(argv[1], "%ux%ux%u", &query.ntokens, &ntokens, &query.dim) != 3)
	{
		fprintf(stderr, "usage: engine_time QUERYxTOKENSxDIM f32|f16|bf16\n");
		return 1;
	}
	while (format <= MAXSIM_BF16 && strcmp(argv[2], format_names[format]) != 0)
		format++;
	if (format > MAXSIM_BF16)
	{
		fprintf(stderr, "engine_time: no format \"%s\"\n", argv[2]);
		return 1;
	}

	distance = ntokens * maxsim_row_size(format, query.dim) / ALIGNMENT * ALIGNMENT + 2 * ALIGNMENT;
	ndocuments = (uint32_t) (STREAM_BYTES / distance);
	tokens = malloc((size_t) query.ntokens * query.dim * sizeof(float));
	arena = malloc(STREAM_BYTES);
	documents = malloc(ndocuments * sizeof(MaxsimDocument));
	if (tokens == NULL || arena == NULL || documents == NULL)
	{
		perror("engine_time");
		return 1;
	}
	fill(MAXSIM_F32, (char *) tokens, (size_t) query.ntokens * query.dim);
	fill(format, arena, STREAM_BYTES / maxsim_row_size(format, 1));
	query.tokens = tokens;
	if (engine->prepare(&query, format, malloc(engine->prepared_size(&query, format)), &prepared, message) != MAXSIM_OK)
	{
		fprintf(stderr, "engine_time: %s\n", message);
		return 1;
	}

	for (uint32_t i = 0; i < ndocuments; i++)
		documents[i] = (MaxsimDocument){arena + ALIGNMENT, ntokens};
	time_documents(engine, prepared, documents, ndocuments); /* warms up */
	hot = time_documents(engine, prepared, documents, ndocuments);
	for (uint32_t i = 0; i < ndocuments; i++)
	{
		uint32_t other = (uint32_t) rand() % (i + 1);

		documents[i] = documents[other];
		documents[other] = (MaxsimDocument){arena + i * distance + ALIGNMENT, ntokens};
	}
	stream = time_documents(engine, prepared, documents, ndocuments);
	printf("%s %.3f %.3f\n", engine->name, hot, stream);
	return 0;
}
