/*
 * plan.c
 *		Shape and device to kernel, and documents to pieces of work.
 *
 * The numbers are measurements on an H200; cuda/README.md has them.
 */
#include "plan.h"

#include <string.h>

/* Blocks of threads a multiprocessor that keep it busy; some families hold more. */
#define BLOCKS_PER_PROCESSOR 4

/* A piece of fewer bytes is not worth a block of its own. */
#define SMALLEST_PIECE (256 * 1024)
#define SMALLEST_PIECE_TOKENS 64

/* Batches below this pass through the second-level cache without settling there. */
#define EVICT_FIRST_BYTES 300000000

/* Few documents, each shared by a cluster. */
#define CLUSTER 4
#define CLUSTER_DOCUMENTS_PER_PROCESSOR 1
#define CLUSTER_TOKENS 48

/* Ranges of fewer tokens are not worth a warpgroup, or a warp of MAXSIM_FAMILY_PACKED. */
#define SMALLEST_RANGE 256
#define SMALLEST_PACKED_RANGE 64

/* What a document costs a block beside its tokens, in tokens. */
#define DOCUMENT_COST 24

#define BLOCKS_TOKENS 512 /* most query tokens of a block in MAXSIM_FAMILY_BLOCKS */
#define BLOCKS_UNIT 128
#define BLOCKS_TILE 128
#define ROWS_TILE 64
#define PACKED_TILE 16
#define PACKED_STAGE 4608       /* bytes, about, */
#define PACKED_STAGE_TOKENS 256 /* and at most */
#define GENERIC_TOKENS 64
#define GENERIC_TILE 64
#define GENERIC_DEPTH 64

#define LENGTH_STEP 4
#define NLENGTHS 2048

typedef struct MmaDimension
{
	uint32_t dim;
	uint32_t eights;
	uint32_t warps;
	uint32_t stages;
	uint32_t wide_warps;
	uint32_t wide_stages;
} MmaDimension;

#define MMA_DIMENSION(dim, eights, warps, stages, wide_warps, wide_stages) \
	{dim, eights, warps, stages, wide_warps, wide_stages},
static const MmaDimension mma_dimensions[] = {MAXSIM_MMA_DIMENSIONS(MMA_DIMENSION)};

static uint64_t
round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint32_t
smaller(uint64_t a, uint64_t b)
{
	return (uint32_t) (a < b ? a : b);
}

/* Query tokens in sixteens that a block of MAXSIM_FAMILY_MMA can take; 0: none. */
static uint32_t
mma_sixteens(const MaxsimPlanDevice *device, MaxsimFormat format, uint32_t ntokens, uint32_t dim, uint32_t *tile)
{
	const size_t n = sizeof(mma_dimensions) / sizeof(mma_dimensions[0]);
	const MmaDimension *d = mma_dimensions;
	const bool wide = format == MAXSIM_F32;
	uint32_t row = (uint32_t) maxsim_row_size(format, dim);
	uint32_t sixteens;

	if (maxsim_plan_is_packed(format))
		return 0;
	while (d < mma_dimensions + n && d->dim != dim)
		d++;
	if (d == mma_dimensions + n)
		return 0;
	*tile = (wide ? 2 : d->eights) * 8;
	for (sixteens = ntokens > 32 && !wide ? 4 : 2; sixteens >= 2; sixteens /= 2)
	{
		uint32_t memory = wide ? MAXSIM_MMA_MEMORY(row, 2, d->wide_warps, d->wide_stages, sixteens)
							   : MAXSIM_MMA_MEMORY(row, d->eights, d->warps, d->stages, sixteens);

		if (memory + 4096 <= device->block_memory)
			return sixteens;
	}
	return 0;
}

/* What the elements of a row want, where a kernel reads them one by one. */
static uint32_t
element_alignment(MaxsimFormat format)
{
	if (maxsim_plan_is_packed(format))
		return 1;
	return format == MAXSIM_F32 ? 4 : 2;
}

/*
 * MAXSIM_FAMILY_PACKED: the most query tokens a block, and for these the most warps and
 * then stages that shared memory holds.  false: not for this shape.
 */
