#!/bin/bash
# Brings what building and the demo need; does nothing where it is there already.
#
#   packaging/setup.sh FUNCTION...   runs these, then prints the variables they set
#   . packaging/setup.sh             for scripts: the functions, nothing run
#
# setup_packages       Debian/Ubuntu packages, by apt (sudo where not root): what the build needs, and those named
# setup_cuda_headers   sets VRAMTRACE_CUDA_INCLUDE, a folder with cuda.h: for meson's -Ddriver_include
# setup_gpu            succeeds if there is a GPU: libcuda.so.1 loads and cuInit succeeds. Says why not where a GPU seems to be there
# setup_own_torch      sets VRAMTRACE_PYTHON if it, or python3, has a PyTorch for CUDA already; fails otherwise
# setup_torch          sets VRAMTRACE_PYTHON: an interpreter with PyTorch. Without a GPU PyTorch comes without NVIDIA's libraries,
#                      which the simulated CUDA replaces
# setup_build          configures a build folder where needed, and builds a target
#
# Downloads go to ${VRAMTRACE_CACHE:-~/.cache/vramtrace}. Each function returns 1, and says in one line what to do, where it
# cannot get what it needs. After that, or an interruption, it can be run again.

VRAMTRACE_CACHE=${VRAMTRACE_CACHE:-$HOME/.cache/vramtrace}

setup_torch_version=2.11.0
setup_torch_cuda=13
setup_torch_pythons=10-14 # Python 3.10 to 3.14 have wheels of it
setup_torch_needs="filelock fsspec jinja2 markupsafe mpmath networkx numpy sympy typing_extensions" # without a GPU: without CUDA's libraries
setup_cuda_runtime_version=13.0.96
setup_debian_packages="gcc libc6-dev binutils pkg-config libzstd-dev libdw-dev libelf-dev libcjson-dev libxxhash-dev
    libdeflate-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libsqlite3-dev libncurses-dev node-d3 esbuild"

setup_say() { echo "setup: $*" >&2; }

# setup_run TEXT COMMAND...: its output goes to a log; a terminal shows TEXT and the seconds, anything else a line every 20 s.
setup_run() {
    local text=$1 status=0 ticker
    shift
    setup_log=$(mktemp) || return 1
    (
        seconds=0
        [ -t 2 ] || setup_say "$text"
        while kill -0 $$ 2>/dev/null; do # not longer than this script, if it is interrupted
            if [ -t 2 ]; then printf '\rsetup: %s, %d s ' "$text" "$seconds" >&2
            elif [ "$seconds" -gt 0 ] && [ $((seconds % 20)) = 0 ]; then setup_say "$text, $seconds s"; fi
            sleep 1 >/dev/null 2>&1
            seconds=$((seconds + 1))
        done
    ) &
    ticker=$!
    "$@" >>"$setup_log" 2>&1 </dev/null || status=$?
    kill "$ticker" 2>/dev/null
    wait "$ticker" 2>/dev/null
    [ ! -t 2 ] || echo >&2
    [ "$status" != 0 ] || rm -f "$setup_log"
    return "$status"
}

# Why the command of the last setup_run failed, in one line.
setup_why() {
    local line
    line=$(grep -E '^E: |ERROR|[Ee]rror: ' "$setup_log" | head -n 1)
    printf '%s; log: %s' "${line:-$(tail -n 1 "$setup_log")}" "$setup_log"
}

setup_packages() {
    local missing
    local -a wanted=($setup_debian_packages "$@")
    # Newer ones than the distribution's, as from pip, serve as well.
    command -v meson >/dev/null || wanted+=(meson)
    command -v ninja >/dev/null || wanted+=(ninja-build)
    setup_base_python >/dev/null 2>&1 || wanted+=(python3 python3-venv)
    if ! command -v dpkg-query >/dev/null; then
        setup_say "no dpkg here; have these, by the names your system gives them:" "${wanted[@]}"
        return 0
    fi
    missing=$(setup_not_installed "${wanted[@]}")
    [ -z "$missing" ] || setup_install $missing
}

setup_not_installed() {
    local package installed
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
    for package in "$@"; do
        grep -qxF "$package" <<<"$installed" || printf ' %s' "$package"
    done
}

setup_install() {
    local -a as_root=()
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || { [ -t 0 ] && command -v sudo >/dev/null && sudo -v; } || {
            setup_say "these packages are missing, and this user cannot install them; ask for: apt-get install $*"
            return 1
        }
        as_root=(sudo)
    fi
    setup_run "installing Debian packages: ${*:1:3}${4:+ and $(($# - 3)) more}" setup_apt "$@" || {
        setup_say "apt-get could not install packages ($(setup_why)); mend that, or install them another way, and run this again: $*"
        return 1
    }
}

