"""Error counts of btrfs devices, from '/sys/fs/btrfs'."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BtrfsDevice:
    """One device of a file system. None: the kernel does not tell.

    Source: kernel, fs/btrfs/sysfs.c (devinfo/<id>/error_stats).
    """

    filesystem: str
    """Its UUID."""
    label: str
    identifier: int
    missing: bool | None
    write_errors_total: int | None
    read_errors_total: int | None
    flush_errors_total: int | None
    corruption_errors_total: int | None
    generation_errors_total: int | None
