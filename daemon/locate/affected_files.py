"""Which files errors hit, for the mails: asked beside the loop, for it may take minutes.

One question at a time, each for whole pages: what a page holds is asked for once a day; what could
not be told, once an hour. Where the kernel read ahead, it may yet say which sector it was: such a
range waits for that, and gives way to it.
Limits: a question that waits when the program ends is not asked again.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from iowarden.collectors.model import trace
from iowarden.daemon.locate.locate import Located, LocateError, locate
from iowarden.rules.notice import Evidence
from iowarden.rules.quantity import size
from iowarden.rules.topology.file_location import (
    SECTOR_BYTES,
    Answer,
    Kind,
    narrowed,
    sentence,
    steps,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from iowarden.collectors.event import Event
    from iowarden.collectors.machine import Root
    from iowarden.rules.incidents.model import Member

KINDS = frozenset({"block_medium_error", "block_io_error", "nvme_medium_error"})
"""Events whose sector is that of the whole device."""
REQUEST_SECTORS = 8
"""Of a page: the least that a file system asks for, mostly, where a line tells the first alone."""
AHEAD_SECONDS = 10.0
"""So long a range that was read ahead waits: who wants the data reads them anew."""
DAY_SECONDS = 24 * 3600.0
RETRY_SECONDS = 3600.0
MOST_WAITING = 50
MOST_KEPT = 8
"""Of one disk, the latest; as many are in a mail."""
MOST_DISKS = 200
MOST_REMEMBERED = 1000
MOST_WRITTEN = 100
"""Hits that survive a restart."""
MOST_NAMED = 20
"""Answers of one range, in a mail."""
_CERTAIN = frozenset({Kind.FILE, Kind.FREE, Kind.METADATA, Kind.JOURNAL, Kind.PARITY})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question. `subject` is the key of the disk's incident.

    `read_ahead`: as of the event; `erred_seconds`: when it was, in seconds since boot.
    """

    subject: str
    device: str
    start: int
    count: int
    read_ahead: bool = False
    erred_seconds: float | None = None

    @property
    def end(self) -> int:
        """The first sector behind it."""
        return self.start + self.count


@dataclass(frozen=True, slots=True)
class Hit:
    """What came of a question; `problem` says why nothing. Units: the program's clock.

    Fields: `start` and `count` are the sectors that could not be read; `found` may be of more;
    `asked_seconds` is when the machine was asked.
    """

    subject: str
    at_seconds: float
    device: str
    start: int
    count: int
    found: Located | None = None
    problem: str = ""
    read_ahead: bool = False
    asked_seconds: float = 0.0

    @property
    def end(self) -> int:
        """The first sector behind it."""
        return self.start + self.count

    @property
    def answers(self) -> list[Answer]:
        """What lies in the sectors that could not be read."""
        if self.found is None:
            return []
        return narrowed(self.found.answers, self.start, self.end)

    @property
    def certain(self) -> bool:
        """Whether it is known what lies there."""
        return any(answer.kind in _CERTAIN for answer in self.answers)

    @property
    def exact(self) -> bool:
        """Whether it is known what lies there, and somebody wanted to read just that."""
        return self.certain and not self.read_ahead

    @property
    def sure(self) -> bool:
        """Whether all of it may be taken for hit: one thing, and not for being read ahead."""
        return not self.read_ahead and len(self.answers) == 1

    def goes_on(self, other: Hit) -> bool:
        """Whether both came of one look at the machine, so that they may be told as one."""
        same = self.found is not None and self.found == other.found
        return same and self.read_ahead == other.read_ahead

    def of(self, question: Wanted) -> bool:
        """Whether a question has its answer here."""
        mine = self.subject == question.subject and self.device == question.device
        first, end = (
            (self.start, self.end)
            if self.found is None
            else (self.found.start, self.found.start + self.found.count)
        )
        return mine and first <= question.start and question.end <= end


