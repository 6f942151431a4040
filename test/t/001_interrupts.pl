# Cancel, statement_timeout and pg_terminate_backend end a statement at once, in the
# middle of many documents as in the middle of a long one, and the session goes on.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', 'jit = off');
$node->start;

# what the time from the interrupt to the end should be, and how much a busy machine may add
my $limit = 0.1;
my $slack = 1.0;

$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION flash_maxsim;
	CREATE FUNCTION ones(ntokens integer) RETURNS multivec LANGUAGE sql IMMUTABLE AS
	$$ SELECT multivec(decode(repeat('003c', 128 * ntokens), 'hex'), 128, 'f16') $$;
	CREATE TABLE pages AS SELECT id, ones(1030) AS emb FROM generate_series(0, 9) id;
	CREATE TABLE huge AS SELECT 1 AS id, ones(300000) AS emb;
	-- many documents in little space
	CREATE VIEW many AS SELECT i AS id, emb FROM generate_series(1, 200000) i JOIN pages p ON p.id = i % 10;
	-- out of order, which takes long to sort
	CREATE TABLE unsorted (ids bigint[]);
	ALTER TABLE unsorted ALTER ids SET STORAGE EXTERNAL;
	INSERT INTO unsorted SELECT array_agg(i * 7919 % 6000011 ORDER BY i) FROM generate_series(1, 6000000::bigint) i;
	CREATE TABLE points AS SELECT i AS id, '[[1]]'::multivec AS emb FROM generate_series(1, 5000) i;
	-- little to read, and 128 million values
	CREATE TABLE signs AS SELECT multivec(decode(repeat('a5', 16 * 1000000), 'hex'), 128, 'b1') AS emb;
	CREATE TABLE queries AS SELECT n, ones(n) AS q FROM unnest(ARRAY[32, 128, 2000]) n;
});

my $query = "(SELECT q FROM queries WHERE n = %d)";
my %statements = (
	'200,000 long documents' => sprintf("SELECT count(*) FROM maxsim_rerank($query, ARRAY(SELECT generate_series(1, 200000)), 'many(id, emb)')", 128),
	'one huge document' => sprintf("SELECT maxsim($query, emb) FROM huge", 2000),
	'one huge document of a source' => sprintf("SELECT maxsim_scores($query, '{1}', 'huge(id, emb)')", 2000),
	'plain SQL over many documents' => sprintf("SELECT sum(maxsim($query, emb)) FROM many", 128),
	'many documents of a tensor' => sprintf(
		"SELECT flash_maxsim_rerank_direct($query, (SELECT emb FROM huge), ARRAY(SELECT i::bigint FROM generate_series(1, 200000) i), ARRAY(SELECT 1030::bigint FROM generate_series(1, 200000)), 1030)", 128),
	# the library is loaded by the literal, so that the plan scores in batches
	'a condition behind scores' => q{SELECT count(*) FROM points WHERE CASE WHEN maxsim('[[1]]', emb) > 0 THEN length(rpad('', 1000000 + id, 'ab')) = 0 END},
	# not scoring, but as long
	'encoding a huge document' => q{SELECT sum(cardinality(maxsim_fde_document(emb, 10, 128, 20))) FROM huge, generate_series(1, 20)},
	'pooling a long document' => q{SELECT sum(multivec_ntokens(multivec_pool(multivec_slice(emb, 1 + g, 8192), 2))) FROM huge, generate_series(1, 20) g},
	'rotating a huge document' => q{SELECT sum(multivec_ntokens(multivec_rotate(emb, g))) FROM huge, generate_series(1, 20) g},
	'writing a long text' => q{SELECT length((SELECT emb FROM huge)::text)});

my $goes_on = "SELECT maxsim('[[1,2]]', '[[3,4]]'), maxsim_scores(ones(1), '{1}', 'many(id, emb)')";

# Runs a statement: seconds until it was done, what ended it, and what the session answers then.
sub timed
{
	my ($statement, $timeout) = @_;
	my ($stdout, $stderr);

	$node->psql(
		'postgres', qq{
		SET statement_timeout = $timeout;
		DO \$do\$
		DECLARE
			result text;
			outcome text = 'done';
		BEGIN
			BEGIN
				$statement INTO result;
			EXCEPTION
				WHEN query_canceled THEN outcome = 'cancelled';
				WHEN OTHERS THEN outcome = SQLERRM;
			END;
			RAISE NOTICE 'after % s: %', extract(epoch FROM clock_timestamp() - statement_timestamp()), outcome;
		END \$do\$;
		SET statement_timeout = 0;
		$goes_on;
	}, stdout => \$stdout, stderr => \$stderr);
	my ($seconds, $outcome) = $stderr =~ /after ([0-9.]+) s: (.*)/;
	# a timeout that comes as late as in the handler is not handled
	return defined $seconds ? ($seconds, $outcome, $stdout) : (1e9, $stderr, $stdout);
}

