# Many sessions and few slots, documents and queries of every size: the same bits as
# engine cpu gives, whoever scores, and no slot lost.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

# a batch is at most 1 MB, so that a rerank has several of them
my $node = server('node', 'flash_maxsim.slots = 4', 'flash_maxsim.slot_size = 1MB', 'max_connections = 80', 'shared_buffers = 64MB');
prepare($node);
$node->safe_psql('postgres', q{
	CREATE TABLE mixed (id bigint PRIMARY KEY, d multivec, a real[], b double precision[]);
	ALTER TABLE mixed ALTER a SET STORAGE external, ALTER b SET STORAGE external;
	-- formats, lengths from none to 2.4 MB, NULL, inline, compressed
	INSERT INTO mixed SELECT i, CASE i % 3 WHEN 0 THEN t::multivec(64, f32) WHEN 1 THEN t::multivec(64, f16) ELSE t::multivec(64, bf16) END, t, t
		FROM (SELECT i, random_tokens(CASE WHEN i IN (100, 600) THEN 9600 WHEN i % 50 = 0 THEN 3000 ELSE 1 + i % 90 END, 64) AS t
			FROM generate_series(1, 1200) i) documents;
	INSERT INTO mixed VALUES (2001, NULL, NULL, NULL), (2002, '[]', '{}', '{}');
	INSERT INTO mixed SELECT 2003, array_agg(r), array_agg(r), array_agg(r) FROM (SELECT array_fill(0.25::real, ARRAY[64]) AS r FROM generate_series(1, 500)) zeros;
	INSERT INTO query SELECT random_tokens(n, 64) FROM unnest(ARRAY[1, 3, 40, 200, 1100, 8192]) n;
	ALTER TABLE query ADD n serial;
	CREATE FUNCTION answers(query multivec) RETURNS text LANGUAGE sql AS $$
		SELECT string_agg(md5((SELECT array_agg(r ORDER BY doc_id)::text
				FROM maxsim_rerank($1, ARRAY(SELECT generate_series(1, 2100)), source) r)), ' ')
			FROM unnest(ARRAY['mixed(id, d)', 'mixed(id, a)', 'mixed(id, b)']) source $$;
	-- a source that reads another source
	CREATE FUNCTION best(id bigint) RETURNS real LANGUAGE sql VOLATILE AS
		$$ SELECT (maxsim_scores((SELECT q FROM query WHERE n = 1), ARRAY(SELECT generate_series(1, 300)), 'docs(id, d)'))[$1] $$;
	CREATE VIEW nested AS SELECT id, ARRAY[ARRAY[best(id), id]]::real[] AS d FROM docs;
	CREATE FUNCTION nested_answer() RETURNS text LANGUAGE sql AS
		$$ SELECT md5(array_agg(r ORDER BY doc_id)::text) FROM maxsim_rerank('[[1,2]]', ARRAY(SELECT generate_series(1, 40)), 'nested(id, d)') r $$;
	ANALYZE;
});
ok(await_ready($node), 'the scorer is ready');

# every query against every document

my %cpu;
for my $n (1 .. 7)
{
	$cpu{$n} = $node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; SELECT answers(q) FROM query WHERE n = $n");
	for my $engine ('auto', 'cuda')
	{
		is($node->safe_psql('postgres', "SET flash_maxsim.engine = $engine; SELECT answers(q) FROM query WHERE n = $n"),
			$cpu{$n}, "query $n: $engine gives the same bits as cpu");
	}
}
cmp_ok(scorer($node, 'batches'), '>', 100, 'the scorer did much of that');
cmp_ok(scorer($node, 'fallbacks_too_large'), '>', 10, 'the CPU did what is larger than a slot, and that is counted');
is(scorer($node, 'fallbacks_failed + fallbacks_not_ready + fallbacks_no_slot'), '0', '... and nothing else');

# a rerank within a rerank

my $nested = $node->safe_psql('postgres', 'SET flash_maxsim.engine = cpu; SELECT nested_answer()');
is($node->safe_psql('postgres', "SET flash_maxsim.engine = $_; SET statement_timeout = '60s'; SELECT nested_answer()"), $nested, "$_: a rerank within a rerank")
  for ('auto', 'cuda');
