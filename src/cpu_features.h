/*
 * cpu_features.h
 *		Which instruction sets this processor and its operating system support.
 */
#ifndef MAXSIM_CPU_FEATURES_H
#define MAXSIM_CPU_FEATURES_H

#include "engine_cpu.h"

#define MAXSIM_CPU_AVX2 1   /* AVX2, FMA and F16C */
#define MAXSIM_CPU_AVX512 2 /* AVX-512 F, BW, VL and DQ */
#define MAXSIM_CPU_NEON 4
#define MAXSIM_CPU_AVX512_VNNI 8
#define MAXSIM_CPU_AVX512_VPOPCNTDQ 16

/* A set of MAXSIM_CPU_* bits. */
extern MAXSIM_HIDDEN unsigned maxsim_cpu_features(void);

#endif /* MAXSIM_CPU_FEATURES_H */
