"""Durations as Prometheus writes them, in the configuration and on the command line."""

from __future__ import annotations

import re

_UNIT_SECONDS = {
    "y": 365 * 86400.0,
    "w": 7 * 86400.0,
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 0.001,
}
_DURATION = re.compile(
    "".join(rf"(?:(?P<{unit}>[0-9]{{1,9}}){unit})?" for unit in _UNIT_SECONDS), re.ASCII
)


def duration_seconds(text: str) -> float:
    """Return the seconds of a duration such as '90s' or '1h30m'.

    Source: Prometheus, "Time durations": y w d h m s ms, each at most once and in this order.
    Errors: ValueError, whose text is a hint if there is one.
    """
    if match := _DURATION.fullmatch(text):
        parts = {unit: int(digits) for unit, digits in match.groupdict().items() if digits}
        if parts:
            return sum(count * _UNIT_SECONDS[unit] for unit, count in parts.items())
    if re.fullmatch(r"[0-9]+", text, re.ASCII):
        raise ValueError(f"a number needs its unit: {text}s for seconds")
    raise ValueError
