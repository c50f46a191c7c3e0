"""Drives past their years, and siblings of one that failed: lines of the digest, and no mail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    PollResult,
    Protocol,
    ReadStatus,
    ScsiHealth,
)
from iowarden.rules.alerting.alerts import RAISED, Alert, AlertState
from iowarden.rules.notices import digest, drive_ages
from iowarden.rules.notices.digest import Digest, WeeklyContent

WEEK = 7 * 86_400.0


def disks(**drives: Drive | None) -> Disks:
    """Disks by serial number; None: one that could not be read."""
    return Disks(
        {
            key: Disk(key, PollResult(AccessMethod("/dev/sda"), ReadStatus.READ, drive=drive))
            for key, drive in drives.items()
        }
    )


def drive(years: float | None = 1.0, model: str = "ACME 4T", week: str = "") -> Drive:
    """A drive of this age, made in this week of 2019."""
    hours = None if years is None else round(years * drive_ages.YEAR_HOURS)
    scsi = ScsiHealth(manufactured_year="2019", manufactured_week=week) if week else None
    return Drive(Protocol.SCSI, model=model, power_on_hours=hours, scsi=scsi)


def test_drives_past_five_years_are_counted() -> None:
    """Of those whose age is known; a misread counter is no age."""
    found = disks(A=drive(4.9), B=drive(5.0), C=drive(7.5), D=drive(None), E=drive(99), F=None)
    assert list(drive_ages.lines(found, ())) == [
        "2 of 3 drives are past 5 years of power-on time; the oldest is C (ACME 4T, 7.5 years)"
    ]
    assert list(drive_ages.lines(disks(A=drive(4.9)), ())) == []
    assert list(drive_ages.lines(None, ())) == []


def test_siblings_of_a_drive_that_failed_are_named() -> None:
    """Those of its model, and of its week where drives report one."""
    found = disks(
        A=drive(week="23"), B=drive(week="23"), C=drive(week="24"), D=drive(), E=drive(model="X")
    )
    (line,) = drive_ages.lines(found, {"A"})
    assert line == (
        "of the same model and week of manufacture (2019-W23) as A,"
        " which failed or is failing (ACME 4T): B"
    )
    found = disks(
        A=drive(), B=drive(), **{f"C{n:02}": drive() for n in range(20)}, X=drive(week="1")
    )
    (line,) = drive_ages.lines(found, {"A"})
    assert line.startswith("of the same model as A, which failed or is failing (ACME 4T): B, C00, ")
    assert line.endswith("C10 and 9 more")
    assert list(drive_ages.lines(found, {"X"})) == []
    assert list(drive_ages.lines(disks(A=drive(model=""), B=drive(model="")), {"A"})) == []


@pytest.mark.parametrize(
    ("name", "severity", "state", "failed"),
    [
        ("DiskFailing", "critical", AlertState.FIRING, {"S1"}),
        ("DiskFailing", "warning", AlertState.FIRING, set()),
        ("DiskFailing", "critical", AlertState.RESOLVED, set()),
        ("DiskTemperatureHigh", "critical", AlertState.FIRING, set()),
        ("FilesystemFull", "critical", AlertState.FIRING, set()),
    ],
)
def test_a_disk_failed_if_it_has_a_critical_alert(
    name: str, severity: str, state: AlertState, failed: set[str]
) -> None:
    """Heat, a full file system on it, and what its array makes more urgent do not count."""
    labels = (("alertname", name), ("disk", "S1"), ("severity", severity))
    raised = ((RAISED, "true"),)
    assert drive_ages.failed_disks([Alert(name, labels, state, 1.0, raised, 0.0, 0.0)]) == failed


def test_notes_are_in_a_digest_and_cause_none() -> None:
    """That drives are old causes no mail each week."""
    state = Digest(begun_seconds=0.0, arrived=True)
    old = WeeklyContent(notes=["3 drives are old"])
    _, notice = digest.weekly(state, old, WEEK, float, install="x")
    assert notice is None
    _, notice = digest.weekly(state, replace(old, heartbeat="runs"), WEEK, float, install="x")
    assert notice is not None
    assert notice.sentences == ("runs", "3 drives are old")
