"""Writes a recording: what the collectors read, as changes from frame to frame.

'/etc/fstab' may contain passwords of network file systems: of its options only those of `_RECORDED`
are written, '*' for any other; a user before a server's name is '*', and comments are empty.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from iowarden.collectors.filesystem.mountinfo import FSTAB
from iowarden.collectors.machine import PROBE
from iowarden.collectors.recording import archive
from iowarden.collectors.recording.recording import (
    CLOCK,
    FORMAT,
    GONE,
    HANGS,
    HEADER,
    READ,
    UEVENTS,
    VERSION,
    Frame,
    RecordingError,
    RecordingStep,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.source import Source

T = TypeVar("T")
HANG_SECONDS = 10.0
"""A collector that reads one path for so long waits for it."""

_RECORDED = frozenset(
    "defaults ro rw auto noauto nofail user users nouser owner group _netdev atime noatime relatime"
    " norelatime strictatime nodiratime lazytime nolazytime suid nosuid dev nodev exec noexec sync"
    " async dirsync bind rbind discard nodiscard x-systemd.automount".split()
)
"""Options that are no secret for any file system. Source: mount(8), 'filesystem-independent'."""


class Changes:
    """What the collectors read, as changes from frame to frame. Not thread-safe."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        # By collector the texts of its last run; the one that ran last is at the end and takes
        # precedence.
        self._seen: dict[str, dict[str, bytes | None]] = {}
        self._recorded: dict[str, bytes | None] = {}
        self._touched: set[str] = set()
        self._read: set[str] = set()
        self._waits: dict[Machine, tuple[str, float]] = {}
        """The machines of runs that have not ended: what each reads, and since when."""
        self._hangs: set[str] = set()

    def begin(self, root: Machine) -> None:
        """Note that a run of a collector begins."""
        root.at = ""
        self._waits[root] = "", math.inf

    def end(self, root: Machine) -> None:
        """Note that a run has ended."""
        del self._waits[root]

    def take(self, source: str, seen: Mapping[str, bytes]) -> None:
        """Store all that one run of a collector has read, as the machine reported it to `seen`.

        A path with '/' at its end is a directory of these names. A path that only the former run
        read is removed; a collector that does not run keeps its paths.
        """
        before = self._seen.pop(source, {})
        after = _tree(seen)
        recorded = self._recorded
        if after == before:
            after = before  # otherwise each text would be in memory twice
        else:
            self._read.add(source)
            self._touched |= before.keys() - after.keys()
            # What another collector has read does not change by being listed once more.
            self._touched.update(
                path
                for path, content in after.items()
                if content is None and (path not in recorded or before.get(path) is not None)
            )
        self._seen[source] = after
        self._touched.update(
            path
            for path, content in after.items()
            if content is not None and (path not in recorded or recorded[path] != content)
        )

    def _hanging(self, now: float) -> set[str]:
        """Return what a collector has been reading for `HANG_SECONDS` or longer.

        A program has a deadline, and the recording has what the probe answered then.
        """
        for root, (path, _) in self._waits.items():
            if root.at != path:
                self._waits[root] = root.at, now
        return {
            path.rstrip("/")
            for path, since in self._waits.values()
            if now - since >= HANG_SECONDS and not path.startswith(PROBE)
        }

    def step(self, frame: Frame, uevents: str = "") -> RecordingStep:
        """Return the changes since the last step."""
        before, self._hangs = self._hangs, self._hanging(frame.monotonic_seconds) - {""}
        answers, hangs = before - self._hangs, sorted(self._hangs - before)
        files: dict[str, bytes | None] = {}
        gone: list[str] = []
        recorded = self._recorded
        for path in sorted(self._touched):
            known = [tree[path] for tree in self._seen.values() if path in tree]
            if not known:
                if path in recorded:
                    gone.append(path)
                    del recorded[path]
                continue
            content = next((c for c in reversed(known) if c is not None), None)
            if path in recorded:
                if recorded[path] == content:
                    continue
                if (recorded[path] is None) != (content is None):
                    gone.append(path)
            files[path] = recorded[path] = content
        self._touched.clear()
        for path in sorted(answers - files.keys()):  # also with the same text, or with none
            if path in recorded:
                files[path] = recorded[path]
            else:
                gone.append(path)
        read, self._read = sorted(self._read), set()
        return RecordingStep(frame, files, gone, uevents, read, hangs)


def _tree(seen: Mapping[str, bytes]) -> dict[str, bytes | None]:
    files: dict[str, bytes | None] = {}
    tree: dict[str, bytes | None] = {}
    for path, content in seen.items():
        if not path.endswith("/"):
            files[path] = without_secrets(content) if path == FSTAB else content
            continue
        tree[path[:-1]] = None
        if content:
            tree.update(dict.fromkeys([path + n for n in os.fsdecode(content).split("\n")]))
    tree.update(files)
    return tree


