"""Recorded machines: what the sources read, frame by frame, as a directory that plays again.

A recording holds 'recording.json' (format, version, page size, note) and one directory per frame,
'000000' and on without holes. In a frame: 'root/' with the files whose text changed since the frame
before (in frame 0 all), as read; directories that were listed; what was listed and never read as an
empty directory; in a mount point that was asked how full it is, '.statvfs' with the answer. 'gone':
paths that vanished, one a line. 'clock': 'monotonic_seconds <n>' and 'realtime_seconds <n>'; it
comes last, by rename, so a frame that has one is complete. All of it may be written by hand.

'/etc/fstab' may hold passwords of network file systems: of its options only those of `_RECORDED`
are written, '*' for any other; a user ahead of a server's name is '*', and comments are empty.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.collectors.files import Root
from iowarden.collectors.mounts import FSTAB
from iowarden.collectors.table import SOURCES, collect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

FORMAT = "iowarden-recording"
VERSION = 1
_HEADER = "recording.json"
_CLOCK = "clock"
_GONE = "gone"


_RECORDED = frozenset(
    "defaults ro rw auto noauto nofail user users nouser owner group _netdev atime noatime relatime"
    " norelatime strictatime nodiratime lazytime nolazytime suid nosuid dev nodev exec noexec sync"
    " async dirsync bind rbind discard nodiscard x-systemd.automount".split()
)
"""What is no secret whatever the file system. Source: mount(8), 'filesystem-independent'."""


class RecordingError(Exception):
    """A recording is not what the format says."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of a recording, by the machine's two clocks."""

    number: int
    monotonic_seconds: float
    realtime_seconds: float


class Recorder:
    """Writes a recording: hand `root_seen` to a Root, run sources, call `frame`.

    Errors: RecordingError when the directory holds a recording already; OSError of writing.
    """

    def __init__(self, directory: str, page_size_bytes: int, note: str = "") -> None:
        """Begin a recording in a directory that is made when it is not there."""
        header = os.path.join(directory, _HEADER)
        if os.path.exists(header):
            raise RecordingError(f"'{header}': expected no recording there, got one; name another")
        os.makedirs(directory, exist_ok=True)
        _write(header, _header(page_size_bytes, note))
        self._directory = directory
        self._number = 0
        self._source = ""
        # Per source what its last run saw; a source that did not run since the last frame keeps it.
        self._seen: dict[str, dict[str, bytes]] = {}
        self._written: dict[str, bytes | None] = {}

    def begin(self, source: str) -> None:
        """Say that this source runs now: what only its run before has seen is gone."""
        self._source = source
        # To the end: where two sources read one file, what was read last is what is written.
        self._seen.pop(source, None)
        self._seen[source] = {}

    def root_seen(self, path: str, content: bytes) -> None:
        """Take what a Root has read; a path with '/' at its end is a directory of these names."""
        content = without_secrets(content) if path == FSTAB else content
        self._seen.setdefault(self._source, {})[path] = content

    def frame(self, monotonic_seconds: float, realtime_seconds: float) -> None:
        """Write a frame of what changed since the frame before."""
        tree = self._tree()
        before = self._written
        gone = [
            path
            for path, content in before.items()
            if path not in tree or (content is None) != (tree[path] is None)
        ]
        directory = _frame_path(self._directory, self._number)
        root = os.fsencode(directory) + b"/root"
        os.makedirs(root, exist_ok=True)
        for path, content in tree.items():
            if path in before and before[path] == content:
                continue
            target = root + os.fsencode(path)
            if content is None:
                os.makedirs(target, exist_ok=True)
            else:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                _write(target, content)
        if gone:
            _write(directory + "/" + _GONE, os.fsencode("\n".join(sorted(gone)) + "\n"))
        _write_clock(directory, Frame(self._number, monotonic_seconds, realtime_seconds))
        self._written = tree
        self._number += 1

    def _tree(self) -> dict[str, bytes | None]:
        files: dict[str, bytes | None] = {}
        directories: dict[str, bytes | None] = {}
        for seen in self._seen.values():
            for path, content in seen.items():
                if not path.endswith("/"):
                    files[path] = content
                    continue
                directories[path[:-1]] = None
                for name in content.split(b"\n") if content else ():
                    directories[path + os.fsdecode(name)] = None
        return directories | files


