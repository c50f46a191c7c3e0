"""'iowarden coverage' and 'iowarden disk': which disks there are, which are read, all of one.

Exit status of 'coverage', as that of 'check': 0 every physical disk is read or asleep, 1 one is
not, 2 one that the configuration names is missing, 3 nothing is read, or nobody answers. The others
as in daemon.cli.service_client.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from iowarden.daemon.cli import columns
from iowarden.daemon.cli.console import (
    at_text,
    printable,
    say,
    say_json,
    show,
    since_text,
    table_of,
)
from iowarden.daemon.cli.service_client import (
    ServiceError,
    command_of,
    decoded,
    requested,
    shown,
)
from iowarden.daemon.control.documents import Coverage, DiskDetail, DiskHistory, DiskLine
from iowarden.rules.quantity import quantity, size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.cli.console import Columns, Sections

EXIT_STATUS = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "_.,-=+*#"
_FINE = ("read", "asleep")
MOST_BARS = 60
MOST_ROWS = 40


def add_commands(add: Add) -> None:
    """Add the commands of this module, by a function that takes name, what runs, and help."""
    words = "which disks are read, which are not, and why; exit status 0 only if all are"
    command_of(add("coverage", _coverage, words), _coverage, data=True)
    disk = add("disk", _list, "the disks of this machine, and what they say of themselves")
    actions = disk.add_subparsers(required=True, metavar="ACTION")
    command_of(actions.add_parser("list", help="all disks, one a line"), _list, data=True)
    one = actions.add_parser("show", help="all that is known of a disk")
    past = actions.add_parser("history", help="what an attribute of a disk was over time")
    gone = actions.add_parser("forget", help="say that a missing disk was taken out")
    for parser, run in ((one, _show), (past, _history), (gone, _forget)):
        command_of(parser, run, data=parser is not gone).add_argument(
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
    return shown(arguments, "disk show", DiskDetail, detail_sections, {"disk": arguments.disk})


def _history(arguments: argparse.Namespace) -> int:
    def sections(found: DiskHistory) -> Sections:
        most = math.inf if arguments.all else MOST_ROWS
        return history_sections(found, most, sys.stdout.encoding)

    asked = {"disk": arguments.disk, "attribute": arguments.attribute}
    return shown(arguments, "disk history", DiskHistory, sections, asked)


def _forget(arguments: argparse.Namespace) -> int:
    line = decoded(DiskLine, requested(arguments, "disk forget", {"disk": arguments.disk}))
    say(f"{line.object} is missed no longer; if it comes back, it is known again")
    return 0


# --- showing


def coverage_sections(found: Coverage) -> Sections:
    """Return what is shown of the coverage: who is not read comes first, with the reason."""
    of_disks = _columns(found.now_seconds)
    physical = [d for d in found.disks if d.physical]
    silent = [d for d in physical if d.cover not in _FINE]
    fine = [d for d in physical if d.cover in _FINE]
    others = [d for d in found.disks if not d.physical]
    lost = ("disk", "serial", "cover", "last read", "reason")
    read = ("disk", "serial", "cover", "last read", "way", "known by", "does not say")
    cures = {d.cover: d.cure for d in silent if d.cure}
    never = found.found_seconds is None
    looked = "not yet" if never else since_text(found.found_seconds, found.now_seconds)
    return [
        f"{found.verdict}: {found.summary}",
        *(f"trouble: {problem}" for problem in found.problems),
        *table_of("not read", silent, of_disks, *lost),
        *(f"{cover}: {cure}" for cover, cure in cures.items()),
        *table_of("read", fine, of_disks, *read),
        *table_of("nothing to read", others, of_disks, "disk", "cover", "reason"),
        f"disks were looked for: {looked}",
    ]


def list_sections(found: Coverage) -> Sections:
    """Return all disks, one a line."""
    titles = ("disk", "serial", "model", "size", "kind", "health", "now", "on", "cover", "alerts")
    disks = table_of("disks", found.disks, _columns(found.now_seconds), *titles)
    return [*(disks or ("no disk",)), found.summary]


def _columns(now: float) -> Columns[DiskLine]:
    return {
        "disk": _name,
        "serial": lambda d: d.disk,
        "model": lambda d: d.model or "-",
        "size": lambda d: "-" if d.capacity_bytes is None else size(d.capacity_bytes),
        "kind": lambda d: d.kind or "-",
        "health": lambda d: d.health or "-",
        "now": lambda d: "-" if d.temperature_celsius is None else f"{d.temperature_celsius:g} C",
        "on": lambda d: "-" if d.power_on_hours is None else f"{d.power_on_hours:g} h",
        "cover": lambda d: d.cover,
        "last read": lambda d: _last_read(d, now),
        "reason": lambda d: d.reason,
        "way": lambda d: d.how,
        "known by": lambda d: ", ".join(d.expected_by),
        "does not say": lambda d: "; ".join(d.not_read) or "-",
        "alerts": lambda d: ", ".join(d.alerts) or "-",
    }


def detail_sections(found: DiskDetail) -> Sections:
    """Return all that is known of a disk, what is wrong first."""
    line, now = found.line, found.now_seconds
    last = "" if line.read_seconds is None else f"; last read {since_text(line.read_seconds, now)}"
    facts = {
        "cover": f"{line.cover}{last}",
        "reason": line.reason,
        "what to do": line.cure,
        "known by": ", ".join(line.expected_by),
        "slot": line.slot,
        "carries": ", ".join(found.carries),
        "does not say": "; ".join(line.not_read),
    }
    of_alerts = ("severity", "state", "alert", "since", "summary")
    return [
        line.object,
        *(
            f"  {name}: {text}"
            for name, text in facts.items()
            if text or name in ("cover", "known by")
        ),
        *table_of("alerts", found.alerts, columns.of_alerts(now), *of_alerts),
        *table_of("what it says", found.facts, {"what": lambda f: f[0], "value": lambda f: f[1]}),
        *table_of(
            "attributes",
            found.attributes,
            {
                "id": lambda a: str(a.id),
                "attribute": lambda a: a.name,
                "value": lambda a: a.value,
                "worst": lambda a: a.worst,
                "threshold": lambda a: a.threshold,
                "failed": lambda a: a.failed or "-",
                "raw": lambda a: a.raw or "hidden",
            },
        ),
        *table_of(
            "self-tests, the newest first",
            found.self_tests,
            {
                "self-test": lambda t: t.kind,
                "result": lambda t: t.result or "-",
                "status": lambda t: t.status,
                "at": lambda t: "-" if t.hours is None else f"{t.hours} h",
                "first bad sector": lambda t: "-" if t.lba is None else str(t.lba),
            },
        ),
        *(f"other way: {way}" for way in found.ways),
        *(f"smartctl: {text}" for text in found.messages),
    ]


def history_sections(found: DiskHistory, most_rows: float, encoding: str | None) -> Sections:
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
    of_changes: Columns[tuple[str, str, str]] = {
        "time": lambda row: row[0],
        "value": lambda row: row[1],
        "change": lambda row: row[2],
    }
    return [
        f"{found.disk}: {found.attribute}, from {lowest} to {highest}",
        f"  {sparkline(found.samples, encoding)}",
        *table_of("changes", rows[int(left) :], of_changes),
        *([f"{left:.0f} earlier ones: --all"] if left else []),
    ]


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
