-- vector[] and halfvec[] wherever a multivec is wanted.
CREATE SCHEMA pgvector_functions;
SET search_path = pgvector_functions, public;
\pset null '(null)'

-- documents as people with pgvector have them, and as multivecs of the same numbers
CREATE TABLE docs (id bigint PRIMARY KEY, v vector(8)[], h halfvec(8)[], m multivec(8), m16 multivec(8, f16));
INSERT INTO docs SELECT id, m::vector[], m::halfvec[], m, m FROM (SELECT id, document(id, 1 + id % 40, 8)::multivec AS m FROM generate_series(1, 200) id) d;
UPDATE docs SET v = NULL, h = NULL, m = NULL, m16 = NULL WHERE id = 50;
UPDATE docs SET v = '{}', h = '{}', m = '[]', m16 = '[]' WHERE id = 60;
CREATE TABLE queries (id integer, v vector[], h halfvec[], m multivec);
INSERT INTO queries SELECT id, m::vector[], m::halfvec[], m FROM (SELECT id, document(1000 + id, id, 8)::multivec AS m FROM generate_series(1, 5) id) q;
ANALYZE docs, queries;

-- maxsim: either side, or both
SELECT count(*), count(maxsim(q.m, d.m)) AS scores, count(*) FILTER (WHERE maxsim(q.v, d.v) = maxsim(q.m, d.m)) AS vv, count(*) FILTER (WHERE maxsim(q.h, d.h) = maxsim(q.m, d.m16)) AS hh,
	   count(*) FILTER (WHERE maxsim(q.v, d.h) = maxsim(q.m, d.m16)) AS vh, count(*) FILTER (WHERE maxsim(q.h, d.v) = maxsim(q.m, d.m)) AS hv, count(*) FILTER (WHERE maxsim(q.v, d.m) = maxsim(q.m, d.m)) AS vm,
	   count(*) FILTER (WHERE maxsim(q.m, d.v) = maxsim(q.m, d.m)) AS mv, count(*) FILTER (WHERE maxsim(q.h, d.m::real[]) = maxsim(q.m, d.m)) AS hr
FROM queries q, docs d;
SELECT count(*), count(*) FILTER (WHERE maxsim(q.v, d.h, w) = maxsim(q.m, d.m16, w)) AS weights, count(*) FILTER (WHERE maxsim_mean(q.h, d.v) = maxsim_mean(q.m, d.m)) AS mean,
	   count(*) FILTER (WHERE maxsim_cosine(q.v, d.v) = maxsim_cosine(q.m, d.m)) AS cosine
FROM queries q, docs d, LATERAL (SELECT array_agg(n::real) AS w FROM generate_series(1, q.id) n) weights;
SELECT q.id, ARRAY(SELECT r FROM maxsim_rerank(q.v, '{1,2,3,4}', 'docs(id, h)', weights => array_fill(0.5, ARRAY[q.id])) r) = ARRAY(SELECT r FROM maxsim_rerank(q.m, '{1,2,3,4}', 'docs(id, m16)', weights => array_fill(0.5, ARRAY[q.id])) r) AS same,
	   maxsim_scores(q.h, '{1,2}', 'docs(id, v)', weights => array_fill(0.5, ARRAY[q.id])) FROM queries q ORDER BY id;
-- literals, and parameters without a type, are multivecs beside them as beside others
SELECT maxsim('[[1,2]]', '{"[1,2]","[3,4]"}'::vector[]), maxsim('{"[1,2]"}'::vector[], '[[1,2],[3,4]]'), maxsim('{{1,2}}', '{"[1,2]","[3,4]"}'::halfvec[]), maxsim('[[1,2]]', '[[1,2],[3,4]]'),
	   maxsim(ARRAY[[1,2]], '{"[3,4]"}'::vector[]), maxsim('[[1,2]]', ARRAY[[3,4]]::real[]), maxsim(ARRAY['[1,2]'::vector, '[1,1]'], ARRAY['[3,4]'::halfvec]);
PREPARE untyped AS SELECT maxsim($1, '{"[3,4]"}'::vector[]), maxsim('{"[1,2]"}'::vector[], $2);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
EXECUTE untyped('[[1,2]]', '[[5,6]]');
SELECT error_of('SELECT maxsim(''{"[1,2]"}''::vector[], ''{"[1]"}''::vector[])'), error_of('SELECT maxsim(''{"[1,2]"}''::vector[], ''{"[1,2]","[1]"}''::vector[])');

