/*
 * engine_test.h
 *		What the parts of the engine test share: the checks, random values, and one
 *		document's score on any engine.
 */
#ifndef MAXSIM_ENGINE_TEST_H
#define MAXSIM_ENGINE_TEST_H

#include "../src/element.h"
#include "../src/engine.h"
#include "check.h"

/* What is tested: documents of a format, and b1 also against signs of the query. */
#define SIGNS MAXSIM_NFORMATS
#define NKINDS (MAXSIM_NFORMATS + 1)

extern const char *const kind_names[NKINDS];
extern MaxsimFormat format_of(int kind);
extern bool quick; /* small shapes, no timing */

#define MAX_ENGINES 8
extern const MaxsimEngine *engines[MAX_ENGINES]; /* those that can run here, best first */
extern int nengines;

extern float random_float(void); /* from -1 to 1, a multiple of 2^-24 */
extern float round_to_format(float value, MaxsimFormat format);

/*
 * Writes tokens as rows of that format, at any alignment.  i8 gets a power of two as
 * scale if the values are then what they were, else the largest value's 127th part.
 */
extern void put_rows(void *rows, MaxsimFormat format, const float *values, uint32_t ntokens, uint32_t dim);

/* Values between -1 and 1. */
extern float *random_values(size_t n);

/* Prepares a query in fresh, poisoned memory at an odd address; to be freed. */
extern MaxsimPrepared *prepare(const MaxsimEngine *engine, const MaxsimQuery *query,
							   MaxsimFormat format, void **memory);

/* The scores of documents in one batch, in poisoned memory. */
extern void score_batch(const MaxsimEngine *engine, MaxsimPrepared *prepared,
						const MaxsimDocument *documents, uint32_t ndocuments, float *scores);

/* The score of one document given as floats. */
extern float score_floats(const MaxsimEngine *engine, const MaxsimQuery *query, MaxsimFormat format,
						  const float *values, uint32_t ntokens);

/* engine_cases.c: the named cases, on one engine. */
extern void run_cases(const MaxsimEngine *engine);

/* engine_shapes.c: random values in many shapes, on all engines. */
extern void test_shapes(void);

/* engine_small.c: those of i8 and b1 documents. */
extern void run_small_cases(const MaxsimEngine *engine);

#endif /* MAXSIM_ENGINE_TEST_H */
