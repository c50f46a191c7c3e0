"""Polls all RAID controllers of one vendor, and stores the state between polls.

A program that is missing, hangs or lists nothing is reported as a problem, never as a host without
faults; so is a controller that lists nothing but listed something within the last 7 days.
Units: seconds of the program's clock.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.machine import PROBE
from iowarden.collectors.model import AbsentError, DeadlineError, ParseError, ReadError, StuckError
from iowarden.collectors.raid.controller import LOG_PROBLEM, Controllers, Gap, LastListing, Problem
from iowarden.collectors.raid.log_alignment import MAX_ENTRIES, LogCursor, align, align_numbered
from iowarden.collectors.raid.states import unknown_caches
from iowarden.collectors.smart import scsi_hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.backend import Backend, Handle
    from iowarden.collectors.raid.controller import Controller, ControllerLog

STATE_SECONDS = 900.0
"""Minimum interval: each query is work for the card, and more frequent ones were observed to cost
latency.
"""
VALID_SECONDS = 3 * STATE_SECONDS
"""How long a state that could not be read again is shown."""
EXPECTED_SECONDS = 7 * 86_400.0
"""How long an empty listing of a controller with known parts counts as an error."""
_EARLY_SECONDS = 30.0
"""States are read in a poll for events, whose interval is never exact."""


@dataclass(slots=True)
class _CardState:
    """Stored state of a controller. Units: seconds of the program's clock."""

    controller: Controller | None = None
    read_seconds: float = float("-inf")
    tried_seconds: float = float("-inf")
    problem: str = ""
    cursor: LogCursor | None = None
    gap: str = ""
    listed: LastListing | None = None


