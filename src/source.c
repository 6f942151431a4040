/*
 * source.c
 *		See source.h.
 *
 * Rows are read by a query of our own through SPI, so that column privileges, row
 * security, views, partitions, foreign tables and any index on the id work as in
 * a query of the caller's; a receiver of our own takes each row's document without
 * detoasting it.
 */
#include "postgres.h"
#include "compat.h"

#include <ctype.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "parser/scansup.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "source.h"

char *maxsim_source = NULL;

/* Plans that the session keeps, found by the text of their query. */
#define MAX_PLANS 16

typedef struct KeptPlan
{
	char *sql;
	Oid ids_type;
	int cursor_options;
	SPIPlanPtr plan;
} KeptPlan;

static KeptPlan kept_plans[MAX_PLANS];
static int next_plan = 0;

/* reads in progress: a source can be a view that reads another source */
static int depth = 0;

/* What receives the rows of the query. */
typedef struct RowReceiver
{
	DestReceiver pub;
	const Source *source;
	SourceRow row;
	void *arg;
} RowReceiver;

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

/* Whether an index of the relation finds rows by that column. */
static bool
has_index_on(Oid relation_oid, AttrNumber column)
{
	Relation relation = table_open(relation_oid, AccessShareLock);
	List *indexes = RelationGetIndexList(relation);
	bool found = false;
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
			found = true;
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	table_close(relation, AccessShareLock);
	return found;
}

Source *
source_resolve(const char *name, Oid fn_oid)
{
	Source *source = palloc(sizeof(Source));
	char *id_column;
	char *document_column;
	List *relation_name;
	Oid relation;
	Oid type;
	AttrNumber id_number;
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
	if (type == FLOAT4ARRAYOID)
		source->type = DOCUMENT_REAL_ARRAY;
	else if (type == FLOAT8ARRAYOID)
		source->type = DOCUMENT_DOUBLE_ARRAY;
	else if (type == multivec_type_oid(fn_oid))
		source->type = DOCUMENT_MULTIVEC;
	else
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("document column \"%s\" of source \"%s\" has type %s", document_column, name, format_type_be(type)),
				 errhint("A document is a multivec, real[] or double precision[].")));

	source->ids_type = get_array_type(source->id_type);
	source->sql = psprintf("SELECT %s, %s FROM %s WHERE %s OPERATOR(pg_catalog.=) ANY ($1)",
						   quote_identifier(id_column), quote_identifier(document_column),
						   quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)),
													  get_rel_name(relation)),
						   quote_identifier(id_column));

	/*
	 * With an index on the id, the plan is the same for any ids, and planning for
	 * a thousand of them would cost more than it helps.  Without one, the rows are
	 * scanned, and only a plan that knows the ids looks them up in a hash table.
	 */
	source->cursor_options = kind != RELKIND_VIEW && kind != RELKIND_FOREIGN_TABLE && has_index_on(relation, id_number)
								 ? CURSOR_OPT_GENERIC_PLAN
								 : CURSOR_OPT_CUSTOM_PLAN;
	return source;
}

/*
 * The plan of a source's query, kept from an earlier call where there was one.
 * PostgreSQL re-plans it by itself when the relation or the role has changed.
 */
static SPIPlanPtr
plan_of(const Source *source)
{
	Oid argument_types[1] = {source->ids_type};
	KeptPlan *kept;
	SPIPlanPtr plan;

	for (int i = 0; i < MAX_PLANS; i++)
	{
		kept = &kept_plans[i];
		if (kept->sql != NULL && kept->ids_type == source->ids_type &&
			kept->cursor_options == source->cursor_options && strcmp(kept->sql, source->sql) == 0)
			return kept->plan;
	}

	plan = SPI_prepare_cursor(source->sql, 1, argument_types, source->cursor_options);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", source->sql, SPI_result_code_string(SPI_result));

	kept = &kept_plans[next_plan];
	if (kept->sql != NULL)
	{
		/* a calling level may be executing it */
		if (depth > 0)
			return plan;
		SPI_freeplan(kept->plan);
		pfree(kept->sql);
		kept->sql = NULL;
	}
	next_plan = (next_plan + 1) % MAX_PLANS;
	SPI_keepplan(plan);
	kept->plan = plan;
	kept->ids_type = source->ids_type;
	kept->cursor_options = source->cursor_options;
	kept->sql = MemoryContextStrdup(TopMemoryContext, source->sql);
	return plan;
}

