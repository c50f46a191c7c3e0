"""End to end: error lines of storage that no pattern takes, from the kernel's log to the mails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.kmsg import Kernel
from support.live import Live, text, watched

if TYPE_CHECKING:
    from pathlib import Path

    from support.live import Watched

MINUTE, DAY = 60.0, 86_400.0
CRITICAL = "csiostor 0000:3b:00.0: Fatal 5 (0x1f)"
ERROR = "libceph: osd3 (1)10.0.0.7:6801 surprise"

SUSPENDED = (
    "WARNING: Pool 'tank' has encountered an uncorrectable I/O failure and has been suspended."
)


def shown(host: Watched, *command: str) -> str:
    """Return what a command prints."""
    done = host.program.command(*command)
    assert done.returncode == 0, done
    return done.stdout


def test_a_critical_line_that_nobody_knows_is_a_warning_with_its_text(
    tmp_path: Path,
) -> None:
    """One mail: the line itself, where to look it up, and nothing that could destroy data."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    with watched(tmp_path, live) as host:
        host.wait(20)
        kernel.says(CRITICAL, CRITICAL, priority=2)
        (mail,) = host.wait(2 * MINUTE, 20.0)
        assert host.wait(5 * MINUTE, 20.0) == []
        status = shown(host, "status")
        counted = shown(host, "query", "iowarden_kernel_lines_unrecognized_total")
        listed = shown(host, "events", "--source", "kernel")
        saved = shown(host, "unparsed", "list")
    assert mail["Subject"].startswith("[WARNING] db1")
    assert "unrecognized kernel line from csiostor" in mail["Subject"]
    body = text(mail)
    assert body.count(CRITICAL) >= 1
    assert "iowarden unparsed list" in body
    assert "change nothing on the device that it names" in body
    line = (
        "kernel log: 2 error lines of storage were not recognized (csiostor 2): iowarden unparsed"
    )
    assert line in status
    assert 'driver="csiostor"' in counted
    assert CRITICAL in listed
    assert f"not recognized, from csiostor, level critical: {CRITICAL}" in saved


def test_a_critical_line_of_each_of_32_adapters_is_one_mail(tmp_path: Path) -> None:
    """One class of lines: not a mail for each adapter."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    with watched(tmp_path, live) as host:
        host.wait(20)
        line = "lpfc 0000:{:02x}:00.0: {}:6101 Disabling NVME support: not supported, lost"
        kernel.says(*(line.format(n, n) for n in range(32)), priority=2)
        mails = host.wait(10 * MINUTE, 20.0)
    (mail,) = mails
    assert mail["Subject"].endswith("unrecognized kernel line from lpfc")
    assert "0000:00:00.0 (controller) and others" in " ".join(text(mail).split())


def test_three_lines_of_one_driver_are_not_one_line_three_times(tmp_path: Path) -> None:
    """Each is listed with its own text; a line that comes again is counted."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    with watched(tmp_path, live) as host:
        host.wait(20)
        kernel.says(*(f"csiostor 0000:3b:00.0: {word}" for word in ("alpha", "beta")), priority=2)
        kernel.says("csiostor 0000:3b:00.0: gamma 7", priority=2)
        (mail,) = host.wait(2 * MINUTE, 20.0)
        listed = shown(host, "events", "--source", "kernel")
        kernel.says("libceph: osd3 surprise", "libceph: osd4 surprise")
        host.wait(20)
        again = shown(host, "events", "--source", "kernel")
    assert [f": {word}" in listed for word in ("alpha", "beta", "gamma 7")] == [True] * 3
    assert "times)" not in listed
    assert "gamma 7 (the last of 3 such lines)" in " ".join(text(mail).split())
    assert "osd4 surprise (2 times)" in again


def test_where_no_line_is_unknown_the_list_says_so(tmp_path: Path) -> None:
    """An empty answer looks like a command that failed."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(20)
        done = host.program.command("unparsed", "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no unparsed outputs and no unrecognized kernel lines are stored" in done.stderr


def test_an_error_line_that_nobody_knows_is_in_the_weekly_digest_and_no_mail_of_its_own(
    tmp_path: Path,
) -> None:
    """A notice: counted, shown, reported once a week with its text."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    with watched(tmp_path, live) as host:
        host.wait(20)
        kernel.says(ERROR)
        assert host.wait(5 * MINUTE, 20.0) == []
        answer = json.loads(shown(host, "status", "--json"))
        assert answer["kernel_lines"].endswith("(libceph 1): iowarden unparsed list")
        for _ in range(7):
            live.leap(DAY, DAY)
            live.wait(8)
        (digest,) = host.wait(MINUTE)
    assert "DIGEST" in digest["Subject"]
    assert f"unrecognized kernel line from libceph: {ERROR}" in text(digest)


def test_unknown_lines_of_before_the_first_start_are_in_no_alert(tmp_path: Path) -> None:
    """A storm of the last hours is the baseline of the log."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    kernel.says(*(f"mpi3mr0: surprise {n}" for n in range(200)), priority=2)
    with watched(tmp_path, live, initial_report=True) as host:
        mails = host.wait(5 * MINUTE, 20.0)
        kernel.says("libceph: another surprise", priority=2)
        (mail,) = host.wait(2 * MINUTE, 20.0)
    assert all("INITIAL REPORT" in mail["Subject"] for mail in mails)
    assert len(mails) <= 1
    assert "another surprise" in text(mail)


def test_a_critical_line_of_before_the_first_start_is_in_the_initial_report(
    tmp_path: Path,
) -> None:
    """It is a finding of that report, and counted in the status."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    kernel.says(CRITICAL, "hpsa 0000:03:00.0: odd failure", priority=2)
    kernel.says(ERROR)
    kernel.says(SUSPENDED, priority=4)
    with watched(tmp_path, live, initial_report=True) as host:
        (report,) = host.wait(5 * MINUTE, 20.0)
        status = shown(host, "status")
        saved = shown(host, "unparsed", "list")
    assert report["Subject"].startswith("[CRITICAL] db1: INITIAL REPORT: ")
    assert CRITICAL in text(report)
    assert "odd failure" in text(report)
    assert "a ZFS pool is suspended" in text(report)
    counted = "kernel log: 3 error lines of storage were not recognized"
    assert counted in status
    assert saved.count("not recognized, from") == 3
