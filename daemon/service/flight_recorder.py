"""Flight recorder: ten minutes of polled data in memory, saved when an incident is critical.

Memory holds the whole machine as it was about ten minutes ago, and blocks of packed frames since
then, each with what changed. The oldest block is merged into that machine. A thread makes the
recording when it is saved: the caller does not wait for a disk.
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
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import trace
from iowarden.collectors.recording.recorder import Changes, Recorder
from iowarden.collectors.recording.recording import Frame, RecordingError, RecordingStep

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

RETENTION_SECONDS = 600.0
MAX_BYTES = 8 * 1024 * 1024
"""Limit of memory use."""
SHARED_SECONDS = 10.0
"""Incidents that become critical within this time share one file."""
MAX_FILES = 20
MAX_FILES_BYTES = 100 * 1024 * 1024
DIRECTORY = "flights"
"""Directory, below the state directory."""
SUFFIX = ".tar.gz"
"""Saved with gzip: xz would need more memory than the rest of the service."""
_BLOCK_FRAMES = 30
_LEVEL = 1
"""zlib level; a higher one saves a fifth of the bytes for twice the time."""
_CHUNK_BYTES = 32 * 1024
"""Frames are packed together: of a few kilobytes a second most of the time would be zlib's call."""
_ENTRY_BYTES = 200
"""Memory overhead of Python for a path and a text, in addition to their characters."""
_DRAFT = f".draft{SUFFIX}"
_HEAD = struct.Struct("<ddIIII")
_SIZES = struct.Struct("<Ii")


@dataclass(frozen=True, slots=True)
class _Block:
    """Packed frames; `last_seconds` is the monotonic time of the last one."""

    last_seconds: float
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FlightSnapshot:
    """A snapshot of the recorder's memory; making it copies no text."""

    machine: Mapping[str, bytes | None]
    blocks: tuple[bytes, ...]

    def steps(self) -> Iterator[RecordingStep]:
        """Yield the frames; the first one has the complete machine."""
        machine = dict(self.machine)
        first = True
        for block in self.blocks:
            for step in _unpacked(block):
                if not first:
                    yield step
                    continue
                first = False
                _apply(machine, step)
                yield RecordingStep(step.frame, machine, (), step.uevents, step.read)


