#!/bin/bash
#
# ladder.sh [--short] FOLDER
#	Ways to find documents, from full text to exact MaxSim, on one collection (see
#	collection.sh): what each finds, what it stores and how long it takes.
#
# Prints lines of columns separated by tabs; HEAD below names them, and README.md here
# explains them.  --short takes fewer ways, for a test.  Uses the cluster of the
# environment (PGHOST, PGPORT, …), in a database of its own.
#
# A way is a statement that returns ids, the best first, of $1 the query's token
# vectors, $2 the question's words, $3 how many, $4 the words' weights.  All ways run in
# turn for each question, so that a slow moment of the machine hits all of them.

# shellcheck disable=SC2016 # PostgreSQL's own dollars
set -euo pipefail
bench=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=bench/collection.sh
. "$bench/collection.sh"

# What is stored of the tokens; a format that the server does not know is left out.
formats=(f32 f16 bf16 i8 b1)
# k_sim, projection and repetitions of encodings
encodings=('3, 4, 16' '4, 8, 8' '4, 8, 15' '5, 8, 15' '4, 8, 31' '4, 8, 62' '5, 8, 62')
pools=(2 3 4)
short=
if [[ $1 == --short ]]; then
	short=yes
	formats=(f32 f16 i8 b1)
	encodings=('4, 8, 31')
	pools=(2)
	shift
fi
data=$1
HEAD=$'# way\tndcg10\treranked_ndcg10\trecall100\trecall1000\tfound100\tfound1000\tbytes\tms\treranked_ms'

database=ladder_$$
psql -qXd postgres -c "CREATE DATABASE $database"
trap 'psql -qXd postgres -c "DROP DATABASE $database"' EXIT
# one process, and plans in which maxsim() is scored in batches from the first on
export PGDATABASE=$database PGOPTIONS='-c client_min_messages=warning -c jit=off -c max_parallel_workers_per_gather=0 -c session_preload_libraries=flash_maxsim'

collection_load "$data"
sql -f "$bench/processor_ms.sql"
dim=$(sql -c 'SELECT multivec_dim(tokens) FROM queries LIMIT 1')
sql <<-'SQL'
	CREATE TABLE ways (way integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, label text, bytes double precision, statement text);
	INSERT INTO ways (label, bytes, statement) VALUES
		('full text: BM25 in SQL', pg_total_relation_size('postings') / (SELECT count(*) FROM docs),
		 $$ SELECT doc FROM unnest(string_to_array($2, ' ')) word JOIN postings USING (word) GROUP BY doc ORDER BY sum(weight) DESC, doc LIMIT $3 $$);
SQL

[[ -n $short ]] || sql <<-'SQL'
	CREATE TABLE texts AS SELECT doc, to_tsvector('english', words) AS tsv FROM words;
	CREATE INDEX ON texts USING gin (tsv);
	ANALYZE texts;
	INSERT INTO ways (label, bytes, statement)
		SELECT 'full text: ' || rank, (SELECT avg(pg_column_size(tsv)) FROM texts), format(
			$$ SELECT doc FROM texts, CAST(replace(plainto_tsquery('english', $2)::text, '&', '|') AS tsquery) q
			WHERE tsv @@ q ORDER BY %s(tsv, q%s) DESC, doc LIMIT $3 $$, rank, options)
		FROM (VALUES ('ts_rank', ', 1'), ('ts_rank_cd', '')) r(rank, options);
SQL

# LABEL TYPE DOCUMENT QUERY [WEIGHTS [FUNCTION]]: a way by maxsim(), or another function: what is
# stored of emb and of which type, what it is compared with, and by which weights.
way()
{
	local table=way_$((++ways))

	sql -c "CREATE TABLE $table (id integer PRIMARY KEY, emb $2)" -c "INSERT INTO $table SELECT id, $3 FROM docs ORDER BY id" -c "ANALYZE $table" \
		-c "INSERT INTO ways (label, bytes, statement) SELECT '$1', avg(pg_column_size(emb)),
			'SELECT id FROM $table ORDER BY ${6:-maxsim}($4, emb${5:+, $5}) DESC NULLS LAST, id LIMIT \$3' FROM $table"
}

ways=0
way 'mean vector' "multivec($dim, f32)" 'ARRAY[multivec_mean(emb, true)]' 'ARRAY[multivec_mean($1, true)]'
for encoding in "${encodings[@]}"; do
	IFS=', ' read -r k_sim projection repetitions <<<"$encoding"
	numbers=$((repetitions * projection << k_sim))
	way "FDE of $numbers ($encoding)" "multivec($numbers, f16)" \
		"ARRAY[maxsim_fde_document(emb, $encoding)]" "ARRAY[maxsim_fde_query(\$1, $encoding)]"
done
for pool in "${pools[@]}"; do
	way "MaxSim f16, pooled by $pool" "multivec($dim, f16)" "multivec_normalize(multivec_pool(emb, $pool))" '$1'
