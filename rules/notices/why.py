"""Why: what a mail's problem means, and the evidence of it. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.incidents.causes import meaning
from iowarden.rules.notice import Evidence, Reason
from iowarden.rules.notices import waiting
from iowarden.rules.notices.mail import WAITS, distinct
from iowarden.rules.notices.measurements import MEASURED, is_metric, measurements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.tasks import BlockedTasks
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.incidents.model import IncidentMember
    from iowarden.rules.notices.mail import Mail
    from iowarden.rules.notices.what_to_do import Advice

SET_SECONDS = 2.0
"""The wall clock was set if it differs by so much from the program's clock."""
MAX_EVIDENCE = 24
"""Lines of evidence in one mail; with 480 disks the first lines must stay visible."""
OTHER_WAIT_SECONDS = 120.0
"""Freezes of one incident follow each other: after so long the stacks are those of another one."""
_UNAVAILABLE = (
    "It is not known whether this still holds: its data source can no longer be read, so that no"
    " alert about it ends or begins."
)


def meaning_of(mail: Mail, advice: Advice) -> tuple[str, ...]:
    """Return what the problem means; where no text is new that of the first alert that is active.

    Who reads the second mail may not have the first.
    """
    descriptions = distinct(text.description.strip() for text in advice.texts)
    if not descriptions and mail.reason is not Reason.RESOLVED:
        active = (m for m in advice.valid if m.cleared_seconds is None)
        descriptions = distinct(mail.sources.text_of(m).description.strip() for m in active)[:1]
    is_unavailable = mail.reason is Reason.DATA_UNAVAILABLE and bool(mail.written)
    return (_UNAVAILABLE, *descriptions) if is_unavailable else descriptions


def evidence_of(mail: Mail) -> Iterator[Evidence]:
    """Yield the measured values, then log lines and other evidence in order of time."""
    incident, sources = mail.incident, mail.sources
    stored = [
        _by_clock(line, sources.realtime(m.joined_seconds))
        for m in mail.members
        for line in m.evidence
        if m.cleared_seconds is None or mail.is_first or (mail.is_end and is_metric(line))
    ]
    realtime_seconds = sources.realtime(sources.now)
    if sources.tasks is not None and sources.tasks.tasks and not mail.is_end:
        stored = [line for line in stored if not _is_of_an_earlier_wait(line, realtime_seconds)]
    values, lines = measurements(
        sources.measured, stored, incident.object, incident.severity, realtime_seconds
    )
    present = [*lines[: MAX_EVIDENCE // 2], *_waiting_now(mail, stored), *sources.current]
    yield from values[:MAX_EVIDENCE]
    yield from _in_order(
        _alone(line, incident.object)
        for line in present
        if not mail.is_end or line.source != MEASURED
    )


def _waiting_now(mail: Mail, stored: Iterable[Evidence]) -> Iterator[Evidence]:
    """Yield which tasks wait now, if that was not noted when an alert began."""
    sources = mail.sources
    if _stalls(mail.members) and not any(line.source == waiting.TASKS for line in stored):
        realtime_seconds = sources.realtime(sources.now)
        yield from waiting.evidence(sources.tasks, sources.busy, sources.topology, realtime_seconds)


def _is_of_an_earlier_wait(line: Evidence, realtime_seconds: float) -> bool:
    """Whether a line shows who waited when an alert began, and it is others who wait now."""
    is_old = realtime_seconds - line.realtime_seconds > OTHER_WAIT_SECONDS
    return is_old and line.source in {waiting.TASKS, waiting.DISKSTATS}


def _stalls(members: Sequence[IncidentMember]) -> bool:
    """Whether tasks wait because of an active alert."""
    return any(member.cleared_seconds is None and member.what.fault in WAITS for member in members)


def observed(
    alert: Alert,
    tasks: BlockedTasks | None,
    busy: Sequence[str],
    topology: Topology | None,
    realtime_seconds: float,
) -> tuple[Evidence, ...]:
    """Return the waiting tasks when an alert begins to fire: later they may be others."""
    if meaning(alert).fault not in WAITS:
        return ()
    return tuple(waiting.evidence(tasks, busy, topology, realtime_seconds))


def _by_clock(line: Evidence, realtime_seconds: float) -> Evidence:
    """Return a line with its time corrected, if the wall clock was set since."""
    moved = abs(line.realtime_seconds - realtime_seconds) > SET_SECONDS
    return replace(line, realtime_seconds=realtime_seconds) if moved else line


def _alone(line: Evidence, object_: str) -> Evidence:
    """Return the line about requests in flight so that it does not repeat the mail's object."""
    if line.source != waiting.DISKSTATS or line.text != f"{waiting.IN_FLIGHT}{object_}":
        return line
    return replace(line, text="no other disk had requests in flight")


def _in_order(lines: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Return the first lines, in order of time."""
    first: dict[tuple[str, str], Evidence] = {}
    for line in lines:
        # Which disks have requests in flight is said once; a log's line may come again.
        at = 0.0 if line.source == waiting.DISKSTATS else line.realtime_seconds
        first.setdefault((line.source, f"{at} {line.text}"), line)
    return tuple(sorted(list(first.values())[:MAX_EVIDENCE], key=lambda e: e.realtime_seconds))
