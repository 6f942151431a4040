/*
 * device.cuh
 *		The instructions that CUDA C++ has no word for, one short function each.
 *
 * Everything for compute capability 9.0 and later is left out of older builds;
 * the warpgroup instructions are in wgmma.cuh.
 */
#ifndef MAXSIM_DEVICE_CUH
#define MAXSIM_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define MAXSIM_WARP 32
#define MAXSIM_ALL_LANES 0xffffffffu

__device__ __forceinline__ uint32_t
shared_address(const void *pointer)
{
	return (uint32_t) __cvta_generic_to_shared(pointer);
}

__device__ __forceinline__ uint4
load_shared_16(uint32_t address)
{
	uint4 v;

	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
				 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
				 : "r"(address)
				 : "memory");
	return v;
}

__device__ __forceinline__ uint2
load_shared_8(uint32_t address)
{
	uint2 v;

	asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
				 : "=r"(v.x), "=r"(v.y)
				 : "r"(address)
				 : "memory");
	return v;
}

__device__ __forceinline__ uint32_t
load_shared_4(uint32_t address)
{
	uint32_t v;

	asm volatile("ld.shared.u32 %0, [%1];"
				 : "=r"(v)
				 : "r"(address)
				 : "memory");
	return v;
}

/* A 16-byte asynchronous copy to shared memory. */
__device__ __forceinline__ void
copy_16(uint32_t to, const void *from)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from)
				 : "memory");
}

/* The same with a policy for the second-level cache. */
__device__ __forceinline__ void
copy_16_hinted(uint32_t to, const void *from, uint64_t policy)
{
	asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "l"(policy)
				 : "memory");
}

/* A 16-byte copy by way of the first-level cache, where it stays. */
__device__ __forceinline__ void
copy_16_cached(uint32_t to, const void *from)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from)
				 : "memory");
}

/* Brings what is around an address into the second-level cache. */
__device__ __forceinline__ void
prefetch_line(const void *at)
{
	asm volatile("prefetch.global.L2 [%0];" ::"l"(at)
				 : "memory");
}

__device__ __forceinline__ void
copy_commit(void)
{
	asm volatile("cp.async.commit_group;" ::
					 : "memory");
}

/* Waits until at most n of this thread's groups of copies are in flight. */
template <int n>
__device__ __forceinline__ void
copy_wait(void)
{
	asm volatile("cp.async.wait_group %0;" ::"n"(n)
				 : "memory");
}

/* Orders this thread's accesses, and what it has seen of others', for the whole device. */
__device__ __forceinline__ void
fence_device(void)
{
	asm volatile("fence.acq_rel.gpu;" ::
					 : "memory");
}

/* A barrier among threads of a block: all that name the same id. */
__device__ __forceinline__ void
barrier_among(int id, int nthreads)
{
	asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(nthreads)
				 : "memory");
}

/* acc += a * b; a is 16 rows by 16, b 16 by 8 columns. */
__device__ __forceinline__ void
mma_16816(float acc[4], const uint4 &a, uint32_t b0, uint32_t b1, __half)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
				 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void
mma_16816(float acc[4], const uint4 &a, uint32_t b0, uint32_t b1, __nv_bfloat16)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
				 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/* acc += a * b, all of int8; a is 16 rows by 32, b 32 by 8 columns. */
__device__ __forceinline__ void
mma_16832(int acc[4], const uint4 &a, uint32_t b0, uint32_t b1)
{
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
				 : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
				 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/* Takes a pair of bf16 from x and y. */
__device__ __forceinline__ void
subtract_pair(float &x, float &y, uint32_t bits)
{
	x -= __uint_as_float(bits << 16);
	y -= __uint_as_float(bits & 0xffff0000u);
}

/*
 * Two float32 as three pairs of bf16 whose sum is exact: 8 bits of significand
 * each, the first cut off so that it cannot overflow.  A product of two such numbers
 * then takes six products of bf16; the three left out are below 2^-22 of it, on
 * average 2^-25.
 */
__device__ __forceinline__ void
split_pair(float x, float y, uint32_t parts[3])
{
	parts[0] = __byte_perm(__float_as_uint(x), __float_as_uint(y), 0x7632);
	subtract_pair(x, y, parts[0]);
#pragma unroll
	for (int i = 1; i < 3; i++)
	{
		__nv_bfloat162 pair = __floats2bfloat162_rn(x, y);

		parts[i] = *reinterpret_cast<uint32_t *>(&pair);
		subtract_pair(x, y, parts[i]);
	}
}

/*
 * How the second-level cache is to treat what is copied: as the first to leave it, or
 * 0 for as ever.
 */
__device__ __forceinline__ uint64_t
cache_policy(bool evict_first)
{
	uint64_t policy;

	asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;"
				 : "=l"(policy));
	return evict_first ? policy : 0;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ void
mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
				 : "memory");
}

