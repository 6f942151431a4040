/*
 * engine_cpu.c
 *		The CPU engine but for its kernels and packings: plans a prepared query, walks
 *		documents in tiles and panels, and sums the maxima.
 *
 * A document is read where it lies.  Tokens that are not multiplied as they are
 * get converted, a panel of a tile at a time, into a buffer that stays in the
 * first-level cache.
 * Nothing here depends on the length or number of documents; what grows with the
 * query is in the memory that the caller gave to prepare().
 */
#include "engine_cpu.h"
#include "cpu_features.h"
#include "engine_pack.h"

#include <math.h>
#include <stdio.h>

#define CACHE_LINE 64
#define SUM_CHAINS 4

/* Some query tokens and the kernels that take that many. */
typedef struct MaxsimGroup
{
	const MaxsimTileKernel *tiles;
	uint32_t lanes;
	bool converts; /* leaves the panel in wide for the groups after it */
	char *query;   /* see engine_pack.h */
	float *maxima; /* [lanes] */
	float *totals; /* [rows][lanes] */
} MaxsimGroup;

struct MaxsimPrepared
{
	const MaxsimMethod *method;
	const MaxsimPacking *packing;
	uint64_t pace;        /* see MaxsimKernels */
	size_t row_size;      /* bytes of a document token */
	size_t prefetch_step; /* see MaxsimTile */
	uint32_t dim;
	uint32_t panel; /* dimensions of a panel but the last */
	size_t ntokens;
	size_t nlanes;
	size_t ngroups;
	MaxsimGroup *groups;
	double *weights; /* [nlanes], with the unit's factor */
	double *offsets; /* [nlanes], the unit's */
	float *maxima;   /* [nlanes], that of query token i at i */
	char *wide;      /* [height][MAXSIM_PANEL] */
	uint64_t work;   /* multiply-adds since the interrupt callback was called */
	bool folded;     /* any document token since begin() */

	/* what the caller will read next; NULL: not known, and the next document's tile is prefetched */
	const char *ahead;
	size_t ahead_step; /* bytes a dimension of a tile and group */
};

/* Where the parts of a prepared query begin, in bytes. */
typedef struct MaxsimLayout
{
	size_t ngroups;
	size_t nlanes;
	size_t groups;
	size_t query;
	size_t weights;
	size_t offsets;
	size_t maxima;
	size_t totals;
	size_t wide;
	size_t size;
} MaxsimLayout;

static const char *const format_names[MAXSIM_NFORMATS] = {"f32", "f16", "bf16", "i8", "b1"};

static int
method_number(const MaxsimQuery *query, MaxsimFormat format)
{
	return query->signs ? MAXSIM_SIGNS : (int) format;
}

/* Signs are counted, so that there are no partial sums to round. */
static uint32_t
panel_size(int method, uint32_t dim)
{
	return method == MAXSIM_SIGNS ? dim : MAXSIM_PANEL;
}

/* The shape of the group for the first of ntokens query tokens that are left. */
static const MaxsimShape *
choose_shape(const MaxsimMethod *method, size_t ntokens)
{
	const MaxsimShape *shape = method->shapes;

	while (ntokens < shape->least)
		shape++;
	return shape;
}

/* Adds count × size bytes at a cache line's start; false if that overflows. */
static bool
reserve(MaxsimLayout *layout, size_t count, size_t size, size_t *offset)
{
	size_t bytes;

	*offset = layout->size;
	return !__builtin_mul_overflow(count, size, &bytes) &&
		   !__builtin_add_overflow(bytes, CACHE_LINE - 1, &bytes) &&
		   !__builtin_add_overflow(layout->size, bytes / CACHE_LINE * CACHE_LINE, &layout->size);
}

/* Bytes of a packed query token in the first dimensions, as many as whole panels or all. */
static size_t
packed_size(const MaxsimPacking *packing, uint32_t dimensions)
{
	const size_t whole = ((size_t) dimensions + packing->multiple - 1) / packing->multiple * packing->multiple;

	return whole * packing->query / 8;
}

/*
 * Plans the memory of a prepared query; false if its size exceeds size_t.  Unused
 * lanes of the last group take part in everything but the sum.
 */
