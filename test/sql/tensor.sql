-- One query against documents in one tensor: scattered, and packed.
CREATE SCHEMA tensor;
SET search_path = tensor, public;
\pset null '(null)'

-- tokens 0 to 5 of a tensor; each dot product with [1,0] tells which token it was
CREATE VIEW t AS SELECT '[[10,1],[20,2],[30,3],[-40,4],[-50,5],[60,6]]'::multivec AS t;
CREATE VIEW q AS SELECT '[[1,0]]'::multivec AS q1, '[[1,0],[0,1]]'::multivec AS q2;

-- in order, in any order, repeated, overlapping, with gaps, nested, all of it, none
SELECT offsets, lengths, flash_maxsim_rerank_direct(q1, t, offsets, lengths, 6) AS one_token, flash_maxsim_rerank_direct(q2, t, offsets, lengths, 6) AS two
FROM t, q, (VALUES
	('{0,1,2,3,4,5}'::bigint[], '{1,1,1,1,1,1}'::bigint[]), ('{0,2,4}', '{2,2,2}'), ('{4,2,0}', '{2,2,2}'), ('{3,3,3}', '{1,1,1}'), ('{0,1,2,3}', '{3,3,3,3}'),
	('{0,5}', '{1,1}'), ('{0,1,3}', '{6,2,2}'), ('{0}', '{6}'), ('{}', '{}'), ('{3}', '{2}')) v(offsets, lengths);
-- empty documents anywhere, also at the end of the tensor
SELECT flash_maxsim_rerank_direct(q1, t, '{0,0,3,6,5}', '{0,1,0,0,1}', 1) FROM t, q;
SELECT flash_maxsim_rerank_direct('[[1,0]]', '[]', '{0,0}', '{0,0}', 0), flash_maxsim_rerank_direct('{{1,0}}'::real[], '{}'::real[], '{}', '{}', 0),
	   flash_maxsim_rerank_direct('[[1,0]]', '[]'::multivec(2, f16), '{0}', '{0}', 0);
SELECT array_ndims(s), array_lower(s, 1), array_upper(s, 1) FROM flash_maxsim_rerank_direct('[[1]]', '[[2],[3]]', '{0,1}', '{1,1}', 1) s;

-- packed: the same, from the ends of the documents
SELECT ends, flash_maxsim_rerank(q1, t, ends, 6) AS one_token, flash_maxsim_rerank(q2, t, ends, 6) AS two
FROM t, q, (VALUES ('{0,1,2,3,4,5,6}'::bigint[]), ('{0,2,4,6}'), ('{0,6}'), ('{0,0,3,3,6,6}')) v(ends);
SELECT flash_maxsim_rerank('[[1,0]]', '[]', '{0}', 0), flash_maxsim_rerank('[[1,0]]', '[]', '{0,0,0}', 0);

-- arrays and multivecs of any kind, integer and bigint indexes, untyped parameters
SELECT flash_maxsim_rerank_direct(ARRAY[[1,0]], ARRAY[[10,1],[20,2]], ARRAY[1,0], ARRAY[1,1], 1),
	   flash_maxsim_rerank_direct(ARRAY[[1.0,0]], '[[10,1],[20,2]]', ARRAY[1,0], ARRAY[1,1]::bigint[], 1::bigint),
	   flash_maxsim_rerank_direct('{{1,0}}'::double precision[], '{{10,1},{20,2}}'::real[], '{1,0}', '{1,1}', 1),
	   flash_maxsim_rerank_direct('[[1,0]]'::multivec(2, bf16), '[[10,1],[20,2]]'::multivec(2, f16), '{1,0}', '{1,1}', 1);
SELECT flash_maxsim_rerank(ARRAY[[1,0]], ARRAY[[10,1],[20,2]], ARRAY[0,1,2], 1), flash_maxsim_rerank('{{1,0}}'::real[], '{{10,1},{20,2}}'::double precision[], '{0,1,2}', 1),
	   flash_maxsim_rerank('[[1,0]]', '[[10,1],[20,2]]'::multivec(2, bf16), '{0,1,2}', 1);
PREPARE direct AS SELECT flash_maxsim_rerank_direct($1, $2, $3, $4, $5);
EXECUTE direct('[[1,0]]', '[[10,1],[20,2]]', '{1,0}', '{1,1}', 1);
PREPARE packed AS SELECT flash_maxsim_rerank($1, $2, $3, $4);
EXECUTE packed('[[1,0]]', '[[10,1],[20,2]]', '{0,1,2}', 1);
SELECT flash_maxsim_rerank_direct(NULL, '[[1]]', '{0}', '{1}', 1), flash_maxsim_rerank_direct('[[1]]', '[[1]]', NULL, '{1}', 1),
	   flash_maxsim_rerank_direct('[[1]]', '[[1]]', '{0}', '{1}', NULL), flash_maxsim_rerank('[[1]]', NULL::multivec, '{0}', 1);
