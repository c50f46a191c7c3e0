"""The flight recorder: what the readers read of late, in memory, and saved with an incident.

Memory holds a whole machine as it was some ten minutes ago, and blocks of packed frames since, each
with what changed; the oldest block goes into that machine. A recording is made of it only when it
is saved, by a thread: whoever asks for that waits for no disk.
"""

from __future__ import annotations

import contextlib
import os
import queue
import struct
import threading
import weakref
import zlib
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from iowarden.collectors.model import trace
from iowarden.collectors.recording.recorder import Changes, Recorder
from iowarden.collectors.recording.recording import Frame, RecordingError, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

KEPT_SECONDS = 600.0
MOST_BYTES = 8 * 1024 * 1024
"""In memory."""
SHARED_SECONDS = 10.0
"""Incidents that become critical so close to each other have one file."""
MOST_FILES = 20
MOST_FILES_BYTES = 100 * 1024 * 1024
DIRECTORY = "flights"
"""Below the state directory."""
SUFFIX = ".tar.gz"
"""xz would need more memory than all the rest of the service."""
_BLOCK_FRAMES = 30
_LEVEL = 1
"""Of zlib; more saves a fifth of the bytes for twice the time."""
_ENTRY_BYTES = 200
"""What Python needs for a path and a text beside their characters."""
_DRAFT = f".draft{SUFFIX}"
_HEAD = struct.Struct("<ddIIII")
_SIZES = struct.Struct("<Ii")


@dataclass(frozen=True, slots=True)
class _Block:
    """Packed frames; `last_seconds` is the monotonic clock of the last."""

    last_seconds: float
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Snapshot:
    """What was in memory at one moment; making it copies no text."""

    machine: Mapping[str, bytes | None]
    blocks: tuple[bytes, ...]

    def steps(self) -> Iterator[Step]:
        """Yield the frames; the first has all that was there."""
        machine = dict(self.machine)
        first = True
        for block in self.blocks:
            for step in _unpacked(block):
                if not first:
                    yield step
                    continue
                first = False
                _apply(machine, step)
                yield Step(step.frame, machine, (), step.uevents, step.read)


