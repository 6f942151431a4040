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
				 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
				 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
				 "{%32, %33, %34, %35}, %36, add, 1, 1, 0;\n"
				 "}"
				 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
				   "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]),
				   "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]),
				   "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31])
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_64_registers(float acc[32], const uint4 &a, uint64_t b, bool add, __nv_bfloat16)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %37, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
				 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
				 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
				 "{%32, %33, %34, %35}, %36, add, 1, 1, 0;\n"
				 "}"
				 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
				   "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]),
				   "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]),
				   "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31])
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
				 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
				 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
				 "{%32, %33, %34, %35}, %36, add;\n"
				 "}"
				 : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3]), "+r"(acc[4]), "+r"(acc[5]), "+r"(acc[6]), "+r"(acc[7]),
				   "+r"(acc[8]), "+r"(acc[9]), "+r"(acc[10]), "+r"(acc[11]), "+r"(acc[12]), "+r"(acc[13]), "+r"(acc[14]), "+r"(acc[15]),
				   "+r"(acc[16]), "+r"(acc[17]), "+r"(acc[18]), "+r"(acc[19]), "+r"(acc[20]), "+r"(acc[21]), "+r"(acc[22]), "+r"(acc[23]),
				   "+r"(acc[24]), "+r"(acc[25]), "+r"(acc[26]), "+r"(acc[27]), "+r"(acc[28]), "+r"(acc[29]), "+r"(acc[30]), "+r"(acc[31])
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_integers(int (&acc)[64], const uint4 &a, uint64_t b, bool add)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %69, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
				 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
				 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
				 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
				 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
				 "{%64, %65, %66, %67}, %68, add;\n"
				 "}"
				 : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3]), "+r"(acc[4]), "+r"(acc[5]), "+r"(acc[6]), "+r"(acc[7]),
				   "+r"(acc[8]), "+r"(acc[9]), "+r"(acc[10]), "+r"(acc[11]), "+r"(acc[12]), "+r"(acc[13]), "+r"(acc[14]), "+r"(acc[15]),
				   "+r"(acc[16]), "+r"(acc[17]), "+r"(acc[18]), "+r"(acc[19]), "+r"(acc[20]), "+r"(acc[21]), "+r"(acc[22]), "+r"(acc[23]),
				   "+r"(acc[24]), "+r"(acc[25]), "+r"(acc[26]), "+r"(acc[27]), "+r"(acc[28]), "+r"(acc[29]), "+r"(acc[30]), "+r"(acc[31]),
				   "+r"(acc[32]), "+r"(acc[33]), "+r"(acc[34]), "+r"(acc[35]), "+r"(acc[36]), "+r"(acc[37]), "+r"(acc[38]), "+r"(acc[39]),
				   "+r"(acc[40]), "+r"(acc[41]), "+r"(acc[42]), "+r"(acc[43]), "+r"(acc[44]), "+r"(acc[45]), "+r"(acc[46]), "+r"(acc[47]),
				   "+r"(acc[48]), "+r"(acc[49]), "+r"(acc[50]), "+r"(acc[51]), "+r"(acc[52]), "+r"(acc[53]), "+r"(acc[54]), "+r"(acc[55]),
				   "+r"(acc[56]), "+r"(acc[57]), "+r"(acc[58]), "+r"(acc[59]), "+r"(acc[60]), "+r"(acc[61]), "+r"(acc[62]), "+r"(acc[63])
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_integers(int (&acc)[128], const uint4 &a, uint64_t b, bool add)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %133, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 "
				 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
				 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
				 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
				 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
				 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
				 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
				 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
				 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
				 "{%128, %129, %130, %131}, %132, add;\n"
				 "}"
				 : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3]), "+r"(acc[4]), "+r"(acc[5]), "+r"(acc[6]), "+r"(acc[7]),
				   "+r"(acc[8]), "+r"(acc[9]), "+r"(acc[10]), "+r"(acc[11]), "+r"(acc[12]), "+r"(acc[13]), "+r"(acc[14]), "+r"(acc[15]),
				   "+r"(acc[16]), "+r"(acc[17]), "+r"(acc[18]), "+r"(acc[19]), "+r"(acc[20]), "+r"(acc[21]), "+r"(acc[22]), "+r"(acc[23]),
				   "+r"(acc[24]), "+r"(acc[25]), "+r"(acc[26]), "+r"(acc[27]), "+r"(acc[28]), "+r"(acc[29]), "+r"(acc[30]), "+r"(acc[31]),
				   "+r"(acc[32]), "+r"(acc[33]), "+r"(acc[34]), "+r"(acc[35]), "+r"(acc[36]), "+r"(acc[37]), "+r"(acc[38]), "+r"(acc[39]),
				   "+r"(acc[40]), "+r"(acc[41]), "+r"(acc[42]), "+r"(acc[43]), "+r"(acc[44]), "+r"(acc[45]), "+r"(acc[46]), "+r"(acc[47]),
				   "+r"(acc[48]), "+r"(acc[49]), "+r"(acc[50]), "+r"(acc[51]), "+r"(acc[52]), "+r"(acc[53]), "+r"(acc[54]), "+r"(acc[55]),
				   "+r"(acc[56]), "+r"(acc[57]), "+r"(acc[58]), "+r"(acc[59]), "+r"(acc[60]), "+r"(acc[61]), "+r"(acc[62]), "+r"(acc[63]),
				   "+r"(acc[64]), "+r"(acc[65]), "+r"(acc[66]), "+r"(acc[67]), "+r"(acc[68]), "+r"(acc[69]), "+r"(acc[70]), "+r"(acc[71]),
				   "+r"(acc[72]), "+r"(acc[73]), "+r"(acc[74]), "+r"(acc[75]), "+r"(acc[76]), "+r"(acc[77]), "+r"(acc[78]), "+r"(acc[79]),
				   "+r"(acc[80]), "+r"(acc[81]), "+r"(acc[82]), "+r"(acc[83]), "+r"(acc[84]), "+r"(acc[85]), "+r"(acc[86]), "+r"(acc[87]),
				   "+r"(acc[88]), "+r"(acc[89]), "+r"(acc[90]), "+r"(acc[91]), "+r"(acc[92]), "+r"(acc[93]), "+r"(acc[94]), "+r"(acc[95]),
				   "+r"(acc[96]), "+r"(acc[97]), "+r"(acc[98]), "+r"(acc[99]), "+r"(acc[100]), "+r"(acc[101]), "+r"(acc[102]), "+r"(acc[103]),
				   "+r"(acc[104]), "+r"(acc[105]), "+r"(acc[106]), "+r"(acc[107]), "+r"(acc[108]), "+r"(acc[109]), "+r"(acc[110]), "+r"(acc[111]),
				   "+r"(acc[112]), "+r"(acc[113]), "+r"(acc[114]), "+r"(acc[115]), "+r"(acc[116]), "+r"(acc[117]), "+r"(acc[118]), "+r"(acc[119]),
				   "+r"(acc[120]), "+r"(acc[121]), "+r"(acc[122]), "+r"(acc[123]), "+r"(acc[124]), "+r"(acc[125]), "+r"(acc[126]), "+r"(acc[127])
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_32_shared(float acc[16], uint64_t a, uint64_t b, bool add, __half)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %18, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
				 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
				 "%16, %17, add, 1, 1, 0, 0;\n"
				 "}"
				 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
				   "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15])
				 : "l"(a), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_32_shared(float acc[16], uint64_t a, uint64_t b, bool add, __nv_bfloat16)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %18, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
				 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
				 "%16, %17, add, 1, 1, 0, 0;\n"
				 "}"
				 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
				   "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15])
				 : "l"(a), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_128_shared(float acc[64], uint64_t a, uint64_t b, bool add, __half)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %66, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
				 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
				 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
				 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
				 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
				 "%64, %65, add, 1, 1, 0, 0;\n"
				 "}"
				 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
				   "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]),
				   "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]),
				   "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31]),
				   "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]), "+f"(acc[37]), "+f"(acc[38]), "+f"(acc[39]),
				   "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]), "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]),
				   "+f"(acc[48]), "+f"(acc[49]), "+f"(acc[50]), "+f"(acc[51]), "+f"(acc[52]), "+f"(acc[53]), "+f"(acc[54]), "+f"(acc[55]),
				   "+f"(acc[56]), "+f"(acc[57]), "+f"(acc[58]), "+f"(acc[59]), "+f"(acc[60]), "+f"(acc[61]), "+f"(acc[62]), "+f"(acc[63])
				 : "l"(a), "l"(b), "r"((int) add));
}

__device__ __forceinline__ void
multiply_128_shared(float acc[64], uint64_t a, uint64_t b, bool add, __nv_bfloat16)
{
	asm volatile("{\n"
				 ".reg .pred add;\n"
				 "setp.ne.b32 add, %66, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
				 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
				 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
				 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
				 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
				 "%64, %65, add, 1, 1, 0, 0;\n"
				 "}"
				 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]),
				   "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]),
				   "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]),
				   "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31]),
				   "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]), "+f"(acc[37]), "+f"(acc[38]), "+f"(acc[39]),
				   "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]), "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]),
				   "+f"(acc[48]), "+f"(acc[49]), "+f"(acc[50]), "+f"(acc[51]), "+f"(acc[52]), "+f"(acc[53]), "+f"(acc[54]), "+f"(acc[55]),
				   "+f"(acc[56]), "+f"(acc[57]), "+f"(acc[58]), "+f"(acc[59]), "+f"(acc[60]), "+f"(acc[61]), "+f"(acc[62]), "+f"(acc[63])
				 : "l"(a), "l"(b), "r"((int) add));
}

#endif

#endif /* MAXSIM_WGMMA_CUH */
