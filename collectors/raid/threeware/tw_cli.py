"""Parsers of 'tw_cli': 3ware's RAID controllers and their disks. Pure.

Source: published outputs of tw_cli, from the 8006 to the 9750.
Units: a GB is 2^30 bytes there, whatever the label: 1953525168 blocks are its '931.51 GB'.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import SECTOR_BYTES, ParseError
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    Battery,
    CachePolicy,
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
    Sensor,
    slots_by_array,
)
from iowarden.collectors.raid.threeware.alarms import ERROR

if TYPE_CHECKING:
    from collections.abc import Callable

_OPTIMAL = frozenset({"OK", "VERIFYING"})
"""States of units that 'NotOpt' does not count. Source: tw_cli(8), 'info'."""
_UNIT_STATES = {
    **states.DEAD,
    **states.WORKING,
    "ok": ComponentHealth.OK,
    "verify-paused": ComponentHealth.BUSY,
    "init-paused": ComponentHealth.BUSY,
    "migrate-paused": ComponentHealth.BUSY,
    "rebuilding": ComponentHealth.REBUILDING,
    "rebuild-paused": ComponentHealth.REBUILDING,
    "degraded": ComponentHealth.DEGRADED,
}
"""'RECOVERY' and 'UNKNOWN' are not among them: they need attention."""
_PORT_STATES = {
    **states.DEAD,
    "ok": ComponentHealth.OK,
    "verifying": ComponentHealth.BUSY,
    "initializing": ComponentHealth.BUSY,
    "migrating": ComponentHealth.BUSY,
    "rebuilding": ComponentHealth.REBUILDING,
    "degraded": ComponentHealth.DEGRADED,
    "smart-failure": ComponentHealth.FAILING,
    "ecc-error": ComponentHealth.FAILING,
    "device-error": ComponentHealth.FAILED,
    "drive-removed": ComponentHealth.FAILED,
    "not-present": ComponentHealth.ABSENT,
}
"""Only the first two, 'DEGRADED' and 'NOT-PRESENT' were seen in captures."""
_BATTERY_STATES = {
    **states.LEARNING,
    "ok": ComponentHealth.OK,
    "charging": ComponentHealth.BUSY,
    "not-present": ComponentHealth.ABSENT,
    "fault": ComponentHealth.FAILED,
    "failed": ComponentHealth.FAILED,
    "error": ComponentHealth.FAILED,
    "weakbat": ComponentHealth.DEGRADED,
}
"""Only 'OK' was seen in captures."""
_PART_STATES = {
    **{word.replace(" ", "-"): health for word, health in states.UNREPORTED.items()},
    "ok": ComponentHealth.OK,
    "failed": ComponentHealth.FAILED,
    "failure": ComponentHealth.FAILED,
}
"""Tables of an enclosure: itself, fans, sensors, supplies, slots."""
_ABSENT_PORT = "NOT-PRESENT"
_NOTHING = frozenset({"-", ""})

_CONTROLLER = lazy_pattern(r"\s*/(c\d{1,2}) (\S.*?) = (|.*\S)\s*", re.ASCII)
_LISTED = lazy_pattern(r"\s*(c\d{1,2})\s+(\S+)(?:\s+(\S(?:.*\S)?))?\s*", re.ASCII)
_ENCLOSURE = lazy_pattern(r"\s*/(c\d{1,2})/e(\d{1,3})\s+\S.*", re.ASCII)
_SIZE = r"(?:[0-9.]+ [KMGTP]?B|-)"
_PORT = lazy_pattern(
    rf"p(?P<port>\d{{1,3}}) (?P<state>\S+) (?P<unit>u\d{{1,3}}|-) (?P<size>{_SIZE})"
    r" (?P<blocks>\d{1,20}|-)(?: (?P<serial>\S.*))?",
    re.ASCII,
)
_VIRTUAL_PORT = lazy_pattern(
    rf"p(?P<port>\d{{1,3}}) (?P<state>\S+) (?P<unit>u\d{{1,3}}|-) (?P<size>{_SIZE})"
    r" (?P<type>\S+) (?P<phy>\d{1,3}|-) (?P<place>\S+)(?: (?P<model>\S.*))?",
    re.ASCII,
)
_SLOT = lazy_pattern(r"/c\d{1,2}/e(\d{1,3})/slt(\d{1,3})", re.ASCII)
_SERIAL = lazy_pattern(
    r"^[ \t]*/c\d{1,2}/u\d{1,3} Serial(?: Number)? = (\S+)[ \t]*$",
    re.MULTILINE | re.IGNORECASE | re.ASCII,
)
_SUB_UNIT = lazy_pattern(r"u\d{1,3}-\S+", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListedCard:
    """A controller of 'tw_cli info'. None: not reported; `enclosures` are their numbers.

    Fields: `disks` and `units` are its counts, '' if not reported.
    """

    name: str
    model: str
    disks: str = ""
    units: str = ""
    units_not_optimal: int | None = None
    battery: str = ""
    enclosures: tuple[int, ...] = ()


def parse_controllers(text: str) -> tuple[ListedCard, ...]:
    """Parse the controllers that 'tw_cli info' or 'show' lists. Errors: ParseError."""
    lines = _lines("info", text)
    header = next((at for at, line in enumerate(lines) if re.match(r"\s*Ctl\s+Model\b", line)), -1)
    if header < 0:
        raise output.refused("tw_cli info", "a table of controllers", text)
    found: list[ListedCard] = []
    enclosures = [match for line in lines[header:] if (match := _ENCLOSURE.fullmatch(line))]
    for line in lines[header + 1 :]:
        if row := _LISTED.fullmatch(line):
            cells = (row[3] or "").split()
            disks, units, optimal = (
                cell if re.fullmatch(r"\d{1,4}", cell, re.ASCII) else ""
                for cell in [*cells[1:4], "", "", ""][:3]
            )
            found.append(
                ListedCard(
                    row[1],
                    output.printable(row[2]),
                    disks,
                    units,
                    int(optimal) if optimal else None,
                    output.printable(cells[6]) if len(cells) > 6 and cells[6] != "-" else "",
                    tuple(int(match[2]) for match in enclosures if match[1] == row[1]),
                )
            )
    return tuple(found)


def listed_battery(card: ListedCard) -> tuple[Battery, ...]:
    """Return the battery in the last column of the overview, if it has one."""
    if not card.battery:
        return ()
    return (Battery("bbu", _state(card.battery, _BATTERY_STATES)),)


@dataclass(slots=True)
class _Tables:
    """The tables of one output, by name: a table may occur twice."""

    pairs: dict[str, str] = field(default_factory=dict)
    units: dict[str, ControllerArray] = field(default_factory=dict)
    ports: dict[str, PhysicalDisk] = field(default_factory=dict)
    batteries: dict[str, Battery] = field(default_factory=dict)
    sensors: dict[str, Sensor] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    read_errors: list[str] = field(default_factory=list)
    """Why rows could not be read."""
    enclosure: str = ""
    """Name of the enclosure: fans of several enclosures have the same names."""


def parse_controller(text: str, name: str) -> Controller:
    """Parse a controller from its 'show', 'show all' or 'info' commands.

    Also from a part: 'unitstatus', 'drivestatus', 'bbustatus', an enclosure's 'show all'. Empty
    ports are left out. Columns are identified by their header; unknown tables are ignored. Only its
    counts show that it is complete: a row that does not fit its table, and fewer rows than counted,
    are `read_errors`.
    Errors: ParseError, for an output without such a table.
    """
    found = _Tables()
    table: tuple[str, list[str]] | None = None
    after_blank = False
    lines = _lines("show", text)
    for line, below in zip(lines, [*lines[1:], ""], strict=False):
        words = line.split()
        heading = _heading(words, is_ruled=_RULE.fullmatch(below.strip()) is not None)
        if pair := _CONTROLLER.fullmatch(line):
            found.pairs[pair[2].casefold()] = pair[3]
        elif heading:
            table = (heading, words) if heading in _ROWS else None
            found.tables.update({heading} & _ROWS.keys())
        elif table is not None and words and not _RULE.fullmatch(words[0]):
            kind, header = table
            if re.fullmatch(_FIRST[kind], words[0], re.ASCII):
                try:
                    _ROWS[kind](found, header, words)
                except ParseError as error:
                    found.read_errors.append(str(error))
            elif after_blank:
                table = None
            else:
                found.read_errors.append(
                    output.reason("tw_cli show", f"a row of '{' '.join(header)}'", line)
                )
        after_blank = not words
    if not found.tables and not found.pairs:
        raise output.refused(f"tw_cli /{name} show", "units, ports or a battery", text)
    if not (found.units or found.ports or found.batteries or found.sensors) and found.read_errors:
        raise output.refused(f"tw_cli /{name} show", "a row that can be read", text)
    members = slots_by_array(found.ports.values())
    memory = found.pairs.get("available memory", "")
    told = Controller(
        name=name,
        vendor="3ware",
        model=output.printable(found.pairs.get("model", "")),
        serial=output.printable(found.pairs.get("serial number", "")),
        firmware=output.printable(found.pairs.get("firmware version", "")),
        memory_bytes=output.size_bytes(memory, 1024),
        arrays=tuple(
            replace(each, slots=members.get(each.name, ())) for each in found.units.values()
        ),
        disks=tuple(found.ports.values()),
        batteries=tuple(found.batteries.values()),
        sensors=tuple(found.sensors.values()),
        read_errors=(
            *output.summarize(found.read_errors),
            *output.truncated_error(f"tw_cli /{name} show", text),
        ),
    )
    if not found.tables & {"unit", "port", "vport"}:
        return told  # old versions print them for other commands
    pairs = found.pairs
    missed = uncounted(
        f"tw_cli /{name} show all",
        told,
        pairs.get("number of drives", pairs.get("drives", "")),
        pairs.get("number of units", pairs.get("units", "")),
        pairs.get("not optimal units", ""),
    )
    return replace(told, read_errors=(*told.read_errors, *missed))


def uncounted(
    command: str, found: Controller, disks: str, units: str, not_optimal: str
) -> tuple[str, ...]:
    """Return the reason if a command counts more than a controller lists, '' without a count."""
    ill = sum(each.state.word not in _OPTIMAL for each in found.arrays)
    return (
        *output.unlisted(command, "disks", disks, len(found.disks)),
        *output.unlisted(command, "units", units, len(found.arrays)),
        *output.unlisted(command, "units that are not optimal", not_optimal, ill),
    )


def parse_unit_serial(text: str) -> str:
    """Parse the serial number of 'tw_cli /c0/u0 show serial'. Errors: ParseError.

    The kernel's disk has the same: page 0x80 of its vital product data. The layout is derived from
    similar lines and was not seen.
    """
    found = _SERIAL.search(output.plain(text))
    if found is None:
        raise output.refused("tw_cli /cN/uN show serial", "'/cN/uN serial = ...'", text)
    return output.printable(found[1])


def _lines(command: str, text: str) -> list[str]:
    plain = output.plain(text)
    if error := ERROR.search(plain):
        raise output.refused(f"tw_cli {command}", "no error", error[0])
    return plain.splitlines()


_HEADINGS = {
    ("Unit", "UnitType", "Status"): "unit",
    ("Port", "Status", "Unit", "Size", "Blocks"): "port",
    ("VPort", "Status", "Unit", "Size", "Type"): "vport",
    ("Name", "OnlineState", "BBUReady", "Status"): "battery",
    ("Encl", "Status"): "part",
    ("Fan", "Status"): "fan",
    ("TempSensor", "Status"): "temperature",
    ("PowerSupply", "Status"): "part",
    ("Slot", "Status"): "other",
    ("Ctl", "Model"): "other",
    ("Encl", "Slots"): "other",
    ("Port", "Status"): "other",
}
"""First words of the headers; the longer ones first."""
_WITHOUT_STATES = {"Fan": "fan", "TempSensor": "temperature", "PowerSupply": "part"}
"""First words of an enclosure's tables that may have no column 'Status'."""
_FIRST = {
    "unit": r"u\d{1,3}(-\S+)?",
    "port": r"p\d{1,3}",
    "vport": r"p\d{1,3}",
    "battery": r"bbu\S*",
    "part": r"/c\d{1,2}/e\d{1,3}|[a-z]+\d{1,3}",
    "fan": r"[a-z]+\d{1,3}",
    "temperature": r"[a-z]+\d{1,3}",
}
"""Patterns of a row's first cell."""


