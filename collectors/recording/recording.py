r"""Format of recordings: what the collectors read on a machine, frame by frame, for replay.

A recording holds 'recording.json' (format, version, page size, note) and one directory per frame,
'000000' and on without gaps. In a frame: 'root/' with the files whose text changed since the frame
before (in frame 0 all), as read; directories that were listed; what was listed and never read as an
empty directory. 'gone': removed paths, one per line. 'hangs': paths that do not answer, one per
line; with a directory all below it, until a later frame has the path in 'root/' or 'gone'.
'clock': 'monotonic_seconds <n>' and 'realtime_seconds <n>'; it comes last, by rename, so a frame
that has one is complete.

Data that are in no file have a path that no machine has: 'root/.../.statvfs' in a mount point for
its statvfs; 'root/.probe/<verb> <arguments>' (their '/' as '!') for the probe's answer. Of this
frame alone: 'root/.uevents', the kernel's uevents ('<action> <device> <diskseq or ->' a line), and
'root/.read', the collectors that then read something new, one name per line: a replay runs them
then, and the others as they are due.

It is a directory of texts, or an archive of one ('.tar.xz', '.tar.gz') with the frames in order.
Both may be written by hand. Example: a disk that hangs in its second frame:

    mkdir -p hang/000000/root/proc hang/000001/root/proc
    echo '{"format": "iowarden-recording", "version": 1, "page_size_bytes": 4096}' \
        > hang/recording.json
    printf 'monotonic_seconds 600\nrealtime_seconds 1795000000\n' > hang/000000/clock
    printf 'monotonic_seconds 601\nrealtime_seconds 1795000001\n' > hang/000001/clock
    echo '8 0 sda 9 0 72 5 0 0 0 0 0 5 5' > hang/000000/root/proc/diskstats
    echo '8 0 sda 9 0 72 5 0 0 0 0 1 5 5' > hang/000001/root/proc/diskstats
    tar --sort=name -cJf hang.tar.xz hang
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.machine import MAX_BYTES
from iowarden.collectors.model import UserInputError
from iowarden.collectors.recording import archive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FORMAT = "iowarden-recording"
VERSION = 1
HEADER = "recording.json"
CLOCK = "clock"
GONE = "gone"
HANGS = "hangs"
UEVENTS = "/.uevents"
READ = "/.read"
MAX_FRAME_BYTES = 64 * 1024 * 1024
MAX_MACHINE_BYTES = 256 * 1024 * 1024
"""Maximum of all texts and paths at one time; 480 disks have 6 MB."""
_PAGE_SIZES_BYTES = tuple(2**power for power in range(10, 21))
"""More than Linux has on any machine; arch/arm64/Kconfig: 4, 16 or 64 KiB."""
_USUAL_PAGE_SIZE_BYTES = 4096
MAX_PARTS = 100
"""Maximum parts of a path; in /sys there are some 30."""
_ENTRY_BYTES = 512
"""Memory of Python for an entry in addition to its text and its path."""


_NEXT = "name a directory or archive of 'iowarden record'"
"""What to do about a path that is no recording."""


class RecordingError(UserInputError):
    """A recording violates the format."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of a recording, by the two clocks of the machine."""

    number: int
    monotonic_seconds: float
    realtime_seconds: float


@dataclass(frozen=True, slots=True)
class RecordingStep:
    """A frame with its changes: contents by path, None for a directory; removed paths.

    `hangs`: paths whose readers wait from now on, until one of them is in `files` or `gone`.
    """

    frame: Frame
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    gone: Sequence[str] = ()
    uevents: str = ""
    """Uevents since the frame before."""
    read: Sequence[str] = ()
    """The collectors that have read something new since then."""
    hangs: Sequence[str] = ()


