-- What shows counters and cache: the same with the library preloaded and without.
CREATE SCHEMA stats;
SET search_path = stats, public;
CREATE TABLE docs (id bigint PRIMARY KEY, emb multivec(64));
INSERT INTO docs SELECT i, document(i, 32, 64) FROM generate_series(1, 20) i;
INSERT INTO docs VALUES (21, '[]'), (22, NULL);
INSERT INTO docs SELECT 23, document(23, 1, 64);

-- one row of counters that are consistent, whether anything is counted or not
SELECT maxsim_stats_reset();
SELECT count(*) FROM maxsim_rerank(document(1, 4, 64), ARRAY(SELECT generate_series(1, 30)), 'docs(id, emb)');
SELECT count(*), bool_and(documents = hits_host + hits_gpu + misses) AS found_or_fetched,
	   bool_and(documents = documents_cpu + documents_scorer) AS scored, bool_and(documents IN (0, 21)) AS documents,
	   bool_and((documents = 0) = (batches = 0) AND (documents = 0) = (bytes_fetched = 0)) AS counted,
	   bool_and((stats_reset IS NULL) = (documents = 0)) AS since, bool_and(stats_reset <= clock_timestamp()) IS NOT FALSE AS past
FROM flash_maxsim_stats;
SELECT maxsim_stats_reset();
SELECT count(*) FROM flash_maxsim_stats WHERE documents = 0 AND batches = 0 AND misses = 0 AND bytes_fetched = 0 AND score_us = 0;
SELECT count(*) FILTER (WHERE documents < 0 OR host_bytes < 0 OR gpu_bytes < 0) AS negative FROM maxsim_cache();
SELECT count(*) FILTER (WHERE used + wasted > size OR free_segments > segments OR entries_used < 0) AS wrong FROM maxsim_cache_tiers();

-- columns, and what none of them says of itself
SELECT attrelid::regclass AS view, string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) AS columns
FROM pg_attribute WHERE attrelid IN ('flash_maxsim_stats'::regclass, 'flash_maxsim_cache'::regclass) AND attnum > 0 GROUP BY 1 ORDER BY 1::text;
SELECT attrelid::regclass AS view, attname FROM pg_attribute
WHERE attrelid IN ('flash_maxsim_stats'::regclass, 'flash_maxsim_cache'::regclass) AND attnum > 0 AND col_description(attrelid, attnum) IS NULL;

-- rights
CREATE ROLE regress_maxsim_nobody;
CREATE ROLE regress_maxsim_monitor IN ROLE pg_monitor;
CREATE ROLE regress_maxsim_reader IN ROLE pg_read_all_stats;
CREATE FUNCTION tried() RETURNS TABLE (what text, error text) LANGUAGE sql AS $$
	SELECT what, public.error_of('SELECT * FROM ' || what)
	FROM unnest(ARRAY['flash_maxsim_cache', 'flash_maxsim_stats', 'maxsim_cache()', 'maxsim_cache_tiers()', 'maxsim_stats()', 'maxsim_stats_reset()']) what $$;
GRANT USAGE ON SCHEMA stats TO regress_maxsim_nobody, regress_maxsim_monitor, regress_maxsim_reader;
SET ROLE regress_maxsim_nobody;
SELECT * FROM tried();
SET ROLE regress_maxsim_monitor;
SELECT * FROM tried();
SET ROLE regress_maxsim_reader;
SELECT * FROM tried();
RESET ROLE;
GRANT EXECUTE ON FUNCTION maxsim_stats_reset() TO regress_maxsim_nobody;
SET ROLE regress_maxsim_nobody;
SELECT maxsim_stats_reset();
RESET ROLE;
REVOKE EXECUTE ON FUNCTION maxsim_stats_reset() FROM regress_maxsim_nobody;
DROP SCHEMA stats CASCADE;
DROP ROLE regress_maxsim_nobody, regress_maxsim_monitor, regress_maxsim_reader;
