"""Takes one short trace when an incident of a disk begins: evidence for its mails.

In a thread, one trace at a time; nothing waits for it. *Limits:* traces are not stored across a
restart; of a storm of incidents the first ones are traced, the others have that as evidence.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import trace
from iowarden.daemon.trace.protocol import TraceRequest
from iowarden.daemon.trace_client import texts
from iowarden.daemon.trace_client.client import TraceError
from iowarden.rules.notice import Evidence
from iowarden.rules.topology.device_identity import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.daemon.trace.protocol import TraceResult
    from iowarden.rules.incidents.model import Incident

SECONDS = 3.0
MAX_WAITING = 4
"""Traces that wait for one that runs: a later one would no longer show how it began."""
MAX_STORED = 200
SOURCE = "trace"


@dataclass(frozen=True, slots=True)
class IncidentTrace:
    """The trace for an incident as text; without one, `problem` is the reason.

    `at_seconds`: end of the trace, by the program's clock.
    """

    incident: str
    device: str
    at_seconds: float
    lines: tuple[str, ...] = ()
    problem: str = ""


class IncidentTraces:
    """Traces disks of incidents; its methods are for the main loop."""

    def __init__(
        self,
        trace: Callable[[TraceRequest], TraceResult],
        clock: Callable[[], float],
        post: Callable[[IncidentTrace], object],
        show_programs: Callable[[], bool] = lambda: True,
    ) -> None:
        """Trace nothing yet. `trace` may block; `post` gets each result.

        `show_programs`: whether names of programs may be shown.
        """
        self._show_programs = show_programs
        self._trace = trace
        self._clock = clock
        self._post = post
        self._began = clock()
        self._seen: dict[str, float] = {}
        """By identifier when the incident began that was traced."""
        self._traces: dict[str, IncidentTrace] = {}
        self._problem = ""
        # Used by both threads, under the lock:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, str, str]] = deque()
        self._running = False

    def step(self, incidents: Iterable[Incident], topology: Topology | None) -> None:
        """Start a trace for each incident of a disk that began since the last call."""
        for incident in incidents:
            since = incident.started_seconds
            # One from before the start of this program has begun long ago.
            if not incident.firing or since < self._began:
                continue
            if self._seen.get(incident.identifier) == since:
                continue
            self._seen.pop(incident.identifier, None)
            self._seen[incident.identifier] = since
            if len(self._seen) > MAX_STORED:
                del self._seen[next(iter(self._seen))]
            disk = _disk(topology, incident.key)
            if disk is not None and not self._begin((incident.identifier, *disk)):
                others = f"{MAX_WAITING + 1} other disks were to be traced before it"
                line = f"no trace of {disk[0]}: {others}"
                at = self._clock()
                self._store(IncidentTrace(incident.identifier, disk[0], at, (line,)))

    def take(self, found: IncidentTrace) -> str:
        """Store a trace; return a reason why there is none, if it is not that of the last one."""
        if found.problem:
            known, self._problem = self._problem, found.problem
            return "" if known == found.problem else found.problem
        self._problem = ""
        self._store(found)
        return ""

    def evidence(
        self, incident: Incident, realtime: Callable[[float], float]
    ) -> tuple[Evidence, ...]:
        """Return the lines about the trace of an incident."""
        found = self._traces.get(incident.identifier)
        if found is None or found.at_seconds < incident.started_seconds:
            return ()
        at = realtime(found.at_seconds)
        return tuple(Evidence(at, SOURCE, line) for line in found.lines)

    def _store(self, found: IncidentTrace) -> None:
        self._traces.pop(found.incident, None)
        self._traces[found.incident] = found
        if len(self._traces) > MAX_STORED:
            del self._traces[next(iter(self._traces))]

    def _begin(self, wanted: tuple[str, str, str]) -> bool:
        """Trace as soon as those before it have ended; return whether there are not too many."""
        with self._lock:
            if len(self._waiting) > MAX_WAITING:
                return False
            self._waiting.append(wanted)
            if self._running:
                return True
            self._running = True
        threading.Thread(target=self._work, name="trace", daemon=True).start()
        return True

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                identifier, device, number = self._waiting[0]
            lines: tuple[str, ...] = ()
            problem = ""
            try:
                result = self._trace(TraceRequest((number,), SECONDS))
                if not self._show_programs():
                    result = texts.unnamed(result)
                lines = tuple(texts.lines(result, result.disks[0], device))
            except TraceError as error:
                problem = str(error)
            except Exception as error:  # noqa: BLE001 - a bug must not end the thread
                problem = f"bug: {trace(error)}"
            with self._lock:
                self._waiting.popleft()
            self._post(IncidentTrace(identifier, device, self._clock(), lines, problem))


def _disk(topology: Topology | None, key: str) -> tuple[str, str] | None:
    """Return name and number of the disk that incidents of this key are about."""
    if topology is None:
        return None
    for name in topology.leaves:
        device = topology.devices[name]
        if device.device_number is not None and identity(topology, name).key == key:
            return name, device.device_number
    return None