class Flight:
    """What was read in the last ten minutes. For all threads."""

    def __init__(
        self,
        page_size_bytes: int,
        kept_seconds: float = KEPT_SECONDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Nothing was read yet."""
        self.page_size_bytes = page_size_bytes
        self._kept_seconds = kept_seconds
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._changes = Changes()
        self._uevents = ""
        self._machine: dict[str, bytes | None] = {}
        self._machine_bytes = 0
        self._blocks: deque[_Block] = deque()
        self._blocks_bytes = 0
        self._lent: weakref.WeakSet[Snapshot] = weakref.WeakSet()
        """What somebody still holds: a disk that hangs must not double the memory."""
        self._begin_block()

    def take(self, source: str, seen: Mapping[str, bytes]) -> None:
        """Take all that one run of a source has read."""
        with self._lock:
            self._changes.take(source, seen)

    def announced(self, uevents: str) -> None:
        """Take what the kernel announced."""
        with self._lock:
            self._uevents += uevents

    def tick(self, monotonic_seconds: float, realtime_seconds: float) -> None:
        """End a frame."""
        with self._lock:
            frame = Frame(0, monotonic_seconds, realtime_seconds)
            step = self._changes.step(frame, self._uevents)
            self._uevents = ""
            self._packed += self._packer.compress(_packed(step))
            self._frames += 1
            if self._frames < _BLOCK_FRAMES and len(self._packed) < self._most_bytes // 8:
                return
            self._packed += self._packer.flush()
            self._blocks.append(_Block(monotonic_seconds, bytes(self._packed)))
            self._blocks_bytes += len(self._packed)
            self._begin_block()
            self._forget(monotonic_seconds - self._kept_seconds)

    def snapshot(self) -> Snapshot:
        """Return what is in memory now."""
        with self._lock:
            now = bytes(self._packed) + self._packer.copy().flush()
            blocks = (*(block.data for block in self._blocks), now)
            snapshot = Snapshot(dict(self._machine), blocks)
            self._lent.add(snapshot)
            return snapshot

    def size_bytes(self) -> int:
        """Return what it holds, about: packed frames, and the machine as it was before them.

        With what of that only a snapshot has by now.
        """
        own = self._blocks_bytes + len(self._packed) + self._machine_bytes
        return own + (self._lent_bytes() if self._lent else 0)

    def _lent_bytes(self) -> int:
        known = {id(block.data) for block in self._blocks}
        known.update(id(content) for content in self._machine.values())
        lent: dict[int, int] = {}
        for snapshot in self._lent:
            lent |= {id(block): len(block) for block in snapshot.blocks}
            lent |= {id(content): len(content) for content in snapshot.machine.values() if content}
        return sum(size_bytes for key, size_bytes in lent.items() if key not in known)

    def _begin_block(self) -> None:
        self._packer = zlib.compressobj(_LEVEL)
        self._packed = bytearray()
        self._frames = 0

    def _forget(self, before_seconds: float) -> None:
        """Let go of what is too old, or too much."""
        while self._blocks and (
            self._blocks[0].last_seconds < before_seconds or self.size_bytes() > self._most_bytes
        ):
            block = self._blocks.popleft()
            self._blocks_bytes -= len(block.data)
            for step in _unpacked(block.data):
                _apply(self._machine, step)
            self._machine_bytes = sum(
                len(path) + len(content or b"") + _ENTRY_BYTES
                for path, content in self._machine.items()
            )


class Keeper:
    """Saves flights in a directory, in a thread; `post` takes what is wrong, '' when nothing is."""

    def __init__(self, flight: Flight, directory: str, post: Callable[[str], object]) -> None:
        """Start the thread; it touches nothing before it is asked."""
        self.flight = flight
        self.directory = directory
        self._post = post
        self._waiting: queue.Queue[tuple[str, Snapshot]] = queue.Queue(1)
        self._saved: dict[str, tuple[float, str]] = {}
        threading.Thread(target=self._run, name="flight", daemon=True).start()

    def save_of(
        self, incident: str, now: float, realtime_seconds: float, open_now: Container[str]
    ) -> str:
        """Have the last minutes saved for an incident; return the path of the file to be.

        '' where it has them, or where none will be written; `open_now` are the incidents that are
        not forgotten. Units: seconds of the program's clock, and Unix time.
        """
        never = float("-inf"), ""
        if now - self._saved.get(incident, never)[0] < KEPT_SECONDS:
            return ""
        newest, path = max(self._saved.values(), default=never)
        if now - newest >= SHARED_SECONDS:
            at = datetime.fromtimestamp(realtime_seconds, UTC)
            path = self.save(f"{at:%Y%m%dT%H%M%SZ}-{incident}")
        self._saved = {known: saved for known, saved in self._saved.items() if known in open_now}
        if path:
            self._saved[incident] = now, path
        return path

    def saved(self, incident: str) -> tuple[float, str] | None:
        """Return when an incident's last minutes were saved, and where."""
        return self._saved.get(incident)

    def save(self, name: str) -> str:
        """Have the last minutes saved by this name; return the path of the file to be, or ''."""
        path = os.path.join(self.directory, name + SUFFIX)
        try:
            self._waiting.put_nowait((path, self.flight.snapshot()))
        except queue.Full:
            self._post(
                f"flight: writing to '{self.directory}' has not returned; '{path}' is not written"
            )
            return ""
        return path

    def _run(self) -> None:
        while True:
            self._post(self._written(*self._waiting.get()))  # and hold it no longer than that

    def _written(self, path: str, snapshot: Snapshot) -> str:
        """Write a file; return what went wrong, or ''."""
        try:
            _save(self.directory, path, snapshot, self.flight.page_size_bytes)
        except (OSError, RecordingError) as error:
            return (
                f"flight: '{path}': expected to save what was seen there, got '{error}'; it is"
                " lost, mend the directory"
            )
        except Exception as error:  # noqa: BLE001 - a thread that ends would save nothing more
            return f"flight: bug: {trace(error)}"
        return ""


def _save(directory: str, path: str, snapshot: Snapshot, page_size_bytes: int) -> None:
    """Write a file that is whole or not there, then remove what is over the bounds."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    draft = os.path.join(directory, _DRAFT)
    with contextlib.suppress(FileNotFoundError):  # of a run that was killed
        os.unlink(draft)
    recorder = Recorder(draft, page_size_bytes, "what was seen before an incident became critical")
    try:
        for step in snapshot.steps():
            recorder.write(step)
        recorder.close()
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        os.rename(draft, path)
    except BaseException:
        recorder.abandon()
        os.unlink(draft)
        raise
    _keep_newest(directory, path)


def _keep_newest(directory: str, path: str) -> None:
    """Remove what is over the bounds, oldest first; `path` is the newest.

    Its time becomes later than that of all others: in early boot the clock may not be set yet, and
    a file of 1970 would be the first to go.
    """
    found = {
        os.path.join(directory, name): os.stat(os.path.join(directory, name))
        for name in os.listdir(directory)
        if name.endswith(SUFFIX) and name != _DRAFT
    }
    newest = max((s.st_mtime_ns for other, s in found.items() if other != path), default=0)
    if found[path].st_mtime_ns <= newest:
        os.utime(path, ns=(newest + 1, newest + 1))
    bytes_total = 0
    others = sorted(found.keys() - {path}, key=lambda other: -found[other].st_mtime_ns)
    for count, other in enumerate((path, *others), 1):
        bytes_total += found[other].st_size
        if count > MOST_FILES or (bytes_total > MOST_FILES_BYTES and count > 1):
            os.unlink(other)


def _apply(machine: dict[str, bytes | None], step: Step) -> None:
    for path in step.gone:
        machine.pop(path, None)
    machine.update(step.files)


def _packed(step: Step) -> bytes:
    frame = step.frame
    gone = os.fsencode("\n".join(step.gone))
    uevents = step.uevents.encode()
    read = " ".join(step.read).encode()
    parts = [
        _HEAD.pack(
            frame.monotonic_seconds,
            frame.realtime_seconds,
            len(step.files),
            len(gone),
            len(uevents),
            len(read),
        ),
        gone,
        uevents,
        read,
    ]
    for path, content in step.files.items():
        name = os.fsencode(path)
        parts += (
            _SIZES.pack(len(name), -1 if content is None else len(content)),
            name,
            content or b"",
        )
    return b"".join(parts)


def _unpacked(block: bytes) -> Iterator[Step]:
    data = zlib.decompress(block)
    at = 0

    def take(count: int) -> bytes:
        nonlocal at
        at += count
        return data[at - count : at]

    while at < len(data):
        monotonic, realtime, files, *sizes = _HEAD.unpack(take(_HEAD.size))
        gone, uevents, read = (take(size) for size in sizes)
        contents: dict[str, bytes | None] = {}
        for _ in range(files):
            name_bytes, content_bytes = _SIZES.unpack(take(_SIZES.size))
            path = os.fsdecode(take(name_bytes))
            contents[path] = None if content_bytes < 0 else take(content_bytes)
        vanished = os.fsdecode(gone).split("\n") if gone else ()
        frame = Frame(0, monotonic, realtime)
        yield Step(frame, contents, vanished, uevents.decode(), read.decode().split())
