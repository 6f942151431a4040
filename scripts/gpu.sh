#!/bin/bash
#
# gpu.sh [DIRECTORY]
#	Builds, tests and measures everything that needs a GPU, on a machine that has one,
#	with nvcc and PostgreSQL (PG_CONFIG, and its programs on the PATH).  Results go to
#	DIRECTORY (build/gpu), one file each; the last line counts the tests.
#
# Installs the extension into that PostgreSQL and starts a throw-away server of its
# own, as the user PGRUN (postgres) where it is called by root.  ONLY="step ..."
# runs some of the steps: engine sanitize kernels regress sql cache plans devices.

set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-build/gpu}")
only=${ONLY:-engine sanitize kernels regress sql cache plans devices}
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
		work_mem = 256MB
		include_if_exists = 'again.conf'
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

# ENGINE SCRIPT CLIENTS SECONDS: transactions a second, median and 99th percentile in ms.
bench()
{
	rm -f "$work"/pgbench.*
	PGOPTIONS="-c flash_maxsim.engine=$1" pgbench -n -M prepared -f "$2" -c "$3" -j "$3" -T "$4" -l --log-prefix="$work/pgbench" |
		awk '/^tps/ {printf "%.1f ", $3}'
	cat "$work"/pgbench.* | awk '{print $3}' | sort -n |
		awk '{a[NR] = $1} END {printf "%.3f %.3f\n", a[int((NR + 1) / 2)] / 1000, a[int(NR * 0.99) + (NR < 100)] / 1000}'
}

# TABLE DIMENSION TOKENS N: N documents by as many writers as there are cores.
load()
{
	local part share=$(($4 / jobs))

	psql -qXc "CREATE TABLE $1 (id bigint PRIMARY KEY, e multivec($2, f16))"
	for ((part = 0; part < jobs; part++)); do
		("$work/make_data" $((part + 1)) "$share" "$3" "$2" f16 |
			psql -qX -c "CREATE UNLOGGED TABLE $1_$part (id bigint, e multivec)" -c "COPY $1_$part FROM STDIN (FORMAT binary)" &&
			psql -qX -c "INSERT INTO $1 SELECT id + $part * $share, e FROM $1_$part" -c "DROP TABLE $1_$part") &
	done
	wait
	"$work/make_data" 99 1 32 "$2" f32 | psql -qX -c "CREATE TABLE $1_query (id bigint, e multivec($2))" \
		-c "COPY $1_query FROM STDIN (FORMAT binary)"
	psql -qXc "VACUUM ANALYZE $1" -c "SELECT sum(get_byte(e::bytea, 100)) FROM $1" >/dev/null
}

# ids to be reranked: sets of 1,000 and of 100, at random
sql_data()
{
	psql -qX -v ON_ERROR_STOP=1 -c 'CREATE EXTENSION IF NOT EXISTS flash_maxsim' -c 'CREATE CAST (multivec AS bytea) WITHOUT FUNCTION'
	load docs 128 300 $((jobs * 1250))
	psql -qX -c "CREATE TABLE sets AS SELECT k, array_agg((random() * ($jobs * 1250 - 1) + 1)::bigint) AS ids
		FROM generate_series(1, 200) k, generate_series(1, 1000) GROUP BY k" -c 'CREATE INDEX ON sets(k)' -c 'VACUUM ANALYZE sets'
	for n in 1000 100 30 10 3 1; do
		printf '\\set k random(1, 200)\n%s\n' "SELECT count(*), sum(score) FROM maxsim_rerank((SELECT e FROM docs_query),
			(SELECT ids[1:$n] FROM sets WHERE k = :k), 'docs(id, e)');" | tr '\n' ' ' | sed 's/200) /200)\n/' >"$work/rerank$n.sql"
	done
	printf '\\set k random(1, 200)\n%s\n' 'SELECT sum(get_byte(e::bytea, 100)) FROM docs WHERE id = ANY ((SELECT ids FROM sets WHERE k = :k)::bigint[]);' >"$work/detoast.sql"
	printf '\\set k random(1, 200)\n%s\n' 'SELECT count(e) FROM docs WHERE id = ANY ((SELECT ids FROM sets WHERE k = :k)::bigint[]);' >"$work/lookup.sql"
	for i in $(seq 0 15); do
		echo "SELECT count(*), sum(score) FROM maxsim_rerank((SELECT e FROM docs_query), ARRAY(SELECT generate_series($i * 1000 + 1, $i * 1000 + 1000)), 'docs(id, e)');"
	done >"$work/cold.sql"
}

# Reranks of documents that were never seen: median ms of 1,000 documents each.
cold()
{
	PGOPTIONS="-c flash_maxsim.engine=cuda" psql -XAt -c '\timing on' -f "$work/cold.sql" |
		awk '/^Time/ {print $2}' | sort -n | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'
}

