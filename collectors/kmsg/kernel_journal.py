"""Kernel messages from the journal, for the time when iowarden was not running; read by the probe.

Source: systemd.journal-fields(7), what journald adds to a line of '/dev/kmsg'.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import ParseError
from iowarden.collectors.probe_reply import field, number, optional

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

DEADLINE_SECONDS = 60.0
"""Deadline: a large journal on a busy disk takes seconds; nothing waits for it."""


@dataclass(frozen=True, slots=True)
class Message:
    """A line of the kernel log. The same line of '/dev/kmsg' has its boot, time and text."""

    cursor: str
    realtime_seconds: float
    """When journald received it: late at boot, and while its disk hung."""
    monotonic_seconds: float
    """The kernel's own time stamp."""
    boot_id: str
    """As '/proc/sys/kernel/random/boot_id'."""
    priority: int | None
    """0 (emergency) to 7 (debug). Source: syslog(3)."""
    message: str
    device: str | None
    """'b8:0' a block device, 'c1:3', 'n2' an interface, '+scsi:0:0:0:0' by subsystem and name."""
    subsystem: str | None


@dataclass(frozen=True, slots=True)
class Messages:
    """A batch of messages, in the journal's order."""

    messages: tuple[Message, ...]
    gap: bool
    """Messages may be lost: deleted, or damaged."""
    more: bool
    """There are more: query again from `cursor`."""
    cursor: str
    """Cursor of the last message; that of the query if there is none."""


def read_messages(root: Machine, cursor: str = "") -> Messages:
    """Query the messages after a cursor; '': those of the last day.

    Errors: AbsentError (no probe), ReadError (no journal), ParseError.
    """
    return from_json(root.query_probe("journal", cursor, deadline_seconds=DEADLINE_SECONDS))


def from_json(text: str) -> Messages:
    """Parse the probe's answer to 'journal'. Errors: ParseError."""
    try:
        found = json.loads(text)
        return Messages(
            tuple(_message(each) for each in field(list, found, "entries")),
            field(bool, found, "gap"),
            field(bool, found, "more"),
            field(str, found, "cursor"),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ParseError(
            f"probe 'journal': expected messages as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None


def _message(found: Any) -> Message:  # noqa: ANN401 - whatever the probe sent
    return Message(
        cursor=field(str, found, "cursor"),
        realtime_seconds=number(found, "realtime_seconds"),
        monotonic_seconds=number(found, "monotonic_seconds"),
        boot_id=field(str, found, "boot_id"),
        priority=optional(int, found, "priority"),
        message=field(str, found, "message"),
        device=optional(str, found, "device"),
        subsystem=optional(str, found, "subsystem"),
    )
