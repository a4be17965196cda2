#!/usr/bin/env bash
# Shows on a real model that requests answered together equal requests answered alone: greedy and sampled, of mixed length, some behind
# a common prefix of 1,000 tokens, at several widths, with prefix reuse and without, and with a cache so small that sequences are preempted.
#
#   check-parallel.sh MODEL [WIDTH...]      default widths: 1 2 3 8 32
#
# Each request alone is a process of its own. Ends with "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:?usage: check-parallel.sh MODEL [WIDTH...]}
shift
[ $# -gt 0 ] || set -- 1 2 3 8 32
tally=build/release/tally
work=$(mktemp -d build/parallel.XXXXXX)
trap 'rm -rf "$work"' EXIT

ids=$("$tally" tokenize -m "$model" <tests/real/english.txt | tr -d '[] \n')
prefix=$(echo "$ids,$ids,$ids" | cut -d, -f1-1000)
{
  echo '{"prompt": "The sea is", "n": 24}'
  echo '{"prompt": "def quicksort(a):", "n": 40, "temp": 0.8, "top_p": 0.95, "seed": 1}'
  for i in 1 2 3 4 5 6; do
    echo "{\"ids\": [$prefix,$i], \"n\": 16}"
    echo "{\"ids\": [$prefix,$((i + 100))], \"n\": 12, \"temp\": 1, \"top_k\": 40, \"min_p\": 0.02, \"seed\": $i}"
  done
  echo '{"messages": [{"role": "user", "content": "Name three colours."}], "n": 48}'
  echo '{"prompt": "One, two, three,", "n": 64, "repeat_penalty": 1.3, "frequency_penalty": 0.2}'
  echo "{\"ids\": [$(echo "$ids" | cut -d, -f1-63)], \"n\": 20, \"temp\": 0.7, \"seed\": 9, \"stop\": [\" the\"]}"
} >"$work/requests.jsonl"

answers() { sed 's/, "timings": {[^}]*}//; s/"seed": [0-9]*/"seed": 0/; s/, "drafted": .*"shadow_checks": [0-9]*//'; } # what must not differ

n=0
: >"$work/alone"
while read -r line; do
  n=$((n + 1))
  echo "$line" >"$work/one.jsonl"
  "$tally" run -m "$model" --requests "$work/one.jsonl" --parallel 1 2>/dev/null | answers >>"$work/alone"
done <"$work/requests.jsonl"

passed=0 failed=0
together() { # what, options
  local what=$1 summary
  shift
  "$tally" run -m "$model" --requests "$work/requests.jsonl" "$@" 2>"$work/summary" | answers >"$work/together"
  summary=$(tail -n 1 "$work/summary")
  if cmp -s "$work/alone" "$work/together"; then
    passed=$((passed + 1))
    echo "ok: $what: $n answers equal those alone ($summary)"
  else
    failed=$((failed + 1))
    echo "FAILED: $what: $(diff "$work/alone" "$work/together" | grep -c '^<') of $n answers differ"
  fi
}
for width in "$@"; do together "--parallel $width" --parallel "$width"; done
together "--parallel 8, no prefix reuse" --parallel 8 --no-prefix-reuse
together "--parallel 8, a cache of 1,280 positions" --parallel 8 --cache-positions 1280
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
