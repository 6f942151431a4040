-- Weights of query tokens in every function that scores, means and cosines.
LOAD 'flash_maxsim';
CREATE SCHEMA weights;
SET search_path = weights, public;
SET max_parallel_workers_per_gather = 0;
\pset null '(null)'

-- dot products with [10,1] are 10, 1, 11
SELECT weights, maxsim('[[1,0],[0,1],[1,1]]', '[[10,1]]', weights), maxsim('[[1,0],[0,1],[1,1]]', '{{10,1}}'::real[], weights) AS of_array
FROM (VALUES ('{1,1,1}'::double precision[]), ('{1,0,0}'), ('{0,1,0}'), ('{0,0,1}'), ('{2,0.5,0}'), ('{0.25,0,4}'), ('{-0.0,1,1}'), ('[5:7]={3,2,1}'), (NULL)) w(weights);
-- each document token counts for the query tokens that it is nearest to
SELECT maxsim('[[1,0],[0,1]]', '[[3,0],[0,5],[-1,-1]]', '{2,10}'), maxsim('[[-1,0],[0,-1]]', '[[3,0],[2,5]]', '{2,10}'), maxsim('[[1,0]]', '[]', '{2}'), maxsim(NULL, '[[1,0]]', '{2}');
-- a bitmap without a NULL
CREATE FUNCTION assigned() RETURNS double precision[] LANGUAGE plpgsql AS $$
DECLARE
	w double precision[] := '{2,NULL}';
BEGIN
	w[2] := 10;
	RETURN w;
END $$;
SELECT pg_column_size(assigned()) > pg_column_size('{2,10}'::double precision[]) AS longer, maxsim('[[1,0],[0,1]]', '[[3,0],[0,5],[-1,-1]]', assigned());
-- arrays of any numbers, literals, untyped parameters
SELECT maxsim('[[1,0],[0,1]]', '[[10,1]]', ARRAY[2,3]), maxsim('[[1,0],[0,1]]', '[[10,1]]', ARRAY[2,3]::smallint[]), maxsim('[[1,0],[0,1]]', '[[10,1]]', ARRAY[2,3]::bigint[]),
	   maxsim('[[1,0],[0,1]]', '[[10,1]]', ARRAY[2.0,3]), maxsim('[[1,0],[0,1]]', '[[10,1]]', ARRAY[2,3]::real[]), maxsim('[[1,0],[0,1]]', '[[10,1]]', ARRAY[2,3]::double precision[]),
	   maxsim('[[1,0],[0,1]]', '[[10,1]]', weights => '{2,3}'), maxsim('{{1,0},{0,1}}'::real[], '{{10,1}}'::real[], '{2,3}'), maxsim(ARRAY[[1,0],[0,1]], ARRAY[[10,1]], ARRAY[2,3]);
PREPARE untyped AS SELECT maxsim($1, $2, $3);
EXECUTE untyped('[[1,0],[0,1]]', '[[10,1]]', '{2,3}');
DEALLOCATE untyped;

