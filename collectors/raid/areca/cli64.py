"""Parsers of 'cli64', the command line tool of Areca's RAID controllers.

Source: published outputs of the tool, with firmware 1.39 to 1.52.
Units: a GB is 10^9 bytes there.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.areca.event_info import FAILURE
from iowarden.collectors.raid.controller import (
    Battery,
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
    Sensor,
)
from iowarden.collectors.smart.drive import Attribute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_GB = 1000
_SIZE = r"[0-9]+(?:\.[0-9]+)? ?[KMGTP]?B"
_NOTHING = "N.A."
_SUCCESS = lazy_pattern(r"GuiErrMsg<0x00>(?:: Success\.?)?\s*$", re.IGNORECASE | re.MULTILINE)
_PROMPT = lazy_pattern(r"^(?:CLI> ?)+", re.MULTILINE)
_RULE = lazy_pattern(r"\s*(?:={10,}|-{10,})\s*")
_WRAPPED = lazy_pattern(r"\bRaidSet[ \t]{0,9}\n[ \t]{0,9}Member(?=\(\d)")

_ARRAY_STATES = {
    **states.DEAD,
    **states.WORKING,
    "normal": ComponentHealth.OK,
    "rebuilding": ComponentHealth.REBUILDING,
    "rebuild": ComponentHealth.REBUILDING,
    "rebuild...": ComponentHealth.REBUILDING,
    "degraded": ComponentHealth.DEGRADED,
    "degrade": ComponentHealth.DEGRADED,
}
"""States of RAID sets and volumes. 'Need Init' is not among them: it needs attention."""
_USAGES = {
    **states.DEAD,
    "hotspare": ComponentHealth.OK,
    "hot spare": ComponentHealth.OK,
    "pass through": ComponentHealth.OK,
    "passthrough": ComponentHealth.OK,
    "jbod": ComponentHealth.OK,
    "free": ComponentHealth.OK,
    "rebuilding": ComponentHealth.REBUILDING,
}
_CELSIUS = lazy_pattern(r"(\d{1,3})(?:\s*(?:\(?C|º|°)|\s*$)")
_MEMBER = lazy_pattern(r"Raid ?Set Member ?\(?(\d{1,3})\)?|Raid Set # ?\d{1,3}", re.IGNORECASE)
"""Use of a member where the name of its RAID set is not printed: old firmware, or a default name.
"""
_DISK_STATES = {
    **states.DEAD,
    "normal": ComponentHealth.OK,
    "rebuilding": ComponentHealth.REBUILDING,
}
_BATTERY_STATES = {
    **states.LEARNING,
    "": ComponentHealth.OK,
    "charged": ComponentHealth.OK,
    "full": ComponentHealth.OK,
    "charging": ComponentHealth.BUSY,
    "not installed": ComponentHealth.ABSENT,
    "failed": ComponentHealth.FAILED,
    "low": ComponentHealth.DEGRADED,
}
"""'': only a percentage. All but 'Not Installed' are unchecked: no capture has a battery."""
_SUPPLY_STATES = {**states.UNREPORTED, "ok": ComponentHealth.OK, "failed": ComponentHealth.FAILED}
_CHANNELS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""In 'DiskChannels' each character is a channel: 'A' is 10, 'G' is 16."""


def parse_raid_sets(text: str, read_errors: list[str] | None = None) -> tuple[ControllerArray, ...]:
    """Parse the RAID sets of 'rsf info'. Errors and `read_errors`: see `output.readable`.

    Limits: 'Normal' hides a failed disk that a hot spare has replaced.
    """
    header, rows = _table("rsf info", text, r"(?:#|Num)\s+Name\s+Disks\b")
    channels = "DiskChannels" in header
    return tuple(output.readable(rows, lambda row: _raid_set(row, channels), read_errors))


def _raid_set(row: str, channels: bool) -> ControllerArray:  # noqa: FBT001 - header
    found = re.fullmatch(
        rf"(\d{{1,3}}) (\S.*?) (\d{{1,3}}) ({_SIZE}) ({_SIZE}) (\S+)(?: (\S.*))?",
        " ".join(row.split()),
    )
    if found is None:
        raise output.refused("cli64 rsf info", "'<#> <name> <disks> <sizes> <state>'", row)
    members = (c for c in found[6].upper() if c in _CHANNELS[1:]) if channels else ()
    return ControllerArray(
        name=f"raid set {found[1]}",
        state=states.classify(found[7] or "", _ARRAY_STATES),
        label=output.printable(found[2]),
        size_bytes=output.size_bytes(found[4], _GB),
        slots=tuple(f"channel {_CHANNELS.index(c)}" for c in members),
    )


