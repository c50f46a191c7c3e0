"""Load average, from '/proc/loadavg'."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import Metric, ParseError, Sample, describe
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

PATH = "/proc/loadavg"
_LOAD = r"(\d{1,12}\.\d\d)"
_LINE = lazy_pattern(rf"{_LOAD} {_LOAD} {_LOAD} (\d{{1,10}})/(\d{{1,10}}) \d{{1,10}}\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Loadavg:
    """Counts tasks that run or wait uninterruptibly. Source: kernel, filesystems/proc.rst."""

    load1: Annotated[
        float, Metric("gauge", "Load average over 1 min: tasks that run or wait for I/O.")
    ]
    load5: Annotated[
        float, Metric("gauge", "Load average over 5 min: tasks that run or wait for I/O.")
    ]
    load15: Annotated[
        float, Metric("gauge", "Load average over 15 min: tasks that run or wait for I/O.")
    ]
    running: int
    threads: Annotated[int, Metric("gauge", "Threads of programs and of the kernel.")]


FAMILIES, emit = describe(Loadavg, "iowarden_")


def parse_loadavg(text: str) -> Loadavg:
    """Return the text of '/proc/loadavg'."""
    found = _LINE.fullmatch(text)
    if found is None:
        raise ParseError(
            f"'{PATH}': expected three averages, '<running>/<threads>' and a number,"
            f" got {text[:80]!r}"
        )
    load1, load5, load15, running, threads = found.groups()
    return Loadavg(float(load1), float(load5), float(load15), int(running), int(threads))


def node_samples(value: Loadavg) -> Iterator[Sample]:
    """Yield node_exporter's node_load*."""
    yield "node_load1", (), value.load1
    yield "node_load5", (), value.load5
    yield "node_load15", (), value.load15


def read_loadavg(root: Machine) -> Loadavg:
    """Read and parse '/proc/loadavg'. Errors: AbsentError, ReadError, ParseError."""
    return parse_loadavg(root.read_cached_open(PATH, is_record=True))


SOURCE: Source[Loadavg] = Source(
    name="loadavg",
    period_seconds=5,  # the kernel changes it each 5 s: kernel/sched/loadavg.c, LOAD_FREQ
    period_help="How often '/proc/loadavg' is read.",
    may_hang=False,
    read=read_loadavg,
    families=FAMILIES,
    emit=emit,
    node=node_samples,
    node_prefixes=("node_load1", "node_load5"),
)
