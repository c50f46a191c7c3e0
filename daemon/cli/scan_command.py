"""'iowarden scan': read a disk's surface completely, show the progress and what cannot be read.

Exit status: 0; 1 for 'status DISK' and '--follow' if its scan found bad ranges; 2 if the scan could
not be started or stopped, was refused meanwhile, or the service does not answer. Ctrl-C leaves the
scan running.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import percentage, quantity
from iowarden.daemon.cli.service_client import (
    ServiceError,
    command_of,
    decoded,
    requested,
    take_json,
)
from iowarden.daemon.control.documents import ScanLine, ScanList
from iowarden.daemon.terminal import exit_status
from iowarden.daemon.terminal.arguments import subcommand
from iowarden.daemon.terminal.console import (
    print_error,
    print_json,
    print_line,
    printable,
    progress_bars,
    show,
    table_of,
)
from iowarden.daemon.terminal.times import at_text, since_text, span

if TYPE_CHECKING:
    import argparse

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.terminal.console import Columns, Sections

EXIT_COULD_NOT = 2
PAUSE_SECONDS = 2.0
"""Between two queries of the service while following."""
MAX_RANGES = 10
"""Bad ranges that are shown; '--json' has all."""
_HELP = "serial number, the beginning of it, or device"


def add_commands(add: Add) -> None:
    """Add the commands of this module, by a function that takes name and what runs."""
    top = add("scan", _status)
    actions = top.add_subparsers(required=True, metavar="ACTION")
    start = command_of(
        subcommand(actions, "start", "start a scan, or resume a stopped one"), _start
    )
    start.add_argument("disk", metavar="DISK", help=_HELP)
    start.add_argument(
        "--restart", action="store_true", help="from the beginning, also if it was stopped before"
    )
    start.add_argument("--follow", action="store_true", help="show the progress until it ends")
    shown = command_of(
        subcommand(actions, "status", "show progress, time left, and what cannot be read"), _status
    )
    shown.add_argument("disk", nargs="?", metavar="DISK", help=f"only this disk: {_HELP}")
    shown.add_argument("--follow", action="store_true", help="show progress until no scan runs")
    take_json(shown)
    stopped = command_of(
        subcommand(actions, "stop", "stop a scan; 'start' resumes it where it was"), _stop
    )
    stopped.add_argument("disk", metavar="DISK", help=_HELP)


# --- the commands


def _start(arguments: argparse.Namespace) -> int:
    request = {"disk": arguments.disk, "restart": arguments.restart}
    return _done(arguments, "scan start", request, follow=arguments.follow)


def _stop(arguments: argparse.Namespace) -> int:
    return _done(arguments, "scan stop", {"disk": arguments.disk}, follow=False)


def _done(
    arguments: argparse.Namespace, command: str, request: dict[str, object], *, follow: bool
) -> int:
    try:
        found = decoded(ScanList, requested(arguments, command, request))
        if follow:
            found = _followed(arguments, found.scans[0].disk, found)
    except ServiceError as error:
        return _failed(error)
    for scan in found.scans:
        print_line(line_of(scan))
    return _status_of(found) if follow else 0


def _status(arguments: argparse.Namespace) -> int:
    request = {} if arguments.disk is None else {"disk": arguments.disk}
    try:
        answer = requested(arguments, "scan status", request)
        if arguments.json:
            print_json(answer)
            return 0
        found = decoded(ScanList, answer)
        if arguments.follow:
            found = _followed(arguments, arguments.disk, found)
    except ServiceError as error:
        return _failed(error)
    show(status_sections(found))
    return _status_of(found) if arguments.disk is not None else 0


def _failed(error: ServiceError) -> int:
    print_error(str(error))
    return EXIT_COULD_NOT


def _status_of(found: ScanList) -> int:
    if any(scan.bad_ranges for scan in found.scans):
        return exit_status.FAILED
    return EXIT_COULD_NOT if any(scan.state == "refused" for scan in found.scans) else 0


def _followed(arguments: argparse.Namespace, disk: str | None, found: ScanList) -> ScanList:
    """Show the progress until no scan runs; return the last answer."""
    request = {} if disk is None else {"disk": disk}
    if not sys.stdout.isatty():
        return _followed_in_lines(arguments, request, found)
    with progress_bars(1) as progress:
        tasks = {}
        while running := [scan for scan in found.scans if scan.state == "running"]:
            for scan in running:
                if scan.disk not in tasks:
                    tasks[scan.disk] = progress.add_task(printable(scan.disk), total=1, left="")
                left = printable(_rest(scan))
                progress.update(
                    tasks[scan.disk], completed=scan.progress_ratio or 0, left=left, refresh=True
                )
            time.sleep(PAUSE_SECONDS)
            found = decoded(ScanList, requested(arguments, "scan status", request))
    return found


def _followed_in_lines(
    arguments: argparse.Namespace, request: dict[str, str], found: ScanList
) -> ScanList:
    """Print a line for each scan that made a whole percent of progress; return the last answer."""
    shown: dict[str, int] = {}
    while running := [scan for scan in found.scans if scan.state == "running"]:
        for scan in running:
            percent = int(100 * (scan.progress_ratio or 0))
            if shown.get(scan.disk) != percent:
                shown[scan.disk] = percent
                print_line(line_of(scan))
        sys.stdout.flush()
        time.sleep(PAUSE_SECONDS)
        found = decoded(ScanList, requested(arguments, "scan status", request))
    return found


# --- showing


def status_sections(found: ScanList) -> Sections:
    """Return the table of scans, and the ranges that cannot be read."""
    now = found.now_seconds
    of_scans: Columns[ScanLine] = {
        "disk": lambda s: s.disk,
        "device": lambda s: s.device,
        "status": _state,
        "started": lambda s: (
            "" if s.started_seconds is None else since_text(s.started_seconds, now)
        ),
        "last complete": lambda s: since_text(s.completed_seconds, now),
        "next": lambda s: "" if s.next_seconds is None else at_text(s.next_seconds),
    }
    states = Counter(scan.state for scan in found.scans if scan.state != "none")
    bad = sum(bool(scan.bad_ranges) for scan in found.scans)
    counts = ", ".join(f"{count} {state}" for state, count in states.items()) or "none yet"
    sections: Sections = []
    if found.scans:
        sections.append(f"surface scans: {counts}" + (f"; {bad} found bad ranges" if bad else ""))
    sections += table_of("disks", found.scans, of_scans)
    for scan in found.scans:
        sections += [f"disk {scan.disk}: {text}" for text in _findings(scan)]
    if not found.scans:
        sections.append(
            "no scan runs, is scheduled or recorded; start one: iowarden scan start DISK"
        )
    if not found.scheduled:
        sections.append("no scans are scheduled: see 'scans' in the configuration")
    return sections


def line_of(scan: ScanLine) -> str:
    """Return a scan as one line."""
    place = f" ({scan.device})" if scan.device else ""
    return f"disk {scan.disk}{place}: scan: {_state(scan)}"


def _state(scan: ScanLine) -> str:
    """Return state or progress of a scan, in words."""
    if scan.state == "none":
        return "; ".join(each for each in ("never scanned", scan.text) if each)
    bad = f"{len(scan.bad_ranges)} bad ranges" if scan.bad_ranges else ""
    if scan.state == "running":
        done = f"running, {percentage(scan.progress_ratio or 0)} done"
        return "; ".join(each for each in (done, _rest(scan), bad) if each)
    stopped = (
        f"stopped at {percentage(scan.progress_ratio or 0)}" if scan.state == "stopped" else ""
    )
    return "; ".join(each for each in (stopped or scan.state, bad, scan.text) if each)


def _rest(scan: ScanLine) -> str:
    """Return how long a scan still takes, at which pace, and what it waits for."""
    left = "" if scan.remaining_seconds is None else f"about {span(scan.remaining_seconds)} left"
    rate = scan.bytes_per_second
    pace = (
        f"waiting: {scan.waits}"
        if scan.waits
        else f"at most {quantity('_bytes', rate)}/s"
        if rate is not None
        else ""
    )
    return ", ".join(each for each in (left, pace) if each)


def _findings(scan: ScanLine) -> list[str]:
    found = [
        f"bytes {start} to {start + length - 1} cannot be read (512-byte sector {start // 512})"
        for start, length in scan.bad_ranges[:MAX_RANGES]
    ]
    if more := len(scan.bad_ranges) - MAX_RANGES:
        found += [f"{more} more ranges cannot be read: see '--json'"] * (more > 0)
    for zone, ratio in scan.slower_zones[:MAX_RANGES]:
        found.append(
            f"zone {zone} of 128 has {percentage(ratio)} of its throughput in the scan before"
        )
    return found
