-- maxsim(query, document)
CREATE SCHEMA maxsim;
SET search_path = maxsim, public;
\pset null '(null)'

-- the sum over query tokens of the largest dot product
SELECT maxsim('[[1,0]]', '[[3,4],[5,6]]'), maxsim('[[1,0],[0,1]]', '[[3,4],[5,6]]'), maxsim('[[1,1],[1,-1],[-1,-1]]', '[[3,4],[5,6]]');

-- however the arguments come
SELECT maxsim('[[1,2],[0,1]]', '[[3,4],[5,6]]'), maxsim('{{1,2},{0,1}}', '{{3,4},{5,6}}'), maxsim(ARRAY[[1,2],[0,1]], ARRAY[[3,4],[5,6]]),
	   maxsim(ARRAY[[1.0,2],[0,1]], ARRAY[[3,4],[5,6.0]]), maxsim('{{1,2},{0,1}}'::real[], '{{3,4},{5,6}}'::double precision[]);
SELECT a AS query, b AS document, error_of(format('SELECT 1 / (maxsim(%s, %s) = 23)::integer', a, b))
FROM unnest(ARRAY['''[[1,2],[0,1]]''', 'ARRAY[[1,2],[0,1]]', 'ARRAY[[1.0,2],[0,1]]', '''{{1,2},{0,1}}''::real[]', '''{{1,2},{0,1}}''::double precision[]',
				  '''[[1,2],[0,1]]''::multivec', '''[[1,2],[0,1]]''::multivec(2,f16)']) a,
	 unnest(ARRAY['''[[3,4],[5,6]]''', 'ARRAY[[3,4],[5,6]]', 'ARRAY[[3,4],[5.0,6]]', '''{{3,4},{5,6}}''::real[]', '''{{3,4},{5,6}}''::double precision[]',
				  '''[[3,4],[5,6]]''::multivec', '''[[3,4],[5,6]]''::multivec(2,bf16)']) b
ORDER BY 1, 2;
PREPARE neither AS SELECT maxsim($1, $2);
EXECUTE neither('[[1,2],[0,1]]', '{{3,4},{5,6}}');
PREPARE first AS SELECT maxsim($1, ARRAY[[3,4],[5,6]]), maxsim($1, '[[3,4],[5,6]]'::multivec(2, f16)), pg_typeof($1);
EXECUTE first('[[1,2],[0,1]]');
PREPARE second AS SELECT maxsim('{{1,2},{0,1}}'::double precision[], $1);
EXECUTE second('[[3,4],[5,6]]');
PREPARE typed(real[], double precision[]) AS SELECT maxsim($1, $2), maxsim($2, $1), maxsim($1, $1);
EXECUTE typed('{{1,2}}', '{{3,4}}');

-- NULL and empty
SELECT maxsim(NULL, '[[1]]'), maxsim('[[1]]', NULL), maxsim(NULL::real[], NULL::real[]), maxsim('[]', NULL), maxsim('[[1,2]]', '[]'),
	   maxsim('{{1,2}}'::real[], '{}'::real[]), maxsim('[[1,2]]', '[]'::multivec(3, f16));

-- the query is rounded as the document is: 2049 has no f16, 257 no bf16
SELECT maxsim(q, '[[1]]'), maxsim(q, '[[1]]'::multivec(1, f16)), maxsim(q, '[[1]]'::multivec(1, bf16)) FROM unnest(ARRAY['[[2049]]', '[[257]]', '[[2051]]', '[[259]]']::multivec[]) q;
-- and a document's own format is what counts, not the query's
SELECT maxsim('[[256]]'::multivec(1, bf16), '[[2049]]'), maxsim('[[2]]'::multivec(1, f16), '[[16777215]]');

\pset format unaligned
\pset tuples_only on
SELECT statement, error_of(statement) FROM unnest(ARRAY[
	$$SELECT maxsim('[]', '[[1]]')$$,
	$$SELECT maxsim('{}'::real[], '{}'::real[])$$,
	$$SELECT maxsim('[]', '[]')$$,
	$$SELECT maxsim('[[1,2]]', '[[1,2,3]]')$$,
	$$SELECT maxsim('[[1,2,3]]'::multivec(3,f16), '[[1,2]]'::multivec(2,bf16))$$,
	$$SELECT maxsim('{{1,2}}'::real[], '{{1}}'::real[])$$,
	$$SELECT maxsim('{1,2}'::real[], '{{1,2}}'::real[])$$,
	$$SELECT maxsim('{{1,2}}'::real[], '{{{1,2}}}'::real[])$$,
	$$SELECT maxsim('{{1,2}}'::real[], '{{1,NULL}}'::real[])$$,
	$$SELECT maxsim('{{1,NULL}}'::real[], '{{1,2}}'::real[])$$,
	$$SELECT maxsim('{{1,NaN}}'::real[], '{{1,2}}'::real[])$$,
	$$SELECT maxsim('{{1,2}}'::real[], '{{1,-Infinity}}'::real[])$$,
	$$SELECT maxsim('{{1,2}}'::double precision[], '{{1,1e300}}'::double precision[])$$,
	$$SELECT maxsim('[[1,70000]]', '[[1,2]]'::multivec(2,f16))$$,
	$$SELECT maxsim('[[1,2],[3.4e38,4]]', '[[1,2]]'::multivec(2,bf16))$$,
	$$SELECT maxsim('[[1e30]]', '[[1e30]]')$$,
	$$SELECT maxsim('[[-1e30]]', '[[1e30]]')$$,
	$$SELECT maxsim('[[3e38],[3e38]]', '[[1]]')$$,
	$$SELECT maxsim('[[1]]')$$,
	$$SELECT maxsim('[[1]]', '[[1]]', '{1}', '{1}')$$,
	$$SELECT maxsim(1, 2)$$]) statement;
-- what overflows may lose: the largest dot product is in range
SELECT maxsim('[[1e30]]', '[[-1e30],[1]]') = 1e30::real;
\pset tuples_only off
\pset format aligned

-- the query is kept between calls, and changes when it should
SELECT q, d, maxsim(q::multivec, d::multivec) FROM
	(VALUES ('[[1,0]]', '[[1,2]]'), ('[[0,1]]', '[[1,2]]'), ('[[1,0]]', '[[1,2]]'), ('[[1,0],[0,1]]', '[[1,2]]'), ('[[1,0]]', '[]'),
			('[[1,0]]', NULL), ('[[2,0]]', '[[1,2]]'), ('[[2]]', '[[3]]'), ('[[2,0]]', '[[1,2]]')) v(q, d);
CREATE TABLE mixed (id integer, q multivec, d multivec);
INSERT INTO mixed VALUES (1, '[[1,0]]', '[[1,2]]'::multivec(2, f16)), (2, '[[1,0]]', '[[1,2]]'), (3, '[[1,0]]', '[[3,2]]'::multivec(2, bf16)),
	(4, '[[1,0]]'::multivec(2, f16), '[[1,2]]'), (5, '[[1,0]]'::multivec(2, bf16), '[[5,2]]'::multivec(2, f16));
SELECT id, multivec_format(q), multivec_format(d), maxsim(q, d) FROM mixed ORDER BY id;
-- an error in between leaves nothing behind
DO $$
DECLARE
	document text;
BEGIN
	FOREACH document IN ARRAY ARRAY['[[1,2]]', '[[1]]', '[[3,4]]', '[[1e39,1]]', '[[5,6]]'] LOOP
		BEGIN
			RAISE NOTICE '%', maxsim('[[1,1]]', document::multivec);
		EXCEPTION WHEN OTHERS THEN
			RAISE NOTICE '%', SQLERRM;
		END;
	END LOOP;
END $$;

-- ORDER BY maxsim, in views, as a generated column, in an index's expression
CREATE TABLE docs (id integer PRIMARY KEY, emb multivec(2), self real GENERATED ALWAYS AS (maxsim(emb, emb)) STORED);
INSERT INTO docs VALUES (1, '[[1,2]]'), (2, '[[3,1],[0,5]]'), (3, '[[-1,-1]]'), (4, NULL), (5, '[[2,2]]');
CREATE INDEX ON docs (maxsim('[[1,1]]', emb));
SELECT id, self, maxsim('[[1,1]]', emb) FROM docs ORDER BY maxsim('[[1,1]]', emb) DESC NULLS LAST, id;
SELECT id, maxsim('[[1,1]]', emb) FROM docs ORDER BY 2 DESC NULLS LAST, 1 LIMIT 2;

-- every shape around the widths of vector registers, against plain SQL
CREATE FUNCTION plain(q real[], d real[]) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
	SELECT sum(best) FROM (
		SELECT max(dot) AS best FROM (
			SELECT (a.n - 1) / dim AS i, (b.n - 1) / dim AS j, sum(a.x::double precision * b.x) AS dot
			FROM array_length(q, 2) dim, unnest(q) WITH ORDINALITY a(x, n), unnest(d) WITH ORDINALITY b(x, n)
			WHERE (a.n - 1) % dim = (b.n - 1) % dim GROUP BY 1, 2) dots
		GROUP BY i) bests
$$;
SET jit = off;
CREATE TABLE shapes AS
	SELECT nq, nd, dim, q, d, plain(q, d) AS score
	FROM unnest(ARRAY[1, 2, 3, 5, 8, 17, 33]) nq, unnest(ARRAY[1, 2, 3, 4, 7, 13]) nd, unnest(ARRAY[1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 48]) dim,
		document(nq, nq, dim) q, document(nd + dim, nd, dim) d;
CREATE FUNCTION as_format(m multivec, format text) RETURNS multivec LANGUAGE plpgsql AS
$$ DECLARE result multivec; BEGIN EXECUTE format('SELECT $1::multivec(%s, %s)', multivec_dim(m), format) INTO result USING m; RETURN result; END $$;
SELECT format, count(*), count(*) FILTER (WHERE maxsim(q, as_format(d, format)) = score) AS equal, sum(score)
FROM shapes, unnest(ARRAY['f32', 'f16', 'bf16']) format GROUP BY format ORDER BY format;
SELECT count(*), count(*) FILTER (WHERE maxsim(q, d) = score) AS equal, sum(score) FROM shapes;
