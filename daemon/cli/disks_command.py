"""'iowarden monitoring', 'disk' and 'storage': all disks, one, and what is built on them.

Exit status of 'monitoring', as that of 'check': 0 every physical disk is monitored or asleep, 1 one
is not, 2 one that the configuration names is missing, 3 no disk is monitored, or the service does
not answer. The others as in daemon.cli.service_client.
"""

from __future__ import annotations

import math
import shutil
import sys
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import quantity, size
from iowarden.daemon.cli.service_client import (
    ServiceError,
    command_of,
    decoded,
    requested,
    show_answer,
)
from iowarden.daemon.control.documents import DiskDetail, DiskHistory, DiskLine, DiskList
from iowarden.daemon.control.storage_document import StorageTree
from iowarden.daemon.sanitize import one_line
from iowarden.daemon.terminal import columns
from iowarden.daemon.terminal.arguments import subcommand
from iowarden.daemon.terminal.console import (
    BARS,
    PLAIN_BARS,
    print_error,
    print_json,
    print_line,
    print_raw,
    show,
    table_of,
)
from iowarden.daemon.terminal.storage_layout import bay_lines, tree_lines
from iowarden.daemon.terminal.times import at_text, since_text, span

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.terminal.console import Columns, Sections

EXIT_STATUS = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
_FINE = ("monitored", "asleep")
MAX_BARS = 60
MAX_ROWS = 40
MIN_WIDTH, MAX_CHARACTERS = 80, 10_000
"""Of the lines of 'storage'."""


def add_commands(add: Add) -> None:
    """Add the commands of this module, by a function that takes name and what runs."""
    command_of(add("monitoring", _inventory), _inventory, data=True)
    disk = add("disk", _list)
    actions = disk.add_subparsers(required=True, metavar="ACTION")
    command_of(subcommand(actions, "list", "list all disks, one per line"), _list, data=True)
    one = subcommand(actions, "show", "show SMART data, self-tests and alerts of a disk")
    past = subcommand(actions, "history", "show how an attribute of a disk changed")
    gone = subcommand(actions, "forget", "stop reporting a removed disk as missing")
    for parser, run in ((one, _show), (past, _history), (gone, _forget)):
        command_of(parser, run, data=parser is not gone).add_argument(
            "disk", metavar="SERIAL", help="serial number, the beginning of it, or device"
        )
    past.add_argument(
        "attribute",
        metavar="ATTRIBUTE",
        help="for example 197, Current_Pending_Sector, '197 value', temperature_celsius",
    )
    past.add_argument(
        "--all", action="store_true", help=f"show all changes, not only the last {MAX_ROWS}"
    )
    tree = command_of(add("storage", _storage), _storage, data=True)
    tree.add_argument(
        "--by-bay", action="store_true", help="list the disks by adapter, enclosure and bay"
    )
    tree.add_argument(
        "--all", action="store_true", help="show every disk and file system, nothing folded"
    )


# --- the commands


def _storage(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "storage")
    if arguments.json:
        print_json(answer)
        return 0
    tree = decoded(StorageTree, answer)
    width = MIN_WIDTH
    if sys.stdout.isatty():
        width = max(shutil.get_terminal_size((MIN_WIDTH, 24)).columns, MIN_WIDTH)
    lines = (
        bay_lines(tree, width)
        if arguments.by_bay
        else tree_lines(tree, width, unfolded=arguments.all)
    )
    for line in lines:
        print_raw(one_line(line, MAX_CHARACTERS, blanks=True))
    return 0


def _inventory(arguments: argparse.Namespace) -> int:
    try:
        answer = requested(arguments, "monitoring")
        found = decoded(DiskList, answer)
    except ServiceError as error:  # a service that does not answer is 'unknown', not 'warning'
        print_error(str(error))
        return EXIT_STATUS["unknown"]
    if arguments.json:
        print_json(answer)
    else:
        show(inventory_sections(found))
    return EXIT_STATUS.get(found.status, EXIT_STATUS["unknown"])


