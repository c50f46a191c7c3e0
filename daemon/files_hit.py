"""Which files errors hit, for the mails: asked beside the loop, for it may take minutes.

One question at a time; a sector is asked for once a day.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.collectors.vocabulary import trace
from iowarden.daemon.locate import Located, LocateError, Remembered, locate
from iowarden.rules.located import SECTOR_BYTES, Kind, sentence, steps
from iowarden.rules.notice import Evidence
from iowarden.rules.quantity import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from iowarden.collectors.event import Event
    from iowarden.collectors.files import Root

KINDS = frozenset({"block_medium_error", "block_io_error", "nvme_medium_error"})
"""Events whose sector is that of the whole device."""
REQUEST_SECTORS = 8
"""Of a page: the least that a file system asks for, mostly, where a line tells the first alone."""
MOST_WAITING = 50
MOST_KEPT = 8
"""Of one disk, the latest; as many are in a mail."""
MOST_DISKS = 200
_CERTAIN = frozenset({Kind.FILE, Kind.FREE, Kind.METADATA, Kind.JOURNAL, Kind.PARITY})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question. `subject` is the key of the disk's incident."""

    subject: str
    device: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Hit:
    """What came of a question; `problem` says why nothing. Units: the program's clock."""

    subject: str
    at_seconds: float
    device: str
    start: int
    found: Located | None = None
    problem: str = ""

    @property
    def certain(self) -> bool:
        """Whether it is known what lies there."""
        return self.found is not None and any(a.kind in _CERTAIN for a in self.found.answers)


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
    return Wanted(subject, event.device, start, end - start)


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
        self._remembered = Remembered(clock)
        self._lock = threading.Lock()
        self._waiting: deque[Wanted] = deque()
        self._running = False
        self._hits: dict[str, deque[Hit]] = {}

    def ask(self, question: Wanted) -> None:
        """Have it looked up, unless it was today or too much waits."""
        known = self._remembered.get(question.subject, question.start, question.count)
        with self._lock:
            if known is not None or question in self._waiting:
                return
            if len(self._waiting) >= MOST_WAITING:
                return  # of a storm the first ones are asked for
            self._waiting.append(question)
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._work, name="locate", daemon=True).start()

    def take(self, hit: Hit) -> None:
        """Keep an answer."""
        if hit.found is not None:
            self._remembered.put(hit.subject, hit.found)
        own = self._hits.setdefault(hit.subject, deque(maxlen=MOST_KEPT))
        own.append(hit)
        while len(self._hits) > MOST_DISKS:
            del self._hits[next(iter(self._hits))]

    def hits(self, subjects: Iterable[str], since: float) -> list[Hit]:
        """Return what is known of these, from a moment on."""
        found = [hit for subject in subjects for hit in self._hits.get(subject, ())]
        return [hit for hit in found if hit.at_seconds >= since][-MOST_KEPT:]

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                question = self._waiting[0]
            hit = self._answer(question)
            with self._lock:
                self._waiting.popleft()
            self._post(hit)

    def _answer(self, question: Wanted) -> Hit:
        found, problem, root = None, "", None
        try:
            root = self._root()
            found = locate(root, question.device, question.start, question.count, self._clock)
        except (LocateError, OSError, ValueError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the questions
            problem = str(error) or trace(error)
        finally:
            if root is not None:
                root.close()
        return Hit(question.subject, self._clock(), question.device, question.start, found, problem)


def evidence(hits: Iterable[Hit], realtime: Callable[[float], float]) -> tuple[Evidence, ...]:
    """Return a line for each answer."""
    return tuple(
        Evidence(realtime(hit.at_seconds), "locate", line) for hit in hits for line in _lines(hit)
    )


def advice(hits: Iterable[Hit]) -> tuple[str, ...]:
    """Return what to do about each, once."""
    found: dict[str, None] = {}
    for hit in hits:
        for answer in hit.found.answers if hit.found is not None else ():
            if answer.kind not in _CERTAIN:
                continue
            text = [f"{hit.device} {_place(answer.start, answer.end - 1)}: {sentence(answer)}"]
            for step in steps(answer, hit.found.disk, hit.found.sector_bytes) if hit.found else ():
                text.append(f"  {step.text}")
                text += [f"    {step.command}"] if step.command else []
                text += [f"    destroys: {step.destroys}"] if step.destroys else []
            found["\n".join(text)] = None
    return tuple(found)


def affected(hits: Iterable[Hit]) -> tuple[str, ...]:
    """Return the files that were hit, and those that were not because of some redundancy.

    All names of what clones and snapshots share: each of them is another file.
    """
    found = {
        (path, answer.array, answer.copies): None
        for hit in hits
        for answer in (hit.found.answers if hit.found is not None else ())
        if answer.kind is Kind.FILE and answer.path
        for path in (answer.path, *(answer.other_paths if answer.file_system == "btrfs" else ()))
    }
    return tuple(f"file {path}{_spared(array, copies)}" for path, array, copies in found)


def _spared(array: str, copies: str) -> str:
    if array:
        return f", which {array} still reads from its other members"
    return f", of which btrfs has more than this ({copies})" if copies else ""


def _lines(hit: Hit) -> Iterator[str]:
    if hit.found is None:
        yield f"{hit.device} sector {hit.start}: cannot be told: {hit.problem}"
        return
    for answer in hit.found.answers:
        bytes_ = size(answer.count * SECTOR_BYTES)
        place = _place(answer.start, answer.end - 1)
        yield f"{hit.device} {place} ({bytes_}): {sentence(answer)}"


def _place(first: int, last: int) -> str:
    return f"sector {first}" if first == last else f"sectors {first} to {last}"
