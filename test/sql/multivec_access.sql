-- Looking into a multivec, wherever it lies, and its binary form.
CREATE SCHEMA multivec_access;
SET search_path = multivec_access, public;

SELECT multivec_ntokens(m), multivec_dim(m), multivec_format(m)
FROM unnest(ARRAY['[[1,2,3],[4,5,6]]', '[[1]]', '[]', '[]'::multivec(3, f16), '[[1,2]]'::multivec(2, bf16)]::multivec[]) m;
SELECT multivec_ntokens(NULL), multivec_dim(NULL), multivec_format(NULL), multivec_slice(NULL, 1, 1), multivec_token(NULL, 1);

CREATE VIEW abc AS SELECT '[[1,2],[3,4],[5,6]]'::multivec AS m;
SELECT multivec_slice(m, 1, 3), multivec_slice(m, 1, 1), multivec_slice(m, 2, 2), multivec_slice(m, 3, 1), multivec_slice(m, 1, 0), multivec_slice(m, 4, 0) FROM abc;
SELECT multivec_dim(multivec_slice(m, 1, 0)), multivec_format(multivec_slice(m::multivec(2, f16), 2, 1)), multivec_slice('[]', 1, 0) FROM abc;
SELECT multivec_token(m, 1), multivec_token(m, 3), array_ndims(multivec_token(m, 3)), multivec_token(m::multivec(2, bf16), 2) FROM abc;
SELECT first, count, error_of(format('SELECT multivec_slice(m, %s, %s) FROM abc', first, count))
FROM (VALUES (0, 1), (-1, 2), (1, 4), (4, 1), (5, 0), (1, -1), (3, 2), (2147483647, 1), (1, 2147483647),
	  (2147483647, 2147483647), (-2147483648, 1), (-2147483648, -2147483648), (1, -2147483648)) v(first, count);
SELECT n, error_of(format('SELECT multivec_token(m, %s) FROM abc', n)) FROM unnest(ARRAY[0, -1, 4, 2147483647, -2147483648]) n;
SELECT error_of($$SELECT multivec_token('[]', 1)$$), error_of($$SELECT multivec_slice('[]', 1, 1)$$);
SELECT error_of($$SELECT multivec_token('[[1]]', 2)$$), error_of($$SELECT multivec_slice('[[1]]', 2, 1)$$);

-- inline with a short header, inline with a long one, compressed, TOASTed, TOASTed and compressed
CREATE TABLE stored (kind text PRIMARY KEY, m multivec);
INSERT INTO stored VALUES ('short', document(1, 3, 4)), ('long', document(1, 20, 20)), ('toasted', document(1, 300, 20));
CREATE TABLE extended (LIKE stored);
ALTER TABLE extended ALTER m SET STORAGE EXTENDED;
INSERT INTO extended VALUES ('compressed', array_fill(1::real, ARRAY[300, 20])), ('toasted and compressed', array_fill(2::real, ARRAY[50000, 20]));
INSERT INTO extended SELECT kind || ' (extended)', m FROM stored;
SELECT kind, multivec_ntokens(m), multivec_dim(m), pg_column_size(m) < 16 + 4 * multivec_ntokens(m) * multivec_dim(m) AS smaller,
	   multivec_send(multivec_slice(m, 3, 1)) = multivec_send(ARRAY[multivec_token(m, 3)]) AS slice,
	   multivec_slice(m, multivec_ntokens(m), 1) AS last,
	   md5(m::text) = md5(multivec_slice(m, 1, multivec_ntokens(m))::text) AS whole
FROM (SELECT * FROM stored UNION ALL SELECT * FROM extended) s ORDER BY kind;
SELECT count(*), bool_and(ARRAY[multivec_token(m, t)] = (m::real[])[t:t]), bool_and(multivec_slice(m, t, 1)::real[] = d[t:t])
FROM stored, document(1, 300, 20) d, generate_series(1, 300) t WHERE kind = 'toasted';

-- the binary form
SELECT encode(multivec_send(m), 'hex') FROM unnest(ARRAY['[[1,2],[3,4]]', '[[1,2]]'::multivec(2, f16), '[[1,2]]'::multivec(2, bf16), '[]', '[]'::multivec(258, f16)]::multivec[]) m;
CREATE TABLE sent (id integer, m multivec, h multivec(20, f16), b multivec(20, bf16), a multivec[]);
INSERT INTO sent SELECT 1, m, m, m, ARRAY[m] FROM stored WHERE kind = 'toasted';
INSERT INTO sent VALUES (2, NULL, NULL, NULL, NULL), (3, '[]', '[]', '[]', '{}');
INSERT INTO sent (id, m) VALUES (4, '[[3.4028235e38,1e-45,-0,0.1]]'), (5, '[[1]]'::multivec(1, f16)), (6, '[[1]]'::multivec(1, bf16));
CREATE TABLE received (LIKE sent);
\copy sent TO 'results/multivec.bin' (FORMAT binary)
\copy received FROM 'results/multivec.bin' (FORMAT binary)
SELECT id, multivec_format(r.m), multivec_dim(r.m), multivec_ntokens(r.m),
	   multivec_send(s.m) = multivec_send(r.m) AS m, multivec_send(s.h) = multivec_send(r.h) AS h,
	   multivec_send(s.b) = multivec_send(r.b) AS b, s.a::text = r.a::text AS a
FROM sent s JOIN received r USING (id) ORDER BY id;
-- received into a format, a value is converted to it
TRUNCATE received;
ALTER TABLE received DROP h, DROP b, DROP a, ALTER m TYPE multivec(20, bf16);
\copy (SELECT id, m FROM sent WHERE id IN (1, 3)) TO 'results/multivec.bin' (FORMAT binary)
\copy received FROM 'results/multivec.bin' (FORMAT binary)
SELECT id, multivec_format(r.m), multivec_dim(r.m), multivec_send(r.m) = multivec_send(s.b) FROM sent s JOIN received r USING (id) ORDER BY id;
\copy (SELECT id, m FROM sent WHERE id = 4) TO 'results/multivec.bin' (FORMAT binary)
\copy received FROM 'results/multivec.bin' (FORMAT binary)
