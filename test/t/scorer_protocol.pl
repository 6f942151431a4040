# Packets that no backend sends: the scorer survives them and goes on serving.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use IO::Socket::UNIX;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Socket;
use Test::More;
use Scorer;

my $seed = $ENV{SEED} // (time ^ $$);
srand($seed);
note("SEED=$seed");

my $node = server('node', 'flash_maxsim.slots = 4');
prepare($node);
ok(await_ready($node), 'the scorer is ready');
my $right = $node->safe_psql('postgres', "SET flash_maxsim.engine = cpu; $RANK");
my $pid = scorer($node, 'pid');
my ($magic, $version) = (0x534d584d, 3);
# what the length of the path to a socket allows
chdir $node->data_dir . '/pg_stat_tmp' or die;

sub connection
{
	my $socket = IO::Socket::UNIX->new(Type => SOCK_SEQPACKET, Peer => 'flash_maxsim.sock') or die "could not connect: $!";

	setsockopt($socket, SOL_SOCKET, SO_RCVTIMEO, pack('q q', 60, 0));
	return $socket;
}

# What comes back for a packet: '' where the scorer hangs up.
sub answer_to
{
	my ($socket, $packet) = @_;
	my $answer;

	send($socket, $packet, MSG_NOSIGNAL);
	recv($socket, $answer, 1000, 0);
	return $answer // '';
}

sub hello { return pack('L L Q L L a160', $_[0], $_[1], $_[2], 0, 0, '') }
sub message { return (unpack 'L L Q L L Z160', $_[0])[5] }

# greetings

my $answer = answer_to(connection(), hello($magic, 1, 0));
is(message($answer), "scorer speaks protocol version $version, not 1: its program and the library are of different builds", 'another version');
like(message(answer_to(connection(), hello(42, $version, 0))), qr/different builds/, 'another magic number');
is(message(answer_to(connection(), hello($magic, $version, 42))), 'scorer belongs to an earlier start of the server', 'another epoch');
is(answer_to(connection(), 'hello'), '', 'something else: it hangs up');
is(answer_to(connection(), ''), '', 'an empty packet: it hangs up');

# the answer to a greeting holds the epoch
my $epoch = (unpack 'L L Q', $answer)[2];
my $socket = connection();
is((unpack 'L L Q L', answer_to($socket, hello($magic, $version, $epoch)))[3], 1, 'the right epoch is welcome');
is(answer_to($socket, pack('L x4 Q', 4, 1)), '', 'a slot that does not exist: it hangs up');
$socket = connection();
answer_to($socket, hello($magic, $version, $epoch));
send($socket, pack('L x4 Q', $_ % 4, int(rand 1000)), MSG_NOSIGNAL) for 1 .. 1000;
is(scorer($node, 'free_slots'), '4', 'requests that no slot holds change no slot');
is(answer_to($socket, 'short'), '', '... and something else ends the connection');

# requests as no backend writes them, into a slot that no backend has

SKIP:
{
	skip('the mapping cannot be opened', 1) unless open my $mapping, '+<:raw', "/proc/$pid/fd/3";
	my ($page, $data, $requests) = (4096, '', 0);
	my $at = sub { sysseek($mapping, $_[0], 0); return $mapping };
	sysread($at->(0), $data, $page);
	my ($size, $stride) = (unpack 'L L Q Q L L Q', $data)[3, 6];
	# in its slot 0: two query tokens of dimension 3, and weights
	my ($slot, $query) = ($page, $page + $stride - 1024);
	my $free = (unpack 'Q', (sysread($at->($slot), $data, 8), $data)[1]);
	is($free & 0xff, 0, 'a slot is free');

	# What the scorer says of a query: '' where nothing is wrong with it.
	my $says = sub {
		my (%of) = (ntokens => 2, dim => 3, query => $query, weights => $query + 64, values => [1, 0.5], @_);
		my $request = 1 << 40 | ++$requests;
		my $sender = connection();

		answer_to($sender, hello($magic, $version, $epoch));
		syswrite($at->($query), pack('f*', (1) x 16, @{ $of{values} }));
		syswrite($at->($slot), pack('Q L x4 Q L L Q Q x176', $request << 8 | 2, 1, 0, $of{ntokens}, $of{dim}, $of{query}, $of{weights}));
		is(length answer_to($sender, pack('L x4 Q', 0, $request)), 16, 'it answers');
		sysread($at->($slot), $data, $page);
		syswrite($at->($slot), pack('Q', $request << 8));
		return $data =~ /(scorer received a request[^\0]*)/ ? $1 : '';
	};
	my $wrong = 'scorer received a request outside its mapping, or with wrong weights';
	my ($nan, $inf) = (9**9**9 / 9**9**9, 9**9**9);
	is($says->(), '', '... weights as they should be');
	is($says->(weights => 0), '', '... none');
	is($says->(weights => $size - 8), '', '... the mapping\'s last bytes');
	is($says->(values => [0, 3e38]), '', '... none and much');
	is($says->(values => $_->[1]), $wrong, "... $_->[0]") for ['a negative weight', [1, -0.5]], ['NaN', [$nan, 1]], ['infinity', [1, $inf]], ['minus infinity', [-$inf, 1]];
	is($says->(weights => $_->[1]), $wrong, "... weights $_->[0]") for ['past the end', $size - 4], ['far outside', 1 << 50], ['where 64 bits end', ~3], ['that are not aligned', $query + 66];
	is($says->(ntokens => 0xffffffff, dim => 1, query => $page), $wrong, '... more tokens than there can be');
	is($says->(dim => $_), $wrong, "... dimension $_") for 0, 65536;
	is($says->(query => $_), $wrong, '... tokens elsewhere') for $size - 23 + 3, 1 << 60, $query + 1;
}
is(scorer($node, 'free_slots, pid'), "4|$pid", '... and the slot is free as before');

