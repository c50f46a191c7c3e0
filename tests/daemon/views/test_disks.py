"""Disks in the whole program: monitoring status, details of a disk, its history."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from support import drives
from support.attached import probe_answer
from support.kmsg import Kernel
from support.live import Live, text, watched

from iowarden.collectors.smart import smartctl_runner
from iowarden.collectors.smart.drive import AccessMethod
from iowarden.daemon.service import persisted_state
from iowarden.daemon.storage.history_reader import HistoryReader
from iowarden.rules.selftest_schedule import SelfTestRun, SelfTestState

if TYPE_CHECKING:
    from pathlib import Path

    from support.live import Files, Watched

DEADLINE_SECONDS = 30.0
PENDING = 197
SECTORS = 1_953_525_168


def command(host: Watched, *words: str) -> tuple[int, str]:
    """Return exit status and output of a command."""
    done = host.program.command(*words)
    return done.returncode, done.stdout + done.stderr


def data(host: Watched, *words: str) -> Any:  # noqa: ANN401 - whatever the command says
    """Return the reply of a command as data."""
    return json.loads(command(host, *words, "--json")[1])


def says(name: str, output: str) -> Files:
    """Set what smartctl reports of a disk."""
    return probe_answer(
        *smartctl_runner.command(AccessMethod(f"/dev/{name}", "scsi"), "full"), stdout=output
    )


def healthy(name: str, pending: int = 0) -> str:
    """Return smartctl's output for a disk of the kernel's size, with these pending sectors."""
    document = json.loads(drives.ata(f"S-{name}", 3600 * len(name) * ord(name[-1])))
    document["user_capacity"] = {"blocks": SECTORS, "bytes": SECTORS * 512}
    for attribute in document["ata_smart_attributes"]["table"]:
        if attribute["id"] == PENDING:
            attribute["raw"] = {"value": pending, "string": str(pending)}
    return json.dumps(document)


def test_what_is_monitored_is_reported_wherever_people_look(tmp_path: Path) -> None:
    """One disk is read, one is not: coverage, status and the initial report say the same.

    The mail waits for the first word of every disk, and four minutes at most.
    """
    live = Live(tmp_path)
    live.change(says("sda", healthy("sda")))
    with watched(tmp_path, live, initial_report=True) as host:
        assert host.wait(230) == []
        (mail,) = host.wait(20)
        line = "SMART: 1 of 2 disks readable (1 not polled yet)"
        assert text(mail).count("SMART: ") == 1
        assert line in text(mail)
        assert data(host, "status")["disks"] == line
        status, shown = command(host, "monitoring")
        assert (status, shown.splitlines()[0]) == (1, f"warning: {line}")
        live.change(says("sdb", healthy("sdb")))
        host.wait(30)
        status, shown = command(host, "monitoring")
        assert (status, shown.splitlines()[0]) == (0, "ok: SMART: 2 of 2 disks readable")


def test_a_disk_is_found_by_whatever_it_is_called(tmp_path: Path) -> None:
    """Serial number, its beginning, device, file system on it; otherwise the disks are listed."""
    live = Live(tmp_path)
    live.change(says("sda", healthy("sda")) | says("sdb", healthy("sdb")))
    with watched(tmp_path, live) as host:
        host.wait(30)
        for name in ("S-sda", "s-sda", "sda", "/dev/sda"):
            found = data(host, "disk", "show", name)
            assert found["line"]["object"] == "sda (SIMULATED HDD, serial S-sda)"
        assert found["used_by"] == ["md0"]
        assert ["serial number", "S-sda"] in found["facts"]
        status, told = command(host, "disk", "show", "S-")
        assert status == 1
        assert "expected one disk, got 'S-'; there are: S-sda (sda), S-sdb (sdb)" in told
        status, told = command(host, "disk", "forget", "sda")
        assert status == 1
        assert "a disk that is present or in" in told


def test_a_disk_that_returns_under_another_name_is_reported_with_what_takes_it_back(
    tmp_path: Path,
) -> None:
    """A cable came loose: sdb of md0 returns as sdc, and md0 does not re-add it by itself."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(90)
        live.unplug("sdb")
        first = host.wait(90)
        assert any("md0" in text(mail) for mail in first)
        assert not any("--re-add /dev/sdc" in text(mail) for mail in first)
        live.plug("sdc", "S-sdb")
        mails = host.wait(150)
        (mail,) = [each for each in mails if "--re-add /dev/sdc" in text(each)]
        assert "sdb is back: it is /dev/sdc now" in text(mail)
        assert mail["Subject"].startswith("[CRITICAL] db1.example.com: ")
        assert ": sdb is back: it is /dev/sdc now" in mail["Subject"]
        assert "ESCALATED" not in mail["Subject"]
        assert "it is /dev/sdc now, sdc (SIMULATED HDD, serial S-sdb); md0" in host.program.text()
        live.change({"/sys/block/md0/md/degraded": "0\n", "/sys/block/sdc/holders/md0": None})
        assert not any("--re-add /dev/sdc" in text(each) for each in host.wait(900))


