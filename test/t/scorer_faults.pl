# Whatever is killed, stopped or cancelled in the middle of a request: statements get
# the right answer or a clear error, the next one works, and no slot is lost.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Scorer;

my $node = server('node');
prepare($node);
ok(await_ready($node), 'the scorer is ready');
my $right = $node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $RANK");

# Stops every thread of a process, which the signal alone has not done when it is sent.
sub stop_process
{
	my ($pid) = @_;

	kill 'STOP', $pid;
	await(sub { !grep { slurp_file($_) !~ /\) T / } glob "/proc/$pid/task/*/stat" }) or die;
	return;
}

# A session whose next rerank stays with a stopped scorer, and that has begun one.
sub stuck_session
{
	my ($setting, $sql) = @_;
	my $session = Scorer::Session->new($node);

	die unless $session->query("SET flash_maxsim.engine = cuda; $RANK") eq $right;
	$session->query($setting);
	stop_process(scorer($node, 'pid'));
	$session->begin($sql // $RANK);
	await(sub { scorer($node, 'free_slots < slots') eq 't' }) or die;
	return $session;
}

sub continue_scorer
{
	kill 'CONT', scorer($node, 'pid');
	all_slots_free($node, $_[0]);
	is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, "... and the scorer works");
	return;
}

# statements that end while their request is in flight

my $session = stuck_session("SET statement_timeout = '300ms'");
my $start = time;
like($session->end, qr/57014: canceling statement due to statement timeout/, 'a stopped scorer does not keep a statement_timeout from its work');
cmp_ok(time - $start, '<', 20, '... nor delay it');
continue_scorer('after a timeout');
is($session->query("RESET statement_timeout; $RANK"), $right, '... for the same session too');
$session->finish;

$session = stuck_session('SET flash_maxsim.engine = auto');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($session->{pid})");
like($session->end, qr/57014: canceling statement due to user request/, 'a cancelled statement');
continue_scorer('after a cancel');
is($session->query($RANK), $right, '... and the session goes on');
$session->finish;

$session = stuck_session('SET flash_maxsim.engine = auto');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($session->{pid})");
like($session->end, qr/57P01: terminating connection/, 'a terminated session');
$session->finish;
continue_scorer('after a termination');

$session = stuck_session('BEGIN; SAVEPOINT a');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($session->{pid})");
like($session->end, qr/57014/, 'cancelled within a subtransaction');
is($session->query("ROLLBACK TO a"), '', '... which is rolled back');
continue_scorer('after its rollback');
is($session->query("$RANK; COMMIT"), $right, '... and the transaction goes on');
$session->finish;

# the scorer is killed with a request in flight

my $pid = scorer($node, 'pid');
$session = stuck_session('SET flash_maxsim.engine = cuda');
kill 'KILL', $pid;
like($session->end, qr/58000: engine "cuda" failed: scorer ended during the request/, 'the scorer is killed: an error for cuda');
ok(await_ready($node, $pid), '... and another one comes');
all_slots_free($node, 'after the kill');
is($session->query($RANK), $right, '... and the same session uses it');
$session->finish;

$pid = scorer($node, 'pid');
my $failed = scorer($node, 'fallbacks_failed');
$session = stuck_session('SET flash_maxsim.engine = auto');
kill 'KILL', $pid;
is($session->end, $right, 'the scorer is killed: the CPU answers for auto');
cmp_ok(scorer($node, 'fallbacks_failed'), '>', $failed, '... and it is counted');
is($session->query($RANK), $right, '... and meanwhile, while there is no scorer');
like(sqlstate_of($node, "SET flash_maxsim.engine = cuda; $RANK"), qr/^55000: engine "cuda" is not available: (scorer|could not connect)/, '... which is an error for cuda');
ok(await_ready($node), '... until another one comes');
is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, '... and works');
$session->finish;

# a stopped scorer is found out

$pid = scorer($node, 'pid');
$session = stuck_session('SET flash_maxsim.engine = auto');
is($session->end, $right, 'a scorer that does not answer is ended, and the CPU answers');
ok(await_ready($node, $pid), '... and another one comes');
all_slots_free($node, 'after that');
$session->finish;
like(slurp_file($node->logfile), qr/flash_maxsim has no scorer: scorer did not answer/, '... and the log says so');

# a backend is killed with a request in flight: the server restarts

$node->restart; # and with it the back-off
await_ready($node);
$pid = scorer($node, 'pid');
$session = stuck_session('SET flash_maxsim.engine = cuda');
kill 'KILL', $session->{pid};
ok(await_gone($pid), 'a backend is killed: the scorer ends');
$session->finish;
ok(await_ready($node, $pid), '... and another one comes');
is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, '... and works');
all_slots_free($node, 'after the crash');

# errors while documents are gathered and others are with the scorer

$node->safe_psql('postgres', q{
	CREATE TABLE bad AS SELECT i AS id, CASE WHEN i = 500 THEN random_tokens(3, 63) ELSE random_tokens(64, 64) END::multivec AS d
		FROM generate_series(1, 600) i;
	ALTER TABLE bad ADD PRIMARY KEY (id);
	CREATE FUNCTION rerank_bad() RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		n int;
	BEGIN
		FOR i IN 1..20 LOOP
			BEGIN
				IF i % 2 = 0 THEN
					SELECT count(*) INTO n FROM maxsim_rerank((SELECT q FROM query), ARRAY(SELECT generate_series(1, 600)), 'bad(id, d)');
				ELSE
					n := array_length(maxsim_scores((SELECT q FROM query), ARRAY(SELECT generate_series(1, 600)), 'bad(id, d)'), 1);
				END IF;
				RETURN 'no error';
			EXCEPTION WHEN data_exception THEN
				NULL;
			END;
		END LOOP;
		RETURN 'caught';
	END $$;
});
my $bad = $RANK =~ s/docs\(id, d\)/bad(id, d)/r =~ s/300/600/r;
for my $engine ('auto', 'cuda')
{
	$session = Scorer::Session->new($node);
	$session->query("SET flash_maxsim.engine = $engine");
	like($session->query($bad), qr/22000: .*dimension.*document 500 of source "bad\(id, d\)"/s, "$engine: an error at document 500");
	all_slots_free($node, "$engine: after that error");
	is($session->query('BEGIN; SELECT rerank_bad()'), 'caught', "$engine: an error that plpgsql catches");
	all_slots_free($node, "$engine: within its transaction");
	is($session->query('COMMIT'), '', '... which can be committed');
	is($session->query("BEGIN; DECLARE c CURSOR FOR $RANK; FETCH 1 FROM c; CLOSE c; COMMIT"), $right, "$engine: a cursor that is closed");
	is($session->query("BEGIN; DECLARE c CURSOR FOR SELECT doc_id FROM maxsim_rerank((SELECT q FROM query), ARRAY[7], 'docs(id, d)'), generate_series(1, 9);"
				. " FETCH 2 FROM c"), "7\n7", "$engine: a cursor that is left open");
	all_slots_free($node, "$engine: between its rows");
	is($session->query('ROLLBACK'), '', '... and closed by a rollback');
	is($session->query($RANK), $right, '... and the session goes on');
	$session->finish;
}
all_slots_free($node, 'in the end');
$node->stop;
done_testing();
