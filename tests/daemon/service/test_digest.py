"""The initial report of a machine, and its weekly digest: the whole program and its mails."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest
from support.kmsg import Kernel, medium_error
from support.live import NOTE, Live, text, watched

if TYPE_CHECKING:
    from pathlib import Path

    from support.live import Watched

MINUTE, DAY = 60.0, 86_400.0
RISKY = {
    "/proc/sys/vm/zone_reclaim_mode": "1\n",
    "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 9 kB\nNode 0 MemFree: 1 kB\n",
    "/sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 9 kB\nNode 1 MemFree: 1 kB\n",
}


def with_findings(tmp_path: Path) -> Live:
    """Return a machine with a degraded array, a risky setting and a notice."""
    (tmp_path / "rules.d").mkdir(exist_ok=True)
    (tmp_path / "rules.d" / "mine.yaml").write_text(NOTE)
    live = Live(tmp_path)
    live.degrade()
    live.change({**RISKY, "/proc/sys/vm/laptop_mode": "5\n"})
    return live


def test_the_first_start_is_one_mail_about_what_lasts(tmp_path: Path) -> None:
    """A disk with old errors, zone reclaim and a notice: one mail, the worst first, and no more."""
    live = with_findings(tmp_path)
    live.degrade(0)
    Kernel(live).says(*(medium_error(8 * number) for number in range(40)))
    live.wait(MINUTE)
    with watched(tmp_path, live, initial_report=True) as host:
        (report,) = host.wait(80)
        assert host.wait(8 * MINUTE) == []
    assert report["Subject"].startswith("[CRITICAL] db1: INITIAL REPORT: sda: ")
    body = text(report)
    assert "2 disks: sda (SIMULATED HDD), sdb (SIMULATED HDD) 1 software RAID array: md0" in body
    found = [
        "critical block_medium_error sda",
        "warning ZoneReclaimEnabled",
        "notice LaptopMode",
    ]
    assert sorted(found, key=body.index) == found
    for advice in ("vm.zone_reclaim_mode=0", "Set it to 0."):
        assert body.count(advice) == 1


def test_a_mirror_without_its_second_half_does_not_wait_for_it(tmp_path: Path) -> None:
    """It is mailed with all that is known of it; the report only says that."""
    with watched(tmp_path, with_findings(tmp_path), initial_report=True) as host:
        (array,) = host.wait(40)
        (report,) = host.wait(40)
        assert host.wait(8 * MINUTE) == []
    assert array["Subject"].startswith("[CRITICAL] db1.example.com: md0: ")
    assert report["Subject"].startswith("[WARNING] db1: INITIAL REPORT: vm.zone_reclaim_mode")
    assert "in a mail of its own: critical md0: 1 member of md0 missing" in text(report)
    assert "mdadm --detail /dev/md0" in text(array)
    assert "mdadm --detail /dev/md0" not in text(report)


def test_errors_before_the_start_that_go_on_after_it_are_mailed(tmp_path: Path) -> None:
    """Eight before the first start, three more 20 s after it: the report said 'no finding'."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    kernel.says(*(medium_error(8 * number) for number in range(8)))
    live.wait(MINUTE)
    with watched(tmp_path, live, initial_report=True) as host:
        assert host.wait(20) == []
        kernel.says(*(medium_error(4096 + 8 * number) for number in range(3)))
        (report,) = host.wait(DAY / 24)
    assert "INITIAL REPORT: sda: " in report["Subject"]
    assert "(11 times)" in text(report)


