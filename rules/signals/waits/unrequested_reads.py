"""Reads that no program requested, by device: the proof that its phantom reads are some. Pure.

A program that writes parts of pages, or into mapped files, makes the kernel read what is about to
be overwritten: the disk reads for it (read_bytes), though it hardly reads itself (rchar). A backup
or a compaction requests what it reads. Compared are the bytes of programs, all processes of one in
one unit together, from the first sweep since the device's phantom reads began to the last one.
Sources: kernel, fs/read_write.c (add_rchar), block/blk-core.c (submit_bio: task_io_account_read),
mm/filemap.c (filemap_fault: PGMAJFAULT), fs/aio.c (counts no rchar).
Limits: the bytes of a process are not counted by device. Programs that read mapped files on
purpose are proven to only where they write by write(2).
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.procfs.process_io import increases
from iowarden.rules.signals.queue import phantom_reads
from iowarden.rules.signals.signal import SignalGroup
from iowarden.rules.signals.waits import group as waits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.procfs.process_io import Increase
    from iowarden.rules.signals.signal import View
    from iowarden.rules.signals.waits.load import SweepMoment

MIN_SECONDS = 60.0
"""Between the sweeps that are compared: write-back follows the programs by half a minute."""
MAX_SWEEP_AGE_SECONDS = 5.0
"""A sweep of before the phantom reads is no beginning."""
WRITER_RATIO = 0.25
"""A program with this share of what the device was written explains its reads."""
REQUESTED_RATIO = 0.05
"""It reads on purpose if it requested more than this share of what it wrote."""
BY_CALLS_RATIO = 0.75
"""It writes by write(2) alone if this share of what it wrote passed through it: who writes the rest
into mapped files faults these in."""
READ_AROUND_BYTES = 128 << 10
"""What a page fault reads, as read-ahead is set by default (VM_READAHEAD_PAGES)."""
MAX_READ_AROUND_BYTES = 8 << 20
"""The most that a page fault reads with the read-ahead that arrays are given."""
MAX_PROGRAMS = 3
_INIT = 1

RATIO = "iowarden_device_unrequested_reads_ratio"


@dataclass(frozen=True, slots=True)
class WritingProgram:
    """A program that makes a device read without a request, and what it has done, in bytes.

    `pid` is that of the process which caused most of the reads.
    """

    program: str
    unit: str
    pid: int
    read_bytes: int
    written_bytes: int
    requested_bytes: int


@dataclass(frozen=True, slots=True)
class UnrequestedReads:
    """The share of a device's reads that `programs`, the largest first, caused unrequested."""

    ratio: float
    programs: tuple[WritingProgram, ...]


@dataclass(frozen=True, slots=True)
class UnrequestedState:
    """By device with phantom reads: its first sweep, and what is proven since."""

    first: Mapping[str, SweepMoment] = field(default_factory=dict)
    reads: Mapping[str, UnrequestedReads] = field(default_factory=dict)
    last: SweepMoment | None = None
    """The sweep that was last evaluated."""


NOTHING = UnrequestedState()


def _step(state: UnrequestedState, view: View) -> tuple[UnrequestedState, list[Sample] | None]:
    found = view.earlier.get(phantom_reads.GROUP.name)
    if found is None:
        return state, None
    devices = [
        value
        for metric, labels, _ in found
        if metric == phantom_reads.SECONDS
        for label, value in labels
        if label == "device"
    ]
    if not devices:
        return NOTHING, []
    sweeps = waits.GROUP.state(view.states).sweeps
    if sweeps and sweeps[-1] is not state.last:
        is_new = view.inputs.now_seconds - sweeps[-1].moved.at_seconds <= MAX_SWEEP_AGE_SECONDS
        state = _swept(state, sweeps[-1], devices, can_begin=is_new)
    return state, [
        (RATIO, (("device", name),), round(state.reads[name].ratio, 3))
        for name in devices
        if name in state.reads
    ]


