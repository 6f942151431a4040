#!/bin/bash
#
# postgres16.sh
#	Runs the tests that need a server on PostgreSQL 16, which no Debian release has.
#
# The Python package pgserver bundles a whole one, headers and PGXS included, for
# 64-bit x86; nothing of Python itself is used.  It lacks the TAP modules and
# pgvector.  Exits with 75 where the package cannot be had.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

work_make
need pip3 python3-pip
need unzip unzip
if ! pip3 download -q --no-deps --only-binary :all: --python-version 3.11 --platform manylinux2014_x86_64 \
	-d "$WORK" pgserver==0.1.4 >"$LOG/pip.log" 2>&1 </dev/null || [[ $(uname -m) != x86_64 ]]; then
	tail -n 3 "$LOG/pip.log"
	say "skipped: no PostgreSQL 16 to be had"
	exit 75
fi
quietly unzip.log unzip -q "$WORK"/pgserver-*.whl -d "$WORK/pgserver"
install=$WORK/pgserver/pgserver/pginstall
chmod -R a+rX "$WORK/pgserver"
chmod a+x "$install"/bin/* "$install/lib/postgresql/pgxs/src/test/regress/pg_regress"

export PG_CONFIG=$install/bin/pg_config LD_LIBRARY_PATH=$WORK/pgserver/pgserver.libs
"$ROOT/scripts/check.sh" --server
