"""Formats numbers for users, with the unit from the metric's name."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_STEP = 1024.0
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
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


def size(size_bytes: float) -> str:
    """Return a number of bytes in the largest unit that leaves at least 1."""
    value, unit = size_bytes, 0
    while abs(value) >= _STEP and unit < len(_UNITS) - 1:
        value /= _STEP
        unit += 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def duration(seconds: float) -> str:
    """Return a time in its two largest units."""
    if abs(seconds) < _MINUTE:
        return f"{seconds:.3g} s"
    whole = round(abs(seconds))
    sign = "-" if seconds < 0 else ""
    if whole < _HOUR:
        return f"{sign}{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{sign}{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{sign}{whole // _DAY} d {whole % _DAY // _HOUR} h"
