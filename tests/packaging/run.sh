#!/bin/bash
# The long form: what is released, on systems that have nothing else. Needs root and debootstrap (packaging/chroot.sh).
#
#   tests/packaging/run.sh [wheel|deb|pythons]...     default: all
#
# wheel     packaging/wheel.sh; then in fresh Debian 11, 12 and sid systems with Python alone: pip install, a program traced over
#           the stand-in for CUDA, every command on the trace, the module, uninstalled without a rest
# deb       packaging/deb.sh, lintian, then in a fresh system of this one's suite: apt install, LD_PRELOAD by name, the
#           completions and manual pages, removed without a rest
# pythons   tests/packaging/test_wheel.py with every Python of this machine
#
# VRAMTRACE_BUILD: a build with the stand-in (default: build/). VRAMTRACE_WHEEL: a wheel that is there already. Ends with one line for each: passed or FAILED.
set -euo pipefail
cd "$(dirname "$0")/../.."
. packaging/chroot.sh
. tests/setup.sh
[ $# -gt 0 ] || set -- wheel deb pythons
build=${VRAMTRACE_BUILD:-build}
work=$(mktemp -d)
trap 'chroot_remove "$work"' EXIT
results=()

step() { # NAME COMMAND...
    local name=$1
    shift
    echo "==== $name"
    if ("$@"); then results+=("passed  $name"); else results+=("FAILED  $name"); fi
}

fill() { # FOLDER: what the tests in a system need from here
    mkdir -p "$1/test/standin"
    cp -L "$build/tests/standin/libcuda.so.1" "$1/test/standin/"
    cp tests/golden/programs/python_stacks.py tests/packaging/inside.sh "$1/test/"
}

wheel_in() { # SUITE
    local root=$work/$1
    chroot_make "$root" "$1" python3 python3-venv || return 1
    fill "$root" && cp "$work"/dist/*.whl "$root/test/" || return 1
    chroot_run "$root" bash /test/inside.sh wheel
}

build_deb() {
    packaging/deb.sh "$work/deb" >"$work/deb.log" 2>&1 || { tail -n 30 "$work/deb.log"; return 1; }
    # The project has no mail address.
    lintian --allow-root --fail-on error --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$work"/deb/*.changes
}

deb_in_chroot() {
    local root=$work/deb-root
    chroot_make "$root" "$(. /etc/os-release && echo "$VERSION_CODENAME")" python3 python3-venv gcc libc6-dev pkg-config zsh fish bash-completion || return 1
    fill "$root" && cp "$work"/deb/vramtrace_*.deb "$root/test/" || return 1
    chroot_run "$root" bash /test/inside.sh deb
}

every_python() {
    setup_packaging && setup_cuda_headers || return 1
    VRAMTRACE_BUILD=$build VRAMTRACE_EVERY_PYTHON=1 "${VRAMTRACE_PYTHON:-python3}" -m pytest -q tests/packaging/test_wheel.py
}

for part in "$@"; do
    case $part in
    wheel)
        if [ -n "${VRAMTRACE_WHEEL:-}" ]; then mkdir "$work/dist" && cp "$VRAMTRACE_WHEEL" "$work/dist/"
        else step "wheel" packaging/wheel.sh "$work/dist"; fi
        for suite in bullseye bookworm sid; do step "wheel on Debian $suite" wheel_in "$suite"; done
        ;;
    deb)
        step "Debian package, lintian" build_deb
        step "Debian package installed" deb_in_chroot
        ;;
    pythons) step "wheel with every Python" every_python ;;
    *)
        sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
done
printf '%s\n' "" "${results[@]}"
! printf '%s\n' "${results[@]}" | grep -q ^FAILED
