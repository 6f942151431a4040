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

static bool
open_cpu(ScorerMapping *mapping, const char *devices, ScorerReport *report)
{
	(void) mapping;
	(void) devices;
	report->ndevices = 1;
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

/* Scores documents first to first + n - 1 of the slot, which have one format. */
static MaxsimStatus
score_format(ScorerMapping *mapping, ScorerSlot *slot, MaxsimFormat format, uint32_t first, uint32_t n)
{
	const MaxsimEngine *engine = maxsim_cpu_engine();
	MaxsimQuery query = {(const float *) ((char *) mapping + slot->query_offset), NULL,
						 slot->query_ntokens, slot->query_dim};
	size_t size = engine->prepared_size(&query, format);
	void *memory = size == 0 ? NULL : malloc(size);
	MaxsimDocument *documents = malloc(n * sizeof(MaxsimDocument));
	MaxsimBatch batch = {NULL, documents, n, scorer_scores(slot) + first, is_abandoned, slot};
	MaxsimStatus status = MAXSIM_OUT_OF_MEMORY;

	if (memory == NULL || documents == NULL)
		snprintf(slot->message, sizeof(slot->message), "could not allocate %zu bytes in the scorer", size);
	else
	{
		for (uint32_t i = 0; i < n; i++)
		{
			documents[i].tokens = (char *) mapping + scorer_documents(slot)[first + i].offset;
			documents[i].ntokens = scorer_documents(slot)[first + i].ntokens;
		}
		status = engine->prepare(&query, format, memory, &batch.query, slot->message);
		if (status == MAXSIM_OK)
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

const ScorerDevice scorer_device_cpu = {"cpu", open_cpu, score_cpu};
