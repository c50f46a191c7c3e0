"""Parser of the alarms of 3ware's RAID controllers: 'tw_cli /cN show alarms'. Pure.

Source: the vendor's list of notifications (9550SX to 9750 guides) for the texts of tw_cli, kernel
'drivers/scsi/3w-9xxx.h' for those of the driver, both by AEN code. The severity is sent with each
alarm and is not derived from its code. Texts that were not at hand in the guide are from memory.
"""

from __future__ import annotations

import re

from iowarden.collectors.event import StorageEvent
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output
from iowarden.collectors.raid.controller import ControllerLog

SOURCE = "3ware"
OTHER = "3ware_other"
RING_ENTRIES = 256
"""Alarms that the driver queues; they are lost when it is reloaded. Source: TW_Q_LENGTH."""

NAMES = {
    0x0001: ("Controller reset occurred", "Controller reset"),
    0x0002: ("Degraded unit", "Degraded unit detected", "Unit degraded"),
    0x0003: ("Controller error occurred", "Controller error"),
    0x0004: ("Rebuild failed", "Background rebuild failed"),
    0x0005: ("Rebuild completed", "Background rebuild done", "Rebuild complete"),
    0x0006: ("Incomplete unit detected",),
    0x0007: ("Initialize completed", "Background initialize done", "Initialization complete"),
    0x0008: ("Unclean shutdown detected",),
    0x0009: ("Drive timeout detected", "ATA port timeout", "Drive timeout"),
    0x000A: ("Drive error detected", "Drive error"),
    0x000B: ("Rebuild started", "Background rebuild started"),
    0x000C: ("Initialize started", "Background initialize started", "Initialization started"),
    0x000D: ("Unit deleted", "Logical unit deleted", "Entire unit deleted"),
    0x000E: ("Initialize failed", "Background initialize failed"),
    0x000F: ("SMART threshold exceeded", "SMART attribute exceeded threshold"),
    0x0010: ("Power supply reported AC under range",),
    0x0011: ("Power supply reported DC out of range",),
    0x0012: ("Power supply reported a malfunction",),
    0x0013: ("Power supply predicted malfunction",),
    0x0014: ("Battery charge is below threshold",),
    0x0015: ("Fan speed is below threshold",),
    0x0016: ("Temperature sensor is above threshold",),
    0x0017: ("Power supply removed", "Power supply was removed"),
    0x0018: ("Power supply inserted", "Power supply was inserted"),
    0x0019: ("Drive removed", "Drive was removed from a bay"),
    0x001A: ("Drive inserted", "Drive was inserted into a bay"),
    0x001B: ("Drive bay cover door was opened",),
    0x001C: ("Drive bay cover door was closed",),
    0x001D: ("Product case was opened",),
    0x001E: ("Unit inoperable",),
    0x001F: ("Unit operational",),
    0x0020: ("Prepare for shutdown (power-off)",),
    0x0021: ("Downgrade UDMA mode", "Downgrade UDMA mode to lower speed", "ATA UDMA downgrade"),
    0x0022: ("Upgrade UDMA mode", "Upgrade UDMA mode to higher speed", "ATA UDMA upgrade"),
    0x0023: ("Sector repair completed", "Sector repair occurred", "Sector repair occured"),
    0x0024: ("Buffer integrity test failed", "Sbuf memory test failed"),
    0x0025: ("Cache flush failed", "Cache flush failed; some data lost", "Lost cached write"),
    0x0026: ("Drive ECC error reported", "Drive reported data ECC error"),
    0x0027: ("DCB checksum error detected", "DCB has checksum error"),
    0x0028: ("DCB version unsupported", "DCB version is unsupported"),
    0x0029: ("Verify started", "Background verify started"),
    0x002A: ("Verify failed", "Background verify failed"),
    0x002B: ("Verify completed", "Background verify done", "Verify complete"),
    0x002C: ("Source drive ECC error overwritten", "Bad sector overwritten during rebuild"),
    0x002D: ("Source drive error occurred", "Background rebuild error on source drive"),
    0x002E: ("Replacement drive capacity too small", "Replacement drive is too small"),
    0x002F: (
        "Verify not started, unit never initialized",
        "Verify not started; unit never initialized",
    ),
    0x0030: ("Drive not supported", "Unsupported ATA drive"),
    0x0031: ("Synchronize host/controller time", "Host/controller time synchronized"),
    0x0032: (
        "Spare capacity too small for some units",
        "Spare capacity is inadequate for some units",
    ),
    0x0033: ("Migration started", "Background migration started"),
    0x0034: ("Migration failed", "Background migration failed"),
    0x0035: ("Migration completed", "Background migration done"),
    0x0036: ("Verify fixed data/parity mismatch", "Verify detected and fixed data/parity mismatch"),
    0x0037: ("SO-DIMM not compatible", "SO-DIMM incompatible"),
    0x0038: ("SO-DIMM not detected",),
    0x0039: ("Buffer ECC error corrected", "Corrected Sbuf ECC error"),
    0x003A: ("Drive power on reset detected",),
    0x003B: ("Rebuild paused", "Background rebuild paused"),
    0x003C: ("Initialize paused", "Background initialize paused"),
    0x003D: ("Verify paused", "Background verify paused"),
    0x003E: ("Migration paused", "Background migration paused"),
    0x003F: ("Flash file system error detected", "Corrupt flash file system detected"),
    0x0040: ("Flash file system repaired",),
    0x0041: ("Unit number assignments lost", "Unit number assignments were lost"),
    0x0042: ("Primary DCB read error occurred", "Error during read of primary DCB"),
    0x0043: ("Backup DCB read error detected", "Latent error found in backup DCB"),
    0x0044: ("Battery voltage is normal",),
    0x0045: ("Battery voltage is low",),
    0x0046: ("Battery voltage is high",),
    0x0047: ("Battery voltage is too low",),
    0x0048: ("Battery voltage is too high",),
    0x0049: ("Battery temperature is normal",),
    0x004A: ("Battery temperature is low",),
    0x004B: ("Battery temperature is high",),
    0x004C: ("Battery temperature is too low",),
    0x004D: ("Battery temperature is too high",),
    0x004E: ("Battery capacity test started",),
    0x004F: ("Cache synchronization skipped",),
    0x0050: ("Battery capacity test completed",),
    0x0051: ("Battery health check started",),
    0x0052: ("Battery health check completed",),
    0x0053: ("Battery capacity test is overdue", "Battery capacity test needed"),
    0x0054: ("Battery charge termination voltage is at high level",),
    0x0055: ("Battery charging started",),
    0x0056: ("Battery charging completed",),
    0x0057: ("Battery charging fault",),
    0x0058: ("Battery capacity is below warning level",),
    0x0059: ("Battery capacity is below error level",),
    0x005A: ("Battery is present",),
    0x005B: ("Battery is not present",),
    0x005C: ("Battery is weak",),
    0x005D: ("Battery health check failed",),
    0x005E: ("Cache synchronization completed", "Cache synchronized after power fail"),
    0x005F: ("Cache synchronization failed; some data lost",),
    0x0060: ("Bad cache meta data checksum",),
    0x0061: ("Bad cache meta data signature",),
    0x0062: ("Cache meta data restore failed",),
    0x0063: ("BBU not found after power fail",),
    0x00FC: ("Recovered/finished array membership update",),
    0x00FD: ("Handler lockup",),
    0x00FE: ("Retrying PCI transfer",),
    0x00FF: ("AEN queue is full",),
}
"""Names of an AEN by its code; its event kind is made from the first name."""


