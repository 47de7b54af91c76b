#!/usr/bin/env bash
# Runs the tests that mean the same on a real GPU, with the machine's own driver and PyTorch.
#
#     tests/gpu/run.sh [PYTHON]      PYTHON has torch and pytest; default: python3
#
# Leaves out comparisons with the stand-in's counts; everything else is the same test. Builds into build-gpu.
set -euo pipefail
cd "$(dirname "$0")/../.."
export VRAMTRACE_PYTHON=${1:-python3} VRAMTRACE_RUN= VRAMTRACE_BUILD=$PWD/build-gpu
[ -e /dev/nvidiactl ] || { echo "tests/gpu/run.sh: no NVIDIA driver here (/dev/nvidiactl is missing)" >&2; exit 2; }
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
"$VRAMTRACE_PYTHON" -c 'import sys, torch; print("Python", sys.version.split()[0], "torch", torch.__version__)'
[ -d "$VRAMTRACE_BUILD/meson-info" ] || meson setup "$VRAMTRACE_BUILD"
ninja -C "$VRAMTRACE_BUILD"
"$VRAMTRACE_PYTHON" -m pytest -q tests/torch tests/frameworks tests/faults/test_killed.py tests/faults/test_bystanders.py
