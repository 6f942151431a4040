-- Scores of documents in i8 and b1, by every function, and of signs with signs.
CREATE SCHEMA small_scores;
SET search_path = small_scores, public;
-- compiling expressions would take longer than all that they compute
SET jit = off;

-- The sum of maxima by its definition.
CREATE FUNCTION score_of(query real[], document real[]) RETURNS double precision LANGUAGE sql IMMUTABLE AS
$$
	SELECT sum(best) FROM (SELECT max(similarity) AS best
		FROM (SELECT i, j, sum(query[i][k]::float8 * document[j][k]) AS similarity
			FROM generate_subscripts(query, 1) i, generate_subscripts(document, 1) j, generate_subscripts(query, 2) k GROUP BY i, j) s GROUP BY i) b
$$;
-- the same of absolute values: what errors are measured by
CREATE FUNCTION absolute(numbers real[]) RETURNS real[] LANGUAGE sql IMMUTABLE AS
$$ SELECT array_agg(token ORDER BY t) FROM (SELECT t, array_agg(abs(numbers[t][k]) ORDER BY k) AS token FROM generate_subscripts(numbers, 1) t, generate_subscripts(numbers, 2) k GROUP BY t) s $$;
CREATE FUNCTION signs(numbers real[]) RETURNS real[] LANGUAGE sql IMMUTABLE AS
$$ SELECT array_agg(token ORDER BY t) FROM (SELECT t, array_agg(CASE WHEN numbers[t][k] > 0 THEN 1 ELSE -1 END::real ORDER BY k) AS token FROM generate_subscripts(numbers, 1) t, generate_subscripts(numbers, 2) k GROUP BY t) s $$;

SELECT maxsim('[[1,2],[3,-1]]', '[[1,1],[-1,1]]'::multivec(2, b1)) AS b1, maxsim('[[1,2],[3,-1]]', multivec_i8('{{1,1},{-1,1}}', '{1,2}')) AS i8,
	maxsim_hamming('[[1,2],[3,-1]]', '[[1,1],[-1,1]]'::multivec(2, b1)) AS signs, maxsim('[[1,2]]', '[]'::multivec(2, i8)) AS none, maxsim_hamming('[[1,2]]', '[]'::multivec(2, b1)) AS no_signs;

-- Small integers are exact: of any dimension and number of tokens, and queries in any format.
SELECT count(*), bool_and(maxsim(q, i8) = score_of(q, i8::real[])) AS i8, bool_and(maxsim(q, b1) = score_of(q, b1::real[])) AS b1,
	bool_and(maxsim_hamming(q, b1) = score_of(signs(q), b1::real[])) AS signs
FROM (SELECT dim, document(1, nquery, dim) AS q, multivec_i8(document(2, ndoc, dim)::integer[]) AS i8,
		multivec(ARRAY(SELECT (SELECT string_agg(CASE WHEN element(3, t, k) > 0 THEN '1' ELSE '0' END, '')::bit varying FROM generate_series(1, dim) k) FROM generate_series(1, ndoc) t)) AS b1
	FROM unnest(ARRAY[1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 130]) dim, unnest(ARRAY[1, 2, 4, 5, 9, 17, 33]) nquery, unnest(ARRAY[1, 2, 13]) ndoc) s;

