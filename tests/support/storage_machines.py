"""Machines whose storage is shown as a tree: one of each kind that administrators have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support import drives
from support.attached import probe_answer
from support.storage import SECTORS, Server
from support.storage_incidents import _card_files

from iowarden.collectors.machine import probe_path
from iowarden.collectors.smart import smartctl_runner
from iowarden.collectors.smart.drive import AccessMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from support.live import Watched

Files = dict[str, str | bytes | None]
"""Files of the machine."""
LVM = "LVM-gYxgZ9MmcvUgZ9MmcvUgZ9MmcvUgZ9MmcvU"


def smart(serial: str, *names: str) -> Files:
    """Return what smartctl reports of a healthy disk."""
    document = json.loads(drives.ata(serial))
    document["user_capacity"] = {"blocks": SECTORS, "bytes": SECTORS * 512}
    document["temperature"] = {"current": 31 + len(serial) % 8}
    files: Files = {}
    for name in names:
        command = smartctl_runner.command(AccessMethod(f"/dev/{name}", "scsi"), "full")
        files |= probe_answer(*command, stdout=json.dumps(document))
    return files


def disk(machine: Server, name: str, address: str, serial: str, more: Files | None = None) -> None:
    """Add a disk that is monitored."""
    machine.disk(name, address, serial=serial, more={**smart(serial, name), **(more or {})})


def zpool(text: str, name: str = "tank", state: str = "DEGRADED") -> Files:
    """Return the state of a pool, and what 'zpool status' answers."""
    answer = {"status": 0, "signal": None, "stdout": text, "stderr": ""}
    return {
        f"/proc/spl/kstat/zfs/{name}/state": f"{state}\n",
        probe_path("run", ("zpool", "status", "-pLPs", name)): json.dumps(answer),
    }


def mapped(name: str, target: str, words: str) -> Files:
    """Return what 'dmsetup' answers about a device with such a target."""
    command = ("dmsetup", "status", "--noflush", "--target", target, name)
    answer = {"status": 0, "signal": None, "stdout": f"0 8 {target} {words}\n", "stderr": ""}
    return {
        "/.probe/dm_targets": json.dumps({"targets": {name: [target]}, "queueing": {}}),
        "/sys/module/dm_thin_pool/refcnt": "2\n",
        probe_path("run", command): json.dumps(answer),
    }


def mounted(
    machine: Server, place: str, device: str, kind: str = "ext4", *, size: float, used: float
) -> None:
    """Mount a device of which a share is used; `size` in TB."""
    machine.mount(place, device, kind)
    blocks = int(size * 1e12 / 4096)
    free = int(blocks * (1 - used))
    number = machine._numbers[device]
    usage = (
        f"device_number {number}\nblock_bytes 4096\nfragment_bytes 4096\nblocks {blocks}\n"
        f"blocks_free {free}\nblocks_available {free}\nfiles 6553600\nfiles_free 6000000\n"
    )
    machine.change({f"{place.rstrip('/')}/.statvfs": usage})


def nvme_md_lvm(tmp_path: Path) -> tuple[Server, Callable[[Watched], object]]:
    """Two SATA disks as md0 under LVM, a system on NVMe; one disk fails."""
    machine = Server(tmp_path)
    machine.adapter(0, "ahci", **{"/sys/class/ata_port/ata1/device/host0": ""})
    machine.adapter(1, "ahci", **{"/sys/class/ata_port/ata2/device/host1": ""})
    disk(machine, "sda", "0:0:0:0", "WD-WCC4M0AAAA")
    disk(machine, "sdb", "1:0:0:0", "WD-WCC4M1BBBB")
    machine.disk("nvme0n1", model="FAST SSD", serial="S4EVNX0M123456", rotational=False)
    machine.array("md0", "raid1", "sda1", "sdb1")
    machine.volume("dm-0", "vg1-srv", LVM + "1", "md0")
    machine.volume("dm-1", "vg1-home", LVM + "2", "md0")
    mounted(machine, "/", "nvme0n1p1", size=0.4, used=0.35)
    mounted(machine, "/srv", "dm-0", size=1.8, used=0.83)
    mounted(machine, "/home", "dm-1", "xfs", size=0.2, used=0.4)
    return machine, lambda _: machine.fails("md0", "sdb1")


def shelf(tmp_path: Path) -> tuple[Server, Callable[[Watched], object]]:
    """A shelf of 24 disks behind an expander as one raid6; one member is rebuilt."""
    machine = Server(tmp_path)
    machine.adapter(5, "mpt3sas")
    names = [f"sd{letter}" for letter in "bcdefghijklmnopqrstuvwxy"]
    for number, name in enumerate(names):
        slot = f"/sys/class/enclosure/5:0:24:0/Slot {number + 1:02}"
        files = {
            f"{slot}/status": "OK\n",
            f"{slot}/fault": "0\n",
            f"{slot}/active": "1\n",
            f"{slot}/device/block/{name}": None,
        }
        disk(machine, name, f"5:0:{number}:0", f"ZL2A{number + 10}CC", files)
    array = machine.array("md5", "raid6", *(f"{name}1" for name in names))
    mounted(machine, "/data", "md5", "xfs", size=218, used=0.71)

    def rebuild(_: Watched) -> None:
        array.recover, array.done = "sdr1", 0.12
        machine.array_is("md5")

    return machine, rebuild


POOL = """\
  pool: tank
 state: DEGRADED
  scan: scrub repaired 0 in 02:11:04 with 0 errors on Mon Nov 23 03:12:20 2026
