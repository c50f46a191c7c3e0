"""Kernel log: dmesg, the journal, syslog, '/dev/kmsg'."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.kmsg import (
    kernel_classifier,
    kernel_drivers,
    kernel_events,
    kernel_line,
    storage_drivers,
)
from iowarden.collectors.kmsg.kernel_kinds import UNRECOGNIZED
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import (
    KERNEL_LEADS,
    SIGNS,
    Finding,
    LocatedEvent,
    Parsed,
    Tool,
    UnparsedLine,
)
from iowarden.collectors.pasted_text.no_verdict import no_verdict
from iowarden.collectors.redundancy import NONE_LEFT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iowarden.collectors.kmsg.kernel_classifier import Classifier
    from iowarden.collectors.kmsg.kernel_line import KernelLine

MAX_UNPARSED = 1000
"""Maximum unparsed lines that are listed."""


GRAVE = (
    r"(?i:\b(?:set|remount\w*|switch\w*|now|forc\w*|emergency|go\w*|enter\w*|made|mark\w*"
    r"|bec[ao]me\w*)\b[^,;.]{0,40}\bread[- ]?only\b|\bwithdr[ae]w|\bpanic|\bfenc(?:ed|ing)\b"
    r"|\bfatal\b|\bemergency\b|\bshutting down (?:filesystem|mount)|\bshut down\b)"
)
"""What a file system or an adapter did because of a fault: never 'no event'."""
_TROUBLE = lazy_pattern(
    rf"{kernel_drivers.FAULT}|{GRAVE}|(?i:\b(?:offlin\w*|dead|fault\w*|hung|unrecover\w*|will reset"
    r"|critical|down|closed|suspended|gone|unreachable|evicted|blocklisted|blacklisted|fenced)\b"
    r"|\bbroke\b|undefined behaviou?r|no lower data"
    r"|nonexist|non-exist|truncated|needs? fsck|past end|outside the|\berr[:=])",
    re.ASCII,
)
"""Words of a fault, or of storage that is not reached: all that a line without a level has."""


def parse_kernel_log(text: str) -> Parsed:
    """Parse the storage events in lines of the kernel log."""
    state = kernel_classifier.Classifier()
    events: list[LocatedEvent] = []
    unread: list[UnparsedLine] = []
    held_at = others = count = 0
    unlisted: list[UnparsedLine] = []
    asked = is_of_storage = False
    for line in kernel_line.parse_text(text):
        count += 1
        before = state.pending_sense
        missed = _unrecognized(state, line)
        state, told = kernel_events.classify(state, line)
        is_read = bool(told or missed) or state.pending_sense is not before
        if not is_read and (below := _below_head(line)) is not None:
            state, told = kernel_events.classify(state, below)
        told = tuple(each for each in told if each.kind not in UNRECOGNIZED)
        is_of_storage = is_of_storage or is_read or _is_of_storage(line)
        if missed is not None and not told:
            (unread if len(unread) < MAX_UNPARSED else unlisted).append(missed)
        if not told and state.pending_sense is before:
            others += missed is None
        events += [
            LocatedEvent(each, held_at if any(each is one for one in before) else line.sequence)
            for each in told
        ]
        if state.pending_sense is not before:
            held_at, asked = line.sequence, True  # also if the pending line is harmless
    events += [LocatedEvent(event, held_at) for event in kernel_events.finish(state)]
    events = _with_disks(events, text)
    if unlisted:
        reason = f"{len(unlisted)} further lines were not recognized, and are not listed"
        unread.append(UnparsedLine(reason, fault=any(each.fault for each in unlisted)))
    unread += _memory_errors(text)
    known = events or unread or asked or SIGNS[Tool.KERNEL].search(text)
    if not known:
        unknown = "no line of it was recognized as a line of the kernel log"
        unread.append(UnparsedLine(no_verdict(text) or unknown))
    elif count and not (is_of_storage or unread or events):
        unread.append(UnparsedLine(NO_STORAGE))
    return Parsed(
        Tool.KERNEL,
        events=tuple(events),
        findings=tuple(_lost_members(events, text)),
        outputs=("kernel log",) if known else (),
        unparsed=tuple(unread),
        lines=count,
        others=others,
    )


def _is_of_storage(line: KernelLine) -> bool:
    """Whether a storage driver, a file system or the block layer printed a line, well or ill."""
    below = _below_head(line) or line
    return any(
        storage_drivers.driver_of(below, part.strip()) or _OF_STORAGE.search(part)
        for part in below.text.split("\n")
    )


_OF_STORAGE = lazy_pattern(
    r"\b(?:[shv]d[a-z]{1,3}\d{0,3}|nvme\d{1,4}\S*|md\d{1,3}|dm-\d{1,4}"
    r"|ata\d{1,3}|scsi ?\d{0,5})\b"
)
"""Words of storage in lines of others: of systemd, of the partition table's reader."""
NO_STORAGE = (
    "kernel log: no line of it is of a disk, an adapter or a file system: nothing was judged;"
    " all of the boot: journalctl -k -b"
)


