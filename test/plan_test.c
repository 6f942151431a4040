/*
 * plan_test.c
 *		What cuda/plan.c decides, without a GPU: every shape gets a kernel that fits
 *		the device, and every token of every document exactly one piece.
 *
 *		plan_test [seed]
 */
#include "check.h"
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DOCUMENTS 3000

static const MaxsimPlanDevice devices[] = {
	{8, 0, 108, 166912}, /* A100 */
	{8, 6, 84, 101376},
	{8, 9, 128, 101376},
	{9, 0, 132, 232448}, /* H100, H200 */
	{10, 0, 148, 232448},
	{12, 0, 170, 101376},
};

/* The family that a shape must have. */
static void
check_family(const MaxsimPlanDevice *device, MaxsimFormat format, uint32_t ntokens, uint32_t dim,
			 MaxsimFamily family, uint32_t block_tokens)
{
	MaxsimQueryPlan plan;
	bool good = maxsim_plan_query(device, format, ntokens, dim, &plan);

	check(good && plan.family == family &&
			  plan.block_tokens == block_tokens,
		  "%d.%d format %d query %u dim %u: family %d of %u tokens, not %d of %u", device->major, device->minor,
		  format, ntokens, dim, plan.family, plan.block_tokens, family, block_tokens);
}

/* i8 and b1 have the same kernel on every device where its memory suffices and the dimension fits. */
static void
test_packed_families(void)
{
	static const struct
	{
		MaxsimFormat format;
		uint32_t dim;
		uint32_t ntokens;
		uint32_t block_tokens; /* 0: generic */
		uint32_t least_memory;
	} shapes[] = {
		{MAXSIM_I8, 128, 1, 32, 0},
		{MAXSIM_I8, 128, 32, 32, 0},
		{MAXSIM_I8, 96, 33, 64, 0},
		{MAXSIM_I8, 48, 65, 128, 0},
		{MAXSIM_I8, 100, 2, 32, 0},
		{MAXSIM_I8, 320, 65, 128, 232448},
		{MAXSIM_I8, 320, 32, 32, 0},
		{MAXSIM_I8, 1024, 65, 32, 232448},
		{MAXSIM_B1, 128, 32, 32, 0},
		{MAXSIM_B1, 96, 1024, 128, 0},
		{MAXSIM_B1, 64, 64, 64, 0},
		{MAXSIM_B1, 1024, 65, 64, 232448},
		{MAXSIM_B1, 1024, 32, 32, 166912},
		{MAXSIM_B1, 48, 32, 0, 0},
		{MAXSIM_I8, 102, 32, 0, 0},
		{MAXSIM_I8, 1, 32, 0, 0},
		{MAXSIM_B1, 1001, 1, 0, 0},
		{MAXSIM_I8, 2052, 1, 0, 0},
		{MAXSIM_B1, 1 << 23, 1, 0, 0},
	};
	int d, i;

	for (d = 0; d < LENGTHOF(devices); d++)
		for (i = 0; i < LENGTHOF(shapes); i++)
		{
			bool fits = devices[d].block_memory >= shapes[i].least_memory;
			MaxsimQueryPlan plan;

			if (shapes[i].block_tokens > 0 && fits)
				check_family(&devices[d], shapes[i].format, shapes[i].ntokens, shapes[i].dim, MAXSIM_FAMILY_PACKED,
							 shapes[i].block_tokens);
			else if (shapes[i].block_tokens == 0)
				check_family(&devices[d], shapes[i].format, shapes[i].ntokens, shapes[i].dim, MAXSIM_FAMILY_GENERIC, 64);
			(void) maxsim_plan_query(&devices[d], shapes[i].format, shapes[i].ntokens, shapes[i].dim, &plan);
			if (plan.family != MAXSIM_FAMILY_PACKED)
				continue;
			check(plan.warps % 4 == 0 && plan.warps >= 4 && plan.warps <= (uint32_t) MAXSIM_PACKED_WARPS_OF(plan.block_tokens) &&
					  plan.stages >= 2 && plan.stages <= MAXSIM_PACKED_STAGES && plan.stage_tokens % plan.tile_tokens == 0 &&
					  plan.depth * 2 * plan.block_tokens +
							  plan.warps * plan.stages *
								  maxsim_plan_stage_size(plan.stage_tokens, (uint32_t) maxsim_row_size(shapes[i].format, shapes[i].dim)) <
						  devices[d].block_memory,
				  "%d.%d format %d query %u dim %u: %u warps, %u stages of %u tokens", devices[d].major, devices[d].minor,
				  shapes[i].format, shapes[i].ntokens, shapes[i].dim, plan.warps, plan.stages, plan.stage_tokens);
		}
}

