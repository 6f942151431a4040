/*
 * make_data.c
 *		Documents for the benchmarks of SQL, as input of COPY ... (FORMAT binary).
 *
 *		make_data SEED DOCUMENTS TOKENS DIM FORMAT [CENTRES]
 *
 * writes rows (id bigint, e) with ids from 1.  FORMAT is that of a multivec (f32,
 * f16, bf16, i8 or b1), or "array" for a real[].  Tokens are unit vectors; each is picked
 * from a pool of random ones, which saves most of the time and leaves no two
 * documents alike.
 *
 * With CENTRES, documents are about something: each has 4 of so many random unit
 * vectors, and each of its tokens is one of these plus another random unit vector,
 * scaled to unit length.
 */
#include "../src/element.h"
#include "../src/engine.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL 4096
#define CENTRES 4 /* of a document */
#define REAL_OID 700

typedef enum Form
{
	FORM_F32 = MAXSIM_F32,
	FORM_F16 = MAXSIM_F16,
	FORM_BF16 = MAXSIM_BF16,
	FORM_I8 = MAXSIM_I8,
	FORM_B1 = MAXSIM_B1,
	FORM_ARRAY
} Form;

static const char *const form_names[] = {"f32", "f16", "bf16", "i8", "b1", "array"};

static uint64_t state;

static uint32_t
random_bits(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t) (state >> 32);
}

static void
put(const void *bytes, size_t n)
{
	if (fwrite(bytes, 1, n, stdout) != n)
	{
		perror("make_data");
		exit(1);
	}
}

static void
put_int16(int16_t value)
{
	uint16_t big = htons((uint16_t) value);

	put(&big, sizeof(big));
}

static void
put_int32(uint32_t value)
{
	uint32_t big = htonl(value);

	put(&big, sizeof(big));
}

/* Bytes of a token in a form. */
static size_t
token_size(Form form, uint32_t dim)
{
	/* an array's elements each have their length before them */
	return form == FORM_ARRAY ? dim * 8 : maxsim_row_size((MaxsimFormat) form, dim);
}

static void
scale_to_unit(uint32_t dim, float *values)
{
	double sum = 0;

	for (uint32_t i = 0; i < dim; i++)
		sum += (double) values[i] * values[i];
	for (uint32_t i = 0; i < dim; i++)
		values[i] = (float) (values[i] / sqrt(sum));
}

static void
random_unit(uint32_t dim, float *values)
{
	for (uint32_t i = 0; i < dim; i++)
		values[i] = (float) random_bits() * 0x1p-31f - 1;
	scale_to_unit(dim, values);
}

/* Writes a token in the form. */
static void
store_token(Form form, uint32_t dim, const float *values, char *out)
{
	float scale = 0;

	for (uint32_t i = 0; i < dim; i++)
		scale = fmaxf(scale, fabsf(values[i]) / 127);
	if (form == FORM_I8)
		memcpy(out, &scale, sizeof(scale));
	else if (form == FORM_B1)
		memset(out, 0, token_size(form, dim));
	for (uint32_t i = 0; i < dim; i++)
	{
		float value = values[i];

		if (form == FORM_F32)
			((float *) out)[i] = value;
		else if (form == FORM_F16)
			((uint16_t *) out)[i] = maxsim_f16_from_f32(value);
		else if (form == FORM_BF16)
			((uint16_t *) out)[i] = maxsim_bf16_from_f32(value);
		else if (form == FORM_I8)
			out[sizeof(scale) + i] = (char) lrintf(fmaxf(fminf(value / scale, 127), -127));
		else if (form == FORM_B1)
			out[i / 8] |= (char) ((value > 0) * 0x80 >> i % 8);
		else
		{
			uint32_t bits;

			memcpy(&bits, &value, sizeof(bits));
			((uint32_t *) out)[2 * i] = htonl(sizeof(bits));
			((uint32_t *) out)[2 * i + 1] = htonl(bits);
		}
	}
}