# noise

for (1 .. 2000)
{
	my $noise = connection();

	answer_to($noise, hello($magic, $version, $epoch)) if rand() < 0.5;
	send($noise, join('', map { chr int rand 256 } 1 .. int(rand 400)), MSG_NOSIGNAL) for 1 .. 1 + int(rand 3);
}
is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, 'it works after 2,000 connections of noise');

# crowds: silent, half a greeting, greeted; some hang up

my @crowd = map { connection() } 1 .. 600;
for my $i (0 .. $#crowd)
{
	answer_to($crowd[$i], hello($magic, $version, $epoch)) if $i % 3 == 0;
	send($crowd[$i], substr(hello($magic, $version, $epoch), 0, 20), MSG_NOSIGNAL) if $i % 3 == 1;
}
is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, 'it works beside 600 connections that do not');
my $descriptors = sub { scalar(() = glob "/proc/$pid/fd/*") };
cmp_ok($descriptors->(), '>=', 400, '... that it holds');
@crowd = ();
ok(await(sub { $descriptors->() < 20 }), '... and closes when they go');

# more connections than it may have descriptors

SKIP:
{
	skip('no prlimit here', 5) if system('prlimit', '--pid', $pid, '--nofile=40:') != 0;
	@crowd = map { connection() } 1 .. 100;
	like(sqlstate_of($node, "SET flash_maxsim.engine = cuda; $RANK"),
		qr/^55000: engine "cuda" is not available: scorer hung up, it may be out of file descriptors/, 'out of descriptors: an error that says so');
	is($node->safe_psql('postgres', $RANK), $right, '... and auto scores on the CPU');
	sleep 17; # a heartbeat's time
	is(scorer($node, 'pid'), $pid, '... and it is not taken for dead');
	@crowd = ();
	ok(await(sub { $descriptors->() < 20 }), '... and when they go');
	is($node->safe_psql('postgres', "SET flash_maxsim.engine = cuda; $RANK"), $right, '... it works');
}
is(scorer($node, 'pid, starts'), "$pid|1", 'it is the same process all the time');
all_slots_free($node, 'in the end');

# the program by hand, with another mapping

my $program = $node->config_data('--pkglibdir') . '/flash_maxsim_scorer';

# What it reports when descriptor 3 is a file of these bytes, or closed.
sub report_for
{
	my ($bytes) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/mapping";
	my $report = "$PostgreSQL::Test::Utils::tmp_check/report";

	unlink $file, $report;
	append_to_file($file, $bytes) if defined $bytes;
	my $redirect = defined $bytes ? "3<>'$file'" : '3>&-';
	system('sh', '-c', "'$program' cpu all 0 $redirect 4>'$report' 2>/dev/null");
	return (unpack 'L L L a16 a1024 x4 x128 x160 Z160', slurp_file($report))[5];
}

like(report_for(pack('L L Q Q', $magic, 1, 0, 8192) . "\0" x 8168), qr/^scorer speaks protocol version $version, not 1/, 'a mapping of another version');
like(report_for("\0" x 8192), qr/^scorer speaks protocol version $version, not 0/, 'a mapping of zeros');
like(report_for(pack('L L Q Q', $magic, $version, 0, 4096) . "\0" x 8168), qr/^scorer/, 'a mapping of another size');
is(report_for('short'), 'scorer was started without a mapping', 'a mapping too short');
is(report_for(undef), 'scorer was started without a mapping', 'none at all');
chdir '/';
$node->stop;
done_testing();
