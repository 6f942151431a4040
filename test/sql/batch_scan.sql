-- Plans that score maxsim() in batches: where the node is, and where it is not.
-- test/t/batch_scan.pl compares results on random tables.
LOAD 'flash_maxsim';
CREATE SCHEMA batch_scan;
SET search_path = batch_scan, public;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE docs (id integer, gone integer, grp integer, d multivec(4), a real[]);
ALTER TABLE docs DROP gone;
INSERT INTO docs SELECT i, i % 3, document(i, i % 4, 4), document(i + 1, 2, 4) FROM generate_series(1, 100) i;
INSERT INTO docs VALUES (101, 1, NULL, NULL);
CREATE TABLE queries (qid integer, q multivec);
INSERT INTO queries SELECT i, document(1000 + i, 3, 4) FROM generate_series(1, 3) i;
ANALYZE docs, queries;
SHOW flash_maxsim.enable_batch_scan;

-- the best documents; a score in an expression; two documents; a query from elsewhere
EXPLAIN (COSTS OFF, VERBOSE) SELECT id FROM docs WHERE grp > 0 ORDER BY maxsim('[[1,2,3,4]]', d) DESC NULLS LAST, id LIMIT 3;
SELECT id, maxsim('[[1,2,3,4]]', d) FROM docs WHERE grp > 0 ORDER BY maxsim('[[1,2,3,4]]', d) DESC NULLS LAST, id LIMIT 3;
EXPLAIN (COSTS OFF, VERBOSE) SELECT id, 1 - maxsim('[[1,2,3,4]]', d), maxsim('[[0,1,0,1]]', a) FROM docs;
SELECT id FROM docs ORDER BY maxsim((SELECT q FROM queries WHERE qid = 1), d) DESC NULLS LAST, id LIMIT 3;
SELECT qid, b.* FROM queries, LATERAL (SELECT id, maxsim(q, d) AS s FROM docs ORDER BY s DESC NULLS LAST, id LIMIT 2) b ORDER BY qid, s DESC, id;

-- a query that is a column: batches as long as it stays the same
EXPLAIN (COSTS OFF, VERBOSE) SELECT x.id, maxsim(q.q, x.d) FROM docs x, queries q;
SELECT qid, count(maxsim(q, d)), min(maxsim(q, d)), max(maxsim(q, d)), max(maxsim(q, a)) FROM queries, docs GROUP BY qid ORDER BY qid;
SELECT sum(maxsim(q, d)::integer * id * qid), count(*) FROM (SELECT * FROM docs ORDER BY id OFFSET 0) d, queries;
SELECT sum(maxsim(x.d, y.d)::integer * x.id), count(*) FROM docs x JOIN docs y ON y.id % 50 = x.id % 50 WHERE x.id % 4 > 0 AND y.id > 3;

