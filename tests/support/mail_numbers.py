"""Numbers in the texts of rules' unit tests, which promtool checks as well, as a mail has them.

Unit tests expect what Prometheus' functions make of a shipped rule: '592.6MiB', '4m 57s', '87.5%'.
Source: Prometheus, template/template.go: humanize1024, humanizeDuration, humanizePercentage.
"""

from __future__ import annotations

import re

from iowarden.collectors.quantity import duration, percentage, size

_PREFIXES = ("", "ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SIZES = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([kMGTPE]i|(?<=(?<![\w.])0))B(?![\w.])")
_DURATIONS = re.compile(
    r"(?<![\w./-])(?:(\d+)d )?(?:(\d+)h )?(?:(\d+)m )?(\d+(?:\.\d+)?)([mun]?s)(?![\w/-])"
)
_RATIOS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)%(?![\w%])")
_FACTORS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def as_mailed(text: str) -> str:
    """Return a text with its numbers as the service writes them."""
    text = _SIZES.sub(lambda m: size(float(m[1]) * 1024.0 ** _PREFIXES.index(m[2])), text)
    return _RATIOS.sub(lambda m: percentage(float(m[1]) / 100), _DURATIONS.sub(_duration, text))


def _duration(match: re.Match[str]) -> str:
    days, hours, minutes, seconds, unit = match.groups()
    whole = int(days or 0) * 86_400 + int(hours or 0) * 3600 + int(minutes or 0) * 60
    return duration(whole + float(seconds) * _FACTORS[unit])