-- every function
CREATE TABLE docs (id bigint PRIMARY KEY, grp integer, d multivec, a real[]);
INSERT INTO docs SELECT i, i % 3, document(i, 1 + i % 7, 4)::multivec(4, f16), document(i, 1 + i % 7, 4) FROM generate_series(1, 60) i;
INSERT INTO docs VALUES (61, 0, NULL, NULL), (62, 0, '[]', '{}');
CREATE TABLE queries (id integer PRIMARY KEY, q multivec, w double precision[]);
INSERT INTO queries SELECT i, document(100 + i, 5, 4), ARRAY[i, 0, 2, 0.5, i % 2] FROM generate_series(1, 3) i;
ANALYZE docs, queries;
CREATE VIEW expected AS SELECT q.id AS query, d.id, grp, maxsim(q, d, w) AS score, rank() OVER (PARTITION BY q.id ORDER BY maxsim(q, d, w) DESC NULLS LAST, d.id) AS rank FROM queries q, docs d;
SELECT query, count(*), bool_and(r.score IS NOT DISTINCT FROM e.score AND n = rank) AS same
FROM expected e JOIN (SELECT q.id AS query, r.* FROM queries q, LATERAL maxsim_rerank(q, ARRAY(SELECT id FROM docs), 'docs(id, d)', weights => w) WITH ORDINALITY r(id, score, n)) r USING (query, id) GROUP BY query ORDER BY query;
CREATE TABLE short (id integer PRIMARY KEY, d multivec, a real[]);
INSERT INTO short VALUES (1, '[[1,2]]', '{{1,2}}'), (2, '[[3,1]]', '{{3,1}}'), (3, '[[2,3]]', '{{2,3}}');
SELECT * FROM maxsim_rerank('[[1,0],[0,1]]', '{1,2,3}', 'short(id, d)', 2, '{0,1}');
SELECT * FROM maxsim_rerank('[[1,0],[0,1]]', '{1,2,3}', 'short(id, a)', 2, '{10,1}');
SELECT * FROM maxsim_rerank('{{1,0},{0,1}}'::real[], ARRAY[1,2,3], 'short(id, d)', weights => ARRAY[1,0.5], top_k => 1);
SELECT maxsim_scores('[[1,0],[0,1]]', '{3,9,1}', 'short(id, d)', '{10,1}'), maxsim_scores('{{1,0},{0,1}}'::real[], '{3,9,1}', weights => '{10,1}', source => 'short(id, d)'),
	   maxsim_scores('[[1,0],[0,1]]', '{3,9,1}', 'short(id, d)', NULL), maxsim_scores(ARRAY[[1,0],[0,1]], ARRAY[3,9,1], 'short(id, d)', ARRAY[0,1]);
SELECT flash_maxsim_rerank_direct('[[1,0],[0,1]]', '[[10,1],[20,2]]', '{1,0,0}', '{1,1,0}', 1, '{1,100}'), flash_maxsim_rerank_direct('[[1,0],[0,1]]', '{{10,1},{20,2}}'::real[], '{1,0}', '{1,1}', 1, weights => ARRAY[0,1]),
	   flash_maxsim_rerank_direct('[[1,0],[0,1]]', '[[10,1],[20,2]]', '{1,0}', '{1,1}', 1, NULL), flash_maxsim_rerank_direct('[[1,0],[0,1]]', '[[10,1],[20,2]]', NULL, '{1,1}', 1, '{1,1}');
SELECT flash_maxsim_rerank('[[1,0],[0,1]]', '[[10,1],[20,2]]', '{0,1,2}', 1, '{1,100}'), flash_maxsim_rerank('[[1,0],[0,1]]', '{{10,1},{20,2}}'::real[], '{0,1,2}', 1, weights => ARRAY[0,1]),
	   flash_maxsim_rerank('[[1,0],[0,1]]', '[[10,1],[20,2]]', '{0,1,2}', 1, NULL), flash_maxsim_rerank('[[1,0],[0,1]]', '[[10,1],[20,2]]', '{0,1,2}', NULL, '{1,1}');
SELECT maxsim_topk('[[1,0],[0,1]]', id, d, 2, '{10,1}'), maxsim_topk('[[1,0],[0,1]]', id, d, 2, ARRAY[0,1]), maxsim_topk('[[1,0],[0,1]]', id, d, 2, NULL) = maxsim_topk('[[1,0],[0,1]]', id, d, 2) AS all_one FROM short;
-- queries that differ in their weights alone
SELECT q.id, maxsim_topk(q, d.id, d, 3, w) = (SELECT array_agg((e.id::text, score)::maxsim_hit ORDER BY rank) FROM expected e WHERE query = q.id AND rank <= 3) AS same
FROM docs d, queries q GROUP BY q.id ORDER BY q.id;
SELECT n, maxsim_topk('[[1,0],[0,1]]', id, d, 1, ARRAY[n, 2]) FROM short, generate_series(0, 3) n GROUP BY n ORDER BY n;
SELECT id, n, maxsim('[[1,0],[0,1]]', d, ARRAY[n, 1]) FROM short, generate_series(0, 2) n ORDER BY id, n;
-- the terms of the score, without tokens that are masked
SELECT * FROM maxsim_matches('[[1,0],[9,9],[0,1],[-1,-1]]', '[[0,2],[3,0],[1,1],[0,2]]'::multivec, '{2,0,0.5,10}');
SELECT * FROM maxsim_matches('[[1,0],[0,1]]', '{{0,2},{3,0},{1,1}}'::real[], '{0,3}');
SELECT count(*), count(*) FILTER (WHERE s.sum = maxsim(q, d, w) AND n = 3 + q.id % 2) AS same FROM queries q, docs d,
	LATERAL (SELECT sum(similarity) AS sum, count(*) AS n, array_agg(query_token) AS tokens FROM maxsim_matches(q, d, w)) s WHERE maxsim(q, d) IS NOT NULL AND NOT 2 = ANY (tokens);