def _list(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "monitoring")
    if arguments.json:
        print_json(answer["disks"])
    else:
        show(list_sections(decoded(DiskList, answer)))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    return show_answer(
        arguments, "disk show", DiskDetail, detail_sections, {"disk": arguments.disk}
    )


def _history(arguments: argparse.Namespace) -> int:
    def sections(found: DiskHistory) -> Sections:
        most = math.inf if arguments.all else MAX_ROWS
        return history_sections(found, most, sys.stdout.encoding)

    asked = {"disk": arguments.disk, "attribute": arguments.attribute}
    return show_answer(arguments, "disk history", DiskHistory, sections, asked)


def _forget(arguments: argparse.Namespace) -> int:
    line = decoded(DiskLine, requested(arguments, "disk forget", {"disk": arguments.disk}))
    print_line(
        f"{line.object} is no longer reported as missing; if it comes back, it is monitored again"
    )
    return 0


# --- showing


def inventory_sections(found: DiskList) -> Sections:
    """Return the monitoring status of all disks: unmonitored ones first, with the reason."""
    of_disks = _columns(found.now_seconds)
    physical = [d for d in found.disks if d.physical]
    silent = [d for d in physical if d.monitoring_state not in _FINE]
    fine = [d for d in physical if d.monitoring_state in _FINE]
    others = [d for d in found.disks if not d.physical]
    lost = ("disk", "serial", "monitoring", "last polled", "reason")
    read = (
        *("disk", "serial", "monitoring", "last polled", "read completely", "access method"),
        *("listed by", "unavailable"),
        *(("reason",) if any(d.reason for d in fine) else ()),
    )
    cures = {d.monitoring_state: d.remedy for d in silent if d.remedy}
    never = found.discovered_seconds is None
    looked = "not yet" if never else since_text(found.discovered_seconds, found.now_seconds)
    return [
        f"{found.status}: {found.summary}",
        *(f"problem: {problem}" for problem in found.problems),
        *table_of("not monitored", silent, of_disks, *lost),
        *(f"{cover}: {cure}" for cover, cure in cures.items()),
        *table_of("monitored", fine, of_disks, *read),
        *table_of("no SMART data of their own", others, of_disks, "disk", "monitoring", "reason"),
        f"last disk discovery: {looked}",
    ]


def list_sections(found: DiskList) -> Sections:
    """Return all disks, one per line."""
    titles = (
        *("disk", "serial", "model", "size", "kind", "health", "temperature", "power-on"),
        *("monitoring", "alerts"),
    )
    disks = table_of("disks", found.disks, _columns(found.now_seconds), *titles)
    return [f"{found.status}: {found.summary}", *(disks or ("no disk",))]


def _columns(now: float) -> Columns[DiskLine]:
    return {
        "disk": _name,
        "serial": lambda d: d.disk,
        "model": lambda d: d.model or "-",
        "size": lambda d: "-" if d.capacity_bytes is None else size(d.capacity_bytes),
        "kind": lambda d: d.kind or "-",
        "health": lambda d: d.health or "-",
        "temperature": lambda d: (
            "-" if d.temperature_celsius is None else f"{d.temperature_celsius:g} C"
        ),
        "power-on": lambda d: "-" if d.power_on_hours is None else f"{d.power_on_hours:g} h",
        "monitoring": lambda d: d.monitoring_state,
        "last polled": lambda d: _last_read(d, now),
        "read completely": lambda d: full_read(d, now),
        "reason": lambda d: d.reason or "-",
        "access method": lambda d: d.access_method,
        "listed by": lambda d: ", ".join(d.expected_by),
        "unavailable": lambda d: "; ".join(d.unavailable) or "-",
        "alerts": lambda d: ", ".join(d.alerts) or "-",
    }


