/*
 * engine.h
 *		The one C interface between PostgreSQL and whatever computes MaxSim.
 *
 * Nothing of PostgreSQL and nothing of CUDA appears here or to the right of it.
 * An engine never allocates, prints, throws or exits: memory comes from the
 * caller, and what goes wrong comes back as a status and a sentence.
 *
 * The score contract
 *
 *	  score(q, d) = sum over query tokens i of
 *					weight[i] * max over document tokens j of <q[i], d[j]>
 *
 *	- It is a sum, not a mean, with weight 1 where no weights are given.
 *	- The query is first rounded to the document's element format; products are
 *	  accumulated in float32 or better.  f32 documents get true float32.  For i8 and
 *	  b1 documents the query is rounded to 11 bits or more of its token's largest
 *	  component instead, to multiples of a power of two; or, if it asks so, b1 documents
 *	  get its signs.
 *	- No padding ever takes part: all-negative similarities stay negative.
 *	- A score depends on its query and its document alone, bit for bit on one
 *	  engine: not on what else is in the batch, its order or its alignment.
 *	- Engines agree within 1e-5 * sum of |terms|, 1e-3 for i8 and b1; where all
 *	  products and sums are small integers they agree exactly.
 *	- A document without tokens scores minus infinity.  A query has at least one
 *	  token, and every element is finite.
 *
 * MaxSim is the late interaction of ColBERT (Khattab and Zaharia, 2020).
 */
#ifndef MAXSIM_ENGINE_H
#define MAXSIM_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Element formats.  The numbers are stored on disk: never change one.  A token is
 * a row of maxsim_row_size() bytes, little-endian:
 *
 *	f32, f16, bf16	dim elements.
 *	i8				a float32 scale, not negative and at most FLT_MAX / 127, then dim
 *					int8 from -127 to 127; a component is scale * int8.
 *	b1				(dim + 7) / 8 bytes, the first dimension in the highest bit; a component
 *					is 1 where the bit is set, -1 where it is not.  Bits beyond dim are 0.
 */
typedef enum MaxsimFormat
{
	MAXSIM_F32 = 0,
	MAXSIM_F16 = 1,  /* IEEE 754 binary16 */
	MAXSIM_BF16 = 2, /* upper half of a float32 */
	MAXSIM_I8 = 3,
	MAXSIM_B1 = 4
} MaxsimFormat;

#define MAXSIM_NFORMATS 5

typedef enum MaxsimStatus
{
	MAXSIM_OK = 0,
	MAXSIM_STOPPED,       /* the interrupt callback asked to stop */
	MAXSIM_OUT_OF_RANGE,  /* a query element does not fit the document's format */
	MAXSIM_OUT_OF_MEMORY, /* of the device */
	MAXSIM_DEVICE_LOST,   /* nothing can be scored on it any more in this process */
	MAXSIM_INVALID        /* the request does not make sense */
} MaxsimStatus;

#define MAXSIM_MESSAGE_SIZE 160

/* A query as its owner has it. */
typedef struct MaxsimQuery
{
	const float *tokens;  /* [ntokens][dim], finite */
	const float *weights; /* [ntokens], finite; NULL stands for all 1 */
	uint32_t ntokens;     /* at least 1 */
	uint32_t dim;         /* at least 1 */
	bool signs;           /* take the components' signs, 1 where > 0, else -1: b1 documents only */
} MaxsimQuery;

/*
 * A query in the layout that an engine's kernels want, for documents of one
 * format.  Opaque; lives in memory of the caller's.
 */
typedef struct MaxsimPrepared MaxsimPrepared;

/* A document where it lies: ntokens rows, any alignment. */
typedef struct MaxsimDocument
{
	const void *tokens;
	uint32_t ntokens;
} MaxsimDocument;

/*
 * Called between pieces of work of at most a few milliseconds.  Returns true to
 * make the engine stop.  It may also not return at all (longjmp): an engine owns
 * nothing that would leak.
 */
typedef bool (*MaxsimInterrupt)(void *arg);

/* Documents of one format to be scored against one prepared query. */
typedef struct MaxsimBatch
{
	MaxsimPrepared *query;
	const MaxsimDocument *documents; /* [ndocuments] */
	uint32_t ndocuments;
	float *scores;             /* out: [ndocuments], in the order of documents */
	MaxsimInterrupt interrupt; /* NULL: never interrupted */
	void *interrupt_arg;

	/*
	 * What the caller will read next, for engines that can bring memory nearer while they
	 * compute.  It is not read, and need not be there.  NULL: that is not known.
	 */
	const char *ahead;
	size_t ahead_size;
} MaxsimBatch;

/*
 * An engine.
 *
 * prepared_size	bytes that prepare() wants for this query and format; 0 if that
 *					exceeds size_t.
 * prepare			lays the query out in memory, prepared_size() bytes at any
 *					alignment, and sets *prepared to somewhere inside it.  The query
 *					is not needed afterwards.  On failure message says why.
 * score			scores a batch.  Scores are undefined unless it returns MAXSIM_OK.
 *
 * A document too large for one buffer is scored in slices of its tokens, to the
 * same bits as in one piece:
 *
 * begin			forgets what was folded before.
 * fold				takes in a slice: ntokens rows at tokens.
 * finish			the score of what was folded; minus infinity if that was nothing.
 *
 * One prepared query serves one thread at a time.
 */
typedef struct MaxsimEngine
{
	const char *name;
	size_t (*prepared_size)(const MaxsimQuery *query, MaxsimFormat format);
	MaxsimStatus (*prepare)(const MaxsimQuery *query, MaxsimFormat format, void *memory,
							MaxsimPrepared **prepared, char message[MAXSIM_MESSAGE_SIZE]);
	MaxsimStatus (*score)(const MaxsimBatch *batch);
	void (*begin)(MaxsimPrepared *prepared);
	MaxsimStatus (*fold)(MaxsimPrepared *prepared, const void *tokens, uint32_t ntokens,
						 MaxsimInterrupt interrupt, void *interrupt_arg);
	float (*finish)(const MaxsimPrepared *prepared);
} MaxsimEngine;

/* Bytes of a token. */
static inline size_t
maxsim_row_size(MaxsimFormat format, uint32_t dim)
{
	switch (format)
	{
		case MAXSIM_F32:
			return (size_t) dim * 4;
		case MAXSIM_I8:
			return sizeof(float) + (size_t) dim;
		case MAXSIM_B1:
			return ((size_t) dim + 7) / 8;
		default:
			return (size_t) dim * 2;
	}
}

/*
 * The CPU engine with the best instruction set that this processor and its
 * operating system support.
 */
extern const MaxsimEngine *maxsim_cpu_engine(void);

/*
 * The CPU engine number i with one instruction set, best first, named for that
 * set: "avx512", "avx2", "neon", "portable", and for AVX-512 without VPOPCNTDQ
 * "avx512_vnni", without VNNI either "avx512_base".  NULL past the last one built.
 * *supported says whether it can run here.
 */
extern const MaxsimEngine *maxsim_cpu_engine_at(int i, bool *supported);

#endif /* MAXSIM_ENGINE_H */
