#!/bin/bash
# The recorder for AArch64: built here by a cross compiler, run by qemu. For Debian on x86-64; needs no root from Linux 6.7 on.
#
#   tests/aarch64/run.sh                short form: kinds of native stacks, unwind rules against readelf, events of the driver's functions
#   tests/aarch64/run.sh long           all unit and golden tests, and PyTorch's AArch64 wheel (0.4 GB to load) trains over the simulated CUDA
#   tests/aarch64/run.sh libunwind      kinds of stacks and unwind rules by libunwind 1.8, with Debian 13's libraries
#   tests/aarch64/run.sh in COMMAND...  a command in Debian's AArch64 folder, after a long form: VRAMTRACE_BUILD and VRAMTRACE_RUN are set
#
# VRAMTRACE_BUILD: a build for this machine, whose analyzer reads the short form's traces (default: build/); the other build is
# $VRAMTRACE_BUILD-aarch64. Qemu keeps x86-64's order of memory, so nothing here is about that: tests/faults/ordered.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/setup.sh
native=$(realpath "${VRAMTRACE_BUILD:-build}")
build=$native-aarch64 options=() suite=
if [ "${1:-}" = libunwind ]; then # Debian 12 has 1.6.2, which cannot read code with signed return addresses
    build+=-libunwind options=(-Dunwinder=libunwind) suite=trixie
    setup_aarch64_packages="${setup_aarch64_packages/libssl3/libssl3t64} libunwind-dev"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Not in the folder: mypy, our documents' other readers.