static void
receiver_startup(DestReceiver *self, int operation, TupleDesc tupdesc)
{
	RowReceiver *receiver = (RowReceiver *) self;

	(void) operation;
	if (getBaseType(TupleDescAttr(tupdesc, 0)->atttypid) != receiver->source->id_type ||
		getBaseType(TupleDescAttr(tupdesc, 1)->atttypid) != receiver->source->document_type)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("source \"%s\" was altered while it was being read", receiver->source->name)));
}

static bool
receiver_row(TupleTableSlot *slot, DestReceiver *self)
{
	RowReceiver *receiver = (RowReceiver *) self;
	int64 key;
	bool is_null;
	Datum id = slot_getattr(slot, 1, &is_null);
	Datum document = slot_getattr(slot, 2, &is_null);

	switch (receiver->source->id_type)
	{
		case INT8OID:
			key = DatumGetInt64(id);
			break;
		case INT4OID:
			key = DatumGetInt32(id);
			break;
		default:
			key = DatumGetInt16(id);
	}
	receiver->row(receiver->arg, key, document, is_null);
	return true;
}

static void
receiver_shutdown(DestReceiver *self)
{
	(void) self;
}

/*
 * The ids in the type of the id column, because PostgreSQL looks up in a hash table
 * only what has the same type.  An id that this type cannot hold is not in the source.
 */
static ArrayType *
ids_for_column(ArrayType *ids, Oid id_type)
{
	const int64 *from = (const int64 *) ARR_DATA_PTR(ids);
	int n = ArrayGetNItems(ARR_NDIM(ids), ARR_DIMS(ids));
	int kept = 0;
	ArrayType *result;
	int32 *to_int4;
	int16 *to_int2;

	if (id_type == INT8OID)
		return ids;
	result = palloc(ARR_OVERHEAD_NONULLS(1) + n * sizeof(int32));
	to_int4 = (int32 *) ((char *) result + ARR_OVERHEAD_NONULLS(1));
	to_int2 = (int16 *) to_int4;
	for (int i = 0; i < n; i++)
	{
		if (id_type == INT4OID && from[i] >= PG_INT32_MIN && from[i] <= PG_INT32_MAX)
			to_int4[kept++] = from[i];
		else if (id_type == INT2OID && from[i] >= PG_INT16_MIN && from[i] <= PG_INT16_MAX)
			to_int2[kept++] = from[i];
	}
	if (kept == 0)
		return construct_empty_array(id_type);
	SET_VARSIZE(result, ARR_OVERHEAD_NONULLS(1) + kept * (id_type == INT4OID ? sizeof(int32) : sizeof(int16)));
	result->ndim = 1;
	result->dataoffset = 0;
	result->elemtype = id_type;
	*ARR_DIMS(result) = kept;
	*ARR_LBOUND(result) = 1;
	return result;
}

void
source_read(const Source *source, ArrayType *ids, SourceRow row, void *arg)
{
	/* SPI takes DestNone for a caller that wants no rows */
	RowReceiver receiver = {{receiver_row, receiver_startup, receiver_shutdown, receiver_shutdown, DestTuplestore}, source, row, arg};
	SPIExecuteOptions options = {0};
	ParamListInfo params = makeParamList(1);
	SPIPlanPtr plan;
	int result;

	params->params[0].value = PointerGetDatum(ids_for_column(ids, source->id_type));
	params->params[0].isnull = false;
	params->params[0].pflags = PARAM_FLAG_CONST;
	params->params[0].ptype = source->ids_type;
	options.params = params;
	options.read_only = true;
	options.dest = &receiver.pub;

	SPI_connect();
	plan = plan_of(source);
	depth++;
	PG_TRY();
	{
		result = SPI_execute_plan_extended(plan, &options);
	}
	PG_FINALLY();
	{
		depth--;
	}
	PG_END_TRY();
	if (result != SPI_OK_SELECT)
		elog(ERROR, "could not execute \"%s\": %s", source->sql, SPI_result_code_string(result));
	SPI_finish();
}
