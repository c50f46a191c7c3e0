"""A stall names the programs that write and the units that wait, from files to the mail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.database import MB, Database
from support.live import Watched, text, watched

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

    from support.live import Files

PRESSURE = "some avg10=92.00 avg60=0.00 avg300=0.00 total=1\n"
PRESSURE += "full avg10=84.00 avg60=0.00 avg300=0.00 total=1\n"
UNKNOWN = "Which of the waiting programs wrote most of it"


class Stalled(Database):
    """A database beside a copy to a slow USB stick, as the probe and the control groups see it."""

    def now(self) -> Files:
        """Return the counters as they are; 'postgres' has written 1 TB before."""
        writes = sum(each[6] for each in self.counters.values()) * 512
        processes = [
            [500, 1000, 1, "cp", "backup.service", 0, writes * 9 // 10, 0],
            [812, 1000, 1, "postgres", "postgresql.service", 0, 10**12 + writes // 10, 0],
        ]
        sweep = {"boot_seconds": self._monotonic, "processes": processes}
        return super().now() | {
            "/.probe/io_sweep": json.dumps({**sweep, "not_read": []}),
            "/sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n",
            "/sys/fs/cgroup/system.slice/postgresql.service/io.pressure": PRESSURE,
        }


def stalled(host: Watched, live: Database) -> list[EmailMessage]:
    """Let cp copy and postgres wait, up to the first mails."""
    host.wait(20)
    live.rates["sdc"], live.in_flight["sdc"] = 8 * MB, 1
    live.dirty_pages, live.blocked = 850_000, 5
    live.waiting = (
        ("cp", "balance_dirty_pages", False),
        ("kworker/u8:1+flush-8:32", "rq_qos_wait", True),
        *(("postgres", "balance_dirty_pages", False) for _ in range(3)),
    )
    return host.wait(40, 1.0)


def stick(live: Database) -> Database:
    """Make 'sdc' a stick."""
    live._files["/sys/block/sdc/removable"] = "1\n"
    return live


class Accounted(Stalled):
    """A copy to 'sdc' beside a log on 'sda', with the bytes of their units on each disk."""

    is_accounted = True

    def now(self) -> Files:
        """Return the counters as they are."""
        copied = self.counters["sdc"][6] * 512 if "sdc" in self.counters else 0
        logged = int(self._monotonic) * 200_000
        stats = {
            "": f"8:32 rbytes=0 wbytes={copied}\n8:0 rbytes=0 wbytes={logged}\n",
            "/system.slice/backup.service": f"8:32 rbytes=0 wbytes={copied}\n",
            "/system.slice/log.service": f"8:0 rbytes=0 wbytes={logged}\n",
        }
        groups = {f"/sys/fs/cgroup{path}/io.pressure": PRESSURE for path in stats if path}
        accounts = {f"/sys/fs/cgroup{path}/io.stat": text for path, text in stats.items()}
        return super().now() | groups | (accounts if self.is_accounted else {})


@pytest.mark.parametrize(
    ("is_accounted", "expected"),
    [
        (True, "Who writes to sda: 100 % log.service (195 KiB/s)"),
        (False, "Who writes on this host: 90 % cp (backup.service, pid 500"),
    ],
)
def test_who_writes_to_a_disk_that_hangs_is_not_who_writes_to_another(
    tmp_path: Path, expected: str, *, is_accounted: bool
) -> None:
    """'sda' answers nothing, and cp writes to 'sdc': only control groups count by disk."""
    live = Accounted(tmp_path, sdc=MOUNT)
    live.is_accounted = is_accounted
    with watched(tmp_path, live) as host:
        live.rates["sda"] = MB
        host.wait(20, 1.0)
        live.rates |= {"sda": 0, "sdc": 8 * MB}
        live.in_flight["sda"] = 1
        mails = host.wait(70, 1.0)
    about = [text(mail) for mail in mails if "sda" in mail["Subject"]]
    assert any(expected in said for said in about), about


MOUNT = "8:33 / /media/usb rw,nosuid - vfat /dev/sdc1 rw"


def test_the_first_mail_of_a_stall_names_who_writes_and_who_waits(tmp_path: Path) -> None:
    """The readings began while writers were throttled: no second mail is needed."""
    live = stick(Stalled(tmp_path, sdc=MOUNT))
    with watched(tmp_path, live) as host:
        (mail, *_) = stalled(host, live)
        shown = host.program.text()
    said = text(mail)
    named = "Who writes: 90 % cp (backup.service, pid 500, 6.9 MiB/s), 10 % postgres"
    assert named in said.partition("WHAT TO DO")[0], "on the first screen, before the advice"
    assert "who waits: postgresql.service 84 % of the last 10 s" in said
    assert UNKNOWN not in said
    assert "If several disks are busy" in said
    assert "Traceback" not in shown


def test_without_a_sweep_the_mail_reports_that_it_is_not_known(tmp_path: Path) -> None:
    """An older probe does not know the verb; version 2 of control groups is not mounted."""
    live = stick(Database(tmp_path, sdc=MOUNT))
    with watched(tmp_path, live) as host:
        (mail, *_) = stalled(host, live)
    said = text(mail)
    assert "who writes" not in said.lower()
    assert "who waits:" not in said
    assert UNKNOWN in said


def test_names_of_programs_are_private_if_so_configured(tmp_path: Path) -> None:
    """Neither who writes nor the names of waiting programs; that they wait is still reported."""
    live = stick(Stalled(tmp_path, sdc=MOUNT))
    with watched(tmp_path, live, settings="privacy: {programs: false}\n") as host:
        (mail, *_) = stalled(host, live)
    said = text(mail)
    assert "who writes" not in said.lower()
    assert "postgres" not in said
    assert "a program (pid 500) waits in balance_dirty_pages" in said
    assert "kworker/u8:1+flush-8:32" in said
