/*
 * kernel_signs.h
 *		The kernel for b1 documents and a query's signs: it counts bits that differ.
 *
 * Lanes are query tokens, 64 dimensions of each; a word of a document row is
 * broadcast.  A tile is high, since what it finds is converted once a tile.
 *
 * The includer defines SIGNS_TARGET, SIGNS_LANES (of 64 bits a vector),
 * SIGNS_ROWS (1 or 4: at once), and
 *
 * counts_of(words)		the number of bits in each word
 * counts_min(a, b)
 */

#include <string.h>

#define SIGNS_INLINE static inline __attribute__((always_inline)) SIGNS_TARGET
#define SIGNS_HEIGHT 256

typedef uint64_t Words __attribute__((vector_size(SIGNS_LANES * 8)));

/* Rows past the tile's last are that one again: a minimum does not mind. */
#define SIGNS_ROW(r)                                                                                       \
	const char *bits##r = tile->rows + (row + r < tile->nrows ? row + r : tile->nrows - 1) * tile->stride; \
	Words count##r##0 = {0};                                                                               \
	Words count##r##1 = {0};                                                                               \
	Words count##r##2 = {0};                                                                               \
	Words count##r##3 = {0};

#define SIGNS_COUNT(r)                                                 \
	do                                                                 \
	{                                                                  \
		const Words word = signs_word(bits##r + k, size) - (Words){0}; \
                                                                       \
		count##r##0 += counts_of(word ^ query0);                       \
		if (columns > 1)                                               \
		{                                                              \
			count##r##1 += counts_of(word ^ query1);                   \
			count##r##2 += counts_of(word ^ query2);                   \
			count##r##3 += counts_of(word ^ query3);                   \
		}                                                              \
	} while (0);

#define SIGNS_MIN(r)                                  \
	least[0] = counts_min(least[0], count##r##0);     \
	if (columns > 1)                                  \
	{                                                 \
		least[1] = counts_min(least[1], count##r##1); \
		least[2] = counts_min(least[2], count##r##2); \
		least[3] = counts_min(least[3], count##r##3); \
	}

#if SIGNS_ROWS == 4
#define SIGNS_EACH_ROW(X) X(0) X(1) X(2) X(3)
#else
#define SIGNS_EACH_ROW(X) X(0)
#endif

#define SIGNS_QUERY(c) signs_load(query + (columns > 1 ? (c) : 0) * sizeof(Words))

/* A word of each row, or the bytes that a row has left. */
#define SIGNS_STEP(n)                        \
	do                                       \
	{                                        \
		const size_t size = (n);             \
		const Words query0 = SIGNS_QUERY(0); \
		const Words query1 = SIGNS_QUERY(1); \
		const Words query2 = SIGNS_QUERY(2); \
		const Words query3 = SIGNS_QUERY(3); \
                                             \
		SIGNS_EACH_ROW(SIGNS_COUNT)          \
		query += columns * sizeof(Words);    \
	} while (0)

SIGNS_INLINE Words
signs_load(const char *address)
{
	Words value;

	memcpy(&value, address, sizeof(value));
	return value;
}

/*
 * The first size bytes of a word, 1 to 8: two loads that may overlap, or three of a
 * byte, since a call of memcpy would spill all vectors.
 */
SIGNS_INLINE uint64_t
signs_word(const char *address, size_t size)
{
	const unsigned char *bytes = (const unsigned char *) address;
	uint64_t word;
	uint32_t first;
	uint32_t last;

	if (size == sizeof(word))
	{
		memcpy(&word, address, sizeof(word));
		return word;
	}
	if (size < sizeof(first))
		return bytes[0] | (uint32_t) bytes[size / 2] << size / 2 * 8 | (uint32_t) bytes[size - 1] << (size - 1) * 8;
	memcpy(&first, address, sizeof(first));
	memcpy(&last, address + size - sizeof(last), sizeof(last));
	return first | (uint64_t) last << (size - sizeof(last)) * 8;
}

/* All dimensions of a tile; columns, vectors of a group, is a constant: 1 or 4. */
SIGNS_INLINE void
signs_panel(const MaxsimTile *tile, const uint32_t columns)
{
	const size_t nbytes = ((size_t) tile->depth + 7) / 8;
	const size_t prefetch_step = tile->prefetch_step * tile->depth * SIGNS_ROWS / tile->nrows;
	const char *prefetch = tile->prefetch;
	const Words most = UINT32_MAX - (Words){0};
	Words least[4] = {most, most, most, most};
	uint64_t counts[4 * SIGNS_LANES];
	uint32_t row;
	uint32_t i;

	for (row = 0; row < tile->nrows; row += SIGNS_ROWS)
	{
		const char *query = tile->query;
		size_t k;

		SIGNS_EACH_ROW(SIGNS_ROW)

		for (k = 0; k < prefetch_step; k += 64)
			__builtin_prefetch(prefetch + k);
		prefetch += prefetch_step;
		for (k = 0; k + 8 <= nbytes; k += 8)
			SIGNS_STEP(8);
		if (k < nbytes)
			SIGNS_STEP(nbytes - k);
		SIGNS_EACH_ROW(SIGNS_MIN)
	}
	memcpy(counts, least, sizeof(counts));
	for (i = 0; i < columns * SIGNS_LANES; i++)
	{
		const float count = -(float) (int64_t) counts[i];

		if (count > tile->maxima[i])
			tile->maxima[i] = count;
	}
}

#define SIGNS_DEFINE(columns)                        \
	static SIGNS_TARGET void                         \
		signs_tile_##columns(const MaxsimTile *tile) \
	{                                                \
		signs_panel(tile, columns);                  \
	}                                                \
	static const MaxsimTileKernel signs_tiles_##columns[] = {signs_tile_##columns};

SIGNS_DEFINE(1)
SIGNS_DEFINE(4)

/* clang-format off */
#define SIGNS_METHOD                                                           \
	.packing = &maxsim_packing_signs, .height = SIGNS_HEIGHT, .any_height = true,                                \
	.shapes = {                                                                \
		{.lanes = 4 * SIGNS_LANES, .least = SIGNS_LANES + 1, .tiles = signs_tiles_4}, \
		{.lanes = SIGNS_LANES, .least = 1, .tiles = signs_tiles_1},            \
	}
/* clang-format on */
