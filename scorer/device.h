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
 *			number of threads, and gives each an arena of cache bytes ("0", "1000000" or
 *			a share of its memory, "50%"); fills in the report's devices and arenas.
 *			False: the report's message says why not, and its no_device whether that is
 *			likely to last.
 * arena_size	Of device number; 0 where there is no such device.
 * score	Copies what a slot's request asks for, and scores it into its scores; sizes
 *			have been checked.  Blocks; called from many threads at once.  A failure leaves its reason in the
 *			slot's message.
 */
typedef struct ScorerDevice
{
	const char *name;
	bool (*open)(ScorerMapping *mapping, const char *devices, const char *cache, ScorerReport *report);
	uint64_t (*arena_size)(int number);
	MaxsimStatus (*score)(ScorerMapping *mapping, ScorerSlot *slot);
} ScorerDevice;

extern const ScorerDevice scorer_device_cpu;
extern const ScorerDevice scorer_device_cuda;

/* What cache stands for on a device of so much memory. */
extern uint64_t scorer_arena_bytes(const char *cache, uint64_t memory);

#endif /* MAXSIM_SCORER_DEVICE_H */
