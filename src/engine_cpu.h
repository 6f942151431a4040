/*
 * engine_cpu.h
 *		What the CPU engine and its kernels agree on.
 *
 * Vocabulary: a tile is a few neighbouring tokens (rows) of a document; a panel
 * is some of their dimensions; a group is as many query tokens as a kernel takes
 * at once, one a lane.  A kernel takes one panel of one tile against one group.
 * A method is how documents of one format are scored: the packing of the query
 * and the kernels that go with it.
 *
 * The order in which one dot product is summed is the same for every tile
 * height: dimensions in ascending order within a panel, then panels in
 * ascending order; sums of integers have no order.  Hence a score depends neither
 * on how a document is cut into tiles or slices nor on its neighbours.
 */
#ifndef MAXSIM_ENGINE_CPU_H
#define MAXSIM_ENGINE_CPU_H

#include "engine.h"

#define MAXSIM_HIDDEN __attribute__((visibility("hidden")))

/* A method has the number of its format; that for signs of b1's query is one more. */
#define MAXSIM_SIGNS MAXSIM_NFORMATS
#define MAXSIM_NMETHODS (MAXSIM_NFORMATS + 1)

/*
 * Dimensions of a panel.  A query panel of 32 lanes and a document panel of 12
 * rows share the first-level cache; and sums of at most 128 products, then of
 * panels, keep rounding errors small at any dimension.  Sums of integers are
 * exact within a panel.  Signs are counted over all dimensions at once.
 */
#define MAXSIM_PANEL 128

typedef struct MaxsimPacking MaxsimPacking; /* engine_pack.h */

/* One kernel call. */
typedef struct MaxsimTile
{
	const void *query;  /* the group's panel, see engine_pack.h */
	const char *rows;   /* the tile's panel in the document, any alignment */
	const char *starts; /* the tile's rows from their first byte on: i8 has a scale there */
	size_t stride;      /* bytes from one row to the next, in rows */
	size_t row_size;    /* the same in starts */
	uint32_t nrows;     /* tokens: 1 to the method's height */
	uint32_t depth;     /* dimensions in this panel: at least 1 */
	bool first;         /* the dot products begin with this panel */
	bool last;          /* and end with it: fold them into maxima */
	void *wide;         /* [rows][MAXSIM_PANEL], room to convert to what is multiplied */
	float *totals;      /* [rows][lanes], sums of panels so far */
	float *maxima;      /* [lanes], the largest dot products so far */

	/* where to prefetch from, and how many bytes further a dimension */
	const char *prefetch;
	size_t prefetch_step;
} MaxsimTile;

/*
 * A NaN, which takes an overflow to come about, never enters the maxima: else
 * the result would depend on where tiles begin.
 */
typedef void (*MaxsimTileKernel)(const MaxsimTile *tile);

/* One size of group, for when at least a number of query tokens are left. */
typedef struct MaxsimShape
{
	uint32_t lanes;
	uint32_t least;                  /* 1 in the last shape */
	bool by_token;                   /* lanes of vectors run along the dimension; fills no wide */
	const MaxsimTileKernel *tiles;   /* one a number of rows; or one, see any_height */
	const MaxsimTileKernel *further; /* for rows that an earlier group's kernel has left in wide; NULL: none does */
} MaxsimShape;

#define MAXSIM_NSHAPES 3

/* The kernels for one format. */
typedef struct MaxsimMethod
{
	const MaxsimPacking *packing;       /* of the query, and sizes of the rows */
	uint32_t height;                    /* most rows of a tile */
	bool any_height;                    /* tiles is one kernel for all */
	uint32_t lane_pairs;                /* b1: distance of lanes that are neighbours in memory, see engine_pack.h */
	MaxsimTileKernel widen;             /* fills wide, which then are the rows; NULL: kernels do if they want it */
	MaxsimShape shapes[MAXSIM_NSHAPES]; /* by falling number of lanes */
} MaxsimMethod;

/* The kernels of one instruction set. */
typedef struct MaxsimKernels
{
	const MaxsimMethod *methods[MAXSIM_NMETHODS];
	uint64_t pace; /* multiply-adds a millisecond, roughly, of the slowest */
} MaxsimKernels;

#ifdef __x86_64__
extern MAXSIM_HIDDEN const MaxsimKernels maxsim_kernels_avx512;      /* with VNNI and VPOPCNTDQ */
extern MAXSIM_HIDDEN const MaxsimKernels maxsim_kernels_avx512_vnni; /* with VNNI */
extern MAXSIM_HIDDEN const MaxsimKernels maxsim_kernels_avx512_base;
extern MAXSIM_HIDDEN const MaxsimKernels maxsim_kernels_avx2;
#endif
#ifdef __aarch64__
extern MAXSIM_HIDDEN const MaxsimKernels maxsim_kernels_neon;
#endif
extern MAXSIM_HIDDEN const MaxsimKernels maxsim_kernels_portable;

/* Methods that several sets share. */
#ifdef __x86_64__
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_i8_avx512;
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_i8_avx512_vnni;
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_b1_avx512;
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_signs_avx512;
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_i8_avx2;
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_b1_avx2;
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_signs_avx2;
#endif
#ifdef __aarch64__
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_b1_neon;
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_signs_neon;
#endif
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_b1_portable;
extern MAXSIM_HIDDEN const MaxsimMethod maxsim_signs_portable;

#endif /* MAXSIM_ENGINE_CPU_H */
