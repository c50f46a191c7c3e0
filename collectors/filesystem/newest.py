"""The newest and the oldest file of a directory that root has listed: backups, archived logs.

Source: readdir(3), stat(2): regular files directly in it, by st_mtime.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iowarden.collectors.model import ParseError
from iowarden.collectors.probe_reply import field, number

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

DEADLINE_SECONDS = 60.0
"""Deadline: a million uncached names take a disk minutes; then there is no answer."""


@dataclass(frozen=True, slots=True)
class File:
    """A regular file. Units: bytes; Unix time of its last change, which a program may set."""

    name: str
    size_bytes: int
    realtime_seconds: float


@dataclass(frozen=True, slots=True)
class Listing:
    """Content of a directory. `newest` and `oldest` are None without a file."""

    files: int
    newest: File | None
    oldest: File | None
    truncated: bool
    """The directory has more names than were read."""


def read_listing(root: Machine, path: str) -> Listing:
    """Query the files in a directory.

    Errors: AbsentError (no probe), ReadError (not listed for the probe, or missing), ParseError.
    """
    return from_json(root.query_probe("newest", path, deadline_seconds=DEADLINE_SECONDS))


def from_json(text: str) -> Listing:
    """Parse the probe's answer to 'newest'. Errors: ParseError."""
    try:
        found = json.loads(text)
        listing = Listing(
            files=field(int, found, "entries"),
            newest=_file(found["newest"]),
            oldest=_file(found["oldest"]),
            truncated=field(bool, found, "truncated"),
        )
        if (listing.files > 0, listing.files > 0) != (
            listing.newest is not None,
            listing.oldest is not None,
        ):
            raise ValueError("newest and oldest must be given exactly if there are files")
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ParseError(
            f"probe 'newest': expected files as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None
    return listing


def _file(found: Any) -> File | None:  # noqa: ANN401 - whatever the probe sent
    if found is None:
        return None
    return File(
        field(str, found, "name"), field(int, found, "bytes"), number(found, "realtime_seconds")
    )
