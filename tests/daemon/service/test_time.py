"""Clocks that are set, and machines suspended or stopped: no false alert, and none lost."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from support.live import NOTE, Live, text, watched

if TYPE_CHECKING:
    from pathlib import Path

MINUTE, HOUR, DAY, YEAR = 60.0, 3600.0, 86_400.0, 365 * 86_400.0
BERLIN = {"TZ": "Europe/Berlin"}


def moment(*date: int) -> float:
    """Return a date in UTC as Unix time."""
    return datetime(*date, tzinfo=UTC).timestamp()  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    "by", [HOUR, -HOUR, 10 * YEAR, -10 * YEAR], ids=["+1h", "-1h", "+10y", "-10y"]
)
def test_a_clock_that_is_set_begins_and_ends_nothing(tmp_path: Path, by: float) -> None:
    """An administrator sets the clock of a healthy machine, and back while an array is degraded."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.leap(1.0, 1.0 + by)
        assert host.wait(MINUTE) == []
        assert "firing" not in host.program.text()
        live.degrade()
        (opened,) = host.wait(20)
        assert abs(opened["Date"].datetime.timestamp() - live.wall) < MINUTE
        live.leap(1.0, 1.0 - by)
        assert host.wait(15 * MINUTE) == []  # neither a 'resolved' mail nor a reminder
        live.degrade(0)
        (clear,) = host.wait(11 * MINUTE)
        assert host.program.text().count("the wall clock jumped") == 2
    assert clear["Subject"].startswith("[OK]")
    assert clear["References"] == opened["Message-ID"]
    # By the current clock, it began at the right time.
    assert "Resolved after 15 min" in text(clear)


def test_a_mail_is_not_overdue_because_the_clock_was_set(tmp_path: Path) -> None:
    """The server defers a mail for minutes; the clock is set a year ahead, then back."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.answers.message = "451 4.3.0 try later"
        host.wait_only(20)
        live.degrade()
        host.wait_only(20)
        age = 'iowarden_notifications_oldest_unsent_seconds{receiver="mail"}'
        for by in (YEAR, -2 * YEAR):
            live.leap(1.0, 1.0 + by)
            host.wait_only(MINUTE)
            assert 0 < host.program.metrics()[age] < 5 * MINUTE
        assert "NotificationUnsent" not in host.program.text()
        host.answers.message = "250 OK"
        (mail,) = host.wait(10 * MINUTE)
        assert "MdDegraded" in text(mail)


def test_a_machine_that_sleeps_wakes_up_with_what_it_had(tmp_path: Path) -> None:
    """A suspend overnight: CLOCK_MONOTONIC and counters stop, the wall clock continues."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.hang("sda")
        (opened,) = host.wait(65)
        assert opened["Subject"].startswith("[CRITICAL]")
        live.leap(1.0, 8 * HOUR)
        assert host.wait(MINUTE) == []
        live.hang("sda", 0)
        (clear,) = host.wait(12 * MINUTE)
        assert clear["Subject"].startswith("[OK]")
        assert clear["Date"].datetime - opened["Date"].datetime > timedelta(hours=8)


