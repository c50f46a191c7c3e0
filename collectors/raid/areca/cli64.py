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
    header, rows = _table("rsf info", text, r"#\s+Name\s+Disks\b")
    channels = "DiskChannels" in header
    return tuple(output.readable(rows, lambda row: _raid_set(row, channels), read_errors))


def _raid_set(row: str, channels: bool) -> ControllerArray:  # noqa: FBT001 - header
    found = re.fullmatch(
        rf"\s*(\d{{1,3}})\s+(\S.*?)\s+(\d{{1,3}})\s+({_SIZE})\s+({_SIZE})\s+(\S+)(?:\s+(\S.*?))?\s*",
        row,
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
    header, rows = _table("vsf info", text, r"#\s+Name\s+Raid Name\b")
    parents = {each.label: each.name for each in raid_sets}
    return tuple(output.readable(rows, lambda row: _volume(row, header, parents), read_errors))


def _volume(row: str, header: str, parents: Mapping[str, str]) -> ControllerArray:
    found = re.fullmatch(
        rf"\s*(\d{{1,3}})\s+(\S.*?)\s+(\S+)\s+({_SIZE})\s+(\d+)/(\d+)/(\d+)(?:\s+(\S.*?))?\s*", row
    )
    if found is None:
        raise output.refused(
            "cli64 vsf info", "'<#> <name> <raid set> <level> <size> <ch/id/lun> <state>'", row
        )
    at, of = header.index("Raid Name"), header.find("Level")
    # Names may contain blanks: columns separate them, else two blanks between them.
    cells = row[found.start(2) : at], row[at:of], row[of : found.start(4)]
    if of < at or not all(cell.strip() and cell[-1].isspace() for cell in cells):
        first, *rest = re.split(r"\s{2,}", found[2])
        cells = first, rest[-1] if rest else "", found[3]
    name, parent, level = (output.printable(cell.strip()) for cell in cells)
    return ControllerArray(
        name=f"volume {found[1]}",
        state=states.classify(found[8] or "", _ARRAY_STATES),
        level=level,
        label=name,
        parent=parents.get(parent, parent),
        size_bytes=output.size_bytes(found[4], _GB),
        address=":".join(str(int(part)) for part in found.group(5, 6, 7)),
    )


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
    The last column is the name of a RAID set, whatever it is, else the use of the disk: names take
    precedence. A member of a RAID set that is not in `raid_sets` needs attention.
    """
    header, rows = _table("disk info", text, r"(?:Ch#?|Slot#)\s+ModelName\b")
    at = header.index("ModelName")
    columns = header[:at].split()
    places: Counter[int] = Counter()

    def placed(row: str) -> tuple[list[str], str]:
        cells = row[:at].split()
        named = dict(zip(columns, cells, strict=False))
        place = named.get("Enc#", named.get("Ch#", named.get("Ch", "")))
        known = all(re.fullmatch(r"\d{1,3}", each, re.ASCII) for each in (place, *cells[:1]))
        return cells, place if known else ""

    if "Enc#" in columns and not all(placed(row)[1] for row in rows):
        read_errors = None  # slots are counted: those that follow would get the wrong number

    def bay(row: str) -> Bay:
        cells, place = placed(row)
        if not place:
            raise output.refused("cli64 disk info", f"'{' '.join(columns)} ...'", row)
        number = int(place)
        places[number] += 1
        if "Enc#" in columns:
            # Counted, because some are called 'EXTP 01'.
            slot, kind = (
                f"enclosure {number} slot {places[number]}",
                f"areca,{places[number]}/{number}",
            )
            label = f"Enc#{number} {' '.join(cells[2:])}"
        else:
            slot, kind, label = f"channel {number}", f"areca,{number}", f"Channel #{number:02}"
        disk = _disk(row, header, at, raid_sets)
        return Bay(int(cells[0]), label, disk and replace(disk, slot=slot, kind=kind))

    return tuple(output.readable(rows, bay, read_errors))


def _disk(
    row: str, header: str, at: int, raid_sets: Sequence[ControllerArray]
) -> PhysicalDisk | None:
    ends = header.index("Capacity") + len("Capacity") if "Capacity" in header else -1
    sizes = list(re.finditer(rf"(?<=\s){_SIZE}(?=\s|$)", row))
    size = next((s for s in sizes if s.end() == ends), sizes[0] if sizes else None)
    if size is None:
        raise output.refused("cli64 disk info", "a capacity", row)
    usage = row[size.end() :].strip()
    serial_at, firmware_at = header.find("Serial#"), header.find("FirmRev")
    if 0 < serial_at < firmware_at:
        model, serial = row[at:serial_at].strip(), row[serial_at:firmware_at].strip()
        firmware = row[firmware_at : size.start()].strip()
    else:
        model, serial, firmware = row[at : size.start()].strip(), "", ""
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
    title = next((at for at, line in enumerate(lines) if "Hardware Monitor" in line), len(lines))
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
    return _PROMPT.sub("", output.plain(text))


def _table(command: str, text: str, header: str) -> tuple[str, list[str]]:
    """Return the header and the rows between the two separators below it. Errors: ParseError."""
    lines = _body(command, text)
    for at, line in enumerate(lines):
        if re.search(header, line):
            rows = [row for row in lines[at + 1 :] if row.strip() and not _RULE.fullmatch(row)]
            return line, rows
    raise output.refused(f"cli64 {command}", "a table", text)


def _pairs(lines: Sequence[str], *, lower: bool = True) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, colon, value = line.partition(" :")
        if not colon:
            name, colon, value = line.partition(":")
        if colon and name.strip():
            name = " ".join(name.split())
            yield name.casefold() if lower else name, value.strip(" :\t")


_ROW = lazy_pattern(
    r"\s*(?P<id>[0-9]{1,3})\s+(?P<name>\S.*?)"
    r"(?:\s+0x(?P<flags>[0-9a-fA-F]{1,4})\s+(?P<value>[0-9]{1,3})\s+(?P<threshold>[0-9]{1,3})"
    r"|\s+(?P<value_>[0-9]{1,3})\s+(?P<worst>[0-9]{1,3})\s+(?P<threshold_>[0-9]{1,3})"
    r"\s+(?P<raw>[0-9]{1,20}))"
    r"\s+(?P<state>\S.*?)\s*"
)
"""Row formats: old firmware, with flags and without raw values; newer, with raw values and no
flags.
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
        row = _ROW.fullmatch(line)
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
