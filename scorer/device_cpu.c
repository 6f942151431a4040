/*
 * device_cpu.c
 *		Scores requests with the CPU engine.
 *
 * It serves machines without a GPU when they test the way to the scorer and back:
 * a backend that may use the CPU does so itself, without the detour.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* stands for a GPU's own memory */
static char *arena;
static uint64_t arena_bytes;

static uint64_t
arena_size(int number)
{
	return number == 0 ? arena_bytes : 0;
}

static bool
open_cpu(ScorerMapping *mapping, const char *devices, const char *cache, ScorerReport *report)
{
	(void) mapping;
	(void) devices;
	arena_bytes = scorer_arena_bytes(cache, 1 << 30);
	if (arena_bytes > 0 && posix_memalign((void **) &arena, SCORER_PAGE, arena_bytes) != 0)
	{
		snprintf(report->arena_message, sizeof(report->arena_message), "could not allocate %llu bytes",
				 (unsigned long long) arena_bytes);
		arena_bytes = 0;
	}
	report->ndevices = 1;
	report->arena_sizes[0] = arena_bytes;
	snprintf(report->devices[0], sizeof(report->devices[0]), "%s", maxsim_cpu_engine()->name);
	return true;
}

/* Stops an engine when the backend has given the slot back. */
static bool
is_abandoned(void *arg)
{
	ScorerSlot *slot = arg;

	return SLOT_STATE(atomic_load(&slot->word)) == SLOT_ABANDONED;
}

static char *
address_of(ScorerMapping *mapping, int device, uint64_t offset)
{
	return (device == SCORER_IN_MAPPING ? (char *) mapping : arena) + offset;
}

/* Copies a document where it is to be scored, if anywhere; returns where it lies. */
static const char *
place(ScorerMapping *mapping, const ScorerDocument *document, uint64_t size)
{
	char *from = address_of(mapping, document->device, document->offset);
	char *to;

	if (document->copy_to == SCORER_NO_COPY)
		return from;
	to = address_of(mapping, document->copy_device, document->copy_to);
	memmove(to, from, scorer_copy_size(size));
	return to;
}

/* Scores documents first to first + n - 1 of the slot, which have one format. */
static MaxsimStatus
score_format(ScorerMapping *mapping, ScorerSlot *slot, MaxsimFormat format, uint32_t first, uint32_t n)
{
	const MaxsimEngine *engine = maxsim_cpu_engine();
	MaxsimQuery query = scorer_query(mapping, slot);
	size_t size = query.ntokens > 0 ? engine->prepared_size(&query, format) : 1;
	void *memory = size == 0 ? NULL : malloc(size);
	MaxsimDocument *documents = malloc(n * sizeof(MaxsimDocument));
	MaxsimBatch batch = {.documents = documents, .ndocuments = n, .scores = scorer_scores(slot) + first, .interrupt = is_abandoned, .interrupt_arg = slot};
	MaxsimStatus status = MAXSIM_OUT_OF_MEMORY;

	if (memory == NULL || documents == NULL)
		snprintf(slot->message, sizeof(slot->message), "could not allocate %zu bytes in the scorer", size);
	else
	{
		for (uint32_t i = 0; i < n; i++)
		{
			const ScorerDocument *document = &scorer_documents(slot)[first + i];
			uint64_t bytes = (uint64_t) document->ntokens * maxsim_row_size(format, query.dim);

			documents[i].tokens = place(mapping, document, bytes);
			documents[i].ntokens = document->ntokens;
		}
		status = MAXSIM_OK;
		if (query.ntokens > 0)
			status = engine->prepare(&query, format, memory, &batch.query, slot->message);
		if (query.ntokens > 0 && status == MAXSIM_OK)
			status = engine->score(&batch);
	}
	free(documents);
	free(memory);
	return status;
}

static MaxsimStatus
score_cpu(ScorerMapping *mapping, ScorerSlot *slot)
{
	MaxsimStatus status = MAXSIM_OK;
	uint32_t first = 0;

	for (int format = 0; format < MAXSIM_NFORMATS && status == MAXSIM_OK; format++)
	{
		if (slot->ndocuments[format] > 0)
			status = score_format(mapping, slot, format, first, slot->ndocuments[format]);
		first += slot->ndocuments[format];
	}
	return status;
}

const ScorerDevice scorer_device_cpu = {"cpu", open_cpu, arena_size, score_cpu};
