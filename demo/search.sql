-- The searches that the demo compares, and how it prints what they find.  Included by
-- load.sql.  A rank counts from 1; k = NULL stands for all passages.

-- First stage: full text.  A question's words are joined by OR, since hardly any passage
-- holds all of them; longer passages do not win by their length.
CREATE FUNCTION demo.by_text(question_id integer, k integer DEFAULT NULL) RETURNS TABLE (id bigint, rank bigint)
	LANGUAGE sql STABLE
AS $$
	WITH wanted AS MATERIALIZED (
		SELECT replace(websearch_to_tsquery('english', question)::text, '&', '|')::tsquery AS words
		FROM demo.questions AS q WHERE q.id = question_id
	)
	SELECT p.id, row_number() OVER (ORDER BY ts_rank(tsv, words, 1) DESC, p.id) AS rank
	FROM demo.passages AS p, wanted WHERE tsv @@ words
	ORDER BY rank LIMIT k
$$;

-- First stage: one vector a passage.  maxsim() of two single vectors is their dot product.
CREATE FUNCTION demo.by_mean(question_id integer, k integer DEFAULT NULL) RETURNS TABLE (id bigint, rank bigint)
	LANGUAGE sql STABLE
AS $$
	SELECT p.id, row_number() OVER (ORDER BY maxsim(q.mean, p.mean) DESC, p.id) AS rank
	FROM demo.passages AS p, demo.questions AS q WHERE q.id = question_id
	ORDER BY rank LIMIT k
$$;

-- Second stage: exact MaxSim over the candidates of a first one.
CREATE FUNCTION demo.reranked(question_id integer, candidates bigint[], k integer DEFAULT NULL)
	RETURNS TABLE (id bigint, rank bigint, score real)
	LANGUAGE sql STABLE
AS $$
	SELECT doc_id, row_number() OVER (ORDER BY score DESC, doc_id), score
	FROM maxsim_rerank((SELECT embedding FROM demo.questions WHERE questions.id = question_id),
					   candidates, 'demo.passages(id, embedding)', k)
$$;

-- Where the best of the answers marked by hand came out.
CREATE FUNCTION demo.answer_rank(question_id integer, found bigint[]) RETURNS bigint
	LANGUAGE sql STABLE
AS $$
	SELECT min(rank)
	FROM unnest(found) WITH ORDINALITY AS result(id, rank), demo.questions AS q
	WHERE q.id = question_id AND result.id = ANY (q.answers)
$$;

-- What the score consists of: the word of the passage that each token of the question found.
-- The similarities add up to the score.
CREATE FUNCTION demo.matches(question_id integer, passage_id bigint)
	RETURNS TABLE (question_token integer, question_word text, word_number integer, word text, similarity real)
	LANGUAGE sql STABLE
AS $$
	SELECT q.token, lower(btrim((string_to_array(question.question, ' '))[q.word], '.,:;?()')),
		   p.word, lower(btrim((string_to_array(title || '. ' || body, ' '))[p.word], '.,:;?()')), m.similarity
	FROM demo.questions AS question, demo.passages AS passage,
		 maxsim_matches(question.embedding, passage.embedding) AS m
		 JOIN demo.question_words AS q ON q.question = question_id AND q.token = m.query_token
		 JOIN demo.passage_words AS p ON p.passage = passage_id AND p.token = m.doc_token
	WHERE question.id = question_id AND passage.id = passage_id
$$;

-- Breaks words into lines of at most width characters, each after an indent.
CREATE FUNCTION demo.wrapped(words text[], indent integer, width integer DEFAULT 90) RETURNS text
	LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
	lines text := '';
	line text := repeat(' ', indent - 1);
	word text;
BEGIN
	FOREACH word IN ARRAY words LOOP
		IF length(line) + 1 + length(word) > width THEN
			lines := lines || line || E'\n';
			line := repeat(' ', indent - 1);
		END IF;
		line := line || ' ' || word;
	END LOOP;
	RETURN lines || line;
