"""Disks with counters as the kernel's, second by second, and what the signal concludes of them."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, NamedTuple

from support.machine import disk, topology

from iowarden.collectors.block.block_devices import Device, Md
from iowarden.collectors.block.diskstats import BlockIo
from iowarden.rules.signals import table
from iowarden.rules.signals.device import device, slow
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Sample
    from iowarden.rules.signals.signal import Pairs

START = 1_800_000_000.0
KIB = 1024


class Load(NamedTuple):
    """What a disk completes per second, with the mean time of a request."""

    reads: float = 0.0
    read_ms: float = 0.0
    read_kib: float = 16.0
    writes: float = 0.0
    write_ms: float = 0.0
    write_kib: float = 16.0
    in_flight: int = 0
    """Seen at the end of each second."""
    discard_ms: float = 0.0
    busy: float = 1.0
    flushes: float = 0.0


class Array(NamedTuple):
    """An md array over whole disks."""

    level: str
    members: tuple[str, ...]


def drive(name: str, **changes: object) -> Device:
    """Return a physical disk with a serial number, 1 TB, rotating."""
    usual = {"serial": f"SN-{name}", "vendor": "ATA", "model": "HUS724", "port": "ata1"}
    return dataclasses.replace(disk(name), **{**usual, **changes})  # type: ignore[arg-type]


def machine(devices: Iterable[Device], *arrays: Array) -> Topology:
    """Return disks with arrays on them."""
    found = {each.name: each for each in devices}
    for number, array in enumerate(arrays):
        name = f"md{number}"
        for member in array.members:
            holders = (*found[member].holders, name)
            found[member] = dataclasses.replace(found[member], holders=holders)
        md = Md(array.level, len(array.members), None, None, None)
        found[name] = disk(name, slaves=array.members, leaf=False, md=md)
    return topology(*found.values())


class Second(NamedTuple):
    """One second of a recorded guest: counters of its disks, and what was marked in it."""

    seconds: int
    disks: Mapping[str, tuple[int, ...]]
    marks: tuple[str, ...]


def seconds_of(lines: Iterable[str]) -> Iterator[Second]:
    """Read what tests/vm/slow_load.c samples: '# MARK', the second, lines of /proc/diskstats."""
    marks: list[str] = []
    disks: dict[str, tuple[int, ...]] = {}
    found: Second | None = None
    for line in lines:
        *before, text = line.split(maxsplit=2)
        if before and before[0] != "#":
            name, *counters = text.split()
            disks[name] = tuple(map(int, counters))
            continue
        if found is not None:
            yield found
            found = None
        if before:
            marks.append(line[2:].strip())
        else:
            disks = {}
            found, marks = Second(int(text), disks, tuple(marks)), []
    if found is not None:
        yield found


class SlowMachine:
    """The signal of slow disks, with that of hanging ones, over counters that a test sets."""

    def __init__(self, devices: Topology, **sources: object) -> None:
        """Start; `sources`: further fields of the snapshot."""
        self.sources = sources
        self.scanned: frozenset[str] = frozenset()
        self.earlier: Mapping[str, list[Sample]] = {}
        """Samples of the groups before this one in the same second."""
        self.derived = table.derive(devices)
        self.device, self.slow = device.GROUP.initial, slow.GROUP.initial
        self.now = START
        self.totals: dict[str, list[float]] = {n: [0.0] * 17 for n in devices.leaves}
        self.samples: list[Sample] = []
        self.milliseconds: list[float] = []
        """Processor time of each second's step."""

    def run(self, seconds: float, loads: Mapping[str, Load], *, step: float = 1.0) -> None:
        """Let time pass under a load."""
        for _ in range(round(seconds / step)):
            self.now += step
            for name, load in loads.items():
                self._add(self.totals[name], load, step)
            self.poll({name: load.in_flight for name, load in loads.items()})

    def take(self, disks: Mapping[str, tuple[int, ...]]) -> None:
        """Take the counters of a recorded second."""
        self.now += 1
        for name, counters in disks.items():
            self.totals[name] = [float(counter) for counter in counters]
        self.poll({name: counters[8] for name, counters in disks.items()})

    def _add(self, total: list[float], load: Load, step: float) -> None:
        reads, writes = load.reads * step, load.writes * step
        for at, number in (
            (0, reads),
            (2, reads * load.read_kib * 2),
            (3, reads * load.read_ms),
            (4, writes),
            (6, writes * load.write_kib * 2),
            (7, writes * load.write_ms),
            (9, 1000 * load.busy * step),
            (10, reads * load.read_ms + writes * load.write_ms),
            (14, load.discard_ms * step),
            (15, load.flushes * step),
        ):
            total[at] += number

    def poll(self, in_flight: Mapping[str, int]) -> None:
        """Take one sample; the kernel's counters are whole numbers."""
        blocks = {
            name: BlockIo(name, 8, 0, (*map(int, t[:8]), in_flight.get(name, 0), *map(int, t[9:])))
            for name, t in self.totals.items()
        }
        snapshot = Snapshot(diskstats=blocks, block=self.derived.topology, **self.sources)  # type: ignore[arg-type]
        inputs = Inputs(self.now, 1e6, snapshot, scanned=self.scanned)
        view = View(inputs, self.derived)
        self.device, _ = device.GROUP.step(self.device, view)
        states = {"device": self.device, "slow": self.slow}
        began = time.process_time_ns()
        self.slow, samples = slow.GROUP.step(
            self.slow, View(inputs, self.derived, self.earlier, states)
        )
        self.milliseconds.append((time.process_time_ns() - began) / 1e6)
        self.samples = samples or []

    def restart(self) -> None:
        """Start the program anew, with what it stores."""
        assert slow.GROUP.remember is not None
        assert slow.GROUP.recall is not None
        stored: dict[str, Pairs] = dict(slow.GROUP.remember(self.slow))
        self.slow = slow.GROUP.recall(slow.GROUP.initial, stored)
        self.device = device.GROUP.initial

    def values(self, metric: str, **labels: str) -> dict[str, float]:
        """Return the values of a metric by device."""
        found = {}
        for name, own, value in self.samples:
            known = dict(own)
            if name == metric and all(known.get(key) == want for key, want in labels.items()):
                found[known["device"]] = value
        return found

    def points(self, name: str) -> float | None:
        """Return the points of a disk; None: it is not compared with an array."""
        return self.values(slow.POINTS).get(name)

    def ratio(self, name: str, against: str = "array") -> float | None:
        """Return its last ratio."""
        return self.values(slow.RATIO, against=against).get(name)

    def named(self, severity: str = "warning") -> set[str]:
        """Return the disks with an alert of at least that severity."""
        found = set(self.values(slow.SECONDS, severity="warning"))
        return found if severity == "warning" else found | set(self.values(slow.SECONDS))