-- every other function: the same as of the multivec
SELECT bool_and(multivec_send(multivec_normalize(v)) = multivec_send(multivec_normalize(m))) AS normalize, bool_and(multivec_send(multivec_truncate(h, 3)) = multivec_send(multivec_truncate(m16, 3))) AS truncate,
	   bool_and(multivec_send(multivec_concat(v, v)) = multivec_send(multivec_concat(m, m))) AS concat, bool_and(multivec_send(multivec_pool(h, 2)) = multivec_send(multivec_pool(m16, 2))) AS pool,
	   bool_and(multivec_send(multivec_slice(v, 1, 1)) = multivec_send(multivec_slice(m, 1, 1))) AS slice, bool_and(multivec_token(v, 1) = multivec_token(m, 1)) AS token,
	   bool_and(multivec_mean(v, true) = multivec_mean(m, true)) AS mean, bool_and(multivec_mean(h)::vector = multivec_mean(m16)::vector) AS mean_vector,
	   bool_and(maxsim_fde_document(v) = maxsim_fde_document(m)) AS fde_document, bool_and(maxsim_fde_query(v)::halfvec = maxsim_fde_query(m)::halfvec) AS fde_query,
	   bool_and(multivec_ntokens(v) = cardinality(v)) AS ntokens, bool_and(multivec_dim(h) = 8) AS dim, bool_and(multivec_format(v) || multivec_format(h) = 'f32f16') AS format
FROM docs WHERE cardinality(v) > 0;
SELECT multivec_send(multivec_concat_agg(v ORDER BY id)) = multivec_send(multivec_concat_agg(m ORDER BY id)) AS concat_agg, multivec_send(multivec_concat_agg(h ORDER BY id)) = multivec_send(multivec_concat_agg(m16 ORDER BY id)) AS h FROM docs;
SELECT count(*) FROM queries q, docs d, LATERAL (SELECT array_agg(x) FROM maxsim_matches(q.v, d.h) x) a(matches), LATERAL (SELECT array_agg(x) FROM maxsim_matches(q.m, d.m16) x) b(matches) WHERE a.matches = b.matches;
SELECT q.id, maxsim_topk(q.v, d.id, d.v, 3) = maxsim_topk(q.m, d.id, d.m, 3) AS v, maxsim_topk(q.h, d.id, d.h, 3) = maxsim_topk(q.m, d.id, d.m16, 3) AS h, maxsim_topk(q.v, d.id, d.v, 3) FROM queries q, docs d GROUP BY q.id ORDER BY q.id;
SELECT flash_maxsim_rerank(q.v, d.v, '{0,1,3}', 2) = flash_maxsim_rerank(q.m, d.m, '{0,1,3}', 2) AS packed, flash_maxsim_rerank_direct(q.h, d.h, '{0,2}', '{2,1}', 2) = flash_maxsim_rerank_direct(q.m, d.m16, '{0,2}', '{2,1}', 2) AS direct FROM queries q, docs d WHERE q.id = 1 AND d.id = 2;
-- tokens in rows of their own
SELECT array_agg(x ORDER BY n DESC)::multivec, maxsim(array_agg(x), array_agg(x)) FROM (VALUES (1, '[1,2]'::vector), (2, '[3,4]')) t(n, x);

