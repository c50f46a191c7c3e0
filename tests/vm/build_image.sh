#!/bin/sh
# Builds the machine of the VM tests:  build_image.sh SUITE DIRECTORY
#   ->  DIRECTORY/{root.tar,vmlinux,initrd,wheels}
#
# Debian SUITE (bookworm, trixie) with its own kernel, initramfs and systemd, from the mirrors that
# apt on this machine already uses; guest/ is laid over it. What iowarden imports becomes wheels for
# its Python there, iowarden itself is installed by install_image.sh. Needs mmdebstrap, xz-utils, zstd
# and PYTHON with pip; 'apt-get update' must have run. Neither a loop device nor a mount, so it also works
# without root where user name spaces are allowed.
set -eu

suite=$1
out=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
packaging=$here/../../packaging

case $suite in
bookworm) python=3.11 ;;
trixie) python=3.13 ;;
*)
    echo "SUITE: expected bookworm or trixie, got '$suite'" >&2
    exit 1
    ;;
esac

# chroot lives in /sbin, which is not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin

# The mirrors have all suites: of this machine's, only the name differs.
# shellcheck disable=SC2016 # apt expands its own variables
sources=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI) $(COMPONENT)' \
    'Created-By: Packages' |
    awk -v suite="$suite" '$1 == "Debian" && $4 == "main" && $2 ~ /^[a-z]+(-security|-updates)?$/ {
        sub(/^[a-z]+/, suite, $2); print "deb", $3, $2, $4 }' | sort -u)
if [ -z "$sources" ]; then
    echo "apt: expected a mirror of Debian with its lists, got none; run 'apt-get update', on Debian" >&2
    exit 69 # EX_UNAVAILABLE: the tests are skipped
fi

packages=dbus,iproute2,kmod,procps,systemd,systemd-sysv,udev
packages=$packages,busybox-static,initramfs-tools,linux-image-amd64
packages=$packages,btrfs-progs,curl,e2fsprogs,lvm2,make,mdadm,nfs-kernel-server,open-iscsi
packages=$packages,multipath-tools,python3,smartmontools,thin-provisioning-tools,xfsprogs

# What the recorded day upgrades: each is installed already, so nothing changes but the disk.
upgraded="coreutils e2fsprogs libpython$python-stdlib perl-base"

# What 'apt install ./iowarden_*.deb' takes from the distribution, with what that needs: the guest's
# only repository. exim4 is 'default-mta'; as a local mail server it listens on localhost:25.
packaged="libcrypt1 python3-psutil python3-pyudev python3-rich python3-systemd python3-yaml exim4"

# Of the kernel's 4,000 modules the guest needs a hundred; without the rest udev has less to load
# under emulation. net_failover is what virtio_net needs, t10-pi (block) what sd_mod needs.
modules='/lib/modules/*/kernel'
set -- --dpkgopt="path-exclude=$modules/*" --dpkgopt="path-exclude=/usr$modules/*"
for kept in arch/x86/crypto block crypto drivers/ata drivers/block drivers/char/hw_random \
    drivers/char/virtio_console.ko drivers/md drivers/net/net_failover.ko \
    drivers/net/virtio_net.ko drivers/nvme drivers/scsi drivers/target drivers/virtio \
    fs/btrfs fs/configfs fs/ext4 fs/fuse fs/jbd2 \
    fs/mbcache.ko fs/xfs lib net/core \
    fs/fscache fs/lockd fs/netfs fs/nfs net/dns_resolver net/sunrpc; do
    set -- "$@" --dpkgopt="path-include=$modules/$kept*" --dpkgopt="path-include=/usr$modules/$kept*"
done

# 'make wheels' for another release than this machine's: the index is asked here, where it is known
# how, and the one that is only source is compiled there, with what is gone afterwards.
"${PYTHON:-python3}" -m pip --quiet --disable-pip-version-check download --dest "$out/downloads" \
    --require-hashes --no-deps --only-binary :all: --no-binary systemd-python \
    --implementation cp --python-version "$python" --abi "cp$(echo "$python" | tr -d .)" \
    --abi abi3 --abi none --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 \
    --platform manylinux2010_x86_64 \
    -r "$packaging/requirements-build.txt" -r "$packaging/requirements.txt"
compiler='gcc libsystemd-dev pkg-config python3-dev python3-venv'
# shellcheck disable=SC2016 # expanded by the hook's shell
wheels='set -e; export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG
    apt-get -qq -o DPkg::Chroot-Directory="$0" install $COMPILER
    mv "$OUT/downloads" "$0/tmp/wheels"
    chroot "$0" sh -ec "cd /tmp/wheels; python3 -m venv /tmp/venv
        pip=\"/tmp/venv/bin/python -m pip --quiet --disable-pip-version-check\"
        \$pip install --no-index setuptools-*.whl
        \$pip wheel --no-index --no-build-isolation --no-deps systemd-python-*.tar.gz
        rm -r /tmp/venv systemd-python-*.tar.gz setuptools-*.whl shtab-*.whl"
    mv "$0/tmp/wheels" "$OUT/wheels"
    apt-get -qq -o DPkg::Chroot-Directory="$0" -o APT::AutoRemove::SuggestsImportant=false \
        purge --autoremove $COMPILER'

