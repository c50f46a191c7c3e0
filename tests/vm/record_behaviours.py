"""Record what the kernel prints when storage fails: `python tests/vm/record_behaviours.py`.

Each function below is a behaviour of the world (tests/support/world/texts.py) that a guest can
have: its docstring is what is done to the machine, in one boot, and the kernel's log is a file
below tests/fixtures/behaviours. The world prints the lines of Linux 6.12, which Debian trixie has.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from harness import MEBIBYTE, REPOSITORY, VM, Bus, Content, Disk, turn, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

DIRECTORY = REPOSITORY / "tests" / "fixtures" / "behaviours"
MEMBERS = tuple(Disk(f"member-{number}", 64 * MEBIBYTE) for number in range(4))
DRIVE = Disk("nvme-drive", 64 * MEBIBYTE, 1, Bus.NVME)
COPIES = tuple(Disk(f"copy-{number}", 256 * MEBIBYTE) for number in range(2))
LUN = Disk("lun", 64 * MEBIBYTE)
CONTENT = "one of two copies"
OVERWRITE = f"""
import os, sys
with open(sys.argv[1], "r+b", buffering=0) as disk:
    at = disk.readall().index(b"{CONTENT}")
    disk.seek(at)
    disk.write(b"X")
    os.fsync(disk)
"""
"""A program that changes the first byte of the file on a disk, below its file system."""
TARGET = "/sys/kernel/config/target"
NAME = "iqn.2003-01.org.linux-iscsi.guest:lun"
SECONDS = 300.0


def members_pulled(vm: VM) -> None:
    """Of four members of a raid5 with an ext4 two are pulled while a program writes."""
    devices = [f"/dev/{vm.device(disk.name)}" for disk in MEMBERS]
    vm.run("modprobe --all raid456 ext4")
    vm.run(
        "mdadm --create /dev/md0 --quiet --run --assume-clean --bitmap=none --metadata=1.2"
        f" --level=5 --raid-devices=4 {' '.join(devices)}"
    )
    vm.run("mkfs.ext4 -q /dev/md0 && mkdir -p /mnt/array && mount /dev/md0 /mnt/array")
    begin(vm)
    vm.start("while dd if=/dev/zero of=/mnt/array/file bs=64k count=64 conv=fsync; do :; done")
    for disk, last in ((MEMBERS[0], "Operation continuing"), (MEMBERS[2], "Cannot continue")):
        vm.unplug(disk.name)
        wait_for(partial(prints, vm, last), last, SECONDS)
    wait_for(partial(prints, vm, "Aborting journal"), "the end of the journal", SECONDS)


def removed(vm: VM) -> None:
    """The registers of an NVMe drive are gone while it is read: what reads one gets ones.

    That a drive completes nothing cannot be had: the emulated one waits for its requests when it is
    reset, and the whole machine with it.
    """
    address = vm.run("basename $(readlink -f /sys/class/nvme/nvme0/device)").strip()
    begin(vm)
    vm.start("while dd if=/dev/nvme0n1 of=/dev/null bs=4k count=64 iflag=direct; do :; done")
    # Its memory is at address 0.
    config = f"/sys/bus/pci/devices/{address}/config"
    vm.run(f"head -c 8 /dev/zero | dd of={config} bs=1 seek=16 conv=notrunc status=none")
    wait_for(partial(prints, vm, "Disabling device"), "the end of the drive", SECONDS)


def wrong_copy(vm: VM) -> None:
    """One copy of a file on a btrfs raid1 is changed on its disk, and read until that is found."""
    first, second = (f"/dev/{vm.device(disk.name)}" for disk in COPIES)
    vm.run("modprobe btrfs")
    vm.run(f"mkfs.btrfs --quiet --force --data raid1 --metadata raid1 {first} {second}")
    vm.run(f"mkdir -p /mnt/copies && mount {first} /mnt/copies")
    vm.run(f"yes '{CONTENT}' | head -c {MEBIBYTE} > /mnt/copies/file && sync")
    vm.run(f"python3 - {second}", OVERWRITE.encode())
    begin(vm)
    # Which copy is read depends on the number of the process.
    vm.start(
        "while :; do echo 3 > /proc/sys/vm/drop_caches; cat /mnt/copies/file > /dev/null; done"
    )
    wait_for(partial(prints, vm, "read error corrected"), "the repair of the copy", SECONDS)


def session_lost(vm: VM) -> None:
    """The network between a multipath map and its iSCSI target ends while the map is read."""
    store, portals = f"{TARGET}/core/iblock_0/lun", f"{TARGET}/iscsi/{NAME}/tpgt_1"
    vm.run("modprobe --all configfs target_core_iblock iscsi_target_mod iscsi_tcp dm_multipath")
    vm.run("mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config")
    vm.run(
        f"mkdir -p {store} && echo udev_path=/dev/{vm.device(LUN.name)} > {store}/control"
        f" && echo 1 > {store}/enable"
        f" && mkdir -p {portals}/lun/lun_0 {portals}/np/127.0.0.1:3260"
        f" && ln -s {store} {portals}/lun/lun_0/store"
        f" && for each in authentication=0 generate_node_acls=1 demo_mode_write_protect=0; do"
        f" echo ${{each#*=}} > {portals}/attrib/${{each%=*}}; done"
        f" && echo 1 > {portals}/enable"
    )
    vm.run("systemctl start iscsid")
    vm.run("iscsiadm --mode discovery --type sendtargets --portal 127.0.0.1")
    vm.run(f"iscsiadm --mode node --targetname {NAME} --login")
    path = f"/dev/disk/by-path/ip-127.0.0.1:3260-iscsi-{NAME}-lun-0"
    wait_for(lambda: vm.run(f"ls {path} || true").strip(), "the disk of the session", SECONDS)
    sectors = vm.run(f"blockdev --getsz {path}").strip()
    table = f"0 {sectors} multipath 0 0 1 1 round-robin 0 1 1 {path} 1000"
    vm.run(f"modprobe dm_round_robin && dmsetup create map --table '{table}'")
    begin(vm)
    vm.start("while :; do dd if=/dev/mapper/map of=/dev/null bs=4k count=64 iflag=direct; done")
    vm.run("ip link set lo down")
    wait_for(partial(prints, vm, "Failing path"), "the end of the path", SECONDS)


RECORDED: dict[str, tuple[Callable[[VM], None], tuple[Disk, ...]]] = {
    "members-pulled": (members_pulled, MEMBERS),
    "removed": (removed, (DRIVE,)),
    "session-lost": (session_lost, (LUN,)),
    "wrong-copy": (wrong_copy, COPIES),
}


def begin(vm: VM) -> None:
    """Let the log begin now."""
    vm.run("dmesg --clear")


def lines(vm: VM) -> str:
    """Return the kernel's log."""
    return vm.run("dmesg")


def prints(vm: VM, text: str) -> bool:
    """Whether the kernel has printed a text."""
    return text in lines(vm)


def main() -> None:
    """Record all behaviours, or some."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", nargs="*", choices=[[], *RECORDED])
    for name in parser.parse_args().name or RECORDED:
        act, disks = RECORDED[name]
        with turn(), VM(disks, content=Content.NOTHING) as vm:
            act(vm)
            DIRECTORY.mkdir(exist_ok=True)
            (DIRECTORY / f"{name}.dmesg.txt").write_text(lines(vm))
        print(name, flush=True)


if __name__ == "__main__":
    main()
