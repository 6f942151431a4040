-- maxsim_topk: the best documents of a group.
CREATE SCHEMA topk;
SET search_path = topk, public;
SET jit = off;
-- small integers, so that every engine gives the same bits
CREATE FUNCTION tokens(seed integer, ntokens integer, dim integer) RETURNS real[] LANGUAGE sql IMMUTABLE AS
$$ SELECT array_agg(token) FROM (SELECT array_agg(((seed * 7919 + i * 104729) % 13 - 6)::real ORDER BY i) AS token
	FROM generate_series(0, ntokens * dim - 1) i GROUP BY i / dim ORDER BY i / dim) t $$;
CREATE TABLE docs (id bigint PRIMARY KEY, tenant integer, name text, e multivec);
INSERT INTO docs SELECT i, i % 3, 'n' || i, tokens(i, i % 40 + 1, 48)::multivec(48, f16) FROM generate_series(1, 300) i;
INSERT INTO docs VALUES (301, 0, 'n301', NULL), (302, 0, 'n302', '[]'), (303, 3, 'n303', NULL), (304, 4, NULL, tokens(300, 20, 48)::multivec);
INSERT INTO docs SELECT id + 1000, tenant, name, e FROM docs WHERE id <= 50; -- ties
CREATE TABLE query AS SELECT tokens(-5, 9, 48)::multivec AS q;
ANALYZE docs;

SELECT maxsim_topk(q, id, e, 4) FROM docs, query;
SELECT id::bigint, score FROM unnest((SELECT maxsim_topk(q, id, e, 4) FROM docs, query));
-- the same as sorting
CREATE VIEW expected AS SELECT tenant, array_agg((id::text, score)::maxsim_hit ORDER BY score DESC, id) AS hits FROM
	(SELECT tenant, id, score, row_number() OVER (PARTITION BY tenant ORDER BY score DESC, id) AS rank
	 FROM (SELECT tenant, id, maxsim(q, e) AS score FROM docs, query) s WHERE score IS NOT NULL) r
WHERE rank <= 5 GROUP BY tenant;
CREATE VIEW found AS SELECT tenant, maxsim_topk(q, id, e, 5) AS hits FROM docs, query GROUP BY tenant;
SET enable_hashagg = off;
SELECT tenant, cardinality(f.hits), f.hits = e.hits AS same FROM found f LEFT JOIN expected e USING (tenant) ORDER BY tenant;
RESET enable_hashagg;
SET enable_sort = off;
SELECT tenant, f.hits = e.hits AS same FROM found f LEFT JOIN expected e USING (tenant) ORDER BY tenant;
RESET enable_sort;

-- in parallel, in parts
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT tenant, f.hits = e.hits AS same FROM found f LEFT JOIN expected e USING (tenant) ORDER BY tenant;
SELECT a = b AS same FROM (SELECT maxsim_topk((SELECT q FROM query), id, e, 7) AS a FROM docs) a, (SELECT maxsim_topk(q, id, e, 7) AS b FROM docs, query) b;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;

-- ids of any type; NULL is one, and comes last
SELECT maxsim_topk(q, name, e, 3), maxsim_topk(q, id::smallint, e, 3), maxsim_topk(q, ARRAY[id, 0], e, 2) FROM docs, query WHERE id < 1000;
SELECT maxsim_topk(q, md5(id::text)::uuid, e, 1), maxsim_topk(q, CASE WHEN id < 200 THEN id END, e, 2) FROM docs, query WHERE id <= 300;
-- several queries
SELECT n, maxsim_topk(multivec_slice(q, n, 1), id, e, 2) FROM docs, query, generate_series(1, 3) n GROUP BY n ORDER BY n;
SELECT n, l.hits FROM generate_series(1, 3) n, LATERAL (SELECT maxsim_topk(multivec_slice(q, n, 1), id, e, 2) AS hits FROM docs, query) l ORDER BY n;
-- over a window
SELECT id, maxsim_topk(q, id, e, 2) OVER (ORDER BY id ROWS 2 PRECEDING) FROM docs, query WHERE id < 6 ORDER BY id;

-- no rows, no documents, no query, and what is refused
SELECT maxsim_topk(q, id, e, 2) FROM docs, query WHERE false;
SELECT maxsim_topk(q, id, e, 2) FROM docs, query WHERE e IS NULL;
SELECT maxsim_topk(NULL, id, e, 2) FROM docs;
SELECT maxsim_topk(q, id, e, 1000) = maxsim_topk(q, id, e, 1000000) AS same, cardinality(maxsim_topk(q, id, e, 1000)) FROM docs, query;
SELECT error_of('SELECT maxsim_topk(q, id, e, 0) FROM docs, query'), error_of('SELECT maxsim_topk(q, id, e, NULL) FROM docs, query'),
	   error_of('SELECT maxsim_topk(q, id, e, 1000001) FROM docs, query'), error_of('SELECT maxsim_topk(q, id, e, (id % 2 + 1)::integer) FROM docs, query'),
	   error_of('SELECT maxsim_topk(''[[1,2]]'', id, e, 2) FROM docs'), error_of('SELECT maxsim_topk(''[]'', id, e, 2) FROM docs');

-- an error while documents wait to be scored, under a plan whose nodes have memory of their own each
CREATE FUNCTION fail_at(id bigint, at bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	IF id = at THEN
		RAISE 'stopped at %', id;
	END IF;
	RETURN id;
END $$;
CREATE VIEW many_nodes AS SELECT * FROM docs;
DO $$ BEGIN
	EXECUTE 'CREATE OR REPLACE VIEW many_nodes AS SELECT * FROM docs' || repeat(' UNION ALL SELECT * FROM docs WHERE random() > 2', 250);
END $$;
SELECT error_of('SELECT maxsim_topk(q, fail_at(id, 250), e, 2) FROM many_nodes, query'),
	   error_of('SELECT tenant, maxsim_topk(q, fail_at(id, 250), e, 2) FROM many_nodes, query GROUP BY tenant');
SELECT maxsim_topk(q, fail_at(id, 0), e, 2) = (SELECT maxsim_topk(q, id, e, 2) FROM docs, query) AS same FROM many_nodes, query;
