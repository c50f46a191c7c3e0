"""A database that makes its disk read what it only writes, from files of the kernel to the mail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.database import MB, Database
from support.live import Watched, text, watched

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

    from support.live import Files

STEP_SECONDS = 2.0


class Writing(Database):
    """A database that writes parts of pages; beside it, if so, tar reads as much."""

    requests_ratio = 0.01
    """What the database requests of what its disk reads."""

    def now(self) -> Files:
        """Return the counters as they are."""
        counters = self.counters["sdb"]
        read, written = counters[2] * 512, counters[6] * 512
        requested = int(read * self.requests_ratio)
        database = [812, 1000, 1, "questdb", "questdb.service", read, written, 0]
        sweep = {
            "boot_seconds": self._monotonic,
            "processes": [[*database, requested, written, 4]],
        }
        self.counts["pgmajfault"] = int(self._monotonic * 100)
        return super().now() | {"/.probe/io_sweep": json.dumps({**sweep, "not_read": []})}


def phantom_mails(host: Watched, live: Database) -> list[EmailMessage]:
    """Let the disk read as much as it is written for a quarter of an hour."""
    host.wait(20)
    live.rates["sdb"], live.reads["sdb"] = 40 * MB, 45 * MB
    live.memory["MemAvailable"] = 2_000_000
    mails = host.wait(460, STEP_SECONDS)
    return [mail for mail in mails if "phantom reads" in mail["Subject"]]


def test_the_mail_about_reads_that_nobody_requested_names_the_program(tmp_path: Path) -> None:
    """Nothing was learnt of the disk: the program's own counters prove it, within minutes."""
    live = Writing(tmp_path)
    with watched(tmp_path, live) as host:
        (mail, *_) = phantom_mails(host, live)
    said = " ".join(text(mail).split())
    assert "Who causes the reads: questdb (questdb.service, pid 812) wrote " in said
    assert " and caused reads of " in said
    assert "which no program requested" in said
    assert "Which program:" not in said, "it has just been named"


def test_a_compaction_that_requests_its_reads_is_no_mail(tmp_path: Path) -> None:
    """The same disk, the same bytes; what the program reads it has asked for."""
    live = Writing(tmp_path)
    live.requests_ratio = 1.0
    with watched(tmp_path, live) as host:
        assert phantom_mails(host, live) == []


def test_the_program_is_not_named_where_names_are_private(tmp_path: Path) -> None:
    """It is a warning all the same."""
    live = Writing(tmp_path)
    with watched(tmp_path, live, settings="privacy: {programs: false}\n") as host:
        (mail, *_) = phantom_mails(host, live)
    said = text(mail)
    assert "questdb" not in said
    assert "Which program:" in said
