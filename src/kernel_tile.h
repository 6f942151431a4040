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
 * of names), TILE_HEIGHT (rows, at most 12), Vector, VECTOR_LANES and the
 * operations vector_zero, vector_load, vector_store, vector_broadcast,
 * vector_fma(a, b, c) = a * b + c, vector_add, vector_max and
 * vector_lowest (all minus infinity).  vector_max(a, b) must return b if a is a
 * NaN.
 */

/*
 * All rows, with a base pointer every three of them: an address is base + 0, 1
 * or 2 strides, which x86 computes within the load.
 */
/* clang-format off */
#define TILE_ROWS(X) \
	X(0, base0, 0) X(1, base0, 1) X(2, base0, 2) \
	X(3, base3, 0) X(4, base3, 1) X(5, base3, 2) \
	X(6, base6, 0) X(7, base6, 1) X(8, base6, 2) \
	X(9, base9, 0) X(10, base9, 1) X(11, base9, 2)
/* clang-format on */

/*
 * Accumulators are named: as arrays they end up in memory in one compiler or the
 * other.  Those beyond rows and columns, which are constants, vanish.
 */
#define TILE_DECLARE(r, base, strides) \
	Vector low##r = vector_zero();     \
	Vector high##r = vector_zero();

#define TILE_MULTIPLY(r, base, strides)                                    \
	if (rows > r)                                                          \
	{                                                                      \
		Vector scalar = vector_broadcast(base + (strides) *stride + (at)); \
                                                                           \
		low##r = vector_fma(scalar, query0, low##r);                       \
		if (columns > 1)                                                   \
			high##r = vector_fma(scalar, query1, high##r);                 \
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

/* One panel of one tile; rows and columns (vectors a step) are constants. */
static inline __attribute__((always_inline)) TILE_TARGET void
tile_panel(const MaxsimTile *tile, const uint32_t rows, const uint32_t columns)
{
	const float *query = tile->query;
	const char *prefetch = tile->prefetch;
	const size_t stride = tile->stride;
	const char *base0 = tile->rows;
	const char *base3 = base0 + 3 * stride;
	const char *base6 = base3 + 3 * stride;
	const char *base9 = base6 + 3 * stride;
	uint32_t left;

	TILE_ROWS(TILE_DECLARE)

	for (left = tile->depth; left >= 4; left -= 4)
	{
		/* without this compilers keep a pointer a row, and spill them */
		__asm__(""
				: "+r"(base0), "+r"(base3), "+r"(base6), "+r"(base9));
		TILE_STEP(0);
		TILE_STEP(1);
		TILE_STEP(2);
		TILE_STEP(3);
		TILE_ADVANCE(4);
	}
	for (; left > 0; left--)
	{
		TILE_STEP(0);
		TILE_ADVANCE(1);
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

/* The instances: tile_<rows>x<vectors>_f32_<isa>. */
#define TILE_NAME_(rows, columns, isa) tile_##rows##x##columns##_f32_##isa
#define TILE_NAME(rows, columns, isa) TILE_NAME_(rows, columns, isa)
#define TILE_DEFINE(rows, columns)                             \
	static TILE_TARGET void                                    \
	TILE_NAME(rows, columns, TILE_ISA)(const MaxsimTile *tile) \
	{                                                          \
		tile_panel(tile, rows, columns);                       \
	}

#if TILE_HEIGHT == 12
#define TILE_HEIGHTS(X, columns) \
	X(1, columns)                \
	X(2, columns)                \
	X(3, columns)                \
	X(4, columns)                \
	X(5, columns)                \
	X(6, columns)                \
	X(7, columns)                \
	X(8, columns)                \
	X(9, columns)                \
	X(10, columns)               \
	X(11, columns)               \
	X(12, columns)
#elif TILE_HEIGHT == 6
#define TILE_HEIGHTS(X, columns) \
	X(1, columns)                \
	X(2, columns)                \
	X(3, columns)                \
	X(4, columns)                \
	X(5, columns)                \
	X(6, columns)
#endif

#define TILE_ENTRY(rows, columns) TILE_NAME(rows, columns, TILE_ISA),

TILE_HEIGHTS(TILE_DEFINE, 1)
TILE_HEIGHTS(TILE_DEFINE, 2)

static const MaxsimTileKernel narrow_tiles[TILE_HEIGHT] = {TILE_HEIGHTS(TILE_ENTRY, 1)};
static const MaxsimTileKernel wide_tiles[TILE_HEIGHT] = {TILE_HEIGHTS(TILE_ENTRY, 2)};
