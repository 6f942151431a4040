-- A random rotation, which keeps lengths and dot products.
CREATE SCHEMA rotate;
SET search_path = rotate, public;

-- tokens of numbers between -1 and 1 that are no integers
CREATE FUNCTION tokens(ntokens integer, dim integer) RETURNS multivec LANGUAGE sql AS $$
	SELECT array_agg(token ORDER BY t) FROM (
		SELECT t, array_agg(((t * 7919 + k * 104729 + t * t * k * 31 + 17 * t * k * k) % 1009 - 504)::real / 504 ORDER BY k) AS token
		FROM generate_series(1, ntokens) t, generate_series(1, dim) k GROUP BY t) s $$;

-- the same bits on every machine: pinned; one dimension has a sign and nothing else
SELECT seed, multivec_rotate('[[1],[-2],[0]]', seed) AS one, multivec_rotate('[[1,0],[0,1]]', seed) AS two, multivec_rotate('[[1,0,0],[0,1,0],[0,0,1]]', seed) AS three
FROM unnest(ARRAY[0, 1, 2, -1, 9223372036854775807, -9223372036854775808]) seed;
SELECT multivec_rotate('[[1,2,3,4]]'), multivec_rotate('[[1,2,3,4,5]]', 7);
SELECT dim, md5(multivec_send(multivec_rotate(m, 0))) AS seed_0, md5(multivec_send(multivec_rotate(m, 1))) AS seed_1
FROM unnest(ARRAY[7, 64, 96, 100, 127, 128, 768, 1024]) dim, LATERAL tokens(3, dim) m;
-- the default seed is 0; each token for itself, whatever is beside it, also in another call
SELECT multivec_send(multivec_rotate(m)) = multivec_send(multivec_rotate(m, 0)) AS zero, multivec_send(multivec_rotate(m)) <> multivec_send(multivec_rotate(m, 1)) AS other
FROM (SELECT document(1, 5, 33)::multivec AS m) s;
SELECT count(*), bool_and(multivec_token(multivec_rotate(m), t) = multivec_token(multivec_rotate(multivec_slice(m, t, 1)), 1)) AS same
FROM (SELECT document(1, 37, 20)::multivec AS m) s, generate_series(1, 37) t;
-- dimensions and seeds that change from row to row
CREATE TABLE rotated AS SELECT dim, seed, document(1, 3, dim)::multivec AS m FROM generate_series(1, 20) dim, generate_series(0, 2) seed;
CREATE FUNCTION rotated_alone(dim integer, seed integer) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
	result bytea;
BEGIN
	EXECUTE format('SELECT multivec_send(multivec_rotate(document(1, 3, %s), %s))', dim, seed) INTO result;
	RETURN result;
END $$;
SELECT count(*), bool_and(multivec_send(multivec_rotate(m, seed)) = rotated_alone(dim, seed)) AS same FROM rotated;

-- Dot products in double precision, of all pairs of tokens, lengths among them: what was there before.  Errors are those of
-- rounding 2 * dim numbers to float32, and tokens are not what they were.
CREATE FUNCTION products(m multivec) RETURNS double precision[] LANGUAGE sql AS $$
	SELECT array_agg((SELECT sum(p * q) FROM unnest(multivec_token(m, a)::double precision[], multivec_token(m, b)::double precision[]) e(p, q)) ORDER BY a, b)
	FROM generate_series(1, multivec_ntokens(m)) a, generate_series(1, multivec_ntokens(m)) b $$;
CREATE TABLE pairs AS
	SELECT dim, seed, m, multivec_rotate(m, seed) AS r
	FROM (SELECT generate_series(1, 70) UNION ALL SELECT unnest(ARRAY[96, 100, 127, 128, 768, 1024, 1025])) d(dim), LATERAL tokens(4, dim) m, unnest(ARRAY[0, 1, -5]) seed;
SELECT count(*), count(DISTINCT dim) AS dims, bool_and((SELECT max(abs(x - y)) FROM unnest(products(m), products(r)) p(x, y)) <= 1e-7 * (SELECT max(x) FROM unnest(products(m)) x)) AS kept,
	   count(*) FILTER (WHERE multivec_send(m) = multivec_send(r) AND dim > 4) AS unchanged
FROM pairs;
-- and linear: the sum of what two tokens become is what their sum becomes
SELECT bool_and(abs(a + b - c) < 1e-5) AS linear
FROM (SELECT tokens(2, 100) AS m) s, LATERAL (SELECT multivec_rotate(m) AS r, multivec_rotate(ARRAY[ARRAY(SELECT x + y FROM unnest(multivec_token(m, 1), multivec_token(m, 2)) e(x, y))]) AS sum) t,
	 unnest(multivec_token(r, 1), multivec_token(r, 2), multivec_token(sum, 1)) u(a, b, c);

