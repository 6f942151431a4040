/*
 * pool.c
 *		Token pooling: fewer token vectors, each the mean of some that are alike (Clavié,
 *		Chaffin, Adams, 2024).
 *
 * Tokens are clustered by Ward's linkage on the cosine distance, 1 - cosine, with
 * distances of merged clusters by the formula of Lance and Williams.  Ward's linkage
 * is reducible, so following chains of nearest neighbours finds the same clusters as
 * merging the nearest pair again and again, in quadratic time.  The same tokens give
 * the same bits on every machine: see matrix.h, and the rest is double precision in a
 * fixed order without fused operations.
 */
#include "postgres.h"
#include "compat.h"

#include "matrix.h"
#include "tokens.h"

/* Whose distances to one another take 256 MB. */
#define MAX_TOKENS 8192

/* rows of distances between looking for interrupts */
#define BLOCK_TOKENS 64

typedef struct Merge
{
	double height; /* at which the clusters are merged: their squared distance */
	uint32 number; /* merges in the order in which they were found */
	uint32 first;  /* the clusters, by their first tokens */
	uint32 second;
} Merge;

/* A cluster goes by the number of its first token. */
typedef struct Clusters
{
	uint32 n;        /* tokens */
	size_t stride;   /* of a row of squares */
	float *squares;  /* [n][stride], of the distances between clusters */
	uint32 *sizes;   /* [n], tokens of a cluster */
	double *heights; /* [n], of a cluster's last merge */
	uint32 *active;  /* [nactive], clusters that are not merged into another, ascending */
	uint32 nactive;
	uint32 *chain; /* [length], clusters, each the nearest to the one before */
	uint32 length;
	bool *in_chain; /* [n] */
	Merge *merges;  /* [nmerges] */
	uint32 nmerges;
} Clusters;

static inline float *
square_of(const Clusters *clusters, uint32 a, uint32 b)
{
	return clusters->squares + a * clusters->stride + b;
}

/* The squared distances between tokens; a token of zeros is at distance 1 from all. */
static void
measure(Clusters *clusters, const Multivec *value)
{
	uint32 n = clusters->n;
	uint64 dim = value->dim;
	float *unit = palloc_extended(n * dim * sizeof(float), MCXT_ALLOC_HUGE);
	float *panel = palloc(dim * MATRIX_PANEL * sizeof(float));

	multivec_load(value->format, value->elements, n, dim, unit);
	tokens_normalize(unit, n, dim);

	/* below the diagonal, or near it */
	for (uint32 first = 0; first < n; first += MATRIX_PANEL)
	{
		memset(panel, 0, dim * MATRIX_PANEL * sizeof(float));
		for (uint32 c = 0; c < Min(MATRIX_PANEL, n - first); c++)
			for (uint64 k = 0; k < dim; k++)
				panel[k * MATRIX_PANEL + c] = unit[(first + c) * dim + k];
		for (uint32 row = first; row < n; row += BLOCK_TOKENS)
		{
			CHECK_FOR_INTERRUPTS();
			matrix_multiply(unit + row * dim, Min(BLOCK_TOKENS, n - row), dim, panel, MATRIX_PANEL,
							square_of(clusters, row, first), clusters->stride);
		}
	}
	for (uint32 a = 0; a < n; a++)
	{
		CHECK_FOR_INTERRUPTS();
		for (uint32 b = 0; b < a; b++)
		{
			float distance = 1 - *square_of(clusters, a, b);

			/* rounding can take tokens nearer to each other than to themselves */
			distance = Max(distance, 0);
			*square_of(clusters, a, b) = *square_of(clusters, b, a) = distance * distance;
		}
	}
	pfree(panel);
	pfree(unit);
}

/*
 * The cluster nearest to the chain's last: of several the one before it in the chain,
 * or else the lowest.  No other of the chain can be nearer, but for rounding.
 */
static uint32
nearest(const Clusters *clusters, float *square)
{
	uint32 last = clusters->chain[clusters->length - 1];
	const float *squares = square_of(clusters, last, 0);
	uint32 best = last;

	if (clusters->length > 1)
	{
		best = clusters->chain[clusters->length - 2];
		*square = squares[best];
	}
	for (uint32 i = 0; i < clusters->nactive; i++)
	{
		uint32 other = clusters->active[i];

		if (!clusters->in_chain[other] && (best == last || squares[other] < *square))
		{
			best = other;
			*square = squares[other];
		}
	}
	return best;
}

/* Merges two clusters, whose squared distance is given. */
static void
merge(Clusters *clusters, uint32 a, uint32 b, double square)
{
	uint32 first = Min(a, b);
	uint32 second = Max(a, b);
	double first_size = clusters->sizes[first];
	double second_size = clusters->sizes[second];
	uint32 kept = 0;
	Merge *made = &clusters->merges[clusters->nmerges];

	for (uint32 i = 0; i < clusters->nactive; i++)
	{
		uint32 other = clusters->active[i];
		double size = clusters->sizes[other];
		double sum;

		if (other != second)
			clusters->active[kept++] = other;
		if (other == first || other == second)
			continue;
		sum = (size + first_size) * *square_of(clusters, other, first) +
			  (size + second_size) * *square_of(clusters, other, second) - size * square;
		*square_of(clusters, other, first) = *square_of(clusters, first, other) =
			(float) (sum / (size + first_size + second_size));
	}
	clusters->nactive = kept;
	clusters->sizes[first] += clusters->sizes[second];

	/* never below those of its parts, which rounding could make it */
	square = Max(square, Max(clusters->heights[first], clusters->heights[second]));
	clusters->heights[first] = square;
	made->height = square;
	made->number = clusters->nmerges++;
	made->first = first;
	made->second = second;
}

