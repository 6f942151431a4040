# Cache.pm
#
# What the tests of the document cache share: a database of documents of every size and
# format, random histories of what can happen to them, and the check that cached scores
# are those of maxsim(), which reads every document anew.
package Cache;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Scorer '$CHUNKS_READ';
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(documents chunks_fetched history start_histories end_histories seed pick $ORDINARY_ERRORS);

# what sessions that work on the same tables may get, cache or not
our $ORDINARY_ERRORS = join '|', map { "^$_" }
  '40P01: deadlock detected', '55P03: canceling statement due to lock timeout', '42P01: relation "\w+" does not exist',
  'XX000: could not open relation with OID', 'XX000: cache lookup failed for relation', 'XX000: tuple concurrently (?:updated|deleted)',
  '55000: source ".*" was altered while it was being read', '25P02: current transaction is aborted', '3B001: savepoint "a" does not exist',
  '40001: could not serialize access', '23505: duplicate key value violates unique constraint "pg_', '42P07: relation "\w+" already exists';

# SEED in the environment repeats a run, as far as the sessions' timing allows.
sub seed
{
	my $seed = $ENV{SEED} // (time ^ $$) & 0x7fffffff;

	srand($seed);
	note("SEED=$seed");
	return $seed;
}

sub pick { return $_[ rand @_ ] }

my @tables = ('a', 'b', 'c', 'd');
my @types = ('multivec(64, f32)', 'multivec(64, f16)', 'multivec(64, bf16)', 'multivec(64, i8)', 'multivec(64, b1)', 'real[]', 'double precision[]', 'multivec');
my $ndocuments = 40;

