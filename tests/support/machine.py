"""Machines made of a few numbers, for tests of what is concluded from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.memory import write_tree

from iowarden.collectors.block.block_devices import Device, Md, Topology
from iowarden.collectors.block.block_devices import topology as block_topology
from iowarden.collectors.block.diskstats import BlockIo

if TYPE_CHECKING:
    from pathlib import Path

    from support.memory import Files


def block(
    device: str,
    *,
    reads: int = 0,
    writes: int = 0,
    written: int = 0,
    in_flight: int = 0,
    write_milliseconds: int = 0,
    discards: int = 0,
) -> BlockIo:
    """Return a line of '/proc/diskstats'; `written` in bytes; each discard took half a second."""
    done = (reads, 0, 0, 0, writes, 0, written // 512, write_milliseconds)
    return BlockIo(device, 8, 0, (*done, in_flight, 0, 0, discards, 0, 0, discards * 500, 0, 0))


def disk(
    name: str,
    *,
    slaves: tuple[str, ...] = (),
    holders: tuple[str, ...] = (),
    leaf: bool = True,
    md: Md | None = None,
    serial: str | None = None,
    model: str | None = None,
    vendor: str | None = None,
    timeout_seconds: float | None = 30.0,
) -> Device:
    """Return a device of '/sys/block'."""
    return Device(
        name=name,
        device_number=None,
        slaves=slaves,
        holders=holders,
        partitions=(),
        leaf=leaf,
        size_bytes=10**12,
        rotational=True,
        model=model,
        vendor=vendor,
        serial=serial,
        wwn=None,
        timeout_seconds=timeout_seconds,
        host="host0",
        dm_name=None,
        md=md,
    )


def topology(*devices: Device) -> Topology:
    """Return a machine with these devices."""
    return block_topology({d.name: d for d in devices})


def write_root(directory: Path, disks: int, second: int, *, only_counters: bool = False) -> None:
    """Write the '/proc' and '/sys' of a machine whose disks have been busy for so many seconds.

    Files are overwritten in place, as the kernel's change under an open descriptor.
    """
    write_tree(directory, counters(disks, second) if only_counters else files(disks, second))


def counters(disks: int, second: int) -> Files:
    """Return the files of such a machine that change every second."""
    lines = []
    for number in range(disks):
        name = disk_name(number)
        done = second * (number % 7 + 1)
        figures = (
            f"{1000 + done} 5 {80_000 + done * 16} 900 {2000 + done * 3} 40"
            f" {160_000 + done * 512} 5000 {number % 3} {700 + second * 10} 5900"
            f" 0 0 0 0 {done} 12"
        )
        lines.append(f"   8 {number * 16 % 256:7} {name} {figures}")
        lines.append(f"   8 {number * 16 % 256 + 1:7} {name}1 {figures}")
    pressure = f"avg10=1.50 avg60=0.70 avg300=0.10 total={100_000 + second}\n"
    return {
        "/proc/diskstats": "\n".join(lines) + "\n",
        "/proc/meminfo": MEMINFO.format(dirty=500_000 + second % 1000),
        "/proc/vmstat": VMSTAT.format(dirty=125_000 + second % 250),
        "/proc/stat": STAT.format(blocked=second % 3, ticks=1000 + second * 100),
        **{
            f"/proc/pressure/{resource}": f"some {pressure}full {pressure}"
            for resource in ("io", "memory", "cpu")
        },
    }


def files(disks: int, second: int = 0) -> Files:
    """Return all files of such a machine."""
    found = counters(disks, second)
    found |= {f"/proc/sys/{key}": f"{value}\n" for key, value in SYSCTLS.items()}
    found["/proc/loadavg"] = "1.50 1.20 0.90 2/400 12345\n"
    found["/proc/mdstat"] = "Personalities : [raid1]\nunused devices: <none>\n"
    found["/etc/fstab"] = ""
    mounts = []
    for host in range(-(-disks // 8)):
        for key, text in {"can_queue": "256", "cmd_per_lun": "32", "proc_name": "mpt3sas"}.items():
            found[f"/sys/class/scsi_host/host{host}/{key}"] = f"{text}\n"
    for number in range(disks):
        name, major_minor = disk_name(number), f"{8 + number // 16}:{number * 16 % 256}"
        base, address = f"/sys/block/{name}", f"{number // 8}:0:{number % 8}:0"
        found |= dict.fromkeys((f"{base}/slaves", f"{base}/holders"))
        found[f"{base}/size"] = "1953525168\n"
        found[f"{base}/dev"] = f"{major_minor}\n"
        found[f"{base}/diskseq"] = f"{number + 1}\n"
        partition = {
            "partition": "1",
            "start": "2048",
            "size": "1953521664",
            "alignment_offset": "0",
        }
        scsi = f"/sys/class/scsi_device/{address}/device"
        for directory, texts in (
            (f"{base}/queue", QUEUE),
            (f"{base}/{name}1", partition),
            (f"{base}/device", SCSI),
            (scsi, SCSI),
            (f"/sys/class/bdi/{major_minor}", BDI),
            (f"/sys/fs/ext4/{name}1", EXT4),
        ):
            found |= {f"{directory}/{key}": f"{text}\n" for key, text in texts.items()}
        found[f"{scsi}/block/{name}"] = None
        mounts.append(
            f"{100 + number} 1 {major_minor} / /srv/{name} rw,noatime - ext4 /dev/{name}1 rw"
        )
        found[f"/srv/{name}/.statvfs"] = STATVFS.format(device_number=major_minor)
    found["/proc/1/mountinfo"] = "\n".join(mounts) + "\n"
    return found


def disk_name(number: int) -> str:
    """Return the kernel's name of the n-th disk: sda, sdb ... sdz, sdaa."""
    name = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("a") + letter) + name
    return f"sd{name}"


