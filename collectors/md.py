"""Software RAID arrays, from '/proc/mdstat' and '/sys/block/md*/md'."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an array. None: the kernel does not tell.

    Source: kernel, admin-guide/md.rst, 'dev-XXX'.
    """

    device: str
    """'sdb1', as in dev-sdb1."""
    slot: int | None
    """None: none, a spare or faulty."""
    states: tuple[str, ...]
    """'in_sync', 'faulty', 'spare', 'want_replacement', 'write_mostly' ..."""
    errors_total: int | None
    """Read errors that were corrected."""
    bad_blocks: int | None
    """How many ranges are listed; the kernel prints a page at most."""
    unacknowledged_bad_blocks: int | None


@dataclass(frozen=True, slots=True)
class Array:
    """An array. None: the kernel does not tell (an inactive array, a linear one).

    Source: kernel, admin-guide/md.rst; '/proc/mdstat' for what sysfs lacks on old kernels.
    """

    name: str
    level: str | None
    state: str | None
    """array_state: 'clean', 'active', 'active-idle', 'write-pending', 'readonly' ..."""
    raid_disks: int | None
    degraded: int | None
    """Members that are missing."""
    sync_action: str | None
    """'idle', 'resync', 'recover', 'check', 'repair', 'reshape', 'frozen'."""
    sync_done_ratio: float | None
    """None while nothing is synchronised."""
    sync_speed_bytes_per_second: float | None
    mismatches_bytes: int | None
    """mismatch_cnt, in the unit the kernel means (sectors), as bytes."""
    chunk_bytes: int | None
    size_bytes: int | None
    members: tuple[Member, ...]
