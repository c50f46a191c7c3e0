"""Parser of 'mdadm --detail': identifies the slots of missing members, which no other source does.

Source: mdadm(8), --detail; mdadm's Detail.c for the table. Queried on demand, never periodically:
it opens a member to read its superblock, which may hang on a dying disk.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.md.mdstat import ArrayMember, MdArray
from iowarden.collectors.model import ParseError
from iowarden.collectors.program import run_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

DEADLINE_SECONDS = 30.0

_HEADER = lazy_pattern(r"(/dev/\S.*):\s*")
_TABLE = lazy_pattern(r"\s*Number\s+Major\s+Minor\s+RaidDevice\b.*")
_ROW = lazy_pattern(r"\s*(?:-|\d{1,9})\s+\d{1,9}\s+\d{1,9}\s+(-|\d{1,9})(?!\S)", re.ASCII)
"""Then the states, and the device's path."""
_CUT_ROW = lazy_pattern(r"\s*(?:-|\d{1,9})(?:\s+\d{1,9}){0,2}", re.ASCII)
_PATH = lazy_pattern(r"(?<!\S)/(?=\S)")
_PERCENT = lazy_pattern(r"(\d{1,3})% complete")
_STATUS = lazy_pattern(r"(\w+) Status")
_STATES = frozenset(
    {
        *("active-idle", "active", "clear", "inactive", "suspended", "readonly", "read-only"),
        *("read-auto", "clean", "write-pending", "broken"),
        *("degraded", "failed", "recovering", "resyncing", "reshaping", "checking", "not started"),
    }
)
"""States of 'State :', in lower case. Source: mdadm 4.6, Detail.c, and maps.c, sysfs_array_states;
'read-only' is from older ones.
"""
_WAITS = lazy_pattern(r" \((?:DELAYED|PENDING|REMOTE)\)$")
_ROW_STATES = lazy_pattern(
    r"faulty|active|sync|set-[A-Z]|removed|write-?mostly|failfast|journal|replacement|spare"
    r"|rebuilding|missing"
)
"""Source: mdadm 4.6, Detail.c; 'replacement' is from mdadm's ReadMe.c, and unchecked."""
_COUNTS = ("Raid Devices", "Active Devices", "Working Devices", "Failed Devices", "Spare Devices")
_OTHER_COMMANDS = frozenset({"Magic", "Platform"})
"""First fields of --examine and --detail-platform."""


@dataclass(frozen=True, slots=True)
class DetailRow:
    """A row of the table. `slot` None: none, a spare or faulty; `device` '': missing.

    Fields: `states` are mdadm's terms: 'active', 'sync', 'spare', 'rebuilding', 'faulty',
    'removed'; none if the array is inactive.
    """

    slot: int | None
    states: tuple[str, ...]
    device: str = ""

    @property
    def missing(self) -> bool:
        """Whether a slot of the array has no working member."""
        whole = self.states[:1] == ("active",) or not self.states
        return self.slot is not None and not whole


@dataclass(frozen=True, slots=True)
class Detail:
    """An array as mdadm reports it. None, '' or (): not reported.

    Fields: `name` as in '/dev/<name>'; `states` are 'clean', 'active', 'degraded', 'recovering',
    'FAILED'; `done_ratio` is the progress of the running `action` ('Rebuild', 'Resync', 'Reshape');
    `label` is the name in the superblock, `metadata` its kind ('1.2', 'imsm', 'ddf').
    """

    name: str
    level: str = ""
    states: tuple[str, ...] = ()
    raid_devices: int | None = None
    active_devices: int | None = None
    working_devices: int | None = None
    failed_devices: int | None = None
    spare_devices: int | None = None
    action: str = ""
    done_ratio: float | None = None
    uuid: str = ""
    label: str = ""
    metadata: str = ""
    slots: tuple[DetailRow, ...] = field(default=(), repr=False)
    uncounted: tuple[str, ...] = ()
    """Counts that are no numbers, such as 'Failed Devices : one'."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The numbers of the slots without a working member.

        A slot has two rows while a replacement is filled next to a working member.
        """
        works = {each.slot for each in self.slots if not each.missing}
        places = (each.slot for each in self.slots if each.slot not in works)
        return tuple(dict.fromkeys(slot for slot in places if slot is not None))


@dataclass(frozen=True, slots=True)
class Details:
    """The arrays of one output, and mdadm's error messages ('mdadm: cannot open ...')."""

    arrays: tuple[Detail, ...]
    complaints: tuple[str, ...] = ()


