-- One vector for many: means, and fixed-dimensional encodings.
CREATE SCHEMA encode;
SET search_path = encode, public;

-- the mean token
SELECT multivec_mean('[[1,2],[3,4]]'), multivec_mean('[[3,4],[3,4]]', true), multivec_mean('[[1,2]]'), multivec_mean('[[1,1],[-1,-1]]', unit_length => true),
	   multivec_mean('[]'), multivec_mean('[]'::multivec(3)), multivec_mean(NULL), multivec_mean('[[1]]', NULL);
SELECT multivec_mean(m), multivec_mean(m, true) FROM unnest(ARRAY['[[1,2],[2,2]]'::multivec(2, f16), '[[1,2],[2,2]]'::multivec(2, bf16), '[[3e38,-3e38],[3e38,-3e38],[3e38,3e38]]', '[[1e-45,0],[1e-45,0]]']::multivec[]) m;
SELECT count(*), bool_and(m = (SELECT avg(x)::real FROM generate_series(1, 300) t, unnest(ARRAY[element(1, t, k::integer)]) x)) AS same
FROM unnest(multivec_mean(document(1, 300, 20))) WITH ORDINALITY u(m, k);

-- encodings without hyperplanes and projection: the sum of a query's tokens, the mean of a document's
SELECT maxsim_fde_query('[[1,2],[3,4]]', 0, 2, 1), maxsim_fde_document('[[1,2],[3,4]]', 0, 2, 1), maxsim_fde_query('[[1,2],[3,4]]', 0, 2, 4), maxsim_fde_document('[]'), maxsim_fde_document('[]'::multivec(3, f16));
-- in four parts of space: a token is in one of a query's, and where a document has none, the nearest
SELECT maxsim_fde_query('[[1,2],[-3,4],[3,4]]', 2, 2, 1), maxsim_fde_document('[[1,2],[-3,4],[3,4]]', 2, 2, 1), maxsim_fde_document('[[1,2]]', 2, 2, 1);
SELECT maxsim_fde_query('[[1,2],[-3,4],[3,4]]', k_sim => 1, projection => 2, repetitions => 4, seed => 1), maxsim_fde_document('[[1,2],[-3,4],[3,4]]', k_sim => 1, projection => 2, repetitions => 4, seed => 1);
-- projected, sketched; and the same numbers on every machine
SELECT maxsim_fde_query('[[1,2,3,4,5,6,7,8],[1,0,0,0,0,0,0,0]]', 1, 4, 1), maxsim_fde_document('[[1,2,3,4,5,6,7,8],[1,0,0,0,0,0,0,0]]', 1, 4, 1);
SELECT maxsim_fde_document('[[1,2,3,4]]', 3, 4, 4, final_dim => 8), maxsim_fde_document('[[1,2,3,4]]', 3, 4, 4, -9223372036854775808, 8);
SELECT dim, ntokens, md5(array_send(maxsim_fde_query(d))) AS query, md5(array_send(maxsim_fde_document(d))) AS document, md5(array_send(maxsim_fde_document(d, 6, 5, 3, 42, 100))) AS sketch
FROM (VALUES (8, 1), (17, 31), (128, 70)) v(dim, ntokens), LATERAL (SELECT multivec_normalize(document(1, ntokens, dim))) m(d);

-- how long they are, and what is passed on from call to call
SELECT k_sim, projection, repetitions, final_dim, cardinality(q), cardinality(d), array_ndims(d), array_lower(d, 1)
FROM (VALUES (NULL, NULL, NULL, NULL), (0, 1, 1, 0), (10, 1, 2, 0), (5, 8, 15, 0), (3, 20, 2, 0), (3, 19, 2, 1), (3, 19, 2, 304)) v(k_sim, projection, repetitions, final_dim),
	 LATERAL (SELECT maxsim_fde_query(document(1, 3, 20), coalesce(k_sim, 4), coalesce(projection, 8), coalesce(repetitions, 31), 0, coalesce(final_dim, 0)),
					 maxsim_fde_document(document(1, 3, 20), coalesce(k_sim, 4), coalesce(projection, 8), coalesce(repetitions, 31), 0, coalesce(final_dim, 0))) e(q, d);
