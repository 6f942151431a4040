-- maxsim_rerank and maxsim_scores
CREATE SCHEMA rerank;
SET search_path = rerank, public;
\pset null '(null)'

CREATE TABLE docs (id bigint PRIMARY KEY, emb multivec(2));
INSERT INTO docs VALUES (1, '[[1,0],[0,1]]'), (2, '[[3,0]]'), (3, NULL), (4, '[]'), (5, '[[-1,-1]]'), (6, '[[0,3]]'), (7, '[[1,2],[2,1]]'),
	(-8, '[[0,0]]'), (9223372036854775807, '[[2,2]]'), (-9223372036854775808, '[[2,2]]');

-- score descending, then id; no score last; absent ids not at all, repeated ids once
SELECT * FROM maxsim_rerank('[[1,0]]', '{1,2,3,4,5,6,7,-8,9,10}', 'docs(id, emb)');
SELECT * FROM maxsim_rerank('[[1,0],[0,1]]', ARRAY(SELECT id FROM docs), 'docs(id, emb)');
SELECT * FROM maxsim_rerank('[[1,0]]', '{2,2,2,7,1,7,2,99,99}', 'docs(id, emb)');
SELECT maxsim_scores('[[1,0]]', '{2,2,3,99,7,4,1,2,5}', 'docs(id, emb)');
SELECT maxsim_scores('[[1,0],[0,1]]', '{9223372036854775807,-9223372036854775808,0}', 'docs(id, emb)');
-- the order of ids does not matter, nor do bounds of their array
SELECT maxsim_scores('[[1,0]]', '[5:7]={7,6,2}'::bigint[], 'docs(id, emb)'), array_agg(doc_id) FROM maxsim_rerank('[[1,0]]', '[5:7]={7,6,2}'::bigint[], 'docs(id, emb)');
-- none
SELECT * FROM maxsim_rerank('[[1,0]]', '{}', 'docs(id, emb)');
SELECT * FROM maxsim_rerank('[[1,0]]', '{98,99}', 'docs(id, emb)');
SELECT maxsim_scores('[[1,0]]', '{}', 'docs(id, emb)'), maxsim_scores('[[1,0]]', '{98,99}', 'docs(id, emb)');
SELECT * FROM maxsim_rerank(NULL::multivec, '{1}', 'docs(id, emb)');
SELECT * FROM maxsim_rerank('[[1,0]]', NULL, 'docs(id, emb)');
SELECT maxsim_scores(NULL::real[], '{1}', 'docs(id, emb)'), maxsim_scores('[[1,0]]', NULL, 'docs(id, emb)');

-- the best few
SELECT top_k, array_agg(doc_id) FROM unnest(ARRAY[1, 2, 3, 9, 10, 11, 2147483647, NULL]) WITH ORDINALITY t(top_k, n),
	LATERAL maxsim_rerank('[[1,0]]', ARRAY(SELECT id FROM docs), 'docs(id, emb)', top_k) GROUP BY n, top_k ORDER BY n;
SELECT * FROM maxsim_rerank('[[1,0]]', '{1,2,3,4}', top_k => 2, source => 'docs(id, emb)');
SELECT * FROM maxsim_rerank('[[1,0]]', '{3,4}', 'docs(id, emb)', 1);

-- however the arguments come
SELECT doc_id, score FROM maxsim_rerank(ARRAY[[1,0]], ARRAY[2,7], 'docs(id, emb)') LIMIT 1;
SELECT doc_id, score FROM maxsim_rerank(ARRAY[[1.5,0]], ARRAY[2,7]::smallint[]::bigint[], 'docs(id, emb)') LIMIT 1;
SELECT doc_id, score FROM maxsim_rerank('{{1,0}}'::real[], '{2,7}', 'docs(id, emb)') LIMIT 1;
SELECT doc_id, score FROM maxsim_rerank('{{1,0}}'::double precision[], ARRAY(SELECT 2::bigint), 'docs(id, emb)');
SELECT doc_id, score FROM maxsim_rerank('[[1,0]]'::multivec(2, f16), '{2,7}', 'docs(id, emb)') LIMIT 1;
SELECT maxsim_scores(ARRAY[[1,0]], ARRAY[2,7], 'docs(id, emb)'), maxsim_scores('{{1,0}}'::real[], '{2,7}', 'docs(id, emb)');
PREPARE untyped AS SELECT * FROM maxsim_rerank($1, $2, $3, $4);
EXECUTE untyped('[[1,0]]', '{1,2,7}', 'docs(id, emb)', 2);
EXECUTE untyped('{{0,1}}', '{1,2,7}', 'docs(id, emb)', NULL);
PREPARE untyped_scores AS SELECT maxsim_scores($1, $2, $3);
EXECUTE untyped_scores('[[1,0]]', '{1,2,7}', 'docs(id, emb)');
-- in the target list, joined, for a query a row
SELECT (maxsim_rerank('[[1,0]]', '{1,2}', 'docs(id, emb)')).*;
SELECT q.id, r.* FROM (VALUES (1, '[[1,0]]'::multivec, '{1,2}'::bigint[]), (2, '[[0,1]]', '{1,6,7}'), (3, '[[1,1]]', '{}'), (4, '[[1,1]]', '{5,3}')) q(id, q, ids)
	LEFT JOIN LATERAL maxsim_rerank(q, ids, 'docs(id, emb)') r ON true ORDER BY q.id, score DESC NULLS LAST, doc_id;
