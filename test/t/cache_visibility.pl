# What a statement may see decides, not what the cache has: snapshots, transactions, row
# security and privileges, a standby, and readers that take their time.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

my $node = server('node', 'fsync = off', 'max_prepared_transactions = 5', "flash_maxsim.gpu_cache_size = '4MB'", 'flash_maxsim.host_cache_size = 4MB');
prepare($node);
$node->safe_psql('postgres', q{
	CREATE EXTENSION IF NOT EXISTS flash_maxsim;
	-- other documents, of 4 times the cache
	CREATE TABLE flood AS SELECT i AS id, random_tokens(32, 64)::multivec AS d FROM generate_series(1, 2000) i;
	ALTER TABLE flood ADD PRIMARY KEY (id);
	-- ids whose scores are not those of maxsim(), and how many chunks of documents a rerank fetched
	CREATE FUNCTION verify(name text, ids bigint[]) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		before bigint := chunks_read(name);
		fetched bigint;
		n bigint;
		wrong text;
	BEGIN
		SELECT count(score) INTO n FROM maxsim_rerank((SELECT q FROM query), ids, name || '(id, d)');
		fetched := chunks_read(name) - before;
		EXECUTE format('SELECT string_agg(doc_id::text, '' '') FROM maxsim_rerank((SELECT q FROM query), $1, ''%1$s(id, d)'') LEFT JOIN %1$s ON id = doc_id
			CROSS JOIN query WHERE score IS DISTINCT FROM maxsim(q, d)', name) INTO wrong USING ids;
		RETURN coalesce('WRONG ' || wrong, format('%s right, %s fetched', n, fetched));
	END $$;
});
ok(await_ready($node), 'the scorer is ready');
my $few = 'ARRAY[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]::bigint[]';
my $verify = "SELECT verify('docs', $few)";
my $scores = "SELECT string_agg(score::text, ' ' ORDER BY doc_id) FROM maxsim_rerank((SELECT q FROM query), $few, 'docs(id, d)')";

# Until documents 1 to 10 come from the cache.
sub warm
{
	my ($session, $when) = @_;
	my $answer;

	for (1 .. 20)
	{
		$answer = $session->query($verify);
		last if $answer eq '10 right, 0 fetched';
	}
	is($answer, '10 right, 0 fetched', "$when: documents come from the cache");
	return;
}

my $reader = Scorer::Session->new($node);
my $writer = Scorer::Session->new($node);
for my $engine ('cpu', 'cuda')
{
	$_->query("SET flash_maxsim.engine = $engine") for $reader, $writer;
	warm($writer, $engine);

	# an old snapshot

	$reader->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $old = $reader->query($scores);
	$writer->query('UPDATE docs SET d = random_tokens(32, 64) WHERE id <= 10; VACUUM docs');
	my $new = $writer->query($scores);
	isnt($new, $old, "$engine: an update gives other scores");
	warm($writer, "$engine: new documents");
	warm($reader, "$engine: old documents beside them");
	is($reader->query($scores), $old, "$engine: the old snapshot's scores");
	is($writer->query($scores), $new, "$engine: the new ones");
	$reader->query('COMMIT');
	is($reader->query($scores), $new, "$engine: and after the commit the new ones");

	# transactions that come to nothing, and such that wait

	$writer->query('BEGIN; UPDATE docs SET d = random_tokens(32, 64) WHERE id <= 10');
	warm($writer, "$engine: an uncommitted update");
	isnt($writer->query($scores), $new, "$engine: ... seen by its transaction");
	is($reader->query($scores), $new, "$engine: ... and not by others");
	$writer->query('SAVEPOINT a; DELETE FROM docs WHERE id <= 10');
	is($writer->query($scores), '', "$engine: deleted in a subtransaction");
	$writer->query('ROLLBACK TO a');
	isnt($writer->query($scores), '', "$engine: ... which is rolled back");
	$writer->query('ROLLBACK');
	is($writer->query($scores), $new, "$engine: ... and the rest too");
	$writer->query('BEGIN; UPDATE docs SET d = random_tokens(32, 64) WHERE id <= 10');
	warm($writer, "$engine: before it is prepared");
	my $prepared = $writer->query($scores);
	$writer->query("PREPARE TRANSACTION 'p'");
	is($writer->query($scores), $new, "$engine: a prepared transaction's documents are not seen");
	$writer->query($engine eq 'cpu' ? "COMMIT PREPARED 'p'" : "ROLLBACK PREPARED 'p'");
	is($writer->query($scores), $engine eq 'cpu' ? $prepared : $new, "$engine: ... until it is committed");

	# a reader that takes its time: two of its documents come a round, while all that the
	# arenas hold is replaced again and again

	warm($reader, "$engine: before a long reader");
	my $right = $reader->query('SELECT array_agg(r ORDER BY doc_id) FROM (SELECT id AS doc_id, maxsim(q, d) AS score FROM docs, query WHERE id <= 40) r');
	$reader->query('CREATE SEQUENCE IF NOT EXISTS rounds');
	$reader->query(q{CREATE OR REPLACE FUNCTION wait_for_round(n bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
		BEGIN WHILE (SELECT last_value FROM rounds) < n LOOP PERFORM pg_sleep(0.005); END LOOP; RETURN 0; END $$});
	$reader->query("SELECT setval('rounds', 1)");
	$reader->query('CREATE OR REPLACE VIEW slow AS SELECT id + wait_for_round(id / 2) AS id, d FROM (SELECT id, d FROM docs ORDER BY id LIMIT 40) x');
	$reader->begin("SELECT array_agg(r ORDER BY doc_id) FROM maxsim_rerank((SELECT q FROM query), ARRAY(SELECT generate_series(1, 40)), 'slow(id, d)') r");
	my $rounds = 0;
	while ($reader->{out} eq '' && $rounds < 1000)
	{
		my $from = 1 + 500 * ($rounds++ % 4);

		like($writer->query("SELECT verify('flood', ARRAY(SELECT generate_series($from, $from + 499)))"), qr/^500 right/, 'beside it') if $rounds % 10 == 1;
		$writer->query("SELECT nextval('rounds'), count(*) FROM maxsim_rerank((SELECT q FROM query), ARRAY(SELECT generate_series($from, $from + 499)), 'flood(id, d)')");
		$reader->{psql}->pump_nb;
	}
	cmp_ok($rounds, '>', 18, "$engine: a long reader while the arenas are filled anew");
	is($reader->end, $right, "$engine: ... gets the right scores");
	# three times what the arenas hold: none of it waits for the reader that has ended
	my $evicted = 'SELECT evicted FROM flash_maxsim_stats';
	my $before = $writer->query($evicted);
	my $after = $before;
	for (1 .. 400)
	{
		my $from = 1 + 500 * ($_ % 4);

		$writer->query("SELECT count(*) FROM maxsim_rerank((SELECT q FROM query), ARRAY(SELECT generate_series($from, $from + 499)), 'flood(id, d)')");
		$after = $writer->query($evicted);
		last if $after >= $before + 3000;
	}
	cmp_ok($after, '>=', $before + 3000, "$engine: ... and afterwards the arenas are emptied further");

	# a cursor

	warm($reader, "$engine: before a cursor");
	$right = $reader->query("SELECT doc_id, score FROM maxsim_rerank((SELECT q FROM query), $few, 'docs(id, d)')");
	$reader->query("BEGIN; DECLARE c CURSOR FOR SELECT doc_id, score FROM maxsim_rerank((SELECT q FROM query), $few, 'docs(id, d)')");
	my $rows = $reader->query('FETCH 3 FROM c');
	$writer->query("UPDATE docs SET d = random_tokens(32, 64) WHERE id <= 10; SELECT count(*) FROM maxsim_rerank((SELECT q FROM query), ARRAY(SELECT generate_series(1, 2000)), 'flood(id, d)')") for 1 .. 3;
	is($rows . "\n" . $reader->query('FETCH ALL FROM c'), $right, "$engine: a cursor across an update");
	$reader->query('COMMIT');
}
$_->finish for $reader, $writer;

# row security and privileges

$node->safe_psql('postgres', q{
	ALTER TABLE docs ENABLE ROW LEVEL SECURITY;
	CREATE ROLE some_rows LOGIN;
	CREATE ROLE no_column LOGIN;
	CREATE ROLE no_table LOGIN;
	CREATE POLICY p ON docs TO some_rows USING (id % 2 = 0);
	CREATE POLICY q ON docs TO no_column USING (true);
	GRANT SELECT ON docs TO some_rows;
	GRANT SELECT (id) ON docs TO no_column;
	GRANT SELECT ON query TO some_rows, no_column, no_table;
});
for my $engine ('cpu', 'cuda')
{
	my $owner = Scorer::Session->new($node);

	$owner->query("SET flash_maxsim.engine = $engine");
	warm($owner, "$engine: the owner");
	my $all = $owner->query("SELECT doc_id, score FROM maxsim_rerank((SELECT q FROM query), $few, 'docs(id, d)') WHERE doc_id % 2 = 0 ORDER BY 1");
	my $some = "SELECT doc_id, score FROM maxsim_rerank((SELECT q FROM query), $few, 'docs(id, d)') ORDER BY 1";

	is($owner->query("SET ROLE some_rows; $some"), $all, "$engine: row security hides rows whose documents are in the cache");
	is($owner->query("RESET ROLE; ALTER POLICY p ON docs USING (id > 100); SET ROLE some_rows; $some"), '', "$engine: ... and when it changes");
	like($owner->query("SET ROLE no_column; $some"), qr/42501: permission denied for table docs/, "$engine: without the column's privilege");
	like($owner->query("SET ROLE no_table; $some"), qr/42501: permission denied for table docs/, "$engine: without the table's");
	$owner->query('RESET ROLE; ALTER POLICY p ON docs USING (id % 2 = 0)');
	warm($owner, "$engine: the owner again");
	$owner->finish;
}

# a standby has a cache of its own

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
ok(await_ready($standby), 'the scorer of the standby is ready');
sub caught_up { $node->wait_for_catchup('standby', 'replay'); return }
caught_up();
my $there = Scorer::Session->new($standby);
for my $engine ('cpu', 'cuda')
{
	$there->query("SET flash_maxsim.engine = $engine");
	warm($there, "standby, $engine");
	my $old = $there->query($scores);
	is($old, $node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $scores"), "standby, $engine: the primary's scores");
	$node->safe_psql('postgres', 'UPDATE docs SET d = random_tokens(32, 64) WHERE id <= 10; VACUUM docs');
	caught_up();
	isnt($there->query($scores), $old, "standby, $engine: after an update others");
	is($there->query($scores), $node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $scores"), "standby, $engine: the primary's");
	warm($there, "standby, $engine: after the update");

	# whose end tells the standby a lower object id counter
	$node->restart;
	caught_up();
	is($there->query($verify), '10 right, 0 fetched', "standby, $engine: a restart of the primary empties no cache");
	$node->safe_psql('postgres', 'UPDATE docs SET d = random_tokens(32, 64) WHERE id <= 10');
	caught_up();
	warm($there, "standby, $engine: after an update thereafter");
}
$node->stop;
$standby->promote;
$there->query('SET flash_maxsim.engine = cuda');
is($there->query($verify), '10 right, 0 fetched', 'promoted, it has its cache');
$there->query('UPDATE docs SET d = random_tokens(32, 64) WHERE id <= 10');
warm($there, 'promoted, after an update');
$there->finish;
all_slots_free($standby, 'promoted');
unlike(slurp_file($_->logfile), qr/terminated by signal|PANIC|TRAP/, 'no crash') for $node, $standby;
$standby->stop;
done_testing();
