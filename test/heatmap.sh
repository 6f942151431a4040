#!/bin/bash
#
# heatmap.sh
#	The example of examples/heatmap: each query token's hottest patch is the one where it
#	was planted, the picture shows that, and is well-formed XML.
#
# Uses the cluster of the environment (PGHOST, PGPORT, …), in a database of its own.

set -euo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=0
database=heatmap_$$
work=$(mktemp -d)
psql -qXd postgres -c "CREATE DATABASE $database"
trap 'psql -qXd postgres -c "DROP DATABASE $database"; rm -rf "$work"' EXIT
export PGDATABASE=$database

sql()
{
	psql -qXAt -v ON_ERROR_STOP=1 "$@"
}

# NAME EXPECTED COMMAND...: what it prints.
check()
{
	local name=$1 expected=$2 got

	got=$("${@:3}") || got=error
	if [[ $got == "$expected" ]]; then
		passed=$((passed + 1))
		echo "ok: $name"
	else
		failed=$((failed + 1))
		echo "FAILED: $name: $got, expected $expected"
	fi
}

# FILE COLUMN ROW: the opacity of a patch.
opacity()
{
	sed -n "s/^<rect x=\"$2\" y=\"$3\" width=\"1\" height=\"1\" fill-opacity=\"\(.*\)\"\/>$/\1/p" "$1"
}

# FILE: how many patches are as hot as can be.
hottest()
{
	grep -c 'fill-opacity="1.00"' "$1"
}

# FILE
well_formed()
{
	sql -v svg="$(base64 -w 0 "$1")" <<-'SQL'
		SELECT xml_is_well_formed_document(convert_from(decode(:'svg', 'base64'), 'UTF8'));
	SQL
}

sql -c 'CREATE EXTENSION flash_maxsim' -f examples/heatmap/page.sql -f examples/heatmap/heatmap.sql
check 'a page and a query' '1|1024|128|f16|4' \
	sql -c 'SELECT count(*), sum(multivec_ntokens(patches)), min(multivec_dim(patches)), min(multivec_format(patches)), sum(multivec_ntokens(tokens)) FROM heatmap.pages, heatmap.queries'

while IFS='|' read -r token row column; do
	check "token $token: the hottest patch is row $row, column $column" "$row|$column" \
		sql -c "SELECT (doc_token - 1) / 32, (doc_token - 1) % 32 FROM heatmap.queries, heatmap.pages, maxsim_similarities(tokens, patches)
			WHERE query_token = $token ORDER BY similarity DESC LIMIT 1"
	sql -c "SELECT heatmap.svg(tokens, patches, columns, $token) FROM heatmap.queries, heatmap.pages" >"$work/$token.svg"
	check "token $token: so it is in the picture" 1.00 opacity "$work/$token.svg" "$column" "$row"
	check "token $token: no other patch is" 1 hottest "$work/$token.svg"
	check "token $token: in a frame, the only one" "x=\"$column\" y=\"$row\"" \
		sed -n 's/^<rect \(.*\) width="1" height="1"><title>.*/\1/p' "$work/$token.svg"
done < <(sql -c 'SELECT query_token, page_row, page_column FROM heatmap.planted ORDER BY query_token')

sql -c 'SELECT heatmap.svg(tokens, patches, columns) FROM heatmap.queries, heatmap.pages' >"$work/all.svg"
check 'all tokens: 1,024 patches' 1024 grep -c fill-opacity "$work/all.svg"
check 'all tokens: four frames' 4 grep -c '<title>' "$work/all.svg"
check 'all tokens: the picture of the README' '' diff "$work/all.svg" examples/heatmap/heatmap.svg

# a page whose last row is not full, all of it as hot as the rest, over an image with an odd name
sql -c "SELECT heatmap.svg('[[1,0]]', '[[1,1],[1,2],[1,3],[1,4],[1,5]]', 2, NULL, 'a&b\"<c>.png')" >"$work/small.svg"
check 'a small page: its size' 'width="32" height="48" viewBox="0 0 2 3"' sed -n '1s/.*svg" \(.*\) shape.*/\1/p' "$work/small.svg"
check 'a small page: no heat' 5 grep -c 'fill-opacity="0.00"' "$work/small.svg"
check 'a small page: its image' 'href="a&amp;b&quot;&lt;c>.png"' grep -o 'href="[^ ]*"' "$work/small.svg"

# PostgreSQL need not be built with XML
if sql -c "SELECT '<a/>'::xml" >/dev/null 2>&1; then
	for file in "$work"/*.svg; do
		check "${file##*/} is well-formed" t well_formed "$file"
	done
	skipped=
else
	echo 'skipped: this PostgreSQL cannot tell whether XML is well-formed'
	skipped=', 1 skipped'
fi
echo "$passed passed, $failed failed$skipped"
[[ $failed == 0 ]]
