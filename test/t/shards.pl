# A table whose partitions lie on three servers: the same results as on one, to the bit,
# and what is computed where.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @shards;
foreach my $n (1 .. 3)
{
	my $shard = PostgreSQL::Test::Cluster->new("shard$n");
	$shard->init;
	$shard->append_conf('postgresql.conf', "max_connections = 20\njit = off\nlog_statement = all");
	$shard->start;
	push @shards, $shard;
}
my $node = $shards[0];

if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'}) eq '0')
{
	$_->stop foreach @shards;
	plan skip_all => 'postgres_fdw is not installed';
}
foreach my $shard (@shards)
{
	$shard->append_conf('postgresql.conf', "session_preload_libraries = 'auto_explain'\nauto_explain.log_min_duration = 0");
	$shard->reload;
}

# Documents of fractions, some without tokens, some NULL, some long enough for TOAST, and
# twins, whose scores are equal.
my $make_docs = q{
	CREATE EXTENSION flash_maxsim;
	CREATE TABLE docs (id bigint PRIMARY KEY, body text, embedding multivec(16, f16));
	INSERT INTO docs
		SELECT i, 'document ' || i, array_agg(ARRAY(SELECT (((s * 7919 + t * 104729 + k * 1299709 + (s + 3) * (t + 5) * (k + 7)) % 151 + 151) % 151 - 75) / 77.0 FROM generate_series(1, 16) k))::multivec
		FROM (SELECT i, i - CASE WHEN i % 10 = 7 THEN 301 ELSE 0 END AS s FROM generate_series(1, 900) i) d, generate_series(1, CASE WHEN i % 100 = 3 THEN 150 ELSE 2 + s % 9 END) t
		WHERE CONDITION GROUP BY i;
	UPDATE docs SET embedding = NULL WHERE id % 100 = 50;
	UPDATE docs SET embedding = '[]' WHERE id % 100 = 51;
	ANALYZE docs;
};
foreach my $n (0 .. 2)
{
	my ($first, $last) = (300 * $n + 1, 300 * $n + 300);
	$shards[$n]->safe_psql('postgres', $make_docs =~ s/CONDITION/i BETWEEN $first AND $last/r);
}
$node->safe_psql('postgres', 'CREATE DATABASE whole');
$node->safe_psql('whole', $make_docs =~ s/CONDITION/true/r);
$node->safe_psql('postgres', 'CREATE DATABASE coordinator');
$node->safe_psql(
	'coordinator', q{
	CREATE EXTENSION flash_maxsim;
	CREATE EXTENSION postgres_fdw;
	CREATE TABLE docs (id bigint, body text, embedding multivec(16, f16)) PARTITION BY RANGE (id)});
foreach my $n (1 .. 3)
{
	my ($host, $port, $first, $end) = ($shards[ $n - 1 ]->host, $shards[ $n - 1 ]->port, 300 * $n - 299, 300 * $n + 1);
	$node->safe_psql(
		'coordinator', qq{
		CREATE SERVER shard_$n FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '$host', port '$port', dbname 'postgres', extensions 'flash_maxsim', async_capable 'true');
		CREATE USER MAPPING FOR CURRENT_USER SERVER shard_$n;
		CREATE FOREIGN TABLE docs_$n PARTITION OF docs FOR VALUES FROM ($first) TO ($end)
			SERVER shard_$n OPTIONS (table_name 'docs');
		ANALYZE docs_$n;});
}

my $q = q{(SELECT array_agg(ARRAY(SELECT ((t * 31 + k * 17 + t * k * 3) % 101 - 50) / 53.0 FROM generate_series(1, 16) k))::multivec FROM generate_series(1, 8) t)};
my $literal = $node->safe_psql('whole', "SELECT quote_literal($q) || '::multivec'");
my $array = $node->safe_psql('whole', "SELECT quote_literal($q\::real[]) || '::real[]'");

# The best of every server, of which only ids and scores come.
sub best_of_shards
{
	my ($query, $condition, $k) = @_;
	my $parts = join ' UNION ALL ', map { "(SELECT id, max(maxsim($query, embedding)) AS score FROM docs_$_ $condition GROUP BY id ORDER BY score DESC NULLS LAST, id LIMIT $k)" } 1 .. 3;
	return "WITH best AS MATERIALIZED ($parts) SELECT id, score FROM best ORDER BY score DESC NULLS LAST, id LIMIT $k";
}

