#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs compiled, for a machine without network or compilers:
#
#     tests/gpu/pack.sh [FILE] [--wheel WHEEL]     FILE: default gpu-prebuilt.tar.gz (3 MB)
#
# Takes the build folder ($VRAMTRACE_BUILD, default build/): the recorder, the analyzer with the libraries that it needs
# (not the C library), and the C programs of the parts. They run with a C library as new as this machine's or newer; with
# --wheel (packaging/wheel.sh) the recorder and the analyzer are those that users get, for glibc 2.28 and newer.
set -euo pipefail
cd "$(dirname "$0")/../.."
file=gpu-prebuilt.tar.gz wheel=
while [ $# -gt 0 ]; do
    case $1 in
    --wheel) wheel=$2 && shift 2 ;;
    -*) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    *) file=$1 && shift ;;
    esac
done
build=${VRAMTRACE_BUILD:-build}
command -v patchelf >/dev/null || { echo "pack.sh: patchelf is missing (Debian: apt install patchelf)" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Path in the build folder, and from there to the libraries.
take() {
    [ -e "$build/$1" ] || { echo "pack.sh: $build/$1 is missing: build first (ninja -C $build)" >&2; exit 2; }
    install -D "$build/$1" "$folder/$1"
    strip --strip-debug "$folder/$1"
    case $1 in *.so) return ;; esac
    # A path of the loader that holds for what the libraries need, too.
    patchelf --force-rpath --set-rpath "\$ORIGIN/$2libraries" "$folder/$1"
    ldd "$build/$1" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' |
        sed -E '/\/(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|cuda|cudart)\.so|ld-linux)/d' |
        while read -r library; do install -D -m 644 "$library" "$folder/libraries/$(basename "$library")"; done
}
take preload/libvramtrace.so
take analyzer/vramtrace ../
for program in tests/golden/driver_calls tests/golden/way_runtime tests/golden/sharing tests/torch/list_blocks; do
    take "$program" ../../
done
if [ -n "$wheel" ]; then
    python3 -m zipfile -e "$wheel" "$folder/wheel"
    install "$folder"/wheel/*.data/scripts/vramtrace "$folder/analyzer/vramtrace"
    install "$folder"/wheel/*.data/data/lib/vramtrace/libvramtrace.so "$folder/preload/libvramtrace.so"
    rm -rf "$folder/wheel"
fi
tar -C "$folder" -czf "$file" .
ls -l "$file"