static void
test_families(void)
{
	const MaxsimPlanDevice *ampere = devices;
	const MaxsimPlanDevice *ada = devices + 2;
	const MaxsimPlanDevice *hopper = devices + 3;
	const MaxsimPlanDevice *blackwell = devices + 4;

	check_family(hopper, MAXSIM_F16, 32, 128, MAXSIM_FAMILY_MMA, 32);
	check_family(hopper, MAXSIM_F16, 33, 128, MAXSIM_FAMILY_ROWS, 64);
	check_family(hopper, MAXSIM_BF16, 128, 128, MAXSIM_FAMILY_ROWS, 128);
	check_family(hopper, MAXSIM_BF16, 129, 128, MAXSIM_FAMILY_BLOCKS, 256);
	check_family(hopper, MAXSIM_F16, 1024, 128, MAXSIM_FAMILY_BLOCKS, 512);
	check_family(hopper, MAXSIM_F16, 1025, 128, MAXSIM_FAMILY_BLOCKS, 384);
	check_family(hopper, MAXSIM_F16, 33, 320, MAXSIM_FAMILY_MMA, 64);
	check_family(hopper, MAXSIM_F32, 33, 128, MAXSIM_FAMILY_MMA, 32);
	check_family(hopper, MAXSIM_F32, 5, 1024, MAXSIM_FAMILY_MMA, 32);
	check_family(hopper, MAXSIM_F16, 5, 100, MAXSIM_FAMILY_GENERIC, 64);
	check_family(ampere, MAXSIM_F16, 1024, 128, MAXSIM_FAMILY_MMA, 64);
	check_family(blackwell, MAXSIM_F16, 33, 128, MAXSIM_FAMILY_MMA, 64);
	check_family(ada, MAXSIM_F16, 64, 128, MAXSIM_FAMILY_MMA, 64);
	check_family(ada, MAXSIM_F32, 5, 1024, MAXSIM_FAMILY_GENERIC, 64);
}

static void
test_queries(void)
{
	static const uint32_t dims[] = {1, 3, 48, 64, 96, 100, 128, 256, 320, 640, 768, 1024, 2560};
	static const uint32_t queries[] = {1, 2, 31, 32, 33, 64, 65, 128, 129, 511, 512, 513, 1024, 8192, 1000000};
	int d, i, j;
	int format;

	for (d = 0; d < LENGTHOF(devices); d++)
		for (format = 0; format < MAXSIM_NFORMATS; format++)
			for (i = 0; i < LENGTHOF(dims); i++)
				for (j = 0; j < LENGTHOF(queries); j++)
				{
					static const uint32_t element_sizes[MAXSIM_NFORMATS] = {4, 2, 2, 1, 1};
					MaxsimQueryPlan plan;
					bool good = maxsim_plan_query(&devices[d], format, queries[j], dims[i], &plan);
					uint64_t room = (uint64_t) plan.nblocks * plan.block_tokens;
					uint64_t size = room * plan.depth * (format == MAXSIM_F32 ? 6 : 2);

					/* their exponents lie behind the image */
					if (format == MAXSIM_I8 || format == MAXSIM_B1)
						size += room * 4;
					check(good && room >= queries[j] && room - queries[j] < (uint64_t) plan.nblocks * 128 + 256 &&
							  plan.depth >= dims[i] && plan.depth < dims[i] + 128 && plan.image_size == size &&
							  plan.tile_tokens % 8 == 0 &&
							  plan.alignment == (plan.family == MAXSIM_FAMILY_GENERIC ? element_sizes[format] : 16) &&
							  (plan.family != MAXSIM_FAMILY_ROWS || plan.nblocks == 1),
						  "device %d format %d query %u dim %u: %u blocks of %u, image %llu", d, format, queries[j],
						  dims[i], plan.nblocks, plan.block_tokens, (unsigned long long) plan.image_size);
				}
}

