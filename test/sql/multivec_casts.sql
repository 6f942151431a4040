-- multivec from and to other types
CREATE SCHEMA multivec_casts;
SET search_path = multivec_casts, public;
\pset null '(null)'

-- the casts there are: i implicit, a on assignment
SELECT format_type(castsource, NULL) AS source, format_type(casttarget, NULL) AS target, castcontext
FROM pg_cast WHERE 'multivec'::regtype IN (castsource, casttarget) ORDER BY 1, 2;

-- from arrays of numbers
SELECT ARRAY[[1,2],[3,4]]::multivec, ARRAY[[1.5,2],[3,4]]::multivec, '{{1,2},{3,4}}'::real[]::multivec,
	   '{{1,2},{3,4}}'::double precision[]::multivec, '{{1,2},{3,4}}'::numeric[]::multivec, '{{1,2},{3,4}}'::integer[]::multivec,
	   '{{1,2},{3,4}}'::smallint[]::multivec, '{{1,2},{3,4}}'::bigint[]::multivec;
SELECT multivec(ARRAY[[1,2]]), multivec(ARRAY[[1.25,2]]), multivec('{{1,2}}'::real[]), multivec('{{1,2}}'::double precision[]),
	   multivec('{{1,2}}'::smallint[]), multivec('{{1,2}}'::bigint[]), multivec('{{1,2}}'), CAST(ARRAY[ARRAY[1::real, 2]] AS multivec(2, f16));
SELECT '{}'::real[]::multivec, '{}'::double precision[]::multivec, '{}'::numeric[]::multivec, '{}'::integer[]::multivec, '{}'::smallint[]::multivec, '{}'::bigint[]::multivec,
	   multivec_dim('{}'::real[]::multivec);
-- lower bounds other than 1
SELECT '[0:1][5:6]={{1,2},{3,4}}'::real[]::multivec, '[-3:-2][0:0]={{1},{2}}'::integer[]::multivec;
-- rounded as real is
SELECT ARRAY[[16777217,2147483647,-2147483648]]::multivec, ARRAY[[32767,-32768]]::smallint[]::multivec,
	   ARRAY[[16777217,16777219,9223372036854775807,-9223372036854775808]]::multivec, ARRAY[[9007199791611905]]::multivec,
	   ARRAY[[0.1,16777217.0,1e38,123456789012345678901234567890]]::multivec,
	   ARRAY[[0.1,1e-46,-1e-46,3.4028235677973362e38]]::double precision[]::multivec;
-- too small to tell from zero: 0, from every type as from text
SELECT '[[1e-50,-1e-50]]'::multivec, ARRAY[[1e-50,-1e-50]]::numeric[]::multivec, ARRAY[[1e-50,-1e-50]]::double precision[]::multivec;

-- to arrays
SELECT '[[1,2],[3,4]]'::multivec::real[], '[[0.1]]'::multivec(1, f16)::real[], '[[0.1]]'::multivec(1, bf16)::real[], '[]'::multivec::real[],
	   array_ndims('[[1,2]]'::multivec::real[]), array_dims('[[1,2]]'::multivec::real[]);
CREATE TABLE arrays (r real[], m multivec, m16 multivec(2, f16));
INSERT INTO arrays VALUES ('[[1,2]]'::multivec, '{{3,4}}'::real[], '{{5,2049}}'::double precision[]);
INSERT INTO arrays SELECT m, r, r FROM arrays;
INSERT INTO arrays SELECT m16, m16, m16 FROM arrays;
SELECT *, multivec_format(m), multivec_format(m16) FROM arrays;
SELECT CASE WHEN true THEN '{{1,2}}'::real[] ELSE '[[3,4]]'::multivec END, pg_typeof(coalesce('{{1,2}}'::real[], '[[3,4]]'::multivec));
SELECT m::text, m::text::multivec, m::varchar FROM arrays LIMIT 1;

-- arrays of arrays with a bitmap for NULLs that none is left of
CREATE TABLE mended (id integer PRIMARY KEY, r real[], d double precision[], i integer[], n numeric[], s smallint[], b bigint[]);
INSERT INTO mended VALUES (1, '{{1,2},{3,4}}', '{{1,2},{3,4}}', '{{1,2},{3,4}}', '{{1,2},{3,4}}', '{{1,2},{3,4}}', '{{1,2},{3,4}}');
UPDATE mended SET r[1][2] = NULL, d[2][1] = NULL, i[2][2] = NULL, n[1][1] = NULL, s[1][1] = NULL, b[1][1] = NULL;
SELECT error_of('SELECT r::multivec FROM mended'), error_of('SELECT d::multivec FROM mended'),
	   error_of('SELECT i::multivec FROM mended'), error_of('SELECT n::multivec FROM mended'),
	   error_of('SELECT s::multivec FROM mended'), error_of('SELECT b::multivec FROM mended');