-- weights that PL/pgSQL makes for each row: every array lies where the last one did
CREATE FUNCTION assigned(i integer) RETURNS double precision[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	w double precision[];
BEGIN
	w[1] := i;
	RETURN w;
END $$;
EXPLAIN (COSTS OFF, VERBOSE) SELECT id, maxsim('[[1]]', (CASE WHEN id > 0 THEN '[[1]]' END)::multivec, assigned(id)) AS s FROM docs;
SELECT count(*), count(*) FILTER (WHERE s = id) FROM (SELECT id, maxsim('[[1]]', (CASE WHEN id > 0 THEN '[[1]]' END)::multivec, assigned(id)) AS s FROM docs OFFSET 0) x;

-- below an aggregation, in each of a union's branches, and above a join
EXPLAIN (COSTS OFF, VERBOSE) SELECT max(maxsim('[[1,2,3,4]]', d)), count(*) FROM docs;
SELECT grp, max(maxsim('[[1,2,3,4]]', d)), count(*) FROM docs GROUP BY grp ORDER BY grp;
EXPLAIN (COSTS OFF) SELECT maxsim('[[1,2,3,4]]', d) FROM docs UNION ALL SELECT maxsim('[[1,2,3,4]]', a) FROM docs;
SET enable_nestloop = off; SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT x.id FROM docs x JOIN docs y ON x.id = y.grp ORDER BY maxsim('[[1,2,3,4]]', y.d) LIMIT 2;
RESET enable_nestloop; RESET enable_mergejoin;

-- of rows with more columns the node keeps what an aggregation uses: in expressions, filters and
-- conditions, to group and to sort by, in grouping sets, or as a whole row
CREATE TABLE broad (id integer PRIMARY KEY, grp integer, d multivec(4), a real[], gen integer GENERATED ALWAYS AS (id * 2) STORED, note text);
INSERT INTO broad (id, grp, d, a, note) SELECT id, grp, d, a, 'n' || id % 3 FROM docs;
ANALYZE broad;
CREATE FUNCTION node_output(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) ' || statement INTO plan;
	RETURN jsonb_path_query_first(plan::jsonb, '$.**?(@."Custom Plan Provider" == "MaxSim").Output');
END $$;
SELECT node_output(s) FROM (VALUES
	('SELECT count(maxsim($$[[1,2,3,4]]$$, d)) FROM broad'),
	('SELECT max(maxsim($$[[1,2,3,4]]$$, d)), max(gen), min(d::text) FROM broad'),
	('SELECT max(maxsim($$[[1,2,3,4]]$$, d)) FILTER (WHERE gen > 2), max(maxsim($$[[1,2,3,4]]$$, a)) FROM broad'),
	('SELECT max(maxsim($$[[1,2,3,4]]$$, d)) FROM broad GROUP BY grp HAVING min(note) > $$n0$$'),
	('SELECT gen, min(note), max(maxsim($$[[1,2,3,4]]$$, d)) FROM broad GROUP BY id'),
	('SELECT max(maxsim($$[[1,2,3,4]]$$, d)) FROM broad GROUP BY GROUPING SETS ((grp, note), (gen), ())'),
	('SELECT max(maxsim($$[[1,2,3,4]]$$, d)), count(b) FROM broad b'),
	('SELECT max(maxsim($$[[1,2,3,4]]$$, d)), max(ctid) FROM broad')) s(s);
SELECT note, count(maxsim('[[1,2,3,4]]', d)), max(maxsim('[[1,2,3,4]]', d)), sum(gen), max(b.gen + b.id) FILTER (WHERE grp > 1), count(b), max(row_to_json(b)::text)
	FROM broad b GROUP BY ROLLUP (note) HAVING max(maxsim('[[1,2,3,4]]', d)) > 0 ORDER BY note;

-- conditions: the first with a call, and those after it; what else is computed of a row is computed behind them
EXPLAIN (COSTS OFF, VERBOSE) SELECT id, 100 / grp, maxsim('[[1,2,3,4]]', d) FROM docs
	WHERE grp > 0 AND maxsim('[[1,2,3,4]]', d) > 20 AND maxsim('[[1,2,3,4]]', d) <> 22 ORDER BY maxsim('[[1,2,3,4]]', d) DESC, id LIMIT 3;
SELECT id, 100 / grp, maxsim('[[1,2,3,4]]', d) FROM docs
	WHERE grp > 0 AND maxsim('[[1,2,3,4]]', d) > 20 AND maxsim('[[1,2,3,4]]', d) <> 22 ORDER BY maxsim('[[1,2,3,4]]', d) DESC, id LIMIT 3;
EXPLAIN (COSTS OFF, VERBOSE) SELECT id, maxsim('[[0,1,0,1]]', d) FROM docs WHERE maxsim('[[1,2,3,4]]', d) > 20 OR 1 / (id - 101) = 0;
SELECT error_of($$ SELECT count(*) FROM docs WHERE maxsim('[[1,2,3,4]]', d) > 20 OR 1 / (id - 101) = 0 $$);
SELECT count(*), sum(s) FROM (SELECT maxsim('[[0,1,0,1]]', d) AS s FROM docs WHERE id < 101 AND (maxsim('[[1,2,3,4]]', d) > 20 OR 1 / (id - 101) <> 0)) x;
EXPLAIN (COSTS OFF, VERBOSE) SELECT grp, max(maxsim('[[0,1,0,1]]', d)) FROM docs WHERE maxsim('[[1,2,3,4]]', d) > 20 GROUP BY grp;
SELECT grp, max(maxsim('[[0,1,0,1]]', d)), count(*) FROM docs WHERE maxsim('[[1,2,3,4]]', d) > 20 GROUP BY grp ORDER BY grp;
EXPLAIN (COSTS OFF) SELECT x.id FROM docs x LEFT JOIN queries ON qid = x.id WHERE COALESCE(maxsim(q, x.d), 5) > 2;

-- a whole row has its documents fetched: not ahead of the condition
EXPLAIN (COSTS OFF) SELECT docs FROM docs WHERE maxsim('[[1,2,3,4]]', d) > 22;
EXPLAIN (COSTS OFF) SELECT docs, maxsim('[[1,2,3,4]]', d) FROM docs;
-- a join may return more columns than a row has
SELECT format('CREATE TABLE %s AS SELECT id, d, %s FROM docs WHERE id < 20', t, string_agg(format('id AS %s%s', t, i), ', ' ORDER BY i))
	FROM generate_series(1, 900) i, unnest(ARRAY['one', 'two']) t GROUP BY t \gexec
ANALYZE one, two;
SELECT 'SELECT count(*), sum(array_length(a, 1)) FROM (SELECT ARRAY[' || string_agg(format('one%s + two%s', i, i), ', ') || ']
	AS a FROM one LEFT JOIN two USING (id) WHERE COALESCE(maxsim($$[[1,2,3,4]]$$, two.d), 5) > -1000 OFFSET 0) x' FROM generate_series(1, 900) i \gexec

