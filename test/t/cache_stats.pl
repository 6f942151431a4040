# Counters and what the cache holds: exactly what reranks must have done.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

# 300 documents of 32 tokens, dimension 64, f32: elements, and with their headers as they are stored
my $elements = 300 * 32 * 64 * 4;
my $stored = $elements + 300 * 12;

# Everything that is counted, but times and those of other tests: names and values that are not 0.
my $counted = q{SELECT coalesce(string_agg(key || ' ' || value, ', ' ORDER BY key), '-')
	FROM flash_maxsim_stats s, jsonb_each_text(to_jsonb(s) - '{fetch_us,wait_us,score_us,stats_reset}'::text[]) WHERE value <> '0'};
my $cache = 'SELECT datname, relation, documents, host_bytes, gpu_bytes FROM flash_maxsim_cache ORDER BY relation::text';
my $tiers = 'SELECT tier, size, used, wasted, segments, free_segments, documents, entries_used FROM maxsim_cache_tiers()';

# Resets the counters, runs SQL, and compares what was counted.  How many batches the CPU
# makes of what it fetches is its own affair: * stands for some.
sub counts
{
	my ($node, $sql, $expected, $name) = @_;

	$node->safe_psql('postgres', 'SELECT maxsim_stats_reset()');
	$node->safe_psql('postgres', $sql);
	my $got = $node->safe_psql('postgres', $counted);
	$got =~ s/batches [1-9]\d*/batches */ if $expected =~ /batches \*/;
	is($got, $expected, $name);
	return;
}

# One column of the view.
sub stats
{
	my ($node, $column) = @_;

	return $node->safe_psql('postgres', "SELECT $column FROM flash_maxsim_stats");
}

# without preload

my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init;
$plain->start;
prepare($plain);
counts($plain, $RANK, '-', 'without preload nothing is counted');
is(stats($plain, 'stats_reset IS NULL'), 't', '... since never');
is($plain->safe_psql('postgres', "SELECT count(*) FROM flash_maxsim_cache"), '0', '... and there is no cache');
is($plain->safe_psql('postgres', $tiers), '', '... nor a tier');
$plain->stop;

# no cache and no scorer

my $off = server('off', 'flash_maxsim.scorer_engine = off');
prepare($off);
counts($off, $RANK, "batches *, bytes_fetched $stored, documents 300, documents_cpu 300, misses 300", 'without a cache: all is fetched and scored by the CPU');
is(stats($off, 'fetch_us > 0, score_us > 0, wait_us'), 't|t|0', '... which takes time, and no waiting');
counts($off, $RANK, "batches *, bytes_fetched $stored, documents 300, documents_cpu 300, misses 300", '... again and again');
is($off->safe_psql('postgres', $cache) . $off->safe_psql('postgres', $tiers), '', '... and there is no cache');

# what is not in TOAST, has no tokens, is longer than a buffer, or does not come to an end
$off->safe_psql('postgres', q{
	CREATE TABLE odd (id bigint PRIMARY KEY, d multivec);
	INSERT INTO odd SELECT i, random_tokens(2, 64) FROM generate_series(1, 10) i;
	INSERT INTO odd VALUES (11, NULL), (12, '[]');
	INSERT INTO odd SELECT 13, random_tokens(4200, 64);
	INSERT INTO odd SELECT 14, random_tokens(32, 63);
});
my $odd = "SELECT count(*) FROM maxsim_rerank((SELECT q FROM query), ARRAY(SELECT generate_series(1, 13)), 'odd(id, d)')";

# of a long one, a header is read as long as an array's can be
my $bytes = $off->safe_psql('postgres', 'SELECT sum(12 + multivec_ntokens(d) * multivec_dim(d) * 4) + 16 FROM odd WHERE id <= 13');
counts($off, $odd, "batches 2, bytes_fetched $bytes, documents 11, documents_cpu 11, misses 11", 'inline and long documents');
$off->safe_psql('postgres', 'SELECT maxsim_stats_reset()');
like(sqlstate_of($off, "SELECT count(*) FROM maxsim_rerank((SELECT q FROM query), '{1,14}', 'odd(id, d)')"), qr/dimension/, 'a statement that fails');
is(stats($off, 'misses, documents, bytes_fetched > 8000'), '1|0|t', '... has counted what it fetched');
$off->stop;

# the host's tier

