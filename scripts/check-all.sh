#!/usr/bin/env bash
# Everything that can be checked on one machine (make check-all). Goes on after a failure and ends with one line for each part:
# passed, FAILED, or skipped where a tool is not installed. The exit code is 1 when any part failed.
#
#   scripts/check-all.sh [PART...]     parts: release asan tsan lint arm simde; without: all. Logs: build/check-all/PART.log
#
# JOBS: compilers at once (all processors). The corpora of the fuzzers are replayed by the test run of release and of asan.
# shellcheck disable=SC2317  # the parts are called by name
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
jobs=${JOBS:-$(nproc)}
logs=build/check-all
mkdir -p "$logs"

part_release() { make -s -j"$jobs" all tests && make -s test; }
part_asan() { make -s CONFIG=asan -j"$jobs" all tests && TEST_TIMEOUT=3000 make -s CONFIG=asan test; }
part_tsan() { make -s CONFIG=tsan -j"$jobs" all tests && TEST_TIMEOUT=3000 make -s CONFIG=tsan test; }
part_lint() { make -s -j"$jobs" lint; }
part_arm() { make -s -j"$jobs" check-arm; }
part_simde() { make -s -j"$jobs" check-simde; }

missing() { # prints what a part needs and this machine lacks
  case $1 in
    arm) for tool in aarch64-linux-gnu-gcc qemu-aarch64; do command -v "$tool" >/dev/null || echo "$tool"; done ;;
    simde) [ -e /usr/include/simde/x86/avx512.h ] || echo "libsimde-dev" ;;
  esac
}

parts=("$@")
[ $# -gt 0 ] || parts=(release asan tsan lint arm simde)
failed=0 summary=
for part in "${parts[@]}"; do
  if ! declare -F "part_$part" >/dev/null; then
    echo "check-all.sh: there is no part '$part'; parts are release, asan, tsan, lint, arm, simde" >&2
    exit 2
  fi
  needs=$(missing "$part" | paste -sd' ')
  start=$SECONDS
  if [ -n "$needs" ]; then
    result="skipped (install: $needs; see scripts/deps.sh)"
  else
    "part_$part" 2>&1 | tee "$logs/$part.log"
    if [ "${PIPESTATUS[0]}" -eq 0 ]; then result=passed; else result=FAILED failed=1; fi
    result+=" in $((SECONDS - start)) s: $(tail -n 1 "$logs/$part.log")"
  fi
  summary+=$(printf '%-8s %s' "$part" "$result")$'\n'
done
printf '\n%s' "$summary"
exit "$failed"
