#!/bin/bash
# The recorder in one program with the stress test, under ThreadSanitizer: it models C11's order of memory, not x86's.
#
#   tests/faults/ordered.sh      VRAMTRACE_BUILD: a build with the stand-in (default: build/); its own build is $VRAMTRACE_BUILD-threads
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${VRAMTRACE_BUILD:-build}")
own=$build-threads
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fixed=(setarch -R) # older runtimes do not know where the kernel puts memory otherwise
"${fixed[@]}" true 2>/dev/null || fixed=()

# What the loader makes and frees, it does under locks that the sanitizer does not know.
echo "race:ld-linux" >"$work/known"
[ -f "$own/build.ninja" ] || meson setup "$own" -Dtests=true -Db_sanitize=thread -Dbuildtype=debugoptimized \
    -Ddriver_include="${VRAMTRACE_CUDA_INCLUDE:-}" >"$work/setup" || { cat "$work/setup"; exit 1; }
ninja -C "$own" tests/faults/stress_linked >"$work/build" || { tail -n 40 "$work/build"; exit 1; }
for way in "threads 8 200" "short 200" "forks 5" "plugin $build/tests/faults/stress_plugin.so 50" \
    "constructor $build/tests/faults/stress_plugin.so" cfi; do
    # shellcheck disable=SC2086
    LD_LIBRARY_PATH=$build/simulate VRAMTRACE_QUIET=1 VRAMTRACE_OUT=$work/x.vrt TSAN_OPTIONS="exitcode=66 history_size=4 suppressions=$work/known" \
        timeout 300 "${fixed[@]}" "$own/tests/faults/stress_linked" $way >"$work/said" 2>&1 || { cat "$work/said"; echo "$way failed"; exit 1; }
    echo "$way: $(tail -n 1 "$work/said")"
done
