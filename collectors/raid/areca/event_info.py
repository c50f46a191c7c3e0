"""What stands in the event log of Areca's RAID controllers: 'event info' of their tool. Pure.

Source: logs of machines of others. The levels of device events are from the ARC-1231ML manual's
Appendix D (Urgent, Serious, Warning, Information); those of others, and the texts marked so, are
from memory of that appendix and were not checked. The log itself has no level.
"""

from __future__ import annotations

import re

from iowarden.collectors.event import Event
from iowarden.collectors.raid import output
from iowarden.collectors.raid.controller import Log

SOURCE = "areca"
OTHER = "areca_other"

_URGENT, _SERIOUS, _WARNING, _INFORMATION = "Urgent", "Serious", "Warning", "Information"

TEXTS = {
    "Device Failed": (_URGENT, "the controller gave a disk up"),
    "Device Failed(SMART)": (_URGENT, "a disk says itself that it fails"),
    "RaidSet Degraded": (_URGENT, "a raid set lost a disk"),
    "RaidSet Failed": (_URGENT, "a raid set lost more disks than it can do without"),
    "Volume Degraded": (_URGENT, "a volume lost its redundancy"),
    "Volume Failed": (_URGENT, "the data of a volume cannot be reached"),
    "DRAM Fatal Error": (_URGENT, "the controller's memory failed; disks named next are innocent"),
    # From here to the next comment: from memory.
    "Failed Volume Revived": (_URGENT, "a failed volume was made usable; its data may be old"),
    "Incomplete RAID Discovered": (_URGENT, "a raid set lacks disks at the start"),
    "Controller Over Temperature": (_URGENT, "the controller is too hot"),
    "Hdd Over Temperature": (_URGENT, "a disk is too hot"),
    "Fan Failed": (_URGENT, "a fan stands still"),
    "Lost Rebuilding/Migration LBA": (_URGENT, "a rebuild lost its place"),
    "DRAM 1-Bit ECC": (_SERIOUS, "the controller's memory had an error that was corrected"),
    "PCI Parity Error": (_SERIOUS, "data were damaged on the bus to the controller"),
    "Controller Temp. Recovered": (_INFORMATION, "the controller is no longer too hot"),
    "Hdd Temp. Recovered": (_INFORMATION, "a disk is no longer too hot"),
    "Power On With Battery Backup": (_INFORMATION, "it started with data in its cache"),
    # Source: Appendix D, and logs.
    "Reading Error": (_WARNING, "a disk did not read; the disk, or its cable"),
    "Writing Error": (_WARNING, "a disk did not write; the disk, or its cable"),
    "ATA Ecc Error": (_WARNING, "data of a disk were not correctable, or were damaged on the way"),
    "Time Out Error": (_WARNING, "a disk did not answer in time"),
    "Change ATA Mode": (_WARNING, "the link to a disk was made slower: its cable, or the disk"),
    "Device Removed": (_WARNING, "a disk is gone"),
    "Device Inserted": (_WARNING, "a disk came"),
    "Start Rebuilding": (_INFORMATION, "a rebuild began"),
    "Complete Rebuilding": (_INFORMATION, "a rebuild ended"),
    "Abort Rebuilding": (_WARNING, "a rebuild was given up"),
    "Start Checking": (_INFORMATION, "a check of parity began"),
    "Complete Checking": (_INFORMATION, "a check of parity ended; its errors are counted"),
    "Abort Checking": (_INFORMATION, "a check of parity was given up"),
    "Start Initialize": (_INFORMATION, "a first initialisation began"),
    "Complete Initialize": (_INFORMATION, "a first initialisation ended"),
    "Abort Initialization": (_WARNING, "a first initialisation was given up"),
    "Start Migrating": (_INFORMATION, "a volume's layout is changed"),
    "Complete Migrating": (_INFORMATION, "a volume's layout was changed"),
    "Abort Migration": (_WARNING, "the change of a volume's layout was given up"),
    "HotSpare Used": (_INFORMATION, "a spare took the place of a disk"),
    "Create RaidSet": (_INFORMATION, "somebody made a raid set"),
    "Delete RaidSet": (_INFORMATION, "somebody deleted a raid set"),
    "Expand RaidSet": (_INFORMATION, "somebody added disks to a raid set"),
    "Rebuild RaidSet": (_INFORMATION, "a raid set is rebuilt"),
    "Create Volume": (_INFORMATION, "somebody made a volume"),
    "Delete Volume": (_INFORMATION, "somebody deleted a volume"),
    "Modify Volume": (_INFORMATION, "somebody changed a volume"),
    "Pass Through Disk Created": (_INFORMATION, "a disk is shown to the host as it is"),
    "Pass Through Disk Deleted": (_INFORMATION, "a disk is no longer shown as it is"),
    "Raid Powered On": (_INFORMATION, "the controller started"),
    "HTTP Log In": ("", "somebody logged in"),
    "Telnet Log In": ("", "somebody logged in"),
    "VT100 Log In": ("", "somebody logged in"),
    "API Log In": ("", "somebody logged in"),
    "Test Event": ("", "somebody tried the alarm"),
}
"""Texts of events: their level ('': noise, whatever the maker calls it) and what they mean."""
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
    OTHER: "an event of a text that is not known",
}
"""Every kind of event this module tells, and what it means."""


