"""Write-back limits of backing devices, from '/sys/class/bdi'."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bdi:
    """One backing device. None: this kernel has no such file.

    Source: kernel, ABI/testing/sysfs-class-bdi. `name` is 'major:minor' for a block device.
    """

    name: str
    read_ahead_bytes: int | None
    min_ratio: int | None
    max_ratio: int | None
    max_bytes: int | None
    strict_limit: bool | None