def test_a_healthy_machine_that_sleeps_is_silent(tmp_path: Path) -> None:
    """Suspended each night for a week, and awake for minutes: nothing to report."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        for _ in range(7):
            assert host.wait(MINUTE) == []
            live.leap(2.0, DAY)
        host.wait(MINUTE)
        assert " firing" not in host.program.text()
        assert "silent" not in host.program.text()


def test_a_machine_that_boots_in_1970_gets_its_time_later(tmp_path: Path) -> None:
    """No battery: a mail before the time is set has a note; later ones have the right date."""
    live = Live(tmp_path, uptime=10.0, wall=10.0)
    live.degrade()
    with watched(tmp_path, live) as host:
        (first,) = host.wait(40)
        assert "the clock of this machine was not set" in text(first)
        now = moment(2026, 11, 21, 12, 0, 0)
        live.leap(1.0, now - live.wall)
        assert host.wait(MINUTE) == []
        assert (
            host.program.metrics()['iowarden_notifications_oldest_unsent_seconds{receiver="mail"}']
            == 0.0
        )
        loaded = "iowarden_config_last_reload_success_timestamp_seconds"
        assert abs(host.program.metrics()[loaded] - now) < 5 * MINUTE
        host.restart()
        assert host.wait(5 * MINUTE) == []  # no digest of fifty years, no reminder
        live.degrade(0)
        (clear,) = host.wait(3 * MINUTE)
    assert clear["References"] == first["Message-ID"]
    assert "the clock of this machine was not set" not in text(clear)
    assert "from Sat 2026-11-21 11:59" in text(clear), text(clear)[:600]
    assert abs(clear["Date"].datetime.timestamp() - live.wall) < 5 * MINUTE


def test_a_restart_before_the_time_is_set_keeps_the_thread(tmp_path: Path) -> None:
    """Yesterday the clock was right, today's boot begins in 1970: one incident, no second mail."""
    live = Live(tmp_path)
    live.degrade()
    with watched(tmp_path, live) as host:
        (first,) = host.wait(40)
        host.program.end()
        live.boot(wall=10.0)
        host.start_again()
        assert host.wait(5 * MINUTE) == []
        live.leap(1.0, moment(2026, 11, 22) - live.wall)
        assert host.wait(5 * MINUTE) == []
        live.degrade(0)
        (clear,) = host.wait(11 * MINUTE)
    assert clear["References"] == first["Message-ID"]


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [((2026, 3, 29, 1, 0, 0), "+0100", "+0200"), ((2026, 10, 25, 1, 0, 0), "+0200", "+0100")],
    ids=["spring", "autumn"],
)
def test_daylight_saving_is_in_the_dates_and_nowhere_else(
    tmp_path: Path, change: tuple[int, ...], before: str, after: str
) -> None:
    """Both nights in Berlin: a mail on each side, with its time zone, and the right interval."""
    live = Live(tmp_path, wall=moment(*change) - 5 * MINUTE)
    with watched(tmp_path, live, environment=BERLIN) as host:
        host.wait(20)
        live.degrade()
        (opened,) = host.wait(20)
        live.wait(10 * MINUTE)
        live.degrade(0)
        (clear,) = host.wait(11 * MINUTE)
    assert opened["Date"].endswith(before)
    assert clear["Date"].endswith(after)
    apart = clear["Date"].datetime - opened["Date"].datetime
    assert timedelta(minutes=11) < apart < timedelta(minutes=13)
    assert f"{before} (" in text(clear)  # start time in the time zone of that moment


def test_a_week_is_a_week_over_daylight_saving(tmp_path: Path) -> None:
    """The digest comes 168 hours after the start, in spring an hour later by the clock."""
    rules = tmp_path / "rules.d"
    rules.mkdir(exist_ok=True)
    (rules / "mine.yaml").write_text(NOTE)
    begun = moment(2026, 3, 26, 12, 0, 0)
    live = Live(tmp_path, wall=begun)
    with watched(tmp_path, live, environment=BERLIN) as host:
        live.change({"/proc/sys/vm/laptop_mode": "5\n"})
        host.wait(MINUTE)
        live.leap(7 * DAY - 2 * MINUTE, 7 * DAY - 2 * MINUTE)
        assert host.wait(30) == []
        (digest,) = host.wait(MINUTE)
    assert "DIGEST" in digest["Subject"]
    assert digest["Date"].startswith("Thu, 02 Apr 2026 14:00:")
    assert digest["Date"].endswith("+0200")


