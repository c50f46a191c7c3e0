"""Finds the files affected by disk errors, for the mails; in a thread, since it may take minutes.

One query at a time, each for whole pages; a page is queried once a day, once an hour if it could
not be located. After a read-ahead error, the kernel may still report the exact sector: such a range
waits for it, and is then replaced by it.
Limits: queries that wait when the program ends are lost.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import trace
from iowarden.collectors.quantity import size
from iowarden.daemon.locate.locate import ErrorTime, Located, LocateError, locate
from iowarden.rules.notice import Evidence
from iowarden.rules.topology.file_location import (
    SECTOR_BYTES,
    ContentKind,
    SectorContent,
    narrowed,
    sentence,
    steps,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.machine import Machine
    from iowarden.rules.incidents.model import IncidentMember

KINDS = frozenset({"block_medium_error", "block_io_error", "nvme_medium_error", "scan_bad_range"})
"""Event classes whose sector counts from the start of the whole device."""
_SOURCES = frozenset({"kernel", "scan"})
REQUEST_SECTORS = 8
"""Sectors of a page, mostly the smallest read of a file system: used if only the first is known."""
AHEAD_SECONDS = 10.0
"""Delay of a read-ahead range: a program that needs the data reads it again meanwhile."""
DAY_SECONDS = 24 * 3600.0
RETRY_INTERVAL_SECONDS = 3600.0
MAX_WAITING = 50
MAX_RETAINED = 8
"""Results per disk: the latest ones, all of which are in a mail."""
MAX_DISKS = 200
MAX_REMEMBERED = 1000
MAX_WRITTEN = 100
"""Results that are stored across a restart."""
MAX_NAMED = 20
"""Answers of one range in a mail."""
_CERTAIN = frozenset(
    {
        ContentKind.FILE,
        ContentKind.FREE,
        ContentKind.METADATA,
        ContentKind.JOURNAL,
        ContentKind.PARITY,
    }
)


@dataclass(frozen=True, slots=True)
class SectorQuery:
    """A range of sectors to locate. `subject` is the key of the disk's incident.

    `read_ahead`: as in the event; `erred_seconds`: time of the event, in seconds since boot.
    """

    subject: str
    device: str
    start: int
    count: int
    read_ahead: bool = False
    erred_seconds: float | None = None

    @property
    def end(self) -> int:
        """The first sector after it."""
        return self.start + self.count


@dataclass(frozen=True, slots=True)
class SectorLookup:
    """Result of a query; without an answer, `problem` is the reason. Units: the program's clock.

    Fields: `start` and `count` are the unreadable sectors; `located` may be about more;
    `requested_seconds` is the time of the query.
    """

    subject: str
    at_seconds: float
    device: str
    start: int
    count: int
    located: Located | None = None
    problem: str = ""
    read_ahead: bool = False
    requested_seconds: float = 0.0

    @property
    def end(self) -> int:
        """The first sector after it."""
        return self.start + self.count

    @property
    def answers(self) -> list[SectorContent]:
        """The owners of the unreadable sectors."""
        if self.located is None:
            return []
        return narrowed(self.located.answers, self.start, self.end)

    @property
    def certain(self) -> bool:
        """Whether an owner of these sectors is known."""
        return any(answer.kind in _CERTAIN for answer in self.answers)

    @property
    def exact(self) -> bool:
        """Whether an owner is known and the sectors were read on request, not ahead."""
        return self.certain and not self.read_ahead

    @property
    def sure(self) -> bool:
        """Whether the owner is certainly affected: it is the only one, and no read-ahead."""
        return not self.read_ahead and len(self.answers) == 1

    def goes_on(self, other: SectorLookup) -> bool:
        """Whether both are results of the same query, so that they can be merged."""
        same = self.located is not None and self.located == other.located
        return same and self.read_ahead == other.read_ahead

    def of(self, question: SectorQuery) -> bool:
        """Whether this result answers a query."""
        mine = self.subject == question.subject and self.device == question.device
        first, end = (
            (self.start, self.end)
            if self.located is None
            else (self.located.start, self.located.start + self.located.count)
        )
        return mine and first <= question.start and question.end <= end


def sector_query(event: StorageEvent, subject: str) -> SectorQuery | None:
    """Return the query for an event; None if it names no sectors of a device."""
    if event.source not in _SOURCES or event.kind not in KINDS or event.sector is None:
        return None
    if not event.device or not subject:
        return None
    start = event.sector
    end = start + (event.sectors or REQUEST_SECTORS)
    if start % REQUEST_SECTORS:
        # The kernel counted segments as whole pages. A range that starts within a page ends with a
        # page: the next page may belong to another file, which is not affected.
        end = max(end // REQUEST_SECTORS * REQUEST_SECTORS, start + 1)
    return SectorQuery(
        subject, event.device, start, end - start, event.read_ahead, event.monotonic_seconds
    )


class AffectedFiles:
    """Locates owners of failed sectors in a thread; its methods are for the main loop."""

    def __init__(
        self,
        root: Callable[[], Machine],
        clock: Callable[[], float],
        uptime: Callable[[], float],
        post: Callable[[SectorLookup], object],
    ) -> None:
        """Start no query yet. `root` creates access to the machine, `post` gets each result.

        `uptime`: seconds since boot, as in the kernel's log.
        """
        self._machine = root
        self._clock = clock
        self._uptime = uptime
        self._post = post
        self._lookups: dict[str, tuple[SectorLookup, ...]] = {}
        self._ahead: dict[SectorQuery, float] = {}
        """Read-ahead ranges, and since when they wait."""
        # Used by both threads, under the lock:
        self._lock = threading.Lock()
        self._answered: deque[SectorLookup] = deque(maxlen=MAX_REMEMBERED)
        self._waiting: deque[SectorQuery] = deque()
        self._running = False

    def request(self, question: SectorQuery) -> None:
        """Start a query, unless it was answered within a day or too many are waiting."""
        if question.read_ahead:
            own = self._lookups.get(question.subject, ())
            told = any(h.exact and _overlap(h, question) for h in own)
            told = told or any(_within(question, each) for each in self._ahead)
            if not told and len(self._ahead) < MAX_WAITING:
                self._ahead.setdefault(question, self._clock())
            return
        self._ahead = {q: at for q, at in self._ahead.items() if not _overlap(q, question)}
        self._resolve(question)

    def step(self) -> None:
        """Start the queries of read-ahead ranges for which the kernel reported no exact sector."""
        now = self._clock()
        for question, since in list(self._ahead.items()):
            if now - since >= AHEAD_SECONDS:
                del self._ahead[question]
                self._resolve(question)

    def take(self, lookup: SectorLookup) -> bool:
        """Store a result; it replaces worse ones, and is merged with adjacent ones.

        False: the range was read ahead, and a more exact result is already stored.
        """
        own = self._lookups.get(lookup.subject, ())
        if lookup.read_ahead and any(h.exact and _overlap(h, lookup) for h in own):
            return False
        kept = []
        for old in own:
            if lookup.goes_on(old) and _touch(old, lookup):
                start, end = min(old.start, lookup.start), max(old.end, lookup.end)
                lookup = replace(lookup, start=start, count=end - start)
                continue
            better = lookup.certain >= old.certain and (_within(old, lookup) or not old.exact)
            if not _overlap(old, lookup) or not better:
                kept.append(old)
        self._lookups.pop(lookup.subject, None)
        self._lookups[lookup.subject] = (*kept, lookup)[-MAX_RETAINED:]
        while len(self._lookups) > MAX_DISKS:
            del self._lookups[next(iter(self._lookups))]
        return True

    def lookups(self, subjects: Iterable[str], since: float) -> list[SectorLookup]:
        """Return the results of these subjects since a time."""
        found = [hit for subject in subjects for hit in self._lookups.get(subject, ())]
        return [hit for hit in found if hit.at_seconds >= since][-MAX_RETAINED:]

    def forget(self) -> None:
        """Discard cached answers: the devices of the machine have changed."""
        with self._lock:
            self._answered.clear()

    @property
    def to_store(self) -> tuple[SectorLookup, ...]:
        """The results to store across a restart."""
        found = [hit for hits in self._lookups.values() for hit in hits if hit.located is not None]
        return tuple(found[-MAX_WRITTEN:])

    def restore(self, stored: Iterable[SectorLookup]) -> None:
        """Restore stored results, before those of this run."""
        for hit in stored:
            self._lookups[hit.subject] = (hit, *self._lookups.get(hit.subject, ()))[:MAX_RETAINED]
            with self._lock:
                self._answered.append(hit)

    def _resolve(self, question: SectorQuery) -> None:
        with self._lock:
            last = self._last(question)
            if last is None:
                if any(_answers(each, question) for each in self._waiting):
                    return
                if len(self._waiting) >= MAX_WAITING:
                    return  # of an error storm, only the first ones are queried
                self._waiting.append(question)
                if self._running:
                    return
                self._running = True
        if last is None:
            threading.Thread(target=self._work, name="locate", daemon=True).start()
        elif last.located is not None:
            hit = self._repeated(question, last)
            own = self._lookups.get(question.subject, ())
            if any(hit.goes_on(h) and _within(question, h) for h in own):
                self.take(hit)  # already reported; only extend it
            else:
                self._post(hit)

    def _last(self, question: SectorQuery) -> SectorLookup | None:
        """Return a valid cached result: of today, or a failure of the last hour. Needs the lock."""
        # The latest one: a failed query may have succeeded since.
        last = next((hit for hit in reversed(self._answered) if hit.of(question)), None)
        if last is None:
            return None
        age = self._clock() - last.requested_seconds
        return last if age < (DAY_SECONDS if last.certain else RETRY_INTERVAL_SECONDS) else None

    def _repeated(self, question: SectorQuery, last: SectorLookup) -> SectorLookup:
        return replace(
            last,
            at_seconds=self._clock(),
            start=question.start,
            count=question.count,
            read_ahead=question.read_ahead,
        )

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                question = self._waiting[0]
                last = self._last(question)
            if last is None or last.located is None:
                hit = self._answer(question)
            else:  # another query has answered it meanwhile
                hit = self._repeated(question, last)
            with self._lock:
                self._waiting.popleft()
                if last is None or last.located is None:
                    self._answered.append(hit)
            self._post(hit)

    def _error_time(self, question: SectorQuery) -> ErrorTime | None:
        erred_seconds = question.erred_seconds
        if erred_seconds is None:
            return None
        return ErrorTime(erred_seconds, self._uptime() - erred_seconds)

    def _answer(self, question: SectorQuery) -> SectorLookup:
        """Query the whole pages of a range: the next error is often in the same ones."""
        found, problem, root = None, "", None
        asked = self._clock()
        start = question.start // REQUEST_SECTORS * REQUEST_SECTORS
        end = -(-question.end // REQUEST_SECTORS) * REQUEST_SECTORS
        try:
            root = self._machine()
            found = locate(
                root,
                question.device,
                start,
                end - start,
                self._clock,
                error=self._error_time(question),
                clipped=True,
            )
        except (LocateError, OSError, ValueError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            problem = str(error) or trace(error)
        finally:
            if root is not None:
                root.close()
        return SectorLookup(
            question.subject,
            self._clock(),
            question.device,
            question.start,
            question.count,
            found,
            problem,
            question.read_ahead,
            asked,
        )


def evidence(
    lookups: Iterable[SectorLookup], realtime: Callable[[float], float]
) -> tuple[Evidence, ...]:
    """Return a line of evidence for each answer."""
    return tuple(
        Evidence(realtime(hit.at_seconds), "locate", line)
        for hit in lookups
        for line in _lines(hit)
    )


def seen_during(
    lookups: Iterable[SectorLookup], members: Iterable[IncidentMember], date: Callable[[float], str]
) -> tuple[str, ...]:
    """Return notes on events that occurred while iowarden itself read the disk to locate files.

    Its own reads may have caused them. `date` formats a time.
    """
    own = [(dict(m.labels).get("device"), m) for m in members if m.count]
    found: dict[str, list[str]] = {}
    for hit in lookups:
        for device, member in own:
            if (
                device == hit.device
                and hit.requested_seconds < member.since_seconds <= hit.at_seconds
            ):
                words = f"occurred while iowarden read {device} at {date(hit.requested_seconds)}"
                found.setdefault(words, []).append(member.name)
    return tuple(
        f"{words} to find the affected file, which may have caused it:"
        f" {', '.join(dict.fromkeys(names))}"
        for words, names in found.items()
    )


def advice(lookups: Iterable[SectorLookup]) -> tuple[str, ...]:
    """Return the steps to take for each result, without duplicates."""
    found: dict[str, None] = {}
    for hit in lookups:
        if hit.located is None or not hit.certain:
            continue
        if not hit.sure:
            step = unreadable(hit.device, hit.start, hit.end, hit.located.sector_bytes)
            text = f"{hit.device} {_place(hit.start, hit.end - 1)}: {step.text}"
            found[f"{text}\n    {step.command}"] = None
            continue
        (answer,) = hit.answers
        lines = [f"{hit.device} {_place(answer.start, answer.end - 1)}: {sentence(answer)}"]
        for each in steps(answer, hit.located.disk, hit.located.sector_bytes):
            lines.append(f"  {each.text}")
            lines += [f"    destroys: {each.destroys}"] if each.destroys else []
            lines += [f"    {each.command}"] if each.command else []
        found["\n".join(lines)] = None
    return tuple(found)


def affected(lookups: Iterable[SectorLookup]) -> tuple[str, ...]:
    """Return the affected files, with a note where redundancy saved the data.

    Clones and snapshots on btrfs are all listed: each of them is another file.
    """
    found: dict[tuple[str, str], None] = {}
    for hit in lookups:
        place = f"{_place(hit.start, hit.end - 1)} of {hit.device}"
        alone = len({(each.kind, each.path, each.inode) for each in hit.answers}) == 1
        doubt = "" if alone else f", or another file in {place} (unknown which one)"
        files = [
            (path, _spared(answer) or doubt)
            for answer in hit.answers
            if answer.kind is ContentKind.FILE and answer.path
            for path in (
                answer.path,
                *(answer.other_paths if answer.file_system == "btrfs" else ()),
            )
        ]
        found.update(dict.fromkeys(files[:MAX_NAMED]))
        if files[MAX_NAMED:]:
            found[f"one of {len(files) - MAX_NAMED} more", f" in {place}"] = None
    return tuple(
        f"file {path}{more}" if path.startswith("/") else f"{path}{more}" for path, more in found
    )


def _spared(answer: SectorContent) -> str:
    if answer.array:
        return f", which {answer.array} can still read from other members"
    copies = answer.copies
    return f", of which btrfs has another copy ({copies})" if copies else ""


def _lines(lookup: SectorLookup) -> Iterator[str]:
    if lookup.located is None:
        yield f"{lookup.device} sector {lookup.start}: affected file unknown: {lookup.problem}"
        return
    answers = lookup.answers
    if not lookup.sure and lookup.certain:
        what = "the kernel read ahead and does not report" if lookup.read_ahead else "it is unknown"
        place = _place(lookup.start, lookup.end - 1)
        yield f"{lookup.device} {place}: only a part failed; {what} which:"
    for answer in islice(answers, MAX_NAMED):
        bytes_ = size(answer.count * SECTOR_BYTES)
        place = _place(answer.start, answer.end - 1)
        yield f"{lookup.device} {place} ({bytes_}): {sentence(answer)}"
    if answers[MAX_NAMED:]:
        yield f"{lookup.device}: and {len(answers) - MAX_NAMED} more owners of sectors"


def _overlap(one: SectorLookup | SectorQuery, other: SectorLookup | SectorQuery) -> bool:
    """Whether two ranges overlap on one device."""
    return _touch(one, other) and one.start != other.end and other.start != one.end


def _touch(one: SectorLookup | SectorQuery, other: SectorLookup | SectorQuery) -> bool:
    """Whether two ranges overlap or are adjacent on one device."""
    same = (one.subject, one.device) == (other.subject, other.device)
    return same and one.start <= other.end and other.start <= one.end


def _answers(one: SectorQuery, other: SectorQuery) -> bool:
    """Whether the answer to one query also answers another one."""
    return _within(other, one) and (other.read_ahead or not one.read_ahead)


def _within(one: SectorLookup | SectorQuery, other: SectorLookup | SectorQuery) -> bool:
    same = (one.subject, one.device) == (other.subject, other.device)
    return same and other.start <= one.start and one.end <= other.end


def _place(first: int, last: int) -> str:
    return f"sector {first}" if first == last else f"sectors {first} to {last}"
