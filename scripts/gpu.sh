#!/bin/bash
#
# gpu.sh [DIRECTORY]
#	Builds, tests and measures everything that needs a GPU, on a machine that has one,
#	with nvcc and PostgreSQL (PG_CONFIG, and its programs on the PATH).  Results go to
#	DIRECTORY (build/gpu), one file each; the last line counts the tests.
#
# Installs the extension into that PostgreSQL and starts a throw-away server of its
# own, as the user PGRUN (postgres) where it is called by root.  ONLY="step ..."
# runs some of the steps: engine sanitize kernels regress sql.

set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-build/gpu}")
only=${ONLY:-engine sanitize kernels regress sql}
run_user=${PGRUN:-postgres}
port=5998
mkdir -p "$out"
work=$(mktemp -d)
chmod 755 "$work"
passed=0
failed=0

as_user()
{
	if [[ $(id -u) == 0 ]]; then
		setpriv --reuid="$run_user" --regid="$(id -g "$run_user")" --init-groups env HOME="$work" "$@"
	else
		"$@"
	fi
}

# shellcheck disable=SC2317 # called by trap
finish()
{
	as_user pg_ctl -D "$work/data" -m immediate stop >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap finish EXIT

# NAME COMMAND...: runs a step; its output is kept, and the time it took shown.
step()
{
	local name=$1 start=$SECONDS status=0

	shift
	[[ " $only " == *" $name "* ]] || return 0
	"$@" >"$out/$name.txt" 2>&1 || status=$?
	if [[ $status == 0 ]]; then
		passed=$((passed + 1))
		echo "$name: ok, $((SECONDS - start)) s"
	else
		failed=$((failed + 1))
		echo "$name: FAILED, $((SECONDS - start)) s"
		tail -n 40 "$out/$name.txt"
	fi
}

server_start()
{
	[[ $(id -u) != 0 ]] || chown "$run_user" "$work"
	as_user initdb -D "$work/data" -U postgres -A trust --no-locale -E UTF8 >/dev/null
	cat >>"$work/data/postgresql.conf" <<-EOF
		listen_addresses = ''
		unix_socket_directories = '$work'
		port = $port
		shared_buffers = 8GB
		max_wal_size = 16GB
		max_connections = 200
		fsync = off
		jit = off
		shared_preload_libraries = 'flash_maxsim'
		flash_maxsim.slots = ${SLOTS:-96}
	EOF
	as_user pg_ctl -D "$work/data" -l "$work/server.log" -w start >/dev/null
	export PGHOST=$work PGPORT=$port PGUSER=postgres PGDATABASE=postgres
	for _ in $(seq 100); do
		grep -q 'scorer.*is ready' "$work/server.log" && break
		sleep 0.2
	done
	grep 'flash_maxsim scorer' "$work/server.log"
}

regress()
{
	PGOPTIONS='-c flash_maxsim.engine=cuda' make installcheck TAP_TESTS= PG_CONFIG="$PG_CONFIG" with_llvm=no
}

# ENGINE SCRIPT CLIENTS SECONDS: transactions a second and milliseconds each.
bench()
{
	PGOPTIONS="-c flash_maxsim.engine=$1" pgbench -n -M prepared -f "$2" -c "$3" -j "$3" -T "$4" |
		awk '/latency average/ {ms = $4} /^tps/ {tps = $3} END {print tps, ms}'
}

sql_data()
{
	psql -qX -v ON_ERROR_STOP=1 <<-'EOF'
		CREATE EXTENSION IF NOT EXISTS flash_maxsim;
		CREATE CAST (multivec AS bytea) WITHOUT FUNCTION;
		CREATE TABLE docs (id bigint PRIMARY KEY, e multivec(128, f16));
		CREATE TABLE query (e multivec(128));
	EOF
	"$work/make_data" 1 2000 300 128 f16 | psql -qXc 'COPY docs FROM STDIN (FORMAT binary)'
	"$work/make_data" 2 1 32 128 f32 | psql -qXc 'CREATE TABLE q (id bigint, e multivec(128))' -c 'COPY q FROM STDIN (FORMAT binary)' \
		-c 'INSERT INTO query SELECT e FROM q'
	psql -qXc 'VACUUM ANALYZE docs' -c 'SELECT sum(get_byte(e::bytea, 100)) FROM docs' >/dev/null
}

# Reranks against plain detoasting of the same rows, in turns, and with connections.
sql()
{
	local ids='ARRAY(SELECT generate_series(1, 1000))' round engine clients

	sql_data
	echo "SELECT count(*), sum(score) FROM maxsim_rerank((SELECT e FROM query), $ids, 'docs(id, e)');" >"$work/rerank.sql"
	echo "SELECT sum(get_byte(e::bytea, 100)) FROM docs WHERE id = ANY ($ids);" >"$work/detoast.sql"
	echo "# 1,000 candidates of 300 x 128 f16, 32 query tokens: per second, ms each"
	for round in 1 2 3; do
		echo "detoast $round $(bench cpu "$work/detoast.sql" 1 5)"
		for engine in cpu cuda auto; do
			echo "rerank $engine $round $(bench "$engine" "$work/rerank.sql" 1 5)"
		done
	done
	for clients in 1 4 16 32; do
		echo "connections detoast $clients $(bench cpu "$work/detoast.sql" "$clients" 5)"
		echo "connections cpu $clients $(bench cpu "$work/rerank.sql" "$clients" 5)"
		bench cuda "$work/rerank.sql" "$clients" 6 >"$work/tps" &
		sleep 3
		nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
		nvidia-smi --query-gpu=memory.used --format=csv,noheader
		wait
		echo "connections cuda $clients $(cat "$work/tps")"
	done
	psql -Xxc 'SELECT * FROM maxsim_scorer()' -c 'SELECT * FROM maxsim_engines()'
	psql -qX <<-'EOF'
		SET flash_maxsim.engine = cpu;
		CREATE TEMP TABLE a AS SELECT * FROM maxsim_rerank((SELECT e FROM query), ARRAY(SELECT generate_series(1, 2000)), 'docs(id, e)');
		SET flash_maxsim.engine = cuda;
		CREATE TEMP TABLE b AS SELECT * FROM maxsim_rerank((SELECT e FROM query), ARRAY(SELECT generate_series(1, 2000)), 'docs(id, e)');
		SELECT count(*) AS documents, max(abs(a.score - b.score) / abs(a.score)) AS largest_relative_difference FROM a JOIN b USING (doc_id);
	EOF
	echo "# scores of few candidates, ms each: cpu, cuda"
	for n in 1 3 10 30 100; do
		echo "SELECT sum(score) FROM maxsim_rerank((SELECT e FROM query), ARRAY(SELECT generate_series(1, $n)), 'docs(id, e)');" >"$work/few.sql"
		echo "few $n $(bench cpu "$work/few.sql" 1 2) $(bench cuda "$work/few.sql" 1 2)"
	done
}

kernels()
{
	make -f cuda/cuda.mk cuda-bench
}

jobs=$(nproc)
make -j"$jobs" -f cuda/cuda.mk cuda programs >"$out/build.txt" 2>&1 || { tail -n 40 "$out/build.txt"; exit 1; }
make -j"$jobs" CUDA=yes PG_CONFIG="$PG_CONFIG" with_llvm=no install >>"$out/build.txt" 2>&1 || { tail -n 40 "$out/build.txt"; exit 1; }
cc -O2 -Isrc -o "$work/make_data" bench/make_data.c -lm
echo "build: $SECONDS s"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/machine.txt"

step engine make -f cuda/cuda.mk cuda-check
step sanitize make -f cuda/cuda.mk check-sanitize
step kernels kernels
server_start
step regress regress
[[ ! -f regression.diffs ]] || cp regression.diffs "$out/"
step sql sql
cp "$work/server.log" "$out/"
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
