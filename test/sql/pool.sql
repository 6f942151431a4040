-- Token pooling: fewer tokens, each the mean of some that are alike.
CREATE SCHEMA pool;
SET search_path = pool, public;

-- what is alike is told by direction, not by length; clusters are in the order of their first tokens, means those of the vectors given
SELECT multivec_pool('[[1,0],[0,1],[3,0],[0,5]]', 2), multivec_pool('[[0,1],[1,0],[0,3],[0,5]]', 2), multivec_pool('[[1,0],[2,0],[-1,0],[-5,0],[0,1]]', 2),
	   multivec_pool('[[1,2,3],[1,2,3],[1,2,3]]', 3);
-- rounded up, down to one token: the mean
SELECT factor, multivec_ntokens(multivec_pool(m, factor)) AS tokens, multivec_pool(m, factor)::real[] = ARRAY[multivec_mean(m)] AS mean
FROM (SELECT document(1, 10, 6)::multivec AS m) s, unnest(ARRAY[1, 2, 3, 4, 5, 9, 10, 11, 2147483647]) factor;
SELECT multivec_send(multivec_pool(m, 1)) = multivec_send(m) AS same FROM (SELECT document(1, 10, 6)::multivec AS m) s;
SELECT multivec_pool('[]', 2), multivec_pool('[[1,2]]', 3), multivec_pool(NULL, 2), multivec_pool('[[1]]', NULL), multivec_dim(multivec_pool('[]'::multivec(5, f16), 4));
-- tokens of zeros are like nothing, opposite tokens still less
SELECT multivec_pool('[[0,0],[1,0],[2,0]]', 2), multivec_pool('[[1,0],[-1,0],[0,0]]', 2), multivec_pool('[[0,0],[0,0],[0,0],[0,0]]', 2);
-- ties: the lowest tokens
SELECT multivec_pool('[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]', 2), multivec_pool('[[1],[2],[3],[6]]', 2);
-- in the value's format, whose largest numbers have a mean as well
SELECT multivec_pool(m, 2), multivec_format(multivec_pool(m, 2))
FROM unnest(ARRAY['[[1,0],[0,1],[2,0]]'::multivec(2, f16), '[[65504,0],[65504,0]]'::multivec(2, f16), '[[1,0],[0,1],[2,0]]'::multivec(2, bf16),
				  '[[3.4e38,0],[3.4e38,0]]', '[[1e-45,0],[1e-45,0],[0,1e-45]]']::multivec[]) m;
SELECT factor, error_of(format('SELECT multivec_pool(''[[1]]'', %s)', factor)) FROM unnest(ARRAY[0, -1, -2147483648]) factor;
SELECT multivec_ntokens(multivec_pool(array_fill(1::real, ARRAY[8192, 1]), 4096)), error_of('SELECT multivec_pool(array_fill(1::real, ARRAY[8193, 1]), 2)');

-- Ward's linkage as the book has it: of all clusters the two nearest, again and again; the cluster of each token, by its first
CREATE FUNCTION clusters(m multivec, nclusters integer) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
	n integer := multivec_ntokens(m);
	cluster integer[] := ARRAY(SELECT generate_series(1, n));
	size integer[] := array_fill(1, ARRAY[n]);
	d double precision[];	-- [n * n]
	best double precision;
	a integer;
	b integer;