def _lost_members(events: Sequence[LocatedEvent], text: str) -> Iterator[Finding]:
    """Yield arrays that lost a member, and were not rebuilt later in the text.

    The service reads their redundancy from /proc/mdstat. Here it is that of the level and of the
    members that are left; critical unless the array certainly survives one more failure.
    """
    lost: dict[str, _Loss] = {}
    last = ""
    for each in events:
        event = each.event
        if event.kind == "md_disk_failure":
            last = event.place
            before = lost.get(last)
            lost[last] = _Loss(event.device, event.text, number=before.number + 1 if before else 1)
        elif event.kind == "md_members" and (left := _CONTINUES.search(event.text)):
            array = event.device or last
            loss = lost.pop(last if last in lost else array, _Loss("", event.text))
            lost[array] = replace(loss, left=int(left[1]))
        elif event.kind == "md_sync_done":
            lost.pop(event.device, None)
            lost.pop("", None)  # to 2.6.32 the line has no array
    survivors = set(_DOUBLE_PARITY.findall(text))
    for array, loss in lost.items():
        name, after = array or "an array", f" after {loss.member} failed" * bool(loss.member)
        if loss.left == 1:
            told = f"{name}: one member is left{after}: {NONE_LEFT}"
        elif (array in survivors and loss.number == 1) or (loss.left and _COPIES.match(loss.text)):
            continue
        else:
            told = f"{name}: {loss.member or 'a member'} failed; it may have {NONE_LEFT}"
        yield Finding("critical", "MdDegraded", array or loss.member, told, _LOST_MEMBER_ADVICE)


@dataclass(frozen=True, slots=True)
class _Loss:
    """The last member that an array lost.

    Fields: `left` is the number of those that it has, None: not in the text; `number` that of the
    lost ones.
    """

    member: str
    text: str
    left: int | None = None
    number: int = 1


_CONTINUES = lazy_pattern(r"Operation continuing on (\d{1,9}) (?:devices|IO paths)\b", re.ASCII)
_COPIES = lazy_pattern(r"(?:md/)?(?:raid1|multipath)(?::\S{1,40})?: ", re.ASCII)
"""Each member has all data: two of them survive one more failure."""
_DOUBLE_PARITY = lazy_pattern(r"md/raid:(\S{1,40}): raid level 6 active with ", re.ASCII)
_LOST_MEMBER_ADVICE = (
    "Back up first what the array holds. See what it is now: cat /proc/mdstat; mdadm --detail"
    " /dev/MD. Then add a new disk: mdadm /dev/MD --add NEW-DISK"
)


def _below_head(line: KernelLine) -> KernelLine | None:
    """Return a line without what a log system put before the kernel's words; None: nothing."""
    begin = None if line.facility else _BELOW_HEAD.search(line.text)
    return None if begin is None else replace(line, text=line.text[begin.end() :])


_BELOW_HEAD = lazy_pattern(rf"[\]:|>}}] (?={KERNEL_LEADS})", re.ASCII)


def _memory_errors(text: str) -> list[UnparsedLine]:
    """Return that errors of memory are not judged, at the first line; none: there are none.

    They are no events of storage, yet without them all would seem to be right.
    Source: kernel, drivers/edac/edac_mc.c, edac_mc_handle_error; arch/x86/kernel/cpu/mce/core.c.
    """
    errors = [
        (number, line, match)
        for number, line in enumerate(text.split("\n"), 1)
        if (match := _OF_MEMORY.search(line)) is not None
    ]
    if not errors:
        return []
    number, line, _ = next((each for each in errors if each[2]["lost"]), errors[0])
    lost = any(match["lost"] for _, _, match in errors)
    what = (
        "errors of memory (ECC), some of them not corrected" if lost else "errors of memory (ECC)"
    )
    reason = f"{len(errors)} lines about {what}, which are not judged; see: ras-mc-ctl --errors"
    return [UnparsedLine(reason, line.strip(), number, fault=bool(lost))]


