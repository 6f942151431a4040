# Documents come into the cache before they are asked for: by maxsim_prewarm, and by
# themselves after a restart or a crash.  Scores are the same bits as ever.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

my $PREWARM = 'documents, loaded, already, uncached, too_large, no_room FROM maxsim_prewarm';
my $LIST = 'flash_maxsim.documents';

# The md5 of all scores of a source.
sub answer
{
	my ($node, $source, $engine) = @_;

	return $node->safe_psql('postgres', "SET flash_maxsim.engine = $engine; SELECT md5(array_agg(r ORDER BY doc_id)::text)"
		  . " FROM maxsim_rerank((SELECT q FROM query), ARRAY(SELECT generate_series(1, 9000)), '$source') r");
}

sub prewarm
{
	my ($node, $arguments) = @_;

	return $node->safe_psql('postgres', "SELECT $PREWARM($arguments)");
}

# Documents of every kind, a table that exceeds the cache, and users with few rights.
sub documents
{
	my ($node) = @_;

	prepare($node);
	$node->safe_psql('postgres', q{
		CREATE TABLE mixed (id bigint PRIMARY KEY, d multivec);
		INSERT INTO mixed SELECT i, CASE i % 3 WHEN 0 THEN t::multivec(64, f32) WHEN 1 THEN t::multivec(64, f16) ELSE t::multivec(64, bf16) END
			FROM (SELECT i, random_tokens(40 + i % 90, 64) AS t FROM generate_series(1, 200) i) documents;
		INSERT INTO mixed SELECT 200 + i, random_tokens(1, 64) FROM generate_series(1, 5) i; -- inline
		INSERT INTO mixed VALUES (301, NULL), (302, '[]');
		ALTER TABLE mixed ALTER d SET STORAGE extended;
		INSERT INTO mixed SELECT 303, array_agg(r) FROM (SELECT array_fill(0.25::real, ARRAY[64]) AS r FROM generate_series(1, 500)) zeros; -- compressed
		ALTER TABLE mixed ALTER d SET STORAGE external;
		INSERT INTO mixed SELECT 304, array_agg(r) FROM (SELECT array_fill(0.25::real, ARRAY[64]) AS r FROM generate_series(1, 20000)) large; -- 5 MB
		CREATE TABLE arrays AS SELECT id, d::real[] AS a, d::real[]::double precision[] AS b FROM docs;
		ALTER TABLE arrays ALTER a SET STORAGE external, ALTER b SET STORAGE external;
		UPDATE arrays SET a = a || a, b = b || b;
		-- of other dimensions
		CREATE TABLE dims AS SELECT i AS id, random_tokens(100, i)::multivec AS d FROM generate_series(21, 40) i;
		-- 80 MB
		CREATE TABLE many AS SELECT i AS id, random_tokens(128, 64)::multivec AS d FROM generate_series(1, 8) i;
		INSERT INTO many SELECT i, d FROM generate_series(9, 2500) i JOIN many ON id = i % 8 + 1;
		ALTER TABLE many ADD PRIMARY KEY (id);
		CREATE TABLE secured (id bigint PRIMARY KEY, d multivec, owner name);
		INSERT INTO secured SELECT id, d, CASE WHEN id % 3 = 0 THEN 'alice' ELSE 'bob' END FROM docs WHERE id <= 90;
		ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
		CREATE POLICY own ON secured USING (owner = current_user);
		CREATE ROLE alice LOGIN;
		CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
		GRANT SELECT ON secured TO alice;
		CREATE FUNCTION pause(id bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM pg_sleep(0.1); RETURN id; END $$;
		CREATE TABLE paused AS SELECT id, d FROM docs;
		CREATE VIEW slow AS SELECT pause(id) AS id, d FROM paused;
		ANALYZE;
	});
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	$node->safe_psql('other', q{
		CREATE EXTENSION flash_maxsim;
		CREATE TABLE docs AS SELECT i AS id, array_agg(r)::multivec AS d
			FROM generate_series(1, 50) i, (SELECT array_fill(0.5::real, ARRAY[64]) AS r FROM generate_series(1, 50)) rows GROUP BY i;
	});
	return;
}

# What is the same for every tier.
sub test_prewarm
{
	my ($node, $tier, $other) = @_;
	my %right = map { $_ => answer($node, $_, 'cpu') } ('docs(id, d)', 'arrays(id, a)', 'arrays(id, b)', 'many(id, d)', 'secured(id, d)');

	# counts

	is(prewarm($node, "'docs(id, d)'"), '300|300|0|0|0|0', "$tier: all documents are loaded");
	is(prewarm($node, "'docs(id, d)'"), '300|0|300|0|0|0', '... and are there');
	is(prewarm($node, "'docs(id, d)', tier => '$tier'"), '300|0|300|0|0|0', '... in the tier that can be named too');
	is(prewarm($node, "'mixed(id, d)', '{}'"), '0|0|0|0|0|0', 'no ids');
	is(prewarm($node, "'mixed(id, d)', '{1,2,3,3,777,201,301}'"), '5|3|0|2|0|0', 'some ids');
	is(prewarm($node, "'mixed(id, d)'"), '209|197|3|8|1|0', 'documents of every kind');
	is($node->safe_psql('postgres', "SET flash_maxsim.source = 'mixed(id, d)'; SELECT $PREWARM()"), '209|0|200|8|1|0', 'the source of the setting');
	is(prewarm($node, "'arrays(id, a)'"), '300|300|0|0|0|0', 'real[]');
	is(prewarm($node, "'arrays(id, b)'"), '300|300|0|0|0|0', 'double precision[]');
	is(prewarm($node, "'dims(id, d)'"), '20|20|0|0|0|0', 'documents of other dimensions');
	is($node->safe_psql('postgres', "SELECT bytes FROM maxsim_prewarm('secured(id, d)')"), 90 * 32 * 64 * 4, 'bytes');

	# scores

	for my $source (sort keys %right)
	{
		is(answer($node, $source, $_), $right{$source}, "$source: engine $_ gives the same bits") for ('auto', 'cpu');
	}

	# errors

	is(sqlstate_of($node, "SELECT * FROM maxsim_prewarm('docs(id, d)', tier => 'gpus')"), '22023: unknown tier "gpus"', 'an unknown tier');
	like(sqlstate_of($node, "SELECT * FROM maxsim_prewarm('docs(id, d)', tier => '$other')"), qr/^55000: there is no cache of documents (on a GPU|in the host's memory): /, 'a tier that is not there');
	like(sqlstate_of($node, "SELECT * FROM maxsim_prewarm('docs(id, nothing)')"), qr/^42703:/, 'a column that is not there');
	like(sqlstate_of($node, "SELECT * FROM maxsim_prewarm()"), qr/^22023: no source is named/, 'no source');
	like(sqlstate_of($node, "SELECT * FROM maxsim_prewarm('docs(id, d)', '{NULL}')"), qr/^22004:/, 'a NULL id');
	like(sqlstate_of($node, "SELECT * FROM maxsim_prewarm('docs(id, d)', progress_interval => -1)"), qr/^22023:/, 'a negative interval');

	# rights

	like(sqlstate_of($node, "SET ROLE alice; SELECT * FROM maxsim_prewarm('docs(id, d)')"), qr/^42501: permission denied for table docs/, 'a user without SELECT');
	is($node->safe_psql('postgres', "SET ROLE alice; SELECT $PREWARM('secured(id, d)')"), '30|0|30|0|0|0', 'row security');
	like(sqlstate_of($node, 'SET ROLE alice; SELECT * FROM flash_maxsim_prewarm_progress'), qr/^42501:/, 'not everybody sees what goes on');
	like(sqlstate_of($node, 'SET ROLE alice; SELECT * FROM maxsim_prewarm_progress()'), qr/^42501:/, '... nor by the function');
	is($node->safe_psql('postgres', 'SET ROLE monitor; SELECT count(*) FROM flash_maxsim_prewarm_progress'), '0', '... but pg_monitor, when nothing does');

	# progress, and an end in the midst

	for my $way ('cancel', 'terminate')
	{
		my $session = Scorer::Session->new($node);

		$session->query("SET application_name = 'slow'");
		$session->begin("SELECT * FROM maxsim_prewarm('slow(id, d)', ARRAY(SELECT generate_series(1, 300)), progress_interval => 0.2)");
		ok(await_sql($node, "SET ROLE monitor; SELECT documents > 5 AND total = 300 AND database = 'postgres' AND pid = $session->{pid}"
				. " AND source = 'slow(id, d)' AND started < now() FROM flash_maxsim_prewarm_progress"), "$way: others see how far it is");
		$node->safe_psql('postgres', "SELECT pg_${way}_backend($session->{pid})");
		my $result = $session->end;
		like($result, $way eq 'cancel' ? qr/57014: canceling statement/ : qr/57P01: terminating connection/, '... it can be ended');
		like($result, qr/NOTICE:  00000: \d+ documents read, \d+ loaded, \d+ MB/, '... and has told how far it was');
		ok(await_sql($node, 'SELECT count(*) = 0 FROM flash_maxsim_prewarm_progress'), '... and is not shown any more');
		$session->finish;
	}
	ok(await_sql($node, 'SELECT free_slots = slots FROM maxsim_scorer()'), '... and its slot is free');
	is($node->safe_psql('postgres', q{
		CREATE FUNCTION fails(id bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$ BEGIN IF id = 250 THEN RAISE 'no'; END IF; RETURN id; END $$;
		CREATE VIEW failing AS SELECT fails(id) AS id, d FROM paused;
		DO $$ BEGIN PERFORM maxsim_prewarm('failing(id, d)'); RAISE 'not reached'; EXCEPTION WHEN raise_exception THEN ASSERT SQLERRM = 'no'; END $$;
		SELECT count(*) FROM flash_maxsim_prewarm_progress}), '0', 'an error that is caught leaves nothing');

	# a table that exceeds the cache, again and again

	my ($documents, $loaded, $already, $uncached, $too_large, $no_room) = split /\|/, prewarm($node, "'many(id, d)'");
	is($documents, 2500, 'a table that exceeds the cache');
	is($already + $loaded + $no_room, 2500, '... of which some have no room');
	cmp_ok($already + $loaded, '>', 64 * 20, '... and the cache is filled');
	cmp_ok($already + $loaded, '<', 64 * 32, '... but not more than it holds');
	for my $round (1 .. 3)
	{
		($documents, $loaded, $already, $uncached, $too_large, $no_room) = split /\|/, prewarm($node, "'many(id, d)'");
		# a document that was there can go before the end, and counts all the same
		cmp_ok($already + $loaded, '<', 64 * 36, "round $round: what is there counts");
		cmp_ok($already, '>', 64 * 16, '... and stays');
		cmp_ok($loaded, '<', 64 * 8, '... and little is replaced');
		is($already + $loaded + $no_room, 2500, '... and the rest has no room');
	}
	is(answer($node, 'many(id, d)', 'auto'), $right{'many(id, d)'}, '... and scores are right');
	is(answer($node, 'docs(id, d)', 'auto'), $right{'docs(id, d)'}, '... also those of what was replaced');

	# one that takes its time does not keep others from the room that it is not using

	my $slow = Scorer::Session->new($node);
	$slow->begin("SELECT * FROM maxsim_prewarm('slow(id, d)')");
	ok(await_sql($node, 'SELECT documents > 2 FROM flash_maxsim_prewarm_progress'), 'while one is slow');
	$node->safe_psql('postgres', 'CREATE TABLE others AS SELECT id, d FROM many');
	($documents, $loaded) = split /\|/, prewarm($node, "'others(id, d)'");
	cmp_ok($loaded, '>', 500, '... another makes itself room'); # beside what is spared
	is($node->safe_psql('postgres', "SELECT pg_cancel_backend($slow->{pid})"), 't', '... before the slow one has ended');
	like($slow->end, qr/57014/, '... as it would have');
	$slow->finish;

	# several at once

	my @sessions = map { Scorer::Session->new($node) } 1 .. 4;
	$_->begin("SELECT (maxsim_prewarm('many(id, d)')).documents") for @sessions;
	is(answer($node, 'many(id, d)', 'auto'), $right{'many(id, d)'}, 'scores are right while others load');
	is(scalar(grep { $_->end ne '2500' } @sessions), 0, '... four at once');
	$_->finish for @sessions;
	return;
}

# How many of docs the cache has, in both databases.
sub warm
{
	my ($node) = @_;

	return join ' ', map { $node->safe_psql($_, "SELECT already FROM maxsim_prewarm('docs(id, d)')") } ('postgres', 'other');
}

sub log_has
{
	my ($node, $from, $pattern) = @_;

	return await(sub { substr(slurp_file($node->logfile), $from) =~ $pattern });
}

sub set_autoprewarm
{
	my ($node, $value) = @_;

	$node->adjust_conf('postgresql.conf', 'flash_maxsim.autoprewarm', $value);
	return;
}

# A list with its header and trailer, of keys with the tiers that they were in.
sub list_of
{
	my @keys = @_;
	my $bytes = pack('L*', 0x4c534d46, 1, map { @$_ } @keys);
	my $trailer = pack('L', scalar @keys);
	my $crc = 0xffffffff;

	# CRC-32C
	for my $byte (unpack('C*', $bytes . $trailer))
	{
		$crc ^= $byte;
		$crc = $crc & 1 ? $crc >> 1 ^ 0x82f63b78 : $crc >> 1 for 1 .. 8;
	}
	return $bytes . $trailer . pack('L', $crc ^ 0xffffffff);
}

# Keys of the first ten documents, and keys that stand for nothing.
sub lying_keys
{
	my ($node) = @_;

	$node->safe_psql('postgres', q{
		CREATE FUNCTION noise(size int) RETURNS bytea LANGUAGE sql AS
			$$ SELECT substr(string_agg(decode(md5(i::text), 'hex'), '' ORDER BY i), 1, size) FROM generate_series(0, size / 16) i $$;
		CREATE TABLE bytes (n int, b bytea);
		ALTER TABLE bytes ALTER b SET STORAGE external;
		-- without a header; with one of 10 x 64 in f32 that is right, and that is not
		INSERT INTO bytes VALUES (1, noise(2572)), (2, '\x00000000400000000a000000'::bytea || noise(9000)), (3, '\x00000000400000000a000000'::bytea || noise(2500));
	});
	my ($database, $table, $toast, $index, $bytes) = split /\|/, $node->safe_psql('postgres', q{
		SELECT d.oid, c.oid, c.reltoastrelid, (SELECT indexrelid FROM pg_index WHERE indrelid = c.oid), b.reltoastrelid
		FROM pg_database d, pg_class c, pg_class b WHERE datname = current_database() AND c.oid = 'docs'::regclass AND b.oid = 'bytes'::regclass});
	my $values = sub {
		my ($relation) = @_;
		my $name = $node->safe_psql('postgres', "SELECT $relation\::regclass");
		return split /\n/, $node->safe_psql('postgres', "SELECT chunk_id FROM $name WHERE chunk_seq = 0 ORDER BY ctid");
	};
	my @documents = $values->($toast);
	my @bytes = $values->($bytes);
	my $size = 32 * 64 * 4 + 12;
	my @good = map { [$database, $toast, $_, $size + 4, $size, 0, 3] } @documents[0 .. 9];
	my $like = sub { my %change = @_; my @key = @{ $good[0] }; $key[$_] = $change{$_} for keys %change; return \@key; };

	return (
		@good,
		$like->(1 => $table), $like->(1 => $index), $like->(1 => 4_000_000_000), $like->(1 => $bytes),
		$like->(2 => 4_000_000_000), $like->(2 => 1),
		# sizes: shorter, longer, of one chunk, compressed, and none at all
		(map { $like->(3 => $_ + 4, 4 => $_) } $size - 4, $size + 4, $size - 8192, 1996, 1000, 12, 8, 0, 0x3fffffff, 0xfffffffb),
		(map { $like->(4 => $_) } $size - 1, $size | 1 << 30, 0, 0xffffffff), $like->(3 => 0), $like->(3 => 3),
		# values of another type
		[$database, $bytes, $bytes[0], 2576, 2572, 0, 3], [$database, $bytes, $bytes[1], 2576, 2572, 0, 3], [$database, $bytes, $bytes[2], 2576, 2572, 0, 3]);
}

# What becomes of the list.
sub test_autoprewarm
{
	my ($node, $tier) = @_;
	my $file = $node->data_dir . "/$LIST";
	my $where = $tier eq 'gpu' ? 'its GPUs' : "the host's memory";
	my $right = answer($node, 'docs(id, d)', 'cpu');
	my $from;

	# Starts the server, and awaits that so many documents of one database are loaded.
	my $started = sub {
		my ($n) = @_;

		$from = -s $node->logfile;
		$node->start;
		return log_has($node, $from, qr/flash_maxsim loaded $n listed documents of database \d+ to $where/);
	};

	$node->stop;
	ok(!-e $file, "$tier: no list unless it is asked for");
	$node->append_conf('postgresql.conf', "flash_maxsim.autoprewarm = on\nflash_maxsim.autoprewarm_interval = 1");
	$node->start;
	await_ready($node) if $tier eq 'gpu';
	ok(await(sub { -e $file }), 'a list is written where it is asked for');
	$node->adjust_conf('postgresql.conf', 'flash_maxsim.autoprewarm_interval', '0');
	$node->reload;
	$node->safe_psql('postgres', q{
		CREATE TABLE dropped AS SELECT id, d FROM docs WHERE id <= 100;
		SELECT maxsim_prewarm('docs(id, d)'), maxsim_prewarm('dropped(id, d)'), maxsim_prewarm('arrays(id, a)');
	});
	$node->safe_psql('other', q{SELECT maxsim_prewarm('docs(id, d)')});
	$node->stop;
	cmp_ok(-s $file, '>', 28 * 450, '... and at the end');
	is(sprintf('%o', (stat $file)[2] & 07777), '600', '... for the server\'s user alone');
	my $list = slurp_file($file);

	ok($started->('400 of 400'), 'after a restart documents are loaded again');
	ok(log_has($node, $from, qr/loaded 50 of 50 listed/), '... of each database');
	is(warm($node), '300 50', '... all of them');
	is(prewarm($node, "'arrays(id, a)', '{1}'"), '1|1|0|0|0|0', '... but for arrays');
	is(answer($node, 'docs(id, d)', $_), $right, "... and engine $_ gives the same bits") for ('auto', 'cpu');

	# a list of long ago

	$node->stop;
	set_autoprewarm($node, 'off');
	$node->start;
	$node->safe_psql('postgres', q{
		DROP TABLE dropped;
		CREATE TABLE changed AS SELECT id, d FROM docs WHERE id > 250;
		DELETE FROM docs WHERE id > 200;
		INSERT INTO docs SELECT id, d FROM changed WHERE id <= 270; -- under other value ids
	});
	$node->safe_psql('postgres', 'VACUUM docs');
	$node->stop;
	is(slurp_file($file), $list, 'the list is left alone where the setting is off');
	set_autoprewarm($node, 'on');
	ok($started->('200 of 400'), 'dropped tables and deleted rows are left out');
	unlike(substr(slurp_file($node->logfile), $from), qr/ERROR|FATAL|PANIC/, '... without an error');
	is(prewarm($node, "'docs(id, d)'"), '220|20|200|0|0|0', '... and what took their place is not there');
	$node->safe_psql('postgres', 'INSERT INTO docs SELECT id, d FROM changed WHERE id > 270');
	$node->safe_psql('postgres', 'INSERT INTO docs SELECT 200 + id, d FROM docs WHERE id <= 50');
	$right = answer($node, 'docs(id, d)', 'cpu');

	# a damaged one

	$node->stop;
	my $length = length($list);
	my %damaged = (
		'a byte' => substr($list, 0, 100) . chr(ord(substr($list, 100, 1)) ^ 1) . substr($list, 101),
		'another version' => substr($list, 0, 4) . "\x09" . substr($list, 5),
		'its end' => substr($list, 0, $length - 28),
		'half of a document' => substr($list, 0, $length - 10),
		'nothing' => '',
		'its number' => substr($list, 0, $length - 8) . "\x01" . substr($list, $length - 7),
		'other bytes' => 'x' x 1000);
	for my $damage (sort keys %damaged)
	{
		unlink $file;
		append_to_file($file, $damaged{$damage});
		$from = -s $node->logfile;
		$node->start;
		ok(log_has($node, $from, qr/LOG:  flash_maxsim ignores file "\Q$LIST\E", which is damaged/), "$damage: a damaged list is ignored");
		$node->stop('immediate');
	}

	# keys that lie, in a list that is whole

	unlink $file;
	$node->start;
	await_ready($node) if $tier eq 'gpu';
	is(answer($node, 'docs(id, d)', $_), $right, "without a list, engine $_") for ('auto', 'cpu');
	my @keys = lying_keys($node);
	$node->stop;
	unlink $file;
	append_to_file($file, list_of(@keys));
	my $n = @keys;
	ok($started->("10 of $n"), 'of keys that lie, those are loaded whose values are there');
	unlike(substr(slurp_file($node->logfile), $from), qr/ERROR|FATAL|PANIC/, '... without an error');
	is(prewarm($node, "'docs(id, d)', ARRAY(SELECT generate_series(1, 10))"), '10|0|10|0|0|0', '... under their keys');
	is(answer($node, 'docs(id, d)', $_), $right, "... and engine $_ gives the same bits") for ('auto', 'cpu');
	is(prewarm($node, "'docs(id, d)'") =~ s/\|.*//r, '300', '... and the others can be loaded');

	# a crash

	$node->safe_psql('other', q{SELECT maxsim_prewarm('docs(id, d)')});
	$node->append_conf('postgresql.conf', "flash_maxsim.autoprewarm_interval = 1");
	$node->reload;
	ok(await(sub { -e $file && slurp_file($file) =~ /^.{8}(.{28}){350,}/s }), 'the list is written at intervals');
	$node->kill9;
	await(sub { !-e $node->data_dir . '/postmaster.pid' || !kill 0, slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/ });
	ok($started->('300 of 300'), 'after kill -9 documents are loaded again');
	ok(log_has($node, $from, qr/loaded 50 of 50 listed/), '... of each database');
	is(warm($node), '300 50', '... all of them');
	is(answer($node, 'docs(id, d)', $_), $right, "... and engine $_ gives the same bits") for ('auto', 'cpu');

	$from = -s $node->logfile;
	my $session = Scorer::Session->new($node);
	kill 'KILL', $session->{pid};
	ok(log_has($node, $from, qr/loaded 50 of 50 listed/), 'and after a crash of a backend');
	$session->finish;
	ok(await_sql($node, 'SELECT true'), '... the server is back');
	is(warm($node), '300 50', '... with all of them');

	if ($tier eq 'gpu')
	{
		# what is only another session's to read, and what nobody can read
		my $temporary = Scorer::Session->new($node);
		$temporary->query(q{CREATE TEMP TABLE temporary AS SELECT id, d FROM docs WHERE id <= 5});
		$node->safe_psql('postgres', q{CREATE TABLE damaged AS SELECT id, d FROM docs WHERE id <= 20; SELECT maxsim_prewarm('damaged(id, d)')});
		$temporary->query(q{SELECT maxsim_prewarm('temporary(id, d)')});
		$node->safe_psql('postgres', q{
			SET allow_system_table_mods = on;
			DO $$
			DECLARE
				toast oid := (SELECT reltoastrelid FROM pg_class WHERE oid = 'damaged'::regclass);
				name text := toast::regclass;
			BEGIN
				UPDATE pg_class SET relkind = 'r' WHERE oid = toast;
				EXECUTE format('DELETE FROM %s WHERE chunk_seq = 2 AND chunk_id IN (SELECT chunk_id FROM %1$s WHERE chunk_seq = 0 ORDER BY 1 OFFSET 10 LIMIT 2)', name);
				UPDATE pg_class SET relkind = 't' WHERE oid = toast;
			END $$});
		$node->safe_psql('postgres', 'VACUUM damaged');
		ok(await(sub { -e $file && slurp_file($file) =~ /^.{8}(.{28}){375,}/s }), 'the list has more documents');

		$from = -s $node->logfile;
		my $pid = scorer($node, 'pid');
		kill 'KILL', $pid;
		ok(await_ready($node, $pid), 'the scorer is killed, and comes again');
		ok(log_has($node, $from, qr/loaded 50 of 50 listed/), '... and so do documents');
		is(warm($node), '300 50', '... all of them');
		ok(log_has($node, $from, qr/loaded 318 of 325 listed/), '... but for temporary and damaged ones');
		$temporary->finish;
		$node->safe_psql('postgres', 'DROP TABLE damaged');
		is(answer($node, 'docs(id, d)', 'auto'), $right, '... and scores are right');
	}

	# a database that is gone

	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'other'");
	$node->stop;
	set_autoprewarm($node, 'off');
	$node->start;
	$node->safe_psql('postgres', 'DROP DATABASE other');
	$node->stop;
	set_autoprewarm($node, 'on');
	ok($started->('300 of \d+'), 'a database that is gone does not keep the others from loading');
	$node->stop;
	return;
}

# without a cache

my $off = server('off', 'flash_maxsim.gpu_cache_size = off');
prepare($off);
ok(await_ready($off), 'a server without a cache');
is(sqlstate_of($off, "SELECT * FROM maxsim_prewarm('docs(id, d)')"), '55000: there is no cache of documents', '... has none to be warmed');
is($off->safe_psql('postgres', 'SELECT count(*) FROM flash_maxsim_prewarm_progress'), '0', '... and nothing goes on');
$off->stop;

my %settings = (
	gpu => ['flash_maxsim.gpu_cache_size = 64MB'],
	host => ['flash_maxsim.scorer_engine = off', 'flash_maxsim.host_cache_size = 64MB']);
for my $tier ('gpu', 'host')
{
	my $node = server($tier, @{ $settings{$tier} });

	documents($node);
	await_ready($node) if $tier eq 'gpu';
	test_prewarm($node, $tier, $tier eq 'gpu' ? 'host' : 'gpu');
	$node->restart;
	test_autoprewarm($node, $tier);
}

# both: devices first, and the host where it is named

my $both = server('both', 'flash_maxsim.gpu_cache_size = 64MB', 'flash_maxsim.host_cache_size = 64MB');
prepare($both);
ok(await_ready($both), 'a server with both tiers');
is(prewarm($both, "'docs(id, d)', tier => 'host'"), '300|300|0|0|0|0', '... the host');
is(prewarm($both, "'docs(id, d)', tier => 'auto'"), '300|300|0|0|0|0', '... the device');
is(prewarm($both, "'docs(id, d)', tier => '$_'"), '300|0|300|0|0|0', "... both have them: $_") for ('host', 'gpu', 'auto');
is($both->safe_psql('postgres', "SET flash_maxsim.engine = cpu; SELECT $PREWARM('docs(id, d)', tier => 'gpu')"), '300|0|300|0|0|0', '... whatever engine the session has');
is(scorer($both, 'documents'), '0', 'what is only copied was not scored');

# a standby that comes with the list, and that has no GPU

$both->append_conf('postgresql.conf', "flash_maxsim.autoprewarm = on\nflash_maxsim.autoprewarm_interval = 1");
$both->reload;
ok(await(sub { -e $both->data_dir . "/$LIST" }), 'a list of what is in both tiers');
$both->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($both, 'b', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'flash_maxsim.gpu_cache_size = off');
$standby->start;
ok(log_has($standby, 0, qr/flash_maxsim loaded 300 of 300 listed documents of database \d+ to the host's memory/), '... which a standby loads');
is(prewarm($standby, "'docs(id, d)'"), '300|0|300|0|0|0', '... all of them');
is(answer($standby, 'docs(id, d)', 'cpu'), answer($both, 'docs(id, d)', 'cpu'), '... and scores are right');
$standby->stop;
$both->restart;
ok(log_has($both, 0, qr/loaded 300 of 300 listed documents of database \d+ to \Q$_\E/), "a restart: $_") for ('its GPUs', "the host's memory");
is(prewarm($both, "'docs(id, d)', tier => '$_'"), '300|0|300|0|0|0', "... $_ has them") for ('host', 'gpu');
is(answer($both, 'docs(id, d)', $_), answer($both, 'docs(id, d)', 'cpu'), "... and engine $_ gives the same bits") for ('cuda', 'auto');
$both->stop;
done_testing();
