"""Uevents: the kernel's notifications of added, removed and changed block devices, through pyudev.

They only trigger an immediate read of '/sys/block': changes are derived from that
(rules/topology/device_changes.py), and the periodic read finds what a lost uevent would have
reported. Source: kernel, lib/kobject_uevent.c; libudev's udev_monitor.

Messages of the kernel are used, not those of udevd: they arrive without udevd as well, also in a
separate network namespace, and identity is read from sysfs.
"""

from __future__ import annotations

import re
import select

import pyudev

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError

MAX_EVENTS = 1000
"""Maximum of one batch; the others are in the next one."""
_SUBSYSTEM = "block"


@dataclass(frozen=True, slots=True)
class Uevent:
    """One uevent. `diskseq` numbers every disk that ever appeared (5.15+)."""

    action: str
    """'add', 'remove', 'change', 'move' ..."""
    device: str
    diskseq: int | None


@dataclass(frozen=True, slots=True)
class UeventBatch:
    """The uevents since the last read, and whether some were lost."""

    events: tuple[Uevent, ...]
    lost: str = ""
    """Why some were lost; '' if none were."""


class Uevents:
    """A subscription. One thread only. Errors: OSError when the kernel gives no socket."""

    def __init__(self) -> None:
        """Subscribe; later uevents are received."""
        self._monitor = _subscribed()

    def fileno(self) -> int:
        """Return the descriptor that is readable when a uevent is available."""
        return int(self._monitor.fileno())

    def wait(self, timeout_seconds: float | None = None) -> UeventBatch:
        """Wait for a uevent and return all available ones; none at the timeout.

        After an overflow of the queue the monitor returns only errors (pyudev issue 194): it is
        replaced, and the loss is reported.
        """
        if not select.select([self], [], [], timeout_seconds)[0]:
            return UeventBatch(())
        events: list[Uevent] = []
        try:
            while (
                len(events) < MAX_EVENTS and (device := self._monitor.poll(timeout=0)) is not None
            ):
                events.append(_uevent(device))
        except OSError as error:
            self._monitor = _subscribed()
            return UeventBatch(tuple(events), str(error))
        return UeventBatch(tuple(events))


def text(batch: UeventBatch) -> str:
    """Return a batch as lines: '<action> <device> <diskseq or ->', for a loss 'lost <why>'."""
    lines = [
        f"{e.action} {e.device} {'-' if e.diskseq is None else e.diskseq}" for e in batch.events
    ]
    return "".join(
        f"{line}\n" for line in (*lines, *([f"lost {batch.lost}"] if batch.lost else []))
    )


_DISKSEQ = lazy_pattern(r"-|\d{1,20}", re.ASCII)
"""A number of 64 bits. Source: kernel, ABI/stable/sysfs-block, diskseq."""


def parse_batch(text: str) -> UeventBatch:
    """Parse the text of `text`. Errors: ParseError."""
    events: list[Uevent] = []
    lost = ""
    for line in text.splitlines():
        match line.split(" "):
            case ["lost", *why]:
                lost = " ".join(why) or "unknown"
            case [action, device, number] if _DISKSEQ.fullmatch(number):
                events.append(Uevent(action, device, None if number == "-" else int(number)))
            case _:
                expected = "'<action> <device> <diskseq or ->' or 'lost <why>'"
                raise ParseError(f"expected {expected}, got {line[:80]!r}")
    return UeventBatch(tuple(events), lost)


def _subscribed() -> pyudev.Monitor:
    monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source="kernel")
    monitor.filter_by(_SUBSYSTEM)
    monitor.start()
    return monitor


def _uevent(device: pyudev.Device) -> Uevent:
    number = device.properties.get("DISKSEQ", "")
    return Uevent(
        action=str(device.action),
        device=device.sys_name,
        diskseq=int(number) if number.isascii() and number.isdigit() else None,
    )
