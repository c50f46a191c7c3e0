"""What 'mdadm --detail' says of an array: the slots that miss a member, which nothing else names.

Source: mdadm(8), --detail; mdadm's Detail.c for the table. Asked for as evidence, never by the
clock: it opens a member to read its superblock, which may hang on a dying disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iowarden.collectors.md.mdstat import Array, Member
from iowarden.collectors.model import ParseError
from iowarden.collectors.program import run_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Root

DEADLINE_SECONDS = 30.0

_HEADER = re.compile(r"(/dev/\S.*):\s*")
_PAIR = re.compile(r"\s+(\S[^:]*?)\s+:\s(.*)|(\S[^:]*?) : (.*)")
_TABLE = re.compile(r"\s*Number\s+Major\s+Minor\s+RaidDevice\b.*")
_ROW = re.compile(
    r"\s*(-|\d{1,9})\s+\d{1,9}\s+\d{1,9}\s+(-|\d{1,9})(?:\s+([^/\s].*?))?(?:\s+(/\S.*?))?\s*",
    re.ASCII,
)
_PERCENT = re.compile(r"(\d{1,3})% complete")
_STATUS = re.compile(r"(\w+) Status")
_STATES = frozenset(
    {
        *("active-idle", "active", "clear", "inactive", "suspended", "readonly", "read-only"),
        *("read-auto", "clean", "write-pending", "broken"),
        *("degraded", "failed", "recovering", "resyncing", "reshaping", "checking", "not started"),
    }
)
"""Of 'State :', in small letters. Source: mdadm 4.6, Detail.c, and maps.c, sysfs_array_states;
'read-only' is of older ones."""
_WAITS = re.compile(r" \((?:DELAYED|PENDING|REMOTE)\)$")
_ROW_STATES = re.compile(
    r"faulty|active|sync|set-[A-Z]|removed|write-?mostly|failfast|journal|replacement|spare"
    r"|rebuilding|missing"
)
"""Source: mdadm 4.6, Detail.c; 'replacement' is of mdadm's ReadMe.c, and unchecked."""
_COUNTS = ("Raid Devices", "Active Devices", "Working Devices", "Failed Devices", "Spare Devices")
_OTHER_COMMANDS = frozenset({"Magic", "Platform"})
"""First fields of --examine and --detail-platform."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A row of the table. `slot` None: none, a spare or faulty; `device` '': nothing is there.

    Fields: `states` are mdadm's words: 'active', 'sync', 'spare', 'rebuilding', 'faulty',
    'removed'; none where the array is inactive.
    """

    slot: int | None
    states: tuple[str, ...]
    device: str = ""

    @property
    def missing(self) -> bool:
        """Whether a place of the array has no member that works."""
        whole = self.states[:1] == ("active",) or not self.states
        return self.slot is not None and not whole


