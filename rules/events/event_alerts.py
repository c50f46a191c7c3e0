"""Turn bursts of events into firing alerts for the incidents, with a note of what is unknown.

Units: seconds of the program's clock.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.kernel import oom_kill
from iowarden.collectors.kmsg import kernel_btrfs
from iowarden.collectors.kmsg.kernel_kinds import UNRECOGNIZED
from iowarden.collectors.md import md_events
from iowarden.collectors.procfs.process_io import unit_of_group
from iowarden.collectors.quantity import duration, size
from iowarden.rules.advice.advice import PART
from iowarden.rules.alerting.alerts import Alert, AlertState, Transition
from iowarden.rules.events import controller_clock, hung
from iowarden.rules.events.event_state import (
    AMID_SECONDS,
    DAY_SECONDS,
    KICKED,
    OWN,
    CorrelationState,
    EventGroup,
    EventUpdate,
)
from iowarden.rules.events.event_table import BLAME_SECONDS, WINDOW_SECONDS
from iowarden.rules.incidents.model import BASELINE
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import ADAPTER
from iowarden.rules.topology.stack import FILE_SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.event import StorageEvent
    from iowarden.rules.events.event_table import EventRule, EventTable

LOGGED_SECONDS = 360.0
"""After this time the controller's log has been polled again."""
MATCH_SECONDS = 120.0
"""The kernel and a controller report the same error within this time."""
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
"""Events of an array whose members a person fails one after the other and rebuilds: no errors."""
_UNPLACED = re.compile(
    rf"device (?:ata|nvme)[0-9.]+$|device [0-9]+:|{ADAPTER}(?!host[0-9])", re.ASCII
)
"""Keys of ports and adapters that the array member may or may not be connected to."""
SMART = (
    'iowarden_smart_attribute_raw{id=~"5|187|197|198"}'
    ' iowarden_smart_attribute_value{id=~"5|187|197|198"}'
    " iowarden_smart_passed iowarden_smart_scsi_grown_defects"
    " iowarden_smart_nvme_media_errors_total iowarden_smart_implausible"
)
"""SMART series that a mail about an event of a disk shows as evidence."""


def alerts(
    state: CorrelationState, table: EventTable, now: float, for_seconds: float = WINDOW_SECONDS
) -> list[Alert]:
    """Return each burst of at least warning severity as an alert, unless its class is disabled.

    It fires until `for_seconds` after its last event: an incident resolves only after this time
    without events. If another event ends it, it fires until that event, for a day at most.
    """
    lasting = table.lasting

    def fires(h: EventGroup) -> bool:
        lasts = h.burst.kind in lasting and h.ended_seconds is None
        return now - h.received_seconds <= (DAY_SECONDS if lasts else for_seconds)

    return [
        _alert(state, h, row, now)
        for h in state.groups
        if (row := table.row(h.burst.kind)).enabled
        and _severity(h, row) >= Severity.WARNING
        and fires(h)
    ]


def _severity(h: EventGroup, row: EventRule) -> Severity:
    """Return the severity of a burst's alert: an override that lowers it holds at once."""
    return h.severity if row.severity_here is None else min(h.severity, row.severity_here)


def unchanged_until(state: CorrelationState, now: float, for_seconds: float) -> float:
    """Return until when `alerts` has the same result for this state: where one of its limits is."""
    limits = {for_seconds, DAY_SECONDS, WINDOW_SECONDS}
    ends = (h.received_seconds + limit for h in state.groups for limit in limits)
    logged = (h.began_seconds + LOGGED_SECONDS for h in state.groups)
    return min((at for at in (*ends, *logged) if at >= now), default=math.inf)


def below_warning(state: CorrelationState, updates: Iterable[EventUpdate]) -> list[Transition]:
    """Return bursts below warning that began now: no mail of their own, only the weekly digest."""
    found = []
    for each in updates:
        h = each.group
        if h is None or h.count > 1 or h.baseline or each.row.consequence or not each.row.enabled:
            continue
        if each.severity < Severity.WARNING:
            alert = _alert(state, h, each.row, h.received_seconds)
            over = replace(alert, state=AlertState.RESOLVED)
            found += [Transition(alert, AlertState.INACTIVE), Transition(over, AlertState.FIRING)]
    return found