static bool
plan_packed(const MaxsimPlanDevice *device, MaxsimFormat format, uint32_t ntokens, uint32_t dim, MaxsimQueryPlan *plan)
{
	const uint32_t steps = maxsim_plan_steps(format, dim);
	const uint32_t row = steps > 0 ? (uint32_t) maxsim_row_size(format, dim) : 1;
	uint32_t tokens = ntokens > 64 ? 128 : ntokens > 32 ? 64
														: 32;
	uint32_t stage_tokens = PACKED_STAGE / row / PACKED_TILE * PACKED_TILE;

	if (steps == 0)
		return false;
	if (stage_tokens < PACKED_TILE)
		stage_tokens = PACKED_TILE;
	if (stage_tokens > PACKED_STAGE_TOKENS)
		stage_tokens = PACKED_STAGE_TOKENS;
	plan->depth = (dim + steps * 32 - 1) / (steps * 32) * 128;
	for (; tokens >= 32; tokens /= 2)
		for (uint32_t warps = MAXSIM_PACKED_WARPS_OF(tokens); warps >= 4; warps -= 4)
			for (uint32_t stages = MAXSIM_PACKED_STAGES; stages >= 2; stages--)
			{
				uint32_t rings = warps * stages * maxsim_plan_stage_size(stage_tokens, row);

				if (rings + plan->depth * 2 * tokens + MAXSIM_PACKED_CONTROL > device->block_memory)
					continue;
				plan->family = MAXSIM_FAMILY_PACKED;
				plan->block_tokens = tokens;
				plan->tile_tokens = PACKED_TILE;
				plan->warps = warps;
				plan->stages = stages;
				plan->stage_tokens = stage_tokens;
				return true;
			}
	return false;
}

bool
maxsim_plan_query(const MaxsimPlanDevice *device, MaxsimFormat format, uint32_t ntokens, uint32_t dim,
				  MaxsimQueryPlan *plan)
{
	const bool warpgroups = device->major == 9 && device->minor == 0 && dim == 128 &&
							(format == MAXSIM_F16 || format == MAXSIM_BF16);
	const uint32_t planes = format == MAXSIM_F32 ? 3 : 1;
	uint64_t room;
	uint32_t sixteens;

	memset(plan, 0, sizeof(*plan));
	plan->alignment = 16;
	plan->depth = dim;
	if (warpgroups && ntokens > 128)
	{
		/* of equal size, in units that both of its warpgroups share */
		uint32_t n = (uint32_t) (round_up(ntokens, BLOCKS_TOKENS) / BLOCKS_TOKENS);

		plan->family = MAXSIM_FAMILY_BLOCKS;
		plan->block_tokens = (uint32_t) round_up((ntokens + (uint64_t) n - 1) / n, BLOCKS_UNIT);
		plan->tile_tokens = BLOCKS_TILE;
	}
	else if (warpgroups && ntokens > 32)
	{
		plan->family = MAXSIM_FAMILY_ROWS;
		plan->block_tokens = ntokens > 64 ? 128 : 64;
		plan->tile_tokens = ROWS_TILE;
	}
	else if ((sixteens = mma_sixteens(device, format, ntokens, dim, &plan->tile_tokens)) > 0)
	{
		plan->family = MAXSIM_FAMILY_MMA;
		plan->block_tokens = sixteens * 16;
	}
	else if (!plan_packed(device, format, ntokens, dim, plan))
	{
		plan->family = MAXSIM_FAMILY_GENERIC;
		plan->block_tokens = GENERIC_TOKENS;
		plan->tile_tokens = GENERIC_TILE;
		plan->alignment = element_alignment(format);
		plan->depth = (uint32_t) round_up(dim, GENERIC_DEPTH);
	}
	plan->nblocks = (uint32_t) (round_up(ntokens, plan->block_tokens) / plan->block_tokens);
	room = (uint64_t) plan->nblocks * plan->block_tokens;
	plan->image_size = room * plan->depth * planes * 2;
	if (maxsim_plan_is_packed(format))
		plan->image_size += room * sizeof(int32_t);

	/* a grid's second dimension; a row's bytes in 32 bits */
	return plan->nblocks <= 65535 && dim <= 1u << 24;
}

/* The most ranges: blocks of threads that are resident for one query block, or warpgroups. */
static uint32_t
ranges_for(const MaxsimPlanDevice *device, const MaxsimQueryPlan *query)
{
	uint32_t n = device->processors / query->nblocks;

	if (query->family == MAXSIM_FAMILY_ROWS)
		return device->processors * MAXSIM_ROWS_GROUPS;
	if (query->family == MAXSIM_FAMILY_PACKED)
		return device->processors * query->warps;
	return n > 0 ? n : 1;
}

