-- maxsim() in batches: what a query says is what it gives, batch scans or not.
CREATE SCHEMA batch_volatile;
SET search_path = batch_volatile, public;
SET jit = off;
CREATE TABLE docs (id bigint PRIMARY KEY, e multivec(8, f16));
INSERT INTO docs SELECT i, document(i, i % 5, 8)::multivec FROM generate_series(1, 200) i;
ANALYZE docs;
CREATE TABLE query AS SELECT document(-1, 3, 8)::multivec AS q;

-- a volatile function that is written twice is called twice for each row
CREATE SEQUENCE counter;
EXPLAIN (COSTS OFF) SELECT id, nextval('counter'), nextval('counter'), maxsim('[[1,0,0,0,0,0,0,0]]', e) FROM docs;
CREATE TABLE numbered AS SELECT id, nextval('counter') AS a, nextval('counter') AS b, maxsim((SELECT q FROM query), e) AS score FROM docs;
SELECT count(*), count(*) FILTER (WHERE a = b) AS same, max(b) FROM numbered;
CREATE TABLE uuids AS SELECT gen_random_uuid() AS a, gen_random_uuid() AS b, maxsim((SELECT q FROM query), e) AS score FROM docs ORDER BY e IS NULL;
SELECT count(*), count(*) FILTER (WHERE a = b) AS same FROM uuids;
SET flash_maxsim.enable_batch_scan = off;
SELECT count(*) AS wrong FROM numbered JOIN docs USING (id), query WHERE score IS DISTINCT FROM maxsim(q, e);
RESET flash_maxsim.enable_batch_scan;

-- documents of a volatile function that drops or empties its table at the next call are scored before that
CREATE FUNCTION dropping(n integer) RETURNS TABLE (id integer, e multivec) LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS kept;
	CREATE TEMP TABLE kept (id integer, e multivec);
	ALTER TABLE kept ALTER e SET STORAGE EXTERNAL;
	INSERT INTO kept SELECT n, document(n, 100, 8)::multivec FROM generate_series(1, 10);
	RETURN QUERY SELECT * FROM kept;
END $$;
CREATE FUNCTION emptying(n integer) RETURNS TABLE (id integer, e multivec) LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE emptied;
	INSERT INTO emptied SELECT n, document(n, 100, 8)::multivec FROM generate_series(1, 10);
	RETURN QUERY SELECT * FROM emptied;
END $$;
CREATE TEMP TABLE emptied (id integer, e multivec);
ALTER TABLE emptied ALTER e SET STORAGE EXTERNAL;
CREATE TEMP TABLE kept (id integer, e multivec);
EXPLAIN (COSTS OFF) SELECT maxsim('[[1,0,0,0,0,0,0,0]]', e) FROM generate_series(1, 20) n, dropping(n) ORDER BY 1;
SELECT count(*), count(*) FILTER (WHERE score = maxsim(q, document(id, 100, 8)::multivec)) AS same
	FROM query, (SELECT id, maxsim((SELECT q FROM query), e) AS score FROM generate_series(1, 20) n, dropping(n) ORDER BY 2 OFFSET 0) s;
SELECT count(*), count(*) FILTER (WHERE score = maxsim(q, document(id, 100, 8)::multivec)) AS same
	FROM query, (SELECT id, maxsim((SELECT q FROM query), e) AS score FROM generate_series(1, 20) n, emptying(n) ORDER BY 2 OFFSET 0) s;
-- also through a subquery, a union and an aggregation
WITH c AS MATERIALIZED (SELECT e FROM generate_series(1, 20) n, dropping(n) UNION ALL SELECT e FROM docs WHERE id < 0)
	SELECT count(maxsim((SELECT q FROM query), e)) FROM c;
