"""Bursts of events as alerts that fire for the incidents, and what is not known of each.

Units: seconds of the program's clock.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.md import md_events
from iowarden.rules.advice.advice import PART
from iowarden.rules.alerting.alerts import Alert, State, Transition
from iowarden.rules.events import controller_clock, hung
from iowarden.rules.events.event_state import (
    AMID_SECONDS,
    DAY_SECONDS,
    KICKED,
    OWN,
    Happened,
    Happening,
    News,
)
from iowarden.rules.events.event_table import BLAME_SECONDS, WINDOW_SECONDS
from iowarden.rules.incidents.model import FIRST_SIGHT
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import ADAPTER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.event import Event
    from iowarden.rules.events.event_table import Row, Table

LOGGED_SECONDS = 360.0
"""By then a controller's log was read again."""
MATCH_SECONDS = 120.0
"""An error that both the kernel and a controller tell is told within that."""
_NO_ERROR = frozenset(md_events.KINDS) | {
    "md_disk_failure",
    "md_members",
    "md_degraded",
    "md_failed",
    "md_kicked",
    "md_sync_started",
    "md_sync_done",
    "md_sync_interrupted",
}
"""What happens to an array when a person fails its members one after the other, and rebuilds it."""
_UNPLACED = re.compile(
    rf"device (?:ata|nvme)[0-9.]+$|device [0-9]+:|{ADAPTER}(?!host[0-9])", re.ASCII
)
"""Keys of ports and adapters of which nobody knows whether the member hangs on them."""
SMART = (
    'iowarden_smart_attribute_raw{id=~"5|187|197|198"}'
    ' iowarden_smart_attribute_value{id=~"5|187|197|198"}'
    " iowarden_smart_passed iowarden_smart_scsi_grown_defects"
    " iowarden_smart_nvme_media_errors_total iowarden_smart_doubt"
)
"""What a mail about an event shows of the disk's own data."""


def alerts(
    state: Happened, table: Table, now: float, for_seconds: float = WINDOW_SECONDS
) -> list[Alert]:
    """Return every burst that is worth a mail as an alert that fires for so long after its last.

    So long an incident must be quiet as well, before it may be called over. What has an event for
    its end fires until that comes, for a day at most.
    """
    lasting = table.lasting

    def fires(h: Happening) -> bool:
        lasts = h.burst.kind in lasting and h.ended_seconds is None
        return now - h.heard_seconds <= (DAY_SECONDS if lasts else for_seconds)

    return [
        _alert(state, h, table.row(h.burst.kind), now)
        for h in state.happenings
        if h.severity >= Severity.WARNING and fires(h)
    ]


def lesser(state: Happened, news: Iterable[News]) -> list[Transition]:
    """Return what began that is no reason for a mail: it is told once a week."""
    found = []
    for each in news:
        h = each.happening
        if h is None or h.count > 1 or h.baseline or each.row.consequence:
            continue
        if each.severity < Severity.WARNING:
            alert = _alert(state, h, each.row, h.heard_seconds)
            over = replace(alert, state=State.RESOLVED)
            found += [Transition(alert, State.INACTIVE), Transition(over, State.FIRING)]
    return found


def _alert(state: Happened, h: Happening, row: Row, now: float) -> Alert:
    times = "" if h.count == 1 else f" ({h.count} times)"
    labels = {
        "alertname": row.kind,
        "condition": row.condition,
        "controller": h.controller,
        "device": h.device,
        "disk": h.disk,
        "severity": h.severity.name.lower(),
        "slot": h.slot,
        "source": h.source,
    }
    doubts = h.note, _failed_by_hand(state, h), _unseen(state, h), _unlogged(state, h, now)
    unknown = "; ".join(filter(None, doubts))
    meaning, task = hung.summary(h.burst.last.text) or (_told(h.burst.last) or row.meaning, "")
    annotations = {
        "summary": f"{meaning}{times}",
        "advice": row.advice,
        hung.TASK: task,
        "evidence": SMART if h.disk else "",
        "unknown": unknown,
        PART: h.burst.last.device.removeprefix("/dev/"),
        FIRST_SIGHT: "true" if h.baseline else "",
    }
    return Alert(
        name=row.kind,
        labels=tuple(sorted((name, text) for name, text in labels.items() if text)),
        state=State.FIRING,
        value=float(h.count),
        annotations=tuple((name, text) for name, text in annotations.items() if text),
        active_seconds=h.began_seconds,
        fired_seconds=h.began_seconds,
        subject=h.subject,
        object=h.object,
        adapter=h.adapter,
        count=h.count,
        last_seconds=h.last_seconds,
        missed_seconds=h.ended_seconds,
    )


