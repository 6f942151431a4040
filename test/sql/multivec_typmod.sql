-- multivec(dimension) and multivec(dimension, format)
CREATE SCHEMA multivec_typmod;
SET search_path = multivec_typmod, public;

CREATE TABLE docs (id integer, any_shape multivec, dim multivec(2), f32 multivec(2, f32), f16 multivec(2, f16), bf16 multivec(2, bf16), many multivec(2,f16)[]);
\d docs
SELECT attname, attstorage, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attnum > 1 ORDER BY attnum;
SELECT typstorage, typalign, typlen, typcategory, typispreferred FROM pg_type WHERE typname = 'multivec';
SELECT format_type('multivec'::regtype, t) FROM unnest(ARRAY[-1, 1, 65535, 65536 + 128, 2 * 65536 + 128, 3 * 65536 + 65535]) t;

INSERT INTO docs VALUES (1, '[[1,2,3]]', '[[1,2]]', '[[2049,1]]', '[[2049,1]]', '[[2049,1]]', '{"[[2049,1]]"}');
INSERT INTO docs VALUES (2, ARRAY[[1,2,3]], ARRAY[[1,2]], ARRAY[[2051,1]], ARRAY[[2051.0,1]], ARRAY[[2051,1]]::real[], ARRAY['[[2051,1]]'::multivec]);
INSERT INTO docs VALUES (3, '[]', '[]', '[]', '{}', '{}'::real[], '{}');
SELECT * FROM docs ORDER BY id;
SELECT id, multivec_dim(any_shape) AS any_shape, multivec_dim(dim) AS dim, multivec_dim(f16) AS f16_dim,
	   multivec_format(dim), multivec_format(f32), multivec_format(f16), multivec_format(bf16), multivec_format(many[1])
FROM docs ORDER BY id;

-- a column without a format keeps each value's own
INSERT INTO docs (id, any_shape, dim) SELECT 4, f16, f16 FROM docs WHERE id = 1;
INSERT INTO docs (id, any_shape, dim) SELECT 5, bf16, bf16 FROM docs WHERE id = 1;
SELECT id, any_shape, multivec_format(any_shape), dim, multivec_format(dim) FROM docs WHERE id > 3 ORDER BY id;

-- case does not matter, nor do quotes
SELECT multivec_format('[[1]]'::multivec(1, F16)), multivec_format('[[1]]'::multivec(1, 'BF16')), multivec_format('[[1]]'::multivec('1', "f16"));

\pset format unaligned
\pset tuples_only on
SELECT statement, error_of(statement) FROM unnest(ARRAY[
	$$SELECT '[[1]]'::multivec(0)$$,
	$$SELECT '[[1]]'::multivec(-1)$$,
	$$SELECT '[[1]]'::multivec(65536)$$,
	$$SELECT '[[1]]'::multivec(99999999999)$$,
	$$SELECT '[[1]]'::multivec(1.5)$$,
	$$SELECT '[[1]]'::multivec(f16)$$,
	$$SELECT '[[1]]'::multivec(f16, 128)$$,
	$$SELECT '[[1]]'::multivec('')$$,
	$$SELECT '[[1]]'::multivec('+1')$$,
	$$SELECT '[[1]]'::multivec('1 ')$$,
	$$SELECT '[[1]]'::multivec('-')$$,
	$$SELECT '[[1]]'::multivec(1, f64)$$,
	$$SELECT '[[1]]'::multivec(1, i4)$$,
	$$SELECT '[[1]]'::multivec(1, '')$$,
	$$SELECT '[[1]]'::multivec(1, f16, 3)$$,
	$$SELECT '[[1]]'::multivec()$$,
	$$SELECT '[[1,2,3]]'::multivec(2)$$,
	$$SELECT '[[1,2,3]]'::multivec::multivec(2)$$,
	$$SELECT ARRAY[[1,2,3]]::multivec(2)$$,
	$$SELECT '[[1,2,3]]'::multivec(2, f16)$$,
	$$SELECT '[[1,2,3]]'::multivec(3, bf16)::multivec(2, f32)$$,
	$$SELECT '[[65519]]'::multivec(1, f16)$$,
	$$SELECT '[[65520]]'::multivec(1, f16)$$,
	$$SELECT '[[1,2],[3,-70000]]'::multivec(2, f16)$$,
	$$SELECT '[[1,2],[3,-70000]]'::multivec::multivec(2, f16)$$,
	$$SELECT ARRAY[[1,2],[70000,4]]::multivec(2, f16)$$,
	$$SELECT '[[3.39e38]]'::multivec(1, bf16)$$,
	$$SELECT '[[3.4e38]]'::multivec(1, bf16)$$,
	$$SELECT ARRAY[[-3.4e38]]::multivec(1, bf16)$$,
	$$SELECT '[]'::multivec(2)::multivec(3)$$,
	$$INSERT INTO docs (dim) VALUES ('[[1]]')$$,
	$$INSERT INTO docs (dim) VALUES (ARRAY[[1]])$$,
	$$INSERT INTO docs (f16) VALUES ('[[1,1e5]]')$$,
	$$INSERT INTO docs (f16) SELECT any_shape FROM docs$$]) statement;
