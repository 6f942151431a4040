#!/bin/bash
#
# quality_report.sh
#	Makes a table, bench/results/quality.md, and a chart, quality.svg, of quality.txt
#	beside them, which quality.sh measured.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/results"

# shellcheck disable=SC2016 # awk's own dollars
awk -F '\t' '
function thousands(n)
{
	return n < 1000 ? n : sprintf("%d,%03d", n / 1000, n % 1000)
}

/^# (cpu|PostgreSQL|postgres|date)/ { sub(/^# /, ""); where = where (where == "" ? "" : "; ") $0; next }
/^# collection: / {
	split($0, word, " ")
	documents = word[3]
	print "# Quality of the ways to search"
	print ""
	printf "%s documents of %.0f tokens of %s dimensions on average, %s questions; `make quality`.\n", thousands(documents), word[5] / documents, word[8], word[10]
	print "What the columns are is said below the table."
	print ""
	print "| way | nDCG@10 | then MaxSim | relevant in 100 | in 1,000 | MaxSim&#39;s 100 in 100 | in 1,000 | bytes | ms | ms, then MaxSim |"
	print "|---|---|---|---|---|---|---|---|---|---|"
}
/^#/ { next }
{
	for (i = 2; i <= 7; i++)
		if ($i != "-")
			$i = sprintf("%.3f", $i)
	$9 = sprintf("%.1f", $9)
	if ($10 != "-")
		$10 = sprintf("%.1f", $10)
	printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6, $7, thousands($8), $9, $10
}
END {
	print ""
	print "![the same as a chart](quality.svg)"
	print ""
	print "- **nDCG@10**: gains as judged, log2 discount. **then MaxSim**: the best 100 of the way in the order of exact MaxSim (f32)."
	print "- **relevant in 100, in 1,000**: the share of the relevant documents among the so many best of the way, averaged over questions."
	printf "  1,000 are %.0f %% of the documents here, so that recall at 1,000 says little: even a bad order has most of them.\n", 100000 / documents
	print "- **MaxSim&#39;s 100**: the share of the 100 best by exact MaxSim (plain) among the 100 and 1,000 best of the way."
	print "- **bytes** a document in the column that the way reads; for full text the `tsvector`, for BM25 table and index of postings."
	print "- **ms** of one core a question, the median, planning and encoding of the query included, its token vectors given."
	print "  **then MaxSim**: the whole statement, the best 100 and reranking them from f32. Ways by vectors read all documents here;"
	print "  with an index on one vector (mean, FDE) they would not. Full text has its indexes."
	print "- A vector a word, without its context, is weak for ranking: BM25 and long encodings are ahead of exact MaxSim here. That says"
	print "  nothing about models made for late interaction. What the table is for is how much of exact MaxSim each way keeps, at which"
	print "  size and time."
	print "- **full text** joins a question&#39;s words by OR; `ts_rank` with normalization 1. **BM25** has k1 1.2, b 0.75, and counts the words"
	print "  that have a vector. **FDE of n**: `maxsim_fde_document` with (k_sim, projection, repetitions), stored as f16."
	print "  **pooled**: `multivec_normalize(multivec_pool(embedding, factor))`. **weighted**: each word of the question times its inverse"
	print "  document frequency. **b1**: documents of signs, the question in numbers; **signs with signs**: `maxsim_hamming`."
	print "  **rotated**: `multivec_rotate` of documents and questions before, seed 0."
	print ""
	print "Measured on: " where "."
}' quality.txt | sed "s/&#39;/'/g" >quality.md

# Two columns of bars a way: what a reader finds, alone and then by MaxSim, and how much of
# exact MaxSim is found.
awk -F '\t' "$(cat ../svg.awk)"'
function legend(x, class, label)
{
	bar(x, y, 12, 12, class)
	text(x + 18, y + 11, "start", "label", label)
}

BEGIN {
	WIDTH = 860; LABEL = 215; FIRST = 225; SECOND = 500; SIZE = 215; HEIGHT = 8; ROW = 26
	y = 16
	text(FIRST, y + 14, "start", "title", "nDCG@10")
	text(SECOND, y + 14, "start", "title", "of the 100 best by exact MaxSim")
	text(WIDTH - 10, y + 14, "end", "title", "bytes")
	y += 28
	scale = SIZE / 0.5
}
/^#/ { next }
{
	text(LABEL, y + 14, "end", "label", $1)
	bar(FIRST, y, $2 * scale, HEIGHT, "other")
	if ($3 != "-")
		bar(FIRST, y + HEIGHT + 1, $3 * scale, HEIGHT, "own")
	text(FIRST + ($2 > $3 ? $2 : $3) * scale + 6, y + 14, "start", "value", sprintf("%.3f", $3 == "-" ? $2 : $3))
	if ($6 != "-")
	{
		bar(SECOND, y, $6 * SIZE, HEIGHT, "engine")
		bar(SECOND, y + HEIGHT + 1, $7 * SIZE, HEIGHT, "rest")
		text(SECOND + $7 * SIZE + 6, y + 14, "start", "value", sprintf("%.2f", $6))
	}
	text(WIDTH - 10, y + 14, "end", "label", $8)
	y += ROW
}
END {
	y += 8
	legend(FIRST, "other", "alone")
	legend(FIRST + 70, "own", "its best 100, then MaxSim")
	legend(SECOND, "engine", "among its 100 best")
	legend(SECOND + 150, "rest", "among its 1,000 best")
	page("Quality of the ways to search", WIDTH, y + 24)
}' quality.txt >quality.svg
