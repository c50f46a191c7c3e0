"""Which drives there may be, and how each is asked.

The kernel, smartctl's scan, the controllers and people say so. No disk is opened to find that out.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_SD = r"/dev/sd[a-z]{1,3}"
_SG = r"/dev/sg\d{1,4}"
_ADAPTER = r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_LINK = r"/dev/disk/by-(?:id|path|partlabel|label|uuid|diskseq)/[!-~]{1,255}"

_DIRECT = (
    r"ata|scsi|nvme(,0x[0-9a-f]{1,8})?|sat(,auto)?(,1[26])?|usbjmicron(,p)?(,[01])?|usbprolific"
    r"|usbsunplus|snt(asmedia|realtek)(/sat)?|sntjmicron(/sat)?(,0x[0-9a-f]{1,8})?"
)
_BEHIND = {
    r"areca,\d{1,3}(/[1-8])?": rf"{_SG}|{_ADAPTER}",
    r"3ware,\d{1,3}": rf"/dev/tw[ael]\d{{1,2}}|{_ADAPTER}",
    r"(sat\+)?megaraid,\d{1,3}": rf"{_SD}|/dev/bus/\d{{1,3}}|{_LINK}|{_ADAPTER}",
    r"((sat|scsi)\+)?aacraid,\d{1,3},\d{1,3},\d{1,3}": rf"{_SD}|{_SG}|{_LINK}|{_ADAPTER}",
    r"((sat|scsi)\+)?cciss,\d{1,3}": (
        rf"{_SD}|{_SG}|/dev/cciss/c\d{{1,2}}d\d{{1,3}}|{_LINK}|{_ADAPTER}"
    ),
    r"sssraid,\d{1,3},\d{1,3}": r"/dev/bsg/sssraid\d{1,3}",
    r"hpt,[1-4]/\d{1,3}(/[1-4])?": rf"{_SD}|{_LINK}",
}
"""Types of disks behind a RAID controller, and which paths go with one. Source: smartctl(8), '-d'.
What is accepted here and not by the probe would be refused there: a test compares.
"""
_DIRECT_PATH = rf"{_SD}|{_SG}|/dev/nvme\d{{1,4}}(n\d{{1,4}})?|{_LINK}"

_REFUSED_TYPES = {
    "jmb39x": "writes to sector 33 of the disk to talk to the bridge",
    "jms56x": "writes to sector 33 of the disk to talk to the bridge",
    "intelliprop": "selects a disk by writing to a log of it",
    "usbcypress": "sends a maker's own command, which other bridges take for something else",
}
"""Source: smartctl(8), '-d'."""

_KEYS = ("path", "type", "serial", "slot", "profile", "ignore")


@dataclass(frozen=True, slots=True)
class ConfiguredDrive:
    """A drive that people wrote down. Fields: '' where they wrote nothing.

    `path` is a device, a link below '/dev/disk', or the PCI address of a RAID controller; '' means
    the drive of this `serial` wherever it is. `kind` is smartctl's '-d'. With `serial` this very
    drive is expected. `profile` names options for drives that choke on the usual ones. `ignore`: it
    is not asked, and nobody misses it.
    """

    path: str = ""
    kind: str = ""
    serial: str = ""
    slot: str = ""
    profile: str = ""
    ignore: bool = False


def parse_configured(item: Mapping[str, object], profiles: Collection[str] = ()) -> ConfiguredDrive:
    """Return an entry of the configuration's list of drives; 'type: auto' is none.

    Errors: ValueError, which names the key, what was expected, and what to write.
    """
    for key in item:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, 1)
            hint = f"did you mean '{near[0]}'?" if near else "see the example file"
            raise ValueError(f"{str(key)[:40]!r}: expected one of {', '.join(_KEYS)}; {hint}")
    ignore = item.get("ignore", False)
    if not isinstance(ignore, bool):
        raise ValueError(f"'ignore': expected true or false, got {str(ignore)[:40]!r}")  # noqa: TRY004 - the file is at fault, not the caller
    path, kind = _text(item, "path", 300), _text(item, "type", 60)
    serial, slot = _text(item, "serial", 100), _text(item, "slot", 100)
    profile = _text(item, "profile", 40)
    kind = "" if kind == "auto" else kind
    if not path and not serial:
        raise ValueError(
            "expected 'path' or 'serial', got neither; write the drive's path, such as '/dev/sda'"
        )
    _check_way(path, kind, ignore=ignore)
    if profile and profiles and profile not in profiles:
        raise ValueError(f"'profile': expected one of {', '.join(profiles)}, got '{profile}'")
    if profile and not path:
        raise ValueError("'profile': expected 'path' beside it; it says how that drive is asked")
    return ConfiguredDrive(path, kind, serial, slot, profile, ignore)


def _check_way(path: str, kind: str, *, ignore: bool) -> None:
    """Check that a type is known, and that it goes with the path. Errors: ValueError."""
    for name, harm in _REFUSED_TYPES.items():
        if kind.rpartition("+")[2].startswith(name) or kind.startswith(name):
            raise ValueError(
                f"'type': expected one that leaves the disk as it is, got '{kind}', which {harm};"
                " leave that drive out"
            )
    if kind and not path:
        raise ValueError("'type': expected 'path' beside it, got none; write the drive's device")
    if not kind:
        wanted = f"{_DIRECT_PATH}|/dev/cciss/c\\d{{1,2}}d\\d{{1,3}}" if ignore else _DIRECT_PATH
    elif re.fullmatch(_DIRECT, kind, re.ASCII):
        wanted = _DIRECT_PATH
    else:
        found = [paths for kinds, paths in _BEHIND.items() if re.fullmatch(kinds, kind, re.ASCII)]
        if not found:
            raise ValueError(
                "'type': expected what smartctl takes after '-d', such as 'sat', 'areca,1' or"
                f" 'megaraid,0', got '{kind}'; see '-d' in smartctl(8)"
            )
        wanted = found[0]
    if path and not re.fullmatch(wanted, path, re.ASCII):
        raise ValueError(
            f"'path': expected {_described(kind)}, got '{path}'; see '-d' in smartctl(8)"
        )


def _described(kind: str) -> str:
    family = kind.rpartition("+")[2].partition(",")[0]
    return {
        "areca": "the controller's '/dev/sg2' or its PCI address '0000:03:00.0'",
        "3ware": "'/dev/twa0', '/dev/twe0', '/dev/twl0' or the controller's PCI address",
        "megaraid": "'/dev/bus/0', a volume '/dev/sda' or the controller's PCI address",
        "aacraid": "a volume '/dev/sda', '/dev/sg1' or the controller's PCI address",
        "cciss": "'/dev/sg1', '/dev/sda', '/dev/cciss/c0d0' or the controller's PCI address",
        "sssraid": "'/dev/bsg/sssraid0'",
        "hpt": "a volume '/dev/sda'",
    }.get(family, "a whole drive such as '/dev/sda', '/dev/nvme0' or '/dev/disk/by-id/...'")


def _text(item: Mapping[str, object], key: str, most: int) -> str:
    """Return a text of the entry, '' without one. Errors: ValueError."""
    value = item.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"'{key}': expected text, got {str(value)[:40]!r}; put it in quotes")  # noqa: TRY004 - the file is at fault, not the caller
    if not re.fullmatch(rf"[!-~]|[!-~][ -~]{{0,{most - 2}}}[!-~]", value):
        raise ValueError(
            f"'{key}': expected 1 to {most} printable ASCII characters without a blank at either"
            f" end, got {value[:40]!r}"
        )
    return value