def watched(
    source: Source[T],
    take: Callable[[str, Mapping[str, bytes]], object],
    runs: Callable[[Machine, bool], object] = lambda _, __: None,
) -> Source[T]:
    """Return the collector such that `take` gets its name and all that each run has read.

    In the thread that reads, when the run has ended; one that hangs gives nothing until then.
    `runs` gets the machine of each run, with True when it begins and False when it ends.
    """

    def watching(root: Machine, read: Callable[[], T]) -> T:
        seen: dict[str, bytes] = {}
        root.watch(seen.__setitem__)
        runs(root, True)  # noqa: FBT003 - as `runs` takes it
        try:
            return read()
        finally:
            root.watch(None)
            runs(root, False)  # noqa: FBT003 - as above
            take(source.name, seen)

    parts = source.parts
    return replace(
        source,
        read=lambda root: watching(root, lambda: source.read(root)),
        parts=parts and (lambda root, enter: watching(root, lambda: parts(root, enter))),
    )


class Sink(Protocol):
    """Target of a recording."""

    def add(self, name: str, content: bytes | None) -> None:
        """Write a file, or with None a directory."""

    def close(self) -> None:
        """Write the end."""

    def abandon(self) -> None:
        """Leave the partial recording in place."""


class Directory:
    """A recording as a directory of texts."""

    def __init__(self, path: str) -> None:
        """The directory is created with its first file."""
        self._path = path

    def add(self, name: str, content: bytes | None) -> None:
        """Write a file, a frame's clock by rename, or with None a directory. Errors: OSError."""
        target = os.fsencode(f"{self._path}/{name}")
        if content is None:
            os.makedirs(target, exist_ok=True)
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not name.endswith("/" + CLOCK):
            _write(target, content)
            return
        _write(target + b".draft", content)
        os.rename(target + b".draft", target)

    def close(self) -> None:
        """Do nothing: all is written."""

    def abandon(self) -> None:
        """Do nothing: all is written."""


class Recorder:
    """Writes a recording, frame by frame: an archive by its suffix, else a directory.

    Errors: RecordingError if the path exists already; OSError of writing.
    """

    def __init__(self, path: str, page_size_bytes: int, note: str = "") -> None:
        """Begin a recording; its directory is created if it does not exist."""
        packed = path.endswith(archive.SUFFIXES)
        header = path if packed else os.path.join(path, HEADER)
        if os.path.lexists(header):
            raise RecordingError(
                f"'{header}': expected no recording there, got one; choose another path"
            )
        self._sink: Sink = archive.Writer(path) if packed else Directory(path)
        self._sink.add(HEADER, _header(page_size_bytes, note))
        self.frames = 0

    def write(self, step: RecordingStep) -> None:
        """Write a frame; its number is the next one."""
        add_step(self._sink, step, self.frames)
        self.frames += 1

    def close(self) -> None:
        """Write the end. Errors: OSError."""
        self._sink.close()

    def abandon(self) -> None:
        """Leave the partial recording in place, after an error; it can be played up to there."""
        self._sink.abandon()


def add_step(sink: Sink, step: RecordingStep, number: int) -> None:
    """Write a frame with this number; its clock comes last."""
    base, frame = f"{number:06d}", step.frame
    sink.add(base + "/root", None)
    for path, content in step.files.items():
        sink.add(f"{base}/root{path}", content)
    if step.uevents:
        sink.add(f"{base}/root{UEVENTS}", step.uevents.encode())
    if step.read:
        sink.add(f"{base}/root{READ}", "".join(f"{name}\n" for name in step.read).encode())
    if step.gone:
        sink.add(f"{base}/{GONE}", os.fsencode("\n".join(sorted(step.gone)) + "\n"))
    if step.hangs:
        sink.add(f"{base}/{HANGS}", os.fsencode("\n".join(sorted(step.hangs)) + "\n"))
    text = (
        f"monotonic_seconds {frame.monotonic_seconds:.6f}\n"
        f"realtime_seconds {frame.realtime_seconds:.6f}\n"
    )
    sink.add(f"{base}/{CLOCK}", text.encode())


def without_secrets(fstab: bytes) -> bytes:
    """Return '/etc/fstab' without possible passwords and their owners."""
    lines = [_without_secrets(line.split()) for line in os.fsdecode(fstab).split("\n")]
    return os.fsencode("\n".join(lines))


def _without_secrets(fields: list[str]) -> str:
    if len(fields) < 3 or fields[0].startswith("#"):
        return "#" if fields else ""
    source, mount_point, kind, *rest = fields
    user, at, server = source.rpartition("@")
    options = [o if o in _RECORDED else "*" for o in rest[0].split(",")] if rest else []
    numbers = [word for word in rest[1:3] if word.isdigit()]
    source = ("*" if user else "") + at + server
    return " ".join(
        (source, mount_point, kind, *([",".join(options)] if options else []), *numbers)
    )


def _header(page_size_bytes: int, note: str) -> bytes:
    header = {
        "format": FORMAT,
        "version": VERSION,
        "page_size_bytes": page_size_bytes,
        "note": note,
    }
    return (json.dumps(header, indent=1, ensure_ascii=False) + "\n").encode()


def _write(path: str | bytes, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
