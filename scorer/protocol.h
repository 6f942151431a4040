/*
 * protocol.h
 *		What a backend and the scorer process share: the layout of the mapping, the
 *		states of a slot, and the messages on the socket.
 *
 * The mapping is a memfd made by the postmaster, inherited by every backend and
 * handed to the scorer, which registers it as memory that the GPU reads.  It holds
 * slots.  A backend takes a slot, gathers documents into it, and sends the slot's
 * number to the scorer; the scorer writes scores into the slot and answers.  Behind
 * them lies the host arena of the document cache; a GPU's arena is in its own memory,
 * and backends know it by offsets.
 *
 * Both sides are built together and check version and epoch when they meet.  No
 * PostgreSQL and no CUDA here.
 */
#ifndef MAXSIM_PROTOCOL_H
#define MAXSIM_PROTOCOL_H

#include <stdatomic.h>
#include <stdint.h>

#include "../src/engine.h"

#define SCORER_MAGIC 0x534d584du /* "MXMS" */
#define SCORER_PROTOCOL_VERSION 3

/* in the data directory, where base backups leave it out without a word */
#define SCORER_SOCKET "pg_stat_tmp/flash_maxsim.sock"

#define SCORER_PROGRAM "flash_maxsim_scorer"

/* descriptors that the scorer is started with */
#define SCORER_MAPPING_FD 3
#define SCORER_STATUS_FD 4

#define SCORER_MAX_DEVICES 16
#define SCORER_MAX_DOCUMENTS 4096 /* of a slot */
#define SCORER_PAGE 4096

/*
 * The states of a slot.  Each change is one compare-and-swap of the slot's word,
 * which holds the state in its low 8 bits and the number of the request above
 * them, so that a message about an earlier request never touches a later one.
 *
 *	FREE		-> OWNED		a backend takes it
 *	OWNED		-> SUBMITTED	the backend has filled it and sends its number
 *	SUBMITTED	-> RUNNING		the scorer begins
 *	RUNNING		-> OWNED		the scorer is done and answers
 *	OWNED, SUBMITTED -> FREE	the backend gives it back
 *	RUNNING		-> ABANDONED	the backend gives it back while the scorer uses it
 *	ABANDONED	-> FREE			the scorer is done, or has ended
 */
typedef enum SlotState
{
	SLOT_FREE = 0,
	SLOT_OWNED,
	SLOT_SUBMITTED,
	SLOT_RUNNING,
	SLOT_ABANDONED
} SlotState;

#define SLOT_WORD(request, state) ((uint64_t) (request) << 8 | (state))
#define SLOT_STATE(word) ((SlotState) ((word) &0xff))
#define SLOT_REQUEST(word) ((word) >> 8)

/*
 * A document of a request: where it begins, in the mapping or in a device's arena.  One
 * with a copy_to is first copied there, to the arena of device copy_device, to a
 * multiple of SCORER_COPY_ALIGNMENT bytes, and scored where it then lies.
 */
typedef struct ScorerDocument
{
	uint64_t offset;
	uint64_t copy_to; /* SCORER_NO_COPY: nowhere */
	uint32_t ntokens;
	int16_t device; /* whose arena; SCORER_IN_MAPPING: none */
	int16_t copy_device;
} ScorerDocument;

#define SCORER_IN_MAPPING (-1)
#define SCORER_NO_WEIGHTS 0 /* where the mapping's own header is */
#define SCORER_NO_COPY UINT64_MAX
#define SCORER_COPY_ALIGNMENT 16

/* A slot: this header, then documents, scores and data, each at a page's start. */
typedef struct ScorerSlot
{
	_Atomic uint64_t word;
	_Atomic uint32_t incarnation; /* of the scorer that it was sent to last */

	/* of the cache's epochs: until the scorer is done, documents known since then stay where they are */
	_Atomic uint64_t reader_epoch;

	/* the request, written by the backend before SUBMITTED */
	uint32_t query_ntokens; /* 0: only copy */
	uint32_t query_dim;
	uint64_t query_offset;                /* of float [ntokens][dim] in the mapping */
	uint64_t weights_offset;              /* of float [ntokens], finite and not negative; SCORER_NO_WEIGHTS: all 1 */
	uint32_t ndocuments[MAXSIM_NFORMATS]; /* those of format 0 first in documents */

	/* the answer, written by the scorer before OWNED */
	uint32_t status; /* a MaxsimStatus */
	char message[MAXSIM_MESSAGE_SIZE];
} ScorerSlot;

