/*
 * engine_bench.c
 *		How fast the CPU engines are, as a share of what the processor can multiply.
 *
 * "hot" scores one document again and again; "stream" scores documents that fill
 * 1.5 GB in random order, each at a multiple of 16 bytes as in a database buffer.
 * Rounds of the engine alternate with rounds of a loop of nothing but
 * multiply-adds at the engine's vector width, and the share is taken within a
 * pair: so a processor that is slowed down for a while slows down both.  Medians
 * over all rounds are reported.
 *
 *		engine_bench [engine=NAME] [format=NAME] [mode=NAME] [shape=QxNxD] [rounds=N]
 *
 * Arguments narrow down what runs.  The output is one line a case, separated by
 * tabs, below lines of comment that name the machine.
 */
#define _GNU_SOURCE
#include "../src/element.h"
#include "../src/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define LENGTHOF(array) ((int) (sizeof(array) / sizeof(array[0])))
#define STREAM_BYTES ((size_t) 1536 << 20)
#define ALIGNMENT 16
#define MAX_ROUNDS 101
#define MAX_BATCH 2048
#define MAX_DOCUMENTS (STREAM_BYTES / 256)
#define ROUND_SECONDS 0.006
#define PEAK_SECONDS 0.002

typedef struct Shape
{
	uint32_t query;
	uint32_t ntokens;
	uint32_t dim;
} Shape;

/* The first is measured everywhere, the others with wide vectors and hot. */
static const Shape shapes[] = {
	{32, 300, 128},
	{32, 35, 128},
	{32, 1030, 128},
	{32, 300, 48},
	{32, 300, 96},
	{32, 300, 100},
	{32, 300, 320},
	{32, 300, 1024},
	{1, 300, 128},
	{4, 300, 128},
	{8, 300, 128},
	{16, 300, 128},
	{20, 300, 128},
	{48, 300, 128},
	{128, 300, 128},
};

/* What is scored: documents of a format, and b1 also against signs of the query. */
#define SIGNS MAXSIM_NFORMATS
#define NKINDS (MAXSIM_NFORMATS + 1)

static const char *const kind_names[NKINDS] = {"f32", "f16", "bf16", "i8", "b1", "signs"};
static const char *const mode_names[] = {"hot", "stream"};

static char *arena;
static MaxsimDocument *documents;
static uint32_t ndocuments;
static int rounds = 41;

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

static uint32_t
random_below(uint32_t n)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t) (((state >> 32) * n) >> 32);
}

static float
random_float(void)
{
	return (float) random_below(1 << 20) * 0x1p-19f - 1;
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *) a;
	double y = *(const double *) b;

	return (x > y) - (x < y);
}

static double
median(double *values, int n)
{
	qsort(values, n, sizeof(double), compare_doubles);
	return values[n / 2];
}

/*
 * Floating-point operations a second of independent multiply-adds.  The asm
 * statements keep the compiler from seeing that the sums could be merged.
 */
#ifdef __x86_64__

