"""Storage events in history.db: what the kernel, controllers and arrays reported, for years.

A row is one event or, in a storm, several, with their count. The key is the event's own, so that an
event reported again after a kill is stored in the same row.
Units: Unix seconds. Limits: MAX_EVENTS and MAX_AGE_SECONDS, the oldest are deleted; texts are
cut.
"""

from __future__ import annotations

import math
import time
from contextlib import closing
from itertools import islice, starmap
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.control.documents import EventLine, EventQuery
from iowarden.daemon.storage import sqlite
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

OWN = "iowarden"
"""Source of iowarden's own messages; that of other events is the log that reported them."""
MAX_EVENTS = 200_000
MAX_AGE_SECONDS = 3 * 366 * 86_400.0
MIN_EVENTS = 20_000
"""When the file is too large, this many events stay as long as something else can be deleted."""
MAX_TEXT_CHARACTERS = 1000
MAX_NAME_CHARACTERS = 200
_PRUNED_AT_ONCE = 2000
"""Limit of events deleted with one write: more than a write adds in the long run."""
_SLACK = 1000
"""Excess over MAX_EVENTS above which the rows are counted."""
_MAX_COUNT = 2**63 - 1

TABLES = (
    """
CREATE TABLE event (
    key TEXT PRIMARY KEY,
    realtime_seconds REAL NOT NULL,
    source TEXT NOT NULL,
    kind TEXT NOT NULL,
    severity TEXT NOT NULL,
    device TEXT NOT NULL,
    disk TEXT NOT NULL,
    object TEXT NOT NULL,
    incident TEXT NOT NULL,
    text TEXT NOT NULL,
    count INTEGER NOT NULL
)""",
    "CREATE INDEX event_time ON event (realtime_seconds)",
    "CREATE INDEX event_incident ON event (incident, realtime_seconds)",
)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A filter for events: the requested fields; '' and None match anything.

    `query.disk` is a serial number or its beginning, a device or an object; if `devices` is given
    it is exactly one disk's, and they are its current names, for events that name no disk. An event
    with an unknown severity needs attention: it matches.
    """

    query: EventQuery
    devices: tuple[str, ...] | None = None

    def matches(self, event: EventLine) -> bool:
        """Return whether an event matches, wherever it is stored."""
        asked, at = self.query, event.at_seconds
        return (
            (asked.since_seconds is None or at >= asked.since_seconds)
            and (asked.until_seconds is None or at <= asked.until_seconds)
            and (not asked.source or event.source == asked.source)
            and event.incident.startswith(asked.incident)
            and event.severity not in below(asked.severity)
            and (not asked.disk or self._is_about(event))
        )

    def _is_about(self, event: EventLine) -> bool:
        disk = self.query.disk
        if self.devices is not None:
            return event.disk == disk or (not event.disk and event.device in self.devices)
        begins = event.disk.lower().startswith(disk.lower())
        return begins or disk in (event.device, event.object)


def below(severity: str) -> tuple[str, ...]:
    """Return the severities below a severity; none for ''."""
    if not severity:
        return ()
    return tuple(each.name.lower() for each in Severity if each < Severity[severity.upper()])


_COLUMNS = (
    "realtime_seconds, severity, text, object, incident, source, kind, device, disk, count, key"
)
"""In the order of the fields of EventLine."""
_INSERT = f"INSERT OR REPLACE INTO event ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - ours
_SELECT = f"SELECT {_COLUMNS} FROM event WHERE realtime_seconds BETWEEN ? AND ?"  # noqa: S608 - ours
_NEWEST = " ORDER BY realtime_seconds DESC, rowid DESC"
_OF_ANY = _SELECT + _NEWEST
_OF_INCIDENT = _SELECT + " AND incident >= ? AND incident < ?" + _NEWEST


class EventRows:
    """The table while its file is open. Errors: sqlite.FAULTS."""

    def __init__(self, file: sqlite.Database) -> None:
        self._run = file.run
        self._run_many = file.run_many
        self._max_rows: int | None = None
        """Upper bound of the number of rows; None: not counted yet."""

    def forget(self) -> None:
        """Count again: a transaction failed."""
        self._max_rows = None

    def write(self, rows: Sequence[EventLine]) -> None:
        """Write rows, and delete the oldest or excess ones, up to the limit of one write."""
        if not rows:
            return
        self._run_many(_INSERT, [_values(row) for row in rows])
        # By the earlier of the two clocks: a controller's wrong clock must not delete new events,
        # nor today's clock all events of an old recording.
        newest = max(_moment(row.at_seconds) for row in rows)
        self._run(
            "DELETE FROM event WHERE rowid IN (SELECT rowid FROM event WHERE realtime_seconds >= ?"
            " AND realtime_seconds < ? ORDER BY realtime_seconds LIMIT ?)",
            (PLAUSIBLE_SECONDS, min(newest, time.time()) - MAX_AGE_SECONDS, _PRUNED_AT_ONCE),
        )
        if self._max_rows is not None:
            self._max_rows += len(rows)
        if self._max_rows is None or self._max_rows > MAX_EVENTS + _SLACK:
            self._max_rows = self._count()
        if self._max_rows > MAX_EVENTS:
            self._max_rows -= self._delete(
                min(self._max_rows - MAX_EVENTS, _PRUNED_AT_ONCE + len(rows))
            )

    def clear(self, least: int) -> bool:
        """Delete the oldest tenth, but leave `least` rows; return whether there were more."""
        self._max_rows = self._count()
        count = min(max(self._max_rows // 10, 1), self._max_rows - least)
        if count <= 0:
            return False
        self._max_rows -= self._delete(count)
        return True

    def _count(self) -> int:
        return int(self._run("SELECT COUNT(*) FROM event").fetchone()[0])

    def _delete(self, count: int) -> int:
        return self._run(
            "DELETE FROM event WHERE rowid IN"
            " (SELECT rowid FROM event ORDER BY realtime_seconds LIMIT ?)",
            (count,),
        ).rowcount


def read(path: str, wanted: EventFilter) -> list[EventLine]:
    """Return the stored events that match, the newest last. Errors: sqlite.FAULTS."""
    asked = wanted.query
    values: list[object] = [
        -math.inf if asked.since_seconds is None else asked.since_seconds,
        math.inf if asked.until_seconds is None else asked.until_seconds,
    ]
    if asked.incident:  # by index
        values += [asked.incident, f"{asked.incident}\U0010ffff"]
    with closing(sqlite.reading(path)) as connection:
        rows = connection.execute(_OF_INCIDENT if asked.incident else _OF_ANY, values)
        found = (row for row in starmap(EventLine, rows) if wanted.matches(row))
        return list(islice(found, asked.last))[::-1]


def _values(row: EventLine) -> tuple[object, ...]:
    """Return the values of _COLUMNS."""
    names = (row.object, row.incident, row.source, row.kind, row.device, row.disk)
    return (
        _moment(row.at_seconds),
        sqlite.encodable(row.severity[:MAX_NAME_CHARACTERS]),
        sqlite.encodable(row.text[:MAX_TEXT_CHARACTERS]),
        *(sqlite.encodable(name[:MAX_NAME_CHARACTERS]) for name in names),
        min(max(row.count, 0), _MAX_COUNT),
        sqlite.encodable(row.key),
    )


def _moment(at: float) -> float:
    """Return a time that a table can hold: NaN and the like become long ago."""
    return at if math.isfinite(at) else 0.0
