# The binary form: COPY BINARY of every damaged value is an error that leaves the server
# and the session alive; pg_dump and pg_restore bring back every bit.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION flash_maxsim; CREATE TABLE received (emb multivec)');
my $file = $node->basedir . '/value.bin';

# A file of COPY BINARY with one row of one field.
sub write_copy
{
	my ($bytes) = @_;
	open(my $handle, '>:raw', $file) or die "could not open $file: $!";
	print $handle "PGCOPY\n\xff\r\n\0", pack('NN', 0, 0), pack('nN', 1, length $bytes), $bytes, pack('n', 0xffff);
	close($handle);
}

# What COPY says of each of many values: a list of "SQLSTATE message" or "ok: value".
# One session receives them all.
sub receive
{
	my @values = @_;
	my ($script, $stdout, $stderr) = ('', '', '');

	for my $i (0 .. $#values)
	{
		write_copy($values[$i]);
		rename($file, "$file.$i");
		$script .= "TRUNCATE received;\nCOPY received FROM '$file.$i' (FORMAT binary);\n\\echo :SQLSTATE :LAST_ERROR_MESSAGE\nSELECT 'ok: ' || emb::text FROM received;\n";
	}
	# with no error :LAST_ERROR_MESSAGE is the one before: look at :SQLSTATE
	$node->psql('postgres', $script, on_error_stop => 0, stdout => \$stdout, stderr => \$stderr);
	unlink(map { "$file.$_" } 0 .. $#values);
	my @results;
	foreach my $line (split /\n/, $stdout)
	{
		if ($line =~ /^ok: /) { $results[-1] = $line }
		else { push @results, $line =~ s/^00000 .*/received/r }
	}
	return @results;
}

my %values = (
	f32 => pack('CCnNN', 1, 0, 0, 2, 3) . pack('f<6', 1 .. 6),
	f16 => pack('CCnNN', 1, 1, 0, 2, 3) . pack('v6', 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600),
	bf16 => pack('CCnNN', 1, 2, 0, 2, 3) . pack('v6', 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0),
	i8 => pack('CCnNN', 1, 3, 0, 2, 3) . pack('f<c2f<c2f<c2', 1, 1, 2, 0.5, 6, 8, 1, 5, 6),
	b1 => pack('CCnNN', 1, 4, 0, 2, 3) . pack('C3', 0xc0, 0x40, 0x80));

foreach my $format (sort keys %values)
{
	my $value = $values{$format};
	my $length = length $value;

	is_deeply([ receive($value) ], [$format eq 'b1' ? 'ok: [[1,1],[-1,1],[1,-1]]' : 'ok: [[1,2],[3,4],[5,6]]'], "$format: what is right is received");

	# cut after every byte
	my @results = receive(map { substr($value, 0, $_) } 0 .. $length - 1);
	is(scalar @results, $length, "$format: an answer to each truncation");
	# PostgreSQL's own reading functions miss bytes of the header
	is(scalar(grep { /^08P01 (no data left in message|insufficient data left in message)/ } @results[ 0 .. 11 ]), 12, "$format: every truncation of the header is an error");
	is(scalar(grep { /^22P03 binary multivec of 3 tokens of dimension 2 in format $format needs \d+ bytes of elements, found \d+$/ } @results[ 12 .. $length - 1 ]),
		$length - 12, "$format: every truncation of the elements is an error");
	@results = receive(map { $value . "\0" x $_ } 1 .. 8);
	is(scalar(grep { /^22P03 / } @results), 8, "$format: so are bytes too many");

	# every other value of every byte of the header
	foreach my $at (0 .. 11)
	{
		my @others = grep { $_ != ord(substr($value, $at, 1)) } 0 .. 255;
		@results = receive(map { my $v = $value; substr($v, $at, 1) = chr($_); $v } @others);
		my @wrong = grep { !/^22P03 binary multivec (has an unknown header|of \d+ tokens)/ } @results;
		# f16 and bf16 are of one size: each is the other with other elements
		if ($at == 1 && $format =~ /f16/)
		{
			is(scalar(grep { /^ok: / } @wrong), 1, "$format: the other 16-bit format is received as such");
			@wrong = grep { !/^ok: / } @wrong;
		}
		# as few bits are those of another dimension, or too many for it
		if ($at == 7 && $format eq 'b1')
		{
			is(scalar(grep { /^ok: / } @wrong), 6, 'b1: tokens of other dimensions of up to 8 bits');
			@wrong = grep { !/^ok: |^22000 multivec in format b1 has bits beyond its dimension of 1/ } @wrong;
		}
		is(scalar @results, 255, "$format: an answer to each value of header byte $at");
		is_deeply(\@wrong, [], "$format: every other value of header byte $at is an error");
	}

	if ($format eq 'i8')
	{
		my %scales = (-1 => -1, '-0' => '-0.0', Infinity => '9**9**9', NaN => '-sin(9**9**9)', '1e+37' => 1e37);
		is_deeply([ receive(map { my $v = $value; substr($v, 18, 4) = pack('f<', eval $scales{$_}); $v } sort keys %scales) ],
			[ map { "22003 $_ is out of range for the scale of a token in multivec format i8" } sort keys %scales ], 'i8: scales that are none are refused');
		is_deeply([ receive(map { my $v = $value; substr($v, $_, 1) = "\x80"; $v } 16, 17, 22, 28) ], [ ('22003 -128 is out of range for multivec format i8') x 4 ], 'i8: so is -128');
		next;
	}
	if ($format eq 'b1')
	{
		is_deeply([ receive(map { my $v = $value; substr($v, 12 + $_, 1) = "\xe0"; $v } 0 .. 2) ], [ ('22000 multivec in format b1 has bits beyond its dimension of 2') x 3 ], 'b1: bits beyond the dimension are refused');
		next;
	}

	# NaN and infinity in every place
	my ($nan, $infinity) = $format eq 'f32' ? (pack('V', 0x7fc00000), pack('V', 0xff800000)) : $format eq 'f16' ? (pack('v', 0x7e01), pack('v', 0xfc00)) : (pack('v', 0xffc1), pack('v', 0x7f80));
	my $size = length $nan;
	is_deeply([ receive(map { my $v = $value; substr($v, 12 + $_ * $size, $size) = $nan; $v } 0 .. 5) ], [ ('22000 NaN is not allowed in type multivec') x 6 ], "$format: NaN is refused");
	is_deeply([ receive(map { my $v = $value; substr($v, 12 + $_ * $size, $size) = $infinity; $v } 0 .. 5) ], [ ('22000 infinity is not allowed in type multivec') x 6 ], "$format: infinity is refused");
}

# sizes that lie, wrap around in 32 and 64 bits, or exceed what there may be
my @lies = ([ 2, 2**32 - 1 ], [ 2**32 - 1, 3 ], [ 2**31, 2**31 ], [ 2**32 - 1, 2**32 - 1 ], [ 65536, 65536 ], [ 2**30, 4 ], [ 0, 3 ], [ 0, 2**32 - 1 ], [ 65535, 2**32 - 1 ]);
is(scalar(grep { /^22P03 / } receive(map { pack('CCnNN', 1, 0, 0, @$_) . pack('f<6', 1 .. 6) } @lies)), scalar @lies, 'sizes that lie');
is(scalar(grep { /^22P03 / } receive(map { pack('CCnNN', 1, 1, 0, @$_) } @lies)), scalar @lies, 'sizes that lie before no elements');
is_deeply([ receive(pack('CCnNN', 1, 0, 0, 65536, 0)) ], ['54000 multivec cannot have 65536 dimensions, the maximum is 65535'], 'too many dimensions');
is_deeply([ receive(pack('CCnNN', 1, 0, 0, 0, 0), pack('CCnNN', 1, 2, 0, 65535, 0)) ], [ 'ok: []', 'ok: []' ], 'no tokens');
is_deeply([ receive('', "\1") ], [ ('08P01 no data left in message') x 2 ], 'nothing, and next to nothing');
is(scalar(grep { /^(22P03|08P01) / } receive('multivec', '[[1,2]]', "\1" x 100, "\xff" x 100, "\0" x 100)), 5, 'garbage is an error');

# pg_dump and back
$node->safe_psql(
	'postgres', q{
	CREATE TABLE docs (id integer PRIMARY KEY, any_shape multivec, f32 multivec(3), f16 multivec(3, f16), bf16 multivec(3, bf16), i8 multivec(3, i8), b1 multivec(3, b1), many multivec[]);
	INSERT INTO docs SELECT i, v, v, v, v, v, v, ARRAY[v, '[]'] FROM generate_series(1, 200) i,
		LATERAL (SELECT array_agg(ARRAY[sin(i * t), exp(i % 15 - 10) * t, -1.0 / (i + t)]::real[])::multivec AS v FROM generate_series(1, i) t) s;
	INSERT INTO docs (id, any_shape) VALUES (1001, '[[3.4028235e38,-3.4028235e38,1.1754944e-38,1e-45,-0]]'), (1002, '[]'), (1003, NULL), (1004, '[]'::multivec(7, f16));
	INSERT INTO docs (id, any_shape) SELECT 2000, multivec(string_agg(set_byte(set_byte('\x0000', 0, i & 255), 1, i >> 8), ''), 2, 'f16') FROM generate_series(0, 65535) i WHERE i & x'7c00'::int <> x'7c00'::int;
	INSERT INTO docs (id, any_shape) SELECT 2001, multivec(string_agg(set_byte(set_byte('\x0000', 0, i & 255), 1, i >> 8), ''), 2, 'bf16') FROM generate_series(0, 65535) i WHERE i & x'7f80'::int <> x'7f80'::int;
	CREATE VIEW best AS SELECT * FROM maxsim_rerank('[[1,2,3]]'::multivec(3, f16), '{1,2,3}', 'public.docs(id, f16)');
	CREATE MATERIALIZED VIEW scores AS SELECT id, maxsim('[[1,2,3]]', f32) AS score FROM docs;
	CREATE INDEX ON docs (maxsim('[[1,2,3]]', f32));
});
my $everything = q{SELECT md5(string_agg(concat_ws('|', id, any_shape::real[], multivec_send(f32), multivec_send(f16), multivec_send(bf16), multivec_send(i8), multivec_send(b1), many), E'\n' ORDER BY id)) FROM docs};
my $shape = q{SELECT string_agg(format_type(atttypid, atttypmod) || attstorage::text, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attnum > 0};
my $views = q{SELECT (SELECT string_agg(best::text, '') FROM best), (SELECT md5(string_agg(scores::text, '' ORDER BY id)) FROM scores)};
my @wanted = map { $node->safe_psql('postgres', $_) } $everything, $shape, $views;
is($wanted[1], 'integerp,multivece,multivec(3)e,multivec(3,f16)e,multivec(3,bf16)e,multivec(3,i8)e,multivec(3,b1)e,multivec[]x', 'the table that is dumped');

# The text form has no format: in a column without one, values come back as f32, which
# holds each of them exactly.
my $formats = q{SELECT string_agg(DISTINCT multivec_format(any_shape), ',') FROM docs};
is($node->safe_psql('postgres', $formats), 'bf16,f16,f32', 'formats of a column without a format');

foreach my $kind ([ 'plain', '--format=plain' ], [ 'custom', '--format=custom' ], [ 'inserts', '--format=plain', '--inserts' ])
{
	my ($name, @options) = @$kind;
	my $dump = $node->basedir . "/dump.$name";

	$node->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0");
	$node->command_ok([ 'pg_dump', '--file', $dump, @options, $node->connstr('postgres') ], "$name: pg_dump");
	if ($name eq 'custom')
	{
		$node->command_ok([ 'pg_restore', '--exit-on-error', '--dbname', $node->connstr($name), $dump ], "$name: pg_restore");
	}
	else
	{
		$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-o', $node->basedir . '/ignored', '-f', $dump, '-d', $node->connstr($name) ], "$name: psql");
	}
	is_deeply([ map { $node->safe_psql($name, $_) } $everything, $shape, $views ], \@wanted, "$name: every bit is back");
	is($node->safe_psql($name, $formats), 'f32', "$name: without a format, f32");
}

unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'no crash');
$node->stop;
done_testing();
