"""Saves kernel text that no parser understood, for a bug report (see also `redaction`).

Each text is a file '<source>-<n>.txt' with a header of lines '<name>: <value>', an empty line, and
the bytes as read. Limits: `TEXT_BYTES` per text, `MAX_FILES` per collector, `ALL_BYTES` in total;
the oldest are deleted. Per collector and run, only the first `MAX_FILES` kinds of error are saved.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from datetime import UTC, datetime
from queue import Full, Queue
from typing import TYPE_CHECKING

from iowarden.collectors.model import trace
from iowarden.daemon.storage import durable_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.model import Reading

DIRECTORY = "unparsed"
"""Directory, below the state directory."""
TEXT_BYTES = 65_536
MAX_FILES = 5
ALL_BYTES = 2 * 1024 * 1024
MAX_WAITING = 16
_NAME = re.compile(r"([a-z0-9_]+)-([0-9]{1,9})\.txt", re.ASCII)
_DRAFT = "draft"


class Unparsed:
    """The thread that writes the files; nothing waits for it, because the directory may hang.

    `post` gets the error of the directory, '' when it is resolved.
    """

    def __init__(
        self,
        directory: str,
        post: Callable[[str], object],
        version: str,
        kernel: str | None = None,
    ) -> None:
        """Start the thread; it does nothing until there is a text."""
        self._directory = directory
        self._post = post
        self._version = version
        self._kernel = os.uname().release if kernel is None else kernel
        self._kinds: dict[str, set[str]] = {}
        self._waiting: Queue[tuple[str, bytes]] = Queue(MAX_WAITING)
        threading.Thread(target=self._run, name="unparsed", daemon=True).start()

    def store(self, reading: Reading[object], realtime_seconds: float) -> None:
        """Save the text of an unparsed reading, once for each kind of error."""
        kinds = self._kinds.setdefault(reading.source, set())
        # Numbers change each second and make no new kind.
        kind = re.sub(r"\d+", "0", reading.error)
        if kind in kinds or len(kinds) >= MAX_FILES:
            return
        try:
            content = self._head(reading, realtime_seconds) + reading.text[:TEXT_BYTES]
            self._waiting.put_nowait((reading.source, content))
        except Full:
            self._post(
                f"unparsed: a write to '{self._directory}' hangs; the unparsed text of"
                f" {reading.source} will be saved when it occurs again"
            )
        else:
            kinds.add(kind)

    def _head(self, reading: Reading[object], realtime_seconds: float) -> bytes:
        bytes_total = len(reading.text)
        lines = (
            ("iowarden", self._version),
            ("kernel", self._kernel),
            ("time", f"{datetime.fromtimestamp(realtime_seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"),
            ("source", reading.source),
            ("path", reading.path),
            ("error", reading.error),
            ("bytes", f"{min(bytes_total, TEXT_BYTES)} of {bytes_total}"),
        )
        text = "".join(f"{name}: {' '.join(value.split())}\n" for name, value in lines)
        return text.encode(errors="backslashreplace") + b"\n"

    def _run(self) -> None:
        while True:
            source, content = self._waiting.get()
            try:
                _write(self._directory, source, content)
            except OSError as error:
                self._post(
                    f"unparsed: '{self._directory}': the unparsed text could not be saved:"
                    f" {error}; it is lost until the next start; check the directory"
                )
            except Exception as error:  # noqa: BLE001 - a thread that ends would save nothing more
                self._post(f"unparsed: bug: {trace(error)}")
            else:
                self._post("")


def _write(directory: str, source: str, content: bytes) -> None:
    """Write a file atomically, then delete the oldest beyond the limits."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    numbers = [number for own, number in _files(directory) if own == source]
    name = f"{source}-{max(numbers, default=0) + 1}.txt"
    draft = os.path.join(directory, _DRAFT)
    try:
        durable_file.write(draft, content)
        os.rename(draft, os.path.join(directory, name))
    except OSError:
        if os.path.lexists(draft):
            os.unlink(draft)
        raise
    _remove_oldest(directory)
    durable_file.sync_directory(directory)


def _remove_oldest(directory: str) -> None:
    found = {
        (source, number): os.stat(os.path.join(directory, f"{source}-{number}.txt"))
        for source, number in _files(directory)
    }
    bytes_total = sum(status.st_size for status in found.values())
    left = Counter(source for source, _ in found)
    for key in sorted(found, key=lambda key: (found[key].st_mtime, key[1])):
        if left[key[0]] > MAX_FILES or bytes_total > ALL_BYTES:
            os.unlink(os.path.join(directory, f"{key[0]}-{key[1]}.txt"))
            left[key[0]] -= 1
            bytes_total -= found[key].st_size


def _files(directory: str) -> list[tuple[str, int]]:
    found = [_NAME.fullmatch(name) for name in os.listdir(directory)]
    return sorted((match[1], int(match[2])) for match in found if match is not None)


# --- for commands


def names(directory: str) -> list[str]:
    """Return the names of the saved files; none if there is no directory. Errors: OSError."""
    try:
        return [f"{source}-{number}.txt" for source, number in _files(directory)]
    except FileNotFoundError:
        return []


def read(directory: str, name: str) -> str:
    """Return a file; bytes that are not UTF-8 are escaped. Errors: OSError, ValueError (name)."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"'{name[:80]}': expected a name as 'iowarden unparsed list' shows it,"
            " '<source>-<n>.txt'"
        )
    with open(os.path.join(directory, name), "rb") as file:
        return file.read(TEXT_BYTES * 2).decode(errors="backslashreplace")


def head(text: str) -> dict[str, str]:
    """Return the values in the header of a file, by name."""
    lines, _, _ = text.partition("\n\n")
    return {name: value for name, _, value in (line.partition(": ") for line in lines.split("\n"))}
