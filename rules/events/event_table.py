"""Event table: parse 'events.yaml', find an event's row, and deduplicate events. Pure.

A file has advice texts by name, by the same names what such an event means (effect), and groups of
rows by kind of event (StorageEvent.kind). Keys that a row does not set are taken from its group.
Limits: an event without a row is not dropped: it is a warning that needs attention.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import yaml

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.event import StorageEvent  # noqa: TC001 - stored over restarts: read at run time
from iowarden.collectors.raid.threeware import alarms
from iowarden.rules.advice.advice import unknown_steps
from iowarden.rules.advice.advice_steps import STEPS
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.severity import Severity
from iowarden.rules.yaml_nodes import Nodes, compose, start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


NOISE = "noise"
SENT = {
    **dict.fromkeys(("ERROR", "FATAL", "CRIT", "CRITICAL", "DEAD"), Severity.CRITICAL),
    **dict.fromkeys(("WARNING", "WARN"), Severity.WARNING),
    **dict.fromkeys(("INFO", "PROG", "DEBUG", "DBG"), Severity.INFO),
}
"""Severities that controllers send, for rows that take them (`sent`)."""
WINDOW_SECONDS = 600.0
"""Events of a kind on one object are one burst if each follows the one before within this time."""
TWIN_SECONDS = 5.0
"""A driver time-stamps an event for its tool's log and prints it to the kernel log at once."""
BLAME_SECONDS = 300.0
"""Before an array member becomes faulty, the kernel has retried for a few timeouts of 30 s."""
_QUARTER_SECONDS = 900
_MAX_ZONE_SECONDS = 14 * 3600
_FILE_KEYS = ("advice", "effect", "stacked", "groups")
_SHARED_KEYS = ("advice", "condition", "source", "consequence", "sent")
_GROUP_KEYS = ("name", "events", *_SHARED_KEYS)
_ROW_KEYS = ("severity", "meaning", "storm", "controller", "ends", "ends_early", *_SHARED_KEYS)
_STORM_KEYS = ("count", "window", "severity", "except_boot")
_KIND = re.compile(r"[a-z0-9_]{1,64}")
_CONDITIONS = frozenset(map(str, Condition))
_STACKED = re.compile(r"(?:dm-|md_?d?|bcache|loop|drbd|zd)\d", re.ASCII)
"""Kernel names of devices that are stacked on others: a disk below them has its own events."""
_CODE = re.compile(r"0x[0-9a-f]{1,4}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Storm:
    """`count` events on one object within the window have a higher severity than each of them."""

    count: int
    window_seconds: float
    severity: Severity
    except_boot: bool = False
    """Events at a boot of the host do not count."""


@dataclass(frozen=True, slots=True)
class EventRule:
    """Severity, meaning and advice of a kind of event.

    Fields: `severity` None is noise: ignored; `condition` is that of the rules; `source` is the
    reference of the meaning; `consequence`: it follows another event and joins its incident, and
    counts by its own severity only without that event; `sent`: a known severity that the controller
    sends takes precedence; `controller`: the controller itself has a fault, so that disks which it
    names at that time may be healthy.
    """

    kind: str
    severity: Severity | None
    meaning: str
    advice: str = ""
    condition: str = ""
    source: str = ""
    consequence: bool = False
    sent: bool = False
    controller: bool = False
    storm: Storm | None = None
    ends: tuple[str, ...] = ()
    """Kinds of events that it ends, on the same object: until then they last."""
    ends_early: tuple[str, ...] = ()
    """Kinds that it ends as well, but that do not last until then: not every driver reports it."""
    file: str = ""
    line: int = 0
    effect: str = ""
    """What it means for users and data."""
    stacked_advice: str = ""
    """The advice where the device is built on others; '': the same."""
    stacked_effect: str = ""
    enabled: bool = True
    """False: it raises no alert here, by the configuration."""
    severity_here: Severity | None = None
    """The severity of its alerts by the configuration; None: `severity`, `sent` and `storm`."""

    def severity_of(self, event: StorageEvent) -> Severity | None:
        """Return how severe an event of this row is, whatever is configured; None: noise."""
        return SENT.get(event.word.upper(), self.severity) if self.sent else self.severity

    def alert_severity(self, event: StorageEvent) -> Severity | None:
        """Return the severity of an alert of such an event here; None: noise."""
        return self.severity_of(event) if self.severity_here is None else self.severity_here

    def on(self, device: str) -> EventRule:
        """Return the row with its texts for a device; `device` is its kernel name, or ''."""
        if not (self.stacked_advice and _STACKED.match(device)):
            return self
        return replace(self, advice=self.stacked_advice, effect=self.stacked_effect)


UNKNOWN = EventRule(
    "unknown",
    Severity.WARNING,
    "an unknown kind of event, which needs attention",
    "Look it up in the documentation of the device or program that reported it.",
    Condition.CONTROLLER_EVENT,
)


@dataclass(frozen=True, slots=True)
class EventTable:
    """Rows by kind."""

    rows: Mapping[str, EventRule]

    @property
    def lasting(self) -> frozenset[str]:
        """Return the kinds whose end is an event."""
        return frozenset(kind for row in self.rows.values() for kind in row.ends)

    def find(self, event: StorageEvent) -> EventRule:
        """Return the row of an event; UNKNOWN if the table has none.

        A 3ware event of the kernel log has the same kind as in the log of the tool: by its code, or
        by its text where the driver prints no code (3w-xxxx).
        """
        row = None
        if event.kind == "hba_aen" and event.text.startswith("3w-"):
            row = self.rows.get(_aen_kind(event.code))
        row = row or self.rows.get(event.kind) or self.rows.get(f"{event.source}_other")
        return row or UNKNOWN

    def row(self, kind: str) -> EventRule:
        """Return the row of a kind that `find` returned; a reloaded table may not have it."""
        return self.rows.get(kind, UNKNOWN)


_AEN_KINDS = {
    name.casefold(): alarms.kind_of(code) for code, names in alarms.NAMES.items() for name in names
}


def _aen_kind(code: str) -> str:
    if _CODE.fullmatch(code):
        return alarms.kind_of(int(code, 16))
    return _AEN_KINDS.get(code.casefold(), alarms.OTHER)


def parse_events_file(text: str, file: str) -> EventTable:
    """Return the table in a file; `file` is its name, for messages.

    Errors: RuleFileError with all faults, each with line and column.
    """
    root = compose(text, file)
    nodes = Nodes(text, file)
    reader = _TableReader(nodes)
    rows = reader.rows(root) if root is not None else []
    reader.check_ends(rows)
    nodes.finish()
    return EventTable({row.kind: row for row in rows})


Fields = dict[str, tuple[yaml.Node, yaml.Node]]


class _TableReader:
    """Reads the YAML nodes and collects all errors, to report them at once."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._advice: dict[str, str] = {}
        self._effects: dict[str, str] = {}
        self._stacked: dict[str, str] = {}
        self._seen: set[str] = set()
        self._ends: list[tuple[yaml.Node, tuple[str, ...]]] = []

    def rows(self, root: yaml.Node) -> list[EventRule]:
        fields = self._nodes.mapping(root, "file", _FILE_KEYS)
        if "advice" in fields:
            for name, (_, node) in self._nodes.mapping(fields["advice"][1], "advice", None).items():
                self._advice[name] = self._nodes.string(node, f"advice: {name}").rstrip("\n")
                for step in unknown_steps(self._advice[name]):
                    known = ", ".join(f"{{{each}}}" for each in STEPS)
                    message = f"advice: {name}: unknown step {{{step}}}; known are {known}"
                    self._nodes.wrong(start(node), message)
        effects = (
            self._nodes.mapping(fields["effect"][1], "effect", None) if "effect" in fields else {}
        )
        for name, (key, node) in effects.items():
            self._effects[name] = self._nodes.string(node, f"effect: {name}")
            if name not in self._advice:
                self._nodes.wrong(start(key), f"effect: no text {name!r} under 'advice'")
        if "stacked" in fields:
            for name, (key, node) in self._nodes.mapping(
                fields["stacked"][1], "stacked", None
            ).items():
                self._stacked[name] = self._nodes.string(node, f"stacked: {name}")
                for text in {name, self._stacked[name]} - self._advice.keys():
                    self._nodes.wrong(start(key), f"stacked: no text {text!r} under 'advice'")
        groups = self._nodes.sequence(fields["groups"][1], "groups") if "groups" in fields else []
        return [row for group in groups for row in self._group(group)]

    def _group(self, node: yaml.Node) -> list[EventRule]:
        fields = self._nodes.mapping(node, "group", _GROUP_KEYS)
        name = self._nodes.string(fields["name"][1], "group: name") if "name" in fields else ""
        if not name:
            self._nodes.wrong(start(node), "group: expected a name; add 'name:'")
        if "events" not in fields:
            return []
        rows = self._nodes.mapping(fields["events"][1], f"group {name!r}: events", None)
        return [self._row(kind, *both, fields) for kind, both in rows.items()]

    def _row(self, kind: str, key: yaml.Node, node: yaml.Node, shared: Fields) -> EventRule:
        what = f"event {kind!r}"
        if not _KIND.fullmatch(kind):
            self._nodes.wrong(start(key), f"{what}: expected lower-case letters, digits and _")
        if kind in self._seen:
            self._nodes.wrong(start(key), f"{what}: is in two groups; remove one of them")
        self._seen.add(kind)
        own = self._nodes.mapping(node, what, _ROW_KEYS)
        fields = {name: both for name, both in shared.items() if name in _SHARED_KEYS} | own

        def text(name: str) -> str:
            found = fields.get(name)
            return self._nodes.string(found[1], f"{what}: {name}") if found else ""

        severity = self._severity(node, fields.get("severity"), what)
        advice = text("advice")
        if advice and advice not in self._advice:
            known = ", ".join(self._advice) or "none"
            message = f"{what}: advice: no text {advice!r} under 'advice'; there are {known}"
            self._nodes.wrong(start(fields["advice"][1]), message)
        for name in ("meaning", "condition", "source"):
            if not text(name):
                self._nodes.wrong(start(key), f"{what}: expected a {name}; add '{name}:'")
        condition = text("condition")
        if condition and condition not in _CONDITIONS:
            close = difflib.get_close_matches(condition, _CONDITIONS, 1) or ["raid_array"]
            message = (
                f"{what}: condition: expected a name in rules/conditions/definitions.yaml, such as"
                f" {close[0]!r}, got {condition!r}"
            )
            self._nodes.wrong(start(fields["condition"][1]), message)
        if not advice and severity is not None and severity >= Severity.WARNING:
            self._nodes.wrong(start(key), f"{what}: a mail of it has no advice; add 'advice:'")
        ends, ends_early = tuple(text("ends").split()), tuple(text("ends_early").split())
        self._ends.append((key, (*ends, *ends_early)))
        line = self._nodes.line(key)
        stacked = self._stacked.get(advice, "")
        return EventRule(
            kind,
            severity,
            text("meaning"),
            self._advice.get(advice, ""),
            condition,
            text("source"),
            self._truth(fields, "consequence", what),
            self._truth(fields, "sent", what),
            self._truth(fields, "controller", what),
            self._storm(fields["storm"][1], severity, what) if "storm" in fields else None,
            ends,
            ends_early,
            self._nodes.file,
            line,
            self._effects.get(advice, ""),
            self._advice.get(stacked, ""),
            self._effects.get(stacked, ""),
        )

    def check_ends(self, rows: Sequence[EventRule]) -> None:
        """Check that the events that rows end exist."""
        kinds = {row.kind for row in rows}
        for key, ends in self._ends:
            for kind in ends:
                if kind not in kinds:
                    self._nodes.wrong(start(key), f"ends: no event '{kind}' in this file")

    def _severity(
        self, node: yaml.Node, found: tuple[yaml.Node, yaml.Node] | None, what: str
    ) -> Severity | None:
        word = self._nodes.string(found[1], f"{what}: severity") if found else ""
        if word == NOISE:
            return None
        known = {each.name.lower(): each for each in Severity}
        if word not in known:
            expected = ", ".join([*reversed(known), NOISE])
            message = f"{what}: severity: expected one of {expected}, got {word!r}"
            self._nodes.wrong(start(found[1] if found else node), message)
        return known.get(word)

    def _truth(self, fields: Fields, name: str, what: str) -> bool:
        if name not in fields:
            return False
        word = self._nodes.string(fields[name][1], f"{what}: {name}")
        if word not in {"true", "false"}:
            message = f"{what}: {name}: expected true or false, got {word!r}"
            self._nodes.wrong(start(fields[name][1]), message)
        return word == "true"

    def _storm(self, node: yaml.Node, severity: Severity | None, what: str) -> Storm:
        what = f"{what}: storm"
        fields = self._nodes.mapping(node, what, _STORM_KEYS)
        count = self._nodes.string(fields["count"][1], what) if "count" in fields else ""
        if not re.fullmatch(r"[2-9]|[1-9][0-9]", count, re.ASCII):
            message = f"{what}: expected 'count:' from 2 to 99, got {count!r}"
            self._nodes.wrong(start(fields["count"][1] if "count" in fields else node), message)
            count = "2"
        window = self._nodes.duration(fields["window"][1], what) if "window" in fields else 0.0
        if "window" not in fields:
            self._nodes.wrong(start(node), f"{what}: expected a duration; add 'window: 10m'")
        worse = self._severity(node, fields.get("severity"), what) or Severity.INFO
        if severity is not None and worse <= severity:
            message = f"{what}: expected one above {severity.name.lower()}, or no storm"
            self._nodes.wrong(start(node), message)
        return Storm(int(count), window, worse, self._truth(fields, "except_boot", what))


@dataclass(frozen=True, slots=True)
class Burst:
    """Burst: events of one kind on one object, each within the window after the one before.

    Fields: `kind` is that of their row; `object` is the device, or the controller and place;
    `until` is the time of the last one, `times` are the latest ones that may still be a storm.
    Units: seconds, by the data source's clock.
    """

    kind: str
    object: str
    severity: Severity | None
    count: int
    first: StorageEvent
    last: StorageEvent
    until: float | None
    times: tuple[float, ...] = ()


def moment(event: StorageEvent) -> float | None:
    """Return the time of an event by its best clock; comparable only within one data source."""
    for each in (event.realtime_seconds, event.clock_seconds, event.monotonic_seconds):
        if each is not None:
            return each
    return None


def object_of(event: StorageEvent) -> str:
    """Return the object of an event, in the names of its data source."""
    return event.device or " ".join(filter(None, (event.controller, event.place)))


def extended(
    burst: Burst | None, row: EventRule, event: StorageEvent, *, at_boot: bool = False
) -> Burst:
    """Return a burst with one more event, or a new burst: 100,000 lines may be one burst.

    Its severity only rises. Events are in the order of their data source. `at_boot`: the host
    booted at that time, which explains the event.
    """
    at, severity = moment(event), row.alert_severity(event)
    storm = row.storm if row.severity_here is None else None
    counts = storm is not None and not (at_boot and storm.except_boot)
    window = WINDOW_SECONDS if storm is None else max(WINDOW_SECONDS, storm.window_seconds)
    over = burst is not None and None not in (at, burst.until)
    if burst is None or (over and (at or 0.0) - (burst.until or 0.0) > window):
        begun = () if at is None or not counts else (at,)
        return Burst(row.kind, object_of(event), severity, 1, event, event, at, begun)
    times = burst.times
    if storm is not None and counts and at is not None:
        times = (*times, at)[-storm.count :]
        if len(times) == storm.count and times[-1] - times[0] <= storm.window_seconds:
            severity = _more_severe(severity, storm.severity)
    return Burst(
        row.kind,
        burst.object,
        _more_severe(burst.severity, severity),
        burst.count + 1,
        burst.first,
        event,
        burst.until if at is None else at,
        times,
    )


def _more_severe(one: Severity | None, other: Severity | None) -> Severity | None:
    return max((each for each in (one, other) if each is not None), default=None)


EventSignature = tuple[str, str, frozenset[tuple[str, str]]]
"""Host, kind of the row, arguments ('port' '3')."""
_ARGUMENT = re.compile(r"\b([a-z]+)(?:=| ?#)(0x[0-9a-f]+|[0-9]+)\b", re.IGNORECASE)


def _arguments(event: StorageEvent) -> frozenset[tuple[str, str]]:
    found = _ARGUMENT.findall(event.text.replace("=#", "="))
    return frozenset((name.casefold(), value.casefold()) for name, value in found)


def twins(
    events: Sequence[StorageEvent], known: EventTable, hosts: Mapping[str, str] | None = None
) -> tuple[tuple[StorageEvent, ...], ...]:
    """Return the events with duplicates grouped, in order of the first event of each group.

    Equal keys are one event that was read twice (kernel log and journal). An event in the log of a
    controller's tool is the same as one of the kernel log if kind and arguments are equal and both
    are within `TWIN_SECONDS`: the driver time-stamps both, for the tool in local time. The time
    zone is the one at which most events match. `hosts` is the SCSI host of each controller ('c0':
    'host2'); without it any host may be a controller's.
    """
    groups: list[list[StorageEvent]] = []
    at: dict[str, int] = {}
    for event in events:
        if event.key in at:
            groups[at[event.key]].append(event)
        else:
            at[event.key] = len(groups)
            groups.append([event])
    told: dict[EventSignature, list[int]] = defaultdict(list)
    for number, (first, *_) in enumerate(groups):
        if first.source == "kernel" and first.kind == "hba_aen":
            told[first.controller, known.find(first).kind, _arguments(first)].append(number)
    merged: set[int] = set()
    for name in dict.fromkeys(g[0].controller for g in groups if g[0].source == "3ware"):
        own = [
            number
            for number, group in enumerate(groups)
            if group and (group[0].source, group[0].controller) == ("3ware", name)
        ]
        wanted = (hosts or {}).get(name)
        best: dict[int, int] = {}
        for host in dict.fromkeys(key[0] for key in told):
            if wanted in {None, host}:
                found = _paired(groups, own, told, host, known, merged)
                best = found if len(found) > len(best) else best
        for number, twin in best.items():
            earlier, later = sorted((number, twin))
            groups[earlier] += groups[later]
            groups[later] = []
            merged |= {earlier, later}
    return tuple(tuple(group) for group in groups if group)


def _paired(
    groups: Sequence[Sequence[StorageEvent]],
    own: Sequence[int],
    reported: Mapping[EventSignature, Sequence[int]],
    host: str,
    known: EventTable,
    taken: set[int],
) -> dict[int, int]:
    """Return the pairs of tool and kernel events, at the time zone with most pairs."""
    zones: dict[int, dict[int, int]] = defaultdict(dict)
    used: dict[int, set[int]] = defaultdict(set)
    for number in own:
        event = groups[number][0]
        here = moment(event)
        candidates = reported.get((host, known.find(event).kind, _arguments(event)), ())
        for other in candidates:
            there = moment(groups[other][0])
            if here is None or there is None or other in taken:
                continue
            zone = _QUARTER_SECONDS * round((here - there) / _QUARTER_SECONDS)
            fits = abs(here - there - zone) <= TWIN_SECONDS and abs(zone) <= _MAX_ZONE_SECONDS
            if fits and number not in zones[zone] and other not in used[zone]:
                zones[zone][number] = other
                used[zone].add(other)
    best = max(zones, key=lambda zone: (len(zones[zone]), -abs(zone)), default=None)
    return {} if best is None else zones[best]