typedef struct Batch
{
	uint32_t ndocuments;
	uint64_t addresses[MAX_DOCUMENTS];
	uint32_t lengths[MAX_DOCUMENTS];
	uint32_t order[MAX_DOCUMENTS];
	MaxsimPiece pieces[2 * MAX_DOCUMENTS];
	MaxsimRange ranges[4000];
} Batch;

/* Documents tile by tile: contiguous pieces in order, each document in one slot. */
static bool
covers(const Batch *batch, const MaxsimBatchPlan *plan, uint32_t row_size, uint32_t tile)
{
	uint32_t slots = 0;
	uint32_t maxima = 0;
	uint32_t seen = 0;
	uint32_t i = 0;

	while (i < plan->npieces)
	{
		const MaxsimPiece *first = &batch->pieces[i];
		uint64_t tokens = 0;
		uint32_t j;

		for (j = 0; j < first->npieces; j++)
		{
			const MaxsimPiece *piece = first + j;

			if (piece->document != first->document || piece->index != j || piece->npieces != first->npieces ||
				piece->slot != slots || piece->ntokens == 0 ||
				piece->address != batch->addresses[first->document] + tokens * row_size ||
				(j + 1 < first->npieces && piece->ntokens % tile != 0) ||
				(first->npieces > 1 && piece->first != maxima))
				return false;
			tokens += piece->ntokens;
		}
		if (tokens != batch->lengths[first->document])
			return false;
		maxima += first->npieces > 1 ? first->npieces : 0;
		slots++;
		i += first->npieces;
	}
	for (i = 0; i < batch->ndocuments; i++)
		seen += batch->lengths[i] > 0;
	return slots == plan->nslots && slots == seen && maxima == plan->nmaxima;
}

/* No range has much more than its share, and only its ends are cut. */
static bool
balanced(const Batch *batch, const MaxsimBatchPlan *plan, uint32_t tile)
{
	uint32_t i;
	uint32_t j;

	for (i = 0; i < plan->nranges && plan->nranges > 1; i++)
	{
		uint64_t work = 0;

		for (j = batch->ranges[i].first; j < batch->ranges[i + 1].first; j++)
		{
			work += batch->pieces[j].ntokens;
			if (batch->pieces[j].npieces > 1 && j > batch->ranges[i].first && j + 1 < batch->ranges[i + 1].first)
				return false;
		}
		if (work > (uint64_t) plan->cut + 3 * tile)
			return false;
	}
	return true;
}

static void
check_batch(const MaxsimPlanDevice *device, Batch *batch, MaxsimFormat format, uint32_t ntokens, uint32_t dim)
{
	const uint32_t row_size = (uint32_t) maxsim_row_size(format, dim);
	MaxsimQueryPlan query;
	MaxsimBatchPlan plan;
	uint32_t i;
	bool good;

	(void) maxsim_plan_query(device, format, ntokens, dim, &query);
	maxsim_plan_batch(device, &query, row_size, batch->lengths, batch->ndocuments, &plan);
	maxsim_plan_pieces(&plan, &query, row_size, batch->addresses, batch->lengths, batch->ndocuments, batch->order,
					   batch->pieces, batch->ranges);
	good = covers(batch, &plan, row_size, query.tile_tokens) &&
		   plan.npieces <= maxsim_plan_most_pieces(device, batch->ndocuments) &&
		   plan.nranges <= maxsim_plan_most_ranges(device);
	for (i = 0; i < plan.nranges; i++)
	{
		const MaxsimRange *range = &batch->ranges[i];
		const MaxsimPiece *first = &batch->pieces[range->first];

		uint32_t ntiles = 0;
		uint32_t j;

		for (j = range->first; j < range[1].first; j++)
			ntiles += (uint32_t) (((uint64_t) batch->pieces[j].ntokens + query.tile_tokens - 1) / query.tile_tokens);
		good = good && range->first < range[1].first && range->address == first->address &&
			   range->ntokens == first->ntokens && range->ntiles == ntiles;
	}
	if (plan.nranges > 0)
		good = good && batch->ranges[0].first == 0 && batch->ranges[plan.nranges].first == plan.npieces;
	check(good && balanced(batch, &plan, query.tile_tokens), "%d.%d format %d query %u dim %u, %u documents: %u pieces, %u slots, %u ranges", device->major,
		  device->minor, format, ntokens, dim, batch->ndocuments, plan.npieces, plan.nslots, plan.nranges);
}

