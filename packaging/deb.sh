#!/bin/bash
# Builds the Debian package: packaging/deb.sh [FOLDER [SUITE]]   (default: dist/, in this system)
# With a SUITE (bookworm, sid), in a bare system of it that has what debian/control names (packaging/chroot.sh; needs root);
# else this system needs that, and dpkg-dev. cuda.h comes from VRAMTRACE_CUDA_INCLUDE, or as packaging/setup.sh finds it.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${1:-dist}")
suite=${2:-}
. packaging/setup.sh
. packaging/chroot.sh
setup_cuda_headers
folder=$(mktemp -d)
trap 'chroot_remove "$folder"' EXIT
root=$folder/root
if [ -n "$suite" ]; then
    chroot_make "$root" "$suite" build-essential $(sed -n '/^Build-Depends:/,/^Standards/{
        /^Standards/d; s/Build-Depends://; s/debhelper-compat/debhelper/; s/([^)]*)\|:any\|,//g; p}' debian/control)
    cp -rL "$VRAMTRACE_CUDA_INCLUDE" "$root/cuda"
    VRAMTRACE_CUDA_INCLUDE=/cuda
fi
mkdir -p "$root/build/vramtrace"
git ls-files -z | tar --null -T - -cf - | tar -C "$root/build/vramtrace" --no-same-owner -xf -
build="cd build/vramtrace && VRAMTRACE_CUDA_INCLUDE='$VRAMTRACE_CUDA_INCLUDE' DEB_BUILD_OPTIONS='${DEB_BUILD_OPTIONS:-}' dpkg-buildpackage -us -uc -b"
if [ -n "$suite" ]; then chroot_run "$root" bash -c "$build"; else (cd "$root" && bash -c "$build"); fi
mkdir -p "$target"
cp "$root"/build/*.deb "$root"/build/*.changes "$root"/build/*.buildinfo "$target/"