class Player:
    """Plays a recording into a directory that a Root is opened on.

    Files are overwritten in place, so descriptors that are kept open see the change.
    Errors: RecordingError.
    """

    def __init__(self, directory: str, root_directory: str) -> None:
        """Read the header; the first `advance` makes frame 0 appear in `root_directory`."""
        self.page_size_bytes, self.note = _read_header(directory)
        if not os.path.exists(os.path.join(_frame_path(directory, 0), _CLOCK)):
            raise RecordingError(f"'{directory}/000000': expected a complete frame, got none")
        self._directory = directory
        self._root = os.fsencode(root_directory)
        self._last: Frame | None = None
        os.makedirs(root_directory, exist_ok=True)

    def advance(self) -> Frame | None:
        """Apply the next frame and return it; None when it is not there (yet)."""
        number = 0 if self._last is None else self._last.number + 1
        frame = _read_frame(self._directory, number)
        if frame is None:
            return None
        if self._last is not None and frame.monotonic_seconds < self._last.monotonic_seconds:
            raise RecordingError(
                f"'{_frame_path(self._directory, number)}/{_CLOCK}': expected monotonic_seconds"
                f" of at least {self._last.monotonic_seconds}, got {frame.monotonic_seconds}"
            )
        directory = _frame_path(self._directory, number)
        for path in _read_gone(directory):
            _remove(self._root + path)
        _overlay(os.fsencode(directory) + b"/root", self._root)
        self._last = frame
        return frame


