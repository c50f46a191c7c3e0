"""The storage of the host as a tree: answer of 'storage', and the tree of the status page. Pure.

Units: bytes, seconds, ratios from 0 to 1; times are Unix time. None: not known, '': there is none.
"""

from __future__ import annotations

from iowarden.collectors.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StorageNode:
    """A row of the storage tree: what people use, and below it what it is on."""

    name: str = ""
    """A mount point, pool, array, volume, disk, or a path. '(sdb1)': it is missing."""
    kind: str = ""
    """'ext4', 'swap', 'raid6', 'LVM', 'zpool', 'disk' ..."""
    depth: int = 0
    """0: nothing is stacked on it."""
    size_bytes: float | None = None
    used_ratio: float | None = None
    """Of a file system."""
    severity: str = ""
    """Of its worst active alert, or of its state; '': nothing is wrong with it."""
    below: str = ""
    """Severity of the worst of what it is on; '': none."""
    state: str = ""
    """What it is now: '1 of 2 members: no redundancy left', 'FAILED'."""
    survives_disks: int | None = None
    """As iowarden_redundancy_survives_disks; None also of what has no redundancy to have."""
    serial: str = ""
    place: str = ""
    """Where it is: enclosure and bay, slot of a controller, ATA port or host adapter."""
    note: str = ""
    """What a person at the rack must know: 'replace', 'last copy: do not remove'."""
    unknown: str = ""
    """Why its state is not known; '': it is."""
    since_seconds: float | None = None
    """Since when it is so, if it is not well."""
    temperature_celsius: float | None = None
    alerts: tuple[str, ...] = ()
    disk: str = ""
    """Label of the disk that it is, '' if it is none."""
    device: str = ""
    """The kernel's name of the whole device: 'sda' where `name` is 'sda1'."""
    is_member: bool = False
    """Whether it is one of several equal parts of the row above: they are folded while well."""
    repeated: bool = False
    """It is shown above with what is below it."""


@dataclass(frozen=True, slots=True)
class BayLine:
    """A place for a disk, with the disk in it, for a person at the rack."""

    adapter: str = ""
    """'host5 mpt3sas', 'areca 1'."""
    enclosure: str = ""
    bay: str = ""
    name: str = ""
    """Its block device; '' behind a controller."""
    serial: str = ""
    size_bytes: float | None = None
    state: str = ""
    """'ok', 'warning', 'failed', 'rebuilding', 'missing', 'empty', 'unknown'."""
    text: str = ""
    note: str = ""
    used_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StorageTree:
    """Answer of 'storage': rows from what is used to the disks, the worst first."""

    now_seconds: float = 0.0
    host: str = ""
    nodes: tuple[StorageNode, ...] = ()
    omitted: int = 0
    """Rows that were left out."""
    bays: tuple[BayLine, ...] = ()
    problems: tuple[str, ...] = ()
    """What cannot be read now, so that rows may be missing or old."""
