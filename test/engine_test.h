/*
 * engine_test.h
 *		What the parts of the engine test share: the checks, random values, and one
 *		document's score on any engine.
 */
#ifndef MAXSIM_ENGINE_TEST_H
#define MAXSIM_ENGINE_TEST_H

#include "../src/element.h"
#include "../src/engine.h"

#define LENGTHOF(array) ((int) (sizeof(array) / sizeof(array[0])))

extern const char *const format_names[MAXSIM_NFORMATS];
extern bool quick; /* small shapes, no timing */

/* Counts a check, and prints it if it failed. */
extern void check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

extern uint32_t random_u32(void);
extern uint32_t random_below(uint32_t n); /* n at least 1 */
extern float random_float(void);          /* from -1 to 1, a multiple of 2^-24 */

extern void *allocate(size_t size);
extern bool same_bits(float a, float b);
extern float round_to_format(float value, MaxsimFormat format);

/* Writes element i of an array of that format, at any alignment. */
extern void put_element(void *elements, size_t i, float value, MaxsimFormat format);

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

#endif /* MAXSIM_ENGINE_TEST_H */
