-- The text form of multivec: what is read, what is written, what is refused.
CREATE SCHEMA multivec_text;
SET search_path = multivec_text, public;
\pset format unaligned
\pset tuples_only on

-- both kinds of brackets, and space wherever JSON has it
SELECT input, '->', input::multivec, multivec_ntokens(input::multivec), multivec_dim(input::multivec), multivec_format(input::multivec)
FROM unnest(ARRAY[
	'[[1,2],[3,4]]', '{{1,2},{3,4}}', '[[1]]', '{{1}}', '[]', '{}', ' [ ] ',
	' [ [ 1 , 2 ] , [ 3 , 4 ] ] ', E'\t{\n{1,\r2}\n,{3,4}\n}\n', '[{1,2},{3,4}]', '[[1,2,3,4,5]]', '[[1],[2],[3]]',
	'[[+1,-2],[.5,-.5]]', '[[1.,1e3],[1E-3,1e+3]]', '[[00012,0.10]]']) input;

-- numbers: the fewest digits that keep a float32
SELECT '[[0.1,0.2,0.30000001,16777216,16777217,123456789,1e20,1e-20]]'::multivec;
SELECT '[[3.4028235e38,-3.4028235e38,1.1754944e-38,1.1754942e-38,1e-45,-1e-45,1.4e-45,7e-46,1e-50,-1e-50,0,-0]]'::multivec;
SELECT encode(multivec_send('[[0,-0,1,3.4028235e38,1e-45]]'), 'hex');
-- the literal rounds to the greatest float32, or one digit later to infinity
SELECT '[[340282356779733661637539395458142568447]]'::multivec;
SELECT error_of($$SELECT '[[340282356779733661637539395458142568448]]'::multivec$$);

-- what is refused
SELECT input, error_of(format('SELECT %L::multivec', input))
FROM unnest(ARRAY[
	-- not numbers
	'[[NaN,1]]', '[[1,nan]]', '[[-NaN]]', '{{1,2},{3,NaN}}', '[[inf]]', '[[1,-Infinity]]', '[[+infinity]]',
	'[[1e39]]', '[[-1e39]]', '[[1,1e400]]',
	'[[NULL]]', '[[1,null]]', '{{1,2},{NULL,4}}', '[null]', 'null',
	'[[0x10]]', '[[-0x1p3]]', '[[a]]', '[["1"]]', '[[true]]', '[[1_000]]', '[[1e]]', '[[1e+]]', '[[.]]', '[[-]]', '[[--1]]', '[[1 2]]',
	'[[1,2],[3,1d]]', '[[1f]]', '[[1;2]]', '[[١]]', '[[1,2],[3,é]]',
	-- not lists of lists
	'', ' ', '1', '[', '[[', '[[1', '[[1,', '[[1]', '[[1],', ']', '[]]', '[[]', '[[1]]]', '[[1]]x', '[[1]] [[2]]', '[1,2]', '{1,2}',
	'[[1],2]', '[[[1]]]', '{{{1}}}', '[[1},[2]]', '{{1],{2}}', '[[1]}', '[[,1]]', '[[1,]]', '[[1],]', '[,[1]]', '[[1][2]]', '(1,2)',
	'[0:1][0:1]={{1,2},{3,4}}',
	-- tokens without dimensions, tokens of different dimensions
	'[[]]', '{{}}', '[[],[]]', '[[1],[]]', '[[1,2],[1,2,3]]', '{{1,2},{1}}', '[[1],[2],[3,4]]']) input;

-- of a long input the message shows the beginning, cut between characters
SELECT error_of(format('SELECT %L::multivec', '[[' || repeat('1,', 100) || 'x]]'));
SELECT error_of(format('SELECT %L::multivec', '[[1,' || repeat('é', 100) || ']]'));

-- as many dimensions as there may be, and one more
SELECT multivec_dim(('[[' || repeat('1,', 65534) || '1]]')::multivec);
SELECT error_of(format('SELECT %L::multivec', '[[' || repeat('1,', 65535) || '1]]'));

-- in arrays and JSON
SELECT ARRAY['[[1]]', '[[1,2],[3,4]]']::multivec[], ARRAY['[[1]]', '[[1,2],[3,4]]']::multivec[]::text::multivec[];
SELECT to_jsonb('[[1,2],[3,4]]'::multivec), ('[[1.5,-2e-20],[3e30,0]]'::multivec::text)::jsonb;