def parse_volumes(
    text: str, raid_sets: Sequence[ControllerArray] = (), read_errors: list[str] | None = None
) -> tuple[ControllerArray, ...]:
    """Parse the volumes of 'vsf info'. Errors and `read_errors`: see `output.readable`.

    `ControllerArray.address` is the one that the driver uses: channel, target, logical unit.
    """
    header, rows = _table("vsf info", text, r"#\s+Name\s+Raid(?: Name|#)")
    parents = {each.label: each.name for each in raid_sets}
    return tuple(output.readable(rows, lambda row: _volume(row, header, parents), read_errors))


def _volume(row: str, header: str, parents: Mapping[str, str]) -> ControllerArray:
    found = re.fullmatch(
        rf"(\d{{1,3}}) (\S.*?) (Raid ?[\d+]+|\S+) ({_SIZE}) (\d+)/(\d+)/(\d+)(?: (\S.*))?",
        " ".join(row.split()),
        re.IGNORECASE,
    )
    if found is None:
        raise output.refused(
            "cli64 vsf info", "'<#> <name> <raid set> <level> <size> <ch/id/lun> <state>'", row
        )
    if "Raid#" in header:
        name, _, number = found[2].rpartition(" ")
        parent = f"raid set {number}" if number.isdecimal() else number
    else:
        name, parent = _names(row, header, found, parents)
    return ControllerArray(
        name=f"volume {found[1]}",
        state=states.classify(found[8] or "", _ARRAY_STATES),
        level=output.printable(found[3]),
        label=output.printable(name),
        parent=parents.get(output.printable(parent), output.printable(parent)),
        size_bytes=output.size_bytes(found[4], _GB),
        address=":".join(str(int(part)) for part in found.group(5, 6, 7)),
    )


def _names(
    row: str, header: str, found: re.Match[str], parents: Mapping[str, str]
) -> tuple[str, str]:
    """Return the names of a volume and of its RAID set, which may both contain blanks.

    Columns separate them, else two blanks; where blanks were squeezed, a known RAID set's name.
    """
    at, of = header.index("Raid Name"), header.find("Level")
    begin = re.match(r"\s*\d+\s+", row)
    cells = row[begin.end() if begin else 0 : at], row[at:of]
    by_column = at < of and all(cell.strip() and cell[-1].isspace() for cell in cells)
    if by_column and " ".join(" ".join(cells).split()) == found[2]:
        return cells[0].strip(), cells[1].strip()
    first, *rest = re.split(r"\s{2,}", row.partition(found[3])[0].strip().partition(" ")[2].strip())
    if rest:
        return first, rest[-1]
    for label in sorted(parents, key=len, reverse=True):
        if found[2].endswith(f" {label}"):
            return found[2].removesuffix(label).strip(), label
    name, _, parent = found[2].rpartition(" ")
    return name or parent, parent if name else ""


@dataclass(frozen=True, slots=True)
class Bay:
    """A row of 'disk info': the number 'disk info drv=N' takes, and the disk, if there is one."""

    number: int
    label: str
    """The slot as the controller calls it in its log: 'Enc#2 SLOT 07'."""
    disk: PhysicalDisk | None


def parse_bays(
    text: str, raid_sets: Sequence[ControllerArray] = (), read_errors: list[str] | None = None
) -> tuple[Bay, ...]:
    """Return the bays of 'disk info', in its three layouts.

    Errors and `read_errors`: see `output.readable`.
    The last column, 'Usage', is the name of a RAID set, whatever it is, else the use of the disk:
    names take precedence. Without `raid_sets` another word is a name if several disks share it;
    else it needs attention, as does any in the column 'State' of the oldest layout.
    """
    header, rows = _table("disk info", text, r"(?:Ch#?|Slot#|#)\s+ModelName\b")
    columns = header[: header.index("ModelName")].split()
    place = _place_pattern(columns)
    if "Enc#" in columns and not all(place.match(row) for row in rows):
        read_errors = None  # slots are counted: those that follow would get the wrong number
    places: Counter[int] = Counter()

    def bay(row: str) -> Bay:
        named = place.match(row)
        if named is None:
            raise output.refused("cli64 disk info", f"'{' '.join(columns)} ...'", row)
        number = int(named["place"])
        places[number] += 1
        if "Enc#" in columns:
            # Counted, because some are called 'EXTP 01'.
            slot, kind = (
                f"enclosure {number} slot {places[number]}",
                f"areca,{places[number]}/{number}",
            )
            label = f"Enc#{number} {' '.join(named['slot'].split())}"
        else:
            slot, kind, label = f"channel {number}", f"areca,{number}", f"Channel #{number:02}"
        disk = _disk(row, header, named.end(), raid_sets)
        return Bay(int(named["first"]), label, disk and replace(disk, slot=slot, kind=kind))

    bays = output.readable(rows, bay, read_errors)
    if not raid_sets and re.search(r"\bUsage\b", header):
        bays = _with_names(bays)
    return tuple(bays)


