"""Types of command-line arguments for argparse (durations, times, counts), and subcommands.

Errors: argparse.ArgumentTypeError, which states the expected form.
"""

from __future__ import annotations

import argparse
import time
from datetime import datetime

from iowarden.daemon.clock import local_zone
from iowarden.daemon.duration import duration_seconds


def subcommand(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, words: str
) -> argparse.ArgumentParser:
    """Add a parser whose own `--help` has the same sentence as that of its parent."""
    return actions.add_parser(name, help=words, description=words)


def duration(text: str) -> float:
    """Return the seconds of '90m' or '1d12h'."""
    try:
        return duration_seconds(text)
    except ValueError as error:
        hint = f"; {error}" if str(error) else ""
        raise argparse.ArgumentTypeError(
            f"expected a duration such as 90m or 1d12h, got '{text}'{hint}"
        ) from None


def time_to_come(text: str) -> float:
    """Return the Unix time of an ISO 8601 time in the future."""
    try:
        at = _iso_8601(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a time such as 2026-11-22T06:00, got '{text}'"
        ) from None
    if at <= time.time():
        raise argparse.ArgumentTypeError(f"expected a time in the future, got '{text}'")
    return at


def time_past(text: str) -> float:
    """Return the Unix time of '2d' (ago; '-2d' to journalctl), or of an ISO 8601 time."""
    try:
        return time.time() - duration_seconds(text.removeprefix("-"))
    except ValueError:
        pass
    try:
        return _iso_8601(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a duration ago such as 2d, or a time such as 2026-11-22T06:00, got '{text}'"
        ) from None


def count(text: str) -> int:
    """Return a number from 0 to 999999."""
    if not (text.isascii() and text.isdigit()) or len(text) > 6:
        raise argparse.ArgumentTypeError(f"expected a number up to 999999, got '{text}'")
    return int(text)


def _iso_8601(text: str) -> float:
    """Return the Unix time of ISO 8601, local time if it has no offset. Errors: ValueError."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=local_zone())).timestamp()
