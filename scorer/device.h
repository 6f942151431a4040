/*
 * device.h
 *		What scores the requests of the scorer: one table of functions for each kind.
 */
#ifndef MAXSIM_SCORER_DEVICE_H
#define MAXSIM_SCORER_DEVICE_H

#include "protocol.h"

/*
 * name		"cuda" or "cpu".
 * open		Makes ready to score on the devices named ("all", or "0,2"), whatever the
 *			number of threads; fills in the report's devices.  False: the report's
 *			message says why not, and its no_device whether that is likely to last.
 * score	Scores the request of a slot, whose sizes have been checked, into its scores.
 *			Blocks; called from many threads at once.  A failure leaves its reason in the
 *			slot's message.
 */
typedef struct ScorerDevice
{
	const char *name;
	bool (*open)(ScorerMapping *mapping, const char *devices, ScorerReport *report);
	MaxsimStatus (*score)(ScorerMapping *mapping, ScorerSlot *slot);
} ScorerDevice;

extern const ScorerDevice scorer_device_cpu;
extern const ScorerDevice scorer_device_cuda;

#endif /* MAXSIM_SCORER_DEVICE_H */
