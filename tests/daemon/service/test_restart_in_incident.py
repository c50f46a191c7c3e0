"""A package upgrade, or needrestart, restarts the service in the middle of an incident."""

from __future__ import annotations

import email
import email.policy
import os
import queue
import random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.program import Feed, Played, recorded, then_idle
from support.smtp import Answers, smtp_server

from iowarden.daemon.terminal import exit_status
from iowarden.rules.incidents.mailing import REPLACED_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from support.smtp import Received

QUIET_SECONDS = 700.0
"""A little more than ten minutes without the stall: then the 'resolved' mail is sent."""
MAX_OUTAGE_SECONDS = 5
MOMENTS = int(os.environ.get("MOMENTS", "20"))
"""How many are tried, about 2.5 s of processor time each."""


class Incident(NamedTuple):
    """A recorded incident: when it is upgraded, and what is mailed about it."""

    recording: str
    first: int
    last: int
    """Frames: before the alert is pending, and a while after the incident has ended."""
    recorded: int
    """Frames of a second each; after them every four seconds."""
    mailed: int
    """The frame of the first mail."""
    mails: tuple[str, ...]


STALL = Incident("write-stall", 20, 150, 100, 93, ("[WARNING]", "[OK]"))
HANG = Incident("hung-disk", 35, 140, 120, 54, ("[WARNING]", "[CRITICAL]", "[OK]"))


def subjects(received: list[Received]) -> list[tuple[str, str]]:
    """Return severity and thread of each mail, as they were sent: two connections deliver them."""
    mails = [email.message_from_bytes(each.data, policy=email.policy.default) for each in received]
    mails.sort(key=lambda mail: int(str(mail["Message-ID"]).partition("@")[0].rpartition(".")[2]))
    threads = [str(mail["References"] or mail["Message-ID"]).split()[0] for mail in mails]
    return [
        (str(mail["Subject"]).split()[0], thread)
        for mail, thread in zip(mails, threads, strict=True)
    ]


def upgraded_at(
    incident: Incident, moment: int, outage: int, directory: Path, *, is_deferred: bool
) -> bool:
    """Stop the service at a frame as systemd does, start it later; judge all its mails.

    Return whether the silence is in force after it.

    `is_deferred`: the mail server accepts nothing before the restart; what has waited for a minute
    may be replaced by the newest state.
    """
    steps = then_idle(recorded(incident.recording), QUIET_SECONDS, 4.0)
    feed = Feed(steps, directory / "feed")
    answers = Answers(message="451 4.3.0 try later") if is_deferred else Answers()
    after = moment + outage + 1
    where = f"upgraded at frame {moment}, {outage} frames without it"
    with smtp_server(answers) as (port, _):
        program = Played(directory, feed, smtp_port=port)
        program.start()
        try:
            feed.give(10)
            # Before its first frame a player's clock stands at 0: two hours later is long past.
            program.caught_up()
            added = program.command(
                *"silence add --for 2h --reason swap device=sdz".split(),
            )
            assert added.returncode == exit_status.UNMATCHED, added.stderr
            feed.give(moment - 10)
            program.caught_up()
            assert program.end() == 0
            # Nobody reads the frames of the outage.
            feed.give(outage)
            answers.message = "250 OK: queued"
            program.feed = feed.resumed(directory / "resumed")
            program.start()
            # On a busy machine the state is read after the first frame, and restored with the next.
            program.until(lambda: program._running()._is_known(), f"the state: {where}")
            program.feed.give(1)
            program.caught_up()
            silences = program.command("silence", "list").stdout
            program.feed.give()
            program.caught_up()
            assert program.sent(), where
        finally:
            program.close()
    mails = []
    while True:
        try:
            mails.append(answers.mails.get_nowait())
        except queue.Empty:
            break
    found = subjects(mails)
    severities = tuple(severity for severity, _ in found)
    first, restarted = (steps[frame].frame.monotonic_seconds for frame in (incident.mailed, after))
    is_replaced = is_deferred and restarted - first >= REPLACED_SECONDS
    expected = incident.mails[-len(found) :] if is_replaced else incident.mails
    assert severities == expected, f"{where}: {found}"
    assert len({thread for _, thread in found}) == 1, where
    return "swap" in silences


@pytest.mark.system
@pytest.mark.parametrize("incident", [STALL, HANG], ids=lambda each: each.recording)
def test_an_upgrade_at_any_moment_of_an_incident_repeats_and_loses_no_mail(
    incident: Incident, tmp_path: Path
) -> None:
    """Each mail once, all of one thread; the mail server may be down before the restart."""
    chance = random.Random(20)
    moments = range(incident.first, incident.last)
    lost = []
    for number, moment in enumerate(sorted(chance.choices(moments, k=MOMENTS))):
        directory = tmp_path / str(number)
        directory.mkdir()
        outage = chance.randint(1, MAX_OUTAGE_SECONDS) if moment < incident.recorded else 1
        is_deferred = chance.random() < 1 / 3
        if not upgraded_at(incident, moment, outage, directory, is_deferred=is_deferred):
            lost.append(moment)
    assert lost == []