CREATE FUNCTION one(n integer) RETURNS multivec LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT e FROM emptying(n) LIMIT 1); END $$;
EXPLAIN (COSTS OFF) SELECT max(maxsim('[[1,0,0,0,0,0,0,0]]', e)) FROM (SELECT one(n) AS e FROM generate_series(1, 20) n OFFSET 0) x;
SELECT count(maxsim('[[1,0,0,0,0,0,0,0]]', e)) FROM (SELECT one(n) AS e FROM generate_series(1, 20) n OFFSET 0) x;
-- the aggregate fetches a document at once
SELECT cardinality(maxsim_topk((SELECT q FROM query), id, e, 500)) FROM (SELECT id, e FROM generate_series(1, 20) n, emptying(n) OFFSET 0) x;
-- so are its values of other types kept for no longer, if they are pointers
CREATE FUNCTION noted(n integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	TRUNCATE notes;
	INSERT INTO notes SELECT string_agg(md5(n::text || i), '') FROM generate_series(1, 300) i;
	SELECT note INTO answer FROM notes;
	RETURN answer;
END $$;
CREATE TEMP TABLE notes (note text);
ALTER TABLE notes ALTER note SET STORAGE EXTERNAL;
EXPLAIN (COSTS OFF) SELECT id, noted(id::integer), maxsim('[[1,0,0,0,0,0,0,0]]', e) FROM docs;
SELECT count(note), sum(length(note)), count(score) FROM (SELECT noted(id::integer) AS note, maxsim('[[1,0,0,0,0,0,0,0]]', e) AS score FROM docs OFFSET 0) x;
SELECT count(*) FROM (SELECT id, e, noted(id::integer) AS note FROM docs OFFSET 0) x WHERE maxsim('[[1,0,0,0,0,0,0,0]]', e) < length(note);
SELECT max(length(note)), count(maxsim('[[1,0,0,0,0,0,0,0]]', e)) FROM (SELECT id, e, noted(id::integer) AS note FROM docs OFFSET 0) x;
EXPLAIN (COSTS OFF) SELECT id, random(), maxsim('[[1,0,0,0,0,0,0,0]]', e) FROM docs;
-- what one of them does, the next one in the row is told, which none is where rows are read ahead between them
CREATE SEQUENCE turn;
SELECT count(*), count(*) FILTER (WHERE a = b) AS same FROM (SELECT nextval('turn') AS a, maxsim('[[0,0,0,0,0,0,0,0]]', e) + currval('turn') AS b FROM docs WHERE e IS NOT NULL OFFSET 0) x;
SELECT setval('turn', 1);
SELECT count(*), count(DISTINCT b) FROM (SELECT currval('turn') AS b FROM docs WHERE nextval('turn') > 0 AND maxsim('[[0,0,0,0,0,0,0,0]]', e) > -1 OFFSET 0) x;
EXPLAIN (COSTS OFF) SELECT nextval('turn'), currval('turn') FROM docs WHERE maxsim('[[0,0,0,0,0,0,0,0]]', e) > -1;
-- ... nor is told by what other nodes of the plan do, below and above, unless a sort reads all in between
SELECT count(*), count(*) FILTER (WHERE a = b) AS same FROM (SELECT a, currval('turn') AS b FROM (SELECT nextval('turn') AS a, e FROM docs OFFSET 0) x WHERE maxsim('[[0,0,0,0,0,0,0,0]]', e) > -1 OFFSET 0) y;
SELECT count(score), sum(currval('turn') - a) AS late FROM (SELECT a, maxsim('[[0,0,0,0,0,0,0,0]]', e) AS score FROM (SELECT nextval('turn') AS a, e FROM docs OFFSET 0) x OFFSET 0) y;
SELECT max(maxsim('[[0,0,0,0,0,0,0,0]]', e)), sum(currval('turn') - a) AS late FROM (SELECT nextval('turn') AS a, e FROM docs OFFSET 0) x;
SELECT count(*) FILTER (WHERE b = a) AS same FROM (SELECT a, (SELECT currval('turn') WHERE score IS NOT NULL) AS b FROM (SELECT (SELECT nextval('turn') WHERE id > 0) AS a, maxsim('[[0,0,0,0,0,0,0,0]]', e) AS score FROM docs WHERE e IS NOT NULL OFFSET 0) x OFFSET 0) y;
EXPLAIN (COSTS OFF) SELECT a, currval('turn') FROM (SELECT nextval('turn') AS a, e FROM docs OFFSET 0) x ORDER BY maxsim('[[0,0,0,0,0,0,0,0]]', e);
-- ... and it is done, whether the value is used or not
SELECT setval('turn', 1);
SELECT count(*) FROM (SELECT nextval('turn') FROM docs WHERE maxsim('[[0,0,0,0,0,0,0,0]]', e) > -1 OFFSET 0) x;
SELECT last_value FROM turn;
-- where it returns the query, or ids, documents are read ahead
EXPLAIN (COSTS OFF) SELECT maxsim(q, e) FROM one(3) q, docs;
EXPLAIN (COSTS OFF) SELECT maxsim('[[1,0,0,0,0,0,0,0]]', d.e) FROM emptying(3) x JOIN docs d ON d.id % 50 = x.id;
