-- Casts between multivec and pgvector's vector[] and halfvec[].
CREATE EXTENSION flash_maxsim_pgvector CASCADE;
CREATE SCHEMA pgvector_casts;
SET search_path = pgvector_casts, public;
\pset null '(null)'

-- every object says what it is; what is constant, what NULL does, what may run in parallel workers
CREATE VIEW objects AS
	SELECT classid, objid, pg_describe_object(classid, objid, objsubid) AS object
	FROM pg_depend JOIN pg_extension e ON refclassid = 'pg_extension'::regclass AND refobjid = e.oid
	WHERE extname = 'flash_maxsim_pgvector' AND deptype = 'e';
SELECT object FROM objects WHERE obj_description(objid, classid::regclass::text) IS NULL;
SELECT object FROM objects ORDER BY object COLLATE "C";
SELECT objid::regprocedure AS function, provolatile, proisstrict, proparallel, prosecdef OR proleakproof AS privileged
FROM objects JOIN pg_proc p ON classid = 'pg_proc'::regclass AND objid = p.oid ORDER BY objid::regprocedure::text COLLATE "C";
SELECT format_type(castsource, NULL) AS source, format_type(casttarget, NULL) AS target, castcontext
FROM objects JOIN pg_cast c ON classid = 'pg_cast'::regclass AND objid = c.oid ORDER BY 1, 2;

-- from arrays of vectors: as they are, into columns, and with type modifiers
SELECT ARRAY['[1,2]', '[3,4]']::vector[]::multivec, multivec(ARRAY['[1,2]', '[3,4.5]']::halfvec[]), multivec_format(ARRAY['[1]']::vector[]), multivec_format(ARRAY['[1]']::halfvec[]);
CREATE TABLE kept (v vector(2)[], h halfvec(2)[], m multivec, m16 multivec(2, f16));
INSERT INTO kept (m, m16) VALUES ('{"[1,2]"}'::vector[], '{"[0.1,2]"}'::vector[]), ('{"[1,2]"}'::halfvec[], '{"[0.1,2]"}'::halfvec[]);
SELECT m, multivec_format(m), m16, multivec_format(m16) FROM kept;
SELECT error_of('SELECT ''{"[1,2]"}''::vector[]::multivec(3)'), error_of('SELECT ''{"[70000]"}''::vector[]::multivec(1, f16)');
-- and to them, by assignment, but not unasked
UPDATE kept SET v = m, h = m16;
SELECT v, h FROM kept;
UPDATE kept SET v = m16, h = m;
SELECT v, h FROM kept;
SELECT '[[0.1,65504]]'::multivec::vector[], '[[0.1,65504]]'::multivec::halfvec[], '[[0.1,65504]]'::multivec(2, f16)::vector[], '[[1,1.0078125]]'::multivec(2, bf16)::halfvec[], '[[1e38]]'::multivec(1, bf16)::vector[];
SELECT error_of('SELECT ''[[1,2],[3,65520]]''::multivec::halfvec[]'), error_of('UPDATE kept SET v = ''[[1,2,3]]''::multivec'), error_of('SELECT array_append(''[[1]]''::multivec, ''[1]''::vector)');
-- one vector is no matrix
SELECT error_of('SELECT ''[1,2]''::vector::multivec'), error_of('SELECT maxsim(''[[1,2]]'', ''[1,2]''::vector)');

-- no tokens
SELECT '{}'::vector[]::multivec, '{}'::halfvec[]::multivec, multivec_dim('{}'::vector[]), multivec_format('{}'::halfvec[]), '{}'::vector[]::multivec(3), NULL::vector[]::multivec,
	   '[]'::multivec::vector[], multivec_slice('[[1,2]]', 1, 0)::halfvec[], maxsim('{"[1,2]"}'::vector[], '{}'::vector[]);
SELECT error_of('SELECT maxsim(''{}''::vector[], ''{"[1,2]"}''::vector[])');

-- tokens of other dimensions, NULL, other shapes
SELECT error_of('SELECT ''{"[1,2]","[3,4]","[5]"}''::vector[]::multivec'), error_of('SELECT ''{"[1]","[3,4]"}''::halfvec[]::multivec');
SELECT error_of('SELECT ''{"[1,2]",NULL}''::vector[]::multivec'), error_of('SELECT ''{NULL}''::halfvec[]::multivec'), error_of('SELECT ''{{"[1]"},{"[2]"}}''::vector[]::multivec');
SELECT '[0:1]={"[1,2]","[3,4]"}'::vector[]::multivec, '[-5:-5]={"[1,2]"}'::halfvec[]::multivec;
-- an array with gaps, and one that has a bitmap for NULLs that none is left of
CREATE TABLE mended (v vector[], h halfvec[]);
INSERT INTO mended VALUES ('{"[1,2,3]"}', '{"[1,2,3]"}');
UPDATE mended SET v[10] = '[28,29,30]', h[10] = '[28,29,30]';
SELECT error_of('SELECT v::multivec FROM mended'), error_of('SELECT h::multivec FROM mended');
DO $$ BEGIN FOR i IN 2..9 LOOP UPDATE mended SET v[i] = ARRAY[3 * i - 2, 3 * i - 1, 3 * i], h[i] = ARRAY[3 * i - 2, 3 * i - 1, 3 * i]; END LOOP; END $$;
SELECT v::multivec, v::multivec::vector[] = v AS same, multivec_send(v::multivec(3, f16)) = multivec_send(h::multivec) AS h_same FROM mended;
UPDATE mended SET v[3] = NULL;
SELECT error_of('SELECT v::multivec FROM mended');

