"""state.db: what must survive a restart, documents and mails, written while alerts continue.

One thread owns the file; nothing waits for it. A batch is one transaction, so that a kill at any
moment leaves the state before or after a batch.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import threading
import time
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import trace
from iowarden.daemon.storage import notifications, sqlite
from iowarden.daemon.storage.notifications import Notification
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.daemon.storage.notifications import NotificationKey

RETRY_INTERVAL_SECONDS = 60.0
_LEDGER_HINT = (
    "who was notified of these incidents is not known, so they may be mailed again: report this as"
    " a bug, then remove this file: this resolves the alert StateUnreadable"
)
_ROWS_HINT = (
    "these mails are not sent, because iowarden cannot read their stored data: read what they"
    " report, report this as a bug, then remove this file: this resolves the alert StateUnreadable"
)

_SCHEMA = f"""
CREATE TABLE document (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE outbox (
    message_id TEXT PRIMARY KEY,
    incident TEXT NOT NULL,
    number INTEGER NOT NULL,
    severity INTEGER NOT NULL,
    created_realtime_seconds REAL NOT NULL,
    recipients_pending TEXT NOT NULL,
    data BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    last_error TEXT NOT NULL,
    maybe_taken INTEGER NOT NULL,
    parts TEXT NOT NULL,
    receiver TEXT NOT NULL,
    states TEXT NOT NULL
);
{notifications.SCHEMA.lstrip()}"""
# After a release, changed tables get a new version and conversions from the one before. That one
# reads and writes tables by their columns: only add columns with a default, and tables; what
# changes its meaning gets a new name.
# Exclusive: a second daemon on the same directory must not send every mail twice.
KIND = sqlite.DatabaseKind(
    "state",
    1,
    _SCHEMA,
    conversions=(),
    synchronous="FULL",
    exclusive=True,
    checked=True,
)
_COLUMNS = (
    "message_id, incident, number, severity, created_realtime_seconds, recipients_pending,"
    " data, attempts, last_error, maybe_taken, parts, receiver, states"
)
_ROWS = f"SELECT {_COLUMNS} FROM outbox ORDER BY created_realtime_seconds, number, message_id"  # noqa: S608 - ours
_PUT_ROW = f"INSERT OR REPLACE INTO outbox ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - ours
MAIL = "mail"
"""The receiver of mails; no other receiver has this name."""
LOCAL = "Maildir"
"""In place of a receiver: mails that were sent to no recipient; no receiver has this name."""
_VERSIONED = re.compile(r"(.+)\.v([1-9][0-9]{0,8})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A mail that has not reached all its recipients, or a message for another receiver.

    Fields: `data` is the whole message, always the same for a `message_id`; `recipients_pending`
    have not received it. `maybe_taken`: an attempt is in progress, or broke off when the server may
    already have accepted it. `parts` are the message ids in a digest; its `data` is empty and is
    built from theirs, and while its row exists they are not sent on their own. Units: Unix seconds.
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
    maybe_taken: bool = False
    parts: tuple[str, ...] = ()
    receiver: str = MAIL
    """The configured name of the receiver."""
    states: tuple[tuple[str, int], ...] = ()
    """The incidents that it reports, each with the number of its state; of a digest its parts'."""


def versioned(name: str, version: int) -> str:
    """Return the row of a document's version."""
    return name if version == 1 else f"{name}.v{version}"


def version_of(row: str) -> tuple[str, int]:
    """Return the document of a row, and its version."""
    found = _VERSIONED.fullmatch(row)
    return (row, 1) if found is None else (found[1], int(found[2]))


@dataclass(frozen=True, slots=True)
class StateChanges:
    """What changes together. `put`: name to JSON text; `add` also replaces a row of that id.

    `aside`: texts by name that are saved as files next to state.db, before anything else is done.
    """

    sequence: int
    put: Mapping[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    add: tuple[OutboxRow, ...] = ()
    remove: tuple[str, ...] = ()
    """Message ids."""
    notifications: tuple[Notification, ...] = ()
    forget: tuple[NotificationKey, ...] = ()
    aside: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateLoaded:
    """The content of the file, empty if not `readable`.

    In that case another one follows if the file can be read later.
    `error` is the reason why not, or names a file that was renamed, with all its content; then
    state.db starts empty. `is_lost`: iowarden ran here before, and nothing of that is in the file.
    """

    documents: Mapping[str, str]
    outbox: tuple[OutboxRow, ...]
    error: str = ""
    readable: bool = True
    is_lost: bool = False
    notifications: tuple[Notification, ...] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """All batches up to `sequence` are durable or, with an `error`, held in memory and retried."""

    sequence: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Noted:
    """An event of the file to be logged: it was renamed, copied, or not completely read."""

    text: str
    is_good: bool = False


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts with unreadable parts that are now next to the file."""

    paths: tuple[str, ...]


class StateDatabase:
    """The thread that owns state.db, and a copy in memory of its intended content.

    While a disk hangs or fails, changes wait in memory - the newest text of a document, every
    row of the outbox - and written in one transaction once that is possible. This is tried with
    each commit and every minute. By the monotonic clock: `working_since` is when the thread started
    a disk access that has not returned, `unwritten_since` since when something is not durable.
    """

    def __init__(
        self,
        path: str,
        post: Callable[[object], object],
        retry_seconds: float = RETRY_INTERVAL_SECONDS,
        versions: Mapping[str, int] | None = None,
    ) -> None:
        """Start the thread; it does nothing until a request. `post` takes its replies.

        `versions` of documents are those written now: before the first change of a file with
        earlier ones, or with earlier tables, it is copied.
        """
        self.working_since: float | None = None
        self.unwritten_since: float | None = None
        self._path = path
        self._post = post
        self._made_seconds = time.time()
        self._retry_seconds = retry_seconds
        self._changed = threading.Condition()
        self._wanted = False
        self._closing = False
        self._memory = _Pending()
        self._reported_trouble = False
        self._loaded = False
        self._ran_before = False
        """Whether iowarden wrote to this directory before this start."""
        self._versions = versions or {}
        self._texts: tuple[str, ...] = ()
        self._file: _StateFile | None = None
        self._thread = threading.Thread(target=self._run, name="state", daemon=True)
        self._thread.start()

    def load(self) -> None:
        """Request the content; the reply is a StateLoaded."""
        self.retry()

    def commit(self, batch: StateChanges) -> None:
        """Queue a batch for writing; the reply is a Committed of its or a later sequence."""
        with self._changed:
            self._memory.take(batch)
            if self.unwritten_since is None:
                self.unwritten_since = time.monotonic()
            self._wanted = True
            self._changed.notify()

    def retry(self) -> None:
        """Retry now what failed."""
        with self._changed:
            self._wanted = True
            self._changed.notify()

    def close(self, timeout_seconds: float) -> bool:
        """Let the thread write what waits, then end; return whether all is durable."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive() and not self._memory.dirty

    def _run(self) -> None:
        failed = False
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._wanted or self._closing, self._retry_seconds if failed else None
                )
                self._wanted, closing = False, self._closing
                self.working_since = started = time.monotonic()
            failed = bool(self._work())
            with self._changed:
                if failed:
                    self.unwritten_since = self.unwritten_since or started
                else:  # the rest was queued meanwhile
                    self.unwritten_since = started if self._memory.dirty else None
                self.working_since = None
            if closing:
                if self._file is not None:
                    self._file.close()
                return

    def _work(self) -> str:
        """Open the file if needed, write changes, post the outcome; return the error."""
        with self._changed:
            sequence, untold = self._memory.sequence, self._memory.unconfirmed
            self._memory.unconfirmed = False
        changes: dict[_Key, _Row | None] = {}
        error = ""
        try:
            file = self._opened()
            with self._changed:
                changes = self._memory.changes()
                asides = dict(self._memory.asides)
            self._save_texts(asides)
            if changes and file.is_older:
                self._copy(file)
            file.write(changes)
            self._scan_texts()
        except Exception as problem:  # noqa: BLE001 - a thread that ends would write nothing more
            with self._changed:
                self._memory.dirty |= changes.keys()  # unless they changed again
            error = self._trouble(problem)
            if not self._loaded and not self._reported_trouble:
                self._post(StateLoaded({}, (), error, readable=False))
        if untold or error or self._reported_trouble:
            self._post(Committed(sequence, error))
        self._reported_trouble = bool(error)
        return error

    def _save_texts(self, asides: Mapping[str, str]) -> None:
        """Save unreadable parts before they are overwritten."""
        for name, text in asides.items():
            found = sqlite.write_text(self._path, name, text)
            with self._changed:
                if self._memory.asides.get(name) == text:
                    del self._memory.asides[name]
            self._post(Noted(f"state: the unreadable part of '{name}' is saved as '{found}'"))

    def _scan_texts(self) -> None:
        """Post the list of texts, if one was added or removed."""
        with contextlib.suppress(OSError):  # an error here does not affect the written file
            texts = tuple(sqlite.texts(self._path))
            if texts != self._texts:
                self._texts = texts
                self._post(Texts(texts))

    def _copy(self, file: _StateFile) -> None:
        """Copy a file of an earlier version; a failure does not prevent writing."""
        version = KIND.version + sum(each - 1 for each in self._versions.values())
        file.is_older = False
        try:
            found = file.copy(version)
        except sqlite.FAULTS as problem:
            self._post(
                Noted(
                    f"state: '{self._path}': could not be copied before it is converted to"
                    f" version {version}: {problem}; converted without a copy: after a downgrade,"
                    " the older iowarden would not find its data"
                )
            )
        else:
            self._post(
                Noted(
                    f"state: '{self._path}' is converted to version {version}; a copy for a"
                    f" downgrade is '{found}'",
                    is_good=True,
                )
            )

    def _opened(self) -> _StateFile:
        """Return the open file, opened again if it was removed, with its content loaded."""
        if self._file is not None and self._file.in_place():
            return self._file
        if self._file is not None:
            self._file.close()
            self._file = None
        if not self._loaded:
            self._ran_before = self._ran_before or _ran_before(self._path, self._made_seconds)
        file, set_aside = open_file(self._path)
        try:
            content, bad = file.read()
        except BaseException:
            file.close()
            raise
        self._file = file
        if file.version > KIND.version:
            self._post(
                Noted(
                    f"state: '{self._path}' has tables of version {file.version}, from a newer"
                    f" iowarden; this one supports version {KIND.version} and uses that part"
                )
            )
        known = ((*version_of(name),) for name in content.documents)
        file.is_older = file.version < KIND.version or any(
            version < self._versions.get(name, 0) for name, version in known
        )
        with self._changed:
            self._memory.merge_file(content)
            self._memory.leave(bad)
        if not self._loaded:
            self._loaded = True
            if file.instead_of:
                content = salvaged(file.instead_of)
                set_aside += (
                    f"; recovered from it: {len(content.documents)} documents,"
                    f" {len(content.outbox)} undelivered mails"
                )
                with self._changed:
                    self._memory.salvage(content)
            is_lost = file.was_empty and not content.documents and self._ran_before
            self._post(replace(content, error=set_aside, is_lost=is_lost))
        elif set_aside:
            self._post(Noted(f"{set_aside} and writing the current state to it"))
        return file

    def _trouble(self, problem: Exception) -> str:
        """Return the error, after closing a file that may not be used further."""
        if self._file is not None and not sqlite.passing(problem):
            self._file.close()
            self._file = None
        if not isinstance(problem, sqlite.FAULTS):
            return f"state: bug: {trace(problem)}; state is in memory only and is lost at a restart"
        hint = (
            "another iowarden may have it open"
            if sqlite.locked(problem)
            else "repair the disk or the directory, or move the file away"
        )
        return (
            f"state: '{self._path}': mails and alerts cannot be stored: {problem};"
            " state is in memory only and is lost at a restart; will retry every minute;"
            f" {hint}"
        )


_Table = Literal["document", "outbox", "notifications"]
_Key = tuple[_Table, Any]
"""A table, and what its row is stored by: a name, a message id, or a NotificationKey."""
_Row = str | OutboxRow | Notification
_Unreadable = tuple[_Key, dict[str, object]]


class _Pending:
    """All rows of the file, and which of them are not in it yet."""

    def __init__(self) -> None:
        self.sequence = 0
        self.unconfirmed = False
        self.dirty: set[_Key] = set()
        self.asides: dict[str, str] = {}
        """Texts to be saved next to the file."""
        self._values: dict[_Key, _Row] = {}

    def take(self, batch: StateChanges) -> None:
        self.sequence = max(self.sequence, batch.sequence)
        self.unconfirmed = True
        for key, value in _keyed(batch.put, batch.add, batch.notifications).items():
            self._set(key, value)
        for name in batch.delete:
            self._set(("document", name), None)
        for message_id in batch.remove:
            self._set(("outbox", message_id), None)
        for notification_key in batch.forget:
            self._set(("notifications", notification_key), None)
        self.asides.update(batch.aside)

    def salvage(self, content: StateLoaded) -> None:
        """Take over the content of an unusable file; it is to be written."""
        for key, value in _content_of(content).items():
            if key not in self.dirty:
                self._set(key, value)

    def leave(self, unreadable: Iterable[_Unreadable]) -> None:
        """Save unreadable rows as text, and delete them."""
        for table, hint in (("outbox", _ROWS_HINT), ("notifications", _LEDGER_HINT)):
            rows = [row for (of, _), row in unreadable if of == table]
            if rows:
                what = {"document": table, "next step": hint, "content": rows}
                self.asides[table] = json.dumps(what, indent=1)
        # One without a key cannot be deleted by it: it stays, and is saved as text again.
        self.dirty.update(key for key, _ in unreadable if key[1] is not None)

    def _set(self, key: _Key, value: _Row | None) -> None:
        self.dirty.add(key)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def changes(self) -> dict[_Key, _Row | None]:
        """Return the rows to be written, None: to be deleted; count them as written."""
        changes = {key: self._values.get(key) for key in self.dirty}
        self.dirty.clear()
        return changes

    def merge_file(self, content: StateLoaded) -> None:
        """Take over a file's content unless something newer is known, which is to be written."""
        held = _content_of(content)
        self.dirty.update(key for key, value in self._values.items() if held.get(key) != value)
        for key, value in held.items():
            if key not in self.dirty:
                self._values[key] = value


def _content_of(content: StateLoaded) -> dict[_Key, _Row]:
    return _keyed(content.documents, content.outbox, content.notifications)


def _keyed(
    documents: Mapping[str, str],
    rows: Iterable[OutboxRow],
    states: Iterable[Notification],
) -> dict[_Key, _Row]:
    """Return the rows of all tables by their keys."""
    return {
        **{("document", name): text for name, text in documents.items()},
        **{("outbox", row.message_id): row for row in rows},
        **{("notifications", each.key): each for each in states},
    }


class _StateFile:
    """state.db while it is open. Errors: database.FAULTS."""

    def __init__(self, file: sqlite.Database) -> None:
        self._file = file
        self.instead_of = file.instead_of
        self.was_empty = file.empty
        self.in_place = file.in_place
        self.copy = file.copy
        self.close = file.close
        self.is_older = False
        """Whether something in it is of an earlier version, and it was not copied yet."""

    @property
    def version(self) -> int:
        """Return the version of its tables."""
        return self._file.version

    def read(self) -> tuple[StateLoaded, list[_Unreadable]]:
        """Return all documents, all rows by age, the ledger; and what cannot be read."""
        documents = dict(self._file.run("SELECT name, text FROM document"))
        rows: list[OutboxRow] = []
        ledger: list[Notification] = []
        unreadable: list[_Unreadable] = []
        for values in self._file.run(_ROWS):
            try:
                rows.append(_row(*values))
            except (ValueError, TypeError) as problem:
                name = values[0] if isinstance(values[0], str) else None
                unreadable.append((("outbox", name), _text_of(problem, _COLUMNS, values)))
        for values in self._file.run(notifications.SELECT):
            try:
                ledger.append(notifications.notification(*values))
            except (ValueError, TypeError) as problem:
                text = _text_of(problem, notifications.COLUMNS, values)
                unreadable.append((("notifications", values[:3]), text))
        return StateLoaded(documents, tuple(rows), notifications=tuple(ledger)), unreadable

    def write(self, changes: Mapping[_Key, _Row | None]) -> None:
        """Write everything or nothing."""
        if not changes:
            return
        run = self._file.run
        with self._file.transaction():
            for (table, key), value in changes.items():
                match value:
                    case str() as text:
                        values = (sqlite.encodable(key), sqlite.encodable(text))
                        run("INSERT OR REPLACE INTO document (name, text) VALUES (?, ?)", values)
                    case OutboxRow() as row:
                        run(_PUT_ROW, _values(row))
                    case Notification() as entry:
                        run(notifications.PUT, entry.columns)
                    case None if table == "notifications":
                        run(notifications.DELETE, key)
                    case None if table == "outbox":
                        # The name of an unreadable row need not be UTF-8.
                        own = (key.encode("utf-8", "surrogateescape"),)
                        run("DELETE FROM outbox WHERE message_id = CAST(? AS TEXT)", own)
                    case None:
                        run("DELETE FROM document WHERE name = ?", (sqlite.encodable(key),))


def open_file(path: str) -> tuple[_StateFile, str]:
    """Return the file at `path`, and '' or a message about an unusable file that was replaced.

    Errors: database.FAULTS.
    """
    file, set_aside = sqlite.opened(path, KIND)
    return _StateFile(file), set_aside


def _ran_before(path: str, started_seconds: float) -> bool:
    """Whether the directory has what an earlier run wrote, apart from `path`.

    What is younger than `started_seconds`, in Unix time, other threads of this run have written.
    """
    directory, name = os.path.split(path)
    others = (f"{name}.", "history.db", "flights")
    with contextlib.suppress(OSError), os.scandir(directory or ".") as entries:
        return any(
            entry.name.startswith(others) and entry.stat().st_mtime < started_seconds
            for entry in entries
        )
    return False


def salvaged(path: str) -> StateLoaded:
    """Return the content of an unusable file, as far as it can be read.

    A damaged document is detected when it is read; a mail is sent twice at worst. If the outbox is
    of a newer version, the meaning of documents may be as well: they are not used.
    """
    documents: dict[str, str] = {}
    rows: list[OutboxRow] = []
    ledger: list[Notification] = []
    with contextlib.suppress(*sqlite.FAULTS), contextlib.closing(sqlite.reading(path)) as file:
        version = file.execute("PRAGMA user_version").fetchone()[0]
        with contextlib.suppress(*sqlite.FAULTS):
            for values in file.execute(_ROWS):
                with contextlib.suppress(ValueError, TypeError):
                    rows.append(_row(*values))
        with contextlib.suppress(*sqlite.FAULTS):
            for values in file.execute(notifications.SELECT):
                with contextlib.suppress(ValueError, TypeError):
                    ledger.append(notifications.notification(*values))
        with contextlib.suppress(*sqlite.FAULTS):
            if version <= KIND.version:
                documents.update(file.execute("SELECT name, text FROM document"))
    return StateLoaded(documents, tuple(rows), notifications=tuple(ledger))


def _row(*values: Any) -> OutboxRow:  # noqa: ANN401 - as SQLite returns them
    """Return a row from its columns, in the order of the fields. Errors: ValueError, TypeError."""
    (message_id, incident, number, severity, created, pending, data, attempts, last_error,
     maybe_taken, parts, receiver, states) = values  # fmt: skip
    for name, value, cls in (
        ("receiver", receiver, str),
        ("message_id", message_id, str),
        ("incident", incident, str),
        ("number", number, int),
        ("created_realtime_seconds", created, int | float),
        ("data", data, bytes),
        ("attempts", attempts, int),
        ("last_error", last_error, str),
    ):
        if not isinstance(value, cls):
            raise TypeError(f"{name}: expected {cls}, got {value!r:.60}")
        if isinstance(value, str):
            value.encode()
    return OutboxRow(
        message_id,
        incident,
        number,
        Severity(severity),
        created,
        _list("recipients_pending", pending),
        data,
        attempts,
        last_error,
        bool(maybe_taken),
        _list("parts", parts),
        receiver,
        _states(states),
    )


def _list(name: str, text: str) -> tuple[str, ...]:
    """Return texts from JSON. Errors: ValueError, TypeError."""
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f"{name}: expected a list of texts, got {text!r:.60}")
    return tuple(found)


def _states(text: str) -> tuple[tuple[str, int], ...]:
    """Return incidents and the numbers of their states. Errors: ValueError, TypeError."""
    found = json.loads(text)
    for incident, state in found:
        if not isinstance(incident, str) or not isinstance(state, int):
            raise TypeError(f"states: expected names and numbers, got {text!r:.60}")
    return tuple((incident, state) for incident, state in found)


def _text_of(problem: Exception, columns: str, values: tuple[object, ...]) -> dict[str, object]:
    """Return an unreadable row as JSON can hold it."""
    named = dict(zip(columns.split(", "), map(_shown, values), strict=True))
    return {"reason": str(problem), **named}


def _shown(value: object) -> object:
    """Return a column's value as JSON can hold it: mails as readable text, if they are text."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _values(row: OutboxRow) -> tuple[object, ...]:
    return (
        row.message_id,
        sqlite.encodable(row.incident),
        row.number,
        int(row.severity),
        row.created_realtime_seconds,
        json.dumps(row.recipients_pending),
        row.data,
        row.attempts,
        sqlite.encodable(row.last_error),
        row.maybe_taken,
        json.dumps(row.parts),
        row.receiver,
        json.dumps(row.states),
    )
