# Sources beyond the own tables: a foreign server, a standby; and scoring in parallel
# workers.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "max_connections = 20\njit = off");
$node->start;

$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION flash_maxsim;
	CREATE TABLE docs (id bigint PRIMARY KEY, emb multivec(16, f16), r real[]);
	INSERT INTO docs SELECT i, v, v FROM generate_series(1, 3000) i,
		LATERAL (SELECT array_agg(ARRAY(SELECT (i * 7 + t * 3 + k * t) % 17 - 8 FROM generate_series(1, 16) k))::multivec AS v FROM generate_series(1, i % 9) t) s;
	UPDATE docs SET emb = NULL WHERE id % 100 = 50;
	-- long enough for TOAST
	INSERT INTO docs SELECT 5000, v, v FROM (SELECT array_agg(ARRAY(SELECT (t * k) % 11 - 5 FROM generate_series(1, 16) k))::multivec AS v FROM generate_series(1, 2000) t) s;
	CREATE TABLE docs_4 AS SELECT id::integer AS id, emb FROM docs;
	CREATE TABLE query AS SELECT array_agg(ARRAY(SELECT (t + k) % 5 - 2 FROM generate_series(1, 16) k))::multivec AS q FROM generate_series(1, 6) t;
	CREATE FUNCTION ranking(source text) RETURNS text STABLE LANGUAGE sql AS $$
		SELECT count(*) || ' ' || count(score) || ' ' || sum(score) || ' ' || md5(string_agg(doc_id || ':' || coalesce(score::text, ''), ',' ORDER BY n))
		FROM query, maxsim_rerank(q, ARRAY(SELECT generate_series(1, 6000, 3)), source) WITH ORDINALITY r(doc_id, score, n) $$;
});
my $expected = $node->safe_psql('postgres', q{SELECT ranking('docs(id, emb)')});
like($expected, qr/^1000 \d+ -?\d+ /, 'a ranking of a table');

# the setting, before and after the library is loaded
my ($stdout, $stderr);
$node->psql('postgres', q{SET flash_maxsim.source = 'docs'; SELECT maxsim('[[1]]', '[[2]]'); SHOW flash_maxsim.source}, stdout => \$stdout, stderr => \$stderr);
like($stderr, qr/WARNING:  invalid value for parameter "flash_maxsim.source": "docs"\n.*DETAIL:  A source is written table\(id_column, document_column\)/s, 'a setting that is no source is noticed by the first call');
is($stdout, "2\n", 'and is dropped');
$node->psql('postgres', q{LOAD 'flash_maxsim'; ALTER ROLE CURRENT_USER SET flash_maxsim.source = 'docs(id, emb'}, stderr => \$stderr);
like($stderr, qr/ERROR:  invalid value for parameter "flash_maxsim.source": "docs\(id, emb"/, 'or when it is set for a role');

# a foreign server that is this one
SKIP:
{
	skip 'postgres_fdw is not installed', 6
	  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'}) eq '0';
	my ($host, $port) = ($node->host, $node->port);

	$node->safe_psql(
		'postgres', qq{
		CREATE EXTENSION postgres_fdw;
		CREATE SERVER loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres');
		CREATE USER MAPPING FOR CURRENT_USER SERVER loopback;
		CREATE SCHEMA remote;
		IMPORT FOREIGN SCHEMA public LIMIT TO (docs, docs_4) FROM SERVER loopback INTO remote;
		CREATE VIEW upper_half AS SELECT id, emb FROM docs WHERE id >= 1500;
		CREATE TABLE half (id bigint, emb multivec(16, f16)) PARTITION BY RANGE (id);
		CREATE TABLE half_local PARTITION OF half FOR VALUES FROM (1) TO (1500);
		CREATE FOREIGN TABLE half_remote PARTITION OF half FOR VALUES FROM (1500) TO (10000) SERVER loopback OPTIONS (schema_name 'public', table_name 'upper_half');
		INSERT INTO half_local SELECT id, emb FROM docs WHERE id < 1500;
	});
	is($node->safe_psql('postgres', q{SELECT ranking('remote.docs(id, emb)')}), $expected, 'a foreign table');
	is($node->safe_psql('postgres', q{SELECT ranking('remote.docs_4(id, emb)')}), $expected, 'with integer ids');
	is($node->safe_psql('postgres', q{SELECT ranking('remote.docs(id, r)')}), $node->safe_psql('postgres', q{SELECT ranking('docs(id, r)')}), 'a foreign table of arrays');
	is($node->safe_psql('postgres', q{SELECT ranking('half(id, emb)')}), $expected, 'a partition that is foreign');
	like($node->safe_psql('postgres', q{EXPLAIN (VERBOSE) SELECT id, emb FROM remote.docs WHERE id OPERATOR(pg_catalog.=) ANY ('{1,2}'::bigint[])}),
		qr/Remote SQL: .*ANY/, 'the ids go to the other server');
	# sent there as a whole, a query is computed there
	$node->safe_psql('postgres', q{ALTER SERVER loopback OPTIONS (ADD extensions 'flash_maxsim')});
	like($node->safe_psql('postgres', q{EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM remote.docs ORDER BY maxsim((SELECT q FROM query), emb) DESC NULLS LAST LIMIT 3}),
		qr/Remote SQL: .*maxsim/, 'and so does maxsim');
}

# in parallel workers
my $parallel = q{
	SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2;};
my $sum = q{SELECT count(s), sum(s), min(s), max(s), md5(string_agg(id || ':' || s, ',' ORDER BY id)) FROM (SELECT id, maxsim(q, emb) AS s FROM docs, query) m};
my $best = q{SELECT string_agg(id || ':' || s, ',') FROM (SELECT id, maxsim('[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]]', emb) AS s FROM docs ORDER BY s DESC NULLS LAST, id LIMIT 20) m};
foreach my $statement ($sum, $best)
{
	like($node->safe_psql('postgres', "$parallel EXPLAIN $statement"), qr/Gather.*Parallel Seq Scan/s, 'a parallel plan');
	is($node->safe_psql('postgres', "$parallel $statement"), $node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 0; $statement"), 'gives the same as a serial one');
}
is( $node->safe_psql('postgres', "$parallel SELECT count(*), sum(score) FROM docs JOIN maxsim_rerank((SELECT q FROM query), ARRAY(SELECT generate_series(1, 6000, 3)), 'docs(id, emb)') ON id = doc_id"),
	join('|', (split / /, $expected)[ 0, 2 ]), 'maxsim_rerank beside a parallel scan');

# a standby
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
is($standby->safe_psql('postgres', q{SELECT ranking('docs(id, emb)')}), $expected, 'a standby');
$node->safe_psql('postgres', q{UPDATE docs SET emb = NULL WHERE id % 2 = 0});
$node->wait_for_catchup($standby);
my $after = $node->safe_psql('postgres', q{SELECT ranking('docs(id, emb)')});
isnt($after, $expected, 'a change changes the ranking');
is($standby->safe_psql('postgres', q{SELECT ranking('docs(id, emb)')}), $after, 'also on the standby');
is($standby->safe_psql('postgres', q{SELECT maxsim_scores(q, '{1,2,5000}', 'docs(id, emb)') = maxsim_scores(q, '{1,2,5000}', 'docs(id, emb)') FROM query}), 't', 'in a transaction that cannot write');

$standby->stop;
$node->stop;
done_testing();