my $host = server('host', 'flash_maxsim.scorer_engine = off', 'flash_maxsim.host_cache_size = 64MB');
prepare($host);
is(scorer($host, 'state, reason'), 'unavailable|flash_maxsim.scorer_engine is off', 'a cache without a scorer');
my $fetched = "batches *, bytes_fetched $stored, documents 300, documents_cpu 300";
counts($host, $RANK, "$fetched, misses 300", 'host tier, first: fetched');
counts($host, $RANK, "admitted_host 300, $fetched, misses 300", '... second: fetched and admitted');
counts($host, $RANK, 'batches 1, documents 300, documents_cpu 300, hits_host 300', '... third: found');
is(stats($host, 'fetch_us, wait_us, score_us > 0'), '0|0|t', '... which takes time for scoring only');
is($host->safe_psql('postgres', $cache), "postgres|docs|300|$elements|0", '... and the cache shows them');
is($host->safe_psql('postgres', $tiers), "host|67108864|$elements|0|64|61|300|300", '... and so does the tier');

# another relation, and another database
$host->safe_psql('postgres', q{CREATE TABLE "Other" AS SELECT * FROM docs WHERE id <= 100; ALTER TABLE "Other" ADD PRIMARY KEY (id)});
my $other = $RANK =~ s/docs\(id, d\)/"Other"(id, d)/r;
$host->safe_psql('postgres', "$other; $other");
my $third = $elements / 3;
is($host->safe_psql('postgres', $cache), "postgres|\"Other\"|100|$third|0\npostgres|docs|300|$elements|0", 'another relation has a row of its own');
is($host->safe_psql('postgres', 'SELECT sum(documents) = 400, sum(host_bytes) FROM maxsim_cache()'), 't|' . ($elements + $third), '... in the function too');
$host->safe_psql('postgres', 'CREATE DATABASE other');
$host->safe_psql('other', 'CREATE EXTENSION flash_maxsim');
is($host->safe_psql('other', "$cache, documents"), "postgres||100|$third|0\npostgres||300|$elements|0", 'seen from another database they have no names');
is($host->safe_psql('other', 'SELECT count(*) FROM flash_maxsim_cache c JOIN pg_database d ON d.oid = datid WHERE d.datname = c.datname'), '2', '... but their database has');
$host->safe_psql('postgres', 'DROP TABLE "Other"');
is($host->safe_psql('postgres', $cache), "postgres|docs|300|$elements|0\npostgres||100|$third|0", 'a dropped relation has no name');
my $since = stats($host, 'stats_reset');
$host->safe_psql('postgres', 'SELECT maxsim_stats_reset()');
is(stats($host, "stats_reset > '$since'"), 't', 'a reset has its time');
is($host->safe_psql('postgres', "SELECT sum(documents) FROM maxsim_cache()"), '400', '... and leaves the cache alone');
$host->restart;
is($host->safe_psql('postgres', $counted) . $host->safe_psql('postgres', $tiers), '-host|67108864|0|0|64|64|0|0', 'a restart begins anew');

# rights: to see what is cached one needs no other, and it is no right to anything else
$host->safe_psql('postgres', 'CREATE ROLE watcher IN ROLE pg_monitor');
$host->safe_psql('postgres', "$RANK; $RANK");
is($host->safe_psql('postgres', "SET ROLE watcher; $cache"), "postgres|docs|300|$elements|0", 'pg_monitor sees relations that it may not read');
like(sqlstate_of($host, 'SET ROLE watcher; SELECT maxsim_stats_reset()'), qr/^42501: permission denied for function maxsim_stats_reset/, '... and does not reset');
$host->stop;

# more documents than there is room for

my $small = server('small', 'flash_maxsim.scorer_engine = off', 'flash_maxsim.host_cache_size = 4MB');
prepare($small);
$small->safe_psql('postgres', 'INSERT INTO docs SELECT i, random_tokens(32, 64) FROM generate_series(301, 900) i');
my $all = $RANK =~ s/1, 300/1, 900/r;
my $few = $RANK =~ s/1, 300/1, 60/r;
ok(await(sub { $small->safe_psql('postgres', "$few; $few; $few; $all"); stats($small, 'moved > 0') eq 't' }), 'used documents are moved in a small cache');
cmp_ok(stats($small, 'evicted'), '>', 0, '... and others evicted');
ok(await_sql($small, 'SELECT s.admitted_host - s.evicted = t.documents FROM maxsim_stats() s, maxsim_cache_tiers() t'),
	'... and what came and has not gone is there');
is($small->safe_psql('postgres', 'SELECT c.documents = t.documents, host_bytes = used, used + wasted <= size, t.documents = entries_used FROM maxsim_cache() c, maxsim_cache_tiers() t'),
	't|t|t|t', '... as both functions say');
$small->stop;

# a GPU's tier

my $gpu = server('gpu', "flash_maxsim.gpu_cache_size = '64MB'");
prepare($gpu);
ok(await_ready($gpu), 'the scorer is ready');
is($gpu->safe_psql('postgres', $tiers), 'gpu 0|67108864|0|0|64|64|0|0', '... and has an arena');
counts($gpu, "SET flash_maxsim.engine = cuda; $RANK",
	"admitted_gpu 300, batches 2, bytes_fetched $stored, bytes_uploaded $elements, documents 300, documents_scorer 300, misses 300",
	'GPU tier, first: fetched and copied');
