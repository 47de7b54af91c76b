#!/bin/bash
# The first commands that a new user types, on machines with nothing on them: Debian systems in folders (packaging/chroot.sh),
# each with an empty clone of what is committed here. Needs root and debootstrap.
#
#   tests/bare/run.sh [CASE]...     examples/quickstart.sh in each (default: all), as lines of the table of docs/results/bare.md
#   tests/bare/run.sh --write       all, and puts the table into docs/results/bare.md
#   tests/bare/run.sh --short       one system with what an interrupted run left, downloads from the cache: for CI
#   tests/bare/run.sh --tests [USER [quick]]   tests/run.sh on Debian 12, as root or as USER with sudo
#
# A case is met if the demo prints what it should, or says in one line what is missing where that is right. Megabytes are what
# the network interfaces of this machine received meanwhile, so nothing else should load; minutes are by the clock.
set -euo pipefail
cd "$(dirname "$0")/../.."
. packaging/chroot.sh
. packaging/setup.sh
source_folder=$PWD
page=docs/results/bare.md

# name | suite | user | what is done to the system first | what the demo must do
cases="debian12      | bookworm | root   |                        | runs
debian12-user | bookworm | user   | sudo_for_user          | runs
debian13      | trixie   | root   |                        | runs
debian13-user | trixie   | user   | sudo_for_user          | runs
sid           | sid      | root   |                        | runs
sid-user      | sid      | user   | sudo_for_user          | runs
slim          | bookworm | root   | python_in /usr/local   | runs
slim-user     | bookworm | user   | python_in /usr/local   | names_packages
conda-user    | bookworm | user   | conda                  | runs
no-driver     | bookworm | root   | device                 | runs_without_driver
fake-driver   | bookworm | root   | device; fake_driver    | says_no_driver"

say() { echo "tests/bare/run.sh: $*" >&2; }

