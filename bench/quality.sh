#!/bin/bash
#
# quality.sh
#	How well each way of searching finds what exact MaxSim finds, and what a reader
#	wanted ("make quality"): runs ladder.sh in a throw-away PostgreSQL, and writes
#	bench/results/quality.txt, quality.md and quality.svg.
#
# QUALITY_DATA names the collection, a folder as collection.sh describes it.

TMPDIR=${TMPDIR:-/var/tmp}
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
# shellcheck source=bench/bench.sh
. "$ROOT/bench/bench.sh"

data=${QUALITY_DATA:-$ROOT/../shared/cranfield}
[[ -r $data/qrels.tsv ]] || die "no collection in $data: set QUALITY_DATA to a folder as bench/collection.sh describes it"

work_make
SHARED_BUFFERS=1GB
extension_prepare with_llvm=no # no bitcode: it takes half of the time
cluster_start
echo "shared_buffers = $SHARED_BUFFERS" | as_user tee -a "$WORK/data/postgresql.conf" >/dev/null
quietly start.log as_user pg_ctl -D "$WORK/data" -l "$WORK/server.log" -w restart
as_user mkdir "$WORK/collection"
cp "$data"/{words,docs_tokens}.tsv.gz "$data"/{queries_tokens,qrels}.tsv "$WORK/collection"

say "searching: about three minutes"
{
	machine_print 'make quality'
	as_user env -C "$WORK/tree" bench/ladder.sh "$WORK/collection"
} >"$WORK/quality.txt"
mkdir -p "$ROOT/bench/results"
cp "$WORK/quality.txt" "$ROOT/bench/results/quality.txt"
bash "$ROOT/bench/quality_report.sh"
cat "$ROOT/bench/results/quality.md"