-- as queries of maxsim_rerank and maxsim_scores, and as the document column of their source
CREATE FUNCTION ranking(query text, source text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT md5(string_agg(r::text, '' '' ORDER BY q.id, place)) FROM queries q, maxsim_rerank(q.%I, ARRAY(SELECT generate_series(-5, 300)), %L) WITH ORDINALITY AS r(doc_id, score, place)', query, source) INTO result;
	RETURN result;
END $$;
SELECT query, source, ranking(query, source) = ranking('m', CASE WHEN source LIKE '%h%' THEN 'docs(id, m16)' ELSE 'docs(id, m)' END) AS same
FROM unnest(ARRAY['v', 'h', 'm']) query, unnest(ARRAY['docs(id, v)', 'docs(id, h)', 'docs(id, m)']) source ORDER BY 1, 2;
SELECT maxsim_scores(v, '{3,50,60,3,500}', 'docs(id, v)') = maxsim_scores(m, '{3,50,60,3,500}', 'docs(id, m)') AS v, maxsim_scores(h, '{3,4}', 'docs(id, h)') = maxsim_scores(m, '{3,4}', 'docs(id, m16)') AS h, maxsim_scores(m, '{3,50,60,3,500}', 'docs(id, v)') FROM queries WHERE id = 2;
SELECT r.* FROM queries, maxsim_rerank(v, '{1,2,3}', 'docs(id, h)', 2) r WHERE id = 1;
-- a table without an index, partitions, views, other arrays of numbers, a domain
CREATE TABLE plain AS SELECT id::integer, v, m::real[]::numeric[] AS n, m::real[]::integer[] AS i, h AS "H h" FROM docs;
CREATE TABLE parts (id bigint PRIMARY KEY, v vector[]) PARTITION BY HASH (id);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts SELECT id, v FROM docs;
CREATE VIEW viewed AS SELECT id, h FROM docs;
CREATE DOMAIN tokens AS vector(8)[] CHECK (cardinality(VALUE) < 1000);
CREATE TABLE domains AS SELECT id, v::tokens AS v FROM docs;
SELECT source, ranking('v', source) = ranking('m', CASE WHEN source LIKE '%h)%' OR source LIKE '%H%' THEN 'docs(id, m16)' ELSE 'docs(id, m)' END) AS same
FROM unnest(ARRAY['plain(id, v)', 'plain(id, n)', 'plain(id, i)', 'plain(id, "H h")', 'parts(id, v)', 'viewed(id, h)', 'domains(id, v)']) source;
SELECT count(*) = (SELECT count(*) FROM parts_0) AS same FROM maxsim_rerank('[[1,0,0,0,0,0,0,0]]', ARRAY(SELECT generate_series(1, 300)), 'parts_0(id, v)');
-- one vector is no document; a bad one is an error where it is asked for, and nowhere else
CREATE TABLE others (id integer, v vector, s sparsevec[], bad vector[]);
INSERT INTO others VALUES (1, '[1,2]', '{"{1:1}/2"}', '{"[1,2]"}'), (2, '[1,2]', '{"{1:1}/2"}', '{"[1,2]","[3]"}'), (3, '[1,2]', '{"{1:1}/2"}', '{NULL}'), (4, '[1,2]', '{"{1:1}/2"}', '{"[3,4]"}');
SELECT error_of('SELECT maxsim_scores(''[[1,1]]'', ''{1}'', ''others(id, v)'')'), error_of('SELECT maxsim_scores(''[[1,1]]'', ''{1}'', ''others(id, s)'')');
SELECT maxsim_scores('[[1,1]]', '{4,1}', 'others(id, bad)'), error_of('SELECT maxsim_scores(''[[1,1]]'', ''{1,2}'', ''others(id, bad)'')'), error_of('SELECT maxsim_scores(''[[1,1]]'', ''{3}'', ''others(id, bad)'')'), error_of('SELECT maxsim_scores(''[[1]]'', ''{4}'', ''others(id, bad)'')');
ALTER TABLE others ADD PRIMARY KEY (id);
SELECT maxsim_scores('[[1,1]]', '{4,1}', 'others(id, bad)') FROM generate_series(1, 3);
-- with the rights of the caller
CREATE ROLE pgvector_reader;
GRANT USAGE ON SCHEMA pgvector_functions TO pgvector_reader;
GRANT SELECT (id) ON docs TO pgvector_reader;
SET ROLE pgvector_reader;
SELECT error_of('SELECT maxsim_scores(''[[1]]'', ''{1}'', ''docs(id, v)'')');
RESET ROLE;
GRANT SELECT (id, v) ON docs TO pgvector_reader;
ALTER TABLE docs ENABLE ROW LEVEL SECURITY;
CREATE POLICY odd ON docs USING (id % 2 = 1);
SET ROLE pgvector_reader;
SELECT count(*) FROM maxsim_rerank('[[1,0,0,0,0,0,0,0]]', '{1,2,3,4}', 'docs(id, v)');
RESET ROLE;
ALTER TABLE docs DISABLE ROW LEVEL SECURITY;
DROP OWNED BY pgvector_reader;
DROP ROLE pgvector_reader;

-- in plans: batches, with the result of calls row by row
EXPLAIN (COSTS OFF) SELECT id FROM docs ORDER BY maxsim('[[1,0,0,0,0,0,0,0]]', v) DESC NULLS LAST LIMIT 3;
CREATE FUNCTION best(query text, document text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT string_agg(id || '':'' || score, '' '') FROM (SELECT d.id, maxsim(q.%I, d.%I) AS score FROM docs d, queries q WHERE q.id = 3 ORDER BY score DESC NULLS LAST, d.id LIMIT 5) b', query, document) INTO result;
	RETURN result;
END $$;
SELECT query, document, best(query, document) FROM unnest(ARRAY['v', 'h', 'm']) query, unnest(ARRAY['v', 'h', 'm', 'm16']) document ORDER BY 1, 2;
SET flash_maxsim.enable_batch_scan = off;
SELECT DISTINCT best(query, document) FROM unnest(ARRAY['v', 'h', 'm']) query, unnest(ARRAY['v', 'h', 'm', 'm16']) document;
RESET flash_maxsim.enable_batch_scan;
SELECT max(maxsim(q.v, d.v)) = max(maxsim(q.m, d.m)) AS aggregate, sum(maxsim('[[1,0,0,0,0,0,0,0]]', d.h)) FROM docs d, queries q;
SELECT error_of('SELECT id FROM others ORDER BY maxsim(''[[1,1]]'', bad)'), error_of('SELECT id FROM (SELECT o.* FROM others o, generate_series(1, 20)) o ORDER BY maxsim(''[[1,1]]'', bad)');

-- generated columns, and an index that finds candidates
CREATE TABLE made (id bigint PRIMARY KEY, v vector(8)[], embedding multivec(8, f16) GENERATED ALWAYS AS (v) STORED, mean vector(8) GENERATED ALWAYS AS (multivec_mean(v)) STORED,
	fde halfvec(3968) GENERATED ALWAYS AS (maxsim_fde_document(v)) STORED);
INSERT INTO made SELECT id, v FROM docs WHERE cardinality(v) > 0;
SELECT count(*), bool_and(multivec_send(embedding) = multivec_send(m16)) AS embedding, bool_and(mean = multivec_mean(m)::vector) AS mean, bool_and(fde = maxsim_fde_document(m)::halfvec) AS fde FROM made JOIN docs USING (id);
CREATE INDEX ON made USING hnsw (mean vector_cosine_ops);
CREATE INDEX ON made USING hnsw (fde halfvec_ip_ops);
SET enable_seqscan = off;
SET enable_sort = off;
CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query; END $$;
SELECT plan FROM plan_of($$SELECT id FROM made ORDER BY mean <=> multivec_mean('[[1,0,0,0,0,0,0,0]]')::vector LIMIT 20$$) plan WHERE plan ~ 'Index Scan';
SELECT plan FROM plan_of($$SELECT id FROM made ORDER BY fde <#> maxsim_fde_query('[[1,0,0,0,0,0,0,0]]')::halfvec LIMIT 20$$) plan WHERE plan ~ 'Index Scan';
SELECT count(*), count(score) AS scores, count(DISTINCT doc_id) AS ids FROM queries q, maxsim_rerank(v, ARRAY(SELECT id FROM made ORDER BY mean <=> multivec_mean(q.v)::vector LIMIT 20), 'made(id, v)', 5);
SELECT count(*), count(score) AS scores, count(DISTINCT doc_id) AS ids FROM queries q, maxsim_rerank(v, ARRAY(SELECT id FROM made ORDER BY fde <#> maxsim_fde_query(q.v)::halfvec LIMIT 20), 'made(id, embedding)', 5);
RESET enable_seqscan;
RESET enable_sort;

-- each of the three extensions in a schema of its own, none of them in the search_path, and moved
\set database :DBNAME
CREATE DATABASE regression_pgvector;
\c regression_pgvector
CREATE SCHEMA a;
CREATE SCHEMA "B b";
CREATE SCHEMA c;
CREATE EXTENSION flash_maxsim SCHEMA a;
CREATE EXTENSION vector SCHEMA "B b";
CREATE EXTENSION flash_maxsim_pgvector SCHEMA c;
CREATE TABLE docs (id bigint PRIMARY KEY, v "B b".vector(2)[], m a.multivec(2, f16) GENERATED ALWAYS AS (v) STORED);
INSERT INTO docs VALUES (1, '{"[1,2]"}'), (2, '{"[3,4]","[5,6]"}');
SELECT a.maxsim('[[1,0]]', v), a.maxsim(v, m), m FROM docs ORDER BY id;
SELECT * FROM a.maxsim_rerank('[[1,0]]', '{1,2}', 'docs(id, v)');
ALTER EXTENSION flash_maxsim SET SCHEMA c;
ALTER EXTENSION vector SET SCHEMA a;
ALTER EXTENSION flash_maxsim_pgvector SET SCHEMA "B b";
SELECT c.maxsim('[[1,0]]', v), m::a.vector[] FROM docs ORDER BY id;
SELECT * FROM c.maxsim_rerank('[[1,0]]', '{1,2}', 'docs(id, v)');
INSERT INTO docs VALUES (3, '[[7,8]]'::c.multivec);
TABLE docs;
-- none of the three is dropped while columns need it, and what is stored as vector[] stays
\set VERBOSITY terse
DROP EXTENSION vector;
DROP EXTENSION flash_maxsim_pgvector;
ALTER TABLE docs DROP m;
DROP EXTENSION flash_maxsim_pgvector;
DROP EXTENSION flash_maxsim;
SELECT v FROM docs ORDER BY id;
-- a type of the same name in the schema that it is to be in
CREATE EXTENSION flash_maxsim SCHEMA c;
CREATE TABLE "B b".halfvec (id integer);
CREATE EXTENSION flash_maxsim_pgvector SCHEMA "B b";
CREATE EXTENSION flash_maxsim_pgvector SCHEMA public;
SELECT c.maxsim('[[1,0]]', v) FROM docs ORDER BY id;
\c :database
DROP DATABASE regression_pgvector;
