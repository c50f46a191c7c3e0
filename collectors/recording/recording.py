r"""Recorded machines: what the sources read, frame by frame, to be played again.

A recording holds 'recording.json' (format, version, page size, note) and one directory per frame,
'000000' and on without holes. In a frame: 'root/' with the files whose text changed since the frame
before (in frame 0 all), as read; directories that were listed; what was listed and never read as an
empty directory. 'gone': paths that vanished, one a line. 'clock': 'monotonic_seconds <n>' and
'realtime_seconds <n>'; it comes last, by rename, so a frame that has one is complete.

What is told in no file has a name that no machine has: in a mount point that was asked how full it
is, 'root/.../.statvfs'; 'root/.probe/<verb> <arguments>' (their '/' as '!') what the probe
answered. Of this frame alone: 'root/.uevents', what the kernel announced ('<action> <device>
<diskseq or ->' a line), and 'root/.read', the sources that then read something new, a name a line:
a replay reads them then, and the others as they are due.

It is a directory of texts, or an archive of one ('.tar.xz', '.tar.gz') with the frames in order.
Both may be written by hand, as by this, of a disk that hangs in its second frame:

    mkdir -p hang/000000/root/proc hang/000001/root/proc
    echo '{"format": "iowarden-recording", "version": 1, "page_size_bytes": 4096}' \
        > hang/recording.json
    printf 'monotonic_seconds 600\nrealtime_seconds 1795000000\n' > hang/000000/clock
    printf 'monotonic_seconds 601\nrealtime_seconds 1795000001\n' > hang/000001/clock
    echo '8 0 sda 9 0 72 5 0 0 0 0 0 5 5' > hang/000000/root/proc/diskstats
    echo '8 0 sda 9 0 72 5 0 0 0 0 1 5 5' > hang/000001/root/proc/diskstats
    tar --sort=name -cJf hang.tar.xz hang

'/etc/fstab' may hold passwords of network file systems: of its options only those of `_RECORDED`
are written, '*' for any other; a user ahead of a server's name is '*', and comments are empty.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from iowarden.collectors.filesystem.mountinfo import FSTAB
from iowarden.collectors.machine import LIMIT_BYTES, Root
from iowarden.collectors.model import AbsentError, GivenError, ReadError
from iowarden.collectors.recording import archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iowarden.collectors.source import Source

T = TypeVar("T")

FORMAT = "iowarden-recording"
VERSION = 1
_HEADER = "recording.json"
_CLOCK = "clock"
_GONE = "gone"
_UEVENTS = "/.uevents"
_READ = "/.read"
LIMIT_FRAME_BYTES = 64 * 1024 * 1024
LIMIT_MACHINE_BYTES = 256 * 1024 * 1024
"""Of all texts and paths that are there at one time; 480 disks have 6 MB."""
_PAGE_SIZES_BYTES = tuple(2**power for power in range(10, 21))
"""More than Linux has on any machine; arch/arm64/Kconfig: 4, 16 or 64 KiB."""
_USUAL_PAGE_SIZE_BYTES = 4096
LIMIT_PARTS = 100
"""Of a path; in /sys there are some 30."""
_ENTRY_BYTES = 512
"""What Python needs for an entry beside its text and its path."""

_RECORDED = frozenset(
    "defaults ro rw auto noauto nofail user users nouser owner group _netdev atime noatime relatime"
    " norelatime strictatime nodiratime lazytime nolazytime suid nosuid dev nodev exec noexec sync"
    " async dirsync bind rbind discard nodiscard x-systemd.automount".split()
)
"""What is no secret whatever the file system. Source: mount(8), 'filesystem-independent'."""


class RecordingError(GivenError):
    """A recording is not what the format says."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of a recording, by the machine's two clocks."""

    number: int
    monotonic_seconds: float
    realtime_seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """A frame with what changed in it: contents by path, None for a directory; what vanished."""

    frame: Frame
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    gone: Sequence[str] = ()
    uevents: str = ""
    """What the kernel announced since the frame before."""
    read: Sequence[str] = ()
    """The sources that have read something new since then."""


