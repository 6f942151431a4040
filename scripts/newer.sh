#!/bin/bash
#
# newer.sh
#	Runs the tests on PostgreSQL 16, and on 17 and 18 in bare Debian systems that have
#	them, and the demonstration as a newcomer would.
#
# The last line is the total.  Needs root.  What cannot be had here is skipped.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/steps.sh
. "$ROOT/scripts/steps.sh"
cd "$ROOT"

# COMMAND...: tests that 75 as exit status says cannot run here.
elsewhere()
{
	local status=0

	"$@" || status=$?
	[[ $status != 75 ]] || skip "as said above"
	[[ $status == 75 ]] || return "$status"
}

# what depends on PostgreSQL's version; the rest takes minutes, and runs on one version
tap='test/t/0*.pl test/t/cache_stats.pl test/t/cache_visibility.pl test/t/scorer_start.pl test/t/scorer_load.pl test/t/scorer_regress.pl test/t/batch_scan.pl'

work_make
step postgresql-16 elsewhere scripts/postgres16.sh
step postgresql-17 elsewhere env TAP="$tap" TOOLS=no PACKAGES=postgresql-17-pgvector scripts/bare_root.sh trixie check
step postgresql-18 elsewhere env TAP="$tap" TOOLS=no PACKAGES=postgresql-18-pgvector scripts/bare_root.sh --lenient sid check
step newcomer elsewhere one scripts/bare_root.sh bookworm demo
steps_total || exit 1
