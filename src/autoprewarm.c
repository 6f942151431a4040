/*
 * autoprewarm.c
 *		Loads the documents that the cache had before the server restarted or crashed.
 *
 * The cache's worker writes their keys to a list from time to time and at its end, and
 * after a start runs a worker for each database of the list, one after another.  That
 * one fetches values by their ids, without a row.
 *
 * This is sound whatever the list says.  A key stands for the bytes that its value has
 * now: they are fetched now, and what is read is checked by the value's own header.  A
 * value counts only if a snapshot shows it; until the snapshot is given up, no vacuum
 * removes it, so its id is given to no other one before the cache has noted which round
 * of the counter it belongs to.  Only a row with a pointer to the value makes anybody
 * look for it.
 *
 * Documents that are arrays are left out: an array's elements are checked when it is
 * read by its column's type, which a TOAST relation does not tell.
 */
#include "postgres.h"
#include "compat.h"

#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/toast_internals.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "libpq/pqsignal.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "batch.h"
#include "cache_internal.h"
#include "prewarm.h"
#include "prewarm_list.h"

bool maxsim_autoprewarm = false;
int maxsim_autoprewarm_interval = 300;

/* a scorer that does not come in that time is not waited for */
#define SCORER_LIMIT_MS 120000
/* of a transaction, which holds a lock on the relation and a snapshot */
#define DOCUMENTS_PER_TRANSACTION 1000

/* --- in the cache's worker --------------------------------------------------- */

typedef enum Phase
{
	PHASE_WAITING, /* for the scorer */
	PHASE_LOADING,
	PHASE_DONE /* and from now on the list is written */
} Phase;

static Phase phase = PHASE_WAITING;
static TimestampTz waiting_since;
static TimestampTz last_write;
static List *databases; /* to be loaded, the first of them now */
static BackgroundWorkerHandle *loader;

/* of the devices, when loading began */
static bool had_devices;
static uint32 incarnation;

static bool
has_devices(void)
{
	for (uint32 tier = CACHE_DEVICE(0); tier < CACHE_TIERS; tier++)
	{
		if (cache_has(tier))
			return true;
	}
	return false;
}

/* Whether it is known if there will be devices. */
static bool
scorer_is_settled(void)
{
	ScorerState state;

	if (maxsim_scorer_engine == SCORER_ENGINE_OFF || has_devices() || scorer_mapping == NULL)
		return true;
	SpinLockAcquire(&scorer_control->mutex);
	state = scorer_control->state;
	SpinLockRelease(&scorer_control->mutex);
	return state == SCORER_READY || state == SCORER_UNAVAILABLE ||
		   TimestampDifferenceExceeds(waiting_since, GetCurrentTimestamp(), SCORER_LIMIT_MS);
}

/* A ListTake. */
static void
note_database(void *arg, const ListedDocument *document)
{
	(void) arg;
	if (OidIsValid(document->key.database))
		databases = list_append_unique_oid(databases, document->key.database);
}

static void
begin_loading(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	had_devices = has_devices();
	incarnation = pg_atomic_read_u32(&scorer_control->incarnation);
	databases = NIL;
	if (maxsim_autoprewarm)
		(void) list_read(note_database, NULL);
	MemoryContextSwitchTo(old);
	phase = PHASE_LOADING;
}

/* Starts a worker for a database; NULL: there is none. */
static BackgroundWorkerHandle *
start_loader(Oid database)
{
	BackgroundWorker worker = {0};
	BackgroundWorkerHandle *handle;
	MemoryContext old;

	strcpy(worker.bgw_name, "flash_maxsim autoprewarm");
	strcpy(worker.bgw_type, "flash_maxsim autoprewarm");
	strcpy(worker.bgw_library_name, "flash_maxsim");
	strcpy(worker.bgw_function_name, "autoprewarm_main");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(database);

	old = MemoryContextSwitchTo(TopMemoryContext);
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
	{
		handle = NULL;
		ereport(LOG,
				(errmsg("flash_maxsim cannot load the documents of database %u: no background worker is left", database),
				 errhint("You might need to increase max_worker_processes.")));
	}
	MemoryContextSwitchTo(old);
	return handle;
}