setup_apt() {
    local -a install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends
        -o DPkg::Lock::Timeout=120 "$@")
    "${install[@]}" && return
    "${as_root[@]}" dpkg --configure -a # where an earlier one was interrupted
    : >"$setup_log" # what failed at first is not the reason
    "${as_root[@]}" apt-get update -q -o APT::Update::Error-Mode=any -o DPkg::Lock::Timeout=120
    "${install[@]}"
}

# The interpreter that PyTorch's wheels are taken for: python3 of PATH, or another.
setup_base_python() {
    local python
    for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$python" -c "import ensurepip, sys, venv
sys.exit(sys.version_info[0] != 3 or not ${setup_torch_pythons%-*} <= sys.version_info[1] <= ${setup_torch_pythons#*-})" 2>/dev/null; then
            command -v "$python"
            return 0
        fi
    done
    setup_say "PyTorch $setup_torch_version needs a Python from 3.${setup_torch_pythons/-/ to 3.} with venv and ensurepip (Debian: apt install python3-venv); none was found"
    return 1
}

# Only one process at a time fills the cache.
setup_locked() {
    mkdir -p "$VRAMTRACE_CACHE" || return 1
    if command -v flock >/dev/null; then
        (flock 9 && "$@") 9>"$VRAMTRACE_CACHE/.lock"
    else
        "$@"
    fi
}

# Sets setup_venv, a virtual environment of that interpreter; its name ends with $1.
setup_venv() {
    local base version
    base=$(setup_base_python) || return 1
    version=$("$base" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    setup_venv=$VRAMTRACE_CACHE/venv-py$version${1:-}
    "$setup_venv/bin/python" -m pip --version >/dev/null 2>&1 || setup_locked setup_make_venv "$base"
}

setup_make_venv() { # PYTHON
    "$setup_venv/bin/python" -m pip --version >/dev/null 2>&1 && return 0 # another process was sooner
    setup_run "making a virtual environment in $setup_venv" "$1" -m venv --clear "$setup_venv" || {
        setup_say "could not make a virtual environment ($(setup_why))"
        return 1
    }
}

setup_pip() { # TEXT ARGUMENT...
    local text=$1
    shift
    setup_run "$text" "$setup_venv/bin/python" -m pip -q --disable-pip-version-check "$@" || {
        setup_say "$text failed ($(setup_why)): can PyPI be reached from here? Then run this again"
        return 1
    }
}

# VRAMTRACE_CUDA_SEARCH: where to look for cuda.h before downloading it (folders, by spaces; may be empty).
setup_cuda_headers() {
    local folder
    for folder in ${VRAMTRACE_CUDA_INCLUDE:-} \
        ${VRAMTRACE_CUDA_SEARCH-/usr/local/cuda/include /opt/cuda/include /usr/include} \
        "$VRAMTRACE_CACHE/cuda-include"; do
        if [ -e "$folder/cuda.h" ] && [ -e "$folder/cudaTypedefs.h" ]; then
            export VRAMTRACE_CUDA_INCLUDE=$folder
            return 0
        fi
    done
    setup_venv && setup_locked setup_download_headers || return 1
    export VRAMTRACE_CUDA_INCLUDE=$VRAMTRACE_CACHE/cuda-include
}

setup_download_headers() {
    local wheel
    [ -e "$VRAMTRACE_CACHE/cuda-include/cuda.h" ] && return 0
    setup_pip "downloading CUDA's headers (nvidia-cuda-runtime $setup_cuda_runtime_version)" \
        download --no-deps -d "$VRAMTRACE_CACHE/wheels" "nvidia-cuda-runtime==$setup_cuda_runtime_version" || return 1
    wheel=$(ls "$VRAMTRACE_CACHE"/wheels/nvidia_cuda_runtime-"$setup_cuda_runtime_version"-*.whl | head -n 1)
    "$setup_venv/bin/python" - "$wheel" "$VRAMTRACE_CACHE/cuda-include" <<'PYTHON'
import os, shutil, sys, zipfile
wheel, target = sys.argv[1:]
unfinished = target + ".part"
shutil.rmtree(target, ignore_errors=True)
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        _, found, inside = name.partition("/include/")
        if not found or not inside or ".." in inside or inside.endswith("/"):
            continue
        path = os.path.join(unfinished, inside)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(archive.read(name))
os.rename(unfinished, target)
PYTHON
}

setup_gpu() {
    local device reason
    if [ -z "${setup_gpu_found:-}" ]; then
        setup_gpu_found=no
        reason=$(python3 - 2>&1 <<'PYTHON'
import ctypes, sys
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    sys.exit(error)
result, text = driver.cuInit(0), ctypes.c_char_p()
if result != 0:
    driver.cuGetErrorString(result, ctypes.byref(text))
    sys.exit("cuInit returned %d: %s" % (result, (text.value or b"unknown").decode()))
version = ctypes.c_int()
driver.cuDriverGetVersion(ctypes.byref(version))
print(version.value)
PYTHON
        ) && setup_gpu_found=yes setup_gpu_cuda=$reason
        for device in /dev/nvidiactl /dev/dxg /dev/nvmap; do # Linux, WSL2, Jetson
            [ "$setup_gpu_found" = yes ] || [ ! -e "$device" ] || setup_say "$device exists, but CUDA does not work: ${reason##*$'\n'}"
        done
    fi
    [ "$setup_gpu_found" = yes ]
}

setup_own_torch() {
    local python
    python=$("${VRAMTRACE_PYTHON:-python3}" -c 'import sys, torch
print(sys.executable)
sys.exit(not torch.version.cuda)' 2>/dev/null) || return 1
    export VRAMTRACE_PYTHON=$python
}

setup_torch() {
    local with="--no-deps torch==$setup_torch_version $setup_torch_needs" size="0.5 GB" kind=''
    if setup_gpu; then
        [ "$setup_gpu_cuda" -ge $((setup_torch_cuda * 1000)) ] || {
            setup_say "this GPU's driver is for CUDA $((setup_gpu_cuda / 1000)), PyTorch $setup_torch_version for CUDA $setup_torch_cuda: install a newer driver, or a PyTorch for this one (pytorch.org) and run this with its python3"
            return 1
        }
        with="torch==$setup_torch_version" size="2.7 GB with CUDA's libraries" kind=-gpu
    fi
    setup_venv "$kind" || return 1
    [ "$(cat "$setup_venv/.torch" 2>/dev/null)" = "$with" ] || setup_locked setup_install_torch "$size" $with || return 1
    VRAMTRACE_PYTHON=$setup_venv/bin/python
    export VRAMTRACE_PYTHON
}

setup_install_torch() { # SIZE WHAT...
    local size=$1
    shift
    [ "$(cat "$setup_venv/.torch" 2>/dev/null)" = "$*" ] && return 0
    setup_pip "downloading PyTorch $setup_torch_version ($size) into $setup_venv" install --no-compile "$@" || return 1
    printf '%s' "$*" >"$setup_venv/.torch"
}

# setup_build BUILD TARGETS FILE OPTION...: configures BUILD with these options of meson unless it can make FILE already, then
# builds TARGETS. A folder that an interrupted configuration left is configured anew; what is compiled in it stays.
setup_build() {
    local build=$1 targets=$2 file=$3
    shift 3
    { grep -qs "^build $file" "$build/build.ninja" && grep -qF "$VRAMTRACE_CUDA_INCLUDE" "$build/build.ninja"; } ||
        setup_configure "$build" -Ddriver_include="$VRAMTRACE_CUDA_INCLUDE" "$@" || return 1
    if [ -t 2 ]; then
        ninja -C "$build" $targets >&2
    else # a line for every fiftieth file, and what is not progress
        (set -o pipefail && ninja -C "$build" $targets | {
            count=0
            while IFS= read -r line; do
                [[ $line != \[* ]] || [ $((count++ % 50)) = 0 ] && echo "$line"
            done
            true
        }) >&2
    fi || { setup_say "the build failed (see above): correct that, and run this again"; return 1; }
}

setup_configure() { # BUILD OPTION...
    local build=$1 multiarch
    shift
    # Where Debian's loader looks; meson knows that folder only if dpkg-dev is there.
    multiarch=$(gcc -print-multiarch 2>/dev/null) && [ -n "$multiarch" ] && set -- -Dlibdir="lib/$multiarch" "$@"
    [ -e "$build/build.ninja" ] && setup_run "configuring $build again" meson setup --reconfigure "$build" "$@" && return
    rm -rf "$build"/meson-{info,logs,private} "$build/build.ninja"
    setup_run "configuring $build" meson setup "$build" "$@" || {
        setup_say "meson could not configure $build ($(setup_why))"
        return 1
    }
}

setup_main() { # SCRIPT FUNCTION...
    local script=$1 function variable
    shift
    for function in "$@"; do
        grep -q "^# $function " "$script" "$(dirname "$script")/../packaging/setup.sh" && [ "$(type -t "$function")" = function ] || {
            sed -n '2,/^$/s/^# \{0,1\}//p' "$script" >&2
            return 2
        }
        "$function" || return 1
    done
    for variable in VRAMTRACE_CACHE VRAMTRACE_CUDA_INCLUDE VRAMTRACE_PYTHON VRAMTRACE_READERS VRAMTRACE_PACKAGING; do
        [ -z "${!variable:-}" ] || echo "$variable=${!variable}"
    done
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    [ $# -gt 0 ] || set -- help
    setup_main "$0" "$@"
fi
