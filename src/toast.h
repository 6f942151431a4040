/*
 * toast.h
 *		Fetching the bytes of a TOASTed value straight into memory of the caller's.
 */
#ifndef MAXSIM_TOAST_H
#define MAXSIM_TOAST_H

#include "utils/relcache.h"

/* Keeps the TOAST relation open from one value to the next. */
typedef struct ToastReader
{
	Relation relation; /* NULL: none open */
} ToastReader;

/*
 * toast_is_external	Whether a value lies uncompressed in a TOAST relation, which is
 *						what toast_fetch takes; then *pointer says where, and *size is
 *						its size in bytes without its varlena header.
 * toast_fetch			Bytes offset to offset + length - 1 of those to out.
 * toast_close			Closes what the reader has open.  An aborting transaction does so
 *						by itself.
 *
 * An active snapshot must be set.
 */
extern bool toast_is_external(const struct varlena *value, struct varatt_external *pointer, uint32 *size);
extern void toast_fetch(ToastReader *reader, const struct varatt_external *pointer,
						uint32 offset, uint32 length, char *out);
extern void toast_close(ToastReader *reader);

#endif /* MAXSIM_TOAST_H */