done
for format in "${formats[@]}"; do
	if [[ $format == f32 ]]; then
		way 'exact MaxSim, plain' "multivec($dim, f32)" emb '$1'
		[[ -n $short ]] || way 'exact MaxSim, weighted' "multivec($dim, f32)" emb '$1' '$4'
	elif sql -c "SELECT NULL::multivec($dim, $format)" >/dev/null 2>&1; then
		way "MaxSim $format" "multivec($dim, $format)" emb '$1'
		[[ $format != b1 ]] || way 'signs with signs' "multivec($dim, b1)" emb '$1' '' maxsim_hamming
	fi
done
way 'MaxSim b1, rotated' "multivec($dim, b1)" 'multivec_rotate(emb)' 'multivec_rotate($1)'
way 'signs with signs, rotated' "multivec($dim, b1)" 'multivec_rotate(emb)' 'multivec_rotate($1)' '' maxsim_hamming

sql <<-'SQL' >/dev/null
	VACUUM ANALYZE;
	CREATE TABLE answers (way integer, query integer, docs bigint[], ms double precision, reranked bigint[], reranked_ms double precision);

	-- the best 1,000 of each way, and the best 10 of its best 100 by MaxSim, as two statements
	DO $$
	DECLARE
		question record;
		one record;
		docs bigint[];
		reranked bigint[];
		started double precision;
		answered double precision;
		finished double precision;
	BEGIN
		FOR question IN SELECT * FROM queries JOIN questions ON query = id ORDER BY id LOOP
			FOR one IN SELECT * FROM ways ORDER BY way LOOP
				started := processor_ms();
				EXECUTE format('SELECT ARRAY(%s)', one.statement) INTO docs USING question.tokens, question.words, 1000, question.weights;
				answered := processor_ms();
				reranked := NULL;
				IF one.label NOT LIKE 'exact%' THEN
					EXECUTE format('SELECT ARRAY(SELECT doc_id FROM maxsim_rerank($1, ARRAY(%s), ''docs(id, emb)'', 10))', one.statement)
						INTO reranked USING question.tokens, question.words, 100, question.weights;
				END IF;
				finished := processor_ms();
				INSERT INTO answers VALUES (one.way, question.id, docs, answered - started,
											reranked, CASE WHEN reranked IS NOT NULL THEN finished - answered END);
			END LOOP;
		END LOOP;
	END $$;
	ANALYZE answers;

	CREATE VIEW places AS SELECT way, query, doc, rank FROM answers, unnest(docs) WITH ORDINALITY AS d(doc, rank);
	CREATE TABLE exact AS SELECT query, doc FROM places JOIN ways USING (way) WHERE label = 'exact MaxSim, plain' AND rank <= 100;
	ANALYZE exact;
SQL
sql -c "SELECT format('# collection: %s documents, %s tokens of %s dimensions, %s questions', count(*), sum(multivec_ntokens(emb)), $dim,
	(SELECT count(*) FROM queries)) FROM docs"
printf '%s\n' "$HEAD"
sql -F $'\t' -P null=- <<-'SQL'
	WITH
	found AS (SELECT way, (count(*) FILTER (WHERE rank <= 100))::double precision / (SELECT count(*) FROM exact) AS in100,
		count(*)::double precision / (SELECT count(*) FROM exact) AS in1000 FROM places JOIN exact USING (query, doc) GROUP BY way),
	relevant AS (SELECT query, count(*) AS n FROM gains WHERE gain > 0 GROUP BY query),
	judged AS (SELECT way, query, coalesce(sum(gain / log(2, rank + 1)) FILTER (WHERE rank <= 10), 0) AS dcg,
		count(*) FILTER (WHERE rank <= 100) AS in100, count(*) AS in1000 FROM places JOIN gains USING (query, doc) WHERE gain > 0 GROUP BY way, query),
	again AS (SELECT way, answers.query, sum(gain / log(2, rank + 1)) AS dcg
		FROM answers, unnest(reranked) WITH ORDINALITY AS d(doc, rank) JOIN gains USING (doc) WHERE gains.query = answers.query AND gain > 0 GROUP BY way, answers.query),
	timed AS (SELECT way, percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS ms,
		percentile_cont(0.5) WITHIN GROUP (ORDER BY reranked_ms) AS reranked_ms FROM answers GROUP BY way)
	SELECT label, round(avg(coalesce(j.dcg, 0) / ideal(r.query))::numeric, 4),
		CASE WHEN min(reranked_ms) IS NOT NULL THEN round(avg(coalesce(a.dcg, 0) / ideal(r.query))::numeric, 4) END,
		round(avg(coalesce(j.in100, 0)::double precision / n)::numeric, 4), round(avg(coalesce(j.in1000, 0)::double precision / n)::numeric, 4),
		round(min(f.in100)::numeric, 4), round(min(f.in1000)::numeric, 4), round(min(bytes)), round(min(ms)::numeric, 2), round(min(reranked_ms)::numeric, 2)
	FROM ways JOIN timed USING (way) JOIN found f USING (way) CROSS JOIN relevant r
		LEFT JOIN judged j USING (way, query) LEFT JOIN again a USING (way, query)
	GROUP BY way, label ORDER BY way;
SQL
