/*
 * kernel_i8_dot.h
 *		The dot kernel for i8 documents, for up to four query tokens.
 *
 * As kernel_dot.h, with the sums of kernel_i8.h: lanes run along the dimension, and a
 * block of 2 or 4 document rows is multiplied with 4 query tokens.  Rows and tokens
 * are whole vectors, with zeros beyond the dimension.
 *
 * The includer has included kernel_i8.h and defines DOT_ROWS (VECTOR_LANES / 4).
 */

#define DOT_TOKENS 4

/* clang-format off */
#define DOT_TOKENS_OF(X, r) X(r, 0) X(r, 1) X(r, 2) X(r, 3)
#if DOT_ROWS == 4
#define DOT_EACH_ROW(X) X(0) X(1) X(2) X(3)
#else
#define DOT_EACH_ROW(X) X(0) X(1)
#endif
/* clang-format on */

/* Rows past the tile's last are that one again: a maximum does not mind. */
#define DOT_ROW(r) (row + (r) < tile->nrows ? row + (r) : tile->nrows - 1)
#define DOT_DECLARE(r, t) Ints sum##r##t = {0};
#define DOT_DECLARE_ROW(r)                                             \
	const char *wide##r = tile->rows + DOT_ROW(r) * I8_WIDE_ROW;       \
	const char *start##r = tile->starts + DOT_ROW(r) * tile->row_size; \
	DOT_TOKENS_OF(DOT_DECLARE, r)
#define DOT_LOAD_TOKEN(r, t) const Ints token##t = ints_load(query + (t) *token_size + k);
#define DOT_MULTIPLY(r, t) sum##r##t = ints_dot(sum##r##t, values, token##t);
#define DOT_MULTIPLY_ROW(r)                         \
	{                                               \
		const Ints values = ints_load(wide##r + k); \
		DOT_TOKENS_OF(DOT_MULTIPLY, r)              \
	}
#define DOT_QUAD(r) ints_quad(sum##r##0, sum##r##1, sum##r##2, sum##r##3)

/* One panel of one tile, block by block: sums are [DOT_ROWS][DOT_TOKENS]. */
static I8_TARGET void
i8_dot_tile(const MaxsimTile *tile)
{
	const size_t size = tile->depth * sizeof(int16_t);
	const size_t token_size = (size + MAXSIM_I8_ALIGNMENT - 1) / MAXSIM_I8_ALIGNMENT * MAXSIM_I8_ALIGNMENT;
	const size_t prefetch_size = tile->prefetch_step * tile->depth * DOT_ROWS / TILE_HEIGHT;
	const char *query = tile->query;
	const char *prefetch = tile->prefetch;
	Vector maxima = vector_lowest();
	uint32_t row;

	for (row = 0; row < tile->nrows; row += DOT_ROWS)
	{
		size_t k;
		Ints ints;

		DOT_EACH_ROW(DOT_DECLARE_ROW)

		for (k = 0; k < prefetch_size; k += 64)
			__builtin_prefetch(prefetch + k);
		prefetch += prefetch_size;
		for (k = 0; k < size; k += sizeof(Ints))
		{
			DOT_TOKENS_OF(DOT_LOAD_TOKEN, 0)
			DOT_EACH_ROW(DOT_MULTIPLY_ROW)
		}
#if DOT_ROWS == 4
		ints = ints_block(DOT_QUAD(0), DOT_QUAD(1), DOT_QUAD(2), DOT_QUAD(3));
		maxima = i8_finish(tile, row * DOT_TOKENS, ints, vector_scales(start0, start1, start2, start3), maxima);
#else
		ints = ints_block(DOT_QUAD(0), DOT_QUAD(1));
		maxima = i8_finish(tile, row * DOT_TOKENS, ints, vector_scales(start0, start1), maxima);
#endif
	}
	if (tile->last)
		vector_fold_max(maxima, tile->maxima);
}

#define DOT_ENTRY(rows, name) name,
static const MaxsimTileKernel i8_dot_tiles[TILE_HEIGHT] = {TILE_HEIGHTS(DOT_ENTRY, i8_dot_tile)};