SELECT maxsim_fde_document(document(1, 3, 20)) = maxsim_fde_document(document(1, 3, 20), 4, 8, 31, 0, 0) AS defaults, cardinality(maxsim_fde_document(document(1, 3, 128))) <= 4000 AS halfvec;
SELECT bool_and(maxsim_fde_document(m) IS NOT DISTINCT FROM CASE dim WHEN 8 THEN maxsim_fde_document(document(1, 3, 8)) ELSE maxsim_fde_document(document(1, 3, 12)) END) AS same
FROM (SELECT dim, document(1, 3, dim) AS m FROM generate_series(1, 10) i, LATERAL (SELECT 8 + 4 * (i % 2)) d(dim)) s;
SELECT maxsim_fde_query(NULL), maxsim_fde_document(NULL), maxsim_fde_query('[[1]]', NULL, 1), maxsim_fde_document('[[1]]', 1, 1, 1, NULL), maxsim_fde_document('[[1]]', 1, 1, 1, 1, NULL);

-- errors
SELECT call, error_of(format('SELECT maxsim_fde_%s', call)) FROM unnest(ARRAY['query(''[]'')', 'query(''[]''::multivec(3))', 'document(''[[1,2]]'')', 'document(''[[1,2]]'', projection => 3)', 'document(''[[1,2]]'', projection => 0)',
	'query(''[[1]]'', -1, 1)', 'query(''[[1]]'', 11, 1)', 'query(''[[1]]'', 1, 1, 0)', 'query(''[[1]]'', 1, 1, 1001)', 'query(''[[1]]'', 1, 1, 1, 0, -1)', 'query(''[[1]]'', 1, 1, 1, 0, 3)',
	'query(array_fill(1, ARRAY[1, 1000]), 10, 1000, 1000)', 'query(array_fill(1, ARRAY[1, 10000]), 0, 9999, 1000)', 'query(array_fill(1, ARRAY[1, 65535]), 10, 65535, 1000)', 'query(''[[3e38],[3e38]]'', 0, 1, 1)']) call;
-- as after an error
SELECT maxsim_fde_query('[[1,2],[3,4]]', 0, 2, 1);

-- the scalar product of two arrays, by way of values of one token
CREATE FUNCTION product(a real[], b real[]) RETURNS real LANGUAGE sql AS $$ SELECT maxsim(ARRAY[a]::multivec, ARRAY[b]::multivec) $$;
-- a query's encoding is a sum over its tokens, so that products with a document of one token are exact where the numbers are
SELECT bool_and(product(maxsim_fde_query(q, 5, 20, 4, seed), maxsim_fde_document(d, 5, 20, 4, seed)) = maxsim(q, d)) AS exact
FROM generate_series(1, 5) i, generate_series(-2, 2) seed, LATERAL (SELECT document(i, 6, 20), document(i + 10, 1, 20)) v(q, d);
SELECT bool_and(a + b = c) AS sum FROM unnest(maxsim_fde_query(document(1, 5, 16), 3, 16, 16), maxsim_fde_query(document(2, 7, 16), 3, 16, 16), maxsim_fde_query(multivec_concat(document(1, 5, 16), document(2, 7, 16)), 3, 16, 16)) u(a, b, c);
-- the order of tokens does not matter, but for empty parts with several tokens as near, which are none here
SELECT maxsim_fde_query(m, 3, 16, 4) = maxsim_fde_query(r, 3, 16, 4) AS query, maxsim_fde_document(m, 1, 16, 4) = maxsim_fde_document(r, 1, 16, 4) AS document
FROM (SELECT m, (SELECT multivec_concat_agg(multivec_slice(m, i, 1) ORDER BY i DESC) FROM generate_series(1, 64) i) AS r FROM (SELECT document(5, 64, 16)::multivec AS m) s) s;
-- repetitions are the same however many there are
SELECT count(*), bool_and(x = 2 * y) AS same
FROM (SELECT document(5, 10, 16)::multivec AS m) s, unnest(maxsim_fde_document(m, 3, 16, 4), (maxsim_fde_document(m, 3, 16, 16))[1:512]) u(x, y);
-- other seeds are others; formats are the same where the numbers are
SELECT count(DISTINCT maxsim_fde_document(document(1, 9, 16), seed => seed)) FROM generate_series(-5, 5) seed;
SELECT bool_and(maxsim_fde_document(m) = maxsim_fde_document(m::multivec(16, f16)) AND maxsim_fde_query(m) = maxsim_fde_query(m::multivec(16, bf16))) AS same FROM generate_series(1, 100, 11) n, LATERAL (SELECT document(n, n, 16)::multivec) s(m);

