-- Documents are read from TOAST pages where they ought to lie: wherever they do lie, in
-- whatever order they are asked for, scores are those of maxsim(), which PostgreSQL
-- fetches documents for.
CREATE SCHEMA toast;
SET search_path = toast, public;
-- the smallest tokens, so that documents end at any byte of a chunk
CREATE TABLE docs (id bigint PRIMARY KEY, size integer, d multivec);
ALTER TABLE docs SET (toast_tuple_target = 128);
CREATE TABLE query AS SELECT '[[1],[-1]]'::multivec AS q;
-- a document of so many bytes, header and all, that tells where its chunks belong
CREATE FUNCTION of_size(id bigint, size integer) RETURNS multivec LANGUAGE sql AS
$$ SELECT multivec(ARRAY(SELECT ARRAY[(id * 131071 + t * t * 17 + t) % 65521]::real[] FROM generate_series(1, ($2 - 16)::bigint / 4) t)) $$;

-- n ids in an order, and whether all scores are right
CREATE FUNCTION verify(name text, condition text DEFAULT 'true', order_by text DEFAULT 'id') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT format(''%%s of %%s right'', count(*) FILTER (WHERE score = maxsim(q, d)), count(*))
		FROM (SELECT id, d, scores[n] AS score
			FROM (SELECT array_agg(id ORDER BY %3$s) AS ids FROM %1$s WHERE %2$s) i,
				maxsim_scores((SELECT q FROM query), ids, ''%1$s(id, d)'') scores, unnest(ids) WITH ORDINALITY u(id, n) JOIN %1$s USING (id)) s, query', name, condition, order_by) INTO result;
	RETURN result;
END $$;

-- every size around the ends of chunks, of 1,996 bytes here: one to nine of them
INSERT INTO docs SELECT row_number() OVER (), size, of_size(row_number() OVER (), size)
FROM (SELECT 4 + chunks * 1996 + 4 * more AS size FROM generate_series(1, 9) chunks, generate_series(-6, 6) more ORDER BY md5(chunks || '.' || more)) s;
SELECT count(*), min(size), max(size) FROM docs;
SELECT order_by, verify('docs', order_by => order_by) FROM unnest(ARRAY['id', 'id DESC', 'md5(id::text)', 'size', 'id % 2, id', 'id % 3, id DESC']) order_by;
SELECT verify('docs', format('id %% %s = 0', n)) FROM generate_series(2, 9) n;

-- Of documents of one token, every byte matters to the score: one to twelve chunks.
DO $$
BEGIN
	FOR n IN 1 .. 12 LOOP
		FOR extra IN 0 .. 2 LOOP
			EXECUTE format('CREATE TABLE one_token_%s_%s (id bigint PRIMARY KEY, d multivec)', n, extra);
			EXECUTE format('ALTER TABLE one_token_%s_%s SET (toast_tuple_target = 128)', n, extra);
			EXECUTE format('INSERT INTO one_token_%s_%s SELECT id, ARRAY[ARRAY(SELECT ((id * 31 + k * k + k / 7) %% 251)::real FROM generate_series(1, %s) k)] FROM generate_series(1, 50) id ORDER BY CASE WHEN id < 30 THEN 1 END, md5(id::text)',
				n, extra, 499 * n - 4 + extra);
			EXECUTE format('DELETE FROM one_token_%s_%s WHERE id %% 9 = 0', n, extra);
		END LOOP;
	END LOOP;
END $$;
CREATE FUNCTION verify_one_token(name text, dim integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	q multivec := ARRAY[ARRAY(SELECT (k * 7 % 13 - 6)::real FROM generate_series(1, dim) k)];
	result boolean;
BEGIN
	EXECUTE format('SELECT bool_and(score = maxsim($1, d)) AND count(DISTINCT score) > 30 FROM maxsim_rerank($1, ARRAY(SELECT generate_series(1, 50)), ''%1$s(id, d)'') JOIN %1$s ON id = doc_id', name) INTO result USING q;
	RETURN result;
END $$;
SELECT n, bool_and(verify_one_token(format('one_token_%s_%s', n, extra), 499 * n - 4 + extra)) FROM generate_series(1, 12) n, generate_series(0, 2) extra GROUP BY n ORDER BY n;

-- between others, in reverse, and with holes
CREATE TABLE holes (LIKE docs INCLUDING ALL);
INSERT INTO holes SELECT id, size, of_size(id, size) FROM docs ORDER BY id DESC;
SELECT verify('holes');
DELETE FROM holes WHERE id % 3 = 0;
VACUUM holes;
INSERT INTO holes SELECT id, size, of_size(id, size) FROM docs WHERE id % 3 = 0;
UPDATE holes SET d = of_size(id + 1000, size) WHERE id % 5 = 0;
SELECT order_by, verify('holes', order_by => order_by) FROM unnest(ARRAY['id', 'id DESC', 'md5(id::text)']) order_by;
VACUUM holes;
UPDATE holes SET d = of_size(id + 2000, 8000 - size % 4000) WHERE id % 2 = 0;
-- what is deleted is still there, and what is not committed already
BEGIN;
UPDATE holes SET d = of_size(id + 3000, size) WHERE id % 7 < 3;
SAVEPOINT s;
UPDATE holes SET d = of_size(id + 4000, size);
SELECT verify('holes');
ROLLBACK TO s;
INSERT INTO holes SELECT id + 1000, size, of_size(id, size) FROM docs;
SELECT order_by, verify('holes', order_by => order_by) FROM unnest(ARRAY['id', 'id DESC', 'md5(id::text)']) order_by;
ROLLBACK;
SELECT order_by, verify('holes', order_by => order_by) FROM unnest(ARRAY['id', 'id DESC', 'md5(id::text)']) order_by;
VACUUM (FULL) holes;
SELECT order_by, verify('holes', order_by => order_by) FROM unnest(ARRAY['id', 'id DESC', 'md5(id::text)']) order_by;

-- two TOAST relations by turns, and buffers of the session
CREATE TABLE both_tables (id bigint, size integer, d multivec) PARTITION BY HASH (id);
CREATE TABLE part_0 PARTITION OF both_tables FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE part_1 PARTITION OF both_tables FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO both_tables SELECT id, size, of_size(id, size) FROM docs;
SELECT order_by, verify('both_tables', order_by => order_by) FROM unnest(ARRAY['id', 'md5(id::text)']) order_by;
CREATE TEMPORARY TABLE session_docs AS SELECT id, size, of_size(id, size) AS d FROM docs;
SELECT order_by, verify('session_docs', order_by => order_by) FROM unnest(ARRAY['id', 'md5(id::text)']) order_by;

-- a document larger than the buffer comes in slices
INSERT INTO docs VALUES (1000, 3000000, of_size(1000, 3000000)), (1001, 1500000, of_size(1001, 1500000));
SET flash_maxsim.batch_size = '1MB';
SELECT verify('docs', 'id > 50', 'id'), verify('docs', 'id > 50', 'id DESC');
RESET flash_maxsim.batch_size;
