-- Partitioned sources: an id is looked for where it can be.
CREATE SCHEMA partitions;
SET search_path = partitions, public;

CREATE FUNCTION best(source text, ids bigint[] DEFAULT '{1,12,23,34,34,12,99,-5}') RETURNS text LANGUAGE sql AS
$$ SELECT string_agg(doc_id || ':' || coalesce(score::text, ''), ' ') FROM maxsim_rerank('[[1,0]]', ids, source) $$;
-- the partitions in which a call looks at rows or descends an index
CREATE FUNCTION partitions_read(source text, ids bigint[] DEFAULT '{1,12,23,34,34,12,99,-5}') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before jsonb;
BEGIN
	SELECT jsonb_object_agg(relname, seq_scan + coalesce(idx_scan, 0)) INTO before FROM pg_stat_xact_user_tables WHERE schemaname = 'partitions';
	PERFORM best(source, ids);
	RETURN (SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_stat_xact_user_tables
			WHERE schemaname = 'partitions' AND seq_scan + coalesce(idx_scan, 0) > coalesce((before ->> relname::text)::bigint, 0));
END $$;

CREATE TABLE docs AS SELECT id, ARRAY[[id % 17, 0]]::real[]::multivec(2) AS emb FROM generate_series(-10, 39) id;

-- by the id, in three ways, with a level more, and with ids of another width
CREATE TABLE by_range (id bigint PRIMARY KEY, emb multivec(2)) PARTITION BY RANGE (id);
CREATE TABLE by_range_0 PARTITION OF by_range FOR VALUES FROM (0) TO (10);
CREATE TABLE by_range_1 PARTITION OF by_range FOR VALUES FROM (10) TO (20);
CREATE TABLE by_range_2 PARTITION OF by_range FOR VALUES FROM (20) TO (30) PARTITION BY LIST (id);
CREATE TABLE by_range_2_some PARTITION OF by_range_2 FOR VALUES IN (21, 23, 25);
CREATE TABLE by_range_2_rest PARTITION OF by_range_2 DEFAULT;
CREATE TABLE by_range_3 (emb multivec(2), dropped integer, id bigint NOT NULL);
ALTER TABLE by_range_3 DROP dropped;
ALTER TABLE by_range ATTACH PARTITION by_range_3 FOR VALUES FROM (30) TO (40);
CREATE TABLE by_range_rest PARTITION OF by_range DEFAULT;
INSERT INTO by_range SELECT * FROM docs;
CREATE TABLE by_hash (id integer, emb multivec(2), UNIQUE (id)) PARTITION BY HASH (id);
CREATE TABLE by_hash_0 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_hash_1 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO by_hash SELECT * FROM docs;
CREATE TABLE by_list (id smallint PRIMARY KEY, emb multivec(2)) PARTITION BY LIST (id);
CREATE TABLE by_list_12 PARTITION OF by_list FOR VALUES IN (12);
CREATE TABLE by_list_rest PARTITION OF by_list DEFAULT;
INSERT INTO by_list SELECT * FROM docs;
-- by something else; by the id, which says so nowhere; and where the index is on more
CREATE TABLE by_kind (id bigint, kind text, emb multivec(2), PRIMARY KEY (id, kind)) PARTITION BY LIST (kind);
CREATE TABLE by_kind_a PARTITION OF by_kind FOR VALUES IN ('a');
CREATE TABLE by_kind_b PARTITION OF by_kind FOR VALUES IN ('b');
INSERT INTO by_kind SELECT id, CASE WHEN id < 20 THEN 'a' ELSE 'b' END, emb FROM docs;
INSERT INTO by_kind SELECT 12, 'b', '[[100,0]]';
CREATE TABLE no_index (id bigint, emb multivec(2)) PARTITION BY RANGE (id);
CREATE TABLE no_index_0 PARTITION OF no_index FOR VALUES FROM (MINVALUE) TO (20);
CREATE TABLE no_index_1 PARTITION OF no_index FOR VALUES FROM (20) TO (MAXVALUE);
INSERT INTO no_index SELECT * FROM docs;
CREATE TABLE not_unique (LIKE no_index) PARTITION BY RANGE (id);
CREATE TABLE not_unique_0 PARTITION OF not_unique FOR VALUES FROM (MINVALUE) TO (20);
CREATE TABLE not_unique_1 PARTITION OF not_unique FOR VALUES FROM (20) TO (MAXVALUE);
CREATE INDEX ON not_unique (id);
INSERT INTO not_unique SELECT * FROM docs;
INSERT INTO not_unique VALUES (12, '[[100,0]]');
ANALYZE by_range, by_hash, by_list, by_kind, no_index, not_unique;

SELECT best('docs(id, emb)');
SELECT source, best(source) FROM unnest(ARRAY['by_range(id, emb)', 'by_hash(id, emb)', 'by_list(id, emb)', 'by_kind(id, emb)', 'no_index(id, emb)', 'not_unique(id, emb)']) source;
SELECT maxsim_scores('[[1,0]]', '{34,1,34,12,40000000000,-5}', source) FROM unnest(ARRAY['by_range(id, emb)', 'by_hash(id, emb)', 'by_list(id, emb)']) source;
SELECT error_of(format('SELECT maxsim_scores(''[[1,0]]'', ''{1,12}'', %L)', source)) FROM unnest(ARRAY['by_kind(id, emb)', 'not_unique(id, emb)']) source;

