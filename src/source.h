/*
 * source.h
 *		A source: the relation, id column and document column that documents are
 *		read from by id, under the caller's rights, row security and snapshot.
 */
#ifndef MAXSIM_SOURCE_H
#define MAXSIM_SOURCE_H

#include "utils/array.h"

#include "batch.h"

/* flash_maxsim.source: what is used where the caller names no source */
extern char *maxsim_source;

/*
 * Whether the setting is written as a source, or is empty.  What it names may not
 * exist yet.
 */
extern bool source_check_setting(char **newval, void **extra, GucSource from);

typedef struct Source
{
	const char *name; /* as the user wrote it */
	DocumentType type;
	Oid id_type;       /* int2, int4 or int8, below any domains */
	Oid ids_type;      /* an array of id_type */
	Oid document_type; /* of the column, or what it is cast to */
	Oid relation;
	const char *relation_name; /* this and the columns quoted, for a query */
	const char *id_column;
	const char *document_column; /* with a cast to multivec, where that is needed */
	bool has_index;              /* that finds rows by id */
	bool has_unique_index;       /* no snapshot of ours shows two rows of an id */
	bool is_divided_by_id;       /* an id says in which one of its partitions its row is */
	bool is_spread;              /* over other servers, some of which a plan that knows the ids leaves out */
	bool is_plain;               /* reading all of it and choosing gives the same rows */
	bool shows_ctid;             /* and its rows' places may be read */
} Source;

/*
 * Takes a row.  The document is as the row has it, TOASTed or not, and is gone
 * when this returns.
 */
typedef void (*SourceRow)(void *arg, int64 id, Datum document, bool is_null);

/*
 * source_resolve	Finds what a name like 'docs(id, embedding)' stands for; NULL stands
 *					for flash_maxsim.source.  fn_oid is a function of the extension.
 *					Errors: no such relation or column, a column of a wrong type.
 * source_check_ids	An error unless the array is sound and has one dimension and no NULL.
 * source_read		Calls row for every visible row with one of the ids, a bigint[]
 *					without NULLs, in no particular order; for an id that occurs several
 *					times in the source, several times.
 * source_read_all	Calls row for every visible row.
 */
extern Source *source_resolve(const char *name, Oid fn_oid);
extern void source_check_ids(ArrayType *ids);
extern void source_read(const Source *source, ArrayType *ids, SourceRow row, void *arg);
extern void source_read_all(const Source *source, SourceRow row, void *arg);

#endif /* MAXSIM_SOURCE_H */