all_slots_free($node, 'after those');

# 50 sessions

my @sessions = map { Scorer::Session->new($node) } 1 .. 50;
for my $engine ('auto', 'cuda')
{
	my ($batches, $no_slot) = split /\|/, scorer($node, 'batches, fallbacks_no_slot');

	$_->query("SET flash_maxsim.engine = $engine") for @sessions;
	for my $i (0 .. $#sessions)
	{
		my $n = 1 + $i % 4;
		my $sql = $i % 10 == 9 ? 'SELECT nested_answer()' : "SELECT answers(q) FROM query WHERE n = $n";
		$sessions[$i]->begin("$sql; $sql");
	}
	my $wrong = 0;
	for my $i (0 .. $#sessions)
	{
		my $right = $i % 10 == 9 ? $nested : $cpu{ 1 + $i % 4 };
		my $answer = $sessions[$i]->end;

		next if $answer eq "$right\n$right";
		diag("session $i: $answer\nand not: $right");
		$wrong++;
	}
	is($wrong, 0, "$engine: 50 sessions and 4 slots, every answer right");
	cmp_ok(scorer($node, 'batches'), '>', $batches, '... some by the scorer');
	note("$engine: ", scorer($node, "batches - $batches || ' batches, without a slot ' || fallbacks_no_slot - $no_slot"));
	all_slots_free($node, $engine);
}

# sessions that come, go, fail and are cancelled at any moment, and a scorer that ends

for my $round (1 .. 4)
{
	$_->begin('SET statement_timeout = ' . int(1 + rand 60) . '; SELECT answers(q) FROM query WHERE n = 4; SELECT answers(q) FROM query WHERE n = 1') for @sessions[0 .. 24];
	$_->begin('RESET statement_timeout; SET flash_maxsim.engine = auto; SELECT answers(q) FROM query WHERE n = 3') for @sessions[25 .. 44];
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($sessions[$_]{pid})") for 45 .. 49;
	kill 'KILL', scorer($node, 'pid') if $round == 2;
	$_->end for @sessions[0 .. 24];
	is(scalar(grep { $_->end ne $cpu{3} } @sessions[25 .. 44]), 0, "round $round: the others are right beside cancelled and terminated ones");
	$_->finish for @sessions[45 .. 49];
	$_ = Scorer::Session->new($node) for @sessions[45 .. 49];
}
$_->finish for @sessions;
ok(await_ready($node), 'the scorer is there');
all_slots_free($node, 'in the end');
is($node->safe_psql('postgres', 'SET flash_maxsim.engine = cuda; SELECT answers(q) FROM query WHERE n = 2'), $cpu{2}, '... and it works');

# who waits for a slot may hold the lock that those with slots wait for

my $locker = Scorer::Session->new($node);
my @holders = map { Scorer::Session->new($node) } 1 .. 4;
$node->safe_psql('postgres', q{
	CREATE FUNCTION wait(id bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT pg_advisory_xact_lock_shared(7); SELECT $1 $$;
	CREATE VIEW locked AS SELECT wait(id) AS id, d FROM docs;
});
$locker->query('SET flash_maxsim.engine = cuda; BEGIN; SELECT pg_advisory_xact_lock(7)');
$_->begin("SET flash_maxsim.engine = cuda; SELECT count(*) FROM maxsim_rerank((SELECT q FROM query WHERE n = 1), ARRAY[1, 2], 'locked(id, d)')") for @holders;
ok(await_sql($node, 'SELECT free_slots = 0 FROM maxsim_scorer()'), 'sessions with every slot wait for a lock');
is($locker->query('SELECT answers(q) FROM query WHERE n = 2'), $cpu{2}, '... that one without a slot has, which goes on');
$locker->query('COMMIT');
is(scalar(grep { $_->end ne '2' } @holders), 0, '... and so do they');
$_->finish for $locker, @holders;
all_slots_free($node, 'after that');
$node->stop;
done_testing();
