-- The demo: psql -f demo/demo.sql, after demo/load.sql.  Three questions with their best
-- passages, the best title for each of all twenty, and how often each way of searching
-- answers them.  search.sql holds the statements behind it.
\set ON_ERROR_STOP on
\set QUIET on
\pset tuples_only on
\pset format unaligned
\pset pager off

SELECT format(E'%s passages of about %s words, a vector for each but function words.\nScored on %s.',
			  count(*), round(avg(cardinality(string_to_array(body, ' ')))),
			  (SELECT engine || ' (' || device || ')' FROM maxsim_engines() WHERE active LIMIT 1))
FROM demo.passages;

\echo
\echo 'Candidates come from full text (50) and from one vector a passage (50).  Then'
\echo
\echo '    SELECT * FROM maxsim_rerank(query, candidate_ids, ''demo.passages(id, embedding)'', 3);'
\echo
\echo 'puts the best first.  **Stars** mark the words that answered a word of the question.'

SELECT demo.answered(9);
SELECT demo.answered(14);
SELECT demo.answered(20);

\echo
\echo 'All questions, and the best of all passages by its title:'
\echo
SELECT format(E'%s. %s\n       %s  %s%s', lpad(q.id::text, 4), question, round(score::numeric, 2), title,
			  CASE WHEN best.id = ANY (answers) THEN '   <- the answer' ELSE '' END)
FROM demo.questions AS q, demo.reranked(q.id, ARRAY(SELECT id FROM demo.passages), 1) AS best
	 JOIN demo.passages AS p ON p.id = best.id
ORDER BY q.id;

-- Every way of searching over every question.
CREATE TEMPORARY TABLE found AS
SELECT q.id AS question, way.*
FROM demo.questions AS q,
	 LATERAL (SELECT ARRAY(SELECT id FROM demo.by_text(q.id) ORDER BY rank) AS by_text,
					 ARRAY(SELECT id FROM demo.by_mean(q.id) ORDER BY rank) AS by_mean) AS stage_one,
	 LATERAL (VALUES
		(1, 'full text', by_text),
		(2, 'mean vector', by_mean),
		(3, 'full text (50), then MaxSim', ARRAY(SELECT id FROM demo.reranked(q.id, by_text[:50]) ORDER BY rank)),
		(4, 'mean vector (50), then MaxSim', ARRAY(SELECT id FROM demo.reranked(q.id, by_mean[:50]) ORDER BY rank)),
		(5, 'both (at most 100), then MaxSim', ARRAY(SELECT id FROM demo.reranked(q.id, by_text[:50] || by_mean[:50]) ORDER BY rank)),
		(6, 'MaxSim over all passages', ARRAY(SELECT id FROM demo.reranked(q.id, ARRAY(SELECT id FROM demo.passages)) ORDER BY rank))
	 ) AS way(line, name, ids);

\echo
SELECT format('Of %s questions, an answer is found               at rank 1   in the top 3', count(*)) FROM demo.questions;
SELECT format('  %s %s %s', rpad(name, 44),
			  lpad(count(*) FILTER (WHERE rank = 1)::text, 9),
			  lpad(count(*) FILTER (WHERE rank <= 3)::text, 12))
FROM found, demo.answer_rank(question, ids) AS rank
GROUP BY line, name
ORDER BY line;

\echo
SELECT demo.wrapped(string_to_array('MaxSim over all passages leaves the answer below rank 1 for question '
		   || string_agg(format('%s (rank %s)', question, rank), ', ' ORDER BY question) || '.', ' '), 2)
FROM found, demo.answer_rank(question, ids) AS rank
WHERE line = 6 AND rank > 1;