_CODES = {output.slug(name): code for code, names in NAMES.items() for name in names}
KINDS = {
    **{
        f"3ware_{output.slug(names[0])}": f"AEN 0x{code:04X}: {names[0]}"
        for code, names in NAMES.items()
    },
    OTHER: "an unknown alarm",
}
"""Every event kind of this module, and its meaning."""

_HEADER = lazy_pattern(r"\s*Ctl\s+Date\s+Severity\b.*", re.IGNORECASE)
ERROR = lazy_pattern(r"^[ \t]*error:.*$", re.MULTILINE | re.IGNORECASE)
_ALARM = lazy_pattern(r"\s*/?c\d{1,2}(?:/e\d{1,3})?\s+\[([^\]]*)\]\s+(\S+)\s*(|.*\S)\s*", re.ASCII)
_ARGUMENT = lazy_pattern(
    r"\b(port|phy|unit|subunit|slot|enclosure|encl|LBA)\s*[=#]\s*(0x[0-9a-f]{1,16}|\d{1,10})\b",
    re.IGNORECASE,
)


def kind_of(code: int) -> str:
    """Return the kind of an AEN by its code: also of one from the kernel log."""
    names = NAMES.get(code)
    return f"3ware_{output.slug(names[0])}" if names else OTHER


def by_themselves(text: str) -> tuple[str, str]:
    """Return a text without its rows of alarms, and these below the names of their columns.

    The state of a unit and the alarms that explain it are often in one paste. '': it has none.
    """
    lines = text.split("\n")
    rows = [line for line in lines if ROW.match(line)]
    others = (line for line in lines if not ROW.match(line) and not _HEADER.fullmatch(line))
    return "\n".join(others), "\n".join((COLUMNS, *rows, "")) if rows else ""


