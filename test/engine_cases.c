/*
 * engine_cases.c
 *		Named cases: small inputs behind bugs that systems like this one have had,
 *		and the promises of engine.h that a table of shapes does not reach.
 */
#define _GNU_SOURCE
#include "engine_test.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* The score of one document, and a check that it is exactly that. */
static void
expect(const MaxsimEngine *engine, MaxsimFormat format, const char *name, const float *query,
	   const float *weights, uint32_t nquery, uint32_t dim, const float *document, uint32_t ntokens,
	   float expected)
{
	MaxsimQuery q = {query, weights, nquery, dim, false};
	float score = score_floats(engine, &q, format, document, ntokens);

	check(score == expected, "%s %s %s: %.9g, expected %.9g", engine->name, kind_names[format], name,
		  (double) score, (double) expected);
}

/* Padding, masks, weights, zero rows: exact on every format. */
static void
test_small(const MaxsimEngine *engine, MaxsimFormat f)
{
	static const float one_zero[] = {1, 0};
	static const float negative[] = {-.5f, 0, -.25f, 0};
	static const float with_zero[] = {-.5f, 0, 0, 0};
	static const float zeros[] = {0, 0, 0, 0};
	static const float four[] = {1, 2, -3, 4, 5, -6, -7, 8};
	static const float document[] = {1, 1, -2, 3};
	static const float last_two[] = {0, 0, 1, 1};
	static const float mixed[] = {2, 0, -1, 0.5f};
	static const float doubled[] = {2, 4, -6, 8, 10, -12, -14, 16};

	expect(engine, f, "padding never wins", one_zero, NULL, 1, 2, negative, 1, -.5f);
	expect(engine, f, "padding never wins, two tokens", one_zero, NULL, 1, 2, negative, 2, -.25f);
	expect(engine, f, "a zero row is a token", one_zero, NULL, 1, 2, with_zero, 2, 0);
	expect(engine, f, "zero document", four, NULL, 4, 2, zeros, 2, 0);
	expect(engine, f, "zero query", zeros, NULL, 2, 2, document, 2, 0);
	expect(engine, f, "no tokens", four, NULL, 4, 2, document, 0, -INFINITY);
	expect(engine, f, "no tokens, weight 0", one_zero, zeros, 1, 2, document, 0, -INFINITY);

	/* maxima: 4, 18, 1, 38 */
	expect(engine, f, "sum, not mean", four, NULL, 4, 2, document, 2, 4 + 18 - 1 + 38);
	expect(engine, f, "weights as a mask", four, last_two, 4, 2, document, 2, -1 + 38);
	expect(engine, f, "the mask's slice", four + 4, NULL, 2, 2, document, 2, -1 + 38);
	expect(engine, f, "weights", four, mixed, 4, 2, document, 2, 8 + 0 + 1 + 19);
	expect(engine, f, "query times 2", doubled, NULL, 4, 2, document, 2, 2 * (4 + 18 - 1 + 38));
	expect(engine, f, "all weights 0", four, zeros, 4, 2, document, 2, 0);
}

/* Values at the ends of the formats' ranges, and a document against itself. */
static void
test_extremes(const MaxsimEngine *engine, MaxsimFormat f)
{
	const uint32_t dim = 128;
	float *values = allocate(64 * dim * sizeof(float));
	float *scaled = allocate(64 * dim * sizeof(float));
	MaxsimQuery q = {values, NULL, 1, dim, false};
	float score;
	float twice;
	uint32_t i;

	for (i = 0; i < dim; i++)
		values[i] = 300;
	if (f != MAXSIM_BF16) /* 300 is not a bf16 */
		expect(engine, f, "300 times 300", values, NULL, 1, dim, values, 1, 11520000);

	for (i = 0; i < 3 * dim; i++)
		values[i] = i < dim ? -128 : -64;
	expect(engine, f, "similarities of a million", values + dim, NULL, 2, dim, values, 1, 2 * 1048576);
	for (i = 0; i < dim; i++)
		values[i] = 128;
	expect(engine, f, "far below any fill value", values + dim, NULL, 2, dim, values, 1, -2 * 1048576);

	/* 64 unit vectors */
	for (i = 0; i < 64 * dim; i++)
		values[i] = i / dim == i % dim;
	expect(engine, f, "a document against itself", values, NULL, 64, dim, values, 64, 64);

	for (i = 0; i < 64 * dim; i++)
		values[i] = round_to_format(random_float(), f);
	for (i = 0; i < 64 * dim; i++)
		scaled[i] = 2 * values[i];
	q.ntokens = 20;
	score = score_floats(engine, &q, f, values + 20 * dim, 44);
	q.tokens = scaled;
	twice = score_floats(engine, &q, f, values + 20 * dim, 44);
	check(same_bits(2 * score, twice), "%s %s scaled query: %.9g, twice %.9g", engine->name, kind_names[f],
		  (double) score, (double) twice);
	free(values);
	free(scaled);
}