is(stats($gpu, 'fetch_us > 0, wait_us > 0, score_us'), 't|t|0', '... with time for fetching and waiting');
counts($gpu, "SET flash_maxsim.engine = cuda; $RANK", 'batches 1, documents 300, documents_scorer 300, hits_gpu 300', '... second: found');
is(stats($gpu, 'fetch_us, score_us'), '0|0', '... with time for waiting at the most');
is($gpu->safe_psql('postgres', $cache), "postgres|docs|300|0|$elements", '... and the cache shows them');
is($gpu->safe_psql('postgres', $tiers), "gpu 0|67108864|$elements|0|64|61|300|300", '... and so does the tier');
is(scorer($gpu, 'batches, documents'), '3|600', '... and maxsim_scorer() goes on from the start');
counts($gpu, "SET flash_maxsim.engine = cpu; $RANK", $fetched . ', misses 300', 'engine cpu cannot use what a GPU has');
counts($gpu, "SELECT maxsim_scores((SELECT q FROM query), ARRAY[1, 2], 'docs(id, d)')", 'batches 1, documents 2, documents_scorer 2, hits_gpu 2',
	'work that is small goes to where the documents are');

# fallbacks

counts($gpu, "SELECT maxsim_scores(random_tokens(5000, 64), ARRAY[1, 2], 'docs(id, d)')",
	'batches 1, bytes_fetched ' . 2 * $stored / 300 . ', documents 2, documents_cpu 2, fallbacks_too_large 1, misses 2', 'a query that is too large');
my $session = Scorer::Session->new($gpu);
my $right = $session->query($RANK);
my $pid = scorer($gpu, 'pid');
kill 'STOP', $pid;
$gpu->safe_psql('postgres', 'SET flash_maxsim.engine = cpu; SELECT maxsim_stats_reset()');
$session->begin($RANK);
ok(await_sql($gpu, 'SELECT free_slots < slots FROM maxsim_scorer()'), 'a request is with a scorer that hangs');
kill 'KILL', $pid;
is($session->end, $right, '... and ends');
is($gpu->safe_psql('postgres', $counted), "batches 1, bytes_fetched $stored, documents 300, documents_cpu 300, fallbacks_failed 1, hits_gpu 300, refetched 300",
	'... what was found is fetched again');
is(scorer($gpu, 'fallbacks_failed, fallbacks_too_large'), '1|1', '... as maxsim_scorer() counts too');
ok(await_ready($gpu, $pid), 'another scorer is ready');
is($gpu->safe_psql('postgres', $cache) . $gpu->safe_psql('postgres', $tiers), 'gpu 0|67108864|0|0|64|64|0|0', '... with nothing in its arena');
$session->finish;
$gpu->stop;

# both tiers

my $both = server('both', "flash_maxsim.gpu_cache_size = '64MB'", 'flash_maxsim.host_cache_size = 64MB');
prepare($both);
ok(await_ready($both), 'the scorer is ready');
$both->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $RANK; $RANK");
counts($both, "SET flash_maxsim.engine = cuda; $RANK",
	"admitted_gpu 300, batches 1, bytes_uploaded $elements, documents 300, documents_scorer 300, hits_host 300", 'both tiers: copied from the host tier');
is($both->safe_psql('postgres', $cache), "postgres|docs|300|$elements|$elements", '... where they stay');
counts($both, "SELECT maxsim_scores((SELECT q FROM query), ARRAY[1, 2], 'docs(id, d)')", 'batches 1, documents 2, documents_cpu 2, hits_host 2',
	'work that is small is the CPU\'s, from the host tier');
$both->stop;

# documents that the scorer reads where they are: there is no arena

my $none = server('none', 'flash_maxsim.gpu_cache_size = off', 'flash_maxsim.host_cache_size = 64MB');
prepare($none);
ok(await_ready($none), 'the scorer is ready');
counts($none, "SET flash_maxsim.engine = cuda; $RANK", "batches 2, bytes_fetched $stored, bytes_read_by_gpu $elements, documents 300, documents_scorer 300, misses 300",
	'without an arena the GPU reads the host\'s memory');
counts($none, "SET flash_maxsim.engine = cuda; $RANK",
	"admitted_host 300, batches 2, bytes_fetched $stored, bytes_read_by_gpu $elements, documents 300, documents_scorer 300, misses 300", '... as it does when the host tier admits');
counts($none, "SET flash_maxsim.engine = cuda; $RANK", "batches 1, bytes_read_by_gpu $elements, documents 300, documents_scorer 300, hits_host 300", '... and from there');
$none->stop;
done_testing();
