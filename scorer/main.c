/*
 * main.c
 *		The scorer: a process of its own that owns the GPUs and scores for every
 *		backend of one server.
 *
 *		flash_maxsim_scorer ENGINE DEVICES CACHE
 *
 * The server's background worker starts it in the data directory, with the mapping
 * as descriptor 3 and a pipe for one report as descriptor 4.  A fault of a GPU or
 * of its driver ends this process and nothing else.  It ends with the background
 * worker, whatever way that ends.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "connection.h"

uint64_t
scorer_arena_bytes(const char *cache, uint64_t memory)
{
	char *end;
	uint64_t number = strtoull(cache, &end, 10);

	return *end == '%' ? memory / 100 * number : number;
}

static void
report_and_exit(const ScorerReport *report)
{
	exit(write(SCORER_STATUS_FD, report, sizeof(*report)) == sizeof(*report) ? 1 : 2);
}

static ScorerMapping *
map_memory(ScorerReport *report)
{
	struct stat file;
	ScorerMapping *mapping;

	if (fstat(SCORER_MAPPING_FD, &file) != 0 || file.st_size < SCORER_PAGE)
	{
		snprintf(report->message, sizeof(report->message), "scorer was started without a mapping");
		return NULL;
	}
	mapping = mmap(NULL, file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, SCORER_MAPPING_FD, 0);
	if (mapping == MAP_FAILED)
	{
		snprintf(report->message, sizeof(report->message), "scorer could not map %lld bytes: %s",
				 (long long) file.st_size, strerror(errno));
		return NULL;
	}
	if (mapping->magic != SCORER_MAGIC || mapping->version != SCORER_PROTOCOL_VERSION ||
		mapping->size != (uint64_t) file.st_size)
	{
		snprintf(report->message, sizeof(report->message),
				 "scorer speaks protocol version %d, not %u: its program and the library are of different builds",
				 SCORER_PROTOCOL_VERSION, mapping->version);
		return NULL;
	}
	return mapping;
}

/* A descriptor for each backend, and there may be more of them than usual limits allow. */
static void
raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* The listening socket in the current directory, for this user alone; -1 on failure. */
static int
listen_for_backends(ScorerReport *report)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SCORER_SOCKET};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	umask(077);
	unlink(SCORER_SOCKET); /* one that an earlier scorer left behind */
	if (listener >= 0 && bind(listener, (struct sockaddr *) &address, sizeof(address)) == 0 &&
		listen(listener, SOMAXCONN) == 0)
		return listener;
	snprintf(report->message, sizeof(report->message), "scorer could not listen on \"%s\": %s",
			 SCORER_SOCKET, strerror(errno));
	return -1;
}

/*
 * Waits for a backend and serves it.  One that there is no descriptor for is hung up
 * on, which is an answer as well: a descriptor is kept for that.
 */
static void
accept_backend(int listener, ScorerMapping *mapping, uint32_t incarnation, const ScorerDevice *device)
{
	static int spare = -1;
	struct pollfd readable = {.fd = listener, .events = POLLIN};
	int socket;

	if (spare < 0)
		spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* accept wants a descriptor even where nobody has come */
	if (poll(&readable, 1, -1) <= 0)
		return;
	socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (socket >= 0)
	{
		if (!scorer_serve(socket, mapping, incarnation, device))
			close(socket);
	}
	else if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN)
	{
		close(spare);
		spare = -1;
		socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (socket >= 0)
			close(socket);
		usleep(1000);
	}
}

int
main(int argc, char **argv)
{
	static ScorerReport report;
	const ScorerDevice *device;
	ScorerMapping *mapping;
	uint32_t incarnation;
	int listener;

	signal(SIGPIPE, SIG_IGN);
	raise_descriptor_limit();
	if (argc != 4)
	{
		fprintf(stderr, "%s is started by the server, not by hand\n", argv[0]);
		return 2;
	}
	device = strcmp(argv[1], "cpu") == 0 ? &scorer_device_cpu : &scorer_device_cuda;
	snprintf(report.engine, sizeof(report.engine), "%s", device->name);

	mapping = map_memory(&report);
	if (mapping == NULL)
		report_and_exit(&report);
	incarnation = mapping->incarnation;
	if (!device->open(mapping, argv[2], argv[3], &report))
		report_and_exit(&report);
	listener = listen_for_backends(&report);
	if (listener < 0)
		report_and_exit(&report);

	report.ready = 1;
	if (write(SCORER_STATUS_FD, &report, sizeof(report)) != sizeof(report))
		return 1;
	for (;;)
		accept_backend(listener, mapping, incarnation, device);
}
