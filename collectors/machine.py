"""Single access to the kernel: '/proc', '/sys' and statvfs, of this machine or a recording."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from iowarden.collectors.model import AbsentError, ReadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Probe = Callable[[str, Sequence[str], float], str]
    """Verb, arguments, seconds; returns the answer of the probe as JSON.

    Errors: as `Machine.query_probe`.
    """

MAX_BYTES = 4 * 1024 * 1024
"""Larger than any kernel text that is read: 5,000 lines of '/proc/diskstats' are 0.6 MB."""

_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_CHUNK_BYTES = 65_536
"""Above 128 KiB each read maps and unmaps its buffer: three times the cost of '/proc/stat'."""

_RECORD_BYTES = 8192
"""A buffer that holds most files of a task."""
_MISSING_READS = 60
"""Of a kernel's file that does not exist: so many later reads do not look for it again."""
_PAGE_BYTES = 4096
"""One read returns a whole attribute of sysfs up to this length: the smallest size of a page.

Source: kernel, filesystems/sysfs.rst, "Reading/Writing Attribute Data".
"""

PROBE = "/.probe/"
"""In a recording: the directory of the probe's answers."""

STATVFS = "/.statvfs"
"""In a recording: the file, in a mount point, with the text of statvfs."""

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP})
# EOPNOTSUPP: pressure stall information compiled in but disabled (kernel, accounting/psi.rst).
# ENODEV: an open descriptor of a removed device; reopening shows if it exists again.