SELECT id, emb, score FROM maxsim_rerank('[[1,0]]', '{1,2,7}', 'docs(id, emb)', 2) JOIN docs ON id = doc_id ORDER BY score DESC, id;

-- the setting names the source
SELECT error_of('SELECT * FROM maxsim_rerank(''[[1,0]]'', ''{1}'')');
SET flash_maxsim.source = 'docs(id, emb)';
SELECT * FROM maxsim_rerank('[[1,0]]', '{1,2}');
SELECT maxsim_scores('[[1,0]]', '{1,2}'), maxsim_scores('[[1,0]]', '{1,2}', NULL);
SELECT error_of('SELECT * FROM maxsim_rerank(''[[1,0]]'', ''{1}'', '''')');
RESET flash_maxsim.source;

-- names
CREATE SCHEMA "odd Schema";
CREATE TABLE "odd Schema"."a (b), ""c"".d" ("the id" integer, "emb(1), ""x""" multivec, "Ä" real[]);
INSERT INTO "odd Schema"."a (b), ""c"".d" VALUES (1, '[[1,2]]', '{{3,4}}');
SELECT source, doc_id, score FROM unnest(ARRAY[
	'"odd Schema"."a (b), ""c"".d"("the id", "emb(1), ""x""")', '"odd Schema"."a (b), ""c"".d" ( "the id" , "Ä" ) ',
	'docs(id,emb)', ' docs ( id , emb ) ', E'\trerank . docs\n(id,\nemb)', 'DOCS(ID, Emb)', '"docs"("id", "emb")', 'rerank.docs(id, emb)']) source,
	LATERAL maxsim_rerank('[[1,0]]', '{1}', source);
\pset format unaligned
\pset tuples_only on
SELECT source, error_of(format('SELECT * FROM maxsim_rerank(''[[1,0]]'', ''{1}'', %L)', source)) FROM unnest(ARRAY[
	'docs', 'docs()', 'docs(id)', 'docs(id, emb, id)', 'docs(id emb)', 'docs(id, emb', 'docs id, emb)', '(id, emb)', 'docs(id, emb) x', 'docs(id,,emb)', 'docs(, emb)',
	'docs(id, emb))', 'docs(id), emb)', 'docs(id, emb).x', 'docs.(id, emb)', '.docs(id, emb)', 'a b(id, emb)', 'docs(id, emb;)', 'docs-2(id, emb)', 'docs(id, "")', 'docs(id, "e"mb)', '"" (id, emb)',
	'docs(id, "emb)', '"docs(id, emb)', 'docs(id, "emb""', E'docs(id, emb)\n\t', '  ', 'd$2._1(ï, _$)', 'docs(id, 1)', 'docs((id), emb)', 'docs(id, emb); DROP TABLE docs', 'docs(id, emb) --', '(SELECT 1)(id, emb)',
	'absent(id, emb)', 'nowhere.docs(id, emb)', 'a.b.c.docs(id, emb)', 'docs(absent, emb)', 'docs(id, absent)', 'docs(id, "Emb")', '"DOCS"(id, emb)',
	'docs(emb, emb)', 'docs(id, id)', 'docs(ctid, emb)', 'docs(id, xmin)', 'docs_pkey(id, emb)', 'pg_class(oid, relname)']) source;
SELECT statement, error_of(statement) FROM unnest(ARRAY[
	$$SELECT * FROM maxsim_rerank('[]', '{1}', 'docs(id, emb)')$$,
	$$SELECT * FROM maxsim_rerank('[]', '{}', 'docs(id, emb)')$$,
	$$SELECT maxsim_scores('{}'::real[], '{1}', 'docs(id, emb)')$$,
	$$SELECT * FROM maxsim_rerank('[[1,2,3]]', '{1}', 'docs(id, emb)')$$,
	$$SELECT * FROM maxsim_rerank('[[1,2,3]]', '{3,4}', 'docs(id, emb)')$$,
	$$SELECT maxsim_scores('[[1]]', '{1}', 'docs(id, emb)')$$,
	$$SELECT * FROM maxsim_rerank('[[1,0]]', '{1,NULL}', 'docs(id, emb)')$$,
	$$SELECT * FROM maxsim_rerank('[[1,0]]', '{{1,2},{3,4}}', 'docs(id, emb)')$$,
	$$SELECT maxsim_scores('[[1,0]]', '{NULL}', 'docs(id, emb)')$$,
	$$SELECT * FROM maxsim_rerank('[[1,0]]', '{1}', 'docs(id, emb)', 0)$$,
	$$SELECT * FROM maxsim_rerank('[[1,0]]', '{1}', 'docs(id, emb)', -1)$$,
	$$SELECT * FROM maxsim_rerank('{{1,NaN}}'::real[], '{1}', 'docs(id, emb)')$$,
	$$SELECT * FROM maxsim_rerank('{1,0}'::real[], '{1}', 'docs(id, emb)')$$,
	$$SELECT 1 WHERE maxsim_rerank('[[1,0]]', '{1}', 'docs(id, emb)') IS NULL$$]) statement;
\pset tuples_only off
\pset format aligned

-- ids and documents of every type there may be, with and without an index
CREATE DOMAIN number AS bigint CHECK (VALUE > 0);
CREATE DOMAIN small AS smallint;
CREATE DOMAIN embedding AS multivec(2) CHECK (multivec_ntokens(VALUE) < 9);
CREATE DOMAIN floats AS real[];
CREATE DOMAIN bigints AS bigint[];
CREATE FUNCTION of_types(id_type text, document_type text, key text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('CREATE TABLE typed (id %s %s, emb %s)', id_type, key, document_type);
	INSERT INTO typed VALUES (1, '{{1,2},{2,1}}'), (2, '{{3,3}}'), (3, '{}'), (4, NULL), (32767, '{{-1,-1}}');
	SELECT string_agg(doc_id || ':' || coalesce(score::text, ''), ' ') || ' ' ||
		   maxsim_scores('[[1,0],[0,1]]', '{4,2,99,1}', 'typed(id, emb)')::text INTO result
	FROM maxsim_rerank('[[1,0],[0,1]]', '{1,2,3,4,5,32767,40000,9223372036854775807}', 'typed(id, emb)');
	DROP TABLE typed;
	RETURN result;
END $$;
SELECT id_type, key, document_type, of_types(id_type, document_type, key)
FROM unnest(ARRAY['smallint', 'integer', 'bigint', 'number', 'small']) id_type, unnest(ARRAY['', 'PRIMARY KEY']) key,
	 unnest(ARRAY['multivec', 'multivec(2,f16)', 'multivec(2,bf16)', 'real[]', 'double precision[]', 'embedding', 'floats', 'numeric[]', 'integer[]', 'bigints']) document_type
ORDER BY 4, 1, 2, 3;
SELECT id_type, document_type, error_of(format('SELECT of_types(%L, %L, '''')', id_type, document_type))
FROM (VALUES ('numeric', 'multivec'), ('text', 'multivec'), ('real', 'multivec'), ('bigint', 'text[]'), ('bigint', 'bytea'), ('bigint', 'text')) t(id_type, document_type);