# SETTING...: the server again, with these, documents in its buffers and the scorer ready.
again()
{
	printf '%s\n' "$@" >"$work/data/again.conf"
	chmod 644 "$work/data/again.conf"
	as_user pg_ctl -D "$work/data" -l "$work/server.log" -w -m fast restart >/dev/null
	for _ in $(seq 100); do
		[[ $(psql -qXAtc 'SELECT state FROM maxsim_scorer()') != ready ]] || break
		sleep 0.2
	done
	[[ -z $(psql -qXAtc "SELECT to_regclass('docs')") ]] || psql -qXc 'SELECT sum(get_byte(e::bytea, 100)) FROM docs' >/dev/null
}

# The largest relative difference between the GPU's scores and the CPU's.
compare()
{
	psql -qX <<-'EOF'
		SET flash_maxsim.enable_batch_scan = off;
		CREATE TEMP TABLE a AS SELECT id AS doc_id, maxsim((SELECT e FROM docs_query), e) AS score FROM docs;
		SET flash_maxsim.engine = cuda;
		CREATE TEMP TABLE b AS SELECT * FROM maxsim_rerank((SELECT e FROM docs_query), ARRAY(SELECT id FROM docs), 'docs(id, e)');
		SELECT count(*) AS documents, max(abs(a.score - b.score) / abs(a.score)) AS largest_relative_difference FROM a JOIN b USING (doc_id);
	EOF
}

# Reranks with nothing cached, beside plain detoasting of the same rows.
sql()
{
	local round engine clients n

	sql_data
	again 'flash_maxsim.gpu_cache_size = off'
	echo "# no cache; 1,000 candidates of 300 x 128 f16, 32 query tokens: per second, median ms, 99th percentile"
	for round in 1 2 3; do
		echo "detoast $round $(bench cpu "$work/detoast.sql" 1 3)"
		for engine in cpu cuda; do
			echo "rerank $engine $round $(bench "$engine" "$work/rerank1000.sql" 1 3)"
		done
	done
	for clients in 1 16 32; do
		bench cuda "$work/rerank1000.sql" "$clients" 4 >"$work/tps" &
		sleep 2
		nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
		wait
		echo "connections cuda $clients $(cat "$work/tps")"
	done
	echo "# few candidates: cpu, then cuda"
	for n in 1 3 10 30 100; do
		echo "few $n $(bench cpu "$work/rerank$n.sql" 1 1) $(bench cuda "$work/rerank$n.sql" 1 1)"
	done
	compare
	psql -Xxc 'SELECT * FROM maxsim_scorer()'
}

# Reranks of resident documents, and what the cache costs where it does not help.
cache()
{
	local round clients n

	for round in 1 2 3; do
		again 'flash_maxsim.gpu_cache_size = off'
		echo "never seen, cache off $(cold)"
		again 'flash_maxsim.gpu_cache_size = 20GB'
		echo "never seen, cache on $(cold)"
	done
	for round in 1 2 3; do
		echo "lookup by = ANY $round $(bench cuda "$work/lookup.sql" 1 2)"
		for n in 1000 100; do
			echo "resident $n $round $(bench cuda "$work/rerank$n.sql" 1 3)"
		done
	done
	for clients in 4 16 32; do
		echo "resident 1000 connections $clients $(bench cuda "$work/rerank1000.sql" "$clients" 4)"
		echo "lookup by = ANY connections $clients $(bench cuda "$work/lookup.sql" "$clients" 2)"
	done
	compare
	load million 96 32 1000000
	echo "# one million documents of 32 x 96, all ids: first, then resident; with top_k = 10 last; ms"
	for round in 1 2 3 4; do
		psql -XAt -c '\timing on' -c "SELECT count(*) FROM maxsim_rerank((SELECT e FROM million_query), ARRAY(SELECT id FROM million), 'million(id, e)')" | tail -n 1
	done
	psql -XAt -c '\timing on' -c "SELECT count(*) FROM maxsim_rerank((SELECT e FROM million_query), ARRAY(SELECT id FROM million), 'million(id, e)', 10)" | tail -n 1
	psql -Xxc 'SELECT * FROM maxsim_scorer()' -c 'SELECT * FROM maxsim_engines()'
}

# What maxsim() reaches in plain SQL, without a cache and with one.
plans()
{
	bench/plans.sh load &&
		again 'flash_maxsim.gpu_cache_size = off' && bench/plans.sh &&
		again 'flash_maxsim.gpu_cache_size = 4GB' 'flash_maxsim.host_cache_size = 1GB' && bench/plans.sh &&
		bench/plans.sh drop
}

# One GPU and all of them, where there are several.
devices()
{
	local list

	[[ $(nvidia-smi -L | wc -l) -gt 1 ]] || { echo "one GPU"; return 0; }
	for list in 0 1 all; do
		again 'flash_maxsim.gpu_cache_size = 4GB' "flash_maxsim.devices = '$list'"
		echo "devices $list, first $(bench cuda "$work/rerank1000.sql" 32 4)"
		echo "devices $list, resident $(bench cuda "$work/rerank1000.sql" 32 4)"
		compare
		nvidia-smi --query-compute-apps=pid,name,gpu_uuid,used_memory --format=csv,noheader
	done
	again
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
step cache cache
step plans plans
step devices devices
cp "$work/server.log" "$out/"
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
