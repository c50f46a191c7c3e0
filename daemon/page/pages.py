"""Renders the status page for the HTTP server: one page at a time, each cached for a second.

The loop makes the documents of a page when one is requested, and this module's caller - the HTTP
server's thread for pages - turns them into HTML. A loop that does not answer in time yields the
page as it was last, with a note; history.db is read by a thread of its own, which may hang.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.daemon.control.documents import EventQuery
from iowarden.daemon.control.page_documents import DrivePage, IncidentPage, IndexPage
from iowarden.daemon.page import drive, incident, index
from iowarden.daemon.page.builder import PageKind, PageReply, PageRequest
from iowarden.daemon.page.frame import Frame, page
from iowarden.daemon.page.html import tag
from iowarden.daemon.storage import event_rows, history_courses
from iowarden.daemon.storage.event_rows import EventFilter
from iowarden.daemon.storage.history_reader import HistoryReader
from iowarden.daemon.views import incident_answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.daemon.control.documents import EventLine
    from iowarden.daemon.page.builder import PageContent

CACHE_SECONDS = 1.0
LOOP_SECONDS = 2.0
"""How long the loop has to answer."""
HISTORY_SECONDS = 0.2
MAX_SHARE = 0.25
"""Share of the time that pages may take: hundreds of drives have a page each."""
ANSWER_SECONDS = 0.01
"""Least time between two answers: readers that reload without a pause would slow down scrapes."""
MAX_KEY_CHARACTERS = 256
MAX_PAGES = 64
"""Limit of stored pages, for the cache and for a loop that does not answer."""
_DAY = 86_400.0
_NOT_AVAILABLE = "history not available"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Stored:
    """A page's documents, and its HTML."""

    at_seconds: float
    content: PageContent
    html: bytes


@dataclass(frozen=True, slots=True)
class Rendered:
    """An HTML page and its HTTP status."""

    status: int
    html: bytes


