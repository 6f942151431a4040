/*
 * engine_gpu.c
 *		See engine_gpu.h.
 *
 * The word of a slot in the mapping is what counts; a packet on the socket only
 * wakes the waiting backend, and the socket's end tells that the scorer is gone.
 */
#include "postgres.h"
#include "compat.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/s_lock.h"
#include "utils/timestamp.h"

#include "engine_gpu.h"
#include "stats.h"

/*
 * A scorer that takes longer for one batch is taken for hung: the limit, and the
 * multiply-adds that prolong it by a millisecond, a tenth of what one core does.
 */
#define REQUEST_LIMIT_MS 30000
#define WORK_PER_MS 8000000
#define GREETING_LIMIT_MS 2000
#define SLOT_POLL_MS 2
#define SPIN_US 50
#define MAX_UNDRAINED 32

/*
 * Who waits for a slot may hold a lock that those who have one wait for.  No
 * deadlock detector sees that, so the wait has an end.
 */
#define SLOT_LIMIT_MS 10000

/* one is filled while the other is scored */
#define SLOTS_PER_BATCH 2

int maxsim_engine = ENGINE_AUTO;

static int scorer_socket = -1;
static uint32 scorer_incarnation; /* of the scorer at its other end */
static uint32 connection = 0;     /* counts connections; an answer comes on that of its request */

void
gpu_count_fallback(ScorerFallback reason)
{
	if (scorer_control != NULL)
		pg_atomic_fetch_add_u64(&scorer_control->fallbacks[reason], 1);
	stats_add(STATS_FALLBACKS + reason, 1);
}

static void
disconnect(void)
{
	if (scorer_socket < 0)
		return;
	close(scorer_socket);
	ReleaseExternalFD();
	scorer_socket = -1;
}

/* Waits until the socket is readable; false after milliseconds. */
static bool
wait_for_packet(long milliseconds)
{
	int events = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
								   scorer_socket, milliseconds, PG_WAIT_EXTENSION);

	if (events & WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return (events & WL_SOCKET_READABLE) != 0;
}

/* Connects and exchanges greetings; on failure *reason says why. */
static bool
connect_to_scorer(char *reason, size_t size)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SCORER_SOCKET};
	ScorerHello hello = {SCORER_MAGIC, SCORER_PROTOCOL_VERSION, scorer_mapping->epoch, 0, 0, ""};
	TimestampTz start = GetCurrentTimestamp();
	ssize_t n = -1;

	if (!AcquireExternalFD())
	{
		strlcpy(reason, "no file descriptor is left for the scorer's socket", size);
		return false;
	}
	scorer_socket = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (scorer_socket < 0)
	{
		ReleaseExternalFD();
		snprintf(reason, size, "could not create a socket: %s", strerror(errno));
		return false;
	}
	if (fcntl(scorer_socket, F_SETFL, O_NONBLOCK) != 0 || fcntl(scorer_socket, F_SETFD, FD_CLOEXEC) != 0 ||
		connect(scorer_socket, (struct sockaddr *) &address, sizeof(address)) != 0 ||
		send(scorer_socket, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
	{
		snprintf(reason, size, "could not connect to the scorer: %s", strerror(errno));
		disconnect();
		return false;
	}

	PG_TRY();
	{
		while (n < 0 && !TimestampDifferenceExceeds(start, GetCurrentTimestamp(), GREETING_LIMIT_MS))
		{
			if (wait_for_packet(GREETING_LIMIT_MS))
				n = recv(scorer_socket, &hello, sizeof(hello), 0);
		}
	}
	PG_CATCH();
	{
		disconnect();
		PG_RE_THROW();
	}
	PG_END_TRY();
	hello.message[MAXSIM_MESSAGE_SIZE - 1] = '\0';
	if (n == sizeof(hello) && hello.ok)
	{
		/* not ours to guess: it may have been restarted while we connected */
		scorer_incarnation = hello.incarnation;
		connection++;
		return true;
	}
	disconnect();
	if (n == sizeof(hello))
		strlcpy(reason, hello.message, size);
	else if (n < 0)
		strlcpy(reason, "scorer does not answer", size);
	else
		strlcpy(reason, "scorer hung up, it may be out of file descriptors or threads", size);
	return false;
}

/* Whether the other end of the socket still is there. */
static bool
is_connected(void)
{
	char byte;
	ssize_t n = recv(scorer_socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

bool
gpu_connect(char *reason)
{
	ScorerState state = SCORER_UNAVAILABLE;

	if (scorer_control == NULL)
		strlcpy(reason, scorer_absence(), MAXSIM_MESSAGE_SIZE);
	else
	{
		SpinLockAcquire(&scorer_control->mutex);
		state = scorer_control->state;
		strlcpy(reason, scorer_control->reason, MAXSIM_MESSAGE_SIZE);
		SpinLockRelease(&scorer_control->mutex);
	}
	if (state != SCORER_READY)
		return false;
	if (scorer_socket >= 0 && (scorer_incarnation != pg_atomic_read_u32(&scorer_control->incarnation) ||
							   !is_connected()))
		disconnect();
	return scorer_socket >= 0 || connect_to_scorer(reason, MAXSIM_MESSAGE_SIZE);
}

bool
gpu_ready(void)
{
	char reason[MAXSIM_MESSAGE_SIZE];

	if (maxsim_engine == ENGINE_CPU)
		return false;
	if (gpu_connect(reason))
		return true;
	if (maxsim_engine == ENGINE_CUDA)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("engine \"cuda\" is not available: %s", reason),
				 errhint("With flash_maxsim.engine = auto the CPU scores meanwhile.")));
	if (scorer_control != NULL && maxsim_scorer_engine != SCORER_ENGINE_OFF)
		gpu_count_fallback(FALLBACK_NOT_READY);
	return false;
}

uint32
gpu_incarnation(void)
{
	return scorer_incarnation;
}

int
gpu_devices(void)
{
	int n;

	SpinLockAcquire(&scorer_control->mutex);
	n = scorer_control->ndevices;
	SpinLockRelease(&scorer_control->mutex);
	return Max(n, 1);
}

/* slots that this backend holds, for its exit */
static GpuSlot *held_slots[4];

static void
release_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	for (int i = 0; i < (int) lengthof(held_slots); i++)
	{
		if (held_slots[i] != NULL)
			gpu_release(held_slots[i]);
	}
}

