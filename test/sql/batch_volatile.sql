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