BEGIN
	SELECT array_agg((SELECT 1 - sum(p * q) / sqrt(sum(p * p) * sum(q * q))
					  FROM unnest(multivec_token(m, x)::double precision[], multivec_token(m, y)::double precision[]) e(p, q)) ORDER BY x, y)
	INTO d FROM generate_series(1, n) x, generate_series(1, n) y;
	FOR left_over IN REVERSE n - 1 .. nclusters LOOP
		best := 'infinity';
		FOR x IN 1 .. n LOOP
			CONTINUE WHEN size[x] = 0;
			FOR y IN x + 1 .. n LOOP
				IF size[y] > 0 AND d[(x - 1) * n + y] < best THEN
					best := d[(x - 1) * n + y];
					a := x;
					b := y;
				END IF;
			END LOOP;
		END LOOP;
		FOR k IN 1 .. n LOOP
			CONTINUE WHEN size[k] = 0 OR k IN (a, b);
			d[(a - 1) * n + k] := sqrt(((size[k] + size[a]) * d[(k - 1) * n + a] ^ 2 + (size[k] + size[b]) * d[(k - 1) * n + b] ^ 2 - size[k] * best ^ 2)
									   / (size[k] + size[a] + size[b]));
			d[(k - 1) * n + a] := d[(a - 1) * n + k];
		END LOOP;
		size[a] := size[a] + size[b];
		size[b] := 0;
		cluster := array_replace(cluster, b, a);
	END LOOP;
	RETURN cluster;
END $$;
-- tokens that are no integers, so that no two distances are the same
CREATE FUNCTION tokens(ntokens integer, dim integer) RETURNS multivec LANGUAGE sql AS $$
	SELECT array_agg(token ORDER BY t) FROM (
		SELECT t, array_agg(((t * 7919 + k * 104729 + t * t * k * 31 + 17 * t * k * k) % 1009 - 504)::real / 504 ORDER BY k) AS token
		FROM generate_series(1, ntokens) t, generate_series(1, dim) k GROUP BY t) s $$;
CREATE TABLE pooled AS
	SELECT n, factor, t, multivec_pool(t, factor) AS p, clusters(t, (n + factor - 1) / factor) AS c
	FROM (VALUES (2, 3), (7, 5), (16, 20), (33, 17)) v(n, dim), LATERAL tokens(n, dim) t, unnest(ARRAY[2, 3, 5]) factor;
CREATE TABLE means AS
	SELECT n, factor, row_number() OVER (PARTITION BY n, factor ORDER BY c[i])::integer AS number, multivec_mean(multivec_concat_agg(multivec_slice(t, i, 1) ORDER BY i)) AS mean
	FROM pooled, generate_series(1, n) i GROUP BY n, factor, c[i];
SELECT n, factor, (n + factor - 1) / factor AS clusters, max(multivec_ntokens(p)) AS tokens, count(*), bool_and(multivec_token(p, number) = mean) AS same
FROM pooled JOIN means USING (n, factor) GROUP BY n, factor ORDER BY n, factor;
-- the order of tokens decides the order of the result, and nothing else
SELECT array_agg(x::text ORDER BY x::text COLLATE "C") = array_agg(y::text ORDER BY y::text COLLATE "C") AS same
FROM (SELECT t, (SELECT multivec_concat_agg(multivec_slice(t, i, 1) ORDER BY i DESC) FROM generate_series(1, 60) i) AS reversed FROM tokens(60, 12) t) s,
	 generate_series(1, 20) i, LATERAL (SELECT multivec_token(multivec_pool(t, 3), i), multivec_token(multivec_pool(reversed, 3), i)) u(x, y);
-- tokens in tight groups are pooled by group
CREATE TABLE centres AS SELECT multivec_normalize(tokens(10, 16)) AS c;
CREATE TABLE near AS
	SELECT multivec_concat_agg(ARRAY[ARRAY(SELECT x + ((j * 31 + k * 17) % 7 - 3) / 200.0 FROM unnest(multivec_token(c, (j - 1) % 10 + 1)) WITH ORDINALITY e(x, k))] ORDER BY j) AS m
	FROM centres, generate_series(1, 80) j;
SELECT multivec_ntokens(multivec_pool(m, 8)) AS tokens, max(abs(a - b)) < 0.02 AS centres FROM near, centres, unnest(multivec_pool(m, 8)::real[], c::real[]) e(a, b) GROUP BY 1;
-- the same bits on every machine
SELECT md5(multivec_send(multivec_pool(tokens(300, 40), 2)));
