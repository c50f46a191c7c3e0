"""'iowarden top [--for 10s]': which programs read, write and wait, and which units wait for I/O.

Reads this machine itself, twice: as root through a probe of its own, as a member of the service's
group through the service's probe; the service need not run. Without a probe only units are shown,
as far as the kernel counts by control group.

Format of `--json`; later versions only add fields:

    {"seconds": 10.0,
     "writers": [{"program": "postgres", "unit": "postgresql.service", "pid": 812, "processes": 12,
                  "bytes_per_second": 222298112.0, "ratio": 0.83, "ended": 0}],
     "readers": [],
     "waiters": [{"unit": "nginx.service", "some_ratio": 0.95, "full_ratio": 0.84}],
     "waiting": [{"program": "postgres", "unit": "postgresql.service", "pid": 812, "tasks": 12,
                  "call": "fsync", "file": "/srv/db/wal/1", "device": "8:0", "seconds": 8.0}],
     "left_out": 0, "problem": "", "waiters_problem": "", "units_cut_off": false}

The largest come first, up to 100. `pid` is the busiest of `processes`; both are 0 and `program` is
'' where only the unit is known. `ratio` is the share of the bytes of all programs; `ended` children
of it ended meanwhile and are included; a program '' with a `pid` stands for what ended without a
parent that still runs. `waiters`: shares of the last 10 s in which some or all tasks of the unit
waited for I/O. `waiting`: programs whose tasks are blocked now in one system call about storage,
for at least so many seconds of the measurement; `file` and `device` are '' if not known. A list is
null if it could not be read, for the reason in "problem" or
`waiters_problem`; `left_out` processes could not be read; `units_cut_off`: there are more control
groups than the 1,000 that were read.

Exit status: 0, 1 if nothing could be read, 2 for wrong usage, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import TYPE_CHECKING

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError, ReadError
from iowarden.collectors.procfs.cgroup_io import MAX_GROUPS
from iowarden.collectors.procfs.process_io import MIN_INTERVAL_SECONDS
from iowarden.collectors.procfs.tasks import DEADLINE_SECONDS, from_json
from iowarden.collectors.quantity import duration, lower_bound, percentage, quantity
from iowarden.daemon.cli import command
from iowarden.daemon.cli.service_client import ServiceError, guarded, take_json
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.polling.io_watch import read
from iowarden.daemon.terminal.arguments import duration as duration_argument
from iowarden.daemon.terminal.console import print_json, show, table_of
from iowarden.rules import io_usage
from iowarden.rules.io_usage import READS, WRITES
from iowarden.rules.notices import who_waits
from iowarden.rules.signals.waits.waits import NO_POLLS, about_storage, next_polls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.terminal.console import Columns, Sections
    from iowarden.rules.io_usage import IoUsage, Share, Waiter
    from iowarden.rules.notices.who_waits import WaitingProgram
    from iowarden.rules.signals.waits.waits import Polls

DEFAULT_FOR = "10s"
MAX_SECONDS = 300.0
MAX_ROWS = 10
"""Of a table; '--json' has more."""
CLOSE_SECONDS = 2.0
POLL_SECONDS = 2.0
_SHARES: Columns[Share] = {
    "share": lambda s: _percent(s.ratio),
    "program": lambda s: s.program or ("" if not s.pid else "(ended meanwhile)"),
    "unit": lambda s: s.unit,
    "pid": lambda s: str(s.pid or ""),
    "processes": lambda s: str(s.processes or ""),
    "rate": lambda s: quantity("_bytes_per_second", s.bytes_per_second),
}
_WAITING: Columns[WaitingProgram] = {
    "at least": lambda w: lower_bound(w.seconds),
    "tasks": lambda w: str(w.tasks),
    "program": lambda w: w.program,
    "unit": lambda w: w.unit,
    "pid": lambda w: str(w.pid),
    "call": lambda w: w.call,
    "file": lambda w: w.file,
    "device": lambda w: w.device,
}
_WAITERS: Columns[Waiter] = {
    "all tasks": lambda w: _percent(w.full_ratio),
    "some tasks": lambda w: _percent(w.some_ratio),
    "unit": lambda w: w.unit,
}


def add_commands(add: Add) -> None:
    """Add the command, by a function that takes name and what runs."""
    top = command.configured(add("top", lambda arguments: guarded(_top, arguments)))
    top.add_argument(
        "--for",
        dest="for_seconds",
        type=_span,
        default=DEFAULT_FOR,
        metavar="DURATION",
        help=f"how long to measure, at most 5m; default: {DEFAULT_FOR}",
    )
    take_json(top)


def _span(text: str) -> float:
    seconds = duration_argument(text)
    if not MIN_INTERVAL_SECONDS <= seconds <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"expected a duration from 1s to 5m, got '{text}'")
    return seconds


def _top(arguments: argparse.Namespace) -> int:
    config = command.settings(arguments)
    if not config.show_programs:
        raise ServiceError(
            "top: names of programs and units are switched off; to see them, set 'privacy:"
            " {programs: true}' in the configuration"
        )
    client = command.probe(config, SystemClock())
    machine = Machine(probe=None if client is None else client.request)
    try:
        before, _ = read(machine, time.monotonic())
        polls = _polled(machine, arguments.for_seconds)
        after, _ = read(machine, time.monotonic())
    finally:
        if client is not None:
            client.close(CLOSE_SECONDS)
    found = io_usage.usage(before, after)
    if found is None:
        raise ServiceError("top: expected two readings a second apart; was the machine suspended?")
    if not found.by and found.waiters is None:
        raise ServiceError(f"top: {found.problem}; {found.waiters_problem}; run it with sudo")
    waiting = None if polls is None else who_waits.waiting_tasks(about_storage(polls))
    if arguments.json:
        print_json(as_data(found, waiting))
    else:
        show(sections(found, waiting))
    return 0


def _polled(machine: Machine, seconds: float) -> Polls | None:
    """Poll the blocked tasks for so long; None: the probe cannot be queried."""
    polls: Polls | None = NO_POLLS
    end = time.monotonic() + seconds
    while polls is not None:
        now = time.monotonic()
        try:
            tasks = from_json(machine.query_probe("tasks", deadline_seconds=DEADLINE_SECONDS))
        except (AbsentError, ReadError, ParseError):
            polls = None  # the readings before and after say why
            break
        polls, _ = next_polls(
            polls, tasks.tasks, now, trigger_seconds=now, legacy_queued_ratio=None
        )
        left = end - time.monotonic()
        if left <= 0:
            return polls
        time.sleep(min(POLL_SECONDS, left))
    time.sleep(max(end - time.monotonic(), 0.0))
    return polls


def as_data(found: IoUsage, waiting: Sequence[WaitingProgram] | None = None) -> dict[str, object]:
    """Return the result for JSON; a list is null if it could not be read."""
    shares = {name: found.by.get(what) for name, what in (("writers", WRITES), ("readers", READS))}
    return {
        "seconds": found.seconds,
        **{
            name: None if each is None else [dataclasses.asdict(share) for share in each]
            for name, each in shares.items()
        },
        "waiters": None if found.waiters is None else [*map(dataclasses.asdict, found.waiters)],
        "waiting": None if waiting is None else [*map(dataclasses.asdict, waiting)],
        "left_out": found.left_out,
        "problem": found.problem,
        "waiters_problem": found.waiters_problem,
        "units_cut_off": found.units_cut_off,
    }


def sections(found: IoUsage, waiting: Sequence[WaitingProgram] | None = None) -> Sections:
    """Return the tables, and what could not be read."""
    text: Sections = [f"measured for {duration(found.seconds)}"]
    if waiting is not None:
        title = "who waits for storage, in one system call"
        text += table_of(title, waiting[:MAX_ROWS], _WAITING) or [f"{title}: no program"]
    titles = (("writers", WRITES, "written"), ("readers", READS, "read"))
    for title, what, did in titles:
        shares = found.by.get(what)
        if shares is not None:
            rows = shares[:MAX_ROWS]
            text += table_of(title, rows, _SHARES) or [f"{title}: nothing was {did}"]
    if found.waiters is not None:
        units = [w for w in found.waiters if w.some_ratio][:MAX_ROWS]
        title = "waiting for I/O, share of the last 10 s"
        text += table_of(title, units, _WAITERS) or ["waiting for I/O: no unit in the last 10 s"]
    if found.left_out:
        text.append(f"processes that could not be read: {found.left_out}")
    if found.units_cut_off:
        text.append(f"units: only the first {MAX_GROUPS} control groups were read")
    if found.problem:
        text.append(f"programs are not known: {found.problem}")
    if found.waiters_problem:
        text.append(f"which units wait is not known: {found.waiters_problem}")
    return text


def _percent(ratio: float) -> str:
    return percentage(ratio)
