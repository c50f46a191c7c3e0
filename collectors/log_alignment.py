"""New entries of a log without sequence numbers: the listing now against the listing before. Pure.

Such a log is a ring: entries are added at its end, the oldest fall out. Equal entries of one second
are real, so an entry is told from another by its place, never by its text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Entry = tuple[float | None, str]
"""The log's own time, where it has one, and the line. Listings are oldest first."""

Known = tuple[tuple[float | None, str, int], ...]
"""A listing, each entry with its number among equal ones."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Up to where a log was read: kept where its events are. `serial` is its controller's."""

    listing: Known
    serial: str = ""


MOST_ENTRIES = 4096
"""So many of the newest are looked at: a longer log is taken for a ring of that size."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """What is new in a listing.

    Fields: `new` is how many of its last entries are; `known` is what to compare with next time;
    `gap` says why entries may have been missed, or be told a second time, '' where neither can be.
    """

    known: Known
    new: int = 0
    gap: str = ""


def align(before: Known | None, entries: Sequence[Entry], capacity: int | None = None) -> Aligned:
    """Return what is new in `entries` since `before`; None: the first sight, of which none is.

    `capacity` is the size of the ring, where it is known.
    Limits: nothing tells when a whole ring is filled anew with lines that equal the former ones,
    time included, nor when within one second a log is cleared and gets the same lines again.
    """
    listing = tuple(entries[-MOST_ENTRIES:])
    if before is None:
        return Aligned(_numbered((), (), listing))
    former = tuple((each[0], each[1]) for each in before)
    if listing == former:
        return Aligned(before)
    if former[: len(listing)] == listing and listing:
        gap = (
            f"its log has the first {len(listing)} of the {len(former)} entries it had: it was cut"
            " short, or filled anew with the same"
        )
        return Aligned(before, 0, gap)
    overlap, ambiguous = _overlap(former, listing)
    kept = before[len(before) - overlap :] if overlap else ()
    known = _numbered(before, kept, listing[overlap:])
    return Aligned(
        known, len(listing) - overlap, _gap(former, listing, overlap, capacity, ambiguous)
    )


def recalled(found: Any) -> Cursor:  # noqa: ANN401 - whatever was stored
    """Return what was stored as JSON, [listing, serial]. Errors: ValueError."""
    try:
        entries, serial = found
        listing = tuple(
            (None if moment is None else float(moment), str(text), int(number))
            for moment, text, number in entries
        )
    except (TypeError, ValueError, OverflowError) as error:
        message = f"expected [[[seconds, text, number] ...], serial], got {found!r:.80}"
        raise ValueError(message) from error
    return Cursor(listing, str(serial))


def _gap(
    former: tuple[Entry, ...],
    listing: tuple[Entry, ...],
    overlap: int,
    capacity: int | None,
    ambiguous: bool,  # noqa: FBT001 - what _overlap found
) -> str:
    full = capacity is None or len(listing) >= min(capacity, MOST_ENTRIES)
    if not listing:
        return f"its log of {len(former)} entries is empty: it was cleared, or is lost"
    if not overlap:
        if former:
            return "nothing its log had before is in it now: it was cleared, or written over"
        return "its log was empty, and may have been written over since" if full else ""
    if len(listing) < len(former):
        return f"its log has {len(listing)} entries and had {len(former)}: a part was cleared"
    if ambiguous and full:
        return "entries of its log equal each other, so how many are new is not sure"
    return ""


def _overlap(former: tuple[Entry, ...], listing: tuple[Entry, ...]) -> tuple[int, bool]:
    """Return how many entries of the listing's begin are the former's end, and if that is unsure.

    The longest such part is taken. It is unsure where a shorter one fits as well, and where all of
    it is of one moment: then others may have come in their place.
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


def _numbered(before: Known, kept: Known, new: Sequence[Entry]) -> Known:
    """Return the kept entries and the new, each of which is numbered behind its equals."""
    highest: Counter[Entry] = Counter()
    for moment, text, number in before:
        highest[moment, text] = max(highest[moment, text], number + 1)
    numbered = list(kept)
    for entry in new:
        numbered.append((*entry, highest[entry]))
        highest[entry] += 1
    return tuple(numbered)
