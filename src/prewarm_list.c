/*
 * prewarm_list.c
 *		See prewarm_list.h.
 *
 * The file is a header, documents, and a trailer with their number and the CRC of all
 * before it.  It is written under another name and renamed when it is complete.
 */
#include "postgres.h"
#include "compat.h"

#include <unistd.h>

#include "port/pg_crc32c.h"
#include "storage/fd.h"

#include "cache_internal.h"
#include "prewarm_list.h"

#define LIST_FILE "flash_maxsim.documents"
#define LIST_TEMPORARY LIST_FILE ".tmp"
#define LIST_MAGIC 0x4c534d46 /* "FMSL" */
#define LIST_VERSION 1

/* documents that are read or written at once */
#define CHUNK 1024
/* entries that are looked at while the cache is locked */
#define MAX_LOCKED 16384

typedef struct ListHeader
{
	uint32 magic;
	uint32 version;
} ListHeader;

typedef struct ListTrailer
{
	uint32 ndocuments;
	pg_crc32c crc;
} ListTrailer;

/* Whether a document is lasting in a tier. */
static bool
is_lasting(uint32 tier, uint64 offset)
{
	return offset != CACHE_NOWHERE &&
		   cache_shared->tiers[tier].segments[cache_segment_of(tier, offset)].kind == SEGMENT_LASTING;
}

/* Whether an entry is to be listed, and if so, how. */
static bool
list_entry(const CacheEntry *entry, ListedDocument *document)
{
	if (!OidIsValid(entry->key.value) || entry->key.type != DOCUMENT_MULTIVEC)
		return false;
	if (entry->uses == 0 && !is_lasting(CACHE_HOST, entry->host) && !is_lasting(entry->device_tier, entry->device))
		return false;
	document->key = entry->key;
	document->tiers = (entry->host != CACHE_NOWHERE ? LISTED_HOST : 0) |
					  (entry->device != CACHE_NOWHERE ? LISTED_DEVICE : 0);
	return true;
}

/* The next documents of the directory, from entry *next on; 0: and there are no more. */
static uint32
next_documents(uint32 *next, ListedDocument *documents)
{
	uint32 n = 0;

	while (n == 0 && *next < cache_shared->nentries)
	{
		uint32 end = Min(*next + MAX_LOCKED, cache_shared->nentries);

		LWLockAcquire(&cache_shared->lock, LW_SHARED);
		for (; *next < end && n < CHUNK; (*next)++)
			n += list_entry(&cache_entries[*next], &documents[n]);
		LWLockRelease(&cache_shared->lock);
	}
	return n;
}

static bool
write_part(FILE *file, const void *data, Size size, pg_crc32c *crc)
{
	COMP_CRC32C(*crc, data, size);
	errno = ENOSPC; /* where the system says nothing */
	return size == 0 || fwrite(data, size, 1, file) == 1;
}

static bool
write_file(FILE *file)
{
	/* not on the stack, and not to be allocated while the process exits */
	static ListedDocument documents[CHUNK];
	ListHeader header = {LIST_MAGIC, LIST_VERSION};
	ListTrailer trailer = {0};
	uint32 next = 0;
	uint32 n;

	INIT_CRC32C(trailer.crc);
	if (!write_part(file, &header, sizeof(header), &trailer.crc))
		return false;
	while ((n = next_documents(&next, documents)) > 0)
	{
		if (!write_part(file, documents, n * sizeof(ListedDocument), &trailer.crc))
			return false;
		trailer.ndocuments += n;
	}
	COMP_CRC32C(trailer.crc, &trailer.ndocuments, sizeof(trailer.ndocuments));
	FIN_CRC32C(trailer.crc);
	return fwrite(&trailer, sizeof(trailer), 1, file) == 1 && fflush(file) == 0;
}

bool
list_write(void)
{
	FILE *file = AllocateFile(LIST_TEMPORARY, PG_BINARY_W);
	bool written = file != NULL && write_file(file);
	int error = errno;

	if (file != NULL && FreeFile(file) != 0 && written)
	{
		error = errno;
		written = false;
	}
	if (written)
		return durable_rename(LIST_TEMPORARY, LIST_FILE, LOG) == 0;
	errno = error;
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", LIST_TEMPORARY)));
	(void) unlink(LIST_TEMPORARY);
	return false;
}

/* Reads a file from its start to its end; take may be NULL.  False: it is damaged. */
static bool
read_file(FILE *file, ListTake take, void *arg)
{
	ListedDocument *documents = palloc_array(ListedDocument, CHUNK);
	ListHeader header;
	ListTrailer trailer;
	uint32 found = 0;
	long left;
	bool whole;
	pg_crc32c crc;

	INIT_CRC32C(crc);
	if (fseek(file, 0, SEEK_END) != 0 || (left = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0)
		return false;
	left -= sizeof(header) + sizeof(trailer);
	if (left < 0 || left % sizeof(ListedDocument) != 0 || fread(&header, sizeof(header), 1, file) != 1 ||
		header.magic != LIST_MAGIC || header.version != LIST_VERSION)
		return false;
	COMP_CRC32C(crc, &header, sizeof(header));
	for (left /= sizeof(ListedDocument); left > 0; left -= Min(left, CHUNK))
	{
		uint32 n = Min(left, CHUNK);

		if (fread(documents, sizeof(ListedDocument), n, file) != n)
			return false;
		COMP_CRC32C(crc, documents, n * sizeof(ListedDocument));
		found += n;
		for (uint32 i = 0; i < n && take != NULL; i++)
			take(arg, &documents[i]);
	}
	pfree(documents);
	whole = fread(&trailer, sizeof(trailer), 1, file) == 1;
	COMP_CRC32C(crc, &trailer.ndocuments, sizeof(trailer.ndocuments));
	FIN_CRC32C(crc);
	return whole && trailer.ndocuments == found && EQ_CRC32C(trailer.crc, crc);
}

bool
list_read(ListTake take, void *arg)
{
	FILE *file = AllocateFile(LIST_FILE, PG_BINARY_R);
	bool whole;

	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", LIST_FILE)));
		return false;
	}
	/* one that is damaged somewhere is not trusted anywhere */
	whole = read_file(file, NULL, NULL);
	if (whole)
		(void) read_file(file, take, arg);
	else
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("flash_maxsim ignores file \"%s\", which is damaged or of another version", LIST_FILE)));
	FreeFile(file);
	return whole;
}
