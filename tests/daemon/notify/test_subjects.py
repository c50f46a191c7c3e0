"""Subjects of the shipped alerts: 78 columns, and never without what the summary says first."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.golden import GOLDEN
from support.mail_numbers import as_mailed

from iowarden.daemon.notify.mail_format import WIDE
from iowarden.daemon.notify.message import WIDTH, subject
from iowarden.rules.alerting.unit_tests import parse_unit_tests
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.notice import Notice, Reason
from iowarden.rules.notices.titles import LAST_KNOWN
from iowarden.rules.severity import Severity
from iowarden.rules.topology import alert_subject
from iowarden.rules.topology.device_changes import Devices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.golden import Golden

UNITS = Path(__file__).parents[2] / "rules" / "units"
EVENTS = Path(__file__).parents[3] / "rules" / "events" / "events.yaml"
HOST, PATH, LABEL = "db1.example.com", "/srv/databases/postgresql/main", "pool"
NAMES = ((r"\bsd[a-z](\d)\b", r"nvme0n1p\1"), (r"\bsd[a-z]\b", "nvme0n1"), (r"\bmd\d\b", "md127"))
"""Names of devices in the unit tests, and longer ones in their place."""
NOTICE = Notice(
    incident="1424a46a34",
    number=2,
    references=(),
    reason=Reason.OPENED,
    severity=Severity.WARNING,
    object="host",
    summary="",
    opened_seconds=1_700_000_000.0,
    realtime_seconds=1_700_003_600.0,
    recurrences=1,
    sentences=(),
    meaning=(),
    evidence=(),
    affected=(),
    advice=(),
    unknown=(),
    ended_seconds=None,
)


def renamed(text: str) -> str:
    """Return a text with long names of devices."""
    for pattern, name in NAMES:
        text = re.sub(pattern, name, text)
    return text


def played(path: Path) -> Iterator[tuple[str, Notice]]:
    """Yield each alert above notice that the unit tests of a rule file expect, as it is mailed."""
    for case in parse_unit_tests(path.read_text(), str(path)).tests:
        for one in case.alerts:
            for labels, texts in one.expected:
                own = {**dict(labels), "alertname": one.name}
                severity = Severity[own["severity"].upper()]
                if severity < Severity.WARNING:
                    continue
                summary = as_mailed(dict(texts)["summary"])
                for key in ("mountpoint", "directory"):
                    if len(own.get(key, "")) > 1:
                        summary, own[key] = summary.replace(own[key], PATH), PATH
                if "fsid" in own:
                    own.setdefault("label", LABEL)
                named = tuple((key, renamed(value)) for key, value in own.items())
                about = alert_subject.subject(None, Devices(), named).object or "host"
                yield (
                    one.name,
                    replace(NOTICE, severity=severity, object=about, summary=renamed(summary)),
                )


def mailed(notice: Notice) -> Iterator[Notice]:
    """Yield a notice for each reason that a mail about its alert can have."""
    yield notice
    for reason in (Reason.ESCALATED, Reason.REMINDER, Reason.REOPENED):
        yield replace(notice, reason=reason)
    yield replace(notice, reason=Reason.REOPENED, times=12)
    was = replace(notice, summary=f"was: {notice.summary}")
    for seconds in (14.0, 67.0, 100_000.0):
        ended = notice.opened_seconds + seconds
        yield replace(was, reason=Reason.RESOLVED, ended_seconds=ended)


def assert_whole(notice: Notice, name: str) -> None:
    """Assert that the first clause of the summary is in the subject."""
    found = subject(notice, HOST)
    assert len(found) <= WIDTH, found
    assert not found.endswith("..."), (name, found)


@pytest.mark.parametrize(
    "path", sorted(UNITS.glob("*_test.yaml")), ids=lambda p: p.stem.removesuffix("_test")
)
def test_no_subject_of_a_shipped_alert_is_cut_before_what_happened(path: Path) -> None:
    """'array md0 runs with...' reports nothing: the first clause of a summary fits.

    On a host with a name of 15 characters, nvme0n1, md127 and a path of 30.
    """
    for name, notice in played(path):
        for told in mailed(notice):
            assert_whole(told, name)
        last = replace(
            notice, reason=Reason.DATA_UNAVAILABLE, summary=f"{LAST_KNOWN}{notice.summary}"
        )
        found = subject(last, HOST)
        assert len(found) <= WIDTH, found
        _, state, what = found.partition("UNAVAILABLE: ")
        assert state, found
        assert len(what) >= 24 or not what.endswith("..."), (name, found)


def test_subjects_of_shipped_alerts_are_those_that_were_read(golden: Golden) -> None:
    """Of the first mail about each alert, as the unit tests of its rule expect it."""
    lines = {
        f"{name}: {subject(notice, HOST)}\n"
        for path in sorted(UNITS.glob("*_test.yaml"))
        for name, notice in played(path)
    }
    golden(GOLDEN / "subjects.txt", "".join(sorted(lines)))


CONTROLLERS = {"megaraid": "megaraid c0", "areca": "areca c0", "3ware": "3ware c0"}


def test_no_subject_of_an_event_is_cut_before_what_happened() -> None:
    """Of each kind that is mailed, once and often. No event becomes DATA UNAVAILABLE."""
    count = 0
    for row in parse_events_file(EVENTS.read_text(), str(EVENTS)).rows.values():
        of_row = (row.severity, row.storm and row.storm.severity)
        severity = max((each for each in of_row if each is not None), default=Severity.INFO)
        if severity < Severity.WARNING:
            continue
        own = CONTROLLERS.get(row.kind.partition("_")[0], "nvme0n1 (ACME SSD, serial S1)")
        for times in ("", " (1234 times)"):
            count += 1
            told = replace(NOTICE, severity=severity, object=own, summary=f"{row.meaning}{times}")
            for notice in mailed(told):
                assert_whole(notice, row.kind)
    assert count > 500


@pytest.mark.parametrize(
    ("reason", "object_", "summary", "expected"),
    [
        (
            Reason.ESCALATED,
            "nvme0n1 (ACME SSD, serial S1)",
            "1 member of md127 missing; no redundancy left",
            "[WARNING] db1.example.com: nvme0n1: ESCALATED: 1 member of md127 missing",
        ),
        (
            Reason.OPENED,
            "md127",
            "1 member of md127 missing; no redundancy left",
            "[WARNING] db1.example.com: md127: 1 member missing; no redundancy left",
        ),
        (
            Reason.ESCALATED,
            "megaraid c0",
            "megaraid c0: the disk in enclosure 252 slot 3 has failed",
            "[WARNING] db1.example.com: megaraid c0: disk in slot 252:3 has failed",
        ),
        (
            Reason.ESCALATED,
            "host",
            "hp slot 0: the battery of this slot of the controller has lost its charge",
            "[WARNING] db1: hp slot 0: battery of this slot of controller has lost charge",
        ),
        (
            Reason.DATA_UNAVAILABLE,
            "/srv/wal",
            "last known: no new file in /srv/wal for 25 min 1 s, at most 5 min expected",
            "[WARNING] db1.example.com: /srv/wal: DATA UNAVAILABLE: no new file",
        ),
        (
            Reason.REOPENED,
            "sdg (ACME HDD)",
            "a member was left out of array md127",
            "[WARNING] db1.example.com: sdg: REOPENED: a member was left out of array md127",
        ),
        (
            Reason.DATA_UNAVAILABLE,
            "sde",
            "last known: the disk could not read 12 sectors in the last 10 minutes",
            "[WARNING] db1: sde: DATA UNAVAILABLE: the disk could not read 12 sectors",
        ),
        (
            Reason.ESCALATED,
            "sda and sdb (members of md0: sda ACME HDD S1; sdb ACME HDD S2)",
            "gone and md0 has no redundancy left",
            "[WARNING] db1: sda and sdb: ESCALATED: gone and md0 has no redundancy left",
        ),
        (
            Reason.ESCALATED,
            "sde (ACME VIRTUAL-DISK, serial right)",
            "gone and vg-data: 1 of 2 devices failed (leg 1: D); no redundancy left (dm-18)",
            "[WARNING] db1.example.com: sde: gone and vg-data: 1 of 2 devices failed",
        ),
        (
            Reason.ESCALATED,
            "3 of 8 members of md0 (sda ACME HDD S1; sdb ACME HDD S2; sdc ACME HDD S3)",
            "gone and md0 stopped",
            "[WARNING] db1: 3 of 8 members of md0: ESCALATED: gone and md0 stopped",
        ),
    ],
)
def test_a_subject_gives_up_its_state_before_what_happened(
    reason: Reason, object_: str, summary: str, expected: str
) -> None:
    """The severity shows that it escalated; the body has the rest."""
    told = replace(NOTICE, reason=reason, object=object_, summary=summary)
    assert subject(told, HOST) == expected


def test_the_subject_of_an_initial_report_always_gives_the_number_of_the_others() -> None:
    """It is longer than others where the first fault does not fit."""
    summary = "sda: the disk could not read or write sectors, and remapped none of them; 12 more"
    found = replace(NOTICE, reason=Reason.INITIAL, severity=Severity.CRITICAL, summary=summary)
    assert subject(found, HOST).endswith("; 12 more")
    assert subject(found, HOST).startswith("[CRITICAL] db1: INITIAL REPORT: sda: ")
    assert len(subject(found, HOST)) <= WIDE
    short = replace(found, summary="sda cannot read sectors; 2 more")
    assert subject(short, "db1") == (
        "[CRITICAL] db1: INITIAL REPORT: sda cannot read sectors; 2 more"
    )


@pytest.mark.parametrize(
    "fault",
    [
        "btrfs sda: the checksum of data or metadata is wrong",
        "c0: the same blocks are unreadable on two disks",
        "md0: an array without redundancy lost power during writes: data may be corrupted",
    ],
)
def test_the_subject_of_an_initial_report_keeps_object_and_fault(fault: str) -> None:
    """It is sent once, and nothing else in the list of mails says which one is how bad."""
    notice = replace(NOTICE, reason=Reason.INITIAL, object="host", summary=f"{fault}; 11 more")
    said = subject(notice, HOST)
    head, _, more = said.rpartition("; ")
    words = fault.split(": ")
    assert more == "11 more"
    assert words[0] in head
    assert words[1].split()[-1] in head
    assert "..." not in said


@pytest.mark.parametrize(
    ("device", "summary", "fault"),
    [
        ("expander-0:0", "4 of 8 disks: a request to the device failed (I/O error)", "failed"),
        ("vg-pool-tpool", "data of thin pool vg-pool-tpool: 85 % full", "85 % full"),
    ],
)
def test_a_subject_has_the_fault_and_not_only_what_it_is_of(
    device: str, summary: str, fault: str
) -> None:
    """'expander-0:0: 4 of 8 disks' fits, and says nothing."""
    told = subject(replace(NOTICE, object=device, summary=summary), "recorded-machine")
    assert fault in told
