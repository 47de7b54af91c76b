#!/bin/bash
# In a Debian system with a compiler: builds Python from the source package that apt has, as it comes from python.org, under
# /usr/local with its library shared. Docker's python images have it like this; it runs from another prefix too, as conda's does.
set -euo pipefail
version=$1 # 3.11
sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list
apt-get update -q
mkdir -p /python && cd /python
apt-get source -q --print-uris "python$version" | tr -d "'" | while read -r uri file _ hash; do
    case $file in *.orig.tar.*) /usr/lib/apt/apt-helper -q download-file "$uri" "$file" "$hash" ;; esac
done
tar --strip-components=1 -xf ./*.orig.tar.*
# RPATH and not RUNPATH, as conda has it: libraries that a module needs are looked for here first.
./configure -q --enable-shared --with-ensurepip=install LDFLAGS='-Wl,-rpath,\$$ORIGIN/../lib,--disable-new-dtags'
make -s -j"$(nproc)"
make -s install
rm -rf /usr/local/lib/python"$version"/test /usr/local/lib/python"$version"/config-*
ln -sf python3 /usr/local/bin/python
