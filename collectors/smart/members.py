"""Parsers for the disks behind RAID controllers: smartctl's scan, cli64, tw_cli. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Literal

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.json_text import is_deep
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.probe_reply import field

_ESCAPE = lazy_pattern(r"\x1b\[[0-9;?]*[A-Za-z]")
"""cli64 clears the screen if it assumes that its output is a terminal."""
_SCANNED = lazy_pattern(
    r"/dev/bus/\d{1,3} (sat\+)?megaraid,\d{1,3}|/dev/bsg/sssraid\d{1,3} sssraid,\d{1,3},\d{1,3}",
    re.ASCII,
)
_DISK_TYPES = frozenset({0, 14, 20})
"""Peripheral device types: disk, simplified disk, zoned disk. Source: SPC-5, 6.6.2."""

Presence = Literal["disk", "other", "silent", "end"]


@dataclass(frozen=True, slots=True)
class ControllerDisk:
    """A disk of a controller.

    Fields: `kind` is smartctl's '-d', '' if smartctl cannot read it; `path` may be ''.
    """

    kind: str
    slot: str = ""
    path: str = ""


def parse_scan(output: str) -> tuple[ControllerDisk, ...]:
    """Parse the disks behind controllers in 'smartctl --scan --json'; others are left out.

    Source: smartctl(8): on Linux it queries MegaRAID controllers (sssraid from 7.4 on), and lists
    of other devices only what is in '/dev'. A disk may be listed twice, under two numbers.
    Errors: ParseError.
    """
    try:
        found = {} if is_deep(output) else json.loads(output)
        devices = (
            [
                (field(str, device, "name"), field(str, device, "type"))
                for device in field(list, found, "devices")
            ]
            if "devices" in found
            else []
        )
        field(dict, found, "smartctl")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            "'smartctl --scan': expected a list of devices as JSON (smartctl 7.0 or later), got"
            f" {output[:80]!r}: {type(error).__name__}: {error}"
        ) from None
    return tuple(
        ControllerDisk(kind, _scan_slot(kind), name)
        for name, kind in devices
        if _SCANNED.fullmatch(f"{name} {kind}")
    )


def parse_areca_disks(output: str) -> tuple[ControllerDisk, ...]:
    """Parse the disks that 'cli64 disk info' lists; empty bays are left out.

    Three layouts, identified by the columns before 'ModelName': 'Ch', '# Ch#', '# Enc# Slot#'.
    'Enc#' and 'Slot#' are assumed to be smartctl's E and N; that was not tried on hardware.
    Limits: the slot's number within its enclosure is counted, because some are called 'EXTP 01'.
    Errors: ParseError.
    """
    lines = _ESCAPE.sub("", output).splitlines()
    header = next((line for line in lines if re.search(r"(Ch#?|Slot#)\s+ModelName\b", line)), "")
    if not header or not any("GuiErrMsg<0x00>" in line for line in lines):
        raise ParseError(
            "'cli64 disk info': expected a table with 'ModelName' and 'GuiErrMsg<0x00>: Success.'"
            f" below it, got {output.strip()[-80:]!r}"
        )
    at = header.index("ModelName")
    columns = header[:at].split()
    members = []
    slots: Counter[int] = Counter()
    for line in lines[lines.index(header) + 1 :]:
        cells = dict(zip(columns, line[:at].split(), strict=False))
        number = cells.get("Enc#", cells.get("Ch#", cells.get("Ch", "")))
        if not re.fullmatch(r"\d{1,3}", number, re.ASCII):
            continue
        place = int(number)
        slots[place] += 1
        if not line[at:].startswith("N.A."):
            members.append(
                ControllerDisk(
                    f"areca,{slots[place]}/{place}", f"enclosure {place} slot {slots[place]}"
                )
                if "Enc#" in columns
                else ControllerDisk(f"areca,{place}", f"channel {place}")
            )
    return tuple(members)


def parse_threeware_controllers(output: str) -> tuple[str, ...]:
    """Parse the controllers ('c0') that 'tw_cli info' lists. Errors: ParseError."""
    if not re.search(r"^Ctl\s+Model\b", output, re.MULTILINE):
        raise ParseError(
            f"'tw_cli info': expected a table of controllers, got {output.strip()[:80]!r}"
        )
    return tuple(re.findall(r"^(c\d{1,2})\s", output, re.MULTILINE))


def parse_threeware_disks(output: str) -> tuple[ControllerDisk, ...]:
    """Parse the disks that 'tw_cli info cN drivestatus' lists; empty ports are left out.

    The number of a port is that of smartctl's '-d 3ware,N', for 'VPort' as well (unchecked).
    smartctl cannot read a SAS disk there: it treats all of them as ATA disks.
    Errors: ParseError.
    """
    if not re.search(r"^[ \t]*V?Port\s+Status\s+Unit\b", output, re.MULTILINE):
        raise ParseError(f"'tw_cli info': expected a table of ports, got {output.strip()[:80]!r}")
    members = []
    for row in output.splitlines():
        line = f" {' '.join(row.split())} "  # a manual's sample has tabs
        if (found := re.match(r" p(\d{1,3}) (\S+) ", line)) and found[2] != "NOT-PRESENT":
            place = re.search(r"/e(\d{1,3})/slt(\d{1,3}) ", line)
            slot = f"enclosure {place[1]} slot {place[2]}" if place else f"port {found[1]}"
            members.append(ControllerDisk("" if " SAS " in line else f"3ware,{found[1]}", slot))
    return tuple(members)


def parse_cciss(output: str) -> Presence:
    """Parse what is at a number of '-d cciss,N', from 'smartctl --json -i'.

    'end' is after the last one: the driver then returns ENXIO. 'silent' does not answer, like a
    dead disk. 'other' is an enclosure. Source: smartctl 5.42's text, hpsa's physical LUNs.
    Errors: ParseError.
    """
    if "No such device or address" in output:
        return "end"
    if " mode, exit(" in output:  # it is in standby, and its type was not queried
        return "disk"
    try:
        found = {} if is_deep(output) else json.loads(output)
        field(dict, found, "smartctl")
        if "device_type" in found:
            kind = field(int, field(dict, found, "device_type"), "scsi_value")
            if kind not in _DISK_TYPES:
                return "other"
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            f"'smartctl -d cciss,N': expected JSON, got {output[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None
    known = any(key in found for key in ("model_name", "scsi_model_name", "serial_number"))
    return "disk" if known else "silent"


def _scan_slot(kind: str) -> str:
    family, _, number = kind.rpartition("+")[2].partition(",")
    return f"device {number}" if family == "megaraid" else number
