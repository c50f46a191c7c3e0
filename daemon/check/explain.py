"""`iowarden explain`: objects, events and alerts in the output of a storage tool or the kernel.

The text is treated as a machine of its own: its objects are the readings of that machine's
collectors, its events those of its logs, and the daemon's own engine evaluates the shipped rules on
them. Nothing is read from the machine that runs the command.

Format of `--json`; later versions only add fields:

    {"kind": "mdstat", "outputs": ["/proc/mdstat"], "status": 1, "summary": "explain: ...",
     "objects": [{"type": "array", "name": "md0", "parent": "", "state": "degraded",
                  "vendor_state": "active",
                  "details": {"level": "raid1", "disks": 2, "missing": 1}, "counts": {}}],
     "events": [{"line": 3, "class": "block_medium_error", "meaning": "...", "severity": "warning",
                 "device": "sdb", "controller": "", "place": "", "sector": 8, "sectors": null,
                 "block": null, "blocks": null, "seconds": 12.5, "text": "..."}],
     "events_left_out": 0,
     "alerts": [{"severity": "critical", "state": "firing", "alert": "MdDegraded",
                 "object": "md0", "text": "...", "advice": "..."}],
     "unparsed": [{"line": 7, "text": "...", "reason": "...", "fault": false}]}

`state` is one of ok, busy, rebuilding, degraded, failing, failed, absent, attention, unknown;
`vendor_state` is the tool's own term. `severity` of an event is critical, warning, notice, info or
noise. What the text does not contain is '' or null, or missing in `details` and `counts`. `fault`
is true for an unparsed line that indicates a fault, or contradicts another.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.kmsg import kernel_kinds
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.raid.controller import ComponentHealth, Controllers
from iowarden.collectors.registry import SOURCES
from iowarden.collectors.smart.drive import AccessMethod, Disk, Disks, PollResult, ReadStatus
from iowarden.daemon import sanitize
from iowarden.daemon.check import findings
from iowarden.daemon.check.report import count
from iowarden.rules.advice import facts, last_copies
from iowarden.rules.advice.advice import advice_of, combined
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.engine.engine import Engine
from iowarden.rules.events import (
    btrfs_repairs,
    event_alerts,
    event_correlation,
    event_state,
)
from iowarden.rules.severity import Severity
from iowarden.rules.signals.smart import smart_counts
from iowarden.rules.signals.smart.smart import HOT_SECONDS
from iowarden.rules.signals.smart.smart_health import is_minor_or_test

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.parsed_text import (
        Finding,
        LocatedEvent,
        Parsed,
        UnparsedLine,
    )
    from iowarden.collectors.raid.controller import ComponentState as ControllerState
    from iowarden.collectors.raid.controller import Controller
    from iowarden.collectors.smart.drive import Drive
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.events.event_table import EventRule, EventTable
    from iowarden.rules.rulefile.rulefile import RuleGroup
    from iowarden.rules.topology.slot_map import DeviceMap

NOTHING_WRONG, WRONG, NOT_UNDERSTOOD = 0, 1, 2
"""Exit status."""
MAX_EVENTS = 10_000
"""Number of events that are listed; the rest are counted. All are evaluated."""
SNAPSHOTS = 3
"""Number of evaluations, one second apart, of the same unchanged data."""
_NOW = 4_000_000_000.0
"""Simulated time, in the year 2096: a text has no time of reading, and it must be later than the
manufacturing date of any drive in it."""
_NOISE = "noise"
_WELL = frozenset(
    {ComponentHealth.OK.value, ComponentHealth.BUSY.value, ComponentHealth.ABSENT.value}
)
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Object:
    """An object in a text. `parent` is the controller or array that it belongs to."""

    type: str
    name: str
    parent: str
    state: str
    vendor_state: str = ""
    details: Mapping[str, str | float] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExplainedEvent:
    """An event with its meaning and severity. Units as in collectors.event.StorageEvent."""

    line: int | None
    kind: str
    meaning: str
    severity: str
    device: str
    controller: str
    place: str
    sector: int | None
    sectors: int | None
    block: int | None
    blocks: int | None
    seconds: float | None
    text: str

    @property
    def object(self) -> str:
        """The device, or the controller and place, that the event is about."""
        return self.device or " ".join(filter(None, (self.controller, self.place))) or "-"


@dataclass(frozen=True, slots=True)
class ExplainedAlert:
    """An alert that fires, or is pending: it would fire if the condition lasts long enough."""

    severity: str
    state: str
    alert: str
    object: str
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of `iowarden explain`."""

    kind: str
    outputs: tuple[str, ...]
    objects: tuple[Object, ...]
    events: tuple[ExplainedEvent, ...]
    events_left_out: int
    alerts: tuple[ExplainedAlert, ...]
    unparsed: tuple[UnparsedLine, ...]
    worst: Severity | None
    """Highest severity of the events and alerts that count; None: there are none."""
    lines_read: int = 0
    lines_other: int = 0
    events_over: int = 0
    """Events that a later line of the text ends: a path that was reinstated."""

    @property
    def status(self) -> int:
        """Return the exit status: WRONG takes precedence over NOT_UNDERSTOOD."""
        bad = any(each.state not in {*_WELL, _UNKNOWN} for each in self.objects)
        bad = bad or any(each.fault for each in self.unparsed)
        if bad or (self.worst is not None and self.worst >= Severity.NOTICE):
            return WRONG
        if self.unparsed or not self.outputs or self._is_asleep():
            return NOT_UNDERSTOOD
        return NOTHING_WRONG

    def _is_asleep(self) -> bool:
        """Whether a drive was not checked because it slept."""
        return any(each.vendor_state == ReadStatus.ASLEEP for each in self.objects)

    def summary(self) -> str:
        """Return the last line."""
        alerts = Counter(each.severity for each in self.alerts)
        words = [f"{count(n, f'{severity} alert')}" for severity, n in alerts.items()]
        shown = len(self.events) + self.events_left_out
        over = f", {self.events_over} of them over" if self.events_over else ""
        words += [f"{count(shown, 'event')}{over}"] if shown else []
        missing = sum(each.missing for each in self.unparsed)
        unread = len(self.unparsed) - missing
        words += [f"{n} {what}" for n, what in ((unread, "not parsed"), (missing, "missing")) if n]
        verdict = {
            WRONG: "something is wrong",
            NOT_UNDERSTOOD: "part of the text could not be parsed"
            if unread or not self.outputs
            else "not everything was checked",
            NOTHING_WRONG: "nothing wrong",
        }[self.status]
        return f"explain: {verdict}{': ' if words else ''}{', '.join(words)}"

    def json(self) -> str:
        """Return the result as JSON, in the format that the module's docstring describes."""
        events = [dataclasses.asdict(each) for each in self.events]
        for each in events:
            each["class"] = each.pop("kind")
        return sanitize.json_text(
            {
                "kind": self.kind,
                "outputs": list(self.outputs),
                "status": self.status,
                "summary": self.summary(),
                "objects": [dataclasses.asdict(each) for each in self.objects],
                "events": events,
                "events_left_out": self.events_left_out,
                "alerts": [dataclasses.asdict(each) for each in self.alerts],
                "unparsed": [
                    {name: getattr(each, name) for name in ("line", "text", "reason", "fault")}
                    for each in self.unparsed
                ],
            },
            indent=1,
        )