_RULE = lazy_pattern(r"-{10,}")


def _heading(columns: list[str], *, is_ruled: bool) -> str:
    """Return the kind of table that a line begins, '' if it begins none.

    Above a rule of dashes any line is a heading: the rows of an unknown table are not those of the
    table above it. 'TempSensor Temperature' is a table without states.
    """
    for start, name in _HEADINGS.items():
        if tuple(columns[: len(start)]) == start:
            return name
    if not is_ruled or not columns:
        return ""
    return _WITHOUT_STATES.get(columns[0], "other")


def _unit(found: _Tables, header: list[str], columns: list[str]) -> None:
    if _SUB_UNIT.fullmatch(columns[0]):
        return
    if len(columns) < len(header):
        raise output.refused("tw_cli show", " ".join(header), " ".join(columns))
    cells = dict(zip(header, columns, strict=False))
    size = cells.get("Size(GB)", "-")
    unit = ControllerArray(
        name=columns[0],
        state=_state(
            cells["Status"], _UNIT_STATES, cells.get("%RCmpl", ""), cells.get("%V/I/M", "")
        ),
        level=output.printable(cells["UnitType"]),
        size_bytes=output.size_bytes(f"{size} GB", 1024),
        address=f"0:{int(columns[0][1:])}:0",
        policy=_policy(cells.get("Cache")),
    )
    # A unit's own table has no 'Cache'.
    before = found.units.setdefault(unit.name, unit)
    found.units[unit.name] = replace(before, state=states.worst(before.state, unit.state))


