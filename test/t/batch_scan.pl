# Random statements with maxsim() on random tables: what they answer is the same whether
# plans score in batches or call the function for each row.  SEED in the environment
# repeats a run; ROUNDS sets how many sets of tables there are.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

my $seed = $ENV{SEED} // (time ^ $$);
my $rounds = $ENV{ROUNDS} // 24;
my $statements = 60;    # a round
srand($seed);
note("SEED=$seed ROUNDS=$rounds");

my $node = server('node', 'jit = off', 'max_worker_processes = 16', 'max_parallel_workers = 4', 'max_prepared_transactions = 0',
	'flash_maxsim.slots = 6', 'flash_maxsim.slot_size = 1MB', 'flash_maxsim.host_cache_size = 16MB', 'fsync = off', 'work_mem = 1MB');
$node->safe_psql('postgres', 'CREATE EXTENSION flash_maxsim; CREATE ROLE reader');
ok(await_ready($node), 'the scorer is ready');

sub pick { return $_[ rand @_ ] }

# --- tables ------------------------------------------------------------------------

sub tokens
{
	my ($n, $dim, $open, $close) = @_;
	my $repeated = rand() < 0.2;    # so that it compresses

	return $open . join(',', map { $open . join(',', $repeated ? (1) x $dim : map { int(rand 9) - 4 } 1 .. $dim) . $close } 1 .. $n) . $close;
}

sub document
{
	my ($type, $dim) = @_;
	my @braces = $type =~ /\[\]/ ? ('{', '}') : ('[', ']');
	my $n = pick(0, 1, 1, 2, 3, 5, 8, 40);

	return 'NULL' if rand() < 0.07;
	return "'" . ($n ? tokens($n, $dim, @braces) : join('', @braces)) . "'::$type";
}

