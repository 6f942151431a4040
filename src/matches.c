/*
 * matches.c
 *		Why a document has its score.  maxsim_matches(query, document[, weights]): which
 *		document token each query token found, the terms that maxsim() adds up;
 *		maxsim_similarities(query, document): every token with every one.
 */
#include "postgres.h"
#include "compat.h"

#include <math.h>

#include "query.h"

/*
 * The query's elements as a document of that format is scored with them.  For i8 and b1
 * engines differ in how they round, by less than anybody sees.
 */
static const float *
round_query(const MaxsimQuery *query, MaxsimFormat format)
{
	void *stored;
	float *rounded;

	if (format == MAXSIM_I8 || format == MAXSIM_B1)
		return query->tokens;
	stored = palloc_extended((uint64) query->ntokens * maxsim_row_size(format, query->dim), MCXT_ALLOC_HUGE);
	rounded = palloc_extended((uint64) query->ntokens * query->dim * sizeof(float), MCXT_ALLOC_HUGE);
	(void) multivec_store(format, query->tokens, query->ntokens, query->dim, stored, NULL);
	multivec_load(format, stored, query->ntokens, query->dim, rounded);
	return rounded;
}

static double
dot(const float *a, const float *b, uint32 dim)
{
	double sum = 0;

	for (uint32 i = 0; i < dim; i++)
		sum += (double) a[i] * b[i];
	return sum;
}

/* A row of the result; tokens are counted from 0 here. */
static void
put_row(ReturnSetInfo *rsinfo, uint32 query_token, uint32 doc_token, double similarity)
{
	Datum values[3];
	bool nulls[3] = {false};

	values[0] = Int32GetDatum(query_token + 1);
	values[1] = Int32GetDatum(doc_token + 1);
	values[2] = Float4GetDatum(query_check_score((float) similarity));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* The rows of maxsim_similarities, or of maxsim_matches: for each query token the best. */
static Datum
compare(FunctionCallInfo fcinfo, const Tokens *tokens, const Tokens *document, bool best_only)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ArrayType *weights = PG_NARGS() > 2 ? PG_GETARG_ARRAYTYPE_P(2) : NULL;
	uint32 *numbers = palloc_extended(Max(tokens->ntokens, 1) * sizeof(uint32), MCXT_ALLOC_HUGE);
	MaxsimQuery query = query_of(tokens, weights, numbers);
	const float *from;
	const float *to;

	if (document->ntokens == 0)
		return (Datum) 0;
	tokens_check_dims(query.dim, document->dim);
	from = round_query(&query, document->format);
	to = tokens_to_float(document);
	for (uint32 i = 0; i < query.ntokens; i++)
	{
		const float *token = from + (uint64) i * query.dim;
		double best = -INFINITY;
		uint32 found = 0;

		for (uint32 j = 0; j < document->ntokens; j++)
		{
			double similarity = dot(token, to + (uint64) j * query.dim, query.dim);

			if (j % 1024 == 0)
				CHECK_FOR_INTERRUPTS();
			if (!best_only)
				put_row(rsinfo, numbers[i], j, similarity);
			/* of equals the first */
			else if (similarity > best)
			{
				best = similarity;
				found = j;
			}
		}
		if (best_only)
			put_row(rsinfo, numbers[i], found, query.weights != NULL ? best * query.weights[i] : best);
	}
	return (Datum) 0;
}

static Datum
compare_multivec(FunctionCallInfo fcinfo, bool best_only)
{
	Tokens query;
	Tokens document;

	InitMaterializedSRF(fcinfo, 0);
	query = tokens_from_multivec(PG_GETARG_MULTIVEC_P(0));
	document = tokens_from_multivec(PG_GETARG_MULTIVEC_P(1));
	return compare(fcinfo, &query, &document, best_only);
}

static Datum
compare_real_array(FunctionCallInfo fcinfo, bool best_only)
{
	Tokens query;
	Tokens document;

	InitMaterializedSRF(fcinfo, 0);
	query = tokens_from_multivec(PG_GETARG_MULTIVEC_P(0));
	document = tokens_from_array(PG_GETARG_ARRAYTYPE_P(1));
	return compare(fcinfo, &query, &document, best_only);
}

/* maxsim_matches(query multivec, document multivec[, weights double precision[]]) */
PG_FUNCTION_INFO_V1(maxsim_matches_multivec);
Datum
maxsim_matches_multivec(PG_FUNCTION_ARGS)
{
	return compare_multivec(fcinfo, true);
}

/* maxsim_matches(query multivec, document real[][, weights double precision[]]) */
PG_FUNCTION_INFO_V1(maxsim_matches_real_array);
Datum
maxsim_matches_real_array(PG_FUNCTION_ARGS)
{
	return compare_real_array(fcinfo, true);
}

/* maxsim_similarities(query multivec, document multivec) */
PG_FUNCTION_INFO_V1(maxsim_similarities_multivec);
Datum
maxsim_similarities_multivec(PG_FUNCTION_ARGS)
{
	return compare_multivec(fcinfo, false);
}

/* maxsim_similarities(query multivec, document real[]) */
PG_FUNCTION_INFO_V1(maxsim_similarities_real_array);
Datum
maxsim_similarities_real_array(PG_FUNCTION_ARGS)
{
	return compare_real_array(fcinfo, false);
}