def _policy(word: str | None) -> CachePolicy | None:
    """Parse 'RiW', 'W', 'ON': 'Ri' and 'Rb' are read caches according to the guide."""
    if word is None or word in _NOTHING:
        return None
    known = re.fullmatch(r"(?:R[ib])?W?|ON|OFF", word)
    if known is None:
        return CachePolicy(word=output.printable(word))
    return CachePolicy(word == "ON" or "W" in word, word.startswith("R"), word)


def _state(word: str, meanings: dict[str, ComponentHealth], *done: str) -> ComponentState:
    """Parse a state; a trailing '*' means that a disk of the unit had an error."""
    state = states.classify(word.rstrip("*").replace("_", "-"), meanings)
    health = state.health
    if word.endswith("*") and health in states.WELL:
        health = ComponentHealth.ATTENTION
    ratios = (re.match(r"(\d{1,3})%", each, re.ASCII) for each in done)
    return ComponentState(
        health, output.printable(word), output.ratio(next(filter(None, ratios), None))
    )


def _port(found: _Tables, header: list[str], columns: list[str]) -> None:
    line = " ".join(columns)
    virtual = header[0] == "VPort"
    cells = (_VIRTUAL_PORT if virtual else _PORT).fullmatch(line)
    if cells is None:
        raise output.refused("tw_cli show", " ".join(header), line)
    if cells["state"] == _ABSENT_PORT:
        return
    told = cells.groupdict()
    place = _SLOT.fullmatch(told.get("place") or "")
    blocks = told.get("blocks") or "-"
    port = PhysicalDisk(
        slot=f"enclosure {int(place[1])} slot {int(place[2])}"
        if place
        else f"port {int(cells['port'])}",
        state=_state(cells["state"], _PORT_STATES),
        model=output.printable((told.get("model") or "").strip("-")),
        serial=output.printable((told.get("serial") or "").strip("-")),
        size_bytes=int(blocks) * SECTOR_BYTES
        if blocks.isdecimal()
        else output.size_bytes(cells["size"], 1024),
        usage=output.printable(told.get("type") or ""),
        array="" if cells["unit"] == "-" else cells["unit"],
        # smartctl treats every disk there as an ATA disk.
        kind="" if told.get("type") == "SAS" else f"3ware,{int(cells['port'])}",
    )
    before = found.ports.get(cells["port"], port)
    found.ports[cells["port"]] = replace(port, state=states.worst(before.state, port.state))


