/*
 * maxsim.c
 *		The SQL function maxsim(query, document): one score.
 *
 * A statement mostly calls it with one query and many documents, so the prepared
 * query stays with the call site, and is made anew when the query's bytes change.
 */
#include "postgres.h"
#include "compat.h"

#include "query.h"

/* What a call site keeps. */
typedef struct CallSite
{
	MemoryContext context; /* of the members below; reset for a new query */
	void *query_value;     /* a copy, detoasted; NULL: none yet */
	PreparedQuery query;
} CallSite;

typedef Tokens (*ReadTokens)(const void *value);

static Tokens
read_multivec(const void *value)
{
	return tokens_from_multivec(value);
}

static Tokens
read_array(const void *value)
{
	return tokens_from_array((ArrayType *) value);
}

static PreparedQuery *
query_of_call_site(FunctionCallInfo fcinfo, const Multivec *value)
{
	CallSite *site = fcinfo->flinfo->fn_extra;
	MemoryContext old;
	Tokens tokens;
	Multivec *copy;

	if (site == NULL)
	{
		site = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(CallSite));
		site->context = AllocSetContextCreate(fcinfo->flinfo->fn_mcxt, "maxsim query", ALLOCSET_DEFAULT_SIZES);
		fcinfo->flinfo->fn_extra = site;
	}
	if (site->query_value != NULL && VARSIZE(site->query_value) == VARSIZE(value) &&
		memcmp(site->query_value, value, VARSIZE(value)) == 0)
		return &site->query;

	site->query_value = NULL;
	MemoryContextReset(site->context);
	old = MemoryContextSwitchTo(site->context);
	copy = palloc(VARSIZE(value));
	memcpy(copy, value, VARSIZE(value));
	tokens = tokens_from_multivec(copy);
	query_init(&site->query, &tokens);
	MemoryContextSwitchTo(old);
	site->query_value = copy;
	return &site->query;
}

static Datum
score_of(FunctionCallInfo fcinfo, const void *document, ReadTokens read_tokens)
{
	PreparedQuery *prepared = query_of_call_site(fcinfo, PG_GETARG_MULTIVEC_P(0));
	Tokens tokens = read_tokens(document);
	float score;

	if (tokens.ntokens == 0)
		PG_RETURN_NULL();
	score = query_score_one(prepared, &tokens);
	if (document != PG_GETARG_POINTER(1))
		pfree((void *) document);
	PG_RETURN_FLOAT4(score);
}

/* maxsim(query multivec, document multivec) */
PG_FUNCTION_INFO_V1(maxsim_multivec);
Datum
maxsim_multivec(PG_FUNCTION_ARGS)
{
	return score_of(fcinfo, PG_GETARG_MULTIVEC_P(1), read_multivec);
}

/* maxsim(query multivec, document real[]) */
PG_FUNCTION_INFO_V1(maxsim_real_array);
Datum
maxsim_real_array(PG_FUNCTION_ARGS)
{
	return score_of(fcinfo, PG_GETARG_ARRAYTYPE_P(1), read_array);
}
