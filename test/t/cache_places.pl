# Rows are looked for where they were last seen: each of them is found once, whatever
# other sessions do to the places meanwhile.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

my $node = server('node', 'fsync = off', "flash_maxsim.gpu_cache_size = '4MB'", 'flash_maxsim.host_cache_size = 4MB');
prepare($node);
$node->safe_psql('postgres', q{
	-- too many rows to be read as a whole
	CREATE TABLE many AS SELECT i AS id, 0 AS version, random_tokens(2, 64)::multivec AS d FROM generate_series(1, 40000) i;
	ALTER TABLE many ADD PRIMARY KEY (id);
	ALTER TABLE many SET (fillfactor = 50);
	VACUUM FULL ANALYZE many;
	-- two ids, each given many times
	CREATE FUNCTION verify(n integer) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		ids bigint[] := ARRAY(SELECT i / 2000 % 2 + 1 FROM generate_series(1, 4000) i);
		question multivec := (SELECT q FROM query);
		nrows bigint;
	BEGIN
		FOR i IN 1..n LOOP
			SELECT count(*) INTO nrows FROM maxsim_rerank(question, ids, 'many(id, d)');
			IF nrows <> 2 THEN
				RAISE '% rows of 2', nrows;
			END IF;
		END LOOP;
	END $$;
});

my $base = $node->basedir;
append_to_file("$base/read.sql", "SELECT verify(100);\n");
append_to_file("$base/move.sql", q{
UPDATE many SET version = version + 1 WHERE id = 1;
SELECT count(*) FROM maxsim_rerank((SELECT q FROM query), ARRAY[1, 2, 1, 2, 1, 2, 1, 2], 'many(id, d)');
});
$node->command_ok(
	[ 'pgbench', '-n', '-c', '4', '-T', $ENV{SECONDS_OF_LOAD} // 10, '-f', "$base/read.sql\@1", '-f', "$base/move.sql\@20", $node->connstr('postgres') ],
	'a row that moves is found once by every rerank');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC|TRAP|\d rows of 2/, 'no crash');
$node->stop;
done_testing();