UPDATE mended SET r[1][2] = 2, d[2][1] = 3, i[2][2] = 4, n[1][1] = 1, s[1][1] = 1, b[1][1] = 1;
SELECT r::multivec, d::multivec, i::multivec, n::multivec, s::multivec, b::multivec, maxsim('{{1,0}}'::real[], r) FROM mended;
SELECT s.*, t.* FROM maxsim_rerank('[[1,0]]', '{1}', 'mended(id,r)') s, maxsim_rerank('[[1,0],[0,1]]', '{1}', 'mended(id,d)') t;
SELECT flash_maxsim_rerank_direct('{{1,0}}'::real[], r, '{0,1}', '{1,1}', 1) FROM mended;

-- bytes, little-endian
SELECT multivec('\x0000803f000000400000404000008040', 2), multivec('\x0000803f000000400000404000008040', 4, 'f32'),
	   multivec('\x003c0040004200440045', 5, 'f16'), multivec('\x803f00404040', 1, 'bf16'), multivec(bytes => '\x0100', dim => 1, format => 'F16');
SELECT multivec('', 7), multivec_dim(multivec('', 7)), multivec_format(multivec('', 7, 'bf16'));
SELECT multivec(NULL::bytea, 1), multivec('\x'::bytea, NULL), multivec('\x', 1, NULL);

-- other types do not become multivec unasked
SELECT error_of('SELECT 1::multivec'), error_of('SELECT ''\x00''::bytea::multivec'), error_of('SELECT ''[[1]]''::text || ''[[1]]''::multivec');
SELECT error_of('SELECT ARRAY[''2000-01-01''::date]::multivec'), error_of('SELECT ARRAY[true]::multivec'), error_of('SELECT ''[[1]]''::jsonb::multivec');
SELECT error_of('SELECT ARRAY[[''1'',''2'']]::text[]::multivec');

