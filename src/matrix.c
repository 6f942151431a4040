/*
 * matrix.c
 *		See matrix.h.
 *
 * Lanes run along columns, so that a vector unit changes the speed and no sum.  The
 * Makefile has this file compiled without contracting a product and a sum into one
 * operation, which compilers do by themselves for processors that have it.
 */
#include "cpu_features.h"
#include "matrix.h"

/* rows that share what is loaded of a panel */
#define BLOCK_ROWS 4

typedef float FourLanes __attribute__((vector_size(16), aligned(4), may_alias));
typedef float EightLanes __attribute__((vector_size(32), aligned(4), may_alias));

/* The product of 4 rows and 2 vectors of columns of one panel. */
#define MULTIPLY_BLOCK(Lanes, first_column)                           \
	do                                                                \
	{                                                                 \
		const size_t lanes = sizeof(Lanes) / sizeof(float);           \
		const float *columns = panel + (first_column);                \
		Lanes sum00 = {0}, sum01 = {0}, sum10 = {0}, sum11 = {0};     \
		Lanes sum20 = {0}, sum21 = {0}, sum30 = {0}, sum31 = {0};     \
		for (size_t k = 0; k < depth; k++, columns += MATRIX_PANEL)   \
		{                                                             \
			const Lanes column0 = *(const Lanes *) columns;           \
			const Lanes column1 = *(const Lanes *) (columns + lanes); \
			sum00 += row[0][k] * column0;                             \
			sum01 += row[0][k] * column1;                             \
			sum10 += row[1][k] * column0;                             \
			sum11 += row[1][k] * column1;                             \
			sum20 += row[2][k] * column0;                             \
			sum21 += row[2][k] * column1;                             \
			sum30 += row[3][k] * column0;                             \
			sum31 += row[3][k] * column1;                             \
		}                                                             \
		*(Lanes *) (out[0] + (first_column)) = sum00;                 \
		*(Lanes *) (out[0] + (first_column) + lanes) = sum01;         \
		*(Lanes *) (out[1] + (first_column)) = sum10;                 \
		*(Lanes *) (out[1] + (first_column) + lanes) = sum11;         \
		*(Lanes *) (out[2] + (first_column)) = sum20;                 \
		*(Lanes *) (out[2] + (first_column) + lanes) = sum21;         \
		*(Lanes *) (out[3] + (first_column)) = sum30;                 \
		*(Lanes *) (out[3] + (first_column) + lanes) = sum31;         \
	} while (0)

typedef void (*MultiplyPanel)(const float *const row[BLOCK_ROWS], size_t depth, const float *panel,
							  float *const out[BLOCK_ROWS]);

static void
multiply_panel(const float *const row[BLOCK_ROWS], size_t depth, const float *panel, float *const out[BLOCK_ROWS])
{
	MULTIPLY_BLOCK(FourLanes, 0);
	MULTIPLY_BLOCK(FourLanes, 8);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
multiply_panel_avx2(const float *const row[BLOCK_ROWS], size_t depth, const float *panel, float *const out[BLOCK_ROWS])
{
	MULTIPLY_BLOCK(EightLanes, 0);
}
#endif

void
matrix_multiply(const float *rows, size_t nrows, size_t depth, const float *right, size_t columns,
				float *out, size_t stride)
{
	MultiplyPanel multiply = multiply_panel;

#ifdef __x86_64__
	if (maxsim_cpu_features() & MAXSIM_CPU_AVX2)
		multiply = multiply_panel_avx2;
#endif
	for (size_t c = 0; c < columns; c += MATRIX_PANEL)
	{
		for (size_t i = 0; i < nrows; i += BLOCK_ROWS)
		{
			const float *row[BLOCK_ROWS];
			float *to[BLOCK_ROWS];

			/* rows past the last are that one again */
			for (size_t r = 0; r < BLOCK_ROWS; r++)
			{
				size_t n = i + r < nrows ? i + r : nrows - 1;

				row[r] = rows + n * depth;
				to[r] = out + n * stride + c;
			}
			multiply(row, depth, right + c * depth, to);
		}
	}
}