def test_what_a_disk_reports_is_kept_and_can_be_requested(tmp_path: Path) -> None:
    """Sectors become pending, over a restart: each change is shown, as bars and as values."""
    live = Live(tmp_path)
    live.change(says("sda", healthy("sda")))
    with watched(tmp_path, live) as host:
        host.wait(30)
        status, told = command(host, "disk", "history", "sda", "nonsense")
        assert status == 1
        assert "attribute: expected a number ('197')" in told
        live.change(says("sda", healthy("sda", 8)))
        host.wait(30)
        host.restart()
        host.wait(30)
        kept = data(host, "disk", "history", "S-sda", "current_pending_sector")
        assert kept["attribute"] == "197 raw"
        assert [value for _, value in kept["samples"]] == [0.0, 8.0]
        status, told = command(host, "disk", "history", "sda", "temperature")
        assert (status, told.partition(",")[0]) == (0, "S-sda: temperature_celsius")


@pytest.mark.parametrize("power_lost", [False, True], ids=["stopped", "power lost"])
def test_a_disk_that_did_not_come_back_is_missed_until_it_is_forgotten(
    tmp_path: Path, *, power_lost: bool
) -> None:
    """The machine boots without a disk: mailed, and resolved when a user forgets the disk."""
    live = Live(tmp_path)
    live.change(says("sda", healthy("sda")) | says("sdb", healthy("sdb")))
    with watched(tmp_path, live) as host:
        host.wait(90)
        for path in [p for p in live._files if "sdb" in p]:
            del live._files[path]
        live._files["/sys/block/md0/md/raid_disks"] = "1\n"
        if power_lost:  # in the second minute
            host.program.end(signal.SIGKILL)
            host.start_again()
        else:
            host.restart()
        (mail,) = host.wait(480)
        assert mail["Subject"].startswith("[WARNING]")
        assert "sdb (SIMULATED HDD, serial S-sdb) is missing" in text(mail)
        assert (
            "DiskMissing sdb (SIMULATED HDD, serial S-sdb) firing: " in command(host, "events")[1]
        )
        status, shown = command(host, "monitoring")
        assert (status, "SMART: 1 of 2 disks readable (1 missing)" in shown) == (1, True)
        status, told = command(host, "disk", "forget", "S-sdb")
        assert (status, "is no longer reported as missing" in told) == (0, True)
        host.wait(30)
        assert command(host, "monitoring")[0] == 0
        host.restart()
        assert host.wait(480) == []


def test_a_refused_self_test_is_reported_with_its_disk(tmp_path: Path) -> None:
    """It was refused before a restart: the disk's line shows what reads it instead."""
    live = Live(tmp_path)
    live.change(says("sda", healthy("sda")))
    with watched(tmp_path, live) as host:
        host.wait(30)
        assert "refused" not in command(host, "disk", "show", "sda")[1]
        host.program.end()
        refused = {"S-sda": {"long": SelfTestRun(1.0, SelfTestState.REFUSED, text="no")}}
        document = persisted_state.documents(persisted_state.PersistedState(self_tests=refused))[
            "self_tests"
        ]
        with contextlib.closing(sqlite3.connect(f"{host.program.state}/state.db")) as file, file:
            file.execute("INSERT OR REPLACE INTO document VALUES ('self_tests', ?)", (document,))
        host.start_again()
        host.wait(30)
        shown = command(host, "disk", "show", "sda")[1]
        assert "long self-test refused: no" in shown
        assert "sync_action" in shown


