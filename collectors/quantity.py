"""Formats numbers for users: sizes, times, ratios. No other module does.

What users' rules format by Prometheus' functions is as there: rules/rulefile/humanize.py.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

_STEP = 1024.0
_PREFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_ALMOST_ONE = 0.9995
"""From it on a value is 1 in three digits."""
_MINUTE = 60
_HOUR = 3600
_DAY = 86_400
_YEAR_10000 = 253_402_300_800
"""As Unix time: later ones are no date in Python."""


def quantity(metric: str, value: float) -> str:
    """Return a value with its unit: '668.5 MiB', '5 min 40 s', '87 %', a date, the plain number."""
    if not math.isfinite(value):
        return _not_finite(value)
    if metric.endswith("_bytes_per_second"):
        return f"{size(value)}/s"
    if "_bytes" in metric:
        return size(value)
    if metric.endswith("_timestamp_seconds") and 0 <= value < _YEAR_10000:
        return timestamp(value)
    if "_seconds" in metric:
        return duration(value)
    if metric.endswith("_ratio"):
        return percentage(value)
    return f"{value:.10g}"


def _not_finite(value: float) -> str:
    return {math.inf: "for ever", -math.inf: "minus infinity"}.get(value, "not a number")


def timestamp(unix_seconds: float) -> str:
    """Return a Unix time from 1970 to 9999 as '2026-11-23 13:00 UTC'."""
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%Y-%m-%d %H:%M} UTC"


def percentage(ratio: float) -> str:
    """Return a ratio in per cent: '87 %', '99.7 %'; below one in two digits: '0.12 %'."""
    percent = ratio * 100
    return f"{_short(percent) if abs(percent) >= 1 else f'{percent:.2g}'} %"


def size(size_bytes: float) -> str:
    """Return a number of bytes in the largest unit that leaves at least 1: '593 MiB'."""
    return f"{binary_prefixed(size_bytes)}B"


def binary_prefixed(value: float) -> str:
    """Return a number and a binary prefix, for a unit that follows: '593 Mi', '512 '.

    With one decimal that is not 0 below 100, else without.
    """
    prefix = 0
    while abs(value) >= _STEP and prefix < len(_PREFIXES) - 1:
        value /= _STEP
        prefix += 1
    return f"{_short(value) if prefix else f'{value:.0f}'} {_PREFIXES[prefix]}"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= _THREE_DIGITS else f"{value:.1f}".removesuffix(".0")


_THREE_DIGITS = 100


def duration(seconds: float) -> str:
    """Return a time in its two largest units, without a second one that is 0.

    From a minute on what is smaller is cut off, not rounded.
    """
    if not math.isfinite(seconds):
        return _not_finite(seconds)
    if 0 < abs(seconds) < _ALMOST_ONE:
        factor, unit = (1e3, "ms") if abs(seconds) >= _ALMOST_ONE / 1e3 else (1e6, "µs")
        return f"{seconds * factor:.3g} {unit}"
    if abs(seconds) < _MINUTE:
        return f"{seconds:.3g} s"
    whole = int(abs(seconds))
    sign = "-" if seconds < 0 else ""
    for unit_seconds, unit, smaller_seconds, smaller in _LARGE_UNITS:
        if whole >= unit_seconds:
            rest = whole % unit_seconds // smaller_seconds
            return f"{sign}{whole // unit_seconds} {unit}" + f" {rest} {smaller}" * bool(rest)
    raise AssertionError(seconds)  # at least a minute


_LARGE_UNITS = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s"))


def lower_bound(seconds: float) -> str:
    """Return how long a wait has lasted at least; '' if one poll alone saw it."""
    return duration(seconds) if seconds >= 1.0 else ""


def is_command(line: str) -> bool:
    """Whether a line of advice contains a command: indented, set off by two spaces or quoted."""
    return line[:1].isspace() or _COMMAND.search(line) is not None


_COMMAND = re.compile(r"\S {2,}\S|`")
