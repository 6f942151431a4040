-- maxsim_matches: which document token each query token found.
SELECT * FROM maxsim_matches('[[1,0],[0,1],[-1,-1]]', '[[0,2],[3,0],[1,1],[0,2]]'::multivec);
SELECT * FROM maxsim_matches('[[1,0],[0,1]]', '{{0,2},{3,0},{1,1}}'::real[]);
-- the terms of maxsim, in every format
CREATE FUNCTION match_tokens(seed integer, ntokens integer, dim integer) RETURNS real[] LANGUAGE sql IMMUTABLE AS
$$ SELECT array_agg(token ORDER BY t) FROM (SELECT i / dim AS t, array_agg(sin(seed * 1.3 + i * 0.7 + i * i * 0.01)::real ORDER BY i) AS token
	FROM generate_series(0, ntokens * dim - 1) i GROUP BY i / dim) s $$;
SELECT modifier, ntokens, abs(sum(similarity) - min(maxsim(q, d))) <= 1e-5 * sum(abs(similarity)) AS same, count(*), bool_and(doc_token BETWEEN 1 AND ntokens) AS within
FROM unnest(ARRAY['multivec(70)', 'multivec(70,f16)', 'multivec(70,bf16)']) modifier, unnest(ARRAY[1, 2, 33, 300]) ntokens,
	LATERAL (SELECT match_tokens(1, 19, 70)::multivec AS q, CASE modifier WHEN 'multivec(70)' THEN match_tokens(2, ntokens, 70)::multivec(70)::multivec
		WHEN 'multivec(70,f16)' THEN match_tokens(2, ntokens, 70)::multivec(70,f16)::multivec ELSE match_tokens(2, ntokens, 70)::multivec(70,bf16)::multivec END AS d) x,
	LATERAL maxsim_matches(q, d) GROUP BY modifier, ntokens ORDER BY modifier, ntokens;
-- each is the best there is
SELECT count(*), bool_and(similarity >= s.best - 1e-5) AS best
FROM maxsim_matches(match_tokens(1, 5, 8), match_tokens(2, 9, 8)) m, LATERAL (SELECT max(maxsim(multivec_slice(match_tokens(1, 5, 8), query_token, 1), multivec_slice(match_tokens(2, 9, 8), t, 1))) AS best FROM generate_series(1, 9) t) s;
SELECT count(*) FROM maxsim_matches('[[1,2]]', '[]'::multivec);
SELECT count(*) FROM maxsim_matches('[[1,2]]', NULL::multivec);
SELECT error_of($$SELECT maxsim_matches('[[1,2]]', '[[1,2,3]]'::multivec)$$), error_of($$SELECT maxsim_matches('[]', '[[1,2,3]]'::multivec)$$), error_of($$SELECT maxsim_matches('[[1e30]]', '[[1]]'::multivec(1,f16))$$),
	   error_of($$SELECT maxsim_matches('[[1e30]]', '[[1e30]]'::multivec)$$), error_of($$SELECT maxsim_matches('[[1]]', '{{NULL}}'::real[])$$);
