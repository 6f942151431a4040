-- Load the demo: psql -f demo/load.sql, from the root of the repository, after
-- CREATE EXTENSION flash_maxsim.  \copy expands no variables, so the paths below are
-- relative to that folder.  Everything lands in the schema demo; loading again replaces it.
\set ON_ERROR_STOP on
\set QUIET on

SET client_min_messages = warning;
DROP SCHEMA IF EXISTS demo CASCADE;
CREATE SCHEMA demo;
RESET client_min_messages;

CREATE TABLE demo.passages (
	id bigint PRIMARY KEY,
	title text NOT NULL,
	body text NOT NULL,
	tsv tsvector GENERATED ALWAYS AS (to_tsvector('english', title || '. ' || body)) STORED,
	embedding multivec(96, f16),
	mean multivec(96, f16)
);
COMMENT ON COLUMN demo.passages.embedding IS 'one vector a word piece of title || ''. '' || body';
COMMENT ON COLUMN demo.passages.mean IS 'mean of those vectors, of unit length: a single vector, as ordinary vector search has';

CREATE TABLE demo.questions (
	id integer PRIMARY KEY,
	question text NOT NULL,
	answers bigint[] NOT NULL,
	embedding multivec(96),
	mean multivec(96)
);
COMMENT ON COLUMN demo.questions.answers IS 'passages that answer the question, marked by hand';

-- Which word a token of an embedding belongs to, to show what matched.  A word is
-- what lies between single blanks, counted from 1.
CREATE TABLE demo.passage_words (
	passage bigint,
	token integer,
	word integer NOT NULL,
	piece text NOT NULL,
	PRIMARY KEY (passage, token)
);
CREATE TABLE demo.question_words (
	question integer,
	token integer,
	word integer NOT NULL,
	piece text NOT NULL,
	PRIMARY KEY (question, token)
);

-- A byte holds 128 plus an element, on a scale of the token's own: the vectors have
-- unit length, which gives the scale back.
CREATE FUNCTION demo.unit_vector(base64 text) RETURNS real[]
	LANGUAGE plpgsql IMMUTABLE STRICT
AS $$
DECLARE
	bytes bytea := decode(base64, 'base64');
	elements integer[] := ARRAY(SELECT get_byte(bytes, i) - 128 FROM generate_series(0, length(bytes) - 1) AS i);
	norm double precision := (SELECT sqrt(sum(x * x)) FROM unnest(elements) AS x);
BEGIN
	RETURN ARRAY(SELECT x / norm FROM unnest(elements) AS x);
END
$$;

-- [tokens][96] -> [1][96]
CREATE FUNCTION demo.mean_vector(tokens real[]) RETURNS real[]
	LANGUAGE sql IMMUTABLE STRICT
AS $$
	WITH total AS (
		SELECT j, sum(tokens[i][j]::double precision) AS x
		FROM generate_subscripts(tokens, 1) AS i, generate_subscripts(tokens, 2) AS j
		GROUP BY j
	)
	SELECT ARRAY[array_agg((x / norm)::real ORDER BY j)]
	FROM total, (SELECT sqrt(sum(x * x)) AS norm FROM total) AS length
$$;

\ir search.sql

BEGIN;
CREATE TEMPORARY TABLE passage_tokens (passage bigint, token integer, word integer, piece text, vector text) ON COMMIT DROP;
CREATE TEMPORARY TABLE question_tokens (question integer, token integer, word integer, piece text, vector text) ON COMMIT DROP;
CREATE TEMPORARY TABLE asked (id integer, question text, answers text) ON COMMIT DROP;

\copy demo.passages (id, title, body) FROM 'demo/passages.tsv'
\copy asked FROM 'demo/questions.tsv'
\copy passage_tokens FROM 'demo/passage_tokens.tsv'
\copy question_tokens FROM 'demo/question_tokens.tsv'

INSERT INTO demo.passage_words SELECT passage, token, word, piece FROM passage_tokens;
INSERT INTO demo.question_words SELECT question, token, word, piece FROM question_tokens;
INSERT INTO demo.questions (id, question, answers)
	SELECT id, question, string_to_array(answers, ',')::bigint[] FROM asked;

UPDATE demo.passages
SET embedding = tokens, mean = demo.mean_vector(tokens)
FROM (SELECT passage, array_agg(demo.unit_vector(vector) ORDER BY token) AS tokens
	  FROM passage_tokens GROUP BY passage) AS encoded
WHERE id = passage;

UPDATE demo.questions
SET embedding = tokens, mean = demo.mean_vector(tokens)
FROM (SELECT question, array_agg(demo.unit_vector(vector) ORDER BY token) AS tokens
	  FROM question_tokens GROUP BY question) AS encoded
WHERE id = encoded.question;
COMMIT;

VACUUM ANALYZE demo.passages;
VACUUM ANALYZE demo.questions;
VACUUM ANALYZE demo.passage_words;
VACUUM ANALYZE demo.question_words;

SELECT format('%s passages, %s token vectors of %s dimensions (%s as f16), %s questions',
			  count(*), sum(multivec_ntokens(embedding)), min(multivec_dim(embedding)),
			  pg_size_pretty(sum(pg_column_size(embedding))), (SELECT count(*) FROM demo.questions)) AS loaded
FROM demo.passages
\gset
\echo :loaded
