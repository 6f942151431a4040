/*
 * buffers.c
 *		What becomes of the documents in a buffer: see buffers.h.
 *
 * With the scorer there are two buffers, each a slot of the mapping: while one is
 * scored the other is filled.  Without it there is one, of the session's memory.
 * Work too small to be worth the way to the scorer is scored where it lies.
 */
#include "postgres.h"
#include "compat.h"

#include "buffers.h"

/*
 * Multiply-adds below which the CPU is done before the scorer could answer: some
 * 60 microseconds at 75 billion a second, or with a query's signs 800 billion.
 */
#define SCORER_MIN_WORK 5000000
#define SCORER_MIN_SIGNS 50000000

void
buffers_deliver(BatchBuffers *buffers, int64 id, float score, bool is_null)
{
	if (buffers->load != NULL)
	{
		buffers->load->uncached++; /* NULL, or without tokens */
		return;
	}
	buffers->deliver(buffers->deliver_arg, id, score, is_null);
}

/* Makes a buffer empty. */
static void
clear(BatchBuffer *buffer)
{
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
		buffer->lists[format].n = 0;
	buffer->used = 0;
	buffer->ndocuments = 0;
	buffer->ngpu_hits = 0;
	buffer->needs_device = false;
	buffer->nadmissions = 0;
	buffer->bytes_in_host = 0;
	buffer->bytes_uploaded = 0;
}

static void
deliver_list(BatchBuffers *buffers, const DocumentList *list, const float *scores)
{
	for (uint32 i = 0; i < list->n; i++)
	{
		buffers->id = list->infos[i].id;
		buffers_deliver(buffers, list->infos[i].id, query_check_score(scores[i]), false);
	}
}

static CacheAdmission *
add_admission(BatchBuffers *buffers, BatchBuffer *buffer)
{
	if (buffer->nadmissions == buffer->max_admissions)
	{
		uint32 n = Max(64, buffer->max_admissions * 2);

		buffer->admissions = buffer->admissions == NULL
								 ? MemoryContextAlloc(buffers->context, n * sizeof(CacheAdmission))
								 : repalloc(buffer->admissions, n * sizeof(CacheAdmission));
		buffer->max_admissions = n;
	}
	return &buffer->admissions[buffer->nadmissions++];
}

/* Notes a document of the buffer for a tier of the cache. */
static void
want_admission(BatchBuffers *buffers, BatchBuffer *buffer, int format, uint32 i, bool lasting)
{
	const DocumentList *list = &buffer->lists[format];
	CacheAdmission *admission = add_admission(buffers, buffer);
	uint32 dim = buffers->query->query.dim;

	memset(admission, 0, sizeof(*admission));
	admission->key = list->infos[i].key;
	admission->format = format;
	admission->ntokens = list->documents[i].ntokens;
	admission->dim = dim;
	admission->size = (uint64) admission->ntokens * maxsim_row_size(format, dim);
	admission->lasting = lasting;
	admission->source = list->infos[i].place == IN_BUFFER ? list->documents[i].tokens : NULL;
	admission->offset = CACHE_NOWHERE;
}

/* Notes the documents of the buffer that can be cached, and are not in the host arena. */
static void
want_admissions(BatchBuffers *buffers, BatchBuffer *buffer)
{
	buffer->nadmissions = 0;
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		const DocumentList *list = &buffer->lists[format];

		for (uint32 i = 0; i < list->n; i++)
		{
			if (list->infos[i].place == IN_BUFFER && OidIsValid(list->infos[i].key.value))
				want_admission(buffers, buffer, format, i, cache_seen_before(&list->infos[i].key));
		}
	}
}

/*
 * Copies documents that were noted to the host arena, if no device has room for them and
 * they were looked for before.  The first time, a query that comes once would pay for a
 * copy for nothing.
 */
static void
admit_to_host(BatchBuffers *buffers, BatchBuffer *buffer)
{
	CacheAdmission *admissions = buffer->admissions;
	uint32 n = 0;

	if (!cache_has(CACHE_HOST))
		return;
	for (uint32 k = 0; k < buffer->nadmissions; k++)
	{
		if (admissions[k].offset == CACHE_NOWHERE && admissions[k].lasting && admissions[k].source != NULL)
			admissions[n++] = admissions[k];
	}
	if (n == 0)
		return;
	for (uint32 k = 0; k < n; k++)
		admissions[k].lasting = false; /* until it is used there */
	cache_reserve(CACHE_HOST, admissions, n);
	for (uint32 k = 0; k < n; k++)
	{
		if (admissions[k].offset != CACHE_NOWHERE)
			memcpy(cache_host_address(admissions[k].offset), admissions[k].source, admissions[k].size);
	}
	buffers->stats.counts[STATS_ADMITTED_HOST] += cache_admit(admissions, n);
}

