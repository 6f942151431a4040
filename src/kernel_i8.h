/*
 * kernel_i8.h
 *		The tile kernel for i8 documents and a query of int16.
 *
 * As kernel_tile.h, but that a step takes two dimensions: each lane adds the
 * products of two pairs of int16 to an int32, which is what processors have an
 * instruction for.  The document's pairs are converted to int16 first, all of a
 * panel at once.  A panel's sums cannot overflow: 128 * 127 * 32767 has 29 bits.
 *
 * The includer has included the vectors of an instruction set and defines
 * I8_TARGET, Ints (VECTOR_LANES int32; as a vector of the compiler's, since gcc
 * spills the intrinsics' type) and
 *
 * ints_dot(sums, a, b)		adds the products of pairs of int16 to sums
 * shorts_store(out, in)	converts 2 * VECTOR_LANES int8 to int16
 * shorts_store_part(out, in, count)	the first count of them, and zeros
 */

#include "kernel_rows.h"

#define I8_INLINE static inline __attribute__((always_inline)) I8_TARGET
#define I8_WIDE_ROW (MAXSIM_PANEL * sizeof(int16_t))

/* Nothing reads beyond a row. */
static I8_TARGET void
i8_widen(const MaxsimTile *tile)
{
	const uint32_t whole = tile->depth / (2 * VECTOR_LANES) * (2 * VECTOR_LANES);
	const uint32_t rest = tile->depth - whole;
	const char *row = tile->rows;
	char *wide = tile->wide;
	uint32_t i;
	uint32_t k;

	for (i = 0; i < tile->nrows; i++, row += tile->stride, wide += I8_WIDE_ROW)
	{
		for (k = 0; k < whole; k += 2 * VECTOR_LANES)
			shorts_store(wide + k * sizeof(int16_t), row + k);
		if (rest > 0)
			shorts_store_part(wide + k * sizeof(int16_t), row + k, rest);
	}
}

I8_INLINE Ints
ints_broadcast(const char *address)
{
	int32_t pair;

	memcpy(&pair, address, sizeof(pair));
	return pair - (Ints){0};
}

I8_INLINE Ints
ints_load(const char *address)
{
	Ints value;

	memcpy(&value, address, sizeof(value));
	return value;
}

#define I8_DECLARE(r, base, strides) \
	Ints low##r = {0};               \
	Ints high##r = {0};

#define I8_MULTIPLY(r, base, strides)                                   \
	if (rows > r)                                                       \
	{                                                                   \
		const Ints pair = ints_broadcast(wide + at + (r) *I8_WIDE_ROW); \
                                                                        \
		low##r = ints_dot(low##r, pair, query0);                        \
		if (columns > 1)                                                \
			high##r = ints_dot(high##r, pair, query1);                  \
	}

/* Pair number i after the current one. */
#define I8_STEP(i)                                                                                  \
	do                                                                                              \
	{                                                                                               \
		const size_t at = (i) * sizeof(int32_t);                                                    \
		const Ints query0 = ints_load(query + (i) *columns * sizeof(Ints));                         \
		const Ints query1 = columns > 1 ? ints_load(query + (2 * (i) + 1) * sizeof(Ints)) : query0; \
                                                                                                    \
		__builtin_prefetch(prefetch);                                                               \
		prefetch += prefetch_step;                                                                  \
		TILE_ROWS(I8_MULTIPLY)                                                                      \
	} while (0)

#define I8_ADVANCE(n)                         \
	do                                        \
	{                                         \
		query += (n) *columns * sizeof(Ints); \
		wide += (n) * sizeof(int32_t);        \
	} while (0)

/* A row's sums, from here on floats: added to those of earlier panels, or scaled. */
#define I8_FINISH(r, base, strides)                                                                \
	if (rows > r)                                                                                  \
	{                                                                                              \
		const Vector scale = vector_broadcast(tile->starts + (r) *tile->row_size);                 \
		const size_t at = (size_t) (r) *columns * VECTOR_LANES;                                    \
                                                                                                   \
		low_max[r & 1] = i8_finish(tile, at, low##r, scale, low_max[r & 1]);                       \
		if (columns > 1)                                                                           \
			high_max[r & 1] = i8_finish(tile, at + VECTOR_LANES, high##r, scale, high_max[r & 1]); \
	}

/* The new maxima, or the same if there are panels to come. */
I8_INLINE Vector
i8_finish(const MaxsimTile *tile, size_t at, Ints ints, Vector scale, Vector maxima)
{
	Vector sums = vector_from_ints(ints);

	if (!tile->first)
		sums = vector_add(vector_load(tile->totals + at), sums);
	if (tile->last)
		return vector_max(vector_multiply(vector_multiply(sums, vector_set(MAXSIM_I8_UNIT)), scale), maxima);
	vector_store(tile->totals + at, sums);
	return maxima;
}

/* One panel of one tile; rows and columns (vectors a step) are constants. */
I8_INLINE void
i8_panel(const MaxsimTile *tile, const uint32_t rows, const uint32_t columns)
{
	const char *query = tile->query;
	const char *wide = tile->rows; /* those that are converted */
	const char *prefetch = tile->prefetch;
	const size_t prefetch_step = 2 * tile->prefetch_step;
	uint32_t n = (tile->depth + 1) / 2; /* pairs to multiply */
	Vector low_max[2] = {vector_load(tile->maxima), vector_lowest()};
	Vector high_max[2] = {low_max[0], low_max[1]};

	TILE_ROWS(I8_DECLARE)

	if (columns > 1)
		high_max[0] = vector_load(tile->maxima + VECTOR_LANES);
	for (; n >= 4; n -= 4)
	{
		I8_STEP(0);
		I8_STEP(1);
		I8_STEP(2);
		I8_STEP(3);
		I8_ADVANCE(4);
	}
	for (; n > 0; n--)
	{
		I8_STEP(0);
		I8_ADVANCE(1);
	}
	TILE_ROWS(I8_FINISH)
	vector_store(tile->maxima, vector_max(low_max[1], low_max[0]));
	if (columns > 1)
		vector_store(tile->maxima + VECTOR_LANES, vector_max(high_max[1], high_max[0]));
}

/* The instances. */
#define I8_DEFINE(rows, columns)                           \
	static I8_TARGET void                                  \
		i8_tile_##rows##x##columns(const MaxsimTile *tile) \
	{                                                      \
		i8_panel(tile, rows, columns);                     \
	}
#define I8_ENTRY(rows, columns) i8_tile_##rows##x##columns,
#define I8_TABLE(table, columns)     \
	TILE_HEIGHTS(I8_DEFINE, columns) \
	static const MaxsimTileKernel table[TILE_HEIGHT] = {TILE_HEIGHTS(I8_ENTRY, columns)};

I8_TABLE(i8_narrow_tiles, 1)
I8_TABLE(i8_wide_tiles, 2)
