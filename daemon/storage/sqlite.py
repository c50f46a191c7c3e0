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

from iowarden.daemon.storage import durable_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FAULTS = (sqlite3.Error, OSError)
MOST_COPIES = 2
"""As it was before the last versions."""
MOST_TEXTS = 20
_COPY, _TEXT = ".before-v", ".json"
_TEXT_NAME = re.compile(r".+\.([a-z_]+)(?:\.v[0-9]+)?-([0-9]+T[0-9]+Z)\.json")
_LOCK_SECONDS = 0.5
"""How long another process may hold the file before we say so."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file is for. `version` is kept as SQLite's user_version; raise it with the tables."""

    name: str
    version: int
    tables: str
    from_version_before: tuple[str, ...]
    """Statements that convert the tables of the version before."""
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
        self.path = path
        self._kind = kind
        if not os.path.isdir(directory := os.path.dirname(path) or "."):
            os.mkdir(directory, 0o750)
        # SQLite would make it readable to all; it holds mails, names of disks and servers.
        if not os.path.exists(path):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)
        if kind.checked:  # one text that is none must not keep all others from being read
            self._connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        self._identity = _identity(path)
        self.version = kind.version
        """Of the tables in it."""
        self.empty = False
        """Whether nothing was in it."""
        self.instead_of = ""
        """The path of a file that could not be used, whose place it took."""

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

    def fits(self) -> bool:
        """Say whether a file of a later version can be used: whether all columns are there.

        Later versions only add columns that may be left out, and tables. So statements name theirs.
        """
        with contextlib.closing(sqlite3.connect(":memory:")) as wanted:
            wanted.executescript(self._kind.tables)
            return all(
                columns.keys() <= (there := _columns(self._connection, table)).keys()
                and not any(there[name] for name in there.keys() - columns.keys())
                for (table,) in wanted.execute("SELECT name FROM sqlite_master WHERE type='table'")
                for columns in [_columns(wanted, table)]
            )

    def copy(self, version: int, most_copies: int = MOST_COPIES) -> str:
        """Copy it, as it was before a version; return the copy's path. The oldest copies go.

        By SQLite: to close a descriptor of our own would give up the lock on the file.
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
        for old in sorted(there, key=lambda each: there[each])[:-most_copies]:
            os.remove(os.path.join(directory, old))
        durable_file.sync_directory(directory or ".")
        return path

    def in_place(self) -> bool:
        """Say whether the path still leads to this file. Errors: OSError other than its absence."""
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
        """Have what is written meanwhile written wholly or not at all.

        The first one converts a file of the version before.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if self.version < self._kind.version:
                for statement in self._kind.from_version_before:
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


def opened(path: str, kind: Kind) -> tuple[Database, str]:
    """Return the file at `path`, and '' or what was done with one that could not be used.

    A corrupt file is renamed, and an empty one takes its place; so is one of a later version, if
    its tables are no longer those that are known here. Errors: FAULTS.
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
            f"tables of version {version}, this iowarden knows {kind.version}; a newer iowarden"
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
    """Return a connection that only reads, beside the one that writes. Errors: FAULTS."""
    os.stat(path)  # SQLite says only that it cannot be opened
    address = f"file:{quote(os.path.abspath(path))}?mode=ro"
    return sqlite3.connect(address, uri=True, timeout=_LOCK_SECONDS, isolation_level=None)


def set_aside(path: str, kind: Kind, reason: str, what: str = "corrupt") -> tuple[str, str]:
    """Rename a file that cannot be used; return a sentence that says so, and its new path.

    Errors: OSError.
    """
    aside = f"{path}.{what}-{_stamp()}"
    # The rollback journal goes along: beside the new file it would be applied to it.
    for suffix in ("", "-journal"):
        if os.path.exists(path + suffix):
            os.rename(path + suffix, aside + suffix)
    return (
        f"{kind.name}: '{path}': expected the {kind.name} of iowarden, got '{reason}'; renamed to"
        f" '{aside}', starting with an empty file"
    ), aside


def write_text(path: str, name: str, text: str, most_files: int = MOST_TEXTS) -> str:
    """Keep a text beside a file: what of it could not be read; return its path.

    Of such texts the oldest go. Errors: OSError.
    """
    found = f"{path}.{name}-{_stamp()}{_TEXT}"
    draft = f"{found}.draft"
    durable_file.write(draft, encodable(text).encode())
    os.rename(draft, found)
    others = [each for each in texts(path) if each != found]  # whatever the clock says
    for old in others[: max(0, len(others) - most_files + 1)]:
        os.remove(old)
    durable_file.sync_directory(os.path.dirname(path) or ".")
    return found


def texts(path: str) -> list[str]:
    """Return the texts beside a file, the oldest first. Errors: OSError."""
    directory, name = os.path.split(path)
    there = sorted(
        (match[2], each)
        for each in os.listdir(directory or ".")
        if each.startswith(f"{name}.") and (match := _TEXT_NAME.fullmatch(each))
    )
    return [os.path.join(directory, each) for _, each in there]


def beside(path: str) -> str:
    """Return of what a text is: 'incidents' of 'state.db.incidents-20261122T080000Z.json'."""
    match = _TEXT_NAME.fullmatch(os.path.basename(path))
    return "" if match is None else match[1]


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _stamp() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, bool]:
    """Return a table's columns, and whether a row must bring a value of its own."""
    found = connection.execute('SELECT name, "notnull", dflt_value FROM pragma_table_info(?)',
                               (table,))  # fmt: skip
    return {name: bool(needed) and default is None for name, needed, default in found}


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
