#!/usr/bin/env bash
# From a fresh machine to a first report: installs what is missing, builds, runs examples/train.py under the shim,
# prints the report. Without a GPU it uses the tests' stand-in for CUDA (real PyTorch, kernels do nothing).
set -euo pipefail
cd "$(dirname "$0")/.."

source tests/setup.sh
setup_packages
setup_cuda_headers
setup_torch

build=${VRAMTRACE_BUILD:-$PWD/build}
[ -d "$build/meson-info" ] || meson setup "$build" -Ddriver_include="$VRAMTRACE_CUDA_INCLUDE" > "$build.log" 2>&1 ||
    { cat "$build.log" >&2; exit 1; }
rm -f "$build.log"
ninja -C "$build" | tail -n 1

runner=()
if [ -e /dev/nvidiactl ]; then
    echo "quickstart: running on this machine's GPU"
else
    echo "quickstart: no GPU here: running over the stand-in for CUDA (real PyTorch and real allocations, kernels do nothing)"
    export VRAMTRACE_BUILD=$build VRAMTRACE_PYTHON
    runner=(./tests/standin/run.sh)
fi
trace=$build/quickstart.vrt
rm -f "$trace"
"${runner[@]}" "$build/analyzer/vramtrace" run -o "$trace" -- "$VRAMTRACE_PYTHON" examples/train.py
echo
"$build/analyzer/vramtrace" report "$trace"
