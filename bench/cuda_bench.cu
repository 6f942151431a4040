/*
 * cuda_bench.cu
 *		Times of the CUDA kernels beside a plain read of the same documents.
 *
 *		cuda_bench [--evict 0|1] [--cluster n] [--cut n] [--rounds n] [name ...]
 *
 * One launch between two events, the median of 50.  "flush": 256 MB are written
 * before each launch, so that the second-level cache is full of what must be written
 * back; "clean": then 512 MB are read, so that nothing is.  Documents lie scattered,
 * aligned to 256 bytes.  The options overrule the plan; names choose rows.
 */
#include "engine_cuda.h"
#include "kernels.h"

#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <vector>

#define CHECK(call) check_call(call, #call)
#define FLUSH_BYTES ((size_t) 256 << 20)
#define CLEAN_BYTES ((size_t) 512 << 20)

enum Lengths
{
	FIXED,    /* all of high tokens */
	UNIFORM,  /* low to high */
	LOGNORMAL /* 73 on average, one of 512 */
};

struct Row
{
	const char *name;
	MaxsimFormat format;
	uint32_t ndocuments;
	uint32_t ntokens; /* of the query */
	uint32_t dim;
	Lengths lengths;
	uint32_t low;
	uint32_t high;
	double goal_flush; /* microseconds; 0: none */
	double goal_clean;
};