/* Adding 0.1 * 0.1 again and again: rounding errors must not add up. */
static void
test_same_sign(const MaxsimEngine *engine, MaxsimFormat f)
{
	const uint32_t dim = 16000;
	float *values = allocate(dim * sizeof(float));
	MaxsimQuery q = {.tokens = values, .ntokens = 1, .dim = dim};
	double expected;
	double score;
	uint32_t i;

	for (i = 0; i < dim; i++)
		values[i] = round_to_format(0.1f, f);
	expected = (double) values[0] * values[0] * dim;
	score = score_floats(engine, &q, f, values, 1);
	check(fabs(score - expected) <= 1e-5 * expected, "%s %s 0.1 * 0.1, dim 16000: %.9g, expected %.9g",
		  engine->name, kind_names[f], score, expected);
	free(values);
}

/* Every finite value of a 16-bit format, in every lane of a conversion. */
static void
test_all_values(const MaxsimEngine *engine, MaxsimFormat f)
{
	enum
	{
		DIM = 37,
		NROWS = 65536 / DIM + 1,
	};
	uint16_t *elements = allocate(NROWS * DIM * sizeof(uint16_t));
	MaxsimDocument *documents = allocate(NROWS * sizeof(MaxsimDocument));
	float *scores = allocate(NROWS * sizeof(float));
	uint32_t at;
	uint32_t i;

	for (i = 0; i < NROWS * DIM; i++)
	{
		bool finite = f == MAXSIM_F16 ? maxsim_f16_is_finite((uint16_t) i) : maxsim_bf16_is_finite((uint16_t) i);

		elements[i] = finite ? (uint16_t) i : 0;
	}
	for (i = 0; i < NROWS; i++)
		documents[i] = (MaxsimDocument){elements + i * DIM, 1};

	/* a query that picks out one dimension */
	for (at = 0; at < DIM; at++)
	{
		float one[DIM] = {0};
		MaxsimQuery q = {one, NULL, 1, DIM, false};
		void *memory;

		one[at] = 1;
		score_batch(engine, prepare(engine, &q, f, &memory), documents, NROWS, scores);
		free(memory);
		for (i = 0; i < NROWS; i++)
		{
			uint16_t element = elements[i * DIM + at];
			float value = f == MAXSIM_F16 ? maxsim_f16_to_f32(element) : maxsim_bf16_to_f32(element);

			check(scores[i] == value, "%s %s element 0x%04x: %.9g, expected %.9g", engine->name, kind_names[f],
				  element, (double) scores[i], (double) value);
		}
	}
	free(elements);
	free(documents);
	free(scores);
}

/* A query value beyond the format is refused, at any position. */
static void
test_out_of_range(const MaxsimEngine *engine)
{
	static const struct
	{
		float value;
		MaxsimFormat format;
		const char *text; /* in the message; NULL: it fits */
	} cases[] = {
		{65504, MAXSIM_F16, NULL},
		{65519, MAXSIM_F16, NULL},
		{65520, MAXSIM_F16, "65520"},
		{-70000, MAXSIM_F16, "-70000"},
		{3.3e38f, MAXSIM_BF16, NULL},
		{-3.4e38f, MAXSIM_BF16, "e+38"},
		{3.4e38f, MAXSIM_F32, NULL},
	};
	float values[21 * 130] = {0};
	MaxsimQuery q = {values, NULL, 21, 130, false};
	int i;

	for (i = 0; i < LENGTHOF(cases); i++)
	{
		const uint32_t at = random_below(21 * 130);
		void *memory = allocate(engine->prepared_size(&q, cases[i].format));
		char message[MAXSIM_MESSAGE_SIZE] = "";
		char place[64];
		MaxsimPrepared *prepared;
		MaxsimStatus status;

		values[at] = cases[i].value;
		status = engine->prepare(&q, cases[i].format, memory, &prepared, message);
		values[at] = 0;
		snprintf(place, sizeof(place), "token %u, dimension %u", at / 130 + 1, at % 130 + 1);
		if (cases[i].text == NULL)
			check(status == MAXSIM_OK, "%s %s query value %g: status %d, %s", engine->name,
				  kind_names[cases[i].format], (double) cases[i].value, status, message);
		else
			check(status == MAXSIM_OUT_OF_RANGE && strstr(message, cases[i].text) && strstr(message, place) &&
					  strstr(message, kind_names[cases[i].format]),
				  "%s %s query value %g, %s: status %d, %s", engine->name, kind_names[cases[i].format],
				  (double) cases[i].value, place, status, message);
		free(memory);
	}
}

