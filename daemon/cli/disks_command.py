"""'iowarden coverage' and 'iowarden disk': which disks there are, which are read, all of one.

Exit status of 'coverage', as that of 'check': 0 every physical disk is read or asleep, 1 one is
not, 2 one that the configuration names is missing, 3 nothing is read, or nobody answers. The others
as in daemon.console.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from iowarden.daemon.cli.console import (
    ServiceError,
    Table,
    alert_text,
    at_text,
    command_of,
    decoded,
    printable,
    requested,
    say,
    say_json,
    show,
    since_text,
    table_of,
)
from iowarden.daemon.control.documents import Coverage, DiskDetail, DiskHistory, DiskLine
from iowarden.rules.quantity import quantity, size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from iowarden.daemon.cli.command import Add

EXIT_STATUS = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "_.,-=+*#"
MOST_BARS = 60
MOST_ROWS = 40


def add_commands(add: Add) -> None:
    """Add the commands of this module, by a function that takes name, what runs, and help."""
    words = "which disks are read, which are not, and why; exit status 0 only if all are"
    covered = command_of(add("coverage", _coverage, words), _coverage)
    covered.add_argument("--json", action="store_true", help="the answer as data")
    disk = add("disk", _list, "the disks of this machine, and what they say of themselves")
    actions = disk.add_subparsers(required=True, metavar="ACTION")
    listed = command_of(actions.add_parser("list", help="all disks, one a line"), _list)
    shown = command_of(actions.add_parser("show", help="all that is known of a disk"), _show)
    past = command_of(
        actions.add_parser("history", help="what an attribute of a disk was over time"), _history
    )
    gone = command_of(
        actions.add_parser("forget", help="say that a missing disk was taken out"), _forget
    )
    for parser in (listed, shown, past):
        parser.add_argument("--json", action="store_true", help="the answer as data")
    for parser in (shown, past, gone):
        parser.add_argument(
            "disk", metavar="SERIAL", help="its serial number, the beginning of it, or its device"
        )
    past.add_argument(
        "attribute",
        metavar="ATTRIBUTE",
        help="such as 197, Current_Pending_Sector, '197 value', temperature_celsius",
    )
    past.add_argument("--all", action="store_true", help=f"not only the last {MOST_ROWS} values")


# --- the commands


def _coverage(arguments: argparse.Namespace) -> int:
    try:
        answer = requested(arguments, "coverage")
        found = decoded(Coverage, answer)
    except ServiceError as error:  # that nobody answers is no 'warning'
        sys.stderr.write(f"{printable(str(error))}\n")
        return EXIT_STATUS["unknown"]
    if arguments.json:
        say_json(answer)
    else:
        show(coverage_sections(found))
    return EXIT_STATUS.get(found.verdict, EXIT_STATUS["unknown"])


def _list(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "coverage")
    if arguments.json:
        say_json(answer["disks"])
    else:
        show(list_sections(decoded(Coverage, answer)))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "disk show", {"disk": arguments.disk})
    if arguments.json:
        say_json(answer)
    else:
        show(detail_sections(decoded(DiskDetail, answer)))
    return 0


def _history(arguments: argparse.Namespace) -> int:
    asked = {"disk": arguments.disk, "attribute": arguments.attribute}
    answer = requested(arguments, "disk history", asked)
    if arguments.json:
        say_json(answer)
    else:
        most = math.inf if arguments.all else MOST_ROWS
        show(history_sections(decoded(DiskHistory, answer), most, sys.stdout.encoding))
    return 0


def _forget(arguments: argparse.Namespace) -> int:
    line = decoded(DiskLine, requested(arguments, "disk forget", {"disk": arguments.disk}))
    say(f"{line.object} is missed no longer; if it comes back, it is known again")
    return 0


# --- showing


def coverage_sections(found: Coverage) -> list[str | Table]:
    """Return what is shown of the coverage: who is not read comes first, with the reason."""
    now = found.now_seconds
    looked = "not yet" if found.found_seconds is None else since_text(found.found_seconds, now)
    sections: list[str | Table] = [f"{found.verdict}: {found.summary}"]
    sections += [f"trouble: {problem}" for problem in found.problems]
    fine = ("read", "asleep")
    silent = [d for d in found.disks if d.physical and d.cover not in fine]
    if silent:
        lost = [(_name(d), d.disk, d.cover, _last_read(d, now), d.reason) for d in silent]
        headings = ("disk", "serial", "cover", "last read", "reason")
        sections.append(table_of("not read", headings, lost))
        cures = {d.cover: d.cure for d in silent if d.cure}
        sections += [f"{cover}: {cure}" for cover, cure in cures.items()]
    read = [d for d in found.disks if d.physical and d.cover in fine]
    if read:
        rows = [
            (
                _name(d),
                d.disk,
                d.cover,
                since_text(d.read_seconds, now),
                d.how,
                ", ".join(d.expected_by),
                "; ".join(d.not_read) or "-",
            )
            for d in read
        ]
        columns = ("disk", "serial", "cover", "last read", "way", "known by", "does not say")
        sections.append(table_of("read", columns, rows))
    others = [(_name(d), d.cover, d.reason) for d in found.disks if not d.physical]
    if others:
        sections.append(table_of("nothing to read", ("disk", "cover", "reason"), others))
    sections.append(f"disks were looked for: {looked}")
    return sections


def list_sections(found: Coverage) -> list[str | Table]:
    """Return all disks, one a line."""
    rows = [
        (
            _name(d),
            d.disk,
            d.model or "-",
            "-" if d.capacity_bytes is None else size(d.capacity_bytes),
            d.kind or "-",
            d.health or "-",
            "-" if d.temperature_celsius is None else f"{d.temperature_celsius:g} C",
            "-" if d.power_on_hours is None else f"{d.power_on_hours:g} h",
            d.cover,
            ", ".join(d.alerts) or "-",
        )
        for d in found.disks
    ]
    columns = ("disk", "serial", "model", "size", "kind", "health", "now", "on", "cover", "alerts")
    return [table_of("disks", columns, rows) if rows else "no disk", found.summary]


def detail_sections(found: DiskDetail) -> list[str | Table]:
    """Return all that is known of a disk, what is wrong first."""
    line, now = found.line, found.now_seconds
    read = since_text(line.read_seconds, now)
    cover = f"{line.cover}; last read {read}" if line.read_seconds is not None else line.cover
    sections: list[str | Table] = [line.object, f"  cover: {cover}"]
    sections += [f"  reason: {line.reason}"] if line.reason else []
    sections += [f"  what to do: {line.cure}"] if line.cure else []
    sections += [f"  known by: {', '.join(line.expected_by)}"]
    sections += [f"  slot: {line.slot}"] if line.slot else []
    sections += [f"  carries: {', '.join(found.carries)}"] if found.carries else []
    sections += [f"  does not say: {'; '.join(line.not_read)}"] if line.not_read else []
    if found.alerts:
        alerts = [
            (a.severity, a.state, a.name, since_text(a.since_seconds, now), alert_text(a, now))
            for a in found.alerts
        ]
        columns = ("severity", "state", "alert", "since", "summary")
        sections.append(table_of("alerts", columns, alerts))
    if found.facts:
        sections.append(table_of("what it says", ("what", "value"), list(found.facts)))
    if found.attributes:
        of_attributes = ("id", "attribute", "value", "worst", "threshold", "failed", "raw")
        attributes = [
            (str(a.id), a.name, a.value, a.worst, a.threshold, a.failed or "-", a.raw or "hidden")
            for a in found.attributes
        ]
        sections.append(table_of("attributes", of_attributes, attributes))
    if found.self_tests:
        of_tests = ("self-test", "result", "status", "at", "first bad sector")
        tests = [
            (
                t.kind,
                t.result or "-",
                t.status,
                "-" if t.hours is None else f"{t.hours} h",
                "-" if t.lba is None else str(t.lba),
            )
            for t in found.self_tests
        ]
        sections.append(table_of("self-tests, the newest first", of_tests, tests))
    sections += [f"other way: {way}" for way in found.ways]
    sections += [f"smartctl: {text}" for text in found.messages]
    return sections


def history_sections(
    found: DiskHistory, most_rows: float, encoding: str | None
) -> list[str | Table]:
    """Return what an attribute was: a line of bars, then a row for each time that it changed."""
    values = [value for _, value in found.samples]
    unit = found.attribute
    lowest, highest = quantity(unit, min(values)), quantity(unit, max(values))
    rows = []
    before: float | None = None
    for at, value in found.samples:
        change = "" if before is None or value == before else f"{value - before:+.10g}"
        if before is None or change or (at, value) == found.samples[-1]:
            rows.append((at_text(at), quantity(unit, value), change))
        before = value
    left = max(len(rows) - most_rows, 0)
    sections: list[str | Table] = [
        f"{found.disk}: {found.attribute}, from {lowest} to {highest}",
        f"  {sparkline(found.samples, encoding)}",
    ]
    sections.append(table_of("changes", ("time", "value", "change"), rows[int(left) :]))
    if left:
        sections.append(f"{left:.0f} earlier ones: --all")
    return sections


def sparkline(samples: Sequence[tuple[float, float]], encoding: str | None) -> str:
    """Return values over time as bars of eight heights, at equal distances of time.

    A value holds until the next. Plain characters stand in where the terminal has no bars.
    """
    bars = _BARS
    try:
        bars.encode(encoding or "ascii")
    except (UnicodeError, LookupError):
        bars = _PLAIN_BARS
    first, last = samples[0][0], samples[-1][0]
    lowest = min(value for _, value in samples)
    span = max(value for _, value in samples) - lowest
    # Of all values in a bar's time the highest is shown: one bad day must not fall between two.
    width = min(MOST_BARS, len(samples)) if last > first else 1
    heights: list[float] = []
    position, held = 0, samples[0][1]
    for number in range(width):
        end = last if number == width - 1 else first + (last - first) * (number + 1) / width
        highest = held
        while position < len(samples) and samples[position][0] <= end:
            held = samples[position][1]
            highest = max(highest, held)
            position += 1
        heights.append(highest)
    if not span:
        return bars[0] * width
    return "".join(bars[int((height - lowest) / span * (len(bars) - 1))] for height in heights)


def _last_read(disk: DiskLine, now: float) -> str:
    """Return when a disk was read last; of one that vanished that is not kept."""
    if disk.read_seconds is None and disk.cover == "missing":
        return "not known"
    return since_text(disk.read_seconds, now)


def _name(disk: DiskLine) -> str:
    """Return what a disk is called in a table: its device, else how it is asked."""
    return disk.device or " ".join(
        w for w in (disk.how, f"({disk.slot})" if disk.slot else "") if w
    )