/* What precedes the tokens: the field's length and the type's header. */
static void
put_header(Form form, uint32_t ntokens, uint32_t dim)
{
	const size_t payload = ntokens * token_size(form, dim);

	if (form == FORM_ARRAY)
	{
		put_int32((uint32_t) payload + 28);
		put_int32(2); /* dimensions */
		put_int32(0); /* no NULL */
		put_int32(REAL_OID);
		put_int32(ntokens);
		put_int32(1); /* lower bound */
		put_int32(dim);
		put_int32(1);
	}
	else
	{
		const char head[4] = {1, (char) form, 0, 0}; /* version, format */

		put_int32((uint32_t) payload + 12);
		put(head, sizeof(head));
		put_int32(dim);
		put_int32(ntokens);
	}
}

static void *
allocate(size_t size)
{
	void *result = malloc(size);

	if (result == NULL)
	{
		perror("make_data");
		exit(1);
	}
	return result;
}

/* Tokens of one document out of a pool. */
static void
put_picked(const char *pool, size_t size, uint32_t ntokens)
{
	for (uint32_t i = 0; i < ntokens; i++)
		put(pool + random_bits() % POOL * size, size);
}

/* Tokens of one document around its centres; values and token have room for one. */
static void
put_clustered(Form form, const float *centres, uint32_t ncentres, uint32_t ntokens, uint32_t dim, float *values,
			  char *token)
{
	const float *own[CENTRES];

	for (int i = 0; i < CENTRES; i++)
		own[i] = centres + (size_t) (random_bits() % ncentres) * dim;
	for (uint32_t i = 0; i < ntokens; i++)
	{
		const float *centre = own[random_bits() % CENTRES];

		random_unit(dim, values);
		for (uint32_t k = 0; k < dim; k++)
			values[k] += centre[k];
		scale_to_unit(dim, values);
		store_token(form, dim, values, token);
		put(token, token_size(form, dim));
	}
}

int
main(int argc, char **argv)
{
	uint32_t ndocuments, ntokens, dim, ncentres;
	Form form = FORM_F32;
	size_t size;
	float *values, *centres;
	char *pool;

	if (argc != 6 && argc != 7)
	{
		fprintf(stderr, "usage: make_data SEED DOCUMENTS TOKENS DIM f32|f16|bf16|i8|b1|array [CENTRES]\n");
		return 1;
	}
	state = strtoull(argv[1], NULL, 10) * 2654435761u + 88172645463325252u;
	ndocuments = (uint32_t) strtoul(argv[2], NULL, 10);
	ntokens = (uint32_t) strtoul(argv[3], NULL, 10);
	dim = (uint32_t) strtoul(argv[4], NULL, 10);
	ncentres = argc == 7 ? (uint32_t) strtoul(argv[6], NULL, 10) : 0;
	while (form <= FORM_ARRAY && strcmp(argv[5], form_names[form]) != 0)
		form++;
	if (form > FORM_ARRAY)
	{
		fprintf(stderr, "make_data: no format \"%s\"\n", argv[5]);
		return 1;
	}

	size = token_size(form, dim);
	values = allocate(dim * sizeof(float));
	pool = allocate(POOL * size);
	centres = allocate((size_t) ncentres * dim * sizeof(float) + 1);
	for (uint32_t i = 0; i < ncentres; i++)
		random_unit(dim, centres + (size_t) i * dim);
	for (uint32_t i = 0; i < POOL; i++)
	{
		random_unit(dim, values);
		store_token(form, dim, values, pool + i * size);
	}

	put("PGCOPY\n\377\r\n", 11); /* with the terminating zero */
	put_int32(0);
	put_int32(0);
	for (uint32_t id = 1; id <= ndocuments; id++)
	{
		put_int16(2);
		put_int32(8);
		put_int32(0);
		put_int32(id);
		put_header(form, ntokens, dim);
		if (ncentres > 0)
			put_clustered(form, centres, ncentres, ntokens, dim, values, pool);
		else
			put_picked(pool, size, ntokens);
	}
	put_int16(-1);
	return 0;
}
