#!/bin/bash
# The recorder with libunwind as the source of unwind rules (-Dunwinder=libunwind), built beside the one in VRAMTRACE_BUILD:
#
#   tests/unwinder/run.sh       13 kinds of stacks in 3 builds, a recorded program, rules of the C library by readelf, libunwind and us
#   tests/unwinder/run.sh long  the stacks 20 times, the rules of eight libraries and of those in VRAMTRACE_UNWIND_LIBRARIES
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/setup.sh
export VRAMTRACE_BUILD=$(realpath "${VRAMTRACE_BUILD:-build}")
build=$VRAMTRACE_BUILD-libunwind
log=$(mktemp)
trap 'rm -f "$log"' EXIT
times=1 which=(-k "libc.so")
case ${1:-} in '') ;; long) times=20 which=() ;; *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac

setup_cuda_headers
[ -f "$build/build.ninja" ] || meson setup "$build" -Dunwinder=libunwind -Ddriver_include="$VRAMTRACE_CUDA_INCLUDE" >"$log" ||
    { tail -n 20 "$log"; exit 1; }
ninja -C "$build" preload/libvramtrace.so tests/unit/preload/unwind_stacks_{plain,optimized,wide} >"$log" || { tail -n 40 "$log"; exit 1; }
! readelf -d "$build/preload/libvramtrace.so" | grep "NEEDED.*unwind" || { echo "libunwind is linked"; exit 1; }
for program in "$build"/tests/unit/preload/unwind_stacks_{plain,optimized,wide}; do
    for ((i = 0; i < times; i++)); do
        "$program" >"$log" || { cat "$log"; exit 1; }
    done
    echo "${program##*/}: $(grep -c " ok, " "$log") kinds of stacks, $times times"
done
"${VRAMTRACE_PYTHON:-python3}" -m pytest -q -rP -p no:cacheprovider tests/unwinder/test_recorded.py
"${VRAMTRACE_PYTHON:-python3}" -m pytest -q -rP -p no:cacheprovider tests/golden/test_unwind.py "${which[@]}"
