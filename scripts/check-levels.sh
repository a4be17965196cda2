#!/usr/bin/env bash
# Compares the logits of tiny models, one per weight type, over the kernel levels of several processors, by their bytes.
#
#   check-levels.sh DUMP...      each a command that runs tests/levels/dump_logits on one processor, e.g.
#                                check-levels.sh build/release/tests/levels/dump_logits "qemu-aarch64 build/aarch64/tests/levels/dump_logits"
#
# LEVELS: those that have to be among them, in words. Exit code 0: every level of every processor gives the same bits for every model, and
# every processor has the same models.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n 's/^# \{0,1\}//p' "$0" | sed -n 2,8p >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
for dump in "$@"; do
  n=$((n + 1))
  mkdir "$work/$n"
  $dump "$work/$n" # a command with its arguments
done
models_of() { (cd "$1" && printf '%s\n' * | sed 's/\..*//' | sort -u); }
models=$(models_of "$work/1")
for ((i = 2; i <= n; i++)); do
  [ "$(models_of "$work/$i")" = "$models" ] || { echo "check-levels.sh: the models of command $i are others than those of the first" >&2 && exit 1; }
done
bad=0 compared=0 levels=" "
for model in $models; do
  files=("$work"/*/"$model".*)
  first=${files[0]}
  for file in "${files[@]}"; do
    level=${file##*.}
    case $levels in *" $level "*) ;; *) levels+="$level " ;; esac
    compared=$((compared + 1))
    cmp -s "$first" "$file" && continue
    echo "$model: level $level differs from ${first##*.}" >&2
    bad=$((bad + 1))
  done
done
echo "levels:${levels% }; $compared files of $(echo "$models" | wc -l) models compared, $bad differ"
for level in ${LEVELS:-}; do
  case $levels in *" $level "*) ;; *) echo "check-levels.sh: no processor ran level $level" >&2 && bad=$((bad + 1)) ;; esac
done
[ "$bad" -eq 0 ]
