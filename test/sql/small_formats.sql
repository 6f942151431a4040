-- The formats i8 (a scale a token) and b1 (signs): values in, out and from one another.
CREATE SCHEMA small_formats;
SET search_path = small_formats, public;

SELECT '[[1,-2,0.5],[0,0,0],[1e-44,-3e-45,0]]'::multivec(3, i8), '[[1,-2,0.5],[0,0,0]]'::multivec(3, b1), '[]'::multivec(3, i8), '[]'::multivec(3, b1);
SELECT '[[3.4028235e38,-1e38]]'::multivec(2, i8), '[[127,-126,1]]'::multivec(3, i8), '[[2.5,3.5,-2.5,127]]'::multivec(4, i8);
SELECT multivec_format(v), multivec_dim(v), multivec_ntokens(v), multivec_send(v)
FROM unnest(ARRAY['[[2,-1]]'::multivec(2, i8), '[[2,-1,0,1,1,1,1,1,5]]'::multivec(9, b1), '[]'::multivec(2, i8)]::multivec[]) v;

-- bytes of a document of 300 tokens of 128 dimensions, a header of 16 among them
SELECT pg_column_size(d::multivec(128, f16)) AS f16, pg_column_size(d::multivec(128, i8)) AS i8, pg_column_size(d::multivec(128, b1)) AS b1
FROM (SELECT document(1, 300, 128)::multivec AS d OFFSET 0) s;

-- What a conversion has made text, arrays and bytes keep.  No component is off by more than
-- half a 127th of its token's largest one, and no sign by anything.
CREATE TABLE vectors (id serial, v multivec(13), i8 multivec(13, i8), b1 multivec(13, b1));
DO $$
BEGIN
	FOR g IN 1 .. 1000 LOOP
		INSERT INTO vectors (v) SELECT array_agg(token) FROM
			(SELECT array_agg((random() - 0.5) * exp(150 * (random() - 0.5) * (t % 2))) AS token FROM generate_series(1, 3) t, generate_series(1, 13) k GROUP BY t) tokens;
	END LOOP;
END $$;
UPDATE vectors SET i8 = v, b1 = v;
SELECT count(*), bool_and(i8::text::multivec(13, i8)::text = i8::text) AS text_kept,
	bool_and(multivec_send(i8::text::multivec(13, i8)) = multivec_send(i8) AND multivec_send(i8::real[]::multivec(13, i8)) = multivec_send(i8)) AS i8_kept,
	bool_and(multivec_send(b1::text::multivec(13, b1)) = multivec_send(b1) AND multivec_send(b1::multivec(13, f16)::multivec(13, b1)) = multivec_send(b1)) AS b1_kept,
	bool_and(multivec_send(multivec(substr(multivec_send(i8), 13), 13, 'i8')) = multivec_send(i8) AND multivec_send(multivec(substr(multivec_send(b1), 13), 13, 'b1')) = multivec_send(b1)) AS bytes_kept
FROM vectors;
SELECT count(*), bool_and(abs(x - y) <= largest * (0.5 / 127 + 1e-6)) AS i8_near, bool_and(s = CASE WHEN x > 0 THEN 1 ELSE -1 END) AS b1_signs
FROM vectors, generate_series(1, multivec_ntokens(v)) t, unnest(multivec_token(v, t), multivec_token(i8, t), multivec_token(b1, t)) u(x, y, s),
	LATERAL (SELECT max(abs(z)) AS largest FROM unnest(multivec_token(v, t)) z) l;

-- from bits, and from integers with scales
SELECT multivec(ARRAY['101', '011']::bit(3)[]), ARRAY['1', '0']::bit varying[]::multivec, multivec(ARRAY[]::bit[]), multivec_format(ARRAY[B'1']::bit[]);
SELECT multivec_send(multivec(ARRAY[B'101010101', B'011111110']));
SELECT bool_and(multivec_send(multivec(bits)) = multivec_send(b1)) AS same
FROM (SELECT b1, ARRAY(SELECT (SELECT string_agg(CASE WHEN x > 0 THEN '1' ELSE '0' END, '' ORDER BY k)::bit(13)
		FROM unnest(multivec_token(b1, t)) WITH ORDINALITY u(x, k)) FROM generate_series(1, multivec_ntokens(b1)) t ORDER BY t) AS bits FROM vectors) s;
SELECT multivec_i8('{{1,100},{-127,3}}'), multivec_i8('{{1,100},{-127,3}}', '{0.5,2}'), multivec_i8('{{1,2}}'::smallint[], '{0}'), multivec_i8('{}'), multivec_i8(NULL), multivec_i8('{}', '{}'),
	multivec_format(multivec_i8('{{1}}', NULL));
