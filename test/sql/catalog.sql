-- What the extension puts into the database, its settings and its engines.
CREATE SCHEMA catalog;
SET search_path = catalog, public;

-- every object says what it is; arrays of types and row types of views, which some versions count, are not ours
CREATE VIEW objects AS
	SELECT classid, objid, pg_describe_object(classid, objid, objsubid) AS object
	FROM pg_depend JOIN pg_extension e ON refclassid = 'pg_extension'::regclass AND refobjid = e.oid
	WHERE extname = 'flash_maxsim' AND deptype = 'e' AND NOT (classid = 'pg_type'::regclass AND objid IN
		(SELECT typarray FROM pg_type UNION ALL SELECT reltype FROM pg_class WHERE relkind = 'v'));
SELECT object FROM objects WHERE obj_description(objid, classid::regclass::text) IS NULL;
SELECT obj_description(oid, 'pg_extension') FROM pg_extension WHERE extname = 'flash_maxsim';
SELECT object FROM objects WHERE classid <> 'pg_cast'::regclass ORDER BY object COLLATE "C";

-- What is constant, what NULL does, what may run in parallel workers (what reads a source may
-- not: it can be a temporary table), what it costs and how many rows are expected.  Nothing is
-- a security definer, and nothing leakproof, since errors tell of arguments.
SELECT objid::regprocedure AS function, provolatile, proisstrict, proparallel, procost, prorows, prosupport, prosecdef OR proleakproof AS privileged
FROM objects JOIN pg_proc p ON classid = 'pg_proc'::regclass AND objid = p.oid ORDER BY objid::regprocedure::text COLLATE "C";
-- constant under every setting that PostgreSQL's own conversions look at
CREATE FUNCTION conversions() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE 'SELECT concat_ws('' '', $1::multivec, $2::multivec(2, f16), $3::real[]::multivec, $4::numeric[]::multivec, $5::double precision[]::multivec(1, bf16),
			multivec(decode($6, ''hex''), 1), encode(multivec_send($1::multivec), ''hex''), array_dims($7::multivec::real[]))'
		INTO result USING '[[0.1,-3.4028235e38],[1e-45,16777217]]', '[[0.1,65504]]', '{{0.1,1e-7}}', '{{0.1,123456789012}}', '{{0.1}}', '0000803f', '[[1,2]]';
	RETURN result;
END $$;
SELECT conversions();
SELECT conversions() AS before \gset
SELECT setting, value, conversions() = :'before' AS same
FROM (VALUES ('extra_float_digits', '-15'), ('extra_float_digits', '3'), ('array_nulls', 'off'), ('lc_numeric', 'C'), ('bytea_output', 'escape'),
	('standard_conforming_strings', 'on'), ('DateStyle', 'German'), ('flash_maxsim.engine', 'cpu'), ('flash_maxsim.source', 'a(b, c)')) s(setting, value)
WHERE set_config(setting, value, true) IS NOT NULL;
-- so they can be indexed, and be generated
CREATE TABLE constant (emb multivec(2), r real[] GENERATED ALWAYS AS (multivec_to_real_array(emb)) STORED, score real GENERATED ALWAYS AS (maxsim('[[1,0]]', emb)) STORED);
CREATE INDEX ON constant (maxsim('[[0,1]]', emb));
INSERT INTO constant VALUES ('[[1,2],[3,4]]');
SELECT * FROM constant;
SELECT error_of($$CREATE INDEX ON constant ((maxsim_scores('[[1,0]]', '{1}', 'constant(id, emb)')))$$);

-- engines of the CPU: one scores, and what scores can run here
SELECT count(*) > 0 AS some, count(*) FILTER (WHERE active) AS active, bool_and(available) FILTER (WHERE active) AS available,
	   bool_or(device = 'portable' AND available) AS portable, count(*) = count(DISTINCT (engine, device)) AS different, bool_and(detail <> '') AS explained
FROM maxsim_engines() WHERE engine = 'cpu';

-- settings; those of the scorer exist where the library was preloaded
SHOW flash_maxsim.source;
SHOW flash_maxsim.batch_size;
SELECT name, context, vartype, unit, min_val, max_val, boot_val FROM pg_settings WHERE name LIKE 'flash\_maxsim.%' AND context = 'user' ORDER BY name;
SET flash_maxsim.batch_size = '2MB';
SHOW flash_maxsim.batch_size;
SELECT value, split_part(error_of(format('SET flash_maxsim.batch_size = %L', value)), ':', 1) AS error FROM unnest(ARRAY['1MB', '1GB', '1023kB', '1048577kB', '2GB', '0', '-1', 'many']) value;
RESET flash_maxsim.batch_size;
-- what is written as a source will do: what it names is looked for when it is used
SET flash_maxsim.source = 'absent(id, emb)';
SELECT error_of('SELECT * FROM maxsim_rerank(''[[1]]'', ''{1}'')');
SELECT error_of(format('SET flash_maxsim.source = %L', source)) FROM unnest(ARRAY['no source', 'docs(id, emb))', ' ']) source;
SELECT error_of('CREATE FUNCTION wrong() RETURNS integer SET flash_maxsim.source = ''docs'' LANGUAGE sql AS ''SELECT 1''');
SHOW flash_maxsim.source;
SET flash_maxsim.source = '';
SELECT error_of('SELECT * FROM maxsim_rerank(''[[1]]'', ''{1}'')');
SET flash_maxsim.source = 's."t (x)"(id, "emb")';
CREATE FUNCTION with_setting() RETURNS text SET flash_maxsim.source = 'other(id, emb)' LANGUAGE sql AS $$ SELECT current_setting('flash_maxsim.source') $$;
SELECT with_setting(), current_setting('flash_maxsim.source');

-- it can be moved to another schema, and be dropped and created again
CREATE SCHEMA elsewhere;
CREATE TABLE docs (id bigint PRIMARY KEY, emb multivec(2));
INSERT INTO docs VALUES (1, '[[1,2]]'), (2, '[[3,4]]');
ALTER EXTENSION flash_maxsim SET SCHEMA elsewhere;
SELECT * FROM elsewhere.maxsim_rerank('[[1,0]]', '{1,2}', 'docs(id, emb)');
SELECT elsewhere.maxsim('[[1,0]]'::elsewhere.multivec, emb) FROM docs ORDER BY id;
\d docs
ALTER EXTENSION flash_maxsim SET SCHEMA public;
SELECT * FROM maxsim_rerank('[[1,0]]', '{1,2}', 'docs(id, emb)');
BEGIN;
SET client_min_messages = warning;
DROP EXTENSION flash_maxsim CASCADE;
CREATE EXTENSION flash_maxsim SCHEMA catalog;
RESET client_min_messages;
ALTER TABLE docs ADD emb catalog.multivec(2);
UPDATE docs SET emb = '[[5,6]]' WHERE id = 2;
SELECT * FROM maxsim_rerank('[[1,0]]', '{1,2}', 'docs(id, emb)');
ROLLBACK;
SELECT * FROM maxsim_rerank('[[1,0]]', '{1,2}', 'docs(id, emb)');