/* One database after another. */
static void
go_on_loading(void)
{
	pid_t pid;

	if (loader != NULL && GetBackgroundWorkerPid(loader, &pid) != BGWH_STOPPED)
		return;
	if (loader != NULL)
		pfree(loader);
	loader = NULL;
	while (databases != NIL && loader == NULL)
	{
		loader = start_loader(linitial_oid(databases));
		databases = list_delete_first(databases);
	}
	if (loader != NULL)
		return;
	last_write = GetCurrentTimestamp();
	phase = PHASE_DONE;
}

/* Whether the cache has what there was, and not what a lost scorer has left. */
static bool
is_worth_listing(void)
{
	return maxsim_autoprewarm && phase == PHASE_DONE && had_devices == has_devices() &&
		   (!had_devices || incarnation == pg_atomic_read_u32(&scorer_control->incarnation));
}

static void
write_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	if (is_worth_listing())
		(void) list_write();
}

void
autoprewarm_begin(void)
{
	waiting_since = GetCurrentTimestamp();
	before_shmem_exit(write_at_exit, 0);
}

bool
autoprewarm_tick(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (phase == PHASE_WAITING && (!maxsim_autoprewarm || scorer_is_settled()))
		begin_loading();
	if (phase == PHASE_LOADING)
		go_on_loading();
	if (phase != PHASE_DONE)
		return true;
	if (!maxsim_autoprewarm)
		return false;
	if (has_devices() && (!had_devices || incarnation != pg_atomic_read_u32(&scorer_control->incarnation)))
	{
		/* the devices are empty, or unknown to us: a scorer has come */
		phase = PHASE_WAITING;
		waiting_since = now;
	}
	else if (maxsim_autoprewarm_interval > 0 && is_worth_listing() &&
			 TimestampDifferenceExceeds(last_write, now, maxsim_autoprewarm_interval * 1000))
	{
		last_write = now;
		(void) list_write();
	}
	return false;
}

/* --- in the worker of a database --------------------------------------------- */

typedef struct Listed
{
	ListedDocument *documents; /* [capacity] */
	uint64 n;
	uint64 capacity;
} Listed;

/* A ListTake: those of this database. */
static void
take_listed(void *arg, const ListedDocument *document)
{
	Listed *listed = arg;

	if (document->key.database != MyDatabaseId || document->key.type != DOCUMENT_MULTIVEC ||
		!OidIsValid(document->key.relation) || !OidIsValid(document->key.value))
		return;
	if (listed->n == listed->capacity)
	{
		listed->capacity *= 2;
		listed->documents = repalloc_huge(listed->documents, listed->capacity * sizeof(ListedDocument));
	}
	listed->documents[listed->n++] = *document;
}

/* In the order in which they lie in their relations, more or less. */
static int
compare_listed(const void *a, const void *b)
{
	const CacheKey *left = &((const ListedDocument *) a)->key;
	const CacheKey *right = &((const ListedDocument *) b)->key;

	if (left->relation != right->relation)
		return left->relation < right->relation ? -1 : 1;
	return left->value < right->value ? -1 : left->value > right->value;
}

/* A TOAST relation and the index of its chunks. */
typedef struct Toast
{
	Relation relation; /* NULL: it is gone */
	Relation *indexes;
	int nindexes;
	int valid;
} Toast;

