/*
 * wgmma.cuh
 *		The warpgroup's matrix instructions of compute capability 9.0a.
 *
 * A warpgroup is four warps.  acc is 64 rows by N columns: warp w of the four has
 * rows 16 w to 16 w + 15 as mma.sync lays them out, acc[4 i] on for columns 8 i on.
 * Operand A is 64 by 16, from registers or shared memory; B is 16 by N, from shared
 * memory; both with the 16 contiguous.  In shared memory a row has 128 bytes, whose
 * 16-byte unit u is at u ^ (row % 8); a step of 16 columns is 32 bytes.
 */
#ifndef MAXSIM_WGMMA_CUH
#define MAXSIM_WGMMA_CUH

#include "device.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MAXSIM_HAS_WGMMA 1
#else
#define MAXSIM_HAS_WGMMA 0
#endif

#define MAXSIM_WARPGROUP 128

/* Describes rows of 128 bytes from a shared address on, a multiple of 1,024. */
__device__ __forceinline__ uint64_t
describe_rows(uint32_t address)
{
	return (uint64_t) (address >> 4 & 0x3fff) | (uint64_t) 1 << 16 | (uint64_t) (1024 >> 4) << 32 | (uint64_t) 1 << 62;
}

/* The byte of a 128-byte row's unit. */
__device__ __forceinline__ uint32_t
place_unit(uint32_t row, uint32_t unit)
{
	return row * 128 + (unit ^ row % 8) * 16;
}

#if MAXSIM_HAS_WGMMA

/* What an instruction calls the numbers of its result, the first 16 and so on of its registers. */
#define MAXSIM_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MAXSIM_NAMES_32 \
	MAXSIM_NAMES_16     \
	", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MAXSIM_NAMES_64                                                                \
	MAXSIM_NAMES_32                                                                    \
	", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
	", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MAXSIM_NAMES_128                                                                           \
	MAXSIM_NAMES_64                                                                                \
	", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"             \
	", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"             \
	", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
	", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/* These registers: acc from i on, each with constraint c. */
#define MAXSIM_ACC_8(c, i) \
	c(acc[i]), c(acc[i + 1]), c(acc[i + 2]), c(acc[i + 3]), c(acc[i + 4]), c(acc[i + 5]), c(acc[i + 6]), c(acc[i + 7])
#define MAXSIM_ACC_16(c, i) MAXSIM_ACC_8(c, i), MAXSIM_ACC_8(c, i + 8)
#define MAXSIM_ACC_32(c, i) MAXSIM_ACC_16(c, i), MAXSIM_ACC_16(c, i + 16)
#define MAXSIM_ACC_64(c, i) MAXSIM_ACC_32(c, i), MAXSIM_ACC_32(c, i + 32)
#define MAXSIM_ACC_128(c, i) MAXSIM_ACC_64(c, i), MAXSIM_ACC_64(c, i + 64)

/* Before the first of some multiplications, whose registers were touched otherwise. */
__device__ __forceinline__ void
multiply_begin(void)
{
	asm volatile("wgmma.fence.sync.aligned;" ::
					 : "memory");
}

__device__ __forceinline__ void
multiply_commit(void)
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::
					 : "memory");
}

/* Waits until at most n committed groups are in flight. */
template <int n>
__device__ __forceinline__ void
multiply_wait(void)
{
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n)
				 : "memory");
}

/* acc = a * b, or with add acc += a * b; the last argument tells the operands' type. */
__device__ __forceinline__ void
multiply_64_registers(float acc[32], const uint4 &a, uint64_t b, bool add, __half)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %37, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
				 "{" MAXSIM_NAMES_32 "}, "
				 "{%32, %33, %34, %35}, %36, add, 1, 1, 0;\n"
				 "}"
				 : MAXSIM_ACC_32("+f", 0)
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_64_registers(float acc[32], const uint4 &a, uint64_t b, bool add, __nv_bfloat16)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %37, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
				 "{" MAXSIM_NAMES_32 "}, "
				 "{%32, %33, %34, %35}, %36, add, 1, 1, 0;\n"
				 "}"
				 : MAXSIM_ACC_32("+f", 0)
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int) add));
}

/* The same of int8, 32 columns a step; as many columns of the result as acc has twice. */
__device__ __forceinline__ void
multiply_integers(int (&acc)[32], const uint4 &a, uint64_t b, bool add)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %37, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
				 "{" MAXSIM_NAMES_32 "}, "
				 "{%32, %33, %34, %35}, %36, add;\n"
				 "}"
				 : MAXSIM_ACC_32("+r", 0)
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_integers(int (&acc)[64], const uint4 &a, uint64_t b, bool add)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %69, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
				 "{" MAXSIM_NAMES_64 "}, "
				 "{%64, %65, %66, %67}, %68, add;\n"
				 "}"
				 : MAXSIM_ACC_64("+r", 0)
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_integers(int (&acc)[128], const uint4 &a, uint64_t b, bool add)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %133, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 "
				 "{" MAXSIM_NAMES_128 "}, "
				 "{%128, %129, %130, %131}, %132, add;\n"
				 "}"
				 : MAXSIM_ACC_128("+r", 0)
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_32_shared(float acc[16], uint64_t a, uint64_t b, bool add, __half)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %18, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
				 "{" MAXSIM_NAMES_16 "}, "
				 "%16, %17, add, 1, 1, 0, 0;\n"
				 "}"
				 : MAXSIM_ACC_16("+f", 0)
				 : "l"(a), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_32_shared(float acc[16], uint64_t a, uint64_t b, bool add, __nv_bfloat16)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %18, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
				 "{" MAXSIM_NAMES_16 "}, "
				 "%16, %17, add, 1, 1, 0, 0;\n"
				 "}"
				 : MAXSIM_ACC_16("+f", 0)
				 : "l"(a), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_128_shared(float acc[64], uint64_t a, uint64_t b, bool add, __half)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %66, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
				 "{" MAXSIM_NAMES_64 "}, "
				 "%64, %65, add, 1, 1, 0, 0;\n"
				 "}"
				 : MAXSIM_ACC_64("+f", 0)
				 : "l"(a), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_128_shared(float acc[64], uint64_t a, uint64_t b, bool add, __nv_bfloat16)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %66, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
				 "{" MAXSIM_NAMES_64 "}, "
				 "%64, %65, add, 1, 1, 0, 0;\n"
				 "}"
				 : MAXSIM_ACC_64("+f", 0)
				 : "l"(a), "l"(b), "r"((int) add));
}

#endif

#endif /* MAXSIM_WGMMA_CUH */
