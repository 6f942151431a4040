# Scorer.pm
#
# What the tests of the scorer share: a server whose scorer runs the CPU engine, so
# that the whole way to it and back works without a GPU, and a psql session that
# goes on while the test does something to the server.
package Scorer;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(server prepare await_sql await_ready await_gone await worker_pid all_slots_free scorer sqlstate_of is_running
  can_replace_program replace_program restore_program $RANK $CHUNKS_READ);

# what the tests rerank: 300 documents of 32 tokens, dimension 64, in 5 chunks each, by 16 query tokens
our $RANK = "SELECT md5(array_agg(r ORDER BY doc_id)::text) FROM maxsim_rerank((SELECT q FROM query),"
  . " ARRAY(SELECT generate_series(1, 300)), 'docs(id, d)') r";

# a function: chunks of a table's documents that this transaction has read
our $CHUNKS_READ = q{
	CREATE FUNCTION chunks_read(name text) RETURNS bigint LANGUAGE sql VOLATILE AS
		'SELECT (pg_stat_get_xact_tuples_fetched(reltoastrelid) + sum(pg_stat_get_xact_tuples_fetched(indexrelid)))::bigint
		 FROM pg_class c JOIN pg_index ON indrelid = reltoastrelid WHERE c.oid = $1::regclass GROUP BY reltoastrelid';
};

# NAME, SETTING...: a running server that has preloaded the library.
sub server
{
	my ($name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	# the encoding is that of the regression files
	$node->init(allows_streaming => 1, extra => ['--encoding=UTF8', '--no-locale']);
	$node->append_conf('postgresql.conf', join("\n", "shared_preload_libraries = 'flash_maxsim'",
			"flash_maxsim.scorer_engine = cpu", 'restart_after_crash = on', @settings) . "\n");
	$node->start;
	return $node;
}

# The extension, documents and a query.
sub prepare
{
	my ($node) = @_;

	$node->safe_psql('postgres', $CHUNKS_READ . q{
		CREATE EXTENSION flash_maxsim;
		CREATE FUNCTION random_tokens(ntokens int, dim int) RETURNS real[] LANGUAGE sql VOLATILE AS
			'SELECT array_agg(t) FROM (SELECT array_agg((random() - 0.5)::real) AS t
			 FROM generate_series(0, $1 * $2 - 1) g(i) GROUP BY i / $2) tokens';
		CREATE TABLE docs (id bigint PRIMARY KEY, d multivec);
		INSERT INTO docs SELECT i, random_tokens(32, 64) FROM generate_series(1, 300) i;
		CREATE TABLE query AS SELECT random_tokens(16, 64)::multivec AS q;
	});
	return;
}

# One column of maxsim_scorer().
sub scorer
{
	my ($node, $column) = @_;

	return $node->safe_psql('postgres', "SELECT $column FROM maxsim_scorer()");
}

# Whether a process exists that is not just waiting for its parent.
sub is_running
{
	my ($pid) = @_;

	return -e "/proc/$pid" && slurp_file("/proc/$pid/stat") !~ /\) Z /;
}

# Polls until the code returns true; false after the time limit, in seconds.
sub await
{
	my ($code, $limit) = @_;
	my $end = time + ($limit // 180);

	while (time < $end)
	{
		return 1 if $code->();
		usleep(50_000);
	}
	return 0;
}

# Polls until the query returns true, also while the server may be down.
sub await_sql
{
	my ($node, $sql) = @_;

	return await(
		sub {
			my ($out, $err) = run_command([$node->installed_command('psql'), '-XAtqc', $sql, '-d', $node->connstr('postgres')]);
			return $out eq 't';
		});
}

# Until there is a scorer, other than the one that had that PID, if one is given.
sub await_ready
{
	my ($node, $pid) = @_;

	return await_sql($node, "SELECT state = 'ready' AND pid <> " . ($pid // 0) . ' FROM maxsim_scorer()');
}

# The background worker, whose child the scorer is.
sub worker_pid
{
	my ($node) = @_;

	my $pid = scorer($node, 'pid');

	# what is returned gets signals: better none than a wrong one
	slurp_file("/proc/$pid/status") =~ /^Name:\tflash_maxsim_sc.*^PPid:\t(\d\d+)$/ms or die "process $pid is no scorer";
	return $1;
}

sub await_gone
{
	my @pids = @_;

	return await(sub { !grep { is_running($_) } @pids });
}

sub all_slots_free
{
	my ($node, $when) = @_;

	ok(await_sql($node, 'SELECT free_slots = slots FROM maxsim_scorer()'), "$when: all slots are free");
	return;
}

# The SQLSTATE and message of a statement that fails.
sub sqlstate_of
{
	my ($node, $sql) = @_;
	my ($result, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	return $err =~ /ERROR:  (\w{5}): (.*)/ ? "$1: $2" : "no error: $out $err";
}

# --- another program in place of the scorer ----------------------------------------

my ($program, $saved);

# Whether the test may write to the installation.
sub can_replace_program
{
	my ($node) = @_;
	my $directory = $node->config_data('--pkglibdir');

	$program = "$directory/flash_maxsim_scorer";
	$saved = "$program.saved";
	return -w $directory && -w $program;
}

# Has servers start something else, a file or link that the code makes under the name
# it is given, until the program is restored or the test ends.
sub replace_program
{
	my ($make) = @_;

	rename($program, $saved) || die "could not rename $program: $!" unless -e $saved;
	unlink $program;
	$make->($program);
	return;
}

sub restore_program
{
	rename $saved, $program if defined $saved && -e $saved;
	return;
}

END
{
	my $status = $?;

	restore_program();
	$? = $status;
}

# --- a session in the background -------------------------------------------------

package Scorer::Session;

use IPC::Run;
use PostgreSQL::Test::Utils;

sub new
{
	my ($class, $node) = @_;
	my $self = bless {in => '', out => '', err => '', n => 0}, $class;

	$self->{timer} = IPC::Run::timeout(180);
	$self->{psql} = IPC::Run::start(
		[$node->installed_command('psql'), '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-f', '-'],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err}, $self->{timer});
	$self->{pid} = $self->query('SELECT pg_backend_pid()');
	return $self;
}

# Sends SQL without waiting for it.
sub begin
{
	my ($self, $sql) = @_;

	$self->{n}++;
	$self->{in} .= "$sql;\n\\echo end $self->{n}\n\\warn end $self->{n}\n";
	$self->{psql}->pump_nb;
	return;
}

# What SQL that was sent has printed, errors included.
sub end
{
	my ($self) = @_;
	my $result;

	$self->{timer}->start(180);
	$self->{psql}->pump until ($self->{out} =~ /^end $self->{n}\n/m && $self->{err} =~ /^end $self->{n}\n/m) || !$self->{psql}->pumpable;
	$result = $self->{out} . $self->{err};
	$self->{out} = $self->{err} = '';
	$result =~ s/^end \d+\n//mg;
	chomp $result;
	return $result;
}

sub query
{
	my ($self, $sql) = @_;

	$self->begin($sql);
	return $self->end;
}

# Closes the session, or notes that the server did.
sub finish
{
	my ($self) = @_;

	eval { $self->{in} .= "\\q\n"; $self->{psql}->finish; };
	return;
}

1;
