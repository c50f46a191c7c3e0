"""iowarden starts without what it stored: it says so, and nothing that is wrong stays unsaid."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
from support.live import text, watched
from support.storage_incidents import FakeMachine, ata, medium, nvme

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.live import Watched

MAYBE = "may have been mailed before"
LOST = "state.db of an earlier run is lost"


def _directory(path: Path) -> None:
    path.mkdir()


def _dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("gone") / "state.db")


def _blocked_journal(path: Path) -> None:
    """Let SQLite find no journal that it could open: what a power loss left in state.db."""
    path.write_bytes(b"")
    (path.parent / f"{path.name}-journal").mkdir()


def _failing_disk(tmp_path: Path) -> FakeMachine:
    m = FakeMachine(tmp_path)
    m.sata("sda")
    m.mount("/srv", "sda1")
    m.disk("nvme0n1", rotational=False, serial="NV9")
    m.has(m.answers("sda", ata("sda")) | m.answers("nvme0n1", nvme("NV9")))
    m.says(*medium("1:0:0:0", "sda", 4096))
    return m


@pytest.mark.parametrize("spoil", [_directory, _dangling_link, _blocked_journal])
def test_what_is_critical_is_mailed_at_once_and_the_rest_after_ten_minutes(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """Nobody knows what was mailed before, which each mail says; history of the log is in it."""
    (tmp_path / "state").mkdir()
    spoil(tmp_path / "state" / "state.db")
    m = _failing_disk(tmp_path)
    m.says(
        "BTRFS error (device nvme0n1p1): bdev /dev/nvme0n1p1 errs: wr 1, rd 0, flush 1, corrupt 0,"
        " gen 0"
    )
    m.says("EXT4-fs error (device nvme0n1p1): ext4_journal_check_start:83: aborted journal")
    with watched(tmp_path, m, initial_report=True) as host:
        soon = {mail["Subject"]: text(mail) for mail in host.wait(120)}
        later = {mail["Subject"]: text(mail) for mail in host.wait(600)}
    assert soon
    assert all("[CRITICAL]" in subject and MAYBE in soon[subject] for subject in soon)
    assert any("nvme0n1" in subject for subject in soon), soon.keys()
    (report,) = (subject for subject in later if "INITIAL REPORT" in subject)
    assert "sda" in report
    assert MAYBE in later[report]


def test_what_happens_after_the_start_is_urgent_or_waits_as_well(tmp_path: Path) -> None:
    """A disk that hangs is mailed at once; a read error, perhaps the tenth, after ten minutes."""
    (tmp_path / "state" / "state.db").mkdir(parents=True)
    m = FakeMachine(tmp_path)
    m.sata("sda", "sdb")
    m.mount("/srv", "sda1")
    m.mount("/data", "sdb1")
    m.has(m.answers("sda", ata("sda")) | m.answers("sdb", ata("sdb")))
    with watched(tmp_path, m, initial_report=True) as host:
        host.wait_only(30)
        m.says(*medium("1:0:0:0", "sda", 4096))
        m.stands("sdb")
        soon = {mail["Subject"]: text(mail) for mail in host.wait(180)}
        assert any("sdb" in subject and MAYBE in body for subject, body in soon.items()), soon
        assert not any("sda" in subject for subject in soon)
        later = [mail["Subject"] for mail in host.wait(480)]
    assert any("INITIAL REPORT: sda" in subject for subject in later), later


def test_a_state_that_can_be_read_after_a_while_reports_nothing_twice(tmp_path: Path) -> None:
    """It was mailed in the run before; the directory in the way is removed after 30 s."""
    m = _failing_disk(tmp_path)
    path = tmp_path / "state" / "state.db"
    with watched(tmp_path, m, initial_report=True) as host:
        (first,) = (mail for mail in host.wait(90) if "INITIAL REPORT" in mail["Subject"])
        assert "sda" in first["Subject"]
        assert host.program.end() == 0
        path.rename(path.with_name("aside"))
        path.mkdir()
        host.start_again()
        host.wait_only(30)
        path.rmdir()
        path.with_name("aside").rename(path)
        # In parts: the thread that reads the state answers in real time, here within 60 s.
        mails = [mail["Subject"] for _ in range(15) for mail in host.wait(60)]
        assert mails == []


def _truncated(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def _random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(4096))


@pytest.mark.parametrize(
    "lose",
    [os.remove, _truncated(0), _truncated(1000), _random_bytes],
    ids=["deleted", "empty", "truncated", "random"],
)
def test_a_lost_state_is_reported_by_a_new_initial_report(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    """It says what nobody knows any more; the first one, of the first start, does not."""
    m = _failing_disk(tmp_path)
    with watched(tmp_path, m, initial_report=True) as host:
        (first,) = host.wait(90)
        assert "INITIAL REPORT" in first["Subject"]
        assert LOST not in text(first)
        before = _install(host)
        assert host.program.end() == 0
        lose(tmp_path / "state" / "state.db")
        host.start_again()
        (second,) = host.wait(120)
        assert _install(host) not in {"", before}
        host.restart()
        assert host.wait(120) == [], "that it was lost is said once"
    assert "INITIAL REPORT: sda" in second["Subject"]
    assert LOST in text(second)
    for word in ("incidents", "acknowledgements", "silences", "what was mailed"):
        assert word in text(second)


def _install(host: Watched) -> str:
    service = host.program._service  # type: ignore[union-attr]
    assert service is not None
    return service._tracker.install
