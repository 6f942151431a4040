/*
 * encode.c
 *		One vector for many: the mean of a value's tokens, and its fixed-dimensional
 *		encoding (MUVERA, Dhulipala et al., 2024), whose dot products approximate MaxSim.
 *
 * Encodings are stored and indexed, so they are the same bits on every machine and in
 * every version: random numbers come from a generator of integers, and sums are taken
 * in order, in float32, without fused operations (see matrix.h).
 */
#include "postgres.h"
#include "compat.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "element.h"
#include "matrix.h"
#include "splitmix.h"
#include "tokens.h"

#define MAX_K_SIM 10
#define MAX_REPETITIONS 1000

/* tokens that are multiplied at a time */
#define BLOCK_TOKENS 32

/* A real[] of one dimension; its elements are not set. */
static ArrayType *
new_array(uint64 n)
{
	uint64 size = ARR_OVERHEAD_NONULLS(1) + n * sizeof(float);
	ArrayType *array = palloc(size);

	memset(array, 0, ARR_OVERHEAD_NONULLS(1));
	SET_VARSIZE(array, size);
	array->ndim = 1;
	array->elemtype = FLOAT4OID;
	ARR_DIMS(array)
	[0] = n;
	ARR_LBOUND(array)
	[0] = 1;
	return array;
}

/* Tokens first to first + n - 1 as float32: the value's own elements, or in buffer. */
static const float *
load_tokens(const Multivec *value, uint64 first, uint64 n, float *buffer)
{
	uint64 row = maxsim_row_size(value->format, value->dim);
	const char *elements = value->elements + first * row;

	if (value->format == MAXSIM_F32)
		return (const float *) elements;
	multivec_load(value->format, elements, n, value->dim, buffer);
	return buffer;
}

/* multivec_mean(mv, unit_length): the mean token vector, summed in double precision. */
PG_FUNCTION_INFO_V1(multivec_mean);
Datum
multivec_mean(PG_FUNCTION_ARGS)
{
	Multivec *value = PG_GETARG_MULTIVEC_P(0);
	ArrayType *array;
	double *sums;
	float *buffer;
	float *mean;

	if (value->ntokens == 0)
		PG_RETURN_NULL();
	sums = palloc0(value->dim * sizeof(double));
	buffer = palloc(value->dim * sizeof(float));
	for (uint64 t = 0; t < value->ntokens; t++)
	{
		const float *token = load_tokens(value, t, 1, buffer);

		CHECK_FOR_INTERRUPTS();
		for (uint32 k = 0; k < value->dim; k++)
			sums[k] += token[k];
	}
	array = new_array(value->dim);
	mean = (float *) ARR_DATA_PTR(array);
	for (uint32 k = 0; k < value->dim; k++)
		mean[k] = (float) (sums[k] / value->ntokens);
	if (PG_GETARG_BOOL(1))
		tokens_normalize(mean, 1, value->dim);
	PG_RETURN_ARRAYTYPE_P(array);
}

/* What determines an encoding beside the tokens; compared as bytes. */
typedef struct Parameters
{
	int64 seed;
	uint32 dim;
	int32 k_sim;
	int32 projection;
	int32 repetitions;
	int32 final_dim; /* 0: no sketch */
	int32 unused;    /* 0 */
} Parameters;

/*
 * A repetition divides space into buckets by k_sim hyperplanes, and multiplies tokens
 * with a random matrix of signs unless projection is the dimension.  Hyperplanes of all
 * repetitions are columns of one matrix, and then the projections.
 */
typedef struct Encoder
{
	MemoryContext context; /* of the members below; reset for other parameters */
	bool ready;
	Parameters parameters;
	uint64 buckets; /* of a repetition */
	uint64 length;  /* floats of all buckets of all repetitions */
	uint64 hash_columns;
	uint64 columns; /* of the matrix in all, its padding included */
	float *matrix;  /* as matrix_multiply wants it; NULL: no columns */
	uint32 *sketch; /* [length], place * 2 + sign; NULL: no sketch */
	float scale;
} Encoder;

/*
 * Hyperplanes: the coefficients are sums of four 16-bit numbers less their mean, which
 * are nearly Gaussian and exact in float32.
 */
