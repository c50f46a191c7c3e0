"""What becomes of a mail between the moment it is due and a server that takes it."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from support.kmsg import Kernel, medium_error
from support.live import Live, parsed, text, watched
from support.program import Played
from support.smtp import free_port, smtp_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage
    from pathlib import Path

MINUTE, DAY = 60.0, 86_400.0
STOPPED = {"/sys/block/md0/md/array_state": "broken\n"}


class Outage:
    """The program on a live machine whose mail server is down."""

    def __init__(self, program: Played, live: Live, port: int) -> None:
        self.program = program
        self.live = live
        self._port = port

    def wait(self, seconds: float) -> None:
        """Let the machine go on; nobody takes a mail."""
        self.live.wait(seconds, step=20.0)
        self.program.caught_up()
        self.program.sent()
        self.live.leap(1.0, 1.0)
        self.program.caught_up()

    def ends(self) -> list[EmailMessage]:
        """Let the server come up; return what it takes within the next quarter of an hour."""
        with smtp_server(port=self._port) as (_, answers):
            for _ in range(60):
                self.live.leap(20.0, 20.0)
                self.program.caught_up()
                if self.program.sent():
                    break
            return [parsed(answers.next().data) for _ in range(answers.mails.qsize())]


@contextmanager
def outage(tmp_path: Path) -> Iterator[Outage]:
    """Run the program on a machine that is well, beside a mail server that is down."""
    live, port = Live(tmp_path), free_port()
    program = Played(tmp_path, live, smtp_port=port)
    program.start()
    try:
        found = Outage(program, live, port)
        found.wait(20)
        yield found
    finally:
        program.close()


def test_who_gets_a_mail_late_reads_how_it_is_now(tmp_path: Path) -> None:
    """An array is degraded while the mail server is down, and stops minutes later: one mail."""
    with outage(tmp_path) as down:
        down.live.degrade()
        down.wait(2 * MINUTE)
        down.live.change(STOPPED)
        down.wait(20)
        assert down.program.metrics()['iowarden_notifications_waiting{receiver="mail"}'] == 1
        (mail,) = down.ends()
    assert mail["Subject"].startswith("[CRITICAL] db1.example.com: md0")
    assert "ESCALATED" not in mail["Subject"]  # than what? nobody was told
    assert "MdBroken" in text(mail)
    assert "mdadm --detail" in text(mail)
    assert "Do not follow the earlier advice" not in text(mail)


def test_what_is_over_when_the_server_is_back_is_one_mail_that_reports_that(tmp_path: Path) -> None:
    """It was degraded for two minutes of an outage of a quarter of an hour."""
    with outage(tmp_path) as down:
        down.live.degrade()
        down.wait(2 * MINUTE)
        down.live.degrade(0)
        down.wait(11 * MINUTE)
        (mail,) = down.ends()
    assert mail["Subject"].startswith("[OK] db1.example.com: md0")
    assert "critical MdDegraded" in text(mail)


def test_a_mail_that_reports_how_it_is_waits_as_it_was_written(tmp_path: Path) -> None:
    """Nothing changes in four minutes without a server: the first mail goes."""
    with outage(tmp_path) as down:
        down.live.degrade()
        down.wait(4 * MINUTE)
        (mail,) = down.ends()
    assert mail["Message-ID"].startswith("<iowarden.")
    assert mail["Message-ID"].split(".")[2].startswith("1@")
    assert "takes the place of" not in down.program.text()


def test_a_kill_in_an_outage_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """Killed after a mail took another one's place: it is the one that goes."""
    with outage(tmp_path) as down:
        down.live.degrade()
        down.wait(2 * MINUTE)
        down.live.change(STOPPED)
        down.wait(20)
        down.program.end(signal.SIGKILL)
        down.live.restarted()
        down.program.start()
        down.wait(20)
        (mail,) = down.ends()
    assert "MdBroken" in text(mail)


