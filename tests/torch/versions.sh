#!/usr/bin/env bash
# Runs what depends on PyTorch's version with others of them: versions.sh VERSION..., such as 2.4.1 2.8.0 2.15.0.
#
# Each gets a virtual environment under ${VRAMTRACE_CACHE:-~/.cache/vramtrace}, of about 2 GB. Build first (tests/run.sh quick).
# VRAMTRACE_VERSION_TESTS: what to run, as pytest takes it.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/setup.sh
[ $# -gt 0 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
export VRAMTRACE_BUILD=${VRAMTRACE_BUILD:-$PWD/build} VRAMTRACE_RUN=$PWD/simulate/run.sh
tests=${VRAMTRACE_VERSION_TESTS:-tests/torch/test_bytes.py tests/torch/test_history.py tests/torch/test_names.py
    tests/torch/test_join.py tests/torch/test_frag.py tests/corpus}
failed=()
for version in "$@"; do
    setup_torch_of "$version"
    echo "==== PyTorch $version"
    chosen=
    if ! $VRAMTRACE_RUN "$VRAMTRACE_PYTHON" -c 'import sys; sys.path[:0] = ["tests/torch", "tests/corpus"]
from training import trainers; trainers.imported()' >/dev/null 2>&1; then
        echo "(the trainers need a newer PyTorch: without them)"
        chosen=$("$VRAMTRACE_PYTHON" -c 'import sys; sys.path.insert(0, "tests/corpus"); import catalogue
print("not (" + " or ".join(name for name, program in catalogue.read().items() if program.file == "trainers") + ")")')
    fi
    "$VRAMTRACE_PYTHON" -m pytest -q $tests ${chosen:+-k "$chosen"} || failed+=("$version")
done
[ ${#failed[@]} -eq 0 ] || { echo "FAILED with PyTorch ${failed[*]}" >&2; exit 1; }
