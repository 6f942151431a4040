-- Inputs that systems for late interaction are known to get wrong, each by every path
-- and in every format.
CREATE SCHEMA cases;
SET search_path = cases, public;
\pset null '(null)'

-- The scores of documents for a query by every path, for each kind of document.  A row
-- for each different outcome: where all agree, that is one.
CREATE FUNCTION everywhere(query multivec, documents text[]) RETURNS TABLE (scores text, ways bigint, kinds text) LANGUAGE plpgsql AS $$
DECLARE
	kind text;
	type text;
BEGIN
	CREATE TEMPORARY TABLE outcomes (kind text, outcome text);
	FOREACH kind IN ARRAY ARRAY['f32', 'f16', 'bf16', 'any', 'real[]', 'double precision[]'] LOOP
		type = CASE WHEN kind LIKE '%[]' THEN kind WHEN kind = 'any' THEN 'multivec' ELSE format('multivec(%s, %s)', multivec_dim(query), kind) END;
		EXECUTE format('CREATE TEMPORARY TABLE given (id bigint PRIMARY KEY, emb %s)', type);
		EXECUTE format('INSERT INTO given SELECT n, translate(d, ''[]'', ''{}'')::%s FROM unnest($1) WITH ORDINALITY u(d, n)', type) USING documents;
		INSERT INTO outcomes
			SELECT kind, array_agg(maxsim(query, emb) ORDER BY id)::text FROM given
			UNION ALL
			SELECT kind, maxsim_scores(query, array_agg(id ORDER BY id), 'pg_temp.given(id, emb)')::text FROM given
			UNION ALL
			SELECT kind, array_agg(score ORDER BY doc_id)::text FROM maxsim_rerank(query, ARRAY(SELECT id FROM given), 'pg_temp.given(id, emb)')
			UNION ALL
			SELECT kind, array_agg(s ORDER BY id)::text FROM given, LATERAL (SELECT (maxsim_scores(query::real[], ARRAY[id], 'pg_temp.given(id, emb)'))[1] AS s) s
			UNION ALL
			SELECT kind, array_agg(nullif(s[1], '-Infinity') ORDER BY id)::text FROM given,
				LATERAL (SELECT flash_maxsim_rerank(query, emb, ARRAY[0, coalesce(multivec_ntokens(emb), 0)], 1000000) AS s) s;
		DROP TABLE given;
	END LOOP;
	RETURN QUERY SELECT outcome, count(*), string_agg(DISTINCT o.kind, ', ' ORDER BY o.kind) FROM outcomes o GROUP BY outcome ORDER BY 3;
	DROP TABLE outcomes;
END $$;

-- padding and masks: a document next to a longer one keeps its negative score
SELECT * FROM everywhere('[[1,0]]', '{"[[-0.5,0]]","[[-0.5,0],[-0.25,0]]"}');
SELECT * FROM everywhere('[[1,0],[0,1]]', '{"[[-2,-3]]","[[-4,-1],[-5,-9],[-2,-7]]","[[-1,-1]]"}');
-- all similarities negative, far below any value that stands for "masked"
SELECT * FROM everywhere('[[256,0],[-256,0]]', '{"[[-256,0]]","[[256,1],[512,2]]"}');
SELECT * FROM everywhere('[[8192]]', '{"[[-8192]]","[[-4096],[-8192]]"}');
-- rows of a query that are alike, or zero, count like any other
SELECT * FROM everywhere('[[1,0],[1,0],[1,0],[0,0]]', '{"[[2,1]]","[[-2,1]]"}');
-- a mask may be anywhere: what is left of the query is a slice of it
SELECT maxsim(multivec_slice('[[1,2],[3,4],[5,6],[7,8]]', 3, 2), '[[1,1],[2,0]]'), maxsim('[[5,6],[7,8]]', '[[1,1],[2,0]]');
-- a zero row of a document is a token: it can be the best
SELECT * FROM everywhere('[[1,0]]', '{"[[-0.5,0],[0,0]]","[[0,0]]","[[-0.5,0]]"}');