static void
score(BatchBuffers *buffers, int format, const MaxsimDocument *documents, uint32 n, float *scores)
{
	instr_time start;

	stats_start(&start);
	query_score(buffers->query, format, documents, n, scores, buffers->ahead, buffers->ahead_size);
	stats_stop(&buffers->stats, STATS_SCORE_TIME, start);
	buffers->stats.counts[STATS_DOCUMENTS_CPU] += n;
}

/* Scores a document that only a device has: it is brought again. */
static void
score_again(BatchBuffers *buffers, int format, const DocumentList *list, uint32 i)
{
	void *elements = buffers->fetch(buffers->fetch_arg, &list->infos[i].key);
	MaxsimDocument document = {elements, list->documents[i].ntokens};

	score(buffers, format, &document, 1, &list->scores[i]);
	buffers->stats.counts[STATS_REFETCHED]++;
	pfree(elements);
}

static void
score_on_cpu(BatchBuffers *buffers, BatchBuffer *buffer)
{
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		DocumentList *list = &buffer->lists[format];

		if (list->n == 0)
			continue;
		buffers->id = list->infos[0].id;
		if (!buffer->needs_device)
			score(buffers, format, list->documents, list->n, list->scores);
		for (uint32 i = 0; i < list->n && buffer->needs_device; i++)
		{
			buffers->id = list->infos[i].id;
			if (list->documents[i].tokens == NULL)
				score_again(buffers, format, list, i);
			else
				score(buffers, format, &list->documents[i], 1, &list->scores[i]);
		}
		deliver_list(buffers, list, list->scores);
	}
	if (buffers->reading && cache_has(CACHE_HOST))
	{
		want_admissions(buffers, buffer);
		admit_to_host(buffers, buffer);
	}
	clear(buffer);
	cache_read_renew();
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
	/* what lay in the host arena when it was sent may have gone since */
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		DocumentList *list = &buffer->lists[format];

		for (uint32 i = 0; i < list->n; i++)
		{
			if (list->infos[i].place == IN_BUFFER)
				continue;
			list->documents[i].tokens = NULL;
			buffer->needs_device = true;
		}
	}
	score_on_cpu(buffers, buffer);
}

/* Waits for the scores of a buffer that is with the scorer, and delivers them. */
static void
collect(BatchBuffers *buffers, BatchBuffer *buffer)
{
	const char *reason = NULL;
	uint64 *counts = buffers->stats.counts;
	instr_time start;
	MaxsimStatus status;
	const float *scores;

	if (!buffer->slot.in_flight)
		return;
	stats_start(&start);
	status = gpu_wait(&buffer->slot, &reason);
	stats_stop(&buffers->stats, STATS_WAIT_TIME, start);
	buffer->slot.in_flight = false;
	if (status != MAXSIM_OK)
	{
		score_after_failure(buffers, buffer, status, reason);
		return;
	}
	if (buffer->nadmissions > 0)
	{
		counts[STATS_ADMITTED_GPU] += cache_admit(buffer->admissions, buffer->nadmissions);
		admit_to_host(buffers, buffer);
	}
	counts[STATS_DOCUMENTS_SCORER] += buffer->ndocuments;
	counts[STATS_BYTES_UPLOADED] += buffer->bytes_uploaded;
	counts[STATS_BYTES_READ_BY_GPU] += buffer->bytes_in_host - buffer->bytes_uploaded;
	scores = scorer_scores(buffer->slot.slot);
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		const DocumentList *list = &buffer->lists[format];

		deliver_list(buffers, list, scores);
		scores += list->n;
	}
	clear(buffer);
}

/* Multiply-adds that the buffer's documents need. */
static uint64
work_of(const BatchBuffers *buffers, const BatchBuffer *buffer)
{
	uint64 ntokens = 0;

	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		const DocumentList *list = &buffer->lists[format];

		for (uint32 i = 0; i < list->n; i++)
			ntokens += list->documents[i].ntokens;
	}
	return ntokens * buffers->query->query.ntokens * buffers->query->query.dim;
}

