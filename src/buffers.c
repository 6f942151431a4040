/*
 * buffers.c
 *		See buffers.h.
 *
 * With the scorer there are two buffers, each a slot of the mapping: while one is
 * scored the other is filled.  Without it there is one, of the session's memory.
 * Work too small to be worth the way to the scorer is scored where it lies.
 */
#include "postgres.h"
#include "compat.h"

#include "utils/memutils.h"

#include "buffers.h"

StaticAssertDecl(BUFFER_MAX_DOCUMENTS *MAXSIM_NFORMATS <= SCORER_MAX_DOCUMENTS, "a slot's table must hold a buffer's documents");

/* a buffer up to this size stays with the session, which saves its page faults */
#define KEEP_SIZE (4 * 1024 * 1024)

/*
 * What is gathered into a slot before it is sent: two of these stay in a core's
 * caches while they are filled in turns.  A longer document may use all of the slot.
 */
#define SLOT_FILL (2 * 1024 * 1024)

/*
 * Multiply-adds below which the CPU is done before the scorer could answer: some
 * 60 microseconds at 75 billion a second.
 */
#define SCORER_MIN_WORK 5000000

int maxsim_batch_size = MAXSIM_BATCH_SIZE_DEFAULT;

/* The session's buffer; a batch within a batch gets one of its own. */
static struct
{
	char *memory;
	Size size;
	BatchBuffers *user;
} session_buffer;

static void
release_session_buffer(BatchBuffers *buffers)
{
	if (session_buffer.user != buffers)
		return;
	session_buffer.user = NULL;
	if (session_buffer.size > KEEP_SIZE)
	{
		pfree(session_buffer.memory);
		session_buffer.memory = NULL;
		session_buffer.size = 0;
	}
}

static char *
acquire_session_buffer(BatchBuffers *buffers, Size size)
{
	if (session_buffer.user != NULL)
		return MemoryContextAllocHuge(buffers->context, size);
	if (session_buffer.size != size)
	{
		if (session_buffer.memory != NULL)
			pfree(session_buffer.memory);
		session_buffer.memory = NULL;
		session_buffer.size = 0;
		session_buffer.memory = MemoryContextAllocHuge(TopMemoryContext, size);
		session_buffer.size = size;
	}
	session_buffer.user = buffers;
	return session_buffer.memory;
}

/* Makes a slot's memory a buffer, with the query in front of it. */
static void
buffer_in_slot(BatchBuffer *buffer, const MaxsimQuery *query)
{
	Size query_size = (Size) query->ntokens * query->dim * sizeof(float);
	char *data = gpu_data(&buffer->slot);

	memcpy(data, query->tokens, query_size);
	buffer->memory = (char *) TYPEALIGN(BUFFER_ALIGNMENT, data + query_size);
	buffer->size = data + scorer_mapping->data_size - buffer->memory - 2 * BUFFER_ALIGNMENT;
	buffer->fill = Min(buffer->size, SLOT_FILL);
	buffer->used = 0;
}

/* Whether the scorer is to be used, and a slot could be had for it. */
static bool
take_slot(BatchBuffers *buffers)
{
	const MaxsimQuery *query = &buffers->query->query;

	if (!gpu_ready())
		return false;
	/* a row of any dimension must fit beside the query */
	if ((uint64) query->ntokens * query->dim * sizeof(float) > scorer_mapping->data_size / 4)
	{
		gpu_count_fallback(FALLBACK_TOO_LARGE);
		return false;
	}
	if (!gpu_acquire(&buffers->pair[0].slot, maxsim_engine == ENGINE_CUDA))
	{
		gpu_count_fallback(FALLBACK_NO_SLOT);
		return false;
	}
	buffer_in_slot(&buffers->pair[0], query);
	return true;
}

static void
release(void *arg)
{
	BatchBuffers *buffers = arg;

	gpu_release(&buffers->pair[0].slot);
	gpu_release(&buffers->pair[1].slot);
	release_session_buffer(buffers);
}

void
buffers_init(BatchBuffers *buffers, PreparedQuery *query, MemoryContext context,
			 BatchDeliver deliver, void *arg)
{
	BatchBuffer *first = &buffers->pair[0];

	memset(buffers, 0, sizeof(*buffers));
	buffers->query = query;
	buffers->context = context;
	buffers->deliver = deliver;
	buffers->deliver_arg = arg;
	buffers->current = first;
	buffers->release.func = release;
	buffers->release.arg = buffers;
	MemoryContextRegisterResetCallback(context, &buffers->release);

	buffers->use_scorer = take_slot(buffers);
	if (!buffers->use_scorer)
	{
		first->size = first->fill = (Size) maxsim_batch_size * 1024;
		first->memory = acquire_session_buffer(buffers, first->size + 2 * BUFFER_ALIGNMENT);
	}
}

void
buffers_deliver(BatchBuffers *buffers, int64 id, float score, bool is_null)
{
	buffers->deliver(buffers->deliver_arg, id, score, is_null);
}

/* Delivers the scores of a list, and empties it. */
static void
deliver_list(BatchBuffers *buffers, DocumentList *list, const float *scores)
{
	for (uint32 i = 0; i < list->n; i++)
	{
		buffers->id = list->ids[i];
		buffers_deliver(buffers, list->ids[i], query_check_score(scores[i]), false);
	}
	list->n = 0;
}

