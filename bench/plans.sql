-- plans.sql
--	What bench/plans.sh runs in the server: ways of asking, each checked for being planned
--	as it says, and measured in turn on one connection.
--
-- A way's settings are those of its columns.  Statements are given the query as $1 and a
-- thousand ids as $2.  They are planned each time that they run, and their rows are thrown
-- away by the server: what is measured is the server's time, of which planning is a part.

CREATE TABLE ways (
	n integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	part text NOT NULL,
	name text NOT NULL,
	kind text NOT NULL CHECK (kind IN ('rows', 'node', 'rerank')),	-- who calls: each row, the node, maxsim_rerank
	engine text NOT NULL CHECK (engine IN ('cpu', 'cuda')),
	place text NOT NULL CHECK (place IN ('table', 'host', 'gpu')),	-- where documents must be found
	workers integer NOT NULL DEFAULT 0,
	statements text[] NOT NULL,
	ndocuments bigint NOT NULL,										-- that all of them together score
	paired boolean NOT NULL DEFAULT false,							-- the last one runs in another connection
	missing text,													-- why it cannot be measured
	found text														-- what the check saw
);

CREATE TABLE times (way integer NOT NULL REFERENCES ways, round integer NOT NULL, ms double precision NOT NULL);

-- memory of the function's own, as a parameter would be
CREATE FUNCTION query() RETURNS multivec STABLE LANGUAGE sql AS
	'SELECT multivec_slice(e, 1, multivec_ntokens(e)) FROM query';

-- others in each round
CREATE FUNCTION random_ids(round integer) RETURNS bigint[] STABLE LANGUAGE sql AS
	'SELECT array_agg(id) FROM (SELECT id FROM docs ORDER BY hashint8extended(id, round) LIMIT 1000) s';

CREATE FUNCTION apply(way ways) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('flash_maxsim.enable_batch_scan', (way.kind = 'node')::text, false),
		set_config('flash_maxsim.engine', way.engine, false),
		set_config('max_parallel_workers_per_gather', way.workers::text, false),
		set_config('parallel_setup_cost', '0', false),
		set_config('parallel_tuple_cost', '0', false),
		set_config('min_parallel_table_scan_size', '0', false),
		set_config('jit', 'off', false);
END $$;

-- What a plan says of itself, added up over its nodes.
CREATE TYPE figures AS (nodes bigint, reranks bigint, gathers bigint, launched bigint, cpu boolean, scorer boolean,
	documents bigint, host bigint, gpu bigint, fetched bigint);

CREATE FUNCTION explain(statement text, query multivec, ids bigint[]) RETURNS figures LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
	result figures;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || statement INTO plan USING query, ids;
	SELECT count(*) FILTER (WHERE maxsim),
		count(*) FILTER (WHERE node ->> 'Function Name' = 'maxsim_rerank'),
		count(*) FILTER (WHERE node ->> 'Node Type' IN ('Gather', 'Gather Merge')),
		coalesce(sum((node ->> 'Workers Launched')::bigint), 0),
		bool_or(maxsim AND node ->> 'Engine' = 'cpu'),
		bool_or(maxsim AND node ->> 'Engine' = 'scorer'),
		sum((node ->> 'Documents')::bigint),
		sum((node ->> 'Host Cache Hits')::bigint),
		sum((node ->> 'GPU Cache Hits')::bigint),
		sum((node ->> 'Documents Fetched')::bigint)
	INTO result
	FROM jsonb_path_query(plan, 'strict $.** ? (@."Node Type" != "")') AS node,
		coalesce(node ->> 'Custom Plan Provider' = 'MaxSim', false) AS maxsim;
	RETURN result;
END $$;

-- An error unless a way is what it says; else a line of what was seen.
CREATE FUNCTION check_way(way ways) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	seen figures;
	sums figures := ROW(0, 0, 0, 0, true, true, 0, 0, 0, 0);
	before record;
	after record;
	nstatements integer := cardinality(way.statements);
BEGIN
	PERFORM apply(way);
	SELECT * INTO before FROM maxsim_stats();
	FOREACH statement IN ARRAY way.statements LOOP
		seen := explain(statement, query(), random_ids(0));
		sums.nodes := sums.nodes + seen.nodes;
		sums.reranks := sums.reranks + seen.reranks;
		sums.gathers := sums.gathers + seen.gathers;
		sums.launched := sums.launched + seen.launched;
		sums.cpu := sums.cpu AND seen.cpu;
		sums.scorer := sums.scorer AND seen.scorer;
		sums.documents := sums.documents + seen.documents;
		sums.host := sums.host + seen.host;
		sums.gpu := sums.gpu + seen.gpu;
		sums.fetched := sums.fetched + seen.fetched;
	END LOOP;
	SELECT * INTO after FROM maxsim_stats();
	IF way.kind = 'rerank' THEN		-- whose plan says nothing
		sums.cpu := after.documents_cpu - before.documents_cpu = way.ndocuments;
		sums.scorer := after.documents_scorer - before.documents_scorer = way.ndocuments;
		sums.documents := after.documents - before.documents;
		sums.host := after.hits_host - before.hits_host;
		sums.gpu := after.hits_gpu - before.hits_gpu;
		sums.fetched := after.misses - before.misses + after.refetched - before.refetched;
	END IF;
	IF sums.nodes <> (CASE WHEN way.kind = 'node' THEN nstatements ELSE 0 END) OR
		sums.reranks <> (CASE WHEN way.kind = 'rerank' THEN nstatements ELSE 0 END) OR
		sums.gathers <> (CASE WHEN way.workers > 0 THEN nstatements ELSE 0 END) OR
		sums.launched <> way.workers * nstatements THEN
		RAISE 'another plan than "%, %" should have: %', way.part, way.name, to_json(sums);
	END IF;
	IF way.kind = 'rows' THEN
		RETURN NULL;
	END IF;
	IF (CASE way.engine WHEN 'cpu' THEN sums.cpu ELSE sums.scorer END) IS NOT TRUE OR
		sums.documents IS DISTINCT FROM way.ndocuments OR
		sums.fetched <> (CASE WHEN way.place = 'table' THEN way.ndocuments ELSE 0 END) OR
		sums.host <> (CASE WHEN way.place = 'host' THEN way.ndocuments ELSE 0 END) OR
		sums.gpu <> (CASE WHEN way.place = 'gpu' THEN way.ndocuments ELSE 0 END) THEN
		RAISE '"%, %" did not score % documents from % by %: %', way.part, way.name, way.ndocuments, way.place, way.engine,
			to_json(sums);
	END IF;
	RETURN format('%s hits, %s fetched', sums.host + sums.gpu, sums.fetched);