-- indexes that do not begin at 1 are in order all the same
SELECT flash_maxsim_rerank_direct('[[1]]', '[[7],[8],[9]]', '[5:7]={2,0,1}'::bigint[], '[0:2]={1,1,1}'::bigint[], 1);

\pset format unaligned
\pset tuples_only on
SELECT arguments, error_of(format('SELECT flash_maxsim_rerank_direct(%s)', arguments)) FROM unnest(ARRAY[
	-- outside the tensor
	$$'[[1]]', '[[1],[2],[3]]', '{-1}', '{1}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{3}', '{1}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{4}', '{0}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{2}', '{2}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,1,2,1}', '{1,1,1,3}', 3$$,
	$$'[[1]]', '[]', '{0}', '{1}', 3$$,
	$$'[[1]]', '[[1]]', '{-1}', '{0}', 3$$,
	$$'[[1]]', '[[1]]', '{9223372036854775807}', '{1}', 3$$,
	$$'[[1]]', '[[1]]', '{9223372036854775807}', '{9223372036854775807}', 9223372036854775807$$,
	$$'[[1]]', '[[1]]', '{-9223372036854775808}', '{1}', 3$$,
	$$'[[1]]', '[[1]]', '{4294967296}', '{1}', 3$$,
	$$'[[1]]', '[[1]]', '{0}', '{4294967297}', 9223372036854775807$$,
	-- lengths
	$$'[[1]]', '[[1],[2],[3]]', '{0}', '{-1}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{3}', '{-9223372036854775808}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,0}', '{2,3}', 2$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0}', '{1}', 0$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0}', '{0}', -1$$,
	-- not one index for one document
	$$'[[1]]', '[[1],[2],[3]]', '{0,1}', '{1}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{}', '{1}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{{0}}', '{1}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0}', '{{1}}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{NULL}', '{1}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,1}', '{1,NULL}', 3$$,
	-- query and tensor
	$$'[]', '[[1]]', '{0}', '{1}', 1$$,
	$$'[]', '[]', '{}', '{}', 1$$,
	$$'[[1,2]]', '[[1]]', '{0}', '{1}', 1$$,
	$$'[[1,2]]', '[[1]]', '{}', '{}', 1$$,
	$$'{{1,NULL}}'::real[], '{{1,2}}'::real[], '{0}', '{1}', 1$$,
	$$'{{1,2}}'::real[], '{{1,NaN}}'::real[], '{0}', '{1}', 1$$,
	$$'[[70000]]', '[[1]]'::multivec(1, f16), '{0}', '{1}', 1$$,
	$$'[[1e30]]', '[[1],[1e30]]', '{0,1}', '{1,1}', 1$$]) arguments;
SELECT arguments, error_of(format('SELECT flash_maxsim_rerank(%s)', arguments)) FROM unnest(ARRAY[
	$$'[[1]]', '[[1],[2],[3]]', '{}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{1,3}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,2}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,4}', 4$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,2,1,3}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,5,3}', 5$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,-1,3}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,9223372036854775807,3}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,-9223372036854775808,3}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,1,3}', 1$$,
	$$'[[1]]', '[[1],[2],[3]]', '{0,NULL,3}', 3$$,
	$$'[[1]]', '[[1],[2],[3]]', '{{0,3}}', 3$$,
	$$'[[1,2]]', '[[1],[2],[3]]', '{0,3}', 3$$,
	$$'[]', '[[1]]', '{0,1}', 1$$]) arguments;
\pset tuples_only off
\pset format aligned

-- a tensor of 64 documents, each its own way of being found: by id, as a slice, scattered, packed
CREATE TABLE docs AS SELECT id, document(id, id % 7, 12) AS emb FROM generate_series(1, 64) id;
CREATE TABLE places AS SELECT id, emb, sum(id % 7) OVER (ORDER BY id) - id % 7 AS first, id % 7 AS length FROM docs;
CREATE TABLE whole AS SELECT string_agg(substr(multivec_send(emb::multivec), 13), '' ORDER BY id) AS bytes FROM docs;
SELECT bool_and(s IS NOT DISTINCT FROM nullif(d, '-Infinity') AND d = p AND m IS NOT DISTINCT FROM s) AS all_agree, count(s), sum(s), min(d)
FROM (SELECT maxsim_scores(document(99, 5, 12), array_agg(id), 'docs(id, emb)') AS scores,
			 flash_maxsim_rerank_direct(document(99, 5, 12), multivec(bytes, 12), array_agg(first::bigint), array_agg(length::bigint), 6) AS direct,
			 flash_maxsim_rerank(document(99, 5, 12), multivec(bytes, 12), array_agg(first::bigint) || sum(length), 6) AS packed,
			 array_agg(maxsim(document(99, 5, 12), emb)) AS maxsim
	  FROM (SELECT * FROM places ORDER BY id) p, whole GROUP BY bytes) v,
	 unnest(scores, direct, packed, maxsim) u(s, d, p, m);