def explained(
    results: Sequence[Parsed], groups: Sequence[RuleGroup], table: EventTable
) -> Explanation:
    """Evaluate each program's part of a text by itself: the worst of them decides. Errors: none."""
    first, *others = (explain(each, groups, table) for each in results)
    for each in others:
        levels = [worst for worst in (first.worst, each.worst) if worst is not None]
        alerts = sorted((*first.alerts, *each.alerts), key=lambda a: -Severity[a.severity.upper()])
        first = Explanation(
            kind=f"{first.kind}, {each.kind}",
            outputs=(*first.outputs, *each.outputs),
            objects=(*first.objects, *each.objects),
            events=(*first.events, *each.events),
            events_left_out=first.events_left_out + each.events_left_out,
            alerts=tuple(dict.fromkeys(alerts)),
            unparsed=(*first.unparsed, *each.unparsed),
            worst=max(levels, default=None),
            lines_read=first.lines_read + each.lines_read,
            lines_other=first.lines_other + each.lines_other,
            events_over=first.events_over + each.events_over,
        )
    return first


def explain(parsed: Parsed, groups: Sequence[RuleGroup], table: EventTable) -> Explanation:
    """Evaluate the rules and the event table on a parsed text. Errors: none."""
    # Rules are about what collectors read; of a log, a pool or a map none of them has a value.
    needed = groups if _readings(parsed, _NOW) else ()
    engine = Engine(
        [dataclasses.replace(group, interval_seconds=1.0) for group in needed], SOURCES, _NOW
    )
    for at in (_NOW + tick for tick in range(SNAPSHOTS)):
        engine.observe(_readings(parsed, at), at, at)
        engine.rules.evaluate(at)
    now = _NOW + SNAPSHOTS - 1
    batch = event_state.EventBatch(now, now, tuple(each.event for each in parsed.events))
    state, _ = event_correlation.correlate(
        event_state.CorrelationState(), batch, engine.devices.places(), table
    )
    repaired = btrfs_repairs.repairs(batch.events)
    known = [
        dataclasses.replace(each, event=btrfs_repairs.settled(each.event, repaired))
        for each in parsed.events
    ]
    # What a later line of the text ends is over: an NFS server that responds again.
    happen = [
        each
        for each in event_alerts.alerts(state, table, now)
        if each.absent_seconds is None and each.name != _SENT
    ]
    happen += _sent_alerts(batch, engine.devices.places(), table)
    ruled = [each for each in engine.rules.alerts() if not _is_ruled_out(each, parsed)]
    alerts = last_copies.marked([*ruled, *happen], engine.devices.places())
    waits = findings.required_seconds(groups)
    here = facts.Facts(
        facts.advice_inputs(engine.devices.places(), engine.devices.mounts(), alerts)
    )
    told = [_alert(each, waits, here) for each in _ranked(alerts)]
    events = tuple(_event(each, table) for each in known[:MAX_EVENTS])
    over = {_of(h.burst.first) for h in state.groups if h.ended_seconds is not None}
    levels = [
        _weight(table.find(each.event), each.event) for each in known if _of(each.event) not in over
    ]
    levels += [each.severity for each in _counted(alerts)]
    levels += [Severity[each.severity.upper()] for each in parsed.findings]
    findings_of_text = sorted(parsed.findings, key=lambda each: -Severity[each.severity.upper()])
    listed = (*map(_finding, findings_of_text), *told)
    return Explanation(
        kind=parsed.kind.value,
        outputs=parsed.outputs,
        objects=tuple(_with_alerts(_objects(parsed), listed)),
        events=events,
        events_left_out=len(parsed.events) - len(events),
        alerts=listed,
        unparsed=parsed.unparsed,
        worst=max(levels, default=None),
        lines_read=parsed.lines,
        lines_other=parsed.others,
        events_over=sum(_of(each.event) in over for each in known),
    )


