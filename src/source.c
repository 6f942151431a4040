/*
 * source.c
 *		Finding the source that a name stands for: see source.h.
 *
 * Reading is source_read.c; here is decided which of its ways give the right rows.
 */
#include "postgres.h"
#include "compat.h"

#include <ctype.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "parser/parse_coerce.h"
#include "parser/scansup.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/acl.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "source.h"
#include "tokens.h"

char *maxsim_source = NULL;

/*
 * Reads an identifier as SQL has it, plain or in quotes, with space around it; NULL
 * where there is none.  (SplitIdentifierString takes anything for a plain one.)
 */
static char *
read_identifier(const char **at)
{
	const char *p = *at;
	char *name;

	while (scanner_isspace(*p))
		p++;
	if (*p == '"')
	{
		char *to = name = pstrdup(p);

		for (p++; *p != '"' || p[1] == '"'; p++)
		{
			if (*p == '\0')
				return NULL;
			if (*p == '"')
				p++;
			*to++ = *p;
		}
		if (to == name)
			return NULL;
		*to = '\0';
		p++;
		truncate_identifier(name, to - name, false);
	}
	else
	{
		const char *start = p;

		if (!IS_HIGHBIT_SET(*p) && !isalpha((unsigned char) *p) && *p != '_')
			return NULL;
		while (IS_HIGHBIT_SET(*p) || isalnum((unsigned char) *p) || *p == '_' || *p == '$')
			p++;
		name = downcase_truncate_identifier(start, p - start, false);
	}
	while (scanner_isspace(*p))
		p++;
	*at = p;
	return name;
}

/*
 * Splits a name like s.docs(id, embedding) into relation, a list of one to three
 * names, and columns; false if it is not written so.
 */
static bool
parse_source(const char *name, List **relation, char **id_column, char **document_column)
{
	const char *at = name;

	*relation = NIL;
	do
	{
		char *part = read_identifier(&at);

		if (part == NULL || list_length(*relation) == 3)
			return false;
		*relation = lappend(*relation, makeString(part));
	} while (*at++ == '.');
	if (at[-1] != '(' || (*id_column = read_identifier(&at)) == NULL ||
		*at++ != ',' || (*document_column = read_identifier(&at)) == NULL || *at++ != ')')
		return false;
	while (scanner_isspace(*at))
		at++;
	return *at == '\0';
}

bool
source_check_setting(char **newval, void **extra, GucSource from)
{
	List *relation;
	char *id_column;
	char *document_column;

	(void) extra;
	(void) from;
	if (**newval == '\0' || parse_source(*newval, &relation, &id_column, &document_column))
		return true;
	GUC_check_errdetail("A source is written table(id_column, document_column).");
	return false;
}

