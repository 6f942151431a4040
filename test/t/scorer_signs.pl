# maxsim_hamming through the scorer, on imaginary GPUs (test/fake_cuda.c): the same bits as the function
# gives row by row, from slots, from arenas and when devices fail, and the same errors.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

my $ndocuments = 60;
my $nqueries = 3;
my @weights = ('NULL', map { "ARRAY(SELECT $_ FROM generate_series(1, 9) i)" } '1', '(i > 2)::int', 'i * 0.1', '1e-20 * i ^ 9', 'random()');

# Documents of a dimension, most of them stored apart and one of them empty, and queries with
# components of which nothing counts but the sign.
sub load
{
	my ($node, $dim, $ntokens) = @_;

	$node->safe_psql('postgres', qq{
		CREATE TABLE signs_$dim (id bigint PRIMARY KEY, d multivec($dim, b1));
		ALTER TABLE signs_$dim ALTER d SET STORAGE EXTERNAL;
		INSERT INTO signs_$dim SELECT i, random_tokens(1 + i * 17 % $ntokens, $dim) FROM generate_series(1, $ndocuments - 2) i;
		INSERT INTO signs_$dim VALUES ($ndocuments - 1, '[]'), ($ndocuments, NULL);
		CREATE TABLE queries_$dim AS SELECT n, array_agg(t ORDER BY i)::multivec AS q FROM (
			SELECT n, i, array_agg((ARRAY[0, '-0', 1e-40, -1e-40, 3e38, -3e38, 0.5, -0.5, 7, -7]::real[])[1 + floor(random() * 10)]) AS t
			FROM generate_series(1, $nqueries) n, generate_series(1, 9) i, generate_series(1, $dim) k GROUP BY n, i) t GROUP BY n;
	});
	return;
}

# What a query without settings says of all documents: one weighted in each of several ways, queries that
# follow each other, sums below an aggregation, and both scores of b1 beside each other.
sub statements
{
	my ($dim) = @_;
	my $q = "(SELECT q FROM queries_$dim WHERE n = 1)";

	return (
		"SELECT w, n, array_agg(s ORDER BY id) FROM weights, LATERAL (SELECT id, maxsim_hamming($q, d, weights.w) AS s FROM signs_$dim OFFSET 0) s WHERE w IS NOT NULL GROUP BY n, w ORDER BY n",
		"SELECT array_agg(s ORDER BY id) FROM (SELECT id, maxsim_hamming($q, d) AS s FROM signs_$dim OFFSET 0) s",
		"SELECT n, array_agg(s ORDER BY id) FROM (SELECT n, id, maxsim_hamming(q, d) AS s FROM queries_$dim, signs_$dim OFFSET 0) s GROUP BY n ORDER BY n",
		"SELECT sum(maxsim_hamming($q, d)), count(maxsim_hamming($q, d)) FROM signs_$dim",
		"SELECT id, maxsim_hamming($q, d) AS signs, maxsim((SELECT (q::real[])::multivec($dim, b1)::multivec FROM queries_$dim WHERE n = 2), d) FROM signs_$dim ORDER BY signs DESC NULLS LAST, id LIMIT 20");
}

# Each statement's answer, by an engine.
sub answers
{
	my ($node, $settings, $dim) = @_;

	return $node->safe_psql('postgres', "SET enable_indexscan = off; $settings; " . join('; ', statements($dim)));
}

my $ROWS = 'SET flash_maxsim.engine = cpu; SET flash_maxsim.enable_batch_scan = off';
my $CUDA = 'SET flash_maxsim.engine = cuda';

# The difference that code makes to counters.
sub counted
{
	my ($node, $columns, $code) = @_;

	$node->safe_psql('postgres', 'SELECT maxsim_stats_reset()');
	$code->();
	return $node->safe_psql('postgres', "SELECT $columns FROM flash_maxsim_stats");
}

# a scorer without a GPU: signs are compared in the backend

my $cpu = server('cpu');
prepare($cpu);
$cpu->safe_psql('postgres', "CREATE TABLE weights (n serial, w double precision[]); INSERT INTO weights (w) VALUES (array_fill(0.5, ARRAY[9]))");
load($cpu, 131, 250);
ok(await_ready($cpu), 'a scorer without a GPU is ready');
my $q131 = '(SELECT q FROM queries_131 WHERE n = 1)';
my $right = $cpu->safe_psql('postgres', "$ROWS; SELECT sum(maxsim_hamming($q131, d)) FROM signs_131");
is(counted($cpu, 'documents_cpu, documents_scorer', sub {
	is($cpu->safe_psql('postgres', "$CUDA; SELECT sum(maxsim_hamming($q131, d)) FROM signs_131"), $right, '... and scores are right');
}), ($ndocuments - 2) . '|0', '... which were found in the backend');

# no scorer at all

