-- A page and a query to draw, both synthetic: psql -f examples/heatmap/page.sql, after
-- CREATE EXTENSION flash_maxsim.  Everything lands in the schema heatmap; loading again
-- replaces it.
--
-- The page has 32 x 32 patches of 128 dimensions, as ColPali makes them, and the query four
-- tokens.  All are random directions, the same on every machine; each query token has been
-- added to one patch, planted there, and ever less to those around it.
\set ON_ERROR_STOP on
\set QUIET on

SET client_min_messages = warning;
DROP SCHEMA IF EXISTS heatmap CASCADE;
CREATE SCHEMA heatmap;
RESET client_min_messages;

CREATE TABLE heatmap.pages (
	id bigint PRIMARY KEY,
	columns integer NOT NULL,
	patches multivec(128, f16)
);
COMMENT ON COLUMN heatmap.pages.columns IS 'patches in a row of the page';
COMMENT ON COLUMN heatmap.pages.patches IS 'one vector a patch, row by row from the top left';

CREATE TABLE heatmap.queries (
	id bigint PRIMARY KEY,
	tokens multivec(128)
);

-- where each token of the query is on the page; rows and columns from 0, the top left
CREATE TABLE heatmap.planted (
	query bigint,
	query_token integer,
	page bigint,
	page_row integer,
	page_column integer
);
INSERT INTO heatmap.planted VALUES (1, 1, 1, 6, 9), (1, 2, 1, 14, 20), (1, 3, 1, 23, 5), (1, 4, 1, 27, 27);

-- a number from -0.5 to 0.5 that belongs to a name
CREATE FUNCTION heatmap.noise(name text) RETURNS double precision
	LANGUAGE sql IMMUTABLE STRICT
AS $$ SELECT ('x' || left(md5(name), 8))::bit(32)::bigint / 2.0 ^ 32 - 0.5 $$;

-- what belongs to a name as a vector of 128 numbers of unit length
CREATE FUNCTION heatmap.direction(name text) RETURNS multivec
	LANGUAGE sql IMMUTABLE STRICT
AS $$ SELECT multivec_normalize(ARRAY[ARRAY(SELECT heatmap.noise(name || ' ' || i) FROM generate_series(1, 128) AS i)]) $$;

INSERT INTO heatmap.queries
	SELECT 1, multivec_concat_agg(heatmap.direction('query token ' || t) ORDER BY t) FROM generate_series(1, 4) AS t;

-- what a patch is the sum of, number by number
WITH parts AS (
	SELECT y, x, 0 AS part, i, number
	FROM generate_series(0, 31) AS y, generate_series(0, 31) AS x,
		unnest(multivec_token(heatmap.direction(format('patch %s %s', y, x)), 1)) WITH ORDINALITY AS noise(number, i)
	UNION ALL
	SELECT y, x, query_token, i, number * CASE WHEN distance = 0 THEN 4 ELSE 2 * exp(-distance / 6) END
	FROM heatmap.queries, heatmap.planted, generate_series(0, 31) AS y, generate_series(0, 31) AS x,
		LATERAL (SELECT (page_row - y) ^ 2 + (page_column - x) ^ 2 AS distance) AS d,
		unnest(multivec_token(tokens, query_token)) WITH ORDINALITY AS token(number, i)
	WHERE distance < 50
),
sums AS (
	SELECT y, x, i, sum(number ORDER BY part) AS number FROM parts GROUP BY y, x, i
)
INSERT INTO heatmap.pages
	SELECT 1, 32, multivec_concat_agg(multivec_normalize(ARRAY[patch]) ORDER BY y, x)
	FROM (SELECT y, x, array_agg(number ORDER BY i) AS patch FROM sums GROUP BY y, x) AS p;