-- a mask is the query without the token, to the bit, also where numbers are not small; and a token
-- that is masked may be out of the documents' range
CREATE FUNCTION random_tokens(seed integer, ntokens integer, dim integer) RETURNS real[] LANGUAGE sql IMMUTABLE AS
$$ SELECT array_agg(token ORDER BY t) FROM (SELECT i / dim AS t, array_agg(sin(seed * 1.7 + i * 0.9 + i * i * 0.013)::real ORDER BY i) AS token
	FROM generate_series(0, ntokens * dim - 1) i GROUP BY i / dim) s $$;
CREATE FUNCTION as_format(tokens real[], format text) RETURNS multivec LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE format WHEN 'f32' THEN tokens::multivec(33, f32)::multivec WHEN 'f16' THEN tokens::multivec(33, f16)::multivec ELSE tokens::multivec(33, bf16)::multivec END $$;
CREATE TABLE random AS SELECT format, n, random_tokens(n, n, 33)::multivec AS q, as_format(random_tokens(1000 + n, 50, 33), format) AS d,
	(SELECT array_agg(CASE WHEN i % 4 = 1 THEN 0 ELSE 2 + 2 * sin(i * n) END ORDER BY i) FROM generate_series(1, n) i) AS w
FROM unnest(ARRAY['f32', 'f16', 'bf16']) format, unnest(ARRAY[2, 3, 8, 17, 32, 33, 64, 100]) n;
SELECT count(*), bool_and(maxsim(q, d, mask) = maxsim((SELECT multivec_concat_agg(multivec_slice(q, i, 1) ORDER BY i) FROM generate_series(1, n) i WHERE i % 3 <> 1), d)) AS same
FROM random, LATERAL (SELECT array_agg((i % 3 <> 1)::integer ORDER BY i) AS mask FROM generate_series(1, n) i) m;
SELECT bool_and(agree(maxsim(q, d, array_fill(1, ARRAY[n])), maxsim(q, d), 3e-5)) AS ones, bool_and(agree(maxsim(q, d, array_fill(4, ARRAY[n])), 4 * maxsim(q, d), 3e-5)) AS fours FROM random;
SELECT maxsim('[[1e6],[1]]', '[[2]]'::multivec(1, f16), '{0,1}'), maxsim_mean('[[1e6],[1]]', '[[2]]'::multivec(1, f16), '{0,3}') AS mean;
SELECT * FROM maxsim_matches('[[1e6],[1]]', '[[2]]'::multivec(1, f16), '{0,1}');
SELECT error_of($$SELECT maxsim('[[1e6],[1]]', '[[2]]'::multivec(1, f16), '{1,0}')$$);
-- against the formula
CREATE VIEW f32 AS SELECT n AS id, d FROM random WHERE format = 'f32';
CREATE VIEW f16 AS SELECT n AS id, d FROM random WHERE format = 'f16';
CREATE VIEW bf16 AS SELECT n AS id, d FROM random WHERE format = 'bf16';
CREATE FUNCTION formula(query multivec, document multivec, weights double precision[], OUT score double precision, OUT tolerance double precision) LANGUAGE sql IMMUTABLE AS $$
	SELECT sum(w * best), 1e-5 * sum(w * size) FROM unnest(weights) WITH ORDINALITY weight(w, i), LATERAL (
		SELECT max(s) AS best, max(abs(s)) + 1e-2 AS size FROM generate_series(1, multivec_ntokens(document)) j,
			LATERAL (SELECT sum(x::double precision * y) AS s FROM unnest(multivec_token(as_format(query::real[], multivec_format(document)), i::integer), multivec_token(document, j)) p(x, y)) dot) token $$;
SELECT format, count(*), bool_and(abs(maxsim(q, d, w) - score) <= tolerance) AS score, bool_and(maxsim_mean(q, d, w) = (maxsim(q, d, w) / total)::real) AS mean,
	   bool_and(abs((SELECT sum(similarity) FROM maxsim_matches(q, d, w)) - score) <= tolerance) AS matches,
	   bool_and(agree((flash_maxsim_rerank_direct(q, d, '{0}', '{50}', 50, w))[1], maxsim(q, d, w), 3e-5)) AS tensor, bool_and(maxsim_scores(q, ARRAY[n], format('%I(id, d)', format), w) = ARRAY[maxsim(q, d, w)]) AS source
