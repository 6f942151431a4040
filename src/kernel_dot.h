/*
 * kernel_dot.h
 *		The dot kernel, for up to four query tokens.
 *
 * With so few tokens most lanes of the tile kernel would be idle.  Here lanes run
 * along the dimension instead, and a block of 2 or 4 document rows is multiplied
 * with 4 query tokens, so that one vector holds all the block's sums:
 * [rows][tokens].  What it costs is adding up across lanes once a block and
 * panel.  The order of a sum is again the same for every tile.
 *
 * The includer has included kernel_tile.h and defines DOT_ROWS (VECTOR_LANES /
 * 4), and
 *
 * vector_part(address, count, format)	loads VECTOR_LANES elements as float32,
 *										zeros beyond count
 * vector_quad(a, b, c, d)				adds up each within 128 bits: (a, b, c, d)
 *										in each 128 bits
 * vector_block(a, b, c, d)				adds up the 128-bit parts of each of the
 *										DOT_ROWS first, in that order
 * vector_fold_max(v, maxima)			takes the maximum over rows into maxima
 */

#define DOT_TOKENS 4

/* Rows past the tile's last are that one again: a maximum does not mind. */
static inline const char *
dot_row(const MaxsimTile *tile, uint32_t row)
{
	return tile->rows + (row < tile->nrows ? row : tile->nrows - 1) * tile->stride;
}

/* clang-format off */
#define DOT_TOKENS_OF(X, r) X(r, 0) X(r, 1) X(r, 2) X(r, 3)
#if DOT_ROWS == 4
#define DOT_EACH_ROW(X) X(0) X(1) X(2) X(3)
#else
#define DOT_EACH_ROW(X) X(0) X(1)
#endif
/* clang-format on */

#define DOT_DECLARE(r, t) Vector sum##r##t = vector_zero();
#define DOT_DECLARE_ROW(r)                             \
	const char *row##r = dot_row(tile, first_row + r); \
	Vector quad##r;                                    \
	DOT_TOKENS_OF(DOT_DECLARE, r)
#define DOT_LOAD_ROW(r) \
	const Vector values##r = vector_part(row##r + k * element_size, count, format);
#define DOT_LOAD_TOKEN(r, t) \
	const Vector token##t = vector_part((const char *) (query + t * tile->depth + k), count, MAXSIM_F32);
#define DOT_MULTIPLY(r, t) sum##r##t = vector_fma(values##r, token##t, sum##r##t);
#define DOT_MULTIPLY_ROW(r) DOT_TOKENS_OF(DOT_MULTIPLY, r)
#define DOT_QUAD(r) quad##r = vector_quad(sum##r##0, sum##r##1, sum##r##2, sum##r##3);

/* A vector of dimensions, n of them; n is a constant but for the last. */
#define DOT_STEP(n)                             \
	do                                          \
	{                                           \
		const uint32_t count = (n);             \
		size_t i;                               \
		DOT_TOKENS_OF(DOT_LOAD_TOKEN, 0)        \
		DOT_EACH_ROW(DOT_LOAD_ROW)              \
                                                \
		for (i = 0; i < prefetch_size; i += 64) \
			__builtin_prefetch(prefetch + i);   \
		prefetch += prefetch_size;              \
		DOT_EACH_ROW(DOT_MULTIPLY_ROW)          \
	} while (0)

/* The sums of a block of rows: [DOT_ROWS][DOT_TOKENS]. */
static inline __attribute__((always_inline)) TILE_TARGET Vector
dot_block(const MaxsimTile *tile, uint32_t first_row, const char *prefetch, const MaxsimFormat format)
{
	const size_t element_size = format == MAXSIM_F32 ? 4 : 2;
	const size_t prefetch_size = tile->prefetch_step * VECTOR_LANES * DOT_ROWS / TILE_HEIGHT;
	const float *query = tile->query;
	uint32_t k;

	DOT_EACH_ROW(DOT_DECLARE_ROW)

	for (k = 0; k + VECTOR_LANES <= tile->depth; k += VECTOR_LANES)
		DOT_STEP(VECTOR_LANES);
	if (k < tile->depth)
		DOT_STEP(tile->depth - k);
	DOT_EACH_ROW(DOT_QUAD)
#if DOT_ROWS == 4
	return vector_block(quad0, quad1, quad2, quad3);
#else
	return vector_block(quad0, quad1);
#endif
}

/* One panel of one tile, block by block. */
static inline __attribute__((always_inline)) TILE_TARGET void
dot_panel(const MaxsimTile *tile, const MaxsimFormat format)
{
	const size_t prefetch_size = tile->prefetch_step * tile->depth * DOT_ROWS / TILE_HEIGHT;
	const char *prefetch = tile->prefetch;
	float *totals = tile->totals;
	Vector maxima = vector_lowest();
	uint32_t row;

	for (row = 0; row < tile->nrows; row += DOT_ROWS)
	{
		Vector sums = dot_block(tile, row, prefetch, format);

		if (!tile->first)
			sums = vector_add(vector_load(totals), sums);
		if (!tile->last)
			vector_store(totals, sums);
		else
			maxima = vector_max(sums, maxima);
		totals += DOT_ROWS * DOT_TOKENS;
		prefetch += prefetch_size;
	}
	if (tile->last)
		vector_fold_max(maxima, tile->maxima);
}

/* The instances: dot_<format>_<isa>, one for all heights. */
#define DOT_NAME_(format, isa) dot_##format##_##isa
#define DOT_NAME(format, isa) DOT_NAME_(format, isa)
#define DOT_ENTRY(rows, name) DOT_NAME(name, TILE_ISA),
#define DOT_TABLE(table, name, format)               \
	static TILE_TARGET void                          \
	DOT_NAME(name, TILE_ISA)(const MaxsimTile *tile) \
	{                                                \
		dot_panel(tile, format);                     \
	}                                                \
	static const MaxsimTileKernel table[TILE_HEIGHT] = {TILE_HEIGHTS(DOT_ENTRY, name)};

DOT_TABLE(dot_f32_tiles, f32, MAXSIM_F32)
DOT_TABLE(dot_f16_tiles, f16, MAXSIM_F16)
DOT_TABLE(dot_bf16_tiles, bf16, MAXSIM_BF16)
