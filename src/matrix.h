/*
 * matrix.h
 *		The product of two matrices with the same bits on every machine.
 *
 * The score kernels of the engine fuse multiplications into additions and split sums
 * as suits an instruction set.  Here each sum goes over its products one after another,
 * each rounded: what is stored, or decides, must not depend on the processor.
 */
#ifndef MAXSIM_MATRIX_H
#define MAXSIM_MATRIX_H

#include <stddef.h>
#include <stdint.h>

/*
 * The right matrix lies in panels of so many columns: column c of row k is element
 * matrix_element(depth, k, c) of it.  Its last panel is filled up with any finite numbers.
 */
#define MATRIX_PANEL 16

static inline size_t
matrix_columns(size_t columns)
{
	return (columns + MATRIX_PANEL - 1) / MATRIX_PANEL * MATRIX_PANEL;
}

static inline size_t
matrix_element(size_t depth, size_t row, size_t column)
{
	return (column / MATRIX_PANEL * depth + row) * MATRIX_PANEL + column % MATRIX_PANEL;
}

/*
 * out[i][c] = sum over k of rows[i][k] * right[k][c], k ascending: rows [nrows][depth]
 * one after another, columns a multiple of MATRIX_PANEL, and stride the floats from one
 * row of out to the next.
 */
extern void matrix_multiply(const float *rows, size_t nrows, size_t depth, const float *right, size_t columns,
							float *out, size_t stride);

#endif /* MAXSIM_MATRIX_H */
