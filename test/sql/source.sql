-- Sources of every kind, and sources that change.
CREATE SCHEMA source;
SET search_path = source, public;

CREATE TABLE docs (id bigint PRIMARY KEY, emb multivec(2), kind text);
INSERT INTO docs VALUES (1, '[[1,0]]', 'a'), (2, '[[2,0]]', 'a'), (3, '[[3,0]]', 'b'), (4, '[[4,0]]', 'b'), (5, NULL, 'b');
CREATE FUNCTION best(source text) RETURNS text LANGUAGE sql AS
$$ SELECT string_agg(doc_id || ':' || coalesce(score::text, ''), ' ') FROM maxsim_rerank('[[1,0]]', '{1,2,3,4,5,6,7,8}', source) $$;

-- views and materialized views; what a view hides is not found
CREATE VIEW plain AS SELECT * FROM docs;
CREATE VIEW filtered AS SELECT id, emb FROM docs WHERE kind = 'b';
CREATE VIEW computed AS SELECT id * 2 AS id, multivec_slice(emb, 1, 1) AS emb, emb::real[] AS r, emb::real[]::double precision[] AS d FROM docs;
CREATE VIEW joined AS SELECT a.id, b.emb FROM docs a JOIN docs b ON b.id = a.id % 4 + 1;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM docs WHERE kind = 'a';
CREATE VIEW series AS SELECT id, ARRAY[[id, 0]]::real[] AS emb FROM generate_series(1, 100) id;
CREATE MATERIALIZED VIEW frozen AS SELECT * FROM docs WHERE id <> 2;
SELECT source, best(source) FROM unnest(ARRAY['docs(id, emb)', 'plain(id, emb)', 'filtered(id, emb)', 'computed(id, emb)', 'computed(id, r)',
	'computed(id, d)', 'joined(id, emb)', 'barrier(id, emb)', 'series(id, emb)', 'frozen(id, emb)']) source;

-- tables in the other ways that tables come
CREATE TEMPORARY TABLE temporary (id integer, emb multivec);
INSERT INTO temporary SELECT id, emb FROM docs;
CREATE UNLOGGED TABLE unlogged AS SELECT id::smallint, emb::real[] FROM docs;
CREATE TABLE child (extra text) INHERITS (docs);
INSERT INTO child VALUES (6, '[[6,0]]', 'c', 'x');
SELECT source, best(source) FROM unnest(ARRAY['temporary(id, emb)', 'pg_temp.temporary(id, emb)', 'unlogged(id, emb)', 'docs(id, emb)', 'child(id, emb)']) source;
-- temporary tables hide others, as everywhere
CREATE TEMPORARY TABLE frozen (id integer, emb multivec);
SELECT best('frozen(id, emb)'), best('source.frozen(id, emb)');
DROP TABLE pg_temp.frozen, child;

-- partitioned by range, list and hash, by the id or not, with a partition of another column order
CREATE TABLE by_range (id bigint PRIMARY KEY, emb multivec(2)) PARTITION BY RANGE (id);
CREATE TABLE by_range_1 PARTITION OF by_range FOR VALUES FROM (0) TO (3);
CREATE TABLE by_range_2 (emb multivec(2), dropped integer, id bigint NOT NULL);
ALTER TABLE by_range_2 DROP dropped;
ALTER TABLE by_range ATTACH PARTITION by_range_2 FOR VALUES FROM (3) TO (10);
CREATE TABLE by_list (id integer, emb real[], kind text) PARTITION BY LIST (kind);
CREATE TABLE by_list_a PARTITION OF by_list FOR VALUES IN ('a');
CREATE TABLE by_list_rest PARTITION OF by_list DEFAULT;
CREATE TABLE by_hash (id bigint PRIMARY KEY, emb double precision[]) PARTITION BY HASH (id);
CREATE TABLE by_hash_0 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_hash_1 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO by_range SELECT id, emb FROM docs;
INSERT INTO by_list SELECT id, emb, kind FROM docs;
INSERT INTO by_hash SELECT id, emb::real[]::double precision[] FROM docs;
SELECT source, best(source) FROM unnest(ARRAY['by_range(id, emb)', 'by_range_2(id, emb)', 'by_list(id, emb)', 'by_list_a(id, emb)', 'by_hash(id, emb)']) source;

-- what is no table
CREATE SEQUENCE numbers;
CREATE TYPE composite AS (id bigint, emb multivec);
SELECT error_of(format('SELECT best(%L)', source)) FROM unnest(ARRAY['numbers(last_value, log_cnt)', 'composite(id, emb)', 'docs_pkey(id, emb)']) source;

