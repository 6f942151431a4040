# Random tables and queries, against a reference in double precision that is computed
# here.  SEED in the environment repeats a run; CASES sets how many there are.
use strict;
use warnings;
use List::Util qw(max shuffle sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SEED} // (time ^ $$);
my $cases = $ENV{CASES} // 400;
srand($seed);
note("SEED=$seed CASES=$cases");

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', 'jit = off');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION flash_maxsim');

sub pick { return $_[ rand @_ ] }
sub vector_text { my ($open, $close, $tokens) = @_; return $open . join(',', map { $open . join(',', @$_) . $close } @$tokens) . $close }

# A number as the engine sees it: small integers are exact in every format and in every
# order; the others are exact in bf16, so that formats do not matter, but their sums round.
sub element
{
	my ($exact) = @_;
	return int(rand 13) - 6 if $exact;
	return (int(rand 511) - 255) * 2**(int(rand 17) - 12);
}

sub tokens
{
	my ($n, $dim, $exact) = @_;
	return [ map { [ map { element($exact) } 1 .. $dim ] } 1 .. $n ];
}

# Score and sum of magnitudes: undefined for a document without tokens.
sub reference
{
	my ($query, $document) = @_;
	my ($score, $scale) = (0, 0);
	return if !@$document;
	foreach my $q (@$query)
	{
		my ($best, $best_scale) = (-9**9**9, 0);
		foreach my $d (@$document)
		{
			my ($dot, $magnitude) = (0, 0);
			for my $k (0 .. $#$q)
			{
				$dot += $q->[$k] * $d->[$k];
				$magnitude += abs($q->[$k] * $d->[$k]);
			}
			$best = $dot if $dot > $best;
			# an error of a dot product that was not the best may make it the best
			$best_scale = $magnitude if $magnitude > $best_scale;
		}
		$score += $best;
		$scale += $best_scale;
	}
	return ($score, $scale);
}

# The cases, as one script: each answers in 3 lines.
my @cases;
my $script = '';
for my $n (1 .. $cases)
{
	my $exact = rand() < 0.7;
	my $dim = pick(1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 64, 65, 100);
	my $type = pick('multivec', "multivec($dim)", "multivec($dim, f16)", "multivec($dim, bf16)", 'real[]', 'double precision[]');
	my $id_type = pick('smallint', 'integer', 'bigint');
	my %documents;
	foreach my $id ((shuffle 1 .. 60)[ 0 .. int rand 25 ])
	{
		$documents{$id} = rand() < 0.07 ? undef : tokens(pick(0, 1, 1, 2, 3, 4, 5, 7, 8, 13), $dim, $exact);
	}
	my $query = tokens(pick(1, 2, 3, 4, 5, 8, 15, 16, 17, 20), $dim, $exact);
	my @ids = map { 1 + int rand 70 } 1 .. pick(0, 1, 5, 30, 100);
	my $top_k = rand() < 0.3 ? pick(1, 2, 5, 50) : undef;
	my $storage = pick('EXTERNAL', 'EXTENDED', 'MAIN');
	# half of them are long enough to be TOASTed, or not, whatever they hold
	my $target = pick(128, 2040);
	my $key = pick('', 'PRIMARY KEY');
	my $partition = rand() < 0.2 ? 'PARTITION BY HASH (id)' : '';
	my $view = rand() < 0.2;
	my $query_type = pick('', '::multivec', '::real[]', '::double precision[]', "::multivec($dim, bf16)");
	# a bf16 document makes of a query's numbers bf16, which these are
	my @rows;

	foreach my $id (sort { $a <=> $b } keys %documents)
	{
		my $tokens = $documents{$id};
		my $text = defined $tokens ? "'" . (@$tokens ? vector_text($type =~ /\[\]/ ? ('{', '}') : pick([ '[', ']' ], [ '{', '}' ])->@*, $tokens) : $type =~ /\[\]/ ? '{}' : '[]') . "'" : 'NULL';
		push @rows, "($id, $text)";
	}
	my $query_text = "'" . vector_text($query_type =~ /real|double/ ? ('{', '}') : ('[', ']'), $query) . "'$query_type";
	my $ids_text = "'{" . join(',', @ids) . "}'";
	my $source = $view ? 'v(id, emb)' : 't(id, emb)';
	my $k = defined $top_k ? ", $top_k" : '';

	$script .= "BEGIN;\nCREATE TABLE t (id $id_type $key, emb $type) $partition;\n";
	$script .= "CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);\nCREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);\n" if $partition;
	$script .= "ALTER TABLE t ALTER emb SET STORAGE $storage;\n" . (!$partition ? "ALTER TABLE t SET (toast_tuple_target = $target);\n" : '');
	$script .= 'INSERT INTO t VALUES ' . join(', ', @rows) . ";\n" if @rows;
	$script .= "CREATE VIEW v AS SELECT emb, id FROM t WHERE id % 5 <> 0;\n" if $view;
	$script .= "SELECT 'rerank ' || coalesce(string_agg(doc_id || ':' || coalesce(score::text, ''), ' ' ORDER BY n), '') FROM maxsim_rerank($query_text, $ids_text, '$source'$k) WITH ORDINALITY r(doc_id, score, n);\n";
	$script .= "SELECT 'scores ' || array_to_string(maxsim_scores($query_text, $ids_text, '$source'), ' ', 'NULL');\n";
	$script .= "SELECT 'maxsim ' || coalesce(string_agg(id || ':' || coalesce(maxsim($query_text" . ($query_type eq '' ? '::multivec' : '') . ", emb)::text, ''), ' ' ORDER BY id), '') FROM t;\n";
	$script .= "ROLLBACK;\n";

	if ($view)
	{
		delete $documents{$_} for grep { $_ % 5 == 0 } keys %documents;
	}
	push @cases, { n => $n, exact => $exact, documents => \%documents, query => $query, ids => \@ids, top_k => $top_k, view => $view,
		what => "case $n of seed $seed: dimension $dim, $type, $id_type, query$query_type" };
}

my ($stdout, $stderr);
$node->psql('postgres', $script, on_error_stop => 0, stdout => \$stdout, stderr => \$stderr);
is($stderr, '', 'no error');
my @lines = split /\n/, $stdout;
is(scalar @lines, 3 * $cases, 'an answer to every question');

my ($checked, $scored) = (0, 0);
CASE: foreach my $case (@cases)
{
	my ($rerank, $scores, $maxsim) = splice(@lines, 0, 3);
	my %reference = map { $_ => [ defined $case->{documents}{$_} ? reference($case->{query}, $case->{documents}{$_}) : () ] } keys %{ $case->{documents} };
	my @problems;

	my $close = sub {
		my ($id, $got) = @_;
		my ($score, $scale) = @{ $reference{$id} };
		$scored++;
		return $got eq '' || $got eq 'NULL' if !defined $score;
		return 0 if $got eq '' || $got eq 'NULL';
		return $case->{exact} ? $got == $score : abs($got - $score) <= 1e-5 * $scale;
	};

	# maxsim_rerank: whom it returns, with which scores, in which order
	my @returned = map { [ split /:/, $_, 2 ] } split / /, $rerank =~ s/^rerank //r;
	my %asked = map { $_ => 1 } grep { exists $reference{$_} } @{ $case->{ids} };
	my $wanted = keys %asked;
	$wanted = $case->{top_k} if defined $case->{top_k} && $case->{top_k} < $wanted;
	push @problems, "$wanted documents, not " . @returned if @returned != $wanted;
	my %returned = map { $_->[0] => 1 } @returned;
	push @problems, 'a document twice' if keys %returned != @returned;
	push @problems, 'a document that was not asked for' if grep { !$asked{$_} } keys %returned;
	foreach my $r (@returned)
	{
		push @problems, "document $r->[0] has score $r->[1], not " . ($reference{ $r->[0] }[0] // 'NULL') if exists $reference{ $r->[0] } && !$close->(@$r);
	}
	for my $i (1 .. $#returned)
	{
		my ($a, $b) = @returned[ $i - 1, $i ];
		my $in_order = $b->[1] eq '' ? $a->[1] ne '' || $a->[0] < $b->[0] : $a->[1] ne '' && ($a->[1] > $b->[1] || ($a->[1] == $b->[1] && $a->[0] < $b->[0]));
		push @problems, "document $b->[0] after $a->[0]" if !$in_order;
	}
	if (defined $case->{top_k} && $case->{exact} && @returned)
	{
		my @best = sort { (defined $reference{$b}[0] <=> defined $reference{$a}[0]) || (defined $reference{$a}[0] && $reference{$b}[0] <=> $reference{$a}[0]) || $a <=> $b } keys %asked;
		push @problems, 'not the best' if join(' ', @best[ 0 .. $wanted - 1 ]) ne join(' ', map { $_->[0] } @returned);
	}

	# maxsim_scores: aligned with the ids
	my @scores = split / /, $scores =~ s/^scores ?//r;
	push @problems, 'not one score for each id' if @scores != @{ $case->{ids} };
	for my $i (0 .. $#scores)
	{
		my $id = $case->{ids}[$i];
		my $right = exists $reference{$id} ? $close->($id, $scores[$i]) : $scores[$i] eq 'NULL';
		push @problems, "score $i, of document $id, is $scores[$i]" if !$right;
	}

	# maxsim: the same bits as maxsim_rerank
	my %maxsim = map { split /:/, $_, 2 } split / /, $maxsim =~ s/^maxsim //r;
	foreach my $r (@returned)
	{
		push @problems, "document $r->[0] has score $r->[1], by maxsim $maxsim{$r->[0]}" if $maxsim{ $r->[0] } ne $r->[1];
	}
	$checked++;
	next CASE if !@problems;
	fail("$case->{what}: $_") for @problems;
}
is($checked, $cases, "$cases cases, $scored scores");

$node->stop;
done_testing();