/* What is said to lie ahead, wherever that is and however much, changes no score. */
static void
test_ahead(const MaxsimEngine *engine, int kind)
{
	enum
	{
		NDOCUMENTS = 5,
		DIM = 200,
		NQUERY = 21
	};
	static const uint32_t lengths[NDOCUMENTS] = {1, 30, 0, 13, 64};
	const MaxsimFormat format = format_of(kind);
	const size_t row_size = maxsim_row_size(format, DIM);
	float *values = random_values(64 * DIM);
	float *query = random_values(NQUERY * DIM);
	char *rows = allocate(64 * row_size);
	char *unreadable = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const char *const places[] = {rows, unreadable, (const char *) 64};
	static const size_t sizes[] = {1, 4096, 1 << 20, (size_t) 1 << 40};
	MaxsimQuery q = {query, NULL, NQUERY, DIM, kind == SIGNS};
	MaxsimDocument documents[NDOCUMENTS];
	float expected[NDOCUMENTS];
	void *memory;
	MaxsimPrepared *prepared = prepare(engine, &q, format, &memory);
	int i;
	int k;

	put_rows(rows, format, values, 64, DIM);
	for (i = 0; i < NDOCUMENTS; i++)
		documents[i] = (MaxsimDocument){rows, lengths[i]};
	score_batch(engine, prepared, documents, NDOCUMENTS, expected);
	for (i = 0; i < LENGTHOF(places) * LENGTHOF(sizes); i++)
	{
		float scores[NDOCUMENTS] = {0};
		MaxsimBatch batch = {
			.query = prepared,
			.documents = documents,
			.ndocuments = NDOCUMENTS,
			.scores = scores,
			.ahead = places[i % LENGTHOF(places)],
			.ahead_size = sizes[i / LENGTHOF(places)],
		};
		MaxsimStatus status = engine->score(&batch);

		check(status == MAXSIM_OK && memcmp(scores, expected, sizeof(scores)) == 0, "%s %s: %zu bytes ahead at %p change scores",
			  engine->name, kind_names[kind], batch.ahead_size, (const void *) batch.ahead);
		/* nor those of what comes after it, in slices */
		for (k = 0; k < NDOCUMENTS; k++)
		{
			engine->begin(prepared);
			status = engine->fold(prepared, documents[k].tokens, documents[k].ntokens, NULL, NULL);
			check(status == MAXSIM_OK && engine->finish(prepared) == expected[k], "%s %s: a slice after a batch with bytes ahead",
				  engine->name, kind_names[kind]);
		}
	}
	free(memory);
	free(values);
	free(query);
	free(rows);
	munmap(unreadable, 1 << 20);
}

/* The same document at 64 alignments; its neighbours' bytes do not matter. */
static void
test_alignments(const MaxsimEngine *engine, int kind)
{
	enum
	{
		NQUERY = 23,
		NTOKENS = 29,
		DIM = 133,
	};
	float query[NQUERY * DIM];
	float document[NTOKENS * DIM];
	const MaxsimFormat f = format_of(kind);
	MaxsimQuery q = {query, NULL, NQUERY, DIM, kind == SIGNS};
	char *buffer = allocate(sizeof(document) + 64);
	MaxsimDocument documents[4] = {{NULL, 0}, {buffer, NTOKENS}, {NULL, 0}, {buffer, NTOKENS}};
	float scores[4];
	float expected;
	void *memory;
	MaxsimPrepared *prepared;
	int shift;
	uint32_t i;

	for (i = 0; i < NQUERY * DIM; i++)
		query[i] = random_float();
	for (i = 0; i < NTOKENS * DIM; i++)
		document[i] = random_float();
	expected = score_floats(engine, &q, f, document, NTOKENS);
	prepared = prepare(engine, &q, f, &memory);
	for (shift = 0; shift < 64; shift++)
	{
		memset(buffer, 0xff, sizeof(document) + 64);
		put_rows(buffer + shift, f, document, NTOKENS, DIM);
		documents[1].tokens = documents[3].tokens = buffer + shift;
		score_batch(engine, prepared, documents, 4, scores);
		check(scores[0] == -INFINITY && same_bits(scores[1], expected) && scores[2] == -INFINITY &&
				  same_bits(scores[3], expected),
			  "%s %s at %d bytes: %.9g %.9g %.9g %.9g, expected -inf and %.9g", engine->name, kind_names[kind], shift,
			  (double) scores[0], (double) scores[1], (double) scores[2], (double) scores[3], (double) expected);
	}
	free(memory);
	free(buffer);
}