class Recording:
    """A recording that is read step by step. It may come from a stranger.

    Limits: `MAX_BYTES` a text, `MAX_FRAME_BYTES` a frame, `MAX_MACHINE_BYTES` for the content
    at one time. Errors: RecordingError, naming the frame.
    """

    def __init__(self, path: str) -> None:
        """Read the header."""
        self._path = path
        self._packed: Iterator[RecordingStep] | None = None
        if os.path.isdir(path) or not os.path.exists(path):
            self.page_size_bytes, self.note = _read_header(path)
        else:
            self.page_size_bytes, self.note = _packed_header(path)
            self._packed = _packed_steps(path)
        self._last: Frame | None = None
        self._sizes: dict[str, int] = {}
        self._size_bytes = 0

    def next(self) -> RecordingStep | None:
        """Return the next step; None if it does not exist (yet)."""
        number = 0 if self._last is None else self._last.number + 1
        if self._packed is not None:
            step = next(self._packed, None)
        else:
            step = _read_step(self._path, number)
        if step is None:
            return None
        place = f"'{frame_path(self._path, step.frame.number)}"
        if step.frame.number != number:
            raise RecordingError(
                f"{place}': expected frame {number:06d}, got this one; frames must be in order and"
                " without gaps: pack them with 'tar --sort=name'"
            )
        if self._last and step.frame.monotonic_seconds < self._last.monotonic_seconds:
            raise RecordingError(
                f"{place}/{CLOCK}': expected monotonic_seconds"
                f" of at least {self._last.monotonic_seconds}, got {step.frame.monotonic_seconds}"
            )
        for gone in step.gone:
            self._size_bytes -= self._sizes.pop(gone, 0)
        for name, content in step.files.items():
            if name.count("/") > MAX_PARTS:
                raise RecordingError(
                    f"{place}': expected paths of at most {MAX_PARTS} parts, got '{name[:80]}...'"
                )
            size_bytes = _size_bytes(name, content)
            self._size_bytes += size_bytes - self._sizes.get(name, 0)
            self._sizes[name] = size_bytes
        if self._size_bytes > MAX_MACHINE_BYTES:
            raise RecordingError(
                f"{place}': expected at most {MAX_MACHINE_BYTES} bytes of all texts and paths,"
                f" got {self._size_bytes}"
            )
        self._last = step.frame
        return step


_MEMBER = lazy_pattern(r"(?:\./)?(?:[^/]+/)?(\d{6,9})/(root(?:/.*)?|clock|gone|hangs)/?", re.DOTALL)
_NUMBER = lazy_pattern(r"\d{6,9}", re.ASCII)
_PACKED_HEADER = lazy_pattern(rf"(?:\./)?(?:[^/]+/)?{re.escape(HEADER)}")


def _packed_header(path: str) -> tuple[int, str]:
    """Return page size and note; 'tar --sort=name' puts them last, often truncated."""
    name, frames = "", False
    try:
        for name, content in archive.members(path):
            if content is not None and _PACKED_HEADER.fullmatch(name):
                return _parse_header(f"{path}/{name}", content)
            frames = frames or _MEMBER.fullmatch(name) is not None
    except archive.ArchiveError as error:
        if frames:
            return _USUAL_PAGE_SIZE_BYTES, ""
        if not name:
            raise RecordingError(f"'{path}': {error}; {_next(error.__cause__)}") from error
        raise RecordingError(
            f"'{path}' after '{name[:200]}': {error}; '{HEADER}' was not read yet; {_NEXT}"
        ) from error
    raise RecordingError(f"'{path}': expected a recording with '{HEADER}' in it, got none; {_NEXT}")


def count_frames(path: str) -> int:
    """Return the number of frames in a recording, as far as it can be read."""
    if os.path.isdir(path):
        return sum(_NUMBER.fullmatch(name) is not None for name in os.listdir(path))
    found = set()
    try:
        for name, _ in archive.members(path):
            if (match := _MEMBER.fullmatch(name)) is not None:
                found.add(match[1])
    except archive.ArchiveError:  # the replay reports it
        pass
    return len(found)


def _packed_steps(path: str) -> Iterator[RecordingStep]:
    """Yield the frames of an archive; of a truncated or damaged one those before the fault."""
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
            if size_bytes > MAX_FRAME_BYTES:
                raise archive.ArchiveError(f"expected at most {MAX_FRAME_BYTES} bytes a frame")
    except archive.ArchiveError as error:
        assumed = (
            f"; '{HEADER}' was not read yet: a page size is assumed of"
            f" {_USUAL_PAGE_SIZE_BYTES} bytes"
        )
        raise RecordingError(
            f"'{path}/{number or '000000'}': {error}{'' if headed else assumed}"
        ) from error
    if number:
        yield _step(path, number, parts)
    else:
        raise RecordingError(f"'{path}/000000': expected a complete frame, got none")


def _step(path: str, number: str, parts: dict[str, bytes | None]) -> RecordingStep:
    place = f"{path}/{number}"
    clock, gone, hangs = (parts.pop(name, None) for name in (CLOCK, GONE, HANGS))
    if clock is None:
        raise RecordingError(f"'{place}/{CLOCK}': expected a frame's clock, got none")
    frame = _parse_clock(f"{place}/{CLOCK}", clock.decode(errors="backslashreplace"), int(number))
    files = {name[4:].rstrip("/"): content for name, content in parts.items() if len(name) > 5}
    for name in files:
        if {"", ".", ".."} & set(name[1:].split("/")) or "\0" in name:
            raise RecordingError(f"'{place}': expected paths without '..', got '{name[:200]}'")
    return _step_of(
        frame,
        files,
        _parse_paths(f"{place}/{GONE}", gone or b""),
        _parse_paths(f"{place}/{HANGS}", hangs or b""),
    )