/* Remembers a slot to be given back at exit; false: this backend holds too many. */
static bool
remember(GpuSlot *slot)
{
	static bool registered = false;

	if (!registered)
		before_shmem_exit(release_at_exit, 0);
	registered = true;
	for (int i = 0; i < (int) lengthof(held_slots); i++)
	{
		if (held_slots[i] == NULL)
		{
			held_slots[i] = slot;
			return true;
		}
	}
	return false;
}

static void
forget(GpuSlot *slot)
{
	for (int i = 0; i < (int) lengthof(held_slots); i++)
	{
		if (held_slots[i] == slot)
			held_slots[i] = NULL;
	}
}

bool
gpu_acquire(GpuSlot *slot, bool wait)
{
	/* of a session's own, as a rule, and still in its core's cache */
	const uint32 home = (uint32) MyProcPid * SLOTS_PER_BATCH;
	TimestampTz start = wait ? GetCurrentTimestamp() : 0;
	bool holds_one = false;

	for (int i = 0; i < (int) lengthof(held_slots); i++)
		holds_one |= held_slots[i] != NULL;
	memset(slot, 0, sizeof(*slot));
	for (;;)
	{
		for (uint32 i = 0; i < scorer_mapping->nslots; i++)
		{
			uint32 number = (home + i) % scorer_mapping->nslots;
			ScorerSlot *candidate = scorer_slot(scorer_mapping, number);
			uint64 word = atomic_load(&candidate->word);
			uint64 request;

			if (SLOT_STATE(word) != SLOT_FREE)
				continue;
			if (!remember(slot))
				return false;
			request = pg_atomic_fetch_add_u64(&scorer_control->next_request, 1);
			if (atomic_compare_exchange_strong(&candidate->word, &word, SLOT_WORD(request, SLOT_OWNED)))
			{
				slot->slot = candidate;
				slot->number = number;
				slot->request = request;
				return true;
			}
			forget(slot);
		}
		/* who holds one and waits for another could wait for itself */
		if (!wait || holds_one || TimestampDifferenceExceeds(start, GetCurrentTimestamp(), SLOT_LIMIT_MS))
			return false;
		if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, SLOT_POLL_MS, PG_WAIT_EXTENSION) &
			WL_LATCH_SET)
			ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

char *
gpu_data(const GpuSlot *slot)
{
	return scorer_data(slot->slot);
}

/* Token vectors, and weights behind them. */
static uint64
tokens_size(const MaxsimQuery *query)
{
	return (uint64) query->ntokens * query->dim * sizeof(float);
}

static uint64
weights_size(const MaxsimQuery *query)
{
	return query->weights == NULL ? 0 : (uint64) query->ntokens * sizeof(float);
}

uint64
gpu_query_size(const MaxsimQuery *query)
{
	return tokens_size(query) + weights_size(query);
}

uint64
gpu_put_query(const GpuSlot *slot, const MaxsimQuery *query)
{
	char *data = gpu_data(slot);
	float *tokens = (float *) data;

	if (query->signs)
	{
		for (uint64 i = 0; i < (uint64) query->ntokens * query->dim; i++)
			tokens[i] = query->tokens[i] > 0 ? 1 : -1;
	}
	else if (query->ntokens > 0)
		memcpy(tokens, query->tokens, tokens_size(query));
	if (query->weights != NULL)
		memcpy(data + tokens_size(query), query->weights, weights_size(query));
	return gpu_query_size(query);
}

