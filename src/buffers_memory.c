/*
 * buffers_memory.c
 *		Where the memory of buffers comes from: see buffers.h.
 */
#include "postgres.h"
#include "compat.h"

#include "buffers.h"
#include "session_buffer.h"

/*
 * What is gathered into a slot before it is sent: two of these stay in a core's
 * caches while they are filled in turns.  A longer document may use all of the slot.
 */
#define SLOT_FILL (2 * 1024 * 1024)

int maxsim_batch_size = MAXSIM_BATCH_SIZE_DEFAULT;

void
buffers_use_slot(BatchBuffer *buffer, const MaxsimQuery *query)
{
	char *data = gpu_data(&buffer->slot);
	uint64 query_size = gpu_put_query(&buffer->slot, query);

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
	instr_time start;
	bool acquired;

	/*
	 * The CPU counts the bits in which signs differ.  A scorer without a GPU adds up the
	 * components that it gets: 10,000 documents of 300 x 128 in the host's arena, 32 query
	 * tokens, take it 26 ms, and this process 9.
	 */
	if (!gpu_ready() || (query->signs && maxsim_scorer_engine != SCORER_ENGINE_CUDA))
		return false;
	/* a row of any dimension must fit beside the query */
	if (gpu_query_size(query) > scorer_mapping->data_size / 4)
	{
		gpu_count_fallback(FALLBACK_TOO_LARGE);
		return false;
	}
	stats_start(&start);
	acquired = gpu_acquire(&buffers->pair[0].slot, maxsim_engine == ENGINE_CUDA);
	stats_stop(&buffers->stats, STATS_WAIT_TIME, start);
	if (!acquired)
	{
		gpu_count_fallback(FALLBACK_NO_SLOT);
		return false;
	}
	buffers_use_slot(&buffers->pair[0], query);
	return true;
}

static void
release(void *arg)
{
	BatchBuffers *buffers = arg;

	/* what is loaded is no rerank's */
	if (buffers->load == NULL)
		stats_flush(&buffers->stats);
	gpu_release(&buffers->pair[0].slot);
	gpu_release(&buffers->pair[1].slot);
	if (buffers->reading)
		cache_read_end();
	buffers->reading = false;
	session_buffer_release(buffers);
}

/* Makes buffers whose context gives everything back. */
static void
init(BatchBuffers *buffers, MemoryContext context)
{
	memset(buffers, 0, sizeof(*buffers));
	buffers->context = context;
	buffers->current = &buffers->pair[0];
	buffers->release.func = release;
	buffers->release.arg = buffers;
	MemoryContextRegisterResetCallback(context, &buffers->release);
}

/* Makes memory of the session's the first buffer. */
static void
buffer_in_session(BatchBuffers *buffers, Size size)
{
	BatchBuffer *first = &buffers->pair[0];

	first->size = first->fill = size;
	first->memory = session_buffer_acquire(buffers, buffers->context, size + 2 * BUFFER_ALIGNMENT);
}

void
buffers_init(BatchBuffers *buffers, PreparedQuery *query, MemoryContext context,
			 BatchDeliver deliver, void *arg, BatchFetch fetch, void *fetch_arg)
{
	init(buffers, context);
	buffers->query = query;
	buffers->deliver = deliver;
	buffers->deliver_arg = arg;
	buffers->fetch = fetch;
	buffers->fetch_arg = fetch_arg;

	buffers->use_scorer = take_slot(buffers);
	buffers->incarnation = gpu_incarnation();
	if (cache_has_any())
	{
		cache_read_begin();
		buffers->reading = true;
	}
	if (!buffers->use_scorer)
		buffer_in_session(buffers, (Size) maxsim_batch_size * 1024);
}

void
buffers_init_load(BatchBuffers *buffers, CacheLoad *load, MemoryContext context)
{
	static const MaxsimQuery no_query = {.dim = 1};

	init(buffers, context);
	buffers->load = load;
	if (!load->on_devices)
		buffer_in_session(buffers, Max((Size) maxsim_batch_size * 1024, load_largest(load)));
	else if (gpu_acquire(&buffers->pair[0].slot, true))
		buffers_use_slot(&buffers->pair[0], &no_query);
	else
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no slot of the scorer is free"),
				 errhint("You might need to increase flash_maxsim.slots.")));
	load->room = buffers->current->size;
}