def test_errors_that_go_on_after_the_initial_report_are_news(tmp_path: Path) -> None:
    """It reported them as history: that they happen now is a mail in the same thread."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    kernel.says(medium_error(8))
    live.wait(MINUTE)
    with watched(tmp_path, live, initial_report=True) as host:
        (report,) = host.wait(80)
        kernel.says(medium_error(4096))
        (again,) = host.wait(2 * MINUTE)
    assert again["References"] == report["Message-ID"]
    assert "sda" in again["Subject"]


def test_no_finding_is_reported_as_that(tmp_path: Path) -> None:
    """A machine that is well: the mail shows that mails arrive."""
    with watched(tmp_path, Live(tmp_path), initial_report=True) as host:
        (report,) = host.wait(80)
    assert report["Subject"].startswith("[INFO] db1.example.com: INITIAL REPORT: ")


def test_what_was_so_at_first_sight_is_over_in_the_thread_of_that_mail(tmp_path: Path) -> None:
    """A setting is changed weeks later: 'resolved' replies to the initial report."""
    live = with_findings(tmp_path)
    live.degrade(0)
    with watched(tmp_path, live, initial_report=True) as host:
        (report,) = host.wait(80)
        live.change({"/proc/sys/vm/zone_reclaim_mode": "0\n"})
        (setting,) = host.wait(12 * MINUTE)
    assert "was: vm.zone_reclaim_mode" in setting["Subject"]
    assert setting["References"] == report["Message-ID"]
    assert setting["Message-ID"] != report["Message-ID"]


def test_a_disk_that_hangs_in_the_first_minute_does_not_wait_for_it(tmp_path: Path) -> None:
    """It began while iowarden ran: mailed at once, and the initial report is sent as well."""
    live = with_findings(tmp_path)
    live.degrade(0)
    live.change({"/sys/block/sda/device/timeout": "2\n"})
    with watched(tmp_path, live, initial_report=True) as host:
        assert host.wait(3) == []
        live.hang("sda")
        (hang,) = host.wait(45)
        (report,) = host.wait(35)
    assert "sda" in hang["Subject"]
    assert "INITIAL REPORT" not in hang["Subject"]
    assert "INITIAL REPORT" in report["Subject"]
    assert "in a mail of its own: " in text(report)


def test_a_restart_in_the_first_minute_makes_no_second_mail(tmp_path: Path) -> None:
    """Started, restarted after half a minute, and after the mail: it was sent once."""
    live = with_findings(tmp_path)
    live.degrade(0)
    with watched(tmp_path, live, initial_report=True) as host:
        assert host.wait(30) == []
        host.restart()
        (_,) = host.wait(80)
        host.restart()
        assert host.wait(3 * MINUTE) == []


def test_a_machine_that_is_known_does_not_arrive_again_while_its_state_is_locked(
    tmp_path: Path,
) -> None:
    """Another process locks state.db for two minutes at the start: the machine is still known."""
    live = with_findings(tmp_path)
    live.degrade(0)
    with watched(tmp_path, live, initial_report=True) as host:
        (_,) = host.wait(80)
        host.program.end()
        live.change({"/proc/sys/vm/zone_reclaim_mode": "0\n"})
        with contextlib.closing(sqlite3.connect(host.program.state / "state.db")) as held:
            held.execute("BEGIN EXCLUSIVE")
            host.start_again()
            live.wait(10)
            host.program.until(lambda: "state is in memory only" in host.program.text(), "the lock")
            host.wait_only(2 * MINUTE)
        mails = host.wait(20 * MINUTE)
    assert not [mail["Subject"] for mail in mails if "INITIAL REPORT" in mail["Subject"]]


def test_who_wants_no_initial_report_gets_each_alert(tmp_path: Path) -> None:
    """'mail.initial_report: false': array and setting are mailed separately, the notice is not."""
    with watched(tmp_path, with_findings(tmp_path), initial_report=False) as host:
        mails = host.wait(2 * MINUTE)
    assert len(mails) == 2
    assert not [mail["Subject"] for mail in mails if "INITIAL REPORT" in mail["Subject"]]


def week(host: Watched) -> list[str]:
    """Advance by one week and return the subjects and texts of the mails sent."""
    for _ in range(7):
        host.live.leap(DAY, DAY)
        host.live.wait(8)
    return [f"{mail['Subject']}\n{text(mail)}" for mail in host.wait(MINUTE)]


def test_a_week_without_news_is_no_mail(tmp_path: Path) -> None:
    """Like in the initial report: only the alert that still fires is repeated."""
    with watched(tmp_path, with_findings(tmp_path), initial_report=True) as host:
        assert len(host.wait(80)) == 2
        assert not [mail for mail in week(host) if "REMINDER" not in mail]


def test_a_sign_of_life_is_mailed_to_who_asks_for_it(tmp_path: Path) -> None:
    """'mail.heartbeat: true': a digest each week, each as a separate mail."""
    with watched(tmp_path, Live(tmp_path)) as host:
        host.wait(8)
        host.program.end()
        config = host.program.config.read_text()
        host.program.config.write_text(config.replace("initial_report: false", "heartbeat: true"))
        host.start_again()
        host.wait(80)
        first, second = week(host), week(host)
    assert "no changes in 7 d" in first[0]
    assert "iowarden is running: " in first[0]
    assert len(first) == len(second) == 1


def test_a_week_with_news_is_one_mail_and_advice_is_given_once(tmp_path: Path) -> None:
    """An intermittent notice, a disk that is pulled, a restart: all in one mail."""
    (tmp_path / "rules.d").mkdir(exist_ok=True)
    (tmp_path / "rules.d" / "mine.yaml").write_text(NOTE)
    live = Live(tmp_path)
    on, off = ({"/proc/sys/vm/laptop_mode": value} for value in ("5\n", "0\n"))
    with watched(tmp_path, live) as host:
        host.wait(80)
        for _ in range(2):
            live.change(on)
            host.wait(MINUTE)
            live.change(off)
            host.wait(MINUTE)
        host.restart()
        live.plug("sdc")
        assert host.wait(2 * MINUTE) == []
        (first,) = week(host)
        live.change(on)
        (second,) = week(host)
        assert week(host) == []
    assert "[NOTICE] db1.example.com: DIGEST: 1 finding, 1 change of disks in 7 d" in first
    assert "LaptopMode: the disk is kept asleep (2 times), resolved" in first
    assert "sdc (SIMULATED HDD, serial S-sdc) is new" in first
    assert first.count("Set it to 0.") == 1
    assert "LaptopMode: the disk is kept asleep, for " in second
    assert "Set it to 0." not in second


def test_a_risky_setting_known_for_long_hides_no_stall(tmp_path: Path) -> None:
    """The initial report had zone reclaim; a warning about the host a month later is mailed."""
    live = with_findings(tmp_path)
    rules = tmp_path / "rules.d" / "mine.yaml"
    rules.write_text(rules.read_text().replace("notice", "warning").replace("X1", "reclaim_stall"))
    live.degrade(0)
    live.change({"/proc/sys/vm/laptop_mode": "0\n"})
    with watched(tmp_path, live, initial_report=True) as host:
        (report,) = host.wait(80)
        assert "ZoneReclaimEnabled" in text(report)
        live.change({"/proc/sys/vm/laptop_mode": "5\n"})
        (stall,) = host.wait(2 * MINUTE)
    assert "kept asleep" in stall["Subject"]
    assert stall["References"] is None


@pytest.mark.parametrize("ended", ["over", "rule removed", "rule removed while it was off"])
def test_a_note_that_ended_is_not_reported_for_weeks(tmp_path: Path, ended: str) -> None:
    """It is reported as resolved in the week in which it ended, and not again."""
    (tmp_path / "rules.d").mkdir(exist_ok=True)
    rules = tmp_path / "rules.d" / "mine.yaml"
    rules.write_text(NOTE)
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(80)
        live.change({"/proc/sys/vm/laptop_mode": "5\n"})
        host.wait(MINUTE)
        if ended == "over":
            live.change({"/proc/sys/vm/laptop_mode": "0\n"})
        else:
            rules.unlink()
        if ended == "rule removed":
            host.program.hang_up()
            host.program.until(lambda: "reloaded" in host.program.text(), "the reload")
        else:
            host.restart()
        host.wait(MINUTE)
        (told,) = week(host)
        assert "LaptopMode: the disk is kept asleep, resolved" in told
        assert week(host) == []