#define PEAK_SUMS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define PEAK_DECLARE(i) sum##i = a;
#define PEAK_HIDE(i) __asm__ volatile("" \
									  : "+v"(sum##i));
#define PEAK_FMA_512(i) sum##i = _mm512_fmadd_ps(a, b, sum##i);
#define PEAK_FMA_256(i) sum##i = _mm256_fmadd_ps(a, b, sum##i);

#define DEFINE_PEAK(name, Vector, lanes, set1, FMA, features)                            \
	static __attribute__((target(features))) double                                      \
	name(void)                                                                           \
	{                                                                                    \
		Vector a = set1(0.5f), b = set1(0.25f);                                          \
		Vector sum0, sum1, sum2, sum3, sum4, sum5, sum6, sum7, sum8, sum9, sum10, sum11; \
		double start = now(), elapsed;                                                   \
		long n = 0;                                                                      \
                                                                                         \
		PEAK_SUMS(PEAK_DECLARE)                                                          \
		do                                                                               \
		{                                                                                \
			for (int i = 0; i < 20000; i++)                                              \
			{                                                                            \
				__asm__ volatile(""                                                      \
								 : "+v"(a), "+v"(b));                                    \
				PEAK_SUMS(FMA)                                                           \
				PEAK_SUMS(PEAK_HIDE)                                                     \
			}                                                                            \
			n += 20000;                                                                  \
			elapsed = now() - start;                                                     \
		} while (elapsed < PEAK_SECONDS);                                                \
		return (double) n * 12 * lanes * 2 / elapsed;                                    \
	}

DEFINE_PEAK(peak_512, __m512, 16, _mm512_set1_ps, PEAK_FMA_512, "avx512f")
DEFINE_PEAK(peak_256, __m256, 8, _mm256_set1_ps, PEAK_FMA_256, "avx2,fma")

#endif

/* The peak that an engine is compared with; 0 where there is no loop for it. */
static double
peak(const MaxsimEngine *engine)
{
#ifdef __x86_64__
	if (strncmp(engine->name, "avx512", 6) == 0)
		return peak_512();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return peak_256();
#endif
	(void) engine;
	return 0;
}

/* Fills the arena with values between -1 and 1 of a format. */
static void
fill_arena(MaxsimFormat format)
{
	const size_t block = 1 << 20;
	size_t i;

	for (i = 0; i < block / sizeof(float); i++)
	{
		const float value = random_float();
		uint16_t *halves = (uint16_t *) arena + 2 * i;

		switch (format)
		{
			case MAXSIM_F32:
				((float *) arena)[i] = value;
				break;
			case MAXSIM_F16:
				halves[0] = maxsim_f16_from_f32(value);
				halves[1] = maxsim_f16_from_f32(random_float());
				break;
			case MAXSIM_BF16:
				halves[0] = maxsim_bf16_from_f32(value);
				halves[1] = maxsim_bf16_from_f32(random_float());
				break;
			default:
				((uint32_t *) arena)[i] = random_below(UINT32_MAX);
		}
	}
	for (i = block; i < STREAM_BYTES; i += block)
		memcpy(arena + i, arena, block);
}

/* Scales of i8 that are numbers, in documents that lie where lay_out() wants them. */
static void
write_scales(const Shape *shape, bool stream)
{
	const size_t row_size = maxsim_row_size(MAXSIM_I8, shape->dim);
	const float scale = 1.0f / 127;
	uint32_t i;
	uint32_t row;

	for (i = 0; i < (stream ? ndocuments : 1); i++)
		for (row = 0; row < shape->ntokens; row++)
			memcpy((char *) documents[i].tokens + row * row_size, &scale, sizeof(scale));
}

/* Lays documents out in the arena one after another, then shuffles them. */
static void
lay_out(const Shape *shape, MaxsimFormat format, bool stream)
{
	const size_t size = shape->ntokens * maxsim_row_size(format, shape->dim);
	const size_t distance = size / ALIGNMENT * ALIGNMENT + 2 * ALIGNMENT; /* header, odd alignment */
	uint32_t i;

	ndocuments = (uint32_t) (STREAM_BYTES / distance);
	if (ndocuments > MAX_DOCUMENTS)
		ndocuments = MAX_DOCUMENTS;
	for (i = 0; i < ndocuments; i++)
		documents[i] = (MaxsimDocument){arena + (stream ? i : 0) * distance + ALIGNMENT, shape->ntokens};
	if (format == MAXSIM_I8)
		write_scales(shape, stream);
	for (i = ndocuments - 1; i > 0; i--)
	{
		uint32_t other = random_below(i + 1);
		MaxsimDocument swap = documents[i];

		documents[i] = documents[other];
		documents[other] = swap;
	}
}

/* One case: a line of output. */
static void
run_case(const MaxsimEngine *engine, int kind, const Shape *shape, bool stream)
{
	const MaxsimFormat format = kind == SIGNS ? MAXSIM_B1 : (MaxsimFormat) kind;
	const double flop = 2.0 * shape->query * shape->ntokens * shape->dim;
	float *tokens = malloc(sizeof(float) * shape->query * shape->dim);
	MaxsimQuery query = {tokens, NULL, shape->query, shape->dim, kind == SIGNS};
	void *memory = malloc(engine->prepared_size(&query, format));
	static float scores[MAX_BATCH];
	MaxsimBatch batch = {.documents = documents, .ndocuments = 16, .scores = scores};
	char message[MAXSIM_MESSAGE_SIZE];
	double rates[MAX_ROUNDS];
	double shares[MAX_ROUNDS];
	double rate;
	uint32_t first = 0;
	int round;

	for (size_t i = 0; i < (size_t) shape->query * shape->dim; i++)
		tokens[i] = random_float();
	if (engine->prepare(&query, format, memory, &batch.query, message) != MAXSIM_OK)
	{
		fprintf(stderr, "engine_bench: %s\n", message);
		exit(1);
	}
	lay_out(shape, format, stream);
	for (round = -1; round < rounds; round++)
	{
		double before = peak(engine);
		double start = now();
		double elapsed;
		double after;
		long n = 0;

		do
		{
			if (first + batch.ndocuments > ndocuments)
				first = 0;
			batch.documents = documents + first;
			engine->score(&batch);
			first += batch.ndocuments;
			n += batch.ndocuments;
			elapsed = now() - start;
		} while (elapsed < ROUND_SECONDS);
		after = peak(engine);

		/* the round before the first warms up and finds the size of a batch */
		rate = (double) n / elapsed;
		if (round < 0)
		{
			batch.ndocuments = rate * 0.002 < 16 ? 16 : rate * 0.002 > MAX_BATCH ? MAX_BATCH
																				 : (uint32_t) (rate * 0.002);
			continue;
		}
		rates[round] = rate;
		shares[round] = rate * flop * 2 / (before + after);
	}
	rate = median(rates, rounds);
	printf("engine\t%s\t%s\t%ux%ux%u\t%s\t%.0f\t%.3f\t%.1f\t", engine->name, kind_names[kind], shape->query,
		   shape->ntokens, shape->dim, mode_names[stream], rate, 1e6 / rate, rate * flop * 1e-9);
	if (peak(engine) > 0)
		printf("%.3f\n", median(shares, rounds));
	else
		printf("-\n");
	fflush(stdout);
	free(tokens);
	free(memory);
}

static void
print_head(int argc, char **argv)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];
	time_t today = time(NULL);

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "model name", 10) == 0)
		{
			printf("# cpu: %s", strchr(line, ':') + 2);
			break;
		}
	if (file)
		fclose(file);
	printf("# compiler: " __VERSION__ "\n");
	strftime(line, sizeof(line), "%Y-%m-%d", gmtime(&today));
	printf("# date: %s\n# command:", line);
	for (int i = 0; i < argc; i++)
		printf(" %s", argv[i]);
	printf("\n# benchmark\tengine\tformat\tshape\tmode\tdocs_per_s\tus_per_doc\tgflops\tshare_of_peak\n");
}

