"""A database server: its disks, its memory, its programs, and what they do second by second.

Files are as the kernel shows them: /proc/diskstats, vmstat, meminfo, stat, mountinfo, sysfs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.attached import probe_answer
from support.drives import ata
from support.kmsg import Kernel
from support.live import Live

from iowarden.collectors.smart.drive import AccessMethod
from iowarden.collectors.smart.smartctl_runner import command

if TYPE_CHECKING:
    from collections.abc import Iterable
    from email.message import EmailMessage
    from pathlib import Path

    from support.live import Files

MB = 1_000_000
LIMIT_PAGES = 1_000_000
"""The dirty threshold: 4 GB; half of it is the background threshold."""

WRITERS = frozenset({"cp", "dd", "firefox", "tar"})
"""Programs that write all that is written; the others write next to nothing."""


class Database(Live):
    """A database server: 'sda' with the system, 'sdb' with the data, and what it does now."""

    def __init__(self, tmp_path: Path, **disks: str) -> None:
        """Start it with 'sda', 'sdb' and more disks, by name and mount point ('' without)."""
        super().__init__(tmp_path)
        self.files: Files = {}
        self.counters: dict[str, list[int]] = {}
        self.in_flight: dict[str, int] = {}
        self.rates: dict[str, int] = {}
        self.discards: dict[str, int] = {}
        self.reads: dict[str, int] = {}
        """Bytes a second that each disk reads; `rates` those that it writes."""
        self.dirty_pages = self.blocked = 0
        self.limit_pages = LIMIT_PAGES
        self.memory: dict[str, int] = {}
        """Lines of /proc/meminfo beside the usual ones, in kB."""
        self.counts: dict[str, int] = {}
        """Lines of /proc/vmstat beside the usual ones."""
        self.waiting: tuple[tuple[str, str, bool], ...] = ()
        self.mounts: dict[str, str] = {}
        for number, name in enumerate(("sda", "sdb", *disks)):
            self.add(name, number)
        self.mounts["sda"] = "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"
        self.mounts["sdb"] = "26 25 8:17 / /srv rw,relatime shared:2 - xfs /dev/sdb1 rw"
        for number, (name, line) in enumerate(disks.items()):
            if line:
                self.mounts[name] = f"{27 + number} 25 {line}"
        gone = [path for path in self._files if "md0" in path]
        for path in gone:
            del self._files[path]
        self._files["/proc/mdstat"] = "Personalities : \nunused devices: <none>\n"
        self._files |= self.now() | {
            "/.statvfs": usage("8:1"),
            "/srv/.statvfs": usage("8:17"),
            "/proc/sys/kernel/hung_task_warnings": "10\n",
            "/proc/sys/kernel/hung_task_detect_count": "0\n",
        }
        self.kernel = Kernel(self)

    def add(self, name: str, number: int) -> None:
        """Let a disk be there."""
        self.counters[name] = [0] * 17
        base = f"/sys/block/{name}"
        if name.startswith("loop"):
            self._files |= {
                f"{base}/slaves": None, f"{base}/holders": None, f"{base}/dev": f"7:{number}\n",
                f"{base}/size": "2097152\n", f"{base}/loop/backing_file": "/srv/images/guest.img\n",
                f"{base}/ro": "0\n",
            }  # fmt: skip
            return
        address = f"{number}:0:0:0"
        device = f"/sys/class/scsi_device/{address}/device"
        self._files |= {
            f"{base}/slaves": None,
            f"{base}/holders": None,
            f"{base}/dev": f"8:{16 * number}\n",
            f"{base}/size": "1953525168\n",
            f"{base}/ro": "0\n",
            f"{base}/removable": "0\n",
            f"{base}/queue/rotational": "1\n",
            f"{base}/device/timeout": "30\n",
            f"{base}/device/vendor": "ATA     \n",
            f"{base}/device/model": "SIMULATED HDD\n",
            f"{base}/device/vpd_pg80": b"\0\x80\0\5S-" + name.encode(),
            f"{base}/device/scsi_device/{address}": None,
            f"{base}/{name}1/partition": "1\n",
            f"{base}/{name}1/dev": f"8:{16 * number + 1}\n",
            f"{base}/{name}1/start": "2048\n",
            f"{base}/{name}1/size": "1953523120\n",
            f"{device}/type": "0\n",
            f"{device}/state": "running\n",
            f"{device}/timeout": "30\n",
            f"{device}/block/{name}": None,
            f"/sys/class/scsi_host/host{number}/proc_name": "ahci\n",
        }

    def pull(self, name: str, number: int) -> None:
        """Take a disk away that was added by a number, a second later."""
        del self.counters[name]
        gone = (f"/sys/block/{name}", f"/sys/class/scsi_device/{number}:0:0:0")
        self._files = {p: text for p, text in self._files.items() if not p.startswith(gone)}
        self._monotonic, self.wall = self._monotonic + 1.0, self.wall + 1.0
        self._look(self.now(), gone)

    def now(self) -> Files:
        """Return the counters as they are."""
        lines = []
        for number, (name, counters) in enumerate(self.counters.items()):
            counters[8] = self.in_flight.get(name, 0)
            major, minor = (7, 0) if name.startswith("loop") else (8, 16 * number)
            lines.append(f"{major} {minor} {name} {' '.join(map(str, counters))}\n")
            if major == 8:
                quiet = " ".join("0" * 17)
                lines.append(f"{major} {minor + 1} {name}1 {quiet}\n")
        written = sum(each[6] for each in self.counters.values()) // 8
        counts = {
            "nr_dirty": self.dirty_pages, "nr_writeback": 0, "nr_dirtied": written,
            "nr_written": written, "nr_dirty_threshold": self.limit_pages,
            "nr_dirty_background_threshold": self.limit_pages // 2,
            "pgpgin": 0, "pgpgout": written * 4, **self.counts,
        }  # fmt: skip
        memory = {
            "MemTotal": 32_000_000, "MemFree": 500_000, "MemAvailable": 20_000_000, "Buffers": 1,
            "Cached": 1, "Dirty": self.dirty_pages * 4, "Writeback": 0, **self.memory,
        }  # fmt: skip
        tasks = [
            {
                "pid": 500 + number, "start_ticks": 1000, "command": command, "wait_channel": channel,  # noqa: E501 - as the kernel prints it
                "stack": [channel], "read_bytes": 0, "process": 0,
                "write_bytes": 10**9 + (written * 4096 if command in WRITERS else 0),
                "kernel": kernel, "waits_at": "",
            }
            for number, (command, channel, kernel) in enumerate(self.waiting)
        ]  # fmt: skip
        return {
            "/proc/diskstats": "".join(lines),
            "/proc/vmstat": "".join(f"{name} {count}\n" for name, count in counts.items()),
            "/proc/meminfo": "".join(f"{name}: {kib} kB\n" for name, kib in memory.items()),
            "/proc/stat": (
                "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1795185929\nprocesses 1\n"
                f"procs_running 1\nprocs_blocked {self.blocked}\n"
            ),
            "/proc/1/mountinfo": "".join(f"{line}\n" for line in self.mounts.values()),
            "/.probe/tasks": json.dumps({"tasks": tasks, "count": len(tasks)}),
        }

    def leap(self, monotonic: float, wall: float, files: Files | None = None) -> None:  # type: ignore[override]
        """Let the disks do their work meanwhile."""
        for name, rate in self.rates.items():
            counters = self.counters[name]
            counters[4] += -(-int(rate * monotonic) // 524_288)
            counters[6] += int(rate * monotonic) // 512
            counters[9] += int(1000 * monotonic) if rate else 0
        for name, rate in self.reads.items():
            counters = self.counters[name]
            counters[0] += -(-int(rate * monotonic) // 131_072)
            counters[2] += int(rate * monotonic) // 512
            counters[9] += int(1000 * monotonic) if rate else 0
        for name, count in self.discards.items():
            self.counters[name][11] += int(count * monotonic)
            self.counters[name][14] += int(900 * monotonic) if count else 0
        super().leap(monotonic, wall, {**self.now(), **(files or {})})

    def restarted(self) -> None:
        """Begin anew with what is there now."""
        if hasattr(self, "counters"):
            self._files |= self.now()
        super().restarted()

    def mount(self, line: str) -> None:
        """Mount something from the next look on: a line of mountinfo."""
        self.mounts[line.split()[4]] = line


def drive(name: str, *, kind: str = "sat", **changes: object) -> Files:
    """Return what smartctl says of the disk of a name; `raw`: raw values by attribute.

    Other changes are made to the document: None takes a part out.
    """
    document = json.loads(ata(f"S-{name}"))
    raw = changes.pop("raw", {})
    assert isinstance(raw, dict)
    for row in document["ata_smart_attributes"]["table"]:
        if row["id"] in raw:
            row["raw"] = {"value": raw[row["id"]], "string": str(raw[row["id"]])}
    document["smartctl"]["output"] = []
    document["user_capacity"] = {"blocks": 1_953_525_168, "bytes": 1_000_204_886_016}
    for key, value in changes.items():
        if value is None:
            del document[key]
        else:
            document[key] = value
    words = command(AccessMethod(f"/dev/{name}", kind), "full")
    status = document["smartctl"]["exit_status"]
    return probe_answer(*words, stdout=json.dumps(document), status=status)


def self_tests(*passed: bool) -> dict[str, object]:
    """Return a log of extended self-tests, the newest first; a failed one names its sector."""
    good = {"value": 0, "string": "Completed without error", "passed": True}
    bad = {"value": 112, "string": "Completed: read failure", "passed": False}
    table = [
        {
            "type": {"value": 2, "string": "Extended offline"},
            "status": good if each else bad,
            "lifetime_hours": 20_000 - 168 * number,
            **({} if each else {"lba": 123_456_789}),
        }
        for number, each in enumerate(passed)
    ]
    log = {"revision": 1, "table": table, "count": len(table), "error_count_total": 0}
    return {"extended": log, "standard": log}


def usage(number: str, free: int = 20_000_000, files_free: int = 6_000_000) -> str:
    """Return what statvfs says of a file system of 25 million blocks on a device."""
    return (
        f"device_number {number}\nblock_bytes 4096\nfragment_bytes 4096\nblocks 25000000\n"
        f"blocks_free {free}\nblocks_available {free}\nfiles 6553600\nfiles_free {files_free}\n"
    )


def subjects(mails: Iterable[EmailMessage]) -> list[str]:
    """Return what the mails are headed, without the host."""
    return [str(mail["Subject"]).replace("db1.example.com: ", "") for mail in mails]


def threads(mails: Iterable[EmailMessage]) -> set[str]:
    """Return the first message of each thread of mails."""
    return {str(mail["References"] or mail["Message-ID"]).split()[0] for mail in mails}
