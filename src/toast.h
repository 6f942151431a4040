/*
 * toast.h
 *		Fetching the bytes of a TOASTed value straight into memory of the caller's.
 */
#ifndef MAXSIM_TOAST_H
#define MAXSIM_TOAST_H

#include "access/heapam.h"
#include "storage/buf.h"
#include "utils/relcache.h"

/* Keeps the TOAST relation open from one value to the next. */
typedef struct ToastReader
{
	Relation relation;       /* NULL: none open */
	bool is_heap;            /* its pages can be read here, below */
	Relation index;          /* of a heap's chunks */
	BlockNumber nblocks;     /* of the relation, or fewer */
	ItemPointerData next;    /* behind the last chunk that was read; invalid: nowhere */
	BlockNumber block;       /* of the last page read */
	Buffer buffer;           /* that it was in */
	bool side_by_side;       /* it was where it was expected after the one before */
	BlockNumber mark;        /* that of toast_mark */
	TransactionId committed; /* one that is known to be */
	bool in_order;           /* the last value began not far behind */
} ToastReader;

/*
 * toast_is_external	Whether a value lies uncompressed in a TOAST relation, which is
 *						what toast_fetch takes; then *pointer says where, and *size is
 *						its size in bytes without its varlena header.
 * toast_fetch			Bytes offset to offset + length - 1 of those to out.
 * toast_ahead			Where values lie one after another, in buffers side by side, the memory in which
 *						the next ones are expected, as many bytes as the reader has passed since
 *						toast_mark; else NULL.  There may be anything: it is for prefetching.
 * toast_close			Closes what the reader has open.  An aborting transaction does so
 *						by itself.
 *
 * An active snapshot must be set.
 */
extern bool toast_is_external(const struct varlena *value, struct varatt_external *pointer, uint32 *size);
extern void toast_fetch(ToastReader *reader, const struct varatt_external *pointer,
						uint32 offset, uint32 length, char *out);
extern void toast_mark(ToastReader *reader);
extern const char *toast_ahead(const ToastReader *reader, Size *size);
extern void toast_close(ToastReader *reader);

/*
 * In toast_heap.c: toast_fetch by reading the pages of a relation that is a heap.  Returns
 * how many of the bytes it brought, from the first on.
 *
 * toast_heap_open	Whether that can be done, now that the relation is open.
 */
extern bool toast_heap_open(ToastReader *reader);
extern void toast_heap_close(ToastReader *reader);
extern const char *toast_heap_ahead(const ToastReader *reader, Size *size);
extern uint32 toast_heap_fetch(ToastReader *reader, const struct varatt_external *pointer,
							   uint32 offset, uint32 length, char *out);

#endif /* MAXSIM_TOAST_H */
