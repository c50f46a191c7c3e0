"""A host whose disks, blocked tasks and unwritten data a test sets second by second."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from support.simulation import START, UPTIME, Simulation

from iowarden.collectors.procfs import process_io
from iowarden.collectors.procfs.process_io import ProcessIo, Sweep
from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.procfs.cgroup_limits import GroupLimit

SP_PC = "0x7ffc1e30 0x7f0ac5b0"
FSYNC = f"74 0x5 0x0 0x0 0x0 0x0 0x0 {SP_PC}"
IOCTL = f"16 0x3 0x1277 0x7ffd 0x0 0x0 0x0 {SP_PC}"
FAULT = f"-1 {SP_PC}"
PAGE = 4096


@dataclasses.dataclass
class Counters:
    """What a disk has done since boot, and what it does each second."""

    reads: int = 0
    writes: int = 0
    written_sectors: int = 0
    milliseconds: int = 0
    discards: int = 0
    discard_milliseconds: int = 0
    in_flight: int = 0
    leaked: int = 0
    """Shown in flight until the next boot, whatever the disk does."""
    busy_milliseconds: int = 0

    def line(self, name: str, number: int) -> str:
        """Return its line of '/proc/diskstats'."""
        return (
            f"8 {number * 16} {name} {self.reads} 0 {self.reads * 8} 0 {self.writes} 0"
            f" {self.written_sectors} {self.milliseconds} {self.in_flight + self.leaked}"
            f" {self.busy_milliseconds} {self.milliseconds} {self.discards} 0 0"
            f" {self.discard_milliseconds} 0 0\n"
        )


@dataclasses.dataclass
class GroupIo:
    """What a control group has done on a device, and what it does each second."""

    read_bytes_per_second: float = 0.0
    write_bytes_per_second: float = 0.0
    reads_per_second: float = 0.0
    writes_per_second: float = 0.0
    done: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    largest: int = 4096
    """A request is counted as a whole, when it is passed on."""

    def pass_second(self) -> None:
        """Let a second pass."""
        rates = (
            *(self.read_bytes_per_second, self.write_bytes_per_second),
            *(self.reads_per_second, self.writes_per_second),
        )
        read, written, reads, writes = map(sum, zip(self.done, rates, strict=True))
        self.done = read, written, reads, writes

    def files(self, directory: str, device: str) -> dict[str, str]:
        """Return the files that show it, as the kernel prints them."""
        read, written = (int(done // self.largest) * self.largest for done in self.done[:2])
        reads, writes = map(int, self.done[2:])
        if "/blkio" not in directory:
            line = f"{device} rbytes={read} wbytes={written} rios={reads} wios={writes}"
            return {f"{directory}/io.stat": f"{line} dbytes=0 dios=0\n"}
        text = "{0} Read {1}\n{0} Write {2}\n{0} Total {3}\nTotal {3}\n"
        return {
            f"{directory}/blkio.throttle.{name}": text.format(device, first, second, first + second)
            for name, first, second in (
                ("io_service_bytes", read, written),
                ("io_serviced", reads, writes),
            )
        }


def task(number: int, command: str = "postgres", **changes: object) -> BlockedTask:
    """Return a program that waits in a commit on sda."""
    values: dict[str, object] = {
        "pid": 900 + number,
        "start_ticks": 4_000 + number,
        "command": command,
        "wait_channel": "folio_wait_bit",
        "stack": ("folio_wait_bit", "folio_wait_writeback", "ext4_sync_file", "do_fsync"),
        "read_bytes": 0,
        "write_bytes": 65_536,
        "waits_at": "8:0",
        "system_call": FSYNC,
        "counters": (0, 65_536, 10, 10, 0, 65_536),
        "voluntary_switches": 700,
        "cpu_ticks": 30,
        "file": f"/srv/{command}/data",
        "mount": "/srv",
        "unit": f"{command}.service",
    }
    return BlockedTask(**{**values, **changes})  # type: ignore[arg-type]


class Blocked:
    """A host with a disk of its own, sda, and others that a test adds."""

    def __init__(self, *, laptop_mode: int = 0, uptime: float = UPTIME) -> None:
        self.machine = Simulation(laptop_mode=laptop_mode, uptime=uptime)
        self.disks: dict[str, Counters] = {}
        self.queued = 0
        self.swapped = 0
        self.threshold = 1_000_000_000
        """The dirty limit in bytes."""
        self.available_kib: int | None = None
        """None: a kernel before 3.14 does not tell."""
        self.asleep = 0.0
        self.has_probe = True
        self.writers: dict[int, tuple[str, int]] = {}
        """By process: its name, and what it has written."""
        self.readers: dict[int, tuple[str, int]] = {}
        """By process: its name, and what it has read."""
        self.groups: dict[tuple[str, str], GroupIo] = {}
        """By directory of a control group and number of a device."""
        self.add_disk("sda")

    def add_map(self, *paths: str) -> None:
        """Stack a multipath map, dm-0, on these disks, which are paths to one LUN."""
        base = "/sys/block"
        files: dict[str, str | bytes | None] = {
            f"{base}/dm-0/dev": "253:0\n",
            f"{base}/dm-0/dm/uuid": "mpath-3600a\n",
            f"{base}/dm-0/dm/name": "mpatha\n",
            f"{base}/dm-0/dm/suspended": "0\n",
            f"{base}/dm-0/size": "1953525168\n",
        }
        for path in paths:
            files |= {f"{base}/dm-0/slaves/{path}": None, f"{base}/{path}/holders/dm-0": None}
        self.machine.memory.write(files)
        self.disks["dm-0"] = Counters()

    def add_disk(self, name: str, **files: str) -> None:
        """Plug a disk in; `files` are further ones of its directory, by name with '_' for '/'."""
        base, number = f"/sys/block/{name}", len(self.disks)
        self.machine.add_disk(name, f"S-{name}")
        more = {f"{base}/{path.replace('_', '/')}": f"{text}\n" for path, text in files.items()}
        self.machine.memory.write({f"{base}/dev": f"8:{number * 16}\n", **more})
        self.disks[name] = Counters()

    def pass_seconds(self, seconds: int, tasks: Sequence[BlockedTask] = (), **work: int) -> None:
        """Let seconds pass in which these tasks are blocked; disks write so many bytes a second."""
        for _ in range(seconds):
            for name, written in work.items():
                disk = self.disks[name]
                disk.writes += -(-written // 1_000_000)
                disk.written_sectors += written // 512
                disk.busy_milliseconds += 1000
            self.pass_second(tasks)

    def pass_second(self, tasks: Sequence[BlockedTask] = ()) -> None:
        """Let a second pass."""
        machine = self.machine
        uptime = machine.uptime + machine.second
        processes = tuple(
            ProcessIo(pid, 1_000, 1, command, f"{command}.service", 0, written, 0)
            for pid, (command, written) in self.writers.items()
        )
        processes += tuple(
            ProcessIo(pid, 1_000, 1, command, f"{command}.service", read, 0, 0)
            for pid, (command, read) in self.readers.items()
        )
        for (directory, device), counted in self.groups.items():
            counted.pass_second()
            machine.memory.write(counted.files(directory, device))
        answers = {
            "/.probe/tasks": json.dumps(
                to_json(BlockedTasks(tuple(tasks), len(tasks), boot_seconds=uptime))
            ),
            "/.probe/io_sweep": json.dumps(process_io.to_json(Sweep(uptime, processes, (), ()))),
        }
        machine.memory.write(
            {
                **(answers if self.has_probe else {}),
                "/proc/diskstats": "".join(
                    disk.line(name, number)
                    for number, (name, disk) in enumerate(self.disks.items())
                ),
                "/proc/meminfo": (
                    f"MemTotal: 8000000 kB\nMemFree: 500000 kB\n{self._available()}"
                    "Buffers: 1 kB\nCached: 1 kB\n"
                    f"Dirty: {self.queued // 1024} kB\nWriteback: 0 kB\n"
                    "SwapTotal: 4000000 kB\nSwapFree: 1000000 kB\n"
                ),
                "/proc/vmstat": (
                    f"nr_dirty {self.queued // PAGE}\nnr_writeback 0\nnr_dirtied 0\nnr_written 0\n"
                    f"nr_dirty_threshold {self.threshold // PAGE}\n"
                    f"nr_dirty_background_threshold {500_000_000 // PAGE}\n"
                    f"pgpgin 0\npgpgout 0\npswpin {self.swapped}\npswpout {self.swapped}\n"
                ),
                "/proc/stat": (
                    "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1799999000\nprocesses 1\n"
                    f"procs_running 1\nprocs_blocked {len(tasks)}\n"
                ),
            }
        )
        machine.host.tick(uptime, START + machine.second, self.asleep)
        machine.second += 1

    def restart(self) -> None:
        """Restart iowarden: what it stores is read after its first samples, as on a slow disk."""
        host = self.machine.host
        before = host.engine
        assert before is not None
        kept, alerts = before.signals.remember(), before.rules.alerts()
        host.engine = None
        host._due.clear()
        self.pass_seconds(2)
        after = host.engine
        assert after is not None
        after.recall(kept, before.devices.devices)
        after.rules.restore(alerts)

    def _available(self) -> str:
        available = self.available_kib
        return "" if available is None else f"MemAvailable: {available} kB\n"

    @property
    def second(self) -> int:
        """The seconds since the start."""
        return self.machine.second

    def mails(self) -> list[tuple[float, str]]:
        """Return second and severity of each mail."""
        return [
            (mail.uptime - self.machine.uptime, mail.due.incident.severity.name.lower())
            for mail in self.machine.host.mails
        ]

    def cause(self, device: str = "sda") -> str:
        """Return why programs wait for a device."""
        assert self.machine.host.engine is not None
        return self.machine.host.engine.signals.harm().causes[device].value

    def limits(self, device: str = "sda") -> tuple[GroupLimit, ...]:
        """Return the limits of control groups that make programs wait for a device."""
        assert self.machine.host.engine is not None
        return self.machine.host.engine.signals.harm().limits.get(device, ())

    def summary(self, name: str) -> str:
        """Return what the worst active alert of this name says."""
        assert self.machine.host.engine is not None
        active = [a for a in self.machine.host.engine.rules.alerts() if a.name == name and a.active]
        return max(active, key=lambda alert: alert.severity).annotation("summary")

    def reasons(self, device: str) -> list[str]:
        """Return the reasons of a device's guards, '' the host, as on /metrics."""
        name = f'iowarden_guard_active{{device="{device}",'
        return [
            series.partition(',reason="')[2].removesuffix('"}')
            for series in self.machine.host.signals({"iowarden_guard_active"})
            if series.startswith(name)
        ]

    def guards(self, device: str) -> list[str]:
        """Return the guards of a device, '' the host, as on /metrics."""
        name = f'iowarden_guard_active{{device="{device}",guard="'
        return [
            series.removeprefix(name).partition('"')[0]
            for series in self.machine.host.signals({"iowarden_guard_active"})
            if series.startswith(name)
        ]