SYSCTLS = {
    "vm/dirty_ratio": 20,
    "vm/dirty_background_ratio": 10,
    "vm/dirty_bytes": 0,
    "vm/dirty_background_bytes": 0,
    "vm/dirty_expire_centisecs": 3000,
    "vm/dirty_writeback_centisecs": 500,
    "vm/laptop_mode": 0,
    "kernel/osrelease": "6.1.0-28-amd64",
}
QUEUE = {
    "rotational": "1",
    "nr_requests": "64",
    "read_ahead_kb": "128",
    "scheduler": "[mq-deadline] none",
    "max_sectors_kb": "1280",
    "max_hw_sectors_kb": "4096",
    "minimum_io_size": "4096",
    "optimal_io_size": "0",
    "physical_block_size": "4096",
    "logical_block_size": "512",
    "chunk_sectors": "0",
    "write_cache": "write back",
}
SCSI = {
    "timeout": "30",
    "model": "SIMULATED HDD   ",
    "vendor": "ACME    ",
    "type": "0",
    "state": "running",
    "queue_depth": "32",
    "iorequest_cnt": "0x1a00",
    "iodone_cnt": "0x1a00",
    "ioerr_cnt": "0x2",
    "iotmo_cnt": "0x0",
}
EXT4 = dict.fromkeys(("errors_count", "warning_count", "first_error_time", "last_error_time"), "0")
BDI = {"read_ahead_kb": "128", "min_ratio": "0", "max_ratio": "100"}
STATVFS = (
    "device_number {device_number}\nblock_bytes 4096\nfragment_bytes 4096\nblocks 244190208\n"
    "blocks_free 144190208\nblocks_available 134190208\nfiles 61054976\nfiles_free 61000000\n"
)
_PADDING = "".join(f"Simulated{n}: {n * 1000} kB\n" for n in range(40))
MEMINFO = (
    "MemTotal: 8000000 kB\nMemFree: 500000 kB\nMemAvailable: 6000000 kB\nBuffers: 20000 kB\n"
    "Cached: 5000000 kB\nActive: 2000000 kB\nInactive: 3500000 kB\nDirty: {dirty} kB\n"
    "Writeback: 0 kB\nAnonPages: 900000 kB\nMapped: 200000 kB\nShmem: 10000 kB\nSlab: 400000 kB\n"
    "NFS_Unstable: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n" + _PADDING
)
VMSTAT = (
    "nr_free_pages 125000\nnr_dirty {dirty}\nnr_writeback 0\nnr_dirtied 9000000\n"
    "nr_written 8800000\nnr_dirty_threshold 300000\nnr_dirty_background_threshold 150000\n"
    "pgpgin 5000000\npgpgout 9000000\npswpin 0\npswpout 0\npgmajfault 12000\n"
    + "".join(f"simulated_{n} {n * 1000}\n" for n in range(150))
)
STAT = (
    "cpu  {ticks} 0 500 90000 300 0 20 0 0 0\n"
    + "".join(f"cpu{n} {{ticks}} 0 50 9000 30 0 2 0 0 0\n" for n in range(16))
    + "intr 90000 "
    + "0 " * 300
    + "\nctxt 100000\nbtime 1799999000\nprocesses 5000\n"
    "procs_running 2\nprocs_blocked {blocked}\nsoftirq 90000 1 2 3 4 5 6 7 8 9 10\n"
)