class Changes:
    """What the sources see, as what changed from frame to frame. For one thread at a time."""

    def __init__(self) -> None:
        """Nothing was seen."""
        # By source what its last run saw; to the end comes which ran last, and its text counts.
        self._seen: dict[str, dict[str, bytes | None]] = {}
        self._told: dict[str, bytes | None] = {}
        self._touched: set[str] = set()
        self._read: set[str] = set()

    def take(self, source: str, seen: Mapping[str, bytes]) -> None:
        """Take all that one run of a source has read, as Root tells it to `seen`.

        A path with '/' at its end is a directory of these names. What only the run before has seen
        is gone; a source that does not run keeps what it saw.
        """
        before = self._seen.pop(source, {})
        after = _tree(seen)
        if after == before:
            after = before  # else each text would be in memory twice
        else:
            self._read.add(source)
        self._seen[source] = after
        told = self._told
        self._touched |= before.keys() - after.keys()
        self._touched.update(p for p, c in after.items() if p not in told or told[p] != c)

    def step(self, frame: Frame, uevents: str = "") -> Step:
        """Return what changed since the step before."""
        files: dict[str, bytes | None] = {}
        gone: list[str] = []
        told = self._told
        for path in sorted(self._touched):
            known = [tree[path] for tree in self._seen.values() if path in tree]
            if not known:
                if path in told:
                    gone.append(path)
                    del told[path]
                continue
            content = next((c for c in reversed(known) if c is not None), None)
            if path in told:
                if told[path] == content:
                    continue
                if (told[path] is None) != (content is None):
                    gone.append(path)
            files[path] = told[path] = content
        self._touched.clear()
        read, self._read = sorted(self._read), set()
        return Step(frame, files, gone, uevents, read)


def _tree(seen: Mapping[str, bytes]) -> dict[str, bytes | None]:
    files: dict[str, bytes | None] = {}
    tree: dict[str, bytes | None] = {}
    for path, content in seen.items():
        if not path.endswith("/"):
            files[path] = without_secrets(content) if path == FSTAB else content
            continue
        tree[path[:-1]] = None
        for name in content.split(b"\n") if content else ():
            tree[path + os.fsdecode(name)] = None
    tree.update(files)
    return tree


def watched(source: Source[T], take: Callable[[str, Mapping[str, bytes]], object]) -> Source[T]:
    """Return the source such that `take` gets its name and all that each run has read.

    In the thread that reads, when the run has ended; one that hangs gives nothing until then.
    """

    def watching(root: Root, read: Callable[[], T]) -> T:
        seen: dict[str, bytes] = {}
        root.watch(seen.__setitem__)
        try:
            return read()
        finally:
            root.watch(None)
            take(source.name, seen)

    parts = source.parts
    return replace(
        source,
        read=lambda root: watching(root, lambda: source.read(root)),
        parts=parts and (lambda root, enter: watching(root, lambda: parts(root, enter))),
    )


class _Sink(Protocol):
    """Where a recording is written."""

    def add(self, name: str, content: bytes | None) -> None:
        """Write a file, or with None a directory."""

    def close(self) -> None:
        """Write the end."""

    def abandon(self) -> None:
        """Leave it as it is."""


class _Directory:
    def __init__(self, path: str) -> None:
        self._path = path

    def add(self, name: str, content: bytes | None) -> None:
        target = os.fsencode(f"{self._path}/{name}")
        if content is None:
            os.makedirs(target, exist_ok=True)
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not name.endswith("/" + _CLOCK):
            _write(target, content)
            return
        _write(target + b".draft", content)
        os.rename(target + b".draft", target)

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class Recorder:
    """Writes a recording, frame by frame: an archive by its suffix, else a directory.

    Errors: RecordingError when there is something by that name already; OSError of writing.
    """

    def __init__(self, path: str, page_size_bytes: int, note: str = "") -> None:
        """Begin a recording; its directory is made when it is not there."""
        packed = path.endswith(archive.SUFFIXES)
        header = path if packed else os.path.join(path, _HEADER)
        if os.path.lexists(header):
            raise RecordingError(f"'{header}': expected no recording there, got one; name another")
        self._sink: _Sink = archive.Writer(path) if packed else _Directory(path)
        self._sink.add(_HEADER, _header(page_size_bytes, note))
        self.frames = 0
        self._changes = Changes()
        self._source = ""
        self._seen: dict[str, dict[str, bytes]] = {}

    def begin(self, source: str) -> None:
        """Say that this source runs now; what it reads then comes by `root_seen`."""
        self._seen[source] = {}
        self._source = source

    def root_seen(self, path: str, content: bytes) -> None:
        """Take what a Root has read."""
        self._seen.setdefault(self._source, {})[path] = content

    def frame(self, monotonic_seconds: float, realtime_seconds: float) -> None:
        """Write a frame of what changed since the frame before."""
        for source, seen in self._seen.items():
            self._changes.take(source, seen)
        self._seen = {}
        self.write(self._changes.step(Frame(self.frames, monotonic_seconds, realtime_seconds)))

    def write(self, step: Step) -> None:
        """Write a frame; its number is the next one."""
        _add(self._sink, step, replace(step.frame, number=self.frames))
        self.frames += 1

    def close(self) -> None:
        """Write the end. Errors: OSError."""
        self._sink.close()

    def abandon(self) -> None:
        """Leave it as it is, after an error; what was written plays up to there."""
        self._sink.abandon()