$cpu->append_conf('postgresql.conf', 'flash_maxsim.scorer_engine = off');
$cpu->restart;
like(sqlstate_of($cpu, "$CUDA; SELECT sum(maxsim_hamming($q131, d)) FROM signs_131"), qr/^55000: engine "cuda" is not available: /, 'without a scorer cuda is an error');
is($cpu->safe_psql('postgres', "SET flash_maxsim.engine = auto; SELECT sum(maxsim_hamming($q131, d)) FROM signs_131"), $right, '... and for auto the CPU scores');
$cpu->stop;

# devices

my $fake = dirname(dirname($FindBin::RealBin)) . '/build/test/flash_maxsim_scorer';
if (!-x $fake)
{
	note('make fake-scorer has not been run');
	done_testing();
	exit;
}
my $node = server('node', 'flash_maxsim.scorer_engine = cuda', 'flash_maxsim.slots = 16', 'flash_maxsim.gpu_cache_size = 64MB',
	'shared_buffers = 64MB', 'jit = off', 'max_parallel_workers_per_gather = 0');
if (!can_replace_program($node))
{
	note('the installation is not ours to write to');
	$node->stop;
	done_testing();
	exit;
}
prepare($node);
replace_program(sub { symlink $fake, $_[0] or die "could not link $_[0]: $!" });

# What the devices do from now on.
sub order
{
	my $file = $node->data_dir . '/fake_cuda';

	unlink "$file.new";
	append_to_file("$file.new", join('', map { "$_\n" } 'devices 2', @_));
	rename "$file.new", $file or die;
	return;
}

order();
$node->restart;
ok(await_ready($node), 'there are two devices');
$node->safe_psql('postgres', 'CREATE TABLE weights (n serial, w double precision[]); INSERT INTO weights (w) VALUES ' . join(', ', map { "($_)" } @weights));

# rows of 1, 17 and 65 bytes
for my $case ([1, 300], [131, 250], [520, 70])
{
	my ($dim, $ntokens) = @$case;

	load($node, $dim, $ntokens);
	my $nstored = $node->safe_psql('postgres', "SELECT count(*) FROM signs_$dim WHERE pg_column_size(d) > 2000");
	my $nscored = $ndocuments - 2;
	my $one = (statements($dim))[1];
	my $expected = answers($node, $ROWS, $dim);

	cmp_ok($nstored, $dim == 1 ? '==' : '>', $dim == 1 ? 0 : 20, "dimension $dim: $nstored documents are stored apart");
	is(answers($node, 'SET flash_maxsim.engine = cpu', $dim), $expected, '... batches of the CPU have the scores of single rows');
	is(counted($node, 'hits_gpu, misses, admitted_gpu, documents_scorer, documents_cpu', sub { $node->safe_psql('postgres', "$CUDA; $one") }),
		"0|$nscored|$nstored|$nscored|0", '... documents are fetched and come to the devices');
	is(counted($node, 'hits_gpu, misses, admitted_gpu, documents_scorer, documents_cpu', sub { $node->safe_psql('postgres', "$CUDA; $one") }),
		$nstored . '|' . ($nscored - $nstored) . "|0|$nscored|0", '... and are found there');
	is(counted($node, 'documents_cpu, fallbacks_failed', sub { is(answers($node, $CUDA, $dim), $expected, '... with the same scores') }), '0|0', '... of the devices alone');
	like($node->safe_psql('postgres', "$CUDA; EXPLAIN (ANALYZE, TIMING OFF) SELECT sum(maxsim_hamming($q131, d)) FROM signs_131"), qr/Custom Scan \(MaxSim\).*\n +Engine: scorer\n/, '... as EXPLAIN says')
	  if $dim == 131;
}

# little work goes to a device that has the documents, and nowhere else

my $sum = "SET flash_maxsim.engine = auto; SELECT sum(maxsim_hamming($q131, d)) FROM signs_131";
$right = $node->safe_psql('postgres', "$ROWS; $sum");
like(counted($node, 'documents_scorer, hits_gpu', sub { is($node->safe_psql('postgres', $sum), $right, 'auto: a small table has the same scores') }),
	qr/^58\|[1-9]/, '... from the devices that have it');
$node->safe_psql('postgres', 'UPDATE signs_131 SET d = d::real[]');
is(counted($node, 'documents_scorer, documents_cpu', sub { is($node->safe_psql('postgres', $sum), $right, '... and when it is written anew') }), '0|58', '... from the CPU');

# other formats: the same error, fetched or on a device

