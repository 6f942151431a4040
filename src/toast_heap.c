/*
 * toast_heap.c
 *		Reading the chunks of a TOASTed value from the pages where they must be.
 *
 * A value is written chunk after chunk, and values mostly one after another, so a chunk
 * lies behind the one before it, on the same page or at the next one's start.  That is
 * where it is looked for first, all chunks of a page under one lock.  The index, which
 * PostgreSQL asks for each value and then takes from entry to entry, is needed only
 * where a value begins elsewhere than the last one ended.
 *
 * What is found must be a tuple of this value and number, with the size that it must have,
 * and live: a live tuple has its entry in the index, and as long as that is there, no other
 * value gets its id.  One that was deleted has perhaps no entry any more, as REINDEX leaves
 * dead ones out, and then its id may be another value's by now.  Anything else is left to
 * the index and PostgreSQL, and its errors, too.
 */
#include "postgres.h"
#include "compat.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/toast_internals.h"
#include "access/transam.h"
#include "access/xact.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "toast.h"

/* Times that the index is asked within one value; one that is so scattered is left to PostgreSQL. */
#define MAX_LOOKUPS 3

/*
 * Pages that are looked through for the beginning of a value, where the last one's was found
 * so: a page takes a tenth of the time that the index does.
 */
#define SEARCH_PAGES 6

/* Bytes that come together. */
#define PREFETCH_STEP 64

/* Pages that are said to lie ahead, at the most: more would not stay near until they are read. */
#define MAX_AHEAD 128

/* A chunk's tuple: its header, these columns without NULLs, and then chunk_data. */
typedef struct ChunkColumns
{
	Oid chunk_id;
	int32 chunk_seq;
} ChunkColumns;

/* What is being fetched. */
typedef struct Fetch
{
	Oid value;
	uint32 size;   /* of the value */
	uint32 offset; /* bytes offset to end - 1 are wanted */
	uint32 end;
	char *out; /* where byte offset goes */
} Fetch;

/* So many bytes of chunk number seq are in it. */
static uint32
chunk_size(const Fetch *fetch, uint32 seq)
{
	return Min(TOAST_MAX_CHUNK_SIZE, fetch->size - seq * TOAST_MAX_CHUNK_SIZE);
}

/* Whether a tuple is chunk number seq. */
static bool
is_chunk(const Fetch *fetch, uint32 seq, const HeapTupleData *tuple)
{
	const HeapTupleHeader header = tuple->t_data;
	const uint32 at = header->t_hoff + sizeof(ChunkColumns);
	const uint32 size = chunk_size(fetch, seq);
	const char *data = (const char *) header + at;
	ChunkColumns columns;

	if (tuple->t_len != at + VARHDRSZ + size || HeapTupleHeaderGetNatts(header) != 3 || (header->t_infomask & HEAP_HASNULL))
		return false;
	memcpy(&columns, (const char *) header + header->t_hoff, sizeof(columns));
	return columns.chunk_id == fetch->value && columns.chunk_seq == seq &&
		   VARATT_IS_4B_U(data) && VARSIZE_4B(data) == VARHDRSZ + size;
}

/*
 * Whether a tuple was inserted for good, or by this transaction, and not deleted, as far as
 * that is known without asking who still runs.
 */
static bool
is_live(ToastReader *reader, const HeapTupleHeader header)
{
	const TransactionId inserter = HeapTupleHeaderGetRawXmin(header);

	if (!(header->t_infomask & HEAP_XMAX_INVALID) || (header->t_infomask & HEAP_MOVED))
		return false;
	if (HeapTupleHeaderXminCommitted(header) || inserter == reader->committed)
		return true;
	if (HeapTupleHeaderXminInvalid(header) || !TransactionIdIsNormal(inserter))
		return false;
	if (TransactionIdIsCurrentTransactionId(inserter))
		return true;
	if (!TransactionIdDidCommit(inserter))
		return false;
	/* it mostly inserted what comes next, too */
	reader->committed = inserter;
	return true;
}

