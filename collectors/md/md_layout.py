"""Layout of an md array on its members, from '/sys/block/md*/md'.

Source: kernel, admin-guide/md.rst; drivers/md/md.c for the units: 'offset' and 'new_offset' are
sectors, 'size' and 'component_size' KiB, 'chunk_size' bytes. No other source is used: what the
kernel does not report is None, and rules/topology/md_map.py then reports that the sector cannot be
mapped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import KIB, SECTOR_BYTES, parse_count
from iowarden.collectors.sysfs import attributes, device_name, entry_name

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine
    from iowarden.collectors.sysfs import Attributes

DIRECTORY = "/sys/block"
_SECTORS_PER_KIB = KIB // SECTOR_BYTES
_TWO = lazy_pattern(r"(\d{1,20}) \((\d{1,20})\)", re.ASCII)
"""The current value, and in parentheses the former one, during a reshape."""


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """A member, and the start of the array's data on it. Units: sectors of 512 bytes.

    Fields: `device` is 'sdb1'; `slot` is None, and `role` the kernel's term, for a member without
    data ('none', 'journal'); `size_sectors` is the size that the array may use.
    """

    device: str
    slot: int | None
    role: str
    offset_sectors: int | None
    new_offset_sectors: int | None
    size_sectors: int | None
    states: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Geometry:
    """An array. None or '': not reported. Units: sectors of 512 bytes.

    Fields: `chunk_sectors` is 0 for a level without chunks; `component_sectors` is the used size of
    every member, if that is one number; `sectors` is the array's own size; `metadata` is '1.2',
    'external:imsm', 'none'; `reshaping`: two layouts are in use.
    """

    name: str
    level: str
    state: str
    raid_disks: int | None
    layout: int | None
    chunk_sectors: int | None
    component_sectors: int | None
    sectors: int | None
    degraded: int | None
    metadata: str
    reshaping: bool
    members: tuple[MemberPlace, ...]
    read_error: str = ""
    """The first attribute that exists and could not be read, and why."""


def read_md_layout(root: Machine, name: str) -> Geometry | None:
    """Read an array ('md0'); None: it was removed. Limits: may hang on a faulty array.

    Errors: ReadError (of its directory), ParseError.
    """
    path = f"{DIRECTORY}/{entry_name(name)}"
    whole = attributes(root, path)
    found = None if whole is None else whole.below("md")
    if whole is None or found is None:
        return None
    position = found.text("reshape_position")
    raid_disks, moved_disks = _pair(found, "raid_disks")
    layout, moved_layout = _pair(found, "layout")
    chunk_bytes, moved_chunk = _pair(found, "chunk_size")
    component = found.count("component_size", _SECTORS_PER_KIB)
    members = []
    for entry in found.entries:
        if entry.startswith("dev-") and (member := found.below(entry)) is not None:
            members.append(_place(member, entry))
            found.read_error = found.read_error or member.read_error
    return Geometry(
        name=name,
        level=found.text("level") or "",
        state=found.text("array_state") or "",
        raid_disks=raid_disks,
        layout=layout,
        chunk_sectors=None if chunk_bytes is None else chunk_bytes // SECTOR_BYTES,
        component_sectors=component,
        sectors=whole.count("size"),
        degraded=found.count("degraded"),
        metadata=found.text("metadata_version") or "",
        reshaping=position not in {None, "none"} or moved_disks or moved_layout or moved_chunk,
        members=tuple(members),
        read_error=found.read_error or whole.read_error,
    )


def _place(member: Attributes, entry: str) -> MemberPlace:
    role = member.text("slot") or ""
    state = member.text("state") or ""
    return MemberPlace(
        device=device_name(entry.removeprefix("dev-")),
        slot=int(role) if re.fullmatch(r"\d{1,9}", role, re.ASCII) else None,
        role=role,
        offset_sectors=member.count("offset"),
        new_offset_sectors=member.count("new_offset"),
        size_sectors=member.count("size", _SECTORS_PER_KIB),
        states=tuple(word for word in state.split(",") if word),
    )


def _pair(found: Attributes, name: str) -> tuple[int | None, bool]:
    """Return a number, and whether the kernel prints two of them. Errors: ParseError."""
    text = found.text(name)
    if text is None:
        return None, False
    if two := _TWO.fullmatch(text):
        return int(two[1]), True
    try:
        # 'layout' of a level without layouts is -1 if mdadm has not set one for the array.
        return (None if text == "-1" else parse_count(text)), False
    except ValueError:
        raise found.wrong(name, "a number, or two while it is reshaped", text) from None
