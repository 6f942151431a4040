# The object id counter comes round: value ids of before may then name other bytes, and
# the cache must not take one for the other, nor stop keeping documents.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Cache;
use Scorer;

seed();
my $node = server('node', 'fsync = off', 'max_connections = 30', 'deadlock_timeout = 100ms', "flash_maxsim.gpu_cache_size = '16MB'", 'flash_maxsim.host_cache_size = 16MB');
$node->safe_psql('postgres', 'CREATE EXTENSION flash_maxsim; CREATE DATABASE h');
documents($node, 'h');
$node->safe_psql('h', q{
	-- uses up value ids; what is rolled back has used them as well
	CREATE TABLE burn (e text);
	ALTER TABLE burn ALTER e SET STORAGE external;
	CREATE FUNCTION next_id() RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		id oid;
	BEGIN
		CREATE TEMP TABLE t (n integer) ON COMMIT DROP;
		id := 't'::regclass::oid;
		DROP TABLE t;
		RETURN id::bigint;
	END $$;
	-- id is the same as long as the value is
	CREATE TABLE kept (id bigint PRIMARY KEY, n integer, e multivec);
	INSERT INTO kept SELECT i, 0, random_tokens(11, 1) FROM generate_series(1, 40) i;
});

# Value ids of a table's documents, by chunks.
sub value_ids
{
	my ($table) = @_;
	my $toast = $node->safe_psql('h', "SELECT reltoastrelid::regclass FROM pg_class WHERE relname = '$table'");

	return $node->safe_psql('h', "SELECT min(chunk_id::bigint), max(chunk_id::bigint), count(DISTINCT chunk_id) FROM $toast");
}

# After a few looks every document of kept, 40 of them, comes from the cache.
sub kept
{
	my ($engine, $when) = @_;
	my $answer;

	for (1 .. 8)
	{
		$answer = $node->safe_psql('h', "SET flash_maxsim.engine = $engine; SELECT verify('kept')") . ' ' . chunks_fetched($node, $engine, 'kept');
		last if $answer eq 'right 0';
	}
	is($answer, 'right 0', "$when: $engine has all documents from the cache");
	return;
}

sub restart_at
{
	my ($oid) = @_;

	$node->stop;
	command_ok([ 'pg_resetwal', '-o', $oid, $node->data_dir ], "the counter is set to $oid");
	$node->start;
	ok(await_ready($node), '... the scorer is ready');
	return;
}

my ($low, $high) = split /\|/, value_ids('kept');
cmp_ok($high, '<', 100000, 'documents of before');

# over the end of the numbers while histories go on

restart_at(4294967295 - 1500);
kept($_, 'before the wrap') for ('cpu', 'cuda');
my @sessions = start_histories($node, map { ('h', "SELECT next_id();\n" . history(12, 'auto', 'cpu', 'cuda') . "INSERT INTO burn SELECT repeat('x', 2100) FROM generate_series(1, 500);\n" . history(4, 'cpu', 'cuda')) } 1 .. 4);
my $result = end_histories(@sessions);
is(join("\n", @{ $result->{wrong} }), '', 'across the wrap no score is wrong');
is(join("\n", grep { $_ !~ $ORDINARY_ERRORS } @{ $result->{errors} }), '', '... and no error but ordinary ones');
cmp_ok($result->{right}, '>', 100, '... of many');
cmp_ok($node->safe_psql('h', 'SELECT next_id()'), '<', 1000000, 'the counter has come round');
$node->safe_psql('h', "SELECT verify('$_')") =~ /^right/ or fail("table $_") for ('a', 'b', 'c', 'd');
kept($_, 'after the wrap') for ('cpu', 'cuda');

# past the value ids of documents that lie in the cache

restart_at($low - 100);
kept($_, 'before their ids come') for ('cpu', 'cuda');
my $steps = ("SELECT verify('kept');\n" x 3 . "INSERT INTO burn SELECT repeat('x', 2100) FROM generate_series(1, 30);\n") x 12;
$result = end_histories(start_histories($node, map { ('h', "SET flash_maxsim.engine = $_;\n$steps") } ('cpu', 'cuda', 'auto')));
is(join("\n", @{ $result->{wrong} }, @{ $result->{errors} }), '', 'while their ids come no score is wrong');
is($result->{right}, 108, '... of all');
cmp_ok($node->safe_psql('h', 'SELECT next_id()'), '>', $high, '... which have come');
kept($_, 'after that') for ('cpu', 'cuda');

# the same value ids for other documents

my $ids = value_ids('kept');
restart_at($low - 60);
kept($_, 'before they are given again') for ('cpu', 'cuda');
my $again = 0;
for my $try (1 .. 40)
{
	$node->safe_psql('h', "UPDATE kept SET e = random_tokens(11, 1) WHERE id % 4 = $try % 4; VACUUM kept; SELECT verify('kept'); SELECT verify('kept')") eq "right\nright" or fail("try $try");
	my ($from, $to) = split /\|/, value_ids('kept');
	$again++ if $from <= $high && $to >= $low;
	last if $from > $high;
}
cmp_ok($again, '>', 3, 'ids of before were given to other documents');
kept($_, 'in the end') for ('cpu', 'cuda');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP/, 'no crash');
$node->stop;
done_testing();
