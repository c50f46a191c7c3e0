"""A machine with one of everything that advice may be about; and what advice must not say there."""

from __future__ import annotations

import email
import email.policy
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from support.machine import disk, topology

from iowarden.collectors.block.block_devices import Md
from iowarden.collectors.filesystem.mountinfo import Mount
from iowarden.collectors.md import mdstat
from iowarden.collectors.packages import PACKAGES
from iowarden.collectors.raid.controller import Controller
from iowarden.collectors.smart.drive import AccessMethod, PollResult, ReadStatus
from iowarden.rules.advice.advice import PACKAGED, programs
from iowarden.rules.advice.facts import DISKS, AdviceInputs, Facts
from iowarden.rules.topology.device_identity import identity
from iowarden.rules.topology.inventory import InventoryDisk
from iowarden.rules.topology.slot_map import DeviceMap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.block.block_devices import Device

IN_SYNC = ("in_sync",)
USUAL = frozenset(
    "awk blockdev cat dd df dmesg du echo find findmnt for done fallocate fstrim grep head iowarden"
    " journalctl kill losetup ls lsblk mkswap chmod mount ps rm runuser sed sort swapon sysctl"
    " systemctl systemd-cgtop tail touch udevadm umount test".split()
)
"""Of coreutils, util-linux, grep, mawk, procps, systemd, udev, and of the shell."""
VENDORS = frozenset(
    "arcconf cli64 hpacucli hpssacli sas2ircu sas3ircu ssacli storcli2 storcli64 perccli2 perccli64"
    " MegaCli64 MegaCli tw_cli".split()
)
"""Of makers of RAID controllers: advice says where they are from."""
PLACEHOLDERS = re.compile(
    r"""\bmd[NX]\b|\bsd[XN]\b|\bsg[XN]\b|\bnvme[XYN]|/dev/[A-Z]+\b|(?<![A-Za-z])<[a-z ]+>
    |\bMOUNTPOINT\b|\bDEVICE\ \.|\bcX\b|\bvX\b|/pN\b|\beE/sS\b|\bE:S\b|\bC\ D\b|BOX:BAY
    |=N\b|\bPASSWORD\b|\bLBA\b|\{[a-z_]+\}|\{\{|error\ expanding|\ \.\.\.$|dev/\ |dev/$""",
    re.VERBOSE | re.MULTILINE,
)


def scsi(name: str, address: str, serial: str, **fields: object) -> Device:
    """Return a SCSI disk with one partition."""
    host = f"host{address.partition(':')[0]}"
    own = disk(name, serial=serial, model="DISK-9", vendor="ACME")
    return replace(own, host=host, address=address, partitions=(f"{name}1",), **fields)


def array(
    name: str, level: str, members: Iterable[str], disks: int | None = None
) -> mdstat.MdArray:
    """Return an array that runs; `disks`: so many it has when it is whole."""
    own = tuple(members)
    wanted = disks or len(own)
    slots = tuple(mdstat.ArrayMember(each, slot, IN_SYNC) for slot, each in enumerate(own))
    degraded = wanted - len(own)
    return mdstat.MdArray(
        name, level, "active", wanted, degraded, "idle", None, None, 0, None, None, slots
    )


def monitored(
    device: Device, status: ReadStatus = ReadStatus.READ, target: AccessMethod | None = None
) -> InventoryDisk:
    """Return a disk whose SMART data are polled."""
    own = target or AccessMethod(f"/dev/{device.name}", device=device.name)
    label = device.serial or device.name
    of = identity(topology(device), device.name)
    polled = PollResult(own, status)
    return InventoryDisk(
        label,
        of,
        device.name,
        ("kernel",),
        status,
        "",
        str(own),
        "",
        None,
        True,
        polled,
        (device.name,),
    )


RAID6 = tuple("cdefghij")


def devices() -> list[Device]:
    """Return the block devices of the machine."""
    mapped = {"leaf": False, "timeout_seconds": None}
    sata = [
        replace(
            scsi(name, f"{port}:0:0:0", f"SATA-{name}"),
            port=f"ata{port}",
            vendor="ATA",
            holders=("md0",),
        )
        for name, port in (("sda", 1), ("sdb", 2))
    ]
    sas = [
        scsi(f"sd{letter}", f"4:0:{number}:0", f"SAS-{letter}", holders=("md1",))
        for number, letter in enumerate(RAID6)
    ]
    paths = [
        scsi(name, f"{host}:0:0:1", "LUN-1", holders=("dm-0",))
        for name, host in (("sdk", 6), ("sdl", 7))
    ]
    volume = scsi("sdm", "5:0:0:0", "VOLUME-1")
    virtual = replace(disk("vda"), host=None, partitions=("vda1",))
    nvme = replace(
        disk("nvme0n1", serial="NVME-1", model="FAST"),
        host=None,
        partitions=("nvme0n1p1",),
        holders=("dm-2",),
    )
    raid1 = disk(
        "md0", slaves=("sda", "sdb"), holders=("dm-1",), md=Md("raid1", 2, 0, 2, 0), **mapped
    )
    raid6 = disk(
        "md1",
        slaves=tuple(f"sd{each}" for each in RAID6),
        md=Md("raid6", 8, 2, None, 524288),
        **mapped,
    )
    maps = [
        replace(disk(name, slaves=slaves, **mapped), dm_name=dm_name, dm_uuid=uuid, host=None)
        for name, slaves, dm_name, uuid in (
            ("dm-0", ("sdk", "sdl"), "mpatha", "mpath-3600a"),
            ("dm-1", ("md0",), "vg-data", "LVM-abc"),
            ("dm-2", ("nvme0n1",), "secret", "CRYPT-LUKS2-abc"),
        )
    ]
    loop = replace(disk("loop0", leaf=False), host=None)
    plain = [replace(each, host=None) for each in (raid1, raid6)]
    return [*sata, *sas, *paths, volume, virtual, nvme, *plain, *maps, loop]