-- what is cast to multivec is cast in the rows that are asked for alone, however few the table has, and when the column is another
CREATE TABLE some_bad (id integer, emb integer[]);
INSERT INTO some_bad VALUES (1, '{{1,2}}'), (2, '{1,2}'), (3, '{{NULL}}'), (4, '{{3,4}}');
SELECT maxsim_scores('[[1,0]]', '{4,5,1}', 'some_bad(id, emb)'), error_of($$SELECT maxsim_scores('[[1,0]]', '{1,2}', 'some_bad(id, emb)')$$), error_of($$SELECT maxsim_scores('[[1,0]]', '{3}', 'some_bad(id, emb)')$$);
ALTER TABLE some_bad ADD PRIMARY KEY (id);
SELECT maxsim_scores('[[1,0]]', '{4,5,1}', 'some_bad(id, emb)') FROM generate_series(1, 2);
ALTER TABLE some_bad ALTER emb TYPE numeric[];
SELECT maxsim_scores('[[1,0]]', '{4,5,1}', 'some_bad(id, emb)');
ALTER TABLE some_bad ALTER emb TYPE multivec USING CASE WHEN id IN (1, 4) THEN emb::multivec END;
SELECT maxsim_scores('[[1,0]]', '{4,2,1}', 'some_bad(id, emb)');