def detail_sections(found: DiskDetail) -> Sections:
    """Return the details of a disk: monitoring status and alerts first."""
    line, now = found.line, found.now_seconds
    last = (
        ""
        if line.polled_seconds is None
        else f"; last polled {since_text(line.polled_seconds, now)}"
    )
    facts = {
        "monitoring": f"{line.monitoring_state}{last}",
        "reason": line.reason,
        "what to do": line.remedy,
        "listed by": ", ".join(line.expected_by),
        "read completely": full_read(line, now),
        "slot": line.slot,
        "used by": ", ".join(found.used_by),
        "guards": "; ".join(found.guards),
        "unavailable": "; ".join(line.unavailable),
    }
    of_alerts = ("severity", "state", "alert", "since", "summary")
    return [
        line.object,
        *(
            f"  {name}: {text}"
            for name, text in facts.items()
            if text or name in ("monitoring", "listed by")
        ),
        *table_of("alerts", found.alerts, columns.of_alerts(now), *of_alerts),
        *table_of("drive data", found.facts, {"name": lambda f: f[0], "value": lambda f: f[1]}),
        *table_of(
            "attributes",
            found.attributes,
            {
                "id": lambda a: str(a.id),
                "attribute": lambda a: a.name,
                "value": lambda a: a.value,
                "worst": lambda a: a.worst,
                "threshold": lambda a: a.threshold,
                "when failed": lambda a: a.when_failed or "-",
                "raw": lambda a: a.raw or "hidden",
            },
        ),
        *table_of(
            "self-test log, newest first",
            found.self_tests,
            {
                "self-test": lambda t: t.kind,
                "result": lambda t: t.result or "-",
                "status": lambda t: t.status,
                "power-on": lambda t: "-" if t.hours is None else f"{t.hours} h",
                "LBA of first error": lambda t: "-" if t.lba is None else str(t.lba),
            },
        ),
        *(f"other access method: {way}" for way in found.other_access_methods),
        *(f"smartctl: {text}" for text in found.messages),
    ]


def history_sections(found: DiskHistory, max_rows: float, encoding: str | None) -> Sections:
    """Return the history of an attribute: a sparkline, then a row for each change."""
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
    left = max(len(rows) - max_rows, 0)
    of_changes: Columns[tuple[str, str, str]] = {
        "time": lambda row: row[0],
        "value": lambda row: row[1],
        "change": lambda row: row[2],
    }
    return [
        f"{found.disk}: {found.attribute}, from {lowest} to {highest}",
        f"  {sparkline(found.samples, encoding)}",
        *table_of("changes", rows[int(left) :], of_changes),
        *([f"{left:.0f} earlier changes not shown; use --all"] if left else []),
    ]


def sparkline(samples: Sequence[tuple[float, float]], encoding: str | None) -> str:
    """Return values over time as bars of eight heights, at equal time steps.

    A value is valid until the next. ASCII characters replace bars that the terminal cannot show.
    """
    bars = BARS
    try:
        bars.encode(encoding or "ascii")
    except (UnicodeError, LookupError):
        bars = PLAIN_BARS
    first, last = samples[0][0], samples[-1][0]
    lowest = min(value for _, value in samples)
    span = max(value for _, value in samples) - lowest
    # A bar shows the highest value of its time: one bad day must not get lost between two bars.
    width = min(MAX_BARS, len(samples)) if last > first else 1
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


def full_read(disk: DiskLine, now: float) -> str:
    """Return how long ago every sector of a disk was read, and by what."""
    if disk.full_read_seconds is None:
        return "unknown"
    by = disk.full_read_by.replace("_", " ")
    return f"{span(now - disk.full_read_seconds)} ago by {by.replace('self test', 'self-test')}"


def _last_read(disk: DiskLine, now: float) -> str:
    """Return when a disk was last polled; of a missing disk that is not stored."""
    if disk.polled_seconds is None and disk.monitoring_state == "missing":
        return "unknown"
    return since_text(disk.polled_seconds, now)


def _name(disk: DiskLine) -> str:
    """Return the name of a disk in a table: its device, else its access method and slot."""
    return disk.device or " ".join(
        w for w in (disk.access_method, f"({disk.slot})" if disk.slot else "") if w
    )
