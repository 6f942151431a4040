/*
 * rotate.c
 *		multivec_rotate: a random rotation, which keeps dot products and spreads over all
 *		dimensions what few of them hold, so that signs and small integers tell more.
 *
 * A rotation is a few rounds of a permutation with random signs and a Walsh-Hadamard
 * transform, whose matrix has only 1 and -1 and takes dim * log2(dim) additions.  It wants
 * a power of two: the largest that fits, at the front of the vector and then, where that is
 * not all of it, at its end.  The two overlap: if little, the next permutation mixes them; if
 * by nearly all, a second transform would undo the first, but for random signs in between.
 *
 * Rotated documents are stored, so that a rotation is the same bits on every machine and in
 * every version: in double precision, in a fixed order, without fused operations.
 */
#include "postgres.h"
#include "compat.h"

#include <math.h>

#include "multivec.h"
#include "splitmix.h"

#define ROUNDS 4

/* Whether the sign changes before a round's first transform, and before its second. */
#define FIRST_SIGN 1
#define SECOND_SIGN 2

/* Tokens that are rotated side by side, which lets a vector unit change the speed and no bit. */
#define LANES 8

typedef double Lanes[LANES];

typedef struct Rotation
{
	int64 seed;
	uint32 dim;
	uint32 block;                       /* the largest power of two up to dim */
	uint32 from[FLEXIBLE_ARRAY_MEMBER]; /* [ROUNDS][dim], place * 4 + signs */
} Rotation;

/* Places are shuffled from the last to the first, and each gets its signs. */
static void
make_rotation(Rotation *rotation)
{
	rotation->block = 1;
	while (rotation->block * 2 <= rotation->dim)
		rotation->block *= 2;
	for (uint32 r = 0; r < ROUNDS; r++)
	{
		uint64 state = random_start(rotation->seed, r, FOR_ROTATION);
		uint32 *from = rotation->from + (size_t) r * rotation->dim;

		for (uint32 i = 0; i < rotation->dim; i++)
			from[i] = i << 2;
		for (uint32 i = rotation->dim; i > 0; i--)
		{
			uint64 bits = next_random(&state);
			uint32 other = (bits >> 32) * i >> 32;
			uint32 place = from[other];

			from[other] = from[i - 1];
			from[i - 1] = place | (bits & (FIRST_SIGN | SECOND_SIGN));
		}
	}
}

/* The rotation of a call's parameters: that of the call before, as a rule. */
static const Rotation *
rotation_of_call_site(FunctionCallInfo fcinfo, uint32 dim)
{
	Rotation *rotation = fcinfo->flinfo->fn_extra;
	int64 seed = PG_GETARG_INT64(1);

	if (rotation != NULL && rotation->dim == dim && rotation->seed == seed)
		return rotation;
	fcinfo->flinfo->fn_extra = NULL;
	if (rotation != NULL)
		pfree(rotation);
	rotation = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt,
								  offsetof(Rotation, from) + (size_t) ROUNDS * dim * sizeof(uint32));
	rotation->seed = seed;
	rotation->dim = dim;
	make_rotation(rotation);
	fcinfo->flinfo->fn_extra = rotation;
	return rotation;
}

/* The Walsh-Hadamard transform of n numbers, a power of two, scaled to keep lengths. */
static void
transform(Lanes *x, uint32 n)
{
	/* root and quotient are those of IEEE 754 */
	const double scale = 1 / sqrt((double) n);

	for (uint32 half = 1; half < n; half *= 2)
		for (uint32 first = 0; first < n; first += 2 * half)
			for (uint32 i = first; i < first + half; i++)
				for (int lane = 0; lane < LANES; lane++)
				{
					const double a = x[i][lane];
					const double b = x[i + half][lane];

					x[i][lane] = a + b;
					x[i + half][lane] = a - b;
				}
	for (uint32 i = 0; i < n; i++)
		for (int lane = 0; lane < LANES; lane++)
			x[i][lane] *= scale;
}

