#!/bin/busybox sh
# The guest of record_slow.py: no disk but null_blk's, whose time is all that matters. Its init.
export PATH=/bin:/usr/sbin DM_DISABLE_UDEV=1 LD_LIBRARY_PATH=/lib64
/bin/busybox mkdir -p /dev /proc /run /sys
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*/*.ko; do
    case $module in
    */null_blk.ko) insmod "$module" nr_devices=0 ;;
    *) insmod "$module" ;;
    esac || echo "$module: expected that it loads"
done
mount -t configfs config /sys/kernel/config

# disk NAME MICROSECONDS DEPTH: of 1 GiB, each request takes so long, at most DEPTH at once. Its
# queue has 64 requests, those that wait included in the kernel's times, as with a rotating disk.
# Data are not stored. SSD=1: it does not rotate, stores data and takes discards.
disk() {
    mkdir "/sys/kernel/config/nullb/$1"
    cd "/sys/kernel/config/nullb/$1" || return
    echo 1024 >size
    echo 2 >irqmode
    echo 2 >queue_mode
    echo $(($2 * 1000)) >completion_nsec
    echo "$3" >hw_queue_depth
    if [ "$SSD" ]; then
        echo 1 >memory_backed
        echo 1 >discard
    fi
    echo 1 >power
    cd "/sys/block/$1/queue" || return
    echo mq-deadline >scheduler
    echo 64 >nr_requests
    [ "$SSD" ] || echo 1 >rotational
    cd /
}

# member NAME: /dev/mapper/NAME over the disk NAME, so that another disk can take its place.
member() {
    echo "0 2097152 linear /dev/$1 0" | dmsetup create --noudevsync "$1"
}

# become NAME DISK: the member NAME is that disk from now on; what was in flight is waited for.
become() {
    dmsetup suspend --nolockfs "$1"
    echo "0 2097152 linear /dev/$2 0" | dmsetup load "$1"
    dmsetup resume --noudevsync "$1"
}

# array LEVEL LAYOUT MEMBER...: /dev/md0 without metadata.
array() {
    echo md0 >/sys/module/md_mod/parameters/new_array
    cd /sys/block/md0/md || return
    echo none >metadata_version
    echo "$1" >level
    [ "$1" = raid1 ] || echo 65536 >chunk_size
    echo "$2" >layout
    shift 2
    echo $# >raid_disks
    echo 1048576 >component_size
    echo none >resync_start
    number=0
    for each in "$@"; do
        # shellcheck disable=SC2046,SC2183 # two numbers
        device=$(printf '%d:%d' $(stat -c '0x%t 0x%T' "$each"))
        echo "$device" >new_dev
        echo $number >"dev-$(basename "$(readlink "/sys/dev/block/$device")")/slot"
        number=$((number + 1))
    done
    echo active >array_state
    cd /
}

# mark TEXT: note in the recording what happens now.
mark() {
    echo "$*" >>/run/mark
}

# calm: end all load.
calm() {
    pkill -f 'slow_load (random|stream|buffered|commit)'
    sleep 2
}

slow_load sample "$(ls /dev/vport*)" &
# shellcheck disable=SC1091
. /scenario
mark end
sleep 2
poweroff -f