# That a statement yields the same on the three and on one, and something.
sub same
{
	my ($statement, $name, $other, $setup) = @_;
	$setup //= '';
	my $expected = $node->safe_psql('whole', $other // $statement);
	isnt($expected, '', "$name: a result");
	is($node->safe_psql('coordinator', "$setup $statement"), $expected, "$name: the same on three servers");
}

sub plan_of
{
	my ($statement, $setup) = @_;
	return $node->safe_psql('coordinator', ($setup // '') . " EXPLAIN (VERBOSE, COSTS OFF) $statement");
}

# the servers that were asked for documents since, by number
sub asked
{
	my ($do) = @_;
	my @offsets = map { -s $_->logfile } @shards;
	$do->();
	return join ' ', map { slurp_file($shards[ $_ - 1 ]->logfile, $offsets[ $_ - 1 ]) =~ /DECLARE c\d+ CURSOR FOR\s+SELECT/ ? $_ : () } 1 .. 3;
}

same('SELECT count(*), count(embedding), min(multivec_format(embedding)), md5(string_agg(embedding::text, chr(10) ORDER BY id)) FROM docs', 'the documents');
same("SELECT id, maxsim($literal, embedding) FROM docs ORDER BY id", 'every score');

# the order of all of them, by each server
my $order = "SELECT id FROM docs ORDER BY maxsim($literal, embedding) DESC NULLS LAST, id LIMIT 10";
same($order, 'ORDER BY maxsim LIMIT');
same($order =~ s/\Q$literal\E/$array/r, 'with a query that is an array');
same($order =~ s/\Q$literal\E/$q/r, 'with a query of a subquery');
same("SELECT id FROM docs WHERE maxsim($literal, embedding) IS NOT NULL ORDER BY maxsim($literal, embedding) DESC, id LIMIT 10", 'without NULLS LAST');
same("PREPARE p(multivec) AS SELECT id, maxsim(\$1, embedding) FROM docs ORDER BY 2 DESC NULLS LAST, id LIMIT 10; EXECUTE p($literal)", 'with a parameter', undef, 'SET plan_cache_mode = force_generic_plan;');
same("SELECT id FROM docs ORDER BY maxsim($literal, embedding) DESC NULLS LAST, id LIMIT 400 OFFSET 300", 'of many rows, beyond one fetch');
my $plan = plan_of($order);
my @remote = $plan =~ /Remote SQL: (.*)/g;
is(scalar @remote, 3, 'each server has its part of the order');
is(scalar(grep { /ORDER BY public\.maxsim\(.*\) DESC NULLS LAST, id/ } @remote), 3, 'and sorts by maxsim') or diag $plan;
like(plan_of("SELECT id FROM docs WHERE maxsim($literal, embedding) > 3"), qr/Async Foreign Scan.*Remote SQL: SELECT id FROM public\.docs WHERE \(\(public\.maxsim\(/s, 'a condition on the score needs no documents, and no waiting for one server after another');
same("SELECT id FROM docs WHERE maxsim($literal, embedding) > 3 ORDER BY id", 'a condition on the score');

# ids found before
my $ids = 'ARRAY(SELECT generate_series(7, 900, 11))::bigint[]';
my $some = $node->safe_psql('whole', "SELECT quote_literal($ids) || '::bigint[]'");
$order = "SELECT id, maxsim($literal, embedding) AS score FROM docs WHERE id = ANY($some) ORDER BY score DESC NULLS LAST, id LIMIT 10";
same($order, 'ids and ORDER BY maxsim');
like(plan_of($order), qr/Remote SQL: .*id = ANY/, 'the ids are sent');
unlike(plan_of($order =~ s/\Q$some\E/'{301,302}'/r), qr/docs_[13]/, 'to the server that has them');
like(plan_of("SELECT id, body FROM docs WHERE id = ANY($some)"), qr/Async Foreign Scan.*Async Foreign Scan.*Async Foreign Scan/s, 'to all at once');

# the best of each server, in two stages
foreach my $condition ('', "WHERE id = ANY($some)")
{
	my $name = $condition eq '' ? 'the best of each server' : 'of ids';
	my $expected = "SELECT id, maxsim($literal, embedding) AS score FROM docs $condition ORDER BY score DESC NULLS LAST, id LIMIT 10";
	my $best = best_of_shards($literal, $condition, 10);
	same($best, $name, $expected);
	same(best_of_shards($q, $condition, 10), "$name, with a query of a subquery", $expected);
	same('PREPARE p(multivec, integer) AS ' . best_of_shards('$1', $condition, '$2') . "; EXECUTE p($literal, 10)", "$name, with parameters", $expected, 'SET plan_cache_mode = force_generic_plan;');
	same("WITH found AS ($best) SELECT id, score, body FROM found JOIN docs USING (id) WHERE id = ANY(ARRAY(SELECT id FROM found)) ORDER BY score DESC NULLS LAST, id",
		"$name, with their texts", "SELECT id, maxsim($literal, embedding) AS score, body FROM docs $condition ORDER BY score DESC NULLS LAST, id LIMIT 10");
	$plan = plan_of($best);
	@remote = $plan =~ /Remote SQL: (.*)/g;
	is(scalar(grep { /^SELECT id, max\(public\.maxsim\(.*\)\) FROM public\.docs .*GROUP BY 1 ORDER BY .* LIMIT 10/ } @remote), 3, "$name: ids and scores come, and no document") or diag $plan;
	SKIP:
	{
		skip 'such a plan is not asynchronous before PostgreSQL 15', 1 if $node->pg_version < 15;
		is(scalar(() = $plan =~ /Async Foreign Scan/g), 3, "$name: from all at once") or diag $plan;
	}
}
# as docs/shards.md has it
my ($function) = slurp_file('docs/shards.md') =~ /(CREATE FUNCTION best_docs.*?\n\$\$;)/s;
$node->safe_psql('coordinator', $function);
same("SELECT * FROM best_docs($literal, 10)", 'the function of the documentation', "SELECT id, maxsim($literal, embedding) AS score FROM docs ORDER BY score DESC NULLS LAST, id LIMIT 10");
unlike(plan_of("SELECT * FROM best_docs($literal, 10)"), qr/Remote SQL: SELECT [^(]*embedding/, 'which no document comes for');
# with an aggregate that returns the best
my $topk = 'WITH best AS MATERIALIZED (' . join(' UNION ALL ', map { "SELECT maxsim_topk($literal, id, embedding, 10) AS hits FROM docs_$_" } 1 .. 3) .
  ') SELECT id::bigint, score FROM best, unnest(hits) ORDER BY score DESC, id::bigint LIMIT 10';
same($topk, 'maxsim_topk of each server', "SELECT id, maxsim($literal, embedding) AS score FROM docs ORDER BY score DESC NULLS LAST, id LIMIT 10");
# whose result is an array: not all versions count the array of a type to the extension
$node->safe_psql(
	'coordinator', q{
	DO $$ BEGIN
		IF NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_type'::regclass AND objid = 'maxsim_hit[]'::regtype AND refclassid = 'pg_extension'::regclass) THEN
			ALTER EXTENSION flash_maxsim ADD TYPE maxsim_hit[];
		END IF;
	END $$});
same($topk, 'maxsim_topk on each server', "SELECT id, maxsim($literal, embedding) AS score FROM docs ORDER BY score DESC NULLS LAST, id LIMIT 10");
@remote = plan_of($topk) =~ /Remote SQL: (.*)/g;
is(scalar(grep { /^SELECT public\.maxsim_topk\(.*, id, embedding, 10\) FROM public\.docs$/ } @remote), 3, 'is computed there') or diag plan_of($topk);
same("SELECT id::bigint, score FROM unnest((SELECT maxsim_topk($literal, id, embedding, 10) FROM docs))", 'maxsim_topk of all');
# a server's own plan scores in batches
my $offset = -s $shards[1]->logfile;
$node->safe_psql('coordinator', best_of_shards($literal, '', 10));
like(slurp_file($shards[1]->logfile, $offset), qr/Custom Scan \(MaxSim\)/, 'the servers score in batches');

# aggregates
same("SELECT max(maxsim($literal, embedding)), min(maxsim($literal, embedding)), count(maxsim($literal, embedding)) FROM docs $_", "aggregates $_") foreach ('', "WHERE id = ANY($some)");
same("SELECT max(maxsim($literal, embedding)) FROM docs", 'max alone');
same("SELECT max(best), sum(n) FROM (" . join(' UNION ALL ', map { "SELECT max(maxsim($literal, embedding)) AS best, count(*) AS n FROM docs_$_" } 1 .. 3) . ') parts',
	'aggregates of each server', "SELECT max(maxsim($literal, embedding)), count(*) FROM docs");
like(plan_of("SELECT max(maxsim($literal, embedding)), count(*) FROM docs_2"), qr/Remote SQL: SELECT max\(public\.maxsim\(.*\)\), count\(\*\) FROM public\.docs$/m, 'an aggregate of one server is computed there');

# maxsim_rerank
my $rerank = "SELECT * FROM maxsim_rerank($literal, $some, 'docs(id, embedding)', 20)";
foreach my $when ('of a partitioned table', 'with an index on it, which the servers do not see')
{
	same($rerank, "maxsim_rerank $when");
	same($rerank =~ s/\Q$literal\E/$array/r, "$when, with a query that is an array");
	same("SELECT maxsim_scores($literal, '{5,305,905,605,5}', 'docs(id, embedding)')", "maxsim_scores $when");
	is(asked(sub { $node->safe_psql('coordinator', "SELECT count(*) FROM maxsim_rerank($literal, '{3,299}', 'docs(id, embedding)')") }), '1', "$when: ids of one server are looked for there");
	is(asked(sub { $node->safe_psql('coordinator', "SELECT count(*) FROM maxsim_rerank($literal, '{3,899}', 'docs(id, embedding)')") }), '1 3', "$when: of two, there");
	is(asked(sub { $node->safe_psql('coordinator', "SELECT count(*) FROM maxsim_rerank($literal, $some, 'docs(id, embedding)')") }), '1 2 3', "$when: of all, everywhere");
	$node->safe_psql('coordinator', 'CREATE INDEX ON docs (id)');
}
foreach my $n (1 .. 3)
{
	my $part = "SELECT array_agg(i) FROM unnest($some) i WHERE (i - 1) / 300 = $n - 1";
	same($rerank =~ s/\Q$some\E/($part)/r =~ s/docs\(/docs_$n(/r, "maxsim_rerank of server $n", $rerank =~ s/\Q$some\E/($part)/r);
}
# on each server, by a view there that reads what this one has asked
foreach my $n (1 .. 3)
{
	$shards[ $n - 1 ]->safe_psql('postgres', q{
		CREATE TABLE questions (question bigint PRIMARY KEY, query multivec, ids bigint[], k integer);
		CREATE VIEW answers AS SELECT question, doc_id, score FROM questions, maxsim_rerank(query, ids, 'public.docs(id, embedding)', k)});
	$node->safe_psql('coordinator', qq{
		CREATE FOREIGN TABLE questions_$n (question bigint, query multivec, ids bigint[], k integer) SERVER shard_$n OPTIONS (table_name 'questions');
		CREATE FOREIGN TABLE answers_$n (question bigint, doc_id bigint, score real) SERVER shard_$n OPTIONS (table_name 'answers');
		INSERT INTO questions_$n VALUES (1, $literal, $some, 20)});
}
my $answers = 'WITH a AS MATERIALIZED (' . join(' UNION ALL ', map { "SELECT doc_id, score FROM answers_$_ WHERE question = 1" } 1 .. 3) . ') SELECT * FROM a ORDER BY score DESC NULLS LAST, doc_id LIMIT 20';
same($answers, 'maxsim_rerank on the servers', $rerank);
like(plan_of($answers), qr/Async Foreign Scan.*Remote SQL: SELECT doc_id, score FROM public\.answers WHERE/s, 'which return ids and scores');

# a document that is written through the partitioned table
$node->safe_psql($_, 'UPDATE docs SET embedding = (SELECT embedding FROM docs WHERE id = 603) WHERE id = 4') foreach ('coordinator', 'whole');
same("SELECT id, md5(multivec_send(embedding)), multivec_format(embedding) FROM docs WHERE id IN (4, 603) ORDER BY id", 'a document that goes from one server to another keeps its bytes');
same($rerank, 'and its rank');

$_->stop foreach @shards;
done_testing();
