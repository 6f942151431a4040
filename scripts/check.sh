#!/bin/bash
#
# check.sh [--prepare | --server]
#	Runs every test there is against a throw-away PostgreSQL ("make check").
#
# The last line is the total: 'N passed, N failed[, N skipped]'.  PG_CONFIG picks
# the PostgreSQL.  --prepare only installs what the tests need; --server leaves out
# the tests that need no PostgreSQL.  TOOLS=no installs no other compilers, emulators
# and clients, and skips the tests that want them and the engine's under sanitizers.
# TAP names some of test/t, as in TAP='test/t/0*.pl', where not all of them are to be run.
#
# An executable test/*.sh is a test of its own: it runs at the root of a copy of
# the sources, as an unprivileged user, with the environment set up for a cluster
# that has the extension installed, and closes with its counts.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/steps.sh
. "$ROOT/scripts/steps.sh"

regress()
{
	local status=0 log=$WORK/tree/regress.log

	if ! compgen -G "$ROOT/test/sql/*.sql" >/dev/null; then
		skip "no regression tests here yet"
		return
	fi
	tree_make installcheck TAP_TESTS= >"$log" 2>&1 || status=$?
	# old: "test name ... ok  12 ms", and indented without "test" in a group;
	# from 16: "ok 1 - name 12 ms", with + in a group
	passed=$(grep -cE '^(test | +).*\.\.\. +ok( |$)|^ok [0-9]+ +[-+] ' "$log" || true)
	failed=$(grep -cE '^(test | +).*\.\.\. +FAILED|^not ok [0-9]+ +[-+] ' "$log" || true)
	cat "$log"
	[[ ! -f $WORK/tree/regression.diffs ]] || cat "$WORK/tree/regression.diffs"
	say "$passed passed, $failed failed"
	return "$status"
}

tap()
{
	local status=0 log=$WORK/tree/tap.log

	if ! compgen -G "$ROOT/test/t/*.pl" >/dev/null; then
		skip "no TAP tests here yet"
		return
	fi
	if ! perl -MIPC::Run -e 1 || [[ ! -d $("$PG_CONFIG" --pgxs | xargs dirname)/../test/perl ]]; then
		skip "TAP tests need Perl's IPC::Run and PostgreSQL's test modules"
		return
	fi
	tree_make installcheck REGRESS= PROVE_FLAGS='--verbose --timer' PROVE_TESTS="${TAP:-test/t/*.pl}" >"$log" 2>&1 || status=$?
	passed=$(grep -cE '^ok [0-9]+' "$log" || true)
	failed=$(grep -cE '^not ok [0-9]+' "$log" || true)
	if [[ $status != 0 ]]; then
		find "$WORK/tree/tmp_check/log" -type f -name '*.log' -exec tail -n 15 {} + 2>/dev/null || true
	fi
	cat "$log"
	# once more what failed: prove tells of it in the midst of the rest
	grep -A 12 '^not ok' "$log" || true
	say "$passed passed, $failed failed"
	return "$status"
}

# MAKEFILE GOAL TOOL: a goal that needs no PostgreSQL.
without_server()
{
	if ! command -v "$3" >/dev/null; then
		skip "$2 needs $3"
		return
	fi
	as_user make -C "$WORK/tree" --no-print-directory -f "$1" "$2"
}

# That it ends with the table that it is there to show.
demo()
{
	env PG_CONFIG="$SYSTEM_PG_CONFIG" "$ROOT/scripts/demo.sh" >"$WORK/demo.out"
	cat "$WORK/demo.out"
	grep -q 'MaxSim over all passages' "$WORK/demo.out"
	say "1 passed, 0 failed"
}

# What some tests need besides, where apt has it.
tools_need()
{
	local package found=()

	[[ ${TOOLS:-} != no ]] && have_apt || return 0
	apt_update
	for package in clang qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
		python3-psycopg python3-psycopg2 python3-numpy python3-sqlalchemy python3-django; do
		if [[ $(apt-cache policy "$package") == *"Candidate: "[0-9]* ]]; then
			found+=("$package")
		fi
	done
	apt_install "${found[@]}"
}

work_make
have_apt && { need prove perl; perl -MIPC::Run -e 1 2>/dev/null || apt_install libipc-run-perl; }
if [[ ${1:-} == --prepare ]]; then
	postgres_find
	compiler_need
	tools_need
	exit
fi
[[ ${1:-} == --server ]] || tools_need
# shellcheck disable=SC2119 # nothing to tell make
extension_prepare
cluster_start

if [[ ${1:-} != --server ]]; then
	step engine without_server test/engine.mk check gcc
	step engine.clang without_server test/engine.mk check-clang clang
	# minutes that tell the same everywhere
	[[ ${TOOLS:-} == no ]] || step engine.sanitize without_server test/engine.mk check-sanitize gcc
	step engine.neon without_server test/engine.mk check-neon qemu-aarch64
	step cuda.plan without_server cuda/cuda.mk check-plan gcc
	step scorer.requests without_server test/scorer.mk check gcc
fi
step regress regress
step tap tap
for file in "$ROOT"/test/*.sh; do
	[[ ! -x $file ]] || step "$(basename "$file" .sh)" as_user env -C "$WORK/tree" "test/${file##*/}"
done
step demo demo
steps_total || exit 1