# The tables of a round, in a schema of their own: docs(id, grp, d, e, wide, gen), broad with more columns, queries(qid, q), other(oid, doc_id, w).
sub tables
{
	my ($round) = @_;
	my $dim = pick(1, 3, 8, 16);
	my $type = pick('multivec', 'multivec', "multivec($dim)", "multivec($dim, f16)", "multivec($dim, bf16)", "multivec($dim, i8)", "multivec($dim, b1)", 'real[]', 'double precision[]');
	my $rows = pick(12, 40, 150, 300);
	my $kind = pick('plain', 'plain', 'plain', 'keyless', 'list', 'range', 'hash', 'inherited', 'unlogged');
	my $columns = "gone int, id int NOT NULL, grp int, d $type, junk text, e multivec, wide text" . ($kind =~ /list|range|hash/ ? ', gen int' : ', gen int GENERATED ALWAYS AS (id * 2) STORED');
	my $storage = pick('EXTERNAL', 'EXTENDED', 'MAIN');
	my $sql = "CREATE SCHEMA s$round; SET search_path = s$round, public;\n";
	my @leaves = ('docs');

	$sql .= 'CREATE ' . ($kind eq 'unlogged' ? 'UNLOGGED ' : '') . "TABLE docs ($columns)";
	if ($kind eq 'list' || $kind eq 'range' || $kind eq 'hash')
	{
		@leaves = map { "docs$_" } 0 .. 2;
		$sql .= ' PARTITION BY ' . uc($kind) . ($kind eq 'hash' ? ' (id)' : ' (grp)') . ";\n";
		my @bounds = $kind eq 'list' ? ('FOR VALUES IN (0, 1)', 'FOR VALUES IN (2)', 'DEFAULT')
		  : $kind eq 'range' ? ('FOR VALUES FROM (MINVALUE) TO (1)', 'FOR VALUES FROM (1) TO (3)', 'DEFAULT')
		  : map { "FOR VALUES WITH (MODULUS 3, REMAINDER $_)" } 0 .. 2;
		$sql .= "CREATE TABLE docs$_ PARTITION OF docs $bounds[$_];\n" for 0 .. 2;
	}
	elsif ($kind eq 'inherited')
	{
		@leaves = ('docs', 'docs_child');
		$sql .= ";\nCREATE TABLE docs_child (extra int DEFAULT 7) INHERITS (docs);\n";
	}
	else { $sql .= ";\n" }
	$sql .= "ALTER TABLE docs DROP gone, DROP junk;\n";
	foreach my $leaf (@leaves)
	{
		$sql .= "ALTER TABLE $leaf ALTER d SET STORAGE $storage, ALTER e SET STORAGE EXTERNAL;\n";
		$sql .= "ALTER TABLE $leaf SET (toast_tuple_target = " . pick(128, 2040) . ', parallel_workers = 2, autovacuum_enabled = off);' . "\n";
	}
	$sql .= "ALTER TABLE docs ADD PRIMARY KEY (id);\n" if $kind =~ /plain|hash|unlogged/;

	my (@values, %made);
	foreach my $id (1 .. $rows)
	{
		# some documents come again, for ties
		my $d = rand() < 0.2 && %made ? $made{ pick(sort { $a <=> $b } keys %made) } : document($type, $dim);
		my $e = rand() < 0.5 ? document('multivec', $dim) : document("multivec($dim, " . pick('f16', 'i8', 'b1') . ')', $dim);
		my $wide = rand() < 0.1 ? "repeat(md5('$id'), 200)" : rand() < 0.1 ? 'NULL' : "'w$id'";
		my $generated = $kind =~ /list|range|hash/ ? ', ' . 2 * $id : '';
		$made{$id} = $d;
		push @values, "($id, " . (rand() < 0.05 && $kind eq 'plain' ? 'NULL' : int rand 5) . ", $d, $e, $wide$generated)";
	}
	my $names = 'id, grp, d, e, wide' . ($kind =~ /list|range|hash/ ? ', gen' : '');
	my @child = $kind eq 'inherited' ? splice(@values, 0, @values / 2) : ();
	$sql .= "INSERT INTO docs ($names) VALUES " . join(', ', @values) . ";\n";
	$sql .= "INSERT INTO docs_child ($names) VALUES " . join(', ', @child) . ";\n" if @child;
	# weights without errors: the first one is never 0
	# an array that PL/pgSQL has assigned to reaches the scan as a pointer to memory
	my $w = 'CASE WHEN i > 1 AND (i + k) % 3 = 0 THEN 0 ELSE (i * 7 + k) % 5 + 0.5 END';
	$sql .= 'CREATE FUNCTION w_of(q multivec, k int) RETURNS double precision[] IMMUTABLE STRICT PARALLEL SAFE ' . pick(
		"LANGUAGE sql AS 'SELECT array_agg($w ORDER BY i) FROM generate_series(1, multivec_ntokens(q)) i'",
		"LANGUAGE plpgsql AS 'DECLARE w double precision[]; BEGIN FOR i IN 1 .. multivec_ntokens(q) LOOP w[i] := $w; END LOOP; RETURN w; END'") . ";\n";
	# without dropped columns a scan of it need not make new rows
	$sql .= "CREATE TABLE broad (id int PRIMARY KEY, wide text, e multivec, grp int, d $type, gen int GENERATED ALWAYS AS (id * 3) STORED, more text, note int[]);\n";
	$sql .= "ALTER TABLE broad ALTER d SET STORAGE $storage, ALTER e SET STORAGE EXTERNAL;\n";
	$sql .= "INSERT INTO broad (id, wide, e, grp, d, more, note) SELECT id, wide, e, grp, d, repeat('m', id % 90), ARRAY[id, grp] FROM docs;\n";
	$sql .= "CREATE TABLE queries (qid int PRIMARY KEY, q multivec, w double precision[]);\nINSERT INTO queries (qid, q) VALUES "
	  . join(', ', map { "($_, " . ($_ == 5 ? 'NULL' : "'" . tokens(pick(1, 3, 7), $dim, '[', ']') . "'") . ')' } 1 .. 5) . ";\n";
	$sql .= "UPDATE queries SET w = w_of(q, qid) WHERE qid <> 4;\n";
	$sql .= "CREATE TABLE other (oid int PRIMARY KEY, doc_id int, w int);\nINSERT INTO other SELECT i, 1 + i * 7 % $rows, i % 10 FROM generate_series(1, 200) i;\n";
	$sql .= "CREATE VIEW v AS SELECT id, grp, d, e, gen FROM docs WHERE id % 4 <> 0;\n";
	$sql .= "CREATE VIEW scored AS SELECT id, grp, maxsim((SELECT q FROM queries WHERE qid = 1), d) AS s FROM docs;\n";
	$sql .= "CREATE VIEW sv WITH (security_barrier) AS SELECT id, grp, d, e, gen FROM docs WHERE grp > 0;\n";
	$sql .= "CREATE TABLE rls AS SELECT id, grp, d, e, gen FROM docs;\nALTER TABLE rls ENABLE ROW LEVEL SECURITY;\nCREATE POLICY p ON rls TO reader USING (id % 3 = 0);\n";
	$sql .= "CREATE TABLE sink (id int, s real);\n";
	# functions that ask for some of a statement's rows; a document of another dimension is
	# an error, which the rows before it do not meet
	$sql .= "CREATE TABLE bad AS SELECT i AS id, (CASE WHEN i = 40 THEN '[[1,2,3,4,5]]' ELSE '" . tokens(2, $dim, '[', ']') . "' END)::multivec AS d, i % 3 AS grp FROM generate_series(1, 80) i;\n";
	$sql .= "CREATE FUNCTION first_score() RETURNS real LANGUAGE sql AS 'SELECT maxsim((SELECT q FROM queries WHERE qid = 2), d) FROM bad';\n";
	$sql .= "CREATE FUNCTION first_into() RETURNS real LANGUAGE plpgsql AS 'DECLARE s real; BEGIN SELECT maxsim(q, d) INTO s FROM bad, (SELECT q FROM queries WHERE qid = 2 OFFSET 0) x; RETURN s; END';\n";
	$sql .= "CREATE FUNCTION few() RETURNS real LANGUAGE plpgsql AS 'DECLARE s real; n int := 0; t real := 0; BEGIN FOR s IN SELECT maxsim((SELECT q FROM queries WHERE qid = 3), d) FROM bad LOOP t := t + s; n := n + 1; EXIT WHEN n = 5; END LOOP; RETURN t; END';\n";
	$sql .= "CREATE FUNCTION all_scores() RETURNS SETOF real LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT maxsim((SELECT q FROM queries WHERE qid = 3), d) FROM docs ORDER BY 1, id; END';\n";
	$sql .= "GRANT USAGE ON SCHEMA s$round TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA s$round TO reader;\nANALYZE;\n";
	return { sql => $sql, dim => $dim, type => $type, rows => $rows, kind => $kind, braces => $type };
}

# --- statements ----------------------------------------------------------------------

sub query_of
{
	my ($t) = @_;
	my $r = rand;

	return "'" . tokens(pick(1, 2, 5), $t->{dim}, '[', ']') . "'::multivec" if $r < 0.45;
	return '(SELECT q FROM queries WHERE qid = ' . pick(1 .. 4) . ')' if $r < 0.9;
	return '(SELECT q FROM queries WHERE qid = ' . pick(5, 9) . ')' if $r < 0.95;    # NULL
	return pick("'[]'::multivec", "'" . tokens(1, $t->{dim} + 1, '[', ']') . "'::multivec", 'NULL::multivec');    # errors
}