\pset tuples_only off
\pset format aligned

-- ALTER TABLE converts, and says what does not fit
DELETE FROM docs WHERE id > 3;
UPDATE docs SET f32 = '[[2049,0.1]]' WHERE id = 1;
ALTER TABLE docs ALTER f32 TYPE multivec(2, f16);
SELECT id, f32, multivec_format(f32), multivec_dim(f32) FROM docs ORDER BY id;
ALTER TABLE docs ALTER f32 TYPE multivec(2, bf16);
SELECT id, f32, multivec_format(f32) FROM docs ORDER BY id;
ALTER TABLE docs ALTER f32 TYPE multivec(2);
SELECT id, f32, multivec_format(f32) FROM docs ORDER BY id;
ALTER TABLE docs ALTER f32 TYPE multivec;
SELECT id, f32, multivec_format(f32) FROM docs ORDER BY id;
ALTER TABLE docs ALTER f32 TYPE real[];
SELECT id, f32, pg_typeof(f32) FROM docs ORDER BY id;
ALTER TABLE docs ALTER f32 TYPE multivec(2, f32);
SELECT id, f32, multivec_format(f32) FROM docs ORDER BY id;
SELECT error_of('ALTER TABLE docs ALTER f32 TYPE multivec(3)');
UPDATE docs SET f32 = '[[1,70000]]' WHERE id = 2;
SELECT error_of('ALTER TABLE docs ALTER f32 TYPE multivec(2, f16)');
ALTER TABLE docs ALTER f16 SET STORAGE EXTENDED;
ALTER TABLE docs ALTER f16 SET STORAGE PLAIN;
SELECT attname, attstorage FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attname IN ('f16', 'f32') ORDER BY 1;

-- a domain over it, a default, a composite type, a function's argument
CREATE DOMAIN page AS multivec(2, f16) CHECK (multivec_ntokens(VALUE) <= 2);
CREATE TABLE pages (id integer, page page DEFAULT '[[7,8]]');
INSERT INTO pages (id) VALUES (1);
INSERT INTO pages VALUES (2, ARRAY[[1,2],[3,4]]);
SELECT id, page, multivec_format(page) FROM pages ORDER BY id;
SELECT error_of('INSERT INTO pages VALUES (3, ''[[1,2],[3,4],[5,6]]'')');
CREATE TYPE pair AS (a multivec(2), b multivec(1, bf16));
SELECT ('("[[1,2]]","[[3]]")'::pair).*, multivec_format(('("[[1,2]]","[[3]]")'::pair).b);

-- modifiers that no type has, from hand-made calls
SELECT format_type('multivec'::regtype, x'00070001'::int);
SELECT multivec_typmod_out(x'00070001'::int);
SELECT multivec_typmod_out(0);
SELECT multivec_coerce('[[1]]', x'00070001'::int, false);
SELECT multivec_coerce('[]', x'7fff0001'::int, false);
SELECT multivec_in('[[1]]', 0, x'00060001'::int);
