/*
 * batch_call.c
 *		See batch_call.h.
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "batch_call.h"

/* The functions, by what they are in this library and what they are called in SQL. */
static const struct
{
	const char *symbol;
	const char *name;
	DocumentType type;
	ScoreKind kind;
} functions[] = {
	{"maxsim_multivec", "maxsim", DOCUMENT_MULTIVEC, SCORE_SUM},
	{"maxsim_real_array", "maxsim", DOCUMENT_REAL_ARRAY, SCORE_SUM},
	{"maxsim_mean_multivec", "maxsim_mean", DOCUMENT_MULTIVEC, SCORE_MEAN},
	{"maxsim_mean_real_array", "maxsim_mean", DOCUMENT_REAL_ARRAY, SCORE_MEAN},
	{"maxsim_hamming", "maxsim_hamming", DOCUMENT_MULTIVEC, SCORE_SIGNS},
};

/* A C function's number among ours, by its row of pg_proc; -1: it is another. */
static int
find_function(HeapTuple tuple)
{
	Form_pg_proc form = (Form_pg_proc) GETSTRUCT(tuple);
	bool no_library;
	bool no_symbol;
	Datum library;
	Datum symbol;
	char *name;

	if (form->prolang != ClanguageId || strncmp(NameStr(form->proname), "maxsim", 6) != 0)
		return -1;
	library = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_probin, &no_library);
	symbol = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &no_symbol);
	if (no_library || no_symbol || strstr(TextDatumGetCString(library), "flash_maxsim") == NULL)
		return -1;
	name = TextDatumGetCString(symbol);
	for (int i = 0; i < (int) lengthof(functions); i++)
	{
		if (strcmp(name, functions[i].symbol) == 0 && strcmp(NameStr(form->proname), functions[i].name) == 0)
			return i;
	}
	return -1;
}

bool
batch_call_read(Node *node, BatchCall *call)
{
	FuncExpr *function = (FuncExpr *) node;
	HeapTuple tuple;
	int number;

	if (!IsA(node, FuncExpr) || function->funcresulttype != FLOAT4OID ||
		list_length(function->args) < 2 || list_length(function->args) > 3 ||
		!contain_var_clause(lsecond(function->args)))
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function->funcid));
	if (!HeapTupleIsValid(tuple))
		return false;
	number = find_function(tuple);
	ReleaseSysCache(tuple);
	if (number < 0 || contain_volatile_functions(node) || contain_subplans(node) || contain_agg_clause(node))
		return false;
	call->type = functions[number].type;
	call->kind = functions[number].kind;
	call->query = linitial(function->args);
	call->document = lsecond(function->args);
	call->weights = list_length(function->args) == 3 ? lthird(function->args) : NULL;
	return true;
}

List *
batch_call_arguments(const BatchCall *call)
{
	List *arguments = list_make2(call->query, call->document);

	return call->weights == NULL ? arguments : lappend(arguments, call->weights);
}

/* expression_tree_walker */
static bool
has_call(Node *node, void *context)
{
	BatchCall call;
	Node **part;

	if (node == NULL)
		return false;
	if (batch_call_read(node, &call))
		return true;
	part = batch_call_first_part(node);
	if (part != NULL)
		return has_call(*part, context);
	return batch_call_is_unconditional(node) && expression_tree_walker(node, has_call, context);
}

bool
batch_call_within(Node *node)
{
	return has_call(node, NULL);
}

bool
batch_call_is_unconditional(Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
		case T_OpExpr:
		case T_ScalarArrayOpExpr:
		case T_NullIfExpr:
		case T_BooleanTest:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_CoerceToDomain:
		case T_NullTest:
		case T_RowExpr:
		case T_ArrayExpr:
		case T_MinMaxExpr:
		case T_DistinctExpr:
		case T_TargetEntry:
		case T_List:
			return true;
		default:
			return false;
	}
}

Node **
batch_call_first_part(Node *node)
{
	switch (nodeTag(node))
	{
		case T_BoolExpr:
			return (Node **) &linitial(((BoolExpr *) node)->args);
		case T_CoalesceExpr:
			return (Node **) &linitial(((CoalesceExpr *) node)->args);
		case T_CaseExpr:
		{
			CaseExpr *choice = (CaseExpr *) node;

			return choice->arg != NULL ? (Node **) &choice->arg : (Node **) &linitial_node(CaseWhen, choice->args)->expr;
		}
		default:
			return NULL;
	}
}