/* A step of rotate_lanes: a permutation and random signs from x to y, and the transforms. */
static void
rotate_round(const Rotation *rotation, const uint32 *from, Lanes *x, Lanes *y)
{
	const uint32 rest = rotation->dim - rotation->block;

	for (uint32 i = 0; i < rotation->dim; i++)
	{
		const double sign = from[i] & FIRST_SIGN ? -1 : 1;

		for (int lane = 0; lane < LANES; lane++)
			y[i][lane] = sign * x[from[i] >> 2][lane];
	}
	transform(y, rotation->block);
	if (rest == 0)
		return;
	for (uint32 i = rest; i < rotation->dim; i++)
	{
		const double sign = from[i] & SECOND_SIGN ? -1 : 1;

		for (int lane = 0; lane < LANES; lane++)
			y[i][lane] *= sign;
	}
	transform(y + rest, rotation->block);
}

/* Rotates x [dim], which is where the result is; y is as large. */
static void
rotate_lanes(const Rotation *rotation, Lanes *x, Lanes *y)
{
	StaticAssertStmt(ROUNDS % 2 == 0, "the result would be in y");
	for (uint32 r = 0; r < ROUNDS; r += 2)
	{
		const uint32 *from = rotation->from + (size_t) r * rotation->dim;

		CHECK_FOR_INTERRUPTS();
		rotate_round(rotation, from, x, y);
		rotate_round(rotation, from + rotation->dim, y, x);
	}
}

/* The rotated tokens of a value as float32 [ntokens][dim], palloc'd. */
static float *
rotate_tokens(const Rotation *rotation, const Multivec *value)
{
	const uint64 dim = rotation->dim;
	const uint64 row = maxsim_row_size(value->format, dim);
	float *tokens = palloc_extended(value->ntokens * dim * sizeof(float), MCXT_ALLOC_HUGE);
	Lanes *x = palloc0(dim * sizeof(Lanes));
	Lanes *y = palloc(dim * sizeof(Lanes));

	for (uint64 t = 0; t < value->ntokens; t += LANES)
	{
		/* lanes past the last token keep what was there */
		const uint64 lanes = Min(value->ntokens - t, LANES);

		multivec_load(value->format, value->elements + t * row, lanes, dim, tokens + t * dim);
		for (uint64 lane = 0; lane < lanes; lane++)
			for (uint64 k = 0; k < dim; k++)
				x[k][lane] = tokens[(t + lane) * dim + k];
		rotate_lanes(rotation, x, y);
		for (uint64 lane = 0; lane < lanes; lane++)
			for (uint64 k = 0; k < dim; k++)
			{
				const uint64 i = (t + lane) * dim + k;

				/* the sum makes 0 of -0 */
				tokens[i] = (float) x[k][lane] + 0.0f;
				if (isinf(tokens[i]))
					ereport(ERROR,
							(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
							 errmsg("%g is out of range for multivec format %s", x[k][lane], multivec_format_name(value->format)),
							 errdetail("It is number %llu of the value.", (unsigned long long) i + 1)));
			}
	}
	pfree(x);
	pfree(y);
	return tokens;
}

/* multivec_rotate(mv, seed) */
PG_FUNCTION_INFO_V1(multivec_rotate);
Datum
multivec_rotate(PG_FUNCTION_ARGS)
{
	Multivec *value = PG_GETARG_MULTIVEC_P(0);
	Multivec *result;
	float *tokens;

	if (value->format == MAXSIM_B1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("multivec in format b1 cannot be rotated"),
				 errhint("Rotate before the conversion: multivec_rotate(embedding)::multivec(%u, b1).", value->dim)));
	if (value->ntokens == 0)
		PG_RETURN_POINTER(value);
	result = multivec_create(value->format, value->dim, value->ntokens);
	tokens = rotate_tokens(rotation_of_call_site(fcinfo, value->dim), value);
	multivec_store(value->format, tokens, value->ntokens, value->dim, result->elements, NULL);
	pfree(tokens);
	PG_RETURN_POINTER(result);
}
