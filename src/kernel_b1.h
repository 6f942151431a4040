/*
 * kernel_b1.h
 *		The kernel for b1 documents and a query of numbers, by tables of sums.
 *
 * Four bits of a row choose one of 16 vectors of sums, the query's lanes for that
 * pattern: a load and an addition do four dimensions of two lanes for each that a
 * float would take.  Sums of 16 bits hold MAXSIM_B1_BLOCK dimensions.  They are
 * neighbours of an uint32 then: "all" adds up the pairs as they are, "upper" their
 * upper halves, and the lower ones are what is left of all, since sums modulo 2^32
 * lose nothing that is not above.
 *
 * A tile is high, so that the table is fetched from the second-level cache for many
 * rows where a query has more tables than the first one holds.
 *
 * The includer has included the vectors of an instruction set and defines
 * B1_COLUMNS, the vectors of a group: 1 or 2.
 */

#define B1_INLINE static inline __attribute__((always_inline)) TILE_TARGET
#define B1_HEIGHT 128
#define B1_LANES (2 * VECTOR_LANES * B1_COLUMNS)
#define B1_ENTRY (B1_COLUMNS * sizeof(B1Sums))
#define B1_BYTE (2 * 16 * B1_ENTRY) /* the tables of a byte of a row */

typedef uint16_t B1Sums __attribute__((vector_size(VECTOR_LANES * 4)));
typedef uint32_t B1Pairs __attribute__((vector_size(VECTOR_LANES * 4)));

B1_INLINE B1Sums
b1_load(const char *address)
{
	B1Sums value;

	memcpy(&value, address, sizeof(value));
	return value;
}

/* An addition that stays where it is: compilers would make trees, and spill them. */
#define B1_ADD(sums, address)             \
	do                                    \
	{                                     \
		(sums) += b1_load(address);       \
		__asm__(""                        \
				: "+" B1_REGISTER(sums)); \
	} while (0)

/*
 * Adds the four dimensions whose bits begin at bit shift of a word.  Words are
 * multiplied by B1_ENTRY, which makes an offset of a bit field by masking it.
 */
#define B1_NIBBLE(shift, number)                                                                \
	do                                                                                          \
	{                                                                                           \
		const char *entry = table + (number) *16 * B1_ENTRY + (word >> (shift) &15 * B1_ENTRY); \
                                                                                                \
		B1_ADD(low, entry);                                                                     \
		if (B1_COLUMNS > 1)                                                                     \
			B1_ADD(high, entry + sizeof(B1Sums));                                               \
	} while (0)

/* A byte's first dimensions are its upper bits. */
#define B1_BYTE_OF(byte)                       \
	do                                         \
	{                                          \
		B1_NIBBLE(8 * (byte) + 4, 2 * (byte)); \
		B1_NIBBLE(8 * (byte), 2 * (byte) + 1); \
	} while (0)

#define B1_END_BLOCK()                          \
	do                                          \
	{                                           \
		low_all += (B1Pairs) low;               \
		low_upper += (B1Pairs) low >> 16;       \
		if (B1_COLUMNS > 1)                     \
		{                                       \
			high_all += (B1Pairs) high;         \
			high_upper += (B1Pairs) high >> 16; \
		}                                       \
	} while (0)

/* Takes a vector's sums in: the lower halves of its pairs are the first lanes. */
B1_INLINE void
b1_finish(const MaxsimTile *tile, size_t row, size_t lane, B1Pairs all, B1Pairs upper, Vector *maxima)
{
	Vector sums[2] = {vector_from_ints(all - (upper << 16)), vector_from_ints(upper)};
	float *totals = tile->totals + row * B1_LANES + lane;
	int i;

	for (i = 0; i < 2; i++)
	{
		if (!tile->first)
			sums[i] = vector_add(vector_load(totals + i * VECTOR_LANES), sums[i]);
		if (tile->last)
			maxima[i] = vector_max(sums[i], maxima[i]);
		else
			vector_store(totals + i * VECTOR_LANES, sums[i]);
	}
}

static TILE_TARGET void
b1_tile(const MaxsimTile *tile)
{
	const uint32_t nbytes = (tile->depth + 7) / 8;
	const size_t prefetch_step = tile->prefetch_step * tile->depth / tile->nrows;
	const char *prefetch = tile->prefetch;
	const char *bits = tile->rows;
	Vector low_max[2] = {vector_load(tile->maxima), vector_load(tile->maxima + VECTOR_LANES)};
	Vector high_max[2] = {low_max[0], low_max[1]};
	uint32_t row;

	if (B1_COLUMNS > 1)
	{
		high_max[0] = vector_load(tile->maxima + 2 * VECTOR_LANES);
		high_max[1] = vector_load(tile->maxima + 3 * VECTOR_LANES);
	}
	for (row = 0; row < tile->nrows; row++, bits += tile->stride)
	{
		const char *table = tile->query;
		B1Pairs low_all = {0};
		B1Pairs low_upper = {0};
		B1Pairs high_all = {0};
		B1Pairs high_upper = {0};
		uint32_t i;

		__builtin_prefetch(prefetch);
		prefetch += prefetch_step;
		for (i = 0; i + 2 <= nbytes; i += 2)
		{
			uint16_t both;
			uint32_t word;
			B1Sums low = {0};
			B1Sums high = {0};

			memcpy(&both, bits + i, sizeof(both));
			word = both * (uint32_t) B1_ENTRY;
			B1_BYTE_OF(0);
			B1_BYTE_OF(1);
			B1_END_BLOCK();
			table += 2 * B1_BYTE;
		}
		if (i < nbytes)
		{
			const uint32_t word = (unsigned char) bits[i] * (uint32_t) B1_ENTRY;
			B1Sums low = {0};
			B1Sums high = {0};

			B1_BYTE_OF(0);
			B1_END_BLOCK();
		}
		b1_finish(tile, row, 0, low_all, low_upper, low_max);
		if (B1_COLUMNS > 1)
			b1_finish(tile, row, 2 * VECTOR_LANES, high_all, high_upper, high_max);
	}
	vector_store(tile->maxima, low_max[0]);
	vector_store(tile->maxima + VECTOR_LANES, low_max[1]);
	if (B1_COLUMNS > 1)
	{
		vector_store(tile->maxima + 2 * VECTOR_LANES, high_max[0]);
		vector_store(tile->maxima + 3 * VECTOR_LANES, high_max[1]);
	}
}

static const MaxsimTileKernel b1_tiles[] = {b1_tile};

/* clang-format off */
#define B1_METHOD                                                          \
	.packing = &maxsim_packing_b1, .height = B1_HEIGHT, .any_height = true, .lane_pairs = VECTOR_LANES,   \
	.shapes = {{.lanes = B1_LANES, .least = 1, .tiles = b1_tiles}}
/* clang-format on */
