"""How full the mounted file systems are: statvfs of each mount point."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """One mounted file system. Source: statvfs(3).

    `available_bytes` is what a program without privilege can still write. `files` is 0 where the
    file system has no fixed number of inodes.
    """

    mount_point: str
    device: str
    """As mounted: '/dev/sda1', 'server:/export'."""
    kind: str
    size_bytes: int
    free_bytes: int
    available_bytes: int
    files: int
    files_free: int
    read_only: bool


@dataclass(frozen=True, slots=True)
class Unread:
    """A mount whose statvfs failed, is under way for too long, or would tell of another mount."""

    mount_point: str
    device: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Filesystems:
    """By mount point; what is read, and what could not be."""

    usage: Mapping[str, Usage]
    unread: Mapping[str, Unread]
