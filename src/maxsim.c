/*
 * maxsim.c
 *		The SQL functions maxsim and maxsim_mean(query, document), or (query, document,
 *		weights): one score.
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
	MemoryContext context;         /* of the members below; reset for a new query */
	struct varlena *query_value;   /* copies, detoasted; NULL: none yet */
	struct varlena *weights_value; /* NULL: none */
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
query_of_call_site(FunctionCallInfo fcinfo)
{
	CallSite *site = fcinfo->flinfo->fn_extra;
	const Multivec *value = PG_GETARG_MULTIVEC_P(0);
	const ArrayType *weights = PG_NARGS() > 2 ? PG_GETARG_ARRAYTYPE_P(2) : NULL;
	struct varlena *copy;
	MemoryContext old;
	Tokens tokens;

	if (site == NULL)
	{
		site = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(CallSite));
		site->context = AllocSetContextCreate(fcinfo->flinfo->fn_mcxt, "maxsim query", ALLOCSET_DEFAULT_SIZES);
		fcinfo->flinfo->fn_extra = site;
	}
	if (query_same_value(site->query_value, value) && query_same_value(site->weights_value, weights))
		return &site->query;

	site->query_value = NULL;
	MemoryContextReset(site->context);
	old = MemoryContextSwitchTo(site->context);
	site->weights_value = query_keep_value(weights);
	copy = query_keep_value(value);
	tokens = tokens_from_multivec((Multivec *) copy);
	query_init(&site->query, &tokens, (ArrayType *) site->weights_value);
	MemoryContextSwitchTo(old);
	site->query_value = copy;
	return &site->query;
}

static Datum
score_of(FunctionCallInfo fcinfo, const void *document, ReadTokens read_tokens, bool mean)
{
	PreparedQuery *prepared = query_of_call_site(fcinfo);
	Tokens tokens = read_tokens(document);
	float score;

	if (tokens.ntokens == 0)
		PG_RETURN_NULL();
	score = query_score_one(prepared, &tokens);
	if (document != PG_GETARG_POINTER(1))
		pfree((void *) document);
	PG_RETURN_FLOAT4(mean ? query_mean(prepared, score) : score);
}

/* maxsim(query multivec, document multivec[, weights double precision[]]) */
PG_FUNCTION_INFO_V1(maxsim_multivec);
Datum
maxsim_multivec(PG_FUNCTION_ARGS)
{
	return score_of(fcinfo, PG_GETARG_MULTIVEC_P(1), read_multivec, false);
}

/* maxsim(query multivec, document real[][, weights double precision[]]) */
PG_FUNCTION_INFO_V1(maxsim_real_array);
Datum
maxsim_real_array(PG_FUNCTION_ARGS)
{
	return score_of(fcinfo, PG_GETARG_ARRAYTYPE_P(1), read_array, false);
}

/* maxsim_mean(query multivec, document multivec[, weights double precision[]]) */
PG_FUNCTION_INFO_V1(maxsim_mean_multivec);
Datum
maxsim_mean_multivec(PG_FUNCTION_ARGS)
{
	return score_of(fcinfo, PG_GETARG_MULTIVEC_P(1), read_multivec, true);
}

/* maxsim_mean(query multivec, document real[][, weights double precision[]]) */
PG_FUNCTION_INFO_V1(maxsim_mean_real_array);
Datum
maxsim_mean_real_array(PG_FUNCTION_ARGS)
{
	return score_of(fcinfo, PG_GETARG_ARRAYTYPE_P(1), read_array, true);
}