/* Whether name=value of the command line, if given, is value. */
static bool
wanted(int argc, char **argv, const char *name, const char *value)
{
	const size_t length = strlen(name);

	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
			return strcmp(argv[i] + length + 1, value) == 0;
	return true;
}

/* AVX-512 without VNNI or VPOPCNTDQ has kernels of its own for i8 and signs alone. */
static bool
differs_not(const MaxsimEngine *engine, int kind)
{
	return strncmp(engine->name, "avx512_", 7) == 0 &&
		   kind != (strcmp(engine->name, "avx512_base") == 0 ? (int) MAXSIM_I8 : SIGNS);
}

int
main(int argc, char **argv)
{
	bool supported;

	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "rounds=", 7) == 0)
			rounds = atoi(argv[i] + 7);
	if (rounds < 1 || rounds > MAX_ROUNDS)
		rounds = MAX_ROUNDS;
	arena = mmap(NULL, STREAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	documents = malloc(sizeof(MaxsimDocument) * MAX_DOCUMENTS);
	if (arena == MAP_FAILED || documents == NULL)
	{
		perror("engine_bench");
		return 1;
	}

	print_head(argc, argv);
	for (int kind = 0; kind < NKINDS; kind++)
	{
		if (!wanted(argc, argv, "format", kind_names[kind]))
			continue;
		fill_arena(kind == SIGNS ? MAXSIM_B1 : (MaxsimFormat) kind);
		for (int e = 0; maxsim_cpu_engine_at(e, &supported); e++)
			for (int s = 0; s < LENGTHOF(shapes); s++)
				for (int stream = 0; stream < 2; stream++)
				{
					const MaxsimEngine *engine = maxsim_cpu_engine_at(e, &supported);
					char name[64];

					snprintf(name, sizeof(name), "%ux%ux%u", shapes[s].query, shapes[s].ntokens, shapes[s].dim);
					if (!supported || differs_not(engine, kind) || (s > 0 && (stream || strcmp(engine->name, "portable") == 0)) ||
						!wanted(argc, argv, "engine", engine->name) || !wanted(argc, argv, "shape", name) ||
						!wanted(argc, argv, "mode", mode_names[stream]))
						continue;
					run_case(engine, kind, &shapes[s], stream);
				}
	}
	return 0;
}
