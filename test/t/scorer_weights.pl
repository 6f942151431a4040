# Weights of query tokens on their way to the scorer and its devices: the same bits as
# engine cpu gives, and never those of another query's weights.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

my @settings = ('flash_maxsim.slots = 8', 'flash_maxsim.slot_size = 1MB', 'max_connections = 40', 'jit = off', 'max_parallel_workers_per_gather = 0');
# masks at the start, at the end and between, all 1, fractions, and none
my @weights = ('NULL', map { "ARRAY(SELECT $_ FROM generate_series(1, 16) i)" }
	  '(i > 3)::int', '(i < 9)::int', '(i % 3)', '1', 'random() * 10', '(i = 7)::int * 0.1', '1e-30 * i', '1e30 * (i % 2)');

# What every function that uses the scorer says of documents, for each of the weights.
sub load
{
	my ($node) = @_;

	prepare($node);
	$node->safe_psql('postgres', q{
		CREATE TABLE long AS SELECT i AS id, random_tokens(700, 64)::multivec(64, f16) AS d FROM generate_series(1, 8) i;
		CREATE TABLE weights (n serial PRIMARY KEY, w double precision[]);
		INSERT INTO weights (w) VALUES } . join(', ', map { "($_)" } @weights) . q{;
		CREATE FUNCTION answers(w double precision[]) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE
			q multivec := (SELECT q FROM query);
			ids bigint[] := ARRAY(SELECT generate_series(1, 300));
			one double precision[] := coalesce(w, array_fill(1, ARRAY[16]));
		BEGIN
			RETURN concat_ws(' ', (SELECT md5(array_agg(r)::text) FROM maxsim_rerank(q, ids, 'docs(id, d)', weights => w) r),
				md5(maxsim_scores(q, ids, 'docs(id, d)', w)::text), md5(maxsim_scores(q, ids, 'long(id, d)', w)::text),
				(SELECT md5(maxsim_topk(q, id, d, 20, w)::text) FROM docs),
				(SELECT md5(array_agg(s ORDER BY s)::text) FROM (SELECT maxsim(q, d, one) AS s FROM docs OFFSET 0) s),
				(SELECT md5(array_agg(s ORDER BY s)::text) FROM (SELECT maxsim_mean(q, d, one) AS s FROM docs OFFSET 0) s));
		END $$;
		ANALYZE;
	});
	return;
}

sub check
{
	my ($node, $what) = @_;
	my $cpu = $node->safe_psql('postgres', 'SET flash_maxsim.engine = cpu; SELECT n, answers(w) FROM weights ORDER BY n');
	my @lines = split /\n/, $cpu;
	my %different = map { s/^\d+\|//r => 1 } @lines;

	# NULL and 1 are the same
	is(scalar(keys %different), @weights - 1, "$what: other weights have other scores");
	for my $engine ('auto', 'cuda')
	{
		my $batches = scorer($node, 'batches');

		is($node->safe_psql('postgres', "SET flash_maxsim.engine = $engine; SELECT n, answers(w) FROM weights ORDER BY n"), $cpu, "$what: engine $engine gives the same bits as cpu");
		# auto scores on the CPU what is little, as masked queries are
		cmp_ok(scorer($node, 'batches') - $batches, '>=', $engine eq 'auto' ? 1 : 6 * @weights, '... from the scorer');
	}

	my @sessions = map { Scorer::Session->new($node) } 1 .. 12;
	$sessions[$_]->begin("SET flash_maxsim.engine = cuda; SELECT n, answers(w) FROM weights WHERE n % 6 = $_ % 6 ORDER BY n; SELECT n, answers(w) FROM weights WHERE n % 6 = ($_ + 1) % 6 ORDER BY n") for 0 .. 11;
	my $wrong = 0;
	for my $i (0 .. 11)
	{
		my @expected = map { my $r = $_ % 6; grep { /^(\d+)/ && $1 % 6 == $r } @lines } $i, $i + 1;

		$wrong += $sessions[$i]->end ne join "\n", @expected;
		$sessions[$i]->finish;
	}
	is($wrong, 0, "$what: the same for 12 sessions at once");

	# what exceeds a quarter of a slot with its weights alone
	my $too_large = "SELECT md5(maxsim_scores(random.q, '{1,2,3}', 'docs(id, d)', %s)::text) FROM random";
	$node->safe_psql('postgres', 'CREATE TABLE random AS SELECT random_tokens(1020, 64)::multivec AS q');
	for my $case (['NULL', 0], ['array_fill(0.5, ARRAY[1020])', 1])
	{
		my $sql = sprintf $too_large, $case->[0];
		my $before = scorer($node, 'fallbacks_too_large');
		my $right = $node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $sql");

		is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $sql"), $right, "$what: a large query, weights $case->[0]");
		is(scorer($node, 'fallbacks_too_large') - $before, $case->[1], $case->[1] ? '... which the CPU scores' : '... which fits into a slot');
	}
	like(sqlstate_of($node, 'SET flash_maxsim.engine = cuda; SELECT maxsim_scores(q, ARRAY[1], \'docs(id, d)\', array_fill(-1, ARRAY[16])) FROM query'),
		qr/^22023: weights must not be negative, as -1 is$/, "$what: wrong weights are an error before that");
	is(scorer($node, 'fallbacks_failed'), '0', '... and the scorer never failed');
	all_slots_free($node, $what);
	return;
}

my $node = server('cpu', @settings);
load($node);
ok(await_ready($node), 'the scorer is ready');
check($node, 'CPU in the scorer');
$node->stop;

# two imaginary GPUs, with arenas

my $fake = dirname(dirname($FindBin::RealBin)) . '/build/test/flash_maxsim_scorer';
SKIP:
{
	skip('make fake-scorer has not been run', 1) unless -x $fake;
	my $gpus = server('gpus', @settings, 'flash_maxsim.scorer_engine = cuda', 'flash_maxsim.gpu_cache_size = 16MB');
	skip('the installation is not ours to write to', 1) unless can_replace_program($gpus);
	load($gpus);
	replace_program(sub { symlink $fake, $_[0] or die "could not link $_[0]: $!" });
	append_to_file($gpus->data_dir . '/fake_cuda', "devices 2\n");
	$gpus->restart;
	ok(await_ready($gpus), 'the scorer of two GPUs is ready');
	check($gpus, 'GPUs');
	$gpus->stop;
	unlike(slurp_file($gpus->logfile), qr/fake_cuda: violation/, 'the scorer kept what it promises to the CUDA engine');
}
done_testing();