static void
make_hyperplanes(const Encoder *encoder)
{
	const Parameters *p = &encoder->parameters;

	for (int32 r = 0; r < p->repetitions; r++)
	{
		uint64 state = random_start(p->seed, r, FOR_HYPERPLANES);

		for (int32 h = 0; h < p->k_sim; h++)
		{
			CHECK_FOR_INTERRUPTS();
			for (uint32 k = 0; k < p->dim; k++)
			{
				uint64 bits = next_random(&state);
				int32 sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);

				encoder->matrix[matrix_element(p->dim, k, (uint64) r * p->k_sim + h)] = sum - 2 * 0xffff;
			}
		}
	}
}

/* Projections: signs, 64 of a random number from its lowest bit on, a set bit for -1. */
static void
make_projections(const Encoder *encoder)
{
	const Parameters *p = &encoder->parameters;

	for (int32 r = 0; r < p->repetitions; r++)
	{
		uint64 state = random_start(p->seed, r, FOR_PROJECTION);
		uint64 bits = 0;
		uint64 n = 0;

		for (int32 j = 0; j < p->projection; j++)
		{
			uint64 column = encoder->hash_columns + (uint64) r * p->projection + j;

			CHECK_FOR_INTERRUPTS();
			for (uint32 k = 0; k < p->dim; k++, n++, bits >>= 1)
			{
				if (n % 64 == 0)
					bits = next_random(&state);
				encoder->matrix[matrix_element(p->dim, k, column)] = bits & 1 ? -1 : 1;
			}
		}
	}
}

/* The sketch: a random place of the result and a random sign for each number. */
static void
make_sketch(const Encoder *encoder)
{
	uint64 state = random_start(encoder->parameters.seed, 0, FOR_SKETCH);

	for (uint64 i = 0; i < encoder->length; i++)
	{
		uint64 bits = next_random(&state);
		uint64 place = (bits >> 32) * (uint64) encoder->parameters.final_dim >> 32;

		if (i % 65536 == 0)
			CHECK_FOR_INTERRUPTS();
		encoder->sketch[i] = place << 1 | (bits & 1);
	}
}

/* An error unless a parameter is in its range. */
static void
check_range(const char *name, int32 value, int32 lowest, int32 highest)
{
	if (value < lowest || value > highest)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be from %d to %d, not %d", name, lowest, highest, value)));
}

static void
check_parameters(const Parameters *p)
{
	uint64 length;
	uint64 columns;

	check_range("k_sim", p->k_sim, 0, MAX_K_SIM);
	check_range("repetitions", p->repetitions, 1, MAX_REPETITIONS);
	if (p->projection < 1 || p->projection > p->dim)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("projection must be from 1 to the dimension of the tokens, %u, not %d", p->dim, p->projection),
				 errhint("With projection => %u, the dimension itself, tokens are not projected.", p->dim)));
	length = ((uint64) p->repetitions << p->k_sim) * p->projection;
	columns = (uint64) p->repetitions * (p->k_sim + p->projection) + 2 * MATRIX_PANEL;
	if (length * sizeof(float) > MaxAllocSize - ARR_OVERHEAD_NONULLS(1))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("encoding of %llu numbers exceeds the maximum of 1 GB", (unsigned long long) length)));
	if (p->projection < p->dim && columns * p->dim * sizeof(float) > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("random vectors of encoding exceed the maximum of 1 GB"),
				 errhint("Use fewer repetitions or a smaller projection.")));
	if (p->final_dim < 0 || (uint64) p->final_dim > length)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("final_dim must be from 0 to the %llu numbers of the encoding, not %d",
						(unsigned long long) length, p->final_dim),
				 errhint("With 0, the encoding is left as it is.")));
}

