/* sql/flash_maxsim--1.0.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION flash_maxsim" to load this file. \quit

-- type multivec

CREATE TYPE multivec;

CREATE FUNCTION multivec_in(cstring, oid, integer) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_in(cstring, oid, integer) IS 'I/O: [[1,2],[3,4]] or {{1,2},{3,4}}, a token in each inner list';

CREATE FUNCTION multivec_out(multivec) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_out(multivec) IS 'I/O: JSON with the fewest digits that keep every element';

CREATE FUNCTION multivec_recv(internal, oid, integer) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_recv(internal, oid, integer) IS 'I/O: version 1, format (0 f32, 1 f16, 2 bf16, 3 i8, 4 b1), two zero bytes, dimension and tokens as big-endian 32-bit integers, then the tokens, little-endian: elements; for i8 a real as scale before them; for b1 bits, the first one highest';

CREATE FUNCTION multivec_send(multivec) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_send(multivec) IS 'I/O: the form that multivec_recv reads';

CREATE FUNCTION multivec_typmod_in(cstring[]) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_typmod_in(cstring[]) IS 'I/O type modifier: (dimension) or (dimension, format)';

CREATE FUNCTION multivec_typmod_out(integer) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_typmod_out(integer) IS 'I/O type modifier';

-- A preferred type of the arrays' category: literals, parameters without a type
-- and arrays of any number type then resolve to it without a cast.
CREATE TYPE multivec (
	INPUT = multivec_in,
	OUTPUT = multivec_out,
	RECEIVE = multivec_recv,
	SEND = multivec_send,
	TYPMOD_IN = multivec_typmod_in,
	TYPMOD_OUT = multivec_typmod_out,
	ALIGNMENT = int4,
	STORAGE = external,
	CATEGORY = 'A',
	PREFERRED = true
);
COMMENT ON TYPE multivec IS 'token vectors of one document or query: multivec(dimension, format), formats f32, f16, bf16, i8 (components from -127 to 127, and a scale for each token) and b1 (signs: 1 for a component above 0, else -1)';

-- casts

-- Not named multivec: beside multivec(bytea, integer, text), literals would be ambiguous.
CREATE FUNCTION multivec_coerce(multivec, integer, boolean) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_coerce(multivec, integer, boolean) IS 'applies a type modifier: an error if the dimension differs, a conversion if the format does; out of range if an element does not fit';

CREATE FUNCTION multivec(real[]) RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(real[]) IS 'from [tokens][dimension], in format f32; NULL, NaN and infinity are errors';

CREATE FUNCTION multivec(double precision[]) RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(double precision[]) IS 'from [tokens][dimension], rounded to format f32; NULL, NaN, infinity and what exceeds real are errors';

CREATE FUNCTION multivec(numeric[]) RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(numeric[]) IS 'from [tokens][dimension], rounded to format f32; NULL, NaN, infinity and what exceeds real are errors';

CREATE FUNCTION multivec(integer[]) RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(integer[]) IS 'from [tokens][dimension], rounded to format f32; NULL is an error';

CREATE FUNCTION multivec(bigint[]) RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(bigint[]) IS 'from [tokens][dimension], rounded to format f32; NULL is an error';

CREATE FUNCTION multivec(smallint[]) RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(smallint[]) IS 'from [tokens][dimension], in format f32; NULL is an error';

CREATE FUNCTION multivec(bytes bytea, dim integer, format text DEFAULT 'f32') RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_bytea' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(bytea, integer, text) IS 'from raw little-endian tokens in a format: dim numbers for f32, f16 and bf16; a real as scale and dim int8 for i8; dim bits, the first one highest in its byte, for b1; an error if the bytes are no whole number of tokens';

CREATE FUNCTION multivec(bit[]) RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_bits' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(bit[]) IS 'in format b1, a token for each bit string: 1 for a bit that is set, -1 for one that is not; NULL and different lengths are errors';

CREATE FUNCTION multivec(bit varying[]) RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_bits' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(bit varying[]) IS 'in format b1, a token for each bit string: 1 for a bit that is set, -1 for one that is not; NULL and different lengths are errors';

CREATE FUNCTION multivec_i8(components integer[], scales double precision[] DEFAULT NULL) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION multivec_i8(integer[], double precision[]) IS 'in format i8, from components [tokens][dimension] and the scale of each token, 1 by default, that its components are multiplied with, rounded to real; components beyond -127 to 127, scales that are negative or not finite, NULL and numbers that differ are errors';

CREATE FUNCTION multivec_to_real_array(multivec) RETURNS real[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_to_real_array(multivec) IS 'as [tokens][dimension], every element exact';

CREATE CAST (multivec AS multivec) WITH FUNCTION multivec_coerce(multivec, integer, boolean) AS IMPLICIT;
COMMENT ON CAST (multivec AS multivec) IS 'applies a type modifier';
CREATE CAST (real[] AS multivec) WITH FUNCTION multivec(real[]) AS IMPLICIT;
COMMENT ON CAST (real[] AS multivec) IS 'from [tokens][dimension]';
CREATE CAST (double precision[] AS multivec) WITH FUNCTION multivec(double precision[]) AS IMPLICIT;
COMMENT ON CAST (double precision[] AS multivec) IS 'from [tokens][dimension], rounded to real';
CREATE CAST (numeric[] AS multivec) WITH FUNCTION multivec(numeric[]) AS IMPLICIT;
COMMENT ON CAST (numeric[] AS multivec) IS 'from [tokens][dimension], rounded to real';
CREATE CAST (integer[] AS multivec) WITH FUNCTION multivec(integer[]) AS IMPLICIT;
COMMENT ON CAST (integer[] AS multivec) IS 'from [tokens][dimension], rounded to real';
CREATE CAST (bigint[] AS multivec) WITH FUNCTION multivec(bigint[]) AS IMPLICIT;
COMMENT ON CAST (bigint[] AS multivec) IS 'from [tokens][dimension], rounded to real';
CREATE CAST (smallint[] AS multivec) WITH FUNCTION multivec(smallint[]) AS IMPLICIT;
COMMENT ON CAST (smallint[] AS multivec) IS 'from [tokens][dimension]';
CREATE CAST (bit[] AS multivec) WITH FUNCTION multivec(bit[]) AS IMPLICIT;
COMMENT ON CAST (bit[] AS multivec) IS 'in format b1, a token for each bit string';
CREATE CAST (bit varying[] AS multivec) WITH FUNCTION multivec(bit varying[]) AS IMPLICIT;
COMMENT ON CAST (bit varying[] AS multivec) IS 'in format b1, a token for each bit string';
CREATE CAST (multivec AS real[]) WITH FUNCTION multivec_to_real_array(multivec) AS ASSIGNMENT;
COMMENT ON CAST (multivec AS real[]) IS 'as [tokens][dimension]';

-- accessors

CREATE FUNCTION multivec_ntokens(multivec) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_ntokens(multivec) IS 'number of token vectors';

CREATE FUNCTION multivec_dim(multivec) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_dim(multivec) IS 'dimension of the token vectors; 0 for a value without tokens that was given none';

CREATE FUNCTION multivec_format(multivec) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_format(multivec) IS 'format of the elements: f32, f16, bf16, i8 or b1';

CREATE FUNCTION multivec_slice(multivec, first integer, count integer) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_slice(multivec, integer, integer) IS 'count tokens from token first, counted from 1; an error if one of them does not exist';

CREATE FUNCTION multivec_token(multivec, n integer) RETURNS real[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_token(multivec, integer) IS 'token vector n, counted from 1; an error if it does not exist';

-- values made from values

CREATE FUNCTION multivec_normalize(multivec) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION multivec_normalize(multivec) IS 'each token vector scaled to unit length, in the same format; a vector of zeros stays; b1, whose signs have no other length than theirs, becomes i8';

CREATE FUNCTION multivec_truncate(multivec, dim integer, unit_length boolean DEFAULT false) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION multivec_truncate(multivec, integer, boolean) IS 'the first dim elements of each token vector (Matryoshka embeddings), scaled to unit length on request, for which b1 becomes i8; an error if there are fewer';

CREATE FUNCTION multivec_concat(a multivec, b multivec) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_concat(multivec, multivec) IS 'the token vectors of a, then those of b; an error unless dimension and format are the same; a value that has neither tokens nor dimension adds nothing';

CREATE FUNCTION multivec_concat_add(internal, multivec) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION multivec_concat_add(internal, multivec) IS 'of multivec_concat_agg: takes a value';
CREATE FUNCTION multivec_concat_final(internal) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_concat_final(internal) IS 'of multivec_concat_agg: the result';

CREATE AGGREGATE multivec_concat_agg(multivec) (
	SFUNC = multivec_concat_add, STYPE = internal, FINALFUNC = multivec_concat_final, PARALLEL = SAFE);
COMMENT ON AGGREGATE multivec_concat_agg(multivec) IS 'the token vectors of all values as one value, in the order of the values: write multivec_concat_agg(mv ORDER BY ...); NULL values are left out; NULL without any; dimension and format must be the same';

CREATE FUNCTION multivec_pool(multivec, factor integer) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100000;
COMMENT ON FUNCTION multivec_pool(multivec, integer) IS 'token pooling: the token vectors clustered by Ward''s linkage on cosine distance into tokens / factor clusters, rounded up, each replaced by the mean of its vectors, in the order of their first ones; at most 8192 tokens';

CREATE FUNCTION multivec_rotate(multivec, seed bigint DEFAULT 0) RETURNS multivec
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION multivec_rotate(multivec, bigint) IS 'each token vector rotated by a random orthogonal matrix that depends on dimension and seed alone, the same on every machine: lengths and dot products of vectors rotated with the same seed stay, up to rounding to the value''s format, which stays as well; before a conversion to b1 or i8, of documents and queries, it makes better use of each bit; an error for b1, and for numbers that get too large for the format';

-- one vector for many

CREATE FUNCTION multivec_mean(multivec, unit_length boolean DEFAULT false) RETURNS real[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION multivec_mean(multivec, boolean) IS 'the mean of the token vectors, scaled to unit length on request; NULL for a value without tokens';

CREATE FUNCTION maxsim_fde_query(query multivec, k_sim integer DEFAULT 4, projection integer DEFAULT 8, repetitions integer DEFAULT 31,
								 seed bigint DEFAULT 0, final_dim integer DEFAULT 0) RETURNS real[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50000;
COMMENT ON FUNCTION maxsim_fde_query(multivec, integer, integer, integer, bigint, integer) IS 'fixed-dimensional encoding (MUVERA) of a query: its dot product with maxsim_fde_document of the same parameters approximates maxsim; the same numbers on every machine; an error for a query without tokens';

CREATE FUNCTION maxsim_fde_document(document multivec, k_sim integer DEFAULT 4, projection integer DEFAULT 8, repetitions integer DEFAULT 31,
									seed bigint DEFAULT 0, final_dim integer DEFAULT 0) RETURNS real[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 50000;
COMMENT ON FUNCTION maxsim_fde_document(multivec, integer, integer, integer, bigint, integer) IS 'fixed-dimensional encoding (MUVERA) of a document, of repetitions * 2^k_sim * projection numbers, or final_dim unless that is 0: repetitions of space divided by k_sim random hyperplanes, with the mean of the tokens in each part, projected; NULL for a document without tokens';

-- scores

CREATE FUNCTION maxsim(query multivec, document multivec) RETURNS real
	AS 'MODULE_PATHNAME', 'maxsim_multivec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION maxsim(multivec, multivec) IS 'sum over query tokens of the largest dot product with a document token (late interaction, ColBERT); NULL for a document without tokens, an error for a query without';

-- Arrays are documents without a copy.  Were the query real[] too, a literal beside
-- an array would be taken for one, and [[1,2]] be malformed.
CREATE FUNCTION maxsim(query multivec, document real[]) RETURNS real
	AS 'MODULE_PATHNAME', 'maxsim_real_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION maxsim(multivec, real[]) IS 'maxsim for a document that is an array [tokens][dimension]';

-- Weights are double precision[]: every array of numbers converts to that by itself, while
-- double precision[], which drivers send for a list of numbers, does not to real[].
CREATE FUNCTION maxsim(query multivec, document multivec, weights double precision[]) RETURNS real
	AS 'MODULE_PATHNAME', 'maxsim_multivec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION maxsim(multivec, multivec, double precision[]) IS 'maxsim with a weight for each query token, by which its largest dot product is multiplied; 0 masks a token; an error for another number of weights, one that is NULL, NaN, infinite or negative, and where all are 0';
CREATE FUNCTION maxsim(query multivec, document real[], weights double precision[]) RETURNS real
	AS 'MODULE_PATHNAME', 'maxsim_real_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION maxsim(multivec, real[], double precision[]) IS 'maxsim with weights for a document that is an array [tokens][dimension]';

CREATE FUNCTION maxsim_mean(query multivec, document multivec) RETURNS real
	AS 'MODULE_PATHNAME', 'maxsim_mean_multivec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION maxsim_mean(multivec, multivec) IS 'maxsim(query, document) divided by the number of query tokens: for unit vectors between -1 and 1';
CREATE FUNCTION maxsim_mean(query multivec, document real[]) RETURNS real
	AS 'MODULE_PATHNAME', 'maxsim_mean_real_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION maxsim_mean(multivec, real[]) IS 'maxsim_mean for a document that is an array [tokens][dimension]';
CREATE FUNCTION maxsim_mean(query multivec, document multivec, weights double precision[]) RETURNS real
	AS 'MODULE_PATHNAME', 'maxsim_mean_multivec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION maxsim_mean(multivec, multivec, double precision[]) IS 'maxsim(query, document, weights) divided by the sum of the weights';
CREATE FUNCTION maxsim_mean(query multivec, document real[], weights double precision[]) RETURNS real
	AS 'MODULE_PATHNAME', 'maxsim_mean_real_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION maxsim_mean(multivec, real[], double precision[]) IS 'maxsim_mean with weights for a document that is an array [tokens][dimension]';

CREATE FUNCTION maxsim_hamming(query multivec, document multivec) RETURNS real
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION maxsim_hamming(multivec, multivec) IS 'maxsim of signs: the document in format b1, of the query the signs of its components (1 above 0, else -1); the dot product of two tokens is the dimension less twice their Hamming distance';
CREATE FUNCTION maxsim_hamming(query multivec, document multivec, weights double precision[]) RETURNS real
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION maxsim_hamming(multivec, multivec, double precision[]) IS 'maxsim_hamming with weights of query tokens, as maxsim has them';

-- Each argument once, so that the planner puts these calls in their place, whatever the arguments.
CREATE FUNCTION maxsim_cosine(query multivec, document multivec) RETURNS real
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000
	RETURN maxsim(multivec_normalize(query), multivec_normalize(document));
COMMENT ON FUNCTION maxsim_cosine(multivec, multivec) IS 'maxsim of cosines: both normalized as multivec_normalize does, the document whenever it is scored, which is slower than maxsim with documents that were normalized when stored';
CREATE FUNCTION maxsim_cosine(query multivec, document multivec, weights double precision[]) RETURNS real
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000
	RETURN maxsim(multivec_normalize(query), multivec_normalize(document), weights);
COMMENT ON FUNCTION maxsim_cosine(multivec, multivec, double precision[]) IS 'maxsim_cosine with a weight for each query token';

CREATE FUNCTION maxsim_rerank(query multivec, doc_ids bigint[], source text DEFAULT NULL, top_k integer DEFAULT NULL,
							  weights double precision[] DEFAULT NULL, OUT doc_id bigint, OUT score real) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'maxsim_rerank_multivec' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000;
COMMENT ON FUNCTION maxsim_rerank(multivec, bigint[], text, integer, double precision[]) IS 'documents of source with these ids, best first: score descending, then id; NULL scores (NULL or no tokens) last; invisible or absent ids are not returned; source is table(id_column, document_column), by default flash_maxsim.source; weights as maxsim has them, by default all 1';

CREATE FUNCTION maxsim_rerank(query real[], doc_ids bigint[], source text DEFAULT NULL, top_k integer DEFAULT NULL,
							  weights double precision[] DEFAULT NULL, OUT doc_id bigint, OUT score real) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'maxsim_rerank_real_array' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000;
COMMENT ON FUNCTION maxsim_rerank(real[], bigint[], text, integer, double precision[]) IS 'maxsim_rerank for a query that is an array [tokens][dimension]';

CREATE FUNCTION maxsim_scores(query multivec, doc_ids bigint[], source text DEFAULT NULL,
							  weights double precision[] DEFAULT NULL) RETURNS real[]
	AS 'MODULE_PATHNAME', 'maxsim_scores_multivec' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000;
COMMENT ON FUNCTION maxsim_scores(multivec, bigint[], text, double precision[]) IS 'scores of the documents of source with these ids, one for each id in its place; NULL for an id that is absent, invisible or has no tokens; an error if the source has an id twice; weights as maxsim has them, by default all 1';

CREATE FUNCTION maxsim_scores(query real[], doc_ids bigint[], source text DEFAULT NULL,
							  weights double precision[] DEFAULT NULL) RETURNS real[]
	AS 'MODULE_PATHNAME', 'maxsim_scores_real_array' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100000;
COMMENT ON FUNCTION maxsim_scores(real[], bigint[], text, double precision[]) IS 'maxsim_scores for a query that is an array [tokens][dimension]';

-- scores of documents in one tensor

CREATE FUNCTION flash_maxsim_rerank_direct(q multivec, batch_tensor multivec, doc_offsets bigint[], doc_lengths bigint[],
										   max_seqlen_d bigint, weights double precision[] DEFAULT NULL) RETURNS real[]
	AS 'MODULE_PATHNAME', 'flash_maxsim_rerank_direct_multivec' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100000;
COMMENT ON FUNCTION flash_maxsim_rerank_direct(multivec, multivec, bigint[], bigint[], bigint, double precision[]) IS 'q [tokens][dim] against documents scattered in batch_tensor [total tokens][dim]: offset (from 0) and length in tokens of each; scores in the same order, -Infinity for an empty document; an error if a document is outside the tensor or longer than max_seqlen_d; weights as maxsim has them, by default all 1; NULL if another argument is';

CREATE FUNCTION flash_maxsim_rerank_direct(q multivec, batch_tensor real[], doc_offsets bigint[], doc_lengths bigint[],
										   max_seqlen_d bigint, weights double precision[] DEFAULT NULL) RETURNS real[]
	AS 'MODULE_PATHNAME', 'flash_maxsim_rerank_direct_real_array' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100000;
COMMENT ON FUNCTION flash_maxsim_rerank_direct(multivec, real[], bigint[], bigint[], bigint, double precision[]) IS 'flash_maxsim_rerank_direct for a tensor that is an array [total tokens][dim]';

CREATE FUNCTION flash_maxsim_rerank(q multivec, packed multivec, cu_seqlens bigint[], max_seqlen_d bigint,
									weights double precision[] DEFAULT NULL) RETURNS real[]
	AS 'MODULE_PATHNAME', 'flash_maxsim_rerank_multivec' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100000;
COMMENT ON FUNCTION flash_maxsim_rerank(multivec, multivec, bigint[], bigint, double precision[]) IS 'q [tokens][dim] against documents packed one after another in packed [total tokens][dim]: cu_seqlens holds 0 and the end of each document; scores in the same order, -Infinity for an empty document; weights as maxsim has them, by default all 1; NULL if another argument is';

CREATE FUNCTION flash_maxsim_rerank(q multivec, packed real[], cu_seqlens bigint[], max_seqlen_d bigint,
									weights double precision[] DEFAULT NULL) RETURNS real[]
	AS 'MODULE_PATHNAME', 'flash_maxsim_rerank_real_array' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100000;
COMMENT ON FUNCTION flash_maxsim_rerank(multivec, real[], bigint[], bigint, double precision[]) IS 'flash_maxsim_rerank for a tensor that is an array [total tokens][dim]';

-- what computes

-- why a document has its score

CREATE FUNCTION maxsim_matches(query multivec, document multivec, OUT query_token integer, OUT doc_token integer,
							   OUT similarity real) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'maxsim_matches_multivec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000 ROWS 32;
COMMENT ON FUNCTION maxsim_matches(multivec, multivec) IS 'for each query token, counted from 1, the document token with the largest dot product, of equals the first; the similarities add up to maxsim(); no rows for a document without tokens';
CREATE FUNCTION maxsim_matches(query multivec, document multivec, weights double precision[], OUT query_token integer,
							   OUT doc_token integer, OUT similarity real) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'maxsim_matches_multivec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000 ROWS 32;
COMMENT ON FUNCTION maxsim_matches(multivec, multivec, double precision[]) IS 'maxsim_matches with a weight for each query token: the dot products are multiplied by it, so that the similarities add up to maxsim(query, document, weights); a token of weight 0 has no row';
CREATE FUNCTION maxsim_matches(query multivec, document real[], OUT query_token integer, OUT doc_token integer,
							   OUT similarity real) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'maxsim_matches_real_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000 ROWS 32;
COMMENT ON FUNCTION maxsim_matches(multivec, real[]) IS 'maxsim_matches for a document that is an array [tokens][dimension]';
CREATE FUNCTION maxsim_matches(query multivec, document real[], weights double precision[], OUT query_token integer,
							   OUT doc_token integer, OUT similarity real) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'maxsim_matches_real_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000 ROWS 32;
COMMENT ON FUNCTION maxsim_matches(multivec, real[], double precision[]) IS 'maxsim_matches with weights for a document that is an array [tokens][dimension]';

CREATE FUNCTION maxsim_similarities(query multivec, document multivec, OUT query_token integer, OUT doc_token integer,
									OUT similarity real) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'maxsim_similarities_multivec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000 ROWS 10000;
COMMENT ON FUNCTION maxsim_similarities(multivec, multivec) IS 'the dot product of each query token with each document token, both counted from 1, a row each: query tokens * document tokens rows; the query is rounded to the document''s format, as maxsim() does; no rows for a document without tokens, an error for a query without';
CREATE FUNCTION maxsim_similarities(query multivec, document real[], OUT query_token integer, OUT doc_token integer,
									OUT similarity real) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'maxsim_similarities_real_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000 ROWS 10000;
COMMENT ON FUNCTION maxsim_similarities(multivec, real[]) IS 'maxsim_similarities for a document that is an array [tokens][dimension]';

-- the best documents of a group

CREATE TYPE maxsim_hit AS (id text, score real);
COMMENT ON TYPE maxsim_hit IS 'a document of maxsim_topk: its id as text, and its score';

CREATE FUNCTION maxsim_topk_add(internal, query multivec, id anyelement, document multivec, k integer) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION maxsim_topk_add(internal, multivec, anyelement, multivec, integer) IS 'of maxsim_topk: takes a document';
CREATE FUNCTION maxsim_topk_add(internal, query multivec, id anyelement, document multivec, k integer, weights double precision[]) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 5000;
COMMENT ON FUNCTION maxsim_topk_add(internal, multivec, anyelement, multivec, integer, double precision[]) IS 'of maxsim_topk: takes a document, with weights';
CREATE FUNCTION maxsim_topk_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION maxsim_topk_combine(internal, internal) IS 'of maxsim_topk: the best of two parts of a group';
CREATE FUNCTION maxsim_topk_serial(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION maxsim_topk_serial(internal) IS 'of maxsim_topk: a part of a group, to be sent';
CREATE FUNCTION maxsim_topk_deserial(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION maxsim_topk_deserial(bytea, internal) IS 'of maxsim_topk: a part of a group, received';
CREATE FUNCTION maxsim_topk_final(internal) RETURNS maxsim_hit[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION maxsim_topk_final(internal) IS 'of maxsim_topk: the result';

CREATE AGGREGATE maxsim_topk(query multivec, id anyelement, document multivec, k integer) (
	SFUNC = maxsim_topk_add, STYPE = internal, FINALFUNC = maxsim_topk_final, COMBINEFUNC = maxsim_topk_combine,
	SERIALFUNC = maxsim_topk_serial, DESERIALFUNC = maxsim_topk_deserial, PARALLEL = SAFE);
COMMENT ON AGGREGATE maxsim_topk(multivec, anyelement, multivec, integer) IS 'the k documents with the highest maxsim(query, document), best first, ties by id; documents that are NULL or have no tokens are left out; NULL without rows';

CREATE AGGREGATE maxsim_topk(query multivec, id anyelement, document multivec, k integer, weights double precision[]) (
	SFUNC = maxsim_topk_add, STYPE = internal, FINALFUNC = maxsim_topk_final, COMBINEFUNC = maxsim_topk_combine,
	SERIALFUNC = maxsim_topk_serial, DESERIALFUNC = maxsim_topk_deserial, PARALLEL = SAFE);
COMMENT ON AGGREGATE maxsim_topk(multivec, anyelement, multivec, integer, double precision[]) IS 'maxsim_topk by maxsim(query, document, weights); weights of NULL are all 1';

CREATE FUNCTION maxsim_engines(OUT engine text, OUT device text, OUT available boolean, OUT active boolean,
							   OUT detail text) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION maxsim_engines() IS 'every engine that was built, what it runs on, whether it can run here, and which one scores';

CREATE FUNCTION maxsim_scorer(OUT state text, OUT reason text, OUT pid integer, OUT starts integer,
							  OUT slots integer, OUT free_slots integer, OUT batches bigint, OUT documents bigint,
							  OUT fallbacks_not_ready bigint, OUT fallbacks_no_slot bigint,
							  OUT fallbacks_too_large bigint, OUT fallbacks_failed bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION maxsim_scorer() IS 'the scorer process: starting, ready, restarting or unavailable and why; its slots; batches and documents that it scored, and how often the CPU did its work, since the server started';

-- what the cache does and holds: of all databases, so not for everybody

CREATE FUNCTION maxsim_stats(OUT batches bigint, OUT documents bigint, OUT hits_host bigint, OUT hits_gpu bigint,
							 OUT misses bigint, OUT refetched bigint, OUT bytes_fetched bigint,
							 OUT bytes_uploaded bigint, OUT bytes_read_by_gpu bigint, OUT admitted_host bigint,
							 OUT admitted_gpu bigint, OUT evicted bigint, OUT moved bigint,
							 OUT documents_cpu bigint, OUT documents_scorer bigint,
							 OUT fallbacks_not_ready bigint, OUT fallbacks_no_slot bigint,
							 OUT fallbacks_too_large bigint, OUT fallbacks_failed bigint,
							 OUT fetch_us bigint, OUT wait_us bigint, OUT score_us bigint,
							 OUT stats_reset timestamptz)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION maxsim_stats() IS 'what maxsim_rerank and maxsim_scores did in all databases since stats_reset: counts of documents, bytes, and microseconds (fetch_us, wait_us, score_us); zeros without shared_preload_libraries; the columns of flash_maxsim_stats say what they count';
REVOKE ALL ON FUNCTION maxsim_stats() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION maxsim_stats() TO pg_monitor, pg_read_all_stats;

CREATE FUNCTION maxsim_stats_reset() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION maxsim_stats_reset() IS 'sets the counters of maxsim_stats() to 0; those of maxsim_scorer() and the cache stay as they are';
REVOKE ALL ON FUNCTION maxsim_stats_reset() FROM PUBLIC;

CREATE VIEW flash_maxsim_stats AS SELECT * FROM maxsim_stats();
COMMENT ON VIEW flash_maxsim_stats IS 'maxsim_stats(): what maxsim_rerank and maxsim_scores did in all databases since stats_reset';
COMMENT ON COLUMN flash_maxsim_stats.batches IS 'batches: buffers of documents that were scored together, and documents larger than a buffer';
COMMENT ON COLUMN flash_maxsim_stats.documents IS 'documents that were to be scored: hits_host + hits_gpu + misses; those without tokens are not counted';
COMMENT ON COLUMN flash_maxsim_stats.hits_host IS 'documents that were scored from the host tier of the cache';
COMMENT ON COLUMN flash_maxsim_stats.hits_gpu IS 'documents that were scored from the arena of a GPU';
COMMENT ON COLUMN flash_maxsim_stats.misses IS 'documents that were fetched from their relation';
COMMENT ON COLUMN flash_maxsim_stats.refetched IS 'hits that were fetched after all, because the scorer failed';
COMMENT ON COLUMN flash_maxsim_stats.bytes_fetched IS 'bytes of documents that were fetched from their relations, headers included';
COMMENT ON COLUMN flash_maxsim_stats.bytes_uploaded IS 'bytes of documents that were copied from the host to the arena of a GPU';
COMMENT ON COLUMN flash_maxsim_stats.bytes_read_by_gpu IS 'bytes of documents that a GPU scored from the host''s memory, without a copy in its arena';
COMMENT ON COLUMN flash_maxsim_stats.admitted_host IS 'documents that came into the host tier of the cache';
COMMENT ON COLUMN flash_maxsim_stats.admitted_gpu IS 'documents that came into the arena of a GPU';
COMMENT ON COLUMN flash_maxsim_stats.evicted IS 'documents that were dropped from a tier to make room';
COMMENT ON COLUMN flash_maxsim_stats.moved IS 'documents that were moved within a tier instead, because they had been used';
COMMENT ON COLUMN flash_maxsim_stats.documents_cpu IS 'documents that the CPU scored, in the backend';
COMMENT ON COLUMN flash_maxsim_stats.documents_scorer IS 'documents that the scorer scored';
COMMENT ON COLUMN flash_maxsim_stats.fallbacks_not_ready IS 'statements that the CPU served because the scorer was not ready';
COMMENT ON COLUMN flash_maxsim_stats.fallbacks_no_slot IS 'statements that the CPU served because no slot was free';
COMMENT ON COLUMN flash_maxsim_stats.fallbacks_too_large IS 'queries and documents that the CPU served because they exceed a slot';
COMMENT ON COLUMN flash_maxsim_stats.fallbacks_failed IS 'batches that the CPU scored because the scorer failed';
COMMENT ON COLUMN flash_maxsim_stats.fetch_us IS 'microseconds that backends spent fetching documents from TOAST relations and decompressing them';
COMMENT ON COLUMN flash_maxsim_stats.wait_us IS 'microseconds that backends waited for the scorer: for a slot or for scores';
COMMENT ON COLUMN flash_maxsim_stats.score_us IS 'microseconds that backends spent scoring on the CPU';
COMMENT ON COLUMN flash_maxsim_stats.stats_reset IS 'when counting began: the last maxsim_stats_reset() or the server''s start; NULL: nothing is counted';
GRANT SELECT ON flash_maxsim_stats TO pg_monitor, pg_read_all_stats;

CREATE FUNCTION maxsim_cache(OUT database oid, OUT toast_relation oid, OUT documents bigint, OUT host_bytes bigint,
							 OUT gpu_bytes bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION maxsim_cache() IS 'what the document cache holds of each TOAST relation of every database: documents, and bytes of them in the host tier and in the arenas of GPUs (a document can be in both)';
REVOKE ALL ON FUNCTION maxsim_cache() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION maxsim_cache() TO pg_monitor, pg_read_all_stats;

CREATE VIEW flash_maxsim_cache AS
	SELECT c.database AS datid, d.datname, r.oid::regclass AS relation, c.documents, c.host_bytes, c.gpu_bytes
	FROM maxsim_cache() c
	LEFT JOIN pg_database d ON d.oid = c.database
	LEFT JOIN pg_class r ON d.datname = current_database() AND r.reltoastrelid = c.toast_relation;
COMMENT ON VIEW flash_maxsim_cache IS 'what the document cache holds of each relation: maxsim_cache() with names';
COMMENT ON COLUMN flash_maxsim_cache.datid IS 'OID of the database';
COMMENT ON COLUMN flash_maxsim_cache.datname IS 'its name; NULL: it was dropped';
COMMENT ON COLUMN flash_maxsim_cache.relation IS 'relation that the documents are stored in; NULL: of another database, or dropped';
COMMENT ON COLUMN flash_maxsim_cache.documents IS 'documents in the cache';
COMMENT ON COLUMN flash_maxsim_cache.host_bytes IS 'bytes of them in the host tier';
COMMENT ON COLUMN flash_maxsim_cache.gpu_bytes IS 'bytes of them in the arenas of GPUs';
GRANT SELECT ON flash_maxsim_cache TO pg_monitor, pg_read_all_stats;

CREATE FUNCTION maxsim_cache_tiers(OUT tier text, OUT size bigint, OUT used bigint, OUT wasted bigint,
								   OUT segments integer, OUT free_segments integer, OUT documents bigint,
								   OUT entries_used bigint, OUT entries_free bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION maxsim_cache_tiers() IS 'each tier of the document cache, host or gpu with its number: bytes of its arena, bytes that documents take up, bytes that neither they do nor others can before segments are emptied (alignment, ends of segments, documents dropped); segments and how many are free; documents; entries of the directory that all tiers share, used and free';
REVOKE ALL ON FUNCTION maxsim_cache_tiers() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION maxsim_cache_tiers() TO pg_monitor, pg_read_all_stats;

-- the cache of documents

CREATE FUNCTION maxsim_prewarm(source text DEFAULT NULL, ids bigint[] DEFAULT NULL, tier text DEFAULT 'auto',
							   progress_interval double precision DEFAULT 0,
							   OUT documents bigint, OUT loaded bigint, OUT already bigint, OUT uncached bigint,
							   OUT too_large bigint, OUT no_room bigint, OUT bytes bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000;
COMMENT ON FUNCTION maxsim_prewarm(text, bigint[], text, double precision) IS 'takes documents of source, all or those with these ids, to the cache: tier gpu, host or auto; counts documents read, loaded, already there, never cached (NULL, without tokens, inline, compressed), larger than the cache takes, left out for lack of room; bytes loaded; a notice every progress_interval seconds';

CREATE FUNCTION maxsim_prewarm_progress(OUT pid integer, OUT database oid, OUT source text, OUT documents bigint,
										OUT loaded bigint, OUT bytes bigint, OUT total bigint,
										OUT started timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION maxsim_prewarm_progress() IS 'what flash_maxsim_prewarm_progress shows';

CREATE VIEW flash_maxsim_prewarm_progress AS
	SELECT p.pid, d.datname AS database, p.source, p.documents, p.loaded, p.bytes, p.total, p.started
	FROM maxsim_prewarm_progress() p LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) p.database;
COMMENT ON VIEW flash_maxsim_prewarm_progress IS 'calls of maxsim_prewarm that go on, in all databases, and autoprewarm: documents read and loaded, bytes, and how many documents there will be, where that is known';

REVOKE ALL ON FUNCTION maxsim_prewarm_progress() FROM PUBLIC;
REVOKE ALL ON flash_maxsim_prewarm_progress FROM PUBLIC;
GRANT EXECUTE ON FUNCTION maxsim_prewarm_progress() TO pg_monitor, pg_read_all_stats;
GRANT SELECT ON flash_maxsim_prewarm_progress TO pg_monitor, pg_read_all_stats;