not_here="test_instructions test_python_checked test_docs"
# Not under qemu, which keeps memory of ended threads, knows no limit on memory, gives an address out once, notices a program that is
# not there too late, tells a signal itself, is the program of each process and stands before its arguments, has files of its own, and
# fails (cpu == current_cpu) when the first thread ends before others; and one run is too slow.
not_by_qemu="flight.py::test_soak flight.py::test_what_is_alive_is_there flight.py::test_memory_stays_constant out_of_memory.py mcp.py::test_a_limit_on_memory
    reloaded.py::test_libraries_in_turn[first_other sharing.py::test_one_allocation_in_two_processes
    terminal.py::test_a_pager_that_is_not_there terminal.py::test_without_less_the_text_is_printed
    tables.py::test_parquet_without_pyarrow[/nowhere run.py::test_stop_again_at_once_on_a_busy_machine
    top.py::test_a_processs_own_books top.py::test_marked_as_paused_and_lossy top.py::test_a_servers_pool
    card.py::test_arguments_of_another_users_process run.py::test_what_the_command_inherits[closed card.py::test_the_last_thread_is_not_main"
# Not in a user namespace, which has one user and no devices.
not_by_qemu+=" cli_traces.py::test_anothers_trace run.py::test_a_folder_that_cannot_be_written jobs.py::test_a_folder_within_that_may_not_be_read
    top.py::test_another_users_process top.py::test_a_file_that_is_no_ring[another_user] annotate_cli.py::test_another_users_trace
    annotate_cli.py::test_no_device_is_opened"

# Runs a command where the kernel starts AArch64 programs by qemu: by the machine's table, or by one of a user namespace.
by_qemu() {
    unshare -Urm bash -c '[ -e "$0/qemu-aarch64" ] || { mount -t binfmt_misc none "$0" && cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$0/register"; } &&
        exec "$@"' /proc/sys/fs/binfmt_misc "$@"
}

# The same with Debian's folder as the root, source and build at their places.
in_folder() {
    by_qemu bash -c 'root=$1 source=$2 build=$3
        shift 3
        for folder in /proc /sys /dev /tmp "$source" "$build"; do
            mkdir -p "$root$folder" && mount --rbind "$folder" "$root$folder" || exit 1
        done
        exec chroot "$root" env -i --chdir="$source" PATH=/usr/bin HOME=/root LANG=C.UTF-8 PYTHONPATH=/opt/torch PYTHONPYCACHEPREFIX=/var/cache/python \
            VRAMTRACE_BUILD="$build" VRAMTRACE_RUN="$source/simulate/run.sh" VRAMTRACE_PYTHON=/usr/bin/python3 "$@"' \
        in_folder "$VRAMTRACE_AARCH64" "$PWD" "$build" "$@"
}

make_build() { # TARGET...
    [ -f "$build/build.ninja" ] || meson setup "$build" --cross-file packaging/aarch64.ini --cross-file "$VRAMTRACE_AARCH64/aarch64.ini" \
        -Dtests=true -Ddriver_include="$VRAMTRACE_CUDA_INCLUDE" "${options[@]}" >"$log" || { tail -n 20 "$log"; exit 1; }
    ninja -C "$build" "$@" >"$log" || { tail -n 40 "$log"; exit 1; }
    ! grep -A 5 "warning:" "$log" || { echo "the build warns"; exit 1; }
}

stacks() { # each program says "KIND ok", or what differs from libgcc's walk
    for program in "$build"/tests/unit/preload/unwind_stacks_{plain,optimized,signed,signed_b}; do
        by_qemu "$program" >"$log" || { cat "$log"; exit 1; }
        echo "${program##*/}: $(grep -c " ok, " "$log") kinds of stacks"
    done
}

small=(preload/libvramtrace.so simulate/libcuda.so.1 tests/unit/preload/unwind_{rows,stacks_plain,stacks_optimized,stacks_signed,stacks_signed_b})

libunwind() {
    make_build "${small[@]}" tests/unit/preload/unwind_rows_libunwind
    stacks
    VRAMTRACE_BUILD=$build by_qemu "${VRAMTRACE_PYTHON:-python3}" -m pytest -q -rP -p no:cacheprovider tests/golden/test_unwind.py
}

short() {
    make_build "${small[@]}" tests/golden/{libvramtrace.so,driver_calls}
    stacks
    VRAMTRACE_ANALYZER=$native/analyzer/vramtrace VRAMTRACE_BUILD=$build by_qemu "${VRAMTRACE_PYTHON:-python3}" -m pytest -q -p no:cacheprovider \
        tests/golden/test_events.py tests/golden/test_unwind.py -k "not (stdc or libm or crypto)"
}

long() {
    local -a units
    make_build all
    [ -e "$VRAMTRACE_AARCH64/opt/torch/xdist" ] || setup_aarch64_torch
    mapfile -t units < <(meson test -C "$build" --list 2>/dev/null | sed -n 's/^vramtrace:unit \/ //p' | grep -v -x -e digest -e chain) # sanitizers
    by_qemu meson test -C "$build" --no-rebuild --print-errorlogs -t 10 "${units[@]}" || failed="unit tests, "
    in_folder python3 -m pytest -q -p no:cacheprovider -n "$(nproc)" --dist loadfile $(printf -- '--ignore=tests/golden/%s.py ' $not_here) \
        $(printf -- '--deselect=tests/golden/test_%s ' $not_by_qemu) -k "not SIGABRT" tests/golden ||
        failed+="golden tests, "
    in_folder python3 -m pytest -q -p no:cacheprovider tests/torch/test_bytes.py -k "at_every_mark and mlp" || failed+="training, "
    [ -z "${failed:-}" ] || { echo "FAILED: ${failed%, }"; exit 1; }
}

setup_aarch64 $suite || { echo "skipped"; exit 0; }
by_qemu true || { echo "skipped: no user namespace here in which the kernel starts programs by qemu (Linux 6.7)"; exit 0; }
setup_cuda_headers
export QEMU_LD_PREFIX=$VRAMTRACE_AARCH64
case ${1:-short} in
    short | long | libunwind) "${1:-short}" ;;
    in) shift && in_folder "$@" ;;
    *) sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
