"""Reads which programs read and write, and which units wait, while an alert is about that.

Two readings 5 s apart, in a thread: processes through the probe, control groups directly. The first
pair begins as soon as the kernel throttles writers, which is no stall yet: within seconds they fill
what is left of the limit, and are then paused, so that a later pair may see no program write.
"""

from __future__ import annotations

import threading
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import AbsentError, ParseError, ReadError, trace
from iowarden.collectors.procfs.cgroup_io import read_cgroups, read_disk_bytes
from iowarden.collectors.procfs.process_io import request_sweep
from iowarden.collectors.quantity import duration
from iowarden.rules import io_usage
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.io_usage import INTERVAL_SECONDS, IoReading, condition
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Sample
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.io_usage import IoUsage

REPEAT_SECONDS = 60.0
"""Between two pairs of readings: what a later mail reports is at most this old."""
RETENTION_SECONDS = 120.0
"""How long a result is current, for metrics and for what is not known."""
STUCK_SECONDS = 15.0
"""A reading takes 10 s at most, if all that it waits for ends in time."""
BEFORE_SECONDS = 60.0
"""What was read so long before an alert began belongs to it."""
NEW_SECONDS = 15.0
"""An older result is reported with its age."""


@dataclass(frozen=True, slots=True)
class IoRead:
    """A reading that a thread has finished; as the second of a pair, with its result.

    `error` is why it failed, '' also where there is no probe, or no control groups.
    """

    reading: IoReading
    usage: IoUsage | None = None
    error: str = ""


