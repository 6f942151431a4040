/*
 * check.c
 *		See check.h.
 */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PRINTED 200

static long npassed;
static long nfailed;
static uint64_t random_state = 88172645463325252u;

void
check(bool good, const char *format, ...)
{
	va_list arguments;

	if (good)
	{
		npassed++;
		return;
	}
	if (++nfailed > MOST_PRINTED)
		return;
	va_start(arguments, format);
	fputs("FAIL ", stdout);
	vprintf(format, arguments);
	putchar('\n');
	va_end(arguments);
}

int
check_result(void)
{
	printf("%ld passed, %ld failed\n", npassed, nfailed);
	return nfailed > 0;
}

void
random_start(uint64_t seed)
{
	random_state = seed * 0x9e3779b97f4a7c15u + 1;
	if (random_state == 0) /* which xorshift would keep */
		random_state = 1;
}

/* Marsaglia's xorshift. */
uint32_t
random_u32(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t) (random_state >> 32);
}

uint32_t
random_below(uint32_t n)
{
	return (uint32_t) (((uint64_t) random_u32() * n) >> 32);
}

void *
allocate(size_t size)
{
	void *memory = malloc(size ? size : 1);

	if (memory == NULL)
	{
		printf("out of memory: %zu bytes\n", size);
		exit(1);
	}
	return memory;
}

bool
same_bits(float a, float b)
{
	return memcmp(&a, &b, sizeof(float)) == 0;
}
