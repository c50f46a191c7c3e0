"""Lines that Linux 6.12 prints about storage, from the formats of its source.

printk.tsv is the extract: a name, the level, file and line, the format; of linux-source-6.12 of
Debian (6.12.117-1). A line whose format is not in it cannot be printed. What the kernel puts before
a message (device, adapter, file system) is a format of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

EXTRACT = Path(__file__).with_name("printk.tsv")
_CONVERSION = re.compile(r"%([#0]?\d*)(?:hh|h|ll|l|z)?(?:p[gSV]?|([a-zA-Z]))")


@dataclass(frozen=True)
class Format:
    """A format string. `level` is None for what stands before a message."""

    level: int | None
    place: str
    text: str


@dataclass(frozen=True)
class Printed:
    """A line of the kernel's log."""

    level: int
    text: str


def formats() -> dict[str, Format]:
    """Return the formats of the extract, by name."""
    rows = (row.split("\t") for row in EXTRACT.read_text().splitlines() if row[0] != "#")
    return {
        name: Format(None if level == "-" else int(level), place, text)
        for name, level, place, text in rows
    }


FORMATS = formats()


def _filled(name: str, values: tuple[object, ...]) -> str:
    def python(conversion: re.Match[str]) -> str:
        kind = {"u": "d", "i": "d", None: "s"}.get(conversion[2], conversion[2])
        return f"%{conversion[1]}{kind}"

    return _CONVERSION.sub(python, FORMATS[name].text) % values


def line(name: str, *values: object, before: str = "") -> Printed:
    """Return a line of the log. Errors: KeyError, if its format is not in the extract."""
    level = FORMATS[name].level
    assert level is not None, f"'{name}': expected a message, got what stands before one"
    return Printed(level, before + _filled(name, values))


def sdev(address: str) -> str:
    """Return what stands before a message about a SCSI device."""
    return _filled("dev", ("sd", address, ""))


def sd(address: str, name: str, tag: int | None = None) -> str:
    """Return what stands before a message about a SCSI disk, or a command of it."""
    return sdev(address) + _filled("sd", (name,)) + ("" if tag is None else _filled("tag", (tag,)))


def starget(address: str) -> str:
    """Return what stands before a message about a SCSI target."""
    return _filled("dev", ("scsi", f"target{address.rpartition(':')[0]}", ""))


def ioc(number: int) -> str:
    """Return what stands before a message of an mpt3sas adapter."""
    return _filled("ioc", (f"mpt3sas_cm{number}",))


def link(port: int) -> str:
    """Return what stands before a message about a SATA link."""
    return _filled("ata_link", (port,))


def ata(port: int) -> str:
    """Return what stands before a message about a SATA device."""
    return _filled("ata_dev", (port, 0))


def nvme(name: str) -> str:
    """Return what stands before a message about an NVMe controller: of 'nvme0n1' 'nvme0'."""
    return _filled("dev", ("nvme", name.partition("n1")[0], ""))


def btrfs(kind: str, device: str) -> str:
    """Return what stands before a message of btrfs, which names its first device."""
    return _filled("btrfs", (kind, device, ""))


def ext4(device: str) -> str:
    """Return what stands before a message of ext4."""
    return _filled("ext4", (device,))


def xfs(device: str) -> str:
    """Return what stands before a message of XFS."""
    return _filled("xfs", (device,))


def session(number: int, what: str = "session") -> str:
    """Return what stands before a message about an iSCSI session or connection."""
    name = f"session{number}" if what == "session" else f"connection{number}:0"
    return _filled("dev", ("", name, ""))
