#!/usr/bin/env bash
# Costs next to PyTorch's own recorder: tests/bench/run.sh [--rounds N] [--markdown FILE]. Needs a build (tests/run.sh quick).
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/setup.sh
setup_trainers
export VRAMTRACE_PYTHON VRAMTRACE_BUILD=${VRAMTRACE_BUILD:-$PWD/build}
if setup_gpu; then export VRAMTRACE_RUN=; else export VRAMTRACE_RUN="$PWD/simulate/run.sh"; fi
exec "$VRAMTRACE_PYTHON" tests/bench/run.py "$@"
