/*
 * batch.c
 *		See batch.h.
 *
 * A document goes from its TOAST relation straight to its place in the buffer,
 * header included, so that its elements begin on a cache line; there the engine
 * reads them.  When the buffer is full, what it holds is scored, format by
 * format, and it is filled again from its start.
 */
#include "postgres.h"
#include "compat.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "utils/memutils.h"

#include "batch.h"
#include "toast.h"

/* documents of one format gathered before they are scored, at the most */
#define BATCH_MAX_DOCUMENTS 1024
#define BATCH_ALIGNMENT 64

/* a buffer up to this size stays with the session, which saves its page faults */
#define BATCH_KEEP_SIZE (4 * 1024 * 1024)

int maxsim_batch_size = MAXSIM_BATCH_SIZE_DEFAULT;

/* The documents of one format in the buffer. */
typedef struct DocumentList
{
	MaxsimDocument *documents; /* [BATCH_MAX_DOCUMENTS], NULL until needed */
	int64 *ids;
	float *scores;
	uint32 n;
} DocumentList;

struct Batch
{
	PreparedQuery *query;
	DocumentType type;
	BatchDeliver deliver;
	void *deliver_arg;
	const char *source;
	int64 id; /* of the document in work */

	char *buffer;
	Size buffer_size;
	Size used;
	DocumentList lists[MAXSIM_NFORMATS];

	ToastReader reader;
	MemoryContext context; /* holds the batch itself */
	MemoryContext scratch; /* reset after every document */
	MemoryContextCallback release;
};

/* Where a document's bytes without varlena header are: in TOAST or in memory. */
typedef struct Payload
{
	const char *memory; /* NULL: in TOAST, at pointer */
	struct varatt_external pointer;
	uint32 size;
} Payload;

/* What a document's header says. */
typedef struct Shape
{
	MaxsimFormat format; /* that it is scored in */
	uint32 ntokens;
	uint32 dim;
	uint32 header_size; /* within the payload */
	uint32 row_size;    /* of a token as stored */
} Shape;

/* The session's buffer; a batch within a batch gets one of its own. */
static struct
{
	char *memory;
	Size size;
	bool in_use;
} session_buffer;

static void
release_session_buffer(void *arg)
{
	(void) arg;
	session_buffer.in_use = false;
	if (session_buffer.size > BATCH_KEEP_SIZE)
	{
		pfree(session_buffer.memory);
		session_buffer.memory = NULL;
		session_buffer.size = 0;
	}
}

static char *
acquire_buffer(Batch *batch, Size size)
{
	if (session_buffer.in_use)
		return MemoryContextAllocHuge(batch->context, size);
	if (session_buffer.size != size)
	{
		if (session_buffer.memory != NULL)
			pfree(session_buffer.memory);
		session_buffer.memory = NULL;
		session_buffer.size = 0;
		session_buffer.memory = MemoryContextAllocHuge(TopMemoryContext, size);
		session_buffer.size = size;
	}
	session_buffer.in_use = true;
	batch->release.func = release_session_buffer;
	MemoryContextRegisterResetCallback(batch->context, &batch->release);
	return session_buffer.memory;
}

Batch *
batch_begin(PreparedQuery *query, DocumentType type, const char *source, BatchDeliver deliver, void *arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "maxsim batch", ALLOCSET_DEFAULT_SIZES);
	Batch *batch = MemoryContextAllocZero(context, sizeof(Batch));

	batch->query = query;
	batch->type = type;
	batch->source = source;
	batch->deliver = deliver;
	batch->deliver_arg = arg;
	batch->context = context;
	batch->scratch = AllocSetContextCreate(context, "maxsim batch scratch", ALLOCSET_DEFAULT_SIZES);
	batch->buffer_size = (Size) maxsim_batch_size * 1024;
	/* room to align the first document's elements */
	batch->buffer = acquire_buffer(batch, batch->buffer_size + 2 * BATCH_ALIGNMENT);
	return batch;
}

/* Says which document an error is about. */
static void
document_error_context(void *arg)
{
	Batch *batch = arg;

	errcontext("document %lld of source \"%s\"", (long long) batch->id, batch->source);
}

/* Scores and delivers what the buffer holds, and empties it. */
static void
flush(Batch *batch)
{
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		DocumentList *list = &batch->lists[format];

		if (list->n == 0)
			continue;
		batch->id = list->ids[0];
		query_score(batch->query, format, list->documents, list->n, list->scores);
		for (uint32 i = 0; i < list->n; i++)
		{
			batch->id = list->ids[i];
			batch->deliver(batch->deliver_arg, batch->id, query_check_score(list->scores[i]), false);
		}
		list->n = 0;
	}
	batch->used = 0;
}

/* Bytes offset to offset + length - 1 of a payload to out. */
static void
read_payload(Batch *batch, const Payload *payload, uint32 offset, uint32 length, char *out)
{
	if (payload->memory != NULL)
		memcpy(out, payload->memory + offset, length);
	else
		toast_fetch(&batch->reader, &payload->pointer, offset, length, out);
}

/* The longest header that a document can have. */
#define MAX_HEADER_SIZE (ARR_OVERHEAD_NONULLS(2) - VARHDRSZ)

