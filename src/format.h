/*
 * format.h
 *		The element formats on PostgreSQL's side: their names, and token rows to and
 *		from float32 with every check.  What a row looks like: engine.h.
 */
#ifndef MAXSIM_FORMAT_H
#define MAXSIM_FORMAT_H

#include "engine.h"

struct Node;

/* Loops over values look for interrupts once in so many, which is below a millisecond. */
#define INTERRUPT_VALUES 65536

/* "f32", "f16", "bf16", "i8" or "b1"; an error if there is no such format. */
extern MaxsimFormat multivec_format_by_name(const char *name);
extern const char *multivec_format_name(MaxsimFormat format);

/*
 * multivec_load		Rows as float32 [ntokens][dim].  Rows of i8 and b1 at any alignment.
 * multivec_store		And back.  A value that is NaN, infinite or too large for the format
 *						is an error, soft where escontext allows; false then.  In i8 a
 *						token's largest component becomes 127 or -127; in b1 components
 *						above 0 become 1, the others -1.
 * multivec_check_rows	The error, likewise, unless rows are such as multivec_store makes:
 *						finite, no int8 of -128, no scale below 0, no bit beyond dim.
 * multivec_check_floats	An error if one of n values is NaN or infinite.  The message
 *						counts from 1, after the before ones of the same value.
 */
extern void multivec_load(MaxsimFormat format, const void *rows, uint64 ntokens, uint32 dim, float *out);
extern bool multivec_store(MaxsimFormat format, const float *values, uint64 ntokens, uint32 dim, void *rows,
						   struct Node *escontext);
extern bool multivec_check_rows(MaxsimFormat format, const void *rows, uint64 ntokens, uint32 dim,
								struct Node *escontext);
extern bool multivec_check_floats(const float *values, uint64 n, uint64 before, struct Node *escontext);

#endif /* MAXSIM_FORMAT_H */