/* Copies what is wanted of chunk number seq, which this tuple is. */
static void
copy_chunk(const Fetch *fetch, uint32 seq, const HeapTupleData *tuple)
{
	const char *data = (const char *) tuple->t_data + tuple->t_data->t_hoff + sizeof(ChunkColumns);
	const uint32 start = seq * TOAST_MAX_CHUNK_SIZE;
	const uint32 from = Max(start, fetch->offset);
	const uint32 to = Min(start + chunk_size(fetch, seq), fetch->end);

	memcpy(fetch->out + (from - fetch->offset), VARDATA_4B(data) + (from - start), to - from);
}

/*
 * Pins a page.  Pages that were written or read one after another are often in buffers
 * side by side; where the last one was found so, the buffer is tried that the next one
 * would be in, which takes a third of the time of looking the page up.  PostgreSQL then
 * does not count that it was used, as it does not much for other scans.
 */
static Buffer
pin_page(ToastReader *reader, BlockNumber block)
{
	Buffer expected = reader->buffer + (block - reader->block);
	Buffer buffer = InvalidBuffer;

	if (reader->side_by_side && expected > 0 && expected <= NBuffers &&
		ReadRecentBuffer(maxsim_locator(reader->relation), MAIN_FORKNUM, block, expected))
		buffer = expected;
	if (!BufferIsValid(buffer))
	{
		buffer = ReadBuffer(reader->relation, block);
		reader->side_by_side = buffer == expected && !BufferIsLocal(buffer);
	}
	reader->block = block;
	reader->buffer = buffer;
	return buffer;
}

/* Has memory brought nearer while what is near is copied. */
static inline void
prefetch(const char *from, uint32 size)
{
	for (uint32 i = 0; i < size; i += PREFETCH_STEP)
		__builtin_prefetch(from + i);
}

/*
 * Copies chunks from seq on as long as they lie one after another from *place to the end
 * of its page; returns how many.  *place is then behind them; on the next page if all of
 * this one was read.  Searching, the first may lie anywhere behind *place.
 */
static uint32
read_page(ToastReader *reader, const Fetch *fetch, uint32 seq, ItemPointer place, bool search)
{
	const BlockNumber block = ItemPointerGetBlockNumber(place);
	OffsetNumber offset = ItemPointerGetOffsetNumber(place);
	const uint32 first = seq;
	HeapTupleData tuple;
	OffsetNumber last;
	const char *following;
	Buffer buffer;
	Page page;

	buffer = pin_page(reader, block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	last = PageGetMaxOffsetNumber(page);
	/* the next page looks like this one, and is wanted next; it need not be there */
	following = (const char *) page + (reader->side_by_side ? BLCKSZ : 0);
	prefetch(following, SizeOfPageHeaderData + last * sizeof(ItemIdData));
	for (; offset <= last && seq * TOAST_MAX_CHUNK_SIZE < fetch->end; offset++)
	{
		ItemId item = PageGetItemId(page, offset);
		bool found = false;

		prefetch(following + ItemIdGetOffset(item), ItemIdGetLength(item));
		if (ItemIdIsNormal(item) && ItemIdGetLength(item) >= SizeofHeapTupleHeader)
		{
			tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
			tuple.t_len = ItemIdGetLength(item);
			found = is_chunk(fetch, seq, &tuple) && is_live(reader, tuple.t_data);
		}
		if (found)
		{
			copy_chunk(fetch, seq++, &tuple);
			pgstat_count_heap_fetch(reader->relation);
		}
		else if (!search || seq > first)
			break;
	}
	UnlockReleaseBuffer(buffer);
	if (offset > last)
		ItemPointerSet(place, block + 1, FirstOffsetNumber);
	else
		ItemPointerSet(place, block, offset);
	return seq - first;
}

/*
 * Copies chunks from seq on where they lie one after another, from *place on; returns how
 * many.  The first is searched for in so many pages.
 */
static uint32
read_on(ToastReader *reader, const Fetch *fetch, uint32 seq, ItemPointer place, int search_pages)
{
	const uint32 first = seq;

	while (seq * TOAST_MAX_CHUNK_SIZE < fetch->end && ItemPointerGetBlockNumber(place) < reader->nblocks)
	{
		BlockNumber block = ItemPointerGetBlockNumber(place);

		CHECK_FOR_INTERRUPTS();
		seq += read_page(reader, fetch, seq, place, seq == first && search_pages > 0);
		/* one that is wanted is in the midst of a page, but not there; or nowhere here */
		if (ItemPointerGetBlockNumber(place) == block || (seq == first && --search_pages < 0))
			break;
	}
	return seq - first;
}

/* Copies chunk number seq by the index, and says where it lay; false if there is none. */
static bool
look_up(ToastReader *reader, const Fetch *fetch, uint32 seq, ItemPointer place)
{
	ScanKeyData keys[2];
	SnapshotData snapshot;
	SysScanDesc scan;
	HeapTuple tuple;
	bool found;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(fetch->value));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(seq));
	scan = systable_beginscan_ordered(reader->relation, reader->index,
									  maxsim_toast_snapshot(&snapshot), 2, keys);
	tuple = systable_getnext_ordered(scan, ForwardScanDirection);
	found = tuple != NULL && is_chunk(fetch, seq, tuple);
	if (found)
	{
		copy_chunk(fetch, seq, tuple);
		*place = tuple->t_self;
	}
	systable_endscan_ordered(scan);
	return found;
}