-- empty documents among others
SELECT * FROM everywhere('[[1,1],[2,0]]', '{"[[1,2]]","[]","[[3,1],[0,0]]",NULL,"[]","[[1,2]]"}');
CREATE TABLE sparse (id bigint PRIMARY KEY, emb multivec(4));
INSERT INTO sparse SELECT id, CASE WHEN id IN (17, 130) THEN '[]' ELSE ARRAY[[id, 1, 1, 1]]::multivec END FROM generate_series(1, 200) id;
SELECT count(*), count(score), array_agg(doc_id) FILTER (WHERE score IS NULL) AS without, min(doc_id) FILTER (WHERE n = 1) AS first
FROM maxsim_rerank('[[1,0,0,0]]', ARRAY(SELECT id FROM sparse), 'sparse(id, emb)') WITH ORDINALITY r(doc_id, score, n);
SELECT doc_id, score, n FROM maxsim_rerank('[[1,0,0,0]]', ARRAY(SELECT id FROM sparse), 'sparse(id, emb)') WITH ORDINALITY r(doc_id, score, n) WHERE n IN (1, 198, 199, 200);
-- a NULL embedding among them: last
CREATE TABLE nullable (id bigint PRIMARY KEY, emb multivec(4));
INSERT INTO nullable VALUES (1, NULL), (2, '[[1,1,1,1]]'), (3, '[[-1,-1,-1,-1]]');
SELECT * FROM maxsim_rerank('[[1,1,1,1]]', '{1,2,3}', 'nullable(id, emb)');
-- what an embedding service returns when it fails
SELECT error_of($$SELECT maxsim('[]', '[[1,1]]')$$), error_of($$SELECT * FROM maxsim_rerank('[]', '{2}', 'nullable(id, emb)')$$), error_of($$SELECT maxsim('{}', '{{1,1}}'::real[])$$);
SELECT path, error_of(path) FROM unnest(ARRAY[$$SELECT '[[1,null]]'::multivec$$, $$SELECT '{{1,NULL}}'::multivec$$, $$SELECT '{{1,NULL}}'::real[]::multivec$$,
	$$SELECT maxsim('[[1,1]]', '{{1,NULL}}'::real[])$$, $$SELECT maxsim('{{1,NULL}}'::double precision[], '[[1,1]]')$$,
	$$SELECT flash_maxsim_rerank('[[1,1]]', '{{NULL,1}}'::real[], '{0,1}', 1)$$]) path;

-- a zero vector: dot product 0, neither NaN nor first
SELECT * FROM everywhere('[[3,4]]', '{"[[0,0]]","[[1,1]]","[[-1,-1]]"}');
SELECT * FROM everywhere('[[0,0]]', '{"[[0,0]]","[[1,1]]","[[-1,-1]]"}');
-- NaN and infinity are kept out everywhere, so that no document makes a query fail
SELECT path, split_part(error_of(path), E'\n', 1) FROM unnest(ARRAY[$$SELECT '[[1,NaN]]'::multivec$$, $$SELECT '{{1,NaN}}'::real[]::multivec$$, $$SELECT '{{1,NaN}}'::double precision[]::multivec(2,f16)$$,
	$$SELECT '{{1,NaN}}'::numeric[]::multivec$$, $$SELECT multivec('\x0000c07f', 1)$$, $$SELECT multivec('\x007e', 1, 'f16')$$, $$INSERT INTO nullable VALUES (9, '[[1,2,3,NaN]]')$$,
	$$INSERT INTO nullable VALUES (9, ARRAY[[1,2,3,'Infinity'::real]])$$, $$SELECT maxsim('[[NaN]]', '[[1]]')$$, $$SELECT maxsim('[[1]]', '{{NaN}}'::real[])$$]) path;

-- large: sums of a million are exact, and two vectors of 300 in 16 bits do not overflow
SELECT * FROM everywhere('[[1000,0],[0,-1000]]', '{"[[1000,1000]]","[[-1000,-1000]]","[[992,8],[-8,-992]]"}');
SELECT kind, maxsim(array_fill(300, ARRAY[1, 128]), CASE kind WHEN 'f16' THEN d::multivec(128, f16) WHEN 'bf16' THEN d::multivec(128, bf16) ELSE d END)
FROM (SELECT array_fill(300, ARRAY[1, 128])::multivec AS d) d, unnest(ARRAY['f32', 'f16', 'bf16']) kind;
SELECT error_of($$SELECT '[[65504,65519]]'::multivec(2,f16)$$), error_of($$SELECT '[[1,65520]]'::multivec(2,f16)$$);
-- out of range at the ends and in the middle of a vector
SELECT k, split_part(error_of(format('SELECT %L::multivec::multivec(33, f16)', '[[' || repeat('0,', k - 1) || '1e5' || repeat(',0', 33 - k) || ']]')), E'\n  ', 2) AS where
FROM unnest(ARRAY[1, 2, 16, 17, 32, 33]) k;

-- shapes: both dimensions are named, ragged and dimensionless tokens refused
SELECT error_of(format('SELECT maxsim(%L, %L)', array_fill(1, ARRAY[2, 64]), array_fill(1, ARRAY[3, 196])));
SELECT path, split_part(error_of(path), E'\n', 1) FROM unnest(ARRAY[$$SELECT '[[1,2],[1,2,3]]'::multivec$$, $$SELECT '{{1,2},{1,2,3}}'::multivec$$,
	$$SELECT ARRAY[[1,2],[1,2,3]]::multivec$$, $$SELECT multivec('\x003c0040003c', 2, 'f16')$$, $$SELECT '[[],[]]'::multivec$$, $$SELECT '{{},{}}'::multivec$$]) path;
