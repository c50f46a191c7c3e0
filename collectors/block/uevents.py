"""The kernel's announcements of block devices that come, go and change, through pyudev.

They are a reason to look at '/sys/block' at once, no more: what became of a device follows from
that (rules/topology/device_changes.py), and the regular look finds what an announcement that was
lost would have told. Source: kernel, lib/kobject_uevent.c; libudev's udev_monitor.

Messages of the kernel are taken, not those of udevd: they come without it as well, also in a
network name space of our own, and identity is read from sysfs.
"""

from __future__ import annotations

import select
from dataclasses import dataclass

import pyudev

from iowarden.collectors.model import ParseError

MOST = 1000
"""Of one batch; what is left comes with the next."""
_SUBSYSTEM = "block"


@dataclass(frozen=True, slots=True)
class Uevent:
    """One announcement. `diskseq` numbers every disk that ever came up (5.15+)."""

    action: str
    """'add', 'remove', 'change', 'move' ..."""
    device: str
    diskseq: int | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What was announced since the last look, and whether some of it was lost."""

    events: tuple[Uevent, ...]
    lost: str = ""
    """Why; '' when nothing was."""


class Uevents:
    """A subscription. One thread only. Errors: OSError when the kernel gives no socket."""

    def __init__(self) -> None:
        """Subscribe; what is announced from now on will be told."""
        self._monitor = _subscribed()

    def fileno(self) -> int:
        """Return the descriptor that is readable when something was announced."""
        return int(self._monitor.fileno())

    def wait(self, timeout_seconds: float | None = None) -> Batch:
        """Wait for an announcement and return all that are there; none after the time is over.

        When the queue overflowed, the monitor answers nothing but errors from then on (pyudev issue
        194): another one takes its place, and the loss is told.
        """
        if not select.select([self], [], [], timeout_seconds)[0]:
            return Batch(())
        events: list[Uevent] = []
        try:
            while len(events) < MOST and (device := self._monitor.poll(timeout=0)) is not None:
                events.append(_uevent(device))
        except OSError as error:
            self._monitor = _subscribed()
            return Batch(tuple(events), str(error))
        return Batch(tuple(events))


def text(batch: Batch) -> str:
    """Return a batch as lines: '<action> <device> <diskseq or ->', of a loss 'lost <why>'."""
    lines = [
        f"{e.action} {e.device} {'-' if e.diskseq is None else e.diskseq}" for e in batch.events
    ]
    return "".join(
        f"{line}\n" for line in (*lines, *([f"lost {batch.lost}"] if batch.lost else []))
    )


def parse_batch(text: str) -> Batch:
    """Return what `text` wrote. Errors: ParseError."""
    events: list[Uevent] = []
    lost = ""
    for line in text.splitlines():
        match line.split(" "):
            case ["lost", *why]:
                lost = " ".join(why) or "unknown"
            case [action, device, number] if number == "-" or (
                number.isascii() and number.isdigit()
            ):
                events.append(Uevent(action, device, None if number == "-" else int(number)))
            case _:
                expected = "'<action> <device> <diskseq or ->' or 'lost <why>'"
                raise ParseError(f"expected {expected}, got {line[:80]!r}")
    return Batch(tuple(events), lost)


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