static const Row rows[] = {
	{"colbert", MAXSIM_F16, 1000, 32, 128, FIXED, 0, 300, 25.5, 22.5},
	{"colbert10k", MAXSIM_F16, 10000, 32, 128, FIXED, 0, 300, 180, 171},
	{"longdoc", MAXSIM_F16, 1000, 32, 128, FIXED, 0, 1024, 70, 62},
	{"medium", MAXSIM_F16, 1000, 128, 128, FIXED, 0, 1024, 75, 67},
	{"colpali", MAXSIM_F16, 1000, 1024, 128, FIXED, 0, 1024, 355, 355},
	{"ragged", MAXSIM_F16, 1000, 32, 128, LOGNORMAL, 0, 512, 11.5, 10.5},
	{"short", MAXSIM_F16, 1000, 32, 128, UNIFORM, 16, 128, 11, 9.9},
	{"tiny", MAXSIM_F16, 50, 32, 128, UNIFORM, 64, 300, 6.5, 6.0},
	{"q64", MAXSIM_F16, 1000, 64, 128, FIXED, 0, 1024, 73.6, 64},
	{"q128x300", MAXSIM_F16, 1000, 128, 128, FIXED, 0, 300, 28.6, 26.3},
	{"q256", MAXSIM_F16, 1000, 256, 128, FIXED, 0, 1024, 0, 110},
	{"q512", MAXSIM_F16, 1000, 512, 128, FIXED, 0, 1024, 0, 192},
	{"q8192", MAXSIM_F16, 200, 8192, 128, FIXED, 0, 1024, 0, 0},
	{"page1030", MAXSIM_F16, 1000, 1024, 128, FIXED, 0, 1030, 0, 0},
	{"few32", MAXSIM_F16, 50, 32, 128, FIXED, 0, 1024, 0, 9.8},
	{"few128", MAXSIM_F16, 50, 128, 128, FIXED, 0, 1024, 0, 13.7},
	{"few1024", MAXSIM_F16, 50, 1024, 128, FIXED, 0, 1024, 0, 34},
	{"one8192", MAXSIM_F16, 1, 32, 128, FIXED, 0, 8192, 0, 0},
	{"ten8192", MAXSIM_F16, 10, 32, 128, FIXED, 0, 8192, 0, 0},
	{"bf16", MAXSIM_BF16, 1000, 32, 128, FIXED, 0, 300, 0, 0},
	{"bf16colpali", MAXSIM_BF16, 1000, 1024, 128, FIXED, 0, 1024, 0, 0},
	{"d48", MAXSIM_F16, 2000, 32, 48, FIXED, 0, 300, 0, 0},
	{"d64", MAXSIM_F16, 2000, 32, 64, FIXED, 0, 300, 0, 0},
	{"d96", MAXSIM_F16, 1000, 32, 96, FIXED, 0, 300, 0, 0},
	{"d256", MAXSIM_F16, 1000, 32, 256, FIXED, 0, 300, 0, 0},
	{"d320", MAXSIM_F16, 300, 32, 320, FIXED, 0, 1024, 0, 0},
	{"d320q48", MAXSIM_F16, 300, 48, 320, FIXED, 0, 1024, 0, 0},
	{"d320q1024", MAXSIM_F16, 100, 1024, 320, FIXED, 0, 1024, 0, 0},
	{"d640", MAXSIM_F16, 200, 32, 640, FIXED, 0, 1024, 0, 0},
	{"d768", MAXSIM_F16, 300, 32, 768, FIXED, 0, 300, 0, 0},
	{"d1024", MAXSIM_F16, 300, 32, 1024, FIXED, 0, 300, 0, 0},
	{"d1024q64", MAXSIM_F16, 300, 64, 1024, FIXED, 0, 300, 0, 0},
	{"d100", MAXSIM_F16, 1000, 32, 100, FIXED, 0, 300, 0, 0},
	{"f32", MAXSIM_F32, 1000, 32, 128, FIXED, 0, 300, 0, 0},
	{"f32long", MAXSIM_F32, 1000, 32, 128, FIXED, 0, 1024, 0, 0},
	{"f32q128", MAXSIM_F32, 1000, 128, 128, FIXED, 0, 300, 0, 0},
	{"f32d64", MAXSIM_F32, 1000, 32, 64, FIXED, 0, 300, 0, 0},
	{"f32d1024", MAXSIM_F32, 200, 32, 1024, FIXED, 0, 300, 0, 0},
	{"i8", MAXSIM_I8, 1000, 32, 128, FIXED, 0, 300, 0, 0},
	{"i810k", MAXSIM_I8, 10000, 32, 128, FIXED, 0, 300, 0, 107},
	{"i8long", MAXSIM_I8, 1000, 32, 128, FIXED, 0, 1024, 0, 0},
	{"i8q64", MAXSIM_I8, 1000, 64, 128, FIXED, 0, 1024, 0, 0},
	{"i8q128", MAXSIM_I8, 1000, 128, 128, FIXED, 0, 1024, 0, 0},
	{"i8colpali", MAXSIM_I8, 1000, 1024, 128, FIXED, 0, 1024, 0, 0},
	{"i8ragged", MAXSIM_I8, 1000, 32, 128, LOGNORMAL, 0, 512, 0, 0},
	{"i8few", MAXSIM_I8, 50, 32, 128, FIXED, 0, 300, 0, 0},
	{"i8d96", MAXSIM_I8, 10000, 32, 96, FIXED, 0, 300, 0, 0},
	{"i8d320", MAXSIM_I8, 1000, 32, 320, FIXED, 0, 300, 0, 0},
	{"i8d1024", MAXSIM_I8, 1000, 32, 1024, FIXED, 0, 300, 0, 0},
	{"i8d100", MAXSIM_I8, 1000, 32, 100, FIXED, 0, 300, 0, 0},
	{"b1", MAXSIM_B1, 1000, 32, 128, FIXED, 0, 300, 0, 0},
	{"b110k", MAXSIM_B1, 10000, 32, 128, FIXED, 0, 300, 0, 57},
	{"b1long", MAXSIM_B1, 1000, 32, 128, FIXED, 0, 1024, 0, 0},
	{"b1q64", MAXSIM_B1, 1000, 64, 128, FIXED, 0, 1024, 0, 0},
	{"b1q128", MAXSIM_B1, 1000, 128, 128, FIXED, 0, 1024, 0, 0},
	{"b1colpali", MAXSIM_B1, 1000, 1024, 128, FIXED, 0, 1024, 0, 0},
	{"b1ragged", MAXSIM_B1, 1000, 32, 128, LOGNORMAL, 0, 512, 0, 0},
	{"b1few", MAXSIM_B1, 50, 32, 128, FIXED, 0, 300, 0, 0},
	{"b1d96", MAXSIM_B1, 10000, 32, 96, FIXED, 0, 300, 0, 0},
	{"b1d1024", MAXSIM_B1, 1000, 32, 1024, FIXED, 0, 300, 0, 0},
};

