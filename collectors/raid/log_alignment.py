"""Find the new entries of a log: compares the current listing with the last one. Pure.

Such a log is a ring buffer: entries are appended, the oldest are overwritten. Without entry numbers
(`align`) equal entries within one second are real, so entries are distinguished by position, never
by text. With numbers (`align_numbered`) the numbers only increase, until they restart.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

Entry = tuple[float | None, str]
"""The log's own time, if it has one, and the line. Listings are oldest first."""

NumberedEntries = tuple[tuple[float | None, str, int], ...]
"""A listing, each entry with its number among equal entries."""


@dataclass(frozen=True, slots=True)
class LogCursor:
    """Position up to which a log was read, stored with its events. `serial` is its controller's."""

    listing: NumberedEntries
    serial: str = ""


MAX_ENTRIES = 4096
"""Number of the newest entries that are compared: a longer log is treated as a ring of that size.
"""


@dataclass(frozen=True, slots=True)
class LogAlignment:
    """New entries of a listing.

    Fields: `new` is the number of new entries at its end; `known` is the listing for the next
    comparison; `gap` is why entries may have been lost or may be repeated, '' if neither is
    possible.
    """

    known: NumberedEntries
    new: int = 0
    gap: str = ""


def align(
    before: NumberedEntries | None, entries: Sequence[Entry], capacity: int | None = None
) -> LogAlignment:
    """Return the entries of `entries` that are new since `before`; None: first seen, none is new.

    `capacity` is the size of the ring, if known.
    Limits: it cannot be detected that a whole ring was refilled with lines equal to the former
    ones, including the time, nor that a log was cleared and got the same lines again within one
    second.
    """
    listing = tuple(entries[-MAX_ENTRIES:])
    if before is None:
        return LogAlignment(_numbered((), (), listing))
    former = tuple((each[0], each[1]) for each in before)
    if listing == former:
        return LogAlignment(before)
    if former[: len(listing)] == listing and listing:
        gap = (
            f"its log has the first {len(listing)} of the {len(former)} entries it had: it was"
            " truncated, or refilled with equal entries"
        )
        return LogAlignment(before, 0, gap)
    overlap, ambiguous = _overlap(former, listing)
    kept = before[len(before) - overlap :] if overlap else ()
    known = _numbered(before, kept, listing[overlap:])
    return LogAlignment(
        known, len(listing) - overlap, _gap(former, listing, overlap, capacity, ambiguous)
    )


_NUMBERS = 2**32
"""Entry numbers restart at 0 beyond it."""


def align_numbered(before: NumberedEntries | None, entries: NumberedEntries) -> LogAlignment:
    """Return the new entries of a listing of numbered entries, oldest first.

    None: first seen, none is new. Numbers that decrease, or that belong to entries of another time
    than before, have restarted: the log was cleared, or the controller was reset. Then all entries
    that were not listed before are new. A listing need not reach back to the last one: entries
    between them are lost, which is a gap.
    Limits: it cannot be detected that a log was cleared and its numbers passed the former ones
    before the next poll, unless an entry with a different time is listed.
    """
    listing = tuple(entries[-MAX_ENTRIES:])
    if before is None:
        return LogAlignment(listing)
    if not listing:
        gap = f"its log of {len(before)} entries is empty: it was cleared or lost"
        return LogAlignment((), 0, gap if before else "")
    if not before:
        gap = f"its log was empty, and now begins with {listing[0][2]}: entries may be missing"
        return LogAlignment(listing, len(listing), gap if listing[0][2] else "")
    last, newest = before[-1][2], listing[-1][2]
    former = {number: moment for moment, _, number in before}
    known = [number in former and former[number] == moment for moment, _, number in listing]
    changed = any(
        None not in (moment, former.get(number)) and former[number] != moment
        for moment, _, number in listing
    )
    if not changed and newest != last and _ahead(newest, last):
        if known[-1]:
            gap = f"its newest entries, {newest + 1} to {last}, are no longer listed"
            return LogAlignment(before, 0, gap)
        changed = True
    if changed:
        gap = f"its numbering restarted, {newest} after {last}: it was cleared, or reset"
        fresh = len(listing) - max((at + 1 for at, old in enumerate(known) if old), default=0)
        return LogAlignment(listing, fresh, gap)
    new = sum(_ahead(last, number) for *_, number in listing)
    gap = ""
    if new == len(listing) and listing[0][2] != (last + 1) % _NUMBERS:
        gap = (
            f"its entries after {last} are missing, the first listed one is {listing[0][2]}: more"
            " were added than the log holds or lists"
        )
    return LogAlignment(listing, new, gap)


def _ahead(one: int, other: int) -> bool:
    """Whether a number follows another one, even if numbering restarted at 0 between them."""
    return 0 < (other - one) % _NUMBERS < _NUMBERS // 2


def recalled(found: Any) -> LogCursor:  # noqa: ANN401 - any stored JSON
    """Restore what was stored as JSON, [listing, serial]. Errors: ValueError."""
    try:
        entries, serial = found
        listing = tuple(
            (None if moment is None else float(moment), str(text), int(number))
            for moment, text, number in entries
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"expected [[[seconds, text, number] ...], serial], got {found!r:.80}"
        ) from error
    return LogCursor(listing, str(serial))


def _gap(
    former: tuple[Entry, ...],
    listing: tuple[Entry, ...],
    overlap: int,
    capacity: int | None,
    ambiguous: bool,  # noqa: FBT001 - result of _overlap
) -> str:
    full = capacity is None or len(listing) >= min(capacity, MAX_ENTRIES)
    if not listing:
        return f"its log of {len(former)} entries is empty: it was cleared or lost"
    if not overlap:
        if former:
            return (
                "none of its former log entries is listed now: the log was cleared or overwritten"
            )
        return "its log was empty, and may have been overwritten since" if full else ""
    if len(listing) < len(former):
        return f"its log has {len(listing)} entries and had {len(former)}: a part was cleared"
    if ambiguous and full:
        return "entries of its log are equal to each other, so the number of new ones is uncertain"
    return ""


def _overlap(former: tuple[Entry, ...], listing: tuple[Entry, ...]) -> tuple[int, bool]:
    """Return the length of the overlap of two listings, and whether it is uncertain.

    The longest such part is used. It is uncertain if a shorter one fits as well, or if all of it is
    of one moment: then other entries may have replaced them.
    Source: the prefix function of Knuth, Morris and Pratt.
    """
    text: list[Entry | None] = [*listing, None, *former]
    borders = [0] * len(text)
    for at in range(1, len(text)):
        length = borders[at - 1]
        while length and text[at] != text[length]:
            length = borders[length - 1]
        borders[at] = length + 1 if text[at] == text[length] else 0
    overlap = borders[-1] if former else 0
    if not overlap:
        return 0, False
    one_moment = len({entry[0] for entry in listing[:overlap]}) == 1
    return overlap, one_moment or borders[overlap - 1] > 0


def _numbered(
    before: NumberedEntries, stored: NumberedEntries, new: Sequence[Entry]
) -> NumberedEntries:
    """Return the former and the new entries, each numbered among its equals."""
    highest: Counter[Entry] = Counter()
    for moment, text, number in before:
        highest[moment, text] = max(highest[moment, text], number + 1)
    numbered = list(stored)
    for entry in new:
        numbered.append((*entry, highest[entry]))
        highest[entry] += 1
    return tuple(numbered)