def wanted(event: Event, subject: str) -> Wanted | None:
    """Return what is to be asked about an event; None: it names no sectors of a device."""
    if event.source != "kernel" or event.kind not in KINDS or event.sector is None:
        return None
    if not event.device or not subject:
        return None
    start = event.sector
    end = start + (event.sectors or REQUEST_SECTORS)
    if start % REQUEST_SECTORS:
        # Segments were counted as whole pages. What begins within a page ends with one: the next
        # may be another file's, and nobody said that it is hit.
        end = max(end // REQUEST_SECTORS * REQUEST_SECTORS, start + 1)
    return Wanted(
        subject, event.device, start, end - start, event.read_ahead, event.monotonic_seconds
    )


class FilesHit:
    """What lies in sectors that failed. For the loop's thread, but for its own."""

    def __init__(
        self,
        root: Callable[[], Root],
        clock: Callable[[], float],
        post: Callable[[Hit], object],
    ) -> None:
        """Ask nothing yet. `root` makes what asks the machine, `post` takes each answer."""
        self._root = root
        self._clock = clock
        self._post = post
        self._hits: dict[str, tuple[Hit, ...]] = {}
        self._ahead: dict[Wanted, float] = {}
        """Ranges that were read ahead, and since when they wait."""
        # Of both threads, under the lock:
        self._lock = threading.Lock()
        self._answered: deque[Hit] = deque(maxlen=MOST_REMEMBERED)
        self._waiting: deque[Wanted] = deque()
        self._running = False

    def ask(self, question: Wanted) -> None:
        """Have it looked up, unless it was today or too much waits."""
        if question.read_ahead:
            own = self._hits.get(question.subject, ())
            told = any(h.exact and _overlap(h, question) for h in own)
            told = told or any(_within(question, each) for each in self._ahead)
            if not told and len(self._ahead) < MOST_WAITING:
                self._ahead.setdefault(question, self._clock())
            return
        self._ahead = {q: at for q, at in self._ahead.items() if not _overlap(q, question)}
        self._look_up(question)

    def step(self) -> None:
        """Have those ranges looked up of which the kernel said no more."""
        now = self._clock()
        for question, since in list(self._ahead.items()):
            if now - since >= AHEAD_SECONDS:
                del self._ahead[question]
                self._look_up(question)

    def take(self, hit: Hit) -> bool:
        """Keep an answer, in the place of what it makes good, or goes on from.

        False: of a range that was read ahead more is known by now.
        """
        own = self._hits.get(hit.subject, ())
        if hit.read_ahead and any(h.exact and _overlap(h, hit) for h in own):
            return False
        kept = []
        for old in own:
            if hit.goes_on(old) and _touch(old, hit):
                start, end = min(old.start, hit.start), max(old.end, hit.end)
                hit = replace(hit, start=start, count=end - start)
                continue
            better = hit.certain >= old.certain and (_within(old, hit) or not old.exact)
            if not _overlap(old, hit) or not better:
                kept.append(old)
        self._hits.pop(hit.subject, None)
        self._hits[hit.subject] = (*kept, hit)[-MOST_KEPT:]
        while len(self._hits) > MOST_DISKS:
            del self._hits[next(iter(self._hits))]
        return True

    def hits(self, subjects: Iterable[str], since: float) -> list[Hit]:
        """Return what is known of these, from a moment on."""
        found = [hit for subject in subjects for hit in self._hits.get(subject, ())]
        return [hit for hit in found if hit.at_seconds >= since][-MOST_KEPT:]

    def forget(self) -> None:
        """Ask anew from now on: the machine's devices are others."""
        with self._lock:
            self._answered.clear()

    @property
    def kept(self) -> tuple[Hit, ...]:
        """What survives a restart."""
        found = [hit for hits in self._hits.values() for hit in hits if hit.found is not None]
        return tuple(found[-MOST_WRITTEN:])

    def restore(self, kept: Iterable[Hit]) -> None:
        """Take what was kept, ahead of what came since."""
        for hit in kept:
            self._hits[hit.subject] = (hit, *self._hits.get(hit.subject, ()))[:MOST_KEPT]
            with self._lock:
                self._answered.append(hit)

    def _look_up(self, question: Wanted) -> None:
        with self._lock:
            last = self._last(question)
            if last is None:
                if any(_answers(each, question) for each in self._waiting):
                    return
                if len(self._waiting) >= MOST_WAITING:
                    return  # of a storm the first ones are asked for
                self._waiting.append(question)
                if self._running:
                    return
                self._running = True
        if last is None:
            threading.Thread(target=self._work, name="locate", daemon=True).start()
        elif last.found is not None:
            hit = self._again(question, last)
            own = self._hits.get(question.subject, ())
            if any(hit.goes_on(h) and _within(question, h) for h in own):
                self.take(hit)  # told already, and it goes on
            else:
                self._post(hit)

    def _last(self, question: Wanted) -> Hit | None:
        """Return the answer of today, or that there was none an hour ago. The lock is held."""
        # The latest one: what was asked in vain may have been told since.
        last = next((hit for hit in reversed(self._answered) if hit.of(question)), None)
        if last is None:
            return None
        age = self._clock() - last.asked_seconds
        return last if age < (DAY_SECONDS if last.certain else RETRY_SECONDS) else None

    def _again(self, question: Wanted, last: Hit) -> Hit:
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
            if last is None or last.found is None:
                hit = self._answer(question)
            else:  # what was asked meanwhile says it, too
                hit = self._again(question, last)
            with self._lock:
                self._waiting.popleft()
                if last is None or last.found is None:
                    self._answered.append(hit)
            self._post(hit)

    def _answer(self, question: Wanted) -> Hit:
        """Ask for the pages that a question is about: the next line may be of the same ones."""
        found, problem, root = None, "", None
        asked = self._clock()
        start = question.start // REQUEST_SECTORS * REQUEST_SECTORS
        end = -(-question.end // REQUEST_SECTORS) * REQUEST_SECTORS
        try:
            root = self._root()
            found = locate(
                root,
                question.device,
                start,
                end - start,
                self._clock,
                erred_seconds=question.erred_seconds,
                clipped=True,
            )
        except (LocateError, OSError, ValueError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the questions
            problem = str(error) or trace(error)
        finally:
            if root is not None:
                root.close()
        return Hit(
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


def evidence(hits: Iterable[Hit], realtime: Callable[[float], float]) -> tuple[Evidence, ...]:
    """Return a line for each answer."""
    return tuple(
        Evidence(realtime(hit.at_seconds), "locate", line) for hit in hits for line in _lines(hit)
    )


def seen_during(
    hits: Iterable[Hit], members: Iterable[Member], date: Callable[[float], str]
) -> tuple[str, ...]:
    """Return what an incident tells that was seen while iowarden itself read its disk.

    Which sectors that reads, only the file system knows: it may be of them. `date` writes a moment.
    """
    own = [(dict(m.labels).get("device"), m) for m in members if m.count]
    found: dict[str, list[str]] = {}
    for hit in hits:
        for device, member in own:
            if device == hit.device and hit.asked_seconds < member.since_seconds <= hit.at_seconds:
                words = f"seen while iowarden read {device} at {date(hit.asked_seconds)}"
                found.setdefault(words, []).append(member.name)
    return tuple(
        f"{words} to find which file was hit, and may be of that: {', '.join(dict.fromkeys(names))}"
        for words, names in found.items()
    )


def advice(hits: Iterable[Hit]) -> tuple[str, ...]:
    """Return what to do about each, once."""
    found: dict[str, None] = {}
    for hit in hits:
        if hit.found is None or not hit.certain:
            continue
        if not hit.sure:
            step = unreadable(hit.device, hit.start, hit.end, hit.found.sector_bytes)
            text = f"{hit.device} {_place(hit.start, hit.end - 1)}: {step.text}"
            found[f"{text}\n    {step.command}"] = None
            continue
        (answer,) = hit.answers
        lines = [f"{hit.device} {_place(answer.start, answer.end - 1)}: {sentence(answer)}"]
        for each in steps(answer, hit.found.disk, hit.found.sector_bytes):
            lines.append(f"  {each.text}")
            lines += [f"    destroys: {each.destroys}"] if each.destroys else []
            lines += [f"    {each.command}"] if each.command else []
        found["\n".join(lines)] = None
    return tuple(found)


def affected(hits: Iterable[Hit]) -> tuple[str, ...]:
    """Return the files that were hit, and those that were not because of some redundancy.

    All names of what clones and snapshots share: each of them is another file.
    """
    found: dict[tuple[str, str], None] = {}
    for hit in hits:
        place = f"{_place(hit.start, hit.end - 1)} of {hit.device}"
        alone = len({(each.kind, each.path, each.inode) for each in hit.answers}) == 1
        doubt = "" if alone else f", or another that lies in {place}: which, is not known"
        files = [
            (path, _spared(answer) or doubt)
            for answer in hit.answers
            if answer.kind is Kind.FILE and answer.path
            for path in (
                answer.path,
                *(answer.other_paths if answer.file_system == "btrfs" else ()),
            )
        ]
        found.update(dict.fromkeys(files[:MOST_NAMED]))
        if files[MOST_NAMED:]:
            found[f"one of {len(files) - MOST_NAMED} more", f" in {place}"] = None
    return tuple(
        f"file {path}{more}" if path.startswith("/") else f"{path}{more}" for path, more in found
    )


def _spared(answer: Answer) -> str:
    if answer.array:
        return f", which {answer.array} still reads from its other members"
    copies = answer.copies
    return f", of which btrfs has more than this ({copies})" if copies else ""


def _lines(hit: Hit) -> Iterator[str]:
    if hit.found is None:
        yield f"{hit.device} sector {hit.start}: cannot be told: {hit.problem}"
        return
    answers = hit.answers
    if not hit.sure and hit.certain:
        what = "the kernel read ahead and does not say" if hit.read_ahead else "it is not known"
        yield f"{hit.device} {_place(hit.start, hit.end - 1)}: not all of it failed; {what} which:"
    for answer in islice(answers, MOST_NAMED):
        bytes_ = size(answer.count * SECTOR_BYTES)
        place = _place(answer.start, answer.end - 1)
        yield f"{hit.device} {place} ({bytes_}): {sentence(answer)}"
    if answers[MOST_NAMED:]:
        yield f"{hit.device}: and {len(answers) - MOST_NAMED} more things"


def _overlap(one: Hit | Wanted, other: Hit | Wanted) -> bool:
    """Whether two have sectors of one device in common."""
    return _touch(one, other) and one.start != other.end and other.start != one.end


def _touch(one: Hit | Wanted, other: Hit | Wanted) -> bool:
    """Whether two have sectors of one device in common, or side by side."""
    same = (one.subject, one.device) == (other.subject, other.device)
    return same and one.start <= other.end and other.start <= one.end


def _answers(one: Wanted, other: Wanted) -> bool:
    """Whether the answer to a question tells another one as well."""
    return _within(other, one) and (other.read_ahead or not one.read_ahead)


def _within(one: Hit | Wanted, other: Hit | Wanted) -> bool:
    same = (one.subject, one.device) == (other.subject, other.device)
    return same and other.start <= one.start and one.end <= other.end


def _place(first: int, last: int) -> str:
    return f"sector {first}" if first == last else f"sectors {first} to {last}"
