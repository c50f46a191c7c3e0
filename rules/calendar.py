"""Calendar expressions for schedules, as in systemd timers. Pure.

Source: systemd.time(7), "Calendar events", a subset of it: 'Sun 03:00', '02:30', '*-*-01 04:00',
'Sat *-*-1..7 01:00', 'daily'. 'systemd-analyze calendar EXPRESSION' prints the times.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORTHANDS = {
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
}
_MAX_CHARACTERS = 200
_HORIZON_DAYS = 366 * 9
"""The longest time without a 29 February is eight years."""
_LONGEST_MONTHS = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30}
_PART = re.compile(r"(\d{1,2})(?:\.\.(\d{1,2}))?(?:/(\d{1,2}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Calendar:
    """A parsed calendar expression; a moment matches when all its parts do.

    Fields: `weekdays` from 0, Monday; `minutes` are those of the day.
    """

    text: str
    weekdays: frozenset[int]
    months: frozenset[int]
    days: frozenset[int]
    minutes: tuple[int, ...]

    def on(self, day: date) -> bool:
        """Whether a day has matching moments."""
        return day.day in self.days and day.month in self.months and day.weekday() in self.weekdays

    def latest(self, now: float, zone: tzinfo) -> float | None:
        """Return the last moment that is not after `now`, both in Unix time.

        A time that the clock skips in spring is one hour later; of a time that occurs twice in
        autumn the first is used. Limits: None if the nine years before have none.
        """
        day = datetime.fromtimestamp(now, zone).date()
        for _ in range(_HORIZON_DAYS):
            if self.on(day):
                found = max((at for at in self._moments(day, zone) if at <= now), default=None)
                if found is not None:
                    return found
            day -= timedelta(days=1)
        return None

    def following(self, now: float, zone: tzinfo) -> float | None:
        """Return the first moment after `now`, as `latest`."""
        day = datetime.fromtimestamp(now, zone).date()
        for _ in range(_HORIZON_DAYS):
            if self.on(day):
                found = min((at for at in self._moments(day, zone) if at > now), default=None)
                if found is not None:
                    return found
            day += timedelta(days=1)
        return None

    def _moments(self, day: date, zone: tzinfo) -> Iterator[float]:
        for minute in self.minutes:
            hour, rest = divmod(minute, 60)
            yield datetime(day.year, day.month, day.day, hour, rest, tzinfo=zone).timestamp()


def parse(text: str) -> Calendar:
    """Return the parsed expression: weekdays, date, time, each of which is optional.

    Errors: ValueError, with what was expected and got.
    """
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"expected at most {_MAX_CHARACTERS} characters, got {len(text)}")
    words = _SHORTHANDS.get(text.strip().lower(), text).split()
    weekdays = frozenset(range(7))
    months, days = frozenset(range(1, 13)), frozenset(range(1, 32))
    minutes: tuple[int, ...] = (0,)
    rest = list(words)
    if rest and rest[0][0].isalpha():
        weekdays = _weekdays(rest.pop(0))
    if rest and "-" in rest[0]:
        months, days = _date(rest.pop(0))
    if rest and ":" in rest[0]:
        minutes = _time(rest.pop(0))
    if rest or not words:
        got = repr(rest[0]) if rest else "nothing"
        raise ValueError(
            f"expected '[WEEKDAYS] [*-MONTHS-DAYS] [HOURS:MINUTES]' in local time, such as"
            f" 'Sun 03:00', got {got}; see systemd.time(7)"
        )
    if not any(_LONGEST_MONTHS.get(month, 31) >= min(days) for month in months):
        raise ValueError(f"expected an existing date, got '{text}'")
    return Calendar(text, weekdays, months, days, minutes)


def _weekdays(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.rstrip(",").split(","):
        first, _, last = part.partition("..")
        low, high = _weekday(first), _weekday(last or first)
        if high < low:
            raise ValueError(f"expected weekdays in order from Monday to Sunday, got '{part}'")
        found.update(range(low, high + 1))
    return frozenset(found)


def _weekday(text: str) -> int:
    name = text.lower()
    for number, day in enumerate(_DAYS):
        if name in (day, day[:3]):
            return number
    raise ValueError(f"expected a weekday such as 'Sun' or 'Sunday', got '{text}'")


def _date(text: str) -> tuple[frozenset[int], frozenset[int]]:
    parts = text.split("-")
    if len(parts) == 3 and parts[0] != "*":
        raise ValueError(f"expected '*' for the year, got '{parts[0]}'")
    if not 2 <= len(parts) <= 3:
        raise ValueError(f"expected '*-MONTHS-DAYS', got '{text}'")
    months, days = parts[-2:]
    return frozenset(_numbers(months, 1, 12, "month")), frozenset(_numbers(days, 1, 31, "day"))


def _time(text: str) -> tuple[int, ...]:
    parts = text.split(":")
    if len(parts) == 3 and parts.pop() not in ("0", "00"):
        raise ValueError(f"expected no seconds but '00', got '{text}'")
    if len(parts) != 2:
        raise ValueError(f"expected 'HOURS:MINUTES', got '{text}'")
    hours, minutes = _numbers(parts[0], 0, 23, "hour"), _numbers(parts[1], 0, 59, "minute")
    return tuple(hour * 60 + minute for hour in hours for minute in minutes)


def _numbers(text: str, least: int, maximum: int, what: str) -> list[int]:
    if text == "*":
        return list(range(least, maximum + 1))
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(
                f"{what}: expected a number, '*', 'A..B', 'A/STEP' or a list of these, got '{part}'"
            )
        low, high, step = match.groups()
        last = int(high) if high else maximum if step else int(low)
        if not (least <= int(low) <= last <= maximum and (not step or int(step) > 0)):
            raise ValueError(f"{what}: expected {least} to {maximum}, got '{part}'")
        found.update(range(int(low), last + 1, int(step or 1)))
    return sorted(found)
