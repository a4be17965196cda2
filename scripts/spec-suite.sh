#!/usr/bin/env bash
# Shows on real models that speculation changes nothing: every prompt of bench/prompts/spec.txt, with and without drafts, in every mode,
# greedy and sampled, 1 and 4 at once, with 1 and 2 threads, once to stops; and how fast the default mode is. Takes hours: every cell
# leaves a file in FOLDER, and a cell whose file is there is not run again, so that the script can be stopped and started. The plain
# answers of a model and a sampling are computed once, by the first cell that needs them, and kept there too.
#
#   spec-suite.sh [options] MODEL[:DRAFT]...       models alone: lookup and tree; with a draft model: draft, tree and lookup
#
#   -o FOLDER     where results are (default build/spec-suite)
#   -n TOKENS     of each answer (default 256; less for a short look)
#   -r PAIRS      timed pairs of the cells that measure speed (default 5; 0: no such cells)
#   -c PATTERN    only cells whose name matches this extended regular expression: greedy-p4, "draft.*-t2"
#   -k DRAFTS     most that a draft model makes for a step (default 4: more seldom pay; lookup makes up to 16)
#   -p FILE       another set of prompts
#   -s FILE       also write the summary there (FOLDER/summary.md is always written)
#
#   spec-suite.sh models/smollm2-135m.gguf models/qwen2.5-coder-0.5b.gguf models/qwen2.5-coder-1.5b.gguf:models/qwen2.5-coder-0.5b.gguf
#
# Exits with 1 when any answer differs or any cell fails.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/spec-suite tokens=256 pairs=5 drafts=4 prompts=bench/prompts/spec.txt summary="" pattern=.
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
while getopts "o:n:r:c:k:p:s:h" option; do
  case $option in
    o) folder=$OPTARG ;;
    n) tokens=$OPTARG ;;
    r) pairs=$OPTARG ;;
    c) pattern=$OPTARG ;;
    k) drafts=$OPTARG ;;
    p) prompts=$OPTARG ;;
    s) summary=$OPTARG ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage
tally=${TALLY:-build/release/tally}
[ -x "$tally" ] || { echo "spec-suite.sh: $tally is not there; run make first" >&2; exit 1; }
mkdir -p "$folder"
# Cells of another build or other prompts would stand in the same table.
settings="tally: $(cksum <"$tally"), prompts: $(cksum <"$prompts")"
[ -e "$folder/settings" ] || compgen -G "$folder/*.json" >/dev/null || echo "$settings" >"$folder/settings"
[ "$settings" = "$(cat "$folder/settings" 2>/dev/null)" ] || {
  echo "spec-suite.sh: $folder holds cells of $(cat "$folder/settings" 2>/dev/null || echo "an unknown build"), not of $settings; give another -o, or remove the folder" >&2
  exit 2
}
n_prompts=$(grep -c '^=== ' "$prompts")

