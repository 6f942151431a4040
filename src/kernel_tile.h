/*
 * kernel_tile.h
 *		The tile kernel, written once for every instruction set.
 *
 * Lanes are query tokens: a step loads the query's values of one dimension into
 * one or two vectors and multiplies them with one scalar of each document row,
 * broadcast.  So there is no horizontal sum, no remainder in the dimension, and
 * the alignment of the document hardly matters.  What it takes: as many
 * accumulators as cover the latency of a multiply-add on every port, and fewer
 * loads than multiply-adds.
 *
 * The includer defines TILE_TARGET (the target attribute), TILE_ISA (the suffix
 * of names), TILE_HEIGHT (rows, at most 12), TILE_CHUNK (dimensions converted at
 * a time), TILE_NARROW if it wants groups of one vector, Vector, VECTOR_LANES and the operations vector_zero, vector_load, vector_store, vector_broadcast,
 * vector_fma(a, b, c) = a * b + c, vector_add, vector_max and
 * vector_lowest (all minus infinity).  vector_max(a, b) must return b if a is a
 * NaN.  vector_widen(address, count, format) converts VECTOR_LANES elements and
 * reads no more than count.
 */

#include "kernel_rows.h"

#define WIDE_ROW (MAXSIM_PANEL * sizeof(float))

/*
 * Accumulators are named: as arrays they end up in memory in one compiler or the
 * other.  Those beyond rows and columns, which are constants, vanish.
 */
#define TILE_DECLARE(r, base, strides) \
	Vector low##r = vector_zero();     \
	Vector high##r = vector_zero();

/* Rows in place have any distance, converted ones a constant one. */
#define TILE_MULTIPLY(r, base, strides)                                                               \
	if (rows > r)                                                                                     \
	{                                                                                                 \
		const char *address = format == MAXSIM_F32 ? base + (strides) *stride : base0 + r * WIDE_ROW; \
		const Vector scalar = vector_broadcast(address + at);                                         \
                                                                                                      \
		low##r = vector_fma(scalar, query0, low##r);                                                  \
		if (columns > 1)                                                                              \
			high##r = vector_fma(scalar, query1, high##r);                                            \
	}

/* Dimension number i after the current one. */
#define TILE_STEP(i)                                                                               \
	do                                                                                             \
	{                                                                                              \
		const size_t at = (i) * sizeof(float);                                                     \
		const Vector query0 = vector_load(query + (i) *columns * VECTOR_LANES);                    \
		const Vector query1 = columns > 1 ? vector_load(query + ((i) *columns + 1) * VECTOR_LANES) \
										  : query0;                                                \
                                                                                                   \
		__builtin_prefetch(prefetch);                                                              \
		prefetch += tile->prefetch_step;                                                           \
		TILE_ROWS(TILE_MULTIPLY)                                                                   \
	} while (0)

#define TILE_ADVANCE(n)                       \
	do                                        \
	{                                         \
		query += (n) *columns * VECTOR_LANES; \
		base0 += (n) * sizeof(float);         \
		base3 += (n) * sizeof(float);         \
		base6 += (n) * sizeof(float);         \
		base9 += (n) * sizeof(float);         \
	} while (0)

/* Converts count dimensions of each row, and puts them where steps read them. */
#define TILE_WIDEN(r, base, strides)                      \
	if (rows > r)                                         \
		for (i = 0; i < TILE_CHUNK; i += VECTOR_LANES)    \
			if (i < count)                                \
				vector_store(wide + r * MAXSIM_PANEL + i, \
							 vector_widen(base + (strides) *stride + 2 * i, count - i, format));

static inline __attribute__((always_inline)) TILE_TARGET void
tile_widen(const char *base0, size_t stride, uint32_t count, float *wide, const uint32_t rows,
		   const MaxsimFormat format)
{
	const char *base3 = base0 + 3 * stride;
	const char *base6 = base3 + 3 * stride;
	const char *base9 = base6 + 3 * stride;
	uint32_t i;

	TILE_ROWS(TILE_WIDEN)
}

#define TILE_ADD_TOTAL(r, base, strides)                                                           \
	if (rows > r)                                                                                  \
	{                                                                                              \
		low##r = vector_add(vector_load(totals + r * columns * VECTOR_LANES), low##r);             \
		if (columns > 1)                                                                           \
			high##r = vector_add(vector_load(totals + (r * columns + 1) * VECTOR_LANES), high##r); \
	}