# A repository without a server and a signature: a directory with an index.
# shellcheck disable=SC2016 # expanded by the hook's shell
repository='set -e; export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG
    apt-get -qq clean
    apt-get -qq -o APT::Install-Recommends=true --download-only install $PACKAGED
    mkdir "$0/var/cache/repository"
    cd "$0/var/cache/repository"
    mv "$0"/var/cache/apt/archives/*.deb .
    for deb in *.deb; do
        dpkg-deb --field "$deb"
        printf "Filename: ./%s\nSize: %d\n" "$deb" "$(stat -c %s "$deb")"
        printf "SHA256: %.64s\n\n" "$(sha256sum "$deb")"
    done >Packages
    rm -rf "$0"/etc/apt/sources.list.d/*
    echo "deb [trusted=yes] file:/var/cache/repository ./" >"$0/etc/apt/sources.list"'

# Trixie packs each module, which the guest would unpack at each boot. The initramfs is what finds the
# root disk and no more: Debian's tries arrays and takes a third of the boot.
# shellcheck disable=SC2016 # expanded by the hook's shell
kernel='set -e
    cp "$0"/boot/vmlinuz-* "$OUT/vmlinuz"
    version=$(ls "$0/usr/lib/modules")
    find "$0/usr/lib/modules" -name "*.ko.xz" -exec xz --decompress {} +
    chroot "$0" depmod "$version"
    cd "$0/tmp"
    mkdir -p initrd/bin initrd/dev initrd/root
    cp "$0/usr/bin/busybox" initrd/bin/
    cp "$INIT" initrd/init
    for module in virtio_pci virtio_blk ext4; do
        chroot "$0" modprobe --set-version "$version" --show-depends "$module"
    done | awk "\$1 == \"insmod\" && !seen[\$2]++ { print \$2 }" | cat -n |
        while read -r number file; do cp "$0$file" "initrd/$(printf %02d "$number").ko"; done
    cd initrd
    find . | chroot "$0" sh -c "cd /tmp/initrd && cpio --quiet -o -H newc" >"$OUT/initrd"
    rm -r "$0/tmp/initrd"'

# shellcheck disable=SC2016 # "$1" is the guest's directory, expanded by the hook's own shell
printf '%s\n' "$sources" | OUT=$out GUEST=$here/guest INIT=$here/guest_init COMPILER=$compiler \
    WHEELS=$wheels KERNEL=$kernel UPGRADED=$upgraded PACKAGED=$packaged REPOSITORY=$repository \
    mmdebstrap \
    --variant=minbase --include="$packages" \
    --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt=force-unsafe-io --dpkgopt=force-confold --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$@" \
    --essential-hook='cp -r --preserve=mode "$GUEST/." "$1"' \
    --customize-hook='chroot "$1" systemctl --quiet enable agent systemd-networkd' \
    --customize-hook='chroot "$1" systemctl --quiet disable nfs-blkmap nfs-client.target nfs-server \
        rpcbind.service rpcbind.socket' \
    --customize-hook='chroot "$1" systemctl --quiet mask apt-daily.timer \
        apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
        fstrim.timer xfs_scrub_all.timer \
        smartmontools.service serial-getty@ttyS0.service getty@tty1.service systemd-logind.service \
        systemd-user-sessions.service systemd-random-seed.service blk-availability.service \
        lvm2-monitor.service modprobe@configfs.service modprobe@drm.service \
        modprobe@efi_pstore.service' \
    --customize-hook='chroot "$1" systemctl --quiet disable multipathd.service multipathd.socket &&
        for rules in 55-scsi-sg3_id 58-scsi-sg3_symlink 60-multipath; do
            ln -s /dev/null "$1/etc/udev/rules.d/$rules.rules"
        done && ln -s /dev/null "$1/etc/modules-load.d/multipath.conf"' \
    --customize-hook='sh -c "$WHEELS" "$1"' \
    --customize-hook='mkdir "$1/var/cache/packages" && cd "$1/var/cache/packages" &&
        APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq download $UPGRADED' \
    --customize-hook='sh -c "$REPOSITORY" "$1"' \
    --customize-hook='echo guest > "$1/etc/hostname"; : > "$1/etc/machine-id"' \
    --customize-hook='sh -c "$KERNEL" "$1"' \
    --customize-hook='rm -rf "$1"/boot/* "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/*' \
    "$suite" "$out/root.tar" -

# QEMU boots the kernel's ELF image directly (PVH), which spares the emulated unpacking of 3 s and
# more. It is a stream inside vmlinuz, of xz or zstd; their magic numbers may occur by chance, too.
unpack() {
    LC_ALL=C grep -aboP "$1" "$out/vmlinuz" | cut -d: -f1 | while read -r offset; do
        # What follows the stream is not theirs: both end with an error after having written all.
        tail -c "+$((offset + 1))" "$out/vmlinuz" | "$2" --decompress --stdout \
            >"$out/vmlinux" 2>/dev/null || :
        [ "$(head -c 4 "$out/vmlinux" | tail -c 3)" != ELF ] || break
    done
    [ "$(head -c 4 "$out/vmlinux" 2>/dev/null | tail -c 3)" = ELF ]
}
if ! unpack '\x28\xB5\x2F\xFD' zstd && ! unpack '\xFD7zXZ\x00' xz; then
    echo "'$out/vmlinuz': expected an ELF kernel in a stream of xz or zstd, got none" >&2
    exit 1
fi
rm "$out/vmlinuz"
