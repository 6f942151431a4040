/*
 * prewarm_list.h
 *		The list of documents that are loaded again after a restart: a file in the data
 *		directory.
 *
 * It holds keys, and nothing of it is believed: whatever a value is now, if there is
 * one, is what a key then stands for.
 */
#ifndef MAXSIM_PREWARM_LIST_H
#define MAXSIM_PREWARM_LIST_H

#include "cache.h"

/* bits of ListedDocument.tiers */
#define LISTED_HOST 1
#define LISTED_DEVICE 2

typedef struct ListedDocument
{
	CacheKey key;
	uint32 tiers; /* that it was in */
} ListedDocument;

typedef void (*ListTake)(void *arg, const ListedDocument *document);

/*
 * list_write	Lists what is worth it of what the cache has: lasting documents and used
 *				ones, of type multivec, whose values can be told from others.  Raises no
 *				error; false: it was not written, and the log says why.
 * list_read	Calls take for each document of the list, if there is one that is whole;
 *				false: there is none.
 */
extern bool list_write(void);
extern bool list_read(ListTake take, void *arg);

#endif /* MAXSIM_PREWARM_LIST_H */