-- only where they can be, whatever ids came before
SELECT partitions_read('by_range(id, emb)', ids) FROM unnest(ARRAY['{1}', '{23}', '{12,34,12}', '{22,-5,99}', '{}', '{1,12,22,23,34,99}']) t(list), CAST(list AS bigint[]) ids;
SELECT partitions_read('by_range_2(id, emb)', ids) FROM unnest(ARRAY['{1}', '{23}', '{24}']) t(list), CAST(list AS bigint[]) ids;
SELECT partitions_read('by_list(id, emb)', ids) FROM unnest(ARRAY['{12}', '{13}', '{12,13}', '{40000}']) t(list), CAST(list AS bigint[]) ids;
SELECT count(*) FROM generate_series(1, 30) id WHERE partitions_read('by_hash(id, emb)', ARRAY[id]) NOT IN ('by_hash_0', 'by_hash_1');
SELECT partitions_read('by_kind(id, emb)', '{1}'), partitions_read('no_index(id, emb)', '{1}');

-- partitions that come and go
ALTER TABLE by_range DETACH PARTITION by_range_1;
SELECT best('by_range(id, emb)'), partitions_read('by_range(id, emb)', '{1,12}');
ALTER TABLE by_range ATTACH PARTITION by_range_1 FOR VALUES FROM (10) TO (20);
SELECT best('by_range(id, emb)'), partitions_read('by_range(id, emb)', '{1,12}');
DROP TABLE by_range_3;
SELECT best('by_range(id, emb)');

-- row security of the table that is named
CREATE ROLE partitions_reader;
GRANT USAGE ON SCHEMA partitions TO partitions_reader;
GRANT SELECT ON by_range TO partitions_reader;
ALTER TABLE by_range ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON by_range FOR SELECT USING (id % 2 = 0);
SET ROLE partitions_reader;
SELECT best('by_range(id, emb)'), best('by_range(id, emb)', ARRAY(SELECT generate_series(-10, 40)));
-- (a partition has rights of its own)
SELECT error_of('SELECT best(''by_range_1(id, emb)'')');
RESET ROLE;
DROP OWNED BY partitions_reader;
DROP ROLE partitions_reader;

-- many ids, in any order and more than once
SELECT count(*), sum(score) FROM maxsim_rerank('[[1,0]]', ARRAY(SELECT i % 3000 FROM generate_series(-100000, 100000) i), 'by_hash(id, emb)');
SELECT count(*), sum(maxsim('[[1,0]]', emb)) FROM by_hash;

-- names that our query uses as well
CREATE TABLE wanted (wanted bigint, id bigint PRIMARY KEY, d multivec(2), found bigint) PARTITION BY RANGE (id);
CREATE TABLE "found" PARTITION OF wanted FOR VALUES FROM (0) TO (100);
INSERT INTO wanted SELECT -id, id, emb FROM docs WHERE id >= 0;
SELECT best('wanted(id, d)'), best('found(id, d)');
CREATE TABLE d (id bigint, "Id ""x""" integer PRIMARY KEY, wanted multivec(2)) PARTITION BY RANGE ("Id ""x""");
CREATE TABLE d_0 PARTITION OF d DEFAULT;
INSERT INTO d SELECT 0, id, emb FROM docs;
SELECT best('d("Id ""x""", wanted)');

-- A table that Citus distributes is an empty shell here, which says nothing of the table.  No
-- Citus is needed for what is asked of it: it is looked up by id like any other, never read as
-- a whole, and without system columns.
CREATE TABLE shell (id bigint PRIMARY KEY, emb multivec(2));
INSERT INTO shell SELECT * FROM docs;
ANALYZE shell;
CREATE FUNCTION ways(OUT whole boolean, OUT by_index boolean) LANGUAGE plpgsql AS $$
DECLARE
	before record;
BEGIN
	SELECT seq_scan, idx_scan INTO before FROM pg_stat_xact_user_tables WHERE relid = 'shell'::regclass;
	PERFORM best('shell(id, emb)', ARRAY(SELECT generate_series(1, 30)));
	SELECT seq_scan > coalesce(before.seq_scan, 0), idx_scan > coalesce(before.idx_scan, 0) INTO whole, by_index FROM pg_stat_xact_user_tables WHERE relid = 'shell'::regclass;
END $$;
SET enable_seqscan = off;
SELECT * FROM ways();
BEGIN;
SET LOCAL allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition AS SELECT relation::regclass AS logicalrelid FROM unnest(ARRAY['shell', 'by_list']) relation;
SELECT * FROM ways();
SELECT best('shell(id, emb)'), best('by_list(id, emb)');
SELECT best('by_range(id, emb)'), partitions_read('by_range(id, emb)', '{1}');
ROLLBACK;
RESET enable_seqscan;
