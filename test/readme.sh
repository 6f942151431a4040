#!/bin/bash
#
# readme.sh [pgvector]
#	Runs what README.md shows, in the order in which it stands there: each sql block
#	in one psql session, whose output must be the text block that follows it, if one
#	does; then the python blocks as one program.  Blocks with "…" are not complete.
#	Those marked "sql pgvector" run on their own, when they are asked for.
#
# Uses the cluster of the environment (PGHOST, PGPORT, …), in a database of its own.

set -euo pipefail
cd "$(dirname "$0")/.."
kind=sql${1:+.$1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each block becomes a file: NN.sql, and NN.text where the next block is its output.
awk -v work="$work" '
	/^```/ {
		if (kind != "") { kind = ""; close(file); next }
		kind = substr($0, 4)
		if (kind != "text") n++
		sub(/ /, ".", kind)
		file = sprintf("%s/%02d.%s", work, n, kind)
		next
	}
	kind != "" { print > file }' README.md
grep -l '…' "$work"/* | xargs rm -f

passed=0
failed=0
database=readme_$$
psql -qXd postgres -c "CREATE DATABASE $database"
export PGDATABASE=$database

verdict()
{
	if [[ $2 == 0 ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $1"
	fi
}

for sql in "$work"/*."$kind"; do
	name=$(basename "$sql" ".$kind")
	status=0
	PGOPTIONS='-c client_min_messages=warning' psql -X -v ON_ERROR_STOP=1 -f "$sql" >"$work/$name.out" 2>&1 || status=1
	if [[ -f $work/$name.text ]]; then
		# command tags and the empty line after a table are no part of what is shown
		sed -E '/^(INSERT|UPDATE|DELETE|CREATE|ALTER|SET)( [A-Z0-9 ]+)?$/d; $ { /^$/d }' "$work/$name.out" >"$work/$name.shown"
		diff "$work/$name.text" "$work/$name.shown" || status=1
	elif [[ $status != 0 ]]; then
		cat "$work/$name.out"
	fi
	verdict "$(head -1 "$sql")" "$status"
done

python_blocks()
{
	local python status=0

	# the system's Python has what apt installed, another one may come first
	for python in python3 /usr/bin/python3; do
		! "$python" -c 'import psycopg, numpy' 2>/dev/null || break
		python=
	done
	if [[ -z $python ]]; then
		echo "the Python blocks need psycopg 3 and numpy: skipped"
		skipped=", 1 skipped"
		return
	fi
	{
		echo 'import numpy as np'
		echo 'ids, arrays = range(100, 105), [np.full((3, 4), i, dtype="f4") for i in range(5)]'
		cat "$work"/*.python
		cat <<-'EOF'
			assert rows[0] == (10, 2.0), rows
			assert array.dtype == np.float16 and array.tolist() == tokens.tolist(), array
			assert listed == 1.0, listed
			assert conn.execute("SELECT embedding::text FROM docs WHERE id = 11").fetchone()[0] == "[[1,0,0,0],[0,1,0,0]]"
			assert conn.execute("SELECT embedding::text FROM docs WHERE id = 12").fetchone()[0] == "[[1,0,0,0],[0,0,1,0]]"
			loaded = conn.execute("SELECT id, multivec_ntokens(embedding), multivec_format(embedding), embedding::real[] FROM docs WHERE id >= 100 ORDER BY id").fetchall()
			assert loaded == [(100 + i, 3, "f16", [[i] * 4] * 3) for i in range(5)], loaded
		EOF
	} >"$work/readme.py"
	PYTHONPATH=examples/python PYTHONDONTWRITEBYTECODE=1 "$python" "$work/readme.py" || status=1
	verdict "the Python blocks" "$status"
}

skipped=
[[ $kind != sql ]] || python_blocks
psql -qXd postgres -c "DROP DATABASE $database"
echo "$passed passed, $failed failed$skipped"
[[ $failed == 0 ]]
