#!/bin/sh
# Runs a command over the stand-in CUDA libraries: run.sh [-b BUILD] COMMAND...
#
# BUILD (or $VRAMTRACE_BUILD, else build/ in the project's root) is the meson build folder. `python` as the command is
# $VRAMTRACE_PYTHON, or the interpreter in the cache that tests/setup.sh fills.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=${VRAMTRACE_BUILD:-$here/../build}
if [ "${1:-}" = -b ]; then
    build=$2
    shift 2
fi
if [ $# -eq 0 ]; then
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
libraries=$(cd "$build/simulate" && pwd) || {
    echo "run.sh: no stand-in under $build: build it first (ninja -C $build)" >&2
    exit 2
}

cache=${VRAMTRACE_CACHE:-$HOME/.cache/vramtrace}
for python in ${VRAMTRACE_PYTHON:-"$cache"/venv-py3.*/bin/python}; do
    [ -x "$python" ] && break
done
libraries=$libraries:$libraries/runtime12

if [ "$1" = python ] && [ -x "$python" ]; then
    shift
    set -- "$python" "$@"
fi
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$@"
