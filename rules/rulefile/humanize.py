"""Formats numbers and addresses for users, exactly as Prometheus's template functions do.

Source: Prometheus 3, 'Template reference', functions.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
from typing import TYPE_CHECKING

from iowarden.rules.promql.format import shortest

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGE = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("", "ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
_SMALL = ("", "m", "u", "n", "p", "f", "a", "z", "y")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NANOSECONDS_LIMIT = 2.0**63


def _four_digits(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else shortest(value)


def _scaled(value: float, prefixes: Sequence[str], factor: float) -> str:
    """Divide by the factor while the value is not below it."""
    index = 0
    while abs(value) >= factor and index < len(prefixes) - 1:
        value /= factor
        index += 1
    return _four_digits(value) + prefixes[index]


def _scaled_up(value: float) -> str:
    """Multiply by 1000 while the value is below 1."""
    index = 0
    while abs(value) < 1 and index < len(_SMALL) - 1:
        value *= 1000
        index += 1
    return _four_digits(value) + _SMALL[index]


def humanize(value: float) -> str:
    """Return a number with a metric prefix."""
    if value == 0 or not math.isfinite(value):
        return _four_digits(value)
    return _scaled(value, _LARGE, 1000) if abs(value) >= 1 else _scaled_up(value)


def humanize1024(value: float) -> str:
    """Return a number with a binary prefix."""
    if abs(value) <= 1 or not math.isfinite(value):
        return _four_digits(value)
    return _scaled(value, _BINARY, 1024)


def humanize_duration(value: float) -> str:
    """Return seconds as days, hours, minutes, seconds, or below one second with a metric prefix."""
    if not math.isfinite(value):
        return _four_digits(value)
    if value == 0:
        return f"{_four_digits(value)}s"
    if abs(value) < 1:
        return f"{_scaled_up(value)}s"
    sign, value = ("-" if value < 0 else ""), abs(value)
    minutes, seconds = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {seconds}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {seconds}s"
    if minutes:
        return f"{sign}{minutes}m {seconds}s"
    return f"{sign}{_four_digits(value)}s"


def humanize_percentage(value: float) -> str:
    """Return a ratio in per cent."""
    return f"{_four_digits(value * 100)}%"


def humanize_timestamp(value: float) -> str:
    """Return seconds since 1970 as UTC date and time.

    Errors: ValueError beyond 63 bits of nanoseconds.
    """
    if not math.isfinite(value):
        return _four_digits(value)
    if not -_NANOSECONDS_LIMIT <= value * 1e9 <= _NANOSECONDS_LIMIT:
        raise ValueError(f"{shortest(value)} cannot be represented as a nanoseconds timestamp")
    # Milliseconds are truncated towards zero, as in Prometheus.
    moment = _EPOCH + dt.timedelta(milliseconds=int(int(value * 1e9) / 1e6))
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def title(text: str) -> str:
    """Return the text with the first letter of each word in title case."""
    result = ""
    for character in text:
        before = result[-1:]
        inside = before == "_" or before.isalnum() or (before > "\x7f" and not before.isspace())
        changed = character if inside else character.title()
        result += changed if len(changed) == 1 else character
    return result


def upper(text: str) -> str:
    """Return the text in upper case, character by character."""
    return "".join(c.upper() if len(c.upper()) == 1 else c for c in text)


def lower(text: str) -> str:
    """Return the text in lower case, character by character."""
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _host_and_port(text: str) -> tuple[str, str] | None:
    """Split host:port or [host]:port, or return None for what is neither."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return None
    if host.startswith("["):
        if not host.endswith("]"):
            return None
        host = host[1:-1]
    elif ":" in host:
        return None
    return None if set(host + port) & set("[]") else (host, port)


def strip_port(text: str) -> str:
    """Return host:port without the port."""
    split = _host_and_port(text)
    return split[0] if split else text


def strip_domain(text: str) -> str:
    """Return a host's name, with or without port, without its domain; an address unchanged."""
    host, port = _host_and_port(text) or (text, "")
    try:
        if "%" not in host:
            ipaddress.ip_address(host)
            return text
    except ValueError:
        pass  # A name, not an address.
    host = host.partition(".")[0]
    if not port:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
