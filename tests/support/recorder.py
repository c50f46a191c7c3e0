"""Records this machine frame by frame, in one thread: for fixtures, which hold every frame's texts.

`iowarden record` is for incidents: its sources have threads, and what hangs holds up nothing else.
It runs by itself in a virtual machine, too: `python3 recorder.py OUT` needs the program alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError
from iowarden.collectors.procfs import process_io
from iowarden.collectors.recording.recorder import Changes, Recorder
from iowarden.collectors.recording.recording import Frame, RecordingError
from iowarden.collectors.smart.options import Options
from iowarden.collectors.source import collect
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.polling import io_watch, pollers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WHO, WHO_SECONDS = "io", io_watch.INTERVAL_SECONDS
"""Who reads, writes and waits: the service reads that while an alert needs it."""


class FrameRecorder(Recorder):
    """Records what a Root has read, source by source, in one thread."""

    def __init__(self, path: str, page_size_bytes: int, note: str = "") -> None:
        """Begin a recording."""
        super().__init__(path, page_size_bytes, note)
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
    recorder = FrameRecorder(directory, page_size_bytes, note)
    root = Machine(root_path, page_size_bytes, recorder.root_seen, probe=_sweep)
    sources = pollers.make(Options(), SystemClock()).sources()
    due: dict[str, float] = {}
    began, _ = clocks()
    for number in range(frames):
        if number:
            sleep(max(0.0, began + number * period_seconds - clocks()[0]))
        now, wall = clocks()
        for source in sources:
            # Half a period of slack: a timer may be early, and a read left out is a second lost.
            if now >= due.get(source.name, now) - period_seconds / 2:
                due[source.name] = now + source.period_seconds
                recorder.begin(source.name)
                collect(source, root, lambda: clocks()[0])
        if now >= due.get(WHO, now) - period_seconds / 2:
            due[WHO] = now + WHO_SECONDS
            recorder.begin(WHO)
            io_watch.read(root, now)
        recorder.frame(now, wall)
    recorder.close()
    root.close()


def _sweep(verb: str, *_: object) -> str:
    """Answer as the probe: the recorder is root."""
    if verb != process_io.VERB:
        raise AbsentError(f"'{verb}': expected '{process_io.VERB}', which needs no probe")
    return json.dumps(process_io.to_json(process_io.read_sweep(Machine())))


def main(arguments: Sequence[str] | None = None) -> int:
    """Record this machine: `python3 recorder.py OUT`."""
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
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
