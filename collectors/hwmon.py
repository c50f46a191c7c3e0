"""Temperatures, from '/sys/class/hwmon'."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Temperature:
    """One sensor. None: the chip does not tell. Source: kernel, hwmon/sysfs-interface.rst."""

    chip: str
    """'drivetemp', 'nvme', 'coretemp' ..."""
    sensor: str
    """'temp1'; unique within its hwmon device."""
    hwmon: str
    label: str
    device: str | None
    """The block device it measures ('sda', 'nvme0n1'), where the chip belongs to one."""
    celsius: float | None
    maximum_celsius: float | None
    critical_celsius: float | None