def test_a_disk_shows_when_it_was_last_read_completely(tmp_path: Path) -> None:
    """A scan that completed two hours before a restart, in both commands and on '/metrics'."""
    live = Live(tmp_path)
    live.change(says("sda", healthy("sda")))
    with watched(tmp_path, live) as host:
        host.wait(30)
        assert "read completely: unknown" in command(host, "disk", "show", "sda")[1]
        host.program.end()
        path = f"{host.program.state}/state.db"
        with contextlib.closing(sqlite3.connect(path)) as file, file:
            (row,) = file.execute("SELECT text FROM document WHERE name = 'scans'").fetchone()
            scans = json.loads(row)
            scans["S-sda"]["completed_seconds"] = scans["S-sda"]["seen_seconds"] - 7200.0
            document = json.dumps(scans)
            file.execute("INSERT OR REPLACE INTO document VALUES ('scans', ?)", (document,))
        host.start_again()
        host.wait(30)
        assert "read completely: 2 h" in command(host, "disk", "show", "sda")[1]
        assert "ago by scan" in command(host, "monitoring")[1]
        metrics = host.program.metrics()
    series = 'iowarden_disk_last_full_read_timestamp_seconds{by="scan",disk="S-sda"}'
    assert metrics[series] > 0


def test_a_disk_that_hangs_under_the_history_keeps_one_thread_and_nobody_else(
    tmp_path: Path,
) -> None:
    """A file that cannot be opened in time, here a FIFO: the next request fails at once."""
    path = tmp_path / "history.db"
    os.mkfifo(path)
    past = HistoryReader(str(path))
    replies: queue.SimpleQueue[dict[str, object]] = queue.SimpleQueue()
    past.read_first("S1", ("197 raw",), replies.put)
    with pytest.raises(ValueError, match="being read for another command"):
        past.read_first("S1", ("197 raw",), replies.put)
    assert replies.empty()
    writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # the disk answers, with rubbish
    assert "error" in replies.get(timeout=DEADLINE_SECONDS)
    os.close(writer)


def test_a_past_that_nobody_has_kept_yet_is_no_fault(tmp_path: Path) -> None:
    """Just installed: there is no history file."""
    replies: queue.SimpleQueue[dict[str, object]] = queue.SimpleQueue()
    past = HistoryReader(str(tmp_path / "history.db"))
    for _ in range(2):
        past.read_first("S1", ("197 raw",), replies.put)
        assert "no history yet" in str(replies.get(timeout=DEADLINE_SECONDS)["error"])


def test_a_failed_file_system_is_among_the_alerts_of_its_disk(tmp_path: Path) -> None:
    """The mail is titled with the file system; who looks at the disk sees it as well."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    with watched(tmp_path, live) as host:
        host.wait(20)
        kernel.says("EXT4-fs error (device sda): ext4_find_entry:1455: inode #2: comm ls: lost")
        (mail,) = host.wait(20)
        shown = [each["name"] for each in data(host, "disk", "show", "sda")["alerts"]]
        others = [each["name"] for each in data(host, "disk", "show", "sdb")["alerts"]]
    assert "file system on sda" in text(mail)
    assert "fs_error" in shown
    assert "fs_error" not in others


def test_a_disk_shows_which_facts_permit_its_stalls(tmp_path: Path) -> None:
    """On a laptop, when it spins up; the same is on '/metrics', for all alerts alike."""
    live = Live(tmp_path)
    live.change(says("sda", healthy("sda")) | {"/proc/sys/vm/laptop_mode": "5\n"})
    with watched(tmp_path, live) as host:
        host.wait(30)
        assert data(host, "disk", "show", "sda")["guards"] == []
        live.hang("sda")
        host.wait(5)
        reason = "in laptop mode it sleeps between writes, and was idle"
        assert data(host, "disk", "show", "sda")["guards"] == [
            "it was idle and may have to spin up",
            reason,
        ]
        labels = f'device="sda",guard="laptop_mode",reason="{reason}"'
        assert host.program.metrics()[f"iowarden_guard_active{{{labels}}}"] == 1


def test_a_disk_shows_what_explains_stalls_of_a_volume_on_it(tmp_path: Path) -> None:
    """A volume on sda is suspended, and nobody waits for it yet: sda shows it, sdb does not."""
    live = Live(tmp_path)
    volume = "/sys/block/dm-0"
    live.change(
        {
            f"{volume}/dev": "253:0\n",
            f"{volume}/dm/uuid": "LVM-x\n",
            f"{volume}/dm/name": "vg-home\n",
            f"{volume}/dm/suspended": "1\n",
            f"{volume}/size": "1953525168\n",
            f"{volume}/slaves/sda": None,
            "/sys/block/sda/holders/dm-0": None,
        }
    )
    with watched(tmp_path, live) as host:
        host.wait(40)
        assert data(host, "disk", "show", "sda")["guards"] == [
            "dm-0 on it: its file system is frozen, or its device suspended"
        ]
        assert data(host, "disk", "show", "sdb")["guards"] == []
