"""RAID controllers asked by their makers' programs: when, and what is remembered from run to run.

Such programs take seconds, and a minute when a card is sick: each maker's are run in a thread that
ends when it is done, one after the other; what is known is there at once. The probe sees to it that
no two programs are at one controller, smartctl among them.
A program that is missing, hangs or lists nothing is a problem that is told, never a machine without
faults; so is a controller that lists nothing and listed something within 7 days.
Of a recorded machine nothing runs: its answers are read at each look.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.machine import PROBE
from iowarden.collectors.model import (
    AbsentError,
    LateError,
    ParseError,
    ReadError,
    StuckError,
    trace,
)
from iowarden.collectors.raid.controller import (
    LOG_PROBLEM,
    Controllers,
    Gap,
    Listed,
    Problem,
)
from iowarden.collectors.raid.log_alignment import MOST_ENTRIES, Cursor, align, align_numbered
from iowarden.collectors.raid.states import unknown_caches
from iowarden.collectors.smart import scsi_hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.collectors.event import Event
    from iowarden.collectors.machine import Root
    from iowarden.collectors.raid.backend import Backend
    from iowarden.collectors.raid.controller import Controller, Log

EVENT_SECONDS = 300.0
AGAIN_SECONDS = 60.0
"""So soon at most, when something happened."""
STATE_SECONDS = 900.0
"""Each question is work for the card: more often was seen to cost latency."""
HELD_SECONDS = 3 * STATE_SECONDS
"""So long a state is shown that could not be read again."""
EXPECTED_SECONDS = 7 * 86_400.0
"""So long it is not taken for true that a controller which listed something has nothing."""
FIRST_SECONDS = 5.0
"""The first look waits so long for what is known soon."""
_EARLY_SECONDS = 30.0
"""States are read in a run for events, which is never quite its period after another."""


@dataclass(slots=True)
class _Card:
    """What is remembered of a controller. Units: seconds of the program's clock."""

    controller: Controller | None = None
    read_seconds: float = float("-inf")
    tried_seconds: float = float("-inf")
    problem: str = ""
    cursor: Cursor | None = None
    gap: str = ""
    listed: Listed | None = None


@dataclass(slots=True, eq=False)
class _Run:
    """The runs at one maker's controllers. All but `cards` under the poller's lock."""

    maker: Backend
    cards: dict[str, _Card] = field(default_factory=dict)
    """Of the thread that runs, or of nobody."""
    due: float = float("-inf")
    began: float = float("-inf")
    busy: bool = False
    done: bool = False
    """Whether one came to its end."""
    value: Controllers = field(default_factory=Controllers)
    texts: dict[str, bytes] = field(default_factory=dict)


