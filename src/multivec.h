/*
 * multivec.h
 *		The type multivec: the token vectors of one document or query, packed.
 *
 * A value is a header of 16 bytes and ntokens rows of one format (engine.h).  The header's size keeps the elements 16-byte aligned relative to
 * the value's start.  A value without tokens may have dimension 0: "unknown".
 */
#ifndef MAXSIM_MULTIVEC_H
#define MAXSIM_MULTIVEC_H

#include "engine.h"
#include "format.h"

typedef struct Multivec
{
	int32 vl_len_;  /* varlena header, do not touch directly */
	uint8 format;   /* a MaxsimFormat */
	uint8 unused1;  /* 0 */
	uint16 unused2; /* 0 */
	uint32 dim;
	uint32 ntokens;
	char elements[FLEXIBLE_ARRAY_MEMBER];
} Multivec;

#define MULTIVEC_HEADER_SIZE offsetof(Multivec, elements)
#define MULTIVEC_MAX_DIM 65535

/* Bytes of the elements; in 64 bits, which no combination of fields overflows. */
static inline uint64
multivec_elements_size(MaxsimFormat format, uint32 dim, uint32 ntokens)
{
	return (uint64) ntokens * maxsim_row_size(format, dim);
}

/*
 * multivec_size	Bytes of a value in all; an error where the limits do not allow it.
 * multivec_create	A new value with its header set and its elements not; an error
 *					where the limits do not allow it.
 * multivec_check	Believes nothing: an error unless the header of a value of size
 *					bytes in all is one that we could have written.  Of a value that is
 *					shorter than a header it reads nothing.
 * multivec_is_sound	The same check without an error, of what may be no multivec.
 * multivec_from_datum	Detoasts and checks.
 */
extern uint64 multivec_size(MaxsimFormat format, uint64 dim, uint64 ntokens);
extern Multivec *multivec_create(MaxsimFormat format, uint64 dim, uint64 ntokens);
extern void multivec_check(const Multivec *value, uint64 size);
extern bool multivec_is_sound(const Multivec *value, uint64 size);
extern Multivec *multivec_from_datum(Datum datum);

#define PG_GETARG_MULTIVEC_P(n) multivec_from_datum(PG_GETARG_DATUM(n))

/* An error unless a dimension as a user gives it is within the limits. */
extern void multivec_check_dim(int32 dim);

/* The OID of type multivec of the extension that the function fn_oid belongs to. */
extern Oid multivec_type_oid(Oid fn_oid);

/*
 * Text, in multivec_text.c.  Parsing yields a palloc'd array of ntokens * dim
 * values; false after a soft error.
 */
extern bool multivec_parse(const char *text, float **values, uint64 *ntokens, uint64 *dim,
						   struct Node *escontext);
extern char *multivec_print(const Multivec *value);

#endif /* MAXSIM_MULTIVEC_H */