def _is_ruled_out(alert: Alert, parsed: Parsed) -> bool:
    place, values = f" {findings.place(alert)} ", {value for _, value in alert.labels}
    return any(
        alert.name == name and (thing in values or f" {thing} " in place)
        for name, thing in parsed.ruled_out
    )


def _sent_alerts(
    batch: event_state.EventBatch, places: DeviceMap, table: EventTable
) -> list[Alert]:
    """Return the alerts of events that a controller sends, one for each text: states differ.

    A volume that was degraded, then offline, then had its cache pinned, has three faults.
    """
    by_text: dict[tuple[str, str, str], list[StorageEvent]] = {}
    for event in batch.events:
        if event.kind == _SENT:
            words = event.text.rpartition(" - ")[2] if len(by_text) < MAX_TEXTS else ""
            by_text.setdefault((event.controller, event.place, words), []).append(event)
    alerts: list[Alert] = []
    for events in by_text.values():
        part = dataclasses.replace(batch, events=tuple(events))
        state, _ = event_correlation.correlate(event_state.CorrelationState(), part, places, table)
        alerts += event_alerts.alerts(state, table, batch.now_seconds)
    return alerts


_SENT = "hba_aen"
MAX_TEXTS = 200
"""Texts of controllers' events with an alert each; further ones have one for each object."""


def _of(event: StorageEvent) -> tuple[str, str, str, str]:
    """Return of what, and where, an event is: a later line of the text may end it."""
    return event.kind, event.device, event.controller, event.place


