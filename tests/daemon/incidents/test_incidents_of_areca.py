"""End to end: an Areca controller that hides SMART data, and logs errors that the kernel does not.

Each is a machine written by hand and played through the whole program, up to its mails.
"""

from __future__ import annotations

import email
import email.policy
import shutil
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import TYPE_CHECKING

import pytest
from support.areca import BOOT, DONE, DRAM, HEADER, HOUR, LOG_IN, POWERED_ON, Card, reading
from support.kmsg import Kernel, unreadable
from support.live import Live, text

from iowarden.daemon.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    from support.attached import Files

SECTORS = (33_470_855, 33_470_855)
CONFIGURED = "smart:\n  drives: [{path: /dev/sdb, type: scsi}]\n"
"""Somebody has SMART asked in the plain way."""
SERIAL = "WD-WCAS20000002"


class Server:
    """A database server of 2008: an ARC-1210, its two disks a mirror of Linux."""

    def __init__(
        self, tmp_path: Path, *cards: Card, serials: bool = True, pending: int = 200
    ) -> None:
        """Switch it on, some hours ago; `pending` is what the second disk says of 197 and 198."""
        self.live = Live(tmp_path)
        self.cards = cards or (Card(),)
        self.card = self.cards[0]
        self._tmp_path = tmp_path
        names = iter(("sda", "sdb", "sdc", "sdd"))
        files = dict(BOOT)
        for card in self.cards:
            card.tells(self.live.wall - 9000.0, POWERED_ON)
            card.tells(self.live.wall - 300.0, LOG_IN)
            files |= card.shows(next(names), next(names), serials=serials)
            files |= card.attributes(1) | card.attributes(2, pending) | card.files()
        self.live.change(files)
        self.kernel = Kernel(self.live)
        self.live.restarted()  # all that is there by its first frame
        self.live.wait(60)

    def fails(
        self, channel: int = 2, *, sector: int | None = None, card: Card | None = None
    ) -> None:
        """Let a disk fail to read: its controller logs that, and the kernel with a sector."""
        (card or self.card).tells(self.live.wall + 0.5, reading(channel))
        if sector is None:
            self.live.change({})
        else:
            name = "ab"[channel - 1]
            self.kernel.says(*unreadable(f"0:0:{channel - 1}:0", f"sd{name}", sector))
        self.live.wait(7)

    def logged(self, files: Files | None = None) -> None:
        """Let what the controllers logged be there for who asks."""
        for card in self.cards:
            self.live.change(card.log())
        self.live.change(files or {})

    def mails(self, settings: str = "", recording: str = "") -> list[EmailMessage]:
        """Return what the program mails of all that; `recording` is another place of it."""
        config, mails = self._tmp_path / "iowarden.yaml", self._tmp_path / "mails"
        shutil.rmtree(mails, ignore_errors=True)
        config.write_text(
            f"host: db1.example.com\nstate_directory: {self._tmp_path}/state\n{settings}"
        )
        line = ("replay", recording or self.live.packed())
        assert main([*line, "--config", str(config), "--mails", str(mails)]) == 0
        return [
            email.message_from_bytes(path.read_bytes(), EmailMessage, policy=email.policy.default)
            for path in sorted(mails.iterdir())
        ]


def threads(mails: list[EmailMessage]) -> set[str]:
    """Return the first mail of each thread."""
    return {str(mail["References"] or mail["Message-ID"]).split()[0] for mail in mails}


def at(moment: float) -> str:
    """Return a time as a mail has it."""
    return f"{datetime.fromtimestamp(moment, UTC):%T}"


