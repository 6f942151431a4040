# shellcheck shell=bash
#
# bench.sh
#	What the parts of the benchmark share: the server, rounds of pgbench, and the
#	one format of results.
#
# Sourced after lib.sh.  What is compared runs in turn, statement by statement on
# one connection, and what runs outside the server between the rounds; so a
# processor that slows down for a while slows down both sides.  A round gives the
# median of its statements, and a result is the median of its rounds.

ROUNDS=${ROUNDS:-7}
SHARED_BUFFERS=${SHARED_BUFFERS:-2500MB}

# --- the server --------------------------------------------------------------

# The copy of the sources, where no server is needed.
tree_ready()
{
	[[ ! -d $WORK/tree ]] || return 0
	user_pick
	tree_copy
}

# An installed extension in a database of its own, and the programs of bench/*.c.
server_prepare()
{
	[[ -z $server_ready ]] || return 0
	[[ ! -d $WORK/tree ]] || rm -rf "$WORK/tree" "$WORK/shared"
	extension_prepare
	tools_build
	cluster_start
	as_user tee -a "$WORK/data/postgresql.conf" >/dev/null <<-END
		shared_buffers = $SHARED_BUFFERS
		max_wal_size = 8GB
		checkpoint_timeout = 1h
		autovacuum = off
	END
	quietly start.log as_user pg_ctl -D "$WORK/data" -l "$WORK/server.log" -w restart
	quietly bench.log as_user createdb bench
	export PGDATABASE=bench
	run_sql -c 'CREATE EXTENSION flash_maxsim' -c 'CREATE CAST (multivec AS bytea) WITHOUT FUNCTION'
	server_ready=yes
}

tools_build()
{
	local include=() tree=$WORK/tree

	[[ -f $("$PG_CONFIG" --includedir)/libpq-fe.h ]] || apt_install libpq-dev
	include=(-I "$("$PG_CONFIG" --includedir)" -L "$("$SYSTEM_PG_CONFIG" --libdir)")
	quietly build.log as_user gcc -O2 -std=gnu99 -o "$WORK/make_data" "$tree/bench/make_data.c" -lm
	quietly build.log as_user gcc -O2 -std=gnu99 -o "$WORK/engine_time" "$tree/bench/engine_time.c" \
		"$tree"/src/engine_cpu.c "$tree"/src/engine_pack.c "$tree"/src/cpu_features.c "$tree"/src/kernel_*.c -lm
	quietly build.log as_user gcc -O2 -std=gnu99 -o "$WORK/parse_bench" "$tree/bench/parse_bench.c" "${include[@]}" -lpq
}

# Without -c, from standard input.
run_sql()
{
	as_user psql -X -q -t -A -v ON_ERROR_STOP=1 "$@"
}

# TABLE TYPE SEED DOCUMENTS TOKENS DIM FORM: a table of documents, all of it read once.
table_make()
{
	local table=$1 type=$2

	shift 2
	run_sql -c "CREATE UNLOGGED TABLE $table (id bigint, e $type)"
	as_user "$WORK/make_data" "$@" |
		as_user psql -X -q -v ON_ERROR_STOP=1 -c "COPY $table FROM STDIN (FORMAT binary)"
	run_sql -c "ALTER TABLE $table ADD PRIMARY KEY (id)" -c "VACUUM ANALYZE $table"
	run_sql -c "SELECT sum($(touch_document "$type")) FROM $table" >/dev/null
}

# TYPE: an expression that detoasts document e of that type and does nothing else.
touch_document()
{
	case $1 in
		*'[]') echo 'e[1][1]' ;;
		*) echo 'get_byte(e::bytea, 100)' ;;
	esac
}

# TABLE DOCUMENTS N...: lists of N ids, picked at random, in TABLE_ids.
lists_make()
{
	local table=$1 documents=$2 n

	shift 2
	run_sql -c "CREATE TABLE ${table}_ids (n integer, list integer, ids bigint[], PRIMARY KEY (n, list))" \
		-c "ALTER TABLE ${table}_ids ALTER ids SET STORAGE EXTERNAL"
	for n; do
		run_sql >/dev/null -c "SELECT setseed(0.5)" -c "INSERT INTO ${table}_ids SELECT $n, list, ARRAY(
			SELECT id FROM generate_series(1, $documents) id ORDER BY random() + 0 * list LIMIT $n)
			FROM generate_series(1, 10) list"
	done
	run_sql -c "VACUUM ANALYZE ${table}_ids"
}

# --- measuring ---------------------------------------------------------------

# Numbers in, the one in the middle out.
median()
{
	sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# TRANSACTIONS SCRIPT...: one run of pgbench in which the scripts take turns at
# random; prints each script's name and the median of its microseconds.
pgbench_round()
{
	local transactions=$1 script number=0 arguments=() log=$WORK/pgbench

	shift
	for script; do
		arguments+=(-f "$script")
	done
	as_user mkdir -p "$log"
	rm -f "$log"/*
	quietly bench.log as_user pgbench -n -M prepared -t "$transactions" -l --log-prefix="$log/log" "${arguments[@]}"
	for script; do
		script=${script##*/}
		printf '%s %s\n' "${script%.sql}" "$(awk -v n="$number" '$4 == n { print $3 }' "$log"/log* | median)"
		number=$((number + 1))
	done
}

# NAME: the median of the lines "NAME value" on standard input.
median_of()
{
	awk -v name="$1" '$1 == name { print $2 }' | median
}

# --- results -----------------------------------------------------------------

# COMMAND [COMMENT...]: the comment lines at the head of a result: where it is from.
machine_print()
{
	say "# cpu: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sed -n 1p), $(nproc) cores," \
		"$(awk '/^MemTotal/ { printf "%.0f GB", $2 / 1048576 }' /proc/meminfo) of memory"
	say "# $(as_user postgres --version), shared_buffers = $(run_sql -c 'SHOW shared_buffers')," \
		"flash_maxsim.batch_size = $(run_sql -c "LOAD 'flash_maxsim'" -c 'SHOW flash_maxsim.batch_size')"
	say "# compiler: $(gcc --version | sed -n 1p)"
	say "# date: $(date -u +%Y-%m-%d)"
	say "# command: $1"
	[[ $# == 1 ]] || printf '# %s\n' "${@:2}"
}

# COMMAND [COMMENT...]: these, and the columns of a result.
head_print()
{
	machine_print "$@"
	printf '# benchmark\tengine\tformat\tshape\tmode\tdocs_per_s\tus_per_doc\tgflops\tshare_of_peak\n'
}

# BENCHMARK ENGINE FORMAT SHAPE MODE MICROSECONDS [FLOP]: a line of a time a document.
result()
{
	awk -v us="$6" -v flop="${7:-0}" -v head="$(printf '%s\t%s\t%s\t%s\t%s' "${@:1:5}")" 'BEGIN {
		printf "%s\t%.0f\t%.2f\t%s\t-\n", head, 1e6 / us, us, flop ? sprintf("%.1f", flop / us / 1000) : "-" }'
}

# BENCHMARK ENGINE FORMAT SHAPE MODE VALUE: a line of a number that is no time.
result_value()
{
	printf '%s\t%s\t%s\t%s\t%s\t-\t-\t-\t%s\n' "$@"
}