-- indexes that help, that do not, and none
CREATE TABLE many (id bigint, emb multivec(2));
INSERT INTO many SELECT id, ARRAY[[id % 100, 0]] FROM generate_series(1, 20000) id;
CREATE FUNCTION found() RETURNS text LANGUAGE sql AS
$$ SELECT count(*) || ' ' || sum(score) || ' ' || sum(doc_id) FROM maxsim_rerank('[[1,0]]', ARRAY(SELECT generate_series(1, 40000, 40)), 'many(id, emb)') $$;
SELECT 'none' AS index, found();
CREATE INDEX partial ON many (id) WHERE id > 10000;
SELECT 'partial' AS index, found();
CREATE INDEX hash ON many USING hash (id);
SELECT 'hash' AS index, found();
DROP INDEX hash;
CREATE INDEX brin ON many USING brin (id);
SELECT 'brin' AS index, found();
CREATE UNIQUE INDEX btree ON many (id);
SELECT 'btree' AS index, found();
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SELECT 'unused' AS index, found();
RESET enable_indexscan;
RESET enable_bitmapscan;

-- ids up to the limits of the column's type, and beyond, where no index finds them
CREATE DOMAIN whole AS integer;
CREATE DOMAIN tiny AS smallint CHECK (VALUE <> 99);
CREATE TABLE edges AS
	SELECT id, ARRAY[[n, 0]]::real[] AS emb
	FROM unnest(ARRAY[-9223372036854775808, -2147483649, -2147483648, -32769, -32768, -1, 0, 1, 32767, 32768, 2147483647, 2147483648, 9223372036854775807]) WITH ORDINALITY t(id, n);
CREATE TABLE edges_4 AS SELECT id::integer AS id, id::integer::whole AS whole, emb FROM edges WHERE id BETWEEN -2147483648 AND 2147483647;
CREATE TABLE edges_2 AS SELECT id::smallint AS id, id::smallint::tiny AS tiny, emb FROM edges WHERE id BETWEEN -32768 AND 32767;
CREATE VIEW edges_view AS SELECT id, whole, emb FROM edges_4;
SELECT source, string_agg(doc_id || ':' || score, ' ' ORDER BY doc_id)
FROM unnest(ARRAY['edges(id, emb)', 'edges_4(id, emb)', 'edges_4(whole, emb)', 'edges_2(id, emb)', 'edges_2(tiny, emb)', 'edges_view(id, emb)', 'edges_view(whole, emb)']) source,
	LATERAL maxsim_rerank('[[1,0]]', ARRAY(SELECT id FROM edges) || ARRAY[65535, 65536, 65537, 4294967295, 4294967296, 4294967297], source)
GROUP BY source ORDER BY source COLLATE "C";
SELECT maxsim_scores('[[1,0]]', ARRAY(SELECT id FROM edges ORDER BY id) || 4294967297, 'edges_4(id, emb)'),
	   maxsim_scores('[[1,0]]', '{4294967296,4294967297}', 'edges_4(id, emb)'), maxsim_scores('[[1,0]]', '{65537,-65535}', 'edges_2(id, emb)');
CREATE INDEX ON edges_4 (id);
CREATE INDEX ON edges_2 (tiny);
SELECT maxsim_scores('[[1,0]]', ARRAY(SELECT id FROM edges ORDER BY id) || 4294967297, 'edges_4(id, emb)'),
	   maxsim_scores('[[1,0]]', ARRAY(SELECT id FROM edges ORDER BY id) || 65537, 'edges_2(tiny, emb)');
-- many of them are looked up in a hash table: one by one they would take minutes
CREATE VIEW series_4 AS SELECT id, NULL::real[] AS emb FROM generate_series(1, 200000) id;
CREATE VIEW series_2 AS SELECT id::smallint AS id, NULL::real[] AS emb FROM generate_series(1, 30000) id;
CREATE VIEW series_whole AS SELECT id::whole AS id, NULL::real[] AS emb FROM generate_series(1, 200000) id;
SET statement_timeout = '30s';
SELECT count(*) FROM maxsim_rerank('[[1,0]]', ARRAY(SELECT generate_series(100001, 500000)), 'series_4(id, emb)');
SELECT count(*) FROM maxsim_rerank('[[1,0]]', ARRAY(SELECT generate_series(100001, 500000)), 'series_whole(id, emb)');
SELECT count(*) FROM maxsim_rerank('[[1,0]]', array_fill(0::bigint, ARRAY[2000000]) || 7::bigint, 'series_2(id, emb)');
RESET statement_timeout;

