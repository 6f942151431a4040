# Documents of every format through the scorer: in slots, into a GPU's arena and back from it, on
# imaginary GPUs (test/fake_cuda.c), which look at the places and sizes of all that they are given.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

my $fake = dirname(dirname($FindBin::RealBin)) . '/build/test/flash_maxsim_scorer';
plan skip_all => 'make fake-scorer has not been run' unless -x $fake;

my $node = server('node', 'flash_maxsim.scorer_engine = cuda', 'flash_maxsim.slots = 16', 'flash_maxsim.gpu_cache_size = 64MB',
	'shared_buffers = 64MB');
if (!can_replace_program($node))
{
	$node->stop;
	plan skip_all => 'the installation is not ours to write to';
}
prepare($node);
replace_program(sub { symlink $fake, $_[0] or die "could not link $_[0]: $!" });
append_to_file($node->data_dir . '/fake_cuda', "devices 2\n");
$node->restart;
ok(await_ready($node), 'there are two devices');

my $stats = 'SELECT misses, hits_gpu FROM flash_maxsim_stats';

# The scores of a table's 60 documents, by an engine.
sub scores
{
	my ($engine, $table, $dim) = @_;

	return $node->safe_psql('postgres', "SET flash_maxsim.engine = $engine;"
		  . " SELECT r FROM maxsim_rerank((SELECT q FROM query_$dim), ARRAY(SELECT generate_series(1, 60)), '$table(id, d)') r ORDER BY doc_id");
}

# How many values are too long for their rows.
sub stored_apart
{
	my ($table) = @_;

	return $node->safe_psql('postgres', "SELECT count(*) FROM $table WHERE pg_column_size(d) > 2000");
}

# A table on the CPU, and on devices twice; NSTORED of its documents can come to an arena.
sub check_table
{
	my ($table, $dim, $nstored) = @_;
	my $cpu = scores('cpu', $table, $dim);

	is(($cpu =~ tr/\n//) + 1, 60, "$table: 60 scores");
	$node->safe_psql('postgres', 'SELECT maxsim_stats_reset()');
	is(scores('cuda', $table, $dim), $cpu, '... the same on devices, from a slot and copied to an arena');
	is($node->safe_psql('postgres', $stats), '60|0', '... which were fetched');
	$node->safe_psql('postgres', 'SELECT maxsim_stats_reset()');
	is(scores('cuda', $table, $dim), $cpu, '... and again');
	is($node->safe_psql('postgres', $stats), (60 - $nstored) . "|$nstored", "... $nstored of them from the arena");
	return;
}

# Dimensions that make rows of i8 5, 104 and 135 bytes and of b1 1, 13 and 17.
for my $dim (1, 100, 131)
{
	$node->safe_psql('postgres', qq{
		CREATE TABLE tokens_$dim AS SELECT i AS id, random_tokens(1 + i * 17 % 300, $dim) AS d FROM generate_series(1, 60) i;
		CREATE TABLE query_$dim AS SELECT random_tokens(5, $dim)::multivec AS q;
		CREATE TABLE mixed_$dim (id bigint PRIMARY KEY, d multivec($dim));
		ALTER TABLE mixed_$dim ALTER d SET STORAGE EXTERNAL;
	});
	for my $format (qw(f32 f16 bf16 i8 b1))
	{
		my $table = "${format}_$dim";

		$node->safe_psql('postgres', qq{
			CREATE TABLE $table (id bigint PRIMARY KEY, d multivec($dim, $format));
			ALTER TABLE $table ALTER d SET STORAGE EXTERNAL;
			INSERT INTO $table SELECT id, d FROM tokens_$dim;
			INSERT INTO mixed_$dim SELECT id, d FROM $table WHERE id % 5 = (SELECT count(DISTINCT multivec_format(d)) FROM mixed_$dim);
		});
		check_table($table, $dim, stored_apart($table));
	}
	check_table("mixed_$dim", $dim, stored_apart("mixed_$dim"));
}

all_slots_free($node, 'in the end');
$node->stop;
done_testing();
