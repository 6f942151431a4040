/*
 * check.h
 *		What the C tests share: checks that are counted, and random numbers that a seed
 *		repeats.
 */
#ifndef MAXSIM_CHECK_H
#define MAXSIM_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LENGTHOF(array) ((int) (sizeof(array) / sizeof((array)[0])))

/* Counts a check, and prints what it was about if it failed (of the first 200). */
extern void check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints "N passed, N failed"; returns the status to exit with. */
extern int check_result(void);

/* Starts the random numbers: any seed will do. */
extern void random_start(uint64_t seed);
extern uint32_t random_u32(void);
extern uint32_t random_below(uint32_t n); /* n at least 1 */

/* Memory, or the end of the test. */
extern void *allocate(size_t size);

extern bool same_bits(float a, float b);

#endif /* MAXSIM_CHECK_H */
