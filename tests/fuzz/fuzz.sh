#!/bin/sh
# Structure-aware fuzzing of the analyzer with libFuzzer, under AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   tests/fuzz/fuzz.sh SECONDS [BUILD]    in JOBS (2) processes; BUILD: where to build (build-fuzz).
#                                          VRAMTRACE_BUILD (build) is an ordinary build
#
# The corpus is BUILD/corpus, begun with the traces in the tree and small libraries made here. What is found lies in BUILD: crash-*, slow-unit-*,
# oom-*; run it again with BUILD/tests/fuzz/fuzz_trace FILE;
# with KEEP_TRACE=tests/fuzz/found/NAME.vrt it becomes a test (test_mutate.py). Ends with status 1 if anything was found.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:?how many seconds?}
build=${2:-$root/build-fuzz}
[ -f "$build/build.ninja" ] ||
    CC=clang CXX=clang++ meson setup "$build" "$root" -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Ddebug=true \
        -Dc_args="-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined -fno-sanitize=pointer-overflow" > "$build.log"
ninja -C "$build" tests/fuzz/fuzz_trace >> "$build.log"
mkdir -p "$build/corpus"
VRAMTRACE_BUILD=${VRAMTRACE_BUILD:-$root/build} python3 "$root/tests/fuzz/seeds.py" "$root"/tests/unit/vectors/*.vrt "$root"/tests/gpu/kept/*/run.vrt "$build/corpus"
for options in "-g" "-g -gdwarf-4 -O2" "-gdwarf-5 -gz"; do
    echo 'static int f(int n) { return n ? f(n - 1) + n : 0; } int g(int n) { return f(n) + 1; }' |
        gcc $options -shared -fPIC -nostdlib -Wl,--build-id -x c -o "$build/corpus/library$(echo "$options" | tr -d ' ').so" -
done
cd "$build"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
tests/fuzz/fuzz_trace -fork="${JOBS:-2}" -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -max_total_time="$seconds" -timeout=20 \
    -rss_limit_mb=2048 -malloc_limit_mb=16384 -max_len=32768 corpus > fuzz.log 2>&1 || true
grep '^#' fuzz.log | tail -n 1
times > times # a subshell has none of it
echo "processor time, user and system: $(tail -n 1 times)"
! ls crash-* slow-unit-* oom-* timeout-* leak-* 2> /dev/null
