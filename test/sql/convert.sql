-- Values made from values: unit length, fewer dimensions, one after another.
CREATE SCHEMA convert;
SET search_path = convert, public;

-- unit length: in each format; zeros stay, and what has no tokens; the extremes of f32 and f16 neither overflow nor vanish
SELECT multivec_normalize('[[3,4],[0,0],[-5,12]]'), multivec_normalize('[]'), multivec_normalize(NULL);
SELECT multivec_normalize(m), multivec_format(multivec_normalize(m))
FROM unnest(ARRAY['[[3,4],[0,0],[0,-2]]'::multivec(2, f16), '[[3,4],[0,0],[0,-2]]'::multivec(2, bf16)]::multivec[]) m;
SELECT multivec_dim(multivec_normalize('[]'::multivec(7, f16))), multivec_format(multivec_normalize('[]'::multivec(7, f16)));
SELECT multivec_normalize('[[3e38,0],[3e38,3e38],[1e-45,0],[-1e-45,1e-45]]');
SELECT multivec_normalize('[[65504,65504],[6e-8,0],[6e-8,-6e-8]]'::multivec(2, f16));
-- a second time changes nothing but the last bit
SELECT count(*), max(abs(a - b)) < 1e-7 AS stable
FROM (SELECT multivec_normalize(document(1, 50, 20)) AS m) s, unnest(m::real[], multivec_normalize(m)::real[]) u(a, b);

-- fewer dimensions
SELECT multivec_truncate('[[3,4,5],[6,8,9]]', 2), multivec_truncate('[[3,4,5],[6,8,9]]', 2, true), multivec_truncate('[[3,4,5],[0,8,9]]', 1, unit_length => true),
	   multivec_truncate('[[3,4,5],[6,8,9]]', 3), multivec_truncate('[[1]]', NULL), multivec_truncate('[[1]]', 1, NULL);
SELECT multivec_truncate(m, 2, true), multivec_format(multivec_truncate(m, 2))
FROM unnest(ARRAY['[[3,4,5]]'::multivec(3, f16), '[[3,4,5]]'::multivec(3, bf16)]::multivec[]) m;
SELECT multivec_dim(multivec_truncate('[]', 2)), multivec_dim(multivec_truncate('[]'::multivec(3), 2)), multivec_truncate('[]', 2)::multivec(2, f16);
SELECT n, error_of(format('SELECT multivec_truncate(''[[1,2,3]]'', %s)', n)) FROM unnest(ARRAY[4, 0, -1, 65536, 2147483647, -2147483648]) n;
SELECT error_of('SELECT multivec_truncate(''[]''::multivec(3), 4)');
SELECT bool_and(multivec_truncate(d, n)::real[] = (d::real[])[:][1:n]) FROM (SELECT document(2, 30, 17)::multivec AS d) s, generate_series(1, 17) n;

-- one after another
SELECT multivec_concat('[[1,2]]', '[[3,4],[5,6]]'), multivec_concat('[]', '[[1]]'), multivec_concat('[[1]]', '[]'), multivec_concat('[]', '[]'), multivec_concat(NULL, '[[1]]');
SELECT multivec_format(multivec_concat('[]', h)), multivec_format(multivec_concat(h, '[]')), multivec_concat(h, h), multivec_format(multivec_concat(h, h)),
	   multivec_concat(h, '[]'::multivec(2, f16)) FROM (SELECT '[[1,2]]'::multivec(2, f16) AS h) s;
SELECT error_of('SELECT multivec_concat(''[[1,2]]'', ''[[1]]'')'), error_of('SELECT multivec_concat(''[[1,2]]'', ''[]''::multivec(3))'),
	   error_of('SELECT multivec_concat(''[[1,2]]''::multivec(2, f16), ''[[1,2]]''::multivec)'),
	   error_of('SELECT multivec_concat(''[]''::multivec(2, bf16), ''[[1,2]]''::multivec)');
SELECT multivec_concat('[[1,2]]'::multivec(2, f16), '[[3,4]]'::multivec::multivec(2, f16));

-- as an aggregate
CREATE TABLE chunks (doc integer, part integer, m multivec);
INSERT INTO chunks VALUES (1, 2, '[[3,4],[5,6]]'), (1, 1, '[[1,2]]'), (1, 3, '[]'), (1, 4, NULL), (1, 5, '[[7,8]]'), (2, 1, NULL), (3, 1, '[]'), (3, 2, '[]'),
	(4, 1, '[]'), (4, 2, '[]'::multivec(2, f16)), (4, 3, '[[1,2]]'::multivec(2, f16));
SELECT doc, multivec_concat_agg(m ORDER BY part), multivec_concat_agg(m ORDER BY part DESC), multivec_format(multivec_concat_agg(m ORDER BY part)) AS format
FROM chunks GROUP BY doc ORDER BY doc;
SELECT multivec_concat_agg(m) FROM chunks WHERE false;
SELECT multivec_concat_agg(m ORDER BY part) FILTER (WHERE part > 1) FROM chunks WHERE doc = 1;
-- a window reads the state again and again
SELECT part, multivec_concat_agg(m) OVER (ORDER BY part) FROM chunks WHERE doc = 1 ORDER BY part;
SELECT error_of('SELECT multivec_concat_agg(m ORDER BY doc, part) FROM chunks'), error_of('SELECT multivec_concat_agg(m) FROM (VALUES (''[[1]]''::multivec), (''[[1,2]]'')) v(m)');
-- parts of a document, from TOAST, make the document
CREATE TABLE parts AS SELECT p, multivec_slice(d, 100 * (p - 1) + 1, 100) AS m FROM (SELECT document(3, 1000, 20)::multivec AS d) s, generate_series(1, 10) p;
SELECT multivec_send(multivec_concat_agg(m ORDER BY p)) = multivec_send(document(3, 1000, 20)) AS same FROM parts;
