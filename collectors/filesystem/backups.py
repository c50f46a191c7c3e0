"""Watched directories: those of backups and archived logs that the configuration names.

Source: the probe's verb `newest`, see collectors/filesystem/newest.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Labels, Sample
from iowarden.collectors.source import Source, read_by_poller

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.filesystem.newest import Listing

PERIOD_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class WatchedDirectory:
    """A directory of 'watch_directories', and what is expected of it."""

    path: str
    glob: str = "*"
    interval_seconds: float | None = None
    """A new file is expected so often; None: learned."""
    critical_seconds: float | None = None
    """Age of the newest file that is critical; None: never."""
    retention_seconds: float | None = None
    """Promised age of the oldest file; None: nothing is promised."""

    @property
    def labels(self) -> Labels:
        """Labels of every series about it."""
        return (("directory", self.path), ("glob", self.glob))


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """A watched directory, and what was read of it."""

    watched: WatchedDirectory
    listing: Listing | None = None
    """None: it could not be read, or not yet."""
    at_seconds: float = 0.0
    """The program's clock when it was read."""
    reason: str = ""
    """Why it could not be read."""


FAMILIES = (
    Family("iowarden_backup_readable", "gauge", "1 when a watched directory can be read, else 0."),
    Family("iowarden_backup_files", "gauge", "Files in a watched directory that match its glob."),
    Family("iowarden_backup_bytes", "gauge", "Size of all these files together."),
)


def emit(value: tuple[DirectoryState, ...]) -> list[Sample]:
    """Return the samples of FAMILIES; none of a directory that was not read yet."""
    samples: list[Sample] = []
    for each in value:
        labels, listing = each.watched.labels, each.listing
        if listing is not None or each.reason:
            samples.append(("iowarden_backup_readable", labels, float(listing is not None)))
        if listing is not None:
            samples.append(("iowarden_backup_files", labels, listing.files))
            samples.append(("iowarden_backup_bytes", labels, listing.size_bytes))
    return samples


def unreadable(value: tuple[DirectoryState, ...]) -> Iterator[tuple[Labels, str]]:
    """Yield the directories without a listing, and why; '': not read yet."""
    for each in value:
        if each.listing is None:
            yield each.watched.labels, each.reason


SOURCE: Source[tuple[DirectoryState, ...]] = Source(
    name="backups",
    period_seconds=PERIOD_SECONDS,
    period_help="How often the directories of 'watch_directories' are read.",
    may_hang=True,
    read=read_by_poller,
    families=FAMILIES,
    emit=emit,
    unreadable=unreadable,
)
