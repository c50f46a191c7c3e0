"""Common helpers for outputs of RAID programs: lines, numbers, reasons for unreadable parts.

Pure. What is specific to one program is in its own parser.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError, without_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

_Row = TypeVar("_Row")
_Read = TypeVar("_Read")
_CONTROL = lazy_pattern(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[()][0-9A-Za-z])|[\x00-\x08\x0b-\x1f\x7f]")
_SIZE = lazy_pattern(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([KMGTP]?)B", re.IGNORECASE)
_POWERS = " KMGTP"
_MAX_REASONS = 5
_MAX_SHOWN = 120
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = lazy_pattern(
    r"\s*\w{3}\s+(\w{3})\s+(\d{1,2})\s+(?:(\d{4})\s+)?(\d{1,2}):(\d{2}):(\d{2})(?:\s+(\d{4}))?\s*",
    re.ASCII,
)
EMPTY_VALUES = frozenset({"", "-", "n/a", "not applicable", "not supported"})
"""Placeholders for an empty value."""


def plain(text: str) -> str:
    """Return an output without escape sequences and carriage returns."""
    return _CONTROL.sub("", re.sub(r"\r+\n?", "\n", text))


def printable(text: str) -> str:
    """Return a line that is safe to print: unprintable characters are escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def excerpt(text: str) -> str:
    """Return the beginning of a text, safe to print."""
    return printable(text[:_MAX_SHOWN])


def reason(command: str, expected: str, text: str) -> str:
    """Return the reason why a part of an output could not be read."""
    return f"'{command}': expected {expected}, got {' '.join(text.split())[-200:]!r}"


def refused(command: str, expected: str, text: str) -> ParseError:
    """Return the error for an output in an unexpected format."""
    return ParseError(reason(command, expected, text))


def readable(
    rows: Iterable[_Row], read: Callable[[_Row], _Read], read_errors: list[str] | None
) -> list[_Read]:
    """Return the parsed rows of a table; reasons for unreadable ones are added to `read_errors`.

    A bad row does not affect good ones. Errors: ParseError, if `read_errors` is None and a row
    cannot be read, and if there are rows and none can be read.
    """
    found: list[_Read] = []
    errors: list[ParseError] = []
    for row in rows:
        try:
            found.append(read(row))
        except ParseError as error:
            errors.append(without_frames(error))
    if errors and (read_errors is None or not found):
        raise without_frames(errors[0])
    if read_errors is not None:
        read_errors += summarize([str(error) for error in errors])
    return found


def summarize(reasons: Sequence[str]) -> list[str]:
    """Return the first of the reasons for unreadable parts, and the number of further ones."""
    more = len(reasons) - _MAX_REASONS
    return [*reasons[:_MAX_REASONS], *([f"{more} more rows cannot be read"] if more > 0 else [])]


def merged(command: str, heading: str, keys: Iterable[str], once: Container[str]) -> list[str]:
    """Return the reason if a block repeats a unique key: a heading within it could not be read."""
    seen = Counter(key for key in keys if key in once)
    return [
        f"'{command}': expected {heading} before each '{key}', got {count} below one"
        for key, count in seen.items()
        if count > 1
    ][:1]


def truncated_error(command: str, text: str) -> list[str]:
    """Return the reason if an output ends within a line, for programs without a final line."""
    if plain(text).endswith("\n"):
        return []
    return [
        (
            f"'{command}': expected it to end with a complete line, got its end within a line: it"
            " is truncated"
        )
    ]


def unlisted(command: str, what: str, counted: str, listed: int) -> list[str]:
    """Return the reason if a controller counts more than it lists: an answer may be truncated.

    A count that is no number is reported; '' and placeholders mean that it does not count.
    """
    digits = re.match(r"([0-9]{1,5})(?: of [0-9]{1,5})?\s*$", counted)
    if digits is None:
        told = counted.strip()
        if told.casefold() in EMPTY_VALUES:
            return []
        return [f"'{command}': expected a number of {what}, got '{printable(told[:80])}'"]
    if int(digits[1]) <= listed:
        return []
    return [f"'{command}': expected {int(digits[1])} {what}, got {listed}: the others are unknown"]


def slot_name(enclosure: str, slot: str) -> str:
    """Return 'enclosure 252 slot 3'; 'slot 3' without enclosure ('N/A'); '' without a slot."""
    if not re.fullmatch(r"[0-9]{1,5}", slot):
        return ""
    known = re.fullmatch(r"[0-9]{1,5}", enclosure)
    return (f"enclosure {int(enclosure)} " if known else "") + f"slot {int(slot)}"


def blocks(
    lines: Sequence[str], head: re.Pattern[str]
) -> Iterator[tuple[re.Match[str], Sequence[str]]]:
    """Yield each heading line with the lines below it, up to the next heading."""
    found = [(at, match) for at, line in enumerate(lines) if (match := head.fullmatch(line))]
    ends = [*(at for at, _ in found), len(lines)][1:]
    for (at, match), end in zip(found, ends, strict=False):
        yield match, lines[at + 1 : end]


def slug(text: str) -> str:
    """Return a text in a form that can be part of a name."""
    return re.sub(r"[^a-z0-9]+", "_", text.casefold()).strip("_")


def size_bytes(text: str, unit: int) -> int | None:
    """Parse '931.51 GB' as bytes, None if it is no size. `unit` is 1000 or 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    factor: int = unit ** _POWERS.index(found[2].upper() or " ")
    return round(float(found[1]) * factor)


def leading(pattern: re.Pattern[str], text: str) -> float | None:
    """Return the number that begins a text: the first group of a pattern; None without it."""
    found = pattern.match(text)
    return float(found[1]) if found else None


def ratio(percent: re.Match[str] | None) -> float | None:
    """Return the progress: the first group of a match is a percentage."""
    return min(float(percent[1]), 100.0) / 100.0 if percent else None


def clock_seconds(parts: Iterable[str | int]) -> float | None:
    """Return year, month, day, hour, minute, second as if they were UTC; None: no such time."""
    year, month, day, hour, minute, second = map(int, parts)
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def date_seconds(text: str) -> float | None:
    """Parse 'Fri Mar 21 2008 14:19:00', or 'Tue Jul  8 14:52:10 2008', as if it were UTC."""
    found = _DATE.fullmatch(text)
    year = found and (found[3] or found[7])
    if not found or not year or found[1].casefold() not in _MONTHS:
        return None
    month = _MONTHS.index(found[1].casefold()) + 1
    return clock_seconds((year, month, *found.group(2, 4, 5, 6)))


def number(text: str) -> float | None:
    """Parse a number of decimal digits, None if it is none."""
    return float(text) if re.fullmatch(r"-?[0-9]{1,12}(\.[0-9]{1,9})?", text) else None
