#!/usr/bin/env bash
# From a fresh clone to an answer: installs what is missing (as root), builds, fetches a small model, asks it.
#
#   quickstart.sh ["QUESTION"]
set -euo pipefail
cd "$(dirname "$0")/.."

question=${1:-"Why is the sky blue?"}
scripts/deps.sh build
make -s -j"$(nproc)" build/release/tally
model=$(scripts/fetch-model.sh smollm2-135m)
echo "> $question" >&2
exec build/release/tally run -m "$model" --chat -p "$question" -n 256
