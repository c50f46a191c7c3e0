"""An array loses a second member long after the first one, which is still missing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.live import text, watched
from support.storage_incidents import FakeMachine

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

    from support.live import Watched

LATER_SECONDS = 330.0
"""What a disk that left carried is forgotten by then."""
STEP_SECONDS = 30.0
RAID6 = ("sda", "sdb", "sdc", "sdd", "sde", "sdf")


def machine(tmp_path: Path) -> FakeMachine:
    """Return a machine whose file system is on a raid6 behind one SAS adapter."""
    found = FakeMachine(tmp_path)
    found.sas(0, "mpt3sas", *RAID6)
    found.array("md0", "raid6", *(f"{name}1" for name in RAID6))
    found.mount("/srv", "md0")
    return found


def subjects(mails: list[EmailMessage]) -> list[str]:
    """Return the subjects of mails, shorter by what every mail has."""
    return [re.sub(r" db1[.\w]*:| ESCALATED:", "", str(mail["Subject"])) for mail in mails]


def mailed(host: Watched, seconds: float) -> list[EmailMessage]:
    """Return the mails of a time in which nothing happens, in few looks."""
    return host.wait(seconds, STEP_SECONDS)


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "faulty"])
def test_a_second_disk_that_is_pulled_is_in_the_incident_of_the_first(
    tmp_path: Path, *, removed: bool
) -> None:
    """Both are lost to the array: 'sdb: REBUILT' came as its alert of before ended."""
    raid6 = machine(tmp_path)
    with watched(tmp_path, raid6) as host:
        raid6.host = host
        host.wait(20)
        raid6.loses("sdb", removed=removed)
        first = mailed(host, LATER_SECONDS)
        raid6.loses("sdd", removed=removed)
        second = host.wait(10) + mailed(host, 120)
    assert [told.startswith("[CRITICAL] sdb: ") for told in subjects(first)] == [True]
    (told,) = subjects(second)
    assert told == "[CRITICAL] sdb and sdd: gone and 2 members of md0 missing"
    assert {mail["X-Iowarden-Incident"] for mail in second} == {first[0]["X-Iowarden-Incident"]}


def test_an_array_that_stopped_is_not_rebuilt(tmp_path: Path) -> None:
    """That it is degraded is over, because it does not run any more."""
    raid6 = machine(tmp_path)
    with watched(tmp_path, raid6) as host:
        raid6.host = host
        host.wait(20)
        raid6.loses("sdb")
        mails = mailed(host, LATER_SECONDS)
        raid6._arrays["md0"].broken = True
        raid6.loses("sdc", "sdd", "sde", "sdf")
        mails += host.wait(10) + mailed(host, 300)
    assert any("md0" in text(mail) for mail in mails)
    assert [told for told in subjects(mails) if told.startswith(("[INFO]", "[OK]"))] == []


def test_members_that_an_array_gave_up_are_named_together(tmp_path: Path) -> None:
    """The disk that failed now was in no subject: 'sdb: ... 2 members of md0 missing'."""
    raid6 = machine(tmp_path)
    with watched(tmp_path, raid6) as host:
        raid6.host = host
        host.wait(20)
        raid6.fails("md0", "sdb1")
        first = mailed(host, 90)
        raid6.fails("md0", "sdd1")
        second = mailed(host, 60)
    assert subjects(first)[0].startswith("[WARNING] sdb: ")
    assert subjects(second) == [
        "[CRITICAL] sdb and sdd: marked faulty and 2 members of md0 missing"
    ]
