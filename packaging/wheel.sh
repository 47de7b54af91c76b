#!/bin/bash
# Builds the source package, and from it the wheel for Linux on x86-64, or on $chroot_machine:
#
#   packaging/wheel.sh [FOLDER [MESON_OPTION...]]     default: dist/; -Doptimization=0 is built sooner, for tests
#   chroot_machine=arm64 packaging/wheel.sh ...       for AArch64: here, or on x86-64 by qemu (packaging/chroot.sh)
#
# In a Debian 11 system of its own (packaging/chroot.sh), whose C library is old enough for the machines that the wheel should
# run on. Every other library is linked into the program, so that it needs the C library alone; auditwheel checks that
# and gives the tag. The same sources make the same files (SOURCE_DATE_EPOCH is the last commit's time). Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${1:-dist}")
options=("${@:2}")
. packaging/chroot.sh

# What the program is made of; their licences go into the wheel.
linked="libzstd-dev libdw-dev libelf-dev libcjson-dev libxxhash-dev libdeflate-dev libprotobuf-c-dev libsqlite3-dev libncurses-dev
    zlib1g-dev liblzma-dev libbz2-dev libstdc++-10-dev"
tools="gcc git libc6-dev binutils patch xz-utils pkg-config python3 python3-venv protobuf-c-compiler node-d3 esbuild"

folder=$(mktemp -d)
trap 'chroot_remove "$folder"' EXIT
chroot_make "$folder/root" bullseye ./packaging/debian11.sh $tools $linked
mkdir "$folder/root/source"
git ls-files -z | tar --null -T - -cf - | tar -C "$folder/root/source" --no-same-owner -xf -
epoch=$(git log -1 --format=%ct 2>/dev/null || date +%s)

chroot_run "$folder/root" env PATH=/venv/bin:/usr/bin:/bin SOURCE_DATE_EPOCH="$epoch" linked="$linked" bash -euc '
    # meson takes a source package from a commit.
    cd /source
    export GIT_AUTHOR_DATE="@$SOURCE_DATE_EPOCH +0000" GIT_COMMITTER_DATE="@$SOURCE_DATE_EPOCH +0000"
    git init -q
    git add -A
    git -c user.name=vramtrace -c user.email= commit -qm sources
    python -m build --no-isolation --sdist --outdir /built
    mkdir /unpacked
    tar -C /unpacked --strip-components=1 -xf /built/*.tar.gz
    for package in $linked; do cp "/usr/share/doc/$package/copyright" "/unpacked/LICENSE.${package%-dev}"; done
    cd /unpacked
    python -m build --no-isolation --wheel --outdir /linked "${@/#/-Csetup-args=}" -Csetup-args=-Dprefer_static=true
    # A program that needs more than the C library would be replaced by a Python script that starts it.
    python -m zipfile -e /linked/*.whl /check
    if readelf -d /check/*.data/scripts/vramtrace /check/*.data/data/lib/vramtrace/*.so | grep NEEDED |
        grep -v "\[\(lib\(c\|m\|dl\|pthread\|rt\)\|ld-linux-x86-64\|ld-linux-aarch64\)\.so\.[0-9]\]"; then
        echo "these libraries are not linked in: have their static ones" >&2
        exit 1
    fi
    auditwheel show /linked/*.whl
    auditwheel repair --strip --only-plat --wheel-dir /built /linked/*.whl' wheel.sh "${options[@]}"
mkdir -p "$target"
cp "$folder"/root/built/* "$target/"
ls "$target"/vramtrace-*
