"""Machines in memory: what a directory of half a million small files was needed for."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Self

from iowarden.collectors.machine import translated
from iowarden.collectors.recording.player import RecordedMachine
from iowarden.collectors.recording.recording import Frame, RecordingStep

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

Content = str | bytes | None
Files = dict[str, Content]
"""Absolute paths and contents; None is a directory."""

_MAX_LINKS = 40
"""That one look-up follows. Source: kernel, include/linux/namei.h, MAXSYMLINKS."""
_MAX_NAME_BYTES = 255


class Memory(RecordedMachine):
    """A machine that a test writes, with the links and the faults that a real one has.

    It differs from a directory as sysfs does: a file that was removed is gone for who holds it
    open, too. tests/collectors/test_machine.py holds both to the same.
    """

    def __init__(
        self, files: Mapping[str, Content] | None = None, page_size_bytes: int = 4096
    ) -> None:
        super().__init__(page_size_bytes)
        self._links: dict[str, str] = {}
        self._faults: dict[str, int] = {}
        self._held: dict[str, tuple[str, int]] = {}
        """By path, how it was found when it was opened: where, and how often that had vanished."""
        self._vanished: Counter[str] = Counter()
        self.write(files or {})

    def write(self, files: Mapping[str, Content]) -> None:
        """Make files and directories, or change them, as the kernel does: in place.

        Errors: FileExistsError where a directory takes the place of a file, or either that of a
        link; NotADirectoryError where one of these is above.
        """
        contents = {path: as_bytes(content) for path, content in files.items()}
        for path, content in contents.items():
            other = self._contents if content is None else self._listed
            if path in other or path in self._links:
                raise FileExistsError(f"'{path}': a test must remove what is there")
            above = os.path.dirname(path)
            while above != "/" and above not in self._listed:
                if above in self._contents or above in self._links:
                    raise NotADirectoryError(f"'{path}': '{above}' is a file or a link")
                above = os.path.dirname(above)
        self.apply(RecordingStep(Frame(0, 0.0, 0.0), contents))

    def remove(self, *paths: str) -> None:
        """Let files, or directories with all that is in them, vanish."""
        for path in paths:
            if path not in self._contents and path not in self._listed and path not in self._links:
                raise FileNotFoundError(f"'{path}': a test removes what is not there")
            self._remove(path)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link; what it names need not be there."""
        if path in self._contents:
            raise FileExistsError(f"'{path}': a test must remove what is there")
        self.write({path: b""})
        del self._contents[path]
        self._links[path] = target

    def fail(self, path: str, number: int | None) -> None:
        """Let whatever is read or listed at a path or below it fail so; None: no longer."""
        if number is None:
            del self._faults[path.rstrip("/")]
        else:
            self._faults[path.rstrip("/")] = number

    def copy(self, path: str, to: str) -> None:
        """Make the same files and directories at another path."""
        self.write(
            {
                to + name.removeprefix(path): content
                for tree in (dict.fromkeys(self._listed), self._contents)
                for name, content in tree.items()
                if name == path or name.startswith(path + "/")
            }
        )

    def move(self, path: str, to: str) -> None:
        """Let files and directories go by another name."""
        self.copy(path, to)
        self.remove(path)

    def texts(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of those of these files that are there."""
        return {path: self._contents[path] for path in paths if path in self._contents}

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file. Errors: AbsentError, ReadError."""
        # What is a key is a file, and no link is on the way to it.
        quick = path in self._contents and not self._faults
        place = path if quick else self._place(path, path, self._listed, errno.EISDIR)
        return self._report_read(path, self._contents[place])

    def read_cached_open(self, path: str, *, is_record: bool = False) -> str:
        """Return the text of a file, as through a descriptor that stays open.

        Errors: AbsentError, ReadError; either gives the file up, so the next call opens it anew.
        """
        held = self._held.pop(path, None)
        if held is not None and self._vanished[held[0]] != held[1]:
            raise translated(path, OSError(errno.ENODEV, ""))
        found = path if held is None else held[0]
        place = self._place(path, found, self._listed, errno.EISDIR)
        content = self._report_read(path, self._contents[place])
        if content:
            self._held[path] = place, self._vanished[place]
        return content.decode(errors="backslashreplace")

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory. Errors: AbsentError, ReadError."""
        place = self._place(path, path, self._contents, errno.ENOTDIR)
        return self._report_names(path, self._listed[place])

    def another(self, seen: Callable[[str, bytes], None] | None = None) -> Self:
        """Return the same machine for another thread, which opens its own files."""
        found = super().another(seen)
        found._held = {}
        return found

    def close(self) -> None:
        """Give up the files that are held."""
        self._held.clear()

    def _remove(self, path: str) -> None:
        self._vanished[path] += path in self._contents
        self._links.pop(path, None)
        super()._remove(path)

    def _place(self, path: str, found: str, wrong: Container[str], number: int) -> str:
        """Return where `found` leads, which is asked for as `path` and may be none of `wrong`."""
        try:
            place = self._found(found)
            if place in wrong:
                raise OSError(number, "")
        except OSError as error:
            raise translated(path, error) from error
        return place

    def _found(self, path: str) -> str:
        """Return where a path leads, every link followed."""
        place, followed = "", 0
        left = path.split("/")[::-1]
        if fault := self._faults.get(""):
            raise OSError(fault, "")
        while left:
            name = left.pop()
            if place in self._contents:
                raise OSError(errno.ENOTDIR, "")
            if name == "..":
                place = place.rpartition("/")[0]
            if name in {"", ".", ".."}:
                continue
            if len(os.fsencode(name)) > _MAX_NAME_BYTES:
                raise OSError(errno.ENAMETOOLONG, "")
            place += "/" + name
            if fault := self._faults.get(place):
                raise OSError(fault, "")
            target = self._links.get(place)
            if target is not None:
                followed += 1
                if followed > _MAX_LINKS:
                    raise OSError(errno.ELOOP, "")
                left += target.split("/")[::-1]
                place = "" if target.startswith("/") else place.rpartition("/")[0]
            elif place not in self._contents and place not in self._listed:
                raise OSError(errno.ENOENT, "")
        return place


def as_bytes(content: Content) -> bytes | None:
    """Return what a file holds; None: it is a directory."""
    return os.fsencode(content) if isinstance(content, str) else content


def write_tree(directory: Path, files: Mapping[str, str | bytes | None]) -> None:
    """Write files below a directory: absolute paths and contents; None makes a directory."""
    directory.mkdir(exist_ok=True)
    for name, content in files.items():
        path = Path(str(directory) + name)
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_bytes(content))
