"""Events as evidence lines of a mail: the first and the last event of each burst.

Units: seconds of the program's clock; evidence lines have Unix time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.events import controller_clock
from iowarden.rules.events.event_state import OWN, CorrelationState, EventGroup
from iowarden.rules.notice import Evidence
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.event import StorageEvent

MAX_SHOWN = 4
"""Bursts below warning severity that a mail shows as evidence."""
SET_SECONDS = 2.0
"""If a wall-clock time stamp and the program's clock differ by more, the wall clock was set."""


def evidence(
    state: CorrelationState,
    subjects: Iterable[str],
    since: float,
    realtime: float,
    ahead: float | None = None,
) -> tuple[Evidence, ...]:
    """Return the first and the last event of each burst of these subjects, in order of time.

    Events below warning are included. `since` is by the program's clock; events without a time get
    `realtime`. `ahead` is the wall clock minus the program's clock: time stamps from before the
    wall clock was set are converted to the present wall clock.
    """
    wanted = frozenset(subjects)
    bursts = [h for h in state.groups if h.subject in wanted and h.received_seconds >= since]
    bursts.sort(key=lambda h: (-h.severity, h.began_seconds))
    lesser = [h for h in bursts if h.severity < Severity.WARNING][:MAX_SHOWN]
    lines = [
        line
        for h in (*(h for h in bursts if h.severity >= Severity.WARNING), *lesser)
        for line in _lines(state, h, realtime, ahead)
    ]
    lines += [
        Evidence(
            realtime,
            "SMART",
            f"the SMART data of /dev/{h.device} are synthesised by its controller and do not show"
            f" the health of the disk; to query the disk itself: {h.smart}",
        )
        for h in bursts
        if h.smart and h.device
    ]
    return tuple(sorted(dict.fromkeys(lines), key=lambda line: line.realtime_seconds))


def _lines(
    state: CorrelationState, h: EventGroup, realtime: float, ahead: float | None
) -> list[Evidence]:
    first, last = (
        _by_clock(event, at, ahead)
        for event, at in ((h.burst.first, h.began_seconds), (h.burst.last, h.last_seconds))
    )
    lines = [_line(state, h, first, realtime, first=True)]
    if h.count > 1:
        if h.count > 2:
            at = lines[0].realtime_seconds
            more = f"... {h.count - 2} more of these"
            lines.append(Evidence(at, lines[0].source, more))
        lines.append(_line(state, h, last, realtime))
    return lines


def _by_clock(event: StorageEvent, at: float, ahead: float | None) -> StorageEvent:
    """Return an event with its time by the present wall clock, if that was set since."""
    stamp = event.realtime_seconds
    if ahead is None or stamp is None or event.source not in OWN:
        return event
    moved = abs(at + ahead - stamp) > SET_SECONDS
    return replace(event, realtime_seconds=at + ahead) if moved else event


def _line(
    state: CorrelationState,
    h: EventGroup,
    event: StorageEvent,
    realtime: float,
    *,
    first: bool = False,
) -> Evidence:
    source = event.controller if h.source not in OWN and event.controller else h.source
    at, text = event.realtime_seconds, event.text
    if h.source not in OWN:
        offset = controller_clock.current_offset(state.clocks, h.controller)
        told = "" if not first else f" ({controller_clock.describe(offset)})"
        text += told if offset.verified else " (time unverified)"
    return Evidence(realtime if at is None else at, source, text)
