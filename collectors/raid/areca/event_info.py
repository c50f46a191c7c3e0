"""Parser of the event log of Areca's RAID controllers: 'cli64 event info'. Pure.

Source: published logs. The levels of device events are from the ARC-1231ML manual's Appendix D
(Urgent, Serious, Warning, Information); those of other events, and the texts marked so, are from
memory of that appendix and were not checked. The log itself has no level.
"""

from __future__ import annotations

import re

from iowarden.collectors.event import StorageEvent
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output
from iowarden.collectors.raid.controller import ControllerLog

SOURCE = "areca"
OTHER = "areca_other"

_URGENT, _SERIOUS, _WARNING, _INFORMATION = "Urgent", "Serious", "Warning", "Information"

TEXTS = {
    "Device Failed": (_URGENT, "the controller failed a disk"),
    "Device Failed(SMART)": (_URGENT, "a disk predicts its failure (SMART)"),
    "RaidSet Degraded": (_URGENT, "a RAID set lost a disk"),
    "RaidSet Failed": (_URGENT, "a RAID set lost more disks than its redundancy covers"),
    "Volume Degraded": (_URGENT, "a volume lost its redundancy"),
    "Volume Failed": (_URGENT, "the data of a volume are unavailable"),
    "DRAM Fatal Error": (
        _URGENT,
        "the controller's memory failed; errors of disks that follow are caused by it",
    ),
    # From here to the next comment: from memory.
    "Failed Volume Revived": (
        _URGENT,
        "a failed volume was made usable again; its data may be stale",
    ),
    "Incomplete RAID Discovered": (_URGENT, "a RAID set has disks missing at start"),
    "Controller Over Temperature": (_URGENT, "the controller is overheated"),
    "Hdd Over Temperature": (_URGENT, "a disk is overheated"),
    "Fan Failed": (_URGENT, "a fan has stopped"),
    "Lost Rebuilding/Migration LBA": (_URGENT, "the position of a rebuild was lost"),
    "DRAM 1-Bit ECC": (_SERIOUS, "the controller's memory had an error that was corrected"),
    "PCI Parity Error": (_SERIOUS, "data were corrupted on the PCI bus to the controller"),
    "Controller Temp. Recovered": (_INFORMATION, "the controller is no longer overheated"),
    "Hdd Temp. Recovered": (_INFORMATION, "a disk is no longer overheated"),
    "Power On With Battery Backup": (_INFORMATION, "the controller started with data in its cache"),
    # Source: Appendix D, and logs.
    "Reading Error": (_WARNING, "a read from a disk failed: the disk or its cable"),
    "Writing Error": (_WARNING, "a write to a disk failed: the disk or its cable"),
    "ATA Ecc Error": (_WARNING, "data of a disk were uncorrectable, or were corrupted in transfer"),
    "Time Out Error": (_WARNING, "a command to a disk timed out"),
    "Change ATA Mode": (
        _WARNING,
        "the link to a disk was set to a lower speed: its cable or the disk",
    ),
    "Device Removed": (_WARNING, "a disk was removed"),
    "Device Inserted": (_WARNING, "a disk was inserted"),
    "Start Rebuilding": (_INFORMATION, "a rebuild started"),
    "Complete Rebuilding": (_INFORMATION, "a rebuild completed"),
    "Abort Rebuilding": (_WARNING, "a rebuild was aborted"),
    "Start Checking": (_INFORMATION, "a parity check started"),
    "Complete Checking": (_INFORMATION, "a parity check completed; its errors are counted"),
    "Abort Checking": (_INFORMATION, "a parity check was aborted"),
    "Start Initialize": (_INFORMATION, "an initialization started"),
    "Complete Initialize": (_INFORMATION, "an initialization completed"),
    "Abort Initialization": (_WARNING, "an initialization was aborted"),
    "Start Migrating": (_INFORMATION, "a migration of a volume started"),
    "Complete Migrating": (_INFORMATION, "a migration of a volume completed"),
    "Abort Migration": (_WARNING, "a migration of a volume was aborted"),
    "HotSpare Used": (_INFORMATION, "a hot spare replaced a disk"),
    "Create RaidSet": (_INFORMATION, "a user created a RAID set"),
    "Delete RaidSet": (_INFORMATION, "a user deleted a RAID set"),
    "Expand RaidSet": (_INFORMATION, "a user added disks to a RAID set"),
    "Rebuild RaidSet": (_INFORMATION, "a RAID set is being rebuilt"),
    "Create Volume": (_INFORMATION, "a user created a volume"),
    "Delete Volume": (_INFORMATION, "a user deleted a volume"),
    "Modify Volume": (_INFORMATION, "a user modified a volume"),
    "Pass Through Disk Created": (_INFORMATION, "a disk was made a pass-through disk"),
    "Pass Through Disk Deleted": (_INFORMATION, "a disk is no longer a pass-through disk"),
    "Raid Powered On": (_INFORMATION, "the controller started"),
    "HTTP Log In": ("", "a user logged in"),
    "Telnet Log In": ("", "a user logged in"),
    "VT100 Log In": ("", "a user logged in"),
    "API Log In": ("", "a user logged in"),
    "Test Event": ("", "a user tested the alarm"),
}
"""Event texts: their level ('': noise, whatever the vendor's level) and their meaning."""
_SYNONYMS = {
    "Complete Rebuild": "Complete Rebuilding",
    "Start Rebuild": "Start Rebuilding",
    "Complete Check": "Complete Checking",
    "Start Check": "Start Checking",
    "Complete Init": "Complete Initialize",
    "Start Init": "Start Initialize",
    "Start Initialization": "Start Initialize",
    "Complete Initialization": "Complete Initialize",
    "Complete Migrate": "Complete Migrating",
    "Start Migrate": "Start Migrating",
    "Incomplete RAID": "Incomplete RAID Discovered",
    "Recovered DRAM 1-Bit ECC": "DRAM 1-Bit ECC",
}