static Shape
shape_of_multivec(const char *header, uint32 size)
{
	/* nothing but the varlena header lies before it, and nobody looks at that */
	const Multivec *value = (const Multivec *) (header - VARHDRSZ);
	Shape shape;

	if (size < MULTIVEC_HEADER_SIZE - VARHDRSZ)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("multivec of %u bytes is shorter than its header of %zu bytes",
						size + VARHDRSZ, MULTIVEC_HEADER_SIZE)));
	shape.header_size = MULTIVEC_HEADER_SIZE - VARHDRSZ;
	multivec_check(value, size - shape.header_size);
	shape.format = value->format;
	shape.ntokens = value->ntokens;
	shape.dim = value->dim;
	shape.row_size = shape.dim * maxsim_element_size(shape.format);
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
	if (shape.ntokens > 0)
		tokens_check_dims(batch->query->query.dim, shape.dim);
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
		multivec_elements_finite(MAXSIM_F32, elements, n, before, NULL);
}

/* Scores a document that does not fit into the buffer, in slices of its tokens. */
static void
score_in_slices(Batch *batch, int64 id, const Payload *payload)
{
	const MaxsimEngine *engine = batch->query->engine;
	char *slice = (char *) TYPEALIGN(BATCH_ALIGNMENT, batch->buffer + VARHDRSZ);
	MaxsimPrepared *prepared;
	uint32 tokens_per_slice;
	uint32 n;
	Shape shape;

	flush(batch);
	batch->id = id;
	read_payload(batch, payload, 0, MAX_HEADER_SIZE, slice);
	shape = shape_of_document(batch, slice, payload);
	prepared = query_prepared(batch->query, shape.format);
	tokens_per_slice = batch->buffer_size / shape.row_size;

	engine->begin(prepared);
	for (uint32 token = 0; token < shape.ntokens; token += n)
	{
		n = Min(tokens_per_slice, shape.ntokens - token);
		read_payload(batch, payload, shape.header_size + token * shape.row_size, n * shape.row_size, slice);
		convert_in_place(batch, slice, (uint64) n * shape.dim, (uint64) token * shape.dim);
		if (engine->fold(prepared, slice, n, query_check_interrupts, NULL) != MAXSIM_OK)
			elog(ERROR, "engine \"%s\" stopped without being asked to", engine->name);
		CHECK_FOR_INTERRUPTS();
	}
	batch->deliver(batch->deliver_arg, id, query_check_score(engine->finish(prepared)), false);
}

/* The list for one more document of a format. */
static DocumentList *
list_for(Batch *batch, MaxsimFormat format)
{
	DocumentList *list = &batch->lists[format];

	if (list->documents == NULL)
	{
		list->documents = MemoryContextAlloc(batch->context, BATCH_MAX_DOCUMENTS * sizeof(MaxsimDocument));
		list->ids = MemoryContextAlloc(batch->context, BATCH_MAX_DOCUMENTS * sizeof(int64));
		list->scores = MemoryContextAlloc(batch->context, BATCH_MAX_DOCUMENTS * sizeof(float));
	}
	return list;
}

/* Brings a document that fits into the buffer, and puts it on its list. */
static void
gather(Batch *batch, int64 id, const Payload *payload)
{
	uint32 header_size = batch->type == DOCUMENT_MULTIVEC ? MULTIVEC_HEADER_SIZE - VARHDRSZ : MAX_HEADER_SIZE;
	DocumentList *list;
	char *elements;
	Shape shape;

	if (batch->used + payload->size + 2 * BATCH_ALIGNMENT > batch->buffer_size)
		flush(batch);
	batch->id = id;
	elements = (char *) TYPEALIGN(BATCH_ALIGNMENT, batch->buffer + batch->used + VARHDRSZ + header_size);
	read_payload(batch, payload, 0, payload->size, elements - header_size);
	shape = shape_of_document(batch, elements - header_size, payload);
	if (shape.ntokens == 0)
	{
		batch->deliver(batch->deliver_arg, id, 0, true);
		return;
	}
	elements += shape.header_size - header_size; /* a bitmap lies between */
	convert_in_place(batch, elements, (uint64) shape.ntokens * shape.dim, 0);

	list = list_for(batch, shape.format);
	list->documents[list->n].tokens = elements;
	list->documents[list->n].ntokens = shape.ntokens;
	list->ids[list->n] = id;
	list->n++;
	batch->used = elements + (uint64) shape.ntokens * shape.row_size - batch->buffer;
	if (list->n == BATCH_MAX_DOCUMENTS)
		flush(batch);
}

void
batch_add(Batch *batch, int64 id, Datum document, bool is_null)
{
	struct varlena *value = (struct varlena *) DatumGetPointer(document);
	ErrorContextCallback context = {error_context_stack, document_error_context, batch};
	MemoryContext old;
	Payload payload = {0};

	CHECK_FOR_INTERRUPTS();
	if (is_null)
	{
		batch->deliver(batch->deliver_arg, id, 0, true);
		return;
	}

	batch->id = id;
	error_context_stack = &context;
	old = MemoryContextSwitchTo(batch->scratch);
	if (!toast_is_external(value, &payload.pointer, &payload.size))
	{
		if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
			value = detoast_attr(value);
		payload.memory = VARDATA_ANY(value);
		payload.size = VARSIZE_ANY_EXHDR(value);
	}
	if (payload.size + 2 * BATCH_ALIGNMENT > batch->buffer_size)
		score_in_slices(batch, id, &payload);
	else
		gather(batch, id, &payload);
	MemoryContextSwitchTo(old);
	MemoryContextReset(batch->scratch);
	error_context_stack = context.previous;
}

void
batch_end(Batch *batch)
{
	ErrorContextCallback context = {error_context_stack, document_error_context, batch};

	error_context_stack = &context;
	flush(batch);
	error_context_stack = context.previous;
	toast_close(&batch->reader);
	MemoryContextDelete(batch->context);
}