static void
score_on_cpu(BatchBuffers *buffers, BatchBuffer *buffer)
{
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		DocumentList *list = &buffer->lists[format];

		if (list->n == 0)
			continue;
		buffers->id = list->ids[0];
		query_score(buffers->query, format, list->documents, list->n, list->scores);
		deliver_list(buffers, list, list->scores);
	}
	buffer->used = 0;
}

/* The scorer has not scored this buffer: an error, or the CPU does. */
static void
score_after_failure(BatchBuffers *buffers, BatchBuffer *buffer, MaxsimStatus status, const char *reason)
{
	/* what the query cannot be converted to is an error on the CPU as well */
	if (status != MAXSIM_OUT_OF_RANGE)
	{
		if (maxsim_engine == ENGINE_CUDA)
			ereport(ERROR,
					(errcode(status == MAXSIM_OUT_OF_MEMORY ? ERRCODE_OUT_OF_MEMORY : ERRCODE_SYSTEM_ERROR),
					 errmsg("engine \"cuda\" failed: %s", reason),
					 errhint("With flash_maxsim.engine = auto the CPU scores instead.")));
		gpu_count_fallback(FALLBACK_FAILED);
		buffers->use_scorer = false;
	}
	score_on_cpu(buffers, buffer);
}

/* Waits for the scores of a buffer that is with the scorer, and delivers them. */
static void
collect(BatchBuffers *buffers, BatchBuffer *buffer)
{
	const char *reason = NULL;
	MaxsimStatus status;
	const float *scores;

	if (!buffer->slot.in_flight)
		return;
	status = gpu_wait(&buffer->slot, &reason);
	buffer->slot.in_flight = false;
	if (status != MAXSIM_OK)
	{
		score_after_failure(buffers, buffer, status, reason);
		return;
	}
	scores = scorer_scores(buffer->slot.slot);
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		DocumentList *list = &buffer->lists[format];
		uint32 n = list->n;

		deliver_list(buffers, list, scores);
		scores += n;
	}
	buffer->used = 0;
}

/* Multiply-adds that the buffer's documents need, and how many documents those are. */
static uint64
work_of(const BatchBuffers *buffers, const BatchBuffer *buffer, uint32 *ndocuments)
{
	uint64 ntokens = 0;

	*ndocuments = 0;
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		const DocumentList *list = &buffer->lists[format];

		for (uint32 i = 0; i < list->n; i++)
			ntokens += list->documents[i].ntokens;
		*ndocuments += list->n;
	}
	return ntokens * buffers->query->query.ntokens * buffers->query->query.dim;
}

/* Sends a buffer to the scorer, and makes the other one the current one. */
static void
send_to_scorer(BatchBuffers *buffers, BatchBuffer *buffer, uint64 work)
{
	BatchBuffer *other = &buffers->pair[buffer == &buffers->pair[0]];
	ScorerDocument *table = scorer_documents(buffer->slot.slot);
	uint32 counts[MAXSIM_NFORMATS];

	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		const DocumentList *list = &buffer->lists[format];

		counts[format] = list->n;
		for (uint32 i = 0; i < list->n; i++, table++)
		{
			table->offset = (const char *) list->documents[i].tokens - (char *) scorer_mapping;
			table->ntokens = list->documents[i].ntokens;
			table->reserved = 0;
		}
	}
	gpu_submit(&buffer->slot, &buffers->query->query, counts, work);

	if (other->slot.slot == NULL && gpu_acquire(&other->slot, false))
		buffer_in_slot(other, &buffers->query->query);
	if (other->slot.slot == NULL)
		collect(buffers, buffer); /* one has to do */
	else
	{
		collect(buffers, other);
		buffers->current = other;
	}
}

void
buffers_flush(BatchBuffers *buffers)
{
	BatchBuffer *buffer = buffers->current;
	uint32 ndocuments;
	uint64 work = work_of(buffers, buffer, &ndocuments);

	if (ndocuments > 0 && buffers->use_scorer && (maxsim_engine == ENGINE_CUDA || work >= SCORER_MIN_WORK))
		send_to_scorer(buffers, buffer, work);
	else
		score_on_cpu(buffers, buffer);
}

void
buffers_add(BatchBuffers *buffers, int64 id, MaxsimFormat format, const char *elements,
			uint32 ntokens, const char *end)
{
	BatchBuffer *buffer = buffers->current;
	DocumentList *list = &buffer->lists[format];

	if (list->documents == NULL)
	{
		list->documents = MemoryContextAlloc(buffers->context, BUFFER_MAX_DOCUMENTS * sizeof(MaxsimDocument));
		list->ids = MemoryContextAlloc(buffers->context, BUFFER_MAX_DOCUMENTS * sizeof(int64));
		list->scores = MemoryContextAlloc(buffers->context, BUFFER_MAX_DOCUMENTS * sizeof(float));
	}
	list->documents[list->n].tokens = elements;
	list->documents[list->n].ntokens = ntokens;
	list->ids[list->n] = id;
	list->n++;
	buffer->used = end - buffer->memory;
	if (list->n == BUFFER_MAX_DOCUMENTS)
		buffers_flush(buffers);
}

void
buffers_finish(BatchBuffers *buffers)
{
	buffers_flush(buffers);
	collect(buffers, &buffers->pair[0]);
	collect(buffers, &buffers->pair[1]);
}
