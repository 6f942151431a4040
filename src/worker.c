/*
 * worker.c
 *		The background worker that starts the scorer, watches it, and starts it again
 *		when it ends.
 *
 * It holds the reading end of a pipe whose writing end only the scorer has: a
 * report comes through it, and later another one, of why the scorer ends, or the end
 * of the file, however it went.  The scorer in turn dies with the worker (PR_SET_PDEATHSIG).
 * Nothing here calls CUDA.
 */
#include "postgres.h"
#include "compat.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "libpq/pqsignal.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#include "cache.h"
#include "scorer.h"

#define SWEEP_INTERVAL_MS 1000
#define HEARTBEAT_INTERVAL_MS 5000
#define HEARTBEAT_LIMIT_MS 10000
/* a request takes longer than that only on a device that hangs */
#define REQUEST_HANGS_MS 60000
/* pinning the mapping takes a second or so a GiB */
#define START_LIMIT_MS 600000
/* to be killed */
#define EXIT_LIMIT_MS 5000
#define BACKOFF_MIN_MS 500
#define BACKOFF_MAX_MS 60000
/* a scorer that ran this long starts with the shortest back-off again */
#define HEALTHY_MS 60000

static pid_t scorer_pid = 0;
static int status_pipe = -1;

static void
set_state(ScorerState state, const char *reason, const ScorerReport *report)
{
	SpinLockAcquire(&scorer_control->mutex);
	scorer_control->state = state;
	scorer_control->pid = scorer_pid;
	strlcpy(scorer_control->reason, reason, sizeof(scorer_control->reason));
	if (report != NULL)
	{
		scorer_control->ndevices = Min(report->ndevices, SCORER_MAX_DEVICES);
		memcpy(scorer_control->engine, report->engine, sizeof(scorer_control->engine));
		memcpy(scorer_control->devices, report->devices, sizeof(scorer_control->devices));
	}
	SpinLockRelease(&scorer_control->mutex);
}

/*
 * Waits for the socket or pipe to become readable, or for milliseconds to pass;
 * true if it did become readable.
 */
static bool
wait_readable(int fd, long milliseconds)
{
	int events = WaitLatchOrSocket(MyLatch,
								   WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH | (fd >= 0 ? WL_SOCKET_READABLE : 0),
								   fd >= 0 ? fd : PGINVALID_SOCKET, milliseconds, PG_WAIT_EXTENSION);

	if (events & WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP); /* how much is logged, for one */
	}
	/* 1: unless the server is shutting down, the postmaster starts another worker */
	if (ShutdownRequestPending)
		proc_exit(1);
	return (events & WL_SOCKET_READABLE) != 0;
}

/* Between fork and exec: this process must not touch anything of PostgreSQL's. */
static void
run_program(const char *path, const char *engine, int write_end, pid_t parent)
{
	char *const arguments[] = {SCORER_PROGRAM, (char *) engine, maxsim_devices, (char *) cache_scorer_argument(), NULL};
	ScorerReport report = {0};
	int mapping = fcntl(scorer_mapping_fd, F_DUPFD, 16);
	int status = fcntl(write_end, F_DUPFD, 16);
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

#ifdef __linux__
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1); /* it ended before that */
#endif
	dup2(null, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	if (dup2(mapping, SCORER_MAPPING_FD) < 0 || dup2(status, SCORER_STATUS_FD) < 0)
		_exit(1);
	for (int fd = SCORER_STATUS_FD + 1; fd < sysconf(_SC_OPEN_MAX) && fd < 65536; fd++)
		close(fd);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv(path, arguments);
	snprintf(report.message, sizeof(report.message), "could not execute \"%.100s\": %s", path, strerror(errno));
	_exit(write(SCORER_STATUS_FD, &report, sizeof(report)) == sizeof(report) ? 1 : 2);
}

/* False: the report's message says why not. */
static bool
start_scorer(ScorerReport *report)
{
	char path[MAXPGPATH];
	int ends[2];
	pid_t self = getpid();

	snprintf(path, sizeof(path), "%s/%s", pkglib_path, SCORER_PROGRAM);
	if (pipe(ends) != 0)
	{
		snprintf(report->message, sizeof(report->message), "could not create a pipe for the scorer: %s", strerror(errno));
		return false;
	}
	scorer_mapping->incarnation = pg_atomic_add_fetch_u32(&scorer_control->incarnation, 1);
	fflush(NULL);
	scorer_pid = fork();
	if (scorer_pid == 0)
		run_program(path, maxsim_scorer_engine == SCORER_ENGINE_CPU ? "cpu" : "cuda", ends[1], self);
	if (scorer_pid < 0)
		snprintf(report->message, sizeof(report->message), "could not fork the scorer: %s", strerror(errno));
	scorer_pid = Max(scorer_pid, 0);
	close(ends[1]);
	status_pipe = ends[0];
	if (scorer_pid == 0)
		return false;
	set_state(SCORER_STARTING, "scorer is starting", NULL);
	return true;
}

