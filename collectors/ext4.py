"""Errors that ext4 file systems have met, from '/sys/fs/ext4'."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ext4Error:
    """Where an error was met. None: this kernel has no such file. Units: Unix seconds."""

    at_seconds: float | None
    function: str | None
    line: int | None
    inode: int | None
    block: int | None


@dataclass(frozen=True, slots=True)
class Ext4:
    """One mounted ext4 file system, by its block device ('sda1', 'dm-0').

    Source: kernel, ABI/testing/sysfs-fs-ext4. Kept in the superblock until e2fsck clears it; does
    not rise for data that could not be read.
    """

    device: str
    errors_total: int | None
    warnings_total: int | None
    first: Ext4Error | None
    last: Ext4Error | None