def mount(source: str, point: str, kind: str = "ext4") -> Mount:
    """Return a mount."""
    return Mount("8:1", source, "/", point, kind, ("rw",), ("rw",))


MOUNTS = (
    mount("/dev/mapper/vg-data", "/srv"),
    mount("/dev/md1", "/pool", "xfs"),
    mount("/dev/mapper/secret", "/home"),
    mount("/dev/mapper/mpatha", "/lun", "btrfs"),
    mount("/dev/vda1", "/boot"),
)
ARRAYS = {
    "md0": array("md0", "raid1", ("sda1", "sdb1")),
    "md1": array("md1", "raid6", tuple(f"sd{letter}1" for letter in RAID6)),
}


def everything(
    *,
    troubled: Iterable[str] = (),
    adapters: Iterable[str] = (),
    arrays: dict[str, mdstat.MdArray] | None = None,
    without: Iterable[str] = (),
    slow: Iterable[str] = (),
) -> Facts:
    """Return what is known of the machine; `without` are devices that have vanished."""
    gone = set(without)
    there = [d for d in devices() if d.name not in gone]
    polled = [monitored(d) for d in there if d.name[:3] in {"sda", "sdb", "sdc", "nvm"}]
    polled += [monitored(d, ReadStatus.NO_SMART) for d in there if d.name == "vda"]
    hidden = replace(
        monitored(
            disk("sg3", serial="HIDDEN-1"),
            target=AccessMethod("/dev/sg3", "areca,1", controller="host5"),
        ),
        leaves=(),
    )
    where = DeviceMap(
        topology=topology(*there),
        disks={each.disk: each for each in (*polled, hidden)},
        controllers=(Controller("areca 1", "areca", host="host5"),),
        arrays=ARRAYS if arrays is None else arrays,
    )
    return Facts(AdviceInputs(where, MOUNTS, frozenset(troubled), frozenset(adapters), tuple(slow)))


def steps_of(mail: bytes) -> str:
    """Return the parts of a mail about its meaning and the steps to take."""
    message = email.message_from_bytes(mail, policy=email.policy.default)
    body = message.get_body(("plain",))
    text = "" if body is None else body.get_content().replace("\r\n", "\n")
    sections = re.split(r"\n(?=[A-Z][A-Z ]+\n)", text)
    meaning = sections[0].partition("\n\n")[2]
    titled = (s for s in sections if s.startswith(("WHAT IT MEANS", "WHAT TO DO")))
    return "\n".join((meaning, *titled))


def wrong(text: str, facts: Facts) -> Iterator[str]:
    """Yield what a text must not say to somebody who follows it on this machine."""
    for found in PLACEHOLDERS.finditer(text):
        yield f"placeholder {found[0]!r}"
    known = facts.of.map
    commands = [line for line in text.splitlines() if line.startswith(" ")]
    told = "\n".join(commands)
    for path in re.findall(r"/sys/block/([^/\s]+)(/\S*)?", text):
        yield from _wrong_path(path[0], path[1], facts)
    for name in re.findall(r"/dev/((?:mapper/)?[a-z][\w.!-]*)", told):
        mounted = any(mount.source == f"/dev/{name}" for mount in facts.of.mounts)
        if name not in {"null", "disk", "sg3"} and not mounted and facts.device(name) is None:
            yield f"/dev/{name} is not there"
    for name in re.findall(r"smartctl [^|\n]*?/dev/([\w/!-]+)", told):
        device = facts.device(name)
        if device is not None and facts.kind(device) not in DISKS:
            yield f"smartctl on {name}, a {facts.kind(device)}"
    if "scterc" in text:
        polled = re.findall(r"scterc,70,70 /dev/(\w+)", text)
        if not polled or any((d := facts.device(a)) is None or not d.port for a in polled):
            yield "scterc of what is no SATA disk"
    if not known.arrays and re.search(r"\bmdadm\b|mdstat|sync_action", told):
        yield "md advice on a machine without md"
    named = text.partition(PACKAGED)[2]
    for line in commands:
        for program in programs(line):
            if program in PACKAGES:
                if program not in named:
                    yield f"{program} without its package"
            elif program not in USUAL | VENDORS:
                yield f"unknown program {program!r} in {line!r}"


def _wrong_path(name: str, below: str, facts: Facts) -> Iterator[str]:
    if name == "*":
        return
    device = facts.index.whole(name.replace("!", "/"))
    if device is None or device.name != name:
        yield f"/sys/block/{name} is not there"
    elif below.startswith("/device/") and not device.address:
        yield f"/sys/block/{name}{below} of what is no SCSI device"
    elif below.startswith("/md/") and device.md is None:
        yield f"/sys/block/{name}{below} of what is no array"