def test_what_stalls_each_night_is_mailed_no_more_after_the_third(tmp_path: Path) -> None:
    """A backup hangs a disk for 45 s each night; the program is restarted in the middle."""
    live = Live(tmp_path)
    said, began = [], live.uptime()
    with watched(tmp_path, live) as host:
        for night in range(5):
            host.wait(8)
            live.hang("sda")
            mails = host.wait(44)
            live.hang("sda", 0)
            mails += host.wait(800, step=50.0)
            said.append(mails)
            night_to_come = DAY * (night + 1) + began - live.uptime()
            live.leap(night_to_come, night_to_come)
            if night == 2:
                host.restart()
        assert host.program.text().count("DeviceHang sda firing") == 2 * 5
    assert [bool(mails) for mails in said] == [True, True, True, False, False]
    _, over = said[1]
    assert over["Subject"].startswith("[OK]")
    assert "Resolved after 46 s: " in text(over)  # this time, not since the first night
    again, _ = said[2]
    assert "on 3 of the last 7 days (DeviceHang), not longer than usual" in text(again)


def test_a_server_that_answers_again_has_its_resolved_mail_with_the_true_end(
    tmp_path: Path,
) -> None:
    """The kernel says 'not responding' once and 'OK' half an hour later; another one stays away."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    with watched(tmp_path, live) as host:
        host.wait(8)
        kernel.says(*(f"nfs: server {n} not responding, still trying" for n in ("nas1", "nas2")))
        opened = {m["Subject"].split(": ")[1]: m for m in host.wait(90, step=20.0)}
        assert opened.keys() == {"nas1", "nas2"}
        assert host.wait(30 * MINUTE, step=60.0) == []
        kernel.says("nfs: server nas1 OK", priority=5)
        ended = live.wall
        (over,) = host.wait(11 * MINUTE, step=20.0)
        assert over["Subject"].startswith("[OK] db1.example.com: nas1")
        assert over["References"] == opened["nas1"]["Message-ID"]
        assert "Resolved after 31 min" in text(over)
        assert over["Date"].datetime.timestamp() - ended < 11 * MINUTE


def test_what_nothing_reports_the_end_of_is_closed_quietly(tmp_path: Path) -> None:
    """A sector could not be read: nobody can say that it is well now, and the journal says so."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    with watched(tmp_path, live) as host:
        host.wait(8)
        kernel.says(medium_error(4096))
        assert len(host.wait(90, step=20.0)) == 1
        live.leap(2 * DAY, 2 * DAY)
        live.leap(DAY, DAY)
        assert host.wait(2 * DAY, step=DAY) == []
        closed = "closed; nothing reported its end, so no mail reports it as resolved"
        assert host.program.text().count(closed) == 1
        identifier = host.program.text().partition(" (sda")[0].rpartition(" ")[2]
        shown = host.program.command("incident", "show", identifier).stdout
        assert " ".join(shown.split()).count(closed.replace("closed;", "closed:")) == 1


def test_a_clock_that_is_set_during_a_hang_moves_its_begin_and_its_evidence_alike(
    tmp_path: Path,
) -> None:
    """An hour forward while the disk stands still: the mail after it goes by the clock of then."""
    live = Live(tmp_path)
    live.change(
        {
            "/proc/stat": (
                "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nprocesses 1\nprocs_running 1\n"
                f"procs_blocked 0\nbtime {live.wall - live.uptime():.0f}\n"
            )
        }
    )
    kernel = Kernel(live)
    with watched(tmp_path, live) as host:
        host.wait(8)
        kernel.says(medium_error(4096))
        live.hang("sda")
        (opened,) = host.wait(40)
        live.leap(1.0, 1.0 + 60 * MINUTE)
        assert host.wait(40) == []
        live.hang("sda", 0)
        (over,) = host.wait(15 * MINUTE, step=20.0)
    hour = f"{opened['Date'].datetime:%H}:"
    assert f" {hour}" in text(opened)
    assert over["Subject"].startswith("[INFO]")  # the sector is still unreadable
    assert "sector 4096" in text(over)
    assert f" {hour}" not in text(over)