/* The number of a column and its type below any domains. */
static AttrNumber
resolve_column(Oid relation, const char *column, Oid *type)
{
	AttrNumber number = get_attnum(relation, column);

	if (number == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", column, get_rel_name(relation))));
	*type = getBaseType(get_atttype(relation, number));
	return number;
}

/* What the indexes of the relation say of that column. */
static void
look_at_indexes(Source *source, Relation relation, AttrNumber column)
{
	List *indexes = RelationGetIndexList(relation);
	ListCell *cell;

	foreach (cell, indexes)
	{
		HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_index index;

		if (!HeapTupleIsValid(tuple))
			continue;
		index = (Form_pg_index) GETSTRUCT(tuple);
		if (index->indisvalid && index->indkey.values[0] == column &&
			heap_attisnull(tuple, Anum_pg_index_indpred, NULL))
		{
			source->has_index = true;

			/* PostgreSQL has it on a partitioned table only if the id alone is the key of its partitions */
			if (index->indisunique && index->indnkeyatts == 1 && relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
				source->is_divided_by_id = true;

			/* an old snapshot may show rows that were deleted before the index made ids unique */
			if (index->indisunique && index->indimmediate && index->indnkeyatts == 1 &&
				(HeapTupleHeaderXminFrozen(tuple->t_data) ||
				 TransactionIdPrecedes(HeapTupleHeaderGetXmin(tuple->t_data), TransactionXmin)))
				source->has_unique_index = true;
		}
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
}

/*
 * Whether rows are on other servers: in foreign partitions, or because Citus distributes
 * the table.  Then the table here is an empty shell, which shows neither the table's size
 * nor places of rows, and Citus makes no plan that is kept for any parameters.
 */
static bool
is_spread(const Source *source, char kind)
{
	Oid distributed = get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE);
	bool found = false;

	/* foreign partitions allow no unique index */
	if (kind == RELKIND_PARTITIONED_TABLE && !source->is_divided_by_id)
	{
		List *partitions = find_all_inheritors(source->relation, NoLock, NULL);
		ListCell *cell;

		foreach (cell, partitions)
			found |= get_rel_relkind(lfirst_oid(cell)) == RELKIND_FOREIGN_TABLE;
		list_free(partitions);
	}
	if (!found && OidIsValid(distributed))
	{
		Relation table = table_open(distributed, AccessShareLock);
		Oid index = get_relname_relid("pg_dist_partition_logical_relid_index", PG_CATALOG_NAMESPACE);
		ScanKeyData key;
		SysScanDesc scan;

		ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(source->relation));
		scan = systable_beginscan(table, index, OidIsValid(index), NULL, 1, &key);
		found = HeapTupleIsValid(systable_getnext(scan));
		systable_endscan(scan);
		table_close(table, AccessShareLock);
	}
	return found;
}

/*
 * Whether a plain scan gives the rows that looking them up would give, and as cheaply:
 * a table of its own, without policies that would see each row.
 */
static bool
is_plain_table(Relation relation)
{
	return (relation->rd_rel->relkind == RELKIND_RELATION || relation->rd_rel->relkind == RELKIND_MATVIEW) &&
		   !relation->rd_rel->relhassubclass && !relation->rd_rel->relrowsecurity;
}

Source *
source_resolve(const char *name, Oid fn_oid)
{
	Source *source = palloc0(sizeof(Source));
	char *id_column;
	char *document_column;
	List *relation_name;
	Oid relation;
	Oid type;
	Oid multivec_type;
	AttrNumber id_number;
	bool is_cast = false;
	char kind;

	if (name == NULL)
		name = maxsim_source;
	if (name == NULL || name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no source is named"),
				 errhint("Pass source => 'table(id_column, document_column)' or set flash_maxsim.source.")));
	/* the setting's own string can be freed while the source is read */
	source->name = name = pstrdup(name);

	if (!parse_source(name, &relation_name, &id_column, &document_column))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid source \"%s\"", name),
				 errhint("Write a source as table(id_column, document_column).")));
	/* the lock keeps what we find true until the query has been run */
	relation = RangeVarGetRelid(makeRangeVarFromNameList(relation_name), AccessShareLock, false);
	kind = get_rel_relkind(relation);
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE && kind != RELKIND_VIEW &&
		kind != RELKIND_MATVIEW && kind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table or view", get_rel_name(relation))));

	id_number = resolve_column(relation, id_column, &type);
	source->id_type = type;
	if (type != INT8OID && type != INT4OID && type != INT2OID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("id column \"%s\" of source \"%s\" has type %s", id_column, name, format_type_be(type)),
				 errhint("An id is a bigint, integer or smallint.")));

	resolve_column(relation, document_column, &type);
	source->document_type = type;
	source->document_column = quote_identifier(document_column);
	multivec_type = multivec_type_oid(fn_oid);
	if (type == FLOAT4ARRAYOID)
		source->type = DOCUMENT_REAL_ARRAY;
	else if (type == FLOAT8ARRAYOID)
		source->type = DOCUMENT_DOUBLE_ARRAY;
	else if (type == multivec_type)
		source->type = DOCUMENT_MULTIVEC;
	else if (can_coerce_type(1, &type, &multivec_type, COERCION_IMPLICIT))
	{
		is_cast = true;
		source->type = DOCUMENT_MULTIVEC;
		source->document_type = multivec_type;
		source->document_column = psprintf("%s::%s", source->document_column, format_type_be_qualified(multivec_type));
	}
	else
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("document column \"%s\" of source \"%s\" has type %s", document_column, name, format_type_be(type)),
				 errhint("A document is a multivec, real[] or double precision[], or has an implicit cast to multivec.")));

	source->ids_type = get_array_type(source->id_type);
	source->relation = relation;
	source->id_column = quote_identifier(id_column);
	source->relation_name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)),
													   get_rel_name(relation));
	if (kind != RELKIND_VIEW && kind != RELKIND_FOREIGN_TABLE)
	{
		Relation opened = table_open(relation, AccessShareLock);

		look_at_indexes(source, opened, id_number);
		source->is_spread = is_spread(source, kind);
		/* a cast may be an error in a row that nobody has asked for */
		source->is_plain = !source->is_spread && !is_cast && is_plain_table(opened);
		table_close(opened, AccessShareLock);
	}
	/* a right to columns does not include system columns */
	source->shows_ctid = source->is_plain && pg_class_aclcheck(relation, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
	return source;
}

void
source_check_ids(ArrayType *ids)
{
	(void) tokens_check_list(ids, "array of document ids", INT8OID, NULL);
}
