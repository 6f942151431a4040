# shellcheck shell=bash
#
# sql.sh
#	The SQL functions from end to end, by pgbench on one connection.
#
# Sourced by run.sh.  A statement of maxsim_rerank is compared with what it cannot
# do without: detoasting the same rows, which a statement that touches a byte of
# each does and little else, and the engine's time for them (engine_time.c).

QUERY_TOKENS=32
QUERY_DIM=128

# TABLE TYPE N: the scripts of one case, in a folder whose name is printed.
scripts_make()
{
	local table=$1 type=$2 n=$3 folder ids

	folder=$WORK/scripts/$table.$n
	ids="(SELECT ids FROM ${table}_ids WHERE n = $n AND list = :list)"
	as_user mkdir -p "$folder"
	as_user tee "$folder/rerank.sql" >/dev/null <<-END
		\\set list random(1, 10)
		SELECT doc_id, score FROM maxsim_rerank((SELECT e FROM query), $ids, '$table(id, e)', 10);
	END
	as_user tee "$folder/detoast.sql" >/dev/null <<-END
		\\set list random(1, 10)
		SELECT sum($(touch_document "$type")) FROM $table WHERE id = ANY ($ids::bigint[]);
	END
	# the slice is all of the query, in memory as a parameter would be
	as_user tee "$folder/per_row.sql" >/dev/null <<-END
		\\set list random(1, 10)
		SELECT id FROM $table WHERE id = ANY ($ids::bigint[])
		ORDER BY maxsim((SELECT multivec_slice(e, 1, $QUERY_TOKENS) FROM query), e) DESC LIMIT 10;
	END
	echo "$folder"
}

# TABLE TYPE FORMAT TOKENS N TRANSACTIONS: one case, all of its lines.
rerank_case()
{
	local table=$1 type=$2 format=$3 tokens=$4 n=$5 transactions=$6
	local shape=${QUERY_TOKENS}x${tokens}x$QUERY_DIM folder log round engine hot stream
	local flop=$((2 * QUERY_TOKENS * tokens * QUERY_DIM))

	folder=$(scripts_make "$table" "$type" "$n")
	log=$folder/rounds
	for ((round = 0; round < ROUNDS; round++)); do
		read -r engine hot stream < <(as_user "$WORK/engine_time" "$shape" "${format/array/f32}")
		{
			PGOPTIONS='-c flash_maxsim.enable_batch_scan=off' pgbench_round "$transactions" "$folder"/{rerank,detoast,per_row}.sql | awk -v n="$n" '{ print $1, $2 / n }'
			printf 'engine_hot %s\nengine_stream %s\n' "$hot" "$stream"
		} >"$WORK/round"
		awk '{ v[$1] = $2; print } END { print "ratio", v["rerank"] / (v["detoast"] + v["engine_hot"])
			print "ratio_stream", v["rerank"] / (v["detoast"] + v["engine_stream"]) }' "$WORK/round" >>"$log"
	done
	result "rerank_$n" "$engine" "$format" "$shape" rerank "$(median_of rerank <"$log")"
	result "rerank_$n" - "$format" "$shape" detoast "$(median_of detoast <"$log")"
	result "rerank_$n" "$engine" "$format" "$shape" engine_hot "$(median_of engine_hot <"$log")" "$flop"
	result "rerank_$n" "$engine" "$format" "$shape" engine_stream "$(median_of engine_stream <"$log")" "$flop"
	result "rerank_$n" "$engine" "$format" "$shape" per_row "$(median_of per_row <"$log")"
	result_value "rerank_$n" "$engine" "$format" "$shape" ratio "$(median_of ratio <"$log" | xargs printf '%.3f')"
	result_value "rerank_$n" "$engine" "$format" "$shape" ratio_stream "$(median_of ratio_stream <"$log" | xargs printf '%.3f')"
}

# Sizes of the batch buffer, for a thousand documents.
batch_size_case()
{
	local folder=$WORK/scripts/docs_f16.1000 size round sizes=(1MB 2MB 4MB 8MB 16MB 64MB)

	for ((round = 0; round < ROUNDS; round++)); do
		for size in "${sizes[@]}"; do
			PGOPTIONS="-c flash_maxsim.batch_size=$size" pgbench_round 20 "$folder/rerank.sql" |
				sed "s/^rerank/$size/" >>"$folder/sizes"
		done
	done
	for size in "${sizes[@]}"; do
		result batch_size - f16 "${QUERY_TOKENS}x128x$QUERY_DIM" "$size" \
			"$(median_of "$size" <"$folder/sizes" | awk '{ print $1 / 1000 }')"
	done
}

