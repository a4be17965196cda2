#!/usr/bin/env bash
# Several requests at once, beside llama-batched-bench: tokens of prompts and answers together per second, loading left out.
#
#   bench/requests.sh [--lc LLAMA_BATCHED_BENCH] [--tally FILE] [--parallel N] [--prompt N] [--new N] [--threads N] [--rounds N] MODEL.gguf...
#
# The programs in turn, medians of the rounds (default 3). Every request has a prompt of its own of --prompt tokens (default 128) and
# --new new ones (default 128), --parallel (default 8) at once, greedy, without drafts: drafts would make texts that repeat themselves, as
# those of random weights do, a speed of their own. Before the first round the answers are compared with those of one request at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

lc='' tally=build/release/tally parallel=8 prompt=128 new=128 threads=$(nproc) rounds=3 models=()
while [ $# -gt 0 ]; do
  case $1 in
    --lc) lc=$2 && shift ;;
    --tally) tally=$2 && shift ;;
    --parallel) parallel=$2 && shift ;;
    --prompt) prompt=$2 && shift ;;
    --new) new=$2 && shift ;;
    --threads) threads=$2 && shift ;;
    --rounds) rounds=$2 && shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" && exit 0 ;;
    -*) echo "$0: no option $1; --help lists them" >&2 && exit 2 ;;
    *) models+=("$1") ;;
  esac
  shift
done
[ ${#models[@]} -gt 0 ] || { echo "$0: which models? --help tells" >&2 && exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk -v n="$parallel" -v prompt="$prompt" -v new="$new" 'BEGIN {
  for (i = 0; i < n; i++) {
    printf "{\"ids\": ["
    for (k = 0; k < prompt; k++) printf "%s%d", k ? ", " : "", 100 + (k * 37 + i * 101 + k * k) % 900
    printf "], \"n\": %d, \"ignore_eos\": true, \"temp\": 0}\n", new
  }
}' >"$work/requests.jsonl"

requests() { # model parallel: answers on standard output, the closing line on standard error
  "$tally" run -m "$1" --requests "$work/requests.jsonl" --parallel "$2" -t "$threads" --spec off --json
}
answers() { sed 's/.*"ids": \(\[[^]]*\]\), "text".*/\1/' "$1"; }
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

echo "| model | program | threads | requests | tokens each | total tokens/s | of llama.cpp | answers |"
echo "| --- | --- | ---: | ---: | --- | ---: | ---: | --- |"
for model in "${models[@]}"; do
  cat "$model" >/dev/null
  rm -f "$work"/*.speed
  requests "$model" 1 >"$work/alone" 2>"$work/log" || { cat "$work/log" >&2 && exit 1; }
  equal='equal those alone'
  for ((round = 0; round < rounds; round++)); do
    requests "$model" "$parallel" >"$work/together" 2>"$work/log" || { cat "$work/log" >&2 && exit 1; }
    cmp -s <(answers "$work/alone") <(answers "$work/together") || equal=DIFFER
    sed -n 's/.* new; \([0-9.]*\) s,.*/\1/p' "$work/log" | awk -v n=$((parallel * (prompt + new))) '{ print n / $1 }' >>"$work/tally.speed"
    [ -n "$lc" ] || continue
    "$lc" -m "$model" -c $((parallel * (prompt + new))) -b 2048 -ub 512 -npp "$prompt" -ntg "$new" -npl "$parallel" -t "$threads" -tb "$threads" \
      >"$work/lc" 2>"$work/log" || { tail -3 "$work/log" >&2 && exit 1; }
    awk -F'|' '$2 + 0 > 0 { print $(NF - 1) + 0 }' "$work/lc" >>"$work/lc.speed"
  done
  name=$(basename "$model" .gguf) ours=$(median "$work/tally.speed") theirs=
  [ -n "$lc" ] && theirs=$(median "$work/lc.speed")
  awk -v m="$name" -v t="$threads" -v n="$parallel" -v p="$prompt" -v g="$new" -v a="$ours" -v b="$theirs" -v e="$equal" 'BEGIN {
    printf "| %s | tally | %d | %d | %d + %d | %.1f | %s | %s |\n", m, t, n, p, g, a, b ? sprintf("%.2f", a / b) : "-", e
    if (b) printf "| %s | llama.cpp | %d | %d | %d + %d | %.1f | 1 | - |\n", m, t, n, p, g, b
  }'
  [ "$equal" = DIFFER ] && exit 1
done
exit 0
