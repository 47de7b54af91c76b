#!/bin/sh
# Runs a command over the stand-in CUDA libraries: run.sh [-b BUILD] COMMAND...
#
# BUILD (or $VRAMTRACE_BUILD, else build/ in the project's root) is the meson build folder. With a PyTorch in
# $VRAMTRACE_TORCH, or in the cache that tests/setup.sh fills, its NVIDIA libraries are stood in for too.
# `python` as the command is the interpreter that has this PyTorch.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=${VRAMTRACE_BUILD:-$here/../../build}
if [ "${1:-}" = -b ]; then
    build=$2
    shift 2
fi
if [ $# -eq 0 ]; then
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
libraries=$(cd "$build/tests/standin" && pwd) || {
    echo "run.sh: no stand-in under $build: build it first (ninja -C $build)" >&2
    exit 2
}

cache=${VRAMTRACE_CACHE:-$HOME/.cache/vramtrace}
for python in ${VRAMTRACE_PYTHON:-"$cache"/venv-py3.*/bin/python}; do
    [ -x "$python" ] && break
done
torch=${VRAMTRACE_TORCH:-$(dirname "$(dirname "$python")")}
if [ -z "${VRAMTRACE_TORCH:-}" ]; then
    for torch in "$torch"/lib/python3.*/site-packages/torch; do
        [ -d "$torch" ] && break
    done
fi
if [ -e "$torch/lib/libtorch_cuda.so" ]; then
    stubs=$(python3 "$here/make_stubs.py" "$torch" "$libraries" "$libraries/torch-stubs")
    libraries=$stubs:$libraries
fi

if [ "$1" = python ] && [ -x "$python" ]; then
    shift
    set -- "$python" "$@"
fi
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$@"