-- queries of one token and more, documents likewise; dimensions and lengths as models have them
CREATE TABLE shapes (id bigint PRIMARY KEY, dim integer, r real[]);
SET jit = off;
INSERT INTO shapes (id, dim, r) SELECT row_number() OVER (), dim, array_agg(token ORDER BY t)
FROM (VALUES (48, 33), (64, 31), (96, 32), (100, 1030), (128, 1), (128, 180), (256, 7), (320, 5), (640, 3), (1024, 2), (2560, 2), (1, 8192), (2, 8192)) v(dim, n),
	generate_series(1, n) t, LATERAL (SELECT array_agg(((t * 31 + k * 17 + t * k) % 7 - 3)::real ORDER BY k) AS token FROM generate_series(1, dim) k) s GROUP BY dim, n;
-- a query of ones makes the reference simple
CREATE TABLE sums AS SELECT id, max(total) AS best FROM
	(SELECT id, sum(x) AS total FROM shapes s, unnest(r) WITH ORDINALITY u(x, i) GROUP BY id, (i - 1) / dim) totals GROUP BY id;
SELECT dim, array_length(r, 1) AS tokens, nq, maxsim(q, r) AS real, maxsim(q, r::multivec) AS multivec, nq * best AS reference
FROM shapes JOIN sums USING (id), unnest(ARRAY[1, 2, 32]) nq, LATERAL (SELECT array_fill(1, ARRAY[nq, dim])::multivec AS q OFFSET 0) q
ORDER BY dim, tokens, nq;

-- more than 2 GB is an error before anything is allocated
SELECT error_of($$SELECT '[]'::multivec(65536)$$), error_of($$SELECT flash_maxsim_rerank_direct('[[1]]', '[[1]]', '{2147483648}', '{1}', 1)$$);

-- ids: 1,000 candidates of which 128 are different
SELECT count(*), count(DISTINCT doc_id), sum(score) FROM maxsim_rerank('[[1,0,0,0]]', ARRAY(SELECT i % 128 + 20 FROM generate_series(1, 1000) i), 'sparse(id, emb)');
SELECT array_length(s, 1), (SELECT count(DISTINCT x) FROM unnest(s) x) FROM maxsim_scores('[[1,0,0,0]]', ARRAY(SELECT i % 128 + 20 FROM generate_series(1, 1000) i), 'sparse(id, emb)') s;
-- negative scores are ordinary scores; nothing without a score comes before them
SELECT * FROM maxsim_rerank('[[-1,0,0,0]]', '{17,1,130,200,2,999}', 'sparse(id, emb)');
-- the same document twice has the same score; ties are by id; the order is that of the scores
CREATE TABLE ties AS SELECT id, CASE WHEN id % 2 = 0 THEN '[[1,2],[0,1]]' ELSE '[[2,1],[1,0]]' END::multivec AS emb FROM generate_series(1, 10) id;
SELECT array_agg(doc_id), array_agg(score) FROM maxsim_rerank('[[1,0]]', '{10,9,8,7,6,5,4,3,2,1}', 'ties(id, emb)');
SELECT array_agg(doc_id), array_agg(score) FROM maxsim_rerank('[[1,1]]', '{3,10,9,8,7,6,5,4,2,1}', 'ties(id, emb)', 4);
-- twice the query is twice the score
SELECT * FROM everywhere('[[3,-1],[1,2]]', '{"[[1,2]]","[[3,1],[0,5]]","[[-1,-4]]"}');
SELECT * FROM everywhere('[[6,-2],[2,4]]', '{"[[1,2]]","[[3,1],[0,5]]","[[-1,-4]]"}');
-- a sum, not a mean; a document of M unit vectors against itself is M
SELECT * FROM everywhere('[[1,0,0],[0,1,0],[0,0,1],[0,-1,0]]', '{"[[1,0,0],[0,1,0],[0,0,1],[0,-1,0]]"}');
SELECT * FROM everywhere('[[0.6,0.8],[-0.8,0.6]]', '{"[[1,0]]"}');

-- several queries in one statement, each with candidates of its own
SELECT q, ids, (SELECT array_agg(doc_id || ':' || score) FROM maxsim_rerank(q::multivec, ids, 'ties(id, emb)', 3))
FROM (VALUES ('[[1,0]]', '{1,2,3}'::bigint[]), ('[[0,1]]', '{4,5,6,7}'), ('[[1,0],[0,1]]', '{}'), ('[[-1,0]]', '{8,9}')) v(q, ids);
