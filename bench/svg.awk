# svg.awk
#	What the charts share: they put text and bars onto a page, and print it at the end.
#	The colours suit a light and a dark page.

function text(x, y, anchor, class, string)
{
	body = body sprintf("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">%s</text>\n", x, y, anchor, class, string)
}

function bar(x, y, width, height, class)
{
	body = body sprintf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" class=\"%s\"/>\n", x, y, width, height, class)
}

function page(title, width, height)
{
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n", width, height, width, height
	print "<title>" title "</title>"
	print "<style>"
	print "text { font: 13px system-ui, -apple-system, \"Segoe UI\", Helvetica, Arial, sans-serif; fill: #768390 }"
	print ".title { font-weight: 600; font-size: 14px } .note { font-size: 12px } .value { font-weight: 600 }"
	print ".other { fill: #8b949e } .own { fill: #2da44e } .detoast { fill: #d29922 } .engine { fill: #2f81f7 } .rest { fill: #a371f7 }"
	print "</style>"
	printf "%s</svg>\n", body
}
