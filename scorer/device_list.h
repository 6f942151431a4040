/*
 * device_list.h
 *		The value of flash_maxsim.devices, which the server checks and the scorer reads.
 */
#ifndef MAXSIM_SCORER_DEVICE_LIST_H
#define MAXSIM_SCORER_DEVICE_LIST_H

#include <stdlib.h>
#include <string.h>

#include "protocol.h"

/*
 * Reads "all", or device numbers as in "0,2", with spaces around them or without; one
 * listed twice counts once.  Returns how many there are, 0 for all, or -1 where that
 * is not what the list is, or where there are more than SCORER_MAX_DEVICES.
 */
static inline int
scorer_read_devices(const char *list, int numbers[SCORER_MAX_DEVICES])
{
	int n = 0;

	if (strcmp(list, "all") == 0)
		return 0;
	for (;;)
	{
		size_t ndigits;
		int number;
		int i = 0;

		list += strspn(list, " ");
		ndigits = strspn(list, "0123456789");
		if (ndigits == 0 || ndigits > 4)
			return -1;
		number = atoi(list);
		while (i < n && numbers[i] != number)
			i++;
		if (i == SCORER_MAX_DEVICES)
			return -1;
		numbers[i] = number;
		if (i == n)
			n++;
		list += ndigits;
		list += strspn(list, " ");
		if (*list == '\0')
			return n;
		if (*list++ != ',')
			return -1;
	}
}

#endif /* MAXSIM_SCORER_DEVICE_LIST_H */