/* Similarities that overflow: a NaN must not depend on where slices begin. */
static void
test_overflow(const MaxsimEngine *engine, uint32_t nquery)
{
	enum
	{
		NTOKENS = 30,
		DIM = 256,
	};
	static float query[32 * DIM];
	static float document[NTOKENS * DIM];
	MaxsimQuery q = {query, NULL, nquery, DIM, false};
	void *memory;
	MaxsimPrepared *prepared;
	uint32_t nan_at;
	uint32_t i;

	for (i = 0; i < 32 * DIM; i++)
		query[i] = 1e30f;
	prepared = prepare(engine, &q, MAXSIM_F32, &memory);
	for (nan_at = 0; nan_at < NTOKENS; nan_at++)
	{
		float whole;
		float sliced;

		for (i = 0; i < NTOKENS; i++)
		{
			/* infinity in the one panel, minus infinity in the other */
			document[DIM * i] = i == nan_at ? 1e30f : -1 - (float) (i * 7 % 30);
			document[DIM * i + DIM / 2] = i == nan_at ? -1e30f : 0;
		}
		whole = score_floats(engine, &q, MAXSIM_F32, document, NTOKENS);
		engine->begin(prepared);
		for (i = 0; i < NTOKENS; i++)
			engine->fold(prepared, document + DIM * i, 1, NULL, NULL);
		sliced = engine->finish(prepared);
		check(same_bits(whole, sliced), "%s query %u, overflow in token %u: %g, in slices %g", engine->name, nquery,
			  nan_at, (double) whole, (double) sliced);
	}
	free(memory);
}

/* The query is rounded to the documents' format, ties to even. */
static void
test_rounding(const MaxsimEngine *engine, MaxsimFormat f)
{
	static const float one = 1;
	static const struct
	{
		float value;
		float rounded[3];
	} cases[] = {
		{1 + 0x1p-11f, {1 + 0x1p-11f, 1, 1}},
		{1 + 0x1.8p-10f, {1 + 0x1.8p-10f, 1 + 0x1p-9f, 1}},
		{-1 - 0x1.8p-7f, {-1 - 0x1.8p-7f, -1 - 0x1.8p-7f, -1 - 0x1p-6f}},
		{0x1.8p-24f, {0x1.8p-24f, 0x1p-23f, 0x1.8p-24f}},
		{0x1p-25f, {0x1p-25f, 0, 0x1p-25f}},
		{0x1p-130f, {0x1p-130f, 0, 0x1p-130f}},
	};
	int i;

	for (i = 0; i < LENGTHOF(cases); i++)
		expect(engine, f, "rounded query", &cases[i].value, NULL, 1, 1, &one, 1, cases[i].rounded[f]);
}

typedef struct Watch
{
	long calls;
	long stop_at;   /* the call that returns true */
	long jump_at;   /* the call that does not return */
	double longest; /* milliseconds between calls */
	double last;
	jmp_buf out;
} Watch;

static double
now_ms(void)
{
	struct timespec now;

	/* of this thread: others may have the processor meanwhile */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double) now.tv_sec * 1e3 + (double) now.tv_nsec * 1e-6;
}

static bool
watch_interrupt(void *arg)
{
	Watch *watch = arg;
	double now = now_ms();

	watch->calls++;
	if (now - watch->last > watch->longest)
		watch->longest = now - watch->last;
	watch->last = now;
	if (watch->calls == watch->jump_at)
		longjmp(watch->out, 1);
	return watch->calls == watch->stop_at;
}

