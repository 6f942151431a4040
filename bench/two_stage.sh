# shellcheck shell=bash
#
# two_stage.sh
#	The best 10 of a table by MaxSim: of f16, of the small formats, of signs, and in two
#	stages, by signs first and f16 then.  What each takes, and how many of the best 10 by
#	f16 it finds.
#
# Sourced by run.sh.  Documents have something in common, as in life (make_data with
# centres): between random ones there is nothing to find.  The queries are documents of the
# same kind that are not in the table.

STAGE_DOCUMENTS=20000
STAGE_QUERIES=20
STAGE_TOKENS=32
STAGE_DIM=96
STAGE_CENTRES=256
STAGE_CANDIDATES=200

# QUERY: the ways, NAME STATEMENT a line, for the query with that id.
stage_ways()
{
	local query="(SELECT e FROM clustered_queries q WHERE q.id = $1)"

	cat <<-END
		f16 SELECT id FROM clustered ORDER BY maxsim($query, e) DESC LIMIT 10
		i8 SELECT id FROM clustered ORDER BY maxsim($query, i8) DESC LIMIT 10
		b1 SELECT id FROM clustered ORDER BY maxsim($query, b1) DESC LIMIT 10
		signs SELECT id FROM clustered ORDER BY maxsim_hamming($query, b1) DESC LIMIT 10
		two_stages SELECT doc_id AS id FROM maxsim_rerank($query, ARRAY(SELECT id FROM clustered ORDER BY maxsim_hamming($query, b1) DESC LIMIT $STAGE_CANDIDATES), 'clustered(id, e)', 10)
	END
}

# STATEMENT: the share of the best 10 by f16 that a statement finds, for queries "asked".
stage_found()
{
	run_sql -c "SELECT count(*) / (10.0 * $STAGE_QUERIES) FROM clustered_queries asked, LATERAL ($1) found
		WHERE (asked.id, found.id) IN (SELECT query, id FROM clustered_best)"
}

stage_tables()
{
	table_make clustered "multivec($STAGE_DIM, f16)" 10 $((STAGE_DOCUMENTS + STAGE_QUERIES)) "$STAGE_TOKENS" "$STAGE_DIM" f16 "$STAGE_CENTRES"
	run_sql -c "CREATE TABLE clustered_queries AS SELECT id - $STAGE_DOCUMENTS AS id, e FROM clustered WHERE id > $STAGE_DOCUMENTS" \
		-c "DELETE FROM clustered WHERE id > $STAGE_DOCUMENTS" \
		-c "ALTER TABLE clustered ADD i8 multivec($STAGE_DIM, i8) GENERATED ALWAYS AS (e::multivec($STAGE_DIM, i8)) STORED,
			ADD b1 multivec($STAGE_DIM, b1) GENERATED ALWAYS AS (e::multivec($STAGE_DIM, b1)) STORED" \
		-c 'VACUUM ANALYZE clustered' -c 'ANALYZE clustered_queries'
	run_sql -c "CREATE TABLE clustered_best AS SELECT asked.id AS query, best.id FROM clustered_queries asked,
		LATERAL ($(stage_ways asked.id | sed -n 's/^f16 //p')) best"
}

# The ways in turn, for each query in each round, in one session: "NAME MILLISECONDS" of the
# processor, and how many times that is in f16's.
stage_times()
{
	local round query name statement

	for ((round = 0; round < ROUNDS; round++)); do
		for ((query = 1; query <= STAGE_QUERIES; query++)); do
			while read -r name statement; do
				printf "SELECT processor_ms() AS started, '%s' AS name \\gset\nSELECT count(*) AS n FROM (%s) best \\gset\n" "$name" "$statement"
				echo "SELECT :'name', processor_ms() - :started;"
			done < <(stage_ways "$query")
		done
	done >"$WORK/two_stage.sql"
	PGOPTIONS='-c session_preload_libraries=flash_maxsim -c max_parallel_workers_per_gather=0' run_sql -F ' ' <"$WORK/two_stage.sql" |
		awk '{ if ($1 == "f16") f16 = $2; print; print $1 "_ratio", f16 / $2 }'
}

two_stage_run()
{
	local log=$WORK/two_stage shape=${STAGE_TOKENS}x${STAGE_TOKENS}x$STAGE_DIM benchmark=best_10_of_$STAGE_DOCUMENTS name statement ms

	run_sql <"$ROOT/bench/processor_ms.sql"
	stage_tables
	head_print 'bench/run.sh two_stage' 'times are those of the processor' \
		"documents: $STAGE_DOCUMENTS, each of $STAGE_TOKENS tokens around 4 of $STAGE_CENTRES random centres (make_data.c)" \
		"queries: $STAGE_QUERIES such documents; two_stages: the best $STAGE_CANDIDATES by signs, then f16"
	stage_times >"$log"
	while read -r name statement; do
		ms=$(median_of "$name" <"$log")
		result "$benchmark" - "$name" "$shape" all "$(awk -v ms="$ms" -v n="$STAGE_DOCUMENTS" 'BEGIN { print ms * 1000 / n }')"
		result_value "$benchmark" - "$name" "$shape" milliseconds "$(printf '%.1f' "$ms")"
		result_value "$benchmark" - "$name" "$shape" times_as_fast "$(median_of "${name}_ratio" <"$log" | xargs printf '%.2f')"
		result_value "$benchmark" - "$name" "$shape" found "$(stage_found "$statement" | xargs printf '%.3f')"
	done < <(stage_ways asked.id)
}