@pytest.mark.parametrize("serials", [True, False], ids=["Linux 3.15", "Linux 2.6"])
@pytest.mark.parametrize("settings", ["", CONFIGURED], ids=["", "SMART asked plainly"])
def test_what_three_sources_report_of_one_disk_is_one_mail(
    tmp_path: Path, serials: bool, settings: str
) -> None:
    """By serial number, channel and name, each line at its own time, and what to believe."""
    server = Server(tmp_path, serials=serials)
    server.live.change(server.card.made_up(2, "sdb"))
    begun = server.live.wall + 0.5
    for sector in (*SECTORS, None, None, None):
        server.fails(sector=sector)
    server.card.tells(server.live.wall, LOG_IN)
    server.logged(server.card.attributes(2, 193))
    server.live.wait(300)
    (mail,) = server.mails(settings)
    assert mail["Subject"] == "[CRITICAL] db1.example.com: sdb: a disk had a read error (5 times)"
    said = text(mail)
    assert f"sdb (WDC WD1600AAJS-00WAA0, serial {SERIAL}, channel 2 of areca 1)" in said
    assert "warning scsi_medium_error" in said
    assert f"{at(begun)} kernel end_request: I/O error, dev sdb, sector 33470855" in said
    clock = "(its clock is 4:00:00 h ahead of UTC (4 of 5 errors match the kernel log))"
    assert f"{at(begun)} areca 1 IDE Channel #02 Reading Error {clock}" in said
    assert f"{at(begun + 32)} areca 1 IDE Channel #02 Reading Error" in said
    assert "Log In" not in said
    assert "197 Current_Pending_Sector" in said
    assert "the SMART data of /dev/sdb are synthesised by its controller" in said
    assert "smartctl -x /dev/sdb" not in said
    assert "smartctl -x -d areca,2 /dev/sg2 Back up" in said
    assert "if the array has redundancy, replace the disk" in said
    assert "md0 (raid1) is built on sdb" in said
    assert "WHAT IS NOT KNOWN" not in said


def test_where_only_made_up_data_are_read_they_are_named_as_such(tmp_path: Path) -> None:
    """Without Areca's program: what the controller says for the disk is no sign of its health."""
    server = Server(tmp_path)
    gone: Files = {path: None for path in server.card.files() if path.startswith("/.probe/")}
    server.live.change(gone | server.card.made_up(2, "sdb"))
    server.live.restarted()
    server.live.wait(60)
    server.fails(sector=SECTORS[0])
    server.live.wait(120)
    (mail,) = server.mails(CONFIGURED)
    said = text(mail)
    assert "healthy at 30 C, above its trip temperature of 25 C" in said
    assert "smartctl -x /dev/sdb" not in said
    assert "synthesised" in said


def test_what_only_the_controller_reports_later_is_reported_in_the_same_thread(
    tmp_path: Path,
) -> None:
    """Patterns are written and read back: ten errors, and the kernel sees none of them."""
    server = Server(tmp_path)
    for sector in (*SECTORS, None, None, None):
        server.fails(sector=sector)
    server.logged(server.card.attributes(2, 193))
    server.live.wait(1.2 * HOUR)
    later = server.live.wall
    for _ in range(10):
        server.fails()
    server.logged()
    server.live.wait(300)
    mails = server.mails()
    assert len(threads(mails)) == 1
    assert all(SERIAL in text(mail) for mail in mails)
    first, *_, last = mails
    assert "logged no error" not in text(first)
    assert last["Date"].datetime.timestamp() > later
    assert f"{at(later + 0.5)} areca 1 IDE Channel #02 Reading Error (its clock is 4:00" in text(
        last
    )
    assert "the kernel logged no error within 2 min" in text(last)
    assert "recovered from the error, or hides it" in text(last)


def test_values_that_were_low_before_anybody_looked_are_in_the_same_thread(tmp_path: Path) -> None:
    """The administrator saw 193 once, and no 200 before."""
    server = Server(tmp_path, pending=193)
    server.live.wait(120)
    for sector in (*SECTORS, None, None, None):
        server.fails(sector=sector)
    server.logged()
    server.live.wait(300)
    mails = server.mails()
    assert mails
    assert len(threads(mails)) == 1
    assert "could not read" in text(mails[-1])
    titles = [str(mail["Subject"]) for mail in mails]
    assert "factory value" in titles[0]
    assert not [title for title in titles[1:] if "factory value" in title]


