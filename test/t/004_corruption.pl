# Values whose bytes lie.  A cast without a function makes any bytes a multivec, and a
# change of the catalog makes them an array; whatever reads them must say that they are
# corrupted, and never crash.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
# crashes are to be seen, not to be recovered from
$node->append_conf('postgresql.conf', "restart_after_crash = off\njit = off");
$node->start;

$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION flash_maxsim;
	CREATE CAST (bytea AS multivec) WITHOUT FUNCTION;
	CREATE FUNCTION error_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		result text;
	BEGIN
		EXECUTE statement INTO result;
		RETURN 'no error: ' || coalesce(left(result, 40), 'NULL');
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLSTATE || ' ' || SQLERRM;
	END $$;
	CREATE FUNCTION little_endian(n bigint, bytes integer) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT string_agg(set_byte('\x00', 0, (n >> 8 * i & 255)::integer), '' ORDER BY i) FROM generate_series(0, bytes - 1) i $$;
	-- what lies behind the varlena header of a multivec
	CREATE FUNCTION forged(format bigint, reserved bigint, dim bigint, ntokens bigint, elements bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT little_endian(format, 1) || little_endian(reserved, 3) || little_endian(dim, 4) || little_endian(ntokens, 4) || elements $$;
	CREATE FUNCTION zeros(n bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT decode(repeat('00', n::integer), 'hex') $$;
	-- what cannot be compressed
	CREATE FUNCTION noise(n bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT substr(string_agg(decode(translate(md5(i::text), 'f', '0'), 'hex'), '' ORDER BY i), 1, n::integer) FROM generate_series(0, n / 16) i $$;
	CREATE FUNCTION elements(kind text, n bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT CASE kind WHEN 'noise' THEN noise(n) ELSE zeros(n) END $$;

	-- as they are stored: size of the honest elements, what they are, and the column's storage
	CREATE TABLE places (place text, n bigint, kind text, storage "char");
	INSERT INTO places VALUES ('inline, short header', 24, 'noise', 'e'), ('inline', 240, 'noise', 'e'), ('plain', 240, 'zeros', 'p'), ('compressed', 12000, 'zeros', 'm'),
		('toasted', 24000, 'noise', 'e'), ('toasted and compressed', 2400000, 'zeros', 'x'), ('more than the buffer', 2400000, 'noise', 'e'), ('more than the buffer, compressed', 12000000, 'zeros', 'x');
	-- every place holds n bytes; dimension 3 in f32 makes n / 12 tokens of them
	CREATE VIEW lies AS SELECT place, storage, lie, CASE lie
			WHEN 'format 5' THEN forged(5, 0, 3, n / 12, elements)
			WHEN 'format 255' THEN forged(255, 0, 3, n / 12, elements)
			WHEN 'format f16' THEN forged(1, 0, 3, n / 12, elements)
			WHEN 'reserved byte' THEN forged(0, 1, 3, n / 12, elements)
			WHEN 'reserved word' THEN forged(0, 65536, 3, n / 12, elements)
			WHEN 'a token too many' THEN forged(0, 0, 3, n / 12 + 1, elements)
			WHEN 'a token too few' THEN forged(0, 0, 3, n / 12 - 1, elements)
			WHEN 'a byte too many' THEN forged(0, 0, 3, n / 12, elements || '\x00')
			WHEN 'a byte too few' THEN forged(0, 0, 3, n / 12, substr(elements, 2))
			WHEN 'most tokens' THEN forged(0, 0, 3, 4294967295, elements)
			WHEN 'most tokens that wrap' THEN forged(0, 0, 3, (4294967296 * 4 + n) / 12, elements)
			WHEN 'negative tokens' THEN forged(0, 0, 3, 2147483648, elements)
			WHEN 'no tokens' THEN forged(0, 0, 3, 0, elements)
			WHEN 'no dimension' THEN forged(0, 0, 0, n / 12, elements)
			WHEN 'no dimension, no tokens' THEN forged(0, 0, 0, 0, elements)
			WHEN 'most dimensions' THEN forged(0, 0, 4294967295, n / 12, elements)
			WHEN 'too many dimensions' THEN forged(0, 0, 65536, n / 12, elements)
			WHEN 'everything' THEN forged(255, 16777215, 4294967295, 4294967295, elements) END AS bytes
		FROM places, LATERAL (SELECT elements(kind, n) OFFSET 0) e(elements), unnest(ARRAY['format 5', 'format 255', 'format f16', 'reserved byte', 'reserved word',
			'a token too many', 'a token too few', 'a byte too many', 'a byte too few', 'most tokens', 'most tokens that wrap', 'negative tokens', 'no tokens', 'no dimension', 'no dimension, no tokens',
			'most dimensions', 'too many dimensions', 'everything']) lie;
	CREATE TABLE p (id serial, place text, lie text, emb multivec);
	CREATE TABLE m (LIKE p INCLUDING ALL); CREATE TABLE e (LIKE p INCLUDING ALL); CREATE TABLE x (LIKE p INCLUDING ALL);
	ALTER TABLE p ALTER emb SET STORAGE PLAIN; ALTER TABLE m ALTER emb SET STORAGE MAIN; ALTER TABLE x ALTER emb SET STORAGE EXTENDED;
	INSERT INTO p (place, lie, emb) SELECT place, lie, bytes::multivec FROM lies WHERE storage = 'p';
	INSERT INTO m (place, lie, emb) SELECT place, lie, bytes::multivec FROM lies WHERE storage = 'm';
	INSERT INTO e (place, lie, emb) SELECT place, lie, bytes::multivec FROM lies WHERE storage = 'e';
	INSERT INTO x (place, lie, emb) SELECT place, lie, bytes::multivec FROM lies WHERE storage = 'x';
	-- less than a header
	INSERT INTO e (place, lie, emb) SELECT 'too short', n || ' bytes', zeros(n)::multivec FROM generate_series(0, 11) n;
	CREATE TABLE honest AS SELECT ('[[1,2,' || i || ']]')::multivec AS d FROM generate_series(1, 20) i;
	ANALYZE honest;
	CREATE VIEW all_lies AS SELECT 'p' AS t, id, place, lie FROM p UNION ALL SELECT 'm', id, place, lie FROM m UNION ALL SELECT 'e', id, place, lie FROM e UNION ALL SELECT 'x', id, place, lie FROM x;
});

my $places = $node->safe_psql('postgres', q{SELECT place, count(*), bool_and(pg_column_size(emb) < 16 + 2000) FROM (SELECT * FROM m UNION ALL SELECT * FROM x) t GROUP BY place ORDER BY place});
is($places, "compressed|18|t\nmore than the buffer, compressed|18|f\ntoasted and compressed|18|f", 'values lie where they should');

my %readers = (
	'multivec_out' => 'SELECT length(emb::text) FROM %s WHERE id = %s',
	'multivec_send' => 'SELECT length(multivec_send(emb)) FROM %s WHERE id = %s',
	'multivec_ntokens' => 'SELECT multivec_ntokens(emb) FROM %s WHERE id = %s',
	'multivec_dim' => 'SELECT multivec_dim(emb) FROM %s WHERE id = %s',
	'multivec_format' => 'SELECT multivec_format(emb) FROM %s WHERE id = %s',
	'multivec_slice' => 'SELECT multivec_slice(emb, 1, 1) FROM %s WHERE id = %s',
	'multivec_slice, last' => 'SELECT multivec_slice(emb, 1, 2000000000) FROM %s WHERE id = %s',
	'multivec_token' => 'SELECT multivec_token(emb, 1) FROM %s WHERE id = %s',
	'the cast to real[]' => 'SELECT array_length(emb::real[], 1) FROM %s WHERE id = %s',
	'the cast to another format' => 'SELECT multivec_ntokens(emb::multivec(3, bf16)) FROM %s WHERE id = %s',
	'maxsim, document' => q{SELECT maxsim('[[1,2,3]]', emb) FROM %s WHERE id = %s},
	'maxsim, query' => q{SELECT maxsim(emb, '[[1,2,3]]'::multivec) FROM %s WHERE id = %s},
	'maxsim, query in a batch' => q{SELECT max(maxsim(emb, d)) FROM %s, honest WHERE id = %s},
	'maxsim with weights, query' => q{SELECT maxsim(emb, '[[1,2,3]]'::multivec, '{1}') FROM %s WHERE id = %s},
	'maxsim with weights, query in a batch' => q{SELECT max(maxsim_mean(emb, d, '{1}')) FROM %s, honest WHERE id = %s},
	'maxsim_mean, document' => q{SELECT maxsim_mean('[[1,2,3]]', emb) FROM %s WHERE id = %s},
	'maxsim_cosine, document' => q{SELECT maxsim_cosine('[[1,2,3]]', emb) FROM %s WHERE id = %s},
	'maxsim_matches, document' => q{SELECT maxsim_matches('[[1,2,3]]', emb, '{1}') FROM %s WHERE id = %s},
	'maxsim_topk, query' => q{SELECT maxsim_topk(emb, 1, '[[1,2,3]]', 1, '{1}') FROM %s WHERE id = %s},
	'maxsim, both' => 'SELECT maxsim(emb, emb) FROM %s WHERE id = %s',
	'maxsim_rerank, document' => q{SELECT maxsim_rerank('[[1,2,3]]', ARRAY[%2$s], '%1$s(id, emb)')},
	'maxsim_scores, document' => q{SELECT maxsim_scores('[[1,2,3]]', ARRAY[%2$s], '%1$s(id, emb)')},
	'maxsim_scores, query' => q{SELECT maxsim_scores(emb, '{1}', 'e(id, emb)') FROM %s WHERE id = %s},
	'flash_maxsim_rerank_direct, tensor' => q{SELECT flash_maxsim_rerank_direct('[[1,2,3]]', emb, '{0}', '{1}', 1) FROM %s WHERE id = %s},
	'flash_maxsim_rerank_direct, query' => q{SELECT flash_maxsim_rerank_direct(emb, '[[1,2,3]]'::multivec, '{0}', '{1}', 1) FROM %s WHERE id = %s},
	'flash_maxsim_rerank, tensor' => q{SELECT flash_maxsim_rerank('[[1,2,3]]', emb, '{0,1}', 1) FROM %s WHERE id = %s},
	'flash_maxsim_rerank, query' => q{SELECT flash_maxsim_rerank(emb, '[[1,2,3]]'::multivec, '{0,1}', 1) FROM %s WHERE id = %s});

my $n = $node->safe_psql('postgres', 'SELECT count(*) FROM all_lies');
is($n, 8 * 18 + 12, 'every lie in every place');
foreach my $reader (sort keys %readers)
{
	my $wrong = $node->safe_psql('postgres', sprintf(
		q{SELECT place || ', ' || lie || ': ' || error FROM (SELECT *, error_of(format($s$%s$s$, t, id)) AS error FROM all_lies) e WHERE error NOT LIKE 'XX001 multivec%%' ORDER BY 1},
		$readers{$reader} =~ s/%/%/gr));
	is($wrong, '', "$reader: DATA_CORRUPTED for each");
}

# arrays whose headers lie, as documents of a source: never a crash, nor a score
$node->safe_psql(
	'postgres', q{
	-- what lies behind the varlena header of an array
	CREATE FUNCTION forged_array(ndim bigint, dataoffset bigint, type oid, VARIADIC rest bigint[] DEFAULT '{}') RETURNS bytea LANGUAGE sql IMMUTABLE AS
	$$ SELECT little_endian(ndim, 4) || little_endian(dataoffset, 4) || little_endian(type::bigint, 4) || coalesce((SELECT string_agg(little_endian(r, 4), '' ORDER BY i) FROM unnest(rest) WITH ORDINALITY u(r, i)), '') $$;
	CREATE TABLE arrays (id serial, lie text, size bigint, r bytea, d bytea);
	ALTER TABLE arrays ALTER r SET STORAGE EXTERNAL, ALTER d SET STORAGE EXTERNAL;
	INSERT INTO arrays (lie, size, r, d)
		SELECT lie, n, h || noise(n), h || noise(n)
		FROM unnest(ARRAY[0, 24, 240, 24000, 2400000]) n, LATERAL (VALUES
			('no dimensions', forged_array(0, 0, 700)), ('no dimensions, more header', forged_array(0, 0, 700, 1, 1, 1, 1)), ('no dimensions, a bitmap', forged_array(0, 24, 700, 7)),
			('1 dimension', forged_array(1, 0, 700, 1, 1)), ('7 dimensions', forged_array(7, 0, 700, 1, 1)), ('negative dimensions', forged_array(4294967295, 0, 700, 1, 1, 1, 1)),
			('most dimensions', forged_array(2147483647, 0, 700)), ('tokens too many', forged_array(2, 0, 700, n / 12 + 1, 3, 1, 1)), ('tokens too few', forged_array(2, 0, 700, n / 36, 3, 1, 1)),
			('no tokens', forged_array(2, 0, 700, 0, 3, 1, 1)), ('negative tokens', forged_array(2, 0, 700, 4294967295, 3, 1, 1)), ('negative dimension', forged_array(2, 0, 700, n / 12, 4294967295, 1, 1)),
			('both negative', forged_array(2, 0, 700, 4294967295, 4294967295, 1, 1)), ('most tokens', forged_array(2, 0, 700, 2147483647, 3, 1, 1)), ('both most', forged_array(2, 0, 700, 2147483647, 65535, 1, 1)),
			('a bitmap at 0', forged_array(2, 4, 700, n / 12, 3, 1, 1)), ('a bitmap behind the end', forged_array(2, 2147483640, 700, n / 12, 3, 1, 1)), ('a negative bitmap', forged_array(2, 4294967288, 700, n / 12, 3, 1, 1)),
			('a bitmap of nothing', forged_array(2, 32, 700, 0, 0, 1, 1)), ('a bitmap, most tokens', forged_array(2, 268435496, 700, 715827882, 3, 1, 1)), ('half a header', forged_array(2, 0, 700, 1))) l(lie, h);
	UPDATE pg_attribute SET atttypid = CASE attname WHEN 'r' THEN 'real[]'::regtype ELSE 'double precision[]'::regtype END
		WHERE attrelid = 'arrays'::regclass AND attname IN ('r', 'd');
});
foreach my $column (qw(r d))
{
	# of those without elements some are just empty
	my $wrong = $node->safe_psql('postgres', qq{
		SELECT lie || ', ' || size || ' bytes: ' || error FROM (SELECT *, error_of(format('SELECT maxsim_scores(''[[1,2,3]]'', ARRAY[%s], ''arrays(id, $column)'')', id)) AS error FROM arrays) e
		WHERE error !~ '^(XX001 array|2202E array of token vectors must have 2 dimensions, not |22000 query and document have different dimensions: 3 and 0)'
		AND NOT (size = 0 AND lie IN ('no dimensions', 'no dimensions, more header', 'tokens too few', 'no tokens', 'a bitmap of nothing') AND error = 'no error: {NULL}') ORDER BY 1});
	is($wrong, '', "arrays, $column: an error for each");
}

# weights whose headers lie
$node->safe_psql(
	'postgres', q{
	CREATE TABLE weights (id serial, lie text, w bytea);
	ALTER TABLE weights ALTER w SET STORAGE EXTERNAL;
	INSERT INTO weights (lie, w) SELECT lie || ', ' || n, h || zeros(n) FROM unnest(ARRAY[0, 8, 16, 2400]) n, LATERAL (VALUES
		('no dimensions', forged_array(0, 0, 701, 1)), ('no dimensions, a bitmap', forged_array(0, 24, 701, 7)), ('negative dimensions', forged_array(4294967295, 0, 701, 1, 1)),
		('2 dimensions', forged_array(2, 0, 701, 1, 2, 1, 1)), ('most dimensions', forged_array(2147483647, 0, 701)), ('too many', forged_array(1, 0, 701, n / 8 + 1, 1)), ('too few', forged_array(1, 0, 701, n / 8 - 1, 1)),
		('most', forged_array(1, 0, 701, 2147483647, 1)), ('negative', forged_array(1, 0, 701, 4294967294, 1)), ('a bitmap at 0', forged_array(1, 4, 701, n / 8, 1)), ('a bitmap behind the end', forged_array(1, 2147483640, 701, n / 8, 1)),
		('a negative bitmap', forged_array(1, 4294967288, 701, n / 8, 1)), ('a bitmap, most', forged_array(1, 268435480, 701, 2147483647, 1)), ('half a header', forged_array(1, 0, 701, 2)), ('real', forged_array(1, 0, 700, n / 8, 1))) l(lie, h);
	UPDATE pg_attribute SET atttypid = 'double precision[]'::regtype WHERE attrelid = 'weights'::regclass AND attname = 'w';
});
foreach my $statement ('SELECT maxsim(\'\'[[1],[2]]\'\', \'\'[[1]]\'\', w) FROM weights WHERE id = %s', 'SELECT max(maxsim(\'\'[[1,0,0],[0,1,0]]\'\', d, w)) FROM honest, weights WHERE id = %s')
{
	is($node->safe_psql('postgres', qq{
		SELECT lie || ': ' || error FROM (SELECT *, error_of(format('$statement', id)) AS error FROM weights) e
		WHERE error !~ '^(XX001 array is corrupted: header of weights does not fit its size, |22004 weights must not contain NULL|2202E weights must have 1 dimension, not |XX001 array is corrupted: elements of weights are of type 700, not 701)' ORDER BY 1}), '', "weights: an error for each, $statement");
}

# arrays whose headers lie, as arguments: of token vectors of every type, of lists of numbers, and of bit strings
$node->safe_psql(
	'postgres', q{
	CREATE TABLE element_types (name text, type regtype, size integer);
	INSERT INTO element_types VALUES ('f4', 'real', 4), ('f8', 'double precision', 8), ('i2', 'smallint', 2), ('i4', 'integer', 4), ('i8', 'bigint', 8), ('n', 'numeric', 8), ('b', 'bit varying', 12);
	CREATE VIEW forged_arguments AS SELECT name, type, lie || ', ' || n AS lie, h || zeros(n) AS bytes
		FROM element_types, unnest(ARRAY[0, 24, 240, 24000]) n, LATERAL (VALUES
			('no dimensions, a bitmap', forged_array(0, 24, type, 7)), ('negative dimensions', forged_array(4294967295, 0, type, 1, 1, 1, 1)), ('7 dimensions', forged_array(7, 0, type, 1, 1)), ('most dimensions', forged_array(2147483647, 0, type)),
			('2, largest', forged_array(2, 0, type, 1, 65535, 1, 1)), ('2, too many', forged_array(2, 0, type, n / size + 1, 1, 1, 1)), ('2, most', forged_array(2, 0, type, 2147483647, 65535, 1, 1)), ('2, both most', forged_array(2, 0, type, 2147483647, 2147483647, 1, 1)),
			('2, negative', forged_array(2, 0, type, 4294967295, 3, 1, 1)), ('2, both negative', forged_array(2, 0, type, 4294967295, 4294967295, 1, 1)), ('2, half a header', forged_array(2, 0, type, 1)),
			('2, a bitmap at 0', forged_array(2, 4, type, 1, 1, 1, 1)), ('2, a bitmap behind the end', forged_array(2, 2147483640, type, 1, 1, 1, 1)), ('2, a negative bitmap', forged_array(2, 4294967288, type, 1, 1, 1, 1)), ('2, a bitmap, most', forged_array(2, 268435496, type, 715827882, 3, 1, 1)),
			('1, too many', forged_array(1, 0, type, n / size + 1, 1)), ('1, most', forged_array(1, 0, type, 2147483647, 1)), ('1, negative', forged_array(1, 0, type, 4294967294, 1)), ('1, half a header', forged_array(1, 0, type, 2)),
			('1, a bitmap at 0', forged_array(1, 4, type, 1, 1)), ('1, a bitmap behind the end', forged_array(1, 2147483640, type, 1, 1)), ('1, a negative bitmap', forged_array(1, 4294967288, type, 1, 1)), ('1, a bitmap, most', forged_array(1, 268435480, type, 2147483647, 1))) l(lie, h);
	DO $do$
	DECLARE
		t record;
	BEGIN
		FOR t IN SELECT * FROM element_types LOOP
			EXECUTE format('CREATE TABLE forged_%s (id serial, lie text, a bytea)', t.name);
			EXECUTE format('ALTER TABLE forged_%s ALTER a SET STORAGE EXTERNAL', t.name);
			EXECUTE format('INSERT INTO forged_%s (lie, a) SELECT lie, bytes FROM forged_arguments WHERE name = %L', t.name, t.name);
			UPDATE pg_attribute SET atttypid = (SELECT typarray FROM pg_type p WHERE p.oid = t.type)
				WHERE attrelid = format('forged_%s', t.name)::regclass AND attname = 'a';
		END LOOP;
	END $do$;
	-- damaged elements
	CREATE TABLE forged_elements (id serial, lie text, n bytea, b bytea);
	INSERT INTO forged_elements (lie, n, b) SELECT lie, forged_array(2, 0, 1700, 1, 2, 1, 1) || e, forged_array(1, 0, 1562, 2, 1) || e FROM (VALUES
		('length 0', little_endian(0, 4) || zeros(40)), ('length 3', little_endian(12, 4) || zeros(40)), ('only a header', little_endian(16, 4) || little_endian(16, 4)), ('longest', little_endian(4294967292, 4) || zeros(40)),
		('compressed', little_endian(66, 4) || zeros(40)), ('out of line', '\x0112'::bytea || zeros(40)), ('a second one that ends', little_endian(40, 4) || '\x0080'::bytea || zeros(4) || '\x28'::bytea),
		('short headers at the end', '\xff'::bytea || zeros(20)), ('padding alone', zeros(3)), ('a byte of a header', little_endian(32, 4) || '\x00800000'::bytea || '\x40'::bytea)) v(lie, e);
	UPDATE pg_attribute SET atttypid = CASE attname WHEN 'n' THEN 'numeric[]'::regtype ELSE 'bit varying[]'::regtype END
		WHERE attrelid = 'forged_elements'::regclass AND attname IN ('n', 'b');
});
my %arguments = (
	(map { +"multivec, $_" => "SELECT multivec_ntokens(multivec(a)) FROM forged_$_ WHERE id = %s" } qw(f4 f8 i2 i4 i8 n b)),
	'maxsim, query' => q{SELECT maxsim(a, '{{1,2,3}}'::real[]) FROM forged_f4 WHERE id = %s},
	'maxsim, document' => q{SELECT maxsim('{{1,2,3}}'::real[], a) FROM forged_f4 WHERE id = %s},
	'maxsim_matches, document' => q{SELECT maxsim_matches('{{1,2,3}}'::real[], a) FROM forged_f4 WHERE id = %s},
	'flash_maxsim_rerank, tensor' => q{SELECT flash_maxsim_rerank('{{1,2,3}}'::real[], a, '{0,1}', 1) FROM forged_f4 WHERE id = %s},
	'flash_maxsim_rerank, cu_seqlens' => q{SELECT flash_maxsim_rerank('[[1]]', '[[1]]', a, 1) FROM forged_i8 WHERE id = %s},
	'flash_maxsim_rerank_direct, doc_offsets' => q{SELECT flash_maxsim_rerank_direct('[[1]]', '[[1]]', a, '{1}', 1) FROM forged_i8 WHERE id = %s},
	'flash_maxsim_rerank_direct, doc_lengths' => q{SELECT flash_maxsim_rerank_direct('[[1]]', '[[1]]', '{0}', a, 1) FROM forged_i8 WHERE id = %s},
	'maxsim_rerank, ids' => q{SELECT maxsim_rerank('[[1,2,3]]', a, 'arrays(id, r)') FROM forged_i8 WHERE id = %s},
	'maxsim_scores, ids' => q{SELECT maxsim_scores('[[1,2,3]]', a, 'arrays(id, r)') FROM forged_i8 WHERE id = %s},
	'multivec_i8, components' => q{SELECT multivec_ntokens(multivec_i8(a)) FROM forged_i4 WHERE id = %s},
	'multivec_i8, scales' => q{SELECT multivec_ntokens(multivec_i8('{{1}}', a)) FROM forged_f8 WHERE id = %s});
foreach my $name (sort keys %arguments)
{
	my ($table) = $arguments{$name} =~ /FROM (forged_\w+)/;

	# some have another number of dimensions as well, and a bitmap of zeros stands for NULL
	is($node->safe_psql('postgres', sprintf(q{
		SELECT lie || ': ' || error FROM (SELECT *, error_of(format($s$%s$s$, id)) AS error FROM %s) e
		WHERE error !~ '^(XX001 array is corrupted: |22004 [a-z_ ]+ must not contain NULL|2202E [a-z_ ]+ must have [12] dimensions?, not )' ORDER BY 1}, $arguments{$name}, $table)),
		'', "$name: an error for each array that lies");
	cmp_ok($node->safe_psql('postgres', sprintf(q{SELECT count(*) FROM (SELECT error_of(format($s$%s$s$, id)) AS error FROM %s) e WHERE error ~ '^XX001'}, $arguments{$name}, $table)),
		'>=', 60, "$name: most are corrupted");
}
foreach my $column (qw(n b))
{
	is($node->safe_psql('postgres', qq{
		SELECT lie || ': ' || error FROM (SELECT *, error_of(format('SELECT multivec_ntokens(multivec($column)) FROM forged_elements WHERE id = %s', id)) AS error FROM forged_elements) e
		WHERE error !~ '^XX001 array is corrupted: ' ORDER BY 1}), '', "damaged elements, $column: an error for each");
}
# honest bytes of another type
is($node->safe_psql('postgres', q{
	UPDATE pg_attribute SET atttypid = 'integer[]'::regtype WHERE attrelid = 'forged_f4'::regclass AND attname = 'a';
	SELECT DISTINCT error_of(format('SELECT multivec_i8(a) FROM forged_f4 WHERE id = %s', id)) FROM forged_f4 WHERE lie = '2, too many, 0';
	CREATE TABLE other (a real[]);
	INSERT INTO other VALUES ('{{1,2}}');
	UPDATE pg_attribute SET atttypid = 'integer[]'::regtype WHERE attrelid = 'other'::regclass AND attname = 'a';
	SELECT error_of('SELECT multivec_i8(a) FROM other')}), "XX001 array is corrupted: header of array of token vectors does not fit its size, 32 bytes\nXX001 array is corrupted: elements of array of token vectors are of type 700, not 23", 'elements of another type');

is($node->safe_psql('postgres', q{SELECT maxsim('[[1,2]]', '[[3,4]]')}), '11', 'the server goes on');
unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'no crash');
$node->stop;
done_testing();