KINDS = {
    **{f"areca_{output.slug(text)}": meaning for text, (_, meaning) in TEXTS.items()},
    OTHER: "an unknown event",
}
"""Every event kind of this module, and its meaning."""


def _bare(text: str) -> str:
    """Return a text without the optional blanks between its words: 'TimeOut Error'."""
    return output.slug(text).replace("_", "")


_KNOWN = {_bare(text): text for text in TEXTS} | {_bare(t): of for t, of in _SYNONYMS.items()}
_LINE = lazy_pattern(
    r"(\d{1,4})-(\d{1,2})-(\d{1,2}) {1,2}(\d{1,2}):(\d{1,2}):(\d{1,2})(?: {1,2}(.*))?", re.ASCII
)
_TEXT = lazy_pattern(
    r"(?:(?P<device>\S.*?) {1,2})??(?P<text>"
    + "|".join(
        re.escape(text).replace(r"\ ", " {0,2}").replace(r"\(", r" {0,2}\(")
        for text in sorted((*TEXTS, *_SYNONYMS), key=len, reverse=True)
    )
    + r")(?: {1,2}(?P<elapsed>\d{1,4}:\d{2}:\d{2}))?(?: {1,2}(?P<errors>\d{1,9}))?",
    re.IGNORECASE | re.ASCII,
)
_HEADER = lazy_pattern(r"(Date-Time|Time) {1,2}Device {1,2}Event\b.*", re.IGNORECASE)
_CHROME = lazy_pattern(r"(?:[=-]{10,}|CLI>.*|GuiErrMsg<0x00>.*|event info)?", re.IGNORECASE)
FAILURE = lazy_pattern(r"^.*(?:GuiErrMsg<0x(?!00>)|ErrMsg:).*$", re.MULTILINE | re.IGNORECASE)
_CHANNEL = lazy_pattern(r"(?:\S+ )?Channel\s*#?\s*0*(\d{1,3})", re.IGNORECASE)
_ENCLOSURE = lazy_pattern(
    r"E(?:nc)?(?:losure)?\s*#?\s*0*(\d{1,3})\s+Slot\s*#?\s*0*(\d{1,3})", re.IGNORECASE
)
_WHOLE = lazy_pattern(
    r"H/W MONITOR|RS232 Terminal|Proxy Or Inband|[\d.:]{7,}|\S+ API Interface|", re.IGNORECASE
)
_DEVICE_CHARACTERS = 20


