"""Pressure stall information: the share of time in which tasks waited for a resource."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, Metric, ParseError, Sample, describe
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

DIRECTORY = "/proc/pressure"
RESOURCES = ("cpu", "io", "memory", "irq")
_LINE = lazy_pattern(
    r"(some|full) avg10=(\d{1,3}\.\d\d) avg60=(\d{1,3}\.\d\d) avg300=(\d{1,3}\.\d\d)"
    r" total=(\d{1,20})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Pressure:
    """One file of '/proc/pressure': averages as ratios 0..1, totals in seconds.

    Source: kernel, accounting/psi.rst (percent and microseconds there). 'some': at least one task
    was stalled; 'full': all non-idle tasks were. cpu has no 'full' before 5.13, irq has no 'some'.
    """

    some_avg10_ratio: Annotated[
        float | None,
        Metric("gauge", "Share of the last 10 s in which at least one task was stalled."),
    ]
    some_avg60_ratio: Annotated[
        float | None,
        Metric("gauge", "Share of the last 60 s in which at least one task was stalled."),
    ]
    some_avg300_ratio: Annotated[
        float | None,
        Metric("gauge", "Share of the last 300 s in which at least one task was stalled."),
    ]
    some_seconds_total: Annotated[
        float | None, Metric("counter", "Time in which at least one task was stalled.")
    ]
    full_avg10_ratio: Annotated[
        float | None, Metric("gauge", "Share of the last 10 s in which all tasks were stalled.")
    ]
    full_avg60_ratio: Annotated[
        float | None, Metric("gauge", "Share of the last 60 s in which all tasks were stalled.")
    ]
    full_avg300_ratio: Annotated[
        float | None, Metric("gauge", "Share of the last 300 s in which all tasks were stalled.")
    ]
    full_seconds_total: Annotated[
        float | None, Metric("counter", "Time in which all tasks were stalled.")
    ]


@dataclass(frozen=True, slots=True)
class Pressures:
    """The files of '/proc/pressure'; None: no file for this resource (irq: 6.1+, as configured)."""

    cpu: Pressure | None
    io: Pressure | None
    memory: Pressure | None
    irq: Pressure | None


FAMILIES, _emit = describe(Pressure, "iowarden_pressure_")


def parse_pressure(text: str, path: str) -> Pressure:
    """Parse one file; `path` is named in errors. Other lines are ignored."""
    numbers: dict[str, tuple[float, float, float, float]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith(("some", "full")):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise ParseError(
                f"'{path}' line {number}: expected 'some|full avg10=<%> avg60=<%> avg300=<%>"
                f" total=<µs>', got {line[:100]!r}"
            )
        kind, avg10, avg60, avg300, total = found.groups()
        numbers[kind] = (
            float(avg10) / 100,
            float(avg60) / 100,
            float(avg300) / 100,
            int(total) / 1000 / 1000,
        )
    if not numbers:
        raise ParseError(f"'{path}': expected a line 'some ...' or 'full ...', got {text[:80]!r}")
    nothing = (None, None, None, None)
    return Pressure(*numbers.get("some", nothing), *numbers.get("full", nothing))


def emit(value: Pressures) -> list[Sample]:
    """Return the samples of FAMILIES, labelled by resource."""
    samples: list[Sample] = []
    for resource in RESOURCES:
        pressure = getattr(value, resource)
        if pressure is not None:
            samples += _emit(pressure, (("resource", resource),))
    return samples


def node_samples(value: Pressures) -> Iterator[Sample]:
    """Yield node_exporter's node_pressure_*: waiting is 'some', stalled is 'full'."""
    for resource in RESOURCES:
        pressure = getattr(value, resource)
        if pressure is None:
            continue
        if pressure.some_seconds_total is not None:
            yield f"node_pressure_{resource}_waiting_seconds_total", (), pressure.some_seconds_total
        if pressure.full_seconds_total is not None and resource != "cpu":
            yield f"node_pressure_{resource}_stalled_seconds_total", (), pressure.full_seconds_total


def read_pressure(root: Machine) -> Pressures:
    """Read and parse '/proc/pressure/*'.

    Errors: AbsentError (kernel before 4.20, not compiled in, or disabled at boot: 'psi=1' enables
    it), ReadError, ParseError.
    """
    found: list[Pressure | None] = []
    absent = ""  # not the error: its traceback has this frame, and all that was read before
    for resource in RESOURCES:
        path = f"{DIRECTORY}/{resource}"
        try:
            found.append(parse_pressure(root.read_optional_record(path), path))
        except AbsentError as error:
            absent = absent or str(error)
            found.append(None)
    if absent and not any(found):
        raise AbsentError(absent)
    return Pressures(*found)


SOURCE: Source[Pressures] = Source(
    name="pressure",
    period_seconds=1,
    period_help="How often '/proc/pressure' is read.",
    paced=True,
    may_hang=False,
    read=read_pressure,
    families=FAMILIES,
    emit=emit,
    node=node_samples,
    node_prefixes=("node_pressure_",),
)