static long evict = -1;
static long cluster = -1;
static long cut = -1;
static int rounds = 50;
static MaxsimPlanDevice device;
static MaxsimCudaDevice *opened;
static cudaStream_t stream;
static cudaEvent_t start;
static cudaEvent_t stop;
static char *scratch;
static uint32_t *sink;
static uint64_t random_state = 88172645463325252u;

static void
check_call(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	printf("%s: %s\n", call, cudaGetErrorString(error));
	exit(1);
}

static uint32_t
random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t) (((random_state >> 32) * n) >> 32);
}

/* Reads documents, a block of threads each, and keeps nothing of them. */
static __global__ void __launch_bounds__(256)
	read_documents(const MaxsimPiece *pieces, uint32_t row_size, uint32_t *sink)
{
	const MaxsimPiece piece = pieces[blockIdx.x];
	const uint4 *from = (const uint4 *) (piece.address / 16 * 16);
	const size_t n = (size_t) piece.ntokens * row_size / 16;
	uint32_t sum = 0;
	size_t i = threadIdx.x;

	for (; i + 7 * 256 < n; i += 8 * 256)
	{
		uint4 v[8];

#pragma unroll
		for (int j = 0; j < 8; j++)
			v[j] = __ldcs(from + i + j * 256);
#pragma unroll
		for (int j = 0; j < 8; j++)
			sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
	}
	for (; i < n; i += 256)
	{
		uint4 v = __ldcs(from + i);

		sum ^= v.x ^ v.y ^ v.z ^ v.w;
	}
	if (sum == 0x12345678)
		*sink = sum;
}

static __global__ void
read_all(const uint4 *from, size_t n, uint32_t *sink)
{
	uint32_t sum = 0;

	for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t) gridDim.x * blockDim.x)
		sum ^= from[i].x ^ from[i].w;
	if (sum == 0x12345678)
		*sink = sum;
}

/* Of what fill() fills with; i8 and b1 are bytes. */
static size_t
element_size(MaxsimFormat format)
{
	if (maxsim_plan_is_packed(format))
		return 1;
	return maxsim_row_size(format, 1);
}

/* Random elements from -1 to 1, hashed from their number; for i8 and b1 bytes. */
static __global__ void
fill(void *elements, size_t n, MaxsimFormat format)
{
	for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t) gridDim.x * blockDim.x)
	{
		uint32_t hash = (uint32_t) i * 2654435761u;

		hash = (hash ^ hash >> 15) * 2246822519u;
		hash ^= hash >> 13;
		float value = (float) (int32_t) hash * 0x1p-31f;

		if (format == MAXSIM_F32)
			((float *) elements)[i] = value;
		else if (format == MAXSIM_I8 || format == MAXSIM_B1)
			((uint8_t *) elements)[i] = (uint8_t) max(hash >> 24, 1u) ^ 0x80; /* no -128 */
		else if (format == MAXSIM_F16)
			((__half *) elements)[i] = __float2half(value);
		else
			((__nv_bfloat16 *) elements)[i] = __float2bfloat16(value);
	}
}

/* Scales for documents of i8, a block of threads each. */
static __global__ void
set_scales(const MaxsimPiece *pieces, uint32_t row_size)
{
	const MaxsimPiece piece = pieces[blockIdx.x];

	for (uint32_t token = threadIdx.x; token < piece.ntokens; token += blockDim.x)
		*(float *) (piece.address + (size_t) token * row_size) = 0.002f + 0.0001f * (token % 16);
}

