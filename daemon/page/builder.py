"""Makes the documents of the status page from the loop's state. For the loop's thread only."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import trace
from iowarden.daemon.control import page_documents as pages
from iowarden.daemon.control.documents import EventQuery
from iowarden.daemon.views import (
    answers,
    disk_answers,
    incident_answers,
    machine_answers,
    public_answers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.daemon.control.documents import EventLine, ScanList, SelfTestList
    from iowarden.daemon.views.answers import ViewInputs
    from iowarden.rules.advice.facts import Facts
    from iowarden.rules.engine.sample_hub import SampleHub
    from iowarden.rules.events.event_table import EventRule

STEP_SECONDS = 5.0
COURSE_SECONDS = 900.0
MAX_INCIDENTS = 8
"""Open incidents whose details the overview has."""
MAX_EVENTS = 20


class PageKind(enum.Enum):
    """Which page."""

    INDEX = "index"
    INCIDENT = "incident"
    DRIVE = "drive"


PageContent = pages.IndexPage | pages.IncidentPage | pages.DrivePage


@dataclass(frozen=True, slots=True)
class PageReply:
    """The documents of a page; None: there is no such incident or drive, or an `error`."""

    content: PageContent | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page is requested: of an incident or a drive by its whole identifier in `key`."""

    kind: PageKind
    key: str
    full: bool
    """False: only what anonymous readers may see."""
    reply: Callable[[PageReply], object]


@dataclass(slots=True)
class PageBuilder:
    """Answers requests; holds the course of the last 15 minutes."""

    known: Callable[[float], ViewInputs]
    facts: Callable[[float], Facts]
    hub: SampleHub
    rows: Mapping[str, EventRule]
    """The classes of storage events."""
    recent: Callable[[], Iterable[EventLine]]
    """The latest events, the oldest first."""
    self_tests: Callable[[float, str], SelfTestList]
    """The self-tests of a disk, by its label."""
    scans: Callable[[float, str], ScanList]
    _course: deque[tuple[float, float]] = field(
        default_factory=lambda: deque(maxlen=int(COURSE_SECONDS / STEP_SECONDS) + 1)
    )
    """Program time and queued bytes."""

    def step(self, now: float) -> None:
        """Note the unwritten data every few seconds."""
        if self._course and now < self._course[-1][0]:
            self._course.clear()
        if self._course and now - self._course[-1][0] < STEP_SECONDS - 0.5:
            return
        value = machine_answers.queued_bytes(self.hub)
        if value is not None:
            self._course.append((now, value))

    def answer(self, request: PageRequest, now: float) -> None:
        """Reply with the documents of a page."""
        try:
            reply = PageReply(self._content(request, now))
        except Exception as error:  # noqa: BLE001 - the reader gets an error, the loop continues
            reply = PageReply(error=f"bug: {trace(error)}")
        request.reply(reply)

    def public(self, known: ViewInputs, now: float) -> ViewInputs:
        """Return the state that anonymous readers may see."""
        return public_answers.public(known, self.rows, lambda: self.facts(now))

    def _content(self, request: PageRequest, now: float) -> PageContent | None:
        known = self.known(now)
        if not request.full:
            known = self.public(known, now)
        match request.kind:
            case PageKind.INDEX:
                return self._index(known, full=request.full)
            case PageKind.INCIDENT:
                return self._incident(known, request.key, full=request.full)
            case PageKind.DRIVE:
                return self._drive(known, request.key, full=request.full)

    def _shown(self, found: Iterable[EventLine], *, full: bool) -> tuple[EventLine, ...]:
        return tuple(found) if full else public_answers.events(found, self.rows)

    def _index(self, known: ViewInputs, *, full: bool) -> pages.IndexPage:
        status, disks = answers.answer(known), disk_answers.answer(known)
        recent = self._shown(self.recent(), full=full)
        begins = known.now - COURSE_SECONDS
        course = [(known.realtime(at), v) for at, v in self._course if at >= begins]
        if (queued := machine_answers.queued_bytes(self.hub)) is not None:
            course.append((known.realtime(known.now), queued))
        machine = machine_answers.machine(known, course)
        if not full:
            status, disks = public_answers.status(status), public_answers.disks(disks)
            hidden = f"{len(machine.problems)} of controllers ({public_answers.HIDDEN})"
            machine = replace(machine, problems=(hidden,) if machine.problems else ())
        first = [i.identifier for i in status.incidents[:MAX_INCIDENTS]]
        by_name = {i.identifier: i for i in known.incidents.values()}
        return pages.IndexPage(
            status,
            tuple(incident_answers.detail(known, by_name[name], ()) for name in first),
            disks,
            machine,
            tuple(reversed(recent[-MAX_EVENTS:])),
        )

    def _incident(
        self, known: ViewInputs, identifier: str, *, full: bool
    ) -> pages.IncidentPage | None:
        found = next((i for i in known.incidents.values() if i.identifier == identifier), None)
        if found is None:
            return None
        whole = incident_answers.detail(known, found, tuple(self.recent()))
        if not full:
            events = self._shown(whole.events, full=False)
            silences = tuple(replace(s, matchers=()) for s in whole.silences)
            whole = replace(whole, events=events, silences=silences)
        return pages.IncidentPage(known.host, known.version, whole)

    def _drive(self, known: ViewInputs, label: str, *, full: bool) -> pages.DrivePage | None:
        found = answers.inventory_disks(known.engine).get(label)
        if found is None:
            return None
        detail = disk_answers.detail(known, found)
        runs = self.self_tests(known.now, label).runs
        scans = self.scans(known.now, label).scans
        wanted = incident_answers.event_filter(EventQuery(MAX_EVENTS, disk=label), found)
        events = [e for e in self.recent() if e.key and wanted.matches(e)]
        if not full:
            detail = public_answers.detail(detail)
            runs = tuple(replace(r, text="", postponed="", who="") for r in runs)
            scans = tuple(replace(s, text="", waits="", who="") for s in scans)
        return pages.DrivePage(
            known.host,
            known.version,
            detail,
            tuple(r for r in runs if r.disk == label),
            next((s for s in scans if s.disk == label), None),
            self._shown(events[-MAX_EVENTS:], full=full),
            wanted.devices or (),
        )