/* Whether the scorer, which has been killed, is gone by now. */
static bool
is_gone(int *status)
{
	pid_t pid = waitpid(scorer_pid, status, WNOHANG);

	return pid == scorer_pid || (pid < 0 && errno != EINTR);
}

/*
 * Ends what is left of the scorer; returns its exit status.  A process that is
 * stuck in a driver takes its time to die.
 */
static int
reap_scorer(void)
{
	int status = 0;

	if (scorer_pid != 0)
	{
		kill(scorer_pid, SIGKILL);
		while (!is_gone(&status))
			(void) wait_readable(-1, 10);
	}
	scorer_pid = 0;
	if (status_pipe >= 0)
		close(status_pipe);
	status_pipe = -1;
	return status;
}

static void
worker_exit(int code, Datum arg)
{
	int status;

	(void) code;
	(void) arg;
	if (scorer_pid != 0)
	{
		kill(scorer_pid, SIGKILL);
		/* it must not hold up the server's shutdown for ever */
		for (int i = 0; i < EXIT_LIMIT_MS && scorer_pid != 0; i++)
		{
			if (is_gone(&status))
				scorer_pid = 0;
			else
				pg_usleep(1000);
		}
	}
	set_state(SCORER_RESTARTING, "scorer's background worker has ended", NULL);
}

/* Whether the scorer still answers a greeting. */
static bool
heartbeat(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SCORER_SOCKET};
	ScorerHello hello = {SCORER_MAGIC, SCORER_PROTOCOL_VERSION, scorer_mapping->epoch, 0, 0, ""};
	TimestampTz start = GetCurrentTimestamp();
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	bool alive = false;

	if (fd < 0)
		return true; /* our own trouble, not the scorer's */
	if (fcntl(fd, F_SETFL, O_NONBLOCK) == 0 &&
		connect(fd, (struct sockaddr *) &address, sizeof(address)) == 0 &&
		send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello))
	{
		/* one that has no descriptors left hangs up, but it does something */
		while (!alive && !TimestampDifferenceExceeds(start, GetCurrentTimestamp(), HEARTBEAT_LIMIT_MS))
			alive = wait_readable(fd, HEARTBEAT_LIMIT_MS);
	}
	close(fd);
	return alive;
}

/*
 * Whether the scorer has been at one request for longer than any can take, such as
 * when a kernel on a GPU never ends.  Its backend gave up before, but the slot is lost.
 */
static bool
request_hangs(void)
{
	static struct
	{
		uint64 request; /* that the slot was busy with when last seen */
		TimestampTz since;
	} *seen = NULL;
	TimestampTz now = GetCurrentTimestamp();
	bool hangs = false;

	if (seen == NULL)
		seen = MemoryContextAllocZero(TopMemoryContext, scorer_mapping->nslots * sizeof(*seen));
	for (uint32 i = 0; i < scorer_mapping->nslots; i++)
	{
		ScorerSlot *slot = scorer_slot(scorer_mapping, i);
		uint64 word = atomic_load(&slot->word);
		bool busy = (SLOT_STATE(word) == SLOT_RUNNING || SLOT_STATE(word) == SLOT_ABANDONED) &&
					atomic_load(&slot->incarnation) == scorer_mapping->incarnation;

		if (!busy || seen[i].request != SLOT_REQUEST(word))
		{
			seen[i].request = busy ? SLOT_REQUEST(word) : 0;
			seen[i].since = now;
		}
		hangs |= busy && TimestampDifferenceExceeds(seen[i].since, now, REQUEST_HANGS_MS);
	}
	return hangs;
}

/* Takes a report out of the readable pipe; false: there is none, but the pipe's end. */
static bool
take_report(ScorerReport *report)
{
	if (read(status_pipe, report, sizeof(*report)) != sizeof(*report))
		return false;
	/* it may come from a program of another build */
	report->engine[sizeof(report->engine) - 1] = '\0';
	report->message[sizeof(report->message) - 1] = '\0';
	report->arena_message[sizeof(report->arena_message) - 1] = '\0';
	report->ndevices = Min(report->ndevices, SCORER_MAX_DEVICES);
	for (int i = 0; i < SCORER_MAX_DEVICES; i++)
		report->devices[i][sizeof(report->devices[i]) - 1] = '\0';
	return true;
}