class ControllerPoller:
    """The controllers of a machine. `read` is for one thread."""

    def __init__(
        self,
        makers: Iterable[Backend],
        clock: Callable[[], float],
        first_seconds: float = FIRST_SECONDS,
    ) -> None:
        """Ask nothing yet. `clock` is the program's; so long the first read waits for runs."""
        self._first_seconds = first_seconds
        self._clock = clock
        self._lock = threading.Condition()
        self._runs = [_Run(maker) for maker in makers]
        self._first = True
        self._last = Controllers()
        self._recalled: dict[str, Cursor] = {}
        self.expected: Mapping[str, Listed] = {}
        """What controllers listed in a former run of the program."""

    def recall(self, cursors: Mapping[str, Cursor]) -> None:
        """Take the cursors of a former run of the program, ahead of the first read."""
        self._recalled = dict(cursors)

    def expect(self, listed: Mapping[str, Listed]) -> None:
        """Take what controllers listed in a former run of the program, at any time."""
        self.expected = dict(listed)

    def read(self, root: Root) -> Controllers:
        """Return what is known, with the events that came since the last time.

        Errors: AbsentError (there is no such controller), ReadError.
        """
        there = [(run, hosts) for run in self._runs if (hosts := _hosts(root, run.maker))]
        if not there:
            raise AbsentError(f"'{scsi_hosts.PCI_DRIVERS}': no RAID controller that has a log")
        for run, hosts in there:
            if root.path:
                self._finish(
                    run, _once(run, root, hosts, self._clock, self._recalled, self.expected)
                )
            else:
                self._begin(run, root, hosts)
        if self._first and not root.path:
            self.settled(self._first_seconds)
        self._first = False
        with self._lock:
            if not root.path:
                for run, _ in there:
                    root.tell(run.texts.items())
            return self._result([run for run, _ in there])

    def ask_soon(self) -> None:
        """Have the logs read at the next look: something happened that they may explain."""
        with self._lock:
            for run in self._runs:
                if run.maker.log is not None:
                    run.due = min(run.due, run.began + AGAIN_SECONDS)

    def settled(self, timeout_seconds: float) -> bool:
        """Wait until no run is under way; return whether it came to that."""
        with self._lock:
            return self._lock.wait_for(
                lambda: not any(run.busy for run in self._runs), timeout_seconds
            )

    def _begin(self, run: _Run, root: Root, hosts: Sequence[str]) -> None:
        with self._lock:
            now = self._clock()
            if run.busy or now < run.due:
                return
            run.busy, run.began = True, now
            run.due = now + (EVENT_SECONDS if run.maker.log else STATE_SECONDS)
        seen: dict[str, bytes] = {}
        another = root.another(seen.__setitem__)

        def work() -> None:
            try:
                value = _once(run, another, hosts, self._clock, self._recalled, self.expected)
            except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the runs
                value = Controllers(
                    problems=_about(run, hosts, [Problem("", f"bug: {trace(error)}")])
                )
            another.close()
            with self._lock:
                run.busy, run.texts = False, seen
            self._finish(run, value)

        threading.Thread(target=work, name=run.maker.vendor, daemon=True).start()

    def _finish(self, run: _Run, value: Controllers) -> None:
        with self._lock:
            run.done = True
            # What nobody has fetched yet stays ahead of it.
            run.value = replace(
                value,
                events=run.value.events + value.events,
                baseline=run.value.baseline + value.baseline,
                gaps=run.value.gaps + value.gaps,
                cursors=value.cursors or run.value.cursors,
            )
            self._lock.notify_all()

    def _result(self, runs: Sequence[_Run]) -> Controllers:
        values = [run.value for run in runs]
        found = Controllers(
            tuple(each for value in values for each in value.controllers),
            tuple(event for value in values for event in value.events),
            tuple(gap for value in values for gap in value.gaps),
            (
                *(problem for value in values for problem in value.problems),
                *(Problem("", "", run.maker.vendor) for run in runs if not run.done),
            ),
            {name: cursor for value in values for name, cursor in value.cursors.items()},
            tuple(event for value in values for event in value.baseline),
            {name: each for value in values for name, each in value.listed.items()},
        )
        for run in runs:
            run.value = replace(run.value, events=(), gaps=(), baseline=())
        if self._last != found:
            self._last = found
        return self._last


def _once(
    run: _Run,
    root: Root,
    hosts: Sequence[str],
    clock: Callable[[], float],
    recalled: Mapping[str, Cursor],
    expected: Mapping[str, Listed],
) -> Controllers:
    """Ask all controllers of one maker, and return what came of it."""
    maker, cards = run.maker, run.cards
    problems: list[Problem] = []
    events: list[Event] = []
    gaps: list[Gap] = []
    baseline: list[Event] = []
    try:
        names = maker.find(root, hosts)
    except (AbsentError, ReadError, ParseError) as error:
        names = {}
        at = hosts
        since = clock() - EXPECTED_SECONDS
        known = [each for each in expected.values() if each.at_seconds >= since]
        read = cards or any(each.vendor == maker.vendor for each in known)
        if isinstance(error, AbsentError) and maker.hiding and not read:
            # Without a program nothing is missed of an adapter whose drives are asked themselves,
            # unless it was read: then it is expected to be, and is not gone.
            at = maker.hiding(root, hosts)
        if at:
            reason = f"{maker.vendor} controller at {', '.join(at)}: {error}"
            problems.append(Problem("", reason, host=at[0]))
    else:
        if not names and not maker.adapters:
            listed = f"expected a controller at {', '.join(hosts)}, got none listed"
            problems.append(Problem("", f"{maker.vendor}: {listed}"))
    for name, handle in names.items():
        card = cards.setdefault(name, _Card(cursor=recalled.get(name)))
        card.listed = card.listed or expected.get(name)
        host = hosts[0] if len(names) == len(hosts) == 1 else ""
        try:
            if root.path or clock() >= card.tried_seconds + STATE_SECONDS - _EARLY_SECONDS:
                card.tried_seconds = clock()
                read_state = partial(maker.state, root, name, handle, card.controller)
                _read_state(card, maker, host, read_state)
            if maker.log is not None:
                log = maker.log(root, name, handle)
                new, old, gap = _new(card, log, maker)
                events += new
                baseline += old
                gaps += [Gap(name, gap)] if gap else []
        except (LateError, StuckError) as error:
            # The next question would hang as well, and a driver may reset its card by then.
            if str(error) != card.problem:
                problems.append(Problem(name, str(error)))
        except (AbsentError, ReadError, ParseError) as error:
            if str(error) != card.problem:  # a program that is missing, is so twice
                problems.append(Problem(name, f"{LOG_PROBLEM}{error}"))
        problems += [Problem(name, card.problem)] if card.problem else []
        problems += (
            [Problem(name, each) for each in card.controller.unread] if card.controller else []
        )
    fresh = clock() - HELD_SECONDS
    return Controllers(
        tuple(c.controller for c in cards.values() if c.controller and c.read_seconds >= fresh),
        tuple(events),
        tuple(gaps),
        _about(run, hosts, problems),
        {**recalled, **{name: card.cursor for name, card in cards.items() if card.cursor}},
        tuple(baseline),
        {**expected, **{name: card.listed for name, card in cards.items() if card.listed}},
    )


