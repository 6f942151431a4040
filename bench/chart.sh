#!/bin/bash
#
# chart.sh
#	Draws bench/results/chart.svg of the results beside it: microseconds a document.
#
# The first panel compares what a database can do; beside pgvector's function
# nothing else is more than a stub, so the second one shows the rest at a scale of
# its own.  The third compares engines without a database.  What has not been
# measured is left out.  The colours suit a light and a dark page.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/results"

files=()
for file in pgvector.txt sql.txt peers.txt; do
	[[ ! -f $file ]] || files+=("$file")
done
[[ ${#files[@]} -gt 0 ]] || exit 0

# shellcheck disable=SC2016 # awk's own dollars
awk -F '\t' "$(cat ../svg.awk)"'
# A row: its label and its parts, as microseconds and class in turn.
function row(label, parts,    n, part, i, x, total)
{
	n = split(parts, part, " ")
	x = LEFT
	for (i = 1; i < n; i += 2)
	{
		bar(x, y, part[i] * scale, HEIGHT, part[i + 1])
		x += part[i] * scale
		total += part[i]
	}
	text(LEFT - 10, y + 14, "end", "label", label)
	text(x + 6, y + 14, "start", "value", total < 100 ? sprintf("%.1f", total) : sprintf("%.0f", total))
	y += HEIGHT + GAP
}

# Detoasting, the engine, and what is left of the total.
function stack(key, mode,    detoast, engine, rest)
{
	detoast = us[key, "detoast"]
	engine = us[key, "engine_hot"]
	rest = us[key, mode] - detoast - engine
	return sprintf("%s detoast %s engine %s rest", detoast, engine, rest > 0 ? rest : 0)
}

function panel(title, largest)
{
	text(LEFT, y + 14, "start", "title", title)
	y += 28
	scale = (WIDTH - LEFT - 60) / largest
}

function legend(x, class, label)
{
	bar(x, y, 12, HEIGHT, class)
	text(x + 18, y + 14, "start", "label", label)
}

BEGIN { WIDTH = 760; LEFT = 240; HEIGHT = 18; GAP = 8; own["avx512"]; own["avx2"]; own["neon"] }

/^#/ || $7 == "-" { next }

FILENAME == "peers.txt" && $4 == "32x300x128" && $2 !~ /list|portable/ { names[++npeers] = $2; peer[$2] = $7; if ($7 > largest) largest = $7 }

$4 != "32x128x128" { next }

FILENAME == "pgvector.txt" { pgvector[$2 == "pgvector" ? $2 : $5 " " $3] = $7 }
FILENAME == "sql.txt" { us[$1 " " $3, $5] = $7 }

END {
	y = 16
	if ("pgvector" in pgvector)
	{
		panel("Microseconds a document, in the database", pgvector["pgvector"])
		row("pgvector, SQL function, f32", pgvector["pgvector"] " other")
		row("maxsim(), row by row, f16", pgvector["per_row f16"] " own")
		row("maxsim_rerank(), f16", pgvector["rerank f16"] " own")
		y += 14
	}
	if (("rerank_1000 array", "rerank") in us)
	{
		panel("At a larger scale: where the time goes", us["rerank_1000 array", "rerank"])
		row("maxsim(), row by row, f16", stack("rerank_1000 f16", "per_row"))
		row("maxsim_rerank(), f16", stack("rerank_1000 f16", "rerank"))
		row("maxsim_rerank(), bf16", stack("rerank_1000 bf16", "rerank"))
		row("maxsim_rerank(), f32", stack("rerank_1000 f32", "rerank"))
		row("maxsim_rerank(), real[]", stack("rerank_1000 array", "rerank"))
		y += 6
		legend(LEFT, "detoast", "fetching (detoast)")
		legend(LEFT + 150, "engine", "engine")
		legend(LEFT + 230, "rest", "the rest")
		y += HEIGHT + GAP + 14
	}
	if (npeers > 0)
	{
		panel("Engines alone, documents of 300 tokens, f32", largest)
		for (i = 1; i <= npeers; i++)
			row((names[i] in own ? "flash_maxsim, " : "") names[i], peer[names[i]] (names[i] in own ? " engine" : " other"))
	}
	text(WIDTH - 10, y + 18, "end", "note", "32 query tokens, documents of 128 tokens unless said, 128 dimensions; one core; shorter is better")
	page("Microseconds a document by system", WIDTH, y + 28)
}' "${files[@]}" >chart.svg