sub call
{
	my ($t, $q, $alias) = @_;
	my $a = defined $alias ? "$alias." : '';
	my $function = pick('maxsim', 'maxsim', 'maxsim', 'maxsim_mean', 'maxsim_cosine');

	$q //= query_of($t);
	return "$function($q, $a" . pick('d', 'd', 'd', 'e') . (rand() < 0.3 ? ", w_of($q, " . pick(0, 1, 2, "${a}id", "${a}id / 20") . ')' : '') . ')';
}

sub expression
{
	my ($t, $alias) = @_;
	my $call = call($t, undef, $alias);
	my $a = defined $alias ? "$alias." : '';

	return pick($call, $call, $call, "1 - $call", "$call\::numeric", "$call\::text", "CASE WHEN ${a}id % 2 = 0 THEN $call END", "COALESCE($call, -1)", "COALESCE($call, length(${a}wide))", "CASE WHEN $call > 1 THEN ${a}wide ELSE $call\::text END",
		"CASE ($call)::int WHEN 1 THEN ${a}grp WHEN ${a}grp THEN 100 / (1 + ${a}grp) ELSE length(${a}wide) END",
		"$call + " . call($t, undef, $alias), "$call > 3", "$call IS NULL", "NULLIF($call, 2)", "greatest($call, 1)", "row($call, ${a}id)", "ARRAY[$call]",
		"$call > 0 OR ${a}id % 3 = 0", "abs($call)", "($call, ${a}grp) IS NULL");
}