/* Stopping, jumping out, and how often the callback is called. */
static void
test_interrupts(const MaxsimEngine *engine, int kind, uint32_t nquery, uint32_t dim, uint32_t ntokens)
{
	const MaxsimFormat f = format_of(kind);
	float *query = random_values((size_t) nquery * dim);
	float *values = random_values((size_t) ntokens * dim);
	void *elements = allocate(ntokens * maxsim_row_size(f, dim));
	MaxsimQuery q = {query, NULL, nquery, dim, kind == SIGNS};
	MaxsimDocument documents[2] = {{elements, ntokens}, {elements, ntokens}};
	float scores[2] = {0};
	float again[2] = {0};
	Watch watch = {.last = now_ms()};
	void *memory;
	MaxsimBatch batch = {.documents = documents, .ndocuments = 2, .scores = scores, .interrupt = watch_interrupt, .interrupt_arg = &watch};
	MaxsimStatus status;
	double start;

	put_rows(elements, f, values, ntokens, dim);
	free(values);
	batch.query = prepare(engine, &q, f, &memory);

	start = watch.last = now_ms();
	status = engine->score(&batch);
	start = now_ms() - start;
	check(status == MAXSIM_OK && watch.calls > 1 && (quick || (double) watch.calls > start / 5),
		  "%s %s interrupts: status %d, %ld calls in %.1f ms, longest pause %.1f ms", engine->name,
		  kind_names[kind], status, watch.calls, start, watch.longest);

	watch.calls = 0;
	watch.stop_at = 2;
	status = engine->score(&batch);
	check(status == MAXSIM_STOPPED && watch.calls == 2, "%s %s stop: status %d after %ld calls", engine->name,
		  kind_names[kind], status, watch.calls);
	watch.calls = 0;
	engine->begin(batch.query);
	status = engine->fold(batch.query, elements, ntokens, watch_interrupt, &watch);
	if (watch.calls > 1)
		check(status == MAXSIM_STOPPED, "%s %s stop in fold: status %d", engine->name, kind_names[kind], status);

	watch.calls = 0;
	watch.stop_at = 0;
	watch.jump_at = 1;
	if (setjmp(watch.out) == 0)
	{
		engine->score(&batch);
		check(false, "%s %s jump: came back", engine->name, kind_names[kind]);
	}
	score_batch(engine, batch.query, documents, 2, again);
	check(same_bits(scores[0], again[0]) && same_bits(scores[0], again[1]),
		  "%s %s after a jump: %.9g %.9g, before %.9g", engine->name, kind_names[kind], (double) again[0],
		  (double) again[1], (double) scores[0]);
	free(memory);
	free(elements);
	free(query);
}

/* Sizes beyond 32 bits: refused where memory is meant, right where bytes are. */
static void
test_sizes(const MaxsimEngine *engine)
{
	static const uint32_t dim = 16000;
	static const float one = 1;
	const uint32_t ntokens = 70000;
	const size_t size = (size_t) ntokens * dim * sizeof(float);
	MaxsimQuery huge = {&one, NULL, UINT32_MAX, UINT32_MAX, false};
	float *query;
	float *document;

	check(engine->prepared_size(&huge, MAXSIM_F32) == 0, "%s: size of a huge query is not 0", engine->name);
	if (quick)
		return;

	/* 4.5 GB of the zero page, but for the last token */
	document = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (document == MAP_FAILED)
	{
		printf("no room for a document of %zu bytes: not tested\n", size);
		return;
	}
	query = allocate(dim * sizeof(float));
	memset(query, 0, dim * sizeof(float));
	query[dim - 1] = 3;
	document[(size_t) ntokens * dim - 1] = 5;
	{
		MaxsimQuery q = {query, NULL, 1, dim, false};
		MaxsimDocument whole = {document, ntokens};
		void *memory;
		float score;

		score_batch(engine, prepare(engine, &q, MAXSIM_F32, &memory), &whole, 1, &score);
		check(score == 15, "%s: last token of 4.5 GB scores %g, not 15", engine->name, (double) score);
		free(memory);
	}
	free(query);
	munmap(document, size);
}

void
run_cases(const MaxsimEngine *engine)
{
	/* enough work for a few calls of the interrupt callback */
	const bool fast = strncmp(engine->name, "avx", 3) == 0;
	const uint32_t ntokens = !quick ? 100000 : fast ? 30000
													: 4000;
	int kind;

	for (kind = 0; kind < NKINDS; kind++)
	{
		if (kind <= MAXSIM_I8)
		{
			test_small(engine, kind);
			test_extremes(engine, kind);
		}
		if (kind <= MAXSIM_BF16)
		{
			test_same_sign(engine, kind);
			test_rounding(engine, kind);
		}
		if (kind == MAXSIM_F16 || kind == MAXSIM_BF16)
			test_all_values(engine, kind);
		test_alignments(engine, kind);
		test_ahead(engine, kind);
		test_interrupts(engine, kind, 32, 128, ntokens);
		test_interrupts(engine, kind, 3000, 1000, fast ? 100 : 20);
	}
	test_out_of_range(engine);
	test_overflow(engine, 1);
	test_overflow(engine, 16);
	test_overflow(engine, 32);
	test_sizes(engine);
}
