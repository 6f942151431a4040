# Memory: that of a statement does not grow with the documents it scores, nor that of a
# session with its statements and their errors.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'needs /proc' if !-r '/proc/self/status';

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
# shared memory counts as the process's own when it is touched: little of it
$node->append_conf('postgresql.conf', "shared_buffers = 8MB\njit = off\nmax_parallel_workers_per_gather = 0");
$node->start;

$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION flash_maxsim;
	CREATE FUNCTION ones(ntokens integer) RETURNS multivec LANGUAGE sql IMMUTABLE AS
	$$ SELECT multivec(decode(repeat('003c', 128 * ntokens), 'hex'), 128, 'f16') $$;
	CREATE TABLE pages AS SELECT id, ones(1030) AS emb, ones(1030)::real[] AS r FROM generate_series(0, 9) id;
	ALTER TABLE pages ALTER r SET STORAGE EXTERNAL;
	UPDATE pages SET r = (emb::multivec(128, f32))::real[];
	CREATE TABLE huge AS SELECT 1 AS id, ones(300000) AS emb;
	-- as many documents as are asked for, in little space
	CREATE VIEW many AS SELECT i AS id, emb, r FROM generate_series(1, 10000) i JOIN pages p ON p.id = i % 10;
	CREATE TABLE small (id bigint PRIMARY KEY, emb multivec(2));
	INSERT INTO small SELECT i, ARRAY[[i, 1]] FROM generate_series(1, 1000) i;
	CREATE TABLE query AS SELECT ones(16) AS q;
	-- the process's memory in MB: the most there ever was, and private memory now
	CREATE FUNCTION memory(what text) RETURNS numeric LANGUAGE sql AS
	$$ SELECT round((regexp_match(pg_read_file('/proc/self/status', 0, 100000), what || ':\s+(\d+) kB'))[1]::numeric / 1024, 1) $$;
});

# NAME LIMIT STATEMENT RESULT: within MB, in a session of its own
sub within
{
	my ($name, $limit, $statement, $expected) = @_;
	my $out = $node->safe_psql(
		'postgres', qq{
		SELECT maxsim(q, q), (SELECT sum(score) FROM maxsim_rerank(q, '{1}', 'many(id, emb)')) FROM query;
		SELECT memory('VmHWM');
		$statement;
		SELECT memory('VmHWM')});
	my (undef, $before, $result, $after) = split /\n/, $out;
	my $grown = $after - $before;

	is($result, $expected, "$name: the result");
	cmp_ok($grown, '<', $limit, "$name: less than $limit MB");
	note(sprintf('%s: %.1f MB above the session\'s %.1f MB', $name, $grown, $before));
}

my $all = 'ARRAY(SELECT generate_series(1, 10000))';
within('10,000 documents of 1,030 tokens', 100, "SELECT count(*), sum(score)::bigint FROM query, maxsim_rerank(q, $all, 'many(id, emb)')", '10000|' . 1e4 * 16 * 128);
within('the best 10 of them', 100, "SELECT count(*), sum(score)::bigint FROM query, maxsim_rerank(q, $all, 'many(id, emb)', 10)", '10|' . 10 * 16 * 128);
within('2,000 documents that are arrays', 100, "SELECT count(*), sum(score)::bigint FROM query, maxsim_rerank(q, ARRAY(SELECT generate_series(1, 2000)), 'many(id, r)')", '2000|' . 2000 * 16 * 128);
within('10,000 documents by plain SQL', 100, "SELECT sum(maxsim(q, emb))::bigint FROM query, many", 1e4 * 16 * 128);
within('a document of 77 MB of a source', 30, "SELECT maxsim_scores(q, '{1}', 'huge(id, emb)') FROM query", '{2048}');
within('a look at the header of a document of 77 MB', 30, 'SELECT multivec_ntokens(emb), multivec_dim(emb), multivec_format(emb) FROM huge', '300000|128|f16');
within('a token of a document of 77 MB', 30, 'SELECT (multivec_token(emb, 299999))[1:2] FROM huge', '{1,1}');
within('a slice of a document of 77 MB', 30, 'SELECT maxsim(q, multivec_slice(emb, 299000, 1000)) FROM query, huge', '2048');
within('a million ids that are not there', 100, "SELECT count(*) FROM maxsim_rerank('[[1,0]]', ARRAY(SELECT generate_series(2000, 1002000)), 'small(id, emb)')", '0');

# NAME TIMES STATEMENT: over and over in one session, in MB of private memory
sub steady
{
	my ($name, $times, $statement) = @_;
	my $loop = "DO \$do\$ BEGIN FOR i IN 1..%d LOOP BEGIN $statement; EXCEPTION WHEN data_exception THEN NULL; END; END LOOP; END \$do\$";
	my $out = $node->safe_psql(
		'postgres', sprintf("$loop; SELECT memory('RssAnon'); $loop; SELECT memory('RssAnon')", $times / 10, $times));
	my ($before, $after) = split /\n/, $out;
	my $grown = $after - $before;

	cmp_ok($grown, '<', 2, "$name: no growth");
	note(sprintf('%s: %.1f MB after %d times', $name, $grown, $times));
}

steady('maxsim_rerank', 5000, q{PERFORM count(*) FROM maxsim_rerank('[[1,0]]', '{1,2,3,4,5}', 'small(id, emb)')});
steady('maxsim_scores', 5000, q{PERFORM maxsim_scores('[[1,0]]', '{1,2,3,4,5}', 'small(id, emb)')});
steady('maxsim_rerank of long documents', 200, q{PERFORM count(*) FROM query, maxsim_rerank(q, '{1,2,3,4,5}', 'many(id, emb)')});
steady('maxsim', 5000, q{PERFORM maxsim('[[1,0]]', emb) FROM small WHERE id < 10});
steady('text', 5000, q{PERFORM emb::text::multivec FROM small WHERE id < 10});
steady('an error in maxsim_rerank', 2000, q{PERFORM count(*) FROM maxsim_rerank('[[1]]', '{1,2,3,4,5}', 'small(id, emb)')});
steady('an error in the text', 2000, q{PERFORM '[[1,2],[3,x]]'::text::multivec});
steady('another source each time', 2000, q{PERFORM count(*) FROM maxsim_rerank('[[1,0]]', '{1,2,3}', repeat(' ', i % 100) || 'small(id, emb)')});

# within one statement
my $out = $node->safe_psql(
	'postgres', q{
	SELECT sum(maxsim('[[1,0]]', emb)) FROM small;
	SELECT memory('RssAnon');
	SELECT sum(s) FROM generate_series(1, 30000) i, LATERAL (SELECT sum(score) AS s FROM maxsim_rerank(ARRAY[[i % 3, 0]], ARRAY[i % 1000, 1], 'small(id, emb)')) r;
	SELECT sum(maxsim(ARRAY[[i % 3, 0]], emb)) FROM generate_series(1, 200) i, small;
	SELECT memory('RssAnon')});
my @lines = split /\n/, $out;
cmp_ok($lines[4] - $lines[1], '<', 5, 'many calls in one statement: no growth');
note(sprintf('many calls in one statement: %.1f MB', $lines[4] - $lines[1]));

$node->stop;
done_testing();
