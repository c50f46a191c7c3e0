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


RECORDED: dict[str, tuple[Callable[[VM], None], tuple[Disk, ...]]] = {
    "members-pulled": (members_pulled, MEMBERS),
    "removed": (removed, (DRIVE,)),
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