def _alert(state: CorrelationState, h: EventGroup, row: EventRule, now: float) -> Alert:
    row = row.on(h.device)
    times = "" if h.count == 1 else f" ({h.count} times)"
    if h.is_mixed:
        times = f" (the last of {h.count} such lines)"
    labels = {
        "alertname": row.kind,
        "condition": row.condition,
        "controller": h.controller,
        "device": h.device,
        "disk": h.disk,
        "severity": _severity(h, row).name.lower(),
        "slot": h.slot,
        "source": h.source,
    }
    doubts = (
        h.note,
        _unlogged_kill(h),
        _unnamed_disk(h),
        _failed_by_hand(state, h),
        _unseen(state, h),
        _unlogged(state, h, now),
    )
    unknown = "; ".join(filter(None, doubts))
    meaning, task = hung.summary(h.burst.last.text) or (
        _event_text(h.burst.last) or row.meaning,
        "",
    )
    if row.kind == hung.OWN_EVENT:
        meaning = f"iowarden itself: {meaning}"
    annotations = {
        "summary": f"{meaning}{times}",
        "description": row.effect,
        "advice": row.advice,
        hung.TASK: task,
        "evidence": SMART if h.disk else "",
        "unknown": unknown,
        PART: h.burst.last.device.removeprefix("/dev/"),
        BASELINE: "true" if h.baseline else "",
    }
    return Alert(
        name=row.kind,
        labels=tuple(sorted((name, text) for name, text in labels.items() if text)),
        state=AlertState.FIRING,
        value=float(h.count),
        annotations=tuple((name, text) for name, text in annotations.items() if text),
        active_seconds=h.began_seconds,
        fired_seconds=h.began_seconds,
        subject=h.subject,
        object=h.object,
        adapter=h.adapter,
        count=h.count,
        last_seconds=h.last_seconds,
        absent_seconds=h.ended_seconds,
    )


MAX_LINE = 200
"""Characters of a kernel line in a summary."""
_FIRST_DEVICE = "the line names the file system by one of its devices"
_COPY = re.compile(r"\bmirror (?P<number>\d{1,3})\b", re.ASCII)
_SENT = re.compile(r".*?(?:/\w+\) - |\(0x\w+:0x\w+\): ?)(?P<words>\S.*)", re.ASCII)
"""Kernel line of a firmware event, by the drivers megaraid_sas, 3w-9xxx and 3w-sas."""
_REMOVALS = frozenset({"hba_device_removed", "hba_disk_lost"})
_REMOVED = re.compile(
    r"(?:\b(?:sas_addr|wwid)[ (]0x|: removed \d+:\d+:\S+ )(?P<address>[0-9a-f]{16})\b",
    re.ASCII,
)
"""Kernel line of a lost device: mpt3sas, mpt2sas, mptsas, mpi3mr (wwid), smartpqi."""


def _event_text(event: StorageEvent) -> str:
    """Return a summary from the event itself where it is more precise than its row's, else ''.

    It is the text of a controller's event that the driver passes on, array and member, or the
    address of a lost device; or the line itself, if it is not recognized.
    """
    if event.kind in UNRECOGNIZED:
        return f"unrecognized kernel line from {event.code}: {event.text[:MAX_LINE]}"
    if event.kind == "md_disk_failure" and event.device and event.place:
        return f"array {event.place} marked its member {event.device} as faulty"
    if event.kind == KICKED and event.device and event.place:
        return f"array {event.place} was assembled without its member {event.device}"
    if event.source == oom_kill.COUNTED:
        return event.text
    if event.kind in oom_kill.KINDS and event.code:
        return _killed(event)
    if event.kind in _REMOVALS and (removed := _REMOVED.search(event.text)):
        return f"a host adapter lost the device with the address 0x{removed['address']}"
    found = _SENT.fullmatch(event.text) if event.kind == "hba_aen" else None
    return "" if found is None else found["words"]


