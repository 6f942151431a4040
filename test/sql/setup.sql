-- What the other files share.  They may run in any order, each in a schema of its own.
CREATE EXTENSION flash_maxsim;

-- The error that a statement raises: SQLSTATE and message, then detail and hint.
CREATE FUNCTION error_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n  ', state || ': ' || message, 'detail: ' || nullif(detail, ''), 'hint: ' || nullif(hint, ''));
END $$;

-- Scores are the same bits on one engine; maxsim() alone is always the CPU's, so that with a GPU two
-- agree within the contract.
CREATE FUNCTION agree(a float, b float, tolerance float) RETURNS boolean LANGUAGE sql STABLE AS $$
	SELECT a IS NOT DISTINCT FROM b OR
		abs(a - b) <= tolerance * abs(b) AND EXISTS (SELECT FROM maxsim_engines() WHERE active AND detail LIKE '% by engine cuda')
$$;

-- Small integers that look random: element k of token t of document d, -7 to 7.
CREATE FUNCTION element(d integer, t integer, k integer) RETURNS integer
	LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT ((d * 7919 + t * 104729 + k * 1299709 + (d + 3) * (t + 5) * (k + 7)) % 15 + 15) % 15 - 7 $$;

-- Document d of so many tokens, of a dimension.
CREATE FUNCTION document(d integer, ntokens integer, dim integer) RETURNS real[]
	LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$
	SELECT coalesce(array_agg(token ORDER BY t), '{}')
	FROM (SELECT t, array_agg(element(d, t, k)::real ORDER BY k) AS token
		  FROM generate_series(1, ntokens) t, generate_series(1, dim) k GROUP BY t) tokens
$$;

SELECT document(1, 2, 4), document(2, 0, 4);
SELECT error_of('SELECT 1'), error_of('SELECT 1 / 0');
