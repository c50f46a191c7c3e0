"""'iowarden trace DISK': latencies of a disk's requests, measured by the kernel for a few seconds.

Needs root, or the role of an operator, who gets no names of files, nor of programs unless the
configuration can be read: it may forbid these. The service need not run.
Nothing is written to the disk.
Exit status: 0 traced, 1 not possible, 2 for wrong usage, 130 after Ctrl-C, which ends the trace.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import read_block
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import SECTOR_BYTES, AbsentError, ParseError, ReadError
from iowarden.collectors.quantity import duration, percentage, size
from iowarden.daemon.cli import command
from iowarden.daemon.cli.service_client import ServiceError, guarded
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.locate.locate import LocateError, locate
from iowarden.daemon.terminal.arguments import duration as duration_argument
from iowarden.daemon.terminal.console import print_json, show, table_of
from iowarden.daemon.terminal.times import at_text
from iowarden.daemon.trace.protocol import ALL_SIZES, MAX_SECONDS, TraceRequest
from iowarden.daemon.trace_client import client, texts
from iowarden.daemon.trace_client.targets import targets
from iowarden.rules.topology.device_identity import identity
from iowarden.rules.topology.file_location import ContentKind, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.terminal.console import Columns, Table
    from iowarden.daemon.trace.protocol import DiskTrace, LatencyLine, TracedRequest, TraceResult

    Query = Callable[[str, Sequence[str], float], str]
    """Of the probe: verb, arguments, seconds."""

MIN_SECONDS = 1.0
FILES_SECONDS = 20.0
"""Time limit for all files together: on a large file system one alone may take minutes."""
CLOSE_SECONDS = 2.0
BAR_WIDTH = 40
_BAR, _PLAIN_BAR = "█", "#"
GROUPS = {
    "reads": ("read", "read_ahead"),
    "writes": ("write", "sync_write", "fua_write"),
    "flushes, discards, others": ("flush", "discard", "other"),
}
"""Histograms, and the operations in each."""
Files = dict[tuple[str, int], str]
"""By device and sector."""


def add_commands(add: Add) -> None:
    """Add the command, by a function that takes name and what runs."""
    parser = add("trace", lambda arguments: guarded(_trace, arguments))
    command.configured(parser)
    parser.add_argument(
        "disk",
        metavar="DISK",
        help="device, or beginning of a serial number; of an array or volume its disks are traced",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=_seconds,
        default=5.0,
        metavar="DURATION",
        help=f"for how long, at most {MAX_SECONDS:.0f}s; default: 5s",
    )
    parser.add_argument(
        "--no-files",
        action="store_true",
        help="do not look for the files of the slowest requests; that reads the file system",
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def _seconds(text: str) -> float:
    seconds = duration_argument(text)
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(
            f"expected {MIN_SECONDS:.0f}s to {MAX_SECONDS:.0f}s, got '{text}'"
        )
    return seconds


def _trace(arguments: argparse.Namespace) -> int:
    config = _config(arguments)
    try:
        topology = read_block(Machine())
        disks = targets(topology, arguments.disk)
        if sys.stderr.isatty():
            names = ", ".join(each.name for each in disks)
            sys.stderr.write(f"tracing {names} for {duration(arguments.seconds)}\n")
        numbers = {each.device_number or "": each.name for each in disks}
        found = client.trace(TraceRequest(tuple(numbers), arguments.seconds))
    except (client.TraceError, AbsentError, ReadError) as error:
        raise ServiceError(str(error)) from error
    if config is None or not config.show_programs:
        found = texts.unnamed(found)
    files = {} if config is None or arguments.no_files else _files(config, found, numbers)
    if arguments.json:
        print_json(as_data(found, numbers, files))
    else:
        objects = {name: identity(topology, name).object for name in numbers.values()}
        show(sections(found, numbers, objects, files, bar(sys.stdout.encoding)))
    return 0


def _config(arguments: argparse.Namespace) -> Config | None:
    """Return the configuration; None: an operator may trace, and not read it."""
    try:
        return command.settings(arguments)
    except ConfigError:
        if not os.geteuid():
            raise
        return None


def _files(config: Config, found: TraceResult, names: Mapping[str, str]) -> Files:
    """Return the owners of the slowest requests' sectors, as far as they are found in time."""
    probe = command.probe(config, SystemClock())
    if probe is None:
        return {}
    files: Files = {}
    end = time.monotonic() + FILES_SECONDS
    probe.begin()
    try:
        root = Machine(probe=once(probe.request))
        for disk in found.disks:
            name = names[disk.device_number]
            # Reads first: programs wait for them, and not for writeback.
            slowest = sorted(disk.slowest, key=lambda r: r.operation not in GROUPS["reads"])
            for each in (each for each in slowest if each.operation in texts.OF_DATA):
                left = end - time.monotonic()
                if left <= 0:
                    return files
                count = max(each.bytes // SECTOR_BYTES, 1)
                try:
                    located = locate(
                        root, name, each.sector, count, time.monotonic, left, clipped=True
                    )
                except (LocateError, AbsentError, ReadError, ParseError):
                    continue  # a disk that is gone; the request itself is shown
                owners = [
                    answer.path or sentence(answer)
                    for answer in located.answers
                    if answer.kind is not ContentKind.UNKNOWN
                ]
                if owners:
                    files[name, each.sector] = ", ".join(dict.fromkeys(owners))
    finally:
        probe.close(CLOSE_SECONDS)
    return files


def once(request: Query) -> Query:
    """Return what queries the probe once for each question: many sectors are of the same file."""
    answers: dict[tuple[str, ...], str] = {}

    def answer(verb: str, arguments: Sequence[str], deadline_seconds: float) -> str:
        question = verb, *arguments
        if question not in answers:
            answers[question] = request(verb, arguments, deadline_seconds)
        return answers[question]

    return answer


def as_data(
    found: TraceResult, names: Mapping[str, str], files: Mapping[tuple[str, int], str]
) -> dict[str, object]:
    """Return the result for JSON: of each disk its name, of the slowest requests their files."""
    data = dataclasses.asdict(found)
    for disk in data["disks"]:
        disk["device"] = names[disk["device_number"]]
        for each in disk["slowest"]:
            each["file"] = files.get((disk["device"], each["sector"]))
    return data


def sections(
    found: TraceResult,
    names: Mapping[str, str],
    objects: Mapping[str, str],
    files: Mapping[tuple[str, int], str],
    filled: str,
) -> Iterator[str | Table]:
    """Return what the command shows; `filled` is the character that bars are made of."""
    for disk in found.disks:
        name = names[disk.device_number]
        yield f"{objects[name]}: {texts.summary(found, disk)} in {duration(found.seconds)}"
        yield from (f"  {note}" for note in texts.notes(found, disk))
        yield from table_of("latency from issue to completion", _shown(disk), _LATENCIES)
        for title, operations in GROUPS.items():
            own = [line for line in texts.totals(disk) if line.operation in operations]
            yield from table_of(title, distribution(own), _distribution(filled))
        columns: Columns[TracedRequest] = _REQUESTS
        if own_files := {sector: path for (of, sector), path in files.items() if of == name}:
            columns = {**columns, "file": lambda each, own=own_files: own.get(each.sector, "")}  # type: ignore[misc]
        yield from table_of("slowest requests", disk.slowest, columns)
        yield from table_of("not completed", texts.overdue(disk), _REQUESTS)
        if disk.slowest and not own_files:
            worst = disk.slowest[0]
            count = max(worst.bytes // SECTOR_BYTES, 1)
            yield f"file of the slowest: iowarden locate {name} {worst.sector}+{count}"
    if any(line.operation == "write" for disk in found.disks for line in disk.latencies):
        yield ("writeback is issued by kernel threads; the programs that wrote are not in a trace")


def distribution(lines: Iterable[LatencyLine]) -> list[tuple[float, int, float, float]]:
    """Return the histogram of some operations together, a row for each doubling of the latency.

    Upper limit in seconds, requests, their share, and that share relative to the largest one.
    """
    counts: Counter[float] = Counter()
    for line in lines:
        counts.update(dict(line.histogram))
    limits = [min(counts, default=0.0)]
    while limits[-1] < max(counts, default=0.0):
        limits.append(limits[-1] * 2)
    most, total = max(counts.values(), default=0), counts.total()
    return [
        (each, counts[each], counts[each] / total, counts[each] / most) for each in limits if total
    ]


def _distribution(filled: str) -> Columns[tuple[float, int, float, float]]:
    return {
        "latency": lambda row: f"<= {texts.latency(row[0])}",
        "requests": lambda row: str(row[1]),
        "share": lambda row: percentage(row[2]),
        "histogram": lambda row: filled * math.ceil(row[3] * BAR_WIDTH),
    }


def bar(encoding: str | None) -> str:
    """Return the character that bars are made of: ASCII if the output cannot show a block."""
    try:
        _BAR.encode(encoding or "ascii")
    except (UnicodeError, LookupError):
        return _PLAIN_BAR
    return _BAR if sys.stdout.isatty() else _PLAIN_BAR


def _shown(disk: DiskTrace) -> list[LatencyLine]:
    """Return the lines of each operation and size; the sum only of operations with many sizes."""
    lines = list(disk.latencies)
    sizes = Counter(line.operation for line in lines if line.size != ALL_SIZES)
    return [line for line in lines if line.size != ALL_SIZES or sizes[line.operation] > 1]


_LATENCIES: Columns[LatencyLine] = {
    "operation": lambda line: texts.operation(line.operation),
    "size": lambda line: line.size,
    "requests": lambda line: str(line.requests),
    "p50": lambda line: texts.latency(line.p50_seconds),
    "p90": lambda line: texts.latency(line.p90_seconds),
    "p99": lambda line: texts.latency(line.p99_seconds),
    "slowest": lambda line: texts.latency(line.max_seconds),
}
_REQUESTS: Columns[TracedRequest] = {
    "latency": lambda each: texts.latency(each.seconds),
    "issued": lambda each: at_text(each.at_seconds).partition(" ")[2],
    "operation": lambda each: texts.operation(each.operation),
    "size": lambda each: size(each.bytes),
    "sector": lambda each: str(each.sector),
    "program": texts.program,
}