@dataclass(slots=True)
class VendorPoller:
    """Polls the controllers of one vendor. Not thread-safe."""

    backend: Backend
    clock: Callable[[], float]
    cards: dict[str, _CardState] = field(default_factory=dict)

    def hosts(self, root: Machine) -> list[str]:
        """Return the SCSI hosts of its drivers by number; in a recording only the queried ones.

        Errors: ReadError.
        """
        if root.path:
            asked = tuple(f"run {program} " for program in self.backend.programs)
            if not any(name.startswith(asked) for name in _names(root, PROBE.rstrip("/"))):
                return []
        found: set[str] = set()
        for driver in self.backend.drivers:
            for address in _names(root, f"{scsi_hosts.PCI_DRIVERS}/{driver}"):
                if re.fullmatch(scsi_hosts.ADAPTER, address, re.ASCII):
                    entries = _names(root, f"{scsi_hosts.PCI_DRIVERS}/{driver}/{address}")
                    found.update(each for each in entries if re.fullmatch(r"host\d{1,9}", each))
        return sorted(found, key=lambda name: int(name[4:]))

    def poll(
        self,
        root: Machine,
        hosts: Sequence[str],
        recalled: Mapping[str, LogCursor],
        expected: Mapping[str, LastListing],
    ) -> Controllers:
        """Poll all controllers and return the result.

        `recalled` and `expected`: the cursors and listings of a former run of the program.
        """
        backend = self.backend
        names, problems = self._find(root, hosts, expected)
        events: list[StorageEvent] = []
        gaps: list[Gap] = []
        baseline: list[StorageEvent] = []
        for name, handle in names.items():
            card = self.cards.setdefault(name, _CardState(cursor=recalled.get(name)))
            card.listed = card.listed or expected.get(name)
            host = hosts[0] if len(names) == len(hosts) == 1 else ""
            try:
                if root.path or self.clock() >= card.tried_seconds + STATE_SECONDS - _EARLY_SECONDS:
                    card.tried_seconds = self.clock()
                    read_state = partial(_state, backend, root, name, handle, card.controller)
                    _read_state(card, backend, host, read_state)
                if backend.log is not None:
                    log = backend.log(root, name, _known(handle))
                    new, old, gap = _new(card, log, backend)
                    events += new
                    baseline += old
                    gaps += [Gap(name, gap)] if gap else []
            except (DeadlineError, StuckError) as error:
                # The next query would hang as well, and a driver may reset its card by then.
                if str(error) != card.problem:
                    problems.append(Problem(name, str(error)))
            except (AbsentError, ReadError, ParseError) as error:
                if str(error) != card.problem:  # a missing program is missing for both
                    problems.append(Problem(name, f"{LOG_PROBLEM}{error}"))
            problems += [Problem(name, card.problem)] if card.problem else []
            problems += (
                [Problem(name, each) for each in card.controller.read_errors]
                if card.controller
                else []
            )
        fresh, cards = self.clock() - VALID_SECONDS, self.cards
        return Controllers(
            tuple(c.controller for c in cards.values() if c.controller and c.read_seconds >= fresh),
            tuple(events),
            tuple(gaps),
            self.about(hosts, problems),
            {**recalled, **{name: card.cursor for name, card in cards.items() if card.cursor}},
            tuple(baseline),
            {**expected, **{name: card.listed for name, card in cards.items() if card.listed}},
        )

    def _find(
        self, root: Machine, hosts: Sequence[str], expected: Mapping[str, LastListing]
    ) -> tuple[Mapping[str, Handle | str], list[Problem]]:
        """Return the controllers with the data for their queries, and why others are missing."""
        backend = self.backend
        try:
            names = backend.find(root, hosts)
        except (AbsentError, ReadError, ParseError) as error:
            at = hosts
            since = self.clock() - EXPECTED_SECONDS
            known = [each for each in expected.values() if each.at_seconds >= since]
            read = self.cards or any(each.vendor == backend.vendor for each in known)
            if isinstance(error, AbsentError) and backend.hiding and not read:
                # Without a program nothing is missing for an adapter whose drives are polled
                # directly, unless it was read before: then it is expected, and is not removed.
                at = backend.hiding(root, hosts)
            reason = f"{backend.vendor} controller at {', '.join(at)}: {error}"
            return {}, [Problem("", reason, host=at[0])] if at else []
        if names or backend.adapters:
            return names, []
        listed = f"expected a controller at {', '.join(hosts)}, got none listed"
        return names, [Problem("", f"{backend.vendor}: {listed}")]

    def about(self, hosts: Sequence[str], problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """Return problems with the controller or host that they concern."""
        return tuple(
            replace(
                each,
                vendor=self.backend.vendor,
                host="" if each.controller else each.host or hosts[0],
            )
            for each in problems
        )


def _known(handle: Handle | str) -> Handle:
    """Return the data for queries to a controller. Errors: ReadError, if it cannot be queried."""
    if isinstance(handle, str):
        raise ReadError(handle)
    return handle


def _state(
    backend: Backend, root: Machine, name: str, handle: Handle | str, former: Controller | None
) -> Controller:
    return backend.state(root, name, _known(handle), former)


def _read_state(
    card: _CardState, backend: Backend, host: str, read: Callable[[], Controller]
) -> None:
    """Read a controller's state. Errors: DeadlineError, StuckError."""
    try:
        found = read()
    except (AbsentError, ReadError, ParseError) as error:
        card.problem = str(error)
        if isinstance(error, DeadlineError | StuckError):
            raise
        return
    before = card.listed or LastListing(0, 0, 0.0)
    another = before.serial and found.serial and before.serial != found.serial
    if another or before.at_seconds + EXPECTED_SECONDS < card.tried_seconds:
        before = LastListing(0, 0, 0.0)
    told = f"its last listing had {before.arrays} arrays and {before.disks} disks"
    if (before.arrays or before.disks) and not (found.arrays or found.disks):
        card.problem = f"it answers but lists nothing; {told}"
        return
    if before.disks and not found.disks:
        found = replace(found, read_errors=(*found.read_errors, f"it lists no disk; {told}"))
    elif found.arrays or found.disks:
        count = len(found.arrays), len(found.disks)
        card.listed = LastListing(*count, card.tried_seconds, found.serial, backend.vendor)
    unread = (*found.read_errors, *unknown_caches(found.arrays))
    found = replace(found, host=found.host or host, read_errors=unread)
    card.controller, card.read_seconds = found, card.tried_seconds
    card.problem = ""


def _new(
    card: _CardState, log: ControllerLog, backend: Backend
) -> tuple[list[StorageEvent], list[StorageEvent], str]:
    """Return the new events of a log, those of its first listing, and why there may be others.

    The same reason is returned once. Errors: ReadError.
    """
    if log.cut:
        raise ReadError("it ends within a line and is not used; will retry")
    serial = card.controller.serial if card.controller else ""
    before = card.cursor
    if before and before.serial and serial and before.serial != serial:
        before = None  # another card: its whole log is new, but its events are old
    events = log.events[-MAX_ENTRIES:]
    listing = before.listing if before else None
    if backend.numbered:
        aligned = align_numbered(
            listing, tuple((event.clock_seconds, event.text, event.sequence) for event in events)
        )
    else:
        entries = [(event.clock_seconds, event.text) for event in events]
        aligned = align(listing, entries, backend.capacity)
    card.cursor = LogCursor(aligned.known, serial or (before.serial if before else ""))
    told, card.gap = card.gap, aligned.gap
    told_apart = list(events)
    if not backend.numbered:
        numbers = [number for *_, number in aligned.known[len(aligned.known) - len(events) :]]
        told_apart = [
            replace(event, sequence=number) for event, number in zip(events, numbers, strict=True)
        ]
    gap = "" if told == aligned.gap else aligned.gap
    if before is None:
        return [], told_apart, gap
    return told_apart[len(events) - aligned.new :], [], gap


def _names(root: Machine, path: str) -> list[str]:
    try:
        return root.names(path)
    except AbsentError:
        return []