/* Whether the scorer gets the buffer's documents, or they are scored here. */
static bool
is_for_scorer(const BatchBuffers *buffers, const BatchBuffer *buffer, uint64 work)
{
	if (buffer->ndocuments == 0 || !buffers->use_scorer)
		return false;
	return maxsim_engine == ENGINE_CUDA || buffer->needs_device ||
		   work >= (buffers->query->query.signs ? SCORER_MIN_SIGNS : SCORER_MIN_WORK);
}

/* Lists in the slot's table what is to be scored, and where it is. */
static void
fill_table(const MaxsimQuery *query, BatchBuffer *buffer, uint32 counts[MAXSIM_NFORMATS])
{
	ScorerDocument *table = scorer_documents(buffer->slot.slot);

	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		const DocumentList *list = &buffer->lists[format];
		uint64 row_size = maxsim_row_size(format, query->dim);

		counts[format] = list->n;
		for (uint32 i = 0; i < list->n; i++, table++)
		{
			bool on_device = list->infos[i].place == IN_DEVICE_CACHE;

			table->offset = on_device ? list->infos[i].device_offset
									  : (uint64) ((const char *) list->documents[i].tokens - (char *) scorer_mapping);
			table->device = on_device ? list->infos[i].device : SCORER_IN_MAPPING;
			table->ntokens = list->documents[i].ntokens;
			table->copy_to = SCORER_NO_COPY;
			table->copy_device = SCORER_IN_MAPPING;
			if (!on_device)
				buffer->bytes_in_host += table->ntokens * row_size;
		}
	}
}

/*
 * Has documents that no device has copied to one, from where they are scored there.
 * Devices take turns, batch by batch.
 */
static void
admit_to_device(BatchBuffers *buffers, BatchBuffer *buffer)
{
	static uint32 turn = 0;
	ScorerDocument *table = scorer_documents(buffer->slot.slot);
	uint32 device = turn++ % gpu_devices();
	uint32 k = 0;

	buffer->nadmissions = 0;
	if (!buffers->reading)
		return;
	if (!cache_has(CACHE_DEVICE(device)))
	{
		/* there may be room in the host's */
		if (cache_has(CACHE_HOST))
			want_admissions(buffers, buffer);
		return;
	}
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		const DocumentList *list = &buffer->lists[format];

		for (uint32 i = 0; i < list->n; i++)
		{
			if (list->infos[i].place != IN_DEVICE_CACHE && OidIsValid(list->infos[i].key.value))
				want_admission(buffers, buffer, format, i, cache_seen_before(&list->infos[i].key));
		}
	}
	if (buffer->nadmissions == 0)
		return;
	cache_reserve(CACHE_DEVICE(device), buffer->admissions, buffer->nadmissions);
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		const DocumentList *list = &buffer->lists[format];

		for (uint32 i = 0; i < list->n; i++, table++)
		{
			const CacheAdmission *admission = &buffer->admissions[k];

			if (list->infos[i].place == IN_DEVICE_CACHE || !OidIsValid(list->infos[i].key.value))
				continue;
			k++;
			if (admission->offset == CACHE_NOWHERE)
				continue;
			table->copy_to = admission->offset;
			table->copy_device = device;
			buffer->bytes_uploaded += admission->size;
		}
	}
}

/* Sends a buffer to the scorer, and makes the other one the current one. */
static void
send_to_scorer(BatchBuffers *buffers, BatchBuffer *buffer, uint64 work)
{
	BatchBuffer *other = &buffers->pair[buffer == &buffers->pair[0]];
	uint32 counts[MAXSIM_NFORMATS];

	if (gpu_incarnation() != buffers->incarnation)
	{
		/* a batch within this one connected anew: offsets on devices mean nothing any more */
		score_after_failure(buffers, buffer, MAXSIM_DEVICE_LOST, "scorer was restarted");
		return;
	}
	fill_table(&buffers->query->query, buffer, counts);
	admit_to_device(buffers, buffer);
	atomic_store(&buffer->slot.slot->reader_epoch, cache_epoch());
	gpu_submit(&buffer->slot, &buffers->query->query, counts, work);

	if (other->slot.slot == NULL && gpu_acquire(&other->slot, false))
		buffers_use_slot(other, &buffers->query->query);
	if (other->slot.slot == NULL)
		collect(buffers, buffer); /* one has to do */
	else
	{
		collect(buffers, other);
		buffers->current = other;
	}
	/* the slot itself keeps what it needs */
	cache_read_renew();
}

