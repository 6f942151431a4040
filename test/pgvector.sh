#!/bin/bash
#
# pgvector.sh
#	What needs pgvector: the regression tests of test/pgvector, the ordinary ones once
#	more in a database with the casts, what README.md shows, and a dump and its restore.
#
# Skips where the server has no pgvector, or one older than 0.7.  Uses the cluster of the environment (PGHOST,
# PGPORT, …) and the server of PG_CONFIG, in databases of its own.

set -euo pipefail
cd "$(dirname "$0")/.."
if [[ $(psql -qXAtd postgres -c "SELECT count(*) FROM pg_available_extensions
		WHERE name = 'vector' AND string_to_array(default_version, '.')::integer[] >= '{0,7}'") == 0 ]]; then
	echo "skipped: this PostgreSQL has no pgvector of version 0.7 or newer"
	echo "0 passed, 0 failed, 1 skipped"
	exit
fi

passed=0
failed=0
work=$(mktemp -d)
database=pgvector_$$
trap 'rm -rf "$work"; for n in "" _2; do psql -qXd postgres -c "DROP DATABASE IF EXISTS $database$n"; done' EXIT

# COUNTS: "N passed, N failed" of a part.
add()
{
	local n m

	read -r n m < <(sed -E 's/[^0-9]+/ /g' <<<"$1")
	passed=$((passed + n))
	failed=$((failed + m))
}

# The files of test/pgvector first, one of which creates the extension.  Of the others all
# but what lists the casts, and what takes long.
regress()
{
	local files=(setup) file log=$work/regress.log status=0

	mkdir "$work/sql" "$work/expected"
	cp test/sql/*.sql test/pgvector/sql/*.sql "$work/sql"
	cp test/expected/*.out test/pgvector/expected/*.out "$work/expected"
	for file in test/pgvector/sql/*.sql test/sql/*.sql; do
		file=$(basename "$file" .sql)
		[[ $file == setup || $file == multivec_casts || $file == large ]] || files+=("$file")
	done
	make -s --no-print-directory installcheck TAP_TESTS= REGRESS="${files[*]}" \
		REGRESS_OPTS="--inputdir=$work --dbname=$database" >"$log" 2>&1 || status=1
	cat "$log"
	[[ $status == 0 ]] || cat regression.diffs || true
	add "$(grep -cE '^(test | +).*\.\.\. +ok( |$)|^ok [0-9]+ +[-+] ' "$log" || true) $(grep -cE '^(test | +).*\.\.\. +FAILED|^not ok [0-9]+ +[-+] ' "$log" || true)"
}

# All that a session sees of the tables of database $1.
contents()
{
	psql -qXAtd "$1" -v ON_ERROR_STOP=1 <<-'SQL'
		SELECT id, v, h, multivec_send(embedding), mean, multivec_format(arrays) FROM docs ORDER BY id;
		SELECT * FROM maxsim_rerank('[[1,2,3]]', '{1,2}', 'docs(id, v)');
		SELECT id, maxsim('[[1,2,3]]', v) FROM docs ORDER BY mean <=> '[1,2,3]';
		SELECT * FROM hits;
		SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'docs'::regclass ORDER BY 1;
	SQL
}

dump_and_restore()
{
	psql -qXd postgres -c "DROP DATABASE IF EXISTS $database" -c "CREATE DATABASE $database" -c "CREATE DATABASE ${database}_2"
	PGOPTIONS='-c client_min_messages=warning' psql -qXd "$database" -v ON_ERROR_STOP=1 <<-'SQL'
		CREATE EXTENSION flash_maxsim_pgvector CASCADE;
		CREATE TABLE docs (id bigint PRIMARY KEY, v vector(3)[], h halfvec[] CHECK (multivec_dim(h) = 3),
			embedding multivec(3, f16) GENERATED ALWAYS AS (v) STORED, mean vector(3) GENERATED ALWAYS AS (multivec_mean(v)) STORED,
			arrays multivec(3, f16) DEFAULT '{"[1,2,3]"}'::halfvec[]);
		INSERT INTO docs VALUES (1, '{"[1,2,3]","[4,5,6]"}', '{"[0.1,2,3]"}'), (2, '{"[7,8,9.5]"}', NULL);
		CREATE INDEX ON docs USING hnsw (mean vector_cosine_ops);
		CREATE INDEX ON docs (maxsim('[[1,2,3]]', v));
		CREATE VIEW hits AS SELECT id, maxsim(h, v) AS score FROM docs ORDER BY maxsim(h, v) DESC;
	SQL
	contents "$database" >"$work/before"
	pg_dump "$database" >"$work/dump"
	psql -qXd "${database}_2" -v ON_ERROR_STOP=1 -f "$work/dump" >/dev/null
	contents "${database}_2" >"$work/after"
	diff "$work/before" "$work/after" && [[ $(wc -l <"$work/after") == 11 ]]
}

regress
test/readme.sh pgvector >"$work/readme.log" || true
cat "$work/readme.log"
add "$(tail -n 1 "$work/readme.log")"
if dump_and_restore; then
	add '1 0'
else
	echo "FAILED: dump and restore"
	add '0 1'
fi
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