$node->safe_psql('postgres', q{
	CREATE TABLE mixed (id bigint PRIMARY KEY, d multivec(131));
	ALTER TABLE mixed ALTER d SET STORAGE EXTERNAL;
	INSERT INTO mixed SELECT i, random_tokens(200, 131)::multivec(131, b1) FROM generate_series(1, 40) i;
});
my $mixed = "SELECT array_agg(s ORDER BY id) FROM (SELECT id, maxsim_hamming($q131, d) AS s FROM mixed OFFSET 0) s";
my $others = $mixed =~ s/OFFSET 0/WHERE id <> 3 OFFSET 0/r;
for my $format ('f32', 'f16', 'bf16', 'i8')
{
	my $message = "22000: maxsim_hamming compares documents in format b1, not $format";

	# values that no device has; of two the rows stay where they are, before the others
	$node->safe_psql('postgres', "UPDATE mixed SET d = CASE id WHEN 3 THEN (d::real[])::multivec(131, $format) ELSE (d::real[])::multivec(131, b1) END WHERE id NOT IN (4, 5)");
	for my $settings ($ROWS, 'SET flash_maxsim.engine = cpu', $CUDA, 'SET flash_maxsim.engine = auto')
	{
		is(sqlstate_of($node, "$settings; $mixed"), $message, "$format between b1: an error, $settings");
	}
	is($node->safe_psql('postgres', "SELECT loaded + already, no_room + too_large + uncached FROM maxsim_prewarm('mixed(id, d)')"), '40|0', '... all come to the devices');
	for my $settings ($ROWS, 'SET flash_maxsim.engine = cpu', $CUDA, 'SET flash_maxsim.engine = auto')
	{
		my $on_devices = $settings =~ /cuda|auto/;
		my $counts = counted($node, 'misses, hits_gpu > 0', sub { is(sqlstate_of($node, "$settings; $mixed"), $message, "... the same error then, $settings") });

		is($counts, '0|t', '... of a document that is there') if $on_devices;
	}
	is($node->safe_psql('postgres', "$CUDA; $others"), $node->safe_psql('postgres', "$ROWS; $others"), '... and the others have their scores');
}
all_slots_free($node, 'after these errors');
$node->safe_psql('postgres', q{UPDATE mixed SET d = '[]'::multivec(131, f16) WHERE id = 3});
is($node->safe_psql('postgres', "$CUDA; $mixed"), $node->safe_psql('postgres', "$ROWS; $mixed"), 'one without tokens has none, whatever its format');

# batches that fail are scored by the CPU, of the same signs

$node->safe_psql('postgres', q{
	CREATE TABLE large (id bigint PRIMARY KEY, d multivec(131, b1));
	ALTER TABLE large ALTER d SET STORAGE EXTERNAL;
	INSERT INTO large SELECT id, d FROM mixed WHERE id <> 3;
	INSERT INTO large SELECT 100 * k + id, multivec_slice(d, 1, 200 - k) FROM large, generate_series(1, 40) k;
	ANALYZE;
});
my $large = "SELECT md5(array_agg(s ORDER BY id)::text), count(s) FROM (SELECT id, maxsim_hamming($q131, d) AS s FROM large OFFSET 0) s";
my $weighted = $large =~ s/, d\)/, d, (SELECT w FROM weights WHERE n = 6))/r;
my %right = map { $_ => $node->safe_psql('postgres', "$ROWS; $_") } $large, $weighted;
is(scalar(grep { /\|1599$/ } values %right), 2, '1,599 documents have scores');
isnt($right{$large}, $right{$weighted}, '... others with weights');

# Both statements while auto scores, in one session.
sub check_large
{
	my ($what, $session) = @_;

	for my $statement ($large, $weighted)
	{
		is($session->query($statement), $right{$statement}, $what);
	}
	return;
}

my $session = Scorer::Session->new($node);
is(counted($node, 'documents_cpu, documents_scorer, fallbacks_failed', sub { check_large('a large table: the same scores', $session) }), '0|3198|0', '... of the devices, for auto');
order('fail submit memory -1 999999999');
is(counted($node, 'documents_scorer, documents_cpu, fallbacks_failed > 0, refetched > 0', sub { check_large('without memory: the same scores', $session) }), '0|3198|t|t', '... of the CPU, which fetched again what devices had');
for my $statement ($large, $weighted)
{
	order('slow 0 30000', 'slow 1 30000');
	my $pid = scorer($node, 'pid');
	is(counted($node, 'documents, fallbacks_failed > 0, documents_cpu > 0', sub {
		$session->begin($statement);
		ok(await_sql($node, 'SELECT free_slots < slots - 1 FROM maxsim_scorer()'), 'devices have batches');
		kill 'KILL', $pid;
		is($session->end, $right{$statement}, '... and when the scorer is killed then, the same scores');
	}), '1599|t|t', '... of the CPU');
	order();
	ok(await_ready($node, $pid), '... another scorer comes');
	check_large('... which gives the same scores', $session);
}
$session->finish;
all_slots_free($node, 'in the end');
$node->stop;
unlike(slurp_file($node->logfile), qr/fake_cuda: violation/, 'the scorer kept what it promises to the CUDA engine');
done_testing();
