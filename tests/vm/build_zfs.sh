#!/bin/sh
# Builds OpenZFS for the kernel of the VM tests:  build_zfs.sh SUITE BASE CACHE
#   BASE/root.tar  ->  CACHE/KERNEL-VERSION/zfs.tar.gz: modules, programs, libraries, udev's rules
#
# From Debian's contrib, by dkms, in a system of its own: 10 min of CPU. BASE is what build_image.sh
# made: the modules are for its kernel only. The modules are not ours to ship (CDDL): the cache stays
# on this machine. Nothing is built where CACHE has that kernel.
set -eu

suite=$1
base=$(readlink -f "$2")
cache=$(readlink -m "$3")
kernel=$(tar -tf "$base/root.tar" | sed -n 's|^\./usr/lib/modules/\([^/]*\)/$|\1|p')

for built in "$cache/$kernel"-*/zfs.tar.gz; do
    [ ! -e "$built" ] || exit 0
done

# chroot lives in /sbin, which is not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin

# The mirrors of this machine, with the component that has OpenZFS.
# shellcheck disable=SC2016 # apt expands its own variables
sources=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI) $(COMPONENT)' \
    'Created-By: Packages' |
    awk -v suite="$suite" '$1 == "Debian" && $4 == "main" && $2 ~ /^[a-z]+(-security|-updates)?$/ {
        sub(/^[a-z]+/, suite, $2); print "deb", $3, $2, "main contrib" }' | sort -u)
if [ -z "$sources" ]; then
    echo "apt: expected a mirror of Debian with its lists, got none; run 'apt-get update', on Debian" >&2
    exit 69 # EX_UNAVAILABLE
fi

mkdir -p "$cache"
building=$(mktemp -d "$cache/building-XXXXXX")
trap 'rm -rf "$building"' EXIT
chmod 755 "$building"

# shellcheck disable=SC2016 # expanded by the hook's shell
collect='set -e; cd "$0"
    test -e "usr/lib/modules/$KERNEL/updates/dkms/zfs.ko.xz" || {
        cat var/lib/dkms/zfs/*/build/make.log >&2
        exit 1
    }
    chroot . dpkg-query --show --showformat "\${Version}" zfsutils-linux >"$BUILDING/version"
    libraries=$(chroot . dpkg-query --show --showformat "\${db:Status-Abbrev}\${Package}\n" |
        sed -n "s/^ii *\(lib\(nvpair\|uutil\|zfs\|zpool\).*\)/\1/p")
    chroot . dpkg --listfiles zfsutils-linux $libraries |
        grep -E "/s?bin/|\.so\.|^/(usr/)?lib/udev/" | sed "s|^/||" | sort -u |
        while read -r file; do [ -d "$file" ] || echo "$file"; done >"$BUILDING/files"
    echo "usr/lib/modules/$KERNEL/updates" >>"$BUILDING/files"
    # The guest has no xz.
    find "usr/lib/modules/$KERNEL/updates" -name "*.ko.xz" -exec xz --decompress {} +
    tar -czf "$BUILDING/zfs.tar.gz" --files-from "$BUILDING/files"'

printf '%s\n' "$sources" | KERNEL=$kernel BUILDING=$building COLLECT=$collect mmdebstrap \
    --variant=minbase \
    --include="linux-headers-$kernel,dkms,build-essential,zfs-dkms,zfsutils-linux" \
    --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --customize-hook='sh -c "$COLLECT" "$1"' \
    --format=null "$suite" - -

chmod 644 "$building/zfs.tar.gz"
mkdir -p "$cache/$kernel-$(cat "$building/version")"
mv "$building/zfs.tar.gz" "$cache/$kernel-$(cat "$building/version")/"
