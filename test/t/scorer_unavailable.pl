# Where there cannot be a scorer the server comes up, says why, and scores on the CPU.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

# SETTING...: restarts a server with these settings instead of the last ones.
my $node = server('node');
prepare($node);
my $right = $node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $RANK");

sub set
{
	my ($name, $value) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET $name = '$value'");
	return;
}

# A reason that maxsim_scorer() must come to show, while the server does its work.
sub cpu_scores
{
	my ($what, $state, $reason) = @_;
	my $shown;

	ok(await(sub { $shown = scorer($node, "state || ': ' || reason"); $shown =~ /^$state: $reason/ }), "$what: it is $state: $reason");
	is($node->safe_psql('postgres', "SELECT detail FROM maxsim_engines() WHERE engine = 'cuda' AND NOT available"),
		scorer($node, 'reason'), '... as maxsim_engines says too');
	is($node->safe_psql('postgres', $RANK), $right, '... and the CPU scores');
	like(sqlstate_of($node, "SET flash_maxsim.engine = cuda; $RANK"), qr/^55000: engine "cuda" is not available: $reason/, '... but for cuda, an error');
	return;
}

# no scorer wanted

set('flash_maxsim.scorer_engine', 'off');
$node->restart;
cpu_scores('scorer_engine = off', 'unavailable', 'flash_maxsim.scorer_engine is off');
is(scorer($node, 'slots'), '0', '... and no memory is reserved');

# no GPU, or no CUDA in the program

SKIP:
{
	set('flash_maxsim.scorer_engine', 'cuda');
	$node->restart;
	await(sub { scorer($node, 'state') ne 'starting' });
	skip('there is a GPU here', 5) if scorer($node, 'state') eq 'ready';
	cpu_scores('no GPU', 'unavailable', '\w+');
	ok(await(sub { slurp_file($node->logfile) =~ /has no scorer: .*\n.*DETAIL:  It is tried again in 60000 ms\.\n.*HINT:  The CPU scores, .*scorer_engine = off/ }),
		'... and the log says what that means');
}

# more memory than there is, or than files may have

set('flash_maxsim.scorer_engine', 'cpu');
SKIP:
{
	# 32 slots of 4 MB, and enough for the files of the server
	skip('no prlimit here', 4) if system('prlimit', '--pid', $$, '--fsize=67108864:') != 0;
	$node->restart;
	system('prlimit', '--pid', $$, '--fsize=unlimited:');
	cpu_scores('a file size limit', 'unavailable', 'could not map \d+ bytes for 32 slots: File too large');
}

set('flash_maxsim.slots', 4096);
set('flash_maxsim.slot_size', '1GB');
$node->restart;
is(scorer($node, "slots = 4096 OR reason LIKE 'could not map 4398318125056 bytes for 4096 slots: %'"), 't', 'settings that ask for 4 TB');
is($node->safe_psql('postgres', $RANK), $right, '... do not keep the server from its work');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET flash_maxsim.slots');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET flash_maxsim.slot_size');

# something that cannot be removed lies where the socket belongs

$node->stop;
my $socket = $node->data_dir . '/pg_stat_tmp/flash_maxsim.sock';
unlink $socket;
mkdir $socket;
$node->start;
cpu_scores('a directory instead of the socket', 'restarting', 'scorer could not listen on "[^"]+": ');
rmdir $socket;
ok(await_ready($node), '... and when that is gone, the scorer is there');

# another program, if the test may write to the installation

sub run_script
{
	my ($script) = @_;

	replace_program(
		sub {
			my ($program) = @_;

			append_to_file($program, $script);
			chmod 0755, $program;
		});
	$node->restart;
	return;
}

SKIP:
{
	skip('the installation is not ours to write to', 22) unless can_replace_program($node);

	replace_program(sub { });
	$node->restart;
	cpu_scores('no program', 'restarting', 'could not execute ".*": No such file or directory');

	run_script("#!/bin/sh\nexit 7\n");
	cpu_scores('a program that ends', 'restarting', 'scorer ended while it was starting');

	run_script("#!/bin/sh\nkill -SEGV \$\$\n");
	cpu_scores('a program that crashes', 'restarting', 'scorer ended while it was starting');

	run_script("#!/bin/sh\necho what is this >&4\nsleep 600\n");
	cpu_scores('a program that says something else', 'restarting', 'scorer ended while it was starting');

	# of another version: greets, with regret
	run_script(<<"END");
#!$^X
use IO::Socket::UNIX;
use Socket;
my \$greeting = pack('L L Q L L a160', 0x534d584d, 99, 0, 0, 0, 'scorer speaks protocol version 99');
unlink 'pg_stat_tmp/flash_maxsim.sock';
my \$listener = IO::Socket::UNIX->new(Type => SOCK_SEQPACKET, Local => 'pg_stat_tmp/flash_maxsim.sock', Listen => 9) or exit 1;
open(my \$status, '>&=', 4);
syswrite \$status, pack('L L L a16 a1024 x4 a128 a160 a160', 1, 0, 1, 'perl', 'fake', '', '', '');
while (my \$client = \$listener->accept)
{
	recv \$client, my \$hello, 1000, 0;
	send \$client, \$greeting, 0;
}
END
	ok(await_ready($node), 'a program of another version seems ready');
	is($node->safe_psql('postgres', $RANK), $right, '... but the CPU scores');
	is(sqlstate_of($node, "SET flash_maxsim.engine = cuda; $RANK"),
		'55000: engine "cuda" is not available: scorer speaks protocol version 99', '... as an error for cuda tells');
	is(scorer($node, 'fallbacks_not_ready > 0'), 't', '... and as is counted');

	restore_program();
	$node->restart;
	ok(await_ready($node), 'the right program is back');
	is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, '... and works');
}
$node->stop;
done_testing();