static void
test_batches(void)
{
	static const uint32_t queries[] = {1, 32, 64, 128, 256, 1024, 8192, 100000};
	static const uint32_t dims[] = {1, 100, 128, 1024, 320, 7};
	static const uint32_t counts[] = {0, 1, 2, 50, 133, 1000, MAX_DOCUMENTS};
	static const uint32_t longest[] = {1, 17, 300, 1030, 8192, 3000000};
	static Batch batch;
	int d, i, j, k, l;
	uint32_t n;

	for (d = 0; d < LENGTHOF(devices); d++)
		for (i = 0; i < LENGTHOF(queries); i++)
			for (j = 0; j < LENGTHOF(counts); j++)
				for (l = 0; l < LENGTHOF(longest); l++)
				{
					batch.ndocuments = counts[j];
					for (n = 0; n < counts[j]; n++)
					{
						batch.lengths[n] = d % 2 == 0 ? longest[l] : random_below(longest[l] + 1);
						batch.addresses[n] = (uint64_t) 1 << 40 | (uint64_t) n << 8;
					}
					for (k = 0; k < LENGTHOF(dims); k++)
						check_batch(&devices[d], &batch, (MaxsimFormat) (k % MAXSIM_NFORMATS), queries[i], dims[k]);
					check_batch(&devices[d], &batch, MAXSIM_F16, queries[i], 128);
					check_batch(&devices[d], &batch, MAXSIM_I8, queries[i], 128);
					check_batch(&devices[d], &batch, MAXSIM_B1, queries[i], 96);
				}
}

/* Rows that are expanded are as much work as f16's: a long document has as many pieces. */
static void
test_packed_pieces(void)
{
	static const MaxsimFormat formats[] = {MAXSIM_F16, MAXSIM_I8, MAXSIM_B1};
	const uint32_t length = 100000;
	const uint64_t address = 4096;
	int d, i;

	for (d = 0; d < LENGTHOF(devices); d++)
		for (i = 0; i < LENGTHOF(formats); i++)
		{
			const uint32_t row_size = (uint32_t) maxsim_row_size(formats[i], 110);
			MaxsimQueryPlan query;
			MaxsimBatchPlan plan;
			MaxsimPiece pieces[1000];
			uint32_t order;

			(void) maxsim_plan_query(&devices[d], formats[i], 32, 110, &query);
			maxsim_plan_batch(&devices[d], &query, row_size, &length, 1, &plan);
			maxsim_plan_pieces(&plan, &query, row_size, &address, &length, 1, &order, pieces, NULL);
			check(query.family == MAXSIM_FAMILY_GENERIC && plan.npieces == 98, "%d.%d format %d, 100000 tokens: %u pieces",
				  devices[d].major, devices[d].minor, formats[i], plan.npieces);
		}
}

int
main(int argc, char **argv)
{
	random_start(argc > 1 ? strtoull(argv[1], NULL, 0) : 1);
	test_families();
	test_packed_families();
	test_queries();
	test_batches();
	test_packed_pieces();
	return check_result();
}