def _swept(
    state: UnrequestedState, last: SweepMoment, devices: Iterable[str], *, can_begin: bool
) -> UnrequestedState:
    """Return the state with a new sweep; a device whose phantom reads ended is forgotten."""
    first = {name: state.first[name] for name in devices if name in state.first}
    reads = {}
    for name in devices:
        if name not in first:
            if can_begin:
                first[name] = last
        elif last.sweep.boot_seconds - first[name].sweep.boot_seconds >= MIN_SECONDS:
            proven = unrequested_reads(name, first[name], last)
            if proven is not None:
                reads[name] = proven
    return replace(state, first=first, reads=reads, last=last)


def unrequested_reads(
    device: str, first: SweepMoment, last: SweepMoment
) -> UnrequestedReads | None:
    """Return what programs made a device read between two sweeps without requesting it.

    None: not known, because of the device or of the programs the counters are missing.
    """
    before, after = (moment.moved.blocks.get(device) for moment in (first, last))
    programs = _programs(increases(first.sweep, last.sweep))
    if before is None or after is None or not programs:
        return None
    read = after.read_bytes_total - before.read_bytes_total
    written = after.written_bytes_total - before.written_bytes_total
    if read <= 0 or written <= 0:
        return None
    writers = [
        program
        for program, faults, by_calls in programs
        if program.written_bytes >= WRITER_RATIO * written
        and program.read_bytes > 0
        and _reads_unrequested(program, faults, by_calls)
    ]
    writers.sort(key=lambda program: (-program.read_bytes, program.pid))
    ratio = min(sum(program.read_bytes for program in writers) / read, 1.0)
    return UnrequestedReads(ratio, tuple(writers[:MAX_PROGRAMS]))


def _reads_unrequested(program: WritingProgram, faults: int, write_call_bytes: int) -> bool:
    """Whether a program requests hardly anything, and its reads come from how it writes."""
    written = max(program.written_bytes, write_call_bytes)
    if program.requested_bytes >= REQUESTED_RATIO * written:
        return False
    if write_call_bytes >= BY_CALLS_RATIO * program.written_bytes:
        # Page faults of a program that writes by calls read mapped files: it may want them.
        return faults * READ_AROUND_BYTES < program.read_bytes / 2
    # It writes into mapped files, or by asynchronous I/O, which reads without a fault and a call.
    return faults * MAX_READ_AROUND_BYTES >= program.read_bytes


def _programs(found: Iterable[Increase]) -> list[tuple[WritingProgram, int, int]]:
    """Return programs whose counters are known, with their major faults and bytes of write(2)."""
    together: dict[tuple[str, str], list[Increase]] = {}
    for one in found:
        if one.pid != _INIT or not one.ended:  # else what ended was of several programs
            together.setdefault((one.command, one.unit), []).append(one)
    programs = []
    for (command, unit), of_program in together.items():
        requested = [one.read_call_bytes for one in of_program if one.read_call_bytes is not None]
        by_calls = [one.write_call_bytes for one in of_program if one.write_call_bytes is not None]
        faults = [one.major_faults for one in of_program if one.major_faults is not None]
        if any(len(known) < len(of_program) for known in (requested, by_calls, faults)):
            continue
        largest = max(of_program, key=lambda one: (one.read_bytes, -one.pid))
        program = WritingProgram(
            program=command,
            unit=unit,
            pid=largest.pid,
            read_bytes=sum(one.read_bytes for one in of_program),
            written_bytes=sum(one.write_bytes for one in of_program),
            requested_bytes=sum(requested),
        )
        programs.append((program, sum(faults), sum(by_calls)))
    return programs


GROUP = SignalGroup(
    name="unrequested_reads",
    sources=phantom_reads.SOURCES,
    families=(
        Family(
            RATIO,
            "gauge",
            "Share of what a device with phantom reads has read since these began that programs"
            " caused which write to it and request hardly any reads.",
        ),
    ),
    step=_step,
    initial=NOTHING,
)
