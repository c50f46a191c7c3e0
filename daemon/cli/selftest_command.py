"""'iowarden selftest': start a drive's self-test, show its progress and result, abort it.

Exit status: 0 started, or with '--wait' passed; 1 with '--wait' failed; 2 could not be started,
the result is unknown, or the service does not answer. Ctrl-C leaves the test running.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from iowarden.daemon.cli.service_client import (
    ServiceError,
    command_of,
    decoded,
    requested,
    take_json,
)
from iowarden.daemon.control.documents import SelfTestList, SelfTestRunLine
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
from iowarden.rules.selftest_schedule import KINDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Iterator

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.terminal.console import Columns, Sections

EXIT_COULD_NOT = 2
BEGIN_SECONDS = 300.0
"""Time limit for the start: a drive may have to spin up behind a busy controller."""
BEGIN_PAUSE_SECONDS = 0.5
PAUSE_SECONDS = 2.0
"""Between two queries of the service, which polls the drive every one to five minutes."""
_IN_PROGRESS = ("starting", "running")
_HELP = "serial number, the beginning of it, or device"


def add_commands(add: Add) -> None:
    """Add the commands of this module, by a function that takes name and what runs."""
    top = add("selftest", _status)
    actions = top.add_subparsers(required=True, metavar="ACTION")
    start = command_of(subcommand(actions, "start", "start a self-test now"), _start)
    start.add_argument("disk", metavar="DISK", help=_HELP)
    start.add_argument(
        "kind", nargs="?", choices=KINDS, default="short", help="kind of test; default: short"
    )
    start.add_argument(
        "--wait", action="store_true", help="wait for the result; exit status 0 only if it passed"
    )
    start.add_argument(
        "--force",
        action="store_true",
        help="even while another disk of its array is tested, or the array is synchronized",
    )
    shown = command_of(
        subcommand(actions, "status", "show running, waiting and finished self-tests"), _status
    )
    shown.add_argument("disk", nargs="?", metavar="DISK", help=f"only this disk: {_HELP}")
    shown.add_argument("--follow", action="store_true", help="show progress until no test runs")
    take_json(shown)
    ended = command_of(subcommand(actions, "abort", "abort the running self-test"), _abort)
    ended.add_argument("disk", metavar="DISK", help=_HELP)


# --- the commands


def _start(arguments: argparse.Namespace) -> int:
    asked = {"disk": arguments.disk, "kind": arguments.kind, "force": arguments.force}
    try:
        answer = requested(arguments, "selftest start", asked)
        run = _run_of(decoded(SelfTestList, answer), arguments.kind)
        disk = run.disk
        end = time.monotonic() + BEGIN_SECONDS
        while run.outcome == "starting" and time.monotonic() < end:
            time.sleep(BEGIN_PAUSE_SECONDS)
            run = _run_of(_known(arguments, disk), arguments.kind)
        print_line(line_of(run))
        if run.outcome == "running" and arguments.wait:
            for found in _followed(arguments, disk):
                run = _run_of(found, arguments.kind)
            print_line(line_of(run))
    except ServiceError as error:
        print_error(str(error))
        return EXIT_COULD_NOT
    if run.outcome == "failed":
        return exit_status.FAILED
    passed = run.outcome == "passed" or (run.outcome == "running" and not arguments.wait)
    return 0 if passed else EXIT_COULD_NOT


def _status(arguments: argparse.Namespace) -> int:
    asked = {} if arguments.disk is None else {"disk": arguments.disk}
    answer = requested(arguments, "selftest status", asked)
    if arguments.json:
        print_json(answer)
        return 0
    found = decoded(SelfTestList, answer)
    if arguments.follow and any(run.outcome in _IN_PROGRESS for run in found.runs):
        for later in _followed(arguments, arguments.disk):
            found = later
    show(status_sections(found))
    return 0


def _abort(arguments: argparse.Namespace) -> int:
    found = decoded(SelfTestList, requested(arguments, "selftest abort", {"disk": arguments.disk}))
    own = [run for run in found.runs if run.outcome in _IN_PROGRESS and run.kind]
    if not own:
        print_line(
            "the abort command was sent to the drive; 'iowarden selftest status' shows the result"
        )
        return 0
    (run,) = own[:1]
    end = time.monotonic() + BEGIN_SECONDS
    while run.outcome in _IN_PROGRESS and not run.text and time.monotonic() < end:
        time.sleep(BEGIN_PAUSE_SECONDS)
        run = _run_of(_known(arguments, run.disk), run.kind)
    print_line(line_of(run))
    return EXIT_COULD_NOT if run.outcome in _IN_PROGRESS else 0


def _known(arguments: argparse.Namespace, disk: str | None) -> SelfTestList:
    asked = {} if disk is None else {"disk": disk}
    return decoded(SelfTestList, requested(arguments, "selftest status", asked))


def _run_of(found: SelfTestList, kind: str) -> SelfTestRunLine:
    run = next((each for each in found.runs if each.kind == kind), None)
    if run is None:
        raise ServiceError(f"the service no longer has a record of a {kind} self-test of this disk")
    return run


# --- following


def _followed(arguments: argparse.Namespace, disk: str | None) -> Iterator[SelfTestList]:
    """Query the self-tests until none runs; show the progress, yield each answer."""
    draw = _bars() if sys.stdout.isatty() else _lines()
    next(draw)
    while True:
        found = _known(arguments, disk)
        draw.send(found)
        yield found
        if not any(run.outcome in _IN_PROGRESS for run in found.runs):
            draw.close()
            return
        time.sleep(PAUSE_SECONDS)


def _lines() -> Generator[None, SelfTestList, None]:
    """Print a line for each test that starts or makes progress."""
    told: dict[tuple[str, str], tuple[str, int | None]] = {}
    while True:
        found = yield
        for run in found.runs:
            percent = _percent(run)
            at = (run.outcome, percent)
            if run.outcome in _IN_PROGRESS and told.get((run.disk, run.kind)) != at:
                told[run.disk, run.kind] = at
                print_line(line_of(run))
        sys.stdout.flush()


def _bars() -> Generator[None, SelfTestList, None]:
    """Draw a progress bar for each running test."""
    with progress_bars() as progress:
        tasks = {}
        while True:
            found = yield
            for run in found.runs:
                key = (run.disk, run.kind)
                if run.outcome in _IN_PROGRESS and key not in tasks:
                    name = printable(f"{run.disk} {run.kind}")
                    tasks[key] = progress.add_task(name, total=100, left="")
                if key in tasks:
                    over = run.outcome not in _IN_PROGRESS
                    left = printable(run.outcome) if over else _left(run)
                    done = 100 if over else _percent(run)
                    progress.update(tasks[key], completed=done or 0, left=left, refresh=True)


# --- showing


def status_sections(found: SelfTestList) -> Sections:
    """Return the table of self-tests."""
    if not found.runs:
        return [
            "no self-test runs, is scheduled or recorded; start one: iowarden selftest start DISK"
        ]
    now = found.now_seconds
    of_runs: Columns[SelfTestRunLine] = {
        "disk": lambda r: r.disk,
        "device": lambda r: r.device,
        "test": lambda r: r.kind or "?",
        "status": _outcome,
        "started": lambda r: (
            "" if r.started_seconds is None else since_text(r.started_seconds, now)
        ),
        "next": lambda r: "" if r.next_seconds is None else at_text(r.next_seconds),
        "reason": lambda r: (
            f"waiting since {since_text(r.pending_since_seconds, now)}: {r.postponed or 'now'}"
            if r.pending_since_seconds is not None
            else ""
        ),
    }
    none = (
        []
        if found.scheduled
        else ["no self-tests are scheduled: see 'self_tests' in the configuration"]
    )
    states = Counter(run.outcome.replace("_", " ") for run in found.runs if run.outcome != "none")
    counts = ", ".join(f"{count} {state}" for state, count in states.items()) or "none yet"
    return [f"self-tests: {counts}", *table_of("disks", found.runs, of_runs), *none]


def line_of(run: SelfTestRunLine) -> str:
    """Return a self-test as one line."""
    place = f" ({run.device})" if run.device else ""
    return f"disk {run.disk}{place}: {run.kind or 'a'} self-test: {_outcome(run)}"


def _outcome(run: SelfTestRunLine) -> str:
    """Return outcome or progress of a self-test, in words."""
    if run.outcome == "none":
        return "never started by iowarden"
    if run.outcome in _IN_PROGRESS:
        percent = _percent(run)
        words = run.outcome if percent is None else f"running, {percent} % done"
        return "; ".join(each for each in (words, _left(run), run.text) if each)
    where = "" if run.lba is None else f", LBA of first error {run.lba}"
    return f"{run.outcome.replace('_', ' ')}{where}{f': {run.text}' if run.text else ''}"


def _percent(run: SelfTestRunLine) -> int | None:
    return None if run.remaining_ratio is None else round(100 * (1 - run.remaining_ratio))


def _left(run: SelfTestRunLine) -> str:
    if run.remaining_seconds is None:
        return ""
    return f"about {span(run.remaining_seconds)} left"
