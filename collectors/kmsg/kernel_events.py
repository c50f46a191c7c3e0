r"""Classify lines of the kernel log: event kind, device and sector range.

Lines are identified by their format, in every form since Linux 2.4, never by the kernel version:
distributions backport changes. One line is one event; data of messages that span several lines are
carried over, so the line with the additional sense and the one with the command block have the
sense key, and the command block has the range. Consequences of an error remain events of their own,
as KINDS states. A line of level error or worse that no pattern takes, neither as an event nor as
harmless, is an event too if storage printed it (storage_drivers.py): 'unrecognized_error' or
'unrecognized_critical'. So is one that only words in general take, of a fault ('error', 'failed')
or of none ('not supported', 'allocate'): with such a word a line must not count for less than
without. Whole messages that healthy machines print are no events (kernel_harmless.py).

Not reported, because they do not concern a disk in use: floppy, CD and ram devices (of loop, nbd
and zram devices rules/events/event_correlation.py uses those that carry something); no medium in a
card reader; the sense of query commands (smartctl); the flush that fails on a detached device, and
DID_NO_CONNECT after it; 'SATA link down' of a port without a fault; whatever a program wrote to
'/dev/kmsg'.
*Limits:* the kernel limits the rate of most of these lines, so counts are lower bounds; the text is
that of the line (Event.text), numbers of additional sense exist only for the common ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kernel import oom_kill
from iowarden.collectors.kmsg.kernel_ata import ata_line, registers
from iowarden.collectors.kmsg.kernel_block import device_first, request_error
from iowarden.collectors.kmsg.kernel_classifier import (
    NO_DEVICE,
    TEXT_CHARACTERS,
    Classifier,
    LineReader,
    Taken,
    shaped,
)
from iowarden.collectors.kmsg.kernel_file_systems import LEADS as FILE_SYSTEM_LEADS
from iowarden.collectors.kmsg.kernel_file_systems import (
    ZFS_LEADS,
    cluster_line,
    file_system_line,
    zfs_line,
)
from iowarden.collectors.kmsg.kernel_harmless import is_harmless
from iowarden.collectors.kmsg.kernel_kinds import (
    HARMLESS,
    UNRECOGNIZED_CRITICAL,
    UNRECOGNIZED_ERROR,
)
from iowarden.collectors.kmsg.kernel_patterns import EXEMPT, LEAD, LEADS, Fields, located
from iowarden.collectors.kmsg.kernel_pci import LEADS as PCI_LEADS
from iowarden.collectors.kmsg.kernel_pci import pci_line
from iowarden.collectors.kmsg.kernel_scsi import (
    EXPLAINING,
    WAITING,
    disk_line,
    dumped,
    old_sense,
    scsi_command,
    scsi_line,
    scsi_rest,
)
from iowarden.collectors.kmsg.storage_drivers import (
    CRITICAL,
    ERROR,
    driver_of,
    is_critical,
    is_error,
    place_of,
)
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from iowarden.collectors.kmsg.kernel_line import KernelLine

_VAGUE = frozenset({"driver_message", "fs_warning", HARMLESS})
"""Kinds of a line that only words in general took: its level decides what it is."""
_WARNING = 4
"""Source: include/linux/kern_levels.h."""
_SEEN = 16
_NO_DISK = lazy_pattern(r"\b(?:fd|sr|scd)[0-9]+\b", re.ASCII)
"""A floppy or CD, anywhere in a line: mount tries each file system on it."""


def classify(state: Classifier, line: KernelLine) -> tuple[Classifier, tuple[StorageEvent, ...]]:
    """Return the state after a line, and its events. Never raises."""
    if line.facility:
        return state, ()
    text = line.text
    if "\n" not in text:
        return _classify(state, line, text.strip())
    events: tuple[StorageEvent, ...] = ()
    for part in text.split("\n"):
        state, more = _classify(state, line, _LEVEL.sub("", part.strip()))
        events += more
    return state, events


def finish(state: Classifier) -> tuple[StorageEvent, ...]:
    """Return events that wait for a next line that does not come: at the end of a text."""
    return state.pending_sense


def unrecognized_driver(state: Classifier, line: KernelLine) -> str:
    """Return the storage driver whose line no pattern takes, at any level; '': there is none.

    Words in general take no line of level error or worse; of unknown level only as harmless.
    """
    if line.facility or "\n" in line.text:
        return ""
    text = line.text.strip()
    _, found = _taken(state, line, text)
    kind = "" if found is None else found[0]
    if kind == HARMLESS and line.priority is None:
        return ""
    is_vague = kind in _VAGUE and (line.priority is None or line.priority <= ERROR)
    if (found is not None and not is_vague) or is_harmless(text):
        return ""
    return _driver(state, line, text, kind)


def _taken(state: Classifier, line: KernelLine, text: str) -> Taken:
    take = _line_reader(text)
    if take is None:
        # Most lines end here, and this is all that they cost.
        return (state, None) if state.scsi.dump is None else dumped(state, line, text)
    return take(state, line, text[:TEXT_CHARACTERS])


def _classify(
    state: Classifier, line: KernelLine, text: str
) -> tuple[Classifier, tuple[StorageEvent, ...]]:
    after, found = _taken(state, line, text)
    if found is None:
        return _unrecognized(after, line, text, "", {})
    kind, fields = found
    if not kind or (NO_DEVICE.match(fields.get("device", "")) and not kind.startswith("md_")):
        return after, ()
    if kind in _VAGUE:
        if line.priority is None or line.priority > _WARNING or is_harmless(text):
            return after, ()
        if line.priority <= ERROR and _driver(state, line, text, kind):
            return _unrecognized(after, line, text, kind, fields)
        if kind == HARMLESS:
            return after, ()
    after, event = _event(after, line, text, kind, fields)
    held = after.pending_sense
    if kind not in WAITING:
        return (after._replace(pending_sense=()) if held else after), (*held, event)
    own = after.scsi.device, after.scsi.tag
    # A second sense, or result, belongs to the next command.
    begins = kind not in EXPLAINING and any(each.kind != "scsi_result" for each in held)
    if own == after.pending_command and not begins:
        return after._replace(pending_sense=(*held, event)), ()
    return after._replace(pending_sense=(event,), pending_command=own), held


def _unrecognized(
    state: Classifier, line: KernelLine, text: str, vague_kind: str, fields: Fields
) -> tuple[Classifier, tuple[StorageEvent, ...]]:
    """Return the event of an error line that no pattern took, if storage printed it.

    `fields` are those of its vague kind ('': it has none), by the grammar of its printer.
    """
    if line.priority is None or line.priority > _WARNING:
        return state, ()
    driver = _driver(state, line, text, vague_kind)
    if not driver or not is_error(driver, line.priority) or is_harmless(text):
        return state, ()
    is_worse = is_critical(driver, line.priority)
    kind = UNRECOGNIZED_CRITICAL if is_worse else UNRECOGNIZED_ERROR
    _, where = located((kind, place_of(text, driver) | fields), text)
    where = where or {"controller": driver}
    if NO_DEVICE.match(where.get("device", "")) or _NO_DISK.search(text) is not None:
        return state, ()
    # Lines that wait for their continuation go on waiting: this one may come between.
    state, event = _event(state, line, text, kind, where | {"code": driver})
    return state, (event,)


def _driver(state: Classifier, line: KernelLine, text: str, vague_kind: str) -> str:
    """Return the storage driver that printed a line; '': none.

    The first word of a line with words of a fault in general is that of a printer of storage: at
    level critical that is enough, whatever follows it ('ncr KVAR out of range').
    """
    driver = driver_of(line, text, state.host_drivers)
    if driver or vague_kind in {"", HARMLESS}:
        return driver
    if line.priority is None or line.priority > CRITICAL:
        return ""
    lead = LEAD.match(text)
    return "" if lead is None else lead[0].lower()


def _line_reader(text: str) -> LineReader | None:
    """Return the parser of a line."""
    if " error, dev " in text:
        return request_error
    if (
        " beyond EOD" in text
        or " tag error at " in text
        or "writeback error on inode" in text
        or ": zone " in text
    ):
        return device_first
    if " on swap-device" in text or " on dio swapfile" in text:  # otherwise 'Read' begins a CDB
        return shaped
    lead = LEAD.match(text)
    if lead is not None:
        word = lead[0]
        taker = _LINE_READERS.get(word)
        if taker is not None:
            return taker
        if word[:2] in _DISKS:
            return disk_line
    elif text[:1] == "(" or text[:4] == "*** ":
        return cluster_line
    elif text[:6] == "<<vend":  # of the code of an additional sense
        return scsi_rest
    if text.endswith(("callbacks suppressed", " to 0")) or "limit=" in text:
        return shaped
    return None


def _oom_line(state: Classifier, line: KernelLine, text: str) -> Taken:
    """Parse a line about a lack of memory, which may report a kill."""
    taken = oom_kill.next_report(state.lack_of_memory, line.monotonic_seconds, text)
    if taken is None:
        return shaped(state, line, text)
    report, kill = taken
    state = state._replace(lack_of_memory=report)
    if kill is None:
        return state, EXEMPT
    return state, (kill.kind, {"code": kill.program, "place": kill.place})


def _event(
    state: Classifier, line: KernelLine, text: str, kind: str, fields: Fields
) -> tuple[Classifier, StorageEvent]:
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
    return state, StorageEvent(
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


_LEVEL = lazy_pattern(r"<[0-9]>")
_DISKS = frozenset({"sd", "hd"})
_LINE_READERS: dict[str, LineReader] = {
    **dict.fromkeys(LEADS, shaped),
    **dict.fromkeys(("sd", "scsi", "st", "ses", "sr", "osst"), scsi_line),
    **dict.fromkeys(
        ("Sense", "Add", "Additional", "Result", "CDB", "Descriptor", "ASC"), scsi_rest
    ),
    **dict.fromkeys(("Read", "Write", "Verify", "SCSI"), scsi_rest),
    **dict.fromkeys(("Info", "Current", "Deferred"), old_sense),
    "command": scsi_command,
    "ata": ata_line,
    "res": registers,
    **dict.fromkeys(oom_kill.LEADS, _oom_line),
    **dict.fromkeys(PCI_LEADS, pci_line),
    **dict.fromkeys(FILE_SYSTEM_LEADS, file_system_line),
    **dict.fromkeys(ZFS_LEADS, zfs_line),
}
