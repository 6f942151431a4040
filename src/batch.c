/*
 * batch.c
 *		See batch.h.
 *
 * A document goes from its TOAST relation straight to its place in the buffer,
 * header included, so that its elements begin on a cache line; there the engine
 * reads them.  When the buffer is full, what it holds is scored (buffers.c).
 */
#include "postgres.h"
#include "compat.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "utils/memutils.h"

#include "batch.h"
#include "toast.h"

/*
 * For the CPU so many bytes are gathered, which are still in its nearest caches then, of
 * documents that cost no more than a copy: those that lie in their rows, and those that lie one
 * after another in TOAST, of which the next ones come nearer while these are scored.
 */
#define NEAR_FILL (128 * 1024)

/*
 * Where there is a cache, documents in TOAST wait for so many others before they are looked
 * up: its directory lies anywhere in memory, and comes nearer meanwhile.
 */
#define WAITING 16

/* Where a document's bytes without varlena header are: in TOAST or in memory. */
typedef struct Payload
{
	const char *memory; /* NULL: in TOAST, at pointer */
	struct varatt_external pointer;
	uint32 size;
} Payload;

typedef struct WaitingDocument
{
	int64 id;
	CacheKey key;
	Payload payload; /* in TOAST */
	uint32 bucket;
} WaitingDocument;

struct Batch
{
	DocumentType type;
	const char *source;
	BatchBuffers buffers;
	ToastReader reader;
	MemoryContext context; /* holds the batch itself */
	MemoryContext scratch; /* reset after every document */

	bool may_wait;
	WaitingDocument waiting[WAITING]; /* by turns */
	uint64 ncome;
	uint64 ngone;
};

/* What a document's header says. */
typedef struct Shape
{
	MaxsimFormat format; /* that it is scored in */
	uint32 ntokens;
	uint32 dim;
	uint32 header_size; /* within the payload */
	uint32 row_size;    /* of a token as stored */
} Shape;

static void *fetch_again(void *arg, const CacheKey *key);

static Batch *
make_batch(DocumentType type, const char *source)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "maxsim batch", ALLOCSET_DEFAULT_SIZES);
	Batch *batch = MemoryContextAllocZero(context, sizeof(Batch));

	batch->type = type;
	batch->source = source;
	batch->context = context;
	batch->scratch = AllocSetContextCreate(context, "maxsim batch scratch", ALLOCSET_DEFAULT_SIZES);
	return batch;
}

Batch *
batch_begin(PreparedQuery *query, DocumentType type, const char *source, BatchDeliver deliver, void *arg)
{
	Batch *batch = make_batch(type, source);

	buffers_init(&batch->buffers, query, batch->context, deliver, arg, fetch_again, batch);
	return batch;
}

Batch *
batch_begin_load(CacheLoad *load, DocumentType type, const char *source)
{
	Batch *batch = make_batch(type, source);

	buffers_init_load(&batch->buffers, load, batch->context);
	return batch;
}

void
batch_let_wait(Batch *batch)
{
	batch->may_wait = true;
}

void
batch_count(Batch *batch, uint64 *totals)
{
	batch->buffers.stats.totals = totals;
}

/* Says which document an error is about. */
static void
document_error_context(void *arg)
{
	Batch *batch = arg;

	if (batch->source != NULL)
		errcontext("document %lld of source \"%s\"", (long long) batch->buffers.id, batch->source);
}

/* Bytes offset to offset + length - 1 of a payload to out. */
static void
read_payload(Batch *batch, const Payload *payload, uint32 offset, uint32 length, char *out)
{
	Stats *stats = &batch->buffers.stats;
	instr_time start;

	stats->counts[STATS_BYTES_FETCHED] += length;
	if (payload->memory != NULL)
		memcpy(out, payload->memory + offset, length);
	else
	{
		stats_start(&start);
		toast_fetch(&batch->reader, &payload->pointer, offset, length, out);
		stats_stop(stats, STATS_FETCH_TIME, start);
	}
}

/* The longest header that a document can have. */
#define MAX_HEADER_SIZE (ARR_OVERHEAD_NONULLS(2) - VARHDRSZ)

