"""What Areca's RAID controllers say of their disks, by their command line tool."""

from __future__ import annotations

import re

from iowarden.collectors.drive import Attribute
from iowarden.collectors.vocabulary import ParseError

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|^CLI> ", re.MULTILINE)
"""In interactive mode the tool clears the screen and prompts."""
_ROW = re.compile(
    r"\s*(?P<id>[0-9]{1,3})\s+(?P<name>\S.*?)"
    r"(?:\s+0x(?P<flags>[0-9a-fA-F]{1,4})\s+(?P<value>[0-9]{1,3})\s+(?P<threshold>[0-9]{1,3})"
    r"|\s+(?P<value_>[0-9]{1,3})\s+(?P<worst>[0-9]{1,3})\s+(?P<threshold_>[0-9]{1,3})"
    r"\s+(?P<raw>[0-9]{1,20}))"
    r"\s+(?P<state>\S.*?)\s*"
)
"""Of old firmware, with flags and without raw values; of newer, with raw values and no flags."""
_PREFAIL = 0x01
"""Bit of the flags. Source: smartctl(8), '-A': pre-failure or old age."""
_WELL = "OK"


def parse_disk_smart(text: str) -> tuple[Attribute, ...]:
    """Return the attributes in the output of 'cli64 disk smart drv=N'.

    Columns: number, name (with blanks), then flags, normalised value and threshold, or normalised
    value, worst value, threshold and raw value; at last the state. Without flags nobody knows what
    is a pre-failure. Errors: ParseError for a row that is none of a table, and when there is no row
    at all: a port without a disk, or a controller that did not answer.
    """
    attributes: list[Attribute] = []
    for number, line in enumerate(_CONTROL.sub("", text).splitlines(), start=1):
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