-- Others: within a thousandth of the sum of absolute terms, and i8 in fact far less.
CREATE TABLE docs (id serial PRIMARY KEY, f multivec(96), i8 multivec(96, i8), b1 multivec(96, b1), mixed multivec(96));
CREATE TABLE queries (qid serial PRIMARY KEY, q multivec(96));
CREATE FUNCTION random_tokens(ntokens integer, dim integer) RETURNS real[] LANGUAGE sql VOLATILE AS
$$ SELECT array_agg(token) FROM (SELECT array_agg((random() - 0.5) * exp(6 * random() * (i / $2 % 2)))::real[] AS token FROM generate_series(0, $1 * $2 - 1) i GROUP BY i / $2) s $$;
INSERT INTO docs (f) SELECT random_tokens(1 + i * 7 % 60, 96) FROM generate_series(1, 200) i;
UPDATE docs SET i8 = f, b1 = f;
UPDATE docs SET mixed = CASE id % 5 WHEN 0 THEN f WHEN 1 THEN i8 WHEN 2 THEN b1 WHEN 3 THEN f::multivec(96, f16) ELSE f::multivec(96, bf16) END;
INSERT INTO docs (f, i8, b1, mixed) VALUES ('[]', '[]', '[]', '[]'), (NULL, NULL, NULL, NULL);
INSERT INTO queries (q) SELECT random_tokens(n, 96) FROM unnest(ARRAY[1, 3, 32, 45]) n;
SELECT count(*), bool_and(abs(maxsim(q, i8) - score_of(q::real[], i8::real[])) <= 3e-4 * score_of(absolute(q::real[]), absolute(i8::real[]))) AS i8,
	bool_and(abs(maxsim(q, b1) - score_of(q::real[], b1::real[])) <= 1e-3 * score_of(absolute(q::real[]), absolute(b1::real[]))) AS b1,
	bool_and(maxsim_hamming(q, b1) = score_of(signs(q::real[]), b1::real[])) AS signs
FROM queries, docs WHERE id <= 20;

-- Every function has the scores of maxsim(), in batches and without.
SELECT bool_and(maxsim_scores(q, ids, 'docs(id, i8)') = (SELECT array_agg(maxsim(q, i8) ORDER BY id) FROM docs)) AS i8,
	bool_and(maxsim_scores(q, ids, 'docs(id, b1)') = (SELECT array_agg(maxsim(q, b1) ORDER BY id) FROM docs)) AS b1,
	bool_and(maxsim_scores(q, ids, 'docs(id, mixed)') = (SELECT array_agg(maxsim(q, mixed) ORDER BY id) FROM docs)) AS mixed
