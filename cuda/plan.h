/*
 * plan.h
 *		What to run for a shape on a device, and how to cut the work: pure functions
 *		in C, tested without a GPU.
 *
 * The arithmetic, and so the bits of a score, may depend on the query's length, the
 * dimension, the format and the kind of device, and on nothing else:
 * maxsim_plan_query() decides those.  maxsim_plan_batch() may only choose how
 * documents are spread over blocks, which changes no bit.
 */
#ifndef MAXSIM_PLAN_H
#define MAXSIM_PLAN_H

#include "engine.h"

#ifdef __cplusplus
extern "C"
{
#endif

	/* A family of kernels; see cuda/README.md. */
	typedef enum MaxsimFamily
	{
		MAXSIM_FAMILY_MMA,     /* mma.sync, query in registers */
		MAXSIM_FAMILY_ROWS,    /* wgmma, a warpgroup a document, to 128 query tokens */
		MAXSIM_FAMILY_BLOCKS,  /* wgmma, blocks of 512 query tokens in shared memory */
		MAXSIM_FAMILY_PACKED,  /* i8 and b1 by integers */
		MAXSIM_FAMILY_GENERIC, /* any dimension */
		MAXSIM_NFAMILIES
	} MaxsimFamily;

/* Ranges that a block of MAXSIM_FAMILY_ROWS takes, one a multiprocessor. */
#define MAXSIM_ROWS_GROUPS 3

/*
 * The warps of a block of MAXSIM_FAMILY_PACKED, each with a range, that registers allow
 * for so many query tokens; shared memory may hold fewer.  Most stages of a warp's ring.
 */
#define MAXSIM_PACKED_WARPS_OF(tokens) ((tokens) <= 32 ? 20 : (tokens) <= 64 ? 12 \
																			 : 8)
#define MAXSIM_PACKED_WARPS 20
#define MAXSIM_PACKED_STAGES 3

/* Bytes of a block's shared memory there beside the query and the rings, at the most. */
#define MAXSIM_PACKED_CONTROL 9216

/* There a query is of integers of so many bits, two int8 each, and a sign. */
#define MAXSIM_PACKED_BITS 13

/* The largest dimension there, so that what it adds up stays below 2^31. */
#define MAXSIM_PACKED_DIM 2048

	/* What decides of a device. */
	typedef struct MaxsimPlanDevice
	{
		int major;
		int minor;
		uint32_t processors;
		uint32_t block_memory; /* bytes of shared memory that a block can have */
	} MaxsimPlanDevice;

	typedef struct MaxsimQueryPlan
	{
		MaxsimFamily family;
		uint32_t block_tokens; /* query tokens a block of threads takes */
		uint32_t nblocks;      /* of query tokens */
		uint32_t tile_tokens;  /* document tokens taken at a time */
		uint32_t depth;        /* dimension as the kernel multiplies it, padded */
		uint64_t image_size;   /* bytes of the query as the kernel wants it */
		uint32_t alignment;    /* documents must begin at a multiple of that: a power of two */

		/* MAXSIM_FAMILY_PACKED */
		uint32_t warps;        /* of a block of threads, each with a range of its own */
		uint32_t stages;       /* of a warp's ring */
		uint32_t stage_tokens; /* document tokens fetched at a time */
	} MaxsimQueryPlan;

	/* A document, or a part of one, for one block of threads: what a kernel reads. */
	typedef struct MaxsimPiece
	{
		uint64_t address;
		uint32_t ntokens;
		uint32_t document; /* where its score goes */
		uint32_t slot;     /* the document's place among the sums */
		uint32_t first;    /* the document's first piece among the maxima */
		uint32_t index;    /* of this piece in its document */
		uint32_t npieces;  /* of the document */
	} MaxsimPiece;

	/*
 * Pieces from the first on, to that of the next range.  Where the first one lies, too,
 * so that a kernel need not look it up before it fetches.
 */
	typedef struct MaxsimRange
	{
		uint64_t address;
		uint32_t ntokens;
		uint32_t first;
		uint32_t ntiles; /* of all its pieces */
		uint32_t unused;
	} MaxsimRange;

	typedef struct MaxsimBatchPlan
	{
		uint32_t cut;     /* most document tokens of a piece */
		uint32_t cluster; /* blocks of threads that share a piece */
		uint32_t nranges; /* of pieces, each for a block; 0: not in ranges */
		bool evict_first; /* documents should not stay in the second-level cache */

		/* what maxsim_plan_pieces() finds */
		uint32_t npieces;
		uint32_t nslots;  /* documents that have a piece */
		uint32_t nmaxima; /* pieces of the documents that have several */
	} MaxsimBatchPlan;