/* Makes the encoder one for these parameters. */
static void
set_encoder(Encoder *encoder, const Parameters *p)
{
	bool projected = p->projection < p->dim;
	uint64 size;
	MemoryContext old;

	encoder->ready = false;
	MemoryContextReset(encoder->context);
	encoder->parameters = *p;
	encoder->buckets = UINT64CONST(1) << p->k_sim;
	encoder->length = p->repetitions * encoder->buckets * p->projection;
	encoder->hash_columns = matrix_columns((uint64) p->repetitions * p->k_sim);
	encoder->columns = encoder->hash_columns;
	if (projected)
		encoder->columns += matrix_columns((uint64) p->repetitions * p->projection);
	/* root and quotient are those of IEEE 754 */
	encoder->scale = (float) (1 / sqrt((double) p->repetitions * (projected ? p->projection : 1)));

	old = MemoryContextSwitchTo(encoder->context);
	size = encoder->columns * p->dim * sizeof(float);
	encoder->matrix = size == 0 ? NULL : palloc_extended(size, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	make_hyperplanes(encoder);
	if (projected)
		make_projections(encoder);
	encoder->sketch = NULL;
	if (p->final_dim > 0)
	{
		encoder->sketch = palloc_extended(encoder->length * sizeof(uint32), MCXT_ALLOC_HUGE);
		make_sketch(encoder);
	}
	MemoryContextSwitchTo(old);
	encoder->ready = true;
}

/* The encoder for a call's parameters: that of the call before, as a rule. */
static const Encoder *
encoder_of_call_site(FunctionCallInfo fcinfo, uint32 dim)
{
	Encoder *encoder = fcinfo->flinfo->fn_extra;
	Parameters p = {PG_GETARG_INT64(4), dim, PG_GETARG_INT32(1), PG_GETARG_INT32(2),
					PG_GETARG_INT32(3), PG_GETARG_INT32(5), 0};

	if (encoder == NULL)
	{
		encoder = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(Encoder));
		encoder->context = AllocSetContextCreate(fcinfo->flinfo->fn_mcxt, "maxsim encoder", ALLOCSET_DEFAULT_SIZES);
		fcinfo->flinfo->fn_extra = encoder;
	}
	if (!encoder->ready || memcmp(&encoder->parameters, &p, sizeof(p)) != 0)
	{
		check_parameters(&p);
		set_encoder(encoder, &p);
	}
	return encoder;
}

/* The buckets of all repetitions while tokens are put into them. */
typedef struct Buckets
{
	float *sums;          /* [repetitions][buckets][projection] */
	uint32 *counts;       /* [repetitions][buckets] */
	uint32 *first_tokens; /* [repetitions][buckets]; where counts are not 0 */
	float *firsts;        /* as sums: the projection of each bucket's first token; NULL: not wanted */
} Buckets;

/* The number of the bucket that a token lies in, bit h set where it is above hyperplane h. */
static inline uint64
bucket_of(const float *heights, int32 k_sim)
{
	uint64 bucket = 0;

	for (int32 h = 0; h < k_sim; h++)
		bucket |= (uint64) (heights[h] > 0) << h;
	return bucket;
}

/* Adds token t to its bucket of each repetition; products are those with the matrix. */
static void
add_token(const Encoder *encoder, Buckets *buckets, uint32 t, const float *token, const float *products)
{
	const Parameters *p = &encoder->parameters;
	bool projected = p->projection < p->dim;

	for (int32 r = 0; r < p->repetitions; r++)
	{
		uint64 b = r * encoder->buckets + bucket_of(products + (uint64) r * p->k_sim, p->k_sim);
		const float *values = projected ? products + encoder->hash_columns + (uint64) r * p->projection : token;
		float *sums = buckets->sums + b * p->projection;

		if (buckets->counts[b]++ == 0)
		{
			buckets->first_tokens[b] = t;
			if (buckets->firsts != NULL)
				memcpy(buckets->firsts + b * p->projection, values, p->projection * sizeof(float));
		}
		for (int32 j = 0; j < p->projection; j++)
			sums[j] += values[j];
	}
}

/*
 * For each bucket of a repetition the one whose first token is nearest by the Hamming
 * distance of bucket numbers, the lowest token where several are.  Passing on the best
 * along one bit after another finds the best over all.
 */
static void
find_nearest(const Encoder *encoder, const Buckets *buckets, int32 repetition, uint64 *nearest)
{
	const uint64 step = UINT64CONST(1) << 42; /* distance, above 32 bits of token and 10 of bucket */
	uint64 first = repetition * encoder->buckets;

	for (uint64 b = 0; b < encoder->buckets; b++)
	{
		if (buckets->counts[first + b] > 0)
			nearest[b] = (uint64) buckets->first_tokens[first + b] << MAX_K_SIM | b;
		else
			nearest[b] = 2 * MAX_K_SIM * step;
	}
	for (uint64 bit = 1; bit < encoder->buckets; bit <<= 1)
	{
		for (uint64 b = 0; b < encoder->buckets; b++)
		{
			uint64 other = b | bit;

			if (b == other)
				continue;
			nearest[b] = Min(nearest[b], nearest[other] + step);
			nearest[other] = Min(nearest[other], nearest[b] + step);
		}
	}
	for (uint64 b = 0; b < encoder->buckets; b++)
		nearest[b] &= (1 << MAX_K_SIM) - 1;
}