def parse_events(text: str, name: str) -> ControllerLog:
    """Parse the events of 'event info', listed newest first, of the controller `name`.

    A line that is no event, between events, becomes an event of unknown kind: nothing is dropped.
    Old versions of the tool print no 'Success' below the log. `clock_seconds` is the controller's
    own time read as UTC, None if it is no date.
    Errors: ParseError, if it is no log.
    """
    events, cut = parse_rows(text, name)
    return ControllerLog(tuple(event for _, event in reversed(events)), cut)


def parse_rows(text: str, name: str) -> tuple[list[tuple[int, StorageEvent]], bool]:
    """Return the events as listed, each with its line from 1, and whether the last line is cut.

    As `parse_events`. Errors: ParseError, if it is no log.
    """
    plain = output.plain(text)
    if failure := FAILURE.search(plain):
        raise output.refused("cli64 event info", "a log", failure[0])
    # Only one or two blanks matter; thousands would be tried at each position.
    lines = [re.sub(r"\s{2,}", "  ", line.strip().replace("\t", " ")) for line in plain.split("\n")]
    success = "GuiErrMsg<0x00>" in plain
    cut = not success and bool(lines[-1]) and not _CHROME.fullmatch(lines[-1])
    header = next((at for at, line in enumerate(lines) if _HEADER.fullmatch(line)), None)
    first = next((at for at, line in enumerate(lines) if _LINE.fullmatch(line)), None)
    if header is None and first is None:
        raise output.refused("cli64 event info", "'Date-Time  Device  Event Type'", plain)
    begin = first or 0 if header is None else header + 1
    rows = lines[begin : -1 if cut else None]
    return [
        (at, _event(row, name))
        for at, row in enumerate(rows, start=begin + 1)
        if not _CHROME.fullmatch(row)
    ], cut


def _event(row: str, name: str) -> StorageEvent:
    found = _LINE.fullmatch(row)
    if found is None:
        text = output.printable(" ".join(row.split()))
        return StorageEvent(SOURCE, OTHER, text, controller=name)
    rest = found[7] or ""
    known = _TEXT.fullmatch(rest)
    word, code = "", ""
    if known is not None:
        device, kind = known["device"] or "", _KNOWN[_bare(known["text"])]
        word = TEXTS[kind][0]
        kind = f"areca_{output.slug(kind)}"
        code = f"{int(known['errors'])} errors" if int(known["errors"] or 0) else ""
    else:
        device, kind = _device(rest), OTHER
    return StorageEvent(
        SOURCE,
        kind,
        output.printable(" ".join(rest.split())),
        controller=name,
        place=_place(" ".join(device.split())),
        code=code,
        word=word,
        clock_seconds=output.clock_seconds(found.groups()[:6]),
    )


def _device(rest: str) -> str:
    for pattern in (_CHANNEL, _ENCLOSURE):
        if found := pattern.match(rest):
            return found[0]
    device, gap, _ = rest.partition("  ")
    return device if gap else rest[:_DEVICE_CHARACTERS].strip()


def _place(device: str) -> str:
    """Return the slot of a disk as in `smart.members`, the name of a set, or ''."""
    if found := _CHANNEL.fullmatch(device):
        return f"channel {int(found[1])}"
    if found := _ENCLOSURE.fullmatch(device):
        return f"enclosure {int(found[1])} slot {int(found[2])}"
    return "" if _WHOLE.fullmatch(device) else output.printable(device)