-- every finite 16-bit pattern
CREATE FUNCTION patterns(format text, finite boolean) RETURNS TABLE (i integer, bytes bytea) LANGUAGE sql AS $$
	SELECT i, decode(lpad(to_hex((i & 255) << 8 | (i >> 8)), 4, '0'), 'hex')
	FROM generate_series(0, 65535) i
	WHERE finite = CASE format WHEN 'f16' THEN i & x'7c00'::integer <> x'7c00'::integer
							   WHEN 'bf16' THEN i & x'7f80'::integer <> x'7f80'::integer END
$$;
-- what a pattern means, after IEEE 754
CREATE FUNCTION meaning(format text, i integer) RETURNS double precision LANGUAGE sql AS $$
	SELECT CASE WHEN i & 32768 = 0 THEN 1.0 ELSE -1.0 END::double precision *
		CASE format
			WHEN 'f16' THEN CASE WHEN i >> 10 & 31 = 0 THEN (i & 1023) * 2::double precision ^ -24
				ELSE (1024 + (i & 1023)) * 2::double precision ^ ((i >> 10 & 31) - 25) END
			WHEN 'bf16' THEN CASE WHEN i >> 7 & 255 = 0 THEN (i & 127) * 2::double precision ^ -133
				ELSE (128 + (i & 127)) * 2::double precision ^ ((i >> 7 & 255) - 134) END
		END
$$;
CREATE TABLE every AS
	SELECT format, count(*) AS n, multivec(string_agg(bytes, '' ORDER BY i), 1, format) AS value,
		   array_agg(meaning(format, i) ORDER BY i) AS meanings
	FROM unnest(ARRAY['f16', 'bf16']) format, LATERAL patterns(format, true) GROUP BY format;
SELECT format, n, multivec_format(value) FROM every ORDER BY n;
-- through text and back; as real[] and back; and each is what it means
SELECT multivec_send(value::text::multivec(1, f16)) = multivec_send(value),
	   multivec_send(value::real[]::multivec(1, f16)) = multivec_send(value) FROM every WHERE format = 'f16';
SELECT multivec_send(value::text::multivec(1, bf16)) = multivec_send(value),
	   multivec_send(value::real[]::multivec(1, bf16)) = multivec_send(value) FROM every WHERE format = 'bf16';
SELECT format, count(*), count(*) FILTER (WHERE got = meaning), count(*) FILTER (WHERE got::text <> meaning::real::text)
FROM every, unnest(value::real[], meanings) AS u(got, meaning) GROUP BY format ORDER BY format;
-- what is not finite is refused
SELECT format, error, count(*) FROM unnest(ARRAY['f16', 'bf16']) format, LATERAL patterns(format, false),
	LATERAL split_part(error_of(format('SELECT multivec(%L::bytea, 1, %L)', bytes, format)), E'\n', 1) AS error
GROUP BY format, error ORDER BY format, error;

-- rounding: half-way between neighbours goes to the even one, a little more or less to the nearer
CREATE FUNCTION bits(value multivec) RETURNS bytea LANGUAGE sql AS $$ SELECT substr(multivec_send(value), 13) $$;
CREATE TABLE neighbours AS
	SELECT format, i, (meaning(format, i) + meaning(format, i + 1)) / 2 AS middle
	FROM (VALUES ('f16', 31742), ('bf16', 32638)) last(format, i_max), generate_series(0, i_max) i;
CREATE FUNCTION rounded(format text, value double precision, wanted integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	got bytea;
BEGIN
	IF format = 'f16' THEN
		got = bits(ARRAY[[value]]::multivec(1, f16));
	ELSE
		got = bits(ARRAY[[value]]::multivec(1, bf16));
	END IF;
	RETURN get_byte(got, 0) + 256 * get_byte(got, 1) = wanted;
END $$;
SELECT format, count(*), bool_and(rounded(format, middle, i + (i & 1))) AS tie, bool_and(rounded(format, -middle, 32768 + i + (i & 1))) AS negative
FROM neighbours WHERE i % 7 = 0 OR i < 1100 GROUP BY format ORDER BY format;
SELECT format, bool_and(rounded(format, middle * (1 + 2::double precision ^ -20), i + 1)) AS above,
	   bool_and(rounded(format, middle * (1 - 2::double precision ^ -20), i)) AS below
FROM neighbours WHERE i % 7 = 0 AND i >= 128 GROUP BY format ORDER BY format;
