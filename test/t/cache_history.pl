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
	check($result, "$what: one database");

	# copies have the same value ids for the same bytes, and soon for others
	$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE h") for 'h1', 'h2';
	$result = end_histories(start_histories($node, map { ($_, history($steps, @$engines)) } ('h', 'h1', 'h2') x 2));
	check($result, "$what: a database and two copies");

	all_slots_free($node, $what) if grep { /gpu/ } @settings;
	unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, "$what: no crash");
	$node->stop;
	return;
}

sub check
{
	my ($result, $what) = @_;
	my @errors = grep { $_ !~ $ORDINARY_ERRORS } @{ $result->{errors} };

	is(join("\n", @{ $result->{wrong} }), '', "$what: no score is wrong");
	is(join("\n", @errors), '', "$what: no error but ordinary ones");
	cmp_ok($result->{right}, '>', 6 * $steps, "$what: there were many");
	cmp_ok($result->{fetched}, '<', $result->{scored} * 0.8, "$what: many documents came from the cache");
	cmp_ok($result->{fetched}, '>', $result->{scored} * 0.02, "$what: and not all");
	return;
}

histories('host', ['auto', 'cpu'], 'flash_maxsim.scorer_engine = off', 'flash_maxsim.host_cache_size = 4MB');
histories('gpu', ['auto', 'cuda'], "flash_maxsim.gpu_cache_size = '4MB'");
histories('host and gpu', ['auto', 'cpu', 'cuda', 'cuda'], "flash_maxsim.gpu_cache_size = '3MB'", 'flash_maxsim.host_cache_size = 3MB');
done_testing();