config:

\tNAME             STATE     READ WRITE CKSUM  SLOW
\ttank             DEGRADED     0     0     0     -
\t  mirror-0       DEGRADED     0     0     0     -
\t    /dev/sda1    ONLINE       0     0     0     0
\t    /dev/sdb1    REMOVED      0     0     0     0
\t  mirror-1       ONLINE       0     0     0     -
\t    /dev/sdc1    ONLINE       0     0     0     0
\t    /dev/sdd1    ONLINE       0     0     0     0
logs
\t  /dev/nvme0n1p1 FAULTED      0    12     0     0

errors: No known data errors
"""
ZFS_MEMBER = "I:1200\nE:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank\n"


def zfs(tmp_path: Path) -> tuple[Server, Callable[[Watched], object]]:
    """A pool of two mirrors and a log device; one disk was pulled, the log failed."""
    machine = Server(tmp_path)
    machine.adapter(0, "mpt3sas")
    for number, name in enumerate(("sda", "sdb", "sdc", "sdd")):
        disk(machine, name, f"0:0:{number}:0", f"WD-{name.upper()}AAAA")
    machine.disk("nvme0n1", serial="S4EVNX0M9", rotational=False)
    for name in ("sda1", "sdb1", "sdc1", "sdd1", "nvme0n1p1"):
        machine.change({f"/run/udev/data/b{machine._numbers[name]}": ZFS_MEMBER})
    volume = machine._numbers["nvme0n1p1"].partition(":")[0] + ":99"
    space = ("zpool", "list", "-Hpo", "size,allocated,free,fragmentation", "tank")
    listed = "40000000000000\t27200000000000\t12800000000000\t31\n"
    answer = {"status": 0, "signal": None, "stdout": listed, "stderr": ""}
    machine.change(
        {
            "/sys/block/zd0/dev": f"{volume}\n",
            "/sys/block/zd0/size": "67108864\n",
            f"/run/udev/data/b{volume}": "S:zvol/tank/vm-101-disk-0\n",
            probe_path("run", space): json.dumps(answer),
        }
    )
    well = (
        POOL.replace("DEGRADED", "ONLINE").replace("REMOVED", "ONLINE").replace("FAULTED", "ONLINE")
    )
    machine.change(
        {
            "/proc/1/mountinfo": "60 1 0:51 / /tank/db rw - zfs tank/db rw,xattr\n",
            **zpool(well.replace("12", " 0"), state="ONLINE"),
        }
    )

    def pull(_: Watched) -> None:
        machine.loses("sdb")
        machine.change(zpool(POOL))

    return machine, pull


def multipath(tmp_path: Path) -> tuple[Server, Callable[[Watched], object]]:
    """A LUN with four paths by two adapters; one path goes offline."""
    machine = Server(tmp_path)
    machine.adapter(3, "lpfc")
    machine.adapter(4, "lpfc")
    paths = ("sdc", "sdd", "sde", "sdf")
    for number, name in enumerate(paths):
        machine.disk(name, f"{3 + number // 2}:0:{number % 2}:1", serial="LUN-1", parts=False)
    machine.volume("dm-0", "mpatha", "mpath-3600508b400105e210000900000490000", *paths)
    mounted(machine, "/oracle", "dm-0", "xfs", size=4, used=0.55)

    def state(*letters: str) -> Files:
        numbers = [machine._numbers[name] for name in paths]
        fails = [14 * (letter == "F") for letter in letters]
        words = [f"{n} {a} {f} 1" for n, a, f in zip(numbers, letters, fails, strict=True)]
        groups = f"A 0 2 1 {' '.join(words[:2])} E 0 2 1 {' '.join(words[2:])}"
        files = mapped("mpatha", "multipath", f"2 0 0 0 2 1 {groups}")
        targets = {"targets": {"mpatha": ["multipath"]}, "queueing": {"mpatha": True}}
        return files | {"/.probe/dm_targets": json.dumps(targets)}

    machine.change(state("A", "A", "A", "A"))

    def fail(_: Watched) -> None:
        machine.change(state("A", "F", "A", "A"))

    return machine, fail


def lvm_raid(tmp_path: Path) -> tuple[Server, Callable[[Watched], object]]:
    """A raid1 of LVM, which /proc/mdstat does not list; one leg fails."""
    machine = Server(tmp_path)
    machine.adapter(0, "ahci")
    disk(machine, "sda", "0:0:0:0", "ZA1AAAA")
    disk(machine, "sdb", "0:0:1:0", "ZA1BBBB")
    for number, name in enumerate(("sda1", "sdb1")):
        machine.volume(f"dm-{number}", f"vg-r_rimage_{number}", f"{LVM}{number}", name)
    machine.volume("dm-2", "vg-r", LVM + "r", "dm-0", "dm-1")
    mounted(machine, "/r", "dm-2", size=1, used=0.2)
    machine.change(mapped("vg-r", "raid", "raid1 2 AA 100/100 idle 0 0 -"))
    bad = mapped("vg-r", "raid", "raid1 2 AD 100/100 idle 0 0 -")
    return machine, lambda _: machine.change(bad)


def btrfs(tmp_path: Path) -> tuple[Server, Callable[[Watched], object]]:
    """A btrfs of two disks, raid1; one disk is gone."""
    machine = Server(tmp_path)
    machine.adapter(0, "ahci")
    uuid = "0af3c1d2-1111-4222-8333-0123456789ab"
    base = f"/sys/fs/btrfs/{uuid}"
    for number, name in enumerate(("sda", "sdb")):
        disk(machine, name, f"0:0:{number}:0", f"ZA1{name.upper()}")
        machine.change(
            {
                f"{base}/devices/{name}1": None,
                f"{base}/devinfo/{number + 1}/missing": "0\n",
                f"{base}/devinfo/{number + 1}/error_stats": "write_errs 0\nread_errs 0\n",
                f"{base}/label": "pool\n",
                f"{base}/allocation/data/raid1/total_bytes": "1\n",
                f"{base}/allocation/metadata/raid1/total_bytes": "1\n",
            }
        )
    mounted(machine, "/backup", "sda1", "btrfs", size=2, used=0.6)

    def lose(_: Watched) -> None:
        machine.loses("sdb")
        machine.change({f"{base}/devinfo/2/missing": "1\n"})

    return machine, lose


def controller(tmp_path: Path) -> tuple[Server, Callable[[Watched], object]]:
    """A RAID 5 volume of a MegaRAID controller; a disk fails, a spare is filled."""
    machine = Server(tmp_path)
    machine.adapter(0, "megaraid_sas")
    machine.disk("sda", "0:2:0:0", vendor="AVAGO", model="MR9361-8i", serial="600605b0")
    mounted(machine, "/db", "sda1", "xfs", size=7.2, used=0.4)
    machine.change({"/sys/bus/pci/drivers/megaraid_sas/0000:3b:00.0/host0": None})
    machine.change(_card_files())
    bad = _card_files(volume="Dgrd", states=("Onln", "Failed", "Onln", "Rbld"))
    return machine, lambda _: machine.change(bad)


def thin(tmp_path: Path) -> tuple[Server, Callable[[Watched], object]]:
    """Virtual machines' disks in a thin pool on md0, which loses a disk."""
    machine = Server(tmp_path)
    machine.adapter(0, "ahci")
    disk(machine, "sda", "0:0:0:0", "ZA1AAAA")
    disk(machine, "sdb", "0:0:1:0", "ZA1BBBB")
    machine.array("md0", "raid1", "sda1", "sdb1")
    machine.volume("dm-0", "pve-data_tmeta", LVM + "0-tmeta", "md0")
    machine.volume("dm-1", "pve-data_tdata", LVM + "0-tdata", "md0")
    machine.volume("dm-2", "pve-data-tpool", LVM + "0-tpool", "dm-0", "dm-1")
    for number in (101, 102):
        machine.volume(f"dm-{number}", f"pve-vm--{number}--disk--0", LVM + str(number), "dm-2")
    machine.volume("dm-3", "pve-root", LVM + "root", "md0")
    mounted(machine, "/", "dm-3", size=0.1, used=0.3)
    words = "7 492/4096 850/1000 - rw discard_passdown queue_if_no_space - 1024"
    names = [f"pve-vm--{number}--disk--0" for number in (101, 102)]
    sectors = (600_000_000, 800_000_000)
    lines = [f"{name}: 0 8 thin {n} 9999" for name, n in zip(names, sectors, strict=True)]
    command = ("dmsetup", "status", "--noflush", "--target", "thin", *names)
    answer = {"status": 0, "signal": None, "stdout": "\n".join(lines), "stderr": ""}
    targets = {"pve-data-tpool": ["thin-pool"], **{name: ["thin"] for name in names}}
    machine.change(
        {
            **mapped("pve-data-tpool", "thin-pool", words),
            probe_path("run", command): json.dumps(answer),
            "/.probe/dm_targets": json.dumps({"targets": targets, "queueing": {}}),
        }
    )
    return machine, lambda _: machine.loses("sdb")


def nothing(tmp_path: Path) -> tuple[Server, Callable[[Watched], object]]:
    """A machine of which nothing is known yet."""
    return Server(tmp_path), lambda _: None


MACHINES: Mapping[str, Callable[[Path], tuple[Server, Callable[[Watched], object]]]] = {
    "nvme-md-lvm": nvme_md_lvm,
    "shelf-raid6": shelf,
    "zfs-with-log": zfs,
    "multipath": multipath,
    "controller": controller,
    "thin": thin,
    "lvm-raid": lvm_raid,
    "btrfs-raid1": btrfs,
    "nothing-known": nothing,
}
"""Each machine with the function that lets its fault happen."""
