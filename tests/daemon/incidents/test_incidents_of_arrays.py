"""Incidents of software RAID: its members, its redundancy, its spares; up to the mails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.live import text, watched
from support.storage import Server

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

LETTERS = "abcdef"


def one_thread(mails: list[EmailMessage]) -> bool:
    """Whether all mails are of one incident."""
    return all(mail["In-Reply-To"] for mail in mails[1:])


LOST = {
    "raid5": "array md0 does not run (broken)",
    "raid6": "2 members of md0 missing; no redundancy left",
    "raid10": "2 members of md0 missing; no redundancy left",
}


def of_disks(tmp_path: Path, level: str, count: int, *, log: bool) -> Server:
    """A server with an array of so many disks, each at an adapter of its own."""
    machine = Server(tmp_path, log=log)
    for number, letter in enumerate(LETTERS[:count]):
        machine.adapter(number, "ahci")
        machine.disk(f"sd{letter}", f"{number}:0:0:0")
    machine.array("md0", level, *(f"sd{letter}1" for letter in LETTERS[:count]))
    machine.mount("/db", "md0")
    return machine


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize(
    ("level", "count", "second"), [("raid5", 3, "sdc"), ("raid6", 5, "sdc"), ("raid10", 4, "sdd")]
)
def test_the_next_disk_that_an_array_loses_is_one_mail_in_its_thread(
    tmp_path: Path, level: str, count: int, second: str, *, log: bool
) -> None:
    """No uevent tells of either: the array's trouble and its disk's are one, and a step worse."""
    machine = of_disks(tmp_path, level, count, log=log)
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.loses("sdb")
        (first,) = program.wait(60)
        assert ("no redundancy left" in text(first)) is (level != "raid6")
        number = LETTERS.index(second[-1])
        machine.loses(second, lines=(f"sd {number}:0:0:0: rejecting I/O to offline device",))
        mails = program.wait(60)
    (worse,) = mails
    assert one_thread([first, worse])
    assert f" sdb and {second}: ESCALATED: gone and " in worse["Subject"]
    assert f"sdb ATA SIMULATED HDD S-sdb; {second} ATA SIMULATED HDD S-{second}" in text(worse)
    assert LOST[level] in text(worse)
    assert f"{second} (ATA SIMULATED HDD, serial S-{second}) disappeared" in text(worse)


MEDIUM_ERROR = (
    "critical medium error, dev {0}, sector 363296 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"
)


@pytest.mark.parametrize(
    ("level", "count", "disk", "last"),
    [
        ("raid1", 2, "sda", True),
        ("raid5", 3, "sdc", True),
        ("raid6", 4, "sdc", False),
        ("raid10", 4, "sda", True),
        ("raid10", 4, "sdc", False),
    ],
)
def test_an_error_of_the_last_copy_is_critical_and_reports_that_first(
    tmp_path: Path, level: str, count: int, disk: str, *, last: bool
) -> None:
    """The array has lost sdb; a sector of another disk cannot be read, which may be the only one.

    Of a raid10 of four the other pair is whole, a raid6 bears one more.
    """
    machine = of_disks(tmp_path, level, count, log=True)
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.loses("sdb")
        program.wait(60)
        machine.says(MEDIUM_ERROR.format(disk), priority=3)
        (mail,) = program.wait(8 if last else 12)
    told = text(mail)
    said = f"{disk}1 holds the last copy of md0 and has errors: the disk could not read"
    assert (said in told) is last
    if last:
        assert mail["Subject"].startswith("[CRITICAL]")
        assert f"gone and {disk}1 holds the last copy of md0" in " ".join(mail["Subject"].split())
        advice = told.partition("WHAT TO DO")[2]
        first = f"md0 ({level}) has no redundancy left: what cannot be read from {disk}1"
        assert advice.strip().startswith((first, "Do not follow the earlier advice"))
        assert f"do not fail, remove or pull {disk}1, and start no check" in advice
        forbidden = ("--fail", "--re-add", "--replace", "echo check", "e2fsck")
        assert not [each for each in forbidden if each in advice]


def test_errors_of_a_second_member_make_those_of_the_first_critical(tmp_path: Path) -> None:
    """A raid6 with all of its disks: with one error it can lose two, with errors of two none."""
    machine = of_disks(tmp_path, "raid6", 4, log=True)
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.says(MEDIUM_ERROR.format("sdc"), priority=3)
        (first,) = program.wait(80)
        machine.says(MEDIUM_ERROR.format("sdd"), priority=3)
        mails = program.wait(80)
    assert first["Subject"].startswith("[WARNING]")
    subjects = [" ".join(mail["Subject"].split()) for mail in mails]
    assert len(subjects) == 2
    assert all(subject.startswith("[CRITICAL]") for subject in subjects)
    assert any(" sdc: ESCALATED: " in subject for subject in subjects)
    said = "2 members of md0 have errors (sdc1, sdd1): the disk could not read"
    assert all(said in text(mail) for mail in mails)
    assert not any("--fail" in text(mail) or "--replace" in text(mail) for mail in mails)


def test_a_dead_nvme_drive_is_one_incident_of_its_name(tmp_path: Path) -> None:
    """It hangs, then it is gone, and nobody can read the kernel's log: the array is part of it.

    Opening, the hang's own escalation, what was lost. That its counters ended is no mail.
    """
    machine = Server(tmp_path, log=False)
    for name in ("nvme0n1", "nvme1n1"):
        machine.disk(name, rotational=False)
    machine.array("md0", "raid1", "nvme0n1p1", "nvme1n1p1")
    machine.mount("/db", "md0")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.stands("nvme0n1", "md0")
        mails = program.wait(60)
        machine.goes_on("md0")
        machine.loses("nvme0n1")
        mails += program.wait(60)
    assert len(mails) == 3
    assert one_thread(mails)
    assert all(" nvme0n1: " in mail["Subject"] for mail in mails)
    assert "DATA UNAVAILABLE" not in "".join(mail["Subject"] for mail in mails)
    assert "disappeared; it was used by: md0, /db" in text(mails[-1])
    assert "no redundancy left" in text(mails[-1])


def test_a_spare_that_takes_over_is_named_with_how_far_it_is(tmp_path: Path) -> None:
    """sdb failed, sdc is filled in its place: nobody is to add another disk meanwhile.

    When that is done a mail says so, and what becomes of sdb, which stays where it is.
    """
    machine = Server(tmp_path)
    for number, letter in enumerate("abc"):
        machine.adapter(number, "ahci")
        machine.disk(f"sd{letter}", f"{number}:0:0:0")
    array = machine.array("md0", "raid1", "sda1", "sdb1", spares=("sdc1",))
    machine.mount("/db", "md0")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        array.spares.clear()
        machine.fails("md0", "sdb1")
        array.members[1] = array.recover = "sdc1"
        array.done = 0.125
        machine.array_is("md0")
        (mail,) = program.wait(60)
        array.done, array.recover = 0.0, ""
        machine.array_is("md0")
        (rebuilt,) = program.wait(200)
    assert one_thread([mail, rebuilt])
    assert rebuilt["Subject"].startswith("[INFO] db1.example.com: sdb: REBUILT: all members")
    assert "md0 is complete without /dev/sdb1" in text(rebuilt)
    assert "--re-add" not in text(rebuilt)
    told = text(mail)
    assert "1 member of md0 missing; no redundancy left; sdc1 is rebuilding in its place" in told
    assert "add no disk and remove none meanwhile" in told
    assert not [each for each in ("--add", "--re-add", "--replace") if each in told]


@pytest.mark.parametrize("unfit", [True, False])
def test_a_disk_with_media_errors_is_not_taken_back(tmp_path: Path, *, unfit: bool) -> None:
    """An array gave up a member that is still there: because of its sectors, or of a cable."""
    machine = of_disks(tmp_path, "raid6", 5, log=True)
    with watched(tmp_path, machine) as program:
        program.wait(20)
        if unfit:
            machine.says(MEDIUM_ERROR.format("sdb"))
        machine.fails("md0", "sdb1")
        told = " ".join(map(text, program.wait(200)))  # a warning: it survives one more disk
    assert ("mdadm /dev/md0 --re-add /dev/sdb1" in told) is not unfit
    assert ("/dev/sdb1 is not fit to be re-added to md0" in told) is unfit


def test_what_stands_on_many_disks_is_reported_once(tmp_path: Path) -> None:
    """An adapter with all members of an array hangs."""
    machine = Server(tmp_path)
    machine.adapter(0, "mpt3sas")
    for number, letter in enumerate(LETTERS):
        machine.disk(f"sd{letter}", f"0:0:{number}:0")
    machine.array("md0", "raid6", *(f"sd{letter}1" for letter in LETTERS))
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.stands(*(f"sd{letter}" for letter in LETTERS))
        mails = program.wait(40)
    assert "md0 (raid6) is built on sda1, sdb1, sdc1, sdd1, sde1, sdf1" in text(mails[-1])
    assert [text(mail).count("built on") for mail in mails] == [1] * len(mails)
