# Sizes of the cache that make no sense, or that the machine does not have: the server
# comes up and says what is the matter, and everything else works.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

my $node = server('node', 'fsync = off', 'flash_maxsim.gpu_cache_size = 0');
prepare($node);
ok(await_ready($node), 'the scorer is ready');
my $right = $node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $RANK");

# Restarts with settings and scores by every engine; then how many of the 300 documents a
# session that has scored them before still fetches, for a list of engines, and what the
# log said.
sub with_settings
{
	my ($what, $engines, @settings) = @_;
	my $log = -s $node->logfile;
	my @fetched;

	$node->append_conf('postgresql.conf', join("\n", "flash_maxsim.scorer_engine = cpu\nflash_maxsim.host_cache_size = 0\nflash_maxsim.gpu_cache_size = 0\nflash_maxsim.cache_documents = 0", @settings) . "\n");
	$node->restart;
	ok(await_sql($node, q{SELECT state IN ('ready', 'unavailable') FROM maxsim_scorer()}), "$what: the server comes up");
	for my $engine (@$engines)
	{
		my $set = "SET flash_maxsim.engine = $engine";
		my $scores = $node->safe_psql('postgres', "$set; $RANK; $RANK; $RANK; $RANK");
		my ($before, $score, $after);

		is($scores, join("\n", ($right) x 4), "$what: $engine scores");
		# admission may have to wait for the worker now and then
		for (1 .. 8)
		{
			($before, $score, $after) = split /\n/, $node->safe_psql('postgres', "$set; BEGIN; SELECT chunks_read('docs'); $RANK; SELECT chunks_read('docs'); COMMIT");
			last if $after == $before;
		}
		is($score, $right, "... and again");
		push @fetched, ($after - $before) / 5;
	}
	return (slurp_file($node->logfile, $log), @fetched);
}

# 300 documents of 8 kB take 2.4 MB

my ($log, @fetched) = with_settings('none', ['cpu', 'cuda']);
is("@fetched", '300 300', 'without a cache, every document is fetched each time');

($log, @fetched) = with_settings('both', ['cpu', 'cuda'], 'flash_maxsim.host_cache_size = 16MB', "flash_maxsim.gpu_cache_size = '16MB'");
is("@fetched", '0 0', '16 MB: none is fetched any more');

($log, @fetched) = with_settings('host of 1 MB', ['cpu'], 'flash_maxsim.host_cache_size = 1MB');
cmp_ok($fetched[0], '<', 300, '... which some documents are in');
($log, @fetched) = with_settings('GPU of 1 MB', ['cuda'], "flash_maxsim.gpu_cache_size = '1MB'");
cmp_ok($fetched[0], '<', 300, '... which some documents are in');

($log, @fetched) = with_settings('a share', ['cuda'], "flash_maxsim.gpu_cache_size = '1%'");
is("@fetched", '0', '... which holds them all');
($log, @fetched) = with_settings('off', ['cuda'], "flash_maxsim.gpu_cache_size = 'off'");
is("@fetched", '300', 'off is off');

# more than there is

($log, @fetched) = with_settings('host too large', ['cpu', 'cuda'], 'flash_maxsim.host_cache_size = 15TB');
like($log, qr/LOG: .*no cache in the host's memory: flash_maxsim.host_cache_size is 15728640 MB, but \d+ MB are available/, '... and the log says so');
is("@fetched", '300 300', '... without a cache');

($log, @fetched) = with_settings('GPU too large', ['cpu', 'cuda'], "flash_maxsim.gpu_cache_size = '2000TB'", 'flash_maxsim.host_cache_size = 16MB');
like($log, qr/LOG: .*no cache on a GPU: /, '... and the log says so');
is("@fetched", '0 0', '... with the cache that there is');

# no scorer

($log, @fetched) = with_settings('host alone', ['cpu', 'auto'], 'flash_maxsim.scorer_engine = off', 'flash_maxsim.host_cache_size = 16MB');
is("@fetched", '0 0', '... with its cache');
like(sqlstate_of($node, "SET flash_maxsim.engine = cuda; $RANK"), qr/^55000: engine "cuda" is not available: flash_maxsim.scorer_engine is off/, '... and cuda says why not');

# a directory that is full before the arena is

$node->safe_psql('postgres', q{
	CREATE TABLE small (id bigint PRIMARY KEY, d multivec, other text);
	ALTER TABLE small SET (toast_tuple_target = 128);
	ALTER TABLE small ALTER d SET STORAGE external, ALTER other SET STORAGE external;
	INSERT INTO small SELECT i, random_tokens(1, 64), repeat('x', 2000) FROM generate_series(1, 3000) i;
});
sub score_small
{
	my ($engine, $from, $to) = @_;
	my $rank = "SELECT count(score) FROM maxsim_rerank((SELECT q FROM query), ARRAY(SELECT generate_series($from, $to)), 'small(id, d)')";
	my ($before, $n, $after) = split /\n/,
	  $node->safe_psql('postgres', "SET flash_maxsim.engine = $engine; BEGIN; SELECT chunks_read('small'); $rank; SELECT chunks_read('small'); COMMIT");
	return $after - $before;
}
with_settings('few documents', ['cpu', 'cuda'], 'flash_maxsim.host_cache_size = 16MB', "flash_maxsim.gpu_cache_size = '16MB'", 'flash_maxsim.cache_documents = 1024');
for my $engine ('cpu', 'cuda')
{
	is(score_small($engine, 1, 2000), 2000, "$engine: small documents") if $engine eq 'cpu';
	score_small($engine, 1, 2000) for 1 .. 3;
	ok(await(sub { score_small($engine, 2001, 2300) < 150 }, 20), "$engine: a full directory makes room for others");
}

# what is not understood

for my $value ('abc', '200%', '-1', '0%', '%', '4294967346%', '10 XB', '')
{
	my ($log) = with_settings("'$value'", ['cpu'], "flash_maxsim.gpu_cache_size = '$value'");

	like($log, qr/invalid value for parameter "flash_maxsim.gpu_cache_size": "\Q$value\E".*It is "off", a size like "20GB", or a share/s, '... and the log says what is wrong');
}
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, 'no crash');
$node->stop;
done_testing();
