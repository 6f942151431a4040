/*
 * matches.c
 *		The SQL function maxsim_matches(query, document[, weights]): which document token
 *		each query token found, the terms that maxsim() adds up.
 */
#include "postgres.h"
#include "compat.h"

#include <math.h>

#include "query.h"

/* The query's elements as a document of that format is scored with them. */
static const float *
round_query(const MaxsimQuery *query, MaxsimFormat format)
{
	uint64 n = (uint64) query->ntokens * query->dim;
	void *stored = palloc_extended(n * maxsim_element_size(format), MCXT_ALLOC_HUGE);
	float *rounded = palloc_extended(n * sizeof(float), MCXT_ALLOC_HUGE);

	(void) multivec_store(format, query->tokens, n, stored, NULL);
	multivec_load(format, stored, n, rounded);
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

static Datum
matches(FunctionCallInfo fcinfo, const Tokens *tokens, const Tokens *document)
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
		Datum values[3];
		bool nulls[3] = {false};

		for (uint32 j = 0; j < document->ntokens; j++)
		{
			double similarity = dot(token, to + (uint64) j * query.dim, query.dim);

			if (j % 1024 == 0)
				CHECK_FOR_INTERRUPTS();
			/* of equals the first */
			if (similarity > best)
			{
				best = similarity;
				found = j;
			}
		}
		if (query.weights != NULL)
			best *= query.weights[i];
		values[0] = Int32GetDatum(numbers[i] + 1);
		values[1] = Int32GetDatum(found + 1);
		values[2] = Float4GetDatum(query_check_score((float) best));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* maxsim_matches(query multivec, document multivec[, weights double precision[]]) */
PG_FUNCTION_INFO_V1(maxsim_matches_multivec);
Datum
maxsim_matches_multivec(PG_FUNCTION_ARGS)
{
	Tokens query;
	Tokens document;

	InitMaterializedSRF(fcinfo, 0);
	query = tokens_from_multivec(PG_GETARG_MULTIVEC_P(0));
	document = tokens_from_multivec(PG_GETARG_MULTIVEC_P(1));
	return matches(fcinfo, &query, &document);
}

/* maxsim_matches(query multivec, document real[][, weights double precision[]]) */
PG_FUNCTION_INFO_V1(maxsim_matches_real_array);
Datum
maxsim_matches_real_array(PG_FUNCTION_ARGS)
{
	Tokens query;
	Tokens document;

	InitMaterializedSRF(fcinfo, 0);
	query = tokens_from_multivec(PG_GETARG_MULTIVEC_P(0));
	document = tokens_from_array(PG_GETARG_ARRAYTYPE_P(1));
	return matches(fcinfo, &query, &document);
}
