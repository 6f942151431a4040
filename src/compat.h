/*
 * compat.h
 *		The differences between PostgreSQL 14 and 18, all of them, in one place.
 *
 * Included right after postgres.h by every file of the PostgreSQL side.  The
 * rest of the code is written for the newest version.
 */
#ifndef MAXSIM_COMPAT_H
#define MAXSIM_COMPAT_H

#include "access/transam.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "replication/walsender.h"
#include "storage/proc.h"
#include "utils/guc.h"

#if PG_VERSION_NUM < 140000
#error "flash_maxsim needs PostgreSQL 14 or newer"
#endif

#ifdef WORDS_BIGENDIAN
#error "flash_maxsim stores little-endian elements and has no big-endian form"
#endif

/* varatt.h was split from postgres.h in 16; soft errors came with it */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#include "nodes/miscnodes.h"
#else
#define ereturn(context, dummy, ...) \
	do                               \
	{                                \
		(void) (context);            \
		ereport(ERROR, __VA_ARGS__); \
		return dummy;                \
	} while (0)
#endif

#if PG_VERSION_NUM < 150000
#define MarkGUCPrefixReserved(prefix) EmitWarningsOnPlaceholders(prefix)

/*
 * Makes the calling set-returning function return a tuplestore, as 15 does.
 */
static inline void
InitMaterializedSRF(FunctionCallInfo fcinfo, bits32 flags)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext old;
	TupleDesc tupdesc;

	Assert(flags == 0);
	if (rsinfo == NULL || !IsA(rsinfo, ReturnSetInfo) ||
		!(rsinfo->allowedModes & SFRM_Materialize))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("set-valued function called in context that cannot accept a set")));
	old = MemoryContextSwitchTo(rsinfo->econtext->ecxt_per_query_memory);
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	rsinfo->returnMode = SFRM_Materialize;
	rsinfo->setResult = tuplestore_begin_heap(rsinfo->allowedModes & SFRM_Materialize_Random,
											  false, work_mem);
	rsinfo->setDesc = CreateTupleDescCopy(tupdesc);
	MemoryContextSwitchTo(old);
}
#endif

/* 18 renamed the attribute of functions that do not return */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/* 18 leaves room before the tuple on request */
#if PG_VERSION_NUM >= 180000
#define maxsim_form_minimal_tuple(descriptor, values, nulls) heap_form_minimal_tuple(descriptor, values, nulls, 0)
#else
#define maxsim_form_minimal_tuple(descriptor, values, nulls) heap_form_minimal_tuple(descriptor, values, nulls)
#endif

/* 18 has what prints properties in a file of its own */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/* 16 has one function for the privileges on objects of every kind */
#if PG_VERSION_NUM >= 160000
#define maxsim_function_aclcheck(function) object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE)
#else
#define maxsim_function_aclcheck(function) pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE)
#endif

/* 16 calls a relation's files its locator */
#if PG_VERSION_NUM >= 160000
#define maxsim_locator(relation) ((relation)->rd_locator)
#else
#define maxsim_locator(relation) ((relation)->rd_node)
#endif

/*
 * maxsim_toast_snapshot		What TOAST relations are read with, in *storage if it must be
 *							somewhere.
 * maxsim_snapshots_expire	Whether rows that a snapshot sees may be gone.
 */
#if PG_VERSION_NUM >= 180000
#define maxsim_toast_snapshot(storage) ((void) (storage), get_toast_snapshot())
#else
#define maxsim_toast_snapshot(storage) (init_toast_snapshot(storage), (storage))
#endif
#if PG_VERSION_NUM >= 170000
#define maxsim_snapshots_expire() false
#else
#define maxsim_snapshots_expire() (old_snapshot_threshold >= 0)
#endif

/* what 17 renamed */
#if PG_VERSION_NUM >= 170000
#define maxsim_next_oid() (*(volatile Oid *) &TransamVariables->nextOid)
#define maxsim_proc_number() MyProcNumber
#else
#define maxsim_next_oid() (*(volatile Oid *) &ShmemVariableCache->nextOid)
#define maxsim_proc_number() (MyProc->pgprocno)
#endif

/* Processes that can have a number; 14 has no count of them when a library asks. */
#if PG_VERSION_NUM >= 150000
#define maxsim_max_procs() MaxBackends
#else
#define maxsim_max_procs() (MaxConnections + autovacuum_max_workers + 1 + max_worker_processes + max_wal_senders)
#endif

#ifndef palloc_array
#define palloc_array(type, count) ((type *) palloc(sizeof(type) * (count)))
#endif

/* 18 shows the module's name and version in pg_get_loaded_modules() */
#if PG_VERSION_NUM >= 180000
#define MAXSIM_MODULE_MAGIC(module_name, module_version) \
	PG_MODULE_MAGIC_EXT(.name = module_name, .version = module_version)
#else
#define MAXSIM_MODULE_MAGIC(module_name, module_version) PG_MODULE_MAGIC
#endif

#endif /* MAXSIM_COMPAT_H */
