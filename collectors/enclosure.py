"""Slots of storage enclosures, from '/sys/class/enclosure'."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot. None: the enclosure does not tell. Source: kernel, drivers/misc/enclosure.c."""

    enclosure: str
    slot: str
    status: str | None
    """'OK', 'critical', 'non-critical', 'unrecoverable', 'not installed' ..."""
    fault: bool | None
    active: bool | None
    locate: bool | None
    device: str | None
    """The block device in it."""
