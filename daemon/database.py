"""SQLite files of the state directory: how they are opened, set aside when bad, and their faults.

Why no write-ahead log: SQLite cannot open such a file on a file system that is read-only, and a
kernel that met write errors makes it just that ('errors=remount-ro', ext4(5)). And its index is
mapped into memory, where a disk that fails is a SIGBUS, which ends the whole program.
Source: sqlite.org, 'PRAGMA journal_mode'; 'Write-Ahead Logging', read-only databases and the
WAL-index; mmap(2), SIGBUS.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FAULTS = (sqlite3.Error, OSError)
_LOCK_SECONDS = 0.5
"""How long another process may hold the file before we say so."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file is for. `version` is kept as SQLite's user_version; raise it with the tables."""

    name: str
    version: int
    tables: str
    synchronous: str
    """FULL: durable from the end of each transaction on; NORMAL may lose the last ones."""
    exclusive: bool
    """Whether no other process may have it open."""
    checked: bool
    """Whether all of it is read at the start to find what is corrupt; else use finds it."""


class Database:
    """An open file. Errors: FAULTS."""

    def __init__(self, path: str, kind: Kind) -> None:
        """Open it; it is made, empty, where there is none."""
        self._path = path
        self._kind = kind
        if not os.path.isdir(directory := os.path.dirname(path) or "."):
            os.mkdir(directory, 0o750)
        # SQLite would make it readable to all; it holds mails, names of disks and servers.
        if not os.path.exists(path):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)
        status = os.stat(path)
        self.identity = (status.st_dev, status.st_ino)
        self.version = kind.version
        """Of the tables in it."""
        self.empty = False
        """Whether nothing was in it."""

    def check(self) -> int:
        """Return the version of a sound file, 0 for an empty one."""
        if self._kind.exclusive:
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        if self._kind.checked:
            found = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                problem = sqlite3.DatabaseError(found)
                # A page that the disk did not give, this time, is no reason to give up all others.
                code = re.search(r"error code=(\d+)", found)
                problem.sqlite_errorcode = int(code[1]) if code else sqlite3.SQLITE_CORRUPT
                raise problem
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def prepare(self, version: int) -> None:
        """Make the tables of an empty file.

        A file of an earlier version is left to be converted with the first change: it may be
        read-only.
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
            self._connection.executescript("BEGIN EXCLUSIVE; COMMIT")  # held from now on
        except sqlite3.OperationalError as problem:
            if _code(problem) != sqlite3.SQLITE_READONLY:  # what can still be read is read
                raise

    def in_place(self) -> bool:
        """Say whether the path still leads to this file. Errors: OSError other than its absence."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self.identity

    def run(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run a statement."""
        return self._connection.execute(statement, values)

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        self._connection.executemany(statement, rows)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Have what is written meanwhile written wholly or not at all."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def opened(path: str, kind: Kind) -> tuple[Database, str]:
    """Return the file at `path`, and '' or what was done with one that could not be used.

    A corrupt file, or one of a later version, is renamed, and an empty one takes its place.
    Errors: FAULTS.
    """
    file = Database(path, kind)
    try:
        version = file.check()
        if version <= kind.version:
            file.prepare(version)
            return file, ""
        reason = f"schema version {version}, this iowarden knows {kind.version}"
    except BaseException as problem:
        file.close()
        if not corrupt(problem):
            raise
        reason = str(problem)
    file.close()
    text = set_aside(path, kind, reason)
    file = Database(path, kind)
    file.prepare(file.check())
    return file, text


def reading(path: str) -> sqlite3.Connection:
    """Return a connection that only reads, beside the one that writes. Errors: FAULTS."""
    os.stat(path)  # SQLite says only that it cannot be opened
    address = f"file:{quote(os.path.abspath(path))}?mode=ro"
    return sqlite3.connect(address, uri=True, timeout=_LOCK_SECONDS, isolation_level=None)


def set_aside(path: str, kind: Kind, reason: str) -> str:
    """Rename a file that cannot be used; return the sentence that says so. Errors: OSError."""
    aside = f"{path}.corrupt-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    # The rollback journal goes along: beside the new file it would be applied to it.
    for suffix in ("", "-journal"):
        if os.path.exists(path + suffix):
            os.rename(path + suffix, aside + suffix)
    return (
        f"{kind.name}: '{path}': expected the {kind.name} of iowarden, got '{reason}'; set aside as"
        f" '{aside}', starting afresh"
    )


def encodable(text: str) -> str:
    """Return text that UTF-8 can hold: a lone surrogate becomes JSON's escape of it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def corrupt(problem: BaseException) -> bool:
    """Say whether it is the file's content that is bad."""
    return _code(problem) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def locked(problem: BaseException) -> bool:
    """Say whether another process holds the file."""
    return _code(problem) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def passing(problem: BaseException) -> bool:
    """Say whether an open file stays usable after this; one opened read-only stays so for ever."""
    return _code(problem) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)


def _code(problem: BaseException) -> int | None:
    """Return the primary code. Source: sqlite.org, 'Result and Error Codes'."""
    code = getattr(problem, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
