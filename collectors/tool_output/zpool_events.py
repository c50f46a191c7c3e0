"""'zpool events' in a text, also with '-v': what ZFS reported since its module was loaded.

Source: OpenZFS, cmd/zpool/zpool_main.c, zpool_do_events_short, zpool_do_events_nvprint;
zpool-events(8); include/sys/fm/fs/zfs.h; include/sys/fs/zfs.h, vdev_state_t. The short form names
neither pool nor device. ZED prints the same events: their meaning is declared once, there.
Limits: an event has no end; only a device that is online again ends what was reported of it.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, UnparsedLine
from iowarden.collectors.services import service_messages
from iowarden.collectors.services.service_message import ENDS, ServiceMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_ROW = lazy_pattern(
    r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d)\.\d{1,9}[ \t]+"
    r"(?P<kind>ereport|resource|sysevent)\.fs\.zfs\.(?P<name>\S+)[ \t]*"
)
_BEGIN = lazy_pattern(r"[A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d\.\d{1,9}[ \t]")
_HEADING = lazy_pattern(r"TIME[ \t]+CLASS[ \t]*")
_VALUE = lazy_pattern(r"[ \t]+(?P<name>\w{1,60}) = (?:\"(?P<text>[^\"]*)\"|(?P<number>\S*)).*")
_INDENTED = lazy_pattern(r"[ \t]+\S.*")
_STATES = {
    "0x0": "UNKNOWN",
    "0x1": "CLOSED",
    "0x2": "OFFLINE",
    "0x3": "REMOVED",
    "0x4": "CANT_OPEN",
    "0x5": "FAULTED",
    "0x6": "DEGRADED",
    "0x7": "ONLINE",
}
_HARMLESS = frozenset(
    "config.sync config_cache_write scrub.start scrub.finish resilver.start resilver.finish".split()
)
"""Reports of releases before 0.7 that are no errors."""
_ADVICE = "See the pool and its devices: zpool status -v; with names: zpool events -v"


@dataclass(slots=True)
class _Event:
    """An event and the values that '-v' prints below it."""

    line: int
    text: str
    time: str
    kind: str
    name: str
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolEvents:
    """The events in a text, how many they are, and the rest of it: all other lines."""

    count: int
    findings: tuple[Finding, ...]
    unparsed: tuple[UnparsedLine, ...]
    rest: str


def parse_events(text: str) -> PoolEvents | None:
    """Parse the events in a text; None: it has none."""
    events: list[_Event] = []
    unreadable: list[UnparsedLine] = []
    rest = text.split("\n")
    has_heading = inside = False
    for number, line in enumerate(text.split("\n"), 1):
        is_own = True
        if (row := _ROW.fullmatch(line)) is not None:
            events.append(_Event(number, line, row["time"], row["kind"], row["name"]))
            inside = True
        elif _BEGIN.match(line):
            unreadable.append(UnparsedLine("zpool events: a class that is not known", line, number))
        elif _HEADING.fullmatch(line):
            has_heading = True
        elif inside and (value := _VALUE.fullmatch(line)) is not None:
            own = value["number"] if value["text"] is None else value["text"]
            events[-1].values.setdefault(value["name"], own)
        elif not (inside and _INDENTED.fullmatch(line)):
            is_own, inside = False, inside and not line.strip()
        if is_own:
            rest[number - 1] = ""
    if not events and not unreadable and not has_heading:
        return None
    reported = _reported(events, unreadable)
    findings = tuple(_findings(reported))
    return PoolEvents(len(events), findings, tuple(unreadable), "\n".join(rest))


def _reported(
    events: Iterable[_Event], unreadable: list[UnparsedLine]
) -> list[tuple[_Event, ServiceMessage]]:
    """Return what the events report and no later one ends; of errors also those unknown."""
    reported: list[tuple[_Event, ServiceMessage]] = []
    for event in events:
        messages = service_messages.messages("zed", _as_zed_prints(event))
        if not messages and event.kind == "ereport" and event.name not in _HARMLESS:
            reason = "zpool events: an error that is not known"
            unreadable.append(UnparsedLine(reason, event.text, event.line))
        for message in messages or ():
            if message.severity != ENDS:
                reported.append((event, message))
                continue
            ended = message.object, message.part
            reported = [each for each in reported if (each[1].object, each[1].part) != ended]
    return reported


def _as_zed_prints(event: _Event) -> str:
    """Return an event as ZED prints it."""
    values = event.values
    state = values.get("vdev_state", "")
    state = _STATES.get(state, "" if state.startswith("0x") else state)
    pool, device = values.get("pool", ""), values.get("vdev_path", "").rpartition("/")[2]
    line = f"eid=0 class={event.name} pool='{pool}' vdev={device}"
    return f"{line} vdev_state={state}" if state else line


def _findings(reported: Sequence[tuple[_Event, ServiceMessage]]) -> Iterator[Finding]:
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for event, message in reported:
        key = message.severity, message.fault, message.object, message.text
        grouped.setdefault(key, []).append(event.time)
    for (severity, fault, name, text), times in grouped.items():
        often = f" {len(times)} times, the last" if len(times) > 1 else ""
        yield Finding(severity, fault, name, f"{name}: {text},{often} {times[-1]}", _ADVICE)