/*
 * The dimensions of MAXSIM_FAMILY_MMA, as X(dim, eights, warps, stages, wide warps,
 * wide stages): document tokens a tile in eights; the warps that share a tile, each
 * with a part of the dimension, and the tiles in flight; the latter two for f32.
 */
#define MAXSIM_MMA_DIMENSIONS(X) \
	X(48, 4, 1, 3, 1, 2)         \
	X(64, 4, 1, 3, 1, 2)         \
	X(96, 2, 1, 3, 2, 2)         \
	X(128, 2, 1, 2, 2, 2)        \
	X(256, 2, 2, 2, 4, 2)        \
	X(320, 2, 2, 2, 5, 2)        \
	X(640, 2, 4, 2, 10, 2)       \
	X(768, 2, 6, 2, 12, 2)       \
	X(1024, 2, 8, 2, 16, 2)

/* Groups of that many warps in a block of threads. */
#define MAXSIM_MMA_GROUPS(warps) ((warps) >= 4 ? 1 : 4 / (warps))

/* Shared memory of a block: tiles, and the sums that the warps of a group exchange. */
#define MAXSIM_MMA_EXCHANGE(eights, warps, sixteens) ((warps) == 1 ? 0 : 2 * (warps) * (sixteens) * (eights) *512)
#define MAXSIM_MMA_MEMORY(row, eights, warps, stages, sixteens) \
	(MAXSIM_MMA_GROUPS(warps) * ((stages) * (eights) *8 * (row) + MAXSIM_MMA_EXCHANGE(eights, warps, sixteens)))

	/*
 * Formats whose query has an exponent a token: [nblocks * block_tokens] int32 behind the
 * elements of its image.
 */
	static inline bool
	maxsim_plan_is_packed(MaxsimFormat format)
	{
		return format == MAXSIM_I8 || format == MAXSIM_B1;
	}

	/*
 * Steps of 32 dimensions that MAXSIM_FAMILY_PACKED multiplies at a time, a chunk; 0: it
 * does not take this dimension, since rows must consist of words.
 */
	static inline uint32_t
	maxsim_plan_steps(MaxsimFormat format, uint32_t dim)
	{
		if (!maxsim_plan_is_packed(format) || dim == 0 || dim > MAXSIM_PACKED_DIM ||
			dim % (format == MAXSIM_B1 ? 32 : 4) != 0)
			return 0;
		if (dim <= 64)
			return 2;
		return format == MAXSIM_I8 && dim <= 96 ? 3 : 4;
	}

	/*
 * Bytes of a stage of MAXSIM_FAMILY_PACKED: behind its rows nothing is copied for as much
 * as is read beyond the last one, a chunk at the most.
 */
	static inline uint32_t
	maxsim_plan_stage_size(uint32_t tokens, uint32_t row_size)
	{
		return (tokens * row_size + 128 + 127) / 128 * 128;
	}

	/* false: more than the kernels can address. */
	extern bool maxsim_plan_query(const MaxsimPlanDevice *device, MaxsimFormat format, uint32_t ntokens,
								  uint32_t dim, MaxsimQueryPlan *plan);

	/* How to spread documents of lengths[ndocuments] tokens; row_size in bytes. */
	extern void maxsim_plan_batch(const MaxsimPlanDevice *device, const MaxsimQueryPlan *query, uint32_t row_size,
								  const uint32_t *lengths, uint32_t ndocuments, MaxsimBatchPlan *plan);

	/*
 * Cuts the documents, longest first, into pieces, and with plan->nranges > 0 these
 * into ranges[nranges + 1] of equal work.  order is room for ndocuments numbers.
 * Documents of 0 tokens make no piece.
 */
	extern void maxsim_plan_pieces(MaxsimBatchPlan *plan, const MaxsimQueryPlan *query, uint32_t row_size,
								   const uint64_t *addresses, const uint32_t *lengths, uint32_t ndocuments,
								   uint32_t *order, MaxsimPiece *pieces, MaxsimRange *ranges);

	/* The most pieces, and the most ranges, that maxsim_plan_pieces() makes. */
	extern uint32_t maxsim_plan_most_pieces(const MaxsimPlanDevice *device, uint32_t ndocuments);
	extern uint32_t maxsim_plan_most_ranges(const MaxsimPlanDevice *device);

#ifdef __cplusplus
}
#endif

#endif /* MAXSIM_PLAN_H */
