# shellcheck shell=bash
#
# steps.sh
#	Runs named steps, each of which closes with 'N passed, N failed[, N skipped]',
#	and adds them up.
#
# Sourced after lib.sh.  Steps run one after another, but for those that step_start
# starts, which go on beside the others.  A step that fails does not stop the next.  A step that
# exits non-zero counts at least one failure, and so does one that counts nothing.
# Each step runs in a process group of its own, which ends at the time limit or
# when the script is interrupted.

PASSED=0 FAILED=0 SKIPPED=0
STEP_LIMIT=${STEP_LIMIT:-1200}
declare -A STEP_PID STEP_WATCHDOG STEP_START

# NAME COMMAND...
step()
{
	step_start "$@"
	step_finish "$1"
}

# NAME COMMAND...: does not wait for it; step_finish NAME does, and counts it.
step_start()
{
	local name=$1 log=$LOG/step.$1.log

	shift
	STEP_START[$name]=$SECONDS
	set -m
	(set -e +m; "$@") >"$log" 2>&1 </dev/null &
	STEP_PID[$name]=$!
	(sleep "$STEP_LIMIT"; echo "over the time limit of $STEP_LIMIT s" >>"$log"; kill -TERM -- "-${STEP_PID[$name]}") >/dev/null 2>&1 &
	STEP_WATCHDOG[$name]=$!
	set +m
}

step_finish()
{
	local name=$1 log=$LOG/step.$1.log status=0 counts passed failed skipped

	wait "${STEP_PID[$name]}" || status=$?
	unset "STEP_PID[$name]"
	kill -TERM -- "-${STEP_WATCHDOG[$name]}" 2>/dev/null || true
	unset "STEP_WATCHDOG[$name]"

	counts=$(grep -E '^([a-z]+: )?[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$log" | tail -n 1 || true)
	read -r passed failed skipped < <(sed -E 's/^[a-z]+: //; s/[^0-9]+/ /g' <<<"${counts:-0 0 0}")
	skipped=${skipped:-0}
	if [[ $failed == 0 && ($status != 0 || $((passed + skipped)) == 0) ]]; then
		failed=1
	fi
	if [[ $failed != 0 ]]; then
		say "---- $name: what failed, and the end of its output (exit status $status)"
		grep -E '^(#  +)?not ok |^# +(Failed test|at ) ' "$log" | awk '!seen[$0]++' | cut -c1-500 | head -n 60 || true
		say "..."
		tail -n "${STEP_TAIL:-80}" "$log"
		say "----"
	else
		# of a step that has steps of its own, their results
		grep -E '^(skipped|note):|^[^ ]+ +[0-9]+ passed, [0-9]+ failed, ' "$log" | sed 's/^/  /' || true
	fi
	printf '%-24s %4d passed, %d failed, %d skipped  (%d s)\n' "$name" "$passed" "$failed" "$skipped" $((SECONDS - STEP_START[$name]))
	PASSED=$((PASSED + passed))
	FAILED=$((FAILED + failed))
	SKIPPED=$((SKIPPED + skipped))
}

# Ends those that still run.
step_stop()
{
	local pid

	for pid in "${STEP_PID[@]}" "${STEP_WATCHDOG[@]}"; do
		kill -TERM -- "-$pid" || true
	done
	STEP_PID=() STEP_WATCHDOG=()
}

# COMMAND...: a step of one test that is the command's exit status.
one()
{
	"$@" && say "1 passed, 0 failed"
}

# REASON: a step that cannot run here.
skip()
{
	say "skipped: $*"
	say "0 passed, 0 failed, 1 skipped"
}

# Prints the total alone on the last line; fails if anything did.
steps_total()
{
	say "$PASSED passed, $FAILED failed$([[ $SKIPPED == 0 ]] || echo ", $SKIPPED skipped")"
	[[ $FAILED == 0 ]]
}
