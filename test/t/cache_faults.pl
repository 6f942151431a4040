# Whatever is killed, stopped, cancelled or timed out while documents come and go: scores
# stay right, no slot is lost, and afterwards the cache works as before.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use Cache;
use Scorer;

seed();
my $node = server('node', 'fsync = off', 'max_connections = 30', 'deadlock_timeout = 100ms', 'jit = off', 'flash_maxsim.slots = 8',
	"flash_maxsim.gpu_cache_size = '3MB'", 'flash_maxsim.host_cache_size = 3MB');
$node->safe_psql('postgres', 'CREATE EXTENSION flash_maxsim; CREATE DATABASE h');
documents($node, 'h');
$node->safe_psql('h', 'CREATE TABLE kept (id bigint PRIMARY KEY, n integer, e multivec); INSERT INTO kept SELECT i, 0, random_tokens(11, 1) FROM generate_series(1, 40) i');
ok(await_ready($node), 'the scorer is ready');

# what statements may get from faults
my $allowed = join '|', $ORDINARY_ERRORS, '^57014: canceling statement due to', '^57P0[123]: ', '^58000: engine "cuda" failed: scorer',
  '^55000: engine "cuda" is not available: (?:scorer|could not connect)';

sub backends
{
	return split /\n/, $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE datname = 'h' AND backend_type = 'client backend'");
}

sub cache_worker
{
	return $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'flash_maxsim cache'");
}

# A history whose statements are timed out now and then.
sub script
{
	return join '', map { (rand() < 0.1 ? 'SET statement_timeout = ' . pick(0, 0, 1 + int rand 100) . ";\n" : '') . "$_;\n" } split /;\n/, history(30, 'auto', 'cpu', 'cuda', 'cuda');
}

# That everything is as it should be, after a fault.
sub sound
{
	my ($what) = @_;

	ok(await_ready($node), "$what: the scorer is ready");
	all_slots_free($node, $what);
	for my $engine ('cpu', 'cuda')
	{
		my $answer = '';
		my ($others, $fetched, $kept);

		for (1 .. 40)
		{
			$others = $node->safe_psql('h', "SET flash_maxsim.engine = $engine; " . join '; ', map { "SELECT verify('$_')" } 'a' .. 'd');
			$fetched = join ' ', map { chunks_fetched($node, $engine, $_) } 'a' .. 'd';
			$answer = $node->safe_psql('h', "SET flash_maxsim.engine = $engine; SELECT verify('kept'); SELECT verify('kept'); SELECT verify('kept')");
			$kept = chunks_fetched($node, $engine, 'kept');
			last if $kept eq '0';
		}
		is(join("\n", grep { !/^right/ } split /\n/, "$others\n$answer"), '', "$what: $engine is right");
		is($kept, '0', "$what: $engine has documents in the cache");
		# the others, of 13 MB, come and drive documents out
		like($fetched, qr/[1-9]/, "$what: $engine has not all of them there");
	}
	return;
}

# Lets a fault happen some times in the midst of histories.
sub fault
{
	my ($what, $times, $code) = @_;
	my @sessions = start_histories($node, map { ('h', script()) } 1 .. 6);
	my $result;

	for (1 .. $times)
	{
		usleep(200_000 + rand 700_000);
		$code->();
	}
	# nothing by its standard input: where the server is down, psql ends without reading that
	run_command([$node->installed_command('psql'), '-XAtq', '-d', $node->connstr('postgres'), '-c',
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'h' AND backend_type = 'client backend'"]);
	$result = end_histories(@sessions);
	is(join("\n", @{ $result->{wrong} }), '', "$what: no score is wrong");
	is(join("\n", grep { $_ !~ $allowed } @{ $result->{errors} }), '', "$what: no errors but such as are to be expected");
	sound($what);
	return;
}

sound('before');
fault('cancelled and terminated', 12, sub {
		my $pid = pick(backends()) // return;
		my $how = pick('cancel', 'cancel', 'terminate');

		$node->psql('postgres', "SELECT pg_${how}_backend($pid)");
	});
fault('the worker terminated', 6, sub { my $pid = cache_worker(); kill 'TERM', $pid if $pid });
fault('the scorer stopped', 2, sub {
		my @pid = scorer($node, 'pid');

		return if !$pid[0];
		kill 'STOP', $pid[0];
		usleep(1_500_000);
		$pid[1] = cache_worker();
		kill 'TERM', $pid[1] if $pid[1];
		usleep(500_000);
		kill 'CONT', $pid[0];
	});
fault('the scorer killed', 2, sub { my $pid = scorer($node, 'pid'); kill 'KILL', $pid if $pid });
for (1, 2)
{
	fault('a backend killed', 1, sub { my $pid = pick(backends()); kill 'KILL', $pid if $pid; });
	fault('the worker killed', 1, sub { my $pid = cache_worker(); kill 'KILL', $pid if $pid });
}
fault('the server killed', 1, sub {
		my @pids = split /\n/, $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity UNION SELECT pid FROM maxsim_scorer() WHERE pid IS NOT NULL');

		my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];

		$node->kill9;
		# its children notice in their own time, and its parent that it is gone
		ok(await_gone(@pids) && await(sub { !-e "/proc/$postmaster" }), 'the server is killed, and its processes end');
		$node->start;
	});
$node->stop;
done_testing();