@dataclass(slots=True)
class IoWatch:
    """Who reads, writes and waits; for the loop's thread only.

    `make_machine` makes the access, None: there is none; `record` gets what was read, for the
    flight recorder; `inline`: a recording is played: no thread is started, since nothing hangs, and
    a sweep is taken when the recording has it.
    """

    engine: Engine
    make_machine: Callable[[], Machine] | None
    post: Callable[[IoRead], object]
    uptime: Callable[[], float]
    allowed: Callable[[], bool]
    """Whether names of programs and units may be shown."""
    record: Callable[[str, Mapping[str, bytes]], object] | None = None
    report: Callable[[str], object] = str
    """Gets why this host has no control groups to read, once."""
    trouble: Callable[[str], object] = str
    """Gets why the last reading failed or hangs, or ''."""
    inline: bool = False
    _usage: IoUsage | None = None
    _at_seconds: float = float("-inf")
    _first: tuple[IoReading, float] | None = None
    """The first reading of a pair, and when it came."""
    _running: bool = False
    _began_seconds: float = 0.0
    _next_seconds: float = float("-inf")
    _alerts: frozenset[object] = frozenset()
    """The alerts for which the last pair was read."""
    _reported: bool = False
    _played_seconds: float = float("-inf")
    _machine: Machine | None = field(default=None, repr=False)

    def step(self, now: float) -> None:
        """Start a reading that is due."""
        if self.make_machine is None or not self.allowed():
            self._usage, self._first = None, None
            return
        if self._running:
            if now - self._began_seconds > STUCK_SECONDS:
                self.trouble("who reads and writes: no answer; not read again until it ends")
            return
        if self._first is not None:
            if now - self._first[1] >= INTERVAL_SECONDS:
                self._begin(now)
            return
        alerts = frozenset(a.key for a in self.engine.rules.alerts() if _needs(a))
        new = not alerts <= self._alerts and now - self._at_seconds >= REPEAT_SECONDS / 2
        wanted = bool(alerts) or self._is_throttled()
        if not wanted:
            self.trouble("")
        elif new or now >= self._next_seconds:
            self._alerts = alerts
            self._begin(now)

    def take(self, event: IoRead, now: float) -> None:
        """Take a reading; the second one of a pair gives the result."""
        self._running = False
        self.trouble(event.error and f"who reads and writes: {event.error}")
        if event.reading.groups_problem and not self._reported and not self.inline:
            self._reported = True
            self.report(f"which units wait for I/O is not known: {event.reading.groups_problem}")
        if self._first is None:
            self._first = event.reading, now
            return
        self._first = None
        self._next_seconds = now + REPEAT_SECONDS
        usage = event.usage
        if usage is not None and self._usage is not None:
            usage = io_usage.following(self._usage, usage, now - self._at_seconds)
        self._usage, self._at_seconds = usage, now

    def is_of(self, since_seconds: float, ended_seconds: float | None) -> bool:
        """Return whether the result belongs to an alert, None: that has not ended."""
        began = self._at_seconds - INTERVAL_SECONDS
        within = ended_seconds is None or began <= ended_seconds
        return within and self._at_seconds >= since_seconds - BEFORE_SECONDS

    def sentences(
        self, conditions: Iterable[str], now: float, disks: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Return the sentences of a mail about these conditions, and disks by device number."""
        if self._usage is None or not self.allowed():
            return ()
        age = now - self._at_seconds
        when = f" ({duration(age)} ago)" if age > NEW_SECONDS else ""
        lines = io_usage.sentences(self._usage, frozenset(conditions), disks)
        return tuple(line + when for line in lines)

    def samples(self, now: float) -> list[Sample]:
        """Return the samples of io_usage.FAMILIES, while the result is current."""
        current = self._usage is not None and now - self._at_seconds <= RETENTION_SECONDS
        return io_usage.samples(self._usage) if self._usage is not None and current else []

    def _is_throttled(self) -> bool:
        name = "iowarden_writeback_above_freerun_seconds"
        samples = self.engine.signals.newest("writeback")
        return any(metric == name and v > 0 for metric, _, v in samples)

    def _begin(self, now: float) -> None:
        assert self.make_machine is not None  # noqa: S101 - `step` returned
        self._machine = machine = self._machine or self.make_machine()
        before = None if self._first is None else self._first[0]
        if self.inline:
            self._play(machine, before)
            return
        self._running, self._began_seconds = True, now
        threading.Thread(target=self._read, args=(machine, before), name="io", daemon=True).start()

    def _play(self, machine: Machine, before: IoReading | None) -> None:
        """Take the reading that the recording has now, if it is a new one."""
        event = _measured(machine, self.uptime(), before)
        sweep = event.reading.sweep
        if sweep is not None and sweep.boot_seconds > self._played_seconds:
            self._played_seconds = sweep.boot_seconds
            self._running = True
            self.post(event)

    def _read(self, machine: Machine, before: IoReading | None) -> None:
        seen: dict[str, bytes] = {}
        machine.watch(seen.__setitem__)
        event = _measured(machine, self.uptime(), before)
        machine.watch(None)
        if self.record is not None:
            self.record("io", seen)
        self.post(event)


def _measured(machine: Machine, uptime_seconds: float, before: IoReading | None) -> IoRead:
    """Return a reading, or why there is none; never an exception."""
    try:
        reading, error = read(machine, uptime_seconds)
        usage = None if before is None else io_usage.usage(before, reading)
        return IoRead(reading, usage, error)
    except Exception as bug:  # noqa: BLE001 - a thread that ends would never be started again
        return IoRead(IoReading(uptime_seconds, None, None), None, f"bug: {trace(bug)}")


def read(machine: Machine, uptime_seconds: float) -> tuple[IoReading, str]:
    """Read processes and control groups once; return the error, '' also for what is absent.

    Blocks up to 10 s.
    """
    sweep = groups = None
    disk_bytes: dict[str, tuple[int, int]] = {}
    problem = groups_problem = error = ""
    cut_off = False
    try:
        sweep = request_sweep(machine)
    except AbsentError as absent:
        problem = str(absent)
    except (ReadError, ParseError) as failed:
        problem = error = str(failed)
    try:
        groups, cut_off = read_cgroups(machine)
        disk_bytes = read_disk_bytes(machine)
    except AbsentError as absent:
        groups_problem = str(absent)
    except (ReadError, ParseError) as failed:
        groups_problem = error = str(failed)
    reading = IoReading(uptime_seconds, sweep, groups, problem, groups_problem, cut_off, disk_bytes)
    return reading, error


def _needs(alert: Alert) -> bool:
    active = alert.state in (AlertState.PENDING, AlertState.FIRING)
    active = active and alert.absent_seconds is None
    # What is only information has no incident.
    return (
        active and alert.severity >= Severity.NOTICE and bool(condition(alert.name, alert.labels))
    )