-- an id more than once in the source
CREATE TABLE twice (id integer, emb multivec);
INSERT INTO twice VALUES (1, '[[1,0]]'), (1, '[[3,0]]'), (2, '[[2,0]]'), (1, '[[3,0]]'), (NULL, '[[9,9]]');
SELECT * FROM maxsim_rerank('[[1,0]]', '{1,2}', 'twice(id, emb)');
SELECT maxsim_scores('[[1,0]]', '{2}', 'twice(id, emb)');
SELECT error_of('SELECT maxsim_scores(''[[1,0]]'', ''{2,1}'', ''twice(id, emb)'')');

-- documents of several formats and dimensions in one column
CREATE TABLE mixed (id integer PRIMARY KEY, emb multivec);
INSERT INTO mixed SELECT id, CASE id % 3 WHEN 0 THEN m WHEN 1 THEN m::multivec(2, f16) ELSE m::multivec(2, bf16) END
FROM generate_series(1, 9) id, LATERAL (SELECT ARRAY[[id % 4, 1]]::multivec AS m OFFSET 0) m;
INSERT INTO mixed VALUES (10, '[[1]]'), (11, '[[1,2,3]]'), (12, '[[70000,0]]');
SELECT doc_id, score, multivec_format(emb) FROM maxsim_rerank('[[1,0]]', '{1,2,3,4,5,6,7,8,9}', 'mixed(id, emb)') JOIN mixed ON id = doc_id ORDER BY score DESC, doc_id;
SELECT error_of('SELECT * FROM maxsim_rerank(''[[1,0]]'', ''{1,10}'', ''mixed(id, emb)'')');
SELECT error_of('SELECT * FROM maxsim_rerank(''[[70000,0]]'', ''{3,12}'', ''mixed(id, emb)'')'), error_of('SELECT * FROM maxsim_rerank(''[[70000,0]]'', ''{3,1}'', ''mixed(id, emb)'')');

-- the error is about the document that has it
CREATE TABLE faulty (id integer PRIMARY KEY, emb real[]);
INSERT INTO faulty SELECT id, '{{1,1}}' FROM generate_series(1, 3000) id;
UPDATE faulty SET emb = '{{1e30,0}}' WHERE id = 700;
SELECT * FROM maxsim_rerank('[[1e30,0]]', ARRAY(SELECT generate_series(1, 3000)), 'faulty(id, emb)', 1);
SELECT * FROM maxsim_rerank('[[1e30,0]]', '{699,700,701}', 'faulty(id, emb)', 1);
UPDATE faulty SET emb = '{{1,NaN}}' WHERE id = 700;
SELECT * FROM maxsim_rerank('[[1,0]]', '{699,700,701}', 'faulty(id, emb)');
UPDATE faulty SET emb = '{{1,NULL}}' WHERE id = 700;
SELECT maxsim_scores('[[1,0]]', '{700}', 'faulty(id, emb)');
UPDATE faulty SET emb = '{1,2}' WHERE id = 700;
SELECT maxsim_scores('[[1,0]]', '{700}', 'faulty(id, emb)');
UPDATE faulty SET emb = '{{{1,2}}}' WHERE id = 700;
SELECT maxsim_scores('[[1,0]]', '{700}', 'faulty(id, emb)');
-- and its session goes on
SELECT count(*), min(score), max(score) FROM maxsim_rerank('[[1,0]]', ARRAY(SELECT generate_series(1, 3000) EXCEPT SELECT 700), 'faulty(id, emb)');
