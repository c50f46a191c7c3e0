"""Tasks in uninterruptible sleep: what they wait for in the kernel, and what they read and write.

Source: proc(5): '/proc/PID/stat' (state D), 'wchan', 'stack', 'io'. The last three are closed to
the daemon's user (ptrace access mode, CAP_SYS_ADMIN): the probe reads them, `look`, and the daemon
asks it, `read_tasks`, only while '/proc/stat' says that some task is blocked.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """A task in uninterruptible sleep. Units: bytes since its start, None where not told."""

    pid: int
    start_ticks: int
    command: str
    wait_channel: str
    """A function of the kernel ('balance_dirty_pages'); '' where not told."""
    stack: tuple[str, ...]
    """Functions of the kernel, innermost first, without offsets."""
    read_bytes: int | None
    write_bytes: int | None


@dataclass(frozen=True, slots=True)
class Tasks:
    """All that were found in one look."""

    tasks: tuple[Task, ...]