def test_errors_of_a_controller_alone_are_a_mail_at_the_first_time(tmp_path: Path) -> None:
    """Nothing to compare its clock with: the disk is named, and the time called unverified."""
    server = Server(tmp_path)
    for _ in range(10):
        server.fails()
    server.logged()
    server.live.wait(120)
    (mail,) = server.mails()
    said = text(mail)
    assert "10 times" in said
    assert f"sdb (WDC WD1600AAJS-00WAA0, serial {SERIAL}, channel 2 of areca 1)" in said
    assert "Reading Error (time unverified)" in said
    assert "kernel logged no error" in said


def test_a_controller_whose_memory_fails_blames_no_disk(tmp_path: Path) -> None:
    """It names both channels right after: one incident, of the adapter."""
    server = Server(tmp_path)
    now = server.live.wall
    server.card.tells(now, DRAM)
    for second, channel in enumerate((1, 2, 1, 2), 1):
        server.card.tells(now + second, reading(channel))
    server.logged()
    server.live.wait(120)
    (mail,) = server.mails()
    assert mail["Subject"].startswith("[CRITICAL] db1.example.com: areca 1")
    assert "the controller's memory failed" in text(mail)
    assert "its controller had a fault at that time" in text(mail)


def test_two_disks_in_one_second_are_the_adapter(tmp_path: Path) -> None:
    """Two disks do not fail so: it is what connects them."""
    server = Server(tmp_path)
    now = server.live.wall
    for channel in (1, 2):
        server.card.tells(now, reading(channel))
    server.logged()
    server.live.wait(120)
    (mail,) = server.mails()
    assert "areca 1 (ARC-1210, host0)" in text(mail)
    assert "its controller had a fault at that time" in text(mail)


def test_a_disk_of_another_adapter_is_another_incident(tmp_path: Path) -> None:
    """In the same minute, and about sectors as well: nothing to do with that controller."""
    server = Server(tmp_path)
    plain = "/sys/class/scsi_device/5:0:0:0/device"
    server.live.change(
        {
            f"{plain}/type": "0\n",
            f"{plain}/block/sdc": None,
            "/sys/class/scsi_host/host5/proc_name": "ahci\n",
            "/sys/block/sdc/size": "312581808\n",
            "/sys/block/sdc/slaves": None,
            "/sys/block/sdc/holders": None,
            "/sys/block/sdc/device/vendor": "ATA     \n",
            "/sys/block/sdc/device/model": "PLAIN DISK\n",
            "/sys/block/sdc/device/vpd_pg80": b"\0\x80\0\x07PLAIN-1",
            "/sys/block/sdc/device/scsi_device/5:0:0:0": None,
        }
    )
    server.live.restarted()
    server.live.wait(60)
    for sector in (*SECTORS, None, None, None):
        server.fails(sector=sector)
        server.kernel.says(*unreadable("5:0:0:0", "sdc", 64))
    server.logged()
    server.live.wait(120)
    mails = server.mails()
    assert len(threads(mails)) == 2
    for mail in mails:
        mine = SERIAL in text(mail)
        assert mine is ("areca 1" in text(mail))
        assert mine is not ("PLAIN-1" in text(mail))


def test_two_equal_controllers_are_kept_apart(tmp_path: Path) -> None:
    """The second disk of the second card: both have a 'channel 2'. Each has its own clock."""
    first = Card(which=1)
    second = Card(
        number=1, which=2, offset=-5 * HOUR, serial="Y2", serials=("WD-3", "WD-WCAS20000004")
    )
    server = Server(tmp_path, first, second)
    for sector in (8, 16, 24):
        second.tells(server.live.wall + 0.5, reading(2))
        server.kernel.says(*unreadable("1:0:1:0", "sdd", sector))
        server.live.wait(7)
    server.logged()
    server.live.wait(200)
    mails = server.mails()
    assert len(threads(mails)) == 1
    said = text(mails[-1])
    assert "sdd (WDC WD1600AAJS-00WAA0, serial WD-WCAS20000004, channel 2 of areca 2)" in said
    assert "its clock is 5:00:00 h behind UTC" in said
    assert "areca 1" not in said