static Toast
open_toast(Oid oid)
{
	Toast toast = {try_relation_open(oid, AccessShareLock)};

	if (toast.relation == NULL)
		return toast;
	/* temporary values are in the memory of the session that made them, or its remains */
	if (toast.relation->rd_rel->relkind != RELKIND_TOASTVALUE ||
		toast.relation->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
	{
		relation_close(toast.relation, AccessShareLock);
		toast.relation = NULL;
		return toast;
	}
	toast.valid = toast_open_indexes(toast.relation, AccessShareLock, &toast.indexes, &toast.nindexes);
	return toast;
}

static void
close_toast(Toast *toast)
{
	if (toast->relation == NULL)
		return;
	toast_close_indexes(toast->indexes, toast->nindexes, AccessShareLock);
	relation_close(toast->relation, AccessShareLock);
}

/*
 * Whether the active snapshot shows that chunk of a value, with size bytes, and if it
 * is to be the last one, none after it.  The first of its bytes are copied to out.
 */
static bool
has_chunk(const Toast *toast, Oid value, int32 number, uint32 size, bool last, char *out, uint32 ncopied)
{
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple tuple;
	bool found = false;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(value));
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT4GE, Int32GetDatum(number));
	scan = systable_beginscan_ordered(toast->relation, toast->indexes[toast->valid], GetActiveSnapshot(), 2, keys);
	tuple = systable_getnext_ordered(scan, ForwardScanDirection);
	if (HeapTupleIsValid(tuple))
	{
		TupleDesc tupdesc = RelationGetDescr(toast->relation);
		bool nulls[2];
		int32 sequence = DatumGetInt32(heap_getattr(tuple, 2, tupdesc, &nulls[0]));
		struct varlena *chunk = (struct varlena *) DatumGetPointer(heap_getattr(tuple, 3, tupdesc, &nulls[1]));

		found = !nulls[0] && !nulls[1] && sequence == number &&
				!VARATT_IS_EXTERNAL(chunk) && !VARATT_IS_COMPRESSED(chunk) && VARSIZE_ANY_EXHDR(chunk) == size;
		if (found)
			memcpy(out, VARDATA_ANY(chunk), ncopied);
		if (found && last)
			found = !HeapTupleIsValid(systable_getnext_ordered(scan, ForwardScanDirection));
	}
	systable_endscan_ordered(scan);
	return found;
}

/* Whether the value of a key is there, of that size, and looks like a multivec. */
static bool
has_value(const Toast *toast, const CacheKey *key)
{
	uint32 size = key->raw_size - VARHDRSZ;
	uint32 last = (size - 1) / TOAST_MAX_CHUNK_SIZE;
	Multivec header = {0};

	if (key->raw_size <= MULTIVEC_HEADER_SIZE || size > MaxAllocSize || key->external_info != size)
		return false; /* or it is compressed */
	return has_chunk(toast, key->value, 0, Min(size, TOAST_MAX_CHUNK_SIZE), last == 0,
					 (char *) &header + VARHDRSZ, MULTIVEC_HEADER_SIZE - VARHDRSZ) &&
		   multivec_is_sound(&header, key->raw_size) &&
		   (last == 0 || has_chunk(toast, key->value, last, size - last * TOAST_MAX_CHUNK_SIZE, true, (char *) &header, 0));
}

/* A pointer to the value of a key, as a row has it. */
static void
make_pointer(const CacheKey *key, char *pointer)
{
	struct varatt_external external = {0};

	external.va_rawsize = key->raw_size;
	external.va_extinfo = key->external_info;
	external.va_valueid = key->value;
	external.va_toastrelid = key->relation;
	SET_VARTAG_EXTERNAL(pointer, VARTAG_ONDISK);
	memcpy(VARDATA_EXTERNAL(pointer), &external, sizeof(external));
}