def record(
    root_path: str,
    directory: str,
    frames: int,
    period_seconds: float = 1.0,
    *,
    note: str = "",
    page_size_bytes: int | None = None,
    clocks: Callable[[], tuple[float, float]] = lambda: (time.monotonic(), time.time()),
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Record so many frames of a machine; every source is read when its own period is due.

    `clocks`: monotonic and realtime seconds. Limits: a source that hangs holds the recording up.
    """
    page_size_bytes = page_size_bytes or os.sysconf("SC_PAGE_SIZE")
    recorder = Recorder(directory, page_size_bytes, note)
    root = Root(root_path, page_size_bytes, recorder.root_seen)
    due: dict[str, float] = {}
    began, _ = clocks()
    for number in range(frames):
        if number:
            sleep(max(0.0, began + number * period_seconds - clocks()[0]))
        now, wall = clocks()
        for source in SOURCES:
            # Half a period of slack: a timer may be early, and a read left out is a second lost.
            if now >= due.get(source.name, now) - period_seconds / 2:
                due[source.name] = now + source.period_seconds
                recorder.begin(source.name)
                collect(source, root, lambda: clocks()[0])
        recorder.frame(now, wall)
    root.close()


def without_secrets(fstab: bytes) -> bytes:
    """Return the text of '/etc/fstab' without what might be a password or who has it."""
    lines = [_without_secrets(line.split()) for line in os.fsdecode(fstab).split("\n")]
    return os.fsencode("\n".join(lines))


def _without_secrets(words: list[str]) -> str:
    if len(words) < 3 or words[0].startswith("#"):
        return "#" if words else ""
    source, mount_point, kind, *rest = words
    user, at, server = source.rpartition("@")
    options = [o if o in _RECORDED else "*" for o in rest[0].split(",")] if rest else []
    numbers = [word for word in rest[1:3] if word.isdigit()]
    source = ("*" if user else "") + at + server
    return " ".join(
        (source, mount_point, kind, *([",".join(options)] if options else []), *numbers)
    )


def write_header(directory: str, page_size_bytes: int = 4096, note: str = "") -> None:
    """Begin a recording that is written by hand."""
    os.makedirs(directory, exist_ok=True)
    _write(os.path.join(directory, _HEADER), _header(page_size_bytes, note))


def write_frame(
    directory: str, frame: Frame, files: Mapping[str, bytes | None], gone: Sequence[str] = ()
) -> None:
    """Write one frame by hand: `files` are path and content, None for a directory."""
    path = _frame_path(directory, frame.number)
    os.makedirs(path + "/root", exist_ok=True)
    for name, content in files.items():
        target = os.fsencode(path + "/root" + name)
        os.makedirs(target if content is None else os.path.dirname(target), exist_ok=True)
        if content is not None:
            _write(target, content)
    if gone:
        _write(path + "/" + _GONE, os.fsencode("\n".join(gone) + "\n"))
    _write_clock(path, frame)


def read_frames(directory: str) -> Iterator[Frame]:
    """Yield the clocks of all complete frames. Errors: RecordingError."""
    number = 0
    while (frame := _read_frame(directory, number)) is not None:
        yield frame
        number += 1


def idle_frames(directory: str, count: int, step_seconds: float = 1.0) -> None:
    """Append frames in which the machine does nothing: no dirty data, no request, no waiting task.

    Errors: RecordingError.
    """
    last: Frame | None = None
    texts: dict[str, str] = {}
    for frame in read_frames(directory):
        last = frame
        for path in _IDLE:
            name = _frame_path(directory, frame.number) + "/root" + path
            if os.path.isfile(name):
                with open(name, encoding="utf-8", errors="surrogateescape") as file:
                    texts[path] = file.read()
    if last is None:
        raise RecordingError(f"'{directory}': expected at least frame '000000', got none")
    files = {path: _substituted(text, _IDLE[path]) for path, text in texts.items()}
    for step in range(1, count + 1):
        elapsed = step * step_seconds
        if _UPTIME in files:
            files[_UPTIME] = _later(texts[_UPTIME], elapsed)
        frame = Frame(
            last.number + step, last.monotonic_seconds + elapsed, last.realtime_seconds + elapsed
        )
        contents = {path: text.encode(errors="surrogateescape") for path, text in files.items()}
        write_frame(directory, frame, contents)
        files = {path: text for path, text in files.items() if path == _UPTIME}


_UPTIME = "/proc/uptime"
_PRESSURE = ((re.compile(r"(avg\d+)=[\d.]+"), r"\1=0.00"),)
_IDLE: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "/proc/meminfo": (
        (re.compile(r"^((?:Dirty|Writeback|NFS_Unstable):\s*)\d+", re.MULTILINE), r"\g<1>0"),
    ),
    "/proc/vmstat": (
        (
            re.compile(
                r"^(nr_dirty|nr_writeback|nr_unstable|nr_zone_write_pending) \d+", re.MULTILINE
            ),
            r"\1 0",
        ),
    ),
    "/proc/stat": ((re.compile(r"^(procs_blocked) \d+", re.MULTILINE), r"\1 0"),),
    "/proc/diskstats": ((re.compile(r"^(\s*\S+ +\S+ \S+(?: \d+){8}) \d+", re.MULTILINE), r"\1 0"),),
    "/proc/pressure/cpu": _PRESSURE,
    "/proc/pressure/io": _PRESSURE,
    "/proc/pressure/memory": _PRESSURE,
    "/proc/pressure/irq": _PRESSURE,
    _UPTIME: (),
}


def _substituted(text: str, substitutions: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, replacement in substitutions:
        text = pattern.sub(replacement, text)
    return text


def _later(uptime: str, elapsed_seconds: float) -> str:
    return " ".join(f"{float(word) + elapsed_seconds:.2f}" for word in uptime.split()) + "\n"


def _frame_path(directory: str, number: int) -> str:
    return f"{directory}/{number:06d}"


def _header(page_size_bytes: int, note: str) -> bytes:
    header = {
        "format": FORMAT,
        "version": VERSION,
        "page_size_bytes": page_size_bytes,
        "note": note,
    }
    return (json.dumps(header, indent=1, ensure_ascii=False) + "\n").encode()


def _read_header(directory: str) -> tuple[int, str]:
    path = os.path.join(directory, _HEADER)
    try:
        with open(path, encoding="utf-8") as file:
            header = json.load(file)
    except OSError as error:
        raise RecordingError(
            f"'{path}': expected a recording's header, got: {error.strerror}"
        ) from error
    except ValueError as error:
        raise RecordingError(f"'{path}': expected JSON, got: {error}") from error
    found = (
        {key: header.get(key) for key in ("format", "version")}
        if isinstance(header, dict)
        else header
    )
    if found != {"format": FORMAT, "version": VERSION}:
        raise RecordingError(
            f"'{path}': expected format '{FORMAT}', version {VERSION}, got {found!r}"
        )
    page_size_bytes = header.get("page_size_bytes")
    if not isinstance(page_size_bytes, int) or page_size_bytes <= 0:
        raise RecordingError(f"'{path}': expected page_size_bytes above 0, got {page_size_bytes!r}")
    return page_size_bytes, str(header.get("note", ""))


def _read_frame(directory: str, number: int) -> Frame | None:
    path = os.path.join(_frame_path(directory, number), _CLOCK)
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            text = file.read()
    except FileNotFoundError:
        later = os.path.exists(os.path.join(_frame_path(directory, number + 1), _CLOCK))
        # Both may have come between the two looks, when somebody hands frames out.
        if later and not os.path.exists(path):
            raise RecordingError(
                f"'{path}': expected every frame up to the last, got a hole"
            ) from None
        return None
    except OSError as error:
        raise RecordingError(
            f"'{path}': expected a frame's clock, got: {error.strerror}"
        ) from error
    found = _CLOCK_TEXT.fullmatch(text)
    if found is None:
        raise RecordingError(
            f"'{path}': expected lines 'monotonic_seconds <n>' and 'realtime_seconds <n>',"
            f" got {text[:80]!r}"
        )
    return Frame(number, float(found[1]), float(found[2]))


_CLOCK_TEXT = re.compile(
    r"monotonic_seconds (\d{1,12}(?:\.\d{1,12})?)\nrealtime_seconds (\d{1,12}(?:\.\d{1,12})?)\s*",
    re.ASCII,
)


def _read_gone(directory: str) -> list[bytes]:
    path = os.path.join(directory, _GONE)
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordingError(
            f"'{path}': expected paths, one a line, got: {error.strerror}"
        ) from error
    gone = [line for line in lines if line]
    for line in gone:
        # A recording may come from a stranger: nothing outside the root is ever touched.
        if not line.startswith(b"/") or not line.strip(b"/") or b".." in line.split(b"/"):
            raise RecordingError(
                f"'{path}': expected absolute paths without '..', got {line[:80]!r}"
            )
    return gone


def _overlay(source: bytes, target: bytes) -> None:
    try:
        entries = list(os.scandir(source))
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordingError(f"{source!r}: expected a directory, got: {error.strerror}") from error
    for entry in entries:
        path = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False):
            if not os.path.isdir(path):
                _remove(path)
                os.makedirs(path)
            _overlay(entry.path, path)
        elif entry.is_file(follow_symlinks=False):
            if os.path.isdir(path):
                _remove(path)
            with open(entry.path, "rb") as file:
                _write_over(path, file.read())
        else:
            raise RecordingError(
                f"{entry.path!r}: expected a file or a directory, got another kind"
            )


def _remove(path: bytes) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        # Who still holds it open reads nothing, as of a device that is gone.
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


def _write(path: str | bytes, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _write_clock(directory: str, frame: Frame) -> None:
    text = (
        f"monotonic_seconds {frame.monotonic_seconds:.6f}\n"
        f"realtime_seconds {frame.realtime_seconds:.6f}\n"
    )
    draft = os.path.join(directory, _CLOCK + ".draft")
    _write(draft, text.encode())
    os.rename(draft, os.path.join(directory, _CLOCK))


def main(arguments: Sequence[str] | None = None) -> int:
    """Record this machine: `python3 -m iowarden.collectors.recording OUT --frames 100`."""
    parser = argparse.ArgumentParser(description="Record what iowarden reads of a machine.")
    parser.add_argument("directory", help="where the recording goes")
    parser.add_argument("--frames", type=int, default=100, help="how many (default: 100)")
    parser.add_argument(
        "--period", type=float, default=1.0, help="seconds between two (default: 1)"
    )
    parser.add_argument("--root", default="/", help="where '/proc' and '/sys' are (default: /)")
    parser.add_argument("--note", default="", help="what happens in it, in a sentence")
    options = parser.parse_args(arguments)
    try:
        record(options.root, options.directory, options.frames, options.period, note=options.note)
    except (RecordingError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command says why it fails
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
