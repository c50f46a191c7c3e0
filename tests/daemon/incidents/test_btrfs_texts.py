"""End to end: what mails about btrfs say of corrected reads, links to disks, and scrubs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.live import text, watched
from support.storage_incidents import FakeMachine, ata

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

AT = "BTRFS {} (device sda1): "


def mails_about(tmp_path: Path, *lines: tuple[str, int]) -> list[EmailMessage]:
    """Return the mails about lines of a btrfs on sda1 and sdb1, 30 s apart."""
    machine = FakeMachine(tmp_path)
    machine.sata("sda", "sdb")
    for name in ("sda", "sdb"):
        machine.has(machine.answers(name, ata(name)))
    machine.mount("/data", "sda1", "btrfs")
    mails: list[EmailMessage] = []
    with watched(tmp_path, machine) as host:
        host.wait(20, 10.0)
        for line, priority in lines:
            machine.says(line, priority=priority)
            mails += host.wait(30, 10.0)
        mails += host.wait(100, 10.0)
    return mails


def test_a_read_that_was_corrected_from_the_mirror_asks_for_no_backup(tmp_path: Path) -> None:
    """No program noticed it: no file is damaged, and the file system writes."""
    mails = mails_about(
        tmp_path,
        (AT.format("error") + "bdev /dev/sdb1 errs: wr 0, rd 0, flush 0, corrupt 1, gen 0", 3),
        (
            AT.format("info") + "read error corrected: ino 257 off 0 (dev /dev/sdb1 sector 2048)",
            6,
        ),
    )
    assert mails
    for mail in mails:
        body = " ".join(text(mail).split())
        assert "[WARNING]" in mail["Subject"]
        assert "What could be read from another copy was corrected" in body
        assert "read-only or stopped" not in body
        assert "Restore damaged files" not in body


def test_a_device_by_a_link_that_is_not_known_is_not_called_missing(tmp_path: Path) -> None:
    """Its disk may be present and in use under the kernel's name."""
    line = AT.format("error") + (
        "bdev /dev/disk/by-id/ata-X-part1 errs: wr 0, rd 0, flush 0, corrupt 1, gen 0"
    )
    (mail,) = mails_about(tmp_path, (line, 3))
    body = " ".join(text(mail).split())
    assert "is missing" not in body
    assert "disk/by-id/ata-X-part1 was not found among the devices of this host" in body


def test_what_a_scrub_cannot_correct_is_no_second_kind_of_fault(tmp_path: Path) -> None:
    """The wrong checksum and that it stays wrong are one fault of one disk: one critical mail."""
    address = "error at logical 30408704 on dev /dev/sdb1"
    mails = mails_about(
        tmp_path,
        (
            AT.format("warning") + f"checksum {address}, physical 22020096, root 5, inode 257,"
            " offset 0, length 4096, links 1 (path: a)",
            4,
        ),
        (AT.format("error") + f"unable to fixup (regular) {address}", 3),
    )
    assert [mail["Subject"].partition(" ")[0] for mail in mails] == ["[CRITICAL]"]
    assert "ESCALATED" not in mails[0]["Subject"]
    assert "Restore damaged files from a backup." in text(mails[0])
