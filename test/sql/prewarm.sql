-- maxsim_prewarm: errors.  The cache itself is tested with servers of their own.
CREATE SCHEMA prewarm;
SET search_path = prewarm, public;
CREATE TABLE docs (id bigint PRIMARY KEY, emb multivec(2));
SELECT call, error_of('SELECT * FROM maxsim_prewarm(' || call || ')') AS error FROM unnest(ARRAY[
	$$'docs(id, emb)', tier => 'disk'$$, $$'docs(id, emb)', tier => ''$$, $$'docs(id, emb)', tier => 'GPU'$$,
	$$'docs(id, emb)', '{1,NULL}'$$, $$'docs(id, emb)', '{{1,2}}'$$,
	$$'docs(id, emb)', progress_interval => -1$$, $$'docs(id, emb)', progress_interval => 'NaN'$$]) call;

-- without preload there is no cache, whatever else is wrong
SELECT call, CASE WHEN current_setting('shared_preload_libraries') LIKE '%flash_maxsim%' THEN '55000 there is no cache of documents'
	ELSE replace(split_part(error_of('SELECT * FROM maxsim_prewarm(' || call || ')'), E'\n', 1), ':', '') END AS error
FROM unnest(ARRAY[$$$$, $$'docs(id, emb)'$$, $$'docs(id, emb)', '{1,2}'$$, $$NULL, NULL, NULL, NULL$$, $$'docs(id, emb)', tier => 'host'$$,
	$$'docs(id, emb)', tier => 'gpu'$$, $$'no source'$$]) call;

-- nothing goes on, which not everybody may see
SELECT * FROM flash_maxsim_prewarm_progress;
SELECT role, has_table_privilege(role, 'flash_maxsim_prewarm_progress', 'SELECT') AS view,
	   has_function_privilege(role, 'maxsim_prewarm_progress()', 'EXECUTE') AS function,
	   has_function_privilege(role, 'maxsim_prewarm(text, bigint[], text, double precision)', 'EXECUTE') AS prewarm
FROM unnest('{pg_monitor,pg_read_all_stats,pg_signal_backend}'::name[]) role;
