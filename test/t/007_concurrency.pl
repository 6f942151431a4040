# Many sessions at once, while rows are updated and while the relations that they read
# are altered, dropped and made again: right results or ordinary errors, never a crash.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "max_connections = 100\njit = off\nrestart_after_crash = off\nlog_statement = none\ndeadlock_timeout = 100ms");
$node->start;

$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION flash_maxsim;
	-- each document is tokens of one number, its version; some are TOASTed
	CREATE FUNCTION version(n integer, tokens integer) RETURNS multivec LANGUAGE sql IMMUTABLE AS $$ SELECT array_fill(n, ARRAY[tokens, 4])::multivec $$;
	CREATE TABLE docs (id bigint PRIMARY KEY, version integer, emb multivec(4));
	ALTER TABLE docs ALTER emb SET STORAGE EXTERNAL;
	INSERT INTO docs SELECT i, 1, version(1, CASE WHEN i % 3 = 0 THEN 500 ELSE 2 END) FROM generate_series(1, 300) i;
	CREATE TABLE outcomes (step text, outcome text);
	-- scores are those of the versions that the same snapshot shows
	CREATE FUNCTION consistent(ids bigint[]) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		wrong bigint;
		n bigint;
	BEGIN
		SELECT count(*), count(*) FILTER (WHERE score IS DISTINCT FROM 2 * version) INTO n, wrong
			FROM maxsim_rerank('[[1,0,0,0],[0,1,0,0]]', ids, 'public.docs(id, emb)') JOIN docs ON id = doc_id;
		RETURN CASE WHEN wrong = 0 AND n = (SELECT count(DISTINCT i) FROM unnest(ids) i) THEN 'right' ELSE format('%s of %s are wrong', wrong, n) END;
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLSTATE || ' ' || SQLERRM;
	END $$;
});

my $base = $node->basedir;
sub script
{
	my ($name, $text) = @_;
	append_to_file("$base/$name.sql", $text);
	return "$base/$name.sql";
}
my $read = script('read', q{
\set a random(1, 200)
INSERT INTO outcomes SELECT 'read', consistent(ARRAY(SELECT generate_series(:a, :a + 99)::bigint));
});
my $write = script('write', q{
\set id random(1, 300)
\set v random(1, 1000)
UPDATE docs SET version = :v, emb = version(:v, CASE WHEN :id % 3 = 0 THEN 500 ELSE 2 END) WHERE id = :id;
});

$node->command_ok(
	[ 'pgbench', '-n', '-c', '50', '-j', '2', '-t', '40', '-f', "$read\@4", '-f', "$write\@1", $node->connstr('postgres') ],
	'50 sessions read and write');
is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT outcome, ', ') FROM outcomes}), 'right', 'every score is that of the row that the statement sees');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM outcomes}), '>', 1000, 'there were many');

# relations that change; the errors that a reader may get are those of any reader
$node->safe_psql(
	'postgres', q{
	TRUNCATE outcomes;
	CREATE TABLE shifting (id bigint PRIMARY KEY, emb multivec(4));
	CREATE FUNCTION shift(n integer) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		CASE n % 6
			WHEN 0 THEN
				DROP TABLE IF EXISTS shifting;
				CREATE TABLE shifting (emb real[], id integer);
				INSERT INTO shifting SELECT emb, id FROM docs WHERE id <= 20;
			WHEN 1 THEN ALTER TABLE shifting ADD PRIMARY KEY (id);
			WHEN 2 THEN ALTER TABLE shifting ALTER emb TYPE multivec(4, f16), ALTER id TYPE bigint;
			WHEN 3 THEN ALTER TABLE shifting RENAME emb TO vectors;
			WHEN 4 THEN ALTER TABLE shifting RENAME vectors TO emb;
			WHEN 5 THEN
				DROP TABLE shifting;
				CREATE TABLE shifting (id smallint, filler text, emb double precision[]);
				INSERT INTO shifting SELECT id, 'x', emb::real[] FROM docs WHERE id <= 20;
		END CASE;
	EXCEPTION WHEN OTHERS THEN
		NULL; -- another session was faster
	END $$;
	CREATE FUNCTION shifted() RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		n bigint;
	BEGIN
		SELECT count(*) INTO n FROM maxsim_rerank('[[1,0,0,0],[0,1,0,0]]', ARRAY(SELECT generate_series(1, 20)), 'public.shifting(id, emb)') WHERE score >= 2;
		RETURN CASE n WHEN 20 THEN 'right' WHEN 0 THEN 'empty' ELSE 'wrong' END;
	EXCEPTION WHEN OTHERS THEN
		RETURN CASE
			WHEN SQLSTATE IN ('42P01', '42703') THEN 'absent'
			WHEN SQLSTATE = '55000' AND SQLERRM LIKE 'source % was altered while it was being read' THEN 'altered'
			WHEN SQLSTATE = 'XX000' AND SQLERRM ~ 'could not open relation with OID|cache lookup failed for relation' THEN 'gone'
			ELSE SQLSTATE || ' ' || SQLERRM END;
	END $$;
});
my $shift = script('shift', "\\set n random(0, 5)\nSELECT shift(:n);\n");
my $shifted = script('shifted', "INSERT INTO outcomes SELECT 'shifted', shifted();\n");
$node->command_ok(
	[ 'pgbench', '-n', '-c', '20', '-j', '2', '-T', '6', '-f', "$shift\@1", '-f', "$shifted\@6", $node->connstr('postgres') ],
	'20 sessions read what others alter and drop');
my $outcomes = $node->safe_psql('postgres', q{SELECT outcome, count(*) FROM outcomes GROUP BY outcome ORDER BY outcome});
note($outcomes);
is(join("\n", grep { !/^(right|empty|absent|altered|gone)\|/ } split /\n/, $outcomes), '', 'right, or an ordinary error');
like($outcomes, qr/^right\|\d{2,}/m, 'often right');

is($node->safe_psql('postgres', q{SELECT maxsim('[[1,2]]', '[[3,4]]')}), '11', 'the server goes on');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'no crash');
$node->stop;
done_testing();
