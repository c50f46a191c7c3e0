"""Named statistics of the ZFS module: the files of '/proc/spl/kstat/zfs' with a name a line.

Source: OpenZFS 2.3, module/os/linux/spl/spl-kstat.c: kstat_seq_show_headers,
kstat_seq_show_named. A header of seven numbers, of which the last is the time of the text, is
followed by the titles 'name type data'; types 0 and 7 are texts, and the others numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER = lazy_pattern(r"\d+ +\d+ +0x[0-9a-f]+ +\d+ +\d+ +\d+ +(\d{1,19})\nname +type +data *\n")


def parse_named(
    text: str, path: str, names: Iterable[str], required: Iterable[str]
) -> dict[str, int]:
    """Return the numbers with these names; one that is not `required` may be missing.

    Errors: ParseError (no header, a required name that is missing, no number).
    """
    header = _HEADER.match(text)
    if header is None:
        raise ParseError(
            f"'{path}': expected a line of seven numbers and 'name type data', got {text[:80]!r}"
        )
    numbers = {}
    for name in names:
        at = text.find(f"\n{name} ", header.end() - 1)
        if at < 0:
            continue
        line = text[at + 1 : text.find("\n", at + 1)]
        words = line.split()
        if len(words) != 3 or not words[2].isdecimal() or len(words[2]) > len(str(2**64)):
            raise ParseError(f"'{path}': expected '{name} <type> <number>', got {line[:80]!r}")
        numbers[name] = int(words[2])
    for name in required:
        if name not in numbers:
            raise ParseError(
                f"'{path}': expected a line '{name} <type> <number>', got none in"
                f" {len(text)} characters"
            )
    return numbers


def taken_nanoseconds(text: str, path: str) -> int:
    """Return the time of a text, by the clock of the module's other times. Errors: ParseError."""
    header = _HEADER.match(text)
    if header is None:
        raise ParseError(f"'{path}': expected a line of seven numbers, got {text[:80]!r}")
    return int(header[1])
