"""What is mounted where, from '/proc/1/mountinfo' and '/etc/fstab'."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount. Source: kernel, filesystems/proc.rst, 3.5; proc_pid_mountinfo(5).

    Names are without the kernel's octal escapes.
    """

    device_number: str
    """'8:1'."""
    source: str
    """'/dev/sda1', 'tmpfs', 'server:/export'."""
    root: str
    mount_point: str
    kind: str
    """'ext4', 'xfs', 'nfs4' ..."""
    options: tuple[str, ...]
    """Of this mount: 'rw', 'noatime' ..."""
    super_options: tuple[str, ...]
    """Of the file system: 'rw', 'emergency_ro', 'shutdown' ..."""


@dataclass(frozen=True, slots=True)
class Mounts:
    """All mounts of process 1, in the order of the file, and what '/etc/fstab' wants."""

    mounts: tuple[Mount, ...]
    wanted: Mapping[str, tuple[str, ...]] | None
    """Options by mount point; None: no such file."""