def _battery(found: _Tables, header: list[str], columns: list[str]) -> None:
    if len(columns) < len(header):
        raise output.refused("tw_cli show", " ".join(header), " ".join(columns))
    cells = dict(zip(header, columns, strict=False))
    state = _state(cells["Status"], _BATTERY_STATES)
    odd = [f"{name} {cells[name]}" for name in ("Volt", "Temp") if cells.get(name, "OK") != "OK"]
    if odd and state.health is ComponentHealth.OK:
        state = ComponentState(
            ComponentHealth.ATTENTION, output.printable(" ".join([cells["Status"], *odd]))
        )
    ready = {"Yes": True, "No": False}.get(cells["BBUReady"])
    absent = state.health is ComponentHealth.ABSENT
    battery = Battery(columns[0], state, None if absent else ready)
    (found.batteries[columns[0]],) = states.once(
        (*filter(None, [found.batteries.get(columns[0])]), battery)
    )


def _part(found: _Tables, header: list[str], columns: list[str]) -> None:
    cells = dict(zip(header, columns, strict=False))
    state = None
    if "Status" in header:
        state = _state(cells.get("Status", ""), _PART_STATES)
        odd = [
            f"{column} {output.printable(cells[column])}"
            for column in ("Voltage", "Current")
            if cells.get(column, "-").casefold() not in {"ok", "-"}
        ]
        state = states.downgraded(state, odd)
    if whole := re.fullmatch(r"/c\d{1,2}/(e\d{1,3})", columns[0], re.ASCII):
        found.enclosure = name = whole[1]
    else:
        name = output.printable(f"{found.enclosure} {columns[0]}".strip())
    speed, degrees = cells.get("RPM", ""), re.match(r"(\d{1,3})C", cells.get("Temperature", ""))
    before = found.sensors.get(name)
    found.sensors[name] = Sensor(
        name,
        state or (None if before is None else before.state),
        temperature_celsius=float(degrees[1]) if degrees else None,
        fan_rpm=output.number(speed),
    )


_ROWS: dict[str, Callable[[_Tables, list[str], list[str]], None]] = {
    "unit": _unit,
    "port": _port,
    "vport": _port,
    "battery": _battery,
    "part": _part,
    "fan": _part,
    "temperature": _part,
}
