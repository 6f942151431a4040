/*
 * tokens.h
 *		Token vectors as SQL hands them over, whatever their type: a multivec or an
 *		array of two dimensions, seen as one matrix without a copy where possible.
 */
#ifndef MAXSIM_TOKENS_H
#define MAXSIM_TOKENS_H

#include "utils/array.h"

#include "engine.h"
#include "multivec.h"

typedef struct Tokens
{
	const void *elements; /* [ntokens][dim] in format */
	MaxsimFormat format;
	uint32 ntokens; /* 0: dim may be 0 as well */
	uint32 dim;
} Tokens;

/*
 * tokens_from_multivec	Points into the value.
 * tokens_from_array	Points into a real[], or makes a float32 copy of a double
 *						precision[], numeric[] or array of integers.  Errors: not two
 *						dimensions, a NULL, NaN or infinity inside, a value out of
 *						float32's range.
 *						An empty array has no tokens.
 * tokens_to_float		The elements as float32, palloc'd unless they are so already.
 */
extern Tokens tokens_from_multivec(const Multivec *value);
extern Tokens tokens_from_array(ArrayType *array);
extern const float *tokens_to_float(const Tokens *tokens);

/*
 * An array from outside is not believed.  These are errors unless its header fits its size:
 * number of dimensions, their lengths, place of a bitmap, and of numbers of fixed size their
 * bytes.  Nothing else may be read of it before.  Its elements must be of this type, unless
 * that is InvalidOid, and none of them NULL.
 *
 * tokens_check_list	An array of one dimension, or of none.  Returns its length.  The hint
 *						is for one of more dimensions, or NULL.
 * tokens_check_matrix	One of two dimensions, or of none: as tokens_check_array_header.
 * tokens_next_element	The next element of an array of a varlena type that is aligned as
 *						int, which must lie before the array's end; *at goes behind it.
 *						Number counts from 1, for the message.
 */
extern uint32 tokens_check_list(ArrayType *array, const char *name, Oid type, const char *hint);
extern void tokens_check_matrix(ArrayType *array, Oid type, uint32 *ntokens, uint32 *dim);
extern const char *tokens_next_element(const char **at, const char *end, uint64 number);

/*
 * tokens_check_array_header	The shape of an array from its header alone: what
 *		tokens_from_array checks, without bitmap and elements.
 * tokens_check_bitmap		An error if one of n elements is NULL.  An array can have a
 *		bitmap without a NULL in it: assigning to an element leaves one.
 * tokens_narrow_doubles	n doubles to float32; out may be the same memory.  The message
 *		counts elements from 1, after the before ones of the same value.
 */
extern void tokens_check_array_header(const ArrayType *array, uint32 *ntokens, uint32 *dim);
extern void tokens_check_bitmap(const bits8 *bitmap, uint64 n);
extern void tokens_narrow_doubles(const double *values, uint64 n, uint64 before, float *out);

/*
 * tokens_normalize		Scales each token [dim] to unit length; a token of zeros stays.
 *		The same bits on every machine: squares are exact in double precision, their sum
 *		is taken in order, and root and quotient are those of IEEE 754.
 */
extern void tokens_normalize(float *tokens, uint64 ntokens, uint32 dim);

/* An error that names both unless query and document have the same dimension. */
extern void tokens_check_dims(uint32 query_dim, uint32 doc_dim);

#endif /* MAXSIM_TOKENS_H */
