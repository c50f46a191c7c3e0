"""Incidents of memory, write-back, file systems and the network, and of our own life.

Each is a machine written by hand and played through the whole service, up to its mails.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.kmsg import Kernel
from support.live import Live, text, watched

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

    from support.live import Files
PAGE = 4096
MB = 1_000_000
LIMIT_PAGES = 1_000_000
"""The dirty threshold: 4 GB; half of it is the background threshold."""
USAGE = (
    "device_number {number}\nblock_bytes 4096\nfragment_bytes 4096\nblocks 25000000\n"
    "blocks_free {free}\nblocks_available {free}\nfiles 6553600\nfiles_free 6000000\n"
)


class Server(Live):
    """A database server: 'sda' with the system, 'sdb' with the data, and what it does now."""

    def __init__(self, tmp_path: Path, **disks: str) -> None:
        """Start it with 'sda', 'sdb' and more disks, by name and mount point ('' without)."""
        super().__init__(tmp_path)
        self.files: Files = {}
        self.counters: dict[str, list[int]] = {}
        self.in_flight: dict[str, int] = {}
        self.rates: dict[str, int] = {}
        self.discards: dict[str, int] = {}
        self.dirty_pages = self.blocked = 0
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
            "/.statvfs": USAGE.format(free=20_000_000, number="8:1"),
            "/srv/.statvfs": USAGE.format(free=20_000_000, number="8:17"),
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
        tasks = [
            {
                "pid": 500 + number, "start_ticks": 1000, "command": command, "wait_channel": channel,  # noqa: E501 - as the kernel prints it
                "stack": [channel], "read_bytes": 0, "write_bytes": 10**9, "process": 0,
                "kernel": kernel, "waits_at": "",
            }
            for number, (command, channel, kernel) in enumerate(self.waiting)
        ]  # fmt: skip
        return {
            "/proc/diskstats": "".join(lines),
            "/proc/vmstat": (
                f"nr_dirty {self.dirty_pages}\nnr_writeback 0\nnr_dirtied {written}\n"
                f"nr_written {written}\nnr_dirty_threshold {LIMIT_PAGES}\n"
                f"nr_dirty_background_threshold {LIMIT_PAGES // 2}\npgpgin 0\n"
                f"pgpgout {written * 4}\n"
            ),
            "/proc/meminfo": (
                "MemTotal: 32000000 kB\nMemFree: 500000 kB\nMemAvailable: 20000000 kB\n"
                "Buffers: 1 kB\nCached: 1 kB\n"
                f"Dirty: {self.dirty_pages * 4} kB\nWriteback: 0 kB\n"
            ),
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
        for name, count in self.discards.items():
            self.counters[name][11] += int(count * monotonic)
        super().leap(monotonic, wall, {**self.now(), **(files or {})})

    def restarted(self) -> None:
        """Begin anew with what is there now."""
        if hasattr(self, "counters"):
            self._files |= self.now()
        super().restarted()

    def wait(self, seconds: float, step: float = 1.0) -> None:
        """Look every second."""
        super().wait(seconds, step)


def subjects(mails: list[EmailMessage]) -> list[str]:
    """Return what the mails are headed, without the host."""
    return [str(mail["Subject"]).replace("db1.example.com: ", "") for mail in mails]


def test_terabytes_written_at_the_disks_own_speed_are_no_stall(tmp_path: Path) -> None:
    """Wanted: no mail. dd holds the cache at 85 % for ten minutes; only it and flush wait."""
    live = Server(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 150 * MB, 32
        live.dirty_pages, live.blocked = 850_000, 2
        live.waiting = (
            ("dd", "balance_dirty_pages", False),
            ("kworker/u8:1+flush-8:16", "rq_qos_wait", True),
        )
        mails = host.wait(600)
        live.rates["sdb"] = live.in_flight["sdb"] = live.dirty_pages = live.blocked = 0
        live.waiting = ()
        mails += host.wait(900)
    assert subjects(mails) == []


def test_a_copy_to_a_slow_usb_stick_is_no_stall(tmp_path: Path) -> None:
    """Wanted: no mail. 8 MB/s, 3.4 GB queued: seven minutes of drain, and cp alone waits."""
    live = Server(tmp_path, sdc="8:33 / /media/usb rw,nosuid - vfat /dev/sdc1 rw")
    live._files["/sys/block/sdc/removable"] = "1\n"
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.rates["sdc"], live.in_flight["sdc"] = 8 * MB, 1
        live.dirty_pages, live.blocked = 850_000, 3
        live.waiting = (
            ("cp", "balance_dirty_pages", False),
            ("kworker/u8:1+flush-8:32", "rq_qos_wait", True),
            ("usb-storage", "usb_sg_wait", True),
        )
        mails = host.wait(420)
        live.rates["sdc"] = live.in_flight["sdc"] = live.dirty_pages = live.blocked = 0
        live.waiting = ()
        mails += host.wait(900)
    assert subjects(mails) == []


def test_a_nfs_server_that_does_not_respond_and_comes_back(tmp_path: Path) -> None:
    """Wanted: one mail that names the server and no disk."""
    live = Server(tmp_path)
    live.mounts["nas"] = "30 25 0:45 / /mnt/nas rw,relatime - nfs4 nas1:/export rw,vers=4.2"
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.kernel.says("nfs: server nas1 not responding, still trying")
        live.blocked = 2
        live.waiting = (("rsync", "rpc_wait_bit_killable", False),)
        soon = host.wait(90)
        live.kernel.says("nfs: server nas1 OK", priority=5)
        live.blocked, live.waiting = 0, ()
        host.wait(1500)
    assert len(soon) == 1
    assert "nas1" in str(soon[0]["Subject"])
    assert "sdb" not in text(soon[0])


def test_a_journal_on_a_loop_device_that_is_aborted(tmp_path: Path) -> None:
    """Wanted: one critical mail: /guest is read-only or failed; nothing of smartctl on loop0."""
    live = Server(tmp_path, loop0="7:0 / /guest rw,relatime - ext4 /dev/loop0 rw")
    live._files |= {
        "/guest/.statvfs": USAGE.format(free=20_000_000, number="7:0"),
        "/sys/fs/ext4/loop0/errors_count": "0\n",
        "/sys/fs/ext4/loop0/warning_count": "0\n",
    }
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.kernel.says(
            "I/O error, dev loop0, sector 1052672 op 0x1:(WRITE) flags 0x800 phys_seg 4 prio class 2",  # noqa: E501 - as the kernel prints it
            "Aborting journal on device loop0-8.",
            "EXT4-fs error (device loop0): ext4_journal_check_start:83: comm postgres: Detected aborted journal",  # noqa: E501 - as the kernel prints it
            "EXT4-fs (loop0): Remounting filesystem read-only",
        )
        live.mounts["loop0"] = "27 25 7:0 / /guest ro,relatime - ext4 /dev/loop0 ro"
        live.change({"/sys/fs/ext4/loop0/errors_count": "1\n"})
        mails = host.wait(180)
    assert len(mails) == 1
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    assert "/guest" in text(mails[0])
    assert "smartctl" not in text(mails[0])


def test_btrfs_checksum_errors(tmp_path: Path) -> None:
    """Wanted: one incident of sdc1, critical or warning; no repair."""
    live = Server(tmp_path, sdc="0:50 / /pool rw,relatime - btrfs /dev/sdc1 rw,subvolid=5")
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.kernel.says(
            "BTRFS warning (device sdc1): csum failed root 5 ino 257 off 4096 csum 0x8941f998 expected csum 0x2d8ee1f9 mirror 1",  # noqa: E501 - as the kernel prints it
            "BTRFS error (device sdc1): bdev /dev/sdc1 errs: wr 0, rd 0, flush 0, corrupt 1, gen 0",
        )
        mails = host.wait(400)
    assert len(mails) == 1
    assert "--repair" not in text(mails[0])


def test_xfs_is_shut_down_because_its_disk_went_offline(tmp_path: Path) -> None:
    """Wanted: one incident whose title is the disk; never xfs_repair -L as the first advice."""
    live = Server(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.in_flight["sdb"] = 5
        mails = host.wait(40)
        live.kernel.says("sd 1:0:0:0: Device offlined - not ready after error recovery")
        live.in_flight["sdb"] = 0
        live.change(
            {
                "/sys/class/scsi_device/1:0:0:0/device/state": "offline\n",
                "/sys/block/sdb/device/state": "offline\n",
            }
        )
        live.kernel.says(
            "I/O error, dev sdb, sector 976764928 op 0x1:(WRITE) flags 0x29800 phys_seg 2 prio class 2",  # noqa: E501 - as the kernel prints it
            "XFS (sdb1): log I/O error -5",
            "XFS (sdb1): Filesystem has been shut down due to log error (0x2).",
            "XFS (sdb1): Please unmount the filesystem and rectify the problem(s).",
        )
        mails += host.wait(300)
    threads = {str(m["References"] or m["Message-ID"]).split()[0] for m in mails}
    assert len(threads) == 1
    assert "sdb" in str(mails[-1]["Subject"])
    assert "xfs_repair -L" not in text(mails[-1])


def test_a_file_system_that_a_backup_fills(tmp_path: Path) -> None:
    """Wanted: one critical mail, that /srv is full; resolved when the backup was removed."""
    live = Server(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 100 * MB, 4
        mails = []
        for free in (10_000_000, 4_000_000, 1_000_000, 0):
            live.change({"/srv/.statvfs": USAGE.format(free=free, number="8:17")})
            mails += host.wait(120)
        mails += host.wait(1200)
        live.change({"/srv/.statvfs": USAGE.format(free=20_000_000, number="8:17")})
        live.rates["sdb"] = live.in_flight["sdb"] = 0
        end = host.wait(3000)
    assert mails
    assert "[CRITICAL]" in str(mails[-1]["Subject"])
    assert len(mails) <= 3
    assert len(end) == 1


def test_a_hung_task_by_log_and_by_counter_is_one_mail(tmp_path: Path) -> None:
    """Wanted: one mail; nothing escalates."""
    live = Server(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.kernel.says(
            "INFO: task postgres:4711 blocked for more than 120 seconds.",
            "      Not tainted 6.1.0-28-amd64 #1 Debian 6.1.119-1",
            '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
        )
        live.change(
            {
                "/proc/sys/kernel/hung_task_detect_count": "1\n",
                "/proc/sys/kernel/hung_task_warnings": "9\n",
            }
        )
        mails = host.wait(300)
        mails += host.wait(1500)
    assert len(mails) == 1


def test_fstrim_at_night_is_no_hang(tmp_path: Path) -> None:
    """Wanted: no mail: discards complete for a minute, then one takes 80 s."""
    live = Server(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB
        host.wait(60)
        live.rates["sdb"] = 0
        live.in_flight["sdb"], live.discards["sdb"] = 8, 3
        live.blocked, live.waiting = 1, (("fstrim", "submit_bio_wait", False),)
        mails = host.wait(60)
        live.discards["sdb"] = 0
        mails += host.wait(80)
        live.discards["sdb"] = 2
        mails += host.wait(10)
        live.discards["sdb"] = live.in_flight["sdb"] = live.blocked = 0
        live.waiting = ()
        mails += host.wait(600)
    assert mails == []


def test_a_restart_in_the_middle_of_a_hang_tells_nothing_anew(tmp_path: Path) -> None:
    """Wanted: a mail and its escalation before, none after the restart, the true length at last."""
    live = Server(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 0, 7
        before = host.wait(50)
        host.restart()
        after = host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = MB, 0
        end = host.wait(300)
    assert len(before) == 2
    assert after == []
    assert len(end) == 1


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_is_set_during_a_hang_changes_no_length(tmp_path: Path, step: float) -> None:
    """Wanted: as many mails as without, and the length of the hang, not an hour more or less."""
    live = Server(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 0, 7
        mails = host.wait(15)
        live.leap(1.0, step)
        mails += host.wait(45)
        live.rates["sdb"], live.in_flight["sdb"] = MB, 0
        end = host.wait(300)
    assert len(mails) == 2
    assert len(end) == 1
    assert "1 h" not in text(end[0])
