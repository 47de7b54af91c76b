#!/bin/sh
# Python frames and lines, with every interpreter found: pyenv's, /usr/bin, /usr/local/bin, PATH, those of setup_pythons
# (tests/setup.sh).
#
#     tests/python/run.sh [INTERPRETER…]
#
# Prints "N passed, M failed" per version, names the versions that it did not find, and exits with 1 if
# anything failed or no interpreter was found. CC and CFLAGS are honoured; BENCH=1 adds the timing.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
CC=${CC:-cc}
flags="-std=c11 -D_GNU_SOURCE -Wall -Wextra ${CFLAGS:--O2 -g} -I$root/preload -I$root/analyzer"
sources="$root/preload/stacks/python.c $root/preload/stacks/python_code.c $root/preload/stacks/python_layout.c $root/preload/stacks/python_locals.c $root/analyzer/trace/python_lines.c"
libraries="-pthread -ldl"
export PYTHONDONTWRITEBYTECODE=1
export VT_FRAMES_LIBRARY="$work/frames.so"
unset PYTHONHOME PYTHONPATH
status=0

# shellcheck disable=SC2086
$CC $flags -fPIC -shared -fvisibility=hidden "$here/frames_library.c" $sources -o "$VT_FRAMES_LIBRARY" $libraries ||
    exit 1
# shellcheck disable=SC2086
$CC $flags "$here/host.c" $sources -o "$work/host" $libraries || exit 1

# Runs a command, shows its output, and adds its counts to those of the current version.
count() {
    timeout 600 "$@" >"$work/output" 2>&1
    result=$?
    cat "$work/output"
    # shellcheck disable=SC2046
    set -- $(awk '/ passed, [0-9]+ failed$/ { for (i = 2; i <= NF; i++) {
                      if ($i == "passed,") p += $(i - 1); if ($i == "failed") f += $(i - 1) } }
                  END { print p + 0, f + 0 }' "$work/output")
    passed=$((passed + $1))
    failed=$((failed + $2))
    if [ "$result" -ne 0 ] && [ "$2" -eq 0 ]; then
        echo "FAILED: exit status $result"
        failed=$((failed + 1))
    fi
}

# One number per place where something was counted.
total() {
    echo "== $1: $passed passed, $failed failed"
    [ "$failed" -eq 0 ] || status=1
}

passed=0 failed=0
sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all"
echo 'int main(void) { return 0; }' >"$work/empty.c"
# shellcheck disable=SC2086
$CC $sanitize "$work/empty.c" -o "$work/empty" 2>/dev/null && "$work/empty" || sanitize=
for old in "" -DFAKE_OLD; do
    # shellcheck disable=SC2086
    if $CC $flags $sanitize $old -rdynamic "$here/fake_interpreter.c" $sources -o "$work/fake" $libraries; then
        count "$work/fake"
    else
        failed=$((failed + 1))
    fi
done
total "no interpreter needed"

# The headers are the same for both kinds of build.
offsets() { # INCLUDE_DIR MINOR
    [ -e "$1/internal/pycore_code.h" ] || { echo "$1: no private headers, offsets not compared"; return; }
    builds="-UPy_GIL_DISABLED"
    [ "$2" -lt 13 ] || builds="$builds -DPy_GIL_DISABLED=1"
    for build in $builds; do
        if $CC -std=c11 -w "$build" -I"$root/preload" -I"$1" -I"$1/internal" -idirafter "$(dirname "$1")" "$here/offsets.c" \
            -o "$work/offsets"; then
            count "$work/offsets"
        else
            failed=$((failed + 1))
        fi
    done
}

test_interpreter() { # PYTHON MAJOR MINOR
    case $2.$3 in
    3.9 | 3.10 | 3.11 | 3.12 | 3.13 | 3.14 | 3.15) ;;
    *)
        count "$1" "$here/test_declined.py"
        return
        ;;
    esac
    if "$1" -c 'import sys, sysconfig; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))'; then
        for test in frames identity lines; do # its objects are not inspected
            count "$1" "$here/test_$test.py"
        done
        return
    fi
    count "$1" "$here/test_frames.py"
    count "$1" "$here/test_identity.py"
    count "$1" "$here/test_lines.py"
    count "$1" "$here/test_locals.py"
    count "$1" "$here/test_inspect.py"
    for _ in 1 2 3 4 5; do # ends while others walk: a race that is lost rarely, if ever
        count "$1" "$here/daemon_threads.py"
    done
    [ -z "${BENCH:-}" ] || "$1" "$here/bench_walk.py"
    offsets "$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')" "$3"
    library=$("$1" -c 'import os, sys, sysconfig; get = sysconfig.get_config_var
folder = get("LIBDIR") or ""
folder = sys.base_prefix + folder[4:] if folder.startswith("/usr/") else folder
print(os.path.join(folder, get("INSTSONAME") or "none"))')
    host=$work/host
    for loader in "$(dirname "$library")"/ld-linux-*.so.*; do # a Python that has a C library of its own
        [ -e "$loader" ] && [ "$(dirname "$loader")" != "/usr/lib/$(uname -m)-linux-gnu" ] && host="$loader --library-path ${loader%/*} $work/host"
    done
    home=$("$1" -c 'import sys; print(sys.base_prefix)')
    case $library in
    *.so*)
        if [ -e "$library" ]; then
            count env PYTHONHOME="$home" $host "$library" local
            count env PYTHONHOME="$home" $host "$library" global
        fi
        ;;
    esac
}

candidates() {
    ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 /usr/bin/python3 /usr/bin/python3.[0-9] \
        /usr/bin/python3.[0-9][0-9] /usr/local/bin/python3 /usr/local/bin/python3.[0-9] \
        /usr/local/bin/python3.[0-9][0-9] \
        "${VRAMTRACE_CACHE:-$HOME/.cache/vramtrace}"/pythons-*/usr/bin/python3.[0-9][0-9] 2>/dev/null
    for name in python3 python3.8 python3.9 python3.10 python3.11 python3.12 python3.13 python3.13t python3.14 \
        python3.14t python3.15 python3.15t; do
        command -v "$name"
    done
}

if [ $# -eq 0 ]; then
    candidates >"$work/candidates"
    # shellcheck disable=SC2046
    set -- $(sort -u "$work/candidates")
fi
seen=" "
found=" "
for python in "$@"; do
    # A shim of a version manager, or a version older than 3.8, tells nothing here.
    told=$("$python" -c 'import os, sys
v = sys.version_info
print(os.path.realpath(sys.executable), v[0], v[1]) if v >= (3, 8) else None' 2>/dev/null) || continue
    [ -n "$told" ] || continue
    real=${told%% *}
    case $seen in *" $real "*) continue ;; esac
    seen="$seen$real "
    version=${told#* }
    found="$found${version#* } "
    passed=0 failed=0
    test_interpreter "$python" "${version% *}" "${version#* }"
    total "$("$python" -c 'import sys; print("Python %d.%d.%d" % sys.version_info[:3])') $real"
done

for minor in 9 10 11 12 13 14 15; do
    case $found in *" $minor "*) ;; *) echo "not found, not tested: Python 3.$minor" ;; esac
done
if [ "$found" = " " ]; then
    echo "no Python from 3.8 on was found"
    exit 1
fi
exit $status