def _bare(text: str) -> str:
    """Return a text without what may stand between its words, or not: 'TimeOut Error'."""
    return output.slug(text).replace("_", "")


_KNOWN = {_bare(text): text for text in TEXTS} | {_bare(t): of for t, of in _SYNONYMS.items()}
_LINE = re.compile(
    r"\s*(\d{1,4})-(\d{1,2})-(\d{1,2})\s+(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\s+(\S.*?))?\s*", re.ASCII
)
_TEXT = re.compile(
    r"(?:(?P<device>\S.*?)\s+)??(?P<text>"
    + "|".join(
        re.escape(text).replace(r"\ ", r"\s*").replace(r"\(", r"\s*\(")
        for text in sorted((*TEXTS, *_SYNONYMS), key=len, reverse=True)
    )
    + r")(?:\s+(?P<elapsed>\d{1,4}:\d{2}:\d{2}))?(?:\s+(?P<errors>\d{1,9}))?",
    re.IGNORECASE | re.ASCII,
)
_HEADER = re.compile(r"\s*(Date-Time|Time)\s+Device\s+Event\b.*", re.IGNORECASE)
_CHROME = re.compile(
    r"\s*(?:[=-]{10,}|CLI> ?.*|GuiErrMsg<0x00>.*|(?:CLI> ?)?event info)?\s*", re.IGNORECASE
)
FAILURE = re.compile(r"^.*(?:GuiErrMsg<0x(?!00>)|ErrMsg:).*$", re.MULTILINE | re.IGNORECASE)
_CHANNEL = re.compile(r"(?:\S+ )?Channel\s*#?\s*0*(\d{1,3})", re.IGNORECASE)
_ENCLOSURE = re.compile(
    r"E(?:nc)?(?:losure)?\s*#?\s*0*(\d{1,3})\s+Slot\s*#?\s*0*(\d{1,3})", re.IGNORECASE
)
_WHOLE = re.compile(
    r"H/W MONITOR|RS232 Terminal|Proxy Or Inband|[\d.:]{7,}|\S+ API Interface|", re.IGNORECASE
)
_DEVICE_CHARACTERS = 20


def parse_events(text: str, name: str) -> Log:
    """Return what 'event info' lists, newest first, of the controller `name`.

    A line that is no event, between events, is one of a kind that is not known: nothing is
    dropped. Old versions of the tool print no 'Success' below the log. `clock_seconds` is the
    controller's own time read as UTC, None where it is no date.
    Errors: ParseError, for what is no log.
    """
    plain = output.plain(text)
    if failure := FAILURE.search(plain):
        raise output.refused("cli64 event info", "a log", failure[0])
    lines = plain.split("\n")
    success = "GuiErrMsg<0x00>" in plain
    cut = not success and bool(lines[-1].strip()) and not _CHROME.fullmatch(lines[-1])
    header = next((at for at, line in enumerate(lines) if _HEADER.fullmatch(line)), None)
    first = next((at for at, line in enumerate(lines) if _LINE.fullmatch(line)), None)
    if header is None and first is None:
        raise output.refused("cli64 event info", "'Date-Time  Device  Event Type'", plain)
    begin = first or 0 if header is None else header + 1
    rows = lines[begin : -1 if cut else None]
    events = [_event(row, name) for row in rows if not _CHROME.fullmatch(row)]
    return Log(tuple(reversed(events)), cut)


def _event(row: str, name: str) -> Event:
    found = _LINE.fullmatch(row)
    if found is None:
        text = output.printable(" ".join(row.split()))
        return Event(SOURCE, OTHER, text, controller=name)
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
    return Event(
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
    """Return the place of a disk as `smart.members` calls it, the name of a set, or ''."""
    if found := _CHANNEL.fullmatch(device):
        return f"channel {int(found[1])}"
    if found := _ENCLOSURE.fullmatch(device):
        return f"enclosure {int(found[1])} slot {int(found[2])}"
    return "" if _WHOLE.fullmatch(device) else output.printable(device)
