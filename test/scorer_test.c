/*
 * scorer_test.c
 *		Requests that no backend makes: scorer/connection.c must hand its device those
 *		alone that lie within the mapping and the arenas, rows of every format.
 *
 * The device is one of this file's, which scores nothing and says what reached it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../scorer/connection.h"
#include "check.h"

#define EPOCH 42
#define ARENA_SIZE 10000 /* of device 0, the only one */
#define DIM 100

static ScorerMapping *mapping;
static ScorerSlot *slot;
static int backend; /* the socket's end that a backend has */
static _Atomic int nscored;
static uint64_t nrequests;

static uint64_t
arena_size(int number)
{
	return number == 0 ? ARENA_SIZE : 0;
}

static MaxsimStatus
score(ScorerMapping *of, ScorerSlot *request)
{
	(void) of;
	(void) request;
	nscored++;
	return MAXSIM_OK;
}

static const ScorerDevice device = {"test", NULL, arena_size, score};

static void
give_up(const char *what)
{
	printf("could not %s\n", what);
	exit(1);
}

/* One slot with two pages of data. */
static void
start(void)
{
	const uint64_t data_size = 2 * SCORER_PAGE;
	const uint64_t size = SCORER_PAGE + SCORER_DATA_OFFSET + data_size;
	ScorerHello hello = {SCORER_MAGIC, SCORER_PROTOCOL_VERSION, EPOCH, 0, 0, ""};
	int sockets[2];

	mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (mapping == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0)
		give_up("make a mapping and sockets");
	mapping->epoch = EPOCH;
	mapping->size = size;
	mapping->nslots = 1;
	mapping->slot_stride = size - SCORER_PAGE;
	mapping->data_size = data_size;
	slot = scorer_slot(mapping, 0);
	backend = sockets[0];
	if (!scorer_serve(sockets[1], mapping, 1, &device) ||
		send(backend, &hello, sizeof(hello), 0) != sizeof(hello) ||
		recv(backend, &hello, sizeof(hello), 0) != sizeof(hello) || !hello.ok)
		give_up("greet the scorer");
}

/* A request of one query token and one document of 3 tokens, all of it where it may be. */
static ScorerDocument *
make_request(MaxsimFormat format)
{
	ScorerDocument *document = scorer_documents(slot);

	slot->query_ntokens = 1;
	slot->query_dim = DIM;
	slot->query_offset = (uint64_t) (scorer_data(slot) - (char *) mapping);
	memset(slot->ndocuments, 0, sizeof(slot->ndocuments));
	slot->ndocuments[format] = 1;
	*document = (ScorerDocument){slot->query_offset + SCORER_PAGE, SCORER_NO_COPY, 3, SCORER_IN_MAPPING, 0};
	return document;
}

/* Sends the slot as it is: it must reach the device, or be refused. */
static void
submit(bool good, MaxsimFormat format, const char *what)
{
	ScorerSubmit request = {.slot = 0, .request = ++nrequests};
	ScorerDone done = {.request = 0};
	int before = nscored;

	slot->message[0] = '\0';
	atomic_store(&slot->word, SLOT_WORD(nrequests, SLOT_SUBMITTED));
	if (send(backend, &request, sizeof(request), 0) != sizeof(request) ||
		recv(backend, &done, sizeof(done), 0) != sizeof(done) || done.request != nrequests)
		give_up("have a request answered");
	check(nscored - before == good && slot->status == (good ? MAXSIM_OK : MAXSIM_INVALID) &&
			  (slot->message[0] == '\0') == good,
		  "format %d, %s: status %u, %d reached the device, \"%s\"", format, what, slot->status, nscored - before,
		  slot->message);
}

/* Documents to the end of where they lie, and one byte or token further. */
static void
test_documents(MaxsimFormat format)
{
	const uint64_t row = maxsim_row_size(format, DIM);
	ScorerDocument *document = make_request(format);

	submit(true, format, "a document");
	document->offset = mapping->size - 3 * row;
	submit(true, format, "at the end of the mapping");
	document->offset++;
	submit(false, format, "a byte beyond the mapping");
	document->offset--;
	document->ntokens++;
	submit(false, format, "a token beyond the mapping");
	document->ntokens = UINT32_MAX;
	submit(false, format, "2^32 - 1 tokens");
	document->offset = UINT64_MAX - row;
	submit(false, format, "an offset of almost 2^64");

	*make_request(format) = (ScorerDocument){ARENA_SIZE - 3 * row, SCORER_NO_COPY, 3, 0, 0};
	submit(true, format, "at the end of the arena");
	document->offset++;
	submit(false, format, "a byte beyond the arena");
	*make_request(format) = (ScorerDocument){0, SCORER_NO_COPY, 1, 1, 0};
	submit(false, format, "in an arena that there is not");
	document->device = -2;
	submit(false, format, "in an arena of a number below 0");
	document->ntokens = 0;
	submit(false, format, "without tokens in an arena of a number below 0");
	document->device = INT16_MAX;
	submit(false, format, "without tokens in an arena that there is not");
	*make_request(format) = (ScorerDocument){0, 0, 0, SCORER_IN_MAPPING, 1};
	submit(false, format, "a copy without tokens to an arena that there is not");
}

