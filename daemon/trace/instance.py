"""A trace buffer of its own in tracefs, which exists only while it is read.

*Source:* kernel, trace/ftrace.rst, 'Instances', and trace/events.rst, 'TraceEvent filtering'. Other
users of tracing are not disturbed, nor do they see these events. rmdir fails while a file in it is
open.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Self

from iowarden.collectors.kernel.tracing import DIRECTORY
from iowarden.collectors.model import ReadError
from iowarden.daemon.trace.formats import parse_event, parse_page_header
from iowarden.daemon.trace.pages import COMPLETE, ISSUE, NAMES, REQUEUE, Decoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from iowarden.daemon.trace.pages import TraceEvent

PREFIX = "iowarden-"
MAX_BUFFER_KIB = 32 * 1024
"""Of the kernel's memory, for all processors together."""
_PER_CPU_KIB = (128, 4096)
"""At most 40,000 events, while the reader waits for a processor."""
_NAME = re.compile(PREFIX + r"(\d{1,10})", re.ASCII)
_CPU = re.compile(r"cpu\d{1,5}", re.ASCII)
_CLOCK = "mono"
"""CLOCK_MONOTONIC, as time.monotonic_ns: one order of events across processors."""


class Instance:
    """A private trace of the requests of some devices. For a 'with' statement.

    Errors: ReadError (tracefs does not do it), ParseError (of an unknown format).
    """

    def __init__(self, devices: Iterable[int], directory: str = DIRECTORY) -> None:
        """Prepare it; `devices` are numbers as in events."""
        self._filter = " || ".join(f"dev == {number}" for number in devices)
        self._instances = Path(directory, "instances")
        self._path = self._instances / f"{PREFIX}{os.getpid()}"
        self._pipes: list[int] = []
        self._page_bytes = 0
        self._pages = 0
        self._decoder: Decoder | None = None

    def __enter__(self) -> Self:
        """Create it and start to record."""
        try:
            for left in remains(self._instances):
                with contextlib.suppress(OSError):  # Still in use after all, or gone.
                    left.rmdir()
            self._path.mkdir()
        except OSError as error:
            raise ReadError(f"'{self._path}': {error.strerror}") from error
        try:
            self._begin()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove it."""
        self._remove()

    def _begin(self) -> None:
        header = parse_page_header(self._read("events/header_page"))
        formats = {
            kind: parse_event(self._read(f"events/block/{name}/format"), name)
            for kind, name in NAMES.items()
        }
        self._decoder = Decoder(header, formats)
        self._page_bytes = header.size
        try:
            names = os.listdir(self._path / "per_cpu")
        except OSError as error:
            raise ReadError(f"'{self._path}/per_cpu': {error.strerror}") from error
        cpus = [name for name in names if _CPU.fullmatch(name)]
        least, most = _PER_CPU_KIB
        size_kib = max(least, min(most, MAX_BUFFER_KIB // max(len(cpus), 1)))
        self._pages = size_kib * 1024 // header.size + 1
        self._write("tracing_on", "0")
        self._write("buffer_size_kb", str(size_kib))
        self._write("trace_clock", _CLOCK)
        # Only an overwritten event is counted in the next page that is read.
        self._write("options/overwrite", "1")
        # Completions first: an issue without its completion would look like a request that waits.
        for kind in (COMPLETE, REQUEUE, ISSUE):
            self._write(f"events/block/{NAMES[kind]}/filter", self._filter)
            self._write(f"events/block/{NAMES[kind]}/enable", "1")
        try:
            for cpu in cpus:
                flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
                self._pipes.append(os.open(self._path / "per_cpu" / cpu / "trace_pipe_raw", flags))
        except OSError as error:
            raise ReadError(f"'{error.filename}': {error.strerror}") from error
        self._write("tracing_on", "1")

    def stop(self) -> None:
        """Record nothing more; what was recorded can still be read."""
        self._write("tracing_on", "0")

    def read(self, add: Callable[[TraceEvent], object]) -> int:
        """Pass what was recorded since the last call, by processor; return how much was lost.

        Limits: at most the size of the buffer, so that it ends however fast events come.
        """
        assert self._decoder is not None  # noqa: S101 - it is entered
        lost = 0
        for pipe in self._pipes:
            for _ in range(self._pages):
                try:
                    page = os.read(pipe, self._page_bytes)
                except BlockingIOError:
                    break
                except OSError as error:
                    raise ReadError(f"'{self._path}': {error.strerror}") from error
                if not page:
                    break
                lost += self._decoder.decode(page, add)
        return lost

    def _read(self, name: str) -> str:
        try:
            return (self._path / name).read_text(errors="backslashreplace")
        except OSError as error:
            raise ReadError(f"'{self._path}/{name}': {error.strerror}") from error

    def _write(self, name: str, text: str) -> None:
        try:
            # Neither created nor truncated: the kernel's files are there, and some mind the latter.
            with open(os.open(self._path / name, os.O_WRONLY | os.O_CLOEXEC), "w") as file:
                file.write(text)
        except OSError as error:
            raise ReadError(f"'{self._path}/{name}': '{text:.60}': {error.strerror}") from error

    def _remove(self) -> None:
        while self._pipes:
            os.close(self._pipes.pop())
        for name in ("tracing_on", "events/enable"):
            with contextlib.suppress(ReadError):  # rmdir ends it as well.
                self._write(name, "0")
        with contextlib.suppress(FileNotFoundError):
            try:
                self._path.rmdir()
            except FileNotFoundError:
                raise
            except OSError as error:
                raise ReadError(
                    f"'{self._path}': {error.strerror}; it still records, remove it by 'rmdir'"
                ) from error


def remains(instances: Path) -> list[Path]:
    """Return the instances of traces that were killed: their process no longer exists.

    Called before this process makes its own: one by that name is of a former process.
    """
    return [
        path
        for path in instances.iterdir()
        if (found := _NAME.fullmatch(path.name))
        and (found[1] == str(os.getpid()) or not Path("/proc", found[1]).exists())
    ]
