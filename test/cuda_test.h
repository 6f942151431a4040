/*
 * cuda_test.h
 *		What the files of the CUDA engine's test share.
 */
#ifndef CUDA_TEST_H
#define CUDA_TEST_H

#include "engine_cuda.h"

#define LENGTHOF(array) ((int) (sizeof(array) / sizeof((array)[0])))

/* The same bytes in pinned memory of the host and in GPU memory. */
#define ARENA_SIZE ((size_t) 192 << 20)

extern MaxsimCudaDevice *device;
extern MaxsimCudaLane *lane;
extern bool quick;
extern bool few; /* and quick */
extern const char *const format_names[MAXSIM_NFORMATS];
extern char *arena;         /* host, registered */
extern uint64_t host_arena; /* as the device sees it */
extern uint64_t gpu_arena;

extern void check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* false, after a failed check, unless status is expected. */
extern bool expect(MaxsimCudaStatus status, MaxsimCudaStatus expected, const char *what, const char *message);
extern uint32_t random_below(uint32_t n);
extern float random_float(void); /* -0.5 to 0.5 */
extern void *allocate(size_t size);
extern float round_to_format(float value, MaxsimFormat format);
extern void put_element(void *elements, size_t i, float value, MaxsimFormat format);
extern float get_element(const void *elements, size_t i, MaxsimFormat format);
extern bool same_bits(float a, float b);

/* Random elements: small integers, or anything between -0.5 and 0.5. */
extern void fill(void *elements, size_t n, MaxsimFormat format, bool integers);
extern void make_query(MaxsimQuery *query, uint32_t ntokens, uint32_t dim, MaxsimFormat format, bool integers,
					   bool weighted);
extern void free_query(MaxsimQuery *query);
extern double reference_score(const MaxsimQuery *query, const void *document, uint32_t ntokens, MaxsimFormat format,
							  double *tolerance);

/* Scores on the lane, whose memory for scores was poisoned; false after a failed check. */
extern bool score(MaxsimCudaLane *lane, const MaxsimCudaDocument *documents, uint32_t n, float *scores,
				  const char *what);
extern bool set_query(MaxsimCudaLane *lane, const MaxsimQuery *query, MaxsimFormat format, const char *what);

/* Copies the arena's first bytes to the GPU. */
extern void upload(size_t size);

extern void test_cases(void);

#endif /* CUDA_TEST_H */
