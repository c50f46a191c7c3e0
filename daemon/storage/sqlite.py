"""SQLite files of the state directory: opening, replacing corrupt ones, and classifying errors.

There is no write-ahead log, because SQLite cannot open such a file on a read-only file system, and
a kernel that met write errors makes it read-only ('errors=remount-ro', ext4(5)). Moreover, its
index is mapped into memory, where a failing disk causes SIGBUS, which ends the whole program.
Source: sqlite.org, 'PRAGMA journal_mode'; 'Write-Ahead Logging', read-only databases and the
WAL-index; mmap(2), SIGBUS.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.storage import durable_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FAULTS = (sqlite3.Error, OSError)
MAX_COPIES = 2
"""Limit of copies from before conversions to newer versions."""
MAX_TEXTS = 20
_COPY, _TEXT = ".before-v", ".json"
_TEXT_NAME = re.compile(r".+\.([a-z_]+)(?:\.v[0-9]+)?-([0-9]+T[0-9]+Z)\.json")
_LOCK_SECONDS = 0.5
"""How long to wait for a file locked by another process, before that is reported."""


@dataclass(frozen=True, slots=True)
class DatabaseKind:
    """The purpose and tables of a file.

    `version` is stored as SQLite's user_version; raise it with the tables.
    """

    name: str
    version: int
    tables: str
    conversions: tuple[tuple[str, ...], ...]
    """Statements that convert the tables of version 1 to 2, of version 2 to 3 and so on."""
    synchronous: str
    """FULL: durable from the end of each transaction; NORMAL may lose the last ones."""
    exclusive: bool
    """Whether no other process may have it open."""
    checked: bool
    """Whether it is checked completely at the start; otherwise corruption is found in use."""


class Database:
    """An open file. Errors: FAULTS."""

    def __init__(self, path: str, kind: DatabaseKind) -> None:
        """Open it; an empty one is made if there is none."""
        self.path = path
        self._kind = kind
        if not os.path.isdir(directory := os.path.dirname(path) or "."):
            os.mkdir(directory, 0o750)
        # SQLite would make it readable to all; it holds mails, names of disks and servers.
        if not os.path.exists(path):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)
        if kind.checked:  # One text that is not UTF-8 must not prevent reading all others.
            self._connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        self._identity = _identity(path)
        self.version = kind.version
        """Version of its tables."""
        self.empty = False
        """Whether it was empty."""
        self.instead_of = ""
        """The path of an unusable file that it replaced."""

    def check(self) -> int:
        """Return the version of a sound file, 0 for an empty one."""
        if self._kind.exclusive:
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        if self._kind.checked:
            found = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                problem = sqlite3.DatabaseError(found)
                # A page that the disk did not return, this time, is no reason to discard all
                # others.
                code = re.search(r"error code=(\d+)", found)
                problem.sqlite_errorcode = int(code[1]) if code else sqlite3.SQLITE_CORRUPT
                raise problem
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def prepare(self, version: int) -> None:
        """Create the tables of an empty file.

        A file of an earlier version is converted with the first change: it may be read-only.
        """
        self.version = version or self._kind.version
        self.empty = version == 0
        if self.empty:
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {self._kind.tables}"
                f" PRAGMA user_version = {self._kind.version}; COMMIT;"
            )
        self._connection.execute("PRAGMA journal_mode = TRUNCATE").fetchall()
        self._connection.execute(f"PRAGMA synchronous = {self._kind.synchronous}")
        if not self._kind.exclusive:
            return
        try:
            self._connection.executescript("BEGIN EXCLUSIVE; COMMIT")  # locked from now on
        except sqlite3.OperationalError as problem:
            if _code(problem) != sqlite3.SQLITE_READONLY:  # what can still be read is used
                raise

    def fits(self) -> bool:
        """Return whether a file of a later version can be used: whether all columns exist.

        Later versions only add optional columns, and tables. So statements name their columns.
        """
        with contextlib.closing(sqlite3.connect(":memory:")) as wanted:
            wanted.executescript(self._kind.tables)
            return all(
                columns.keys() <= (there := _columns(self._connection, table)).keys()
                and not any(there[name] for name in there.keys() - columns.keys())
                for (table,) in wanted.execute("SELECT name FROM sqlite_master WHERE type='table'")
                for columns in [_columns(wanted, table)]
            )

    def copy(self, version: int, max_copies: int = MAX_COPIES) -> str:
        """Copy the file before a version changes it; return the copy's path.

        The oldest copies are deleted.
        By SQLite: closing a file descriptor of our own would release the lock on the file.
        Source: fcntl(2), 'Record locking'; sqlite.org, 'How To Corrupt', 2.2. Errors: FAULTS.
        """
        path = f"{self.path}{_COPY}{version}"
        draft = f"{path}.draft"
        with contextlib.suppress(FileNotFoundError):
            os.remove(draft)
        os.close(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        try:
            with contextlib.closing(sqlite3.connect(draft)) as copied:
                self._connection.backup(copied)
            os.rename(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(draft)
            raise
        directory, name = os.path.split(path.removesuffix(str(version)))
        there = {
            each: int(number)
            for each in os.listdir(directory or ".")
            if each.startswith(name) and (number := each.removeprefix(name)).isdecimal()
        }
        for old in sorted(there, key=lambda each: there[each])[:-max_copies]:
            os.remove(os.path.join(directory, old))
        durable_file.sync_directory(directory or ".")
        return path

    def in_place(self) -> bool:
        """Return whether the path still leads to this file. Errors: OSError except absence."""
        try:
            return _identity(self.path) == self._identity
        except FileNotFoundError:
            return False

    def run(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run a statement."""
        return self._connection.execute(statement, values)

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        self._connection.executemany(statement, rows)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything in the block, or nothing.

        The first transaction converts a file of an earlier version.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if self.version < self._kind.version:
                for statements in self._kind.conversions[self.version - 1 :]:
                    for statement in statements:
                        self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {self._kind.version}")
            yield
            self._connection.execute("COMMIT")
            self.version = max(self.version, self._kind.version)
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def opened(path: str, kind: DatabaseKind) -> tuple[Database, str]:
    """Return the file at `path`, and '' or a message about an unusable file that was replaced.

    A corrupt file is renamed and replaced by an empty one; so is one of a later version whose
    tables this version does not support. Errors: FAULTS.
    """
    file = Database(path, kind)
    aside = "corrupt"
    try:
        version = file.check()
        if version <= kind.version or file.fits():
            file.prepare(version)
            return file, ""
        aside = f"v{version}"
        reason = (
            f"tables of version {version}, this iowarden supports {kind.version}; a newer iowarden"
            f" reads the file when it is named '{os.path.basename(path)}' again"
        )
    except BaseException as problem:
        file.close()
        if not corrupt(problem):
            raise
        reason = str(problem)
    file.close()
    text, place = set_aside(path, kind, reason, aside)
    file = Database(path, kind)
    file.prepare(file.check())
    file.instead_of = place
    return file, text