#define TILE_STORE_TOTAL(r, base, strides)                                    \
	if (rows > r)                                                             \
	{                                                                         \
		vector_store(totals + r * columns * VECTOR_LANES, low##r);            \
		if (columns > 1)                                                      \
			vector_store(totals + (r * columns + 1) * VECTOR_LANES, high##r); \
	}

/* Two chains of maxima, since one would be as long as its latencies. */
#define TILE_MAX(r, base, strides)                                  \
	if (rows > r)                                                   \
	{                                                               \
		low_max[r & 1] = vector_max(low##r, low_max[r & 1]);        \
		if (columns > 1)                                            \
			high_max[r & 1] = vector_max(high##r, high_max[r & 1]); \
	}

/*
 * One panel of one tile; rows, columns (vectors a step) and format are constants.
 *
 * A 16-bit format is converted chunk by chunk, one chunk ahead of the
 * multiplications: the processor does both at once, which it could not if all of
 * the panel were converted first.
 */
static inline __attribute__((always_inline)) TILE_TARGET void
tile_panel(const MaxsimTile *tile, const uint32_t rows, const uint32_t columns, const MaxsimFormat format)
{
	const float *query = tile->query;
	const char *prefetch = tile->prefetch;
	const size_t stride = tile->stride;
	float *wide = tile->wide;
	const char *base0 = format == MAXSIM_F32 ? tile->rows : (const char *) wide;
	const char *base3 = base0 + 3 * stride;
	const char *base6 = base3 + 3 * stride;
	const char *base9 = base6 + 3 * stride;
	uint32_t left = tile->depth; /* dimensions to multiply */
	uint32_t done = 0;           /* dimensions converted */

	TILE_ROWS(TILE_DECLARE)

	if (format != MAXSIM_F32)
	{
		done = left < TILE_CHUNK ? left : TILE_CHUNK;
		tile_widen(tile->rows, stride, done, wide, rows, format);
	}
	while (left > 0)
	{
		uint32_t n = left;

		if (format != MAXSIM_F32)
		{
			const uint32_t after = tile->depth - done;

			n = left - after;
			if (after >= TILE_CHUNK)
				tile_widen(tile->rows + 2 * done, stride, TILE_CHUNK, wide + done, rows, format);
			else if (after > 0)
				tile_widen(tile->rows + 2 * done, stride, after, wide + done, rows, format);
			done += after < TILE_CHUNK ? after : TILE_CHUNK;
		}
		left -= n;
		for (; n >= 4; n -= 4)
		{
			/* without this compilers keep a pointer a row, and spill them */
			if (format == MAXSIM_F32)
				__asm__(""
						: "+r"(base0), "+r"(base3), "+r"(base6), "+r"(base9));
			TILE_STEP(0);
			TILE_STEP(1);
			TILE_STEP(2);
			TILE_STEP(3);
			TILE_ADVANCE(4);
		}
		for (; n > 0; n--)
		{
			TILE_STEP(0);
			TILE_ADVANCE(1);
		}
	}

	if (!tile->first)
	{
		const float *totals = tile->totals;

		TILE_ROWS(TILE_ADD_TOTAL)
	}
	if (!tile->last)
	{
		float *totals = tile->totals;

		TILE_ROWS(TILE_STORE_TOTAL)
	}
	else
	{
		Vector low_max[2] = {vector_load(tile->maxima), vector_lowest()};
		Vector high_max[2] = {low_max[0], low_max[1]};

		if (columns > 1)
			high_max[0] = vector_load(tile->maxima + VECTOR_LANES);
		TILE_ROWS(TILE_MAX)
		vector_store(tile->maxima, vector_max(low_max[1], low_max[0]));
		if (columns > 1)
			vector_store(tile->maxima + VECTOR_LANES, vector_max(high_max[1], high_max[0]));
	}
}

/* The instances: tile_<rows>x<vectors>_<format>_<isa>. */
#define TILE_NAME_(rows, columns, format, isa) tile_##rows##x##columns##_##format##_##isa
#define TILE_NAME(rows, columns, format, isa) TILE_NAME_(rows, columns, format, isa)
#define TILE_DEFINE(rows, columns, name, format)                     \
	static TILE_TARGET void                                          \
	TILE_NAME(rows, columns, name, TILE_ISA)(const MaxsimTile *tile) \
	{                                                                \
		tile_panel(tile, rows, columns, format);                     \
	}
#define TILE_ENTRY(rows, columns, name, format) TILE_NAME(rows, columns, name, TILE_ISA),

#define TILE_TABLE(table, columns, name, format)     \
	TILE_HEIGHTS(TILE_DEFINE, columns, name, format) \
	static const MaxsimTileKernel table[TILE_HEIGHT] = {TILE_HEIGHTS(TILE_ENTRY, columns, name, format)};

#ifdef TILE_NARROW
TILE_TABLE(narrow_f32_tiles, 1, f32, MAXSIM_F32)
TILE_TABLE(narrow_f16_tiles, 1, f16, MAXSIM_F16)
TILE_TABLE(narrow_bf16_tiles, 1, bf16, MAXSIM_BF16)
#endif
TILE_TABLE(wide_f32_tiles, 2, f32, MAXSIM_F32)
TILE_TABLE(wide_f16_tiles, 2, f16, MAXSIM_F16)
TILE_TABLE(wide_bf16_tiles, 2, bf16, MAXSIM_BF16)