static Shape
shape_of_multivec(const char *header, uint32 size)
{
	/* nothing but the varlena header lies before it, and nobody looks at that */
	const Multivec *value = (const Multivec *) (header - VARHDRSZ);
	Shape shape;

	multivec_check(value, (uint64) size + VARHDRSZ);
	shape.header_size = MULTIVEC_HEADER_SIZE - VARHDRSZ;
	shape.format = value->format;
	shape.ntokens = value->ntokens;
	shape.dim = value->dim;
	shape.row_size = maxsim_row_size(shape.format, shape.dim);
	return shape;
}

/* An error if the array's bitmap, which follows the header, has a NULL. */
static void
check_bitmap(Batch *batch, const Payload *payload, uint64 n)
{
	bits8 bitmap[1024];

	for (uint64 i = 0; i < n; i += 8 * sizeof(bitmap))
	{
		uint64 part = Min(n - i, 8 * sizeof(bitmap));

		CHECK_FOR_INTERRUPTS();
		read_payload(batch, payload, MAX_HEADER_SIZE + i / 8, (part + 7) / 8, (char *) bitmap);
		tokens_check_bitmap(bitmap, part);
	}
}

static Shape
shape_of_array(Batch *batch, const char *header, const Payload *payload)
{
	const ArrayType *array = (const ArrayType *) (header - VARHDRSZ);
	uint32 element_size = batch->type == DOCUMENT_REAL_ARRAY ? sizeof(float) : sizeof(double);
	uint32 size = payload->size;
	Shape shape = {MAXSIM_F32, 0, 0, MAX_HEADER_SIZE, 0};
	bool has_bitmap = false;
	uint64 n;

	if (size >= sizeof(ArrayType) - VARHDRSZ)
	{
		if (ARR_NDIM(array) == 0 && size == sizeof(ArrayType) - VARHDRSZ)
			return shape;
		if (ARR_NDIM(array) > 2 || ARR_NDIM(array) == 1 || size >= MAX_HEADER_SIZE)
			tokens_check_array_header(array, &shape.ntokens, &shape.dim);
		has_bitmap = ARR_HASNULL(array);
	}
	shape.row_size = shape.dim * element_size;
	n = (uint64) shape.ntokens * shape.dim;
	if (has_bitmap && MAXALIGN(ARR_OVERHEAD_NONULLS(2) + (n + 7) / 8) == array->dataoffset &&
		array->dataoffset - VARHDRSZ <= size)
	{
		check_bitmap(batch, payload, n);
		shape.header_size = array->dataoffset - VARHDRSZ;
		has_bitmap = false;
	}
	if (has_bitmap || shape.header_size + n * element_size != size)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("array's header does not fit its size: %u tokens of dimension %u, but %u bytes",
						shape.ntokens, shape.dim, size + VARHDRSZ)));
	return shape;
}

static Shape
shape_of_document(Batch *batch, const char *header, const Payload *payload)
{
	Shape shape;

	if (batch->type == DOCUMENT_MULTIVEC)
		shape = shape_of_multivec(header, payload->size);
	else
		shape = shape_of_array(batch, header, payload);
	if (shape.ntokens > 0 && batch->buffers.query != NULL)
	{
		tokens_check_dims(batch->buffers.query->query.dim, shape.dim);
		query_check_format(batch->buffers.query, shape.format);
	}
	return shape;
}

/*
 * Elements as they were stored, in the buffer, to elements as they are scored, in
 * the same place.  A multivec was checked when it was made, an array was not.
 * Of the document, so many elements come before these.
 */
static void
convert_in_place(Batch *batch, char *elements, uint64 n, uint64 before)
{
	if (batch->type == DOCUMENT_DOUBLE_ARRAY)
		tokens_narrow_doubles((double *) elements, n, before, (float *) elements);
	if (batch->type != DOCUMENT_MULTIVEC)
		multivec_check_floats((const float *) elements, n, before, NULL);
}

