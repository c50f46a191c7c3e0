r"""What a line of the kernel's log tells of storage: its class, device and range.

Lines are told apart by their shape, in every form since Linux 2.4, never by the kernel's version:
distributions carry changes back. One line is one event; what the kernel prints over several lines
is carried on, so that the line with the additional sense and the one with the command block have
the sense key, and the command block has the range. Consequences of an error stay events of
their own, and KINDS says so.

Not told, because they say nothing of a disk that is in use: floppy, CD and ram devices (of loop,
nbd and zram devices rules/events/event_correlation.py takes those that carry something); no medium
in a card reader; the sense of commands that only ask (smartctl); the flush that fails on a device
that was taken away, and DID_NO_CONNECT after it; 'SATA link down' of a port where nothing was
wrong; whatever a program wrote to '/dev/kmsg'.
*Limits:* the kernel limits the rate of most of these lines, so that numbers are lower bounds; the
words come with the line (Event.text), numbers of additional sense only for the common ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.event import Event
from iowarden.collectors.kmsg.kernel_ata import ata_line, registers
from iowarden.collectors.kmsg.kernel_block import device_first, request_error
from iowarden.collectors.kmsg.kernel_classifier import (
    NO_DEVICE,
    TEXT_CHARACTERS,
    Classifier,
    Taker,
    shaped,
)
from iowarden.collectors.kmsg.kernel_patterns import LEAD, LEADS, Fields
from iowarden.collectors.kmsg.kernel_scsi import (
    EXPLAINING,
    WAITING,
    disk_line,
    dumped,
    old_sense,
    scsi_line,
    scsi_rest,
)

if TYPE_CHECKING:
    from iowarden.collectors.kmsg.kernel_line import Line

_BY_LEVEL = frozenset({"driver_message", "fs_warning"})
"""What only the level tells from a driver's ordinary messages."""
_WARNING = 4
"""Source: include/linux/kern_levels.h."""
_SEEN = 16


def classify(state: Classifier, line: Line) -> tuple[Classifier, tuple[Event, ...]]:
    """Return what is known after a line, and the events it tells. Nothing fails."""
    if line.facility:
        return state, ()
    text = line.text
    if "\n" not in text:
        return _classify(state, line, text.strip())
    events: tuple[Event, ...] = ()
    for part in text.split("\n"):
        state, more = _classify(state, line, _LEVEL.sub("", part.strip()))
        events += more
    return state, events


def of_storage(text: str) -> bool:
    """Return whether a line begins as those do that are about storage, whatever it says."""
    return _taker(text) is not None


def finish(state: Classifier) -> tuple[Event, ...]:
    """Return what waits for a next line that does not come: at the end of a text."""
    return state.held


def _classify(state: Classifier, line: Line, text: str) -> tuple[Classifier, tuple[Event, ...]]:
    take = _taker(text)
    if take is None and state.scsi.dump is None:
        return state, ()
    after, found = (dumped if take is None else take)(state, line, text[:TEXT_CHARACTERS])
    if found is None:
        return after, ()
    kind, fields = found
    if NO_DEVICE.match(fields.get("device", "")) and not kind.startswith("md_"):
        return after, ()
    if kind in _BY_LEVEL and (line.priority is None or line.priority > _WARNING):
        return after, ()
    after, event = _event(after, line, text, kind, fields)
    held = after.held
    if kind not in WAITING:
        return (after._replace(held=()) if held else after), (*held, event)
    own = after.scsi.device, after.scsi.tag
    # A second sense, or result, is that of the next command.
    begins = kind not in EXPLAINING and any(each.kind != "scsi_result" for each in held)
    if own == after.held_of and not begins:
        return after._replace(held=(*held, event)), ()
    return after._replace(held=(event,), held_of=own), held


def _taker(text: str) -> Taker | None:
    """Return who reads a line; most lines are nobody's, and this is all they cost."""
    if " error, dev " in text:
        return request_error
    if (
        " beyond EOD" in text
        or " tag error at " in text
        or "writeback error on inode" in text
        or ": zone " in text
    ):
        return device_first
    if " on swap-device" in text or " on dio swapfile" in text:  # else 'Read' begins a CDB
        return shaped
    lead = LEAD.match(text)
    if lead is not None:
        word = lead[0]
        taker = _TAKERS.get(word)
        if taker is not None:
            return taker
        if word[:2] in _DISKS:
            return disk_line
    if text.endswith("callbacks suppressed") or "limit=" in text:
        return shaped
    return None


def _event(
    state: Classifier, line: Line, text: str, kind: str, fields: Fields
) -> tuple[Classifier, Event]:
    text = text[:TEXT_CHARACTERS]
    if not text.isprintable():
        text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    moment = line.monotonic_seconds
    if moment is None:
        count = line.sequence
    elif moment == state.moment:
        counts = dict(state.seen)
        count = counts.get(text, -1) + 1
        counts[text] = count
        state = state._replace(seen=tuple(counts.items())[-_SEEN:])
    else:
        count = 0
        state = state._replace(moment=moment, seen=((text, 0),))
    return state, Event(
        source="kernel",
        kind=kind,
        text=text,
        priority=line.priority,
        boot_id=line.boot_id,
        monotonic_seconds=moment,
        realtime_seconds=line.realtime_seconds,
        sequence=count,
        **fields,
    )


_LEVEL = re.compile(r"<[0-9]>")
_DISKS = frozenset({"sd", "hd"})
_TAKERS: dict[str, Taker] = {
    **dict.fromkeys(LEADS, shaped),
    **dict.fromkeys(("sd", "scsi", "st", "ses", "sr", "osst"), scsi_line),
    **dict.fromkeys(
        ("Sense", "Add", "Additional", "Result", "CDB", "Descriptor", "ASC"), scsi_rest
    ),
    **dict.fromkeys(("Read", "Write", "Verify", "SCSI"), scsi_rest),
    **dict.fromkeys(("Info", "Current", "Deferred"), old_sense),
    "ata": ata_line,
    "res": registers,
}