def _weight(row: EventRule, event: StorageEvent) -> Severity:
    """Return the severity of an event for the exit status; its cause may be missing in the text.

    A consequence of an error, and a notice of the kernel, count as a problem; notices in a
    controller's log mostly record what a user did, and do not.
    """
    severity = row.severity_of(event) or Severity.INFO
    if event.kind not in kernel_kinds.KINDS:
        return Severity.INFO if severity is Severity.NOTICE else severity
    return max(severity, Severity.NOTICE) if row.consequence else severity


def _counted(alerts: Sequence[Alert]) -> Iterator[Alert]:
    """Yield the alerts that count for the exit status.

    A pending one does not if a less severe alert of its name and object fires: that severity
    applies until the pending one fires.
    """
    own = [each for each in alerts if not _is_monitoring_alert(each)]
    firing = {_same(each) for each in own if each.state is AlertState.FIRING}
    for each in own:
        waits = each.state is AlertState.PENDING and _same(each) not in firing
        if waits or each.state is AlertState.FIRING:
            yield each


def _same(alert: Alert) -> tuple[str, str, str, tuple[tuple[str, str], ...]]:
    # Without a machine a port has no device to be a label of: only the subject tells two apart.
    labels = tuple(pair for pair in alert.labels if pair[0] != "severity")
    text = alert.annotation("summary") if alert.name == _SENT else ""
    return alert.name, alert.subject, text, labels


def _readings(parsed: Parsed, at: float) -> list[Reading[object]]:
    """Return the readings that the collectors of a machine with this content would return."""
    values = {
        "controllers": Controllers(parsed.controllers) if parsed.controllers else None,
        "md": dict(parsed.arrays) or None,
        "smart": Disks({d.key: d for d in _disks(parsed, at)}) if parsed.drives else None,
    }
    return [
        Reading(name, Outcome.OK, at, 0.0, value)
        for name, value in values.items()
        if value is not None
    ]


def _disks(parsed: Parsed, at: float) -> Iterator[Disk]:
    """Yield the drives, polled again at each evaluation: some counts need two equal polls.

    The polls are as far apart as a high temperature must last: its duration is not in the text.
    """
    read = at - (_NOW + SNAPSHOTS - 1 - at) * HOT_SECONDS
    names: Counter[str] = Counter()
    for number, drive in enumerate(parsed.drives, 1):
        name = _drive_name(drive, number)
        names[name] += 1
        name += f" ({names[name]})" if names[name] > 1 else ""
        target = AccessMethod("")
        polled = PollResult(
            target, ReadStatus.READ, tried_seconds=read, drive=drive, read_seconds=read
        )
        yield Disk(name, polled)


def _drive_name(drive: Drive, number: int) -> str:
    # A command that names its drive, where the drive's serial number is not in the text.
    named = re.fullmatch(
        r"cli64 .* drv=(\d{1,3})|(?:nvme smart-log|smartctl of) (.{1,80})", drive.read_by
    )
    if named is not None:
        return drive.serial or (f"drive {named[1]}" if named[1] else str(named[2]))
    return drive.serial or drive.wwn or f"drive {number}"


# --- alerts


