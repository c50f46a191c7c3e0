"""Frames in which a recorded machine does nothing, to follow those in which it did."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from support.recordings import recorded, write_frame

from iowarden.collectors.recording.recording import Frame, RecordingError, RecordingStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def idle_frames(directory: str, count: int, step_seconds: float = 1.0) -> None:
    """Append frames in which the machine does nothing: no dirty data, no request, no waiting task.

    Errors: RecordingError.
    """
    last: Frame | None = None
    texts: dict[str, bytes] = {}
    for step in recorded(directory):
        last = step.frame
        texts |= {path: text for path, text in step.files.items() if path in IDLE and text}
    if last is None:
        raise RecordingError(f"'{directory}': expected at least frame '000000', got none")
    for step in idle_steps(last, texts, count, step_seconds):
        write_frame(directory, step.frame, step.files)


def idle_steps(
    last: Frame, texts: Mapping[str, bytes], count: int, step_seconds: float = 1.0
) -> Iterator[RecordingStep]:
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
        yield RecordingStep(
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
