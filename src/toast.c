/*
 * toast.c
 *		See toast.h.
 *
 * PostgreSQL's own way is detoast_attr(): a palloc, the fetch, and for us a copy
 * into the batch buffer.  The table access method's callback below it copies each
 * chunk to VARDATA(result) + offset and never looks at the result's header, so the
 * batch buffer itself can be the result.  Where the relation is a heap we mostly do
 * without the callback, too: toast_heap.c.
 */
#include "postgres.h"
#include "compat.h"

#include "access/detoast.h"
#include "access/table.h"
#include "access/tableam.h"

#include "toast.h"

bool
toast_is_external(const struct varlena *value, struct varatt_external *pointer, uint32 *size)
{
	if (!VARATT_IS_EXTERNAL_ONDISK(value))
		return false;
	VARATT_EXTERNAL_GET_POINTER(*pointer, value);
	if (VARATT_EXTERNAL_IS_COMPRESSED(*pointer))
		return false;
	*size = VARATT_EXTERNAL_GET_EXTSIZE(*pointer);
	return true;
}

void
toast_fetch(ToastReader *reader, const struct varatt_external *pointer,
			uint32 offset, uint32 length, char *out)
{
	uint32 done = 0;

	if (length == 0)
		return;
	if (reader->relation != NULL && RelationGetRelid(reader->relation) != pointer->va_toastrelid)
		toast_close(reader);
	if (reader->relation == NULL)
	{
		reader->relation = table_open(pointer->va_toastrelid, AccessShareLock);
		reader->is_heap = toast_heap_open(reader);
	}
	if (reader->is_heap)
		done = toast_heap_fetch(reader, pointer, offset, length, out);
	/* what remains, with an error where it is not there */
	if (done < length)
		table_relation_fetch_toast_slice(reader->relation, pointer->va_valueid,
										 VARATT_EXTERNAL_GET_EXTSIZE(*pointer), offset + done, length - done,
										 (struct varlena *) (out + done - VARHDRSZ));
}

void
toast_mark(ToastReader *reader)
{
	reader->mark = reader->block;
}

const char *
toast_ahead(const ToastReader *reader, Size *size)
{
	return reader->relation != NULL && reader->is_heap ? toast_heap_ahead(reader, size) : NULL;
}

void
toast_close(ToastReader *reader)
{
	if (reader->relation != NULL)
	{
		if (reader->is_heap)
			toast_heap_close(reader);
		table_close(reader->relation, AccessShareLock);
	}
	reader->relation = NULL;
}