/* Scores a document that does not fit into the buffer, in slices of its tokens. */
static void
score_in_slices(Batch *batch, int64 id, const Payload *payload)
{
	const MaxsimEngine *engine = batch->buffers.query->engine;
	char *slice;
	Stats *stats = &batch->buffers.stats;
	MaxsimPrepared *prepared;
	instr_time start;
	uint32 tokens_per_slice;
	uint32 n;
	Shape shape;

	buffers_flush(&batch->buffers);
	if (batch->buffers.use_scorer)
		gpu_count_fallback(FALLBACK_TOO_LARGE);
	batch->buffers.id = id;
	slice = (char *) TYPEALIGN(BUFFER_ALIGNMENT, batch->buffers.current->memory + VARHDRSZ);
	read_payload(batch, payload, 0, MAX_HEADER_SIZE, slice);
	shape = shape_of_document(batch, slice, payload);
	prepared = query_prepared(batch->buffers.query, shape.format);
	tokens_per_slice = batch->buffers.current->size / shape.row_size;

	engine->begin(prepared);
	for (uint32 token = 0; token < shape.ntokens; token += n)
	{
		n = Min(tokens_per_slice, shape.ntokens - token);
		read_payload(batch, payload, shape.header_size + token * shape.row_size, n * shape.row_size, slice);
		convert_in_place(batch, slice, (uint64) n * shape.dim, (uint64) token * shape.dim);
		stats_start(&start);
		if (engine->fold(prepared, slice, n, query_check_interrupts, NULL) != MAXSIM_OK)
			elog(ERROR, "engine \"%s\" stopped without being asked to", engine->name);
		stats_stop(stats, STATS_SCORE_TIME, start);
		CHECK_FOR_INTERRUPTS();
	}
	stats->counts[STATS_BATCHES]++;
	stats->counts[STATS_DOCUMENTS]++;
	stats->counts[STATS_MISSES]++;
	stats->counts[STATS_DOCUMENTS_CPU]++;
	buffers_deliver(&batch->buffers, id, query_check_score(engine->finish(prepared)), false);
}

/*
 * A BatchFetch: a document that was to come from a device's arena.  The snapshot that
 * showed its row is still there.
 */
static void *
fetch_again(void *arg, const CacheKey *key)
{
	Batch *batch = arg;
	Payload payload = {NULL, {0}, 0};
	char *memory;
	char *elements;
	Shape shape;

	payload.pointer.va_rawsize = key->raw_size;
	payload.pointer.va_extinfo = key->external_info;
	payload.pointer.va_valueid = key->value;
	payload.pointer.va_toastrelid = key->relation;
	payload.size = VARATT_EXTERNAL_GET_EXTSIZE(payload.pointer);
	memory = MemoryContextAllocHuge(batch->context, payload.size + 2 * BUFFER_ALIGNMENT);
	/* as in gather(): the header first, elements at an aligned address behind it */
	read_payload(batch, &payload, 0, payload.size, memory + BUFFER_ALIGNMENT);
	shape = shape_of_document(batch, memory + BUFFER_ALIGNMENT, &payload);
	elements = memmove(memory, memory + BUFFER_ALIGNMENT + shape.header_size, (uint64) shape.ntokens * shape.row_size);
	convert_in_place(batch, elements, (uint64) shape.ntokens * shape.dim, 0);
	return elements;
}

/* Has what was gathered scored, if it is enough, or if another document would not fit. */
static void
make_room(Batch *batch, const Payload *payload)
{
	BatchBuffers *buffers = &batch->buffers;
	Size used = buffers->current->used + payload->size + 2 * BUFFER_ALIGNMENT;
	bool enough = false;

	if (used > NEAR_FILL && !buffers->use_scorer && buffers->load == NULL)
	{
		/* small batches would come into the host's cache one by one as room is made, and drive out what a scan comes to next */
		if (!buffers->reading || !cache_has(CACHE_HOST))
			buffers->ahead = toast_ahead(&batch->reader, &buffers->ahead_size);
		enough = payload->memory != NULL || buffers->ahead != NULL;
	}
	if (enough || used > buffers->current->fill)
	{
		buffers_flush(buffers);
		toast_mark(&batch->reader);
	}
	buffers->ahead = NULL;
}