def test_a_log_that_is_cleared_is_a_gap_and_nothing_is_reported_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody clears it between two looks; then the disk fails once more."""
    server = Server(tmp_path)
    for _ in range(5):
        server.fails()
    server.logged()
    server.live.wait(120)
    server.card.entries.clear()
    server.logged()
    server.live.wait(60)
    server.fails()
    server.logged()
    server.live.wait(120)
    (mail,) = server.mails()
    assert "a disk had a read error (5 times)" in text(mail)
    events = [line for line in capsys.readouterr().out.splitlines() if " event " in line]
    (gap,) = (line for line in events if "log_gap" in line)
    assert "areca 1: its log" in gap
    assert len([line for line in events if "areca_reading_error" in line]) == 2  # 1st, 5th: a storm


@pytest.mark.parametrize("year", [1970, 2030])
def test_a_controller_that_has_lost_its_clock_is_heard(tmp_path: Path, year: int) -> None:
    """Its battery is empty: when it was is said to be unknown, that it was is not."""
    card = Card()
    server = Server(tmp_path, card)
    card.offset = datetime(year, 1, 1, tzinfo=UTC).timestamp() - server.live.wall
    for _ in range(5):
        server.fails()
    server.logged()
    server.live.wait(120)
    (mail,) = server.mails()
    assert "5 times" in text(mail)
    assert SERIAL in text(mail)
    assert "the clock of areca 1 is unverified" in text(mail)
    assert abs(mail["Date"].datetime.timestamp() - server.live.wall) < HOUR


DIRT = {
    "escape sequences": lambda log: (
        "\x1b[2J\x1b[1;1HCLI> " + log.replace("IDE", "\x1b[31mIDE\x1b[0m")
    ),
    "CR": lambda log: log.replace("\n", "\r\n"),
    "a banner and prompts": lambda log: (
        "Copyright (c) 2004 Areca, Inc.\nCLI> event info\n" + log + "\nCLI> "
    ),
    "old, without its end": lambda log: log.replace(DONE, ""),
}


@pytest.mark.parametrize("dirt", DIRT)
def test_whatever_surrounds_a_log_it_is_read(tmp_path: Path, dirt: str) -> None:
    """A terminal, Windows, a shell of its own, a version that does not say 'Success'."""
    server = Server(tmp_path)
    server.live.change(server.card.answers("event info", DIRT[dirt](server.card.listing())))
    server.live.restarted()
    server.live.wait(60)
    for _ in range(5):
        server.fails()
    server.live.change(server.card.answers("event info", DIRT[dirt](server.card.listing())))
    server.live.wait(120)
    (mail,) = server.mails()
    assert "a disk had a read error (5 times)" in text(mail)
    assert "\x1b" not in text(mail)
    assert SERIAL in text(mail)


BROKEN = {
    "nothing": "",
    "no controller": "ErrMsg: No Controller Found\n",
    "a refusal": "GuiErrMsg<0x01>: Not Available.\n",
    "a prompt": "CLI> ",
    "half a line": HEADER + "2026-11-20 21:33:12  IDE Channel #02     Reading Err",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_log_that_is_not_read_now_is_read_later(tmp_path: Path, broken: str) -> None:
    """Nothing is taken of it, nothing is forgotten for it, nothing is told twice."""
    server = Server(tmp_path)
    for _ in range(5):
        server.fails()
    server.live.change(server.card.answers("event info", BROKEN[broken]))
    server.live.wait(60)
    server.logged()
    server.live.wait(60)
    server.live.change(server.card.answers("event info", BROKEN[broken]))
    server.live.wait(60)
    server.logged()
    server.live.wait(120)
    (mail,) = server.mails()
    assert "a disk had a read error (5 times)" in text(mail)


def test_a_log_of_ten_megabytes_is_no_end_of_it(tmp_path: Path) -> None:
    """No card holds so much: nothing is taken of it, and what is listed after that is read."""
    server = Server(tmp_path)
    line = server.card.line(0.0, *reading(2))
    huge = HEADER + f"{line}\n" * (10_000_000 // len(line)) + DONE
    server.live.change(server.card.answers("event info", huge))
    server.live.wait(30)
    for _ in range(5):
        server.fails()
    server.logged()
    server.live.wait(120)
    (mail,) = server.mails(recording=str(server.live.directory))  # none is packed with such a text
    assert "a disk had a read error (5 times)" in text(mail)