-- every function takes arrays of every type of number, and what has no type
CREATE TABLE target (id integer PRIMARY KEY, m multivec(2, f16), r real[]);
INSERT INTO target VALUES (1, '[[1,2]]', '{{1,2}}');
CREATE FUNCTION value_of(expression text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE 'SELECT ' || expression INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN expression || ': ' || SQLERRM;
END $$;
CREATE VIEW types AS
	SELECT unnest(ARRAY['', '::smallint[]', '::integer[]', '::bigint[]', '::numeric[]', '::real[]', '::double precision[]', '::multivec', '::multivec(2, f16)']) AS type;
SELECT call, count(*), string_agg(DISTINCT result, ', ') AS results
FROM types a, types b, LATERAL (SELECT quote_literal('{{1,2}}') || a.type AS a, quote_literal('{{1,2}}') || b.type AS b) x, unnest(ARRAY[
	$$maxsim(%s, %s)$$,
	$$maxsim_scores(%s, '{1}', 'target(id, m)')$$,
	$$maxsim_scores(%s, '{1}'::smallint[], 'target(id, r)')$$,
	$$(SELECT score FROM maxsim_rerank(%s, '{1}', 'target(id, m)'))$$,
	$$(SELECT score FROM maxsim_rerank(%s, '{1}'::integer[], 'target(id, r)', 1))$$,
	$$flash_maxsim_rerank_direct(%s, %s, '{0}', '{1}', 1)$$,
	$$flash_maxsim_rerank(%s, %s, '{0,1}', 1)$$,
	$$flash_maxsim_rerank(%s, %s, '{0,1}'::smallint[], 1::smallint)$$,
	$$multivec(%s)$$,
	$$multivec_ntokens(%s) + multivec_dim(%s)$$,
	$$multivec_slice(%s, 1, 1)$$,
	$$multivec_token(%s, 1)$$,
	$$coalesce(%s, '[[3,4]]'::multivec)$$]) WITH ORDINALITY c(call, n), LATERAL value_of(format(call, x.a, x.b)) result
GROUP BY n, call ORDER BY n;
SELECT DISTINCT error_of(format('UPDATE target SET m = %1$s, r = %1$s', quote_literal('{{1,2}}') || type)) FROM types;
SELECT * FROM target;
PREPARE untyped AS SELECT maxsim($1, $2), multivec_dim($1), flash_maxsim_rerank($1, $2, $3, $4);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
EXECUTE untyped('[[1,2]]', '{{1,2}}', '{0,1}', 1);
DEALLOCATE untyped;

-- comparing and sorting them means nothing: there is no operator
SELECT split_part(error_of(statement), E'\n', 1) FROM unnest(ARRAY[
	$$SELECT '[[1]]'::multivec = '[[1]]'::multivec$$,
	$$SELECT '[[1]]'::multivec = '[[1]]'$$,
	$$SELECT '[[1]]'::multivec = '{{1}}'::real[]$$,
	$$SELECT '{{1}}'::real[] = '[[1]]'::multivec$$,
	$$SELECT '[[1]]'::multivec < '[[1]]'::multivec$$,
	$$SELECT '[[1]]'::multivec IS DISTINCT FROM '[[1]]'::multivec$$,
	$$SELECT '[[1]]'::multivec || '[[1]]'::multivec$$,
	$$SELECT DISTINCT m FROM arrays$$,
	$$SELECT m FROM arrays ORDER BY m$$,
	$$SELECT m FROM arrays GROUP BY m$$,
	$$SELECT array_length('[[1]]'::multivec, 1)$$,
	$$SELECT ('[[1]]'::multivec)[1]$$]) statement;
-- and those of arrays are as they were
SELECT '{{1}}'::real[] = '{{1}}', ARRAY[1,2] = '{1,2}', ARRAY[1,2] || 3, ARRAY[1.5] || '{2}', array_length('{1,2}'::integer[], 1), ARRAY[1] < ARRAY[2];
SELECT '{1}'::bigint[] = '{1}', '{1}'::bigint[] || 3, '{1}'::bigint[] || 3::bigint, '{1}'::bigint[] || '{2}', '{1}'::bigint[] @> '{1}', array_length('{1,2}'::bigint[], 1),
	   '{2}'::bigint[] < '{3}', 1 = ANY ('{1}'::bigint[]), unnest('{1}'::bigint[]), array_position('{5}'::bigint[], 5), '{}'::bigint[] IS DISTINCT FROM '{}',
	   cardinality('{1}'::smallint[]), '{1}'::smallint[] = '{1}', '{1}'::smallint[] || '{2}', '{1}'::smallint[] && '{1}', CASE WHEN true THEN '{1}'::smallint[] ELSE '{2}' END;

\pset format unaligned
\pset tuples_only on
SELECT statement, error_of(statement) FROM unnest(ARRAY[
	$$SELECT ARRAY[1,2]::multivec$$,
	$$SELECT ARRAY[[[1,2]]]::multivec$$,
	$$SELECT ARRAY[[1,NULL]]::multivec$$,
	$$SELECT ARRAY[[1.0,NULL]]::multivec$$,
	$$SELECT ARRAY[[1,NULL]]::smallint[]::multivec$$,
	$$SELECT ARRAY[[1,NULL]]::bigint[]::multivec$$,
	$$SELECT ARRAY[1,2]::smallint[]::multivec$$,
	$$SELECT ARRAY[1,2]::bigint[]::multivec(2)$$,
	$$SELECT ARRAY[[70000]]::bigint[]::multivec(1, f16)$$,
	$$SELECT '{{1,NULL}}'::real[]::multivec$$,
	$$SELECT '{{NULL,1}}'::double precision[]::multivec$$,
	$$SELECT '{{1,NaN}}'::real[]::multivec$$,
	$$SELECT '{{1,2},{3,NaN}}'::double precision[]::multivec$$,
	$$SELECT '{{1,2},{3,NaN}}'::numeric[]::multivec$$,
	$$SELECT '{{-Infinity,2}}'::real[]::multivec$$,
	$$SELECT '{{1,Infinity}}'::double precision[]::multivec$$,
	$$SELECT '{{1,Infinity}}'::numeric[]::multivec$$,
	$$SELECT '{{1,1e39}}'::double precision[]::multivec$$,
	$$SELECT '{{1,-1e308}}'::double precision[]::multivec$$,
	$$SELECT '{{1,1e39}}'::numeric[]::multivec$$,
	$$SELECT '{{1,-1e400}}'::numeric[]::multivec$$,
	$$SELECT '{{3.4028235677973362e38}}'::double precision[]::multivec$$,
	$$SELECT '{{3.4028235677973366e38}}'::double precision[]::multivec$$,
	$$SELECT array_fill(0::real, ARRAY[1, 65536])::multivec$$,
	$$SELECT array_fill(0, ARRAY[1, 65536])::multivec$$,
	$$SELECT multivec('\x00', 1)$$,
	$$SELECT multivec('\x000000', 1, 'f16')$$,
	$$SELECT multivec('\x0000803f0000803f0000803f', 2)$$,
	$$SELECT multivec('\x', 0)$$,
	$$SELECT multivec('\x', -1)$$,
	$$SELECT multivec('\x', 65536)$$,
	$$SELECT multivec('\x', 1, 'f8')$$,
	$$SELECT multivec('\x', 1, '')$$,
	$$SELECT multivec('\x0000803f0000c07f', 1)$$,
	$$SELECT multivec('\x0000807f', 1)$$,
	$$SELECT multivec('\x003c00fc', 2, 'f16')$$,
	$$SELECT multivec('\x003c017c', 2, 'f16')$$,
	$$SELECT multivec('\x803f80ff', 1, 'bf16')$$,
	$$SELECT multivec('\xc17f', 1, 'bf16')$$]) statement;
