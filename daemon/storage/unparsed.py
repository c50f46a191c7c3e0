"""Saves text that no parser understood, for a bug report (see also `redaction`).

Each text is a file '<source>-<n>.txt' with a header of lines '<name>: <value>', an empty line, and
the bytes as read. Limits: `TEXT_BYTES` per text, `MAX_FILES` per collector, `ALL_BYTES` in total;
the oldest are deleted. Per collector and run, only the first `MAX_FILES` kinds of error are saved.

Lines of the kernel's log that no pattern took are files named `LINES`, one for each shape (the
text without its numbers), at most `MAX_LINES`; a shape that is saved is not saved again.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from datetime import UTC, datetime
from queue import Full, Queue
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.kmsg.kernel_log import KernelLog, level_of, shape_of
from iowarden.collectors.model import Outcome, trace
from iowarden.daemon.storage import durable_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.model import Reading

DIRECTORY = "unparsed"
"""Directory, below the state directory."""
TEXT_BYTES = 65_536
MAX_FILES = 5
LINES = "kernel_line"
MAX_LINES = 100
ALL_BYTES = 2 * 1024 * 1024
MAX_WAITING = 16
_NAME = re.compile(r"([a-z0-9_]+)-([0-9]{1,9})\.txt", re.ASCII)
_DRAFT = "draft"


class _Text(NamedTuple):
    """A text to be saved. `shape` is that of a kernel line, '' of any other text."""

    source: str
    content: bytes
    shape: str = ""


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
        self._waiting: Queue[tuple[_Text, ...]] = Queue(MAX_WAITING)
        threading.Thread(target=self._run, name="unparsed", daemon=True).start()

    def store(self, reading: Reading[object], realtime_seconds: float) -> None:
        """Save what of a reading no parser understood, once for each kind of error or line."""
        if isinstance(reading.value, KernelLog):
            self._store_lines(reading.value.unrecognized_lines, realtime_seconds)
        if reading.outcome is not Outcome.UNPARSED:
            return
        kinds = self._kinds.setdefault(reading.source, set())
        # Numbers change each second and make no new kind.
        kind = re.sub(r"\d+", "0", reading.error)
        if kind in kinds or len(kinds) >= MAX_FILES:
            return
        size = f"{min(len(reading.text), TEXT_BYTES)} of {len(reading.text)}"
        head = self._head(
            realtime_seconds,
            ("source", reading.source),
            ("path", reading.path),
            ("error", reading.error),
            ("bytes", size),
        )
        if self._queue(_Text(reading.source, head + reading.text[:TEXT_BYTES])):
            kinds.add(kind)

    def _store_lines(self, lines: Sequence[StorageEvent], realtime_seconds: float) -> None:
        shapes = self._kinds.setdefault(LINES, set())
        line_by_shape: dict[str, StorageEvent] = {}
        for line in lines:
            line_by_shape.setdefault(shape_of(line), line)
        fresh = [shape for shape in line_by_shape if shape not in shapes]
        fresh = fresh[: max(MAX_LINES - len(shapes), 0)]
        texts = (self._line(line_by_shape[shape], shape, realtime_seconds) for shape in fresh)
        if fresh and self._queue(*texts):
            shapes.update(fresh)

    def _line(self, line: StorageEvent, shape: str, realtime_seconds: float) -> _Text:
        at = realtime_seconds if line.realtime_seconds is None else line.realtime_seconds
        text = line.text.encode(errors="backslashreplace")
        head = self._head(
            at,
            ("source", LINES),
            ("path", "/dev/kmsg"),
            ("error", f"not recognized, from {line.code}, level {level_of(line)}: {line.text}"),
            ("shape", shape),
            ("bytes", f"{len(text)} of {len(text)}"),
        )
        return _Text(LINES, head + text + b"\n", " ".join(shape.split()))

    def _queue(self, *texts: _Text) -> bool:
        """Hand texts to the thread; return whether it takes them."""
        try:
            self._waiting.put_nowait(texts)
        except Full:
            self._post(
                f"unparsed: a write to '{self._directory}' hangs; the unparsed text of"
                f" {texts[0].source} will be saved when it occurs again"
            )
            return False
        return True

    def _head(self, realtime_seconds: float, *fields: tuple[str, str]) -> bytes:
        lines = (
            ("iowarden", self._version),
            ("kernel", self._kernel),
            ("time", f"{datetime.fromtimestamp(realtime_seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"),
            *fields,
        )
        text = "".join(f"{name}: {' '.join(value.split())}\n" for name, value in lines)
        return text.encode(errors="backslashreplace") + b"\n"

    def _run(self) -> None:
        saved_shapes: set[str] | None = None
        while True:
            texts = self._waiting.get()
            try:
                if texts[0].shape and saved_shapes is None:
                    saved_shapes = _saved_shapes(self._directory)
                for text in texts:
                    if text.shape and saved_shapes is not None:
                        if text.shape in saved_shapes:
                            continue
                        saved_shapes.add(text.shape)
                    _write(self._directory, text.source, text.content)
                _remove_oldest(self._directory)
                durable_file.sync_directory(self._directory)
            except OSError as error:
                saved_shapes = None
                self._post(
                    f"unparsed: '{self._directory}': the unparsed text could not be saved:"
                    f" {error}; it is lost until the next start; check the directory"
                )
            except Exception as error:  # noqa: BLE001 - a thread that ends would save nothing more
                self._post(f"unparsed: bug: {trace(error)}")
            else:
                self._post("")


def _saved_shapes(directory: str) -> set[str]:
    """Return the shapes of the kernel lines that earlier runs saved. Errors: OSError."""
    lines = (name for name in names(directory) if name.startswith(f"{LINES}-"))
    return {head(read(directory, name)).get("shape", "") for name in lines}


def _write(directory: str, source: str, content: bytes) -> None:
    """Write a file atomically."""
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


def _remove_oldest(directory: str) -> None:
    found = {
        (source, number): os.stat(os.path.join(directory, f"{source}-{number}.txt"))
        for source, number in _files(directory)
    }
    bytes_total = sum(status.st_size for status in found.values())
    left = Counter(source for source, _ in found)
    for key in sorted(found, key=lambda key: (found[key].st_mtime, key[1])):
        limit = MAX_LINES if key[0] == LINES else MAX_FILES
        if left[key[0]] > limit or bytes_total > ALL_BYTES:
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