class FlightRecorder:
    """The polled data of the last ten minutes. For all threads."""

    def __init__(
        self,
        page_size_bytes: int,
        retention_seconds: float = RETENTION_SECONDS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Start empty."""
        self.page_size_bytes = page_size_bytes
        self._retention_seconds = retention_seconds
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._changes = Changes()
        self._uevents = ""
        self._machine: dict[str, bytes | None] = {}
        self._machine_bytes = 0
        self._blocks: deque[_Block] = deque()
        self._blocks_bytes = 0
        self._borrowed: weakref.WeakSet[FlightSnapshot] = weakref.WeakSet()
        """Blocks that a snapshot still references: a hung disk must not double the memory use."""
        self._begin_block()

    def take(self, source: str, seen: Mapping[str, bytes]) -> None:
        """Add all data that one run of a collector has read."""
        with self._lock:
            self._changes.take(source, seen)

    def announced(self, uevents: str) -> None:
        """Add uevents from the kernel."""
        with self._lock:
            self._uevents += uevents

    def tick(self, monotonic_seconds: float, realtime_seconds: float) -> None:
        """End a frame."""
        with self._lock:
            frame = Frame(0, monotonic_seconds, realtime_seconds)
            step = self._changes.step(frame, self._uevents)
            self._uevents = ""
            self._waiting += _packed(step)
            self._frames += 1
            if self._frames < _BLOCK_FRAMES and len(self._waiting) < _CHUNK_BYTES:
                return
            self._packed += self._packer.compress(self._waiting)
            self._waiting.clear()
            if self._frames < _BLOCK_FRAMES and len(self._packed) < self._max_bytes // 8:
                return
            self._packed += self._packer.flush()
            self._blocks.append(_Block(monotonic_seconds, bytes(self._packed)))
            self._blocks_bytes += len(self._packed)
            self._begin_block()
            self._forget(monotonic_seconds - self._retention_seconds)

    def snapshot(self) -> FlightSnapshot:
        """Return a snapshot of the current content."""
        with self._lock:
            packer = self._packer.copy()
            now = bytes(self._packed) + packer.compress(self._waiting) + packer.flush()
            blocks = (*(block.data for block in self._blocks), now)
            snapshot = FlightSnapshot(dict(self._machine), blocks)
            self._borrowed.add(snapshot)
            return snapshot

    def size_bytes(self) -> int:
        """Return the approximate memory use: packed frames, and the machine as it was before them.

        Includes blocks that only a snapshot still references.
        """
        own = self._blocks_bytes + len(self._packed) + len(self._waiting) + self._machine_bytes
        return own + (self._borrowed_bytes() if self._borrowed else 0)

    def _borrowed_bytes(self) -> int:
        known = {id(block.data) for block in self._blocks}
        known.update(id(content) for content in self._machine.values())
        lent: dict[int, int] = {}
        for snapshot in self._borrowed:
            lent |= {id(block): len(block) for block in snapshot.blocks}
            lent |= {id(content): len(content) for content in snapshot.machine.values() if content}
        return sum(size_bytes for key, size_bytes in lent.items() if key not in known)

    def _begin_block(self) -> None:
        self._packer = zlib.compressobj(_LEVEL)
        self._packed = bytearray()
        self._waiting = bytearray()
        self._frames = 0

    def _forget(self, before_seconds: float) -> None:
        """Drop data that is too old, or beyond the memory limit."""
        while self._blocks and (
            self._blocks[0].last_seconds < before_seconds or self.size_bytes() > self._max_bytes
        ):
            block = self._blocks.popleft()
            self._blocks_bytes -= len(block.data)
            for step in _unpacked(block.data):
                _apply(self._machine, step)
            self._machine_bytes = sum(
                len(path) + len(content or b"") + _ENTRY_BYTES
                for path, content in self._machine.items()
            )


class FlightArchive:
    """Saves flight recordings in a thread; `post` gets the error, or '' after a success."""

    def __init__(
        self, flight: FlightRecorder, directory: str, post: Callable[[str], object]
    ) -> None:
        """Start the thread; it does nothing until a save is requested."""
        self.flight = flight
        self.directory = directory
        self._post = post
        self._waiting: queue.Queue[tuple[str, FlightSnapshot]] = queue.Queue(1)
        self._saved: dict[str, tuple[float, str]] = {}
        threading.Thread(target=self._run, name="flight", daemon=True).start()

    def save_of(
        self, incident: str, now: float, realtime_seconds: float, open_now: Container[str]
    ) -> str:
        """Queue a save of the last minutes for an incident; return the path of the future file.

        '' if the incident has one already, or none will be written; `open_now` are the incidents
        that still exist. Units: seconds of the program's clock, and Unix time.
        """
        never = float("-inf"), ""
        if now - self._saved.get(incident, never)[0] < RETENTION_SECONDS:
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
        """Return when an incident's recording was saved, and its path; None if there is none."""
        return self._saved.get(incident)

    def save(self, name: str) -> str:
        """Queue a save under this name; return the path of the future file, or ''."""
        path = os.path.join(self.directory, name + SUFFIX)
        try:
            self._waiting.put_nowait((path, self.flight.snapshot()))
        except queue.Full:
            self._post(f"flight: a write to '{self.directory}' hangs; '{path}' is not saved")
            return ""
        return path

    def _run(self) -> None:
        while True:
            self._post(self._written(*self._waiting.get()))  # keep no reference afterwards

    def _written(self, path: str, snapshot: FlightSnapshot) -> str:
        """Write a file; return the error, or ''."""
        try:
            _save(self.directory, path, snapshot, self.flight.page_size_bytes)
        except (OSError, RecordingError) as error:
            return (
                f"flight: '{path}': the flight recording could not be saved: {error}; it is lost;"
                " check the directory"
            )
        except Exception as error:  # noqa: BLE001 - a thread that ends would save nothing more
            return f"flight: bug: {trace(error)}"
        return ""


def _save(directory: str, path: str, snapshot: FlightSnapshot, page_size_bytes: int) -> None:
    """Write a file atomically, then remove the oldest beyond the limits."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    draft = os.path.join(directory, _DRAFT)
    with contextlib.suppress(FileNotFoundError):  # left by a run that was killed
        os.unlink(draft)
    recorder = Recorder(
        draft, page_size_bytes, "flight recorder: data before an incident became critical"
    )
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
    _prune(directory, path)


def _prune(directory: str, path: str) -> None:
    """Remove the oldest files beyond the limits; `path` is the newest.

    Its modification time is set later than all others: early after boot the clock may not be set
    yet, and a file dated 1970 would be removed first.
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
        if count > MAX_FILES or (bytes_total > MAX_FILES_BYTES and count > 1):
            os.unlink(other)


def _apply(machine: dict[str, bytes | None], step: RecordingStep) -> None:
    for path in step.gone:
        machine.pop(path, None)
    machine.update(step.files)


def _packed(step: RecordingStep) -> bytes:
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


def _unpacked(block: bytes) -> Iterator[RecordingStep]:
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
        yield RecordingStep(frame, contents, vanished, uevents.decode(), read.decode().split())
