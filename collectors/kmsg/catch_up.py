"""What the kernel told while nobody looked: the journal's lines after a cursor, ahead of the ring.

*Limits:* that the journal lacks some lines between the cursor and the ring shows only where it
lacks all of them, or tells so. Of records with one time stamp, at the oldest of a full ring, one
may be told twice, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify, finish
from iowarden.collectors.kmsg.kernel_journal import read_messages
from iowarden.collectors.kmsg.kernel_line import TEXT_CHARACTERS, from_message
from iowarden.collectors.kmsg.kernel_log import FIRST_SIGHT_SECONDS, log_gap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.collectors.event import Event
    from iowarden.collectors.kmsg.kernel_journal import Message
    from iowarden.collectors.kmsg.kernel_line import Line
    from iowarden.collectors.kmsg.kernel_log import Cursor
    from iowarden.collectors.machine import Root

_SEAM_SECONDS = 1.0
"""Each processor stamps by its own clock, so that neighbours may be out of order by a little."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of the journal: what comes after `cursor`, and is not in the ring."""

    cursor: Cursor | None
    boot_id: str
    first_seconds: float
    """The time stamp of the oldest record of the ring; what comes later is there."""
    seam: set[tuple[float, str]]
    """Records of the ring around that moment: time stamp and text."""
    missing: int
    """So many lines are known to be between the cursor and the ring."""

    def add(self, line: Line) -> None:
        """Take a record of the ring's first look: the journal may have it as well."""
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
            return True  # of a boot that was over by then
        if cursor.journal or cursor.realtime_seconds is None:
            return False  # it was left in that boot
        return message.realtime_seconds <= cursor.realtime_seconds

    def in_ring(self, message: Message) -> bool:
        """Whether a message is one of the ring's."""
        after = message.monotonic_seconds - self.first_seconds
        if message.boot_id != self.boot_id or after < -_SEAM_SECONDS:
            return False
        if after > (_SEAM_SECONDS if self.seam else 0.0):
            return True
        return (message.monotonic_seconds, _seam_text(message.message)) in self.seam


def missed(
    root: Root, wanted: Wanted, realtime: Callable[[], float]
) -> Iterator[tuple[list[Event], str]]:
    """Yield what the journal has of it: events, and where it was left with them.

    Errors: AbsentError, ReadError, ParseError.
    """
    state, first, cursor = Classifier(), True, wanted.cursor
    at, boot_id, told_total, ends = cursor.journal if cursor else "", "", 0, False
    while not ends:
        found = read_messages(root, at)
        told = [m for m in found.messages if not (wanted.is_known(m) or wanted.in_ring(m))]
        told_total += len(told)
        # Where its first message is known already, only such ones are deleted.
        gap = found.gap and not (first and found.messages and wanted.is_known(found.messages[0]))
        ends = not found.more or found.cursor == at
        if ends and wanted.missing and not told_total:
            gap = True
        if first and cursor and not cursor.journal:  # without a place in it, a day is told
            since = cursor.realtime_seconds
            gap = gap or since is None or since < realtime() - FIRST_SIGHT_SECONDS
        events: list[Event] = []
        if gap:
            text = f"the journal lost lines after {at or 'the last day'}"
            events.append(log_gap(text, boot_id, 0))
        for message in told:
            if message.boot_id != boot_id:
                events += finish(state)
                boot_id, state = message.boot_id, Classifier()
            state, more = classify(state, from_message(message))
            events += more
        if ends:
            events += finish(state)
        at, first = found.cursor, False
        yield events, at


def _seam_text(text: str) -> str:
    return text[:TEXT_CHARACTERS].strip()
