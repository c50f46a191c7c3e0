"""Events of logs, end to end: a machine's kernel and controllers, mails, and kills in between."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest
from support.kmsg import Kernel, medium_error
from support.live import Live, text, watched
from support.program import Played

from iowarden.daemon.check import running_service

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def live(tmp_path: Path) -> Live:
    """A machine with two disks and an array of them."""
    return Live(tmp_path)


def test_an_unreadable_sector_is_a_mail_with_the_line(tmp_path: Path, live: Live) -> None:
    """A warning, after its minute, with the disk's serial number and advice."""
    kernel = Kernel(live)
    with watched(tmp_path, live) as seen:
        seen.wait(20)
        kernel.says(medium_error(123456))
        assert seen.wait(30) == []
        (mail,) = seen.wait(60)
        assert "could not read or write sectors" in mail["Subject"]
        assert "S-sda" in text(mail)
        assert "sector 123456" in text(mail)
        assert "smartctl -x /dev/sda" in text(mail)


def test_five_errors_are_critical_and_still_one_incident(tmp_path: Path, live: Live) -> None:
    """At once; and its consequences are not reported as further errors."""
    kernel = Kernel(live)
    with watched(tmp_path, live) as seen:
        seen.wait(20)
        kernel.says(*(medium_error(n) for n in (8, 16, 24, 32, 40)))
        kernel.says("Buffer I/O error on dev sda, logical block 1, async page read")
        (mail,) = seen.wait(8)
        assert "CRITICAL" in mail["Subject"]
        assert "5 times" in text(mail)
        assert seen.wait(1200) == []
        metrics = seen.program.metrics()
        seen.program.end(signal.SIGTERM)
        seen.start_again()
        seen.wait(4)
        restarted = seen.program.metrics()
    assert metrics["iowarden_incidents_open"] == 1
    # 20 minutes without an event do not repair a disk, nor does a restart.
    for series in (metrics, restarted):
        alerts = [name for name in series if name.startswith("iowarden_alerts{")]
        (alert,) = [name for name in alerts if 'severity="critical"' in name]
        assert 'alertname="block_medium_error",alertstate="firing"' in alert
    info = [name for name in metrics if name.startswith("iowarden_alert_info{")]
    assert any('alertname="block_medium_error"' in name for name in info)
    assert [name for name in info if "object=" not in name or 'incident=""' in name] == []
    assert metrics['iowarden_incidents_unresolved{severity="critical"}'] == 1
    assert metrics['iowarden_incidents_unresolved{severity="warning"}'] == 0


def test_a_cleared_event_says_that_nobody_checked_whether_it_is_repaired(
    tmp_path: Path, live: Live
) -> None:
    """It clears because no more lines came, in the commands and in the mail that it is over."""
    why = "no such line for 10 min; whether it is repaired was not checked"
    kernel = Kernel(live)
    with watched(tmp_path, live) as seen:
        seen.wait(20)
        kernel.says(medium_error(8))
        assert len(seen.wait(120)) == 1
        before = seen.program.command("status").stdout
        assert "no such line" not in before
        seen.wait(540)
        status = seen.program.command("status").stdout
        assert re.search(rf"cleared [\d]+ s ago \({why}\); was: the disk could not", status)
        listed = seen.program.command("incident", "list").stdout
        (name,) = re.findall(r"(?:warning|critical) +(\S+) +sda", listed)
        detail = seen.program.command("incident", "show", name).stdout
        assert f"state: open; cleared, not resolved yet: {why}\n" in detail
        # What happened is in the words of a mail.
        assert re.search(rf"block_medium_error, .* cleared \d+ s ago \({why}\): ", detail)