class Machine:
    """A machine: the directory that contains its '/proc' and '/sys' ('/' is this machine).

    Descriptors of files read by `read_cached_open` stay open: a pread costs a tenth of an open. Not
    thread-safe; each thread uses its own Machine. A machine that is no directory overrides
    `read_bytes`, `read_cached_open`, `names` and `another`; all else is built on them. Limits: a
    file over `MAX_BYTES` is a ReadError, never read further.
    """

    def __init__(
        self,
        path: str = "/",
        page_size_bytes: int | None = None,
        seen: Callable[[str, bytes], None] | None = None,
        *,
        recorded: bool = False,
        probe: Probe | None = None,
    ) -> None:
        """Open nothing yet. `seen` is called with every text read and every directory listed.

        `recorded`: a recording is played, where an empty directory was listed and never read.
        `probe` queries the helper that runs as root; None: no probe.
        """
        self.path = path.rstrip("/")
        self.page_size_bytes = page_size_bytes or os.sysconf("SC_PAGE_SIZE")
        self._open_files: dict[str, int] = {}
        self._missing: dict[str, tuple[int, str]] = {}
        """By file that did not exist: how many reads do not look for it, and the error."""
        self._watcher = seen
        self._recorded = recorded
        self._probe = probe
        self.last: tuple[str, bytes] = ("", b"")
        """Path and content of the file read last, for the report of a parse error."""
        self.at = ""
        """What is read now, or was last: where a reader that does not return waits."""

    def read(self, path: str) -> str:
        """Return the text of a file that is read rarely; bytes that are no UTF-8 are escaped.

        Errors: AbsentError, ReadError.
        """
        return self.read_bytes(path).decode(errors="backslashreplace")

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file that is read rarely.

        Errors: AbsentError, ReadError.
        """
        self.at = path
        try:
            descriptor = os.open(self.path + path, _READ_ONLY)
        except OSError as error:
            raise translated(path, error) from error
        try:
            return self._content(path, descriptor)
        finally:
            os.close(descriptor)

    def read_cached_open(self, path: str, *, is_record: bool = False) -> str:
        """Return the text of a file that is read every second, through a cached open descriptor.

        `is_record`: as in `try_read_record`. Errors: AbsentError, ReadError; either closes the
        descriptor, so the next call reopens.
        """
        self.at = path
        descriptor = self._open_files.get(path)
        if descriptor is None:
            try:
                descriptor = os.open(self.path + path, _READ_ONLY)
            except OSError as error:
                raise translated(path, error) from error
            self._open_files[path] = descriptor
        try:
            content = self._content(path, descriptor, is_record=is_record)
        except (AbsentError, ReadError):
            os.close(self._open_files.pop(path))
            raise
        if not content:
            # In a replayed machine this may be the rest of a removed file: reopen next time.
            os.close(self._open_files.pop(path))
        return content.decode(errors="backslashreplace")

    def read_optional_record(self, path: str) -> str:
        """Return the text of a record that is read every second and that a kernel may lack.

        Errors: as `read_cached_open`.
        """
        left, error = self._missing.get(path, (0, ""))
        if left:
            self._missing[path] = left - 1, error
            raise AbsentError(error)
        try:
            return self.read_cached_open(path, is_record=True)
        except AbsentError as absent:
            self._missing[path] = _MISSING_READS, str(absent)
            raise

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory.

        Errors: AbsentError, ReadError.
        """
        self.at = path
        try:
            names = sorted(os.listdir(self.path + path))
        except OSError as error:
            raise translated(path, error) from error
        if self._watcher is not None:
            self._watcher(path + "/", "\n".join(names).encode(errors="surrogateescape"))
        return names

    def try_read(self, path: str) -> str | None:
        """Return the text of a file; None if it is missing or unreadable."""
        try:
            return self.read(path)
        except (AbsentError, ReadError):
            return None

    def try_read_record(self, path: str) -> str | None:
        """Return the text of a file that the kernel makes as one record; None as `try_read`.

        One read returns all of it: most files of a task ('stat', 'io', 'cgroup'), no table
        ('mountinfo'). Source: kernel, fs/seq_file.c (single_open, seq_read_iter).
        """
        try:
            descriptor = os.open(self.path + path, _READ_ONLY)
        except OSError:
            return None
        try:
            data = os.read(descriptor, _RECORD_BYTES)
            if len(data) == _RECORD_BYTES:
                data = _to_end(path, descriptor, data)
        except (OSError, ReadError):
            return None
        finally:
            os.close(descriptor)
        self.last = (path, data)
        if self._watcher is not None:
            self._watcher(path, data)
        return data.decode(errors="backslashreplace")

    def try_names(self, path: str) -> list[str] | None:
        """Return the names in a directory; None if it is missing or unreadable."""
        try:
            return self.names(path)
        except (AbsentError, ReadError):
            return None

    def try_link(self, path: str) -> str | None:
        """Return the text of a symbolic link; None if there is none, or it may not be read."""
        try:
            return os.fsdecode(os.readlink(self.path + path))
        except OSError:
            return None

    def statvfs(self, path: str) -> str:
        """Return the statvfs of the file system mounted at `path`, as lines '<name> <number>'.

        'device_number' is that of the directory that was found there. Source: statvfs(3), stat(2).
        Limits: hangs for as long as a network file system does not answer. In a recording the text
        is a file: `path` and STATVFS. Errors: AbsentError, ReadError.
        """
        self.at = name = path.rstrip("/") + STATVFS
        if self.path:
            return self.read(name)
        try:
            # One look-up for both queries; O_PATH needs no permission on the directory itself.
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                found, device = os.fstatvfs(descriptor), os.fstat(descriptor).st_dev
            finally:
                os.close(descriptor)
        except OSError as error:
            raise translated(path, error) from error
        text = (
            f"device_number {os.major(device)}:{os.minor(device)}\n"
            f"block_bytes {found.f_bsize}\n"
            f"fragment_bytes {found.f_frsize}\n"
            f"blocks {found.f_blocks}\n"
            f"blocks_free {found.f_bfree}\n"
            f"blocks_available {found.f_bavail}\n"
            f"files {found.f_files}\n"
            f"files_free {found.f_ffree}\n"
        )
        self.last = (name, text.encode())
        if self._watcher is not None:
            self._watcher(*self.last)
        return text

    def query_probe(self, verb: str, *arguments: str, deadline_seconds: float = 30.0) -> str:
        """Query the probe, which runs as root; return its answer: one JSON object as text.

        Blocks until the deadline at most. In a recording the text is a file, `probe_path`.
        Errors: AbsentError (no probe), ProgramNotFoundError (it has no such program), StuckError,
        DeadlineError (killed at the deadline), ReadError.
        """
        self.at = name = probe_path(verb, arguments)
        if self.path:
            return self.read(name)
        if self._probe is None:
            raise AbsentError(
                f"'{verb}': only root may do that, and the privileged probe is not running"
            )
        text = self._probe(verb, arguments, deadline_seconds)
        self.last = (name, text.encode())
        if self._watcher is not None:
            self._watcher(*self.last)
        return text

    def watch(self, seen: Callable[[str, bytes], None] | None) -> None:
        """Report to `seen`, or to none, from now on what is read and listed."""
        self._watcher = seen

    def another(self, seen: Callable[[str, bytes], None] | None = None) -> Machine:
        """Return the same machine for another thread; `seen` gets what that one reads."""
        return Machine(
            self.path,
            self.page_size_bytes,
            seen,
            recorded=self._recorded,
            probe=self._probe,
        )

    def report_read(self, texts: Iterable[tuple[str, bytes]]) -> None:
        """Report to the watcher what another Machine of this path has read and still has open."""
        if self._watcher is not None:
            for path, content in texts:
                self._watcher(path, content)

    def close(self) -> None:
        """Close the cached descriptors."""
        while self._open_files:
            os.close(self._open_files.popitem()[1])

    def _content(self, path: str, descriptor: int, *, is_record: bool = False) -> bytes:
        try:
            data = os.pread(descriptor, _CHUNK_BYTES, 0)
            if is_record:
                is_whole = len(data) < _CHUNK_BYTES
            else:
                is_whole = len(data) < _PAGE_BYTES and path.startswith("/sys/")
            if data and not is_whole:
                data = _to_end(path, descriptor, data)
        except OSError as error:
            if self._recorded and error.errno == errno.EISDIR:
                raise AbsentError(f"'{path}': not in the recording") from error
            raise translated(path, error) from error
        self.last = (path, data)
        if self._watcher is not None:
            self._watcher(path, data)
        return data


def _to_end(path: str, descriptor: int, first: bytes) -> bytes:
    """Return a file from its first bytes on. Errors: OSError, ReadError."""
    chunks, offset = [first], len(first)
    while chunk := os.pread(descriptor, _CHUNK_BYTES, offset):
        chunks.append(chunk)
        offset += len(chunk)
        if offset > MAX_BYTES:
            raise ReadError(
                f"'{path}': expected at most {MAX_BYTES} bytes, got more; it is not used;"
                " will retry in its next interval"
            )
    return first if len(chunks) == 1 else b"".join(chunks)


def probe_path(verb: str, arguments: Sequence[str]) -> str:
    """Return the path of a probe's answer in a recording: '/.probe/statvfs !srv!backup'."""
    return PROBE + " ".join((verb, *arguments)).replace("/", "!")


def translated(path: str, error: OSError) -> AbsentError | ReadError:
    """Return the collector error for an error of the kernel."""
    text = f"'{path}': {os.strerror(error.errno or 0)}"
    # For example a disabled or unconnected sensor (hwmon/sysfs-interface.rst).
    no_value = error.errno == errno.ENODATA and path.startswith("/sys/")
    return AbsentError(text) if no_value or error.errno in _ABSENT else ReadError(text)
