"""Serial number and world wide name of a disk, from its directory in '/sys/block'.

Source: kernel, ABI/stable/sysfs-block; scsi/scsi_sysfs.c (vpd_pg80, wwid); nvme/host/sysfs.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import AbsentError, ReadError
from iowarden.collectors.printable import name

if TYPE_CHECKING:
    from collections.abc import Collection

    from iowarden.collectors.machine import Machine

_SERIAL_OFFSET = 4
"""Length of a VPD page's header. Source: SPC-4, 7.8.1."""


def parse_serial_page(page: bytes) -> str | None:
    """Return the serial number of a SCSI VPD page 80h."""
    if len(page) <= _SERIAL_OFFSET or page[1] != 0x80:
        return None
    length = int.from_bytes(page[2:_SERIAL_OFFSET], "big")
    text = page[_SERIAL_OFFSET : _SERIAL_OFFSET + length].decode(errors="backslashreplace")
    return normalized(text)


def parse_wwn(text: str) -> str | None:
    """Return a device's world wide name as udev spells it ('0x5000c500a1b2c3d4', 'eui.…').

    A 't10.' identifier is vendor, model and serial number again: no unique name.
    """
    words = normalized(text)
    if words is None or words.startswith("t10."):
        return None
    return "0x" + words[4:] if words.startswith("naa.") else words


def read_serial(root: Machine, path: str, entries: Collection[str]) -> str | None:
    """Return the serial number of the disk with this directory, which has these entries."""
    found = read_text(root, f"{path}/serial") if "serial" in entries else None
    if found is not None or "device" not in entries:
        return found
    found = read_text(root, f"{path}/device/serial")
    if found is not None:
        return found
    try:
        return parse_serial_page(root.read_bytes(path + "/device/vpd_pg80"))
    except (AbsentError, ReadError):
        return None


def read_wwn(root: Machine, path: str, entries: Collection[str]) -> str | None:
    """Return the world wide name of the disk with this directory, which has these entries."""
    text = read_text(root, f"{path}/device/wwid") if "device" in entries else None
    if text is None and "wwid" in entries:
        text = read_text(root, f"{path}/wwid")
    return None if text is None else parse_wwn(text)


def read_identity(root: Machine, path: str) -> str:
    """Return the serial number of the disk with this directory, else its WWN, else ''."""
    entries = root.try_names(path) or ()
    return read_serial(root, path, entries) or read_wwn(root, path, entries) or ""


def read_text(root: Machine, path: str) -> str | None:
    """Return the text of an attribute on one line, None if it is missing or unreadable."""
    return normalized(root.try_read(path) or "")


def normalized(text: str) -> str | None:
    """Return text on one line without superfluous blanks, safe to show; None if it is blank."""
    return name(" ".join(text.replace("\0", " ").split())) or None