static bool
lay_out(const MaxsimKernels *kernels, const MaxsimQuery *query, int number, MaxsimLayout *layout)
{
	const MaxsimMethod *method = kernels->methods[number];
	const MaxsimPacking *packing = method->packing;
	const MaxsimShape *widest = method->shapes;
	const size_t ntotals = query->dim > panel_size(number, query->dim) ? method->height : 0;
	size_t left = query->ntokens;
	size_t header;

	layout->ngroups = left / widest->lanes;
	layout->nlanes = layout->ngroups * widest->lanes;
	left -= layout->nlanes;
	while (left > 0)
	{
		const MaxsimShape *shape = choose_shape(method, left);

		layout->ngroups++;
		layout->nlanes += shape->lanes;
		left -= left < shape->lanes ? left : shape->lanes;
	}

	layout->size = 0;
	if (!reserve(layout, 1, sizeof(MaxsimPrepared), &header) ||
		!reserve(layout, layout->ngroups, sizeof(MaxsimGroup), &layout->groups) ||
		!reserve(layout, layout->nlanes, packed_size(packing, query->dim), &layout->query) ||
		!reserve(layout, layout->nlanes, sizeof(double), &layout->weights) ||
		!reserve(layout, layout->nlanes, sizeof(double), &layout->offsets) ||
		!reserve(layout, layout->nlanes, sizeof(float), &layout->maxima) ||
		!reserve(layout, layout->nlanes, ntotals * sizeof(float), &layout->totals) ||
		!reserve(layout, method->height, MAXSIM_PANEL * packing->wide / 8, &layout->wide))
		return false;

	/* the slack lets memory begin anywhere */
	return !__builtin_add_overflow(layout->size, CACHE_LINE - 1, &layout->size);
}

/*
 * Cuts the query into groups and fills them.  Query token i has lane i counted
 * over all groups, since only the last one has unused lanes.  The first group
 * that converts panels spares those after it the same work.
 */
static MaxsimStatus
pack_query(MaxsimPrepared *prepared, const MaxsimQuery *query, MaxsimFormat format, char *values, float *totals,
		   char *message)
{
	const MaxsimMethod *method = prepared->method;
	const size_t token_size = packed_size(prepared->packing, query->dim);
	size_t first = 0; /* token in lane 0 of the group */
	bool converted = false;
	size_t i;

	for (i = 0; i < prepared->ngroups; i++)
	{
		MaxsimGroup *group = &prepared->groups[i];
		const MaxsimShape *shape = choose_shape(method, prepared->ntokens - first);
		MaxsimLane lane = {
			.query = values + first * token_size,
			.lanes = shape->lanes,
			.by_token = shape->by_token,
			.lane_pairs = method->lane_pairs,
		};

		group->tiles = converted ? shape->further : shape->tiles;
		group->converts = shape->further != NULL && !shape->by_token && !converted;
		converted |= group->converts;
		group->lanes = shape->lanes;
		group->query = lane.query;
		group->maxima = prepared->maxima + first;
		group->totals = totals + first * method->height;
		for (; lane.lane < lane.lanes; lane.lane++)
		{
			const size_t at = first + lane.lane;
			const float *token = at < prepared->ntokens ? query->tokens + at * query->dim : NULL;
			MaxsimUnit unit;
			uint32_t misfit;

			if (!prepared->packing->pack(&lane, token, query->dim, &unit, &misfit))
			{
				snprintf(message, MAXSIM_MESSAGE_SIZE,
						 "query value %.9g (token %zu, dimension %u) is out of range for format %s",
						 (double) token[misfit], at + 1, misfit + 1, format_names[format]);
				return MAXSIM_OUT_OF_RANGE;
			}
			prepared->weights[at] = unit.factor;
			prepared->offsets[at] = unit.offset;
			if (token != NULL && query->weights != NULL)
				prepared->weights[at] *= (double) query->weights[at];
		}
		first += group->lanes;
	}
	return MAXSIM_OK;
}

static size_t
prepared_size(const MaxsimKernels *kernels, const MaxsimQuery *query, MaxsimFormat format)
{
	MaxsimLayout layout;

	return lay_out(kernels, query, method_number(query, format), &layout) ? layout.size : 0;
}

