#!/usr/bin/env bash
# Builds everything and runs every test; no model from the network. Ends with "N passed, N failed".
# CI=true makes compiler warnings errors.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh build test
make -s -j"$(nproc)" all tests
exec make -s test