/* Reads the scorer's report; false: there is none, and its message says why. */
static bool
read_report(ScorerReport *report)
{
	TimestampTz start = GetCurrentTimestamp();

	while (!wait_readable(status_pipe, SWEEP_INTERVAL_MS))
	{
		scorer_sweep_slots();
		if (TimestampDifferenceExceeds(start, GetCurrentTimestamp(), START_LIMIT_MS))
		{
			snprintf(report->message, sizeof(report->message), "scorer did not start within %d s", START_LIMIT_MS / 1000);
			return false;
		}
	}
	if (take_report(report))
		return true;
	memset(report, 0, sizeof(*report));
	strlcpy(report->message, "scorer ended while it was starting", sizeof(report->message));
	return false;
}

/* Returns when the scorer has ended, NULL, or must be ended, why. */
static const char *
watch_scorer(void)
{
	TimestampTz last = GetCurrentTimestamp();

	while (!wait_readable(status_pipe, SWEEP_INTERVAL_MS))
	{
		scorer_sweep_slots();
		if (request_hangs())
			return "scorer did not finish a request";
		if (!TimestampDifferenceExceeds(last, GetCurrentTimestamp(), HEARTBEAT_INTERVAL_MS))
			continue;
		if (!heartbeat())
			return "scorer did not answer";
		last = GetCurrentTimestamp();
	}
	return NULL;
}

/* Runs the scorer until it ends; afterwards the control structure says why. */
static void
run_scorer(ScorerReport *report)
{
	const char *why = NULL;
	ScorerReport last;
	int status;

	cache_devices_lost(); /* a worker before this one may have ended before its scorer */
	if (start_scorer(report) && read_report(report) && report->ready)
	{
		if (report->arena_message[0] != '\0')
			ereport(LOG, (errmsg("flash_maxsim has no cache on a GPU: %s", report->arena_message)));
		cache_devices_ready(report->ndevices, report->arena_sizes);
		set_state(SCORER_READY, "", report);
		ereport(LOG, (errmsg("flash_maxsim scorer (PID %d) is ready on %u %s device(s)",
							 (int) scorer_pid, report->ndevices, report->engine)));
		why = watch_scorer();
		if (why == NULL && take_report(&last))
			why = last.message;
		strlcpy(report->message, why != NULL ? why : "scorer ended", sizeof(report->message));
	}

	/* nobody may believe it is there while it is being ended */
	set_state(SCORER_RESTARTING, report->message, NULL);
	status = reap_scorer();
	cache_devices_lost();
	if (report->ready && why == NULL)
	{
		char *how = wait_result_to_str(status);

		snprintf(report->message, sizeof(report->message), "scorer ended: %s", how);
		pfree(how);
	}
	set_state(report->no_device ? SCORER_UNAVAILABLE : SCORER_RESTARTING, report->message, NULL);
}

void
scorer_worker_main(Datum arg)
{
	long backoff = BACKOFF_MIN_MS;

	(void) arg;
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	if (scorer_mapping == NULL)
		proc_exit(0); /* the control structure says why */
	before_shmem_exit(worker_exit, 0);

	for (;;)
	{
		TimestampTz start = GetCurrentTimestamp();
		ScorerReport report = {0};
		TimestampTz end;

		run_scorer(&report);
		end = GetCurrentTimestamp();
		if (report.no_device)
			backoff = BACKOFF_MAX_MS;
		else if (TimestampDifferenceExceeds(start, end, HEALTHY_MS))
			backoff = BACKOFF_MIN_MS;
		else
			backoff = Min(backoff * 2, BACKOFF_MAX_MS);
		ereport(LOG, (errmsg("flash_maxsim has no scorer: %s", report.message),
					  errdetail("It is tried again in %ld ms.", backoff),
					  report.no_device ? errhint("The CPU scores, unless flash_maxsim.engine is cuda. "
												 "With flash_maxsim.scorer_engine = off, no scorer is started.")
									   : 0));
		while (!TimestampDifferenceExceeds(end, GetCurrentTimestamp(), backoff))
		{
			scorer_sweep_slots();
			(void) wait_readable(-1, Min(backoff, SWEEP_INTERVAL_MS));
		}
	}
}
