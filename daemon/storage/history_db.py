"""history.db: samples of range-based rules, and drive values and storage events over the years.

One thread owns the file; nothing waits for it, and no alert needs it. What cannot be written is not
lost at once: the engine still has the samples and hands them over again; drive values wait here, up
to MAX_WAITING, and so do storage events, up to MAX_WAITING_EVENTS.
Limits: MAX_BYTES, then the oldest are deleted. A power loss may cost the last minutes, and on an
old file system the file: it is then renamed and replaced by an empty one.
Source: sqlite.org, 'PRAGMA synchronous'.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import threading
import time
from contextlib import closing
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import trace
from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.storage import chunks, event_rows, sqlite
from iowarden.rules.alerting.staleness import ObservationHistory
from iowarden.rules.promql.history import LONG_SECONDS, WHOLE_SECONDS, Row, Stored, packed, thin
from iowarden.rules.promql.store import MAX_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iowarden.daemon.control.documents import EventLine

RETRY_INTERVAL_SECONDS = 240.0
MAX_BYTES = 256_000_000
MAX_WAITING = 100_000
"""Limit of values that wait to be written: six polls of 500 drives."""
MAX_WAITING_EVENTS = 10_000
_DAY_SECONDS = 86_400
_CLEARED_RATIO = 0.9
"""Share of the allowed bytes that remains when the oldest data is deleted."""
_ROOM_RATIO = 4
"""Free space needed for a copy, as a multiple of its size: leave room for others."""
_ROOM_BYTES = 16_000_000
"""Part of the allowed bytes that stays free: for the data of one write, and SQLite's journal of it.
"""

_TABLES = """
CREATE TABLE run (
    run INTEGER PRIMARY KEY,
    until_seconds REAL NOT NULL,
    ahead_seconds REAL NOT NULL,
    watched TEXT NOT NULL
);
CREATE TABLE chunk (
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    last_seconds REAL NOT NULL,
    thinned INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX chunk_age ON chunk (name, run, thinned, last_seconds, samples);
CREATE TABLE drive (drive INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE);
CREATE TABLE attribute (attribute INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE daily (
    day INTEGER NOT NULL,
    drive INTEGER NOT NULL,
    attribute INTEGER NOT NULL,
    at_seconds INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (day, drive, attribute)
) WITHOUT ROWID;
CREATE TABLE changed (
    drive INTEGER NOT NULL,
    attribute INTEGER NOT NULL,
    at_seconds INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (drive, attribute, at_seconds)
) WITHOUT ROWID;
"""
# A run is a start of the program; its times are of the program's clock, which the wall clock was
# ahead of. In 'daily' the day comes first: rows that are overwritten often, and deleted first, are
# next to each other.
KIND = sqlite.DatabaseKind(
    "history",
    1,
    _TABLES + ";".join((*event_rows.TABLES, "")),
    conversions=(),
    synchronous="NORMAL",
    exclusive=False,
    checked=False,
)

_PUT_DAILY = (
    "INSERT OR REPLACE INTO daily (day, drive, attribute, at_seconds, value) VALUES (?, ?, ?, ?, ?)"
)
_PUT_CHANGED = (
    "INSERT OR REPLACE INTO changed (drive, attribute, at_seconds, value) VALUES (?, ?, ?, ?)"
)
_NUMBER = {
    "drive": (
        "INSERT OR IGNORE INTO drive (identity) VALUES (?)",
        "SELECT drive FROM drive WHERE identity = ?",
    ),
    "attribute": (
        "INSERT OR IGNORE INTO attribute (name) VALUES (?)",
        "SELECT attribute FROM attribute WHERE name = ?",
    ),
}


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """Samples to be stored, up to a time; `retention_seconds` by metric, '' for any other.

    Units: seconds of the program's clock; the wall clock is ahead of it by `ahead_seconds`.
    """

    rows: Sequence[Row] = field(repr=False)
    watched: ObservationHistory
    until_seconds: float
    ahead_seconds: float
    retention_seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SamplesLoaded:
    """Samples stored before this start, by the wall clock. `watched` None: unknown."""

    series: list[Stored] = field(default_factory=list, repr=False)
    watched: ObservationHistory | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """The request is written to the file or, with an `error`, is not.

    `until_seconds`: of the samples, if there were some. `set_aside`: a file was renamed because it
    could not be used. `recreated`: the file is a new one; the content of the old one is not in it.
    """

    until_seconds: float | None = None
    error: str = ""
    set_aside: str = ""
    recreated: bool = False


Value = tuple[str, str, float, bool]
"""Identity of a drive, name of an attribute, its value; whether every change is stored, or one a
day"""


@dataclass(slots=True)
class _Request:
    """A request to the thread."""

    load: Mapping[str, float] | None = None
    batch: SampleBatch | None = None
    notes: list[tuple[float, Sequence[Value]]] = field(default_factory=list)
    events: dict[str, EventLine] = field(default_factory=dict)
    """By key: the last one of a row that is reported again."""

    def __bool__(self) -> bool:
        return self.load is not None or self.writes

    @property
    def writes(self) -> bool:
        """Return whether there is something to be written."""
        return self.batch is not None or bool(self.notes) or bool(self.events)


class History:
    """The thread that owns history.db.

    `working_since` is when it started a disk access that has not returned, by the monotonic clock;
    `lost_total` counts values and events that were discarded because too many waited.
    """

    def __init__(
        self,
        path: str,
        post: Callable[[object], object],
        *,
        retry_seconds: float = RETRY_INTERVAL_SECONDS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Start the thread; it does nothing until a request. `post` takes its replies."""
        self.working_since: float | None = None
        self.lost_total = 0
        self._path = path
        self._post = post
        self._retry_seconds = retry_seconds
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._requested = _Request()
        self._closing = False
        self._loaded = False
        self._troubled = False
        self._retention: Mapping[str, float] = {}
        self._file: _HistoryFile | None = None
        self._known = False
        """Whether it was open once."""
        self._recreated = False
        self._number = secrets.randbits(62)
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def load(self, retention_seconds: Mapping[str, float]) -> None:
        """Request the stored samples of these metrics; the reply is a SamplesLoaded.

        If the file cannot be read, the reply is empty, and another one follows once it can be read.
        """
        with self._changed:
            self._retention = self._requested.load = retention_seconds
            self._changed.notify()

    def save(self, tail: SampleBatch) -> None:
        """Queue samples for writing; the reply is a Written. Not while it is `busy`."""
        with self._changed:
            self._requested.batch = tail
            self._changed.notify()

    def store_drives(self, realtime_seconds: float, values: Sequence[Value]) -> None:
        """Queue drive values of a Unix time for writing.

        Limits: NaN and infinity are not stored, nor values from before the clock was set.
        """
        if realtime_seconds < PLAUSIBLE_SECONDS:
            return
        with self._changed:
            waiting = self._requested.notes
            waiting.append((realtime_seconds, values))
            while sum(len(found) for _, found in waiting) > MAX_WAITING:
                self.lost_total += len(waiting.pop(0)[1])
            self._changed.notify()

    def store_events(self, rows: Sequence[EventLine]) -> None:
        """Queue storage events for writing; a row replaces the one with its key."""
        if not rows:
            return
        with self._changed:
            self._take_events({row.key: row for row in rows})
            self._changed.notify()

    def _take_events(self, rows: Mapping[str, EventLine]) -> None:
        waiting = self._requested.events
        for key, row in rows.items():
            waiting.pop(key, None)
            waiting[key] = row
        while len(waiting) > MAX_WAITING_EVENTS:
            del waiting[next(iter(waiting))]
            self.lost_total += 1

    def busy(self) -> bool:
        """Return whether a write of samples is in progress."""
        with self._changed:
            return self._requested.batch is not None or self.working_since is not None

    def close(self, timeout_seconds: float) -> bool:
        """Let the thread write what waits, then end; return whether it did."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive() and not self._requested

    def _run(self) -> None:
        failed = False
        while True:
            with self._changed:
                if failed:  # A failed write is retried, but not with each new value.
                    self._changed.wait_for(
                        lambda: self._closing or self._requested.batch, self._retry_seconds
                    )
                else:
                    self._changed.wait_for(lambda: self._closing or self._requested)
                asked, self._requested = self._requested, _Request()
                ends = self._closing
                self.working_since = time.monotonic()
            failed = not self._work(asked)
            with self._changed:
                if failed:
                    self._requested.notes[:0] = asked.notes
                    newer, self._requested.events = self._requested.events, asked.events
                    self._take_events(newer)
                self.working_since = None
            if ends:
                self._close()
                return

    def _work(self, request: _Request) -> bool:
        """Execute a request and post the outcome; return whether it succeeded."""
        said = error = ""
        self._recreated = False
        try:
            said = self._do(request)
        except Exception as problem:  # noqa: BLE001 - a thread that ends would store nothing more
            error = self._trouble(problem)
            if not self._loaded and request.load is not None:
                self._post(SamplesLoaded())
        if request.batch is not None or said or error or self._recreated or self._troubled:
            until = None if request.batch is None else request.batch.until_seconds
            self._post(Written(until, error, said, self._recreated))
        self._troubled = bool(error)
        return not error

    def _do(self, request: _Request) -> str:
        """Read and write; return a message about a file that could not be used."""
        said = self._open(create=request.writes)
        if self._file is None:  # There is no file yet; its disk may be mounted later.
            self._post(SamplesLoaded())
            return said
        try:
            copied = self._use(self._file, request)
        except sqlite.FAULTS as problem:
            if not sqlite.corrupt(problem):
                raise
            self._close()
            said, _ = sqlite.set_aside(self._path, KIND, str(problem))
            self._open(create=True)
            copied = self._use(self._file, request)
        return said or copied

    def _use(self, file: _HistoryFile, request: _Request) -> str:
        """Read and write; return a message about a copy."""
        copied = ""
        retention = self._retention or (request.batch and request.batch.retention_seconds)
        if not self._loaded and retention:
            loaded, damaged = file.read_samples(retention)
            self._loaded = True
            self._post(loaded)
            if damaged:
                self._post(Written(set_aside=f"history: '{self._path}': {damaged}"))
        if request.writes:
            copied = file.copy()
            file.write(self._number, request)
            file.clear(self._max_bytes)
        return copied

    def _open(self, *, create: bool) -> str:
        """Open the file, again if it was removed; return a message about it."""
        if self._file is not None and self._file.database.in_place():
            return ""
        self._close()
        if not create and not os.path.exists(self._path):
            return ""
        file, said = sqlite.opened(self._path, KIND)
        self._file = _HistoryFile(file)
        self._recreated = self._recreated or (file.empty and self._known)
        self._known = True
        return said

    def _close(self) -> None:
        if self._file is not None:
            self._file.database.close()
            self._file = None

    def _trouble(self, problem: Exception) -> str:
        """Return the error, after closing a file that may not be used further."""
        if not sqlite.passing(problem):
            self._close()
        if not isinstance(problem, sqlite.FAULTS):
            return f"history: bug: {trace(problem)}"
        return (
            f"history: '{self._path}': history cannot be written: {problem}; it is in memory only,"
            " which is lost at a restart; will retry every few minutes; repair the disk or the"
            " directory, or move the file away"
        )


class _HistoryFile:
    """history.db while it is open. Errors: database.FAULTS."""

    def __init__(self, file: sqlite.Database) -> None:
        self.database = file
        self._run = file.run
        self._drives: dict[str, int] = {}
        self._attributes: dict[str, int] = {}
        self._last: dict[tuple[int, int], float] = {}
        """Values of which every change is stored."""
        self._events = event_rows.EventRows(file)

    # --- samples

    def read_samples(self, retention: Mapping[str, float]) -> tuple[SamplesLoaded, str]:
        """Return the stored samples of these metrics, and '' or which of them are damaged.

        Limits: none of a start at which the clock was not set, because their age is unknown;
        MAX_SAMPLES, the newest.
        """
        runs = {
            run: (until + ahead, ahead, text)
            for run, until, ahead, text in self._run(
                "SELECT run, until_seconds, ahead_seconds, watched FROM run"
            )
            if until + ahead >= PLAUSIBLE_SECONDS
        }
        if not runs:
            return SamplesLoaded(), ""
        latest, ahead, text = max(runs.values())
        watched: ObservationHistory | None = _watched(text, ahead)
        found: list[tuple[str, bytes, float, bool]] = []
        count = 0
        query = (
            "SELECT run, name, last_seconds, thinned, samples, data FROM chunk ORDER BY rowid DESC"
        )
        for run, name, last, thinned, samples, data in self._run(query):
            kept = retention.get(name, retention.get("", 0.0))
            if run not in runs or kept <= 0 or last + runs[run][1] < latest - kept:
                continue
            count += samples
            if count > MAX_SAMPLES:
                break
            old = kept > LONG_SECONDS and last + runs[run][1] < latest - WHOLE_SECONDS
            found.append((name, data, runs[run][1], old and not thinned))
        damaged: list[str] = []
        series = packed(_unpacked(reversed(found), damaged))
        return SamplesLoaded(series, None if damaged else watched), "; ".join(damaged[:1])

    def copy(self) -> str:
        """Copy a file of an earlier version; return a message about it.

        With little free space it is converted without a copy: an earlier version only lacks what
        was added since, and no alert needs it.
        """
        if self.database.version >= KIND.version:
            return ""
        path, directory = self.database.path, os.path.dirname(self.database.path) or "."
        try:
            room = os.statvfs(directory)
            if room.f_bavail * room.f_frsize < _ROOM_RATIO * os.path.getsize(path):
                return (
                    f"history: '{path}' is converted without a backup: its file system is too full"
                )
            copied = self.database.copy(KIND.version)
        except sqlite.FAULTS as problem:
            return f"history: '{path}' is converted without a backup: '{problem}'"
        return f"history: '{path}' is converted; the previous version is '{copied}'"

    def write(self, run: int, request: _Request) -> None:
        """Write everything or nothing."""
        try:
            with self.database.transaction():
                if request.batch is not None:
                    self._write_samples(run, request.batch)
                for realtime, values in request.notes:
                    self._write_values(realtime, values)
                self._events.write(tuple(request.events.values()))
        except BaseException:
            for known in (self._drives, self._attributes, self._last):
                known.clear()  # the file has none of it
            self._events.forget()
            raise

    def _write_samples(self, run: int, tail: SampleBatch) -> None:
        until, ahead = tail.until_seconds, tail.ahead_seconds
        self._run(
            "INSERT OR REPLACE INTO run (run, until_seconds, ahead_seconds, watched)"
            " VALUES (?, ?, ?, ?)",
            (run, until, ahead, _watched_text(tail.watched)),
        )
        by_name: dict[str, list[Row]] = {}
        for row in tail.rows:
            by_name.setdefault(row[0], []).append(row)
        for name, rows in by_name.items():
            last = max(timestamps[-1] for _, _, timestamps, _ in rows)
            samples = chunks.size(rows)
            self._run(
                "INSERT INTO chunk (run, name, last_seconds, thinned, samples, data)"
                " VALUES (?, ?, ?, 0, ?, ?)",
                (run, name, last, samples, chunks.pack(rows)),
            )
        self._forget(until + ahead, tail.retention_seconds)
        self._run(
            "DELETE FROM run WHERE run <> ? AND run NOT IN (SELECT DISTINCT run FROM chunk)", (run,)
        )

    def _forget(self, now: float, retention: Mapping[str, float]) -> None:
        """Thin out old samples and delete those beyond their retention, like the engine does."""
        query = "SELECT DISTINCT name, run, ahead_seconds FROM chunk JOIN run USING (run)"
        for name, run, ahead in self._run(query).fetchall():
            kept = retention.get(name, retention.get("", 0.0))
            key = (name, run)
            self._run(
                "DELETE FROM chunk WHERE name = ? AND run = ? AND last_seconds < ?",
                (*key, now - ahead - kept if kept > 0 else math.inf),
            )
            if kept <= LONG_SECONDS:
                continue
            old = self._run(
                "SELECT rowid, data FROM chunk WHERE name = ? AND run = ? AND thinned = 0"
                " AND last_seconds < ? ORDER BY last_seconds LIMIT 100",
                (*key, now - ahead - WHOLE_SECONDS),
            )
            for row, data in old.fetchall():
                self._thin(row, name, data)
        (total,) = self._run("SELECT TOTAL(samples) FROM chunk").fetchone()
        while total > MAX_SAMPLES:
            row, samples = self._run(
                "SELECT rowid, samples FROM chunk ORDER BY rowid LIMIT 1"
            ).fetchone()
            self._run("DELETE FROM chunk WHERE rowid = ?", (row,))
            total -= samples

    def _thin(self, row: int, name: str, data: bytes) -> None:
        try:
            rows = chunks.unpack(name, data)
        except chunks.ChunkError:  # reported when it is read
            rows = []
        _thin(rows)
        samples = chunks.size(rows)
        self._run(
            "UPDATE chunk SET thinned = 1, samples = ?, data = ? WHERE rowid = ?",
            (samples, chunks.pack(rows) if rows else data, row),
        )

    # --- drive values

    def _write_values(self, realtime: float, values: Sequence[Value]) -> None:
        at, day = round(realtime), int(realtime // _DAY_SECONDS)
        daily: list[tuple[int, int, int, int, float]] = []
        changed: list[tuple[int, int, int, float]] = []
        for identity, name, value, every in values:
            if math.isnan(value):
                continue
            drive = self._number("drive", self._drives, identity)
            attribute = self._number("attribute", self._attributes, name)
            if not every:
                daily.append((day, drive, attribute, at, value))
            elif self._before(drive, attribute) != value:
                self._last[drive, attribute] = value
                changed.append((drive, attribute, at, value))
        self.database.run_many(_PUT_DAILY, daily)
        self.database.run_many(_PUT_CHANGED, changed)

    def _before(self, drive: int, attribute: int) -> float | None:
        """Return the newest stored value, or None."""
        key = (drive, attribute)
        if key not in self._last:
            found = self._run(
                "SELECT value FROM changed WHERE drive = ? AND attribute = ?"
                " ORDER BY at_seconds DESC LIMIT 1",
                key,
            ).fetchone()
            if found is None:
                return None
            self._last[key] = found[0]
        return self._last[key]

    def _number(self, table: str, known: dict[str, int], text: str) -> int:
        """Return the number of a drive or an attribute, a new one for a new name."""
        number = known.get(text)
        if number is None:
            insert, query = _NUMBER[table]
            own = (sqlite.encodable(text),)
            self._run(insert, own)
            known[text] = number = int(self._run(query, own).fetchone()[0])
        return number

    # --- limits

    def clear(self, max_bytes: int) -> None:
        """Delete the oldest data if the file is too large: first events beyond MIN_EVENTS.

        Then days, changes, and the remaining events.
        """
        most = max_bytes - _ROOM_BYTES
        if self._bytes() <= most:
            return
        left = most * _CLEARED_RATIO
        with self.database.transaction():
            while self._bytes() > left and self._clear_oldest():
                pass

    def _bytes(self) -> int:
        pages, free, size = (
            int(self._run(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def _clear_oldest(self) -> bool:
        if self._events.clear(event_rows.MIN_EVENTS):
            return True
        (day,) = self._run("SELECT MIN(day) FROM daily").fetchone()
        if day is not None:
            self._run("DELETE FROM daily WHERE day = ?", (day,))
            return True
        # A tenth of them, but never the newest one of a series: a change is relative to it.
        found = self._run(
            "SELECT at_seconds FROM changed ORDER BY at_seconds LIMIT 1"
            " OFFSET (SELECT COUNT(*) / 10 FROM changed)"
        ).fetchone()
        if found is None:
            return self._events.clear(0)
        deleted = self._run(
            "DELETE FROM changed WHERE at_seconds <= ? AND at_seconds <"
            " (SELECT MAX(later.at_seconds) FROM changed AS later"
            " WHERE later.drive = changed.drive AND later.attribute = changed.attribute)",
            found,
        )
        return deleted.rowcount > 0 or self._events.clear(0)


def _unpacked(
    found: Iterable[tuple[str, bytes, float, bool]], damaged: list[str]
) -> Iterator[list[Row]]:
    """Yield the rows of chunks one after the other: all at once would take twice the memory."""
    for name, data, ahead, long_ago in found:
        try:
            rows = chunks.moved(chunks.unpack(name, data), ahead)
        except chunks.ChunkError as problem:
            damaged.append(f"samples of '{name}' are damaged ({problem}) and skipped")
            continue
        if long_ago:
            _thin(rows)
        yield rows


def _thin(rows: Iterable[Row]) -> None:
    for _, _, timestamps, values in rows:
        thin(timestamps, values, 0, len(timestamps))


def identities(path: str) -> list[str]:
    """Return the drives with stored values. Errors: database.FAULTS."""
    with closing(sqlite.reading(path)) as connection:
        rows = connection.execute("SELECT identity FROM drive ORDER BY identity").fetchall()
    return [identity for (identity,) in rows]


def read(path: str, identity: str, name: str) -> list[tuple[float, float]]:
    """Return the stored values of a drive's attribute: Unix time and value, by time.

    Errors: database.FAULTS.
    """
    query = """
        WITH RECURSIVE
            wanted AS (
                SELECT drive, attribute FROM drive, attribute
                WHERE identity = ? AND name = ?
            ),
            past (day) AS (
                SELECT MIN(day) FROM daily
                UNION ALL
                SELECT day + 1 FROM past WHERE day < (SELECT MAX(day) FROM daily)
            )
        SELECT at_seconds, value FROM wanted CROSS JOIN changed USING (drive, attribute)
        UNION
        SELECT at_seconds, value FROM wanted CROSS JOIN past CROSS JOIN daily
            USING (day, drive, attribute)
        ORDER BY at_seconds
    """
    with closing(sqlite.reading(path)) as connection:
        names = (sqlite.encodable(identity), sqlite.encodable(name))
        rows = connection.execute(query, names).fetchall()
    return [(float(at), float(value)) for at, value in rows]


def _watched_text(watched: ObservationHistory) -> str:
    return json.dumps([dict(watched.since), watched.until_seconds, watched.breaks])


def _watched(text: str, ahead: float) -> ObservationHistory | None:
    """Return what was monitored, by the wall clock; None if that is damaged."""
    try:
        since, until, breaks = json.loads(text)
        return ObservationHistory(
            {str(name): float(at) + ahead for name, at in since.items()},
            until + ahead,
            tuple((float(start) + ahead, float(end) + ahead) for start, end in breaks),
        )
    except (ValueError, TypeError, AttributeError):
        return None
