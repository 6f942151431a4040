# shellcheck shell=bash
#
# encode.sh
#	How many documents a second become an encoding, a pooled document or a mean, on one
#	core: what loading a table with generated columns costs.
#
# Sourced by run.sh.  A statement makes values of all documents of a table and keeps none;
# fetching the documents is part of it, and measured alone beside it.  In a round every
# statement runs once, in one session, and its time is that of the processor: these are
# long statements of one process, on which the server's other work is nothing.

# FORMAT: the cases, NAME EXPRESSION of document e a line.
encode_cases()
{
	cat <<-END
		fetch $(touch_document "multivec($QUERY_DIM, $1)")
		fde_1024 maxsim_fde_document(e, 4, 8, 8)
		fde_3840 maxsim_fde_document(e, 5, 8, 15)
		fde_3968 maxsim_fde_document(e)
		fde_7936 maxsim_fde_document(e, 4, 8, 62)
		fde_3968_query maxsim_fde_query(e)
		pool_2 multivec_pool(e, 2)
		pool_4 multivec_pool(e, 4)
		mean multivec_mean(e)
		normalize multivec_normalize(e)
	END
}

# FORMAT TOKENS DOCUMENTS
encode_case()
{
	local format=$1 tokens=$2 documents=$3 name expression round log=$WORK/encode

	table_make encoded "multivec($QUERY_DIM, $format)" 7 "$documents" "$tokens" "$QUERY_DIM" "$format"
	for ((round = 0; round < ROUNDS; round++)); do
		while read -r name expression; do
			printf "SELECT processor_ms() AS started, '%s' AS name \\gset\nSELECT count(%s) AS documents FROM encoded \\gset\n" "$name" "$expression"
			echo "SELECT :'name', (processor_ms() - :started) * 1000 / :documents;"
		done < <(encode_cases "$format")
	done >"$WORK/encode.sql"
	PGOPTIONS='-c max_parallel_workers_per_gather=0' run_sql -F ' ' <"$WORK/encode.sql" >"$log"
	while read -r name _; do
		result encode - "$format" "0x${tokens}x$QUERY_DIM" "$name" "$(median_of "$name" <"$log")"
	done < <(encode_cases "$format")
	run_sql -c 'DROP TABLE encoded'
}

encode_run()
{
	run_sql <"$ROOT/bench/processor_ms.sql"
	head_print 'bench/run.sh encode' 'times are those of the processor; fde_N: an encoding of N numbers, of a document or of a query'
	encode_case f16 32 1000
	encode_case f16 128 500
	encode_case f32 128 500
	encode_case f16 1024 20
}
