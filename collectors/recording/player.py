"""Plays a recording: as a machine in memory, or into a directory that a Machine reads."""

from __future__ import annotations

import copy
import os
import shutil
from typing import TYPE_CHECKING, Self

from iowarden.collectors.machine import MAX_BYTES, PROBE, Machine
from iowarden.collectors.model import AbsentError, ReadError, StuckError, UnansweredError
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
    """A machine in memory: the state of a recording at one moment.

    Who reads a path that does not answer gets an UnansweredError, and should read again later; of a
    program the StuckError that the service gets at the program's deadline, at once.
    """

    def __init__(self, page_size_bytes: int) -> None:
        """The machine is empty before the first step."""
        super().__init__("/recording", page_size_bytes, recorded=True)
        self._contents: dict[str, bytes] = {}
        self._listed: dict[str, set[str]] = {"": set()}
        self._hangs: set[str] = set()

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
        if self._hangs:
            answers = {path.rstrip("/") for path in (*step.gone, *step.files)}
            self._hangs = {path for path in self._hangs if not _is_part(path, answers, step.gone)}
        self._hangs.update(path.rstrip("/") for path in step.hangs)

    def answers(self, path: str) -> bool:
        """Return whether a path answers, even if that it is missing."""
        return not self._hangs or not any(
            path == silent or path.startswith(silent + "/") for silent in self._hangs
        )

    def exists(self, path: str) -> bool:
        """Return whether there is a file with a text, or a directory with something in it."""
        return path in self._contents or bool(self._listed.get(path))

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
        """Return the content of a file. Errors: AbsentError, StuckError, UnansweredError."""
        self._wait(path)
        content = self._contents.get(path)
        if content is None:
            why = "not in the recording" if path in self._listed else "No such file or directory"
            raise AbsentError(f"'{path}': {why}")
        return self._report_read(path, content)

    def read_cached_open(self, path: str, *, is_record: bool = False) -> str:  # noqa: ARG002
        """Return the text of a file. Errors: as `read_bytes`."""
        return self.read_bytes(path).decode(errors="backslashreplace")

    def try_read_record(self, path: str) -> str | None:
        """Return the text of a file; None if it is missing."""
        return self.try_read(path)

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory. Errors: AbsentError, UnansweredError."""
        self._wait(path.rstrip("/"))
        listed = self._listed.get(path.rstrip("/"))
        if listed is None:
            raise AbsentError(f"'{path}': No such file or directory")
        return self._report_names(path, listed)

    def another(self, seen: Callable[[str, bytes], None] | None = None) -> Self:
        """Return the same machine for another thread, with each step applied to this one.

        There, what does not answer now is read as if it did: that thread does not read it again.
        """
        other = copy.copy(self)
        other._hangs = set()  # noqa: SLF001 - of the same class
        other.watch(seen)
        return other

    def _wait(self, path: str) -> None:
        """Do not return where a reader would wait. Errors: StuckError, UnansweredError."""
        if self.answers(path):
            return
        if path.startswith(PROBE):
            command = path.removeprefix(PROBE).replace("!", "/")
            raise StuckError(
                f"'{command}': hangs in the kernel after SIGKILL; no program is started there until"
                " it ends; check the disk and its cables"
            )
        raise UnansweredError(path)

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


def _is_part(silent: str, answers: Iterable[str], gone: Iterable[str]) -> bool:
    """Whether a path that does not answer, or one below it, does now, or is gone."""
    return any(path == silent or path.startswith(silent + "/") for path in answers) or any(
        silent.startswith(path.rstrip("/") + "/") for path in gone
    )


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
        if step.hangs:
            raise RecordingError(
                f"frame {step.frame.number:06d}: expected paths that answer, got '{step.hangs[0]}'"
                " which hangs: only 'iowarden replay' can play that"
            )
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