/* Minus infinity, never a finite fill: any similarity is larger. */
static void
begin(MaxsimPrepared *prepared)
{
	size_t i;

	for (i = 0; i < prepared->nlanes; i++)
		prepared->maxima[i] = -INFINITY;
	prepared->folded = false;
}

/*
 * Lays everything out in the caller's memory.  A multiply-add by an unused lane
 * costs nothing and a zero there harms nothing.
 */
static MaxsimStatus
prepare(const MaxsimKernels *kernels, const MaxsimQuery *query, MaxsimFormat format, void *memory,
		MaxsimPrepared **result, char *message)
{
	const int number = method_number(query, format);
	char *base = (char *) (((uintptr_t) memory + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
	MaxsimPrepared *prepared = (MaxsimPrepared *) base;
	MaxsimLayout layout;
	size_t tile_size;

	if (query->signs && format != MAXSIM_B1)
	{
		snprintf(message, MAXSIM_MESSAGE_SIZE, "signs of a query can be compared with documents of format b1 only, not %s",
				 format_names[format]);
		return MAXSIM_INVALID;
	}
	lay_out(kernels, query, number, &layout);
	*prepared = (MaxsimPrepared){
		.method = kernels->methods[number],
		.packing = kernels->methods[number]->packing,
		.pace = kernels->pace,
		.row_size = maxsim_row_size(format, query->dim),
		.dim = query->dim,
		.panel = panel_size(number, query->dim),
		.ntokens = query->ntokens,
		.nlanes = layout.nlanes,
		.ngroups = layout.ngroups,
		.groups = (MaxsimGroup *) (base + layout.groups),
		.weights = (double *) (base + layout.weights),
		.offsets = (double *) (base + layout.offsets),
		.maxima = (float *) (base + layout.maxima),
		.wide = base + layout.wide,
	};

	/* while all groups multiply one tile, the next one is prefetched */
	tile_size = prepared->method->height * prepared->row_size;
	prepared->prefetch_step = (tile_size / query->dim + layout.ngroups - 1) / layout.ngroups;
	begin(prepared);
	*result = prepared;
	return pack_query(prepared, query, format, base + layout.query, (float *) (base + layout.totals), message);
}

/*
 * Counts multiply-adds rather than time, which would cost more than many a tile.
 * Returns true if the callback wants to stop.
 */
static inline bool
interrupted(MaxsimPrepared *prepared, uint64_t work, MaxsimInterrupt interrupt, void *interrupt_arg)
{
	prepared->work += work;
	if (prepared->work < prepared->pace)
		return false;
	prepared->work = 0;
	return interrupt != NULL && interrupt(interrupt_arg);
}

/*
 * Folds one tile; prefetch is what comes after it.  Panels are the outer loop, so
 * that a converted panel serves all groups while it is in the first-level cache.
 */
static MaxsimStatus
fold_tile(MaxsimPrepared *prepared, const char *rows, uint32_t nrows, const char *prefetch,
		  MaxsimInterrupt interrupt, void *interrupt_arg)
{
	const MaxsimPacking *packing = prepared->packing;
	const size_t wide_stride = (size_t) MAXSIM_PANEL * packing->wide / 8;
	const uint32_t dim = prepared->dim;
	uint32_t done;
	size_t i;
	MaxsimTile tile;

	tile.prefetch = prepared->ahead != NULL ? prepared->ahead : prefetch;
	tile.prefetch_step = prepared->ahead != NULL ? prepared->ahead_step : prepared->prefetch_step;
	tile.starts = rows;
	tile.row_size = prepared->row_size;
	tile.wide = prepared->wide;
	tile.nrows = nrows;
	for (done = 0; done < dim; done += tile.depth)
	{
		tile.depth = dim - done < prepared->panel ? dim - done : prepared->panel;
		tile.first = done == 0;
		tile.last = done + tile.depth == dim;
		tile.rows = rows + packing->header + (size_t) done * packing->row / 8;
		tile.stride = prepared->row_size;
		if (prepared->method->widen != NULL)
		{
			prepared->method->widen(&tile);
			tile.rows = tile.wide;
			tile.stride = wide_stride;
		}
		for (i = 0; i < prepared->ngroups; i++)
		{
			const MaxsimGroup *group = &prepared->groups[i];

			tile.query = group->query + packed_size(packing, done) * group->lanes;
			tile.totals = group->totals;
			tile.maxima = group->maxima;
			group->tiles[prepared->method->any_height ? 0 : nrows - 1](&tile);
			tile.prefetch += tile.prefetch_step * tile.depth;
			if (interrupted(prepared, (uint64_t) nrows * tile.depth * group->lanes, interrupt, interrupt_arg))
				return MAXSIM_STOPPED;

			if (group->converts)
			{
				tile.rows = tile.wide;
				tile.stride = wide_stride;
			}
		}
	}
	if (prepared->ahead != NULL)
		prepared->ahead = tile.prefetch;
	return MAXSIM_OK;
}

static inline uint32_t
count_tiles(const MaxsimPrepared *prepared, uint32_t ntokens)
{
	const uint32_t height = prepared->method->height;

	return ntokens / height + (ntokens % height != 0);
}

/*
 * Folds a slice.  Tiles are of two heights that differ by one, so that none is
 * left with a few rows only.  next is where the work after this slice lies.
 */
static MaxsimStatus
fold_slice(MaxsimPrepared *prepared, const char *tokens, uint32_t ntokens, const char *next,
		   MaxsimInterrupt interrupt, void *interrupt_arg)
{
	const uint32_t ntiles = count_tiles(prepared, ntokens);
	const uint32_t nrows = ntiles ? ntokens / ntiles : 0;
	const uint32_t ntaller = ntokens - ntiles * nrows;
	uint32_t i;

	for (i = 0; i < ntiles; i++)
	{
		const uint32_t n = nrows + (i < ntaller);
		const char *after = tokens + n * prepared->row_size;

		if (fold_tile(prepared, tokens, n, i + 1 < ntiles ? after : next, interrupt, interrupt_arg) != MAXSIM_OK)
			return MAXSIM_STOPPED;
		tokens = after;
		prepared->folded = true;
	}
	return MAXSIM_OK;
}

/* What follows this slice is not known: prefetching its own start is harmless. */
static MaxsimStatus
fold(MaxsimPrepared *prepared, const void *tokens, uint32_t ntokens, MaxsimInterrupt interrupt, void *interrupt_arg)
{
	prepared->ahead = NULL;
	return fold_slice(prepared, tokens, ntokens, tokens, interrupt, interrupt_arg);
}

/* What a query token adds; the unit's factor, a power of two, is in the weight. */
static inline double
term(const MaxsimPrepared *prepared, size_t i)
{
	return prepared->weights[i] * ((double) prepared->maxima[i] + prepared->offsets[i]);
}

/*
 * The weighted sum, in an order that the number of lanes alone decides.  Products
 * of two floats are exact in double, so it is the same with and without fused
 * multiply-adds.
 */
static float
finish(const MaxsimPrepared *prepared)
{
	double sums[SUM_CHAINS] = {0};
	size_t i;
	int chain;

	if (!prepared->folded)
		return -INFINITY;
	for (i = 0; i + SUM_CHAINS <= prepared->ntokens; i += SUM_CHAINS)
		for (chain = 0; chain < SUM_CHAINS; chain++)
			sums[chain] += term(prepared, i + chain);
	for (chain = 0; i < prepared->ntokens; i++, chain++)
		sums[chain] += term(prepared, i);
	return (float) ((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* Spreads what lies ahead over the batch's tiles, a cache line a step at the most. */
static void
look_ahead(MaxsimPrepared *prepared, const MaxsimBatch *batch)
{
	uint64_t ntiles = 0;
	uint32_t i;

	for (i = 0; i < batch->ndocuments; i++)
		ntiles += count_tiles(prepared, batch->documents[i].ntokens);
	if (ntiles == 0)
		return;
	prepared->ahead = batch->ahead;
	prepared->ahead_step = batch->ahead_size / (ntiles * prepared->dim * prepared->ngroups) + 1;
	if (prepared->ahead_step > CACHE_LINE)
		prepared->ahead_step = CACHE_LINE;
}

/*
 * Scores the documents in the order given.  That the address of the next one is
 * known keeps memory busy across documents.
 */
static MaxsimStatus
score(const MaxsimBatch *batch)
{
	MaxsimPrepared *prepared = batch->query;
	const MaxsimDocument *document = batch->documents;
	uint32_t i;

	prepared->ahead = NULL;
	if (batch->ahead != NULL)
		look_ahead(prepared, batch);
	for (i = 0; i < batch->ndocuments; i++, document++)
	{
		/* an empty document's address may be NULL, and is nothing to prefetch */
		const bool more = i + 1 < batch->ndocuments && document[1].ntokens > 0;
		const void *next = document[more ? 1 : 0].tokens;

		begin(prepared);
		if (fold_slice(prepared, document->tokens, document->ntokens, next, batch->interrupt,
					   batch->interrupt_arg) != MAXSIM_OK)
			return MAXSIM_STOPPED;
		batch->scores[i] = finish(prepared);
	}
	return MAXSIM_OK;
}

/*
 * An engine: its table, and the two functions that must know its kernels before
 * there is a prepared query that knows them.
 */
#define DEFINE_ENGINE(isa)                                                               \
	static size_t                                                                        \
		prepared_size_##isa(const MaxsimQuery *query, MaxsimFormat format)               \
	{                                                                                    \
		return prepared_size(&maxsim_kernels_##isa, query, format);                      \
	}                                                                                    \
                                                                                         \
	static MaxsimStatus                                                                  \
		prepare_##isa(const MaxsimQuery *query, MaxsimFormat format, void *memory,       \
					  MaxsimPrepared **prepared, char message[MAXSIM_MESSAGE_SIZE])      \
	{                                                                                    \
		return prepare(&maxsim_kernels_##isa, query, format, memory, prepared, message); \
	}                                                                                    \
                                                                                         \
	static const MaxsimEngine engine_##isa = {                                           \
		.name = #isa,                                                                    \
		.prepared_size = prepared_size_##isa,                                            \
		.prepare = prepare_##isa,                                                        \
		.score = score,                                                                  \
		.begin = begin,                                                                  \
		.fold = fold,                                                                    \
		.finish = finish,                                                                \
	};

#ifdef __x86_64__
DEFINE_ENGINE(avx512)
DEFINE_ENGINE(avx512_vnni)
DEFINE_ENGINE(avx512_base)
DEFINE_ENGINE(avx2)
#endif
#ifdef __aarch64__
DEFINE_ENGINE(neon)
#endif
DEFINE_ENGINE(portable)

/* Best first; what each needs of the processor. */
static const struct
{
	const MaxsimEngine *engine;
	unsigned features;
} engines[] = {
#ifdef __x86_64__
	{&engine_avx512, MAXSIM_CPU_AVX512 | MAXSIM_CPU_AVX512_VNNI | MAXSIM_CPU_AVX512_VPOPCNTDQ},
	{&engine_avx512_vnni, MAXSIM_CPU_AVX512 | MAXSIM_CPU_AVX512_VNNI},
	{&engine_avx512_base, MAXSIM_CPU_AVX512},
	{&engine_avx2, MAXSIM_CPU_AVX2},
#endif
#ifdef __aarch64__
	{&engine_neon, MAXSIM_CPU_NEON},
#endif
	{&engine_portable, 0},
};

#define NENGINES ((int) (sizeof(engines) / sizeof(engines[0])))

const MaxsimEngine *
maxsim_cpu_engine_at(int i, bool *supported)
{
	if (i < 0 || i >= NENGINES)
		return NULL;
	*supported = (engines[i].features & ~maxsim_cpu_features()) == 0;
	return engines[i].engine;
}

const MaxsimEngine *
maxsim_cpu_engine(void)
{
	static const MaxsimEngine *best = NULL;
	const MaxsimEngine *found = __atomic_load_n(&best, __ATOMIC_RELAXED);
	bool supported = false;
	int i;

	/* two threads that come here at once find the same */
	for (i = 0; found == NULL; i++)
	{
		const MaxsimEngine *engine = maxsim_cpu_engine_at(i, &supported);

		if (supported)
			found = engine;
	}
	__atomic_store_n(&best, found, __ATOMIC_RELAXED);
	return found;
}