-- What one dimension holds is spread over all of them: unit vectors have no large number left, and their numbers
-- hold on the average what they would if all were alike, 1 / dim, in each dimension of the result.
CREATE FUNCTION units(dim integer) RETURNS multivec LANGUAGE sql AS $$
	SELECT array_agg(token ORDER BY t) FROM (SELECT t, array_agg((t = k)::integer::real ORDER BY k) AS token FROM generate_series(1, dim) t, generate_series(1, dim) k GROUP BY t) s $$;
SELECT dim, max(abs(x)) < 6 / sqrt(dim) AS spread, count(*) FILTER (WHERE x = 0) < 0.05 * dim * dim AS few_zeros, abs(avg(x ^ 4) * dim ^ 2 - 3) < 1 AS gaussian
FROM unnest(ARRAY[64, 65, 70, 100, 127, 128, 130]) dim, LATERAL unnest(multivec_rotate(units(dim))::real[]) x GROUP BY dim ORDER BY dim;

-- scores stay, and those of signs come nearer to them where the size of dimensions differs
CREATE TABLE uneven AS
	SELECT t, array_agg((hashint4(t * 1000 + k) / 2147483648.0 * exp(-k / 8.0))::real ORDER BY k) AS token FROM generate_series(1, 200) t, generate_series(1, 64) k GROUP BY t;
CREATE TABLE scores AS
	SELECT q.t AS query, d.t AS doc, maxsim(x, y) AS score, maxsim(multivec_rotate(x), multivec_rotate(y)) AS rotated,
		   maxsim(x, y::multivec(64, b1)) AS signs, maxsim(multivec_rotate(x), multivec_rotate(y)::multivec(64, b1)) AS rotated_signs
	FROM uneven q, uneven d, LATERAL (SELECT multivec_normalize(ARRAY[q.token]), multivec_normalize(ARRAY[d.token])) u(x, y) WHERE q.t <= 20 AND d.t > 20;
SELECT max(abs(score - rotated)) < 1e-6 AS kept, corr(score, signs) < 0.85 AS signs, corr(score, rotated_signs) > 0.95 AS rotated_signs FROM scores;

-- in the value's format
SELECT format, multivec_format(r), multivec_dim(r), multivec_ntokens(r), max(abs(x - y)) < error AS near
FROM (SELECT tokens(9, 48) AS m) s, (VALUES ('f32', 1e-9), ('f16', 2e-3), ('bf16', 1.6e-2), ('i8', 2.5e-2)) f(format, error),
	 LATERAL (SELECT CASE format WHEN 'f32' THEN multivec_rotate(m) WHEN 'f16' THEN multivec_rotate(m::multivec(48, f16)) WHEN 'bf16' THEN multivec_rotate(m::multivec(48, bf16)) ELSE multivec_rotate(m::multivec(48, i8)) END) v(r),
	 LATERAL unnest(r::real[], multivec_rotate(m)::real[]) u(x, y) GROUP BY 1, 2, 3, 4, error ORDER BY error;
SELECT multivec_rotate('[]'), multivec_rotate(NULL), multivec_rotate('[[1]]', NULL), multivec_rotate('[[0,0,0]]');
SELECT multivec_dim(m), multivec_ntokens(m), multivec_format(m) FROM multivec_rotate('[]'::multivec(7, f16)) m;
-- the largest dimension, the largest numbers and the smallest
SELECT multivec_dim(r), abs((SELECT sum(x::double precision * x) FROM unnest(r::real[]) x) - 65535) < 1e-3 AS length FROM multivec_rotate(array_fill(1::real, ARRAY[1, 65535])) r;
SELECT multivec_rotate('[[1e-45,0],[0,-1e-45]]'), (SELECT max(x) FROM unnest(multivec_rotate(array_fill(1e38::real, ARRAY[1, 8]))::real[]) x) > 1e37 AS large;

-- errors
SELECT error_of('SELECT multivec_rotate(''[[1,-1]]''::multivec(2, b1))'), error_of('SELECT multivec_rotate(''[]''::multivec(9, b1))');
CREATE TABLE too_large AS SELECT multivec_rotate(units(16)) AS r;
-- what is rotated to one dimension alone: a row of the rotation's matrix
SELECT format, error_of(format('SELECT multivec_rotate(%L::multivec(16, %s))', ARRAY[ARRAY(SELECT (multivec_token(r, t))[3] * largest FROM generate_series(1, 16) t)], format))
FROM too_large, (VALUES ('f32', 4e38), ('f16', 70000), ('bf16', 4e38), ('i8', 4e38), ('f16', 65000)) v(format, largest);

-- a generated column of signs
CREATE TABLE docs (id integer PRIMARY KEY, embedding multivec(48, f16), signs multivec(48, b1) GENERATED ALWAYS AS (multivec_rotate(embedding)::multivec(48, b1)) STORED);
INSERT INTO docs (id, embedding) SELECT i, multivec_slice(m, 1 + i, 3) FROM generate_series(1, 20) i, tokens(24, 48) m;
INSERT INTO docs (id) VALUES (21);
SELECT count(*), count(signs), bool_and(multivec_send(signs) = multivec_send(multivec_rotate(embedding)::multivec(48, b1))) AS same FROM docs;
