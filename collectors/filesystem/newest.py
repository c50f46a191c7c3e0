"""The most recently changed files of a directory that root has listed: backups, archived logs.

Source: readdir(3), stat(2): regular files directly in it whose name matches a glob(7) pattern.
Times are of the file system: on NFS those of the server's clock.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import ParseError
from iowarden.collectors.probe_reply import field, number

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

DEADLINE_SECONDS = 60.0
"""Deadline: a million uncached names take a disk minutes; then there is no answer."""
MAX_LATEST = 128
"""The probe reports so many of the most recently changed files."""
CLOCK_TOLERANCE_SECONDS = 60.0
"""Clocks of a file server and of this machine differ; what is further ahead is in the future."""


@dataclass(frozen=True, slots=True)
class File:
    """A regular file. Units: bytes; Unix times.

    `changed_seconds` is st_ctime: the kernel sets it at each write, and also when the file is
    renamed or linked. `modified_seconds` is st_mtime, which a program may set to any value.
    """

    inode: int
    size_bytes: int
    changed_seconds: float
    modified_seconds: float


@dataclass(frozen=True, slots=True)
class Listing:
    """Content of a directory. Units: bytes; Unix times of the probe's clock, unless noted."""

    realtime_seconds: float
    """When it was read."""
    utc_offset_seconds: float
    """Local time minus UTC at that moment."""
    mount_point: str
    """Of the file system that the directory is on."""
    files: int
    size_bytes: int
    """Sum of the files' sizes."""
    oldest_seconds: float | None
    """Of the oldest st_mtime that is not in the future; None: no file."""
    latest: tuple[File, ...]
    """The most recently changed files, at most `MAX_LATEST`."""
    truncated: str
    """'', or the limit at which the probe stopped reading: then the rest is incomplete."""


def read_listing(root: Machine, path: str, glob: str) -> Listing:
    """Query the files in a directory.

    Errors: AbsentError (no probe), ReadError (not listed for the probe, missing, not mounted, no
    answer), ParseError.
    """
    return from_json(root.query_probe("newest", path, glob, deadline_seconds=DEADLINE_SECONDS))


def problem(listing: Listing) -> str:
    """Return '', or why the newest file is unknown.

    The latest files are those of the latest times: after a clock was set back, old ones hide the
    new ones in a directory of more files than are reported.
    """
    limit = listing.realtime_seconds + CLOCK_TOLERANCE_SECONDS
    if listing.files > MAX_LATEST and all(f.changed_seconds > limit for f in listing.latest):
        return (
            f"its latest {MAX_LATEST} files have times in the future: which files are new is"
            " unknown; check the clocks of this machine and of the file server"
        )
    return listing.truncated


def from_json(text: str) -> Listing:
    """Parse the probe's answer to 'newest'. Errors: ParseError."""
    try:
        found = json.loads(text)
        listing = Listing(
            realtime_seconds=number(found, "realtime_seconds"),
            utc_offset_seconds=number(found, "utc_offset_seconds"),
            mount_point=field(str, found, "mount_point"),
            files=field(int, found, "files"),
            size_bytes=field(int, found, "bytes"),
            oldest_seconds=None
            if found["oldest_seconds"] is None
            else number(found, "oldest_seconds"),
            latest=tuple(_file(each) for each in field(list, found, "latest")),
            truncated=field(str, found, "truncated"),
        )
        if len(listing.latest) != min(listing.files, MAX_LATEST):
            raise ValueError(f"'latest': expected {min(listing.files, MAX_LATEST)} files")
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ParseError(
            f"probe 'newest': expected files as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None
    return listing


def _file(found: Any) -> File:  # noqa: ANN401 - whatever the probe sent
    return File(
        field(int, found, "inode"),
        field(int, found, "bytes"),
        number(found, "changed_seconds"),
        number(found, "modified_seconds"),
    )
