#!/bin/bash
#
# plans.sh [load|drop]
#	What plain SQL reaches whose maxsim() is scored in batches: against calls row by row,
#	against maxsim_rerank, and with a parallel worker.  Prints tables of medians.
#
# Runs on a server that is there (PGHOST and so on say which), has preloaded flash_maxsim
# and has nothing else to do, as a superuser; bench/README.md says with which settings.
# Documents that are in a cache cannot be fetched: so there is a run on a server without a
# cache, and one with.  "load" makes the tables, 1.8 GB in the schema "plans", which stay
# until "drop".  ROUNDS (7) says how often each statement is measured.

set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
rounds=${ROUNDS:-7}
docs=20000
many=200000
export PGOPTIONS="${PGOPTIONS:-} -c search_path=plans,public"

sql()
{
	psql -X -q -v ON_ERROR_STOP=1 "$@"
}

# A value.
ask()
{
	sql -A -t -c "$1"
}

# SQL that makes ways, each a row of ways' columns from "name" on.
ways()
{
	sql -c "INSERT INTO ways (part, name, kind, engine, place, workers, statements, ndocuments, paired)
		SELECT '$1', * FROM (VALUES $2) v"
}

# TABLE SEED DOCUMENTS
table_make()
{
	sql -c "CREATE UNLOGGED TABLE $1 (id bigint, e multivec(96, f16)) WITH (parallel_workers = 1)"
	"$work/make_data" "$2" "$3" 32 96 f16 | sql -c "COPY $1 FROM STDIN (FORMAT binary)"
	sql -c "ALTER TABLE $1 ADD PRIMARY KEY (id)" -c "VACUUM (ANALYZE, FREEZE) $1"
}

# The documents, unless they are there.
tables_make()
{
	[[ $(ask "SELECT to_regclass('plans.complete') IS NULL") == t ]] || return 0
	sql -c 'SET client_min_messages = warning' -c 'DROP SCHEMA IF EXISTS plans CASCADE' \
		-c 'CREATE EXTENSION IF NOT EXISTS flash_maxsim' -c 'CREATE SCHEMA plans'
	cc -O2 -I"$root/src" -o "$work/make_data" "$root/bench/make_data.c" -lm
	table_make docs 1 "$docs"
	table_make many 2 "$many"
	sql -c 'CREATE UNLOGGED TABLE query (id bigint, e multivec(96))'
	"$work/make_data" 99 1 32 96 f32 | sql -c 'COPY query FROM STDIN (FORMAT binary)'
	sql -f "$root/bench/plans.sql" -c 'CREATE TABLE complete ()'
}

# What finding rows costs by itself is a way, too: "rows alone".
half_ways()
{
	local alone="ARRAY['SELECT count(e) FROM docs WHERE id % 2 = 0']"
	local best="ARRAY['SELECT id, maxsim(\$1, e) FROM docs WHERE id % 2 = 0 ORDER BY 2 DESC LIMIT 10']"

	ways half "('calls row by row', 'rows', 'cpu', 'table', 0, $best, $docs / 2, false),
		('node', 'node', 'cpu', 'table', 0, $best, $docs / 2, false),
		('node', 'node', 'cpu', 'host', 0, $best, $docs / 2, false),
		('node', 'node', 'cuda', 'table', 0, $best, $docs / 2, false),
		('node', 'node', 'cuda', 'gpu', 0, $best, $docs / 2, false),
		('rows alone', 'rows', 'cpu', 'table', 0, $alone, $docs / 2, false)"
}

any_ways()
{
	local alone="ARRAY['SELECT count(e) FROM docs WHERE id = ANY (\$2)']"
	local best="ARRAY['SELECT id, maxsim(\$1, e) FROM docs WHERE id = ANY (\$2) ORDER BY 2 DESC LIMIT 10']"
	local rerank="ARRAY['SELECT * FROM maxsim_rerank(\$1, \$2, ''docs(id, e)'', 10)']"
	local where

	for where in cpu.table cpu.host cuda.table cuda.gpu; do
		ways "any.$where" "('maxsim_rerank', 'rerank', '${where%.*}', '${where#*.}', 0, $rerank, 1000, false),
			('ORDER BY maxsim', 'node', '${where%.*}', '${where#*.}', 0, $best, 1000, false)"
	done
	ways any.rows "('rows alone', 'rows', 'cpu', 'table', 0, $alone, 1000, false)"
}

