/*
 * session_buffer.h
 *		The memory that a session gathers documents in, kept from one batch to the next.
 */
#ifndef MAXSIM_SESSION_BUFFER_H
#define MAXSIM_SESSION_BUFFER_H

/*
 * session_buffer_acquire	Memory for a user, whoever that address is; if another one has
 *							the session's, of context.
 * session_buffer_release	The user's end, whether it had the session's or not.
 */
extern char *session_buffer_acquire(const void *user, MemoryContext context, Size size);
extern void session_buffer_release(const void *user);

#endif /* MAXSIM_SESSION_BUFFER_H */
