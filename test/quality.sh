#!/bin/bash
#
# quality.sh
#	What ways of searching find in the Cranfield collection, by the short form of
#	bench/ladder.sh: figures that are known, and floors below what was measured.
#
# Reads CRANFIELD, by default ../shared/cranfield, and skips where that is absent.
# Uses the cluster of the environment (PGHOST, PGPORT, …), in a database of its own.

set -euo pipefail
cd "$(dirname "$0")/.."
data=${CRANFIELD:-../shared/cranfield}
if [[ ! -r $data/qrels.tsv ]]; then
	echo "skipped: no Cranfield collection in $data"
	echo "0 passed, 0 failed, 1 skipped"
	exit
fi

results=$(bench/ladder.sh --short "$data")
echo "$results"

# Prints the counts; fails where one is not as it should be.
awk -F '\t' '
# Column c of a way is from low to high.
function between(way, c, low, high,    value, good)
{
	value = row[way, c]
	good = value != "" && value != "-" && value + 0 >= low && value + 0 <= high
	printf "%s: %s, %s: %s, expected %s to %s\n", good ? "ok" : "FAILED", way, name[c], value == "" ? "absent" : value, low, high
	good ? passed++ : failed++
}

/^# way/ { for (i = 1; i <= NF; i++) name[i] = $i; next }
/^#/ { next }
{
	ways[++n] = $1
	for (i = 2; i <= NF; i++)
		row[$1, i] = $i
}

END {
	NDCG = 2; RERANKED = 3; RECALL100 = 4; RECALL1000 = 5; FOUND100 = 6; FOUND1000 = 7; BYTES = 8

	# computed in double precision elsewhere
	between("exact MaxSim, plain", NDCG, 0.3011, 0.3014)
	between("exact MaxSim, plain", RECALL100, 0.6544, 0.6546)
	between("exact MaxSim, plain", FOUND100, 1, 1)
	# there with words that have no vector, too: 0.3990, 0.7229, and 0.3054 after MaxSim
	between("full text: BM25 in SQL", NDCG, 0.390, 0.403)
	between("full text: BM25 in SQL", RECALL100, 0.715, 0.730)
	between("full text: BM25 in SQL", RERANKED, 0.303, 0.308)

	# what was measured, less a margin
	between("mean vector", FOUND100, 0.31, 0.33)
	between("mean vector", RECALL100, 0.46, 0.49)
	between("FDE of 3968 (4, 8, 31)", FOUND100, 0.36, 0.41)
	between("FDE of 3968 (4, 8, 31)", FOUND1000, 0.97, 1)
	between("FDE of 3968 (4, 8, 31)", RECALL100, 0.64, 0.68)
	between("FDE of 3968 (4, 8, 31)", RERANKED, 0.315, 0.335)
	between("MaxSim f16, pooled by 2", FOUND100, 0.90, 0.94)
	between("MaxSim f16, pooled by 2", RERANKED, 0.300, 0.302)
	between("MaxSim f16", FOUND100, 0.999, 1)
	between("MaxSim f16", NDCG, 0.3005, 0.3020)
	between("MaxSim f16", BYTES, row["exact MaxSim, plain", BYTES] / 2, row["exact MaxSim, plain", BYTES] / 2 + 16)
	# 0.3014, 0.2747 and 0.2619: i8 is as good as f32, b1 a first stage
	between("MaxSim i8", NDCG, 0.2992, 0.3032)
	between("MaxSim i8", FOUND100, 0.995, 1)
	between("MaxSim b1", NDCG, 0.270, 0.280)
	between("MaxSim b1", FOUND100, 0.85, 0.88)
	between("MaxSim b1", RERANKED, 0.300, 0.302)
	between("signs with signs", NDCG, 0.257, 0.267)
	between("signs with signs", FOUND100, 0.79, 0.82)
	between("signs with signs", RERANKED, 0.299, 0.302)
	# 0.2930 and 0.2777: rotated, b1 is within 0.02 of f32
	between("MaxSim b1, rotated", NDCG, 0.288, 0.298)
	between("MaxSim b1, rotated", FOUND100, 0.86, 0.88)
	between("MaxSim b1, rotated", RERANKED, 0.300, 0.302)
	between("MaxSim b1, rotated", BYTES, row["MaxSim b1", BYTES], row["MaxSim b1", BYTES])
	between("signs with signs, rotated", NDCG, 0.273, 0.283)
	between("signs with signs, rotated", FOUND100, 0.81, 0.84)
	between("signs with signs, rotated", RERANKED, 0.300, 0.302)
	# a token of 100 dimensions has 104 bytes and 13; 12 to 16 of a header count
	tokens = (row["exact MaxSim, plain", BYTES] - 12) / 400
	between("MaxSim i8", BYTES, tokens * 104 + 11, tokens * 104 + 17)
	between("MaxSim b1", BYTES, tokens * 13 + 11, tokens * 13 + 17)

	# MaxSim as it is here, 0.3012, cannot keep what a better way has put first.  Beside that
	# its best 100 get no worse in the order of MaxSim.
	for (i = 1; i <= n; i++)
		if (row[ways[i], RERANKED] != "-")
			between(ways[i], RERANKED, (row[ways[i], NDCG] < 0.3012 ? row[ways[i], NDCG] : 0.3012) - 0.015, 1)
	printf "%d passed, %d failed\n", passed, failed
	exit failed > 0
}' <<<"$results"