# ---- the cells: file, weight (answers of every prompt), model, draft, arguments ----------------------------------------------
cells=()
set_mode() { # mode: sets $uses, the draft model or -, and $limit, the option that goes with it
  uses=$draft limit=()
  [ "$1" != lookup ] || uses=-
  [ "$uses" = - ] || limit=(--draft-max "$drafts")
}
add_cell() { # name, passes (but for the plain answers that are kept), model, draft or -, arguments...
  local file
  [[ $1 =~ $pattern ]] || return 0
  file="$folder/$1-n$tokens.json"
  shift
  cells+=("$file $*")
}
for pair in "$@"; do
  model=${pair%%:*} draft=-
  [ "$model" = "$pair" ] || draft=${pair#*:}
  for file in "$model" "$draft"; do
    [ "$file" = - ] || [ -e "$file" ] || { echo "spec-suite.sh: there is no model $file" >&2; exit 1; }
  done
  name=$(basename "$model" .gguf) with=
  [ "$draft" = - ] || with="+$(basename "$draft" .gguf)-k$drafts"
  modes="lookup tree"
  [ "$draft" = - ] || modes="draft tree lookup"
  for parallel in 1 4; do
    for threads in 2 1; do
      for mode in $modes; do
        set_mode "$mode"
        common="-r 0 --spec $mode ${limit[*]} --parallel $parallel -t $threads --spec-plain $folder/$name-plain"
        # shellcheck disable=SC2086
        add_cell "$name$with-$mode-greedy-p$parallel-t$threads" 1 "$model" "$uses" $common-greedy-n$tokens.json
        # shellcheck disable=SC2086
        add_cell "$name$with-$mode-sampled-p$parallel-t$threads" 1 "$model" "$uses" $common-sampled-n$tokens.json --temp 0.8 --top-p 0.95 --seed 1
      done
    done
  done
  for mode in $modes; do
    set_mode "$mode"
    add_cell "$name$with-$mode-stops-p4-t2" 2 "$model" "$uses" -r 0 --spec "$mode" "${limit[@]}" --parallel 4 -t 2 --spec-stops --shadow 8
  done
  if [ "$pairs" -gt 0 ]; then
    add_cell "$name$with-auto-speed-p1-t1" $((2 * pairs + 2)) "$model" "$draft" -r "$pairs" --spec auto --parallel 1 -t 1
  fi
done

# ---- how long ----------------------------------------------------------------------------------------------------------------
declare -A speed # tokens per second of a model with so many threads
speed_of() {     # model, threads: sets $found
  local key="$1 $2"
  if [ -z "${speed[$key]:-}" ]; then
    speed[$key]=$("$tally" bench -m "$1" -p 0 -n 16 -r 1 -t "$2" -o json | awk -F': ' '/"avg_ts"/ {gsub(/,/, "", $2); print $2}')
  fi
  found=${speed[$key]}
}
seconds_of() { # a cell: sets $seconds; drafts and several at once make it less
  local words threads
  read -r -a words <<<"$1"
  threads=$(sed -n 's/.* -t \([0-9]*\).*/\1/p' <<<"$1")
  speed_of "${words[2]}" "$threads"
  seconds=$(awk -v n="$n_prompts" -v t="$tokens" -v passes="${words[1]}" -v speed="$found" 'BEGIN {printf "%d", n * t * passes / speed + 1}')
}
clock() { printf '%d:%02d h' $(($1 / 3600)) $(($1 % 3600 / 60)); }

[ ${#cells[@]} -gt 0 ] || { echo "$0: no cell matches '$pattern'" >&2 && exit 2; }
left=0 missing=0
for cell in "${cells[@]}"; do
  [ -s "${cell%% *}" ] && continue
  missing=$((missing + 1))
  seconds_of "$cell"
  left=$((left + seconds))
done
echo "${#cells[@]} cells of $n_prompts prompts, $((${#cells[@]} - missing)) done; the others take $(clock $left) at the speed of single sequences without drafts, often less"

# ---- the run -----------------------------------------------------------------------------------------------------------------
failed=0 at=0
for cell in "${cells[@]}"; do
  at=$((at + 1))
  read -r -a words <<<"$cell"
  file=${words[0]} model=${words[2]} draft=${words[3]}
  [ -s "$file" ] && continue
  seconds_of "$cell"
  left=$((left - seconds))
  with=()
  [ "$draft" = - ] || with=(-md "$draft")
  start=$SECONDS rc=0
  "$tally" bench -m "$model" "${with[@]}" --spec-suite --spec-prompts "$prompts" -n "$tokens" -o json "${words[@]:4}" >"$file.part" || rc=$?
  if [ $rc = 130 ]; then
    rm -f "$file.part"
    echo "interrupted; start again to go on"
    exit 130
  fi
  if [ -s "$file.part" ]; then # 1 with a result: some answer differs, which the summary tells
    mv "$file.part" "$file"
  else
    rm -f "$file.part"
    failed=$((failed + 1))
  fi
  echo "[$at/${#cells[@]}] $(basename "$file" .json): exit code $rc, $((SECONDS - start)) s (at most $seconds s expected); $(clock $left) left"
done

# ---- the summary: jansson prints one field a line ------------------------------------------------------------------------------
shopt -s nullglob
files=()
for cell in "${cells[@]}"; do
  [ -s "${cell%% *}" ] && files+=("${cell%% *}")
done
# shellcheck disable=SC2016
awk -v n_cells="${#cells[@]}" '
  function value(line) { sub(/^[^:]*: /, "", line); sub(/,$/, "", line); gsub(/"/, "", line); return line }
  function base(path) { sub(/.*\//, "", path); sub(/\.gguf$/, "", path); return path }
  function median_of(list, n,   i, j, t, v) {
    split(list, v, " ")
    for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return n == 0 ? "-" : sprintf("%.3f", n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2)
  }
  /^  \{/ { delete f }
  /^    "/ { key = $1; gsub(/[":]/, "", key); f[key] = value($0) }
  /^  \}/ {
    model = base(f["model_filename"]) (f["draft_filename"] == "null" ? "" : " with " base(f["draft_filename"]))
    how = (f["temp"] + 0 > 0 ? "sampled" : "greedy") (f["stops"] == "true" ? ", to stops" : "")
    cell = "| " model " | " f["spec"] " | " how " | " f["n_parallel"] " | " f["n_threads"] " |"
    if (!(cell in prompts)) order[++n] = cell
    prompts[cell]++; equal[cell] += f["equals_plain"] == "true"; tokens[cell] += f["n_tokens"]
    drafted[cell] += f["drafted"]; accepted[cell] += f["accepted"]; steps[cell] += f["verify_steps"]; emitted[cell] += f["emitted"]
    shadow[cell] += f["shadow_checks"]
    loops[cell] += f["plain_repetition"] != "OK"; loops_drafted[cell] += f["drafted_repetition"] != "OK"
    text = base(f["model_filename"]) how f["n_gen"] f["class"] "/" f["name"]
    if (!(text in hash)) hash[text] = f["ids_hash"]
    other[cell] += hash[text] != f["ids_hash"]
    answers++; all_equal += f["equals_plain"] == "true" && hash[text] == f["ids_hash"]
    build[f["build_commit"]] = 1; n_gen = f["n_gen"]
    if (f["equals_plain"] != "true") bad = bad "\n* " cell " " f["class"] "/" f["name"]
    if (f["n_pairs"] + 0 > 0 && f["ratio"] != "null") {
      class = model " | " f["spec"] " | " f["class"]
      if (!(class in n_of)) classes[++n_classes] = class
      n_of[class]++; ratios[class] = ratios[class] " " f["ratio"]; plain[class] = plain[class] " " f["plain_ts"]
      fast[class] = fast[class] " " f["drafted_ts"]; class_drafted[class] += f["drafted"]; class_accepted[class] += f["accepted"]
      if (!(class in worst) || f["ratio"] + 0 < worst[class]) { worst[class] = f["ratio"] + 0; worst_name[class] = f["name"] }
    }
  }
  END {
    printf "%d of %d cells; %d answers of up to %s tokens, of which %d equal plain decoding and the same answer in every other cell.\n", n, n_cells, answers, n_gen, all_equal
    printf "Builds:"; for (b in build) printf " %s", b; print "\n"
    print "| model | mode | sampling | parallel | threads | equal plain | other text than in other cells | tokens | drafted | accepted | tokens/step | shadow checks | plain not OK | drafted not OK |"
    print "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for (i = 1; i <= n; i++) {
      c = order[i]
      printf "%s %d of %d | %d | %d | %d | %s | %s | %d | %d | %d |\n", c, equal[c], prompts[c], other[c], tokens[c], drafted[c],
        drafted[c] ? sprintf("%.0f %%", 100 * accepted[c] / drafted[c]) : "-", steps[c] ? sprintf("%.2f", emitted[c] / steps[c]) : "-", shadow[c], loops[c], loops_drafted[c]
    }
    if (bad) print "\nDiffering:" bad
    if (n_classes) {
      print "\nSpeed, 1 thread, greedy: medians over the prompts of a class, each the median of interleaved pairs.\n"
      print "| model | mode | class | prompts | plain t/s | drafted t/s | ratio | worst prompt | accepted |\n| --- | --- | --- | ---: | ---: | ---: | ---: | --- | ---: |"
      for (i = 1; i <= n_classes; i++) {
        c = classes[i]
        printf "| %s | %d | %s | %s | %s | %.3f %s | %s |\n", c, n_of[c], median_of(plain[c], n_of[c]), median_of(fast[c], n_of[c]), median_of(ratios[c], n_of[c]), worst[c], worst_name[c],
          class_drafted[c] ? sprintf("%.0f %%", 100 * class_accepted[c] / class_drafted[c]) : "-"
      }
    }
    exit all_equal < answers
  }' /dev/null "${files[@]}" >"$folder/summary.md" || failed=$((failed + 1))
[ -z "$summary" ] || cp "$folder/summary.md" "$summary"
head -n 1 "$folder/summary.md"
echo "the tables are in $folder/summary.md"
[ $failed = 0 ]