_OF_MEMORY = lazy_pattern(
    r"\bEDAC (?:\w{1,20} )?MC\d{1,3}: (?:\d{1,9} )?(?:(?P<counted>CE)|(?P<lost>UE)) "
    r"|\bEDAC \w{1,20} MC\d{1,3}: HANDLING|\{\d{1,9}\}\[Hardware Error\]:.{0,20}event severity:"
    r"|\bmce: .{0,40}Machine [Cc]heck(?:s| events logged|(?: Exception)?: )",
    re.ASCII,
)


def _with_disks(events: list[LocatedEvent], text: str) -> list[LocatedEvent]:
    """Return the events with the names of lost disks, of which the adapter prints only addresses.

    The disk's driver flushes it as it is removed: drivers/scsi/sd.c, sd_shutdown. That line stands
    above the adapter's (drivers/scsi/mpt3sas/mpt3sas_scsih.c, _scsih_remove_device), or near it.
    """
    if not any(each.event.kind == _LOST_DISK for each in events):
        return events
    flushes = {
        number: match[1]
        for number, line in enumerate(text.split("\n"), 1)
        if (match := _FLUSH.search(line)) is not None
    }
    named = []
    obedient = _stopped(text)
    for each in events:
        event = each.event
        device = event.device
        if event.kind == _LOST_DISK and each.line is not None and not device:
            device = _nearest(flushes, each.line)
            flushes = {line: name for line, name in flushes.items() if name != device}
            if device and device in obedient:
                continue
        named.append(replace(each, event=replace(event, device=device)))
    return named


def _stopped(text: str) -> set[str]:
    """Return the disks that obeyed a flush and a stop: they were removed on purpose.

    A disk that is gone fails the flush (drivers/scsi/sd.c, sd_sync_cache, sd_start_stop_device).
    """
    failed = {match[1] for match in _DISOBEYED.finditer(text)}
    return {match[1] for match in _STOP.finditer(text)} - failed


_STOP = lazy_pattern(r"\[(sd[a-z]{1,4})\] Stopping disk")
_DISOBEYED = lazy_pattern(
    r"\[(sd[a-z]{1,4})\] (?:Synchronize Cache\(\d\d\) failed|Start/Stop Unit failed)", re.ASCII
)


def _nearest(names: Mapping[int, str], line: int) -> str:
    """Return the last name in the lines above, else the first one below; '': none is near."""
    near = [at for at in names if abs(at - line) <= _NEAR_LINES]
    at = min(near, key=lambda at: (at > line, abs(at - line)), default=None)
    return "" if at is None else names[at]


_LOST_DISK = "hba_disk_lost"
_FLUSH = lazy_pattern(r"\[(sd[a-z]{1,4})\] Synchroniz(?:ing SCSI cache|e Cache)")
_NEAR_LINES = 8


def _unrecognized(state: Classifier, line: KernelLine) -> UnparsedLine | None:
    """Return the note about a line of storage that no pattern takes; None: nothing to note.

    It is a fault at level critical and worse. A warning, and a line whose level is not in the text,
    are noted if they have a word of trouble.
    """
    if kernel_line.ENTRY.match(line.text):
        return UnparsedLine(
            "expected a journal entry as JSON with a 'MESSAGE', got one that is cut or has none",
            line.text,
            line.sequence,
        )
    driver = kernel_events.unrecognized_driver(state, line)
    if not driver:
        return None
    is_error = storage_drivers.is_error(driver, line.priority)
    if not is_error and ((line.priority or 0) > _WARNING or _TROUBLE.search(line.text) is None):
        return None
    level = "" if line.priority is None else f", level {_LEVELS[line.priority]}"
    fault = storage_drivers.is_critical(driver, line.priority)
    return UnparsedLine(f"not recognized, from {driver}{level}", line.text, line.sequence, fault)


_WARNING = 4
_LEVELS = ("emerg", "alert", "crit", "err", "warn")
"""Source: include/linux/kern_levels.h; dmesg(1), --decode."""
