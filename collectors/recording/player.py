"""Plays a recording: as a machine in memory, or into a directory that a Machine reads."""

from __future__ import annotations

import copy
import os
import shutil
from typing import TYPE_CHECKING, Self

from iowarden.collectors.machine import MAX_BYTES, Machine
from iowarden.collectors.model import AbsentError, ReadError
from iowarden.collectors.recording.recording import (
    CLOCK,
    Frame,
    Recording,
    RecordingError,
    RecordingStep,
    frame_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class RecordedMachine(Machine):
    """A machine in memory: the state of a recording at one moment."""

    def __init__(self, page_size_bytes: int) -> None:
        """The machine is empty before the first step."""
        super().__init__("/recording", page_size_bytes, recorded=True)
        self._contents: dict[str, bytes] = {}
        self._listed: dict[str, set[str]] = {"": set()}

    def apply(self, step: RecordingStep) -> None:
        """Apply the next step."""
        for path in step.gone:
            self._remove(path.rstrip("/"))
        for path, content in step.files.items():
            if content is not None and path in self._contents:
                self._contents[path] = content
                continue
            if content is not None:
                self._remove(path)
                self._contents[path] = content
            elif path in self._listed:
                continue
            else:
                self._contents.pop(path, None)
                self._listed[path] = set()
            self._list(path)

    def _list(self, path: str) -> None:
        while path:
            parent, _, name = path.rpartition("/")
            known = parent in self._listed
            self._contents.pop(parent, None)
            self._listed.setdefault(parent, set()).add(name)
            if known:
                return
            path = parent

    def _remove(self, path: str) -> None:
        self._contents.pop(path, None)
        for name in self._listed.pop(path, ()):
            self._remove(f"{path}/{name}")
        parent, _, name = path.rpartition("/")
        self._listed.get(parent, set()).discard(name)

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file. Errors: AbsentError."""
        content = self._contents.get(path)
        if content is None:
            why = "not in the recording" if path in self._listed else "No such file or directory"
            raise AbsentError(f"'{path}': {why}")
        return self._report_read(path, content)

    def read_cached_open(self, path: str) -> str:
        """Return the text of a file. Errors: AbsentError."""
        return self.read_bytes(path).decode(errors="backslashreplace")

    def try_read_record(self, path: str) -> str | None:
        """Return the text of a file; None if it is missing."""
        return self.try_read(path)

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory. Errors: AbsentError."""
        listed = self._listed.get(path.rstrip("/"))
        if listed is None:
            raise AbsentError(f"'{path}': No such file or directory")
        return self._report_names(path, listed)

    def another(self, seen: Callable[[str, bytes], None] | None = None) -> Self:
        """Return the same machine for another thread, with each step applied to this one."""
        found = copy.copy(self)
        found.watch(seen)
        return found

    def _report_read(self, path: str, content: bytes) -> bytes:
        if len(content) > MAX_BYTES:
            raise ReadError(f"'{path}': expected at most {MAX_BYTES} bytes, got more")
        self.last = (path, content)
        if self._watcher is not None:
            self._watcher(path, content)
        return content

    def _report_names(self, path: str, listed: Iterable[str]) -> list[str]:
        names = sorted(listed)
        if self._watcher is not None:
            self._watcher(path + "/", "\n".join(names).encode(errors="surrogateescape"))
        return names


class RecordingPlayer:
    """Plays a recording into a directory that a Machine reads.

    Files are overwritten in place, so descriptors that stay open see the change.
    Errors: RecordingError.
    """

    def __init__(self, path: str, root_directory: str) -> None:
        """Read the header; the first `advance` creates frame 0 in `root_directory`."""
        self._recording = Recording(path)
        self.page_size_bytes, self.note = self._recording.page_size_bytes, self._recording.note
        if os.path.isdir(path) and not os.path.exists(os.path.join(frame_path(path, 0), CLOCK)):
            raise RecordingError(f"'{path}/000000': expected a complete frame, got none")
        self._machine = os.fsencode(root_directory)
        os.makedirs(root_directory, exist_ok=True)

    def advance(self) -> Frame | None:
        """Apply the next frame and return it; None if it does not exist (yet)."""
        step = self._recording.next()
        if step is None:
            return None
        for path in step.gone:
            _remove(self._machine + os.fsencode(path))
        for path, content in step.files.items():
            target = self._machine + os.fsencode(path)
            if content is None:
                _make_directory(target)
                continue
            _make_directory(os.path.dirname(target))
            if os.path.isdir(target):
                _remove(target)
            _write_over(target, content)
        return step.frame


def _make_directory(path: bytes) -> None:
    if os.path.isdir(path):
        return
    _make_directory(os.path.dirname(path))
    if os.path.lexists(path):
        _remove(path)
    os.mkdir(path)


def _remove(path: bytes) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        # A descriptor that is still open reads nothing, as of a removed device.
        os.truncate(path, 0)
        os.unlink(path)


def _write_over(path: bytes, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)
