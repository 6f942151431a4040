-- Heat maps of a page of patches as SVG: psql -f examples/heatmap/heatmap.sql.

SET client_min_messages = warning;
CREATE SCHEMA IF NOT EXISTS heatmap;
RESET client_min_messages;

-- Each patch as hot as it is similar to a token of the query, with a frame around the best
-- patch of each token.
--
--	query			token vectors
--	patches			one vector a patch, row by row from the top left, and nothing else: see
--					README.md for the models that add tokens of their own
--	columns			patches in a row
--	query_token		counted from 1; NULL: all of them, a patch being as hot as its best one
--	image			address of the page's image, drawn below; NULL: white
--	size			pixels of a patch
CREATE OR REPLACE FUNCTION heatmap.svg(query multivec, patches multivec, columns integer, query_token integer DEFAULT NULL,
									   image text DEFAULT NULL, size integer DEFAULT 16) RETURNS text
	LANGUAGE sql STABLE
AS $$
	WITH similarities AS MATERIALIZED (
		SELECT s.query_token, s.doc_token - 1 AS patch, s.similarity FROM maxsim_similarities(query, patches) AS s
		WHERE svg.query_token IS NULL OR s.query_token = svg.query_token
	),
	heat AS (
		SELECT patch, max(similarity) AS heat FROM similarities GROUP BY patch
	),
	-- from the coldest patch to the hottest
	scaled AS (
		SELECT patch, coalesce((heat - min(heat) OVER ()) / nullif(max(heat) OVER () - min(heat) OVER (), 0), 0) AS share FROM heat
	),
	best AS (
		SELECT DISTINCT ON (query_token) * FROM similarities ORDER BY query_token, similarity DESC, patch
	),
	page AS (
		SELECT columns AS width, (multivec_ntokens(patches) + columns - 1) / columns AS height,
			   replace(replace(replace(image, '&', '&amp;'), '<', '&lt;'), '"', '&quot;') AS address
	)
	SELECT concat_ws(E'\n',
		format('<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" shape-rendering="crispEdges">',
			   width * size, height * size, width, height),
		CASE WHEN image IS NULL THEN format('<rect width="%s" height="%s" fill="#ffffff"/>', width, height)
			 ELSE format('<image href="%s" width="%s" height="%s" preserveAspectRatio="none"/>', address, width, height) END,
		'<g fill="#cf222e">',
		(SELECT string_agg(format('<rect x="%s" y="%s" width="1" height="1" fill-opacity="%s"/>',
								  patch % columns, patch / columns, round(share::numeric, 2)), E'\n' ORDER BY patch) FROM scaled),
		'</g>',
		'<g fill="none" stroke="#0969da" stroke-width="0.2">',
		(SELECT string_agg(format('<rect x="%s" y="%s" width="1" height="1"><title>query token %s: row %s, column %s, similarity %s</title></rect>',
								  patch % columns, patch / columns, best.query_token, patch / columns + 1, patch % columns + 1,
								  round(similarity::numeric, 3)), E'\n' ORDER BY best.query_token) FROM best),
		'</g>',
		'</svg>')
	FROM page
$$;
COMMENT ON FUNCTION heatmap.svg(multivec, multivec, integer, integer, text, integer) IS 'SVG of patches, columns in a row, each as red as it is similar to query_token, or to its best token of query; image: address of what to draw below; size: pixels of a patch';