/* The median of some launches in microseconds. */
template <class Launch>
static double
measure(bool flush, bool clean, Launch launch)
{
	std::vector<float> times;

	for (int i = 0; i < rounds + 3; i++)
	{
		float time;

		if (flush)
			CHECK(cudaMemsetAsync(scratch, i, FLUSH_BYTES, stream));
		if (clean)
			read_all<<<1056, 512, 0, stream>>>((const uint4 *) (scratch + FLUSH_BYTES), CLEAN_BYTES / 16, sink);
		CHECK(cudaEventRecord(start, stream));
		launch();
		CHECK(cudaEventRecord(stop, stream));
		CHECK(cudaEventSynchronize(stop));
		CHECK(cudaGetLastError());
		CHECK(cudaEventElapsedTime(&time, start, stop));
		if (i >= 3)
			times.push_back(time * 1000);
	}
	std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
	return times[times.size() / 2];
}

template <class T>
static T *
gpu_array(size_t n)
{
	void *memory;

	CHECK(cudaMalloc(&memory, n * sizeof(T) + 256));
	CHECK(cudaMemset(memory, 0, n * sizeof(T) + 256));
	return (T *) memory;
}

/* A row's documents, query and plan, all on the device. */
struct Work
{
	MaxsimQueryPlan query;
	MaxsimBatchPlan batch;
	MaxsimLaunch launch;
	std::vector<uint32_t> lengths;
	std::vector<void *> memory; /* to be freed */
	uint32_t row_size;
	uint64_t tokens;

	template <class T>
	T *
	array(size_t n)
	{
		T *out = gpu_array<T>(n);

		memory.push_back(out);
		return out;
	}
	void
	free_all(void)
	{
		for (void *m : memory)
			CHECK(cudaFree(m));
	}
};

static void
make_lengths(const Row &row, std::vector<uint32_t> &lengths)
{
	for (uint32_t i = 0; i < row.ndocuments; i++)
	{
		double normal = 0;
		double length = row.high;

		for (int j = 0; j < 12; j++)
			normal += random_below(1 << 20) * 0x1p-20;
		if (row.lengths == UNIFORM)
			length = row.low + random_below(row.high - row.low + 1);
		else if (row.lengths == LOGNORMAL)
			length = i == 0 ? row.high : fmin(row.high, fmax(1, exp(4.1 + 0.6 * (normal - 6))));
		lengths.push_back((uint32_t) length);
	}
}