-- it approximates maxsim: documents of 24 tokens near some of 40 centres
CREATE TABLE centres AS SELECT c, multivec_normalize(ARRAY[ARRAY(SELECT element(c, k, k * c) + element(k, c, 3) / 3.0 FROM generate_series(1, 32) k)]) AS token FROM generate_series(1, 40) c;
CREATE TABLE texts AS
	SELECT d AS id, multivec_normalize(multivec_concat_agg(ARRAY[ARRAY(SELECT x + element(d, t, k::integer) / 100.0 FROM unnest(multivec_token(token, 1)) WITH ORDINALITY e(x, k))] ORDER BY t)) AS m
	FROM generate_series(1, 120) d, generate_series(1, 24) t JOIN centres ON true WHERE c = (d * 7 + (t % 6) * (d % 11 + 1)) % 40 + 1 GROUP BY d;
CREATE TABLE scores AS
	SELECT q.id AS q, d.id AS d, maxsim(q.m, d.m) AS score, product(maxsim_fde_query(q.m), maxsim_fde_document(d.m)) AS fde, product(maxsim_fde_query(q.m, 4, 32, 62), maxsim_fde_document(d.m, 4, 32, 62)) AS long
	FROM (SELECT id, multivec_slice(m, 1, 8) AS m FROM texts WHERE id <= 10) q, texts d;
SELECT count(*), corr(score, fde) > 0.9 AS correlated, corr(score, long) > 0.9 AS long, max(fde - score) < 1.5 AS hardly_above, avg(abs(fde - score)) / avg(score) < 0.5 AS error FROM scores;
SELECT count(*) FILTER (WHERE fde_rank <= 20) >= 90 AS found FROM (SELECT rank() OVER (PARTITION BY q ORDER BY score DESC, d) AS rank, rank() OVER (PARTITION BY q ORDER BY fde DESC, d) AS fde_rank FROM scores) s WHERE rank <= 10;

-- as a generated column
CREATE TABLE docs (id integer PRIMARY KEY, m multivec(8, f16));
INSERT INTO docs SELECT i, document(i, i % 4, 8) FROM generate_series(1, 20) i;
INSERT INTO docs VALUES (21, NULL);
ALTER TABLE docs ADD fde real[] GENERATED ALWAYS AS (maxsim_fde_document(m, projection => 8, repetitions => 2)) STORED,
	ADD mean real[] GENERATED ALWAYS AS (multivec_mean(m, true)) STORED,
	ADD pooled multivec GENERATED ALWAYS AS (multivec_truncate(m, 4, true)) STORED;
INSERT INTO docs VALUES (22, '[[1,2,3,4,5,6,7,8]]'), (23, '[]');
UPDATE docs SET m = '[[8,7,6,5,4,3,2,1]]' WHERE id = 1;
SELECT count(*), count(fde), count(mean), bool_and(fde = maxsim_fde_document(m, projection => 8, repetitions => 2)) AS encoded, bool_and(mean = multivec_mean(m, true)) AS meant FROM docs;
SELECT id FROM docs ORDER BY product(maxsim_fde_query('[[8,7,6,5,4,3,2,1]]', projection => 8, repetitions => 2), fde) DESC NULLS LAST, id LIMIT 1;
SELECT error_of('INSERT INTO docs VALUES (24, ''[[1,2]]'')');
