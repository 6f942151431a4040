# Many sessions look for the same documents, which are updated meanwhile, in a cache that
# is emptied and filled all the time.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

my $node = server('node', 'fsync = off', 'max_connections = 80', 'flash_maxsim.slots = 16', "flash_maxsim.gpu_cache_size = '4MB'", 'flash_maxsim.host_cache_size = 4MB');
prepare($node);
$node->safe_psql('postgres', q{
	CREATE TABLE many AS SELECT i AS id, random_tokens(8 + i % 8, 64)::multivec AS d FROM generate_series(1, 3000) i;
	ALTER TABLE many ADD PRIMARY KEY (id);
	ANALYZE;
	CREATE FUNCTION verify(ids bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		n bigint;
		wrong bigint;
	BEGIN
		SELECT count(*), count(*) FILTER (WHERE score IS DISTINCT FROM maxsim(q, (SELECT d FROM many WHERE id = doc_id))) INTO n, wrong
			FROM maxsim_rerank((SELECT q FROM query), ids, 'many(id, d)') CROSS JOIN query;
		IF wrong > 0 OR n <> cardinality(ids) THEN
			RAISE '% of % scores are wrong', wrong, n;
		END IF;
		RETURN n;
	END $$;
});
ok(await_ready($node), 'the scorer is ready');

my $base = $node->basedir;
append_to_file("$base/read.sql", q{
\set from random_zipfian(1, 2800, 1.2)
\set n random(1, 200)
\set engine random(1, 3)
SELECT set_config('flash_maxsim.engine', (ARRAY['auto', 'cpu', 'cuda'])[:engine], false);
SELECT verify(ARRAY(SELECT generate_series(:from, :from + :n - 1)::bigint));
});
append_to_file("$base/write.sql", q{
\set id random_zipfian(1, 3000, 1.2)
UPDATE many SET d = random_tokens(8 + :id % 8, 64) WHERE id BETWEEN :id AND :id + 3;
});
$node->command_ok(
	[ 'pgbench', '-n', '-c', '40', '-j', '2', '-T', $ENV{SECONDS_OF_LOAD} // 10, '--max-tries=5', '-f', "$base/read.sql\@6", '-f', "$base/write.sql\@1", $node->connstr('postgres') ],
	'40 sessions: every score is right');
all_slots_free($node, 'after that');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP|\d scores are wrong/, 'no crash');
$node->stop;
done_testing();
