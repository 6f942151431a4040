# shellcheck shell=bash
#
# python.sh
#	Loading documents by COPY BINARY: what the client takes, what the server takes, and
#	examples/python/load.py with both.
#
# Sourced by run.sh.  The server syncs what it writes, as it would elsewhere.  A load is
# seconds of writing, and whatever else the machine does only adds to them: so the result
# is the fastest round, not the median, and processor times stand beside it.

LOAD_DOCUMENTS=${LOAD_DOCUMENTS:-10000}

# Sets PYTHON to one that has psycopg and numpy; the system's may come second in PATH.
python_find()
{
	for PYTHON in python3 /usr/bin/python3; do
		! "$PYTHON" -c 'import psycopg, numpy' 2>/dev/null || return 0
	done
	have_apt || die "needs psycopg 3 and numpy for Python"
	apt_install python3-psycopg python3-numpy
}

# SETTING...: restarts the server with these as well.
server_set()
{
	printf '%s\n' "$@" | as_user tee -a "$WORK/data/postgresql.conf" >/dev/null
	quietly start.log as_user pg_ctl -D "$WORK/data" -l "$WORK/server.log" -w restart
}

# NAME ARGUMENT...: load.py; prints the name and microseconds a document, then name_cpu
# and those of the client's processor time.
load_round()
{
	local name=$1

	shift
	run_sql -c 'DROP TABLE IF EXISTS loaded' -c CHECKPOINT 2>/dev/null
	as_user env -C "$WORK/tree" "$PYTHON" examples/python/load.py --documents "$LOAD_DOCUMENTS" "$@" |
		sed -nE 's/^([0-9]+) documents, .* in ([0-9.]+) s: .* is ([0-9.]+) s$/\1 \2 \3/p' |
		awk -v name="$name" '{ print name, $2 / $1 * 1e6; print name "_cpu", $3 / $1 * 1e6 }'
}

# NAME BEFORE WITHIN: the server alone, which reads rows from a file into table "loaded".
# BEFORE goes before the transaction, WITHIN into it and its time.  The processor time is
# that of the server's process: fields 14 and 15 of its stat, in ticks.
server_round()
{
	local name=$1 file=$WORK/rows

	run_sql -c 'DROP TABLE IF EXISTS loaded' -c "${2:-SELECT}" -c CHECKPOINT >/dev/null 2>&1
	run_sql -c '\timing on' -c "BEGIN; ${3:-SELECT}; COPY loaded FROM '$file' (FORMAT BINARY); COMMIT" -c '\timing off' \
		-c "SELECT f[12]::integer + f[13]::integer FROM string_to_array(split_part(pg_read_file('/proc/self/stat'), ') ', 2), ' ') f" |
		awk -v name="$name" -v n="$LOAD_DOCUMENTS" -v tick="$(getconf CLK_TCK)" '
			/^Time: / { print name, $2 / n * 1000 }
			/^[0-9]+$/ { print name "_cpu", $1 / tick / n * 1e6 }'
}

python_run()
{
	local create='CREATE TABLE loaded (id bigint, embedding multivec(128, f16))' log=$WORK/load.rounds round mode
	local extended='ALTER TABLE loaded ALTER embedding SET STORAGE EXTENDED'

	python_find
	load_round file --to "$WORK/rows" >/dev/null
	server_set 'fsync = on' 'wal_level = replica'
	for ((round = 0; round < ROUNDS; round++)); do
		load_round client --to /dev/null
		load_round client_converts --to /dev/null --dtype float32
		server_round server "$create"
		server_round server_unlogged "${create/TABLE/UNLOGGED TABLE}"
		server_round server_indexed "$create; ALTER TABLE loaded ADD PRIMARY KEY (id)"
		server_round server_extended "$create; $extended"
		load_round load
		load_round load_converts --dtype float32
		load_round load_f32 --dtype float32 --format f32
		load_round load_2_connections --connections 2
		load_round load_4_connections --connections 4
	done | tee "$log" >&2
	server_set 'wal_level = minimal' 'max_wal_senders = 0'
	for ((round = 0; round < ROUNDS; round++)); do
		server_round server_minimal '' "$create"
		load_round load_minimal
	done | tee -a "$log" >&2

	head_print 'bench/run.sh python' "fsync = on, max_wal_size = $(run_sql -c 'SHOW max_wal_size'), $LOAD_DOCUMENTS documents, the fastest of $ROUNDS rounds" \
		"$("$PYTHON" -c 'import sys, numpy, psycopg; print("python %d.%d," % sys.version_info[:2], "numpy", numpy.__version__ + ", psycopg", psycopg.__version__, "(" + psycopg.pq.__impl__ + ")")')"
	for mode in client client_converts server server_unlogged server_indexed server_extended server_minimal \
		load load_converts load_minimal load_2_connections load_4_connections load_f32; do
		load_result "$mode" "$(least_of "$mode" <"$log")"
		load_result "${mode}_cpu" "$(least_of "${mode}_cpu" <"$log")"
	done
}

# NAME: the least of the lines "NAME value" on standard input.
least_of()
{
	awk -v name="$1" '$1 == name { print $2 }' | sort -g | sed -n 1p
}

# MODE MICROSECONDS: the time a document, and megabytes of elements a second.
load_result()
{
	local format=f16 bytes=32768

	[[ $1 != *_f32* ]] || { format=f32 bytes=65536; }
	result load - "$format" 128x128 "$1" "$2"
	result_value load - "$format" 128x128 "$1_mb_per_s" "$(awk -v us="$2" -v bytes="$bytes" 'BEGIN { printf "%.0f", bytes / us }')"
}
