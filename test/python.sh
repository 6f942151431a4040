#!/bin/bash
#
# python.sh
#	Runs the tests of test/python: the Python examples against a server.
#
# Uses the cluster of the environment (PGHOST, PGPORT, …), in a database of its own,
# and PYTHON, where that is set.  Skips what needs a package that is not there.

set -euo pipefail
cd "$(dirname "$0")/.."

# the system's Python has what apt installed, another one may come first
for python in ${PYTHON:-python3 /usr/bin/python3}; do
	! "$python" -c 'import psycopg, numpy' 2>/dev/null || break
	python=
done
if [[ -z $python ]]; then
	echo "skipped: the Python examples need psycopg 3 and numpy"
	echo "0 passed, 0 failed, 1 skipped"
	exit
fi

database=python_$$
psql -qXd postgres -c "CREATE DATABASE $database"
trap 'psql -qXd postgres -c "DROP DATABASE $database"' EXIT
PGDATABASE=$database PYTHONPATH=examples/python PYTHONDONTWRITEBYTECODE=1 "$python" test/python/run.py
