"""Load average, from '/proc/loadavg'."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loadavg:
    """Counts tasks that run or wait uninterruptibly. Source: kernel, filesystems/proc.rst."""

    load1: float
    load5: float
    load15: float
    running: int
    threads: int
