#!/usr/bin/env bash
# Runs test binaries (cmocka) one by one and sums their tests; shows the output of those that fail.
#
#   run-tests.sh BINARY...        called by `make test`, with BUILD naming the build folder
#
# The last line is "N passed, N failed"; the exit code is 1 when any failed. TEST_TIMEOUT: seconds per binary (900).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export CMOCKA_MESSAGE_OUTPUT=TAP BUILD=${BUILD:-build/release}
unset ASCEND_RT_VISIBLE_DEVICES # the emulator obeys it

# What a test that ends early leaves goes with this folder: in memory where possible.
base=${TMPDIR:-/tmp}
[ -n "${TMPDIR:-}" ] || [ ! -w /dev/shm ] || base=/dev/shm
TMPDIR=$(mktemp -d "$base/tally-tests.XXXXXX") || exit 1
export TMPDIR
log=$TMPDIR/log
trap 'rm -rf "$TMPDIR"' EXIT
passed=0 failed=0
for binary in "$@"; do
  start=$(date +%s%N)
  timeout "${TEST_TIMEOUT:-900}" "$binary" >"$log" 2>&1 </dev/null
  rc=$?
  ms=$((($(date +%s%N) - start) / 1000000))
  # TAP: a plan "1..N" for each group, then "ok" or "not ok" for each test. What was planned and never told is a failure.
  planned=$(sed -n 's/^1\.\.\([0-9][0-9]*\).*/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
  skipped=$(grep -c '# SKIP' "$log")
  ok=$(grep '^ok' "$log" | grep -vc '# SKIP')
  bad=$((planned - ok - skipped))
  [ "$bad" -ge 0 ] || bad=0
  if [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  if [ "$rc" -eq 0 ] && [ "$planned" -eq 0 ]; then bad=1; fi
  passed=$((passed + ok)) failed=$((failed + bad))
  printf '%-52s %4d passed %4d failed %7d ms' "${binary#"$BUILD"/}" "$ok" "$bad" "$ms"
  if [ "$skipped" -gt 0 ]; then echo " ($skipped skipped)"; else echo; fi
  if [ "$bad" -gt 0 ]; then
    grep -v '^ok' "$log" | sed 's/^/    /'
    case $rc in
      0) [ "$planned" -gt 0 ] || echo "    the binary ran no test" ;;
      124) echo "    stopped after ${TEST_TIMEOUT:-900} s" ;;
      *) [ "$rc" -lt 128 ] || echo "    ended by signal $((rc - 128))" ;;
    esac
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