/* The mapping's first page. */
typedef struct ScorerMapping
{
	uint32_t magic;
	uint32_t version;
	uint64_t epoch; /* of the server's start or crash restart */
	uint64_t size;
	uint32_t nslots;
	uint32_t incarnation; /* of the scorer that is started next, or was started last */
	uint64_t slot_stride;
	uint64_t data_size; /* bytes of a slot for query and documents */
	uint64_t arena_offset;
	uint64_t arena_size; /* 0: none */
} ScorerMapping;

#define SCORER_DOCUMENTS_OFFSET SCORER_PAGE
#define SCORER_SCORES_OFFSET (SCORER_DOCUMENTS_OFFSET + SCORER_MAX_DOCUMENTS * sizeof(ScorerDocument))
#define SCORER_DATA_OFFSET (SCORER_SCORES_OFFSET + SCORER_MAX_DOCUMENTS * sizeof(float))

_Static_assert(sizeof(ScorerSlot) <= SCORER_PAGE, "a slot's header must fit its page");
_Static_assert(SCORER_DATA_OFFSET % SCORER_PAGE == 0, "a slot's data must begin on a page");

static inline ScorerSlot *
scorer_slot(ScorerMapping *mapping, uint32_t slot)
{
	return (ScorerSlot *) ((char *) mapping + SCORER_PAGE + slot * mapping->slot_stride);
}

static inline ScorerDocument *
scorer_documents(ScorerSlot *slot)
{
	return (ScorerDocument *) ((char *) slot + SCORER_DOCUMENTS_OFFSET);
}

static inline float *
scorer_scores(ScorerSlot *slot)
{
	return (float *) ((char *) slot + SCORER_SCORES_OFFSET);
}

/* The request's query, once its offsets have been checked. */
static inline MaxsimQuery
scorer_query(const ScorerMapping *mapping, const ScorerSlot *slot)
{
	const char *base = (const char *) mapping;
	MaxsimQuery query = {(const float *) (base + slot->query_offset), NULL, slot->query_ntokens, slot->query_dim, false};

	if (slot->weights_offset != SCORER_NO_WEIGHTS)
		query.weights = (const float *) (base + slot->weights_offset);
	return query;
}

/* Bytes of a document, as they are copied. */
static inline uint64_t
scorer_copy_size(uint64_t size)
{
	return (size + SCORER_COPY_ALIGNMENT - 1) / SCORER_COPY_ALIGNMENT * SCORER_COPY_ALIGNMENT;
}

static inline char *
scorer_data(ScorerSlot *slot)
{
	return (char *) slot + SCORER_DATA_OFFSET;
}

/*
 * Messages: packets of a Unix socket of type SOCK_SEQPACKET.  A connection begins
 * with a ScorerHello from each side; after an answer that is not ok the scorer
 * closes it.  Then the backend sends ScorerSubmit, and the scorer answers each
 * with ScorerDone, in order.
 */
typedef struct ScorerHello
{
	uint32_t magic;
	uint32_t version;
	uint64_t epoch;
	uint32_t ok;
	uint32_t incarnation; /* the scorer's */
	char message[MAXSIM_MESSAGE_SIZE];
} ScorerHello;

typedef struct ScorerSubmit
{
	uint32_t slot;
	uint32_t unused;
	uint64_t request;
} ScorerSubmit;

typedef struct ScorerDone
{
	uint32_t slot;
	uint32_t unused;
	uint64_t request;
} ScorerDone;

/*
 * Written to SCORER_STATUS_FD when the scorer is ready, or before it exits because it
 * cannot be, or cannot be any longer.
 */
typedef struct ScorerReport
{
	uint32_t ready;
	uint32_t no_device; /* not ready, and trying again soon is of no use */
	uint32_t ndevices;
	char engine[16];
	char devices[SCORER_MAX_DEVICES][64]; /* their names */
	uint64_t arena_sizes[SCORER_MAX_DEVICES];
	char arena_message[MAXSIM_MESSAGE_SIZE]; /* why an arena is missing that was asked for */
	char message[MAXSIM_MESSAGE_SIZE];       /* why not ready, or why it ends */
} ScorerReport;

#endif /* MAXSIM_PROTOCOL_H */