/* Of a document: sums become means, and empty buckets get the token that is nearest. */
static void
make_means(const Encoder *encoder, Buckets *buckets)
{
	uint64 width = encoder->parameters.projection;
	uint64 *nearest = palloc(encoder->buckets * sizeof(uint64));

	for (int32 r = 0; r < encoder->parameters.repetitions; r++)
	{
		uint64 first = r * encoder->buckets;

		find_nearest(encoder, buckets, r, nearest);
		for (uint64 b = 0; b < encoder->buckets; b++)
		{
			uint32 count = buckets->counts[first + b];
			float *sums = buckets->sums + (first + b) * width;

			CHECK_FOR_INTERRUPTS();
			if (count == 0)
				memcpy(sums, buckets->firsts + (first + nearest[b]) * width, width * sizeof(float));
			else if (count > 1)
				for (uint64 j = 0; j < width; j++)
					sums[j] /= (float) count;
		}
	}
	pfree(nearest);
}

/* Puts all tokens of a value into buckets. */
static void
fill_buckets(const Encoder *encoder, const Multivec *value, Buckets *buckets)
{
	uint32 block = Min(value->ntokens, BLOCK_TOKENS);
	float *buffer = palloc((uint64) block * value->dim * sizeof(float));
	float *products = palloc_extended(Max(block * encoder->columns, 1) * sizeof(float), MCXT_ALLOC_HUGE);

	for (uint64 first = 0; first < value->ntokens; first += block)
	{
		uint64 n = Min(block, value->ntokens - first);
		const float *tokens = load_tokens(value, first, n, buffer);

		CHECK_FOR_INTERRUPTS();
		matrix_multiply(tokens, n, value->dim, encoder->matrix, encoder->columns, products, encoder->columns);
		for (uint64 t = 0; t < n; t++)
			add_token(encoder, buckets, first + t, tokens + t * value->dim, products + t * encoder->columns);
	}
	pfree(products);
	pfree(buffer);
}

/* The encoding of a value that has tokens. */
static ArrayType *
encode(const Encoder *encoder, const Multivec *value, bool document)
{
	uint64 all = encoder->parameters.repetitions * encoder->buckets;
	uint64 length = encoder->length;
	uint64 final = encoder->sketch == NULL ? length : (uint64) encoder->parameters.final_dim;
	Buckets buckets;
	ArrayType *array;
	float *out;

	buckets.sums = palloc0(length * sizeof(float));
	buckets.counts = palloc0(all * sizeof(uint32));
	buckets.first_tokens = palloc(all * sizeof(uint32));
	buckets.firsts = document ? palloc(length * sizeof(float)) : NULL;
	fill_buckets(encoder, value, &buckets);
	if (document)
		make_means(encoder, &buckets);

	array = new_array(final);
	out = (float *) ARR_DATA_PTR(array);
	memset(out, 0, final * sizeof(float));
	for (uint64 i = 0; i < length; i++)
	{
		float number = buckets.sums[i] * encoder->scale;

		if (encoder->sketch == NULL)
			out[i] = number;
		else
			out[encoder->sketch[i] >> 1] += encoder->sketch[i] & 1 ? -number : number;
	}
	for (uint64 i = 0; i < final; i++)
		if (!maxsim_is_finite(out[i]))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("encoding is out of range"),
					 errdetail("It is number %llu of the encoding.", (unsigned long long) i + 1)));
	if (document)
		pfree(buckets.firsts);
	pfree(buckets.first_tokens);
	pfree(buckets.counts);
	pfree(buckets.sums);
	return array;
}

/* maxsim_fde_query(query, k_sim, projection, repetitions, seed, final_dim) */
PG_FUNCTION_INFO_V1(maxsim_fde_query);
Datum
maxsim_fde_query(PG_FUNCTION_ARGS)
{
	Multivec *value = PG_GETARG_MULTIVEC_P(0);

	if (value->ntokens == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("query has no tokens"),
				 errhint("A query needs at least one token vector.")));
	PG_RETURN_ARRAYTYPE_P(encode(encoder_of_call_site(fcinfo, value->dim), value, false));
}

/* maxsim_fde_document(document, k_sim, projection, repetitions, seed, final_dim) */
PG_FUNCTION_INFO_V1(maxsim_fde_document);
Datum
maxsim_fde_document(PG_FUNCTION_ARGS)
{
	Multivec *value = PG_GETARG_MULTIVEC_P(0);

	if (value->ntokens == 0)
		PG_RETURN_NULL();
	PG_RETURN_ARRAYTYPE_P(encode(encoder_of_call_site(fcinfo, value->dim), value, true));
}