FROM queries, (SELECT array_agg(id::bigint ORDER BY id) AS ids FROM docs) s;
CREATE FUNCTION both_ways(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	batched real[];
	plain real[];
	plan text := '';
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := plan || line;
	END LOOP;
	EXECUTE format('SELECT array_agg(score) || array_agg(id::real) FROM (%s) t', query) INTO batched;
	PERFORM set_config('flash_maxsim.enable_batch_scan', 'off', true);
	EXECUTE format('SELECT array_agg(score) || array_agg(id::real) FROM (%s) t', query) INTO plain;
	PERFORM set_config('flash_maxsim.enable_batch_scan', 'on', true);
	RETURN CASE WHEN plan NOT LIKE '%MaxSim%' THEN 'not batched'
		WHEN batched = plain OR (SELECT bool_and(agree(b, p, 1e-3)) FROM unnest(batched[:20], plain[:20]) u(b, p)) THEN 'same' ELSE 'different' END;
END $$;
ANALYZE docs;
SELECT score, both_ways(format('SELECT id, %1$s AS score FROM docs ORDER BY %1$s DESC, id LIMIT 20', score))
FROM unnest(ARRAY['maxsim((SELECT q FROM queries WHERE qid = 3), i8)', 'maxsim((SELECT q FROM queries WHERE qid = 2), b1)', 'maxsim((SELECT q FROM queries WHERE qid = 4), mixed)',
	'maxsim_mean((SELECT q FROM queries WHERE qid = 3), i8)', 'maxsim_hamming((SELECT q FROM queries WHERE qid = 3), b1)', 'maxsim_hamming((SELECT q FROM queries WHERE qid = 2), b1, ''{1,0,2}'')']) score;
SELECT qid, (SELECT array_agg(b.id::integer) FROM unnest(best) b) = ARRAY(SELECT id FROM docs ORDER BY maxsim(q, b1) DESC NULLS LAST, id LIMIT 5) AS topk
FROM queries, LATERAL (SELECT maxsim_topk(q, id, b1, 5) AS best FROM docs) t ORDER BY qid;
SELECT bool_and(abs(total - maxsim(q, i8)) <= 3e-4 * score_of(absolute(q::real[]), absolute(i8::real[]))) AS matches
FROM docs, queries, LATERAL (SELECT sum(similarity) AS total FROM maxsim_matches(q, i8)) m WHERE id <= 20 AND qid < 4;
SELECT maxsim('[[1,2],[3,4]]', multivec_i8('{{5,6},{7,8}}'), '{0.5,2}') AS weighted, maxsim_hamming('[[1,2],[3,-4]]', '[[5,6]]'::multivec(2, b1), '{3,1}') AS weighted_signs, maxsim_cosine('[[3,4]]', multivec_i8('{{30,40}}')) AS cosine;
-- cosines of signs: documents, queries, and both
SELECT maxsim_cosine('[[2,2,2,2]]', '[[1,1,1,1]]'::multivec(4, b1)) AS document, maxsim_cosine('[[1,1,-1,1]]'::multivec(4, b1), '[[2,2,2,2]]') AS query, maxsim_cosine('[[1,-1,1,1]]'::multivec(4, b1), '[[1,-1,1,1],[1,1,1,1]]'::multivec(4, b1)) AS both,
	maxsim_cosine('[[2,2,2,2]]', '[[1,1,1,1]]'::multivec(4, b1), '{3}') AS weighted;
SELECT bool_and(abs(maxsim_cosine(q, b1) - maxsim(multivec_normalize(q), b1) / sqrt(multivec_dim(b1))) <= 1e-3 * multivec_ntokens(q)) AS document,
	bool_and(abs(maxsim_cosine(b1, b1) - multivec_ntokens(b1)) <= 1e-3 * multivec_ntokens(b1)) AS both, count(*) > 20 AS some
FROM docs, queries WHERE multivec_ntokens(b1) > 0 AND multivec_ntokens(q) > 0 AND multivec_dim(q) = multivec_dim(b1);
SELECT flash_maxsim_rerank('[[1,2]]', multivec_i8('{{1,1},{2,2},{3,3}}', '{1,2,3}'), '{0,1,3}', 2) AS packed, flash_maxsim_rerank_direct('[[1,-1]]', '[[1,1],[-1,1],[1,-1]]'::multivec(2, b1), '{2,0}', '{1,2}', 2) AS scattered;

-- Two stages in one statement: signs choose of all, f16 decides among the best.
CREATE TABLE two_stage AS SELECT id, f::multivec(96, f16) AS f16, b1 FROM docs WHERE id <= 200;
SELECT bool_and(found) FROM (
	SELECT (SELECT count(*) FROM maxsim_rerank(q, ARRAY(SELECT id FROM two_stage ORDER BY maxsim_hamming(q, b1) DESC LIMIT 50), 'two_stage(id, f16)', 5)) = 5
		AND (SELECT array_agg(doc_id) FROM maxsim_rerank(q, ARRAY(SELECT id FROM two_stage ORDER BY maxsim_hamming(q, b1) DESC LIMIT 200), 'two_stage(id, f16)', 5))
			= ARRAY(SELECT id::bigint FROM two_stage ORDER BY maxsim(q, f16) DESC, id LIMIT 5) AS found FROM queries) s;

SELECT error_of(format('SELECT %s', call)) FROM unnest(ARRAY['maxsim_hamming(''[[1,2]]'', ''[[1,2]]'')', 'maxsim_hamming(''[[1,2]]'', ''[[1,2]]''::multivec(2, i8))', 'maxsim_hamming(''[[1,2,3]]'', ''[[1,2]]''::multivec(2, b1))',
	'maxsim_hamming(''[]'', ''[[1,2]]''::multivec(2, b1))', 'maxsim(''[[1,2,3]]'', ''[[1,2]]''::multivec(2, b1))', 'maxsim(''[[3e38]]'', multivec_i8(''{{127}}'', ''{1e36}''))',
	'count(*) FROM small_scores.docs WHERE maxsim_hamming(''[[1,2]]'', f) > 0']) call;
