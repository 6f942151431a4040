/*
 * multivec_text.c
 *		The text form of multivec: [[1,2],[3,4]], a token in each inner list.
 *
 * That is JSON; the braces of PostgreSQL's array literals are read too.  Numbers
 * are written with the fewest digits that read back to the same float32, so that
 * every element of every format survives the round trip.
 */
#include "postgres.h"
#include "compat.h"

#include <ctype.h>

#include "common/shortest_dec.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"

#include "element.h"
#include "multivec.h"

/* Where a text is being read, and what was read so far. */
typedef struct Parser
{
	const char *text;
	const char *at;
	float *values;
	uint64 nvalues;
	uint64 allocated;
	struct Node *escontext;
} Parser;

/* The beginning of the input, for messages: a value can have megabytes. */
static char *
excerpt(const char *text)
{
	int length = strlen(text);

	if (length <= 64)
		return pstrdup(text);
	return psprintf("%.*s...", pg_mbcliplen(text, length, 64), text);
}

/* The hint may be NULL. */
static bool
syntax_error(Parser *parser, const char *expected, const char *hint)
{
	if (*parser->at == '\0')
		ereturn(parser->escontext, false,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type multivec: \"%s\"", excerpt(parser->text)),
				 errdetail("Expected %s at the end of the input.", expected)));
	ereturn(parser->escontext, false,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("invalid input syntax for type multivec: \"%s\"", excerpt(parser->text)),
			 errdetail("Expected %s at character %d, found \"%.*s\".", expected,
					   pg_mbstrlen_with_len(parser->text, parser->at - parser->text) + 1,
					   pg_mblen(parser->at), parser->at),
			 hint != NULL ? errhint("%s", hint) : 0));
}

static void
skip_space(Parser *parser)
{
	while (isspace((unsigned char) *parser->at))
		parser->at++;
}

/*
 * Reads an opening bracket or brace and says in *close which one ends the list, of
 * tokens or of a token's numbers.
 */
static bool
open_list(Parser *parser, bool of_numbers, char *close)
{
	skip_space(parser);
	if (*parser->at == '[')
		*close = ']';
	else if (*parser->at == '{')
		*close = '}';
	else
		return syntax_error(parser, "\"[\"",
							of_numbers && strchr("0123456789+-.", *parser->at) != NULL
								? "A multivec is a list of tokens: one token is written [[1,2,3]]."
								: NULL);
	parser->at++;
	skip_space(parser);
	return true;
}

/*
 * After an element of a list: *more says whether another one follows.
 */
static bool
next_in_list(Parser *parser, char close, bool *more)
{
	skip_space(parser);
	if (*parser->at != ',' && *parser->at != close)
		return syntax_error(parser, close == ']' ? "\",\" or \"]\"" : "\",\" or \"}\"", NULL);
	*more = *parser->at == ',';
	parser->at++;
	return true;
}

static bool
parse_number(Parser *parser)
{
	const char *start;
	const char *p;
	char *end;
	float value;

	skip_space(parser);
	start = p = parser->at;
	if (*p == '-' || *p == '+')
		p++;
	if (pg_strncasecmp(p, "nan", 3) == 0 || pg_strncasecmp(p, "inf", 3) == 0)
		ereturn(parser->escontext, false,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("%s is not allowed in type multivec",
						pg_strncasecmp(p, "nan", 3) == 0 ? "NaN" : "infinity"),
				 errdetail("It is number %llu of the value.", (unsigned long long) parser->nvalues + 1)));
	if (pg_strncasecmp(p, "null", 4) == 0)
		ereturn(parser->escontext, false,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("NULL is not allowed in type multivec: \"%s\"", excerpt(parser->text))));
	/* what strtof would take beyond decimal numbers is not ours */
	if (!(isdigit((unsigned char) *p) || (*p == '.' && isdigit((unsigned char) p[1]))) ||
		(p[0] == '0' && (p[1] == 'x' || p[1] == 'X')))
		return syntax_error(parser, "a number", NULL);

	value = strtof(start, &end);
	if (!maxsim_is_finite(value))
		ereturn(parser->escontext, false,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("\"%.*s\" is out of range for type multivec", (int) Min(end - start, 64), start)));
	parser->at = end;

	if (parser->nvalues == parser->allocated)
	{
		/* the text's length limits it; whether it is too much depends on the format */
		parser->allocated *= 2;
		parser->values = repalloc_huge(parser->values, parser->allocated * sizeof(float));
	}
	parser->values[parser->nvalues++] = value;
	return true;
}

