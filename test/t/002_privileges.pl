# Documents are read under the rights and the row security of the caller, also when a
# session changes its role and a plan is kept.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;

$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION flash_maxsim;
	CREATE ROLE alice;
	CREATE ROLE bob;
	CREATE ROLE owner;
	GRANT CREATE ON SCHEMA public TO owner;
	CREATE FUNCTION error_of(statement text) RETURNS text LANGUAGE plpgsql AS
	$$ BEGIN EXECUTE statement; RETURN 'no error'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM; END $$;
	CREATE FUNCTION best(source text) RETURNS text LANGUAGE sql AS
	$$ SELECT coalesce(string_agg(doc_id || ':' || score, ' '), '-') FROM maxsim_rerank('[[1,0]]', '{1,2,3,4}', source) $$;

	SET ROLE owner;
	CREATE TABLE docs (id bigint PRIMARY KEY, emb multivec(2), secret text, tenant name);
	INSERT INTO docs VALUES (1, '[[1,0]]', 'a', 'alice'), (2, '[[2,0]]', 'b', 'bob'), (3, '[[3,0]]', 'c', 'alice'), (4, '[[4,0]]', 'd', 'bob');
	CREATE VIEW view AS SELECT id, emb FROM docs WHERE id < 3;
	RESET ROLE;
	CREATE SCHEMA hidden;
	CREATE TABLE hidden.docs AS SELECT id, emb FROM docs;
	GRANT SELECT ON hidden.docs TO alice;
});

# Each test: the role, a statement, what it yields.  All in one session, so that each
# finds the plans that the others have left.
my @script;
my @expected;
my @names;

sub setup
{
	push @script, @_;
}

sub yields
{
	my ($role, $expression, $expected, $name) = @_;
	push @script, "SET ROLE $role", "SELECT $expression", 'RESET ROLE';
	push @expected, $expected;
	push @names, "$role: $name";
}

my $denied = "error_of(\$\$SELECT best('docs(id, emb)')\$\$)";
my $hidden = "error_of(\$\$SELECT best('hidden.docs(id, emb)')\$\$)";

yields('owner', "best('docs(id, emb)')", '4:4 3:3 2:2 1:1', 'all rows');
yields('alice', $denied, '42501 permission denied for table docs', 'no privilege on the table');
yields('alice', "error_of(\$\$SELECT maxsim_scores('[[1,0]]', '{1}', 'docs(id, emb)')\$\$)", '42501 permission denied for table docs', 'nor for maxsim_scores');
yields('alice', "error_of(\$\$SELECT maxsim_scores('[[1,0]]', '{}', 'docs(id, emb)')\$\$)", 'no error', 'no ids read nothing');
setup('GRANT SELECT (id) ON docs TO alice');
yields('alice', $denied, '42501 permission denied for table docs', 'privilege on the id only');
setup('REVOKE SELECT (id) ON docs FROM alice', 'GRANT SELECT (emb) ON docs TO alice');
yields('alice', $denied, '42501 permission denied for table docs', 'privilege on the document only');
setup('GRANT SELECT (id) ON docs TO alice');
yields('alice', "best('docs(id, emb)')", '4:4 3:3 2:2 1:1', 'privileges on both columns');
yields('alice', "error_of('SELECT secret FROM docs')", '42501 permission denied for table docs', 'and on no other');
yields('bob', $denied, '42501 permission denied for table docs', 'whose plan it is does not matter');
setup('REVOKE SELECT (id, emb) ON docs FROM alice');
yields('alice', $denied, '42501 permission denied for table docs', 'privileges revoked');
yields('alice', $hidden, '42501 permission denied for schema hidden', 'no privilege on the schema');
setup('GRANT USAGE ON SCHEMA hidden TO alice');
yields('alice', "best('hidden.docs(id, emb)')", '4:4 3:3 2:2 1:1', 'privilege on the schema');
yields('bob', $hidden, '42501 permission denied for schema hidden', 'which is not that of others');

# views and functions lend their owner's rights, as they always do
yields('alice', "error_of(\$\$SELECT best('view(id, emb)')\$\$)", '42501 permission denied for view view', 'no privilege on the view');
setup('GRANT SELECT ON view TO alice');
yields('alice', "best('view(id, emb)')", '2:2 1:1', 'a view of another');
setup(
	q{CREATE FUNCTION as_owner() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT best('docs(id, emb)') $$},
	'ALTER FUNCTION as_owner() OWNER TO owner');
yields('alice', 'as_owner()', '4:4 3:3 2:2 1:1', 'a function that runs as its owner');
yields('alice', $denied, '42501 permission denied for table docs', 'and leaves no rights behind');
yields('alice', "error_of(\$\$SELECT best('pg_authid(oid, rolpassword)')\$\$)", q{42804 id column "oid" of source "pg_authid(oid, rolpassword)" has type oid}, 'nothing of a catalog');

# row security
setup(
	'GRANT SELECT ON docs TO alice, bob', 'ALTER TABLE docs ENABLE ROW LEVEL SECURITY',
	'CREATE POLICY own ON docs USING (tenant = current_user)');