-- what COALESCE, CASE, AND and OR always compute
EXPLAIN (COSTS OFF, VERBOSE) SELECT COALESCE(maxsim('[[1,2,3,4]]', d), id), CASE WHEN maxsim('[[1,2,3,4]]', d) > 20 THEN a END, maxsim('[[1,2,3,4]]', d) > 2 OR id / 0 > 1 FROM docs;
SELECT id, COALESCE(maxsim('[[1,2,3,4]]', d), -id), CASE WHEN maxsim('[[1,2,3,4]]', d) > 20 THEN id / grp END,
	CASE maxsim('[[1,2,3,4]]', d)::integer % 3 WHEN 1 THEN a END, maxsim('[[1,2,3,4]]', d) IS NOT NULL OR id / (id - 101) > 1 AS either FROM docs WHERE id % 20 = 1 AND id < 101 ORDER BY id;

EXPLAIN (COSTS OFF, VERBOSE) SELECT sum(COALESCE(maxsim('[[1,2,3,4]]', d), id)), count(CASE WHEN maxsim('[[1,2,3,4]]', d) > 20 THEN a END) FROM docs;
SELECT sum(COALESCE(maxsim('[[1,2,3,4]]', d), id)), count(CASE WHEN maxsim('[[1,2,3,4]]', d) > 20 THEN a END) FROM docs;

-- a parameter that stays one, and cursors
PREPARE best(multivec) AS SELECT id FROM docs ORDER BY maxsim($1, d) DESC NULLS LAST, id LIMIT 3;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE best('[[1,2,3,4]]');
EXECUTE best('[[1,2,3,4]]');
EXECUTE best(NULL);
RESET plan_cache_mode;
EXPLAIN (COSTS OFF) DECLARE c CURSOR FOR SELECT maxsim('[[1,2,3,4]]', d) FROM docs;
EXPLAIN (COSTS OFF) DECLARE c CURSOR FOR SELECT maxsim('[[1,2,3,4]]', d) FROM docs ORDER BY 1;

