#!/bin/sh
# small_disk.sh SIZE COMMAND...: runs it where the folder disk/ is a file system of so much.
set -eu
size=$1
shift
mkdir -p disk
exec unshare -m sh -c 'mount -t tmpfs -o "size=$0" tmpfs disk && exec "$@"' "$size" "$@"