def _add(sink: _Sink, step: Step, frame: Frame) -> None:
    base = f"{frame.number:06d}"
    sink.add(base + "/root", None)
    for path, content in step.files.items():
        sink.add(f"{base}/root{path}", content)
    if step.uevents:
        sink.add(f"{base}/root{_UEVENTS}", step.uevents.encode())
    if step.read:
        sink.add(f"{base}/root{_READ}", "".join(f"{name}\n" for name in step.read).encode())
    if step.gone:
        sink.add(f"{base}/{_GONE}", os.fsencode("\n".join(sorted(step.gone)) + "\n"))
    text = (
        f"monotonic_seconds {frame.monotonic_seconds:.6f}\n"
        f"realtime_seconds {frame.realtime_seconds:.6f}\n"
    )
    sink.add(f"{base}/{_CLOCK}", text.encode())


class Recording:
    """A recording that is read, step by step. It may come from a stranger.

    Limits: `LIMIT_BYTES` a text, `LIMIT_FRAME_BYTES` a frame, `LIMIT_MACHINE_BYTES` for what is
    there at one time. Errors: RecordingError, naming the frame.
    """

    def __init__(self, path: str) -> None:
        """Read the header."""
        self._path = path
        self._packed: Iterator[Step] | None = None
        if os.path.isdir(path) or not os.path.exists(path):
            self.page_size_bytes, self.note = _read_header(path)
        else:
            self.page_size_bytes, self.note = _packed_header(path)
            self._packed = _packed_steps(path)
        self._last: Frame | None = None
        self._sizes: dict[str, int] = {}
        self._size_bytes = 0

    def next(self) -> Step | None:
        """Return the next step; None when it is not there (yet)."""
        number = 0 if self._last is None else self._last.number + 1
        if self._packed is not None:
            step = next(self._packed, None)
        else:
            step = _read_step(self._path, number)
        if step is None:
            return None
        place = f"'{_frame_path(self._path, step.frame.number)}"
        if step.frame.number != number:
            raise RecordingError(
                f"{place}': expected frame {number:06d}, got this one; frames go in order and"
                " without holes: pack them with 'tar --sort=name'"
            )
        if self._last and step.frame.monotonic_seconds < self._last.monotonic_seconds:
            raise RecordingError(
                f"{place}/{_CLOCK}': expected monotonic_seconds"
                f" of at least {self._last.monotonic_seconds}, got {step.frame.monotonic_seconds}"
            )
        for gone in step.gone:
            self._size_bytes -= self._sizes.pop(gone, 0)
        for name, content in step.files.items():
            if name.count("/") > LIMIT_PARTS:
                raise RecordingError(
                    f"{place}': expected paths of at most {LIMIT_PARTS} parts, got '{name[:80]}...'"
                )
            size_bytes = _size_bytes(name, content)
            self._size_bytes += size_bytes - self._sizes.get(name, 0)
            self._sizes[name] = size_bytes
        if self._size_bytes > LIMIT_MACHINE_BYTES:
            raise RecordingError(
                f"{place}': expected at most {LIMIT_MACHINE_BYTES} bytes of all texts and paths,"
                f" got {self._size_bytes}"
            )
        self._last = step.frame
        return step


