"""Parser of the event log of MegaRAID controllers: 'storcli /cN show events'. Pure.

An entry is a record of 'key: value' lines that begins with its number. MegaCli prints the same
records. Entries have codes; it is not published whether storcli2 has the same codes, so its events
are identified by text alone.
Source: published logs; for codes the firmware's own table (MR_EVT) and the vendor's user guides.
The class of an event is its severity for the firmware, which treats a failing disk as
informational; iowarden's own severities are in rules/events/events.yaml.
Limits: until the host's driver has set the clock, an event has no time but the seconds since the
controller started: `clock_seconds` is None then. No log of storcli2 was available.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.event import StorageEvent
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output
from iowarden.collectors.raid.controller import ControllerLog
from iowarden.collectors.raid.megaraid import storcli
from iowarden.collectors.raid.megaraid.storcli_event_codes import NAMES
from iowarden.collectors.raid.megaraid.storcli_places import SOURCE, block_of, place

if TYPE_CHECKING:
    from collections.abc import Sequence

OTHER = "megaraid_other"
WRAP = 2**32
"""Entry numbers have 32 bits. Source: MR_EVT_PACKED."""


_CODES = {code: name for name, (_, codes) in NAMES.items() for code in codes}
KINDS = {
    **{f"{SOURCE}_{name}": meaning for name, (meaning, _) in NAMES.items()},
    OTHER: "an unknown event",
}
"""Every event kind of this module, and its meaning."""

CLASSES = {
    -2: "DEBUG",
    -1: "PROG",
    0: "INFO",
    1: "WARNING",
    2: "CRITICAL",
    3: "FATAL",
    4: "DEAD",
}
"""Source: MR_EVT_CLASS of megaraid_sas.h."""
_DISK_STATES = {
    "UNCONFIGURED_GOOD": "pd_unconfigured_good",
    "UNCONFIGURED_BAD": "pd_unconfigured_bad",
    "HOT SPARE": "pd_hot_spare",
    "OFFLINE": "pd_offline",
    "FAILED": "pd_failed",
    "REBUILD": "pd_rebuilding",
    "ONLINE": "pd_online",
    "COPYBACK": "pd_copyback",
    "SYSTEM": "pd_jbod",
    "JBOD": "pd_jbod",
}
"""All but the last three were seen in logs."""
_ARRAY_STATES = {
    "OPTIMAL": "vd_optimal",
    "PARTIALLY DEGRADED": "vd_partially_degraded",
    "DEGRADED": "vd_degraded",
    "OFFLINE": "vd_offline",
}
_SENSE = {
    0x0: "sense",
    0x1: "recovered_error",
    0x2: "sense",
    0x3: "medium_error",
    0x4: "hardware_error",
    0x5: "sense",
    0x6: "sense",
    0xB: "aborted_command",
}
"""By sense key; the others are unknown here. Source: SPC-4, table 28."""
_PREDICTIVE = 0x5D
"""Additional sense code: failure prediction threshold exceeded."""
_MESSAGES = (
    (r"VD \S+ is now OPTIMAL", "vd_optimal"),
    (r"VD \S+ is now PARTIALLY DEGRADED", "vd_partially_degraded"),
    (r"VD \S+ is now DEGRADED", "vd_degraded"),
    (r"VD \S+ is now OFFLINE", "vd_offline"),
    (r"Predictive failure\b", "predictive_failure"),
    (r"Command timeout on PD\b", "command_timeout"),
    (r"PD \S+(?: Path \S+)?\s{1,4}reset\b", "pd_reset"),
    (r"Puncturing bad block\b", "punctured"),
    (r"(?:\S+ ){0,4}corrected medium error\b", "medium_error_corrected"),
    (r"Corrected medium error\b", "medium_error_corrected"),
    (r"Unrecoverable medium error during rebuild\b", "rebuild_medium_error"),
    (r"(?:Unrecoverable|Uncorrectable) medium error\b", "medium_error_uncorrectable"),
    (r"Rebuild (?:automatically )?(?:started|resumed)\b", "rebuild_started"),
    (r"Rebuild complete\b", "rebuild_done"),
    (r"Rebuild failed\b", "rebuild_failed"),
    (r"Error on PD\b", "pd_error"),
    (r"Inserted: ", "pd_inserted"),
    (r"Removed: ", "pd_removed"),
    (r"Patrol Read (?:started|complete|resumed|paused)\b", "patrol_read"),
    (r"Consistency Check (?:started|done)\b", "check_progress"),
    (r"BBU enabled\b", "write_back_on"),
    (r"BBU disabled\b", "write_back_off"),
)
"""Beginnings of texts without a code. 'done with corrections' is not among them."""
_FAILED_BY_TEXT = frozenset(
    (
        *("vd_offline", "vd_degraded", "vd_partially_degraded", "punctured", "rebuild_failed"),
        *("medium_error_uncorrectable", "rebuild_medium_error", "predictive_failure"),
    )
)
_MILD = frozenset(
    (
        *("vd_optimal", "vd_created", "vd_properties_changed", "pd_inserted", "pd_information"),
        *("medium_error_corrected", "bad_block_remapped", "recovered_error", "sense"),
        *("rebuild_started", "rebuild_progress", "rebuild_done", "patrol_read", "check_progress"),
        *("initialization", "copyback_started", "copyback_progress", "copyback_done"),
        *("write_back_on", "battery_present"),
    )
)
"""Kinds of a code that a text of the ones above overrules: of two the worse counts."""

_NUMBER = lazy_pattern(
    r"(?:seqNum|Sequence Number)\s*:\s*(0x[0-9a-f]{1,8}|\d{1,10})\s*", re.IGNORECASE | re.ASCII
)
_FIELD = lazy_pattern(r"\s*([A-Za-z][A-Za-z ]{1,40}?)\s*:\s*(|.*\S)\s*")
_DESCRIBED = lazy_pattern(r"\s*Event Description\s*:", re.IGNORECASE)
_TRAILER = lazy_pattern(r"\s*(CLI Version|Operating system|Controller|Status|Description)\s*=.*")
_EXIT = lazy_pattern(r"\s*Exit Code: 0x[0-9a-f]{1,8}\s*", re.IGNORECASE | re.ASCII)
_STATUS = lazy_pattern(r"^Status\s*=\s*(\w+)[ \t]*\n(?:Description\s*=\s*(.*))?", re.MULTILINE)
_DISK_CHANGE = lazy_pattern(r"State change (by user )?on PD \S+(?: \S+)? from .+ to ([A-Z_ ]+)\(")
_ARRAY_CHANGE = lazy_pattern(r"State change (?:by user )?on VD \S+ from .+ to ([A-Z_ ]+)\(")
_SENSE_DATA = lazy_pattern(
    r"Sense: ([0-9a-f]{1,2})/([0-9a-f]{1,2})/([0-9a-f]{1,2})", re.IGNORECASE | re.ASCII
)


def parse_events(text: str, name: str) -> ControllerLog:
    """Parse 'show events' of the controller `name`: events by their numbers.

    Programs list the newest first or last; an entry that is listed twice is returned once. A record
    without description becomes an event of unknown kind: nothing is dropped. A text with only a
    success message is an empty log. `sequence` is the entry's number.
    Errors: ParseError, if it is no log: the small build of storcli2 prints 'Un-supported command'.
    """
    plain = output.plain(text)
    records: list[list[str]] = []
    for line in plain.split("\n"):
        if _NUMBER.fullmatch(line):
            records.append([line])
        elif _TRAILER.fullmatch(line) or _EXIT.fullmatch(line):
            records.append([])  # what is below it belongs to no entry
        elif records and records[-1]:
            records[-1].append(line)
    entries = [each for each in records if each]
    status = _STATUS.search(plain)
    if not entries:
        other = [
            line for line in plain.split("\n") if line.strip() and not _TRAILER.fullmatch(line)
        ]
        if status is None or status[1].casefold() != "success" or other:
            told = plain if status is None else "\n".join((*other, status[2] or status[1]))
            raise output.refused(f"storcli '{name}' show events", "'seqNum: 0x...'", told)
    whole = plain.endswith("\n") or status is not None
    described = [any(map(_DESCRIBED.match, record)) for record in entries]
    ended = status is not None or any(map(_EXIT.fullmatch, plain.split("\n")))
    if not ended and any(described) and not described[-1]:
        whole = False  # it was truncated between two lines of its last record
    found = {}
    for record in entries:
        event = _event(record, name)
        found[event.sequence, event.clock_seconds, event.text] = event
    events = sorted(found.values(), key=lambda event: event.sequence)
    if events and events[-1].sequence - events[0].sequence > WRAP // 2:
        events.sort(key=lambda event: (event.sequence + WRAP // 2) % WRAP)
    return ControllerLog(tuple(events), cut=not whole)


def _event(record: Sequence[str], name: str) -> StorageEvent:
    number = _NUMBER.fullmatch(record[0])
    digits = number[1] if number else "0"
    fields: dict[str, str] = {}
    for line in record[1:]:
        if found := _FIELD.fullmatch(line):
            fields.setdefault(found[1].casefold(), found[2])
    description = output.printable(" ".join(fields.get("event description", "").split()))
    told = re.fullmatch(r"0x0*([0-9a-f]{1,8})", fields.get("code", ""), re.IGNORECASE)
    code = int(told[1], 16) if told else None
    # Only the first generation prints 'seqNum', and has these codes.
    known = code if record[0].lstrip().casefold().startswith("seqnum") else None
    sense = _SENSE_DATA.search(description)
    block = block_of(description)
    return StorageEvent(
        SOURCE,
        _kind(known, description),
        description or output.printable(" ".join(" ".join(record).split())[:400]),
        controller=name,
        place=place(description, fields),
        block=block,
        sense_key=int(sense[1], 16) if sense else None,
        asc=int(sense[2], 16) if sense else None,
        ascq=int(sense[3], 16) if sense else None,
        code="" if code is None else f"0x{code:04X}",
        word=_word(fields.get("class", "")),
        clock_seconds=_clock(fields.get("time", "")),
        sequence=int(digits, 16 if "x" in digits.casefold() else 10),
    )


def kind_of(code: int, description: str) -> str:
    """Return the kind of an event by its code and text, also of one from the kernel log."""
    return _kind(code, description)


def _kind(code: int | None, description: str) -> str:
    """Return the kind. State changes and sense data are identified by text, not by code."""
    if change := _DISK_CHANGE.match(description):
        name = "pd_state_by_user" if change[1] else _DISK_STATES.get(change[2].strip())
        return f"{SOURCE}_{name or 'pd_state_other'}"
    if change := _ARRAY_CHANGE.match(description):
        return f"{SOURCE}_{_ARRAY_STATES.get(change[1].strip(), 'vd_state_other')}"
    if sense := _SENSE_DATA.search(description):
        key, asc = int(sense[1], 16), int(sense[2], 16)
        name = "sense_predictive" if asc == _PREDICTIVE else _SENSE.get(key, "sense_other")
        return f"{SOURCE}_{name}"
    name = _CODES.get(code) if code is not None else None
    if name is None and re.match(r"Consistency Check done with", description):
        name = "check_corrected"
    if name is None or name in _MILD:
        told = next((told for words, told in _MESSAGES if re.match(words, description)), None)
        name = told if name is None or told in _FAILED_BY_TEXT else name
    return f"{SOURCE}_{name}" if name else OTHER


def _word(text: str) -> str:
    """Return the severity name of the class, '' if it has none."""
    if re.fullmatch(r"-?\d{1,3}", text, re.ASCII):
        return CLASSES.get(int(text), output.printable(text))
    words = {"informational": "INFO", "information": "INFO", "progress": "PROG"}
    return words.get(text.casefold(), output.printable(text).upper())[:40]


def _clock(text: str) -> float | None:
    found = output.date_seconds(text)
    return storcli.clock_seconds(text) if found is None else found