_SENT = re.compile(r".*?(?:/\w+\) - |\(0x\w+:0x\w+\): ?)(?P<words>\S.*)", re.ASCII)
"""What an adapter's driver prints of an event of its firmware: megaraid_sas, 3w-9xxx and 3w-sas."""


def _told(event: Event) -> str:
    """Return what an event itself tells better than its row, else ''.

    That is what a controller says that its driver only passes on, and which array is meant.
    """
    if event.kind == "md_disk_failure" and event.device and event.place:
        return f"array {event.place} gave up its member {event.device}"
    if event.kind == KICKED and event.device and event.place:
        return f"array {event.place} was put together without its member {event.device}"
    found = _SENT.fullmatch(event.text) if event.kind == "hba_aen" else None
    return "" if found is None else found["words"]


def _failed_by_hand(state: Happened, h: Happening) -> str:
    """Return a sentence when nothing was wrong with a member that an array gave up, else ''.

    A person's 'mdadm --fail' looks the same in the kernel's log; what it has not is an error before
    it: of the member, its adapter or its array, or one that names nothing. That lines were lost, or
    are of a port or an adapter that is not known by now, is no proof.
    """
    if h.burst.kind != "md_disk_failure":
        return ""
    own = {"", h.subject, f"device {h.burst.last.place}", f"{ADAPTER}{h.adapter}"}
    first, last = h.began_seconds - BLAME_SECONDS, h.last_seconds + AMID_SECONDS
    for each in state.happenings:
        about = each.subject in own or _UNPLACED.match(each.subject)
        near = first <= each.last_seconds and each.began_seconds <= last
        if about and near and each.burst.kind not in _NO_ERROR:
            return ""
    member = h.burst.last.device or "that member"
    return (
        f"Nothing in the kernel's log tells of an error of {member} in the"
        f" {BLAME_SECONDS / 60:.0f} minutes before: somebody may have failed it by command"
        " (mdadm --fail)."
    )


def _unseen(state: Happened, h: Happening) -> str:
    """Return what the kernel did not see of a disk's error, and how sure the time is."""
    if h.source in OWN:
        return ""
    offset = controller_clock.known(state.clocks, h.controller)
    if not offset.verified:
        when = f"when exactly it was: of {h.controller}, {controller_clock.told(offset)}"
        return f"{when}; {_unread('at all')}" if h.slot and not any(state.errors.values()) else when
    at = h.burst.last.realtime_seconds
    if not h.slot or at is None:
        return ""
    if any(abs(at - each) <= MATCH_SECONDS for times in state.errors.values() for each in times):
        return ""
    return _unread(f"within {MATCH_SECONDS:.0f} s")


def _unread(when: str) -> str:
    return (
        f"whether data are lost: the kernel saw no error {when}, so the controller recovered from"
        " it, or masks it"
    )


def _unlogged(state: Happened, h: Happening, now: float) -> str:
    """Return that a controller whose log is read does not tell of a disk's error (J4)."""
    if h.source != "kernel" or h.controller not in state.clocks:
        return ""
    told = any(
        each.source not in OWN
        and each.controller == h.controller
        and now - each.heard_seconds <= WINDOW_SECONDS
        for each in state.happenings
    )
    if told or now - h.began_seconds < LOGGED_SECONDS:
        return ""
    return f"why the log of {h.controller} has no error of these minutes; compare its clock"