def _place_pattern(columns: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of what a row of 'disk info' has before the model.

    The first column is the number that 'drv=' takes. In the layout without another one, from the
    tool's guide, it is the channel as well. Where blanks were squeezed no column is where its
    heading is.
    """
    first = r"\s*(?P<first>\d{1,3})\s+(?P<place>\d{1,3})\s+"
    if "Enc#" in columns:
        return re.compile(rf"{first}(?P<slot>[A-Za-z]{{1,8}}[ #]{{0,3}}\d{{1,3}})\s+", re.ASCII)
    if columns[:1] == ["#"] and len(columns) > 1:
        return re.compile(first, re.ASCII)
    return re.compile(r"\s*(?P<first>(?P<place>\d{1,3}))\s+", re.ASCII)


def _disk(
    row: str, header: str, at: int, raid_sets: Sequence[ControllerArray]
) -> PhysicalDisk | None:
    ends = header.index("Capacity") + len("Capacity") if "Capacity" in header else -1
    sizes = list(re.finditer(rf"(?<=\s){_SIZE}(?=\s|$)", row))
    size = next((s for s in sizes if s.end() == ends), sizes[0] if sizes else None)
    if size is None:
        raise output.refused("cli64 disk info", "a capacity", row)
    usage = row[size.end() :].strip()
    model, serial, firmware = row[at : size.start()].strip(), "", ""
    serial_at, firmware_at = header.find("Serial#"), header.find("FirmRev")
    if 0 < serial_at < firmware_at:
        cells = row[at:serial_at], row[serial_at:firmware_at], row[firmware_at : size.start()]
        if all(not cell or cell[-1].isspace() for cell in cells):
            model, serial, firmware = (cell.strip() for cell in cells)
        else:  # its blanks were squeezed
            model, serial, firmware = (*model.rsplit(maxsplit=2), "", "", "")[:3]
    if model == _NOTHING and usage in {_NOTHING, ""}:
        return None
    state, array = _used(usage, raid_sets)
    return PhysicalDisk(
        slot="",
        state=state,
        model=output.printable("" if model == _NOTHING else model),
        serial=output.printable(serial),
        firmware=output.printable(firmware),
        size_bytes=output.size_bytes(size[0], _GB) or None,
        usage=output.printable(usage),
        array=array,
    )


def _used(usage: str, raid_sets: Sequence[ControllerArray]) -> tuple[ComponentState, str]:
    for each in raid_sets:
        if usage and each.label == output.printable(usage):
            return ComponentState(ComponentHealth.OK, usage), each.name
    if (found := _MEMBER.fullmatch(usage)) and (found[1] or not raid_sets):
        return ComponentState(ComponentHealth.OK, usage), f"raid set {found[1]}" if found[1] else ""
    bare = re.sub(r"\[[^\]]*\]$", "", usage)
    return replace(states.classify(bare, _USAGES), word=output.printable(usage)), ""


def _with_names(bays: Sequence[Bay]) -> list[Bay]:
    """Return the bays of a list without RAID sets: a use that disks share is the name of one."""
    uses = Counter(bay.disk.usage for bay in bays if bay.disk is not None and bay.disk.usage)
    return [
        replace(
            bay, disk=replace(bay.disk, state=replace(bay.disk.state, health=ComponentHealth.OK))
        )
        if bay.disk is not None
        and uses[bay.disk.usage] > 1
        and bay.disk.state.health is ComponentHealth.ATTENTION
        else bay
        for bay in bays
    ]


def parse_disk_detail(text: str) -> PhysicalDisk:
    """Parse 'disk info drv=N' of one disk, all but its slot. Errors: ParseError.

    Limits: no complete output was available; the names are those that public monitoring scripts
    read, such as 'Serial Number' and 'Device Temperature'. What is missing is ''.
    """
    pairs = dict(_pairs(_body("disk info drv=N", text)))

    def told(*names: str) -> str:
        return next((pairs[name] for name in names if name in pairs), "")

    model = told("model name", "modelname")
    if not model or model == _NOTHING:
        raise output.refused("cli64 disk info drv=N", "'Model Name : ...'", text)
    counts, odd = states.counts(
        (
            ("timeout", told("timeout count", "timeout count(s)")),
            ("media error", told("media error count", "media error count(s)")),
        )
    )
    return PhysicalDisk(
        slot="",
        state=states.downgraded(
            states.classify(told("device state", "disk state"), _DISK_STATES), odd
        ),
        model=output.printable(model),
        serial=output.printable(told("serial number", "serial num.", "serial#")),
        firmware=output.printable(told("firmware rev.", "firmware revision")),
        temperature_celsius=output.leading(
            _CELSIUS, told("device temperature", "disk temperature")
        ),
        errors_total=counts,
    )


@dataclass(frozen=True, slots=True)
class Hardware:
    """Parsed output of 'hw info'. `disk_temperatures_celsius` is by channel."""

    sensors: tuple[Sensor, ...] = ()
    batteries: tuple[Battery, ...] = ()
    disk_temperatures_celsius: Mapping[int, float] = field(default_factory=dict)


def parse_hardware(text: str) -> Hardware:
    """Parse the sensors of 'hw info'; sensors with 'N.A.' and disks of 0 degrees are left out.

    Errors: ParseError.
    """
    sensors, batteries, disks = [], [], {}
    section = ""
    lines = _body("hw info", text)
    title = next((at for at, line in enumerate(lines) if _TITLE.fullmatch(line)), len(lines))
    for line in lines[title + 1 :]:
        if found := re.fullmatch(r"\s*\[(Enclosure#\s?(\d+)|[^\]:]*)[^\]]*\]\s*", line):
            section = f"enclosure {found[2]} " if found[2] else ""
            continue
        for name, value in _pairs([line], lower=False):
            if value in {_NOTHING, ""}:
                continue
            disk = re.fullmatch(r"HDD\s*#\s*(\d{1,3})\s*Temp\.?", name, re.IGNORECASE)
            if disk:
                degrees = output.leading(_CELSIUS, value)
                if degrees:
                    disks[int(disk[1])] = degrees
            elif name.casefold().startswith("battery"):
                batteries.append(_battery(value))
            else:
                sensors.append(_sensor(output.printable(section + name), value))
    if not sensors and not batteries and not disks:
        raise output.refused("cli64 hw info", "'<sensor> : <value>'", text)
    return Hardware(tuple(sensors), tuple(batteries), disks)


_TITLE = lazy_pattern(r"[ \t]*(?:The )?Hardware Monitor Information\b.*")
"""The menu of a session has 'Hardware Monitor Functions'."""


def _battery(value: str) -> Battery:
    state = states.classify(value, _BATTERY_STATES)
    if state.done_ratio is not None and state.word.casefold() in {"", value.casefold()}:
        state = replace(state, health=ComponentHealth.OK, word=output.printable(value))
    return Battery(
        name="battery",
        state=replace(state, done_ratio=None),
        ready=states.ready(state.health, state.word),
        charge_ratio=state.done_ratio,
    )


def _sensor(name: str, value: str) -> Sensor:
    bare = re.sub(r"\s*(?:\(Celsius\)|\(RPM\)|RPM|V|C|Celsius)$", "", value)
    number = output.number(bare)
    lower = name.casefold()
    if number is None:
        return Sensor(name, states.classify(output.printable(value), _SUPPLY_STATES))
    if "temp" in lower:
        return Sensor(name, temperature_celsius=number)
    if "fan" in lower:
        return Sensor(name, fan_rpm=number)
    return Sensor(name, voltage_volts=number)


def parse_system(text: str) -> Controller:
    """Parse the controller of 'sys info'. Errors: ParseError."""
    pairs = dict(_pairs(_body("sys info", text)))
    model = pairs.get("controller name", "")
    if not model:
        raise output.refused("cli64 sys info", "'Controller Name : ...'", text)
    memory = re.match(r"\d{1,6} ?[KMG]B", pairs.get("system memory", ""))
    return Controller(
        name="",
        vendor="areca",
        model=output.printable(model),
        serial=output.printable(pairs.get("serial number", "")),
        firmware=output.printable(pairs.get("firmware version", "")),
        memory_bytes=output.size_bytes(memory[0], 1024) if memory else None,
    )


def _body(command: str, text: str) -> list[str]:
    """Return the lines of a complete, successful output. Errors: ParseError."""
    plain = _plain(text)
    if failure := FAILURE.search(plain):
        raise output.refused(f"cli64 {command}", "'GuiErrMsg<0x00>: Success.'", failure[0])
    if _SUCCESS.search(plain) is None:
        raise output.refused(f"cli64 {command}", "'GuiErrMsg<0x00>: Success.' at its end", plain)
    return [line for line in plain.splitlines() if not _SUCCESS.search(line)]


def _plain(text: str) -> str:
    # Mails wrap the last column of the oldest layout of 'disk info'.
    return _WRAPPED.sub("RaidSet Member", _PROMPT.sub("", output.plain(text)))


def _table(command: str, text: str, header: str) -> tuple[str, list[str]]:
    """Return the header and the rows between the two separators below it. Errors: ParseError."""
    lines = _body(command, text)
    for at, line in enumerate(lines):
        if re.search(header, line):
            rows = [row for row in lines[at + 1 :] if row.strip() and not _RULE.fullmatch(row)]
            return line, [row[:_MAX_ROW_CHARACTERS] for row in rows]
    raise output.refused(f"cli64 {command}", "a table", text)


_MAX_ROW_CHARACTERS = 1000
"""A longer row is no row: patterns try its blanks at each position."""


def _pairs(lines: Sequence[str], *, lower: bool = True) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, colon, value = line.partition(" :")
        if not colon:
            name, colon, value = line.partition(":")
        if colon and name.strip():
            name = " ".join(name.split())
            yield name.casefold() if lower else name, " ".join(value.split()).strip(" :")


_ROW = lazy_pattern(
    r"(?P<id>[0-9]{1,3}) (?P<name>\S.*?)"
    r"(?: 0x(?P<flags>[0-9a-fA-F]{1,4}) (?P<value>[0-9]{1,3}) (?P<threshold>[0-9]{1,3})"
    r"| (?P<value_>[0-9]{1,3}) (?P<worst>[0-9]{1,3}) (?P<threshold_>[0-9]{1,3})"
    r" (?P<raw>[0-9]{1,20}))"
    r" (?P<state>\S.*)"
)
"""Row formats, with single blanks: old firmware, with flags and without raw values; newer, with raw
values and no flags.
"""
_PREFAIL = 0x01
"""Bit of the flags. Source: smartctl(8), '-A': pre-failure or old age."""
_WELL = "OK"


def parse_disk_smart(text: str) -> tuple[Attribute, ...]:
    """Parse the SMART attributes of 'cli64 disk smart drv=N'.

    Columns: number, name (with blanks), then flags, normalized value and threshold, or normalized
    value, worst value, threshold and raw value; at last the state. Without flags it is unknown
    which attributes are pre-failure. Errors: ParseError for a row of another format, and when there
    is no row at all: a port without a disk, or a controller that did not answer.
    """
    attributes: list[Attribute] = []
    for number, line in enumerate(_plain(text).splitlines(), start=1):
        if not line.strip()[:1].isdecimal():
            continue
        row = _ROW.fullmatch(" ".join(line.split()))
        if row is None:
            message = f"expected '<id> <name> [0x<flags>] <values> <state>', got {line!r:.80}"
            raise ParseError(f"'cli64 disk smart': line {number}: {message}")
        raw = row["raw"]
        attributes.append(
            Attribute(
                id=int(row["id"]),
                name=row["name"],
                value=int(row["value"] or row["value_"]),
                worst=int(row["worst"]) if row["worst"] else None,
                threshold=int(row["threshold"] or row["threshold_"]),
                raw=int(raw) if raw else None,
                raw_text=raw or "",
                prefail=bool(int(row["flags"] or "0", 16) & _PREFAIL),
                failed="" if row["state"] == _WELL else "now",
            )
        )
    if not attributes:
        raise ParseError(f"'cli64 disk smart': expected a table of attributes, got {text!r:.80}")
    return tuple(attributes)