/* Loads some documents, of one relation, in a transaction; returns how many were looked at. */
static uint64
load_some(CacheLoad *load, PrewarmProgress *progress, const ListedDocument *documents, uint64 n)
{
	char pointer[TOAST_POINTER_SIZE];
	uint64 i = 0;
	Batch *batch;
	Toast toast;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	toast = open_toast(documents[0].key.relation);
	batch = batch_begin_load(load, DOCUMENT_MULTIVEC, "autoprewarm");
	do
	{
		CHECK_FOR_INTERRUPTS();
		load->documents++;
		if (toast.relation != NULL && has_value(&toast, &documents[i].key))
		{
			make_pointer(&documents[i].key, pointer);
			batch_add(batch, documents[i].key.value, PointerGetDatum(pointer), false);
		}
		progress_update(progress, load);
		i++;
	} while (i < n && i < DOCUMENTS_PER_TRANSACTION && documents[i].key.relation == documents[0].key.relation);
	batch_end(batch);
	close_toast(&toast);
	PopActiveSnapshot();
	CommitTransactionCommand();
	return i;
}

/* The same, with a value left out whose chunks turn out to be damaged: the rest is worth loading. */
static uint64
load_sound(CacheLoad *load, PrewarmProgress *progress, const ListedDocument *documents, uint64 n)
{
	MemoryContext context = CurrentMemoryContext;
	uint64 before = load->documents;
	volatile uint64 done = 0;

	PG_TRY();
	{
		done = load_some(load, progress, documents, n);
	}
	PG_CATCH();
	{
		if (geterrcode() != ERRCODE_DATA_CORRUPTED || load->documents == before)
			PG_RE_THROW();
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(context);
		done = load->documents - before;
		load->documents = before;
		load->n = 0; /* what was gathered with it has gone, and is read again */
	}
	PG_END_TRY();
	if (load->documents > before)
		return done;
	for (uint64 i = 0; i < done - 1 && !load->full;)
		i += load_sound(load, progress, documents + i, done - 1 - i);
	load->documents++;
	return done;
}

/* Loads those documents that belong to the devices, or to the host arena. */
static void
load_listed(const Listed *listed, bool on_devices, bool other_missing)
{
	uint32 tier = on_devices ? LISTED_DEVICE : LISTED_HOST;
	ListedDocument *documents;
	uint64 n = 0;
	PrewarmProgress *progress;
	CacheLoad load;

	documents = MemoryContextAllocHuge(CurrentMemoryContext, (listed->n + 1) * sizeof(ListedDocument));
	for (uint64 i = 0; i < listed->n; i++)
	{
		if (other_missing || (listed->documents[i].tiers & tier) != 0)
			documents[n++] = listed->documents[i];
	}
	load_init(&load, on_devices);
	progress = progress_begin("autoprewarm", n);
	for (uint64 i = 0; i < n && !load.full;)
		i += load_sound(&load, progress, documents + i, n - i);
	progress_end(progress);
	if (n > 0)
		ereport(LOG,
				(errmsg("flash_maxsim loaded %llu of %llu listed documents of database %u to %s, %llu MB",
						(unsigned long long) load.loaded, (unsigned long long) n, MyDatabaseId,
						on_devices ? "its GPUs" : "the host's memory", (unsigned long long) load.bytes >> 20)));
	pfree(documents);
}

void
autoprewarm_main(Datum arg)
{
	Listed listed = {NULL, 0, 1024};
	MemoryContext context;
	bool no_devices;
	bool no_host;

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	context = AllocSetContextCreate(TopMemoryContext, "maxsim autoprewarm", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	if (!cache_enabled())
		proc_exit(0);

	listed.documents = palloc_array(ListedDocument, listed.capacity);
	if (!list_read(take_listed, &listed) || listed.n == 0)
		proc_exit(0);
	qsort(listed.documents, listed.n, sizeof(ListedDocument), compare_listed);

	/* where a tier is missing, the other one takes what it had */
	no_devices = load_tier_missing(true) != NULL;
	no_host = load_tier_missing(false) != NULL;
	if (!no_devices)
		load_listed(&listed, true, no_host);
	if (!no_host)
		load_listed(&listed, false, no_devices);
	proc_exit(0);
}