_MEMBER = re.compile(r"(?:\./)?(?:[^/]+/)?(\d{6,9})/(root(?:/.*)?|clock|gone)/?", re.DOTALL)
_PACKED_HEADER = re.compile(rf"(?:\./)?(?:[^/]+/)?{re.escape(_HEADER)}")


def _packed_header(path: str) -> tuple[int, str]:
    """Return page size and note; 'tar --sort=name' puts them last, where a cut takes them first."""
    name, frames = "", False
    try:
        for name, content in archive.members(path):
            if content is not None and _PACKED_HEADER.fullmatch(name):
                return _parse_header(f"{path}/{name}", content)
            frames = frames or _MEMBER.fullmatch(name) is not None
    except archive.ArchiveError as error:
        if frames:
            return _USUAL_PAGE_SIZE_BYTES, ""
        place = f"'{path}' after '{name[:200]}'" if name else f"'{path}'"
        raise RecordingError(f"{place}: {error}; '{_HEADER}' had not come yet") from error
    raise RecordingError(f"'{path}': expected a recording with '{_HEADER}' in it, got none")


def _packed_steps(path: str) -> Iterator[Step]:
    """Yield the frames of an archive; one that is cut off or damaged has those before."""
    number, headed = "", False
    parts: dict[str, bytes | None] = {}
    size_bytes = 0
    try:
        for name, content in archive.members(path):
            match = _MEMBER.fullmatch(name)
            if match is None:
                headed = headed or _PACKED_HEADER.fullmatch(name) is not None
                if name.startswith("/") or ".." in name.split("/"):
                    raise archive.ArchiveError(
                        f"'{name[:200]}': expected a path below the recording"
                    )
                continue
            if match[1] != number:
                if number:
                    yield _step(path, number, parts)
                number, parts, size_bytes = match[1], {}, 0
            parts[match[2]] = content
            size_bytes += _size_bytes(name, content)
            if size_bytes > LIMIT_FRAME_BYTES:
                raise archive.ArchiveError(f"expected at most {LIMIT_FRAME_BYTES} bytes a frame")
    except archive.ArchiveError as error:
        assumed = (
            f"; '{_HEADER}' had not come yet: a page is taken for {_USUAL_PAGE_SIZE_BYTES} bytes"
        )
        raise RecordingError(
            f"'{path}/{number or '000000'}': {error}{'' if headed else assumed}"
        ) from error
    if number:
        yield _step(path, number, parts)
    else:
        raise RecordingError(f"'{path}/000000': expected a complete frame, got none")


def _step(path: str, number: str, parts: dict[str, bytes | None]) -> Step:
    place = f"{path}/{number}"
    clock, gone = parts.pop(_CLOCK, None), parts.pop(_GONE, None)
    if clock is None:
        raise RecordingError(f"'{place}/{_CLOCK}': expected a frame's clock, got none")
    frame = _parse_clock(f"{place}/{_CLOCK}", clock.decode(errors="backslashreplace"), int(number))
    files = {name[4:].rstrip("/"): content for name, content in parts.items() if len(name) > 5}
    for name in files:
        if {"", ".", ".."} & set(name[1:].split("/")) or "\0" in name:
            raise RecordingError(f"'{place}': expected paths without '..', got '{name[:200]}'")
    return _step_of(frame, files, _parse_gone(f"{place}/{_GONE}", gone or b""))


def _step_of(frame: Frame, files: dict[str, bytes | None], gone: Sequence[bytes]) -> Step:
    """Return a step, with what is of this frame alone apart from what stays."""
    uevents, read = (
        (files.pop(name, None) or b"").decode(errors="backslashreplace")
        for name in (_UEVENTS, _READ)
    )
    return Step(frame, files, [os.fsdecode(line) for line in gone], uevents, read.split())


def _size_bytes(path: str, content: bytes | None) -> int:
    """Return about what a text takes in memory; each directory above it is a path, too."""
    return len(content or b"") + len(path) * path.count("/") + _ENTRY_BYTES