void
buffers_flush(BatchBuffers *buffers)
{
	BatchBuffer *buffer = buffers->current;
	uint64 work;

	if (buffers->load != NULL)
	{
		/* no longer than that: a source may be read for hours */
		cache_read_begin();
		buffers->reading = true;
		load_run(buffers->load, &buffer->slot);
		buffers->reading = false;
		cache_read_end();
		clear(buffer);
		return;
	}
	work = work_of(buffers, buffer);
	buffers->stats.counts[STATS_BATCHES] += buffer->ndocuments > 0;
	buffers->stats.counts[STATS_DOCUMENTS] += buffer->ndocuments;
	if (is_for_scorer(buffers, buffer, work))
		send_to_scorer(buffers, buffer, work);
	else
	{
		if (!buffer->needs_device)
		{
			/* then the host tier has what was found on a device, and it is used */
			buffers->stats.counts[STATS_HITS_HOST] += buffer->ngpu_hits;
			buffers->stats.counts[STATS_HITS_GPU] -= buffer->ngpu_hits;
		}
		score_on_cpu(buffers, buffer);
	}
	stats_flush(&buffers->stats);
}

/* Room for one more document on a list. */
static void
grow_list(BatchBuffers *buffers, DocumentList *list)
{
	uint32 n = list->capacity == 0 ? 64 : Min(list->capacity * 4, BUFFER_MAX_DOCUMENTS);

	if (list->capacity == 0)
	{
		list->documents = MemoryContextAlloc(buffers->context, n * sizeof(MaxsimDocument));
		list->infos = MemoryContextAlloc(buffers->context, n * sizeof(DocumentInfo));
		list->scores = MemoryContextAlloc(buffers->context, n * sizeof(float));
	}
	else
	{
		list->documents = repalloc(list->documents, n * sizeof(MaxsimDocument));
		list->infos = repalloc(list->infos, n * sizeof(DocumentInfo));
		list->scores = repalloc(list->scores, n * sizeof(float));
	}
	list->capacity = n;
}

static DocumentInfo *
add_document(BatchBuffers *buffers, MaxsimFormat format, const void *elements, uint32 ntokens)
{
	DocumentList *list = &buffers->current->lists[format];

	if (list->n == list->capacity)
		grow_list(buffers, list);
	list->documents[list->n].tokens = elements;
	list->documents[list->n].ntokens = ntokens;
	buffers->current->ndocuments++;
	return &list->infos[list->n++];
}

void
buffers_add(BatchBuffers *buffers, int64 id, const CacheKey *key, MaxsimFormat format,
			const char *elements, uint32 ntokens, uint32 dim, const char *end)
{
	if (buffers->load != NULL)
	{
		load_add(buffers->load, key, format, elements, ntokens, dim);
		buffers->current->ndocuments++;
	}
	else
	{
		DocumentInfo *info = add_document(buffers, format, elements, ntokens);

		info->id = id;
		info->key = *key;
		info->place = IN_BUFFER;
		buffers->stats.counts[STATS_MISSES]++;
	}
	buffers->current->used = end - buffers->current->memory;
	if (buffers->current->ndocuments == BUFFER_MAX_DOCUMENTS)
		buffers_flush(buffers);
}

bool
buffers_add_cached(BatchBuffers *buffers, int64 id, const CacheKey *key)
{
	CachedDocument found;
	DocumentInfo *info;
	bool on_device;

	if (!buffers->reading)
		return false;
	/* rows may come slowly: nothing is kept for what has been scored */
	if (buffers->current->ndocuments == 0)
		cache_read_renew();
	if (!cache_lookup(key, &found))
		return false;
	on_device = buffers->use_scorer && found.device_offset != CACHE_NOWHERE;
	if (!on_device && found.host == NULL)
		return false;
	tokens_check_dims(buffers->query->query.dim, found.dim);
	query_check_format(buffers->query, found.format);

	info = add_document(buffers, found.format, found.host, found.ntokens);
	info->id = id;
	info->key = *key;
	info->place = on_device ? IN_DEVICE_CACHE : IN_HOST_CACHE;
	buffers->current->ngpu_hits += on_device;
	buffers->stats.counts[on_device ? STATS_HITS_GPU : STATS_HITS_HOST]++;
	info->device = found.device;
	info->device_offset = found.device_offset;
	buffers->current->needs_device |= found.host == NULL;
	if (buffers->current->ndocuments == BUFFER_MAX_DOCUMENTS)
		buffers_flush(buffers);
	return true;
}

void
buffers_finish(BatchBuffers *buffers)
{
	buffers_flush(buffers);
	collect(buffers, &buffers->pair[0]);
	collect(buffers, &buffers->pair[1]);
}
