"""How long after the fault its mail is with the mail server, on a played clock."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import pytest
from support.database import MB, Database
from support.host import Host
from support.live import parsed, text, watched
from support.program import recorded
from support.storage_incidents import FakeMachine

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

    from support.live import Watched

COPY = (
    ("cp", "balance_dirty_pages", False),
    ("kworker/u8:1+flush-8:16", "rq_qos_wait", True),
    *(("smtpd", "jbd2_log_wait_commit", False),) * 2,
)
"""Who is blocked while a copy fills the queue: a mail server waits for its fsync."""
HANDOVER_SECONDS = 2.0


def next_mail(host: Watched, seconds: int) -> EmailMessage:
    """Return the next mail, which the server has within so many seconds.

    It had it within 2 s of the moment at which the mail was due.
    """
    for _ in range(seconds):
        host.live.wait(1.0)
        host.program.caught_up()
        host.program.sent()
        if host.answers.mails.qsize():
            mail = parsed(host.answers.next().data)
            due = parsedate_to_datetime(str(mail["Date"])).timestamp()
            assert host.live.wall - due <= HANDOVER_SECONDS
            return mail
    pytest.fail(f"no mail within {seconds} s:\n{host.program.text()}")


@pytest.mark.parametrize(("busy", "within"), [(True, 14), (False, 34)])
def test_a_hang_is_mailed_while_it_lasts(tmp_path: Path, *, busy: bool, within: int) -> None:
    """A disk that wrote a second ago, and one that may have to spin up first."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB if busy else 0
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 0, 7
        mail = next_mail(host, within)
    assert "sdb: no request completed" in str(mail["Subject"])


def filled(live: Database, seconds: float) -> None:
    """Let a copy fill the queue in so many seconds: that takes the disk 8 minutes to write."""
    live.rates["sdb"], live.in_flight["sdb"], live.dirty_pages = 8 * MB, 30, 600_000
    live.wait(seconds, 1.0)
    live.dirty_pages, live.blocked, live.waiting = 950_000, len(COPY), COPY


@pytest.mark.parametrize(("fill_seconds", "within"), [(40, 15), (2, 20)])
def test_a_write_stall_is_mailed_before_it_is_over(
    tmp_path: Path, fill_seconds: float, within: int
) -> None:
    """From when writers are paused; one that began on an idle disk needs 20 s of its writing."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        filled(live, fill_seconds)
        mail = next_mail(host, within)
    expected = "writes stalled", "programs blocked"
    assert any(text in str(mail["Subject"]) for text in expected)


def test_the_recorded_stall_is_mailed_15_s_after_another_program_waits_for_it() -> None:
    """At 164.9 s since boot writers are paused, from 173.3 s on a program waits for its fsync.

    The recording has no tasks: they are as its README tells. The disk is busy since 160 s.
    """
    host = Host()
    for step in recorded("write-stall"):
        at = step.frame.monotonic_seconds
        waits = ["balance_dirty_pages", *(["folio_wait_writeback"] if at >= 173.3 else ())]
        tasks = [
            {
                "pid": 400 + number, "start_ticks": 15_680, "command": "dd",
                "wait_channel": channel, "stack": [channel], "read_bytes": 0, "write_bytes": 10**8,
                "process": 0, "kernel": False, "waits_at": "",
            }
            for number, channel in enumerate(waits)
        ]  # fmt: skip
        found = json.dumps({"tasks": tasks, "count": len(tasks)}).encode()
        host.play([replace(step, files={**step.files, "/.probe/tasks": found})])
        if host.mails:
            break
    assert host.reasons() == ["opened"]
    assert 177.0 <= host.mails[0].uptime <= 173.3 + 15.0


def test_a_stall_that_drains_has_its_resolved_mail_when_no_freeze_follows(tmp_path: Path) -> None:
    """Its last seconds forecast nothing bad; for ten minutes the next freeze would be the same."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        filled(live, 40)
        next_mail(host, 15)
        live.dirty_pages = 1_010_000
        host.wait(35)
        live.rates["sdb"] = 500 * MB
        assert host.wait(12, 1.0) == []
        live.dirty_pages = live.blocked = 0
        live.rates["sdb"] = live.in_flight["sdb"] = 0
        live.waiting = ()
        assert host.wait(590) == []
        mail = next_mail(host, 120)
    assert "[OK]" in str(mail["Subject"])


def test_a_restart_does_not_move_the_end_of_a_hang(tmp_path: Path) -> None:
    """The disk answers again after 50 s, the service restarts half a minute later."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 0, 7
        assert len(host.wait(50)) == 2
        live.rates["sdb"], live.in_flight["sdb"] = MB, 0
        assert host.wait(30) == []
        host.restart()
        mail = next_mail(host, 45)
    assert "[OK]" in str(mail["Subject"])
    assert re.search(r"Resolved after (4[5-9]|5[0-5]) s", text(mail))


@pytest.mark.parametrize(
    ("level", "lost"),
    [
        ("raid1", ("sdb1",)),
        ("raid5", ("sdb1",)),
        ("raid6", ("sdb1", "sdc1")),
        ("raid5", ("sdb1", "sdc1")),
    ],
)
def test_an_array_without_redundancy_is_mailed_within_10_s(
    tmp_path: Path, level: str, lost: tuple[str, ...]
) -> None:
    """The kernel marks the last member that it could do without as faulty."""
    machine = FakeMachine(tmp_path)
    names = ("sda", "sdb", "sdc", "sdd")[: {"raid1": 2, "raid5": 3, "raid6": 4}[level]]
    machine.sata(*names)
    machine.array("md0", level, *map(machine.partition, names))
    machine.mount("/srv", "md0")
    with watched(tmp_path, machine) as host:
        machine.host = host
        host.wait(63)
        for member in lost[:-1]:
            machine.fails("md0", member)
            host.wait(90)
        machine.fails("md0", lost[-1])
        mail = next_mail(host, 10)
    assert str(mail["Subject"]).startswith("[CRITICAL]")
