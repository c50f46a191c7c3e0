"""A write stall in a real kernel: a disk takes 2 MiB/s and a unit copies 1500 MiB to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, wait_for
from vm.watched import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

MAIL_SECONDS = 300.0
"""Until the warning; the machine that emulates the guest may have other work meanwhile."""
ALONE_SECONDS = 45.0
"""For so long the copy is alone: longer than a freeze of one program takes to be mailed."""


@pytest.fixture(scope="module")
def stalled(watched: Watched) -> Iterator[Watched]:
    """Fill the dirty limit by a copy, then let four programs commit; return with the first mail."""
    vm = watched.vm
    vm.run("sysctl -w vm.dirty_ratio=40 vm.dirty_background_ratio=10")
    # Small requests: the disk is slow and completes all the time, it does not hang.
    vm.throttle("slow", write=2 * MEBIBYTE, request_bytes=128 * 1024)
    vm.run("touch /run/writing")
    copy = "dd if=/dev/zero of=/mnt/slow/big bs=1M count=1500"
    writers = [vm.start(f"systemd-run --wait --quiet --unit=bulk-copy {copy}")]
    wait_for(
        lambda: watched.metric("iowarden_writeback_above_freerun_seconds"),
        "writers held by the kernel",
        60,
    )
    vm.run(f"sleep {ALONE_SECONDS}", timeout_seconds=120)
    assert watched.mail.naming("slow") == [], "a copy that waits for its own data harms nobody"
    # Each time anew: what a journal's commit takes along decides how long one of them waits.
    for number in range(4):
        dd = f"dd if=/dev/zero of=/mnt/slow/small-{number} bs=4k count=4 conv=fsync status=none"
        loop = f"while [ -e /run/writing ]; do {dd}; done"
        unit = f"systemd-run --wait --quiet --unit=ledger-{number} sh -c '{loop}'"
        writers.append(vm.start(unit))
    wait_for(lambda: watched.mail.naming("Freeze"), "a mail of the freeze", MAIL_SECONDS)
    yield watched
    vm.throttle("slow")
    vm.run("rm -f /run/writing")
    for writer in writers:
        writer.wait(120)


def test_a_write_stall_is_one_incident_in_one_thread_of_mails(stalled: Watched) -> None:
    """However many rules see the stall, its administrator reads one story."""
    assert len(stalled.mail.incidents()) == 1, [m["Subject"] for m in stalled.mail.mails]
    first, *others = stalled.mail.mails
    assert {mail["In-Reply-To"] for mail in others} <= {first["Message-ID"]}
    assert "guest.example.net" in first["Subject"]
    assert first["To"] == "storage@example.net"


def test_the_mail_of_a_freeze_names_the_backlog_and_the_cure(stalled: Watched) -> None:
    """The disk takes 2 MiB/s; the advice is dirty limits that fit it."""
    text = text_of(stalled.mail.naming("Freeze")[0])
    assert stalled.vm.device("slow") in text
    assert "queued" in text
    assert "sysctl -w vm.dirty_background_bytes=" in text


def test_the_first_mail_names_who_waits_for_which_file_and_who_wrote(stalled: Watched) -> None:
    """A ledger in fsync waits; the copy, which waits as well, is the cause."""
    text = " ".join(text_of(stalled.mail.naming("Freeze")[0]).split())
    pid = stalled.vm.run("systemctl show --property=MainPID --value bulk-copy").strip()
    waits = re.search(r"[Ww]ho waits: (.*?)[.] ", text)
    assert waits, text
    assert re.search(r"ledger-\d\.service", waits[1]), text
    assert "/mnt/slow/small-" in text
    assert "bulk-copy" not in waits[1], text
    assert re.search(rf"dd \(bulk-copy\.service, pid {pid}\), which wrote", text), text


def test_metrics_show_the_stall_while_it_lasts(stalled: Watched) -> None:
    """A Prometheus that scrapes the guest sees the level, the drain and the waiting tasks."""
    held = stalled.metric("iowarden_writeback_above_freerun_seconds")
    drain = stalled.metric("iowarden_writeback_drain_seconds")
    blocked = stalled.metric("iowarden_tasks_blocked_seconds", min_tasks="3")
    level = stalled.metric("iowarden_freeze_level", device=stalled.vm.device("slow"))
    assert held is not None
    assert held >= 10
    assert drain is not None
    assert drain >= 120
    assert blocked is not None
    assert blocked > 0
    assert level is not None
    assert level >= 2


def test_journalctl_finds_the_stall_by_the_name_of_its_alert(stalled: Watched) -> None:
    """The entry has a fixed MESSAGE_ID, whose explanation is in the journal's catalog."""
    entries = stalled.journal("IOWARDEN_ALERT=Freeze")
    assert entries
    assert {entry["IOWARDEN_SEVERITY"] for entry in entries} <= {"notice", "warning", "critical"}
    identifiers = {entry["MESSAGE_ID"] for entry in entries}
    assert len(identifiers) == 1
    assert stalled.vm.run(f"journalctl --list-catalog {identifiers.pop()}")


def test_the_service_stays_up_through_the_stall(stalled: Watched) -> None:
    """Its watchdog stays quiet, nothing has started it anew."""
    unit = stalled.unit("ActiveState", "NRestarts", "Result", "StatusText")
    assert unit["ActiveState"] == "active"
    assert unit["NRestarts"] == "0"
    assert unit["Result"] == "success"
    bugs = [entry for entry in stalled.journal() if "bug" in str(entry["MESSAGE"])]
    assert bugs == []


def test_the_unit_is_hardened_where_it_runs(watched: Watched) -> None:
    """systemd rates its exposure at 2.0 or less."""
    command = "systemd-analyze security --no-pager --threshold=20 iowarden.service"
    watched.vm.run(command)


def test_code_and_data_of_the_service_are_locked_in_memory(watched: Watched) -> None:
    """mlockall works under the unit's filter and limits: a hung root disk pages nothing."""
    status = "/proc/$(systemctl show --property=MainPID --value iowarden)/status"
    locked, resident = (
        int(watched.vm.run(f"grep ^{field}: {status}").split()[1]) for field in ("VmLck", "VmRSS")
    )
    assert locked > 0.5 * resident
    told = [str(entry["MESSAGE"]) for entry in watched.journal()]
    assert [text for text in told if text.startswith("memory")] == []


def test_the_service_stops_when_it_is_told_to_during_a_stall(stalled: Watched) -> None:
    """It waits for no disk: systemd has neither to time it out nor to kill it."""
    stalled.vm.run("systemctl stop iowarden", timeout_seconds=60)
    unit = stalled.unit("ActiveState", "Result", "ExecMainStatus")
    assert unit == {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}
