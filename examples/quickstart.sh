#!/usr/bin/env bash
# From a fresh machine to a first report: quickstart.sh [SCRIPT [ARGUMENT...]]   (default: examples/train.py)
# Installs what is missing (0.7 GB; 2 minutes on 2 cores), builds, runs the script under the recorder, prints the report.
# Without a GPU it uses a simulated CUDA: real PyTorch, real allocations, but kernels compute nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "quickstart: $*" >&2; }

source packaging/setup.sh
setup_packages
setup_cuda_headers
build=${VRAMTRACE_BUILD:-$PWD/build}
runner=()
if setup_gpu; then
    setup_build "$build" demo analyzer/vramtrace -Dtests=false
    setup_own_torch || setup_torch
    reason=$("$VRAMTRACE_PYTHON" -c 'import torch; torch.cuda.init()' 2>&1) || {
        say "PyTorch cannot use this machine's GPU ($VRAMTRACE_PYTHON): ${reason##*$'\n'}"
        exit 1
    }
    say "running on this machine's GPU with $VRAMTRACE_PYTHON"
else
    setup_build "$build" demo simulate/libcuda.so.1 -Dtests=false
    setup_torch
    say "no GPU found: using a simulated CUDA (real PyTorch and real allocations; kernels compute nothing)"
    export VRAMTRACE_BUILD=$build
    runner=(./simulate/run.sh)
fi
trace=$build/quickstart.vrt
rm -f "$trace"
"${runner[@]}" "$build/analyzer/vramtrace" run -o "$trace" -- "$VRAMTRACE_PYTHON" "${@:-examples/train.py}"
echo
"$build/analyzer/vramtrace" report "$trace"
echo
say "to trace another script: ./examples/quickstart.sh examples/leak.py"
