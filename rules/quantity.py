"""Formats numbers for users, with the unit from the metric's name."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

_STEP = 1024.0
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TENTH = 0.1
_MINUTE = 60
_HOUR = 3600
_DAY = 86_400
_YEAR_10000 = 253_402_300_800
"""As Unix time: later ones are no date in Python."""


def quantity(metric: str, value: float) -> str:
    """Return a value with its unit: '668.5 MiB', '5 min 40 s', '87 %', a date, the plain number."""
    if not math.isfinite(value):
        return {math.inf: "for ever", -math.inf: "minus infinity"}.get(value, "not a number")
    if metric.endswith("_bytes_per_second"):
        return f"{size(value)}/s"
    if "_bytes" in metric:
        return size(value)
    if metric.endswith("_timestamp_seconds") and 0 <= value < _YEAR_10000:
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M} UTC"
    if "_seconds" in metric:
        return duration(value)
    if metric.endswith("_ratio"):
        return f"{value * 100:.3g} %"
    return f"{value:.10g}"


def size(size_bytes: float, digits: int | None = None) -> str:
    """Return a number of bytes in the largest unit that leaves at least 1.

    With one decimal, or rounded to so many digits.
    """
    value, unit = size_bytes, 0
    while abs(value) >= _STEP and unit < len(_UNITS) - 1:
        value /= _STEP
        unit += 1
    if unit == 0:
        return f"{value:.0f} B"
    if digits is None:
        return f"{value:.1f} {_UNITS[unit]}"
    whole = abs(value) >= 10**digits  # 1000 to 1023
    return f"{f'{value:.0f}' if whole else f'{value:.{digits}g}'} {_UNITS[unit]}"


def duration(seconds: float) -> str:
    """Return a time in its two largest units."""
    if 0 < abs(seconds) < _TENTH:
        factor, unit = (1e3, "ms") if abs(seconds) >= _TENTH / 1e3 else (1e6, "µs")
        return f"{seconds * factor:.3g} {unit}"
    if abs(seconds) < _MINUTE:
        return f"{seconds:.3g} s"
    whole = round(abs(seconds))
    sign = "-" if seconds < 0 else ""
    if whole < _HOUR:
        return f"{sign}{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{sign}{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{sign}{whole // _DAY} d {whole % _DAY // _HOUR} h"


_SIZES = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([kKMGTPE]i|(?<=(?<![\w.])0))B(/s)?(?![\w.])")
_DURATIONS = re.compile(
    r"(?<![\w./-])(?:(\d+)d )?(?:(\d+)h )?(?:(\d+)m )?(\d+(?:\.\d+)?)([mun]?s)(?![\w/-])"
)
_THREE_DIGITS = 100


def spelled(text: str) -> str:
    """Return text in which what Prometheus' templates made is spelled as elsewhere.

    '592.6MiB' becomes '593 MiB', '4m 57s' becomes '4 min 57 s'.
    Source: Prometheus, template/template.go: humanize1024, humanizeDuration.
    """
    return _DURATIONS.sub(_spelled_duration, _SIZES.sub(_spelled_size, text))


def _spelled_size(found: re.Match[str]) -> str:
    number = float(found[1])
    digits = f"{number:.0f}" if number >= _THREE_DIGITS else f"{number:.1f}".removesuffix(".0")
    return f"{digits} {found[2].capitalize()}B{found[3] or ''}"


def _spelled_duration(found: re.Match[str]) -> str:
    days, hours, minutes, seconds, unit = found.groups()
    if unit != "s":  # below a second: four digits, of which three are enough
        seconds, unit = f"{float(seconds):.3g}", unit.replace("u", "µ")
    parts = [
        f"{value} {name}"
        for value, name in ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, unit))
        if value is not None and value != "0"
    ][:2]
    return " ".join(parts) or f"0 {unit or 's'}"