-- any numbers, bit for bit what arrays of numbers make, and back
CREATE TABLE random (dim integer, ntokens integer, v vector[], h halfvec[], m multivec);
INSERT INTO random
	SELECT dim, ntokens, array_agg(token::vector ORDER BY t), array_agg(token::halfvec ORDER BY t), array_agg(token ORDER BY t)
	FROM (SELECT dim, ntokens, t, array_agg(((random() - 0.5) * 10 ^ (8 * random() - 5))::real) AS token
		  FROM (VALUES (1, 1), (1, 1000), (2, 3), (3, 5), (7, 100), (8, 17), (63, 31), (128, 128), (129, 3), (1000, 20), (16000, 3)) s(dim, ntokens),
			   generate_series(1, ntokens) t, generate_series(1, dim) GROUP BY dim, ntokens, t) tokens GROUP BY dim, ntokens;
CREATE FUNCTION typed(m multivec, format text) RETURNS multivec LANGUAGE plpgsql AS
$$ DECLARE result multivec; BEGIN EXECUTE format('SELECT $1::multivec(%s, %s)', multivec_dim(m), format) INTO result USING m; RETURN result; END $$;
SELECT dim, ntokens, multivec_send(v) = multivec_send(m) AS vector, multivec_send(h) = multivec_send(typed(m, 'f16')) AS halfvec,
	   array_send(m::vector[]) = array_send(v) AS to_vector, array_send(m::halfvec[]) = array_send(h) AS to_halfvec, array_send(typed(m, 'f16')::halfvec[]) = array_send(h) AS f16,
	   array_send(typed(m, 'f16')::vector[]::halfvec[]) = array_send(h) AS f16_to_vector, array_send(typed(m, 'bf16')::vector[]) = array_send(typed(m, 'bf16')::real[]::multivec::vector[]) AS bf16
FROM random ORDER BY dim, ntokens;
-- arrays that we make are those that pgvector makes, to the byte
SELECT bool_and(pg_column_size(m::vector[]) = pg_column_size(ARRAY(SELECT x FROM unnest(v) x))) AS vectors,
	   bool_and(pg_column_size(m::halfvec[]) = pg_column_size(ARRAY(SELECT x FROM unnest(h) x))) AS halfvecs FROM random;
SELECT count(*) FROM random WHERE (m::halfvec[])[1] <> h[1] OR (m::vector[])[ntokens] <> v[ntokens] OR cardinality(m::halfvec[]) <> ntokens;

-- limits: pgvector's dimensions, and 1 GB
SELECT error_of('SELECT ARRAY[array_fill(1, ARRAY[16001])]::multivec::vector[]'), error_of('SELECT ARRAY[array_fill(1, ARRAY[65535])]::multivec::halfvec[]');
SELECT vector_dims((ARRAY[array_fill(1, ARRAY[16000])]::multivec::vector[])[1]), multivec_dim(ARRAY[array_fill(1, ARRAY[16000])::halfvec]);
SELECT error_of($$SELECT multivec(decode(repeat('00', 180000000), 'hex'), 1, 'f16')::halfvec[]$$);