/* Whether a search from one place on would have come to another. */
static bool
is_near(ItemPointer place, ItemPointer from)
{
	return ItemPointerIsValid(from) && ItemPointerCompare(place, from) >= 0 &&
		   ItemPointerGetBlockNumber(place) - ItemPointerGetBlockNumber(from) < SEARCH_PAGES;
}

uint32
toast_heap_fetch(ToastReader *reader, const struct varatt_external *pointer, uint32 offset, uint32 length, char *out)
{
	const Fetch fetch = {pointer->va_valueid, VARATT_EXTERNAL_GET_EXTSIZE(*pointer), offset, offset + length, out};
	const uint32 first = offset / TOAST_MAX_CHUNK_SIZE;
	ItemPointerData place = reader->next;
	uint32 seq = first;
	int lookups = 0;

	if (offset + length > fetch.size)
		return 0;
	if (reader->in_order)
	{
		seq += read_on(reader, &fetch, seq, &place, SEARCH_PAGES);
		reader->in_order = seq > first;
	}
	while (seq * TOAST_MAX_CHUNK_SIZE < fetch.end && lookups++ < MAX_LOOKUPS)
	{
		if (!look_up(reader, &fetch, seq, &place))
			break;
		if (seq++ == first)
			reader->in_order = is_near(&place, &reader->next);
		if (ItemPointerGetBlockNumber(&place) >= reader->nblocks)
			reader->nblocks = RelationGetNumberOfBlocks(reader->relation);
		ItemPointerSetOffsetNumber(&place, ItemPointerGetOffsetNumber(&place) + 1);
		seq += read_on(reader, &fetch, seq, &place, 0);
	}
	reader->next = place;
	return seq == first ? 0 : Min(seq * TOAST_MAX_CHUNK_SIZE, fetch.end) - offset;
}

bool
toast_heap_open(ToastReader *reader)
{
	Relation *indexes;
	int valid;
	int n;

	/* what another access method's pages look like nobody knows; and what is too old for a snapshot PostgreSQL finds out */
	if (reader->relation->rd_tableam != GetHeapamTableAmRoutine() || maxsim_snapshots_expire())
		return false;
	valid = toast_open_indexes(reader->relation, AccessShareLock, &indexes, &n);
	for (int i = 0; i < n; i++)
		if (i != valid)
			index_close(indexes[i], AccessShareLock);
	reader->index = indexes[valid];
	pfree(indexes);
	reader->nblocks = RelationGetNumberOfBlocks(reader->relation);
	reader->buffer = InvalidBuffer;
	reader->side_by_side = false;
	reader->block = reader->mark = 0;
	reader->committed = InvalidTransactionId;
	ItemPointerSetInvalid(&reader->next);
	reader->in_order = false;
	return true;
}

void
toast_heap_close(ToastReader *reader)
{
	index_close(reader->index, AccessShareLock);
}

const char *
toast_heap_ahead(const ToastReader *reader, Size *size)
{
	BlockNumber n = reader->block - reader->mark;

	*size = (Size) n * BLCKSZ;
	if (!reader->in_order || !reader->side_by_side || n == 0 || n > MAX_AHEAD || reader->buffer + (int) n > NBuffers)
		return NULL;
	return BufferBlocks + (Size) reader->buffer * BLCKSZ;
}
