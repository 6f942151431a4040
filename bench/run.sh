#!/bin/bash
#
# run.sh [--peers] [PART...]
#	Runs the benchmarks ("make bench") and writes bench/results/PART.txt.
#
#	engine     the CPU engines, without a server (bench/engine_bench.c)
#	sql        the SQL functions, in a throw-away PostgreSQL (bench/sql.sh)
#	two_stage  signs and small formats before f16, likewise (bench/two_stage.sh)
#	encode     encodings and pooling, likewise (bench/encode.sh)
#	peers      maxsim-cpu and numpy (bench/peers.py); needs Python and a download
#	pgvector   pgvector's SQL function (bench/pgvector.sh); where there is no
#	           pgvector, in a Debian of its own, which needs root and a download
#	casts      pgvector's arrays taken for multivecs, likewise
#	python     examples/python/load.py (bench/python.sh); needs psycopg and numpy
#
# Without parts: engine, sql, two_stage and encode; with --peers also peers and pgvector.  At the end it draws
# bench/results/chart.svg of what is there.  A result replaces the old one only
# if its part runs to the end.

TMPDIR=${TMPDIR:-/var/tmp} # gigabytes, and /tmp may be in memory or without devices
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
# shellcheck source=bench/bench.sh
. "$ROOT/bench/bench.sh"
# shellcheck source=bench/sql.sh
. "$ROOT/bench/sql.sh"
# shellcheck source=bench/two_stage.sh
. "$ROOT/bench/two_stage.sh"
# shellcheck source=bench/encode.sh
. "$ROOT/bench/encode.sh"
# shellcheck source=bench/pgvector.sh
. "$ROOT/bench/pgvector.sh"
# shellcheck source=bench/python.sh
. "$ROOT/bench/python.sh"

engine_run()
{
	need gcc gcc libc6-dev
	need make make
	quietly build.log tree_make -f test/engine.mk build/engine/bench
	as_user env -C "$WORK/tree" build/engine/bench
}

peers_run()
{
	need gcc gcc libc6-dev
	need make make
	python3 -c 'import ensurepip' 2>/dev/null || apt_install python3 python3-venv
	quietly pip.log as_user python3 -m venv "$WORK/venv"
	quietly pip.log as_user "$WORK/venv/bin/pip" install -q maxsim-cpu numpy threadpoolctl
	quietly build.log tree_make -f test/engine.mk build/engine/libengine.so
	as_user env -C "$WORK/tree" "$WORK/venv/bin/python" bench/peers.py
}

# PART COMMAND...: its output becomes the part's result.
part()
{
	local name=$1

	shift
	say "running: $name"
	"$@" >"$WORK/$name.txt"
	mkdir -p "$ROOT/bench/results"
	cat "$WORK/$name.txt"
	cp "$WORK/$name.txt" "$ROOT/bench/results/$name.txt"
}

parts=()
for argument; do
	case $argument in
		--peers) parts=(engine sql two_stage encode peers pgvector) ;;
		engine | sql | two_stage | encode | peers | pgvector | casts | python) parts+=("$argument") ;;
		*) die "no part \"$argument\": engine, sql, two_stage, encode, peers, pgvector, casts, python" ;;
	esac
done
[[ ${#parts[@]} -gt 0 ]] || parts=(engine sql two_stage encode)

work_make
server_ready=
for name in "${parts[@]}"; do
	case $name in
		sql | two_stage | encode | python)
			server_prepare
			part "$name" "${name}_run"
			;;
		pgvector | casts)
			if [[ -z $server_ready ]] && ! pgvector_here; then
				part "$name" pgvector_in_root "$name"
			else
				server_prepare
				part "$name" "${name}_run"
			fi
			;;
		*)
			tree_ready
			part "$name" "${name}_run"
			;;
	esac
done
bash "$ROOT/bench/chart.sh"
