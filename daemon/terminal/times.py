"""Times and durations as text, in the local time zone; for commands and the status page."""

from __future__ import annotations

from datetime import datetime

from iowarden.collectors.quantity import quantity
from iowarden.daemon.clock import local_zone


def since_text(at_seconds: float | None, now: float) -> str:
    """Return a time, and in parentheses how long ago it was."""
    if at_seconds is None:
        return "never"
    at, today = at_text(at_seconds), at_text(now)[: len("2026-11-21")]
    return f"{at.removeprefix(today).strip()} ({span(now - at_seconds)} ago)"


def span(seconds: float) -> str:
    """Return a duration as text; a negative one is 0."""
    return quantity("_seconds", max(seconds, 0.0))


def at_text(at_seconds: float) -> str:
    """Return a time as local date and time."""
    try:
        return f"{datetime.fromtimestamp(at_seconds, local_zone()):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return f"{at_seconds:.0f} s"