-- the caller's snapshot: uncommitted rows, savepoints, cursors
BEGIN;
INSERT INTO docs VALUES (6, '[[6,0]]');
SELECT best('docs(id, emb)');
SAVEPOINT a;
UPDATE docs SET emb = '[[-1,0]]' WHERE id = 4;
DELETE FROM docs WHERE id = 3;
SELECT best('docs(id, emb)');
DECLARE c CURSOR FOR SELECT doc_id, score FROM maxsim_rerank('[[1,0]]', '{1,2,3,4,5,6}', 'docs(id, emb)');
FETCH 2 FROM c;
DELETE FROM docs WHERE id < 4;
FETCH ALL FROM c;
SELECT best('docs(id, emb)');
CLOSE c;
ROLLBACK TO a;
SELECT best('docs(id, emb)');
SAVEPOINT b;
SELECT maxsim_scores('[[1]]', '{1}', 'docs(id, emb)');
ROLLBACK TO b;
SELECT best('docs(id, emb)');
ROLLBACK;
SELECT best('docs(id, emb)');
DO $$
BEGIN
	FOR i IN 6..8 LOOP
		INSERT INTO docs VALUES (i, ARRAY[[i, 0]]);
		RAISE NOTICE '%', best('docs(id, emb)');
		BEGIN
			PERFORM 1 FROM maxsim_rerank('[[1,2,3]]', ARRAY[i], 'docs(id, emb)');
		EXCEPTION WHEN data_exception THEN
			RAISE NOTICE '%', SQLERRM;
		END;
	END LOOP;
	DELETE FROM docs WHERE id > 5;
	RAISE NOTICE '%', best('docs(id, emb)');
END $$;
-- within one statement, rows that it inserts are not seen
WITH inserted AS (INSERT INTO docs VALUES (7, '[[7,0]]') RETURNING id) SELECT maxsim_scores('[[1,0]]', '{1,7}', 'docs(id, emb)'), count(*) FROM inserted;
SELECT maxsim_scores('[[1,0]]', '{1,7}', 'docs(id, emb)');
DELETE FROM docs WHERE id = 7;

-- a source that itself reranks, whose source may rerank
CREATE VIEW nested AS SELECT doc_id AS id, ARRAY[[score, 0]]::real[] AS emb FROM maxsim_rerank('[[2,0]]', '{1,2,3,4}', 'docs(id, emb)');
CREATE VIEW nested_twice AS SELECT doc_id AS id, ARRAY[[score, 1]]::multivec(2, f16) AS emb FROM maxsim_rerank('[[1,0]]', '{1,2,3}', 'nested(id, emb)');
SELECT best('nested(id, emb)'), best('nested_twice(id, emb)');
-- each call with a plan of its own beyond those that are kept
CREATE FUNCTION many_sources() RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..40 LOOP
		EXECUTE format('CREATE VIEW nested_%s AS SELECT doc_id AS id, ARRAY[[score + 1, 0]]::real[] AS emb FROM maxsim_rerank(''[[1,0]]'', ''{1,2,3}'', %L)',
					   i, CASE WHEN i = 1 THEN 'docs(id, emb)' ELSE format('nested_%s(id, emb)', i - 1) END);
		RETURN NEXT best(format('nested_%s(id, emb)', i));
	END LOOP;
END $$;
SELECT * FROM many_sources() WITH ORDINALITY t(best, n) WHERE n % 10 = 0;
SELECT best('nested_40(id, emb)'), best('docs(id, emb)'), best('nested_3(id, emb)');

-- relations that change under the plans that are kept
CREATE TABLE changing (id bigint PRIMARY KEY, emb multivec(2));
INSERT INTO changing SELECT id, emb FROM docs;
SELECT best('changing(id, emb)');
ALTER TABLE changing ADD other text;
ALTER TABLE changing DROP CONSTRAINT changing_pkey;
SELECT best('changing(id, emb)');
ALTER TABLE changing ALTER emb TYPE real[], ALTER id TYPE integer;
SELECT best('changing(id, emb)');
ALTER TABLE changing ALTER emb TYPE multivec(2, f16), ALTER id TYPE smallint;
SELECT best('changing(id, emb)');
ALTER TABLE changing RENAME emb TO vectors;
SELECT error_of('SELECT best(''changing(id, emb)'')');
SELECT best('changing(id, vectors)');
ALTER TABLE changing RENAME TO changed;
SELECT error_of('SELECT best(''changing(id, vectors)'')');
CREATE TABLE changing AS SELECT id, ARRAY[[id * 10, 0]]::double precision[] AS vectors FROM docs;
SELECT best('changing(id, vectors)'), best('changed(id, vectors)');
DROP TABLE changing;
CREATE VIEW changing AS SELECT id, emb AS vectors FROM docs WHERE id < 3;
SELECT best('changing(id, vectors)');
CREATE OR REPLACE VIEW changing AS SELECT id, emb AS vectors FROM docs WHERE id > 3;
SELECT best('changing(id, vectors)');
CREATE SCHEMA source_2;
CREATE TABLE source_2.docs AS SELECT id, ARRAY[[-id, 0]] AS emb FROM docs;
ALTER TABLE source_2.docs ALTER emb TYPE real[];
SELECT best('docs(id, emb)');
SET search_path = source_2, source, public;
SELECT best('docs(id, emb)'), best('source.docs(id, emb)');
SET search_path = source, public;
SELECT best('docs(id, emb)'), best('source_2.docs(id, emb)');
TRUNCATE changed;
SELECT best('changed(id, vectors)');