-- not where rows may not be wanted or may change, nor for few, nor what may not have to be computed
EXPLAIN (COSTS OFF) SELECT maxsim('[[1,2,3,4]]', d) FROM docs LIMIT 3;
EXPLAIN (COSTS OFF) SELECT maxsim('[[1,2,3,4]]', d) FROM docs FOR UPDATE;
EXPLAIN (COSTS OFF) SELECT id FROM docs ORDER BY maxsim('[[1,2,3,4]]', d) LIMIT 3 FOR UPDATE;
EXPLAIN (COSTS OFF) UPDATE docs SET grp = maxsim('[[1,2,3,4]]', d);
EXPLAIN (COSTS OFF) SELECT maxsim('[[1]]', q) FROM queries;
EXPLAIN (COSTS OFF) SELECT id FROM docs WHERE maxsim('[[1,2,3,4]]', d) > 2 LIMIT 3;
EXPLAIN (COSTS OFF) SELECT id FROM docs WHERE grp = 1 OR maxsim('[[1,2,3,4]]', d) > 2;
EXPLAIN (COSTS OFF) SELECT x.id FROM docs x LEFT JOIN queries ON maxsim(q, x.d) > 2;
EXPLAIN (COSTS OFF) SELECT CASE WHEN grp = 1 THEN maxsim('[[1,2,3,4]]', d) END FROM docs;
SELECT count(CASE WHEN id < 3 THEN maxsim('[[1,2,3,4]]', d) END) FROM docs;

-- a reader that stops is not told of an error behind
INSERT INTO docs SELECT 200, 0, NULL, '{{1,2}}';
CREATE FUNCTION one_score() RETURNS real LANGUAGE sql AS $$ SELECT maxsim('[[1,2,3,4]]', a) FROM docs $$;
SELECT one_score();
SELECT error_of($$ SELECT max(maxsim('[[1,2,3,4]]', a)) FROM docs $$);
DELETE FROM docs WHERE id = 200;

-- ... nor are those that were read ahead and fail
INSERT INTO docs SELECT 200, 0, NULL, '{{1,2}}';
CREATE FUNCTION one_id() RETURNS integer LANGUAGE sql AS $$ SELECT id FROM docs WHERE maxsim('[[1,2,3,4]]', a) > -1000 AND id > 10 $$;
SELECT one_id();
DELETE FROM docs WHERE id = 200;

-- off
SET flash_maxsim.enable_batch_scan = off;
EXPLAIN (COSTS OFF) SELECT id FROM docs ORDER BY maxsim('[[1,2,3,4]]', d) DESC NULLS LAST, id LIMIT 3;
SELECT id, maxsim('[[1,2,3,4]]', d) FROM docs WHERE grp > 0 ORDER BY maxsim('[[1,2,3,4]]', d) DESC NULLS LAST, id LIMIT 3;
RESET flash_maxsim.enable_batch_scan;

-- what the node says of its work
CREATE FUNCTION explained(options text, statement text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, FORMAT JSON%s) %s', options, statement) INTO plan;
	RETURN plan::jsonb #> '{0,Plan,Plans,0}';
END $$;
SELECT key, value FROM jsonb_each_text(explained('', $$ SELECT max(maxsim('[[1,2,3,4]]', d)) FROM docs $$))
	WHERE key IN ('Custom Plan Provider', 'Documents', 'Batch Windows', 'Host Cache Hits', 'GPU Cache Hits') ORDER BY key;
SELECT key, value FROM jsonb_each_text(explained('', $$ SELECT count(*) FROM docs WHERE maxsim('[[1,2,3,4]]', d) > 20 $$))
	WHERE key IN ('Custom Plan Provider', 'Documents', 'Rows Removed by Filter') ORDER BY key;
SELECT count(*) FROM jsonb_each_text(explained(', COSTS OFF', $$ SELECT max(maxsim('[[1,2,3,4]]', d)) FROM docs $$))
	WHERE key IN ('Engine', 'Documents', 'Batch Windows', 'Fetch Time');

SET client_min_messages = warning;
DROP SCHEMA batch_scan CASCADE;
