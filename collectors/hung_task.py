"""The kernel's watch over tasks that hang, from '/proc/sys/kernel/hung_task_*'."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HungTask:
    """Source: kernel, admin-guide/sysctl/kernel.rst. None: this kernel has no such file."""

    detected_total: int | None
    """hung_task_detect_count (6.13+)."""
    warnings_left: int | None
    """Lines the log will still get; -1: no limit."""
    timeout_seconds: int | None
    """0: nobody looks."""