# A condition, or conditions, without a join.
sub unjoined { return $_[0] =~ s/ AND EXISTS \(.*?doc_id = (\w+\.)?id\)//r }

sub order { return pick('', ' ASC', ' DESC', ' DESC NULLS LAST', ' NULLS FIRST') }
sub limit { return pick('', ' LIMIT 5', ' LIMIT 10', ' LIMIT 1', ' LIMIT 7 OFFSET 3', ' OFFSET 4', ' LIMIT 0', ' FETCH FIRST 6 ROWS WITH TIES', ' LIMIT (SELECT 4)') }

# A condition with a call, of a table's row.
sub condition
{
	my ($t, $alias) = @_;
	my $a = defined $alias ? "$alias." : '';
	my $call = call($t, undef, $alias);

	return pick("$call > 2", "$call IS NOT NULL", "$call BETWEEN -3 AND 6", "NOT ($call < 2)", "($call > 0) IS NOT TRUE", "$call = ANY (ARRAY[0, 1, 2, 3, 4]::real[])",
		"$call > 3 OR ${a}id % 3 = 0", "${a}id % 3 = 0 OR $call > 3", "COALESCE($call, 5) > 2", "COALESCE(${a}grp, $call) > 2", "NULLIF($call, 2) < 4",
		"CASE WHEN $call > 1 THEN ${a}grp > 1 ELSE ${a}wide IS NULL END", "CASE ${a}grp WHEN 1 THEN $call > 2 ELSE true END", "$call > " . call($t, undef, $alias),
		"$call > 1 AND 1000 / ($call + 1000)::int >= 0", "$call < (SELECT 5)", "$call > 1 AND EXISTS (SELECT 1 FROM other WHERE doc_id = ${a}id)");
}

sub where
{
	my ($t, $alias) = @_;
	my $a = defined $alias ? "$alias." : '';
	my $plain = pick('', '', '', "${a}id % 2 = 1", "${a}grp = 1", "${a}grp IN (0, 3)", "${a}id < 70", 'false', "${a}d IS NOT NULL", "${a}gen > 20");
	my @conditions = (($plain ne '' ? $plain : ()), (rand() < 0.25 ? condition($t, $alias) : ()));

	return @conditions ? ' WHERE ' . join(' AND ', rand() < 0.5 ? @conditions : reverse @conditions) : '';
}

sub from { return pick('docs', 'docs', 'docs', 'docs', 'v', 'sv', 'rls') }

# Aggregates of a table x: of scores, and of all that else a row has.
sub aggregates
{
	my ($t, $q) = @_;
	my $m = call($t, $q, 'x');
	my @all = ("max($m)", "count($m)", 'min(' . call($t, undef, 'x') . ')', "max($m + x.grp)", "bool_or($m > x.gen)", "count(DISTINCT $m)",
		"max($m) FILTER (WHERE x.grp > 1)", "max(x.id) FILTER (WHERE $m > 2)", 'count(*) FILTER (WHERE x.gen % 4 = 0)', "max(CASE WHEN x.grp = 1 THEN $m END)",
		"sum(COALESCE($m, length(x.wide))::numeric)", "max(CASE WHEN $m > 1 THEN x.wide END)", "bool_and($m > 0 OR x.gen > 9)",
		"string_agg(x.wide, ',' ORDER BY $m, x.id)", 'array_agg(x.id ORDER BY x.gen DESC, x.id)', "percentile_disc(0.5) WITHIN GROUP (ORDER BY $m)",
		'count(x)', 'count(x.*)', 'max(x::text)', 'min(row_to_json(x)::text)', 'max(x.ctid::text)', 'min(x.tableoid::regclass::text)', 'count(x.xmin)',
		'sum(x.gen)', 'count(x.e)', 'max(x.d::text)', 'max(length(x.wide))', 'count(DISTINCT x.wide)', 'sum(multivec_ntokens(x.e))', 'sum(x.id)');

	return join(', ', rand() < 0.8 ? "max($m)" : (), map { pick(@all) } 1 .. pick(1, 2, 4));
}

# An aggregation of a table, and whether its rows are in order.
sub aggregation
{
	my ($t) = @_;
	my ($q, $w, $table) = (query_of($t), where($t, 'x'), pick('docs', 'broad', 'broad', 'broad'));
	my $aggregates = aggregates($t, $q);
	my $m = call($t, $q, 'x');
	my $group = pick('grp', 'gen', 'id % 3, grp', 'wide', 'd::text', 'length(wide), grp', 'id, wide, e::text');
	my $sets = pick('ROLLUP (grp, gen)', 'CUBE (grp, gen, wide)', 'GROUPING SETS ((id), (grp, gen), (wide), ())', 'GROUPING SETS (CUBE (grp, gen), ROLLUP (wide, id))');
	my $having = pick("max($m) > 2", 'count(x.e) > 1', 'sum(x.gen) % 4 = 0', "max($m) > min(length(x.wide))", 'count(x) > 2 AND bool_or(x.id > 5)', "min(row_to_json(x)::text) > 'a'");
	my @forms = (
		sub { ("SELECT $aggregates FROM $table x$w", 1) },
		sub { ("SELECT $aggregates, (SELECT count(*) FROM other WHERE w = max(x.grp)) FROM $table x$w", 1) },
		sub { ("SELECT $group, $aggregates FROM $table x$w GROUP BY $group", 0) },
		sub { ("SELECT $group, $aggregates FROM $table x$w GROUP BY $group HAVING $having", 0) },
		sub { ("SELECT $aggregates FROM $table x$w GROUP BY $group ORDER BY max($m), $group", 1) },
		sub { ("SELECT $aggregates FROM $table x$w GROUP BY $group", 0) },
		sub { ("SELECT $aggregates FROM $table x$w GROUP BY $sets", 0) },
		sub { ("SELECT GROUPING(grp, gen), $aggregates FROM $table x$w GROUP BY $sets", 0) },
		sub { ("SELECT x.wide, x.id, x.gen, x.e, max($m) FROM broad x$w GROUP BY id", 0) },
		sub { ("SELECT x, $aggregates FROM broad x$w GROUP BY id", 0) },
		sub { ("SELECT o.w, $aggregates FROM $table x JOIN other o ON o.doc_id = x.id GROUP BY o.w", 0) },
		sub { ("SELECT $aggregates FROM (SELECT *, ctid, tableoid, xmin FROM $table x$w ORDER BY grp, id OFFSET 0) x", 1) },
	);
	return $forms[ rand @forms ]->();
}

# A statement, and whether the query says in which order rows come.
sub statement
{
	my ($t) = @_;
	my ($x, $q, $w, $o, $l, $f) = (expression($t), query_of($t), where($t), order(), limit(), from());
	my $m = call($t, $q);
	my $dx = call($t, $q, 'x');
	my $by_id = '(SELECT * FROM docs ORDER BY id OFFSET 0) docs';
	my @forms = (
		sub { ("SELECT id, $m FROM $f$w ORDER BY $m$o, id$l", 1) },
		sub { ("SELECT id FROM $f$w ORDER BY $m$o, id$l", 1) },
		sub { ("SELECT id, $m AS s, $x FROM $f$w ORDER BY s$o, id$l", 1) },
		sub { ("SELECT *, $m AS s FROM docs$w ORDER BY s$o, grp, id$l", 1) },
		sub { ("SELECT id, $x, " . expression($t) . ", length(wide) FROM docs$w", 0) },
		sub { ("SELECT id, d, $m FROM docs$w ORDER BY 3$o, id$l", 1) },
		sub { ("SELECT id, " . join(', ', map { call($t) } 1 .. pick(3, 4, 5, 6)) . " FROM docs$w", 0) },
		sub { ("SELECT x.id, $dx FROM docs x JOIN other o ON o.doc_id = x.id WHERE o.w < 4 ORDER BY $dx$o, x.id, o.oid$l", 1) },
		sub { ("SELECT x.id, o.oid, $dx, " . expression($t, 'x') . " FROM docs x LEFT JOIN other o ON o.doc_id = x.id", 0) },
		sub { ("SELECT x.id, o.oid, x.wide FROM docs x LEFT JOIN other o ON o.doc_id = x.id WHERE COALESCE($dx, o.w) > 2 AND " . condition($t, 'x'), 0) },
		sub { ("SELECT x.id, y.id, maxsim(x.e, y.d) FROM docs x JOIN docs y ON y.grp = x.grp WHERE multivec_ntokens(x.e) > 0 AND maxsim(x.e, y.d) > 2", 0) },
		sub { ("SELECT id, $x, generate_series(1, 2) FROM $f WHERE " . condition($t), 0) },
		sub { ("SELECT o.oid, s.s FROM other o LEFT JOIN (SELECT id, $x AS s FROM docs OFFSET 0) s ON s.id = o.doc_id", 0) },
		sub { ("SELECT o.oid, s.id, s.s FROM (SELECT id, $x AS s FROM docs) s FULL JOIN other o ON s.id = o.doc_id", 0) },
		sub { ("SELECT qid, b.* FROM queries, LATERAL (SELECT id, maxsim(q, d) AS s FROM docs$w ORDER BY s$o, id LIMIT 4) b ORDER BY qid, 3$o, 2", 1) },
		sub { ("SELECT qid, b.* FROM queries LEFT JOIN LATERAL (SELECT max(maxsim(q, d)), count(*), sum(1 - maxsim(q, e)) FROM docs$w) b ON true ORDER BY qid", 1) },
		sub { ("SELECT qid, id, maxsim(q, d) FROM docs, queries$w", 0) },
		sub { ("SELECT qid, id, maxsim(q, d) AS s FROM queries, docs WHERE qid < 4 ORDER BY s$o, qid, id$l", 1) },
		sub { ("SELECT qid, grp, max(maxsim(q, d)), count(maxsim(q, e)), min($m) FROM queries, docs GROUP BY qid, grp ORDER BY qid, grp", 1) },
		sub { ("SELECT qid, id, s FROM (SELECT * FROM queries ORDER BY qid OFFSET 0) q, LATERAL (SELECT id, maxsim(q, d) + maxsim(q, e) AS s FROM docs$w) x ORDER BY s$o, qid, id$l", 1) },
		sub { ("SELECT x.id, y.id, maxsim(x.e, y.d), maxsim(y.e, x.e), x.e FROM docs x JOIN docs y ON y.grp = x.grp WHERE multivec_ntokens(x.e) > 0 AND multivec_ntokens(y.e) > 0 AND x.id < 20", 0) },
		sub { ("SELECT id, maxsim(multivec_slice(q, 1, 1), d) AS s FROM docs, queries WHERE qid < 3 ORDER BY s$o, id, qid$l", 1) },
		sub { ("SELECT id, maxsim(q, d) AS s FROM docs, queries WHERE qid = 2 ORDER BY s$o, id$l", 1) },
		sub { ("SELECT qid, (SELECT max(maxsim(q, d)) FROM docs$w), (SELECT id FROM docs ORDER BY maxsim(q, e) DESC NULLS LAST, id LIMIT 1) FROM queries ORDER BY 1", 1) },
		sub { ("SELECT * FROM (SELECT id, $m AS s FROM docs) x WHERE s > 1 ORDER BY s$o, id$l", 1) },
		sub { ("WITH c AS " . pick('MATERIALIZED', 'NOT MATERIALIZED') . " (SELECT id, grp, $m AS s FROM docs$w) SELECT a.id, a.s, b.s FROM c a JOIN c b USING (grp) WHERE a.id <= b.id + 2 ORDER BY a.s$o, a.id, b.id$l", 1) },
		sub { ("WITH c AS MATERIALIZED (SELECT id, d, e FROM docs$w) SELECT id, $x FROM c", 0) },
		sub { ("SELECT * FROM scored ORDER BY s$o, id$l", 1) },
		sub { ("SELECT grp, count(*), max(s), min(s) FROM scored GROUP BY grp ORDER BY grp", 1) },
		sub { ("(SELECT id, $m AS s FROM docs$w) UNION ALL (SELECT id, " . call($t) . " FROM v) ORDER BY 2$o, 1$l", 1) },
		# not UNION: PostgreSQL 17.12 and 18 fail to plan some with parallel workers, of any functions ("unrecognized node type: 0")
		sub { ("SELECT DISTINCT * FROM (SELECT id, $m FROM docs$w UNION ALL SELECT oid, w FROM other) u", 0) },
		sub { ("SELECT ($m)::int FROM docs INTERSECT SELECT w FROM other", 0) },
		sub { ("SELECT grp, max($m), count($m), min(1 - $m), count(*) FROM $f$w GROUP BY grp ORDER BY grp", 1) },
		sub { ("SELECT max($m), sum(($m)::numeric), count(DISTINCT $m), count(*) FILTER (WHERE $m > 2), max($m) FILTER (WHERE id % 2 = 0) FROM $f$w", 1) },
		sub { ("SELECT grp, array_agg(id ORDER BY $m$o, id), string_agg(id::text, ',' ORDER BY $m, id) FROM docs$w GROUP BY grp ORDER BY grp", 1) },
		sub { ("SELECT grp, max($x) FROM docs GROUP BY grp HAVING max($m) > 2 ORDER BY grp", 1) },
		sub { ("SELECT grp, id % 2, max($m) FROM docs GROUP BY " . pick('ROLLUP', 'CUBE') . " (grp, id % 2) ORDER BY 1, 2, 3", 1) },
		sub { ("SELECT $m AS s, count(*) FROM docs GROUP BY $m ORDER BY 1$o", 1) },
		sub { ("SELECT id, $m, rank() OVER (ORDER BY $m$o), row_number() OVER (PARTITION BY grp ORDER BY $m, id), sum($m) OVER (ORDER BY id) FROM docs$w", 0) },
		sub { ("SELECT * FROM (SELECT id, row_number() OVER (ORDER BY $m$o, id) n FROM docs) x WHERE n <= 5 ORDER BY n", 1) },
		sub { ("SELECT * FROM (SELECT id, s, row_number() OVER (ORDER BY id) n FROM (SELECT id, $m AS s FROM docs ORDER BY id OFFSET 0) y) x WHERE n <= 5 ORDER BY n", 1) },
		sub { ("BEGIN; INSERT INTO sink SELECT id, $m FROM docs$w; SELECT * FROM sink; ROLLBACK", 0) },
		sub { ("BEGIN; INSERT INTO sink SELECT id, $m FROM docs$w ORDER BY $m$o, id LIMIT 6 RETURNING *; ROLLBACK", 1) },
		sub { ("BEGIN; CREATE TABLE made AS SELECT id, $m AS s, d FROM docs$w; SELECT * FROM made; ROLLBACK", 0) },
		sub { ("BEGIN; CREATE MATERIALIZED VIEW made AS SELECT id, $m AS s FROM docs ORDER BY s$o, id LIMIT 9; SELECT * FROM made; ROLLBACK", 0) },
		sub { ("BEGIN; UPDATE docs SET wide = s.s::text FROM (SELECT id, $m AS s FROM docs ORDER BY s$o, id LIMIT 6) s WHERE s.id = docs.id; SELECT id, wide FROM docs; ROLLBACK", 0) },
		sub { ("BEGIN; UPDATE docs SET d = e" . ($t->{type} =~ /\[\]/ ? '::real[]' : '') . " WHERE id % 3 = 0; DELETE FROM docs WHERE id % 7 = 1; SELECT id, $m FROM docs ORDER BY 2$o, 1$l; ROLLBACK", 1) },
		sub { ("BEGIN; WITH u AS (UPDATE docs SET wide = $m\::text WHERE id % 2 = 0 RETURNING id, wide) SELECT u.*, $dx FROM u JOIN docs x USING (id); ROLLBACK", 0) },
		sub { ("BEGIN; DELETE FROM docs WHERE id IN (SELECT id FROM docs ORDER BY $m$o, id LIMIT 3) RETURNING id; ROLLBACK", 0) },
		sub { ("BEGIN; SELECT id, $m FROM docs$w ORDER BY 2$o, 1 LIMIT 5 FOR UPDATE; ROLLBACK", 1) },
		sub { ("SELECT oid FROM other o WHERE EXISTS (SELECT 1 FROM docs x WHERE x.id = o.doc_id AND $dx > 2)", 0) },
		sub { ("SELECT oid FROM other WHERE doc_id IN (SELECT id FROM docs ORDER BY $m$o, id LIMIT 8)", 0) },
		sub { ("SELECT oid FROM other WHERE w " . pick('IN', 'NOT IN') . " (SELECT $m FROM docs)", 0) },
		sub { ("SELECT DISTINCT ON (grp) grp, id, $m FROM docs$w ORDER BY grp, $m$o, id", 1) },
		sub { ("SELECT DISTINCT $m FROM docs$w", 0) },
		sub { ("PREPARE p(multivec, int) AS SELECT id, maxsim(\$1, d) AS s FROM docs WHERE id > \$2 ORDER BY s$o, id$l; EXECUTE p($q, 3); EXECUTE p($q, 30); EXECUTE p(NULL, 0); DEALLOCATE p", 1) },
		sub { ("PREPARE p(multivec, real) AS SELECT grp, max(maxsim(\$1, d)), max(maxsim(\$1, e) * \$2) FROM docs GROUP BY 1 ORDER BY 1; EXECUTE p($q, 2); EXECUTE p(" . query_of($t) . ", 3); DEALLOCATE p", 1) },
		sub { ("BEGIN; DECLARE c " . pick('', 'NO SCROLL') . " CURSOR FOR SELECT id, $m FROM docs$w ORDER BY 2$o, 1; FETCH 3 FROM c; FETCH 80 FROM c; MOVE 2 IN c; FETCH ALL FROM c; ROLLBACK", 1) },
		sub { ("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id, $m FROM docs$w" . pick('', " ORDER BY 2$o, 1") . "; FETCH 5 FROM c; FETCH BACKWARD 3 FROM c; FETCH LAST FROM c; FETCH FIRST FROM c; FETCH ABSOLUTE 4 FROM c; FETCH ALL FROM c; ROLLBACK", 0) },
		sub { ("BEGIN; DECLARE c " . pick('', 'SCROLL') . " CURSOR WITH HOLD FOR SELECT id, $m FROM docs$w ORDER BY 2$o, 1; FETCH 4 FROM c; COMMIT; FETCH 4 FROM c; CLOSE c", 1) },
		sub { ("BEGIN; DECLARE c CURSOR FOR SELECT maxsim((SELECT q FROM queries WHERE qid = 1), d) FROM bad; FETCH 2 FROM c; FETCH 20 FROM c; ROLLBACK", 1) },
		sub { (pick('SELECT first_score()', 'SELECT first_into()', 'SELECT few()', 'SELECT * FROM all_scores()'), 1) },
		sub { ("SELECT id, maxsim((SELECT q FROM queries WHERE qid = 2), d) FROM bad " . pick('LIMIT 3', 'WHERE id < 40', 'WHERE id <> 40 ORDER BY 2, 1 LIMIT 5', 'ORDER BY 2, 1 LIMIT 5', 'OFFSET 5 LIMIT 10'), 1) },
		sub { ("SELECT o.oid, s FROM (SELECT id, maxsim((SELECT q FROM queries WHERE qid = 2), d) AS s FROM bad ORDER BY id OFFSET 0) b JOIN (SELECT * FROM other WHERE oid < 20 ORDER BY oid OFFSET 0) o ON o.oid = b.id", 0) },
		sub { ("SELECT o.oid, s FROM (SELECT id, maxsim((SELECT q FROM queries WHERE qid = 2), d) AS s FROM bad OFFSET 0) b JOIN other o ON o.oid = b.id AND o.w = 99", 0) },
		sub { ("SELECT id, CASE WHEN id <> 40 THEN maxsim((SELECT q FROM queries WHERE qid = 2), d) END AS s FROM bad ORDER BY 2, 1 LIMIT 9", 1) },
		sub { ("SELECT id, n, $m FROM docs, generate_series(1, 2) n$w", 0) },
		sub { ("SELECT id, $m, generate_series(1, 2) FROM docs$w", 0) },
		sub { ("SET ROLE reader; SELECT id, $m FROM rls ORDER BY 2$o, 1$l; RESET ROLE", 1) },
		sub { ("CREATE TEMP TABLE t AS SELECT * FROM docs; ANALYZE t; SELECT id, $m FROM t$w ORDER BY 2$o, 1$l; DROP TABLE t", 1) },
		sub { ("SELECT id, $x FROM docs TABLESAMPLE system (100) REPEATABLE (1)$w", 0) },
		sub { ("SELECT id, $m FROM docs WHERE id = ANY (ARRAY(SELECT doc_id FROM other WHERE w < 5)) ORDER BY 2$o, 1$l", 1) },
		sub { ("SELECT id, $m FROM docs WHERE ctid >= '(0,2)' ORDER BY 2$o, 1", 1) },
		sub { ("WITH RECURSIVE r(n, s) AS (SELECT 1, (SELECT max($m) FROM docs) UNION ALL SELECT n + 1, (SELECT maxsim(q, d) FROM queries, docs WHERE qid = n AND id = n) FROM r WHERE n < 4) SELECT * FROM r", 1) },
		sub { ("SELECT i, maxsim($q, x.d) FROM (SELECT i, CASE WHEN i % 5 > 0 THEN '" . tokens(2, $t->{dim}, '[', ']') . "'::multivec END AS d FROM generate_series(1, 40) i) x", 0) },
		sub { ("SELECT x.id, maxsim(x.e, y.e) FROM docs x JOIN docs y ON y.id = x.id + 1 WHERE multivec_ntokens(x.e) > 0", 0) },
		sub { ("SELECT qid, id, $m, maxsim(q, d) FROM docs JOIN queries ON qid = grp$w", 0) },
		sub { ("SELECT qid, id, maxsim(q, d, w), maxsim_mean(q, e, w), w FROM docs, queries$w", 0) },
		sub { ("SELECT qid, id, " . pick('maxsim', 'maxsim_mean', 'maxsim_cosine') . "(q, d, w) AS s FROM queries, docs WHERE qid <> 5 ORDER BY s$o, qid, id$l", 1) },
		sub { ("SELECT qid, id, maxsim(q, d, CASE WHEN id % 5 > 0 THEN w END), maxsim(q, d), maxsim_mean(q, d) FROM docs, queries$w", 0) },
		sub { ("SELECT qid, grp, max(maxsim(q, d, w)), min(maxsim_cosine(q, e, w)), count(maxsim_mean(q, d)), max(maxsim(q, d, w_of(q, qid))) FROM queries, docs GROUP BY qid, grp ORDER BY qid, grp", 1) },
		sub { ("SELECT qid, b.* FROM queries, LATERAL (SELECT id, maxsim_mean(q, d, w) AS s FROM docs$w ORDER BY s$o, id LIMIT 4) b ORDER BY qid, 3$o, 2", 1) },
		sub { ("SELECT id, s FROM (SELECT id, maxsim($q, d, (SELECT w_of($q, 1) OFFSET 0)) AS s FROM docs) x WHERE s > 1 ORDER BY s$o, id$l", 1) },
		sub { ("SELECT x.id, y.id, maxsim(x.e, y.d, w_of(x.e, y.id)), maxsim_mean(y.e, x.e) FROM docs x JOIN docs y ON y.grp = x.grp WHERE multivec_ntokens(x.e) > 0 AND multivec_ntokens(y.e) > 0 AND x.id < 12", 0) },
		sub { ("PREPARE p(multivec, int) AS SELECT id, maxsim_mean(\$1, d, w_of(\$1, \$2)) AS s FROM docs ORDER BY s$o, id$l; EXECUTE p($q, 3); EXECUTE p($q, 30); EXECUTE p($q, NULL); DEALLOCATE p", 1) },
		# what volatile functions do is done for the same rows, in their order
		# numbers are given in the order of rows, which is that of ids as long as nothing is joined
		sub { ("BEGIN; CREATE SEQUENCE n; SELECT id, nextval('n'), $m + currval('n') FROM $by_id" . unjoined($w) . "; SELECT count(*) FROM (SELECT nextval('n'), wide FROM $by_id WHERE " . unjoined(condition($t)) . " OFFSET 0) x; SELECT last_value FROM n; ROLLBACK", 0) },
		sub { ("BEGIN; CREATE SEQUENCE n; SELECT id, currval('n') FROM $by_id WHERE nextval('n') % 3 > 0 AND " . unjoined(condition($t)) . "; ROLLBACK", 0) },
		sub { ("SELECT id, x, x.ctid FROM docs x WHERE " . condition($t, 'x'), 0) },
		# below an aggregation the scan of broad has all its columns, of which some are used
		(map { \&aggregation } 1 .. 12),
	);
	return $forms[ rand @forms ]->($t);
}

# Settings that make for other plans.
sub planner_settings
{
	my ($sql) = @_;
	my @settings;

	# whether parallel workers reach an error before nobody wants their rows is a matter of luck
	my $parallel = $sql !~ /\bbad\b|first_|few/;

	push @settings, map { "SET $_" } 'min_parallel_table_scan_size = 0', 'min_parallel_index_scan_size = 0', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'max_parallel_workers_per_gather = 2' if rand() < 0.3 && $parallel;
	push @settings, 'SET parallel_leader_participation = off' if rand() < 0.1;
	push @settings, "SET enable_$_ = off" foreach grep { rand() < 0.15 } qw(hashjoin mergejoin nestloop seqscan hashagg sort incremental_sort material memoize bitmapscan indexscan);
	push @settings, 'SET enable_partitionwise_join = on', 'SET enable_partitionwise_aggregate = on' if rand() < 0.3;
	push @settings, "SET plan_cache_mode = " . pick('force_generic_plan', 'force_custom_plan') if rand() < 0.5;
	push @settings, 'SET work_mem = 64' if rand() < 0.1;
	return join('; ', @settings, '');
}

# --- running them ----------------------------------------------------------------------

# What each of the statements prints, errors as SQLSTATEs, and the plan of those that can be explained.
sub answers
{
	my ($server, $schema, $settings, $list, $explain) = @_;
	my ($script, $out, $err) = ("\\set VERBOSITY sqlstate\n", '', '');
	my (@answers, @plans);

	foreach my $n (0 .. $#$list)
	{
		my $s = $list->[$n];

		$script .= "\\echo :$n:\n\\warn :$n:\nDISCARD ALL; SET search_path = $schema, public; $settings; $s->{settings}\n";
		$script .= "\\echo plan\nEXPLAIN (COSTS OFF) $s->{sql};\n\\echo answer\n\\warn answer\n" if $explain && $s->{sql} =~ /^\(?(SELECT|WITH)/;
		# one by one: together they would be one transaction
		$script .= "$s->{sql};\nROLLBACK;\n";
	}
	IPC::Run::run([ $server->installed_command('psql'), '-XAtq', '-d', $server->connstr('postgres'), '-f', '-' ], '<', \$script, '>', \$out, '2>', \$err);
	foreach my $answer (split /^:\d+:\n/m, $out, -1)
	{
		push @plans, $answer =~ s/^plan\n(.*?)^answer\n//ms ? $1 : '';
		push @answers, $answer;
	}
	my @errors = split /^:\d+:\n/m, $err, -1;
	shift @answers; shift @plans; shift @errors;
	foreach my $n (0 .. $#$list)
	{
		my $e = ($errors[$n] // 'nothing') =~ s/^.*^answer\n//msr;
		$e =~ s/^.*?(ERROR|FATAL|WARNING):/$1:/mg;
		$e =~ s/^.*there is no transaction in progress.*\n|^WARNING:  25P01\n//mg;
		$answers[$n] = join("\n", $list->[$n]{ordered} ? $answers[$n] // 'nothing' : sort split /\n/, $answers[$n] // 'nothing') . "\n" . $e;
	}
	return (\@answers, \@plans);
}

my ($run, $different, $failing, %nodes) = (0, 0, 0);

sub compare
{
	my ($what, $list, $expected, $got, $plans) = @_;

	for my $n (0 .. $#$list)
	{
		$run++;
		$failing++ if $expected->[$n] =~ /ERROR/;
		next if $expected->[$n] eq $got->[$n];
		$different++;
		next if $different > 8;
		fail("$what: $list->[$n]{settings} $list->[$n]{sql}");
		diag("expected\n" . substr($expected->[$n], 0, 1500) . "\ngot\n" . substr($got->[$n], 0, 1500) . "\nplan\n" . ($plans->[$n] // ''));
	}
	return;
}

my @rounds;
foreach my $round (1 .. $rounds)
{
	my $t = tables($round);
	my @list;

	foreach (1 .. $statements)
	{
		my ($sql, $ordered) = statement($t);
		push @list, { sql => $sql, ordered => $ordered, settings => planner_settings($sql) };
	}
	$node->safe_psql('postgres', $t->{sql});
	push @rounds, [ $t, \@list ];

	my ($plain) = answers($node, "s$round", 'SET flash_maxsim.enable_batch_scan = off; SET flash_maxsim.engine = cpu', \@list, 0);
	my ($cpu, $plans) = answers($node, "s$round", 'SET flash_maxsim.engine = cpu', \@list, 1);
	my ($scorer) = answers($node, "s$round", 'SET flash_maxsim.engine = cuda', \@list, 0);
	my $what = "round $round of seed $seed, $t->{kind} $t->{type}";

	compare("$what, engine cpu", \@list, $plain, $cpu, $plans);
	compare("$what, engine cuda", \@list, $plain, $scorer, $plans);
	foreach my $plan (@$plans)
	{
		$nodes{explained}++ if $plan ne '';
		$nodes{scan}++ if $plan =~ /Custom Scan \(MaxSim\)/;
		$nodes{filter}++ if $plan =~ /Custom Scan \(MaxSim\).*\n\s*Filter:/;
		$nodes{aggregate}++ if $plan =~ /Aggregate.*\n.*Custom Scan \(MaxSim\)/;
		$nodes{gather_merge}++ if $plan =~ /Gather Merge(?s:.*)Custom Scan \(MaxSim\)/;
	}
}

# EXPLAIN adds up what the leader and the workers did
$node->safe_psql('postgres', q{
	CREATE TABLE shared AS SELECT i AS id, ('[[' || i % 7 || ',2],[1,' || i % 3 || ']]')::multivec AS d FROM generate_series(1, 5000) i;
	ALTER TABLE shared SET (parallel_workers = 2);
	ANALYZE shared;
});
foreach my $leader ('on', 'off')
{
	my $parallel = join('; ', map { "SET $_" } 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', "parallel_leader_participation = $leader");
	my $plan = $node->safe_psql('postgres', "$parallel; EXPLAIN (ANALYZE) SELECT id FROM shared ORDER BY maxsim('[[1,2]]', d) LIMIT 3");

	like($plan, qr/Gather(?s:.*)Parallel Custom Scan \(MaxSim\).*\n\s+Engine: cpu\n\s+Documents: 5000\n/, "EXPLAIN of workers, leader $leader");
	unlike($node->safe_psql('postgres', "$parallel; EXPLAIN (ANALYZE, COSTS OFF) SELECT id FROM shared ORDER BY maxsim('[[1,2]]', d) LIMIT 3"), qr/Documents/, '... and nothing without costs');
}

$node->backup('backup', backup_options => ['--checkpoint=fast']);
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
# what is unlogged cannot be read there
my @readable = grep { $rounds[ $_ - 1 ][0]{kind} ne 'unlogged' } 1 .. @rounds;
foreach my $round (grep { defined } @readable[ 0 .. 2 ])
{
	my ($t, $all) = @{ $rounds[ $round - 1 ] };
	my @list = grep { $_->{sql} =~ /^\(?SELECT/ } @$all;
	my ($plain) = answers($standby, "s$round", 'SET flash_maxsim.enable_batch_scan = off', \@list, 0);
	my ($batch, $plans) = answers($standby, "s$round", 'SET flash_maxsim.enable_batch_scan = on', \@list, 1);

	compare("round $round of seed $seed on a standby", \@list, $plain, $batch, $plans);
}
$standby->stop;

is($different, 0, "$run statements, $failing of them errors: all the same");
note(join(', ', map { "$_: $nodes{$_}" } sort keys %nodes));
cmp_ok($nodes{scan} // 0, '>', ($nodes{explained} // 0) / 4, 'many of the plans score in batches');
ok($nodes{filter}, '... some have conditions');
ok($nodes{aggregate}, '... some below an aggregation');
ok($nodes{gather_merge}, '... and some in parallel workers');
like($node->safe_psql('postgres', 'SELECT batches, fallbacks_failed FROM maxsim_scorer()'), qr/^[1-9]\d*\|0$/, 'the scorer scored');
all_slots_free($node, 'at the end');
$node->stop;
done_testing();
