"""The entries of an ATA drive's error log: which of them are of the medium, which of the link.

Source: smartmontools, ataprint.cpp (PrintSmartErrorlog, PrintSmartExtErrorLog,
format_st_er_desc), in text and in JSON; ATA/ATAPI Command Set, error register: UNC, AMNF and IDNF
are sectors that could not be read or found, ICRC is a checksum of the link. An ABRT alone rejects a
command, as one that the drive does not support. Units: power-on hours; of the summary log they have
16 bits. Limits: the drive keeps the newest 5, or some dozens, of all errors that it counts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from iowarden.collectors.json_text import is_deep
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

_OCCURRED = lazy_pattern(
    r"Error \d{1,10}(?: \[\d{1,5}\])? occurred at disk power-on lifetime: (?P<hours>\d{1,10}) hours"
)
_DESCRIBED = lazy_pattern(
    r"\bError: (?P<words>[A-Z]{2,4}(?:, [A-Z]{2,4}){0,7})(?:(?: \d{1,10} sectors)? at LBA ="
    r" 0x[0-9a-f]{1,16} = (?P<sector>\d{1,20}))?"
)
_MEDIUM = frozenset({"UNC", "AMNF", "IDNF"})
_LINK = "ICRC"
_LIFETIME_HOURS = 1 << 16


class AtaError(NamedTuple):
    """An entry: its power-on hour, the names of the set bits, and the sector, None without one."""

    hours: int
    words: frozenset[str]
    sector: int | None

    @property
    def is_of_medium(self) -> bool:
        """Whether a sector could not be read or found; with ICRC the link is the reason."""
        return bool(self.words & _MEDIUM) and _LINK not in self.words

    @property
    def is_of_link(self) -> bool:
        """Whether the transfer had a wrong checksum."""
        return _LINK in self.words

    def age_hours(self, power_on_hours: int | None) -> int | None:
        """Return how many power-on hours ago it was, None if that is not known."""
        if power_on_hours is None:
            return None
        age = power_on_hours - self.hours
        return age if power_on_hours < _LIFETIME_HOURS else age % _LIFETIME_HOURS


def parse_ata_errors(text: str) -> tuple[AtaError, ...]:
    """Parse the entries of the error logs in one report; none is no error. Errors: none."""
    found = _of_json(text) if text.startswith("{") else _of_text(text)
    return tuple(dict.fromkeys(found))


def _of_text(text: str) -> Iterator[AtaError]:
    hours: int | None = None
    for line in text.split("\n"):
        if (occurred := _OCCURRED.search(line[:300])) is not None:
            hours = int(occurred["hours"])
        elif hours is not None and (described := _DESCRIBED.search(line[:300])) is not None:
            yield _error(hours, described["words"], described["sector"])
            hours = None


def _error(hours: int, words: str, sector: str | None) -> AtaError:
    return AtaError(hours, frozenset(words.split(", ")), None if sector is None else int(sector))


def _of_json(text: str) -> Iterator[AtaError]:
    try:
        document = {} if is_deep(text) else json.JSONDecoder(strict=False).raw_decode(text)[0]
    except ValueError:
        return
    log = document.get("ata_smart_error_log") if isinstance(document, dict) else None
    for part in log.values() if isinstance(log, dict) else ():
        table = part.get("table") if isinstance(part, dict) else None
        for row in table if isinstance(table, list) else ():
            if isinstance(row, dict):
                yield from _of_row(row)


def _of_row(row: dict[str, Any]) -> Iterator[AtaError]:
    hours, text = row.get("lifetime_hours"), row.get("error_description")
    if isinstance(hours, int) and not isinstance(hours, bool) and isinstance(text, str):
        described = _DESCRIBED.search(text[:300])
        if described is not None and 0 <= hours < 1 << 32:
            yield _error(hours, described["words"], described["sector"])
