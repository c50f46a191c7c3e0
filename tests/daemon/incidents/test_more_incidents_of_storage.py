"""Incidents that were made for a review, each with what is wanted written before it was played.

What happens and what is wanted: tests/support/storage_incidents.py, storage_reviews.py.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import pytest
from support.live import text, watched
from support.storage_incidents import INCIDENTS, WITHOUT_LOG, FakeMachine, Wanted
from support.storage_reviews import REVIEWS, REVIEWS_WITHOUT_LOG

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

    from support.storage_incidents import Scenario

ORDER = ("NOTICE", "WARNING", "CRITICAL")
OVER = ("[OK]", "[RESOLVED]")
LOOKS_SECONDS, TOGETHER_SECONDS = 2.0, 4.0
"""That the test itself lets pass around the fault; that a first mail about several faults waits, in
its steps."""


def mailed(tmp_path: Path, story: Scenario, *, log: bool) -> tuple[FakeMachine, list[EmailMessage]]:
    """Play an incident; return the machine and its mails."""
    machine = FakeMachine(tmp_path, log=log)
    steps = story(machine)
    found: list[EmailMessage] = []
    quiet = next(steps)
    with watched(tmp_path, machine, settings="smart: {interval: 1m}\n") as host:
        machine.host = host
        assert not callable(quiet)
        found += host.wait(quiet)
        for step in steps:
            if callable(step):
                step(host)
            else:
                found += host.wait(step)
    return machine, found


def judged(machine: FakeMachine, mails: list[EmailMessage], wanted: Wanted) -> list[str]:
    """Return what is not as it was wanted."""
    subjects = [str(mail["Subject"]) for mail in mails]
    over = [s for s in subjects if s.startswith(OVER)]
    news = [mail for mail in mails if not str(mail["Subject"]).startswith(OVER)]
    threads = {mail["X-Iowarden-Incident"] for mail in news}
    # It is also said what not to do.
    said = " ".join(text(mail) for mail in mails).replace("('mdadm --create')", "")
    wrong = []
    if len(threads) != wanted.threads:
        wrong.append(f"threads: {len(threads)}")
    worst = max((n for n, w in enumerate(ORDER) for s in subjects if f"[{w}" in s), default=-1)
    if (ORDER[worst] if worst >= 0 else "") != wanted.severity:
        wrong.append(f"severity: {ORDER[worst] if worst >= 0 else 'none'}")
    wrong += [f"subject: no {w!r}" for w in wanted.subject if not any(w in s for s in subjects)]
    if news:
        at = parsedate_to_datetime(str(news[0]["Date"])).timestamp() - machine.fault_wall
        if not -1 <= at <= wanted.within + LOOKS_SECONDS + TOGETHER_SECONDS:
            wrong.append(f"first mail after {at:.0f} s")
    if len(news) > wanted.most:
        wrong.append(f"mails: {len(news)}")
    wrong += [f"says no {w!r}" for w in wanted.says if w not in said]
    wrong += [f"says {w!r}" for w in wanted.never if w in said or any(w in s for s in subjects)]
    if wanted.over is not None and len(over) != (wanted.threads if wanted.over else 0):
        wrong.append(f"over: {len(over)}")
    return wrong and [*wrong, *subjects]


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_is_reported_as_wanted(tmp_path: Path, name: str) -> None:
    """With the kernel's log."""
    story, wanted = INCIDENTS[name]
    assert judged(*mailed(tmp_path, story, log=True), wanted) == []


@pytest.mark.parametrize("name", WITHOUT_LOG)
def test_an_incident_is_reported_without_the_kernels_log(tmp_path: Path, name: str) -> None:
    """What only the log can say is not known; nothing else is worse."""
    story, _ = INCIDENTS[name]
    assert judged(*mailed(tmp_path, story, log=False), WITHOUT_LOG[name]) == []


@pytest.mark.parametrize("name", REVIEWS)
def test_what_a_second_review_made_is_reported_as_wanted(tmp_path: Path, name: str) -> None:
    """With the kernel's log."""
    story, wanted = REVIEWS[name]
    assert judged(*mailed(tmp_path, story, log=True), wanted) == []


@pytest.mark.parametrize("name", REVIEWS_WITHOUT_LOG)
def test_what_a_second_review_made_is_reported_without_the_log(tmp_path: Path, name: str) -> None:
    """What the disks, arrays and file systems count is enough."""
    story, _ = REVIEWS[name]
    assert judged(*mailed(tmp_path, story, log=False), REVIEWS_WITHOUT_LOG[name]) == []