def parse_detail(text: str, contradictions: list[str] | None = None) -> Details:
    """Parse 'mdadm --detail' for one array or several.

    Unknown fields are ignored; a line of another format is an error message. Errors: ParseError,
    for an invalid row of the table, if there is no array, for unknown states and invalid counts,
    and if states, counts and table contradict each other; with a list for `contradictions` the
    errors of an array are added to it instead.
    """
    complaints: list[str] = []
    arrays: list[tuple[str, dict[str, str], list[DetailRow]]] = []
    in_table = False
    last = text.rstrip().count("\n") + 1
    for number, whole in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        line = whole.rstrip()
        if not line.strip():
            continue
        if (header := _HEADER.fullmatch(line)) is not None:
            arrays.append((header[1].removeprefix("/dev/"), {}, []))
            in_table = False
        elif not arrays or (line[0] not in " \t" and not _pair(line) and not _is_row(line)):
            if (pair := _pair(line)) is not None:
                raise _refused(number, "'/dev/<array>:'", line, pair[0])
            complaints.append(line.strip())
        elif _TABLE.fullmatch(line):
            in_table = True
        elif contradictions is not None and number == last and _CUT_ROW.fullmatch(line):
            name = arrays[-1][0]
            contradictions.append(f"'mdadm --detail': {name}: line {number}{TRUNCATED}")
        elif in_table:
            arrays[-1][2].append(_slot(number, line))
        elif (pair := _pair(line)) is not None:
            key, value = pair
            if key in _OTHER_COMMANDS:
                raise _refused(number, "a field of --detail", line, key)
            arrays[-1][1].setdefault(key, value)
    if not arrays:
        what = complaints[0] if complaints else text
        raise ParseError(f"'mdadm --detail': expected '/dev/<array>:', got {what[:120]!r}")
    details = tuple(_detail(*each) for each in arrays)
    for array in details:
        for wrong in _contradictions(array):
            error = f"'mdadm --detail': {array.name}: {wrong}"
            if contradictions is None:
                raise ParseError(error)
            contradictions.append(error)
    return Details(details, tuple(complaints))


def as_array(detail: Detail) -> MdArray:
    """Return an array that only mdadm reports, in the form of '/proc/mdstat' and sysfs.

    Source: mdadm's Detail.c, for the terms of 'State :'.
    """
    words = {_WAITS.sub("", each).casefold() for each in detail.states}
    waits = [wait[0].strip(" ()") for each in detail.states if (wait := _WAITS.search(each))]
    action = next((name for word, name in _WAITING_ACTIONS.items() if waits and word in words), "")
    state = next((each for each in _RUNNING if each in words), "inactive")
    if words & {"failed", "broken", "not started"}:
        state = "broken" if "broken" in words or state != "inactive" else state
    missing = len(detail.missing)
    if detail.raid_devices is not None and detail.active_devices is not None and state in _RUNNING:
        missing = max(missing, detail.raid_devices - detail.active_devices)
    redundant = detail.level not in {"raid0", "linear", "container", ""} or (
        not detail.level and missing > 0
    )
    return MdArray(
        name=detail.name,
        level=detail.level or None,
        state=state,
        raid_disks=detail.raid_devices,
        degraded=missing if redundant and state != "inactive" else None,
        sync_action=_ACTIONS.get(detail.action, action or "idle") if redundant else None,
        sync_done_ratio=detail.done_ratio,
        sync_speed_bytes_per_second=None,
        mismatches_bytes=None,
        chunk_bytes=None,
        size_bytes=None,
        members=tuple(
            ArrayMember(each.device, each.slot, _member_states(each))
            for each in detail.slots
            if each.device
        ),
        metadata=f"external:{detail.metadata}" if detail.level == "container" else None,
        sync_wait=waits[0] if waits else "",
    )


TRUNCATED = ": it is truncated"
"""End of the error about a table that lacks rows, which is no fault of the array."""
_RUNNING = ("clean", "active", "active-idle", "read-only", "readonly", "broken")
_ACTIONS = {"Rebuild": "recover", "Resync": "resync", "Reshape": "reshape", "Check": "check"}

_WAITING_ACTIONS = {
    "recovering": "recover",
    "resyncing": "resync",
    "reshaping": "reshape",
    "checking": "check",
}
"""Source: mdadm 4.6, Detail.c: sync_action; behind them a state has the reason of a wait."""


def _member_states(slot: DetailRow) -> tuple[str, ...]:
    """Return mdadm's states of a member as the kernel's: 'active sync' is 'in_sync'."""
    if slot.states[:2] == ("active", "sync"):
        return ("in_sync", *slot.states[2:])
    return slot.states