-- scales of every type of numbers, as drivers send them; what float32 makes 0 is 0
SELECT multivec_i8('{{1,2},{3,4}}', ARRAY[0.5,2]::double precision[]), multivec_i8('{{1,2},{3,4}}', ARRAY[0.5,2]::real[]), multivec_i8('{{1,2},{3,4}}', ARRAY[0.5,2]), multivec_i8('{{1,2},{3,4}}', ARRAY[1,2]);
SELECT multivec_i8('{{1,100}}', '{0.1}'), multivec_i8('{{1,100}}', '{1e-300}');
SELECT error_of(format('SELECT multivec(%s)', bits)) FROM unnest(ARRAY['ARRAY[B''101'', B''10'']', 'ARRAY[B''101'', NULL]', 'ARRAY[B'''']::bit varying[]', 'ARRAY[ARRAY[B''1''], ARRAY[B''0'']]',
	'ARRAY[repeat(''1'', 65536)::bit varying]']) bits;
SELECT error_of(format('SELECT multivec_i8(%s)', arguments)) FROM unnest(ARRAY['''{{1,2,3},{4,200,6}}''', '''{{-128}}''', '''{{1,2147483647}}''', '''{{1,-2147483648}}''', '''{{1,NULL}}''', '''{1,2}''',
	'''{{1},{2}}'', ''{1}''', '''{{1}}'', ''{1,2}''', '''{{1}}'', ''{-1}''', '''{{1}}'', ''{NaN}''', '''{{1}}'', ''{Infinity}''', '''{{1}}'', ''{1e38}''', '''{{1},{1}}'', ''{1,1e300}''', '''{{1}}'', ''{-1e-300}''', '''{{1}}'', ''{-0}''', '''{{1}}'', ''{NULL}''', '''{{1}}'', ''{{1}}''']) arguments;

-- bytes that no value has
SELECT error_of(format('SELECT multivec(''\x%s'', %s)', bytes, how)) FROM (VALUES ('0000803f0180', '2, ''i8'''), ('000080bf0101', '2, ''i8'''), ('0000807f0101', '2, ''i8'''), ('0000c07f0101', '2, ''i8'''),
	('ffff7f7f0101', '2, ''i8'''), ('00000080017f', '2, ''i8'''), ('0000803f01', '2, ''i8'''), ('e1', '3, ''b1'''), ('f0f0f0', '12, ''b1'''), ('00', '1, ''i4''')) v(bytes, how);
SELECT multivec('\x0000803f017f', 2, 'i8'), multivec('\xe0', 3, 'b1'), multivec('\x', 3, 'b1'), multivec('\x00000000017f', 2, 'i8');

-- from one another
SELECT multivec_truncate('[[1,-2,3,4,5,6,7,8,-9,10]]'::multivec(10, b1), 9), multivec_send(multivec_truncate('[[1,-2,3,4,5,6,7,8,9,10]]'::multivec(10, b1), 9)),
	multivec_truncate('[[100,-127,3]]'::multivec(3, i8), 1), multivec_truncate('[[100,-127,3]]'::multivec(3, i8), 1, true);
SELECT multivec_normalize(multivec_i8('{{60,80,0}}')), multivec_format(multivec_normalize(multivec_i8('{{60,80,0}}')));
-- signs have no length but their own: i8, with one scale
SELECT n, multivec_format(n), multivec_dim(n), multivec_send(n)
FROM (SELECT multivec_normalize(b1) AS n FROM (VALUES ('[[3,-4,0,1],[1,1,1,1]]'::multivec(4, b1)), ('[]'::multivec(4, b1))) v(b1)) s;
SELECT multivec_truncate('[[3,-4,0,1,5]]'::multivec(5, b1), 4, true), multivec_format(multivec_truncate('[[3,-4]]'::multivec(2, b1), 1, true));
SELECT bool_and(multivec_send(multivec_normalize(b1)) = multivec_send(multivec_normalize(b1::multivec(13, f32))::multivec(13, i8))) AS normalized,
	bool_and(multivec_send(multivec_truncate(b1, 9, true)) = multivec_send(multivec_normalize(multivec_truncate(b1, 9)))) AS truncated,
	bool_and(multivec_format(multivec_truncate(b1, 9)) = 'b1') AS kept FROM vectors;
SELECT multivec_concat(multivec_i8('{{1,2}}'), multivec_i8('{{3,4}}', '{2}')), multivec_concat('[[1,2,1]]'::multivec(3, b1), '[[-1,2,-1]]'::multivec(3, b1)),
	(SELECT multivec_ntokens(multivec_concat_agg(i8)) FROM vectors WHERE id < 3);
SELECT error_of('SELECT multivec_concat(''[[1]]''::multivec(1, i8), ''[[1]]''::multivec(1, b1))');
SELECT multivec_slice(multivec_i8('{{1,2},{3,4},{5,6}}', '{1,2,3}'), 2, 2), multivec_slice('[[1,2],[1,-2],[-5,3]]'::multivec(2, b1), 2, 2), multivec_token('[[1,2],[-5,3]]'::multivec(2, b1), 2);
SELECT multivec_mean(multivec_i8('{{1,2},{3,4}}', '{1,2}')), multivec_mean('[[1,2],[-5,3]]'::multivec(2, b1)), multivec_pool(multivec_i8('{{127,10},{127,10},{-100,127}}'), 2);
SELECT maxsim_fde_document(i8, 2, 4, 2) = maxsim_fde_document(i8::multivec(13, f32), 2, 4, 2) AS i8_encoded, maxsim_fde_query(b1, 2, 4, 2) = maxsim_fde_query(b1::multivec(13, f32), 2, 4, 2) AS b1_encoded
FROM vectors WHERE id = 1;
