#!/usr/bin/env bash
# shellcheck disable=SC2034 # PROGRAM_commit and PROGRAM_args are read by name
# Runs tally and its peers side by side on the same files and writes a table of medians with what was measured where.
#
#   bench/peers.sh [options] MODEL.gguf...
#
#   --lc FILE, --ik FILE   llama-bench of llama.cpp, of ik_llama.cpp; either may be left out
#   --lc-commit TEXT, --ik-commit TEXT   what they were built from, if they do not know themselves
#   --tally FILE           default: build/release/tally
#   --tests LIST           default: pp512,pp64,tg128,tg128@4096,pp512@4096 (NUMBER@DEPTH)
#   --threads LIST         default: 1,2
#   --rounds N             default: 3; in each round every program runs every cell once, in turn, another one first
#   --name NAME            default: today's date and -peers; the table is bench/results/NAME.md
#   --lc-args, --ik-args, --tally-args TEXT   added to each call of that program
#   --table                no runs: writes the table of what is there
#
# Every run is kept in build/peers/NAME, so that a call that was interrupted goes on where it ended. A program that fails is
# noted in the table and not run again (delete the run's file to try again). Each speed of tally comes with its check against
# plain greedy decoding and with its ceiling on this machine (tally bench). ik_llama.cpp's llama-bench has no -d: generation at a
# depth is its -gp, a prompt at a depth is what a prompt of depth + N takes longer than one of depth.
set -euo pipefail
cd "$(dirname "$0")/.."

lc='' ik='' tally=build/release/tally tests=pp512,pp64,tg128,tg128@4096,pp512@4096 threads=1,2 rounds=3 name=$(date +%F)-peers
lc_commit='' ik_commit='' tally_commit='' lc_args='' ik_args='' tally_args='' table_only=no models=()
while [ $# -gt 0 ]; do
  case $1 in
    --lc) lc=$2 && shift ;;
    --ik) ik=$2 && shift ;;
    --tally) tally=$2 && shift ;;
    --lc-commit) lc_commit=$2 && shift ;;
    --ik-commit) ik_commit=$2 && shift ;;
    --tests) tests=$2 && shift ;;
    --threads) threads=$2 && shift ;;
    --rounds) rounds=$2 && shift ;;
    --name) name=$2 && shift ;;
    --lc-args) lc_args=$2 && shift ;;
    --ik-args) ik_args=$2 && shift ;;
    --tally-args) tally_args=$2 && shift ;;
    --table) table_only=yes ;;
    -h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" && exit 0 ;;
    -*) echo "$0: no option $1; --help lists them" >&2 && exit 2 ;;
    *) models+=("$1") ;;
  esac
  shift
