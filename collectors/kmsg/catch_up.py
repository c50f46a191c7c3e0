"""Kernel messages of the time without iowarden: the journal between a cursor and the ring.

*Limits:* lines missing in the journal between the cursor and the ring are detected only if all are
missing, or if the journal reports it. Of records with the same time stamp, at the oldest of a full
ring, one may be reported twice, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify, finish
from iowarden.collectors.kmsg.kernel_journal import read_messages
from iowarden.collectors.kmsg.kernel_line import TEXT_CHARACTERS, from_message
from iowarden.collectors.kmsg.kernel_log import FIRST_SIGHT_SECONDS, log_gap
from iowarden.collectors.kmsg.kernel_pci import storage_addresses
from iowarden.collectors.kmsg.storage_drivers import host_drivers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.kmsg.kernel_journal import Message
    from iowarden.collectors.kmsg.kernel_line import KernelLine
    from iowarden.collectors.kmsg.kernel_log import KernelCursor
    from iowarden.collectors.machine import Machine

_SEAM_SECONDS = 1.0
"""Each processor stamps by its own clock, so neighbouring records may be slightly out of order."""


@dataclass(frozen=True, slots=True)
class JournalQuery:
    """The query to the journal: lines after `cursor` that are not in the ring."""

    cursor: KernelCursor | None
    boot_id: str
    first_seconds: float
    """The time stamp of the oldest record of the ring; later lines are in the ring."""
    seam: set[tuple[float, str]]
    """Records of the ring around that time stamp: time stamp and text."""
    missing: int
    """Number of lines that are known to be between the cursor and the ring."""

    def add(self, line: KernelLine) -> None:
        """Add a record from the first read of the ring: the journal may have it as well."""
        at = line.monotonic_seconds or 0.0
        if at <= self.first_seconds + 2 * _SEAM_SECONDS:
            self.seam.add((at, _seam_text(line.text)))

    def is_known(self, message: Message) -> bool:
        """Whether a message came before the cursor."""
        cursor = self.cursor
        if cursor is None:
            return False
        if message.boot_id == cursor.boot_id:
            return message.monotonic_seconds <= cursor.monotonic_seconds
        if cursor.boot_id == self.boot_id:
            return True  # of a boot that had ended by then
        if cursor.journal or cursor.realtime_seconds is None:
            return False  # the cursor was stored in that boot
        return message.realtime_seconds <= cursor.realtime_seconds

    def in_ring(self, message: Message) -> bool:
        """Whether a message is in the ring."""
        after = message.monotonic_seconds - self.first_seconds
        if message.boot_id != self.boot_id or after < -_SEAM_SECONDS:
            return False
        if after > (_SEAM_SECONDS if self.seam else 0.0):
            return True
        return (message.monotonic_seconds, _seam_text(message.message)) in self.seam


def read_backlog(
    root: Machine, wanted: JournalQuery, realtime: Callable[[], float]
) -> Iterator[tuple[list[StorageEvent], str]]:
    """Yield the events that the journal has, and the journal cursor after them.

    Errors: AbsentError, ReadError, ParseError.
    """
    initial = Classifier(host_drivers=host_drivers(root), storage_addresses=storage_addresses(root))
    state, first, cursor = initial, True, wanted.cursor
    at, boot_id, told_total, ends = cursor.journal if cursor else "", "", 0, False
    while not ends:
        found = read_messages(root, at)
        told = [m for m in found.messages if not (wanted.is_known(m) or wanted.in_ring(m))]
        told_total += len(told)
        # If its first message is known already, only known ones were deleted.
        gap = found.gap and not (first and found.messages and wanted.is_known(found.messages[0]))
        ends = not found.more or found.cursor == at
        if ends and wanted.missing and not told_total:
            gap = True
        if first and cursor and not cursor.journal:  # without a journal cursor, one day is read
            since = cursor.realtime_seconds
            gap = gap or since is None or since < realtime() - FIRST_SIGHT_SECONDS
        events: list[StorageEvent] = []
        if gap:
            text = f"the journal lost lines after {at or 'the last day'}"
            events.append(log_gap(text, boot_id, 0))
        for message in told:
            if message.boot_id != boot_id:
                events += finish(state)
                boot_id, state = message.boot_id, initial
            state, more = classify(state, from_message(message))
            events += more
        if ends:
            events += finish(state)
        at, first = found.cursor, False
        yield events, at


def _seam_text(text: str) -> str:
    return text[:TEXT_CHARACTERS].strip()
