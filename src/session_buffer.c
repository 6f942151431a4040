/*
 * session_buffer.c
 *		See session_buffer.h.
 */
#include "postgres.h"
#include "compat.h"

#include "utils/memutils.h"

#include "session_buffer.h"

/* a buffer up to this size stays with the session, which saves its page faults */
#define KEEP_SIZE (4 * 1024 * 1024)

/* The session's buffer; a batch within a batch gets one of its own. */
static struct
{
	char *memory;
	Size size;
	const void *user;
} session_buffer;

void
session_buffer_release(const void *user)
{
	if (session_buffer.user != user)
		return;
	session_buffer.user = NULL;
	if (session_buffer.size > KEEP_SIZE)
	{
		pfree(session_buffer.memory);
		session_buffer.memory = NULL;
		session_buffer.size = 0;
	}
}

char *
session_buffer_acquire(const void *user, MemoryContext context, Size size)
{
	if (session_buffer.user != NULL)
		return MemoryContextAllocHuge(context, size);
	if (session_buffer.size != size)
	{
		if (session_buffer.memory != NULL)
			pfree(session_buffer.memory);
		session_buffer.memory = NULL;
		session_buffer.size = 0;
		session_buffer.memory = MemoryContextAllocHuge(TopMemoryContext, size);
		session_buffer.size = size;
	}
	session_buffer.user = user;
	return session_buffer.memory;
}