def _ranked(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts to list, worst first; of one alert and object only the most severe.

    A pending one is left out if it does not count (`_counted`): the summary and the exit status
    are about what is listed. Alerts about iowarden itself, and about disks that are not monitored,
    are left out: a text is never a complete machine.
    """
    own = [*_counted(alerts)]
    own.sort(key=lambda a: (-a.severity, not a.active, a.name, a.labels))
    found: dict[object, Alert] = {}
    for each in own:
        found.setdefault(_same(each), each)
    return [*found.values()]


def _is_monitoring_alert(alert: Alert) -> bool:
    return findings.about_iowarden(alert) or alert.name in _MONITORING_ALERTS


_MONITORING_ALERTS = frozenset(
    {"NoDiskMonitored", "DiskNotMonitored", "DiskNeverMonitored", "NoSwap"}
)


def _alert(alert: Alert, waits: Mapping[str, float], here: facts.Facts) -> ExplainedAlert:
    text = findings.text(alert)
    if alert.state is AlertState.PENDING:
        text += findings.pending(alert, waits)
    return ExplainedAlert(
        alert.severity.name.lower(),
        alert.state.value,
        alert.name,
        findings.place(alert),
        text,
        "\n".join(combined([advice_of(alert, here)])),
    )


def _finding(found: Finding) -> ExplainedAlert:
    """Return a fault of a text for which the service has no rule."""
    return ExplainedAlert(
        found.severity,
        AlertState.FIRING.value,
        found.name,
        found.object,
        found.text,
        found.advice,
    )


# --- events


def _event(found: LocatedEvent, table: EventTable) -> ExplainedEvent:
    event = found.event
    row = table.find(event)
    severity = row.severity_of(event)
    at = event.monotonic_seconds
    return ExplainedEvent(
        line=found.line,
        kind=event.kind,
        meaning=row.meaning,
        severity=_NOISE if severity is None else severity.name.lower(),
        device=event.device,
        controller=event.controller,
        place=event.place,
        sector=event.sector,
        sectors=event.sectors,
        block=event.block,
        blocks=event.blocks,
        seconds=event.clock_seconds if at is None else at,
        text=event.text,
    )


# --- objects


def _objects(parsed: Parsed) -> Iterator[Object]:
    for each in parsed.controllers:
        yield from _controller(each)
    for array in parsed.arrays.values():
        yield from _md(array)
    for one in parsed.objects:
        yield _object(
            one.type, one.name, one.parent, one.health, one.word, one.counts, **one.details
        )
    for number, drive in enumerate(parsed.drives, 1):
        yield _drive(drive, number)
    for refused in parsed.refusals:
        known = refused.drive
        well = refused.status in {ReadStatus.NO_SMART, ReadStatus.LUN}
        yield _object(
            "disk",
            refused.name or "-",
            "",
            ComponentHealth.OK if well else _UNKNOWN,
            refused.status,
            model=known.model if known else "",
            reason=refused.reason,
        )


def _with_alerts(objects: Iterable[Object], alerts: Iterable[ExplainedAlert]) -> Iterator[Object]:
    """Yield the objects; one that calls itself well, and has a warning, needs attention.

    One whose data is not to be believed is unknown, whatever it calls itself.
    """
    alerts = [*alerts]
    doubtful = {alert.object for alert in alerts if alert.alert == findings.IMPLAUSIBLE}
    warned = {
        alert.object
        for alert in alerts
        if alert.state == "firing" and Severity[alert.severity.upper()] >= Severity.WARNING
    }
    for each in objects:
        is_warned = not warned.isdisjoint((each.name, f"{each.type} {each.name}"))
        if f"{each.type} {each.name}" in doubtful and each.state == ComponentHealth.OK:
            yield dataclasses.replace(each, state=_UNKNOWN)
        elif is_warned and each.state in {ComponentHealth.OK, _UNKNOWN}:
            yield dataclasses.replace(each, state=ComponentHealth.ATTENTION.value)
        else:
            yield each


def _object(
    kind: str,
    name: str,
    of: str,
    state: str,
    word: str,
    counts: Mapping[str, float | None] = {},
    **details: str | float | None,
) -> Object:
    """Return an object with the details and counts that have a value."""
    return Object(
        kind,
        name,
        of,
        str(state),
        str(word),
        {key: value for key, value in details.items() if value not in (None, "")},
        {key: value for key, value in counts.items() if value is not None},
    )


def _controller(controller: Controller) -> Iterator[Object]:
    yield _object(
        "controller",
        controller.name,
        "",
        *(("ok", "") if controller.state is None else _state(controller.state)),
        model=controller.model,
        serial=controller.serial,
        firmware=controller.firmware,
    )
    for array in controller.arrays:
        yield _object(
            "array",
            array.name,
            controller.name,
            *_state(array.state),
            level=array.level,
            label=array.label,
            bytes=array.size_bytes,
            disks=len(array.slots) or None,
            done_ratio=array.state.done_ratio,
        )
    for disk in controller.disks:
        yield _object(
            "disk",
            disk.slot,
            controller.name,
            *_state(disk.state),
            disk.errors_total,
            model=disk.model,
            serial=disk.serial,
            array=disk.array,
            usage=disk.usage,
            bytes=disk.size_bytes,
            celsius=disk.temperature_celsius,
        )
    for battery in controller.batteries:
        yield _object(
            "battery",
            battery.name,
            controller.name,
            *_state(battery.state),
            charge_ratio=battery.charge_ratio,
            celsius=battery.temperature_celsius,
        )
    for sensor in controller.sensors:
        if sensor.state is not None:
            yield _object(
                "sensor",
                sensor.name,
                controller.name,
                *_state(sensor.state),
                celsius=sensor.temperature_celsius,
                rpm=sensor.fan_rpm,
                volts=sensor.voltage_volts,
            )


def _state(state: ControllerState) -> tuple[str, str]:
    return state.health, state.word


def _md(array: MdArray) -> Iterator[Object]:
    faulty = sum("faulty" in member.states for member in array.members)
    health = ComponentHealth.OK
    if array.state in {None, "inactive", "broken"} and not array.is_container:
        health = ComponentHealth.FAILED
    elif array.degraded:
        rebuilds = array.sync_action == "recover" and not array.sync_wait
        health = ComponentHealth.REBUILDING if rebuilds else ComponentHealth.DEGRADED
    elif faulty:
        health = ComponentHealth.ATTENTION
    elif array.sync_action not in {None, "idle"} and not array.sync_wait:
        health = ComponentHealth.BUSY
    yield _object(
        "array",
        array.name,
        "",
        health,
        "container" if array.is_container else array.state or "",
        level=array.level,
        disks=array.raid_disks,
        missing=array.degraded,
        bytes=array.size_bytes,
        runs=array.sync_action if array.sync_action != "idle" and not array.sync_wait else "",
        waits=array.sync_wait,
        done_ratio=array.sync_done_ratio,
    )
    stopped = array.state in {None, "inactive"} and not array.is_container
    for member in array.members:
        # '(S)' in an array that does not run: its place is not known, which is no spare.
        well = _UNKNOWN if stopped else ComponentHealth.OK
        bad = ComponentHealth.FAILED if "faulty" in member.states else well
        if "rebuilding" in member.states:  # next to a working member it is a replacement
            bad = ComponentHealth.REBUILDING if array.degraded else ComponentHealth.BUSY
        bad = ComponentHealth.FAILING if "disk_error" in member.states else bad
        counts = {"errors": member.errors_total, "bad_blocks": member.bad_blocks}
        states = "not assembled" if bad == _UNKNOWN else ", ".join(member.states)
        yield _object("member", member.device, array.name, bad, states, counts, slot=member.slot)


_OF_PYSMART = re.compile(r"pySMART: \w+: ")
"""The second parser's own exception: it parses whole reports only."""
_COUNTED = {5: "reallocated", 187: "reported_uncorrectable", 197: "pending", 198: "uncorrectable",
            199: "interface_crc"}  # fmt: skip


def _drive_health(drive: Drive) -> tuple[str, str]:
    if drive.scsi is not None and not drive.passed and is_minor_or_test(drive):
        return ComponentHealth.ATTENTION, f"{drive.scsi.asc:02X}/{drive.scsi.ascq or 0:02X}"
    healths = {True: ComponentHealth.OK, False: ComponentHealth.FAILED, None: _UNKNOWN}
    return healths[drive.passed], {True: "PASSED", False: "FAILED", None: ""}[drive.passed]


def _drive(drive: Drive, number: int) -> Object:
    counts: dict[str, float | None] = {
        name: None
        if (found := drive.attribute(at)) is None
        else smart_counts.believed(drive, found)
        for at, name in _COUNTED.items()
    }
    counts["errors_logged"] = drive.errors_logged_total
    counts["pending_sectors"] = drive.pending_sectors
    counts["media_errors"] = None if drive.nvme is None else drive.nvme.media_errors_total
    counts["grown_defects"] = None if drive.scsi is None else drive.scsi.grown_defects
    return _object(
        "disk",
        _drive_name(drive, number),
        "",
        *_drive_health(drive),
        counts,
        model=drive.model,
        firmware=drive.firmware,
        bytes=drive.capacity_bytes,
        hours=drive.power_on_hours,
        celsius=drive.temperature_celsius,
        note="; ".join([m for m in drive.messages if not _OF_PYSMART.match(m)][:3]),
    )