# What is done to a system; $root is its folder, $user who runs the demo.
sudo_for_user() { echo "$user ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$user"; }
device() { chroot_devices=nvidiactl; }
fake_driver() { driver "$(echo "$root"/usr/lib/*-linux-gnu)" 0 13000; }
conda() { # a prefix first on PATH, with Python and the C++ library
    sudo_for_user
    python_in /opt/conda
    cp -L "$root"/usr/lib/*/libstdc++.so.6 "$root/opt/conda/lib/"
    path=/opt/conda/bin:
}
python_in() { mkdir -p "$root$1" && tar -C "$root$1" -xf "$python_archive"; }

driver() { # FOLDER RESULT VERSION: a libcuda.so.1 whose cuInit returns RESULT; it needs no other library
    mkdir -p "$1"
    printf 'int cuInit(unsigned flags) { return %d + 0 * flags; }
        int cuGetErrorString(int result, const char **text) { *text = result == 100 ? "no device" : 0; return 0; }
        int cuDriverGetVersion(int *version) { *version = %d; return 0; }' "$2" "$3" |
        cc -x c -shared -nostdlib -fPIC -Wl,-soname,libcuda.so.1 -o "$1/libcuda.so.1" -
}

# What the demo must have done; $said is what it printed, $status its exit status.
runs() {
    [ "$status" = 0 ] && grep -q "no GPU found: using a simulated CUDA" "$said" && grep -q "^20 steps, " "$said" &&
        grep -q "Peak 1\.2[0-9] GiB" "$said"
}
runs_without_driver() { runs && grep -q "^setup: /dev/nvidiactl exists, but CUDA does not work: libcuda.so.1: cannot open" "$said"; }
says_no_driver() { [ "$status" != 0 ] && tail -n 1 "$said" | grep -q "^quickstart: PyTorch cannot use this machine's GPU .* driver" && ! grep -q Traceback "$said"; }
names_packages() {
    [ "$status" != 0 ] && [ "$(wc -l <"$said")" = 1 ] &&
        grep -q "^setup: these packages are missing, .*: apt-get install gcc .* ninja-build" "$said"
}

# Python as it comes from python.org, once for all: it runs from /usr/local and from any other prefix.
make_python() {
    local root=$work/python
    python_archive=$chroot_cache/python-3.11.tar.zst
    [ ! -e "$python_archive" ] || return 0
    say "building Python 3.11"
    chroot_make "$root" bookworm gcc libc6-dev make xz-utils zlib1g-dev libssl-dev libffi-dev libbz2-dev liblzma-dev \
        libsqlite3-dev &&
        cp tests/bare/python.sh "$root/" && chroot_run "$root" bash /python.sh 3.11 >"$chroot_cache/python-3.11.log" 2>&1 &&
        tar --zstd -C "$root/usr/local" -cf "$python_archive.part" . && mv "$python_archive.part" "$python_archive" || {
        say "could not build Python: see $chroot_cache/python-3.11.log"
        return 1
    }
    chroot_remove "$root"
}

# Sets root and home; devices and folders of an earlier system are forgotten.
make_system() { # SUITE USER PREPARE
    local packages="git sudo"
    root=$work/system user=$2 home=/root path='' find_links='' chroot_devices='' chroot_binds=''
    [ ! -e "$root" ] || chroot_remove "$root"
    case $3 in *python_in* | conda) packages+=" libssl3 libffi8 libsqlite3-0" ;; esac
    chroot_make "$root" "$1" $packages || return 1
    [ "$user" = root ] || { home=/home/$user && chroot_run "$root" useradd -m -s /bin/bash "$user"; }
    eval "$3"
    git clone -q "$source_folder" "$root$home/vramtrace"
    chroot_run "$root" chown -R "$user:$user" "$home/vramtrace"
}

in_system() { # SCRIPT: as the user, in the clone
    chroot_run "$root" runuser -u "$user" -- env HOME="$home" ${find_links:+PIP_FIND_LINKS="$find_links"} bash -c "PATH=$path\$PATH; cd ~/vramtrace; $1"
}

received() { awk -F: '$1 !~ /^ *lo$/ && NF > 1 { split($2, field, " "); sum += field[1] } END { printf "%.0f\n", sum }' /proc/net/dev; }

measured() { # SCRIPT: sets status, minutes, and megabytes received meanwhile
    local before started seconds
    before=$(received) started=$SECONDS status=0
    in_system "$1" || status=$?
    seconds=$((SECONDS - started))
    minutes=$((seconds / 60)):$(printf %02d $((seconds % 60))) megabytes=$((($(received) - before) / 1000000))
}

run_case() { # NAME SUITE USER PREPARE MUST
    local verdict=passed
    make_system "$2" "$3" "$4"
    rm -rf "$root"/var/lib/apt/lists/*
    said=$work/$1.log
    measured ./examples/quickstart.sh >"$said" 2>&1
    "$5" || verdict=FAILED
    echo "| $1 | $(. "$root/etc/os-release" && echo "$PRETTY_NAME") | $3 | ${5//_/ } | $minutes | $megabytes | $verdict |"
    [ "$verdict" = passed ] || { failed=1 && tail -n 30 "$said" >&2; }
}

every_case() { # NAME...
    local name suite user prepare must
    echo "| case | system | as | demo | minutes | megabytes received | result |"
    echo "|---|---|---|---|---|---|---|"
    while IFS='|' read -r name suite user prepare must; do
        name=${name// /}
        [[ $# -eq 0 || " $* " == *" $name "* ]] || continue
        run_case "$name" "${suite// /}" "${user// /}" "$(xargs <<<"$prepare")" "${must// /}" </dev/null
    done <<<"$cases"
    [ -z "$failed" ]
}

check() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@"; then echo "passed  $what"; else echo "FAILED  $what" && failed=1 && tail -n 30 "$said"; fi
}

decides() { # RESULT VERSION SCRIPT MUST_SAY: with such a driver
    driver "$root/driver" "$1" "$2"
    in_system "export LD_LIBRARY_PATH=/driver; . packaging/setup.sh; $3" >"$said" 2>&1 || true
    [[ $(cat "$said") == $4 ]]
}

# What pip would download for Debian 12's Python, into $wheels: it keeps nothing itself where a proxy forbids it.
download_wheels() {
    local -a what=("torch==$setup_torch_version" $setup_torch_needs "nvidia-cuda-runtime==$setup_cuda_runtime_version")
    wheels=$VRAMTRACE_CACHE/bare/wheels
    [ "$(cat "$wheels/.done" 2>/dev/null)" = "${what[*]}" ] && return 0
    setup_venv && setup_pip "downloading PyTorch for Debian 12" download --no-deps --only-binary :all: --python-version 3.11 \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        -f "$VRAMTRACE_CACHE/wheels" -d "$wheels" "${what[@]}" && echo "${what[*]}" >"$wheels/.done"
}

short() {
    download_wheels
    said=$work/said status=0
    make_system bookworm user device
    in_system ./examples/quickstart.sh >"$said" 2>&1 || status=$?
    check "without compiler and sudo it names the packages at once" names_packages

    # What an interrupted run, or one that failed, may leave.
    in_system 'mkdir -p build/meson-info ~/.cache/vramtrace/cuda-include.part ~/.cache/vramtrace/venv-py3.11/bin
        ln -s /nowhere ~/.cache/vramtrace/venv-py3.11/bin/python'
    sudo_for_user
    mkdir -p "$VRAMTRACE_CACHE/bare/apt"
    chroot_binds="$VRAMTRACE_CACHE/bare/apt:/var/cache/apt/archives $wheels:/wheels" find_links=/wheels
    status=0
    in_system ./examples/quickstart.sh >"$said" 2>&1 || status=$?
    check "the demo runs on a bare Debian 12, beside a GPU without driver" runs_without_driver
    status=0
    chroot_run "$root" unshare -n runuser -u "$user" -- env HOME="$home" bash -c "cd ~/vramtrace; ./examples/quickstart.sh" >"$said" 2>&1 || status=$?
    check "it runs again without a network" runs_without_driver
    check "a driver that works is a GPU" decides 0 13000 "setup_gpu && echo yes" yes
    check "a driver without a GPU is none" decides 100 13000 "setup_gpu && echo yes" \
        "setup: /dev/nvidiactl exists, but CUDA does not work: cuInit returned 100: no device"
    check "the user's own PyTorch is used" decides 0 12040 "mkdir -p /tmp/own && echo 'class version: cuda = \"12.8\"' >/tmp/own/torch.py
        export PYTHONPATH=/tmp/own; setup_own_torch && echo \$VRAMTRACE_PYTHON" /usr/bin/python3
    check "an old driver is named before PyTorch is downloaded" decides 0 12040 setup_torch "setup: this GPU's driver is for CUDA 12, *"
}

tests() { # [USER [quick]]
    make_system bookworm "${1:-root}" "$([ "${1:-root}" = root ] || echo sudo_for_user)"
    measured "./tests/run.sh ${2:-}"
    echo "tests/run.sh ${2:-} ended with $status after $minutes minutes; $megabytes MB received; $(du -sm "$root" | cut -f 1) MB on disk, the system included"
    failed=${status#0}
}

write_table() {
    every_case | tee "$work/table" || failed=1
    echo "Made by \`tests/bare/run.sh --write\` on $(date +%F), commit $(git log -1 --format=%h), $(nproc) cores of $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)." >"$work/run"
    python3 - "$page" "$work/table" "$work/run" <<'PYTHON'
import re, sys
page, table, run = (open(name).read() for name in sys.argv[1:])
page = re.sub("^Made by .*\n", lambda _: run, page, count=1, flags=re.M)
begin, end = "<!-- made by tests/bare/run.sh --write -->\n", "<!-- end -->\n"
before, rest = page.split(begin)
open(sys.argv[1], "w").write(before + begin + table + end + rest.split(end, 1)[1])
PYTHON
}

chroot_check
failed=''
work=$(mktemp -d)
trap 'chroot_remove "$work"' EXIT
case ${1:-} in
--short) short ;;
--tests) shift; tests "$@" ;;
--write) make_python; write_table ;;
-*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2 && exit 2 ;;
*) make_python; every_case "$@" ;;
esac
[ -z "$failed" ]
