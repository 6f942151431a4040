/*
 * parse_bench.c
 *		What it costs to hand a query to the server, by the form that it is sent in.
 *
 *		parse_bench TOKENS DIM
 *
 * The same query goes as binary multivec, as text, as binary and text real[], and
 * as a bytea of the same size, which costs the way there and nothing else.  The
 * forms take turns on one connection as prepared statements; a form's cost is its
 * median less that of "SELECT $1::integer".  The output is one line a form: its
 * name and microseconds.
 */
#include "../src/engine.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 1001
#define WARM_UP 20

typedef struct Form
{
	const char *name;
	const char *sql;
	Oid type; /* of the parameter, 0: from context */
	int format;
	char *value;
	int length;
	double times[ROUNDS];
} Form;

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *) a;
	double y = *(const double *) b;

	return (x > y) - (x < y);
}

static double
median(double *values)
{
	qsort(values, ROUNDS, sizeof(double), compare_doubles);
	return values[ROUNDS / 2];
}

static void
check(PGconn *connection, PGresult *result, ExecStatusType wanted)
{
	if (PQresultStatus(result) != wanted)
	{
		fprintf(stderr, "parse_bench: %s", PQerrorMessage(connection));
		exit(1);
	}
	PQclear(result);
}

/* The elements as text: [[1,2],[3,4]] or {{1,2},{3,4}}. */
static char *
make_text(const float *values, int ntokens, int dim, char open, char close)
{
	char *text = malloc((size_t) ntokens * ((size_t) dim * 20 + 4) + 4);
	char *p = text;

	*p++ = open;
	for (int i = 0; i < ntokens * dim; i++)
	{
		if (i % dim == 0)
			*p++ = open;
		p += sprintf(p, "%.9g", values[i]);
		if (i % dim == dim - 1)
			*p++ = close;
		*p++ = ',';
	}
	p[-1] = close;
	*p = '\0';
	return text;
}

/* The binary form of a multivec in f32. */
static char *
make_multivec(const float *values, int ntokens, int dim, int *length)
{
	const uint32_t shape[2] = {htonl((uint32_t) dim), htonl((uint32_t) ntokens)};
	const char head[4] = {1, MAXSIM_F32, 0, 0};
	char *out;

	*length = 12 + ntokens * dim * 4;
	out = malloc((size_t) *length);
	memcpy(out, head, 4);
	memcpy(out + 4, shape, 8);
	memcpy(out + 12, values, (size_t) *length - 12);
	return out;
}

/* The binary form of a real[]. */
static char *
make_array(const float *values, int ntokens, int dim, int *length)
{
	const uint32_t head[7] = {2, 0, 700, (uint32_t) ntokens, 1, (uint32_t) dim, 1};
	uint32_t *out;

	*length = 28 + ntokens * dim * 8;
	out = malloc((size_t) *length);
	for (int i = 0; i < 7; i++)
		out[i] = htonl(head[i]);
	for (int i = 0; i < ntokens * dim; i++)
	{
		uint32_t bits;

		memcpy(&bits, &values[i], 4);
		out[7 + 2 * i] = htonl(4);
		out[8 + 2 * i] = htonl(bits);
	}
	return (char *) out;
}

int
main(int argc, char **argv)
{
	static Form forms[] = {
		{"base", "SELECT $1::integer", 23, 0, "1", 0, {0}},
		{"bytea.binary", "SELECT octet_length($1)", 17, 1, NULL, 0, {0}},
		{"multivec.binary", "SELECT multivec_ntokens($1)", 0, 1, NULL, 0, {0}},
		{"multivec.text", "SELECT multivec_ntokens($1)", 0, 0, NULL, 0, {0}},
		{"real_array.binary", "SELECT multivec_ntokens($1::real[])", 1021, 1, NULL, 0, {0}},
		{"real_array.text", "SELECT multivec_ntokens($1::real[])", 1021, 0, NULL, 0, {0}},
	};
	const int nforms = sizeof(forms) / sizeof(forms[0]);
	const int ntokens = argc == 3 ? atoi(argv[1]) : 0;
	const int dim = argc == 3 ? atoi(argv[2]) : 0;
	PGconn *connection;
	float *values;
	double base;

	if (ntokens < 1 || dim < 1)
	{
		fprintf(stderr, "usage: parse_bench TOKENS DIM\n");
		return 1;
	}
	connection = PQconnectdb("");
	if (PQstatus(connection) != CONNECTION_OK)
	{
		fprintf(stderr, "parse_bench: %s", PQerrorMessage(connection));
		return 1;
	}
	values = malloc(sizeof(float) * (size_t) (ntokens * dim));
	for (int i = 0; i < ntokens * dim; i++)
		values[i] = (float) rand() / (float) RAND_MAX * 2 - 1;
	forms[1].value = forms[2].value = make_multivec(values, ntokens, dim, &forms[2].length);
	forms[1].length = forms[2].length;
	forms[3].value = make_text(values, ntokens, dim, '[', ']');
	forms[4].value = make_array(values, ntokens, dim, &forms[4].length);
	forms[5].value = make_text(values, ntokens, dim, '{', '}');

	for (int f = 0; f < nforms; f++)
		check(connection, PQprepare(connection, forms[f].name, forms[f].sql, 1, &forms[f].type), PGRES_COMMAND_OK);
	for (int round = -WARM_UP; round < ROUNDS; round++)
		for (int f = 0; f < nforms; f++)
		{
			const char *value = forms[f].value;
			double start = now();

			check(connection, PQexecPrepared(connection, forms[f].name, 1, &value, &forms[f].length, &forms[f].format, 0),
				  PGRES_TUPLES_OK);
			if (round >= 0)
				forms[f].times[round] = (now() - start) * 1e6;
		}
	base = median(forms[0].times);
	printf("base %.2f\n", base);
	for (int f = 1; f < nforms; f++)
		printf("%s %.2f\n", forms[f].name, median(forms[f].times) - base);
	PQfinish(connection);
	return 0;
}
