# The scorer begins and ends with the server, whatever way the server ends.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

# without preload

my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init;
$plain->start;
prepare($plain);
is($plain->safe_psql('postgres', "SELECT available, active, detail FROM maxsim_engines() WHERE engine = 'cuda'"),
	'f|f|flash_maxsim is not in shared_preload_libraries', 'without preload there is no engine cuda');
is($plain->safe_psql('postgres', "SELECT count(*) FROM maxsim_engines() WHERE engine = 'cpu' AND active"),
	'1', '... and one of the CPU');
is(scorer($plain, 'state, reason, pid, slots'), 'unavailable|flash_maxsim is not in shared_preload_libraries||0', '... and no scorer');
is(sqlstate_of($plain, "SET flash_maxsim.engine = cuda; $RANK"),
	'55000: engine "cuda" is not available: flash_maxsim is not in shared_preload_libraries', '... and cuda is an error');
is($plain->safe_psql('postgres', "SET flash_maxsim.engine = auto; $RANK"),
	$plain->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $RANK"), '... and auto the same as cpu');
$plain->stop;

# with it

my $node = server('node');
prepare($node);
ok(await_ready($node), 'the scorer becomes ready');
like($node->safe_psql('postgres', "SELECT available, active, detail FROM maxsim_engines() WHERE engine = 'cuda'"),
	qr/^t\|t\|scores in process \d+ by engine cpu$/, 'maxsim_engines shows it');
is($node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; SELECT active FROM maxsim_engines() WHERE engine = 'cuda'"),
	'f', '... inactive where the CPU is asked for');
my $right = $node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $RANK");
is(scorer($node, 'batches'), '0', 'engine cpu leaves it alone');
is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, 'engine cuda gives the same bits');
cmp_ok(scorer($node, 'batches'), '>', 0, '... by the scorer');
is(scorer($node, 'documents'), '300', '... every document');
is($node->safe_psql('postgres', $RANK), $right, 'engine auto gives the same bits');
cmp_ok(scorer($node, 'documents'), '>', 500, '... by the scorer, but for a small rest');
my $socket = $node->data_dir . '/pg_stat_tmp/flash_maxsim.sock';
is(sprintf('%o', (stat $socket)[2] & 0777), '700', 'the socket is for the server\'s user alone');

# a standby

{
	local $ENV{PGOPTIONS};
	my ($stdout, $stderr) = run_command(
		[$node->installed_command('pg_basebackup'), '-D', $node->backup_dir . '/b', '-h', $node->host, '-p', $node->port,
			'--checkpoint', 'fast', '--no-sync']);
	is($stderr, '', 'a base backup has nothing to say about the socket');
}
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
ok(await_ready($standby), 'a standby has a scorer of its own');
is($standby->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, '... that works');
$standby->promote;
is($standby->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, '... and is kept by a promotion');
$standby->stop;

# the worker is told to end

my $pid = scorer($node, 'pid');
my $worker = worker_pid($node);
kill 'HUP', $worker;
kill 'TERM', $worker;
ok(await_gone($pid), 'the scorer ends with its worker');
ok(await_ready($node, $pid), '... and both come back');
is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, '... and work');

# restarts and crashes

for my $way ('fast', 'immediate', 'kill', 'kill worker')
{
	my $session = Scorer::Session->new($node);

	$pid = scorer($node, 'pid');
	is($session->query("SET flash_maxsim.engine = cuda; $RANK"), $right, "before $way: a session uses the scorer");
	if ($way eq 'kill worker')
	{
		kill 'KILL', worker_pid($node);
	}
	elsif ($way eq 'kill')
	{
		my $postmaster = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/ && $1;

		$node->kill9;
		ok(await_gone($session->{pid}), "$way: the session ends");
		await(sub { !kill 0, $postmaster }); # until it is reaped a new one takes it for alive
	}
	else
	{
		$node->stop($way);
	}
	ok(await_gone($pid), "$way: no scorer is left");
	$session->finish;
	if ($way eq 'fast')
	{
		# what else may lie where the socket belongs
		unlink $socket;
		append_to_file($socket, 'stale');
	}
	$node->start unless $way eq 'kill worker';
	ok(await_ready($node, $pid), "after $way: another scorer is ready");
	is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, "... and works");
	all_slots_free($node, "after $way");
}
$node->stop;
done_testing();
