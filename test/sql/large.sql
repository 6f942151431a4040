-- Documents of every size against the buffer that they are gathered in: many that
-- share it, some that fill it, and some that exceed it and are scored in slices.
CREATE SCHEMA large;
SET search_path = large, public;
SET jit = off;
SET flash_maxsim.batch_size = '1MB';

-- numbers that sum up differently in another order, were there one
CREATE FUNCTION tokens(d integer, ntokens integer, dim integer) RETURNS real[] LANGUAGE sql AS
$$ SELECT array_agg(token ORDER BY t) FROM (SELECT t, array_agg(sin(d + t * 1.7 + k * k * 0.37)::real ORDER BY k) AS token
	FROM generate_series(1, ntokens) t, generate_series(1, dim) k GROUP BY t) s $$;
CREATE TABLE docs (id integer PRIMARY KEY, r real[], d double precision[], f32 multivec(100), f16 multivec(100, f16), bf16 multivec(100, bf16));
ALTER TABLE docs ALTER r SET STORAGE EXTERNAL, ALTER d SET STORAGE EXTERNAL;
-- of dimension 100: 1 MB is 2,621 tokens in f32, 5,242 in f16, 1,310 as double precision
INSERT INTO docs (id, r) SELECT n, tokens[6001 - n:6000]
FROM tokens(1, 6000, 100) tokens, unnest(ARRAY[1, 2, 40, 1308, 1309, 1310, 1311, 2619, 2620, 2621, 2622, 2623, 5240, 5241, 5242, 5243, 6000]) n;
INSERT INTO docs (id, r) VALUES (0, '{}'), (-1, NULL);
UPDATE docs SET d = r, f32 = r, f16 = r, bf16 = r;
CREATE TABLE queries (n integer, q multivec);
INSERT INTO queries SELECT n, tokens(-n, n, 100) FROM unnest(ARRAY[1, 2, 19, 32]) n;
CREATE TABLE extended (LIKE docs);
ALTER TABLE extended ALTER r SET STORAGE MAIN, ALTER f32 SET STORAGE EXTENDED, ALTER f16 SET STORAGE MAIN;
ALTER TABLE extended ALTER r SET COMPRESSION pglz;
INSERT INTO extended SELECT id, r, d, f32, f16, bf16 FROM docs;
SELECT count(*), min(pg_column_size(f32)) < 40000, max(pg_column_size(f32)) > 1000000 FROM docs WHERE id > 0;

-- the same bits by every way on one engine
SELECT n, doc, count(*), count(score), bool_and(agree(score, alone, 1e-5)) AS same
FROM queries, unnest(ARRAY['r', 'd', 'f32', 'f16', 'bf16']) doc, unnest(ARRAY['docs', 'extended']) relation,
	LATERAL maxsim_rerank(q, ARRAY(SELECT id::bigint FROM docs), format('%s(id, %s)', relation, doc)),
	LATERAL (SELECT maxsim(q, CASE doc WHEN 'r' THEN r WHEN 'd' THEN d WHEN 'f32' THEN f32 WHEN 'f16' THEN f16 WHEN 'bf16' THEN bf16 END) AS alone FROM docs WHERE id = doc_id) a
GROUP BY n, doc ORDER BY n, doc;
-- whatever the buffer's size, the order and what else is in it
CREATE TABLE expected AS SELECT doc_id, score FROM queries, maxsim_rerank(q, ARRAY(SELECT id FROM docs), 'docs(id, f16)') WHERE n = 19;
SET flash_maxsim.batch_size = '64MB';
SELECT count(*), bool_and(e.score IS NOT DISTINCT FROM s.score) FROM expected e JOIN (SELECT m.* FROM queries, maxsim_rerank(q, ARRAY(SELECT id FROM docs), 'docs(id, f16)') m WHERE n = 19) s USING (doc_id);
RESET flash_maxsim.batch_size;
SELECT count(*), bool_and(e.score IS NOT DISTINCT FROM s.score) FROM expected e, queries, LATERAL (SELECT (maxsim_scores(q, ARRAY[doc_id], 'docs(id, f16)'))[1] AS score) s WHERE n = 19;
SELECT count(*), bool_and(e.score IS NOT DISTINCT FROM s.score) FROM expected e JOIN (
	SELECT unnest(ids) AS doc_id, unnest(maxsim_scores(q, ids, 'docs(id, f16)')) AS score FROM queries, (SELECT array_agg(id::bigint ORDER BY id DESC) AS ids FROM docs) i WHERE n = 19) s USING (doc_id);

-- compressed
CREATE TABLE compressed (id integer PRIMARY KEY, r real[], d double precision[], m multivec);
ALTER TABLE compressed ALTER m SET STORAGE EXTENDED;
INSERT INTO compressed SELECT id, a, a, a FROM unnest(ARRAY[1, 100, 2621, 3000, 30000]) id, LATERAL (SELECT array_fill(id::real, ARRAY[id, 100]) AS a) a;
SELECT id, pg_column_size(r) < 50 * id AS r, pg_column_size(d) < 50 * id AS d, pg_column_size(m) < 50 * id AS m FROM compressed WHERE id > 1 ORDER BY id;
SELECT doc, maxsim_scores(array_fill(1, ARRAY[2, 100]), '{1,100,2621,3000,30000}', format('compressed(id, %s)', doc)) FROM unnest(ARRAY['r', 'd', 'm']) doc;

-- what is wrong in a long document is found where it is
CREATE TABLE faulty (id integer, r real[], d double precision[]);
INSERT INTO faulty SELECT id, r, d FROM docs WHERE id = 6000;
UPDATE faulty SET r[5999][100] = 'NaN', d[5999][99] = '1e300';
SELECT error_of('SELECT maxsim_scores(q, ''{6000}'', ''faulty(id, r)'') FROM queries'), error_of('SELECT maxsim_scores(q, ''{6000}'', ''faulty(id, d)'') FROM queries'),
	   error_of('SELECT maxsim(q, r) FROM queries, faulty'), error_of('SELECT maxsim(q, d) FROM queries, faulty');
UPDATE faulty SET r[5999][100] = NULL, d[6000][100] = NULL;
SELECT error_of('SELECT maxsim_scores(q, ''{6000}'', ''faulty(id, r)'') FROM queries'), error_of('SELECT maxsim_scores(q, ''{6000}'', ''faulty(id, d)'') FROM queries');
-- an array that had a NULL keeps a bitmap for it
UPDATE faulty f SET r = f.r, d = f.d;
UPDATE faulty f SET r[5999][100] = docs.r[5999][100], d[6000][100] = docs.d[6000][100], id = 1 FROM docs WHERE docs.id = f.id;
UPDATE faulty f SET d[5999][99] = docs.d[5999][99] FROM docs WHERE docs.id = 6000;
SELECT n, maxsim_scores(q, '{1}', 'faulty(id, r)') = maxsim_scores(q, '{6000}', 'docs(id, r)') AS r, maxsim_scores(q, '{1}', 'faulty(id, d)') = maxsim_scores(q, '{6000}', 'docs(id, d)') AS d FROM queries ORDER BY n;
SELECT error_of('SELECT maxsim_scores(''[[1,2]]'', ''{6000}'', ''docs(id, f16)'')'), error_of('SELECT maxsim_scores(''[[1,2]]'', ''{6000}'', ''docs(id, d)'')');
