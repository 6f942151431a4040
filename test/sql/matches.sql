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
-- maxsim_similarities: each with each
SELECT * FROM maxsim_similarities('[[1,0],[-1,-1]]', '[[0,2],[3,0],[1,1]]'::multivec);
SELECT * FROM maxsim_similarities('[[1,0],[-1,-1]]', '{{0,2},{3,0}}'::real[]);
-- its best are the matches, to the bit and with the same choice among equals, in every format
SELECT modifier, ntokens, count(*), bool_and((m.doc_token, m.similarity) = (s.doc_token, s.similarity)) AS same
FROM unnest(ARRAY['multivec(70)', 'multivec(70,f16)', 'multivec(70,bf16)']) modifier, unnest(ARRAY[1, 33, 300]) ntokens,
	LATERAL (SELECT match_tokens(1, 19, 70)::multivec AS q, CASE modifier WHEN 'multivec(70)' THEN match_tokens(2, ntokens, 70)::multivec(70)::multivec
		WHEN 'multivec(70,f16)' THEN match_tokens(2, ntokens, 70)::multivec(70,f16)::multivec ELSE match_tokens(2, ntokens, 70)::multivec(70,bf16)::multivec END AS d) x,
	LATERAL maxsim_matches(q, d) m, LATERAL (SELECT DISTINCT ON (query_token) * FROM maxsim_similarities(q, d) ORDER BY query_token, similarity DESC, doc_token) s
WHERE m.query_token = s.query_token GROUP BY modifier, ntokens ORDER BY modifier, ntokens;
SELECT count(*), count(DISTINCT (query_token, doc_token)), max(abs(similarity - maxsim(multivec_slice(q, query_token, 1), multivec_slice(d, doc_token, 1)))) < 1e-5 AS same
FROM (SELECT match_tokens(1, 19, 70)::multivec AS q, match_tokens(2, 300, 70)::multivec AS d) x, LATERAL maxsim_similarities(q, d);
SELECT count(*) FROM maxsim_similarities('[[1,2]]', '[]'::multivec);
SELECT count(*) FROM maxsim_similarities('[[1,2]]', '{}'::real[]);
SELECT count(*) FROM maxsim_similarities(NULL, '[[1,2]]'::multivec);
SELECT error_of($$SELECT maxsim_similarities('[[1,2]]', '[[1,2,3]]'::multivec)$$), error_of($$SELECT maxsim_similarities('[]', '[[1,2,3]]'::multivec)$$),
	   error_of($$SELECT maxsim_similarities('[[1e30]]', '[[1e30]]'::multivec)$$), error_of($$SELECT maxsim_similarities('[[1]]', '{{1},{NULL}}'::real[])$$);