bool
multivec_parse(const char *text, float **values, uint64 *ntokens, uint64 *dim,
			   struct Node *escontext)
{
	Parser parser = {text, text, NULL, 0, 1024, escontext};
	char close_outer;
	char close_inner;
	bool more_tokens;
	bool more;

	parser.values = palloc(parser.allocated * sizeof(float));
	*ntokens = *dim = 0;

	if (!open_list(&parser, false, &close_outer))
		return false;
	more_tokens = *parser.at != close_outer;
	if (!more_tokens)
		parser.at++;
	while (more_tokens)
	{
		uint64 before = parser.nvalues;

		if (!open_list(&parser, true, &close_inner))
			return false;
		if (*parser.at == close_inner)
			ereturn(escontext, false,
					(errcode(ERRCODE_DATA_EXCEPTION),
					 errmsg("token %llu of multivec has no dimensions: \"%s\"",
							(unsigned long long) *ntokens + 1, excerpt(text)),
					 errhint("A multivec without tokens is written [].")));
		do
		{
			CHECK_FOR_INTERRUPTS();
			/* no format has room for it, so the rest need not be read */
			if (parser.nvalues - before == MULTIVEC_MAX_DIM)
				ereturn(escontext, false,
						(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						 errmsg("multivec cannot have more than %d dimensions", MULTIVEC_MAX_DIM),
						 errdetail("Token %llu has more.", (unsigned long long) *ntokens + 1)));
			if (!parse_number(&parser) || !next_in_list(&parser, close_inner, &more))
				return false;
		} while (more);

		(*ntokens)++;
		if (*ntokens == 1)
			*dim = parser.nvalues;
		else if (parser.nvalues - before != *dim)
			ereturn(escontext, false,
					(errcode(ERRCODE_DATA_EXCEPTION),
					 errmsg("tokens of one multivec have different dimensions: token 1 has %llu, token %llu has %llu",
							(unsigned long long) *dim, (unsigned long long) *ntokens,
							(unsigned long long) (parser.nvalues - before))));
		if (!next_in_list(&parser, close_outer, &more_tokens))
			return false;
	}
	skip_space(&parser);
	if (*parser.at != '\0')
		return syntax_error(&parser, "nothing more", NULL);
	*values = parser.values;
	return true;
}

char *
multivec_print(const Multivec *value)
{
	StringInfoData text;
	float *row = palloc(Max(value->dim, 1) * sizeof(float));
	size_t row_size = maxsim_row_size(value->format, value->dim);

	initStringInfo(&text);
	appendStringInfoChar(&text, '[');
	for (uint32 token = 0; token < value->ntokens; token++)
	{
		CHECK_FOR_INTERRUPTS();
		multivec_load(value->format, value->elements + token * row_size, 1, value->dim, row);
		appendStringInfoString(&text, token == 0 ? "[" : ",[");
		for (uint32 k = 0; k < value->dim; k++)
		{
			enlargeStringInfo(&text, FLOAT_SHORTEST_DECIMAL_LEN + 1);
			if (k > 0)
				text.data[text.len++] = ',';
			text.len += float_to_shortest_decimal_bufn(row[k], text.data + text.len);
		}
		appendStringInfoChar(&text, ']');
	}
	appendStringInfoChar(&text, ']');
	pfree(row);
	return text.data;
}
