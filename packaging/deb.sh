#!/bin/bash
# Builds the Debian package for this system: packaging/deb.sh [FOLDER]   (default: dist/)
# Needs the packages of debian/control, dpkg-dev and debhelper, and cuda.h (VRAMTRACE_CUDA_INCLUDE, or packaging/setup.sh's).
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${1:-dist}")
. packaging/setup.sh
setup_cuda_headers
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/vramtrace"
git ls-files -z | tar --null -T - -cf - | tar -C "$folder/vramtrace" -xf -
(cd "$folder/vramtrace" && dpkg-buildpackage -us -uc -b)
mkdir -p "$target"
cp "$folder"/*.deb "$folder"/*.changes "$folder"/*.buildinfo "$target/"