/* Merges all clusters into one, following chains. */
static void
merge_all(Clusters *clusters)
{
	while (clusters->nactive > 1)
	{
		float square = 0;
		uint32 next;

		CHECK_FOR_INTERRUPTS();
		if (clusters->length == 0)
		{
			clusters->chain[clusters->length++] = clusters->active[0];
			clusters->in_chain[clusters->active[0]] = true;
		}
		next = nearest(clusters, &square);
		if (clusters->in_chain[next])
		{
			uint32 last = clusters->chain[clusters->length - 1];

			clusters->length -= 2;
			clusters->in_chain[last] = clusters->in_chain[next] = false;
			merge(clusters, last, next, square);
		}
		else
		{
			clusters->chain[clusters->length++] = next;
			clusters->in_chain[next] = true;
		}
	}
}

static int
compare_merges(const void *a, const void *b)
{
	const Merge *left = a;
	const Merge *right = b;

	if (left->height != right->height)
		return left->height < right->height ? -1 : 1;
	return left->number < right->number ? -1 : 1;
}

/*
 * The cluster of each token, by its first token, when so many merges are made as
 * leave nclusters: the lowest ones, a cluster's always after its parts'.
 */
static uint32 *
cut(Clusters *clusters, uint32 nclusters)
{
	uint32 *cluster_of = palloc(clusters->n * sizeof(uint32));

	for (uint32 t = 0; t < clusters->n; t++)
		cluster_of[t] = t;
	qsort(clusters->merges, clusters->nmerges, sizeof(Merge), compare_merges);
	for (uint32 i = 0; i < clusters->n - nclusters; i++)
		cluster_of[clusters->merges[i].second] = clusters->merges[i].first;
	/* what a token points to is before it, and points to its cluster already */
	for (uint32 t = 0; t < clusters->n; t++)
		cluster_of[t] = cluster_of[cluster_of[t]];
	return cluster_of;
}

/* The cluster of each token of a value, by its first token. */
static uint32 *
cluster(const Multivec *value, uint32 nclusters)
{
	Clusters clusters = {0};
	uint32 n = value->ntokens;

	clusters.n = clusters.nactive = n;
	clusters.stride = matrix_columns(n);
	clusters.squares = palloc_extended(n * clusters.stride * sizeof(float), MCXT_ALLOC_HUGE);
	clusters.sizes = palloc_array(uint32, n);
	clusters.heights = palloc0(n * sizeof(double));
	clusters.active = palloc_array(uint32, n);
	clusters.chain = palloc_array(uint32, n);
	clusters.in_chain = palloc0(n * sizeof(bool));
	clusters.merges = palloc_array(Merge, n);
	for (uint32 t = 0; t < n; t++)
	{
		clusters.active[t] = t;
		clusters.sizes[t] = 1;
	}
	measure(&clusters, value);
	merge_all(&clusters);
	pfree(clusters.squares);
	return cut(&clusters, nclusters);
}

/* The means of clusters, in the order of their first tokens; sums go by token, in double precision. */
static Multivec *
means(const Multivec *value, const uint32 *cluster_of, uint32 nclusters)
{
	Multivec *result = multivec_create(value->format, value->dim, nclusters);
	uint32 n = value->ntokens;
	uint64 row = maxsim_row_size(value->format, value->dim);
	uint32 *next = palloc_array(uint32, n); /* token of the same cluster; n: none */
	uint32 *last = palloc_array(uint32, n); /* token of a cluster so far */
	double *sums = palloc_array(double, value->dim);
	float *token = palloc_array(float, value->dim);
	uint32 made = 0;

	for (uint32 t = 0; t < n; t++)
	{
		next[t] = n;
		if (cluster_of[t] != t)
			next[last[cluster_of[t]]] = t;
		last[cluster_of[t]] = t;
	}
	for (uint32 first = 0; first < n; first++)
	{
		uint32 count = 0;

		if (cluster_of[first] != first)
			continue;
		CHECK_FOR_INTERRUPTS();
		memset(sums, 0, value->dim * sizeof(double));
		for (uint32 t = first; t < n; t = next[t], count++)
		{
			multivec_load(value->format, value->elements + t * row, 1, value->dim, token);
			for (uint32 k = 0; k < value->dim; k++)
				sums[k] += token[k];
		}
		for (uint32 k = 0; k < value->dim; k++)
			token[k] = (float) (sums[k] / count);
		multivec_store(value->format, token, 1, value->dim, result->elements + made++ * row, NULL);
	}
	Assert(made == nclusters);
	return result;
}

/* multivec_pool(mv, factor): a cluster's mean for about factor tokens. */
PG_FUNCTION_INFO_V1(multivec_pool);
Datum
multivec_pool(PG_FUNCTION_ARGS)
{
	Multivec *value = PG_GETARG_MULTIVEC_P(0);
	int32 factor = PG_GETARG_INT32(1);
	uint32 nclusters;

	if (factor < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("factor must be at least 1, not %d", factor)));
	if (factor == 1 || value->ntokens < 2)
		PG_RETURN_POINTER(value);
	if (value->ntokens > MAX_TOKENS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("multivec of %u tokens cannot be pooled, the maximum is %d", value->ntokens, MAX_TOKENS),
				 errhint("Pool it in parts: multivec_slice() and multivec_concat_agg().")));
	nclusters = ((uint64) value->ntokens + factor - 1) / factor;
	PG_RETURN_POINTER(means(value, cluster(value, nclusters), nclusters));
}
