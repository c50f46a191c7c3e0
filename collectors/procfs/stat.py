"""Tasks and CPU time of '/proc/stat'."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, ParseError, Sample, parse_count
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

PATH = "/proc/stat"
USER_HZ = 100
"""Ticks per second in '/proc/stat' on every supported Linux. Source: proc_stat(5)."""
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_GUEST_MODES = ("user", "nice")
"""Columns 9 and 10 (2.6.24, 2.6.33); that time is in columns 1 and 2 as well."""
_MIN_FIELDS = 4


@dataclass(frozen=True, slots=True)
class Stat:
    """Task counts and CPU time of '/proc/stat'.

    Source: kernel, filesystems/proc.rst. `cpu_seconds` is in the order of MODES.
    Limits: iowait and idle may decrease a little; the kernel does not guarantee that they only
    increase.
    """

    procs_running: int
    procs_blocked: int
    """Tasks in uninterruptible sleep for I/O (D state)."""
    boot_time_seconds: int
    cpu_seconds: tuple[float, ...]
    context_switches_total: int
    interrupts_total: int
    forks_total: int
    cpus_text: str = field(repr=False)
    """The lines of single CPUs, parsed only by node_samples: there may be hundreds."""


FAMILIES = (
    Family("iowarden_tasks_running", "gauge", "Tasks that run or wait for a CPU."),
    Family("iowarden_tasks_blocked", "gauge", "Tasks in uninterruptible sleep, waiting for I/O."),
    Family("iowarden_boot_timestamp_seconds", "gauge", "When the machine booted, as Unix time."),
    Family("iowarden_cpu_seconds_total", "counter", "CPU time of all CPUs, by mode."),
)
_CPU_LABELS = tuple((("mode", mode),) for mode in MODES)


def parse_stat(text: str) -> Stat:
    """Parse '/proc/stat' as seconds and counts."""
    end = text.find("\n")
    cpu_seconds = _ticks(text[:end], "cpu")[: len(MODES)]
    interrupts = text.find("\nintr ", end)
    return Stat(
        procs_running=_number(text, "procs_running"),
        procs_blocked=_number(text, "procs_blocked"),
        boot_time_seconds=_number(text, "btime"),
        cpu_seconds=cpu_seconds,
        context_switches_total=_number(text, "ctxt"),
        interrupts_total=_number(text, "intr"),
        forks_total=_number(text, "processes"),
        cpus_text=text[end + 1 : interrupts],
    )


def emit(value: Stat) -> list[Sample]:
    """Return the samples of FAMILIES."""
    samples: list[Sample] = [
        ("iowarden_tasks_running", (), value.procs_running),
        ("iowarden_tasks_blocked", (), value.procs_blocked),
        ("iowarden_boot_timestamp_seconds", (), value.boot_time_seconds),
    ]
    samples += [
        ("iowarden_cpu_seconds_total", labels, seconds)
        for labels, seconds in zip(_CPU_LABELS, value.cpu_seconds, strict=False)
    ]
    return samples


def node_samples(value: Stat) -> Iterator[Sample]:
    """Yield node_exporter's series of its collectors 'stat' and 'cpu' that come from '/proc/stat'.

    Limits: if a value of one CPU decreases, node_exporter keeps its last one; here it decreases. A
    CPU with an invalid line has no series; our own series use the line of all CPUs.
    """
    yield "node_procs_running", (), value.procs_running
    yield "node_procs_blocked", (), value.procs_blocked
    yield "node_boot_time_seconds", (), value.boot_time_seconds
    yield "node_context_switches_total", (), value.context_switches_total
    yield "node_intr_total", (), value.interrupts_total
    yield "node_forks_total", (), value.forks_total
    for line in value.cpus_text.split("\n"):
        if not line.startswith("cpu"):
            continue
        name, _, _ = line.partition(" ")
        cpu = ("cpu", name.removeprefix("cpu"))
        try:
            seconds = _ticks(line, name)
        except ParseError:
            continue
        for mode, number in zip(MODES, seconds, strict=False):
            yield "node_cpu_seconds_total", (cpu, ("mode", mode)), number
        for mode, number in zip(_GUEST_MODES, seconds[len(MODES) :], strict=False):
            yield "node_cpu_guest_seconds_total", (cpu, ("mode", mode)), number


def _ticks(line: str, name: str) -> tuple[float, ...]:
    found, _, numbers = line.partition(" ")
    try:
        seconds = tuple(parse_count(word) / USER_HZ for word in numbers.split())
    except ValueError:
        seconds = ()
    if found != name or len(seconds) < _MIN_FIELDS:
        raise ParseError(
            f"'{PATH}': expected '{name} <user> <nice> <system> <idle> ...', got {line[:80]!r}"
        )
    return seconds


def _number(text: str, key: str) -> int:
    # Search from the end: the lines of single CPUs come first and are long on a large host.
    start = text.rfind(f"\n{key} ")
    if start < 0:
        raise ParseError(
            f"'{PATH}': expected a line '{key} <n>', got none in {len(text)} characters"
        )
    start += len(key) + 2
    end = text.find("\n", start)
    line = text[start : None if end < 0 else end]
    number, _, _ = line.partition(" ")
    try:
        return parse_count(number)
    except ValueError:
        raise ParseError(
            f"'{PATH}' line '{key}': expected '{key} <n>', got {line[:80]!r}"
        ) from None


def read_stat(root: Machine) -> Stat:
    """Read and parse '/proc/stat'. Errors: AbsentError, ReadError, ParseError."""
    return parse_stat(root.read_cached_open(PATH, is_record=True))


SOURCE: Source[Stat] = Source(
    name="stat",
    period_seconds=1,
    period_help="How often '/proc/stat' is read.",
    paced=True,
    may_hang=False,
    read=read_stat,
    families=FAMILIES,
    emit=emit,
    node=node_samples,
    node_prefixes=(
        "node_boot_time_seconds",
        "node_context_switches_total",
        "node_cpu_guest_seconds_total",
        "node_cpu_seconds_total",
        "node_forks_total",
        "node_intr_total",
        "node_procs_",
    ),
)
