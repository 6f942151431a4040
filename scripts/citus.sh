#!/bin/bash
#
# citus.sh [DATABASE]
#	Compares a table that Citus distributes with a plain one of the same rows: every
#	result must be the same, and scores must be computed by the workers.
#
# Connects as PGHOST, PGPORT, PGUSER and so on say, to the coordinator, as a role that may
# create schemas and extensions in DATABASE (PGDATABASE, or postgres).  Needs Citus
# and flash_maxsim there, and flash_maxsim installed on every worker; where one is missing
# it says so and skips.  All that it makes is in the schema flash_maxsim_citus, which it
# drops at its end.  The last line is the total.

set -euo pipefail
export PGDATABASE=${1:-${PGDATABASE:-postgres}}
export PGOPTIONS="${PGOPTIONS:-} -c client_min_messages=warning"
schema=flash_maxsim_citus
passed=0
failed=0

sql()
{
	psql -XAtq -v ON_ERROR_STOP=1 -c "SET search_path = $schema, public" "$@"
}

skip()
{
	echo "skipped: $*"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

verdict()
{
	if [[ $2 == yes ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $1"
	fi
}

# NAME STATEMENT: it says DOCS where the one table or the other is meant.
same()
{
	local distributed plain

	distributed=$(sql -c "${2//DOCS/docs}" 2>&1) || true
	plain=$(sql -c "${2//DOCS/docs_plain}" 2>&1)
	if [[ $distributed == "$plain" ]]; then
		verdict "$1" yes
	else
		verdict "$1" no
		diff <(echo "$plain") <(echo "$distributed") | head -n 20
	fi
}

# NAME STATEMENT PATTERN: what its plan shows of the tasks of the workers.
plan()
{
	local shown

	shown=$(sql -c 'SET citus.explain_all_tasks = on' -c "EXPLAIN (VERBOSE, COSTS OFF) ${2//DOCS/docs}" 2>&1) || true
	if grep -qE "$3" <<<"$shown"; then
		verdict "$1" yes
	else
		verdict "$1" no
		head -n 40 <<<"$shown"
	fi
}

command -v psql >/dev/null || skip "psql is not in the PATH"
psql -XAtqc 'SELECT 1' >/dev/null 2>&1 || skip "found no server: set PGHOST, PGPORT, PGUSER to a Citus coordinator's"
[[ $(psql -XAtqc "SELECT count(*) FROM pg_extension WHERE extname = 'citus'") == 1 ]] ||
	skip "Citus is not installed in database $PGDATABASE (CREATE EXTENSION citus, and add its workers)"
[[ $(psql -XAtqc "SELECT count(*) FROM pg_available_extensions WHERE name = 'flash_maxsim'") == 1 ]] ||
	skip "flash_maxsim is not installed on the coordinator: make install, there and on every worker"
[[ $(psql -XAtqc "SELECT count(*) FROM pg_namespace WHERE nspname = '$schema'") == 0 ]] ||
	skip "the schema $schema is there already: drop it if it is of an earlier run"

psql -Xqc 'CREATE EXTENSION IF NOT EXISTS flash_maxsim' || skip "could not create the extension on all servers"
trap 'psql -Xqc "DROP SCHEMA IF EXISTS $schema CASCADE"' EXIT
psql -Xqc "CREATE SCHEMA $schema"
sql -f - >/dev/null <<-'END'
	CREATE TABLE docs_plain (id bigint PRIMARY KEY, body text, embedding multivec(16, f16));
	INSERT INTO docs_plain
		SELECT i, 'document ' || i, array_agg(ARRAY(SELECT (((i * 7919 + t * 104729 + k * 1299709 + (i + 3) * (t + 5) * (k + 7)) % 151 + 151) % 151 - 75) / 77.0
													FROM generate_series(1, 16) k))::multivec
		FROM generate_series(1, 2000) i, generate_series(1, CASE WHEN i % 100 = 3 THEN 150 ELSE 2 + i % 9 END) t GROUP BY i;
	UPDATE docs_plain SET embedding = NULL WHERE id % 100 = 50;
	CREATE TABLE docs (LIKE docs_plain INCLUDING ALL);
	SELECT create_distributed_table('docs', 'id');
	INSERT INTO docs SELECT * FROM docs_plain;
	ANALYZE docs, docs_plain;
END

query="'[[0.5,-0.25,0,1,0,0,0.125,0,0,0,-1,0,0,0.75,0,0],[0,0,1,0,-0.5,0,0,0,0.25,0,0,0,0,0,0,1]]'::multivec"
ids="ARRAY(SELECT generate_series(7, 2100, 11))::bigint[]"
some=$(psql -XAtqc "SELECT quote_literal($ids) || '::bigint[]'")

same "the documents" "SELECT id, md5(multivec_send(embedding)), multivec_format(embedding) FROM DOCS ORDER BY id"
same "every score" "SELECT id, maxsim($query, embedding) FROM DOCS ORDER BY id"
same "ORDER BY maxsim LIMIT" "SELECT id, maxsim($query, embedding) AS score FROM DOCS ORDER BY score DESC NULLS LAST, id LIMIT 10"
same "of ids" "SELECT id, maxsim($query, embedding) AS score FROM DOCS WHERE id = ANY($some) ORDER BY score DESC NULLS LAST, id LIMIT 10"
same "a condition on the score" "SELECT id FROM DOCS WHERE maxsim($query, embedding) > 3 ORDER BY id"
same "aggregates" "SELECT max(maxsim($query, embedding)), min(maxsim($query, embedding)), count(maxsim($query, embedding)) FROM DOCS"
same "maxsim_topk" "SELECT id::bigint, score FROM unnest((SELECT maxsim_topk($query, id, embedding, 10) FROM DOCS))"
same "an array as a query" "SELECT max(maxsim(($query)::real[], embedding)) FROM DOCS"
same "maxsim_rerank" "SELECT * FROM maxsim_rerank($query, $some, '$schema.DOCS(id, embedding)', 20)"
same "maxsim_rerank of few" "SELECT * FROM maxsim_rerank($query, '{5,7,1999}', '$schema.DOCS(id, embedding)')"
same "maxsim_rerank of all" "SELECT * FROM maxsim_rerank($query, ARRAY(SELECT generate_series(1, 2000)), '$schema.DOCS(id, embedding)', 20)"
same "maxsim_scores" "SELECT maxsim_scores($query, '{5,305,5000,605,5}', '$schema.DOCS(id, embedding)')"
plan "the workers order and limit" "SELECT id, maxsim($query, embedding) AS score FROM DOCS ORDER BY score DESC NULLS LAST, id LIMIT 10" 'Query: SELECT .*maxsim.* ORDER BY .* LIMIT'
plan "the workers aggregate" "SELECT max(maxsim($query, embedding)) FROM DOCS" 'Query: SELECT .*max\(.*maxsim'

echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
