#!/bin/bash
# Debian systems in folders, for builds and tests that need a known system. For scripts: . packaging/chroot.sh
#
# chroot_make FOLDER SUITE PACKAGES...   a fresh system of that suite (bullseye, bookworm, sid) with these packages; from
#                                        the cache if it was made before (${VRAMTRACE_CACHE:-~/.cache/vramtrace}/chroots)
# chroot_run FOLDER COMMAND...           runs a command in it as root: with /proc, /sys, a /dev of its own and the network, in a
#                                        mount namespace of its own that leaves nothing mounted. $chroot_devices: more files in
#                                        /dev, empty; $chroot_binds: folders of the host in it, as FOLDER:PLACE
# chroot_remove FOLDER
#
# $chroot_machine: another of Debian's architectures (arm64); the kernel must run its programs by qemu (qemu-user-static).
# If the first package has a slash, it is a script here (./NAME), which runs in the system last.
# They need root and debootstrap (Debian: apt install debootstrap), and return 1, saying why, where they cannot work.

chroot_cache=${VRAMTRACE_CACHE:-$HOME/.cache/vramtrace}/chroots

chroot_say() { echo "chroot: $*" >&2; }

chroot_check() {
    [ "$(id -u)" = 0 ] || { chroot_say "needs root"; return 1; }
    command -v debootstrap >/dev/null || { chroot_say "needs debootstrap (apt install debootstrap)"; return 1; }
    unshare -m true 2>/dev/null || { chroot_say "no mount namespace here"; return 1; }
}

chroot_make() {
    local folder=$1 suite=$2 script=/dev/null name
    shift 2
    case ${1:-} in */*) script=$1 && shift ;; esac
    chroot_check || return 1
    name=$chroot_cache/$suite${chroot_machine:+-$chroot_machine}-$({ printf '%s\n' "$@" | sort && cat "$script"; } | sha256sum | cut -c 1-12)
    [ ! -e "$folder" ] || { chroot_say "$folder exists"; return 1; }
    mkdir -p "$chroot_cache" "$folder" || return 1
    (flock 9 && chroot_fill "$folder" "$suite" "$name" "$script" "$@") 9>"$name.lock" # another may be making the same
}

chroot_fill() {
    local folder=$1 suite=$2 name=$3 script=$4
    shift 4
    [ ! -e "$name.tar.zst" ] || { tar -C "$folder" -xf "$name.tar.zst" && return; }
    chroot_say "making $suite with: ${*:-nothing more}"
    if [ $# = 0 ]; then
        debootstrap ${chroot_machine:+--arch="$chroot_machine"} --variant=minbase "$suite" "$folder" >"$name.log" 2>&1 &&
            # A mirror that is not updated daily serves the same packages.
            echo 'Acquire::Check-Valid-Until "false";' >"$folder/etc/apt/apt.conf.d/99mirror"
    else
        rmdir "$folder" && chroot_make "$folder" "$suite" &&
            chroot_run "$folder" apt-get update -q >"$name.log" 2>&1 &&
            chroot_run "$folder" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
                ca-certificates "$@" >>"$name.log" 2>&1 &&
            chroot_run "$folder" bash -c "$(cat "$script")" >>"$name.log" 2>&1 &&
            chroot_run "$folder" apt-get clean
    fi && tar --zstd -C "$folder" -cf "$name.part" . && mv "$name.part" "$name.tar.zst" && return 0
    chroot_say "could not make it: see $name.log"
    chroot_remove "$folder"
    return 1
}

chroot_run() {
    # The host's certificates, since it may reach the network through a proxy that has its own.
    chroot_devices=${chroot_devices:-} chroot_binds=${chroot_binds:-} unshare -m bash -c '
        set -e
        folder=$1
        shift
        mount --rbind "$folder" "$folder" # so that a mount namespace can be made in it too
        mount --make-rprivate "$folder"
        mount -t proc proc "$folder/proc"
        mount --rbind /sys "$folder/sys"
        dev=$folder/dev
        mount -t tmpfs -o mode=755 dev "$dev"
        mkdir "$dev/pts" "$dev/shm"
        mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$dev/pts"
        mount -t tmpfs -o mode=1777 shm "$dev/shm"
        ln -s pts/ptmx "$dev/ptmx"
        ln -s /proc/self/fd "$dev/fd"
        for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%:*}" "$dev/${number#*:}"; done
        for device in null zero full random urandom tty; do
            touch "$dev/$device"
            mount --bind "/dev/$device" "$dev/$device"
        done
        for device in $chroot_devices; do touch "$dev/$device"; done
        for bind in $chroot_binds; do
            mkdir -p "$folder${bind#*:}"
            mount --bind "${bind%%:*}" "$folder${bind#*:}"
        done
        cp -L /etc/resolv.conf /etc/hosts "$folder/etc/" # the names of this machine, as an installer writes them
        certificates=/etc/ssl/certs/ca-certificates.crt
        [ ! -e "$certificates" ] || [ ! -e "$folder$certificates" ] || mount --bind "$certificates" "$folder$certificates"
        # Not chroot: a process that enters this mount namespace (nsenter) would find the host in it.
        mkdir -p "$folder/.host"
        cd "$folder"
        pivot_root . .host
        chroot .host umount -l /
        rmdir .host
        exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
            PIP_CERT="$certificates" PIP_ROOT_USER_ACTION=ignore "$@"' chroot_run "$@"
}

chroot_remove() { rm -rf --one-file-system "$1"; }