/* Copies are of multiples of 16 bytes, which must fit at both ends. */
static void
test_copies(MaxsimFormat format)
{
	const uint64_t row = maxsim_row_size(format, DIM);
	const uint64_t size = scorer_copy_size(3 * row);
	const uint64_t last = (ARENA_SIZE - size) / SCORER_COPY_ALIGNMENT * SCORER_COPY_ALIGNMENT;
	ScorerDocument *document = make_request(format);

	document->copy_to = last;
	submit(true, format, "a copy to the end of the arena");
	document->copy_to = last + SCORER_COPY_ALIGNMENT;
	submit(false, format, "a copy beyond the arena");
	document->copy_to = last - 1;
	submit(false, format, "a copy to an odd place");
	document->copy_to = last;
	document->copy_device = 1;
	submit(false, format, "a copy to an arena that there is not");
	document->copy_device = SCORER_IN_MAPPING;
	submit(false, format, "a copy to the mapping");

	/* what is rounded up is read, too */
	document->copy_device = 0;
	document->offset = mapping->size - size;
	submit(true, format, "a copy from the end of the mapping");
	document->offset = mapping->size - 3 * row;
	submit(size == 3 * row, format, "a copy that reads beyond the mapping");
}

/* As many documents as a slot holds, of any formats, and one more. */
static void
test_counts(MaxsimFormat format)
{
	const MaxsimFormat other = (format + 1) % MAXSIM_NFORMATS;
	const MaxsimFormat first = format < other ? format : other;
	const MaxsimFormat second = format < other ? other : format;
	uint32_t i;

	(void) make_request(format);
	for (i = 0; i < SCORER_MAX_DOCUMENTS; i++)
		scorer_documents(slot)[i] = (ScorerDocument){0, SCORER_NO_COPY, 1, 0, 0};
	slot->ndocuments[format] = SCORER_MAX_DOCUMENTS - 1;
	slot->ndocuments[other] = 1;
	submit(true, format, "as many documents as there may be");
	slot->ndocuments[other] = 2;
	submit(false, format, "one document more");
	slot->ndocuments[format] = 2;
	slot->ndocuments[other] = UINT32_MAX;
	submit(false, format, "counts whose sum has 33 bits");
	for (i = 0; i < MAXSIM_NFORMATS; i++)
		slot->ndocuments[i] = UINT32_MAX;
	submit(false, format, "2^32 - 1 documents of each format");

	/* of two formats, each by rows of its own */
	(void) make_request(format);
	slot->ndocuments[other] = 1;
	scorer_documents(slot)[0] = (ScorerDocument){ARENA_SIZE - maxsim_row_size(first, DIM), SCORER_NO_COPY, 1, 0, 0};
	scorer_documents(slot)[1] = (ScorerDocument){ARENA_SIZE - maxsim_row_size(second, DIM), SCORER_NO_COPY, 1, 0, 0};
	submit(true, format, "two formats");
	scorer_documents(slot)[1].offset++;
	submit(false, format, "two formats, the second beyond the arena");
}

static void
test_queries(MaxsimFormat format)
{
	const uint64_t size = DIM * sizeof(float);

	make_request(format)->ntokens = 0;
	slot->query_offset = mapping->size - size;
	submit(true, format, "a query at the end of the mapping");
	slot->query_offset += sizeof(float);
	submit(false, format, "a query beyond the mapping");
	slot->query_offset = 2;
	submit(false, format, "a query at an odd place");
	make_request(format)->ntokens = 0;
	slot->query_ntokens = UINT32_MAX;
	submit(false, format, "a query of 2^32 - 1 tokens");
	make_request(format)->ntokens = 0;
	slot->query_dim = 0;
	submit(false, format, "dimension 0");
	slot->query_ntokens = 0;
	slot->query_dim = 65535;
	submit(true, format, "dimension 65535, without a query");
	slot->query_dim = 65536;
	submit(false, format, "dimension 65536");
	slot->query_dim = UINT32_MAX;
	submit(false, format, "dimension 2^32 - 1");
}

int
main(void)
{
	int format;

	start();
	for (format = 0; format < MAXSIM_NFORMATS; format++)
	{
		test_documents(format);
		test_copies(format);
		test_counts(format);
		test_queries(format);
	}
	return check_result();
}
