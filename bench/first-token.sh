#!/usr/bin/env bash
# The time from starting a program to its first token, and the memory it held, with the file in the page cache.
#
#   bench/first-token.sh [--lc LLAMA_COMPLETION] [--tally FILE] [--threads N] [--rounds N] MODEL.gguf...
#
# A prompt of about 32 tokens, one token more, the programs in turn, medians. The limit of memory: (file + cache) * 1.15.
set -euo pipefail
cd "$(dirname "$0")/.."

lc='' tally=build/release/tally threads=$(nproc) rounds=5 models=()
while [ $# -gt 0 ]; do
  case $1 in
    --lc) lc=$2 && shift ;;
    --tally) tally=$2 && shift ;;
    --threads) threads=$2 && shift ;;
    --rounds) rounds=$2 && shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" && exit 0 ;;
    -*) echo "$0: no option $1; --help lists them" >&2 && exit 2 ;;
    *) models+=("$1") ;;
  esac
  shift
done
[ ${#models[@]} -gt 0 ] || { echo "$0: which models? --help tells" >&2 && exit 2; }
[ -x /usr/bin/time ] || { echo "$0: /usr/bin/time (GNU time) is needed" >&2 && exit 1; }
prompt='The harbour was quiet when the first boats came back. Men carried baskets over the wet stones, and gulls waited on the wall for what would fall.'
times=$(mktemp -d)
trap 'rm -rf "$times"' EXIT

timed() { # file command...
  local to=$1
  shift
  /usr/bin/time -a -o "$to" -f '%e %U %S %M' "$@" >/dev/null 2>"$times/log" </dev/null || { tail -3 "$times/log" >&2 && return 1; }
}

column() { # file column: the median
  awk -v c="$2" '{ print $c }' "$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

echo "| model | program | threads | first token, s | user s | system s | memory MB | limit MB |"
echo "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
for model in "${models[@]}"; do
  cat "$model" >/dev/null
  rm -f "$times"/tally "$times"/lc
  for ((round = 0; round < rounds; round++)); do
    timed "$times/tally" "$tally" run -m "$model" -p "$prompt" -n 1 -t "$threads"
    if [ -n "$lc" ] && ! timed "$times/lc" "$lc" -m "$model" -p "$prompt" -n 1 -t "$threads" -no-cnv --no-warmup; then
      echo "$0: $lc failed on $model" >&2
      exit 1
    fi
  done
  cache=$("$tally" run -m "$model" -p "$prompt" -n 1 -t "$threads" -v 2>&1 >/dev/null | awk '$1 == "cache" { print $2 }')
  for program in tally ${lc:+lc}; do
    limit=-
    [ "$program" = tally ] && limit=$(awk -v f="$(stat -Lc %s "$model")" -v c="$cache" 'BEGIN { printf "%.1f", (f / 1e6 + c) * 1.15 }')
    awk -v m="$(basename "$model" .gguf)" -v p="$program" -v t="$threads" -v e="$(column "$times/$program" 1)" \
      -v u="$(column "$times/$program" 2)" -v s="$(column "$times/$program" 3)" -v k="$(column "$times/$program" 4)" -v l="$limit" \
      'BEGIN { printf "| %s | %s | %d | %.2f | %.2f | %.2f | %.1f | %s |\n", m, p, t, e, u, s, k * 1024 / 1e6, l }'
  done
done