# TABLE DOCUMENTS: with a worker; and in two connections, which is as fast as the machine
# lets two processes be.  Halves are those of the table's pages, read without a filter.
two_ways()
{
	local middle best halves

	middle=$(ask "SELECT pg_relation_size('$1') / current_setting('block_size')::integer / 2")
	best="SELECT id, maxsim(\$1, e) FROM $1 ORDER BY 2 DESC LIMIT 10"
	halves="ARRAY['SELECT id, maxsim(\$1, e) FROM $1 WHERE ctid < ''($middle,0)'' ORDER BY 2 DESC LIMIT 10',
		'SELECT id, maxsim(\$1, e) FROM $1 WHERE ctid >= ''($middle,0)'' ORDER BY 2 DESC LIMIT 10']"
	ways "$1" "('no worker', 'node', 'cpu', 'table', 0, ARRAY['$best'], $2, false),
		('one worker', 'node', 'cpu', 'table', 1, ARRAY['$best'], $2, false),
		('halves, one connection', 'node', 'cpu', 'table', 0, $halves, $2, false),
		('halves, two connections', 'node', 'cpu', 'table', 0, $halves, $2, true)"
}

# TITLE PART...: what was measured, as one table.
report()
{
	local part parts=() query

	for part in "${@:2}"; do
		[[ $(ask "SELECT EXISTS (SELECT FROM ways WHERE part = '$part')") == f ]] || parts+=("SELECT * FROM report('$part')")
	done
	[[ ${#parts[@]} -gt 0 ]] || return 0
	echo
	echo "# $1"
	query=$(printf ' UNION ALL %s' "${parts[@]}")
	sql -P footer=off -c "${query# UNION ALL }"
}

# PART: measures it; with a second connection where there is a way for one.
measure()
{
	local second status=0

	if [[ $(ask "SELECT EXISTS (SELECT FROM ways WHERE part = '$1' AND paired)") == f ]]; then
		sql -o /dev/null -c "SELECT measure('$1', $rounds)"
		return
	fi
	sql -o /dev/null -c "SELECT second_connection('$1', $rounds)" &
	second=$!
	sql -o /dev/null -c "SELECT measure('$1', $rounds)" || status=1
	# it ends by itself when this one has failed
	wait "$second" && return "$status"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ ${1:-} == drop ]]; then
	sql -c 'SET client_min_messages = warning' -c 'DROP SCHEMA IF EXISTS plans CASCADE'
	exit
fi
[[ $(ask 'SHOW shared_preload_libraries') == *flash_maxsim* ]] || { echo 'flash_maxsim is not in shared_preload_libraries' >&2; exit 1; }
tables_make
[[ ${1:-} != load ]] || exit 0

# all documents, in their order: so they lie in the server's buffers when it was just started
sql -o /dev/null -c 'SET max_parallel_workers_per_gather = 0' -c 'SELECT max(maxsim(query(), e)) FROM docs' -c 'SELECT max(maxsim(query(), e)) FROM many'
sql -c 'TRUNCATE ways, times'
half_ways
any_ways
two_ways docs "$docs"
two_ways many "$many"
has_host=$(ask "SELECT EXISTS (SELECT FROM maxsim_cache_tiers() WHERE tier = 'host')")
has_device=$(ask "SELECT EXISTS (SELECT FROM maxsim_cache_tiers() WHERE tier <> 'host')")
has_gpu=$(ask "SELECT EXISTS (SELECT FROM maxsim_engines() WHERE engine = 'cuda' AND available)")
sql -o /dev/null -c "SELECT leave_out('$has_gpu', '$has_host', '$has_device')"
[[ $has_host == f ]] || sql -o /dev/null -c "SELECT maxsim_prewarm('docs(id, e)', tier => 'host')"
[[ $has_device == f ]] || sql -o /dev/null -c "SELECT maxsim_prewarm('docs(id, e)', tier => 'gpu')"

echo "# $(ask 'SELECT version()')"
echo "# $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sed -n 1p), $(nproc) cores, shared_buffers = $(ask 'SHOW shared_buffers')," \
	"$(awk '/^HugePages_(Total|Free)/ { n[$1] = $2 } END { print n["HugePages_Total:"] - n["HugePages_Free:"] }' /proc/meminfo) huge pages in use"
for part in $(ask 'SELECT part FROM ways WHERE missing IS NULL GROUP BY part ORDER BY min(n)'); do
	measure "$part"
done
report "the best 10 of every second one of $docs documents of 32 x 96 f16, 32 query tokens; medians of $rounds" half
report '1,000 random ids: the best 10' any.cpu.table any.cpu.host any.cuda.table any.cuda.gpu any.rows
report "the best 10 of all $docs, and what two connections reach that have a half each" docs
report "the best 10 of all $many" many