def test_a_request_without_events_names_the_disks_and_sources_that_there_are(
    tmp_path: Path, live: Live
) -> None:
    """A mistyped one has no events either, which reads as good news."""
    with watched(tmp_path, live) as seen:
        seen.wait(8)
        for words, expected in (
            (("--disk", "sbd"), "no present disk is 'sbd'; did you mean 'sdb'"),
            (("--disk", "nosuch"), "no present disk is 'nosuch'; there are sda, sdb\n"),
            (("--source", "bogus"), "unknown source 'bogus'; there are kernel, md, scan, vmstat,"),
            (
                ("--incident", "zzz"),
                "there is no event of an incident that begins with 'zzz'; 'iowarden incident list",
            ),
            (("--source", "kernal"), "unknown source 'kernal'; did you mean 'kernel'?; there are"),
        ):
            assert expected in seen.program.command("events", *words).stderr
        for words in (("--disk", "sda"), ("--source", "areca")):
            assert seen.program.command("events", *words).stderr == "no matching events\n"


def test_the_check_names_the_device_of_a_btrfs_event(
    tmp_path: Path, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line names no disk but a device of the file system; it is not about the host."""
    kernel = Kernel(live)
    monkeypatch.setattr(Played, "http", True)
    with watched(tmp_path, live) as seen:
        seen.wait(20)
        kernel.says("BTRFS critical (device dm-1): corrupt leaf: block=3040, bad key order")
        seen.wait(8)
        found = running_service.findings(("127.0.0.1", seen.program.port), set())
    (corruption,) = (each for each in found if each.topic == "fs_corruption")
    assert corruption.object == "file system btrfs (device dm-1)"


def test_the_series_of_an_event_becomes_critical_when_the_event_does(
    tmp_path: Path, live: Live
) -> None:
    """One error is published as a warning; after four more the same series is critical."""
    kernel = Kernel(live)
    with watched(tmp_path, live) as seen:
        seen.wait(20)
        kernel.says(medium_error(8))
        seen.wait(8)
        first = seen.program.metrics()
        kernel.says(*(medium_error(n) for n in (16, 24, 32, 40)))
        seen.wait(8)
        then = seen.program.metrics()
    severities = [
        re.findall(r'alertname="block_medium_error".*?severity="(\w+)"', "\n".join(series))
        for series in (first, then)
    ]
    assert [sorted(set(each)) for each in severities] == [["warning"], ["critical"]]


def test_what_was_logged_before_the_first_start_is_no_alarm(tmp_path: Path, live: Live) -> None:
    """It is in the mail about the cause."""
    kernel = Kernel(live)
    kernel.says(*(medium_error(n) for n in range(8)))
    with watched(tmp_path, live, initial_report=True) as seen:
        mails = seen.wait(400)
        assert len(mails) == 1
        assert "sectors" in text(mails[0])


def test_a_program_that_writes_to_the_log_is_not_the_kernel(tmp_path: Path, live: Live) -> None:
    """Any user who may write to '/dev/kmsg' could fake an error."""
    kernel = Kernel(live)
    with watched(tmp_path, live) as seen:
        seen.wait(20)
        kernel.says(medium_error(8), priority=11)
        assert seen.wait(120) == []


@pytest.mark.parametrize("after", [0, 4, 61])
def test_a_kill_between_an_error_and_its_mail_loses_nothing(
    tmp_path: Path, live: Live, after: int
) -> None:
    """Killed at once, before its minute is over, when its mail was sent."""
    kernel = Kernel(live)
    with watched(tmp_path, live) as seen:
        seen.wait(20)
        kernel.says(medium_error(123456))
        mails = seen.wait(after) if after else []
        seen.program.end(signal.SIGKILL)
        seen.start_again()
        mails += seen.wait(120)
        assert len({mail["Message-ID"] for mail in mails}) == 1
        assert "sector 123456" in text(mails[0])


def test_what_happens_while_nobody_watches_is_reported_later(tmp_path: Path, live: Live) -> None:
    """The ring buffer still holds it; events reported before the stop are not repeated."""
    kernel = Kernel(live)
    with watched(tmp_path, live) as seen:
        seen.wait(20)
        kernel.says(medium_error(8))
        assert len(seen.wait(120)) == 1
        assert seen.program.end() == 0
        kernel.says(medium_error(800, "sdb"))
        live.wait(60)
        seen.start_again()
        of_both, of_other = sorted(map(text, seen.wait(200)), key=lambda told: "S-sdb" in told)
        assert "serial S-sda) - ESCALATED" in of_both, "both are members of md0"
        assert "S-sdb" in of_other