/* Makes initialised barriers known to the copy engine. */
__device__ __forceinline__ void
mbarrier_init_fence(void)
{
	asm volatile("fence.mbarrier_init.release.cluster;" ::
					 : "memory");
}

__device__ __forceinline__ void
mbarrier_arrive(uint32_t barrier)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
				 : "memory");
}

__device__ __forceinline__ void
mbarrier_expect(uint32_t barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
				 : "memory");
}

/* Waits for the end of the phase of this parity. */
__device__ __forceinline__ void
mbarrier_wait(uint32_t barrier, uint32_t parity)
{
	asm volatile("{\n"
				 ".reg .pred done;\n"
				 "again:\n"
				 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
				 "@done bra.uni finished;\n"
				 "bra.uni again;\n"
				 "finished:\n"
				 "}" ::"r"(barrier),
				 "r"(parity)
				 : "memory");
}

/* One copy of any multiple of 16 bytes by the copy engine. */
__device__ __forceinline__ void
copy_bulk(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier, uint64_t policy)
{
	if (policy != 0)
		asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
					 "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
					 : "memory");
	else
		asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
					 "l"(from), "r"(bytes), "r"(barrier)
					 : "memory");
}

/* From shared memory to global memory; done when the thread's groups are. */
__device__ __forceinline__ void
store_bulk(void *to, uint32_t from, uint32_t bytes)
{
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
				 : "memory");
	asm volatile("cp.async.bulk.commit_group;" ::
					 : "memory");
}

/* Until at most n of the thread's stores still read shared memory. */
template <int n>
__device__ __forceinline__ void
store_bulk_wait(void)
{
	asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n)
				 : "memory");
}

/* Makes ordinary writes to shared memory visible to the tensor cores. */
__device__ __forceinline__ void
fence_async_proxy(void)
{
	asm volatile("fence.proxy.async.shared::cta;" ::
					 : "memory");
}

__device__ __forceinline__ uint32_t
cluster_rank(void)
{
	uint32_t rank;

	asm volatile("mov.u32 %0, %%cluster_ctarank;"
				 : "=r"(rank));
	return rank;
}

/* Of the cluster in the grid's first dimension. */
__device__ __forceinline__ uint32_t
cluster_number(void)
{
	uint32_t number;

	asm volatile("mov.u32 %0, %%clusterid.x;"
				 : "=r"(number));
	return number;
}

/* Orders nothing but initialised barriers: that the cluster's blocks have begun. */
__device__ __forceinline__ void
cluster_arrive(void)
{
	asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::
					 : "memory");
}

__device__ __forceinline__ void
cluster_wait(void)
{
	asm volatile("barrier.cluster.wait.acquire.aligned;" ::
					 : "memory");
}

/*
 * Writes to the same place of shared memory in another block of the cluster, which
 * waits for the bytes at a barrier in the same place as this block's.
 */
__device__ __forceinline__ void
store_remote(uint32_t address, uint32_t barrier, uint32_t rank, float value)
{
	asm volatile("{\n"
				 ".reg .b32 to, at;\n"
				 "mapa.shared::cluster.u32 to, %0, %2;\n"
				 "mapa.shared::cluster.u32 at, %1, %2;\n"
				 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [to], %3, [at];\n"
				 "}" ::"r"(address),
				 "r"(barrier), "r"(rank), "r"(__float_as_uint(value))
				 : "memory");
}

/* Waits for the end of a barrier's first phase, and what blocks of the cluster stored. */
__device__ __forceinline__ void
mbarrier_wait_remote(uint32_t barrier)
{
	asm volatile("{\n"
				 ".reg .pred done;\n"
				 "again:\n"
				 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n"
				 "@done bra.uni finished;\n"
				 "bra.uni again;\n"
				 "finished:\n"
				 "}" ::"r"(barrier)
				 : "memory");
}

#endif

#endif /* MAXSIM_DEVICE_CUH */