END $$;

-- Locks by which two connections start together, and one learns that the other is done: a
-- round's is let go when it begins, or when its half is done.
CREATE FUNCTION lock_go() RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 1835104371';
CREATE FUNCTION lock_done() RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 1835104372';

CREATE FUNCTION take_locks(class integer, rounds integer) RETURNS void LANGUAGE sql AS
	'SELECT pg_advisory_lock(class, round) FROM generate_series(0, rounds) round';

CREATE FUNCTION await_locks(class integer, rounds integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 3000 LOOP
		IF (SELECT count(*) > rounds FROM pg_locks
			WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND classid::bigint = class AND granted) THEN
			RETURN;
		END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RAISE 'the other connection did not come';
END $$;

-- The other connection of a part's paired way.
CREATE FUNCTION second_connection(of_part text, rounds integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	way ways;
	q multivec := query();
BEGIN
	SELECT * INTO STRICT way FROM ways WHERE part = of_part AND paired;
	PERFORM take_locks(lock_done(), rounds);
	PERFORM check_way(way);
	PERFORM await_locks(lock_go(), rounds);
	FOR round IN 0 .. rounds LOOP
		PERFORM pg_advisory_lock(lock_go(), round);
		EXECUTE way.statements[cardinality(way.statements)] USING q;
		PERFORM pg_advisory_unlock(lock_done(), round);
	END LOOP;
	PERFORM pg_advisory_unlock_all();
END $$;

-- Runs a way once: milliseconds.
CREATE FUNCTION run(way ways, query multivec, ids bigint[], round integer) RETURNS double precision LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	start timestamptz;
	own text[] := way.statements;
BEGIN
	PERFORM apply(way);
	IF way.paired THEN
		own := trim_array(own, 1);
	END IF;
	start := clock_timestamp();
	IF way.paired THEN
		PERFORM pg_advisory_unlock(lock_go(), round);
	END IF;
	FOREACH statement IN ARRAY own LOOP
		EXECUTE statement USING query, ids;
	END LOOP;
	IF way.paired THEN
		PERFORM pg_advisory_lock(lock_done(), round);
	END IF;
	RETURN extract(epoch FROM clock_timestamp() - start) * 1000;
END $$;

-- Checks the ways of a part, and runs them in turn; the first round is not counted.
CREATE FUNCTION measure(of_part text, rounds integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	way ways;
	q multivec := query();
	ids bigint[];
	has_pair boolean := EXISTS (SELECT FROM ways WHERE part = of_part AND paired);
	ms double precision;
BEGIN
	IF has_pair THEN
		PERFORM take_locks(lock_go(), rounds);
		PERFORM await_locks(lock_done(), rounds);
	END IF;
	FOR way IN SELECT * FROM ways WHERE part = of_part AND missing IS NULL ORDER BY n LOOP
		UPDATE ways SET found = check_way(way) WHERE n = way.n;
	END LOOP;
	FOR round IN 0 .. rounds LOOP
		ids := random_ids(round);
		FOR way IN SELECT * FROM ways WHERE part = of_part AND missing IS NULL ORDER BY n LOOP
			ms := run(way, q, ids, round);
			IF round > 0 THEN
				INSERT INTO times VALUES (way.n, round, ms);
			END IF;
		END LOOP;
	END LOOP;
	PERFORM pg_advisory_unlock_all();
END $$;

-- Leaves what this server can measure: documents are in a cache or they are not.
CREATE FUNCTION leave_out(has_gpu boolean, has_host boolean, has_device boolean) RETURNS void LANGUAGE sql AS $$
	DELETE FROM ways WHERE CASE place
		WHEN 'table' THEN kind <> 'rows' AND (has_host OR has_device)
		WHEN 'host' THEN NOT has_host
		ELSE NOT has_device AND (has_gpu OR NOT has_host)
	END;
	UPDATE ways SET missing = 'no GPU' WHERE engine = 'cuda' AND NOT has_gpu
$$;

-- Medians, and how often the first way's time goes into each: that of a round by that of the same round.
CREATE FUNCTION report(of_part text) RETURNS TABLE (way text, engine text, documents text, ms text, "times as fast" text, seen text)
	STABLE LANGUAGE sql AS $$
	SELECT w.name, w.engine, w.place,
		coalesce(to_char(percentile_cont(0.5) WITHIN GROUP (ORDER BY t.ms), 'FM99990.00'), w.missing),
		to_char(percentile_cont(0.5) WITHIN GROUP (ORDER BY base.ms / t.ms), 'FM9990.00'), w.found
	FROM ways w
		LEFT JOIN times t ON t.way = w.n
		LEFT JOIN times base ON base.round = t.round AND
			base.way = (SELECT min(way) FROM times JOIN ways ON way = n WHERE part = of_part)
	WHERE part = of_part
	GROUP BY w.n
	ORDER BY w.n
$$;