/* Documents in memory, in random order; the query; pieces. */
static void
prepare(const Row &row, char *arena, Work &work)
{
	const uint32_t n = row.ndocuments;
	std::vector<uint64_t> addresses(n);
	std::vector<uint32_t> order(n);
	std::vector<MaxsimPiece> pieces(maxsim_plan_most_pieces(&device, n));
	std::vector<MaxsimRange> ranges(maxsim_plan_most_ranges(&device) + 1);
	std::vector<uint32_t> places(n);
	uint64_t at = 0;

	work.row_size = (uint32_t) maxsim_row_size(row.format, row.dim);
	make_lengths(row, work.lengths);
	for (uint32_t i = 0; i < n; i++)
		places[i] = i;
	for (uint32_t i = n; i-- > 1;)
		std::swap(places[i], places[random_below(i + 1)]);
	work.tokens = 0;
	for (uint32_t i : places)
	{
		addresses[i] = (uint64_t) arena + at;
		at += ((uint64_t) work.lengths[i] * work.row_size + 255) / 256 * 256;
		work.tokens += work.lengths[i];
	}
	if (!maxsim_plan_query(&device, row.format, row.ntokens, row.dim, &work.query))
		exit(1);
	maxsim_plan_batch(&device, &work.query, work.row_size, work.lengths.data(), n, &work.batch);
	work.batch.evict_first = evict >= 0 ? evict != 0 : work.batch.evict_first;
	work.batch.cluster = cluster >= 0 && work.query.family == MAXSIM_FAMILY_MMA ? (uint32_t) cluster : work.batch.cluster;
	work.batch.cut = cut >= 0 && work.batch.nranges == 0 ? (uint32_t) cut : work.batch.cut;
	maxsim_plan_pieces(&work.batch, &work.query, work.row_size, addresses.data(), work.lengths.data(), n, order.data(),
					   pieces.data(), ranges.data());
	MaxsimPiece *gpu_pieces = work.array<MaxsimPiece>(pieces.size());
	MaxsimRange *gpu_ranges = work.array<MaxsimRange>(ranges.size());
	const size_t width = (size_t) work.query.nblocks * work.query.block_tokens;
	void *image = work.array<char>(work.query.image_size);
	float *weights = work.array<float>(width);
	float *tokens = work.array<float>((size_t) row.ntokens * row.dim);

	fill<<<256, 256, 0, stream>>>(tokens, (size_t) row.ntokens * row.dim, MAXSIM_F32);
	CHECK(cudaMemcpy(gpu_pieces, pieces.data(), pieces.size() * sizeof(MaxsimPiece), cudaMemcpyHostToDevice));
	if (row.format == MAXSIM_I8)
		set_scales<<<work.batch.npieces, 128, 0, stream>>>(gpu_pieces, work.row_size);
	CHECK(cudaMemcpy(gpu_ranges, ranges.data(), ranges.size() * sizeof(MaxsimRange), cudaMemcpyHostToDevice));
	CHECK(maxsim_launch_query(&work.query, row.format, tokens, NULL, row.ntokens, row.dim, image, weights, stream));
	work.launch = MaxsimLaunch{gpu_pieces, gpu_ranges, image, weights, work.array<float>(n),
							   work.array<float>((size_t) work.batch.nslots * work.query.nblocks),
							   work.array<float>(work.batch.nmaxima * width), work.array<uint32_t>(work.batch.nslots),
							   work.batch.npieces, work.batch.nranges, work.query.nblocks, work.batch.cluster, device.processors,
							   row.dim, work.batch.evict_first};
	CHECK(cudaStreamSynchronize(stream));
}

/* Every score is written: none is left as poisoned. */
static bool
all_written(const Work &work, const Row &row)
{
	std::vector<float> scores(row.ndocuments);

	CHECK(cudaMemset(work.launch.scores, 0xff, row.ndocuments * sizeof(float)));
	CHECK(maxsim_launch_score(&work.query, row.format, &work.launch, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(scores.data(), work.launch.scores, row.ndocuments * sizeof(float), cudaMemcpyDeviceToHost));
	for (float score : scores)
		if (!isfinite(score))
			return false;
	return true;
}

static void
run_row(const Row &row, char *arena)
{
	static const char *const families[] = {"mma", "rows", "blocks", "packed", "generic"};
	Work work;
	double read[2];
	double ours[2];

	prepare(row, arena, work);
	if (!all_written(work, row))
	{
		printf("%-12s scores are missing\n", row.name);
		work.free_all();
		return;
	}
	for (int clean = 0; clean < 2; clean++)
	{
		read[clean] = measure(true, clean, [&]()
							  { read_documents<<<work.launch.npieces, 256, 0, stream>>>(work.launch.pieces, work.row_size, sink); });
		ours[clean] = measure(true, clean, [&]()
							  { CHECK(maxsim_launch_score(&work.query, row.format, &work.launch, stream)); });
	}
	printf("%-12s %-7s %5u %5u %5u | %6.1f %6.1f | %6.1f %6.1f | %5.1f %5.1f | %4.2f %4.2f | %5.0f GB/s %4.0f TFLOP/s | %u pieces\n",
		   row.name, families[work.query.family], row.ndocuments, row.ntokens, row.dim, read[0], read[1], ours[0], ours[1],
		   row.goal_flush, row.goal_clean, ours[0] / read[0], ours[1] / read[1],
		   (double) work.tokens * work.row_size / ours[1] * 1e-3,
		   2.0 * (double) work.tokens * row.dim * row.ntokens / ours[1] * 1e-6, work.batch.npieces);
	fflush(stdout);
	work.free_all();
}

/* Documents in pinned memory of the host, or every other one. */
static void
run_host(MaxsimFormat format, uint32_t dim, uint32_t ntokens, uint32_t tokens, size_t size, char *host)
{
	const uint32_t row_size = (uint32_t) maxsim_row_size(format, dim);
	Row row = {"", format, (uint32_t) (size / ((size_t) tokens * row_size)), ntokens, dim, FIXED, 0, tokens, 0, 0};
	Work work;
	double time;

	prepare(row, host, work);
	time = measure(true, true, [&]()
				   { CHECK(maxsim_launch_score(&work.query, format, &work.launch, stream)); });
	printf("pinned %4zu MB, %u documents, query %u, dim %u, %u bytes a token: %8.1f us, %5.1f GB/s\n", size >> 20,
		   row.ndocuments, ntokens, dim, row_size, time,
		   (double) work.tokens * row_size / time * 1e-3);
	work.free_all();
}

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double) time.tv_sec * 1e6 + (double) time.tv_nsec * 1e-3;
}