/* Brings a document that fits into the buffer, and puts it on its list. */
static void
gather(Batch *batch, int64 id, const Payload *payload, const CacheKey *key)
{
	uint32 header_size = batch->type == DOCUMENT_MULTIVEC ? MULTIVEC_HEADER_SIZE - VARHDRSZ : MAX_HEADER_SIZE;
	BatchBuffer *buffer;
	char *elements;
	Shape shape;

	make_room(batch, payload);
	buffer = batch->buffers.current;
	batch->buffers.id = id;
	elements = (char *) TYPEALIGN(BUFFER_ALIGNMENT, buffer->memory + buffer->used + VARHDRSZ + header_size);
	read_payload(batch, payload, 0, payload->size, elements - header_size);
	shape = shape_of_document(batch, elements - header_size, payload);
	if (shape.ntokens == 0)
	{
		buffers_deliver(&batch->buffers, id, 0, true);
		return;
	}
	elements += shape.header_size - header_size; /* a bitmap lies between */
	convert_in_place(batch, elements, (uint64) shape.ntokens * shape.dim, 0);

	buffers_add(&batch->buffers, id, key, shape.format, elements, shape.ntokens, shape.dim,
				elements + (uint64) shape.ntokens * shape.row_size);
}

/* Puts a document on its list, from the cache if it is there. */
static void
take(Batch *batch, int64 id, const Payload *payload, const CacheKey *key)
{
	batch->buffers.id = id;
	if (batch->buffers.load != NULL ? !load_wants(batch->buffers.load, key, payload->size + 2 * BUFFER_ALIGNMENT)
									: OidIsValid(key->value) && buffers_add_cached(&batch->buffers, id, key))
		;
	else if (payload->size + 2 * BUFFER_ALIGNMENT > batch->buffers.current->size)
		score_in_slices(batch, id, payload);
	else
		gather(batch, id, payload, key);
}

static void
take_first_waiting(Batch *batch)
{
	const WaitingDocument *first = &batch->waiting[batch->ngone++ % WAITING];

	take(batch, first->id, &first->payload, &first->key);
}

static void
wait_for_others(Batch *batch, int64 id, const Payload *payload, const CacheKey *key)
{
	if (batch->ncome - batch->ngone == WAITING)
		take_first_waiting(batch);
	batch->waiting[batch->ncome++ % WAITING] = (WaitingDocument){id, *key, *payload, cache_expect(key)};
	if (batch->ncome - batch->ngone > WAITING / 2)
		cache_expect_entry(batch->waiting[(batch->ncome - WAITING / 2) % WAITING].bucket);
}

void
batch_add(Batch *batch, int64 id, Datum document, bool is_null)
{
	struct varlena *value = (struct varlena *) DatumGetPointer(document);
	ErrorContextCallback context = {error_context_stack, document_error_context, batch};
	MemoryContext old;
	instr_time start;
	Payload payload = {0};
	CacheKey key = {0};

	CHECK_FOR_INTERRUPTS();
	if (is_null)
	{
		buffers_deliver(&batch->buffers, id, 0, true);
		return;
	}

	batch->buffers.id = id;
	error_context_stack = &context;
	old = MemoryContextSwitchTo(batch->scratch);
	if (!toast_is_external(value, &payload.pointer, &payload.size))
	{
		if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
		{
			stats_start(&start);
			value = detoast_attr(value);
			stats_stop(&batch->buffers.stats, STATS_FETCH_TIME, start);
		}
		payload.memory = VARDATA_ANY(value);
		payload.size = VARSIZE_ANY_EXHDR(value);
	}
	else if (cache_enabled())
		key = cache_key(&payload.pointer, batch->type);
	if (batch->may_wait && batch->buffers.reading && OidIsValid(key.value))
		wait_for_others(batch, id, &payload, &key);
	else
		take(batch, id, &payload, &key);
	MemoryContextSwitchTo(old);
	MemoryContextReset(batch->scratch);
	error_context_stack = context.previous;
}

void
batch_end(Batch *batch)
{
	ErrorContextCallback context = {error_context_stack, document_error_context, batch};

	error_context_stack = &context;
	while (batch->ngone < batch->ncome)
	{
		CHECK_FOR_INTERRUPTS();
		take_first_waiting(batch);
	}
	buffers_finish(&batch->buffers);
	error_context_stack = context.previous;
	toast_close(&batch->reader);
	MemoryContextDelete(batch->context);
}
