/*
 * cuda_test.h
 *		What the files of the CUDA engine's test share.
 */
#ifndef CUDA_TEST_H
#define CUDA_TEST_H

#include "check.h"
#include "engine_cuda.h"
#include "plan.h"

/* The same bytes in pinned memory of the host and in GPU memory. */
#define ARENA_SIZE ((size_t) 192 << 20)

extern MaxsimCudaDevice *device;
extern MaxsimPlanDevice plan_device;
extern MaxsimCudaLane *lane;
extern bool quick;
extern bool few; /* and quick */
extern const char *const format_names[MAXSIM_NFORMATS];
extern char *arena;         /* host, registered */
extern uint64_t host_arena; /* as the device sees it */
extern uint64_t gpu_arena;

/* false, after a failed check, unless status is expected. */
extern bool expect(MaxsimCudaStatus status, MaxsimCudaStatus expected, const char *what, const char *message);
extern float random_float(void); /* -0.5 to 0.5 */

/* A row of these values, as near as the format comes. */
extern void put_row(void *row, const float *values, uint32_t dim, MaxsimFormat format);

/*
 * Random rows: small integers, or anything between -0.5 and 0.5; of i8 any element with
 * scales from 0.001 to 1.  A query likewise, to 2 in some tokens and 2^-7 in others.
 */
extern void fill_rows(void *rows, size_t n, uint32_t dim, MaxsimFormat format, bool integers);
extern void make_query(MaxsimQuery *query, uint32_t ntokens, uint32_t dim, bool integers, bool weighted);
extern void free_query(MaxsimQuery *query);

/*
 * The score in double precision, and how far from it the engine may be: 1e-5 of the
 * sum of |terms|, and the rounding errors of products that cancel.
 */
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