def read_detail(root: Machine, name: str) -> Detail:
    """Run mdadm for an array ('md0'). Its exit status adds nothing to the output.

    Errors: AbsentError, ProgramNotFoundError, StuckError, DeadlineError, ReadError, ParseError.
    """
    text = run_program(root, DEADLINE_SECONDS, "mdadm", "--detail", f"/dev/{name}")
    return parse_detail(text).arrays[0]


def _contradictions(array: Detail) -> Iterator[str]:
    """Yield what is unknown about an array, and how its states, counts and table contradict.

    The table has each slot, also one without a member, and each faulty member; an inactive array
    has no slots. Source: mdadm 4.6, Detail.c; kernel, drivers/md/md.c, get_array_info.
    """
    for word in array.states:
        if _WAITS.sub("", word).casefold() not in _STATES:
            yield f"expected a known state, got '{word[:80]}'"
    for word in (each for row in array.slots for each in row.states):
        if not _ROW_STATES.fullmatch(word):
            yield f"expected a known state of a member, got '{word[:80]}'"
    for told in array.uncounted:
        yield f"expected a number, got '{told[:80]}'"
    faulty = sum("faulty" in row.states for row in array.slots)
    if array.failed_devices is not None and array.failed_devices > faulty:
        yield f"expected rows of {array.failed_devices} failed devices, got {faulty}"
    if array.raid_devices is None:
        running = array.states and array.states != ("inactive",)
        if running and any(row.slot is not None for row in array.slots):
            yield "expected 'Raid Devices', got none of them"
        return
    work = sum(bool(row.device) and "faulty" not in row.states for row in array.slots)
    if array.working_devices is not None and array.working_devices < work:
        yield f"expected rows of {array.working_devices} working devices, got {work}"
    places = {row.slot for row in array.slots if row.slot is not None}
    if not set(range(array.raid_devices)) <= places:
        yield f"expected rows of {array.raid_devices} raid devices, got {len(places)}{TRUNCATED}"
        return
    short = not {"degraded", "FAILED"}.isdisjoint(array.states)
    if array.states and short != bool(array.missing):
        yield f"expected '{', '.join(array.states)}' and the table to agree, got {array.missing}"


def _is_row(line: str) -> bool:
    """Return whether a line is of the table of members, also where its indentation was lost."""
    return _TABLE.fullmatch(line) is not None or _ROW.match(line) is not None


def _pair(line: str) -> tuple[str, str] | None:
    """Return key and value of '<key> : <value>'; None if a line is none."""
    key, colon, value = line.partition(":")
    if not colon or not key.strip() or not key[-1].isspace() or not value[:1].isspace():
        return None
    return " ".join(key.split()), value.strip()


def _refused(number: int, expected: str, line: str, key: str) -> ParseError:
    other = " (the output of another command)" if key in _OTHER_COMMANDS else ""
    return ParseError(
        f"'mdadm --detail': line {number}: expected {expected}, got {line[:120]!r}{other}"
    )


def _slot(number: int, line: str) -> DetailRow:
    row = _ROW.match(line)
    if row is None:
        raise ParseError(
            f"'mdadm --detail': line {number}: expected '<number> <major> <minor> <slot> <state>"
            f" <device>', got {line[:120]!r}"
        )
    states, *path = _PATH.split(line[row.end() :], maxsplit=1)
    return DetailRow(
        None if row[1] == "-" else int(row[1]),
        tuple(states.split()),
        f"/{path[0].strip()}".removeprefix("/dev/") if path else "",
    )


def _detail(name: str, fields: dict[str, str], slots: list[DetailRow]) -> Detail:
    def count(key: str) -> int | None:
        value = fields.get(key, "")
        return int(value) if value.isdecimal() and len(value) < 10 else None

    action, done = "", None
    for key, value in fields.items():
        status, percent = _STATUS.fullmatch(key), _PERCENT.fullmatch(value)
        if status is not None and percent is not None:
            action, done = status[1], min(int(percent[1]), 100) / 100
    return Detail(
        name=name,
        level=fields.get("Raid Level", ""),
        states=tuple(word.strip() for word in fields.get("State", "").split(",") if word.strip()),
        raid_devices=count("Raid Devices"),
        active_devices=count("Active Devices"),
        working_devices=count("Working Devices"),
        failed_devices=count("Failed Devices"),
        spare_devices=count("Spare Devices"),
        action=action,
        done_ratio=done,
        uuid=fields.get("UUID", ""),
        label=fields.get("Name", "").partition("  (local to")[0],
        metadata=fields.get("Version", ""),
        slots=tuple(slots),
        uncounted=tuple(
            f"{key} : {fields[key]}" for key in _COUNTS if key in fields and count(key) is None
        ),
    )
