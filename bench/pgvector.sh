# shellcheck shell=bash
#
# pgvector.sh
#	maxsim_rerank beside the SQL function that pgvector's published examples use for
#	ColBERT, on the same documents, in turn on one connection; and what it costs to
#	have pgvector's arrays taken for multivecs.
#
# Sourced by run.sh.  Debian has had pgvector since release 13 (trixie).  On a
# system without, the part runs itself in a bare trixie: a folder that chroot
# enters, in mount and process namespaces of its own, so that its processes end
# with it.

SUITE=trixie
MIRROR=${MIRROR:-http://deb.debian.org/debian}

# Whether the server that is used here has pgvector; installs it if apt offers it.
pgvector_here()
{
	local version control

	postgres_find
	control=$("$SYSTEM_PG_CONFIG" --sharedir)/extension/vector.control
	[[ ! -f $control ]] || return 0
	have_apt || return 1
	version=$("$SYSTEM_PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
	apt_update
	apt-cache show "postgresql-$version-pgvector" >/dev/null 2>&1 || return 1
	apt_install "postgresql-$version-pgvector"
	[[ -f $control ]]
}

# COMMAND...: runs it in the root.
in_root()
{
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --pid --fork --kill-child --mount-proc="$WORK/root/proc" \
		sh -c 'mkdir -p "$1/dev/shm" && mount -t tmpfs tmpfs "$1/dev/shm" && shift && exec "$@"' sh "$WORK/root" \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root ROUNDS="$ROUNDS" ${http_proxy:+http_proxy="$http_proxy"} \
		chroot "$WORK/root" "$@" </dev/null
}

# PART
pgvector_in_root()
{
	[[ $(id -u) == 0 ]] || die "needs root to make a Debian $SUITE with pgvector"
	need debootstrap debootstrap debian-archive-keyring
	tree_ready
	say "making a bare $SUITE from $MIRROR" >&2
	quietly root.log unshare --mount debootstrap --variant=minbase --include=make,ca-certificates "$SUITE" "$WORK/root" "$MIRROR"
	cp -L /etc/resolv.conf /etc/hosts "$WORK/root/etc/"
	apt-config dump | grep -E '^Acquire::(https?::.*(Proxy|Ca|Verify)|Check-)' >"$WORK/root/etc/apt/apt.conf.d/90host" || true
	echo force-unsafe-io >"$WORK/root/etc/dpkg/dpkg.cfg.d/unsafe-io"
	cp -r "$WORK/tree" "$WORK/root/root/flash_maxsim"
	rm -f "$WORK/root/root/flash_maxsim/bench/results"/*
	quietly root.log in_root bash /root/flash_maxsim/bench/run.sh "$1"
	cat "$WORK/root/root/flash_maxsim/bench/results/$1.txt"
}

pgvector_load()
{
	table_make query multivec 1 1 "$QUERY_TOKENS" "$QUERY_DIM" f32
	table_make docs_f32 "multivec($QUERY_DIM, f32)" 2 1000 128 "$QUERY_DIM" f32
	lists_make docs_f32 1000 100
	run_sql <<-END
		CREATE EXTENSION IF NOT EXISTS flash_maxsim_pgvector CASCADE;

		-- of each query token the largest cosine similarity, and their sum
		CREATE FUNCTION max_sim(document vector[], query vector[]) RETURNS double precision AS \$\$
			WITH query_tokens AS (
				SELECT row_number() OVER () AS number, token FROM unnest(query) AS token
			), maxima AS (
				SELECT max(1 - (d.token <=> q.token)) AS similarity
				FROM query_tokens q CROSS JOIN (SELECT unnest(document) AS token) d
				GROUP BY q.number
			)
			SELECT sum(similarity) FROM maxima
		\$\$ LANGUAGE sql;

		CREATE UNLOGGED TABLE docs_f16 AS SELECT id, e::multivec($QUERY_DIM, f16) AS e FROM docs_f32;
		ALTER TABLE docs_f16 ADD PRIMARY KEY (id);
		CREATE TABLE docs_f16_ids AS TABLE docs_f32_ids;
		CREATE UNLOGGED TABLE docs_vector AS SELECT id, e::vector[] AS e FROM docs_f32;
		ALTER TABLE docs_vector ADD PRIMARY KEY (id);
		CREATE TABLE query_vector AS SELECT e::vector[] AS e FROM query;
	END
	run_sql -c 'VACUUM ANALYZE'
}

# Both must find the same documents.
pgvector_agree()
{
	local ids='(SELECT ids FROM docs_f32_ids WHERE list = 1)' ours theirs

	ours=$(run_sql -c "SELECT doc_id FROM maxsim_rerank((SELECT e FROM query), $ids, 'docs_f32(id, e)', 10)")
	theirs=$(run_sql -c "SELECT id FROM docs_vector WHERE id = ANY ($ids::bigint[])
		ORDER BY max_sim(e, (SELECT e FROM query_vector)) DESC LIMIT 10")
	[[ $(wc -l <<<"$ours") == 10 && $ours == "$theirs" ]] || die "maxsim_rerank and pgvector's function disagree"
}

pgvector_run()
{
	local shape=${QUERY_TOKENS}x128x$QUERY_DIM folder=$WORK/scripts log=$WORK/rounds round name

	pgvector_load
	pgvector_agree
	as_user mkdir -p "$folder"
	for name in f32 f16; do
		as_user cp "$(scripts_make docs_$name multivec 100)/rerank.sql" "$folder/rerank_$name.sql"
		as_user cp "$(scripts_make docs_$name multivec 100)/per_row.sql" "$folder/per_row_$name.sql"
	done
	as_user tee "$folder/pgvector.sql" >/dev/null <<-END
		\\set list random(1, 10)
		SELECT id FROM docs_vector WHERE id = ANY ((SELECT ids FROM docs_f32_ids WHERE n = 100 AND list = :list)::bigint[])
		ORDER BY max_sim(e, (SELECT e FROM query_vector)) DESC LIMIT 10;
	END
	for ((round = 0; round < ROUNDS; round++)); do
		pgbench_round 60 "$folder"/{pgvector,per_row_f32,rerank_f32,per_row_f16,rerank_f16}.sql |
			awk '{ v[$1] = $2; print $1, $2 / 100 } END {
				print "ratio_f32", v["pgvector"] / v["rerank_f32"]; print "ratio_f16", v["pgvector"] / v["rerank_f16"] }' >>"$log"
	done

	head_print 'bench/run.sh pgvector' "pgvector: $(run_sql -c "SELECT extversion FROM pg_extension WHERE extname = 'vector'")" \
		'ratio: how many times as long its SQL function takes'
	result rerank_100 pgvector vector "$shape" sql_function "$(median_of pgvector <"$log")"
	for name in f32 f16; do
		result rerank_100 flash_maxsim "$name" "$shape" per_row "$(median_of "per_row_$name" <"$log")"
		result rerank_100 flash_maxsim "$name" "$shape" rerank "$(median_of "rerank_$name" <"$log")"
		result_value rerank_100 flash_maxsim "$name" "$shape" ratio "$(median_of "ratio_$name" <"$log" | xargs printf '%.1f')"
	done
}

# Casts of arrays, above what it takes to detoast them.
casts_run()
{
	local folder=$WORK/scripts log=$WORK/rounds round type

	table_make query multivec 1 1 "$QUERY_TOKENS" "$QUERY_DIM" f32
	table_make docs "multivec($QUERY_DIM, f32)" 2 1000 128 "$QUERY_DIM" f32
	lists_make docs 1000 100
	as_user mkdir -p "$folder"
	run_sql -c 'CREATE EXTENSION IF NOT EXISTS flash_maxsim_pgvector CASCADE'
	for type in vector halfvec real; do
		run_sql -c "CREATE UNLOGGED TABLE docs_$type AS SELECT id, e::${type}[] AS e FROM docs" -c "ALTER TABLE docs_$type ADD PRIMARY KEY (id)" \
			-c "CREATE TABLE docs_${type}_ids AS TABLE docs_ids"
		as_user cp "$(scripts_make "docs_$type" "${type}[]" 100)/rerank.sql" "$folder/rerank_$type.sql"
		as_user tee "$folder/detoast_$type.sql" >/dev/null <<-END
			\\set list random(1, 10)
			SELECT sum(array_ndims(e)) FROM docs_$type WHERE id = ANY ((SELECT ids FROM docs_ids WHERE n = 100 AND list = :list)::bigint[]);
		END
		as_user tee "$folder/cast_$type.sql" >/dev/null <<-END
			\\set list random(1, 10)
			SELECT sum(multivec_ntokens(e)) FROM docs_$type WHERE id = ANY ((SELECT ids FROM docs_ids WHERE n = 100 AND list = :list)::bigint[]);
		END
	done
	run_sql -c 'VACUUM ANALYZE'
	for ((round = 0; round < ROUNDS; round++)); do
		pgbench_round 900 "$folder"/{detoast,cast,rerank}_{vector,halfvec,real}.sql | awk '{ v[$1] = $2 / 100; print $1, v[$1] } END {
			for (type in v) if (sub(/^cast_/, "", type)) print "above_" type, v["cast_" type] - v["detoast_" type] }' >>"$log"
	done

	head_print 'bench/run.sh casts' "pgvector: $(run_sql -c "SELECT extversion FROM pg_extension WHERE extname = 'vector'")" \
		'detoast: the array fetched; cast: made a multivec as well; above: the difference'
	for type in vector halfvec real; do
		for round in detoast cast above; do
			result cast - "$type" "128x$QUERY_DIM" "$round" "$(median_of "${round}_$type" <"$log")"
		done
		result rerank_100 flash_maxsim "$type" "${QUERY_TOKENS}x128x$QUERY_DIM" rerank "$(median_of "rerank_$type" <"$log")"
	done
}