/* Ranges of equal work for the blocks that the device holds. */
static void
plan_ranges(const MaxsimPlanDevice *device, const MaxsimQueryPlan *query, const uint32_t *lengths,
			uint32_t ndocuments, MaxsimBatchPlan *plan)
{
	const uint32_t tile = query->tile_tokens;
	uint64_t least = query->family == MAXSIM_FAMILY_ROWS     ? SMALLEST_RANGE
					 : query->family == MAXSIM_FAMILY_PACKED ? SMALLEST_PACKED_RANGE
															 : tile;
	uint64_t cost = 0;
	uint32_t i;

	for (i = 0; i < ndocuments; i++)
		cost += lengths[i] > 0 ? ((uint64_t) lengths[i] + tile - 1) / tile * tile + DOCUMENT_COST : 0;
	plan->nranges = ranges_for(device, query);
	cost = cost / plan->nranges + 1 + DOCUMENT_COST; /* a cut makes a piece more */
	least += DOCUMENT_COST;
	plan->cut = smaller(cost < least ? least : cost, 1u << 31);
}

void
maxsim_plan_batch(const MaxsimPlanDevice *device, const MaxsimQueryPlan *query, uint32_t row_size,
				  const uint32_t *lengths, uint32_t ndocuments, MaxsimBatchPlan *plan)
{
	const uint64_t slots = (uint64_t) device->processors * BLOCKS_PER_PROCESSOR;
	uint32_t work = row_size; /* of a token, in bytes: at least its f16 elements */
	uint64_t total = 0;
	uint64_t cut;
	uint32_t longest = 0;
	uint32_t i;

	memset(plan, 0, sizeof(*plan));
	for (i = 0; i < ndocuments; i++)
	{
		total += lengths[i];
		longest = lengths[i] > longest ? lengths[i] : longest;
	}
	plan->cluster = 1;
	plan->evict_first = query->nblocks == 1 && total * row_size < EVICT_FIRST_BYTES;
	if (query->family == MAXSIM_FAMILY_BLOCKS || query->family == MAXSIM_FAMILY_ROWS ||
		query->family == MAXSIM_FAMILY_PACKED)
	{
		plan_ranges(device, query, lengths, ndocuments, plan);
		return;
	}

	/* a document is cut where it would outlast its share of the batch */
	if (work < query->depth * 2)
		work = query->depth * 2;
	cut = total * query->nblocks / slots + 1;
	if (cut < SMALLEST_PIECE / work)
		cut = SMALLEST_PIECE / work;
	if (cut < SMALLEST_PIECE_TOKENS)
		cut = SMALLEST_PIECE_TOKENS;
	if (query->family == MAXSIM_FAMILY_MMA && device->major >= 9 && longest > CLUSTER_TOKENS &&
		(uint64_t) ndocuments * query->nblocks <= device->processors * CLUSTER_DOCUMENTS_PER_PROCESSOR)
	{
		plan->cluster = CLUSTER;
		cut *= CLUSTER;
	}
	plan->cut = smaller(round_up(cut, query->tile_tokens), 1u << 31);
}

/* Numbers of the documents, longest first to within LENGTH_STEP tokens; ties in order. */
static void
sort_by_length(const uint32_t *lengths, uint32_t ndocuments, uint32_t *order)
{
	uint32_t starts[NLENGTHS + 1] = {0};
	uint32_t i;

	for (i = 0; i < ndocuments; i++)
		starts[NLENGTHS - smaller(lengths[i] / LENGTH_STEP, NLENGTHS - 1)]++;
	for (i = 1; i <= NLENGTHS; i++)
		starts[i] += starts[i - 1];
	for (i = ndocuments; i-- > 0;)
		order[--starts[NLENGTHS - smaller(lengths[i] / LENGTH_STEP, NLENGTHS - 1)]] = i;
}