done
[ ${#models[@]} -gt 0 ] || { echo "$0: which models? --help tells" >&2 && exit 2; }
for file in "${models[@]}"; do [ -r "$file" ] || { echo "$0: $file cannot be read" >&2 && exit 2; }; done
IFS=, read -ra test_list <<<"$tests"
IFS=, read -ra thread_list <<<"$threads"
for test in "${test_list[@]}"; do
  [[ $test =~ ^(pp|tg)[0-9]+(@[0-9]+)?$ ]] || { echo "$0: $test is no test; pp512 and tg128@4096 are" >&2 && exit 2; }
done
programs=(tally)
[ -n "$lc" ] && programs+=(lc)
[ -n "$ik" ] && programs+=(ik)
raw=build/peers/$name
mkdir -p "$raw"

# ---- runs ------------------------------------------------------------------------------------------------------------------

run_file() { echo "$raw/$(basename "$3" .gguf).$4.t$5.$2.$1"; } # round program model test threads

# The number behind "key": in a JSON text on standard input, of its n-th row.
number() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p" | sed -n "${2:-1}p"; }

run_tally() { # model kind n depth threads
  local what=(-p "$3" -n 0)
  [ "$2" = tg ] && what=(-p 0 -n "$3")
  # shellcheck disable=SC2086
  "$tally" bench -m "$1" "${what[@]}" -d "$4" -t "$5" -r 1 -o json $tally_args
}

run_lc() {
  local what=(-p "$3" -n 0)
  [ "$2" = tg ] && what=(-p 0 -n "$3")
  [ "$4" -gt 0 ] && what+=(-d "$4")
  # shellcheck disable=SC2086
  "$lc" -m "$1" "${what[@]}" -t "$5" -r 1 -o json $lc_args
}

run_ik() {
  local what=(-p "$3" -n 0)
  [ "$2" = tg ] && what=(-p 0 -n "$3")
  [ "$4" -gt 0 ] && [ "$2" = tg ] && what=(-p 0 -n 0 -gp "$4,$3")
  [ "$4" -gt 0 ] && [ "$2" = pp ] && what=(-p "$4,$(($4 + $3))" -n 0)
  # shellcheck disable=SC2086
  "$ik" -m "$1" "${what[@]}" -t "$5" -r 1 -o json $ik_args
}

run_cell() { # round program model test threads
  local file kind n depth
  file=$(run_file "$@")
  [ -e "$file" ] && return
  kind=${4:0:2} n=${4:2} depth=0
  [[ $n == *@* ]] && depth=${n#*@} && n=${n%@*}
  echo "round $1: $2, $(basename "$3"), $4, $5 threads" >&2
  if ! "run_$2" "$3" "$kind" "$n" "$depth" "$5" >"$file.part" 2>"$file.log"; then
    echo '[{"failed": true}]' >"$file.part"
    echo "  failed; see $file.log" >&2
  fi
  mv "$file.part" "$file"
}

# What the kept runs were made with: a run with another program or other options would stand under the same heading.
check_settings() {
  local settings program args
  settings=$(
    for program in "${programs[@]}"; do
      args=${program}_args
      echo "$program: $(cksum <"${!program}"), options '${!args}'"
    done
  )
  [ -e "$raw/settings" ] || echo "$settings" >"$raw/settings"
  [ "$settings" = "$(cat "$raw/settings")" ] || {
    echo "$0: $raw holds runs of other programs or options; give another --name, or remove the folder" >&2
    diff "$raw/settings" - <<<"$settings" >&2 || true
    exit 2
  }
}

run_all() {
  local round model test t i
  check_settings
  for ((round = 1; round <= rounds; round++)); do
    for model in "${models[@]}"; do
      for test in "${test_list[@]}"; do
        for t in "${thread_list[@]}"; do
          for ((i = 0; i < ${#programs[@]}; i++)); do
            run_cell "$round" "${programs[(i + round) % ${#programs[@]}]}" "$model" "$test" "$t"
          done
        done
      done
    done
  done
  [ -e "$raw/machine" ] || { "$tally" bench --machine -t "$threads" >"$raw/machine.part" && mv "$raw/machine.part" "$raw/machine"; }
}

# ---- the table -------------------------------------------------------------------------------------------------------------

median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%.6g", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# Tokens per second of one run: nothing if it failed.
speed_of() { # file program test
  local depth=${3#*@} n=${3:2}
  if [ "$2" = ik ] && [[ $3 == pp*@* ]]; then
    n=${n%@*}
    paste <(number avg_ns 1 <"$1") <(number avg_ns 2 <"$1") |
      awk -v n="$n" -v d="$depth" 'NF == 2 && $2 > $1 { print n / ($2 - $1) * 1e9 }'
  else
    number avg_ts <"$1"
  fi
}

speeds() { # program model test threads
  local round file
  for ((round = 1; round <= rounds; round++)); do
    file=$(run_file "$round" "$@")
    if [ -e "$file" ]; then speed_of "$file" "$1" "$3"; fi
  done
}

failed_of() { # program model test threads: " (1 of 3 failed)" or nothing
  local round file n=0
  for ((round = 1; round <= rounds; round++)); do
    file=$(run_file "$round" "$@")
    if [ -e "$file" ] && grep -q '"failed"' "$file"; then n=$((n + 1)); fi
  done
  [ $n = 0 ] || echo " ($n of $rounds failed)"
}

values() { # key model test threads: of all of tally's runs
  local round file
  for ((round = 1; round <= rounds; round++)); do
    file=$(run_file "$round" tally "$2" "$3" "$4")
    if [ -e "$file" ]; then number "$1" <"$file"; fi
  done
}

commit_of() { # program
  local file given=${1}_commit
  [ -n "${!given}" ] && echo "${!given}" && return
  for file in "$raw"/*."$1".[0-9]*; do
    case $file in *.log | *.part) continue ;; esac
    grep -q build_commit "$file" && number build_commit <"$file" && return
  done
  echo unknown
}

write_row() { # model test threads
  local lc_ts ik_ts ts ids label
  lc_ts=$(speeds lc "$@" | median) ik_ts=$(speeds ik "$@" | median) ts=$(speeds tally "$@" | median)
  local lc_failed ik_failed tally_failed
  lc_failed=$(failed_of lc "$@") ik_failed=$(failed_of ik "$@") tally_failed=$(failed_of tally "$@")
  ids=$(values ids "$@" | sort -u | paste -sd/) label=$(values repetition "$@" | grep -v '^null' | sort -u | paste -sd/ || true)
  awk -v model="$(basename "$1" .gguf)" -v test="$2" -v t="$3" -v lc="$lc_ts" -v ik="$ik_ts" -v ts="$ts" -v ids="$ids" \
    -v label="$label" -v lc_failed="$lc_failed" -v ik_failed="$ik_failed" -v tally_failed="$tally_failed" -v best="$(values best_ts "$@" | median)" -v bound="$(values bound "$@" | sort -u | paste -sd/)" '
    function cell(x) { return x == "" ? "-" : sprintf("%.1f", x) }
    BEGIN {
      peer = lc + 0 > ik + 0 ? lc + 0 : ik + 0
      printf "| %s | %s | %d | %s | %s | %s | %s | %s %s | %s | %s | %s |\n", model, test, t, cell(lc) lc_failed, cell(ik) ik_failed, cell(ts) tally_failed,
        peer && ts != "" ? sprintf("%.2f", ts / peer) : "-", cell(best), bound,
        best != "" && ts != "" ? sprintf("%.0f %%", 100 * ts / best) : "-", ids, label
    }'
}

write_table() {
  local model test t program
  echo "# $name"
  echo
  echo "Machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) processors, $(uname -srm)."
  echo "Programs: tally $(commit_of tally)$([ -n "$lc" ] && echo ", llama.cpp (lc) $(commit_of lc)")$(
    [ -n "$ik" ] && echo ", ik_llama.cpp (ik) $(commit_of ik)"
  ). Interleaved, $rounds rounds, medians of tokens/s; one warm-up before each run."
  for program in "${programs[@]}"; do
    local args=${program}_args
    [ -n "${!args}" ] && echo "Added options of $program: ${!args}."
  done
  cat <<'END'
Ratio: tally to the better peer. At best: what the cell can reach, the bytes it must read over the measured bandwidth or its
operations over the measured speed of the kernels, whichever takes longer, by the same run's counts (median). Ids: equal to plain greedy decoding.

END
  echo "| model | test | threads | lc | ik | tally | ratio | at best | reached | ids | label |"
  echo "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |"
  for model in "${models[@]}"; do
    for test in "${test_list[@]}"; do
      for t in "${thread_list[@]}"; do write_row "$model" "$test" "$t"; done
    done
  done
  if [ -e "$raw/machine" ]; then printf '\n' && cat "$raw/machine"; fi
  printf '\n    bench/peers.sh --name %s --tests %s --threads %s --rounds %s %s\n' "$name" "$tests" "$threads" "$rounds" \
    "$(basename -a "${models[@]}" | paste -sd' ')"
}

[ "$table_only" = yes ] || run_all
write_table >"bench/results/$name.md"
echo "bench/results/$name.md"