def reading(path: str) -> sqlite3.Connection:
    """Return a read-only connection, in addition to the one that writes. Errors: FAULTS."""
    os.stat(path)  # SQLite reports only that it cannot be opened
    address = f"file:{quote(os.path.abspath(path))}?mode=ro"
    return sqlite3.connect(address, uri=True, timeout=_LOCK_SECONDS, isolation_level=None)


def set_aside(path: str, kind: DatabaseKind, reason: str, what: str = "corrupt") -> tuple[str, str]:
    """Rename an unusable file; return a message about it, and its new path.

    Errors: OSError.
    """
    aside = f"{path}.{what}-{_stamp()}"
    # Its rollback journal is renamed as well: otherwise SQLite would apply it to the new file.
    for suffix in ("", "-journal"):
        if os.path.exists(path + suffix):
            os.rename(path + suffix, aside + suffix)
    return (
        f"{kind.name}: '{path}': expected the {kind.name} of iowarden, got '{reason}'; renamed to"
        f" '{aside}', starting with an empty file"
    ), aside


def write_text(path: str, name: str, text: str, max_files: int = MAX_TEXTS) -> str:
    """Save the unreadable part of a file as text next to it; return its path.

    The oldest such texts are deleted. Errors: OSError.
    """
    found = f"{path}.{name}-{_stamp()}{_TEXT}"
    draft = f"{found}.draft"
    durable_file.write(draft, encodable(text).encode())
    os.rename(draft, found)
    others = [each for each in texts(path) if each != found]  # even if the clock was set back
    for old in others[: max(0, len(others) - max_files + 1)]:
        os.remove(old)
    durable_file.sync_directory(os.path.dirname(path) or ".")
    return found


def texts(path: str) -> list[str]:
    """Return the texts next to a file, the oldest first. Errors: OSError."""
    directory, name = os.path.split(path)
    there = sorted(
        (match[2], each)
        for each in os.listdir(directory or ".")
        if each.startswith(f"{name}.") and (match := _TEXT_NAME.fullmatch(each))
    )
    return [os.path.join(directory, each) for _, each in there]


def document_of_text(path: str) -> str:
    """Return the document of a text: 'incidents' of 'state.db.incidents-20261122T080000Z.json'."""
    match = _TEXT_NAME.fullmatch(os.path.basename(path))
    return "" if match is None else match[1]


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _stamp() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, bool]:
    """Return a table's columns, and whether a row must provide a value for each."""
    found = connection.execute('SELECT name, "notnull", dflt_value FROM pragma_table_info(?)',
                               (table,))  # fmt: skip
    return {name: bool(needed) and default is None for name, needed, default in found}


def encodable(text: str) -> str:
    """Return text that UTF-8 can encode: a lone surrogate becomes its JSON escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def corrupt(problem: BaseException) -> bool:
    """Return whether the file's content is corrupt."""
    return _code(problem) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def locked(problem: BaseException) -> bool:
    """Return whether another process has locked the file."""
    return _code(problem) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def passing(problem: BaseException) -> bool:
    """Return whether an open file stays usable after this; one opened read-only stays read-only."""
    return _code(problem) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)


def _code(problem: BaseException) -> int | None:
    """Return the primary code. Source: sqlite.org, 'Result and Error Codes'."""
    code = getattr(problem, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