/* Pieces of at most cut tokens, as equal as tiles allow. */
static uint32_t
cut_evenly(MaxsimPiece *pieces, MaxsimPiece whole, uint32_t cut, uint32_t tile, uint32_t row_size)
{
	uint32_t n = (uint32_t) (((uint64_t) whole.ntokens + cut - 1) / cut);
	uint32_t size = (uint32_t) round_up(((uint64_t) whole.ntokens + n - 1) / n, tile);
	uint64_t begin = 0;
	uint32_t i;

	for (i = 0; begin < whole.ntokens; i++, begin += size)
	{
		pieces[i] = whole;
		pieces[i].address += begin * row_size;
		pieces[i].ntokens = smaller(size, whole.ntokens - begin);
		pieces[i].index = i;
	}
	return i;
}

/* State of cutting where ranges of equal work end. */
typedef struct Ranges
{
	MaxsimRange *ranges;
	uint32_t n;     /* begun */
	uint32_t limit; /* most */
	uint64_t room;  /* work that the last one still takes */
	uint64_t size;
} Ranges;

static uint32_t
cut_at_ranges(MaxsimPiece *pieces, MaxsimPiece whole, Ranges *ranges, uint32_t npieces, uint32_t tile,
			  uint32_t row_size)
{
	uint64_t begin = 0;
	uint32_t i;

	for (i = 0; begin < whole.ntokens; i++)
	{
		uint64_t size = whole.ntokens - begin;
		uint64_t cost = round_up(size, tile) + DOCUMENT_COST;

		if (ranges->room < tile + DOCUMENT_COST && ranges->n < ranges->limit)
		{
			ranges->ranges[ranges->n++].first = npieces + i;
			ranges->room += ranges->size;
		}
		if (cost > ranges->room + tile / 2 && ranges->n < ranges->limit)
		{
			size = (ranges->room - DOCUMENT_COST) / tile * tile;
			cost = size + DOCUMENT_COST;
		}
		pieces[i] = whole;
		pieces[i].address += begin * row_size;
		pieces[i].ntokens = (uint32_t) size;
		pieces[i].index = i;
		begin += size;
		ranges->room -= smaller(cost, ranges->room);
	}
	return i;
}

void
maxsim_plan_pieces(MaxsimBatchPlan *plan, const MaxsimQueryPlan *query, uint32_t row_size,
				   const uint64_t *addresses, const uint32_t *lengths, uint32_t ndocuments, uint32_t *order,
				   MaxsimPiece *pieces, MaxsimRange *ranges)
{
	Ranges state = {ranges, 0, plan->nranges, 0, plan->cut};
	uint32_t i;

	plan->npieces = plan->nslots = plan->nmaxima = 0;
	sort_by_length(lengths, ndocuments, order);
	for (i = 0; i < ndocuments; i++)
	{
		uint32_t document = order[i];
		MaxsimPiece whole = {addresses[document], lengths[document], document, plan->nslots, plan->nmaxima, 0, 1};
		MaxsimPiece *here = pieces + plan->npieces;
		uint32_t n;
		uint32_t j;

		if (whole.ntokens == 0)
			continue;
		if (plan->nranges == 0 && whole.ntokens <= plan->cut)
		{
			here[0] = whole;
			n = 1;
		}
		else if (plan->nranges > 0)
			n = cut_at_ranges(here, whole, &state, plan->npieces, query->tile_tokens, row_size);
		else
			n = cut_evenly(here, whole, plan->cut, query->tile_tokens, row_size);
		for (j = 0; j < n && n > 1; j++)
			here[j].npieces = n;
		plan->npieces += n;
		plan->nslots++;
		plan->nmaxima += n > 1 ? n : 0;
	}
	if (plan->nranges > 0)
	{
		plan->nranges = state.n;
		ranges[state.n].first = plan->npieces;
		for (i = 0; i < state.n; i++)
		{
			uint32_t j;

			ranges[i].address = pieces[ranges[i].first].address;
			ranges[i].ntokens = pieces[ranges[i].first].ntokens;
			ranges[i].ntiles = 0;
			for (j = ranges[i].first; j < ranges[i + 1].first; j++)
				ranges[i].ntiles += (pieces[j].ntokens - 1) / query->tile_tokens + 1;
		}
	}
}

uint32_t
maxsim_plan_most_pieces(const MaxsimPlanDevice *device, uint32_t ndocuments)
{
	return ndocuments + device->processors * (MAXSIM_PACKED_WARPS + 1);
}

uint32_t
maxsim_plan_most_ranges(const MaxsimPlanDevice *device)
{
	return device->processors * MAXSIM_PACKED_WARPS + 1;
}