FROM random, LATERAL formula(q, d, w), LATERAL (SELECT sum(x::real::double precision) AS total FROM unnest(w) x) t GROUP BY format ORDER BY format;

-- means, and cosines
SELECT maxsim_mean('[[1,0],[0,1],[1,1]]', '[[10,1]]'), maxsim_mean('[[1,0],[0,1]]', '{{10,1}}'::real[]), maxsim_mean('[[1,0],[0,1],[1,1]]', '[[10,1]]', '{1,0,3}'), maxsim_mean('[[1,0],[0,1]]', '{{10,1}}'::real[], ARRAY[0,7]),
	   maxsim_mean('[[1]]', '[]'), maxsim_mean('[[1]]', NULL::multivec, '{1}'), maxsim_mean('[[1]]', '[[1]]', NULL);
SELECT maxsim_cosine('[[3,4],[0,2]]', '[[5,0],[6,8],[0,0]]'), maxsim_cosine('[[3,4],[0,2]]', '{{30,40}}'::real[]), maxsim_cosine('[[3,4],[0,2]]', '[[5,0],[0,-8]]', '{0,4}'), maxsim_cosine(ARRAY[[3,4]], ARRAY[[4,3]], ARRAY[25]),
	   maxsim_cosine('[[3,4]]', '[]'), maxsim_cosine('[[3,4]]', NULL), maxsim_cosine('[[3,4]]', '[[1,0]]', NULL), maxsim_cosine('[[0,0]]', '[[1,0]]');
SELECT bool_and(maxsim_mean(q, d) = (maxsim(q, d) / n)::real) AS mean, bool_and(maxsim_cosine(q, d) = maxsim(multivec_normalize(q), multivec_normalize(d))) AS cosine,
	   bool_and(maxsim_cosine(q, d, w) = maxsim(multivec_normalize(q), multivec_normalize(d), w)) AS weighted, bool_and(abs(maxsim_cosine(q, q, w) - (SELECT sum(x) FROM unnest(w) x)) < 1e-3) AS self FROM random;
-- in a generated column and an index, and in another schema
CREATE TABLE stored (d multivec(2), mean real GENERATED ALWAYS AS (maxsim_mean('[[1,0],[0,1]]', d, '{3,1}')) STORED, cosine real GENERATED ALWAYS AS (maxsim_cosine('[[3,4]]', d)) STORED);
CREATE INDEX ON stored (maxsim_cosine('[[1,0]]', d, '{2}'));
INSERT INTO stored VALUES ('[[8,4]]'), ('[[6,8]]');
SELECT * FROM stored ORDER BY mean;
SET search_path = pg_catalog;
SELECT public.maxsim_cosine('[[3,4]]'::public.multivec, '[[6,8]]'::public.multivec), public.maxsim_mean('[[1,0]]'::public.multivec, '[[8,4]]'::public.multivec, '{3}');
SET search_path = weights, public;

