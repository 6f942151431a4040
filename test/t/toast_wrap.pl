# A value id may come again while dead tuples of it are there, once an index was built
# without them: documents are read where the one before ended, and must not be these.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('node');
$node->init(extra => [ '--encoding=UTF8', '--no-locale' ]);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'flash_maxsim'\nflash_maxsim.scorer_engine = off\nflash_maxsim.host_cache_size = 16MB\nautovacuum = off\n");
$node->start;
$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION flash_maxsim;
	CREATE FUNCTION document(i bigint) RETURNS multivec LANGUAGE sql AS $$ SELECT multivec(array_fill(i::real, ARRAY[1000, 1])) $$;
	CREATE TABLE docs (id bigint PRIMARY KEY, d multivec);
	ALTER TABLE docs ALTER d SET STORAGE external;
});

# Wrong scores: a document's is its id.
sub wrong
{
	my ($setting) = @_;

	return $node->safe_psql('postgres', qq{$setting;
		SELECT count(*) FROM (SELECT array_agg(id ORDER BY id) AS ids FROM docs) i, unnest(ids, maxsim_scores('[[1]]', ids, 'docs(id, d)')) u(id, score) WHERE score <> id;
		SELECT count(*) FROM (SELECT array_agg(id ORDER BY id) AS ids FROM docs WHERE id <= 100 OR id > 1000) i, unnest(ids, maxsim_scores('[[1]]', ids, 'docs(id, d)')) u(id, score) WHERE score <> id;
		SELECT count(*) FROM docs WHERE maxsim('[[1]]', d) <> id});
}

# deleted, and rolled back
for my $gone ('DELETE FROM docs WHERE id BETWEEN 101 AND 200', 'BEGIN; INSERT INTO docs SELECT i, document(i) FROM generate_series(5001, 5100) i; ROLLBACK')
{
	$node->safe_psql('postgres', 'TRUNCATE docs; INSERT INTO docs SELECT i, document(i) FROM generate_series(1, 300) i');
	my $toast = $node->safe_psql('postgres', q{SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'docs'::regclass});
	my ($low, $high) = split /\|/, $node->safe_psql('postgres', "SELECT min(chunk_id::bigint), max(chunk_id::bigint) FROM $toast");

	$node->safe_psql('postgres', $_) for $gone, 'CHECKPOINT', 'REINDEX TABLE docs';
	is(wrong('SET flash_maxsim.engine = cpu'), "0\n0\n0", "$gone: after REINDEX");
	$node->stop;
	command_ok([ 'pg_resetwal', '-o', ($gone =~ /DELETE/ ? $low + 100 : $high + 1), $node->data_dir ], '... the counter comes there again');
	$node->start;
	$node->safe_psql('postgres', 'INSERT INTO docs SELECT i, document(i) FROM generate_series(1001, 1100) i');
	cmp_ok($node->safe_psql('postgres', "SELECT count(DISTINCT chunk_id) FROM $toast WHERE chunk_id::bigint BETWEEN $low AND $high + 100"), '>', 250, '... and ids with it');
	is(wrong('SET flash_maxsim.engine = cpu'), "0\n0\n0", '... and scores are those of the new documents') for 1 .. 3;
	$node->safe_psql('postgres', 'VACUUM docs');
	is(wrong('SET flash_maxsim.engine = cpu'), "0\n0\n0", '... also when the dead are gone');
}
$node->stop;
done_testing();
