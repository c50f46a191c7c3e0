"""state.db: what must survive a restart, documents and mails, written beside the alerts.

One thread owns the file; nobody waits for it. A batch is one transaction, so that a kill at any
moment leaves the state before or after a batch.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.vocabulary import trace
from iowarden.daemon import database
from iowarden.rules.notice import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SCHEMA_VERSION = 2
"""Raise it with the tables, and convert the version before."""
RETRY_SECONDS = 60.0

_SCHEMA = """
CREATE TABLE document (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE outbox (
    message_id TEXT PRIMARY KEY,
    incident TEXT NOT NULL,
    number INTEGER NOT NULL,
    severity INTEGER NOT NULL,
    created_realtime_seconds REAL NOT NULL,
    recipients_pending TEXT NOT NULL,
    recipients_refused TEXT NOT NULL,
    data BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    last_error TEXT NOT NULL,
    maybe_taken INTEGER NOT NULL,
    parts TEXT NOT NULL
);
"""
# Exclusive: a second daemon on the same directory must not send every mail twice.
_KIND = database.Kind(
    "state", SCHEMA_VERSION, _SCHEMA, synchronous="FULL", exclusive=True, checked=True
)
_FROM_VERSION_1 = (
    "ALTER TABLE outbox ADD COLUMN maybe_taken INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE outbox ADD COLUMN parts TEXT NOT NULL DEFAULT '[]'",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
"""Version 1 did not know whether a mail may have been taken: so it may."""
_ROWS_VERSION_1 = (
    "SELECT message_id, incident, number, severity, created_realtime_seconds, recipients_pending,"
    " data, attempts, last_error, recipients_refused, 1, '[]'"
    " FROM outbox ORDER BY created_realtime_seconds, number"
)
_ROWS = _ROWS_VERSION_1.replace("1, '[]'", "maybe_taken, parts")


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A mail that somebody has not got yet.

    Fields: `data` is the whole message, always the same for a `message_id`; `recipients_pending`
    are still to be served, `recipients_refused` were refused for good (5xx). `maybe_taken`: an
    attempt is under way, or broke off where the server may have taken it all the same. `parts` are
    the message ids of what a digest holds; its `data` is empty and follows from theirs, and as long
    as its row is there, they go in no other way. Units: Unix seconds.
    """

    message_id: str
    incident: str
    number: int
    severity: Severity
    created_realtime_seconds: float
    recipients_pending: tuple[str, ...]
    data: bytes = field(repr=False)
    attempts: int = 0
    last_error: str = ""
    recipients_refused: tuple[str, ...] = ()
    maybe_taken: bool = False
    parts: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether it is only kept: nobody is left to try, but somebody was refused."""
        return not self.recipients_pending


@dataclass(frozen=True, slots=True)
class Batch:
    """What changes together. `put`: name to JSON text; `add` also replaces a row of that id."""

    sequence: int
    put: Mapping[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    add: tuple[OutboxRow, ...] = ()
    remove: tuple[str, ...] = ()
    """Message ids."""


@dataclass(frozen=True, slots=True)
class StateLoaded:
    """What the file held. If it is not `readable`, nothing; it comes again if it can be read later.

    `error` says why not, or names a file that was set aside, with everything in it; then the start
    is afresh.
    """

    documents: Mapping[str, str]
    outbox: tuple[OutboxRow, ...]
    error: str = ""
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Committed:
    """All batches up to `sequence` are durable or, with an `error`, remembered and tried again."""

    sequence: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file that went bad in use was renamed, which `text` says; the next one holds all of it."""

    text: str


class State:
    """The thread that owns state.db, and in memory all that is or should be in it.

    While a disk hangs or refuses, what changed is remembered - of a document the newest text, of
    the outbox every row - and written in one transaction once it can be. It is tried with each
    commit and every minute. By the monotonic clock: `working_since` is when the thread turned to
    the disk and has not come back, `unwritten_since` since when something is not durable.
    """

    def __init__(
        self, path: str, post: Callable[[object], object], retry_seconds: float = RETRY_SECONDS
    ) -> None:
        """Start the thread; it touches nothing before it is asked. `post` takes its answers."""
        self.working_since: float | None = None
        self.unwritten_since: float | None = None
        self._path = path
        self._post = post
        self._retry_seconds = retry_seconds
        self._changed = threading.Condition()
        self._wanted = False
        self._closing = False
        self._memory = _Memory()
        self._told_trouble = False
        self._loaded = False
        self._file: _File | None = None
        self._thread = threading.Thread(target=self._run, name="state", daemon=True)
        self._thread.start()

    def load(self) -> None:
        """Ask for what is kept; the answer is a StateLoaded."""
        self.retry()

    def commit(self, batch: Batch) -> None:
        """Ask for a batch to be written; the answer is a Committed of its or a later sequence."""
        with self._changed:
            self._memory.take(batch)
            if self.unwritten_since is None:
                self.unwritten_since = time.monotonic()
            self._wanted = True
            self._changed.notify()

    def retry(self) -> None:
        """Try again now what failed."""
        with self._changed:
            self._wanted = True
            self._changed.notify()

    def close(self, timeout_seconds: float) -> bool:
        """Let the thread write what waits, then end; say whether all is durable."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive() and not self._memory.dirty

    def _run(self) -> None:
        failed = False
        while True:
            with self._changed:
                while not self._wanted and not self._closing:
                    if not self._changed.wait(self._retry_seconds if failed else None):
                        break
                self._wanted, closing = False, self._closing
                self.working_since = started = time.monotonic()
            error = self._work()
            failed = bool(error)
            with self._changed:
                if failed:
                    self.unwritten_since = self.unwritten_since or started
                else:  # what is left came meanwhile
                    self.unwritten_since = started if self._memory.dirty else None
                self.working_since = None
            if closing:
                if self._file is not None:
                    self._file.close()
                return

    def _work(self) -> str:
        """Open the file if need be, write what changed, post the outcome; return the error."""
        with self._changed:
            sequence, untold = self._memory.sequence, self._memory.untold
            self._memory.untold = False
        changes: list[_Change] = []
        error = ""
        try:
            file = self._opened()
            with self._changed:
                changes = self._memory.changes()
            file.write(changes)
        except Exception as problem:  # noqa: BLE001 - a thread that ends would keep nothing more
            with self._changed:
                self._memory.keep(changes)
            error = self._trouble(problem)
            if not self._loaded and not self._told_trouble:
                self._post(StateLoaded({}, (), error, readable=False))
        if untold or error or self._told_trouble:
            self._post(Committed(sequence, error))
        self._told_trouble = bool(error)
        return error

    def _opened(self) -> _File:
        """Return the file, opened (again, if somebody took it away), its content taken over."""
        if self._file is not None and self._file.in_place():
            return self._file
        if self._file is not None:
            self._file.close()
            self._file = None
        file, set_aside = open_file(self._path)
        try:
            documents, rows = file.read()
        except BaseException:
            file.close()
            raise
        self._file = file
        with self._changed:
            self._memory.learn(documents, rows)
        if not self._loaded:
            self._loaded = True
            lost = "; mails in it that were not delivered are not sent"
            self._post(StateLoaded(documents, rows, set_aside and set_aside + lost))
        elif set_aside:
            self._post(SetAside(f"{set_aside} with all that is known"))
        return file

    def _trouble(self, problem: Exception) -> str:
        """Return what is wrong, after giving up a file that may not be used further."""
        if self._file is not None and not database.passing(problem):
            self._file.close()
            self._file = None
        if not isinstance(problem, database.FAULTS):
            return f"state: bug: {trace(problem)}; working from memory, which a restart forgets"
        hint = (
            "another iowarden may hold it"
            if database.locked(problem)
            else "mend the disk or the directory, or move the file away"
        )
        return (
            f"state: '{self._path}': expected to keep mails and alerts there, got '{problem}';"
            " working from memory, which a restart forgets, and trying again every minute;"
            f" {hint}"
        )


@dataclass(frozen=True, slots=True)
class _Change:
    """A document or a row that differs from the file; `value` None: it goes."""

    name: str
    value: str | OutboxRow | None
    is_row: bool


class _Memory:
    """All documents and rows, and which of them the file does not know yet."""

    def __init__(self) -> None:
        self.sequence = 0
        self.untold = False
        self.dirty: set[tuple[bool, str]] = set()
        self._values: dict[tuple[bool, str], str | OutboxRow] = {}

    def take(self, batch: Batch) -> None:
        self.sequence = max(self.sequence, batch.sequence)
        self.untold = True
        for name, text in batch.put.items():
            self._set((False, name), text)
        for row in batch.add:
            self._set((True, row.message_id), row)
        for name in batch.delete:
            self._set((False, name), None)
        for message_id in batch.remove:
            self._set((True, message_id), None)

    def _set(self, key: tuple[bool, str], value: str | OutboxRow | None) -> None:
        self.dirty.add(key)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def changes(self) -> list[_Change]:
        """Return what is to be written, and count it as written."""
        found = [_Change(name, self._values.get((row, name)), row) for row, name in self.dirty]
        self.dirty.clear()
        return found

    def keep(self, changes: list[_Change]) -> None:
        """Take back what could not be written; meanwhile it may have changed again."""
        self.dirty.update((change.is_row, change.name) for change in changes)

    def learn(self, documents: Mapping[str, str], rows: tuple[OutboxRow, ...]) -> None:
        """Take over what a file holds where nothing newer is known; the rest is to be written."""
        held: dict[tuple[bool, str], str | OutboxRow] = {
            **{(False, name): text for name, text in documents.items()},
            **{(True, row.message_id): row for row in rows},
        }
        self.dirty.update(key for key, value in self._values.items() if held.get(key) != value)
        for key, value in held.items():
            if key not in self.dirty:
                self._values[key] = value


class _File:
    """state.db while it is open. Errors: database.FAULTS."""

    def __init__(self, file: database.Database) -> None:
        self._file = file
        self.in_place = file.in_place
        self.close = file.close

    def read(self) -> tuple[dict[str, str], tuple[OutboxRow, ...]]:
        """Return all documents and rows, the rows by age."""
        documents = dict(self._file.run("SELECT name, text FROM document"))
        rows = self._file.run(_ROWS_VERSION_1 if self._file.version == 1 else _ROWS)
        return documents, tuple(_row(values) for values in rows)

    def write(self, changes: list[_Change]) -> None:
        """Write all of it or nothing."""
        if not changes:
            return
        run = self._file.run
        with self._file.transaction():
            if self._file.version < SCHEMA_VERSION:
                for statement in _FROM_VERSION_1:
                    run(statement)
            for change in changes:
                match change.value:
                    case str() as text:
                        values = (database.encodable(change.name), database.encodable(text))
                        run("INSERT OR REPLACE INTO document VALUES (?, ?)", values)
                    case OutboxRow() as row:
                        run(
                            "INSERT OR REPLACE INTO outbox VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                            _values(row),
                        )
                    case None if change.is_row:
                        run("DELETE FROM outbox WHERE message_id = ?", (change.name,))
                    case None:
                        name = database.encodable(change.name)
                        run("DELETE FROM document WHERE name = ?", (name,))
        self._file.version = SCHEMA_VERSION


def open_file(path: str) -> tuple[_File, str]:
    """Return the file at `path`, and '' or what was done with one that could not be used.

    Errors: database.FAULTS.
    """
    file, set_aside = database.opened(path, _KIND)
    return _File(file), set_aside


def _row(values: tuple[Any, ...]) -> OutboxRow:
    """Return a row from its columns, in the order of the fields."""
    row = OutboxRow(*values)
    return replace(
        row,
        severity=Severity(row.severity),
        recipients_pending=tuple(json.loads(values[5])),
        recipients_refused=tuple(json.loads(values[9])),
        maybe_taken=bool(row.maybe_taken),
        parts=tuple(json.loads(values[11])),
    )


def _values(row: OutboxRow) -> tuple[object, ...]:
    return (
        row.message_id,
        database.encodable(row.incident),
        row.number,
        int(row.severity),
        row.created_realtime_seconds,
        json.dumps(row.recipients_pending),
        json.dumps(row.recipients_refused),
        row.data,
        row.attempts,
        database.encodable(row.last_error),
        row.maybe_taken,
        json.dumps(row.parts),
    )
