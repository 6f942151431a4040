/*
 * matches.c
 *		The SQL function maxsim_matches(query, document): which document token each query
 *		token found, the terms that maxsim() adds up.
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
round_query(const Tokens *query, MaxsimFormat format)
{
	void *stored;
	float *rounded;

	if (format == MAXSIM_I8 || format == MAXSIM_B1)
		return tokens_to_float(query);
	stored = palloc_extended((uint64) query->ntokens * maxsim_row_size(format, query->dim), MCXT_ALLOC_HUGE);
	rounded = palloc_extended((uint64) query->ntokens * query->dim * sizeof(float), MCXT_ALLOC_HUGE);
	(void) multivec_store(format, tokens_to_float(query), query->ntokens, query->dim, stored, NULL);
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

static Datum
matches(FunctionCallInfo fcinfo, const Tokens *query, const Tokens *document)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const float *from;
	const float *to;

	if (query->ntokens == 0)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("query has no tokens"),
						errhint("A query needs at least one token vector.")));
	if (document->ntokens == 0)
		return (Datum) 0;
	tokens_check_dims(query->dim, document->dim);
	from = round_query(query, document->format);
	to = tokens_to_float(document);
	for (uint32 i = 0; i < query->ntokens; i++)
	{
		const float *token = from + (uint64) i * query->dim;
		double best = -INFINITY;
		uint32 found = 0;
		Datum values[3];
		bool nulls[3] = {false};

		for (uint32 j = 0; j < document->ntokens; j++)
		{
			double similarity = dot(token, to + (uint64) j * query->dim, query->dim);

			if (j % 1024 == 0)
				CHECK_FOR_INTERRUPTS();
			/* of equals the first */
			if (similarity > best)
			{
				best = similarity;
				found = j;
			}
		}
		values[0] = Int32GetDatum(i + 1);
		values[1] = Int32GetDatum(found + 1);
		values[2] = Float4GetDatum(query_check_score((float) best));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* maxsim_matches(query multivec, document multivec) */
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

/* maxsim_matches(query multivec, document real[]) */
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
