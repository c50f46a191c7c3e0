#!/bin/sh
# Installs CONTENT in the machine that build_image.sh made:  install_image.sh BASE ROOT CONTENT
#   BASE/{root.tar,wheels}  ->  ROOT, an image of the root disk
# CONTENT is iowarden (what 'make install' installs), dependencies (of the Debian package, and a mail
# server: all packages of the guest's repository) or nothing.
#
# 'make install' runs in the machine's own tree and by its own Python, without a network. It is not
# running, so systemd is told nothing: the guest boots with the units there. Needs mmdebstrap,
# e2fsprogs and PYTHON of the environment of development.
set -eu

base=$(readlink -f "$1")
root=$(readlink -m "$2")
top=$(readlink -f "$(dirname "$0")/../..")

# mke2fs and chroot live in /sbin, which is not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin

# shellcheck disable=SC2016 # expanded by the hook's shell
case $3 in
iowarden) install='
    source=$0/usr/src/iowarden
    mkdir -p "$source/build"
    cp -r "$BASE/wheels" "$source/build/wheels"
    cd "$TOP"
    cp -r Makefile LICENSE README.md packaging systemd "$source"
    rm -rf build/lib build/bdist.*
    "$BUILDER" -m pip --quiet --disable-pip-version-check wheel --no-index --no-deps \
        --no-build-isolation --wheel-dir "$source/build/wheels" .
    "$BUILDER" -m iowarden.daemon.reference share packaging/doc "$source/build/wheels/share"
    cd "$source/build/wheels"
    find * -type f ! -name SHA256SUMS -exec sha256sum {} + >SHA256SUMS
    chroot "$0" env -u PYTHON -u PYTHONPYCACHEPREFIX make -C /usr/src/iowarden install' ;;
# No package starts what it installs here: the guest does when it boots.
dependencies) install='
    printf "#!/bin/sh\nexit 101\n" >"$0/usr/sbin/policy-rc.d"
    chmod +x "$0/usr/sbin/policy-rc.d"
    [ -c "$0/dev/null" ] || mknod -m 0666 "$0/dev/null" c 1 3
    chroot "$0" sh -ec "export DEBIAN_FRONTEND=noninteractive
        apt-get -qq update
        apt-get -qq -o APT::Install-Recommends=true install \$(
            sed -n \"s/^Package: //p\" /var/cache/repository/Packages)"
    rm "$0/usr/sbin/policy-rc.d"' ;;
nothing) install= ;;
*)
    echo "CONTENT: expected iowarden, dependencies or nothing, got '$3'" >&2
    exit 1
    ;;
esac
# shellcheck disable=SC2016 # expanded by the hook's shell
first_boot='
    # What a first boot does once would be done at each: no boot is remembered.
    chroot "$0" systemd-machine-id-setup
    touch "$0/etc/.updated" "$0/var/.updated"'

# Packs the directory $0 without what mmdebstrap has mounted below it until its hooks are done.
# shellcheck disable=SC2016 # expanded by the hook's shell
pack='awk -v below="$0/" "index(\$2, below) == 1 { print \$2 }" /proc/self/mounts | sort -r |
        xargs -r umount --lazy &&
    mke2fs -q -F -t ext4 -L root -d "$0" "$ROOT" 3G'

# Without a clean-up, what keeps packages from starting services here would stay: it is not made.
# shellcheck disable=SC2016 # "$1" is the guest's directory, expanded by the hook's own shell
BASE=$base ROOT=$root TOP=$top INSTALL="set -e$install$first_boot" PACK=$pack \
    BUILDER=${PYTHON:-python3} mmdebstrap --variant=custom \
    --skip=setup,update,cleanup,chroot/policy-rc.d,chroot/start-stop-daemon \
    --setup-hook='tar -C "$1" --xattrs --xattrs-include="*" --exclude="./dev/*" -xf "$BASE/root.tar" &&
        mkdir "$1/dev/pts" "$1/dev/shm"' \
    --customize-hook='sh -c "$INSTALL" "$1"' \
    --customize-hook='unshare --mount sh -c "$PACK" "$1"' \
    --format=null '' - </dev/null
