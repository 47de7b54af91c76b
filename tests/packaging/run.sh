#!/bin/bash
# What is released, on systems that have nothing else. Needs root and debootstrap (packaging/chroot.sh).
#
#   tests/packaging/run.sh [short|wheel|sdist|deb|pythons]...     default: all but short
#
# wheel     packaging/wheel.sh; then in fresh Debian 11, 12 and sid systems with Python alone: pip install, a program traced over
#           the stand-in for CUDA, every command on the trace, the module, uninstalled without a rest
# sdist     the source package that the wheel was made of, in a fresh Debian 12 with Python alone: pip install names what is
#           missing in one line, and with that works
# deb       packaging/deb.sh in fresh Debian 12 and sid systems, lintian, then in fresh ones: apt install, LD_PRELOAD by name,
#           completions and manual pages, removed without a rest
# pythons   tests/packaging/test_wheel.py with every Python of this machine
# short     for CI: wheel and deb without optimization, on Debian 12 alone. The wheel stays in the build folder's packages/ for
#           tests/packaging/test_wheel.py; without root or debootstrap it is built for this machine, and that is all
#
# VRAMTRACE_BUILD: a build with the stand-in (default: build/). VRAMTRACE_PACKAGES: a folder with the wheel and the source
# package, if they are there already. Ends with one line for each: passed or FAILED.
set -euo pipefail
cd "$(dirname "$0")/../.."
. packaging/chroot.sh
. tests/setup.sh
[ $# -gt 0 ] || set -- wheel sdist deb pythons
build=$(realpath "${VRAMTRACE_BUILD:-build}")
work=$(mktemp -d)
trap 'chroot_remove "$work"' EXIT
results=()

step() { # NAME COMMAND...
    local name=$1 started=$SECONDS
    shift
    echo "==== $name"
    if ("$@"); then results+=("passed  $name, $((SECONDS - started)) s"); else results+=("FAILED  $name"); fi
}

quietly() { # COMMAND...: its last words only where it fails
    "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; return 1; }
}

system() { # NAME SUITE PACKAGE...: a fresh system in $work/NAME, with what the tests in it need from here
    local root=$work/$1
    shift
    chroot_remove "$root" && chroot_make "$root" "$@" || return 1
    mkdir -p "$root/test/standin"
    cp -L "$build/simulate/libcuda.so.1" "$root/test/standin/"
    cp tests/golden/programs/python_stacks.py tests/packaging/inside.sh "$root/test/"
}

wheel_in() { # SUITE FOLDER
    system wheel "$1" python3 python3-venv && cp "$2"/*.whl "$work/wheel/test/" && chroot_run "$work/wheel" bash /test/inside.sh wheel
}

sdist_in() { # SUITE FOLDER
    system sdist "$1" python3 python3-venv && cp "$2"/*.tar.gz "$work/sdist/test/" && chroot_run "$work/sdist" bash /test/inside.sh sdist
}

deb_in() { # SUITE FOLDER
    system deb "$1" python3 python3-venv gcc libc6-dev pkg-config man-db zsh fish bash-completion &&
        cp "$2"/vramtrace_*.deb "$work/deb/test/" && chroot_run "$work/deb" bash /test/inside.sh deb
}

# The project has no mail address.
lint() { # FOLDER
    system lint sid lintian && cp "$1"/* "$work/lint/test/" && chroot_run "$work/lint" bash -c 'lintian --allow-root --fail-on error \
        --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog /test/*.changes'
}

every_python() { # FOLDER
    setup_packaging || return 1
    VRAMTRACE_WHEEL=$(echo "$1"/*.whl) VRAMTRACE_BUILD=$build VRAMTRACE_EVERY_PYTHON=1 \
        "${VRAMTRACE_PYTHON:-python3}" -m pytest -q tests/packaging/test_wheel.py
}

local_wheel() {
    [ -n "${VRAMTRACE_PACKAGING:-}" ] || { echo "no wheel either: VRAMTRACE_PACKAGING is not set"; return 0; }
    setup_cuda_headers
    PATH=$(dirname "$VRAMTRACE_PACKAGING"):$PATH quietly "$VRAMTRACE_PACKAGING" -m pip wheel --no-deps --no-build-isolation \
        -w "$build/packages" -Csetup-args=-Doptimization=0 -Csetup-args=-Ddriver_include="$VRAMTRACE_CUDA_INCLUDE" .
}

built=${VRAMTRACE_PACKAGES:-$work/built}
released() { [ -e "$built" ] || step "source package, wheel" quietly packaging/wheel.sh "$built"; }
for part in "$@"; do
    case $part in
    short)
        built=$build/packages
        rm -rf "$built"
        if ! chroot_check; then
            echo "the packages are not tried on bare systems"
            step "wheel of this machine" local_wheel
            continue
        fi
        step "source package, wheel" quietly packaging/wheel.sh "$built" -Doptimization=0
        step "wheel on Debian bookworm" wheel_in bookworm "$built"
        DEB_BUILD_OPTIONS="nocheck noopt parallel=$(nproc)" step "Debian package" quietly packaging/deb.sh "$built" bookworm
        step "Debian package on Debian bookworm" deb_in bookworm "$built"
        ;;
    wheel)
        released
        for suite in bullseye bookworm sid; do step "wheel on Debian $suite" wheel_in $suite "$built"; done
        ;;
    sdist)
        released
        step "source package on Debian bookworm" sdist_in bookworm "$built"
        ;;
    deb)
        for suite in bookworm sid; do
            step "Debian package, built on Debian $suite" quietly packaging/deb.sh "$work/deb-$suite" $suite
            step "Debian package on Debian $suite" deb_in $suite "$work/deb-$suite"
        done
        step "Debian package, lintian" lint "$work/deb-sid"
        ;;
    pythons)
        released
        step "wheel with every Python" every_python "$built"
        ;;
    *)
        sed -n '2,19s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
done
printf '%s\n' "" "${results[@]}"
! printf '%s\n' "${results[@]}" | grep -q ^FAILED
