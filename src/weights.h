/*
 * weights.h
 *		Weights of query tokens as SQL hands them over.
 *
 * They are a double precision[], since every array of numbers converts to that by itself
 * and real[] would leave out double precision[], what drivers send for a list of numbers.
 */
#ifndef MAXSIM_WEIGHTS_H
#define MAXSIM_WEIGHTS_H

#include "utils/array.h"

/*
 * The weights of ntokens query tokens, palloc'd and rounded to float32; 0 masks a token.
 * Errors: not one dimension, another number of them, a NULL, NaN, infinity or negative
 * number inside, one that exceeds float32, and nothing but zeros.
 */
extern float *weights_from_array(ArrayType *array, uint32 ntokens);

#endif /* MAXSIM_WEIGHTS_H */
