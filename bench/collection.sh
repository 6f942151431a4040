# shellcheck shell=bash
#
# collection.sh
#	Loads a collection of documents, questions and judgements, a word vector a token,
#	into the database of the environment.
#
# Sourced, by test/cranfield.sh and ladder.sh.  A collection is a folder:
#
#	words.tsv.gz         word, its vector (numbers separated by commas)
#	docs_tokens.tsv.gz   document, its words
#	queries_tokens.tsv   question, its words, a weight a word
#	qrels.tsv            question, document, gain (what is absent is 0)

# Without -c, from standard input.
sql()
{
	psql -qXAt -v ON_ERROR_STOP=1 "$@"
}

# FOLDER: lines of token lists to lines of multivecs, the vector of each word, and an array of
# the weights where there is a third column.  Column 2 without words becomes [].
multivecs()
{
	awk -F '\t' '
		NR == FNR { vector[$1] = $2; next }
		{
			n = split($2, word, " ")
			printf "%s\t[", $1
			for (i = 1; i <= n; i++)
				printf "%s[%s]", (i > 1 ? "," : ""), vector[word[i]]
			printf "]"
			if (NF > 2)
				printf "\t{%s}", $3
			print ""
		}' <(gzip -dc "$1/words.tsv.gz") -
}

# FOLDER: tables docs, queries, words, questions and gains; postings, the BM25 of each
# word in each document (k1 1.2, b 0.75); ideal(query), the best DCG@10 there is.
collection_load()
{
	local data=$1 dim

	dim=$(gzip -dc "$data/words.tsv.gz" | awk -F '\t' 'NR == 1 { print split($2, x, ",") }')
	sql -v dim="$dim" <<-'SQL'
		CREATE EXTENSION flash_maxsim;
		CREATE TABLE docs (id integer PRIMARY KEY, emb multivec(:dim, f32));
		CREATE TABLE queries (id integer PRIMARY KEY, tokens multivec(:dim), weights double precision[]);
		CREATE TABLE words (doc integer, words text);
		CREATE TABLE questions (query integer, words text);
		CREATE TABLE gains (query integer, doc integer, gain integer);
	SQL
	gzip -dc "$data/docs_tokens.tsv.gz" | multivecs "$data" | sql -c '\copy docs FROM STDIN'
	multivecs "$data" <"$data/queries_tokens.tsv" | sql -c '\copy queries FROM STDIN'
	gzip -dc "$data/docs_tokens.tsv.gz" | sql -c '\copy words FROM STDIN'
	cut -f 1,2 "$data/queries_tokens.tsv" | sql -c '\copy questions FROM STDIN'
	sql -c '\copy gains FROM STDIN' <"$data/qrels.tsv"
	sql <<-'SQL'
		CREATE TABLE postings AS
			WITH terms AS (SELECT doc, word, count(*) AS tf FROM words, unnest(string_to_array(words, ' ')) word WHERE words <> '' GROUP BY doc, word),
				n AS (SELECT count(*) AS documents FROM docs)
			SELECT word, doc, (idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / average)))::double precision AS weight
			FROM terms
				JOIN (SELECT word, ln(1 + (documents - count(*) + 0.5) / (count(*) + 0.5)) AS idf FROM terms, n GROUP BY word, documents) i USING (word)
				JOIN (SELECT doc, sum(tf) AS length, sum(sum(tf)) OVER () / documents AS average FROM terms, n GROUP BY doc, documents) l USING (doc);
		CREATE INDEX ON postings (word);
		CREATE FUNCTION ideal(query integer) RETURNS double precision STABLE LANGUAGE sql AS $$
			SELECT sum(gain / log(2, rank + 1)) FROM (SELECT gain, row_number() OVER (ORDER BY gain DESC) AS rank FROM gains g WHERE g.query = $1) i WHERE rank <= 10 $$;
		ANALYZE;
	SQL
}