# statement_timeout: how much later than asked for
foreach my $name (sort keys %statements)
{
	my ($seconds, $outcome, $answer) = timed($statements{$name}, 300);
	my $late = $seconds - 0.3;

	if ($name eq 'writing a long text' && $outcome eq 'done')
	{
		# a fast machine may have done it
		pass("$name: done in time");
	}
	else
	{
		ok($outcome eq 'cancelled' && $late < $limit + $slack, "$name: statement_timeout");
	}
	note(sprintf('%s: %.0f ms after the timeout%s', $name, 1000 * $late, $late > $limit ? ', more than wanted' : ''));
	is($answer, '11|{128}', "$name: the session goes on");
}

# What takes about a second alone is measured by the time that it takes uncancelled,
# and again if the machine was busy with something else in the meantime.
my %short = (
	'reading a long text' => q{SELECT multivec_ntokens(('[' || repeat('[1e-37,1e-37,1e-37],', 4000000) || '[0,0,0]]')::multivec)},
	'a cast to an array' => q{SELECT array_length((SELECT emb FROM signs)::real[], 1)},
	'a cast to another format' => q{SELECT multivec_ntokens((SELECT emb FROM signs)::multivec(128, i8))},
	'scaling to unit length' => q{SELECT multivec_ntokens(multivec_normalize(emb)) FROM signs},
	# the source is looked for after the ids are sorted
	'sorting ids' => q{SELECT maxsim_scores(ones(1), ids, 'absent(id, emb)') FROM unsorted});

foreach my $name (sort keys %short)
{
	my ($whole, $late, $outcome, $end, $answer);

	foreach my $attempt (1 .. 6)
	{
		($whole, $end) = timed($short{$name}, 0);
		(my $seconds, $outcome, $answer) = timed($short{$name}, int(500 * $whole));
		$late = $seconds - $whole / 2;
		last if $outcome eq 'cancelled' && $late < $whole / 3;
	}
	like($end, qr/^done$|relation "absent" does not exist/, "$name: uncancelled");
	ok($outcome eq 'cancelled' && $late < $whole / 3, "$name: statement_timeout");
	note(sprintf('%s: %.0f ms after the timeout, of %.0f ms in all', $name, 1000 * $late, 1000 * $whole));
	is($answer, '11|{128}', "$name: the session goes on");
}

# a text is read no further than it can be a multivec
my ($make, $read, $outcome);
foreach my $attempt (1 .. 6)
{
	my $text = q{'[[' || repeat('1e-37,', 20000000) || '0]]'};

	($make) = timed("SELECT length($text)", 0);
	($read, $outcome) = timed("SELECT ($text)::multivec", 0);
	last if $read < 1.7 * $make;
}
is($outcome, 'multivec cannot have more than 65535 dimensions', 'a token of 20 million numbers');
ok($read < 1.7 * $make, 'a token of 20 million numbers is not read to its end');
note(sprintf('%.0f ms, of which %.0f ms to make it', 1000 * $read, 1000 * $make));

# pg_cancel_backend and pg_terminate_backend: how long until psql is done
foreach my $function (qw(pg_cancel_backend pg_terminate_backend))
{
	foreach my $name ('200,000 long documents', 'one huge document', 'one huge document of a source')
	{
		my ($stdout, $stderr) = ('', '');
		my $session = IPC::Run::start(
			[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SET application_name = 'victim'", '-c', $statements{$name} ],
			'<', \undef, '>', \$stdout, '2>', \$stderr);

		$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND state = 'active' AND query LIKE 'SELECT%'})
		  or die 'the statement did not start';
		sleep(0.3);
		# the signal itself takes a connection: its time is not counted
		my ($before, $after) = split /\|/, $node->safe_psql('postgres', qq{
			SELECT extract(epoch FROM clock_timestamp()) WHERE $function((SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'))} . q{;
			DO $$
			BEGIN
				WHILE EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'victim' AND state = 'active') LOOP
					PERFORM pg_sleep(0.002), pg_stat_clear_snapshot();
				END LOOP;
			END $$;
			SELECT extract(epoch FROM clock_timestamp())}) =~ s/\n/|/r;
		$session->finish;
		my $late = $after - $before;

		ok($late < $limit + $slack, "$name: $function");
		note(sprintf('%s: %.0f ms after %s%s', $name, 1000 * $late, $function, $late > $limit ? ', more than wanted' : ''));
		like($stderr, $function eq 'pg_cancel_backend' ? qr/canceling statement due to user request/ : qr/terminating connection due to administrator command/,
			"$name: $function is what ended it");
		is($stdout, '', "$name: $function left no result");
	}
}
is($node->safe_psql('postgres', q{SELECT maxsim_scores(ones(2), '{1,2}', 'many(id, emb)')}), '{256,256}', 'the server goes on');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'no crash');

$node->stop;
done_testing();