def _step_of(
    frame: Frame, files: dict[str, bytes | None], gone: Sequence[str], hangs: Sequence[str]
) -> RecordingStep:
    """Return a step; what concerns only this frame is separated from what remains."""
    uevents, read = (
        (files.pop(name, None) or b"").decode(errors="backslashreplace") for name in (UEVENTS, READ)
    )
    return RecordingStep(frame, files, gone, uevents, read.split(), hangs)


def _size_bytes(path: str, content: bytes | None) -> int:
    """Return the approximate memory of a text; each directory above it is a path, too."""
    return len(content or b"") + len(path) * path.count("/") + _ENTRY_BYTES


def frame_path(directory: str, number: int) -> str:
    """Return the path of a frame in a directory."""
    return f"{directory}/{number:06d}"


def _read_header(directory: str) -> tuple[int, str]:
    path = os.path.join(directory, HEADER)
    try:
        with open(path, "rb") as file:
            return _parse_header(path, file.read(MAX_BYTES))
    except OSError as error:
        raise RecordingError(
            f"'{path}': expected a recording's header, got: {error.strerror}; {_next(error)}"
        ) from error


def _next(error: BaseException | None) -> str:
    """Return what to do about a path that cannot be read, or that is no recording."""
    return "read it as root" if isinstance(error, PermissionError) else _NEXT


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
    path = os.path.join(frame_path(directory, number), CLOCK)
    try:
        with open(path, "rb", opener=_plain) as file:
            text = file.read(MAX_BYTES).decode(errors="backslashreplace")
    except FileNotFoundError:
        later = os.path.exists(os.path.join(frame_path(directory, number + 1), CLOCK))
        # Both may have been created between the two checks, while another program writes frames.
        if later and not os.path.exists(path):
            raise RecordingError(
                f"'{path}': expected every frame up to the last, got a gap"
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


_CLOCK_TEXT = lazy_pattern(
    r"monotonic_seconds (\d{1,12}(?:\.\d{1,12})?)\nrealtime_seconds (\d{1,12}(?:\.\d{1,12})?)\s*",
    re.ASCII,
)


def _read_step(directory: str, number: int) -> RecordingStep | None:
    frame = _read_frame(directory, number)
    if frame is None:
        return None
    place = frame_path(directory, number)
    files: dict[str, bytes | None] = {}
    left = MAX_FRAME_BYTES
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
    return _step_of(frame, files, _read_paths(place, GONE), _read_paths(place, HANGS))


def _plain(path: str, flags: int) -> int:
    """Open a file, but follow no link out of the recording and do not wait for a FIFO."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _entries(directory: bytes) -> list[os.DirEntry[bytes]]:
    if os.path.islink(directory):
        raise RecordingError(f"{directory!r}: expected a directory, got a link")
    try:
        return list(os.scandir(directory))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordingError(
            f"{directory!r}: expected a directory, got: {error.strerror}"
        ) from error


def _read_file(path: bytes, limit_bytes: int) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(limit_bytes + 1)
    except OSError as error:
        raise RecordingError(f"{path!r}: expected a file, got: {error.strerror}") from error
    if len(content) > limit_bytes:
        raise RecordingError(f"{path!r}: expected at most {MAX_FRAME_BYTES} bytes in a frame")
    return content


def _read_paths(directory: str, name: str) -> list[str]:
    path = os.path.join(directory, name)
    try:
        with open(path, "rb", opener=_plain) as file:
            return _parse_paths(path, file.read(MAX_FRAME_BYTES))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordingError(
            f"'{path}': expected paths, one a line, got: {error.strerror}"
        ) from error


def _parse_paths(path: str, text: bytes) -> list[str]:
    lines = [line for line in text.split(b"\n") if line]
    for line in lines:
        # A recording may come from a stranger: nothing outside the root is ever changed.
        if not line.startswith(b"/") or not line.strip(b"/") or b".." in line.split(b"/"):
            raise RecordingError(
                f"'{path}': expected absolute paths without '..', got {line[:80]!r}"
            )
    return [os.fsdecode(line) for line in lines]