-- Bytes that lie.  A function that returns its argument as another type makes them an array.
CREATE FUNCTION as_vectors(bytea) RETURNS vector[] LANGUAGE internal IMMUTABLE STRICT AS 'xmltotext';
CREATE FUNCTION as_halfvecs(bytea) RETURNS halfvec[] LANGUAGE internal IMMUTABLE STRICT AS 'xmltotext';
CREATE FUNCTION word(n bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT string_agg(set_byte('\x00', 0, (n >> 8 * i & 255)::integer), '' ORDER BY i) FROM generate_series(0, 3) i $$;
CREATE FUNCTION header(ndim bigint, dataoffset bigint, n bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT word(ndim) || word(dataoffset) || word('vector'::regtype::oid::bigint) || word(n) || word(1) $$;
-- length and dimension with what is reserved above it, and bytes of numbers
CREATE FUNCTION stored(length bigint, dim bigint, bytes integer) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT word(length << 2) || word(dim) || decode(repeat('00', bytes), 'hex') $$;
SELECT as_vectors(header(1, 0, 2) || stored(16, 2, 8) || stored(16, 2, 8)), as_vectors(header(1, 0, 2) || stored(16, 2, 8) || stored(16, 2, 8))::multivec,
	   as_halfvecs(header(1, 0, 2) || stored(10, 1, 4) || stored(10, 1, 2))::multivec, as_vectors(word(0) || word(0) || word(1))::multivec, as_vectors(header(1, 0, 0))::multivec;
CREATE TABLE lies (lie text, v bytea);
INSERT INTO lies VALUES
	('nothing', ''), ('no header', word(1) || word(0)), ('half a header', word(1) || word(0) || word(1) || word(1)),
	('no dimensions', header(0, 0, 2) || stored(16, 2, 8)), ('negative dimensions', header(4294967295, 0, 1) || stored(16, 2, 8)), ('seven dimensions', header(7, 0, 1) || stored(16, 2, 8)),
	('negative vectors', header(1, 0, 4294967295) || stored(16, 2, 8)), ('a vector too many', header(1, 0, 2) || stored(16, 2, 8)),
	('most vectors', header(1, 0, 2147483647) || stored(16, 2, 8)), ('most vectors, long', header(1, 0, 2147483647) || stored(8 + 64000, 16000, 64000)),
	('no vector', header(1, 0, 1)), ('half a vector header', header(1, 0, 1) || word(64)),
	('a number too few', header(1, 0, 1) || stored(16, 2, 4)), ('length too short', header(1, 0, 1) || stored(12, 2, 8)), ('length too long', header(1, 0, 1) || stored(20, 2, 8)),
	('length 0', header(1, 0, 1) || stored(0, 2, 8)), ('longest', header(1, 0, 1) || stored(1073741823, 2, 8)),
	('dimension 0', header(1, 0, 1) || stored(8, 0, 0)), ('negative dimension', header(1, 0, 1) || stored(16, 65534, 8)), ('largest dimension', header(1, 0, 1) || stored(16, 32767, 8)),
	('reserved', header(1, 0, 1) || stored(16, 65536 + 2, 8)), ('short header', header(1, 0, 1) || '\x1100020000000000000000000000'), ('compressed', header(1, 0, 1) || word(66) || word(2) || word(0) || word(0)),
	('out of line', header(1, 0, 1) || '\x0112' || decode(repeat('00', 30), 'hex')),
	('a second one that ends', header(1, 0, 2) || stored(16, 2, 8) || word(64)), ('a second one of no dimension', header(1, 0, 2) || stored(16, 2, 8) || stored(8, 0, 0)),
	('bitmap beyond the end', header(1, 1073741824, 1) || stored(16, 2, 8)), ('bitmap before the header', header(1, 4, 1) || stored(16, 2, 8)), ('negative offset', header(1, 4294967280, 1) || stored(16, 2, 8)),
	('no room for the bitmap', header(1, 32, 2147483647) || word(4294967295) || word(0) || stored(16, 2, 8)), ('offset of fewer NULLs', header(1, 32, 65) || decode(repeat('ff', 16), 'hex') || stored(16, 2, 8)),
	('a NULL', header(1, 32, 2) || word(1) || word(0) || stored(16, 2, 8)), ('NaN', header(1, 0, 1) || stored(16, 2, 4) || '\x0000c07f'), ('infinity', header(1, 0, 1) || stored(16, 2, 0) || '\x0000807f00000000');
SELECT lie, error_of(format('SELECT as_vectors(%L)::multivec', v)) AS vector FROM lies;
-- halves: the same bytes have another length
SELECT DISTINCT split_part(error_of(format('SELECT as_halfvecs(%L)::multivec', v)), E'\n', 1) COLLATE "C" AS halfvec FROM lies ORDER BY 1;
SELECT error_of(format('SELECT as_halfvecs(%L)::multivec', header(1, 0, 1) || stored(12, 2, 2) || bytes)) FROM unnest(ARRAY['\x007e', '\x007c', '\x00fc', '\x017c', '\xff7b'::bytea]) bytes;
-- whatever one byte is, and wherever the array ends: an error or a value, and no crash
SELECT count(*) FROM (SELECT header(1, 0, 2) || stored(16, 2, 8) || stored(16, 2, 8) AS v) honest, generate_series(0, octet_length(v) - 1) place, unnest(ARRAY[1, 2, 127, 128, 255]) byte,
	LATERAL (SELECT error_of(format('SELECT as_vectors(%L)::multivec, as_halfvecs(%1$L)::multivec', set_byte(v, place, byte)))) e(error) WHERE error ~ '^(no error|XX001|2202E|22004|22000|54000)';
SELECT octet_length(v) * 5 AS all FROM (SELECT header(1, 0, 2) || stored(16, 2, 8) || stored(16, 2, 8) AS v) honest;
SELECT size, error_of(format('SELECT as_vectors(%L)::multivec', substr(v, 1, size))) AS error
FROM (SELECT header(1, 0, 2) || stored(16, 2, 8) || stored(16, 2, 8) AS v) honest, unnest(ARRAY[0, 11, 12, 19, 20, 27, 28, 35, 36, 43, 44, 51, 52]) size;
