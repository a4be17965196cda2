#!/usr/bin/env bash
# Compares the logits of tiny models, one per weight type, over the kernel levels of several processors, by their bytes.
#
#   check-levels.sh DUMP...      each a command that runs tests/levels/dump_logits on one processor, e.g.
#                                check-levels.sh build/release/tests/levels/dump_logits "qemu-aarch64 build/aarch64/tests/levels/dump_logits"
#
# Exit code 0: every level of every processor gives the same bits for every model.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n 's/^# \{0,1\}//p' "$0" | sed -n 2,7p >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0
for dump in "$@"; do
  n=$((n + 1))
  mkdir "$work/$n"
  $dump "$work/$n" # a command with its arguments
done
models=$(cd "$work/1" && printf '%s\n' * | sed 's/\..*//' | sort -u)
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
[ "$bad" -eq 0 ]