COLUMNS = "Ctl  Date                        Severity  AEN Message"
ROW = lazy_pattern(r"^[ \t]*/?(c\d{1,2})(?:/e\d{1,3})?[ \t]+\[", re.MULTILINE | re.ASCII)
"""Begin of a row, with its controller."""


def parse_alarms(text: str, name: str) -> ControllerLog:
    """Parse the alarms of the controller `name` ('c0'), oldest first as they are listed.

    The first column of a row is ignored: in the guide's sample it is another controller's. A line
    below the header that is no alarm becomes an event of unknown kind: nothing is dropped.
    `clock_seconds` is the driver's local time read as UTC, None if it is no date.
    Limits: an empty list does not mean 'no problem': 3dm2 removes alarms from it.
    Errors: ParseError, if it is no list of alarms.
    """
    plain = output.plain(text)
    if error := ERROR.search(plain):
        raise output.refused(f"tw_cli /{name} show alarms", "a list of alarms", error[0])
    lines = plain.split("\n")
    header = next((at for at, line in enumerate(lines) if _HEADER.fullmatch(line)), None)
    if header is None and (first := ROW.search(plain)) is not None:
        # 'grep' leaves the rows without the names of their columns.
        header, lines = -1, plain[first.start() :].split("\n")
    if header is None:
        raise output.refused(f"tw_cli /{name} show alarms", "'Ctl  Date  Severity ...'", plain)
    rows = (row for row in lines[header + 1 : -1] if row.strip())
    events = (_event(row, name) for row in rows if not re.fullmatch(r"\s*-{10,}\s*", row))
    return ControllerLog(tuple(events), cut=bool(lines[-1].strip()))


def _event(row: str, name: str) -> StorageEvent:
    found = _ALARM.fullmatch(row)
    if found is None:
        text = output.printable(" ".join(row.split()))
        return StorageEvent(SOURCE, OTHER, text, controller=name)
    message = " ".join(found[3].split())
    code = _CODES.get(output.slug(message.partition(":")[0]))
    told = {key.casefold(): value for key, value in _ARGUMENT.findall(message)}
    address = told.get("lba")
    return StorageEvent(
        SOURCE,
        OTHER if code is None else kind_of(code),
        output.printable(message),
        controller=name,
        place=_place(told),
        sector=None if address is None else int(address, 16 if "x" in address.casefold() else 10),
        code="" if code is None else f"0x{code:04X}",
        word=output.printable(found[2]),
        clock_seconds=output.date_seconds(found[1]),
    )


def _place(fields: dict[str, str]) -> str:
    enclosure = fields.get("enclosure", fields.get("encl"))
    if "slot" in fields:
        return (
            f"enclosure {enclosure} slot {fields['slot']}"
            if enclosure
            else f"slot {fields['slot']}"
        )
    return next((f"{key} {fields[key]}" for key in ("port", "phy", "unit") if key in fields), "")