def test_a_program_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    """SIGSTOP for ten minutes, healthy, and with an array degraded: no alert, and none resolved."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(40)
        live.leap(10 * MINUTE, 10 * MINUTE)
        assert host.wait(MINUTE) == []
        assert " firing" not in host.program.text()
        live.degrade()
        (opened,) = host.wait(40)
        live.leap(10 * MINUTE, 10 * MINUTE)
        assert host.wait(MINUTE) == []
        said = host.program.text()
        assert said.count("MdDegraded md0 firing") == 1
        assert "MdDegraded md0 resolved" not in said
        assert "MdDegraded md0 unknown" not in said
        live.degrade(0)
        (clear,) = host.wait(11 * MINUTE)
    assert clear["References"] == opened["Message-ID"]


def test_what_was_mended_while_the_program_was_stopped_gets_its_quiet_time(tmp_path: Path) -> None:
    """The quiet minute was not observed: it is resolved a minute after SIGCONT."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(40)
        live.degrade()
        (_,) = host.wait(40)
        live.degrade(0)
        host.wait(20)
        live.leap(20 * MINUTE, 20 * MINUTE)
        assert host.wait(40) == []
        (clear,) = host.wait(MINUTE)
    assert clear["Subject"].startswith("[OK]")


def test_a_disk_that_hangs_while_the_program_is_stopped_is_reported(tmp_path: Path) -> None:
    """It hung before SIGCONT: only time from then on counts, and is enough."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(40)
        live.leap(10 * MINUTE, 10 * MINUTE)
        live.hang("sda")
        (mail,) = host.wait(80)
    assert "sda" in mail["Subject"]


STALLED = 'iowarden_device_hang_seconds{device="sda"}'


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_in_the_middle_of_a_hang_goes_on_with_it(
    tmp_path: Path, ending: signal.Signals
) -> None:
    """Stopped or killed: the disk's hang time continues, and nothing is reported again."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(40)
        live.hang("sda")
        (mail,) = host.wait(80)
        assert "sda" in mail["Subject"]
        before = host.program.metrics()[STALLED]
        host.program.end(ending)
        live.leap(10.0, 10.0)
        host.start_again()
        host.wait_only(12)
        assert host.program.metrics()[STALLED] >= before + 20.0
        assert host.wait(40) == []
        assert host.program.text().count("DeviceHang sda firing") <= 2  # warning and critical


def test_a_boot_in_the_middle_of_a_hang_begins_anew(tmp_path: Path) -> None:
    """The same number of completed requests means nothing on another boot."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(40)
        live.hang("sda")
        host.wait(80)
        host.program.end()
        live.boot(wall=live.wall + 60.0)
        host.start_again()
        host.wait_only(12)
        assert host.program.metrics()[STALLED] <= 12.0


@pytest.mark.parametrize("well", [True, False], ids=["mended", "as it was"])
def test_a_restart_after_days_goes_on_with_the_incident(tmp_path: Path, *, well: bool) -> None:
    """Off for three days: resolved a minute after the start, or nothing new."""
    live = Live(tmp_path)
    live.degrade()
    with watched(tmp_path, live) as host:
        (opened,) = host.wait(40)
        host.program.end()
        live.leap(3 * DAY, 3 * DAY)
        if well:
            live.degrade(0)
        host.start_again()
        assert host.wait(40) == []
        mails = host.wait(5 * MINUTE)
        assert host.program.text().count("MdDegraded md0 firing") == 1
    assert [mail["Subject"].startswith("[OK]") for mail in mails] == [True] * well
    assert {mail["References"] for mail in mails} <= {opened["Message-ID"]}


def test_what_is_read_seldom_stays_as_it_was(tmp_path: Path) -> None:
    """Arrays are polled every ten minutes, a rule looks back five: it stays firing in between."""
    live = Live(tmp_path)
    live.degrade()
    with watched(tmp_path, live, settings="intervals: {md: 10m}\n") as host:
        (_,) = host.wait(40)
        assert host.wait(25 * MINUTE) == []
        assert "MdDegraded md0 resolved" not in host.program.text()