void
gpu_submit(GpuSlot *slot, const MaxsimQuery *query, const uint32 counts[MAXSIM_NFORMATS], uint64 work)
{
	ScorerSlot *header = slot->slot;
	ScorerSubmit submit = {.slot = slot->number};

	header->query_ntokens = query->ntokens;
	header->query_dim = query->dim;
	header->query_offset = scorer_data(header) - (char *) scorer_mapping;
	header->weights_offset = query->weights == NULL ? SCORER_NO_WEIGHTS : header->query_offset + tokens_size(query);
	for (int format = 0; format < MAXSIM_NFORMATS; format++)
		header->ndocuments[format] = counts[format];
	atomic_store(&header->incarnation, scorer_incarnation);

	/* a number of its own for each request: see SLOT_WORD */
	slot->request = pg_atomic_fetch_add_u64(&scorer_control->next_request, 1);
	slot->connection = connection;
	submit.request = slot->request;
	atomic_store(&header->word, SLOT_WORD(slot->request, SLOT_SUBMITTED));
	slot->in_flight = true;
	slot->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), REQUEST_LIMIT_MS + (int64) (work / WORK_PER_MS));
	if (send(scorer_socket, &submit, sizeof(submit), MSG_NOSIGNAL) != sizeof(submit))
		disconnect();
}

static bool
is_done(const GpuSlot *slot)
{
	return atomic_load(&slot->slot->word) == SLOT_WORD(slot->request, SLOT_OWNED);
}

/* Looks for the answer for a while before it sleeps, which costs more than a small batch takes. */
static void
spin(const GpuSlot *slot)
{
	instr_time start;
	instr_time now;

	INSTR_TIME_SET_CURRENT(start);
	do
	{
		for (int i = 0; i < 16 && !is_done(slot); i++)
			SPIN_DELAY();
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, start);
	} while (!is_done(slot) && INSTR_TIME_GET_MICROSEC(now) < SPIN_US);
}

/* Takes packets about answers that were seen before they came, lest the scorer finds the socket full. */
static void
drain(void)
{
	static int undrained = 0;
	ScorerDone done;

	if (++undrained < MAX_UNDRAINED || scorer_socket < 0)
		return;
	undrained = 0;
	while (recv(scorer_socket, &done, sizeof(done), MSG_DONTWAIT) > 0)
		;
}

MaxsimStatus
gpu_wait(GpuSlot *slot, const char **reason)
{
	ScorerDone done;
	ssize_t n;

	spin(slot);
	while (!is_done(slot))
	{
		/* a batch within this one may have found the scorer gone, and connected anew */
		bool connected = scorer_socket >= 0 && slot->connection == connection;

		n = connected ? recv(scorer_socket, &done, sizeof(done), MSG_DONTWAIT) : 0;
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		{
			if (connected)
				disconnect();
			/* it may have been done just before */
			if (is_done(slot))
				break;
			*reason = "scorer ended during the request";
			return MAXSIM_DEVICE_LOST;
		}
		if (n > 0)
			continue;
		if (GetCurrentTimestamp() > slot->deadline)
		{
			/* what serves this connection hangs; the next statement gets another */
			disconnect();
			*reason = "scorer does not answer";
			return MAXSIM_DEVICE_LOST;
		}
		(void) wait_for_packet(1000);
	}
	drain();
	slot->slot->message[MAXSIM_MESSAGE_SIZE - 1] = '\0';
	*reason = slot->slot->message;
	/* without a query it only copied */
	if (slot->slot->status == MAXSIM_OK && slot->slot->query_ntokens > 0)
	{
		pg_atomic_fetch_add_u64(&scorer_control->batches, 1);
		for (int format = 0; format < MAXSIM_NFORMATS; format++)
			pg_atomic_fetch_add_u64(&scorer_control->documents, slot->slot->ndocuments[format]);
	}
	return slot->slot->status;
}

void
gpu_release(GpuSlot *slot)
{
	uint64 word;

	forget(slot);
	if (slot->slot == NULL)
		return;
	word = atomic_load(&slot->slot->word);
	while (SLOT_REQUEST(word) == slot->request && SLOT_STATE(word) != SLOT_FREE && SLOT_STATE(word) != SLOT_ABANDONED)
	{
		/* what the scorer is running it will free itself, or the worker after its end */
		SlotState state = SLOT_STATE(word) == SLOT_RUNNING ? SLOT_ABANDONED : SLOT_FREE;

		if (atomic_compare_exchange_strong(&slot->slot->word, &word, SLOT_WORD(slot->request, state)))
			break;
	}
	slot->slot = NULL;
}