foreach my $round (1, 2)
{
	yields('alice', "best('docs(id, emb)')", '3:3 1:1', "own rows, round $round");
	yields('bob', "best('docs(id, emb)')", '4:4 2:2', "own rows, round $round");
	yields('bob', "maxsim_scores('[[1,0]]', '{1,2,3,4}', 'docs(id, emb)')", '{NULL,2,NULL,4}', "others have no scores, round $round");
	yields('owner', "best('docs(id, emb)')", '4:4 3:3 2:2 1:1', "all rows, round $round");
	yields('alice', "best('view(id, emb)')", '2:2 1:1', "rows of the view's owner, round $round");
	yields('bob', 'as_owner()', '4:4 3:3 2:2 1:1', "rows of the function's owner, round $round");
}
setup('CREATE POLICY first ON docs USING (id = 1)');
yields('bob', "best('docs(id, emb)')", '4:4 2:2 1:1', 'a second policy');
setup('DROP POLICY own ON docs');
yields('bob', "best('docs(id, emb)')", '1:1', 'the first policy dropped');
setup('DROP POLICY first ON docs');
yields('bob', "best('docs(id, emb)')", '-', 'no policy, no rows');
setup(q{CREATE POLICY settable ON docs USING (tenant = current_setting('app.tenant', true))}, q{SET app.tenant = 'alice'});
yields('bob', "best('docs(id, emb)')", '3:3 1:1', 'a policy by a setting');
setup(q{SET app.tenant = 'bob'});
yields('bob', "best('docs(id, emb)')", '4:4 2:2', 'the setting changed');
setup('SET row_security = off');
yields('bob', $denied, '42501 query would be affected by row-level security policy for table "docs"', 'row_security off');
setup('SET row_security = on', 'ALTER TABLE docs FORCE ROW LEVEL SECURITY');
yields('owner', "best('docs(id, emb)')", '4:4 2:2', 'security forced');
# before 15.19 and its sister releases PostgreSQL keeps plans when a role's attributes change
setup('ALTER ROLE owner BYPASSRLS', 'DISCARD PLANS');
yields('owner', "best('docs(id, emb)')", '4:4 3:3 2:2 1:1', 'exempt');
setup('ALTER TABLE docs DISABLE ROW LEVEL SECURITY');
yields('bob', "best('docs(id, emb)')", '4:4 3:3 2:2 1:1', 'security disabled');

# a policy's function must not see rows that the policy hides, whatever is asked of it
setup(
	'ALTER TABLE docs ENABLE ROW LEVEL SECURITY', 'DROP POLICY settable ON docs', 'CREATE POLICY own ON docs USING (tenant = current_user)',
	'CREATE TABLE log (entry text)', 'GRANT INSERT, SELECT ON log TO bob',
	q{CREATE FUNCTION leaky(multivec) RETURNS multivec LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE WARNING 'saw %', $1; RETURN $1; END $$},
	'CREATE VIEW peek WITH (security_barrier) AS SELECT id, leaky(emb) AS emb FROM docs', 'GRANT SELECT ON peek TO bob', 'ALTER VIEW peek OWNER TO bob');
yields('bob', "best('peek(id, emb)')", '4:4 2:2', 'a leaky function');

my ($stdout, $stderr);
$node->psql('postgres', join(";\n", @script) . ';', stdout => \$stdout, stderr => \$stderr);
my @got = split /\n/, $stdout;
is(scalar @got, scalar @expected, 'every statement yields a row');
for my $i (0 .. $#expected)
{
	is($got[$i], $expected[$i], $names[$i]);
}
unlike($stderr, qr/ERROR/, 'no other error');
unlike($stderr, qr/saw \[\[[13],0\]\]/, 'a leaky function sees what the policy shows');
like($stderr, qr/saw \[\[4,0\]\]/, 'and it was called');

# with no right to execute
$node->safe_psql('postgres', 'REVOKE EXECUTE ON FUNCTION maxsim_rerank(multivec, bigint[], text, integer, double precision[]) FROM PUBLIC');
($stdout, $stderr) = ();
$node->psql('postgres', q{SET ROLE alice; SELECT * FROM maxsim_rerank('[[1,0]]', '{1}', 'docs(id, emb)')}, stdout => \$stdout, stderr => \$stderr);
like($stderr, qr/permission denied for function maxsim_rerank/, 'the right to execute can be taken');

# nor where a plan scores in batches, which calls no function
$node->safe_psql('postgres', q{
	CREATE TABLE plain AS SELECT i AS id, '[[1,0]]'::multivec AS emb FROM generate_series(1, 50) i;
	GRANT SELECT ON plain TO alice;
	ANALYZE plain;
	REVOKE EXECUTE ON FUNCTION maxsim(multivec, multivec) FROM PUBLIC;
});
like($node->safe_psql('postgres', q{LOAD 'flash_maxsim'; EXPLAIN SELECT max(maxsim('[[1,0]]', emb)) FROM plain}), qr/Custom Scan \(MaxSim\)/, 'a plan that scores in batches');
($stdout, $stderr) = ();
$node->psql('postgres', q{LOAD 'flash_maxsim'; SET ROLE alice; SELECT max(maxsim('[[1,0]]', emb)) FROM plain}, stdout => \$stdout, stderr => \$stderr);
is($stdout, '', '... yields nothing without the right');
like($stderr, qr/permission denied for function maxsim$/, '... to execute the function');
$node->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION maxsim(multivec, multivec) TO alice');
is($node->safe_psql('postgres', q{LOAD 'flash_maxsim'; SET ROLE alice; SELECT max(maxsim('[[1,0]]', emb)) FROM plain}), '1', '... and a score with it');

# a role that may create an extension but is no superuser: not trusted, so it may not
$node->safe_psql('postgres', 'DROP EXTENSION flash_maxsim CASCADE; CREATE DATABASE other OWNER owner');
$node->psql('other', q{SET ROLE owner; CREATE EXTENSION flash_maxsim}, stdout => \$stdout, stderr => \$stderr);
like($stderr, qr/permission denied to create extension "flash_maxsim"/, 'only a superuser creates the extension');

$node->stop;
done_testing();
