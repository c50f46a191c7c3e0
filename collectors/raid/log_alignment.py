"""New entries of a log: the listing now against the listing before. Pure.

Such a log is a ring: entries are added at its end, the oldest fall out. Where they have no numbers
(`align`) equal entries of one second are real, so an entry is told from another by its place, never
by its text. Where they have (`align_numbered`) the numbers only grow, till they begin anew.
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


_NUMBERS = 2**32
"""Numbers of entries begin at 0 again behind that."""


def align_numbered(before: Known | None, entries: Known) -> Aligned:
    """Return what is new in a listing of entries that have numbers, oldest first.

    None: the first sight, of which none is. Numbers that go back, or stand at entries of another
    time than before, began anew: the log was cleared, or the controller was reset. Then all that
    was not listed before is new. A listing need not reach back to the last one: what is between
    them is missed, which is a gap.
    Limits: nothing tells when a log is cleared and its numbers pass those before by the next look,
    unless an entry is listed whose time tells.
    """
    listing = tuple(entries[-MOST_ENTRIES:])
    if before is None:
        return Aligned(listing)
    if not listing:
        gap = f"its log of {len(before)} entries is empty: it was cleared, or is lost"
        return Aligned((), 0, gap if before else "")
    if not before:
        gap = f"its log was empty, and begins with {listing[0][2]} now: some may be missing"
        return Aligned(listing, len(listing), gap if listing[0][2] else "")
    last, newest = before[-1][2], listing[-1][2]
    former = {number: moment for moment, _, number in before}
    known = [number in former and former[number] == moment for moment, _, number in listing]
    changed = any(
        None not in (moment, former.get(number)) and former[number] != moment
        for moment, _, number in listing
    )
    if not changed and newest != last and _ahead(newest, last):
        if known[-1]:
            gap = f"its newest entries, {newest + 1} to {last}, are not listed any more"
            return Aligned(before, 0, gap)
        changed = True
    if changed:
        gap = f"its numbers begin anew, {newest} after {last}: it was cleared, or reset"
        fresh = len(listing) - max((at + 1 for at, old in enumerate(known) if old), default=0)
        return Aligned(listing, fresh, gap)
    new = sum(_ahead(last, number) for *_, number in listing)
    gap = ""
    if new == len(listing) and listing[0][2] != (last + 1) % _NUMBERS:
        gap = (
            f"its entries after {last} are not listed, only those from {listing[0][2]} on: more"
            " came than it keeps or tells"
        )
    return Aligned(listing, new, gap)


def _ahead(one: int, other: int) -> bool:
    """Whether a number comes after another, though it may have begun at 0 again between them."""
    return 0 < (other - one) % _NUMBERS < _NUMBERS // 2


def recalled(found: Any) -> Cursor:  # noqa: ANN401 - whatever was stored
    """Return what was stored as JSON, [listing, serial]. Errors: ValueError."""
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