def _about(run: _Run, hosts: Sequence[str], problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return problems with what they are about."""
    return tuple(
        replace(
            each, vendor=run.maker.vendor, host="" if each.controller else each.host or hosts[0]
        )
        for each in problems
    )


def _read_state(card: _Card, maker: Backend, host: str, read: Callable[[], Controller]) -> None:
    """Read a controller's state. Errors: LateError, StuckError."""
    try:
        found = read()
    except (AbsentError, ReadError, ParseError) as error:
        card.problem = str(error)
        if isinstance(error, LateError | StuckError):
            raise
        return
    before = card.listed or Listed(0, 0, 0.0)
    another = before.serial and found.serial and before.serial != found.serial
    if another or before.at_seconds + EXPECTED_SECONDS < card.tried_seconds:
        before = Listed(0, 0, 0.0)
    told = f"before it listed {before.arrays} arrays and {before.disks} disks"
    if (before.arrays or before.disks) and not (found.arrays or found.disks):
        card.problem = f"it answers, and lists nothing; {told}"
        return
    if before.disks and not found.disks:
        found = replace(found, unread=(*found.unread, f"it lists no disk; {told}"))
    elif found.arrays or found.disks:
        count = len(found.arrays), len(found.disks)
        card.listed = Listed(*count, card.tried_seconds, found.serial, maker.vendor)
    unread = (*found.unread, *unknown_caches(found.arrays))
    found = replace(found, host=found.host or host, unread=unread)
    card.controller, card.read_seconds = found, card.tried_seconds
    card.problem = ""


def _new(card: _Card, log: Log, maker: Backend) -> tuple[list[Event], list[Event], str]:
    """Return the new events of a log, those of a first sight, and why there may be others.

    The same reason is given once. Errors: ReadError.
    """
    if log.cut:
        raise ReadError("it ends within a line; nothing of it is used, trying again")
    serial = card.controller.serial if card.controller else ""
    before = card.cursor
    if before and before.serial and serial and before.serial != serial:
        before = None  # another card: its log is new as a whole, and not what just happened
    events = log.events[-MOST_ENTRIES:]
    listing = before.listing if before else None
    if maker.numbered:
        aligned = align_numbered(
            listing, tuple((event.clock_seconds, event.text, event.sequence) for event in events)
        )
    else:
        entries = [(event.clock_seconds, event.text) for event in events]
        aligned = align(listing, entries, maker.capacity)
    card.cursor = Cursor(aligned.known, serial or (before.serial if before else ""))
    told, card.gap = card.gap, aligned.gap
    told_apart = list(events)
    if not maker.numbered:
        numbers = [number for *_, number in aligned.known[len(aligned.known) - len(events) :]]
        told_apart = [
            replace(event, sequence=number) for event, number in zip(events, numbers, strict=True)
        ]
    gap = "" if told == aligned.gap else aligned.gap
    if before is None:
        return [], told_apart, gap
    return told_apart[len(events) - aligned.new :], [], gap


def _hosts(root: Root, maker: Backend) -> list[str]:
    """Return the SCSI hosts of a maker's drivers, by number; of a recording, if it was asked.

    Errors: ReadError.
    """
    if root.path:
        asked = tuple(f"run {program} " for program in maker.programs)
        if not any(name.startswith(asked) for name in _names(root, PROBE.rstrip("/"))):
            return []
    found: set[str] = set()
    for driver in maker.drivers:
        for address in _names(root, f"{scsi_hosts.PCI_DRIVERS}/{driver}"):
            if re.fullmatch(scsi_hosts.ADAPTER, address, re.ASCII):
                entries = _names(root, f"{scsi_hosts.PCI_DRIVERS}/{driver}/{address}")
                found.update(each for each in entries if re.fullmatch(r"host\d{1,9}", each))
    return sorted(found, key=lambda name: int(name[4:]))


def _names(root: Root, path: str) -> list[str]:
    try:
        return root.names(path)
    except AbsentError:
        return []