class PlayedRoot(Root):
    """A machine in memory: what a recording has at one moment."""

    def __init__(self, page_size_bytes: int) -> None:
        """Nothing is there before the first step."""
        super().__init__("/recording", page_size_bytes, recorded=True)
        self._contents: dict[str, bytes] = {}
        self._listed: dict[str, set[str]] = {"": set()}

    def apply(self, step: Step) -> None:
        """Take the next step."""
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
        return self._tell(path, content)

    def read_kept(self, path: str) -> str:
        """Return the text of a file. Errors: AbsentError."""
        return self.read_bytes(path).decode(errors="backslashreplace")

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory. Errors: AbsentError."""
        listed = self._listed.get(path.rstrip("/"))
        if listed is None:
            raise AbsentError(f"'{path}': No such file or directory")
        return self._tell_names(path, listed)

    def another(self, seen: Callable[[str, bytes], None] | None = None) -> Self:
        """Return the same machine for another thread, which sees each step that this one takes."""
        found = copy.copy(self)
        found.watch(seen)
        return found

    def _tell(self, path: str, content: bytes) -> bytes:
        if len(content) > LIMIT_BYTES:
            raise ReadError(f"'{path}': expected at most {LIMIT_BYTES} bytes, got more")
        self.last = (path, content)
        if self._seen is not None:
            self._seen(path, content)
        return content

    def _tell_names(self, path: str, listed: Iterable[str]) -> list[str]:
        names = sorted(listed)
        if self._seen is not None:
            self._seen(path + "/", "\n".join(names).encode(errors="surrogateescape"))
        return names


class Player:
    """Plays a recording into a directory that a Root is opened on.

    Files are overwritten in place, so descriptors that are kept open see the change.
    Errors: RecordingError.
    """

    def __init__(self, path: str, root_directory: str) -> None:
        """Read the header; the first `advance` makes frame 0 appear in `root_directory`."""
        self._recording = Recording(path)
        self.page_size_bytes, self.note = self._recording.page_size_bytes, self._recording.note
        if os.path.isdir(path) and not os.path.exists(os.path.join(_frame_path(path, 0), _CLOCK)):
            raise RecordingError(f"'{path}/000000': expected a complete frame, got none")
        self._root = os.fsencode(root_directory)
        os.makedirs(root_directory, exist_ok=True)

    def advance(self) -> Frame | None:
        """Apply the next frame and return it; None when it is not there (yet)."""
        step = self._recording.next()
        if step is None:
            return None
        for path in step.gone:
            _remove(self._root + os.fsencode(path))
        for path, content in step.files.items():
            target = self._root + os.fsencode(path)
            if content is None:
                _make_directory(target)
                continue
            _make_directory(os.path.dirname(target))
            if os.path.isdir(target):
                _remove(target)
            _write_over(target, content)
        return step.frame


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
    _Directory(directory).add(_HEADER, _header(page_size_bytes, note))


def write_frame(
    directory: str, frame: Frame, files: Mapping[str, bytes | None], gone: Sequence[str] = ()
) -> None:
    """Write one frame by hand: `files` are path and content, None for a directory."""
    _add(_Directory(directory), Step(frame, files, gone), frame)


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
    texts: dict[str, bytes] = {}
    for frame in read_frames(directory):
        last = frame
        for path in IDLE:
            name = _frame_path(directory, frame.number) + "/root" + path
            if os.path.isfile(name):
                with open(name, "rb") as file:
                    texts[path] = file.read()
    if last is None:
        raise RecordingError(f"'{directory}': expected at least frame '000000', got none")
    for step in idle_steps(last, texts, count, step_seconds):
        write_frame(directory, step.frame, step.files)


def idle_steps(
    last: Frame, texts: Mapping[str, bytes], count: int, step_seconds: float = 1.0
) -> Iterator[Step]:
    """Yield steps in which a machine does nothing; `texts`: the last of those of `IDLE`."""
    said = {path: text.decode(errors="surrogateescape") for path, text in texts.items()}
    files = {path: _substituted(text, IDLE[path]) for path, text in said.items()}
    for step in range(1, count + 1):
        elapsed = step * step_seconds
        if _UPTIME in files:
            files[_UPTIME] = _later(said[_UPTIME], elapsed)
        frame = Frame(
            last.number + step, last.monotonic_seconds + elapsed, last.realtime_seconds + elapsed
        )
        yield Step(
            frame, {path: text.encode(errors="surrogateescape") for path, text in files.items()}
        )
        files = {path: text for path, text in files.items() if path == _UPTIME}


_UPTIME = "/proc/uptime"
_PRESSURE = ((re.compile(r"(avg\d+)=[\d.]+"), r"\1=0.00"),)
IDLE: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
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
"""What tells of load, and how it reads without any."""


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
        with open(path, "rb") as file:
            return _parse_header(path, file.read(LIMIT_BYTES))
    except OSError as error:
        raise RecordingError(
            f"'{path}': expected a recording's header, got: {error.strerror}"
        ) from error


def _parse_header(path: str, text: bytes) -> tuple[int, str]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"'{path}': expected JSON, got: {error}") from error
    found = (
        {key: header.get(key) for key in ("format", "version")}
        if isinstance(header, dict)
        else header
    )
    if found != {"format": FORMAT, "version": VERSION}:
        raise RecordingError(
            f"'{path}': expected format '{FORMAT}', version {VERSION}, got {found!r:.200}"
        )
    page_size_bytes = header.get("page_size_bytes")
    if page_size_bytes not in _PAGE_SIZES_BYTES or not isinstance(page_size_bytes, int):
        raise RecordingError(
            f"'{path}': expected page_size_bytes, a power of two from {_PAGE_SIZES_BYTES[0]} to"
            f" {_PAGE_SIZES_BYTES[-1]}, got {page_size_bytes!r:.40}"
        )
    return page_size_bytes, str(header.get("note", ""))


def _read_frame(directory: str, number: int) -> Frame | None:
    path = os.path.join(_frame_path(directory, number), _CLOCK)
    try:
        with open(path, "rb", opener=_plain) as file:
            text = file.read(LIMIT_BYTES).decode(errors="backslashreplace")
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
    return _parse_clock(path, text, number)


def _parse_clock(path: str, text: str, number: int) -> Frame:
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


def _read_step(directory: str, number: int) -> Step | None:
    frame = _read_frame(directory, number)
    if frame is None:
        return None
    place = _frame_path(directory, number)
    files: dict[str, bytes | None] = {}
    left = LIMIT_FRAME_BYTES
    todo = [(os.fsencode(place) + b"/root", "")]
    while todo:
        source, path = todo.pop()
        for entry in _entries(source):
            name = f"{path}/{os.fsdecode(entry.name)}"
            if entry.is_dir(follow_symlinks=False):
                files[name] = None
                todo.append((entry.path, name))
                continue
            if not entry.is_file(follow_symlinks=False):
                raise RecordingError(
                    f"{entry.path!r}: expected a file or a directory, got another kind"
                )
            content = _read_file(entry.path, left)
            left -= len(content)
            files[name] = content
    return _step_of(frame, files, _read_gone(place))


def _plain(path: str, flags: int) -> int:
    """Open a file, but follow no link out of the recording and wait for no FIFO."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _entries(directory: bytes) -> list[os.DirEntry[bytes]]:
    if os.path.islink(directory):
        raise RecordingError(f"{directory!r}: expected a directory, got a link")
    try:
        return list(os.scandir(directory))
    except FileNotFoundError:
        return []
    except OSError as error:
        message = f"{directory!r}: expected a directory, got: {error.strerror}"
        raise RecordingError(message) from error


def _read_file(path: bytes, limit_bytes: int) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(limit_bytes + 1)
    except OSError as error:
        raise RecordingError(f"{path!r}: expected a file, got: {error.strerror}") from error
    if len(content) > limit_bytes:
        raise RecordingError(f"{path!r}: expected at most {LIMIT_FRAME_BYTES} bytes in a frame")
    return content


def _read_gone(directory: str) -> list[bytes]:
    path = os.path.join(directory, _GONE)
    try:
        with open(path, "rb", opener=_plain) as file:
            return _parse_gone(path, file.read(LIMIT_FRAME_BYTES))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordingError(
            f"'{path}': expected paths, one a line, got: {error.strerror}"
        ) from error


def _parse_gone(path: str, text: bytes) -> list[bytes]:
    gone = [line for line in text.split(b"\n") if line]
    for line in gone:
        # A recording may come from a stranger: nothing outside the root is ever touched.
        if not line.startswith(b"/") or not line.strip(b"/") or b".." in line.split(b"/"):
            raise RecordingError(
                f"'{path}': expected absolute paths without '..', got {line[:80]!r}"
            )
    return gone


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
