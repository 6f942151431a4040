# Random histories in many sessions, with a cache so small that documents come and go all
# the time: every score is that of the document which the statement sees.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Cache;
use Scorer;

my $steps = $ENV{STEPS} // 16;
seed();

sub histories
{
	my ($what, $engines, @settings) = @_;
	my $node = server($what =~ s/\W+/_/gr, 'max_connections = 30', 'deadlock_timeout = 100ms', 'autovacuum_naptime = 1s', 'fsync = off', 'jit = off', @settings);
	my $result;

	$node->safe_psql('postgres', 'CREATE EXTENSION flash_maxsim; CREATE DATABASE h');
	documents($node, 'h');
	ok(await_ready($node), "$what: the scorer is ready") if grep { /gpu/ } @settings;

	$result = end_histories(start_histories($node, map { ('h', history($steps, @$engines)) } 1 .. 6));
	check($node, $result, "$what: one database");

	# copies have the same value ids for the same bytes, and soon for others
	$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE h") for 'h1', 'h2';
	$result = end_histories(start_histories($node, map { ($_, history($steps, @$engines)) } ('h', 'h1', 'h2') x 2));
	check($node, $result, "$what: a database and two copies");

	all_slots_free($node, $what) if grep { /gpu/ } @settings;
	unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, "$what: no crash");
	$node->stop;
	return;
}

sub check
{
	my ($node, $result, $what) = @_;
	my @errors = grep { $_ !~ $ORDINARY_ERRORS } @{ $result->{errors} };

	is(join("\n", @{ $result->{wrong} }), '', "$what: no score is wrong");
	is(join("\n", @errors), '', "$what: no error but ordinary ones");
	cmp_ok($result->{right}, '>', 6 * $steps, "$what: there were many");
	my ($documents, $hits, $evicted) = split /\|/, $node->safe_psql('postgres', 'SELECT documents, hits_host + hits_gpu, evicted FROM flash_maxsim_stats');
	note("$documents documents, $hits of them from the cache, $evicted dropped from it");
	cmp_ok($hits, '>', $documents * 0.02, "$what: many documents came from the cache");
	cmp_ok($evicted, '>', $documents * 0.02, "$what: which was always full");
	$node->safe_psql('postgres', 'SELECT maxsim_stats_reset()');
	return;
}

histories('host', ['auto', 'cpu'], 'flash_maxsim.scorer_engine = off', 'flash_maxsim.host_cache_size = 4MB');
histories('gpu', ['auto', 'cuda'], "flash_maxsim.gpu_cache_size = '4MB'");
histories('host and gpu', ['auto', 'cpu', 'cuda', 'cuda'], "flash_maxsim.gpu_cache_size = '3MB'", 'flash_maxsim.host_cache_size = 3MB');
done_testing();