# Makes tables a to d, each of 40 documents: inline, compressed, and of 3 kB, 30 kB and
# 300 kB in f32.
sub documents
{
	my ($node, $database) = @_;

	$node->safe_psql($database, $CHUNKS_READ . q{
		CREATE EXTENSION flash_maxsim;
		CREATE FUNCTION random_tokens(ntokens int, scale real) RETURNS real[] LANGUAGE sql VOLATILE AS
			'SELECT array_agg(t) FROM (SELECT array_agg((random() - 0.5)::real * scale) AS t
			 FROM generate_series(0, $1 * 64 - 1) g(i) GROUP BY i / 64) tokens';
		-- the bulk of documents; what tells them apart comes in front
		CREATE TABLE pool AS SELECT n, random_tokens(n, 1) AS e FROM unnest(ARRAY[1, 11, 110, 1200]) n;
		INSERT INTO pool SELECT 200, array_fill(0.25::real, ARRAY[200, 64]);
		CREATE TABLE query AS SELECT random_tokens(4, 1)::multivec AS q;
		CREATE FUNCTION document() RETURNS real[] LANGUAGE plpgsql VOLATILE AS $$
		BEGIN
			RETURN random_tokens(1, 10) || (SELECT e FROM pool ORDER BY random() LIMIT 1);
		END $$;
		CREATE FUNCTION refill(name text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			EXECUTE format('INSERT INTO %I SELECT i, 0, document() FROM generate_series(1, 40) i', name);
		END $$;
		-- Scores of a table by the cache and without it, in one snapshot, after a rerank.
		CREATE FUNCTION verify(name text) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE
			wrong text;
			source text := 'public.' || name || '(id, e)';
			ids bigint[] := ARRAY(SELECT generate_series(1, 40));
		BEGIN
			EXECUTE format('LOCK TABLE %I IN ACCESS SHARE MODE', name);
			EXECUTE 'SELECT count(score) FROM maxsim_rerank((SELECT q FROM query), $1, $2)' USING ids, source;
			EXECUTE format('SELECT string_agg(format(''%%s: %%s, not %%s'', id, score, maxsim(q, e)), ''; '')
					FROM %I CROSS JOIN query FULL JOIN maxsim_rerank((SELECT q FROM query), $1, $2) ON id = doc_id
					WHERE score IS DISTINCT FROM maxsim(q, e)', name) INTO wrong USING ids, source;
			RETURN coalesce('WRONG ' || name || ' ' || wrong, 'right');
		END $$;
	});
	for my $i (0 .. $#tables)
	{
		$node->safe_psql($database, create($tables[$i], $types[ $i + ($i > 1) ]) . ';');
	}
	return;
}

# How many chunks of a table's documents a rerank of all of them still fetches, of the
# database h.
sub chunks_fetched
{
	my ($node, $engine, $table) = @_;
	my ($before, $n, $after) = split /\n/, $node->safe_psql('h', "SET flash_maxsim.engine = $engine; BEGIN; SELECT chunks_read('$table'); "
		  . "SELECT count(score) FROM maxsim_rerank((SELECT q FROM query), ARRAY(SELECT generate_series(1, 40)), 'public.$table(id, e)'); SELECT chunks_read('$table'); COMMIT");

	return $after - $before;
}

sub create
{
	my ($table, $type) = @_;

	return "CREATE TABLE $table (id bigint PRIMARY KEY, n integer, e $type); SELECT refill('$table')";
}

# One change of a few rows.
sub change
{
	my ($table) = @_;
	my $id = 1 + int rand $ndocuments;
	my $other = pick(@tables);

	return pick(
		"INSERT INTO $table VALUES ($id, 0, document()) ON CONFLICT (id) DO UPDATE SET e = excluded.e",
		"UPDATE $table SET e = document() WHERE id = $id",
		"UPDATE $table SET e = document() WHERE id % 10 = " . int rand 10,
		"UPDATE $table SET n = n + 1",
		"UPDATE $table SET e = e WHERE id < $id",
		"DELETE FROM $table WHERE id = $id",
		"INSERT INTO $table SELECT id, n, e::real[] FROM $other WHERE id = $id ON CONFLICT (id) DO UPDATE SET e = excluded.e");
}

# One step of a history: statements.
sub step
{
	my $table = pick(@tables);
	my $what = rand;
	my $type = pick(@types);

	return (change($table), change($table)) if $what < 0.35;
	return ('BEGIN', change($table), "SELECT verify('$table')", pick('COMMIT', 'ROLLBACK')) if $what < 0.5;
	return ('BEGIN', change($table), 'SAVEPOINT a', change($table), "SELECT verify('$table')", pick('ROLLBACK TO a', 'RELEASE a'), "SELECT verify('$table')",
		change($table), "SELECT verify('$table')", pick('COMMIT', 'ROLLBACK')) if $what < 0.6;
	return ('BEGIN ISOLATION LEVEL REPEATABLE READ', "SELECT verify('$table')", 'SELECT pg_sleep(0.05)', "SELECT verify('$table')", 'COMMIT') if $what < 0.67;
	return ("VACUUM $table", "SELECT verify('$table')") if $what < 0.75;
	return ("VACUUM FULL $table", "SELECT verify('$table')") if $what < 0.79;
	return ("CLUSTER $table USING ${table}_pkey", "SELECT verify('$table')") if $what < 0.83;
	return ('BEGIN', "TRUNCATE $table", "SELECT refill('$table')", "SELECT verify('$table')", pick('COMMIT', 'ROLLBACK'), "SELECT verify('$table')") if $what < 0.88;
	return ('BEGIN', "ALTER TABLE $table ALTER e TYPE $type USING e::real[]", "SELECT verify('$table')", pick('COMMIT', 'COMMIT', 'ROLLBACK'), "SELECT verify('$table')") if $what < 0.95;
	return ('BEGIN', "DROP TABLE $table", create($table, $type), "SELECT verify('$table')", pick('COMMIT', 'COMMIT', 'ROLLBACK'), "SELECT verify('$table')");
}

# A session's script; engines are those that it changes between.
sub history
{
	my ($nsteps, @engines) = @_;
	my @statements = ("SET lock_timeout = '3s'", 'SELECT setseed(' . rand() . ')');

	for (1 .. $nsteps)
	{
		push @statements, 'SET flash_maxsim.engine = ' . pick(@engines) if rand() < 0.3;
		push @statements, step(), map { "SELECT verify('$_')" } pick(@tables), pick(@tables);
		push @statements, 'ROLLBACK' if rand() < 0.1;
	}
	return join('', map { "$_;\n" } @statements);
}

# Starts psql for each script; database and script in turns.
sub start_histories
{
	my ($node, @what) = @_;
	my @sessions;

	while (my ($database, $script) = splice @what, 0, 2)
	{
		my $files = PostgreSQL::Test::Utils::tempdir;
		my $session = {out => "$files/out", err => "$files/err"};

		# files, so that they go on while the test does something else
		append_to_file("$files/script", $script);
		$session->{psql} = IPC::Run::start(
			[$node->installed_command('psql'), '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr($database), '-f', "$files/script"],
			'<', '/dev/null', '>', $session->{out}, '2>', $session->{err});
		push @sessions, $session;
	}
	return @sessions;
}

# Waits for them; returns how often scores were right, and lists of wrong scores and of errors.
sub end_histories
{
	my (@sessions) = @_;
	my %result = (right => 0, wrong => [], errors => []);

	for my $session (@sessions)
	{
		$session->{psql}->finish;
		for my $line (split /\n/, slurp_file($session->{out}))
		{
			if ($line eq 'right')
			{
				$result{right}++;
			}
			elsif ($line =~ /^WRONG/)
			{
				push @{ $result{wrong} }, substr($line, 0, 300);
			}
		}
		push @{ $result{errors} }, slurp_file($session->{err}) =~ /^(?:psql:\S* )?(?:ERROR|FATAL|PANIC):\s+(.*)$/mg;
	}
	note("$result{right} times right, ", scalar @{ $result{errors} }, ' errors');
	return \%result;
}

1;