END
$$;

-- A result as the demo prints it: the passage with **the words** marked that answered a word
-- of the question, and, in other words than the question's, which answered which.
CREATE FUNCTION demo.shown(question_id integer, passage_id bigint, rank bigint, score real) RETURNS text
	LANGUAGE sql STABLE
AS $$
	WITH match AS MATERIALIZED (
		SELECT * FROM demo.matches(question_id, passage_id)
		WHERE similarity >= 0.5 AND to_tsvector('english', question_word) <> ''		-- no stop word
	),
	marked AS (
		SELECT array_agg(CASE WHEN n IN (SELECT word_number FROM match)
							  THEN regexp_replace(word, '^(\W*)(.*?)(\W*)$', '\1**\2**\3') ELSE word END ORDER BY n) AS words
		FROM demo.passages AS p, unnest(string_to_array(title || '. ' || body, ' ')) WITH ORDINALITY AS w(word, n)
		WHERE p.id = passage_id
	),
	related AS (
		SELECT string_to_array(string_agg(pair, ', ' ORDER BY similarity DESC), ' ') AS words
		FROM (SELECT format('%s->%s %s', question_word, word, round(similarity::numeric, 2)) AS pair, max(similarity) AS similarity
			  FROM match WHERE question_word <> word GROUP BY question_word, word, round(similarity::numeric, 2)
			  ORDER BY 2 DESC LIMIT 4) AS best
	)
	SELECT format('  %s. %s%s', rank, round(score::numeric, 2),
				  CASE WHEN passage_id = ANY (answers) THEN '   <- the answer, as marked by hand' ELSE '' END)
		   || E'\n' || demo.wrapped(marked.words, 5)
		   || coalesce(E'\n' || demo.wrapped('{because}'::text[] || related.words, 5), '')
	FROM demo.questions AS q, marked, related WHERE q.id = question_id
$$;

-- One question through both stages, as lines to read.
CREATE FUNCTION demo.answered(question_id integer) RETURNS SETOF text
	LANGUAGE plpgsql STABLE
AS $$
DECLARE
	started timestamptz := clock_timestamp();
	by_text bigint[] := ARRAY(SELECT id FROM demo.by_text(question_id, 50) ORDER BY rank);
	text_done timestamptz := clock_timestamp();
	by_mean bigint[] := ARRAY(SELECT id FROM demo.by_mean(question_id, 50) ORDER BY rank);
	mean_done timestamptz := clock_timestamp();
	reranked bigint[] := ARRAY(SELECT id FROM demo.reranked(question_id, by_text || by_mean) ORDER BY rank);
	rerank_done timestamptz := clock_timestamp();
	stage record;
BEGIN
	RETURN QUERY SELECT format(E'\nQuestion %s: %s\n', id, question) FROM demo.questions WHERE id = question_id;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'there is no question %', question_id
			USING HINT = (SELECT format('Questions are numbered from %s to %s.', min(id), max(id)) FROM demo.questions);
	END IF;
	FOR stage IN
		VALUES ('full text', by_text, text_done - started),
			   ('mean vector', by_mean, mean_done - text_done),
			   ('both, then MaxSim', reranked, rerank_done - mean_done)
	LOOP
		RETURN NEXT format('  %s %s passages in %s ms; the answer %s', rpad(stage.column1, 17),
						   lpad(cardinality(stage.column2)::text, 3),
						   lpad(round(1000 * extract(epoch FROM stage.column3)::numeric, 1)::text, 4),
						   coalesce('is number ' || demo.answer_rank(question_id, stage.column2), 'is not among them'));
	END LOOP;
	RETURN NEXT '';
	RETURN QUERY SELECT demo.shown(question_id, id, rank, score)
				 FROM demo.reranked(question_id, by_text || by_mean, 3) ORDER BY rank;
END
$$;