# ORDER BY maxsim(...) over a whole table: in batches, row by row, and with a worker
# beside the leader.
order_by_case()
{
	local table=$1 n=$2 folder=$WORK/scripts/order_by round name options

	as_user mkdir -p "$folder"
	as_user tee "$folder/order_by.sql" >/dev/null <<-END
		SELECT id FROM $table ORDER BY maxsim((SELECT e FROM query), e) DESC LIMIT 10;
	END
	run_sql -c "ALTER TABLE $table SET (parallel_workers = 1)"
	for ((round = 0; round < ROUNDS; round++)); do
		while read -r name options; do
			PGOPTIONS="-c session_preload_libraries=flash_maxsim $options" pgbench_round 5 "$folder/order_by.sql" |
				awk -v name="$name" -v n="$n" '{ print name, $2 / n }' >>"$folder/rounds"
		done <<-END
			batches -c max_parallel_workers_per_gather=0
			per_row -c max_parallel_workers_per_gather=0 -c flash_maxsim.enable_batch_scan=off
			two_processes -c max_parallel_workers_per_gather=1
		END
	done
	for name in batches per_row two_processes; do
		result "order_by_$n" - f16 "${QUERY_TOKENS}x128x$QUERY_DIM" "$name" "$(median_of "$name" <"$folder/rounds")"
	done
}

# One connection and two at once: the documents scored by all of them together.
connections_case()
{
	local folder=$WORK/scripts/docs_f16.1000 round n

	for ((round = 0; round < ROUNDS; round++)); do
		for n in 1 2; do
			as_user pgbench -n -M prepared -c "$n" -j "$n" -t 40 -f "$folder/rerank.sql" 2>>"$LOG/bench.log" </dev/null |
				sed -n "s/^tps = \([0-9.]*\).*without.*/$n \1/p" >>"$folder/connections"
		done
	done
	for n in 1 2; do
		result connections - f16 "${QUERY_TOKENS}x128x$QUERY_DIM" "$n" \
			"$(median_of "$n" <"$folder/connections" | awk '{ print 1e6 / ($1 * 1000) }')"
	done
}

# The forms that a query can be sent in; a statement counts as a document.
parse_case()
{
	local log=$WORK/parse name us

	as_user "$WORK/parse_bench" "$QUERY_TOKENS" "$QUERY_DIM" >"$log"
	while read -r name us; do
		[[ $name == base ]] || result parse - "${name%.*}" "${QUERY_TOKENS}x0x$QUERY_DIM" "${name##*.}" "$us"
	done <"$log"
}

# PID FIELD: a value of /proc/PID/status in kB, without a process of its own.
process_status()
{
	local key value rest

	while read -r key value rest; do
		[[ $key != "$2:" ]] || echo "$value"
	done <"/proc/$1/status" 2>/dev/null
}

# What a backend's own memory (RssAnon) grows by while it reranks 10,000 documents
# of 1,030 tokens, watched from outside.
memory_case()
{
	local pid base peak=0 now psql

	table_make docs_long "multivec($QUERY_DIM, f16)" 9 10000 1030 "$QUERY_DIM" f16
	lists_make docs_long 10000 10000
	as_user psql -X -q -v ON_ERROR_STOP=1 -o "$WORK/memory.out" >/dev/null 2>>"$LOG/bench.log" <<-END &
		SET application_name = 'memory';
		SELECT pg_sleep(1);
		SELECT count(*) FROM maxsim_rerank((SELECT e FROM query),
			(SELECT ids FROM docs_long_ids WHERE n = 10000 AND list = 1), 'docs_long(id, e)');
	END
	psql=$!
	sleep 0.5
	pid=$(run_sql -c "SELECT pid FROM pg_stat_activity WHERE application_name = 'memory'")
	base=$(process_status "$pid" RssAnon)
	while now=$(process_status "$pid" RssAnon) && [[ -n $now ]]; do
		[[ $now -le $peak ]] || peak=$now
		sleep 0.005
	done
	wait "$psql"
	result_value memory_10000 - f16 "${QUERY_TOKENS}x1030x$QUERY_DIM" megabytes "$(awk -v kb=$((peak - base)) 'BEGIN { printf "%.1f", kb / 1024 }')"
	run_sql -c 'DROP TABLE docs_long, docs_long_ids'
}

sql_run()
{
	local small="multivec($QUERY_DIM, f16)"

	table_make query multivec 1 1 "$QUERY_TOKENS" "$QUERY_DIM" f32
	table_make docs_f16 "$small" 2 10000 128 "$QUERY_DIM" f16
	table_make docs_f16_300 "$small" 3 4000 300 "$QUERY_DIM" f16
	table_make docs_f32 "multivec($QUERY_DIM, f32)" 4 5000 128 "$QUERY_DIM" f32
	table_make docs_bf16 "multivec($QUERY_DIM, bf16)" 5 10000 128 "$QUERY_DIM" bf16
	table_make docs_array 'real[]' 6 5000 128 "$QUERY_DIM" array
	lists_make docs_f16 10000 100 1000 10000
	lists_make docs_f16_300 4000 1000
	lists_make docs_f32 5000 1000
	lists_make docs_bf16 10000 1000
	lists_make docs_array 5000 1000

	head_print 'bench/run.sh sql'
	rerank_case docs_f16 "$small" f16 128 100 300
	rerank_case docs_f16 "$small" f16 128 1000 60
	rerank_case docs_f16 "$small" f16 128 10000 12
	rerank_case docs_f16_300 "$small" f16 300 1000 30
	rerank_case docs_f32 'multivec' f32 128 1000 45
	rerank_case docs_bf16 'multivec' bf16 128 1000 60
	rerank_case docs_array 'real[]' array 128 1000 45
	order_by_case docs_f16 10000
	batch_size_case
	connections_case
	parse_case
	memory_case
}
