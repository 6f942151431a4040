/*
 * splitmix.h
 *		Random numbers from a seed, the same on every machine and in every version: the
 *		numbers of SplitMix64 (Steele, Lea, Flood, 2014).  What is made of them is stored.
 */
#ifndef MAXSIM_SPLITMIX_H
#define MAXSIM_SPLITMIX_H

static inline uint64
mix(uint64 x)
{
	x = (x ^ (x >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64CONST(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static inline uint64
next_random(uint64 *state)
{
	*state += UINT64CONST(0x9e3779b97f4a7c15);
	return mix(*state);
}

/* Where the random numbers for one purpose start; they do not depend on the number of repetitions. */
typedef enum Purpose
{
	FOR_HYPERPLANES,
	FOR_PROJECTION,
	FOR_SKETCH,
	FOR_ROTATION
} Purpose;

static inline uint64
random_start(int64 seed, uint64 repetition, Purpose purpose)
{
	return mix(mix((uint64) seed) + 4 * repetition + purpose);
}

#endif /* MAXSIM_SPLITMIX_H */