/* From submit to scores, by the engine's interface. */
static void
run_engine(uint32_t ndocuments, uint32_t ntokens, uint32_t tokens, uint64_t base, const char *where)
{
	char message[MAXSIM_MESSAGE_SIZE] = "";
	std::vector<MaxsimCudaDocument> documents;
	std::vector<float> values((size_t) ntokens * 128, 0.25f);
	std::vector<double> query_times;
	std::vector<double> times;
	MaxsimQuery query = {values.data(), NULL, ntokens, 128, false};
	MaxsimCudaLane *lane;
	const float *scores;

	for (uint32_t i = 0; i < ndocuments; i++)
		documents.push_back(MaxsimCudaDocument{base + (uint64_t) i * tokens * 256, tokens});
	if (maxsim_cuda_lane_open(opened, &lane, message) != MAXSIM_CUDA_OK)
	{
		printf("%s\n", message);
		return;
	}
	for (int i = 0; i < 60; i++)
	{
		double begin = now();
		double middle;

		if (maxsim_cuda_query(lane, &query, MAXSIM_F16, message) != MAXSIM_CUDA_OK)
			printf("%s\n", message);
		middle = now();
		if (maxsim_cuda_submit(lane, documents.data(), ndocuments, message) != MAXSIM_CUDA_OK ||
			maxsim_cuda_wait(lane, &scores, message) != MAXSIM_CUDA_OK)
			printf("%s\n", message);
		times.push_back(now() - middle);
		query_times.push_back(middle - begin);
	}
	std::sort(times.begin(), times.end());
	std::sort(query_times.begin(), query_times.end());
	printf("engine: query of %4u tokens %5.1f us, then %5u documents of %4u in %s: %7.1f us, %6.1f GB/s\n", ntokens,
		   query_times[30], ndocuments, tokens, where, times[30],
		   (double) ndocuments * tokens * 256 / times[30] * 1e-3);
	maxsim_cuda_lane_close(lane);
}

static bool
chosen(const char *name, int argc, char **argv)
{
	bool any = argc <= 1;

	for (int i = 1; i < argc; i++)
		any = any || strcmp(argv[i], name) == 0;
	return any;
}

static bool
option(const char *name, int *argc, char ***argv, long *value)
{
	if (*argc < 3 || strcmp((*argv)[1], name) != 0)
		return false;
	*value = atol((*argv)[2]);
	*argc -= 2;
	*argv += 2;
	return true;
}

