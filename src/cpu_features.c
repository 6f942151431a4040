/*
 * cpu_features.c
 *		The one place that asks the processor what it can do.
 *
 * CPUID alone is not enough: an operating system that does not save the wide
 * registers at a context switch must not see them used, and XGETBV tells which
 * ones it saves.  CPUID is read by hand since compilers' own checks do not know
 * all the names (clang 14 refuses f16c).
 */
#include "cpu_features.h"

#ifdef __x86_64__

#include <cpuid.h>

#define LEAF1_ECX_FMA (1u << 12)
#define LEAF1_ECX_OSXSAVE (1u << 27)
#define LEAF1_ECX_AVX (1u << 28)
#define LEAF1_ECX_F16C (1u << 29)
#define LEAF7_EBX_AVX2 (1u << 5)
#define LEAF7_EBX_AVX512F (1u << 16)
#define LEAF7_EBX_AVX512DQ (1u << 17)
#define LEAF7_EBX_AVX512BW (1u << 30)
#define LEAF7_EBX_AVX512VL (1u << 31)
#define LEAF7_ECX_AVX512_VNNI (1u << 11)
#define LEAF7_ECX_AVX512_VPOPCNTDQ (1u << 14)

#define LEAF1_ECX_AVX2_SET (LEAF1_ECX_FMA | LEAF1_ECX_AVX | LEAF1_ECX_F16C)
#define LEAF7_EBX_AVX512_SET \
	(LEAF7_EBX_AVX512F | LEAF7_EBX_AVX512DQ | LEAF7_EBX_AVX512BW | LEAF7_EBX_AVX512VL)

/* Register state the operating system saves: SSE and AVX; mask and 512-bit. */
#define XCR0_AVX 0x06u
#define XCR0_AVX512 0xe6u

static unsigned
detect(void)
{
	unsigned eax;
	unsigned ebx;
	unsigned ecx;
	unsigned edx;
	unsigned xcr0;
	unsigned features = 0;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx))
		return 0;
	if (!(ecx & LEAF1_ECX_OSXSAVE) || (ecx & LEAF1_ECX_AVX2_SET) != LEAF1_ECX_AVX2_SET)
		return 0;

	/* by hand: the intrinsic would need a target attribute of its own */
	__asm__("xgetbv"
			: "=a"(xcr0), "=d"(edx)
			: "c"(0));
	if ((xcr0 & XCR0_AVX) != XCR0_AVX)
		return 0;

	if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
		return 0;
	if (ebx & LEAF7_EBX_AVX2)
	{
		features |= MAXSIM_CPU_AVX2;
		if ((ebx & LEAF7_EBX_AVX512_SET) == LEAF7_EBX_AVX512_SET && (xcr0 & XCR0_AVX512) == XCR0_AVX512)
		{
			features |= MAXSIM_CPU_AVX512;
			if (ecx & LEAF7_ECX_AVX512_VNNI)
				features |= MAXSIM_CPU_AVX512_VNNI;
			if (ecx & LEAF7_ECX_AVX512_VPOPCNTDQ)
				features |= MAXSIM_CPU_AVX512_VPOPCNTDQ;
		}
	}
	return features;
}

#else

static unsigned
detect(void)
{
#ifdef __aarch64__
	return MAXSIM_CPU_NEON; /* part of the base architecture */
#else
	return 0;
#endif
}

#endif

unsigned
maxsim_cpu_features(void)
{
	static int known = -1;
	int features = __atomic_load_n(&known, __ATOMIC_RELAXED);

	/* once, since CPUID is slow in a virtual machine; threads find the same */
	if (features < 0)
	{
		features = (int) detect();
		__atomic_store_n(&known, features, __ATOMIC_RELAXED);
	}
	return (unsigned) features;
}
