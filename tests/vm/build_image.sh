#!/bin/sh
# Builds the guest of the VM tests:  build_image.sh DIRECTORY  ->  DIRECTORY/{root.ext4,vmlinux,initrd}
#
# Debian bookworm with its own kernel, initramfs and systemd, from the mirrors that apt on this
# machine already uses; guest/ is laid over it. Needs mmdebstrap, e2fsprogs, xz-utils; 'apt-get
# update' must have run. Neither a loop device nor a mount, so it also works without root where
# user name spaces are allowed.
set -eu

out=$(readlink -f "$1")
here=$(dirname "$(readlink -f "$0")")
suite=bookworm

# mke2fs lives in /sbin, which is not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin

# shellcheck disable=SC2016 # apt expands its own variables
sources=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' |
    awk -v suite="$suite" '$1 == "Debian" && index($2, suite) == 1 && $5 == "main" {
        print "deb", $3, $4, $5 }' | sort -u)
if [ -z "$sources" ]; then
    echo "apt: expected a mirror of Debian $suite with its lists, got none;" \
        "run 'apt-get update', or build on Debian 12" >&2
    exit 1
fi

packages=dbus,iproute2,kmod,procps,systemd,systemd-sysv,udev
packages=$packages,initramfs-tools,linux-image-amd64
packages=$packages,curl,e2fsprogs,lvm2,make,mdadm,python3,smartmontools,xfsprogs

# What the recorded day upgrades: each is installed already, so nothing changes but the disk.
upgraded='coreutils e2fsprogs libpython3.11-stdlib perl-base'

# Of the kernel's 4,000 modules the guest needs a hundred; without the rest udev has less to load
# under emulation. net_failover is what virtio_net needs, t10-pi (block) what sd_mod needs.
modules='/lib/modules/*/kernel'
set -- --dpkgopt="path-exclude=$modules/*"
for kept in arch/x86/crypto block crypto drivers/ata drivers/block drivers/char/hw_random \
    drivers/char/virtio_console.ko drivers/md drivers/net/net_failover.ko \
    drivers/net/virtio_net.ko drivers/nvme drivers/scsi drivers/virtio fs/ext4 fs/fuse fs/jbd2 \
    fs/mbcache.ko fs/xfs lib net/core; do
    set -- "$@" --dpkgopt="path-include=$modules/$kept*"
done

# Packs the directory $0 without what mmdebstrap has mounted below it until its hooks are done.
# shellcheck disable=SC2016 # expanded by the hook's shell
pack='awk -v below="$0/" "index(\$2, below) == 1 { print \$2 }" /proc/self/mounts | sort -r |
        xargs -r umount --lazy &&
    mke2fs -q -F -t ext4 -L root -d "$0" "$OUT/root.ext4" 3G'

# shellcheck disable=SC2016 # "$1" is the guest's directory, expanded by the hook's own shell
printf '%s\n' "$sources" | OUT=$out GUEST=$here/guest PACK=$pack UPGRADED=$upgraded mmdebstrap \
    --variant=minbase --include="$packages" \
    --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$@" \
    --essential-hook='cp -r --preserve=mode "$GUEST/." "$1"' \
    --customize-hook='chroot "$1" systemctl --quiet enable agent systemd-networkd' \
    --customize-hook='chroot "$1" systemctl --quiet mask apt-daily.timer \
        apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
        smartmontools.service serial-getty@ttyS0.service getty@tty1.service' \
    --customize-hook='mkdir "$1/var/cache/packages" && cd "$1/var/cache/packages" &&
        APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -q download $UPGRADED' \
    --customize-hook='echo guest > "$1/etc/hostname"; : > "$1/etc/machine-id"' \
    --customize-hook='cp "$1"/boot/vmlinuz-* "$OUT/vmlinuz"; cp "$1"/boot/initrd.img-* "$OUT/initrd"' \
    --customize-hook='rm -rf "$1"/boot/* "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/*' \
    --customize-hook='unshare --mount sh -c "$PACK" "$1"' \
    --format=null "$suite" - -

# QEMU boots the kernel's ELF image directly (PVH), which spares the emulated unpacking of 3 s and
# more. It is an xz stream inside vmlinuz; the magic number may occur before it by chance.
LC_ALL=C grep -aboP '\xFD7zXZ\x00' "$out/vmlinuz" | cut -d: -f1 | while read -r offset; do
    tail -c "+$((offset + 1))" "$out/vmlinuz" |
        xz --decompress --stdout --single-stream >"$out/vmlinux" 2>/dev/null || continue
    break
done
if [ "$(head -c 4 "$out/vmlinux" | tail -c 3)" != ELF ]; then
    echo "'$out/vmlinuz': expected an ELF kernel in an xz stream, got none" >&2
    exit 1
fi
rm "$out/vmlinuz"
