"""Formats numbers for users, with the unit from the metric's name."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

_STEP = 1024.0
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
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
    """Return a number of bytes in the largest unit that leaves at least 1.

    With one decimal that is not 0 below 100, else without.
    """
    value, unit = size_bytes, 0
    while abs(value) >= _STEP and unit < len(_UNITS) - 1:
        value /= _STEP
        unit += 1
    return f"{_short(value) if unit else f'{value:.0f}'} {_UNITS[unit]}"


def _short(value: float) -> str:
    value = _four_digits(value)
    return f"{value:.0f}" if abs(value) >= _THREE_DIGITS else f"{value:.1f}".removesuffix(".0")


def _four_digits(value: float) -> float:
    """Return a value as Prometheus' functions round it: not another one after a second rounding."""
    return float(f"{value:.4g}")


_THREE_DIGITS = 100


def duration(seconds: float) -> str:
    """Return a time in its two largest units, without a second one that is 0.

    From a minute on what is smaller is cut off, not rounded, as by Prometheus' humanizeDuration: a
    summary and a line of evidence show the same time.
    """
    if 0 < abs(seconds) < _ALMOST_ONE:
        factor, unit = (1e3, "ms") if abs(seconds) >= _ALMOST_ONE / 1e3 else (1e6, "µs")
        return f"{_four_digits(seconds * factor):.3g} {unit}"
    if abs(seconds) < _MINUTE:
        return f"{_four_digits(seconds):.3g} s"
    whole = int(abs(seconds))
    sign = "-" if seconds < 0 else ""
    for unit_seconds, unit, smaller_seconds, smaller in _LARGE_UNITS:
        if whole >= unit_seconds:
            rest = whole % unit_seconds // smaller_seconds
            return f"{sign}{whole // unit_seconds} {unit}" + f" {rest} {smaller}" * bool(rest)
    raise AssertionError(seconds)  # at least a minute


_LARGE_UNITS = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s"))


_SIZES = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([kKMGTPE]i|(?<=(?<![\w.])0))B(/s)?(?![\w.])")
_DURATIONS = re.compile(
    r"(?<![\w./-])(?:(\d+)d )?(?:(\d+)h )?(?:(\d+)m )?(\d+(?:\.\d+)?)([mun]?s)(?![\w/-])"
)


def spelled(text: str) -> str:
    """Return text in which what Prometheus' templates made is spelled as elsewhere.

    '592.6MiB' becomes '593 MiB', '4m 57s' becomes '4 min 57 s'.
    Source: Prometheus, template/template.go: humanize1024, humanizeDuration.
    """
    return _DURATIONS.sub(_spelled_duration, _SIZES.sub(_spelled_size, text))


def spelled_advice(text: str) -> str:
    """Return advice in which prose is spelled; a line with a command is what it is."""
    return "\n".join(each if is_command(each) else spelled(each) for each in text.split("\n"))


def is_command(line: str) -> bool:
    """Whether a line of advice contains a command: indented, set off by two spaces or quoted."""
    return line[:1].isspace() or _COMMAND.search(line) is not None


_COMMAND = re.compile(r"\S {2,}\S|`")


def _spelled_size(found: re.Match[str]) -> str:
    return f"{_short(float(found[1]))} {found[2].capitalize()}B{found[3] or ''}"


def _spelled_duration(found: re.Match[str]) -> str:
    days, hours, minutes, seconds, unit = found.groups()
    whole = int(days or 0) * _DAY + int(hours or 0) * _HOUR + int(minutes or 0) * _MINUTE
    return duration(whole + float(seconds) * _FACTORS[unit])


_FACTORS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
