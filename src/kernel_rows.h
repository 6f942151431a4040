/*
 * kernel_rows.h
 *		The rows of a tile and its heights, as lists for macros.
 *
 * The includer defines TILE_HEIGHT, the most rows of a tile: 6 or 12.
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

/* clang-format off */
#if TILE_HEIGHT == 12
#define TILE_HEIGHTS(X, ...) \
	X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__) \
	X(5, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__) X(8, __VA_ARGS__) \
	X(9, __VA_ARGS__) X(10, __VA_ARGS__) X(11, __VA_ARGS__) X(12, __VA_ARGS__)
#elif TILE_HEIGHT == 6
#define TILE_HEIGHTS(X, ...) \
	X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__) \
	X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__)
#endif
/* clang-format on */
