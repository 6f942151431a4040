# Every regression file again, with the scorer: the same output.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scorer;

plan skip_all => 'pg_regress is not here' unless -x ($ENV{PG_REGRESS} // '');

my $test = dirname($FindBin::RealBin);
my @files = sort map { basename($_, '.sql') } glob "$test/sql/*.sql";
@files = ((grep { $_ eq 'setup' } @files), (grep { $_ ne 'setup' } @files));
plan skip_all => 'no regression files here' unless @files;

my $node = server('node');
await(sub { slurp_file($node->logfile) =~ /is ready on \d+ cpu device/ });
my $output = "$PostgreSQL::Test::Utils::tmp_check/regress";
mkdir $output;
my ($log, $errors);
{
	local $ENV{PGOPTIONS} = '-c flash_maxsim.engine=cuda';

	# the files write below the current directory, which is where the output goes
	IPC::Run::run([$ENV{PG_REGRESS}, '--bindir=' . $node->config_data('--bindir'), "--inputdir=$test", '--dbname=contrib_regression',
			'--host=' . $node->host, '--port=' . $node->port, @files], '>', \$log, '2>', \$errors, init => sub { chdir $output });
}
for my $file (@files)
{
	like($log, qr/^(?:test |\s+)?(?:ok \d+\s+[-+] )?$file\s+(?:\.\.\. ok\s+)?\d+ ms/m, "$file has the same output with engine cuda");
}
diag(slurp_file("$output/regression.diffs")) if -s "$output/regression.diffs";
diag($errors) if $errors ne '';
my $scorer = $node->safe_psql('contrib_regression', 'SELECT batches, fallbacks_not_ready, fallbacks_failed FROM maxsim_scorer()');
like($scorer, qr/^[1-9]\d*\|0\|0$/, '... and the scorer did it');
$node->stop;
done_testing();
