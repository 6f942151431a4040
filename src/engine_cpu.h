/*
 * engine_cpu.h
 *		What the CPU engine and its kernels agree on.
 *
 * Vocabulary: a tile is a few neighbouring tokens (rows) of a document; a panel
 * is up to MAXSIM_PANEL of their dimensions; a group is as many query tokens as
 * a kernel takes at once, one a lane.  A kernel takes one panel of one tile
 * against one group.
 *
 * The order in which one dot product is summed is the same for every tile
 * height: dimensions in ascending order within a panel, then panels in
 * ascending order.  Hence a score depends neither on how a document is cut into
 * tiles or slices nor on its neighbours.
 */
#ifndef MAXSIM_ENGINE_CPU_H
#define MAXSIM_ENGINE_CPU_H

#include "engine.h"

#define MAXSIM_HIDDEN __attribute__((visibility("hidden")))

/*
 * Dimensions of a panel.  A query panel of 32 lanes and a document panel of 12
 * rows share the first-level cache; and sums of at most 128 products, then of
 * panels, keep rounding errors small at any dimension.
 */
#define MAXSIM_PANEL 128

/* One kernel call. */
typedef struct MaxsimTile
{
	const float *query; /* the group's panel, see MaxsimShape */
	const char *rows;   /* the tile's panel in the document, any alignment */
	size_t stride;      /* bytes from one row to the next */
	uint32_t nrows;     /* tokens: 1 to the kernels' height */
	uint32_t depth;     /* dimensions in this panel: 1 to MAXSIM_PANEL */
	bool first;         /* the dot products begin with this panel */
	bool last;          /* and end with it: fold them into maxima */
	float *wide;        /* [rows][MAXSIM_PANEL], room to convert to float32 */
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

/*
 * One size of group, for when at least a number of query tokens are left.  A
 * panel of the packed query is [depth][lanes], or [lanes][depth] if by_token.
 *
 * There are kernels for every format of documents.  Those for the 16-bit formats
 * leave what they converted in wide, so that further groups take it from there;
 * by_token, they do not.
 */
typedef struct MaxsimShape
{
	uint32_t lanes;
	uint32_t least;                                 /* 1 in the last shape */
	bool by_token;                                  /* lanes of vectors run along the dimension */
	const MaxsimTileKernel *tiles[MAXSIM_NFORMATS]; /* [height], one a number of rows */
} MaxsimShape;

#define MAXSIM_NSHAPES 3

/* The kernels of one instruction set. */
typedef struct MaxsimKernels
{
	const char *name;
	uint32_t height;                    /* most rows of a tile */
	MaxsimShape shapes[MAXSIM_NSHAPES]; /* by falling number of lanes */
	uint64_t pace;                      /* multiply-adds a millisecond, roughly */
} MaxsimKernels;

#ifdef __x86_64__
extern MAXSIM_HIDDEN const MaxsimKernels maxsim_kernels_avx512;
extern MAXSIM_HIDDEN const MaxsimKernels maxsim_kernels_avx2;
#endif
#ifdef __aarch64__
extern MAXSIM_HIDDEN const MaxsimKernels maxsim_kernels_neon;
#endif
extern MAXSIM_HIDDEN const MaxsimKernels maxsim_kernels_portable;

#endif /* MAXSIM_ENGINE_CPU_H */
