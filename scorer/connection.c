/*
 * connection.c
 *		Serving one backend: greeting, then request after request.
 *
 * A thread for each backend keeps the way from a packet to a kernel short, and
 * makes a backend that hangs up simply the end of its thread.
 */
#include <float.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <errno.h>

#include "connection.h"

#define STACK_SIZE (1024 * 1024)

typedef struct Connection
{
	int socket;
	ScorerMapping *mapping;
	uint32_t incarnation;
	const ScorerDevice *device;
} Connection;

/* One packet of exactly that size; false when the backend is gone. */
static bool
receive(int socket, void *packet, size_t size)
{
	ssize_t n;

	do
		n = recv(socket, packet, size, 0);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t) size;
}

static bool
answer(int socket, const void *packet, size_t size)
{
	ssize_t n;

	do
		n = send(socket, packet, size, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t) size;
}

static bool
greet(const Connection *connection)
{
	ScorerHello hello;
	ScorerHello reply = {SCORER_MAGIC, SCORER_PROTOCOL_VERSION, connection->mapping->epoch, 0, connection->incarnation, ""};

	if (!receive(connection->socket, &hello, sizeof(hello)))
		return false;
	if (hello.magic != SCORER_MAGIC || hello.version != SCORER_PROTOCOL_VERSION)
		snprintf(reply.message, sizeof(reply.message),
				 "scorer speaks protocol version %d, not %u: its program and the library are of different builds",
				 SCORER_PROTOCOL_VERSION, hello.version);
	else if (hello.epoch != connection->mapping->epoch)
		snprintf(reply.message, sizeof(reply.message), "scorer belongs to an earlier start of the server");
	else
		reply.ok = 1;
	return answer(connection->socket, &reply, sizeof(reply)) && reply.ok;
}

static bool
within(uint64_t offset, uint64_t size, uint64_t total)
{
	return offset <= total && size <= total - offset;
}

/* Whether bytes lie within the mapping, or a device's arena: no bytes neither where there is none. */
static bool
within_space(uint64_t offset, uint64_t size, const ScorerMapping *mapping, const ScorerDevice *device, int number)
{
	uint64_t total = number == SCORER_IN_MAPPING ? mapping->size : device->arena_size(number);

	return total > 0 && within(offset, size, total);
}

/* Whether a query lies in the mapping, and has weights that engines take. */
static bool
check_query(const ScorerMapping *mapping, const ScorerSlot *slot)
{
	uint64_t ntokens = slot->query_ntokens;
	uint64_t dim = slot->query_dim;
	const float *weights;

	if (dim == 0 || dim > 65535 || slot->query_offset % sizeof(float) != 0 ||
		!within(slot->query_offset, ntokens * dim * sizeof(float), mapping->size))
		return false;
	if (slot->weights_offset == SCORER_NO_WEIGHTS)
		return true;
	if (slot->weights_offset % sizeof(float) != 0 ||
		!within(slot->weights_offset, ntokens * sizeof(float), mapping->size))
		return false;
	weights = scorer_query(mapping, slot).weights;
	for (uint64_t i = 0; i < ntokens; i++)
	{
		/* NaN is no number of these, either */
		if (!(weights[i] >= 0 && weights[i] <= FLT_MAX))
			return false;
	}
	return true;
}

/* A backend is trusted with data, but a wrong size must not end the scorer. */
static bool
check_request(const ScorerMapping *mapping, const ScorerDevice *device, ScorerSlot *slot)
{
	uint64_t n = 0;
	uint64_t dim = slot->query_dim;

	for (int format = 0; format < MAXSIM_NFORMATS; format++)
		n += slot->ndocuments[format];
	if (n > SCORER_MAX_DOCUMENTS || !check_query(mapping, slot))
		return false;

	n = 0;
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
	{
		for (uint32_t i = 0; i < slot->ndocuments[format]; i++, n++)
		{
			const ScorerDocument *document = &scorer_documents(slot)[n];
			uint64_t size = (uint64_t) document->ntokens * maxsim_row_size(format, (uint32_t) dim);

			if (!within_space(document->offset, size, mapping, device, document->device))
				return false;
			if (document->copy_to != SCORER_NO_COPY &&
				(document->copy_device < 0 || document->copy_to % SCORER_COPY_ALIGNMENT != 0 ||
				 !within_space(document->offset, scorer_copy_size(size), mapping, device, document->device) ||
				 !within_space(document->copy_to, scorer_copy_size(size), mapping, device, document->copy_device)))
				return false;
		}
	}
	return true;
}

/*
 * Nothing in this process can use the devices again: it ends, to be started anew, and
 * tells the background worker why.
 */
static void
give_up(const char *reason)
{
	ScorerReport report = {0};

	snprintf(report.message, sizeof(report.message), "%s", reason);
	_exit(write(SCORER_STATUS_FD, &report, sizeof(report)) == sizeof(report) ? 1 : 2);
}

/* Scores a request unless it was given back meanwhile. */
static void
handle(const Connection *connection, const ScorerSubmit *submit)
{
	ScorerSlot *slot = scorer_slot(connection->mapping, submit->slot);
	ScorerDone done = {.slot = submit->slot, .request = submit->request};
	uint64_t word = SLOT_WORD(submit->request, SLOT_SUBMITTED);
	MaxsimStatus status = MAXSIM_INVALID;
	char reason[MAXSIM_MESSAGE_SIZE];

	if (!atomic_compare_exchange_strong(&slot->word, &word, SLOT_WORD(submit->request, SLOT_RUNNING)))
		return;

	slot->message[0] = '\0';
	if (check_request(connection->mapping, connection->device, slot))
		status = connection->device->score(connection->mapping, slot);
	else
		snprintf(slot->message, sizeof(slot->message), "scorer received a request outside its mapping, or with wrong weights");
	slot->status = status;
	memcpy(reason, slot->message, sizeof(reason)); /* the slot is another's soon */

	word = SLOT_WORD(submit->request, SLOT_RUNNING);
	if (atomic_compare_exchange_strong(&slot->word, &word, SLOT_WORD(submit->request, SLOT_OWNED)))
		answer(connection->socket, &done, sizeof(done));
	else
		atomic_store(&slot->word, SLOT_WORD(submit->request, SLOT_FREE)); /* it was abandoned */
	if (status == MAXSIM_DEVICE_LOST)
		give_up(reason);
}

static void *
serve(void *arg)
{
	Connection connection = *(Connection *) arg;
	ScorerSubmit submit;

	free(arg);
	if (greet(&connection))
	{
		while (receive(connection.socket, &submit, sizeof(submit)) && submit.slot < connection.mapping->nslots)
			handle(&connection, &submit);
	}
	close(connection.socket);
	return NULL;
}

bool
scorer_serve(int socket, ScorerMapping *mapping, uint32_t incarnation, const ScorerDevice *device)
{
	Connection *connection = malloc(sizeof(Connection));
	pthread_attr_t attributes;
	pthread_t thread;
	bool started = false;

	if (connection != NULL && pthread_attr_init(&attributes) == 0)
	{
		*connection = (Connection){socket, mapping, incarnation, device};
		pthread_attr_setstacksize(&attributes, STACK_SIZE);
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		started = pthread_create(&thread, &attributes, serve, connection) == 0;
		pthread_attr_destroy(&attributes);
	}
	if (!started)
		free(connection);
	return started;
}
