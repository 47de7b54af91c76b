#!/usr/bin/env bash
# Trains with the newest Pythons (setup_new_torch of tests/setup.sh), and compares bytes and names with what the training says
# itself: pythons.sh [WHAT], as pytest's -k takes it. Build first (tests/run.sh quick). VRAMTRACE_PYTHON: an interpreter with pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/setup.sh
setup_pytest
setup_new_torch || { echo "no PyTorch for the newest Pythons: not tested" >&2; exit 0; }
export VRAMTRACE_BUILD=${VRAMTRACE_BUILD:-$PWD/build} VRAMTRACE_RUN=$PWD/simulate/run.sh
failed=() venvs=()
runner=$VRAMTRACE_PYTHON
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in $setup_new_pythons; do # beside each other
    for venv in "$VRAMTRACE_CACHE"/venv-torch-*-py"$version"; do
        VRAMTRACE_PYTHON=$venv/bin/python "$runner" -m pytest -q tests/torch/test_bytes.py tests/torch/test_names.py -k "${1:-transformer_amp}" >"$folder/${venv##*/}" 2>&1 &
        venvs+=("$!:$version:${venv##*/}")
    done
done
for venv in "${venvs[@]}"; do
    IFS=: read -r process version name <<<"$venv"
    wait "$process" || failed+=("$version")
    echo "==== Python $version, $name"
    cat "$folder/$name"
done
[ ${#failed[@]} -eq 0 ] || { echo "FAILED on Python ${failed[*]}" >&2; exit 1; }
