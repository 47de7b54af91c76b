#!/usr/bin/env bash
# Installs what is missing, builds, runs every test: on a bare Debian 12 too, as root or with sudo. On 2 cores 80 minutes; the first
# time about 100, with 6 GB of downloads and 17 GB of disk. `tests/run.sh quick` leaves out what needs PyTorch.
# VRAMTRACE_BUILD: build folder (default: build). VRAMTRACE_CACHE: downloads, kept between runs.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-all}
case $mode in all|quick) ;; *) echo "tests/run.sh: '$mode' is not understood (quick, or nothing)" >&2; exit 2 ;; esac

unset PYTHONDONTWRITEBYTECODE # PyTorch comes without bytecode: what a first import writes makes each later one twice as fast
source tests/setup.sh
setup_test_packages
export VRAMTRACE_CI=1 # what that installs is not missing: such a test fails
setup_hosts
setup_cuda_headers
setup_pythons || true
export VRAMTRACE_BUILD=${VRAMTRACE_BUILD:-$PWD/build}
said=$(mktemp -d)
failures=$said/failures
touch "$failures"
trap 'rm -rf "$said"' EXIT

step() { # NAME COMMAND...: runs it, goes on after a failure, remembers it and what it said
    local name=$1 started=$SECONDS
    shift
    echo "==== $name"
    if "$@" 2>&1 | tee "$said/$name"; then echo "---- $name: passed, $((SECONDS - started)) s"
    else echo "$name" >>"$failures"; echo "---- $name: FAILED, $((SECONDS - started)) s"; fi
}

beside() { # FUNCTION...: runs these at once; each says all that it has to say when the last one has ended. Not for what measures
    local function
    echo "==== at once: $*"
    for function in "$@"; do "$function" >"$said/of $function" 2>&1 & done
    wait
    for function in "$@"; do cat "$said/of $function"; done
}

step build setup_build "$VRAMTRACE_BUILD" all tests/unit/ -Dtests=true
[ ! -s "$failures" ] || exit 1
step unit meson test -C "$VRAMTRACE_BUILD" --no-rebuild --print-errorlogs

if [ "$mode" = all ]; then
    setup_trainers
    setup_readers
    setup_frameworks || echo "other frameworks than PyTorch are not tested" >&2
    setup_sharded_trainers || echo "DeepSpeed's and Megatron's trainers are not tested" >&2
    setup_packaging || echo "the wheel and the completions of absent shells are not tested" >&2
    export VRAMTRACE_PYTHON
    suites=(tests/dryrun tests/corpus tests/torch tests/golden tests/frameworks tests/faults tests/fuzz tests/packaging tests/fleet tests/gpu) # long files first
else
    suites=(tests/golden)
    setup_pytest
fi
if setup_gpu; then export VRAMTRACE_RUN=; else
    export VRAMTRACE_RUN="$PWD/simulate/run.sh"
fi
# The recorder as another compiler makes it, in the hosts that would notice it.
clang_build() {
    local folder=$VRAMTRACE_BUILD-clang
    CC=clang CXX=clang++ setup_build "$folder" "meson-test-prereq hosts" tests/unit/ -Dtests=true &&
        meson test -C "$folder" --no-rebuild --print-errorlogs --suite unit
}
clang_hosts() {
    VRAMTRACE_BUILD=$VRAMTRACE_BUILD-clang VRAMTRACE_HOSTS_EVERY=3 "$VRAMTRACE_PYTHON" -m pytest -q tests/faults/test_unnoticed.py
}
pythons() { step python ./tests/python/run.sh; }
ordered() { step "order of memory" ./tests/faults/ordered.sh; }
by_clang() { step "build and unit tests with clang" clang_build; }
if [ "$mode" = all ] && command -v clang >/dev/null; then
    beside by_clang ordered pythons
    [ -z "$VRAMTRACE_RUN" ] || step "hosts of the clang build" clang_hosts
else
    beside ordered pythons
fi

libunwind() { step libunwind ./tests/unwinder/run.sh; }
aarch64() { step "AArch64 under qemu" ./tests/aarch64/run.sh; }
[ "$mode" = quick ] || beside libunwind aarch64

bare_machines() {
    (. packaging/chroot.sh && chroot_check) || { echo "skipped"; return 0; }
    ./tests/bare/run.sh --short
}
bare() { step "bare machines" bare_machines; }
packages() { step packages tests/packaging/run.sh short; }
[ "$mode" = quick ] || { beside bare packages; export VRAMTRACE_WHEEL=$(echo "$VRAMTRACE_BUILD"/packages/*.whl); }
[ "$mode" = quick ] || step "page in a browser" "$VRAMTRACE_READERS" -m pytest -q --durations=5 -n "$(nproc)" --dist loadfile tests/page tests/browser
# Hosts first and alone: they measure what a process notices, and use all cores by themselves.
if [ "$mode" = all ]; then
    step hosts "$VRAMTRACE_PYTHON" -m pytest -q tests/faults/test_unnoticed.py
    step "hosts under vramtrace run" env VRAMTRACE_HOSTS_BY_RUN=1 VRAMTRACE_HOSTS_EVERY=3 "$VRAMTRACE_PYTHON" -m pytest -q tests/faults/test_unnoticed.py
    setup_workers
else
    setup_workers=()
fi
[ "$mode" = quick ] || [ -z "$VRAMTRACE_RUN" ] || step "newest Pythons" ./tests/torch/pythons.sh
step pytest "$VRAMTRACE_PYTHON" -m pytest -q --durations=12 "${setup_workers[@]}" --ignore=tests/faults/test_unnoticed.py "${suites[@]}"

if [ -s "$failures" ]; then
    while read -r name; do
        echo "==== the end of what '$name' said"
        tail -n 40 "$said/$name"
    done <"$failures"
    echo "FAILED: $(paste -sd , "$failures")" >&2
    exit 1
fi
echo "Everything passed in $SECONDS s."