class StatusPages:
    """Answers requests for pages; for any thread, which waits while another page is rendered."""

    def __init__(  # noqa: PLR0913 - all but four are named where it is called
        self,
        post: Callable[[PageRequest], object],
        history_path: str,
        host: str,
        version: str,
        *,
        full: bool,
        loop_seconds: float = LOOP_SECONDS,
        history_seconds: float = HISTORY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """`post` hands a request to the loop. `full`: readers are authenticated.

        `pause` waits for so many seconds.
        """
        self._pause = pause
        self._rests_until = -math.inf
        self._answered = -math.inf
        self._post = post
        self._host = host
        self._version = version
        self._full = full
        self._loop_seconds = loop_seconds
        self._clock = clock
        self._history = HistoryReader(history_path, history_seconds)
        self._lock = threading.Lock()
        self._stored: dict[tuple[PageKind, str], _Stored] = {}
        self._waiting: queue.SimpleQueue[PageReply] | None = None
        """Where the loop's reply to the last request will come that was not answered in time."""

    def get(self, path: str) -> Rendered | None:
        """Return the page at a path; None: no page has such a path."""
        found = target(path)
        if found is None:
            return None
        with self._lock:
            answer = self._get(found)
            self._answered = self._clock()
            return answer

    def _get(self, wanted: tuple[PageKind, str]) -> Rendered:
        stored = self._stored.get(wanted)
        if stored is not None and 0 <= self._clock() - stored.at_seconds < CACHE_SECONDS:
            self._rest(self._answered + ANSWER_SECONDS)
            return Rendered(200, stored.html)
        self._rest(max(self._answered + ANSWER_SECONDS, self._rests_until))
        begun = self._clock()
        found = self._made(wanted, stored)
        took = self._clock() - begun
        self._rests_until = begun + took / MAX_SHARE
        return found

    def _rest(self, until: float) -> None:
        self._pause(min(max(until - self._clock(), 0.0), LOOP_SECONDS))

    def _made(self, wanted: tuple[PageKind, str], stored: _Stored | None) -> Rendered:
        """Return a page that is not in the cache."""
        reply = self._documents(wanted)
        if reply is None or reply.error:
            why = (
                "the service is busy: its main loop did not answer within"
                f" {duration(self._loop_seconds)}"
                if reply is None
                else f"this page could not be made: {reply.error}"
            )
            if stored is None:
                return Rendered(503, self._message("Not available now", f"{why}. Reload."))
            late = self._clock() - stored.at_seconds
            return Rendered(
                200, self._render(stored.content, f"Not current, {duration(late)} old: {why}.")
            )
        if reply.content is None:
            what = "incident" if wanted[0] is PageKind.INCIDENT else "drive"
            text = f"There is no such {what}, or no longer."
            return Rendered(404, self._message(f"No such {what}", text))
        html = self._render(reply.content)
        self._stored.pop(wanted, None)
        while len(self._stored) >= MAX_PAGES:
            del self._stored[next(iter(self._stored))]
        self._stored[wanted] = _Stored(self._clock(), reply.content, html)
        return Rendered(200, html)

    def _documents(self, wanted: tuple[PageKind, str]) -> PageReply | None:
        """Return the loop's reply; None if there is none in time."""
        if self._waiting is not None:  # it still has our last request; one is enough
            try:
                self._waiting.get_nowait()
            except queue.Empty:
                return None
            self._waiting = None
        replies: queue.SimpleQueue[PageReply] = queue.SimpleQueue()
        self._post(PageRequest(*wanted, self._full, replies.put))
        try:
            return replies.get(timeout=self._loop_seconds)
        except queue.Empty:
            self._waiting = replies
            return None

    def _render(self, content: PageContent, note: str = "") -> bytes:
        match content:
            case IndexPage():
                return self._index(content, note)
            case IncidentPage():
                return incident.render(self._with_events(content), full=self._full, note=note)
            case DrivePage():
                return self._drive(content, note)

    def _index(self, content: IndexPage, note: str) -> bytes:
        since = content.status.now_seconds - 30 * _DAY
        courses, why = self._courses(("temperature_celsius",), since)
        temperatures = {disk: found["temperature_celsius"] for disk, found in courses.items()}
        return index.render(content, temperatures, why, full=self._full, note=note)

    def _drive(self, content: DrivePage, note: str) -> bytes:
        label = content.detail.line.disk
        since = content.detail.now_seconds - drive.COURSE_DAYS * _DAY
        courses, why = self._courses(tuple(drive.COURSES), since, label)
        return drive.render(content, courses.get(label, {}), why, full=self._full, note=note)

    def _courses(
        self, names: tuple[str, ...], since: float, label: str = ""
    ) -> tuple[history_courses.Courses, str]:
        """Return the stored values, or none and why."""

        def read(path: str) -> list[history_courses.Courses]:
            return [history_courses.read(path, names, since, label)]

        found, why = self._read(read)
        return (found[0] if found else {}), why

    def _with_events(self, content: IncidentPage) -> IncidentPage:
        """Return the incident with its stored events, if all may be shown and history answers."""
        if not self._full:
            return content
        wanted = EventFilter(
            EventQuery(incident_answers.SHOWN_EVENTS, incident=content.detail.line.identifier)
        )

        def read(path: str) -> list[EventLine]:
            return event_rows.read(path, wanted)

        rows, why = self._read(read)
        whole = incident_answers.with_events(content.detail, rows, wanted, why)
        return IncidentPage(content.host, content.version, whole)

    def _read(self, read: Callable[[str], list[_T]]) -> tuple[list[_T], str]:
        """Return what the history's thread read, or why it did not in time."""
        replies: queue.SimpleQueue[tuple[list[_T], str]] = queue.SimpleQueue()
        self._history.prefetch(read, lambda rows, why: replies.put((rows, why)))
        rows, why = replies.get()  # prefetch always answers, at the latest after its patience
        if not why:
            return rows, ""
        return (
            rows,
            f"{_NOT_AVAILABLE}: {why}" if self._full else _NOT_AVAILABLE,
        )

    def _message(self, title: str, text: str) -> bytes:
        return page(
            Frame(self._version, time.time(), self._full),
            title=f"{title} - {self._host} - iowarden",
            heading=tag("h1", title),
            here="/",
            home=True,
            content=(tag("section", tag("p", text)),),
        )


def target(path: str) -> tuple[PageKind, str] | None:
    """Return which page a path names; None: none.

    A path is as WSGI gives it: percent-decoded, its bytes as Latin-1. Only '/', '/incident/<id>'
    and '/drive/<serial>' name one; nothing in a path names a file.
    """
    if path == "/":
        return PageKind.INDEX, ""
    for kind in (PageKind.INCIDENT, PageKind.DRIVE):
        prefix = f"/{kind.value}/"
        if path.startswith(prefix) and len(path) > len(prefix):
            raw = path.removeprefix(prefix).encode("latin-1", "replace")
            key = raw.decode("utf-8", "surrogateescape")
            return kind, key[: MAX_KEY_CHARACTERS + 1]
    return None