int
main(int argc, char **argv)
{
	struct cudaDeviceProp properties;
	const size_t host_size = (size_t) 300 << 20;
	MaxsimFormat filled = MAXSIM_F32;
	size_t arena_size = (size_t) 1 << 30;
	char *arena;
	char *host;
	long n = rounds;

	while (option("--evict", &argc, &argv, &evict) || option("--cluster", &argc, &argv, &cluster) ||
		   option("--cut", &argc, &argv, &cut) ||
		   option("--rounds", &argc, &argv, &n))
		rounds = (int) n;
	CHECK(cudaGetDeviceProperties(&properties, 0));
	device = MaxsimPlanDevice{properties.major, properties.minor, (uint32_t) properties.multiProcessorCount,
							  (uint32_t) properties.sharedMemPerBlockOptin};
	CHECK(maxsim_preload_mma_f16());
	CHECK(maxsim_preload_mma_bf16());
	CHECK(maxsim_preload_mma_f32());
	CHECK(maxsim_preload_packed());
	CHECK(maxsim_preload_others());
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaEventCreate(&start));
	CHECK(cudaEventCreate(&stop));
	scratch = gpu_array<char>(FLUSH_BYTES + CLEAN_BYTES);
	sink = gpu_array<uint32_t>(1);
	arena = gpu_array<char>(arena_size);
	printf("%s; microseconds: plain read, kernel, goal, each flush and clean; kernel / read\n", properties.name);
	printf("%-12s kernel  docs  query   dim |          read |        kernel |        goal |     ratio |\n", "shape");
	for (const Row &row : rows)
	{
		if (!chosen(row.name, argc, argv))
			continue;
		if (&row == rows || row.format != filled)
			fill<<<1056, 512, 0, stream>>>(arena, arena_size / element_size(row.format), row.format);
		filled = row.format;
		run_row(row, arena);
	}
	if (chosen("host", argc, argv))
	{
		char message[MAXSIM_MESSAGE_SIZE] = "";

		host = (char *) mmap(NULL, host_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (host == MAP_FAILED || maxsim_cuda_open(0, &opened, message) != MAXSIM_CUDA_OK ||
			maxsim_cuda_register(opened, host, host_size, message) != MAXSIM_CUDA_OK)
		{
			printf("no pinned memory: %s\n", message);
			return 1;
		}
		fill<<<1056, 512, 0, stream>>>(host, host_size / 2, MAXSIM_F16);
		CHECK(cudaStreamSynchronize(stream));
		for (size_t size = (size_t) 4 << 20; size <= (size_t) 256 << 20; size *= 4)
			run_host(MAXSIM_F16, 128, 32, 300, size, host);
		run_host(MAXSIM_F16, 128, 32, 60, (size_t) 64 << 20, host);
		run_host(MAXSIM_F16, 128, 128, 300, (size_t) 64 << 20, host);
		run_host(MAXSIM_F16, 128, 1024, 1024, (size_t) 64 << 20, host);
		run_host(MAXSIM_F16, 1024, 32, 300, (size_t) 64 << 20, host);
		run_host(MAXSIM_F16, 96, 32, 300, (size_t) 64 << 20, host);
		fill<<<1056, 512, 0, stream>>>(host, host_size / 4, MAXSIM_F32);
		run_host(MAXSIM_F32, 128, 32, 300, (size_t) 64 << 20, host);
		fill<<<1056, 512, 0, stream>>>(host, host_size / 2, MAXSIM_F16);
		fill<<<1056, 512, 0, stream>>>(arena, arena_size / 2, MAXSIM_F16);
		CHECK(cudaStreamSynchronize(stream));
		run_engine(1, 32, 128, (uint64_t) arena, "GPU memory");
		run_engine(100, 32, 128, (uint64_t) arena, "GPU memory");
		run_engine(1000, 32, 300, (uint64_t) arena, "GPU memory");
		run_engine(10000, 32, 300, (uint64_t) arena, "GPU memory");
		run_engine(1000, 1024, 1024, (uint64_t) arena, "GPU memory");
		run_engine(100, 32, 300, (uint64_t) host, "pinned memory");
		run_engine(1000, 32, 300, (uint64_t) host, "pinned memory");
		run_engine(1000, 128, 300, (uint64_t) host, "pinned memory");
		run_engine(1000, 1024, 1024, (uint64_t) host, "pinned memory");
	}
	return 0;
}
