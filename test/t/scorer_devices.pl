# The scorer's way with GPUs, on imaginary ones that fail when they are told to
# (test/fake_cuda.c): which of them it uses, how it shares work out among them, and
# that their failures cost no right answer.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use File::Basename;
use List::Util qw(min max sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Scorer;

my $fake = dirname(dirname($FindBin::RealBin)) . '/build/test/flash_maxsim_scorer';
plan skip_all => 'make fake-scorer has not been run' unless -x $fake;

# a rerank has three batches
my $node = server('node', 'flash_maxsim.scorer_engine = cuda', 'flash_maxsim.slots = 64', 'flash_maxsim.gpu_cache_size = off',
	'max_connections = 80', 'shared_buffers = 64MB');
if (!can_replace_program($node))
{
	$node->stop;
	plan skip_all => 'the installation is not ours to write to';
}
prepare($node);
replace_program(sub { symlink $fake, $_[0] or die "could not link $_[0]: $!" });
my $right = $node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $RANK");
my $cuda = "SET flash_maxsim.engine = cuda; $RANK";

# NODE, LINE...: what its devices do from now on.
sub order_of
{
	my ($of, @lines) = @_;
	my $file = $of->data_dir . '/fake_cuda';

	unlink "$file.new";
	append_to_file("$file.new", join('', map { "$_\n" } @lines));
	rename "$file.new", $file or die;
	return;
}

sub order { return order_of($node, @_) }

my @calls = qw(count open register lane query submit wait alloc move);

# How often a call has failed so far, and the batches of each device.
sub counts
{
	my @numbers = unpack('Q*', slurp_file($node->data_dir . '/fake_cuda.counts'));
	my %counts = (batches => [@numbers[@calls .. $#numbers]]);

	@counts{@calls} = @numbers;
	return %counts;
}

# The line for a CALL that fails with a STATUS: the next one or N, on any device.
sub fail_next
{
	my ($call, $status, $n) = @_;
	my %counts = counts();

	return "fail $call $status -1 " . ($counts{$call} + ($n // 1));
}

# Batches of each device while the code runs.
sub batches_during
{
	my ($n, $code) = @_;
	my %before = counts();

	$code->();
	my %after = counts();
	return map { $after{batches}[$_] - $before{batches}[$_] } 0 .. $n - 1;
}

sub restart_with
{
	my ($devices, @orders) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET flash_maxsim.devices = '$devices'");
	order(@orders);
	$node->restart;
	return;
}

# The answers of sessions that are not right, neither that nor as the pattern allows.
sub wrong_answers
{
	my ($n, $allowed, @sessions) = @_;
	my @wrong;

	for my $session (@sessions)
	{
		my @lines = split /\n/, $session->end;
		my @others = grep { $_ ne $right && !/$allowed/ } @lines;

		push @wrong, @others > 0 ? @others : @lines < $n ? 'too few answers' : ();
	}
	diag(join "\n", @wrong[0 .. min(5, $#wrong)]) if @wrong > 0;
	return scalar @wrong;
}

sub sessions
{
	my ($n, $engine) = @_;
	my @sessions = map { Scorer::Session->new($node) } 1 .. $n;

	$_->query("SET flash_maxsim.engine = $engine") for @sessions;
	return @sessions;
}

# Reranks, times of them in each of the sessions at once.
sub begin_reranks
{
	my ($times, @sessions) = @_;

	$_->begin(join '; ', ($RANK) x $times) for @sessions;
	return;
}

my $NEVER = qr/^(?!)/;

# a batch that never ends, on another server, which takes a minute to find that out

my $hung = server('hung', 'flash_maxsim.scorer_engine = cuda', 'flash_maxsim.slots = 4', 'flash_maxsim.gpu_cache_size = off');
prepare($hung);
await_ready($hung);
my $hung_right = $hung->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $RANK");
my $hung_pid = scorer($hung, 'pid');
my $hung_session = Scorer::Session->new($hung);
order_of($hung, 'slow 0 600000');
$hung_session->begin($RANK);
await_sql($hung, 'SELECT free_slots = 2 FROM maxsim_scorer()');
order_of($hung, 'slow 0 0');

# how work is shared out

for my $n (1, 2, 8)
{
	restart_with('all', "devices $n", map { "slow $_ 10" } 0 .. $n - 1);
	ok(await_ready($node), "$n devices: the scorer is ready");
	is($node->safe_psql('postgres', "SELECT string_agg(device, ',') FROM maxsim_engines() WHERE engine = 'cuda' AND available AND active"),
		join(',', map { "imaginary GPU $_" } 0 .. $n - 1), '... and shows them');
	is($node->safe_psql('postgres', $cuda), $right, '... and scores right');
	my @sessions = sessions(16, 'cuda');
	my @batches = batches_during($n, sub { begin_reranks(8, @sessions); is(wrong_answers(8, $NEVER, @sessions), 0, '... also for 16 sessions at once') });
	# a rerank is a full buffer and a rest
	is(sum(@batches), 16 * 8 * 2, '... each batch once');
	cmp_ok(min(@batches), '>', 0.6 * sum(@batches) / $n, '... of which each device has its share');
	note("batches: @batches");
	$_->finish for @sessions;
	all_slots_free($node, "$n devices");
}

restart_with('all', 'devices 2', 'slow 0 400', 'slow 1 1');
ok(await_ready($node), 'one of two devices is slow');
{
	my @sessions = sessions(24, 'cuda');
	my @batches = batches_during(2, sub { begin_reranks(6, @sessions); is(wrong_answers(6, $NEVER, @sessions), 0, '... all answers are right') });

	cmp_ok($batches[1], '>', 3 * $batches[0], '... and most of them come from the other one');
	note("batches: @batches");
	$_->finish for @sessions;
}

# documents that devices keep are scored by the one that has them

$node->append_conf('postgresql.conf', "flash_maxsim.gpu_cache_size = 16MB");
restart_with('all', 'devices 3');
await_ready($node);
{
	my @sessions = sessions(8, 'cuda');

	begin_reranks(4, @sessions);
	is(wrong_answers(4, $NEVER, @sessions), 0, 'devices with a cache: all answers are right');
	my @batches = batches_during(3, sub { begin_reranks(4, @sessions); is(wrong_answers(4, $NEVER, @sessions), 0, '... also from what they have') });
	cmp_ok((grep { $_ > 0 } @batches), '>', 1, '... which is on several of them');
	note("batches: @batches");
	$_->finish for @sessions;
	order('devices 3', fail_next('move', 'memory', 1000));
	$node->safe_psql('postgres', 'UPDATE docs SET d = (d::real[])::multivec');
	is($node->safe_psql('postgres', $RANK), $right, '... and without memory to take in more, the CPU answers for auto');
	order('devices 3', fail_next('submit', 'lost'));
	is($node->safe_psql('postgres', $RANK), $right, '... and when one is lost, documents are fetched again');
	ok(await_ready($node), '... and another scorer comes');
	is($node->safe_psql('postgres', $cuda), $right, '... whose devices have nothing yet');
}
$node->append_conf('postgresql.conf', "flash_maxsim.gpu_cache_size = off");

# which devices

for my $case (['1', 1], ['0,2', 0, 2], [' 2 , 0 ', 2, 0], ['1,1,1', 1], ['02', 2])
{
	my ($list, @numbers) = @$case;

	restart_with($list, 'devices 3');
	ok(await_ready($node), "devices '$list': the scorer is ready");
	is($node->safe_psql('postgres', "SELECT string_agg(device, ',') FROM maxsim_engines() WHERE engine = 'cuda' AND available"),
		join(',', map { "imaginary GPU $_" } @numbers), '... on these devices');
	my @batches = batches_during(3, sub { is($node->safe_psql('postgres', $cuda), $right, '... and scores right') });
	is(join(',', grep { $batches[$_] > 0 } 0 .. 2), join(',', sort @numbers), '... with these alone');
}

# A reason that maxsim_scorer() and maxsim_engines() come to show while the CPU scores.
sub is_down
{
	my ($what, $state, $reason) = @_;

	ok(await_sql($node, "SELECT state = '$state' AND reason = '$reason' FROM maxsim_scorer()"), "$what: it is $state: $reason")
	  or diag(scorer($node, 'state, reason'));
	is($node->safe_psql('postgres', "SELECT available, detail FROM maxsim_engines() WHERE engine = 'cuda'"), "f|$reason", '... as maxsim_engines says too');
	is($node->safe_psql('postgres', $RANK), $right, '... and the CPU scores');
	is(sqlstate_of($node, $cuda), qq(55000: engine "cuda" is not available: $reason), '... but for cuda, an error');
	return;
}

restart_with('0,7', 'devices 2');
is_down('a device that does not exist', 'unavailable', 'flash_maxsim.devices is "0,7", but there is no GPU 7: they are 0 to 1');
restart_with('1', 'devices 1');
is_down('the second device of one', 'unavailable', 'flash_maxsim.devices is "1", but there is no GPU 1: the only one is 0');
restart_with('all', 'devices 0');
is_down('no device', 'unavailable', 'no imaginary driver');
restart_with('0,1', 'devices 2', 'fail open unavailable 1 999999');
is_down('a listed device that is of no use', 'unavailable', 'imaginary GPU 1: unavailable at open');
restart_with('all', 'devices 2', 'fail open unavailable -1 999999');
is_down('all devices are of no use', 'unavailable', 'imaginary GPU 1: unavailable at open');

restart_with('all', 'devices 3', 'fail open unavailable 0 999999');
ok(await_ready($node), 'of all devices, one is of no use');
is($node->safe_psql('postgres', "SELECT string_agg(device, ',') FROM maxsim_engines() WHERE engine = 'cuda' AND available"),
	'imaginary GPU 1,imaginary GPU 2', '... the others are used');
is($node->safe_psql('postgres', $cuda), $right, '... and score right');
like(slurp_file($node->logfile), qr/flash_maxsim scorer leaves out a GPU: imaginary GPU 0: unavailable at open/, '... and the log says so');

# lists that are none

my @malformed = ('abc', '', ' ', ',', '0,', ',0', '0,,1', '0;1', '0 1', '-1', '+1', '1.5', '0x1', 'all,1', '1,all', 'ALL', '99999', '99999999999999999999',
	join(',', 0 .. 16));
for my $list (@malformed)
{
	is(sqlstate_of($node, "ALTER SYSTEM SET flash_maxsim.devices = '$list'"),
		qq(22023: invalid value for parameter "flash_maxsim.devices": "$list"), "devices '$list' cannot be set");
}
is(sqlstate_of($node, "ALTER SYSTEM SET flash_maxsim.devices = '" . join(',', 0 .. 15) . "'"), 'no error:  ', '... but 16 devices can');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET flash_maxsim.devices');
for my $list ('abc', '0,', '0;1', '')
{
	my $log = -s $node->logfile;

	$node->stop;
	$node->append_conf('postgresql.conf', "flash_maxsim.devices = '$list'");
	is($node->start(fail_ok => 1), 0, "with devices '$list' in the configuration file the server does not start");
	like(substr(slurp_file($node->logfile), $log),
		qr/FATAL:  invalid value for parameter "flash_maxsim.devices": "$list"\n.*DETAIL:  It must be "all", or at most 16 device numbers such as "0,2"/, '... and says why');
	$node->append_conf('postgresql.conf', "flash_maxsim.devices = 'all'");
	$node->start;
}

# memory or a device that is not to be had at the start

for my $case (['register', 'memory', 0], ['lane', 'memory', 1], ['open', 'lost', 1])
{
	my ($call, $status, $device) = @$case;
	my $log = -s $node->logfile;

	restart_with('all', 'devices 2', "fail $call $status $device 999999");
	is_down("$call: $status at the start", 'restarting', "imaginary GPU $device: $status at $call");
	ok(await(sub { substr(slurp_file($node->logfile), $log) =~ /tried again in 1000 ms.*tried again in 2000 ms/s }), '... and it is tried again, ever more seldom');
	order('devices 2');
	ok(await_ready($node), '... until it works');
	is($node->safe_psql('postgres', $cuda), $right, '... and scores right');
}

# failures of one batch

for my $call ('query', 'submit', 'wait')
{
	restart_with('all', 'devices 2');
	await_ready($node);
	my ($pid, $failed) = split /\|/, scorer($node, 'pid, fallbacks_failed');

	order('devices 2', fail_next($call, 'memory'));
	is($node->safe_psql('postgres', $RANK), $right, "out of memory at $call: the CPU answers for auto");
	is(scorer($node, "fallbacks_failed - $failed"), '1', '... which is counted');
	order('devices 2', fail_next($call, 'memory'));
	like(sqlstate_of($node, $cuda), qr/^53200: engine "cuda" failed: imaginary GPU \d: memory at $call$/, '... and is an error for cuda');
	is($node->safe_psql('postgres', $cuda), $right, '... and the next statement works');
	is(scorer($node, 'pid'), $pid, '... with the same process');
	all_slots_free($node, "out of memory at $call");
}

for my $call ('query', 'submit', 'wait')
{
	restart_with('all', 'devices 2');
	await_ready($node);
	my ($pid, $failed) = split /\|/, scorer($node, 'pid, fallbacks_failed');
	my $session = Scorer::Session->new($node);

	order('devices 2', fail_next($call, 'lost'));
	is($session->query($RANK), $right, "a device lost at $call: the CPU answers for auto");
	cmp_ok(scorer($node, 'fallbacks_failed'), '>', $failed, '... which is counted');
	ok(await_ready($node, $pid), '... and another scorer comes');
	is($session->query($cuda), $right, '... and the same session uses it');

	$pid = scorer($node, 'pid');
	order('devices 2', fail_next($call, 'lost'));
	like($session->query($RANK), qr/58000: engine "cuda" failed: imaginary GPU \d: lost at $call$/m, '... and an error for cuda');
	# another process may just have been started
	like($session->query($RANK), qr/ERROR:  (55000: engine "cuda" is not available: |58000: engine "cuda" failed: )|^\Q$right\E$/m, '... as is the next statement, or it works');
	ok(await_sql($node, "SELECT pid IS NULL AND state = 'restarting' AND reason ~ '^imaginary GPU \\d: lost at $call\$' FROM maxsim_scorer()"), '... and maxsim_scorer says why');
	ok(await_ready($node, $pid), '... until another scorer comes');
	is($session->query($RANK), $right, '... and works');
	$session->finish;
	all_slots_free($node, "a device lost at $call");
}
like(slurp_file($node->logfile), qr/flash_maxsim has no scorer: imaginary GPU \d: lost at wait\n/, 'the log says why too');

# what the documents' format cannot hold is the statement's error, not the device's

$node->safe_psql('postgres', q{
	CREATE TABLE half AS SELECT 1 AS id, '[[1,2],[3,4]]'::multivec(2, f16) AS d;
});
my $large = "SELECT * FROM maxsim_rerank('[[1e30,0]]', ARRAY[1], 'half(id, d)')";
my $failed = scorer($node, 'fallbacks_failed');
is(sqlstate_of($node, "SET flash_maxsim.engine = cuda; $large"), sqlstate_of($node, "SET flash_maxsim.engine = cpu; $large"), 'a query out of range: the same error');
like(sqlstate_of($node, "SET flash_maxsim.engine = cuda; $large"), qr/^22003: /, '... out of range');
order('devices 2', fail_next('query', 'range'));
is($node->safe_psql('postgres', $cuda), $right, '... and where the device alone says so, the CPU answers');
is(scorer($node, 'fallbacks_failed'), $failed, '... and nothing counts as a failure');

# crowds

sub lose_devices { order('devices 2', 'slow 0 3', 'slow 1 3', fail_next('wait', 'lost')); return; }
sub kill_scorer { kill 'KILL', scorer($node, 'pid'); return; }
sub exhaust_memory { order('devices 2', 'slow 0 3', 'slow 1 3', fail_next('submit', 'memory', 20)); return; }

for my $case (['nothing happens', sub { }], ['a device is lost', \&lose_devices], ['the scorer is killed', \&kill_scorer], ['memory runs out', \&exhaust_memory])
{
	my ($what, $do) = @$case;

	restart_with('all', 'devices 2', 'slow 0 3', 'slow 1 3');
	await_ready($node);
	my ($pid, $batches) = split /\|/, scorer($node, 'pid, batches');
	my @auto = sessions(25, 'auto');
	my @cuda = sessions(25, 'cuda');

	begin_reranks(6, @auto, @cuda);
	await_sql($node, "SELECT batches > $batches + 40 FROM maxsim_scorer()") or die;
	$do->();
	is(wrong_answers(6, $NEVER, @auto), 0, "$what beside 50 sessions: auto is always right");
	is(wrong_answers(6, $what eq 'nothing happens' ? $NEVER : qr/ERROR:  (58000|55000|53200): engine "cuda" |^HINT:  With flash_maxsim.engine = auto|^(CONTEXT|LOCATION):  |^SQL statement /, @cuda),
		0, '... and cuda right, or an error that says so');
	$_->finish for @auto, @cuda;
	# a crowd that was done before it came to that has left it
	$node->psql('postgres', "SET flash_maxsim.engine = auto; $RANK") if $what =~ /lost/;
	order('devices 2') if $what =~ /memory/;
	ok(await_ready($node, $what =~ /lost|killed/ ? $pid : undef), '... the scorer is there');
	all_slots_free($node, $what);
	is($node->safe_psql('postgres', $cuda), $right, '... and works');
}

# what became of the batch that never ends

is($hung_session->end, $hung_right, 'a batch that never ends: the CPU answers');
ok(await_ready($hung, $hung_pid), '... and another scorer comes');
like(slurp_file($hung->logfile), qr/flash_maxsim has no scorer: scorer did not finish a request/, '... of which the log says why');
is($hung_session->query("SET flash_maxsim.engine = cuda; $RANK"), $hung_right, '... and the same session uses it');
all_slots_free($hung, 'after that');
$hung_session->finish;
$hung->stop;

unlike(slurp_file($_->logfile), qr/fake_cuda: violation|ThreadSanitizer/, 'the scorer kept what it promises to the CUDA engine') for $node, $hung;
$node->stop;
done_testing();