-- plans score them in batches: weights of all rows and of the row, with a query of all rows or of the row
EXPLAIN (COSTS OFF, VERBOSE) SELECT id FROM docs ORDER BY maxsim('[[1,2,3,4],[4,3,2,1]]', d, '{1,2}') DESC NULLS LAST, id LIMIT 10;
EXPLAIN (COSTS OFF, VERBOSE) SELECT id FROM docs ORDER BY maxsim_mean('[[1,2,3,4],[4,3,2,1]]', d) DESC LIMIT 10;
EXPLAIN (COSTS OFF, VERBOSE) SELECT id FROM docs ORDER BY maxsim_cosine('[[3,4,0,0],[0,2,0,0]]', d, '{1,2}') DESC LIMIT 10;
EXPLAIN (COSTS OFF, VERBOSE) SELECT d.id, maxsim(q, d, w) FROM docs d, queries q;
EXPLAIN (COSTS OFF, VERBOSE) SELECT id, maxsim('[[1,2,3,4],[4,3,2,1]]', d, ARRAY[grp, 1]) FROM docs;
EXPLAIN (COSTS OFF, VERBOSE) SELECT max(maxsim(q, d, w)), max(maxsim_mean(q, a, '{1,2,3,4,5}')) FROM docs, queries;
CREATE FUNCTION nodes(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	line text;
	n bigint := 0;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
		n := n + (line LIKE '%Custom Scan (MaxSim)%')::integer;
	END LOOP;
	RETURN n;
END $$;
SELECT nodes(statement), statement FROM unnest(ARRAY[
	'SELECT id FROM docs ORDER BY maxsim((SELECT q FROM queries WHERE id = 1), d, (SELECT w FROM queries WHERE id = 1)) DESC LIMIT 10',
	'SELECT id FROM docs ORDER BY maxsim_mean((SELECT q FROM queries WHERE id = 1), a, (SELECT w FROM queries WHERE id = 1)) DESC LIMIT 10',
	'SELECT id FROM docs ORDER BY maxsim_cosine((SELECT q FROM queries WHERE id = 1), a) DESC LIMIT 10',
	'SELECT max(maxsim(q, d, w::real[])) FROM docs, queries',
	'SELECT maxsim_mean(q, d, w) FROM docs, queries LIMIT 3']) statement;
CREATE FUNCTION in_batches(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	batches text;
	rows text;
BEGIN
	EXECUTE format('SELECT md5(string_agg(s::text, E''\n'')) || count(*) FROM (%s) s', statement) INTO batches;
	SET flash_maxsim.enable_batch_scan = off;
	EXECUTE format('SELECT md5(string_agg(s::text, E''\n'')) || count(*) FROM (%s) s', statement) INTO rows;
	RESET flash_maxsim.enable_batch_scan;
	RETURN CASE WHEN batches = rows THEN substr(rows, 33) || ' rows' ELSE concat_ws(' ', batches, '<>', rows) END;
END $$;
SELECT in_batches(statement) FROM unnest(ARRAY[
	'SELECT id, maxsim(''[[1,2,3,4],[4,3,2,1]]'', d, ''{1,2}'') AS s FROM docs ORDER BY s, id',
	'SELECT id, maxsim((SELECT q FROM queries WHERE id = 1), d, (SELECT w FROM queries WHERE id = 3)) AS s FROM docs ORDER BY s, id',
	'SELECT id, maxsim_mean(''[[1,2,3,4],[4,3,2,1]]'', a) AS s, maxsim(''[[1,2,3,4],[4,3,2,1]]'', a), maxsim(''[[1,2,3,4],[4,3,2,1]]'', a, ''{0,1}'') FROM docs ORDER BY s, id',
	'SELECT id, maxsim_mean(''[[1,2,3,4],[4,3,2,1]]'', d, ARRAY[grp, 1]) AS s, maxsim_cosine(''[[1,2,3,4],[4,3,2,1]]'', d, ARRAY[grp, 1]) FROM docs ORDER BY s, id',
	'SELECT q.id, d.id, w, maxsim(q, d, w) AS s, maxsim_mean(q, d, w), maxsim_cosine(q, d, w) FROM docs d, queries q ORDER BY s, q.id, d.id',
	'SELECT q.id, d.id, maxsim(q, d, ''{1,2,3,4,5}'') AS s, maxsim_mean(q, a) FROM docs d, queries q ORDER BY s, q.id, d.id',
	'SELECT q.id, d.id, maxsim(q, d, CASE WHEN d.id % 3 > 0 THEN w END) AS s FROM docs d, queries q ORDER BY d.id, q.id',
	'SELECT id, s FROM (SELECT q.id, b.* FROM queries q, LATERAL (SELECT d.id AS doc, maxsim_mean(q, d, w) AS s FROM docs d ORDER BY s DESC NULLS LAST, doc LIMIT 4) b) x ORDER BY id, s, doc',
	'SELECT grp, max(maxsim(q, d, w)), min(maxsim_mean(q, a)), sum(maxsim_cosine(q, d)) FROM docs, queries GROUP BY grp ORDER BY grp']) statement;
-- an error of the row's weights, and of those of a row that nobody asks for
SELECT error_of($$SELECT id, maxsim('[[1,2,3,4],[4,3,2,1]]', d, ARRAY[10 - id, 1]) FROM docs ORDER BY 2$$);
SELECT error_of($$SELECT max(maxsim('[[1,2,3,4],[4,3,2,1]]', d, '{1,2,3}')) FROM docs$$), error_of($$SELECT max(maxsim('[[1,2,3,4],[4,3,2,1]]', d, '{1,2,3}')) FROM docs WHERE d IS NULL$$);
CREATE FUNCTION first_score() RETURNS real LANGUAGE sql AS $$ SELECT maxsim('[[1,2,3,4],[4,3,2,1]]', d, ARRAY[10 - id, 1]) FROM docs $$;
SELECT first_score();

-- what is refused, and in which words
SELECT weights, error_of(format('SELECT maxsim(''[[1,0],[0,1],[1,1]]'', ''[[10,1]]'', %L)', weights)) FROM unnest(ARRAY['{}', '{1}', '{1,2,3,4}', '{{1,2,3}}', '{{1},{2},{3}}', '{1,NULL,3}', '{1,NaN,3}', '{1,2,Infinity}', '{-Infinity,1,1}',
	'{1,-0.5,1}', '{0,0,0}', '{0,-0,1e-60}', '{1,1e39,1}', '{3e38,3e38,3e38}']) weights;
SELECT statement, error_of(statement) FROM unnest(ARRAY[
	$$SELECT maxsim('[]', '[[1]]', '{1}')$$,
	$$SELECT maxsim('[[1]]', '{{1}}'::real[], '{-1}')$$,
	$$SELECT maxsim('[[1]]', '[[1]]', '{0}')$$,
	$$SELECT maxsim('[[1],[2]]', '[[1,2]]', '{1,1}')$$,
	$$SELECT maxsim_mean('[[1],[2]]', '[[1]]', '{0,0}')$$,
	$$SELECT maxsim_mean('[[1],[2]]', '{{1}}'::real[], '{1}')$$,
	$$SELECT maxsim_mean('[]', '[[1]]')$$,
	$$SELECT maxsim_mean('[[1e30]]', '[[1e30]]')$$,
	$$SELECT maxsim_cosine('[[1],[2]]', '[[1]]', '{1}')$$,
	$$SELECT * FROM maxsim_matches('[[1],[2]]', '[[1]]'::multivec, '{1}')$$,
	$$SELECT * FROM maxsim_matches('[[1],[2]]', '{{1}}'::real[], '{1,NaN}')$$,
	$$SELECT * FROM maxsim_matches('[]', '{{1}}'::real[], '{1,NaN}')$$,
	$$SELECT * FROM maxsim_rerank('[[1,0],[0,1]]', '{1}', 'short(id, d)', weights => '{1}')$$,
	$$SELECT * FROM maxsim_rerank('[[1,0],[0,1]]', '{}', 'short(id, d)', weights => '{0,0}')$$,
	$$SELECT * FROM maxsim_rerank('{{1,0},{0,1}}'::real[], '{1}', 'short(id, d)', weights => '{1,-1}')$$,
	$$SELECT maxsim_scores('[[1,0],[0,1]]', '{1}', 'short(id, d)', '{1,2,3}')$$,
	$$SELECT maxsim_scores('{{1,0},{0,1}}'::real[], '{1}', 'short(id, d)', ARRAY[1,NULL])$$,
	$$SELECT flash_maxsim_rerank_direct('[[1],[2]]', '[[1]]', '{0}', '{1}', 1, '{1}')$$,
	$$SELECT flash_maxsim_rerank('[[1],[2]]', '{{1}}'::real[], '{0,1}', 1, '{0,0}')$$,
	$$SELECT maxsim_topk('[[1,0],[0,1]]', id, d, 1, '{1}') FROM short$$,
	$$SELECT maxsim_topk('[[1,0],[0,1]]', id, d, 1, ARRAY[2 - id, 1]) FROM short$$,
	$$SELECT maxsim('[[1]]', '[[1]]', 1)$$]) statement;
-- after an error the call site takes the next query as it is
CREATE FUNCTION caught(weights double precision[]) RETURNS real LANGUAGE plpgsql AS $$
BEGIN
	RETURN maxsim('[[1,0],[0,1]]', '[[10,1]]', weights);
EXCEPTION WHEN OTHERS THEN
	RETURN NULL;
END $$;
SELECT w, caught(w) FROM (VALUES (ARRAY[1, 2]), ('{1}'), ('{1,2}'), ('{0,0}'), ('{0,0}'), ('{2,1}')) v(w);

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA weights CASCADE;