@dataclass(frozen=True, slots=True)
class Detail:
    """An array as mdadm tells it. None, '' or (): it does not say.

    Fields: `name` as in '/dev/<name>'; `states` are words: 'clean', 'active', 'degraded',
    'recovering', 'FAILED'; `done_ratio` is of the `action` ('Rebuild', 'Resync', 'Reshape') that
    runs; `label` is the name in the superblock, `metadata` its kind ('1.2', 'imsm', 'ddf').
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
    slots: tuple[Slot, ...] = field(default=(), repr=False)
    uncounted: tuple[str, ...] = ()
    """Counts that are no numbers, as 'Failed Devices : one'."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The numbers of the places without a member that works.

        A place has two rows while a replacement is filled beside a member that works.
        """
        works = {each.slot for each in self.slots if not each.missing}
        places = (each.slot for each in self.slots if each.slot not in works)
        return tuple(dict.fromkeys(slot for slot in places if slot is not None))


@dataclass(frozen=True, slots=True)
class Details:
    """The arrays of one output, and what mdadm complained of ('mdadm: cannot open ...')."""

    arrays: tuple[Detail, ...]
    complaints: tuple[str, ...] = ()


def parse_detail(text: str, contradictions: list[str] | None = None) -> Details:
    """Return what 'mdadm --detail' printed for one array or several.

    Fields that are not known are ignored; a line that is none is a complaint. Errors: ParseError,
    for a row of the table that is none, where there is no array, for words and counts that are not
    known, and where words, counts and table contradict each other; with a list for `contradictions`
    what is wrong with an array is put there instead.
    """
    complaints: list[str] = []
    arrays: list[tuple[str, dict[str, str], list[Slot]]] = []
    in_table = False
    for number, whole in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        line = whole.rstrip()
        if not line.strip():
            continue
        if (header := _HEADER.fullmatch(line)) is not None:
            arrays.append((header[1].removeprefix("/dev/"), {}, []))
            in_table = False
        elif not arrays or (line[0] not in " \t" and not _PAIR.match(line)):
            if (pair := _PAIR.match(line)) is not None:
                raise _refused(number, "'/dev/<array>:'", line, pair)
            complaints.append(line.strip())
        elif _TABLE.fullmatch(line):
            in_table = True
        elif in_table:
            arrays[-1][2].append(_slot(number, line))
        elif (pair := _PAIR.match(line)) is not None:
            key, value = (pair[1], pair[2]) if pair[1] else (pair[3], pair[4])
            key = " ".join(key.split())
            if key in _OTHER_COMMANDS:
                raise _refused(number, "a field of --detail", line, pair)
            arrays[-1][1].setdefault(key, value.strip())
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


def as_array(detail: Detail) -> Array:
    """Return an array of which only mdadm tells, as '/proc/mdstat' and sysfs would.

    Source: mdadm's Detail.c, for the words of 'State :'.
    """
    words = {each.casefold() for each in detail.states}
    state = next((each for each in _RUNNING if each in words), "inactive")
    if words & {"failed", "broken", "not started"}:
        state = "broken" if "broken" in words or state != "inactive" else state
    missing = len(detail.missing)
    if detail.raid_devices is not None and detail.active_devices is not None and state in _RUNNING:
        missing = max(missing, detail.raid_devices - detail.active_devices)
    redundant = detail.level not in {"raid0", "linear", "container", ""} or (
        not detail.level and missing > 0
    )
    return Array(
        name=detail.name,
        level=detail.level or None,
        state=state,
        raid_disks=detail.raid_devices,
        degraded=missing if redundant and state != "inactive" else None,
        sync_action=_ACTIONS.get(detail.action, "idle") if redundant else None,
        sync_done_ratio=detail.done_ratio,
        sync_speed_bytes_per_second=None,
        mismatches_bytes=None,
        chunk_bytes=None,
        size_bytes=None,
        members=tuple(
            Member(each.device, each.slot, _member_states(each))
            for each in detail.slots
            if each.device
        ),
        metadata=f"external:{detail.metadata}" if detail.level == "container" else None,
    )


_RUNNING = ("clean", "active", "active-idle", "read-only", "readonly", "broken")
_ACTIONS = {"Rebuild": "recover", "Resync": "resync", "Reshape": "reshape", "Check": "check"}


def _member_states(slot: Slot) -> tuple[str, ...]:
    """Return mdadm's words for a member in the kernel's: 'active sync' is 'in_sync'."""
    if slot.states[:2] == ("active", "sync"):
        return ("in_sync", *slot.states[2:])
    return slot.states


def read_detail(root: Root, name: str) -> Detail:
    """Ask mdadm of an array ('md0'). Its exit status says only what the text says.

    Errors: AbsentError, MissingError, StuckError, LateError, ReadError, ParseError.
    """
    text = run_program(root, DEADLINE_SECONDS, "mdadm", "--detail", f"/dev/{name}")
    return parse_detail(text).arrays[0]


def _contradictions(array: Detail) -> Iterator[str]:
    """Yield what is not known of an array, and how its words, counts and table contradict.

    The table has each place, also one without a member, and each that is faulty; an inactive array
    has no places. Source: mdadm 4.6, Detail.c; kernel, drivers/md/md.c, get_array_info.
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
        yield (
            f"expected rows of {array.raid_devices} raid devices, got {len(places)}: it is"
            " truncated"
        )
        return
    short = not {"degraded", "FAILED"}.isdisjoint(array.states)
    if array.states and short != bool(array.missing):
        yield f"expected '{', '.join(array.states)}' and the table to agree, got {array.missing}"


def _refused(number: int, expected: str, line: str, pair: re.Match[str]) -> ParseError:
    other = " (the output of another command)" if (pair[1] or pair[3]) in _OTHER_COMMANDS else ""
    return ParseError(
        f"'mdadm --detail': line {number}: expected {expected}, got {line[:120]!r}{other}"
    )


def _slot(number: int, line: str) -> Slot:
    row = _ROW.fullmatch(line)
    if row is None:
        raise ParseError(
            f"'mdadm --detail': line {number}: expected '<number> <major> <minor> <slot> <state>"
            f" <device>', got {line[:120]!r}"
        )
    states = tuple((row[3] or "").split())
    return Slot(
        None if row[2] == "-" else int(row[2]), states, (row[4] or "").removeprefix("/dev/")
    )


def _detail(name: str, fields: dict[str, str], slots: list[Slot]) -> Detail:
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