def _killed(event: StorageEvent) -> str:
    """Return which program the kernel killed, and at which limit of a control group."""
    pid, _, name = event.code.partition(" ")
    killed = f"the kernel killed {name[1:-1]} (pid {pid})"
    if event.kind != oom_kill.GROUP_KILL:
        return f"{killed} for lack of memory"
    at_limit = oom_kill.group_at_limit(event.place)
    if at_limit is None:
        return f"{killed} at the memory limit of its control group"
    limit = (
        f"{at_limit.file} ({size(at_limit.limit_bytes)})" if at_limit.file else "the memory limit"
    )
    return f"{killed} at {limit} of {unit_of_group(at_limit.group)}"


def _unlogged_kill(h: EventGroup) -> str:
    """Return that only a counter shows a kill, else ''."""
    if h.source != oom_kill.COUNTED:
        return ""
    return (
        "which program was killed: only the kernel's counter shows it (oom_kill in /proc/vmstat);"
        " its log cannot be read, or lost the line"
    )


def _failed_by_hand(state: CorrelationState, h: EventGroup) -> str:
    """Return a sentence if a member became faulty without a preceding error, else ''.

    'mdadm --fail' looks the same in the kernel log, but no error precedes it: of the member, its
    adapter or its array, or of an unnamed device. Lost log lines, and errors of a port or adapter
    that cannot be located, count as possible errors.
    """
    if h.burst.kind != "md_disk_failure":
        return ""
    own = {"", h.subject, f"device {h.burst.last.place}", f"{ADAPTER}{h.adapter}"}
    first, last = h.began_seconds - BLAME_SECONDS, h.last_seconds + AMID_SECONDS
    for each in state.groups:
        about = each.subject in own or _UNPLACED.match(each.subject)
        near = first <= each.last_seconds and each.began_seconds <= last
        if about and near and each.burst.kind not in _NO_ERROR:
            return ""
    member = h.burst.last.device or "that member"
    return (
        f"The kernel log has no error of {member} in the {duration(BLAME_SECONDS)} before:"
        " it may have been failed by command (mdadm --fail)."
    )


def _unnamed_disk(h: EventGroup) -> str:
    """Return that a btrfs line does not name the disk at fault, if the object is a file system."""
    several = h.subject.startswith(FILE_SYSTEM) and not h.device
    if not several or not kernel_btrfs.file_system(h.burst.last.place):
        return ""
    copy = _COPY.search(h.burst.last.text)
    if copy is None:
        return f"which of its disks is at fault: {_FIRST_DEVICE}"
    return (
        f"which of its disks is at fault: {_FIRST_DEVICE}, and mirror {copy['number']} is the"
        " number of a copy of that block, not of a disk"
    )


def _unseen(state: CorrelationState, h: EventGroup) -> str:
    """Return what is unknown of a controller's event: its exact time, and whether data are lost."""
    if h.source in OWN:
        return ""
    offset = controller_clock.current_offset(state.clocks, h.controller)
    if not offset.verified:
        clock = controller_clock.describe(offset, f"the clock of {h.controller}")
        when = f"the exact time of the event: {clock}"
        return (
            f"{when}; {_log_not_read('at all')}"
            if h.slot and not any(state.errors.values())
            else when
        )
    at = h.burst.last.realtime_seconds
    if not h.slot or at is None:
        return ""
    if any(abs(at - each) <= MATCH_SECONDS for times in state.errors.values() for each in times):
        return ""
    return _log_not_read(f"within {duration(MATCH_SECONDS)}")


def _log_not_read(when: str) -> str:
    return (
        f"whether data are lost: the kernel logged no error {when}, so the controller recovered"
        " from the error, or hides it"
    )


def _unlogged(state: CorrelationState, h: EventGroup, now: float) -> str:
    """Return that the controller's log has no entry for a disk error of the kernel log, else ''."""
    if h.source != "kernel" or h.controller not in state.clocks:
        return ""
    told = any(
        each.source not in OWN
        and each.controller == h.controller
        and now - each.received_seconds <= WINDOW_SECONDS
        for each in state.groups
    )
    if told or now - h.began_seconds < LOGGED_SECONDS:
        return ""
    return f"why the log of {h.controller} has no error at this time; compare its clock"
