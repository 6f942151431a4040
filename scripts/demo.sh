#!/bin/bash
#
# demo.sh
#	Shows what the extension does ("make demo"): builds it, starts a throw-away
#	PostgreSQL, loads demo/load.sql and runs demo/demo.sql.
#
# Leaves nothing behind but the packages that it had to install.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

demo_psql()
{
	as_user env -C "$WORK/tree" psql -X -q -v ON_ERROR_STOP=1 "$@"
}

work_make
extension_prepare with_llvm=no # no bitcode: it takes half of the time
say "starting a throw-away server"
cluster_start
quietly demo.log as_user createdb demo
export PGDATABASE=demo
say "loading the demo's documents"
quietly demo.log demo_psql -c 'CREATE EXTENSION flash_maxsim' -f demo/load.sql
say
demo_psql -f demo/demo.sql </dev/null 2>"$LOG/demo.err" || {
	cat "$LOG/demo.err" >&2
	tail -n 30 "$WORK/server.log" >&2
	die "demo/demo.sql failed"
}
