"""Polls RAID controllers by their vendor programs: when, and in which thread.

Such programs take seconds, or a minute when a controller has problems: those of each vendor run one
after the other in a thread that ends afterwards; the latest result is always available at once. The
probe ensures that no two programs access one controller at a time, smartctl included.
For a recorded machine no program runs: each poll reads the recorded output.
"""

from __future__ import annotations

import threading
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import (
    AbsentError,
    trace,
)
from iowarden.collectors.raid.controller import Controllers, LastListing, Problem
from iowarden.collectors.raid.log_alignment import LogCursor
from iowarden.collectors.raid.vendor_poll import STATE_SECONDS, VendorPoller
from iowarden.collectors.smart import scsi_hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.backend import Backend
    from iowarden.collectors.raid.controller import LastListing
    from iowarden.collectors.raid.log_alignment import LogCursor

EVENT_SECONDS = 300.0
MIN_POLL_INTERVAL_SECONDS = 60.0
"""Minimum interval between two runs when an event requests one."""
FIRST_SECONDS = 5.0
"""The first poll waits this long for results."""


@dataclass(slots=True, eq=False)
class _Run:
    """The runs for one vendor's controllers. All but `vendor` under the poller's lock."""

    vendor: VendorPoller
    """Used by the running thread only, if any."""
    due: float = float("-inf")
    began: float = float("-inf")
    busy: bool = False
    done: bool = False
    """Whether a run has completed."""
    value: Controllers = field(default_factory=Controllers)
    texts: dict[str, bytes] = field(default_factory=dict)


class ControllerPoller:
    """The RAID controllers of a machine. `read` is for one thread."""

    def __init__(
        self,
        backends: Iterable[Backend],
        clock: Callable[[], float],
        first_seconds: float = FIRST_SECONDS,
    ) -> None:
        """Start idle. `clock` is the program's; the first read waits this long for results."""
        self._first_seconds = first_seconds
        self._clock = clock
        self._lock = threading.Condition()
        self._runs = [_Run(VendorPoller(backend, clock)) for backend in backends]
        self._first = True
        self._last = Controllers()
        self._recalled: dict[str, LogCursor] = {}
        self.expected: Mapping[str, LastListing] = {}
        """What controllers listed in a previous run of the program."""

    def recall(self, cursors: Mapping[str, LogCursor]) -> None:
        """Restore the cursors of a previous run of the program, before the first read."""
        self._recalled = dict(cursors)

    def expect(self, listed: Mapping[str, LastListing]) -> None:
        """Restore what controllers listed in a previous run of the program, at any time."""
        self.expected = dict(listed)

    def read(self, root: Machine) -> Controllers:
        """Return the latest results, with the events since the last call.

        Errors: AbsentError (there is no such controller), ReadError.
        """
        there = [(run, hosts) for run in self._runs if (hosts := run.vendor.hosts(root))]
        if not there:
            raise AbsentError(f"'{scsi_hosts.PCI_DRIVERS}': no RAID controller that has a log")
        for run, hosts in there:
            if root.path:
                self._finish(run, run.vendor.poll(root, hosts, self._recalled, self.expected))
            else:
                self._begin(run, root, hosts)
        if self._first and not root.path:
            self.settled(self._first_seconds)
        self._first = False
        with self._lock:
            if not root.path:
                for run, _ in there:
                    root.report_read(run.texts.items())
            return self._result([run for run, _ in there])

    def poll_next(self) -> None:
        """Read the logs at the next poll: an event occurred that they may explain."""
        with self._lock:
            for run in self._runs:
                if run.vendor.backend.log is not None:
                    run.due = min(run.due, run.began + MIN_POLL_INTERVAL_SECONDS)

    def settled(self, timeout_seconds: float) -> bool:
        """Wait until no run is in progress; return whether that was reached."""
        with self._lock:
            return self._lock.wait_for(
                lambda: not any(run.busy for run in self._runs), timeout_seconds
            )

    def _begin(self, run: _Run, root: Machine, hosts: Sequence[str]) -> None:
        with self._lock:
            now = self._clock()
            if run.busy or now < run.due:
                return
            run.busy, run.began = True, now
            run.due = now + (EVENT_SECONDS if run.vendor.backend.log else STATE_SECONDS)
        seen: dict[str, bytes] = {}
        another = root.another(seen.__setitem__)

        def work() -> None:
            try:
                value = run.vendor.poll(another, hosts, self._recalled, self.expected)
            except Exception as error:  # noqa: BLE001 - a bug of ours must not end the runs
                value = Controllers(
                    problems=run.vendor.about(hosts, [Problem("", f"bug: {trace(error)}")])
                )
            another.close()
            with self._lock:
                run.busy, run.texts = False, seen
            self._finish(run, value)

        threading.Thread(target=work, name=run.vendor.backend.vendor, daemon=True).start()

    def _finish(self, run: _Run, value: Controllers) -> None:
        with self._lock:
            run.done = True
            # Events that were not fetched yet stay first.
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
                *(Problem("", "", run.vendor.backend.vendor) for run in runs if not run.done),
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
