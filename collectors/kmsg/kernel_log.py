"""The kernel's log: what it tells of storage, live and of the time when nobody looked.

Live are the records of '/dev/kmsg', by a descriptor that the probe hands over; their numbers go on
from boot to boot's end, so that the next run of iowarden begins where this one stopped. What that
ring no longer holds, and other boots, are asked of the journal in a thread that ends: of its lines
those are told that come after the cursor and before the first record of the ring. At the first
sight the last 24 hours are `baseline`, no news, and what is older is not told.

Lines that are lost are an event, 'log_gap'. Of many events of a kind on one device in one look the
first and the last are told, the others counted. One cursor is over both; it moves once what came
before it was told, so that who stops without keeping it is told again, with equal Event.key.

Of a recorded machine the log is the file '/.kmsg', one record a line as '/dev/kmsg' has them
('3,1234,567890123,-;critical medium error, dev sdb, sector 8 ...': priority, number, microseconds
since boot), all since boot or the new ones only; their numbers tell which are new. Lines with a
space ahead belong to the record above them.

Source: kernel, ABI/testing/dev-kmsg. Units: seconds since boot; Unix time.
*Limits:* what the ring lost while iowarden ran is not looked for in the journal. That the journal
lacks some lines between the cursor and the ring shows only where it lacks all of them, or tells so.
A machine that was suspended has a log without that time: what it held at a start is dated too late.
Of records with one time stamp, at the oldest of a full ring, one may be told twice, or not at all.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.event import Event
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify, finish
from iowarden.collectors.kmsg.kernel_journal import read_messages
from iowarden.collectors.kmsg.kernel_kinds import KINDS
from iowarden.collectors.kmsg.kernel_line import TEXT_CHARACTERS, from_message, parse_record
from iowarden.collectors.model import AbsentError, Family, ParseError, ReadError, Sample, trace
from iowarden.collectors.procfs import stat
from iowarden.collectors.source import Source, read_by_poller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from iowarden.collectors.kmsg.kernel_journal import Message
    from iowarden.collectors.kmsg.kernel_line import Line
    from iowarden.collectors.machine import Root

    Open = Callable[[], int]
    """Return a descriptor of '/dev/kmsg', the caller's. Errors: AbsentError, ReadError."""
    Pair = tuple[str, str]
    """Kind of event and device."""

PATH = "/.kmsg"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
FIRST_SIGHT_SECONDS = 24 * 3600.0
AGAIN_SECONDS = 15.0
"""So soon the descriptor is asked for again where there was none."""
RECORD_BYTES = 16 * 1024
"""A record has at most 8 KiB. Source: kernel/printk (CONSOLE_EXT_LOG_MAX, PRINTK_MESSAGE_MAX)."""
MOST_RECORDS = 200_000
"""Of one look; more than any ring holds, so that a look ends."""
LOOK_SECONDS = 1.0
"""A look ends then though lines go on coming: in a storm what was read must be told meanwhile. Not
the first one, for what the ring held by then is no news."""
FIRST_EVENTS = 10
LAST_EVENTS = 10
"""So many of a kind on one device are told of one look."""
MOST_PAIRS = 1000
"""So many kinds on devices are told apart; beyond, as if no device had been named."""
MOST_TOLD_BYTES = 256 * 1024
"""Of the flight recorder's memory: the records of the last look that had some."""
_LAST_TOLD = 500
"""Beyond these bytes so many more, the last ones."""

_SUPPRESSED = re.compile(r": ([0-9]{1,10}) callbacks suppressed", re.ASCII)
_SEAM_SECONDS = 1.0
"""Each processor stamps by its own clock, so that neighbours may be out of order by a little."""

_EVENTS = Family(
    "iowarden_kernel_events_total",
    "counter",
    "Events in the kernel's log since iowarden started, by kind and the device they name.",
)
_GAPS = Family(
    "iowarden_kernel_log_gaps_total", "counter", "Times that lines of the kernel's log were lost."
)
_SUPPRESSED_TOTAL = Family(
    "iowarden_kernel_log_suppressed_total",
    "counter",
    "Lines that the kernel counted instead of printing them: events are more by these.",
)
FAMILIES = (_EVENTS, _GAPS, _SUPPRESSED_TOTAL)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Up to where the log was told: kept where its events are.

    Fields: `sequence` and `monotonic_seconds` are those of the last record in boot `boot_id`;
    `realtime_seconds` is when that was read. `journal` is where the journal was left at the last
    start, so that it holds all since; '' where it could not be read.
    """

    journal: str
    boot_id: str
    sequence: int
    monotonic_seconds: float
    realtime_seconds: float | None


@dataclass(frozen=True, slots=True)
class KernelLog:
    """What the kernel told since the last look.

    Fields: `baseline` was found at the first sight; `left_out` counts what is in neither, though
    in `counts`; `counts`, `gaps` and `suppressed` are since the start, the baseline not among
    them. A pair that is new is 0 in its first look, so that its counter rises from there.
    `problem`: '', or why the time before is not known. `boot_id` is the boot that runs: in another
    one devices may have had other names.
    """

    events: tuple[Event, ...] = ()
    baseline: tuple[Event, ...] = ()
    left_out: Mapping[Pair, int] = field(default_factory=dict)
    counts: Mapping[Pair, int] = field(default_factory=lambda: {(kind, ""): 0 for kind in KINDS})
    gaps: int = 0
    suppressed: int = 0
    cursor: Cursor | None = None
    problem: str = ""
    boot_id: str = ""


def emit(value: KernelLog) -> list[Sample]:
    """Return the samples of FAMILIES."""
    samples: list[Sample] = [
        (
            _EVENTS.name,
            (("device", device), ("kind", kind)) if device else (("kind", kind),),
            count,
        )
        for (kind, device), count in value.counts.items()
    ]
    samples.append((_GAPS.name, (), value.gaps))
    samples.append((_SUPPRESSED_TOTAL.name, (), value.suppressed))
    return samples


@dataclass(slots=True)
class _Row:
    count: int = 0
    first: list[tuple[int, Event]] = field(default_factory=list)
    last: deque[tuple[int, Event]] = field(default_factory=lambda: deque(maxlen=LAST_EVENTS))


class _Fold:
    """Events of one look: the first and the last of each kind on each device, and how many."""

    def __init__(self) -> None:
        self.rows: dict[Pair, _Row] = {}
        self.suppressed = 0
        self._number = 0

    def add(self, event: Event) -> None:
        pair = (event.kind, event.device)
        row = self.rows.get(pair)
        if row is None:
            if len(self.rows) >= MOST_PAIRS:
                pair = (event.kind, "")
            row = self.rows.setdefault(pair, _Row())
        if event.kind == "callbacks_suppressed":
            found = _SUPPRESSED.search(event.text)
            self.suppressed += int(found[1]) if found else 0
        self._number += 1
        row.count += 1
        if len(row.first) < FIRST_EVENTS:
            row.first.append((self._number, event))
        else:
            row.last.append((self._number, event))

    def events(self, dated: Callable[[Event], Event]) -> tuple[Event, ...]:
        """Return those that are told, in order, each as `dated` has it."""
        kept = [each for row in self.rows.values() for each in (*row.first, *row.last)]
        return tuple(dated(event) for _, event in sorted(kept, key=lambda each: each[0]))

    def left_out(self) -> dict[Pair, int]:
        """Return how many are not told."""
        left = {p: row.count - len(row.first) - len(row.last) for p, row in self.rows.items()}
        return {pair: count for pair, count in left.items() if count}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is asked of the journal: what comes after `cursor`, and is not in the ring."""

    cursor: Cursor | None
    boot_id: str
    first_seconds: float
    """The time stamp of the oldest record of the ring; what comes later is there."""
    seam: set[tuple[float, str]]
    """Records of the ring around that moment: time stamp and text."""
    missing: int
    """So many lines are known to be between the cursor and the ring."""

    def is_known(self, message: Message) -> bool:
        """Whether a message came before the cursor."""
        cursor = self.cursor
        if cursor is None:
            return False
        if message.boot_id == cursor.boot_id:
            return message.monotonic_seconds <= cursor.monotonic_seconds
        if cursor.boot_id == self.boot_id:
            return True  # of a boot that was over by then
        if cursor.journal or cursor.realtime_seconds is None:
            return False  # it was left in that boot
        return message.realtime_seconds <= cursor.realtime_seconds

    def in_ring(self, message: Message) -> bool:
        """Whether a message is one of the ring's."""
        after = message.monotonic_seconds - self.first_seconds
        if message.boot_id != self.boot_id or after < -_SEAM_SECONDS:
            return False
        if after > (_SEAM_SECONDS if self.seam else 0.0):
            return True
        return (message.monotonic_seconds, _seam_text(message.message)) in self.seam


class Reader:
    """The kernel's log of a machine. `read` is for one thread, `recall` ahead of it."""

    def __init__(
        self,
        open_log: Open | None,
        clock: Callable[[], float],
        realtime: Callable[[], float] = time.time,
    ) -> None:
        """Open nothing yet. `clock` is monotonic, as the kernel's time stamps are."""
        self._open_log = open_log
        self._clock = clock
        self._realtime = realtime
        self._descriptor = -1
        self._refused: tuple[float, AbsentError | ReadError] | None = None
        # Where we are in the ring, and what its lines mean for the next ones:
        self._boot_id = ""
        self._arrived = False
        self._position: int | None = None
        self._at: Cursor | Line | None = None
        """What was told last; a line that waits for its next one is not yet."""
        self._state = Classifier()
        self._waiting: Line | None = None
        self._looked: float | None = None
        self._emptied: float | None = None
        """When no record was left: what is read next came later."""
        self._cut = False
        """Whether the last look ended before the records did."""
        self._played_text: str | None = None
        self._told = b""
        # What a look began, and the next one ends where an error came between:
        self._fold = _Fold()
        self._first_sight = True
        self._wanted: _Wanted | None = None
        # What is known:
        self._totals: Counter[Pair] = Counter()
        self._gaps = self._suppressed = 0
        self._value = KernelLog()
        # What the thread that asks the journal gives, under the lock:
        self._lock = threading.Condition()
        self._busy = False
        self._caught = _Fold()
        self._caught_baseline = False
        self._journal = ""
        self._problem = ""
        self._texts: dict[str, bytes] = {}

    def recall(self, cursor: Cursor | None) -> None:
        """Take the cursor of a former run, ahead of the first read; None: there was none."""
        if cursor is not None:
            self._at, self._journal, self._first_sight = cursor, cursor.journal, False
            self._value = replace(self._value, cursor=cursor)

    def read(self, root: Root) -> KernelLog:
        """Return what the kernel told since the last time; the same object where that is nothing.

        Errors: AbsentError (no probe; not in the recording), ReadError, ParseError (recordings).
        What was read ahead of an error is told by the next look that succeeds.
        """
        now = self._clock()
        boot_id = _boot_id(root)
        if boot_id != self._boot_id:
            for event in finish(self._state):
                self._fold.add(event)
            self._boot_id, self._arrived, self._state = boot_id, False, Classifier()
        if root.path:
            lines, booted = self._played(root), _booted(root)
        else:
            self._open(now)
            lines, booted = self._live(), self._realtime() - now
        looked = None if booted is None else booted + now
        self._take(lines, now)
        self._catch_up(root)
        baseline, self._first_sight = self._first_sight, False
        self._value = self._result(booted, looked, baseline=baseline)
        self._looked = looked
        if not self._cut:
            self._emptied = looked
        if not root.path:
            root.tell([(PATH, self._told), *self._texts.items()])
        return self._value

    def _take(self, lines: Iterator[Line], now: float) -> None:
        """Take the ring's records. Errors: ReadError, of live ones."""
        fresh, last = not self._arrived, None
        for line in lines:
            if fresh:
                self._begin(line)
            if not self._is_next(line):
                continue
            last = line
            if not self._first_sight or (line.monotonic_seconds or 0) >= now - FIRST_SIGHT_SECONDS:
                self._state, events = classify(self._state, line)
                for event in events:
                    self._fold.add(event)
            if self._state.held:
                self._waiting = line
            else:
                self._at = line
        if not self._arrived:
            self._arrive(None, now)
        if self._state.held and (fresh or last is None):  # its next does not come
            for event in finish(self._state):
                self._fold.add(event)
            self._state, self._at = self._state._replace(held=()), self._waiting

    def settled(self, timeout_seconds: float) -> bool:
        """Wait until the journal was asked; return whether it came to that."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._busy, timeout_seconds)

    def close(self) -> None:
        """Close the descriptor; the next look would begin anew."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._arrived = -1, False

    # --- the ring

    def _open(self, now: float) -> None:
        if self._descriptor >= 0:
            return
        if self._refused is not None and now < self._refused[0] + AGAIN_SECONDS:
            raise self._refused[1]
        if self._open_log is None:
            raise AbsentError("'/dev/kmsg': only root may open that, and no probe runs beside")
        try:
            self._descriptor = self._open_log()
        except (AbsentError, ReadError) as error:
            self._refused = now, error
            raise
        self._refused = None
        os.set_blocking(self._descriptor, False)

    def _live(self) -> Iterator[Line]:
        """Yield the records that are there. Errors: ReadError."""
        first, last, size_bytes = [], deque[bytes](maxlen=_LAST_TOLD), 0
        end = self._clock() + LOOK_SECONDS if self._arrived else math.inf
        self._cut = True
        for _ in range(MOST_RECORDS):
            if self._clock() > end:
                break
            try:
                record = os.read(self._descriptor, RECORD_BYTES)
            except BlockingIOError:
                self._cut = False
                break
            except BrokenPipeError:
                continue  # overwritten ahead of us: the next record's number tells how many
            except OSError as error:
                self.close()
                raise ReadError(f"'/dev/kmsg': {error.strerror}; opening it again") from error
            if not record:
                self.close()
                raise ReadError("'/dev/kmsg': expected records, got its end; opening it again")
            if size_bytes < MOST_TOLD_BYTES:
                first.append(record)
                size_bytes += len(record)
            else:
                last.append(record)
            try:
                line = parse_record(record, self._boot_id)
            except ParseError as error:
                self._lost(str(error), self._position or 0)
                continue
            yield line
        if first:
            self._told = b"".join((*first, *last))

    def _played(self, root: Root) -> Iterator[Line]:
        """Return the records of a recording. Errors: AbsentError, ReadError, ParseError."""
        text = root.read(PATH)
        if text == self._played_text and self._arrived:
            return iter(())
        records = re.split(r"\n(?! )", text)
        lines = [parse_record(each.encode(), self._boot_id) for each in records if each.strip()]
        self._played_text = text
        return iter(lines)

    def _begin(self, line: Line) -> None:
        """Take a record of the first look: what the journal has as well."""
        at = line.monotonic_seconds or 0.0
        if not self._arrived:
            self._arrive(line.sequence, at)
        wanted = self._wanted
        if wanted is not None and at <= wanted.first_seconds + 2 * _SEAM_SECONDS:
            wanted.seam.add((at, _seam_text(line.text)))

    def _arrive(self, sequence: int | None, first_seconds: float) -> None:
        """Take the first record of the ring, None: it is empty, and see whether it is the next."""
        at, self._arrived = self._at, True
        there = at is not None and at.boot_id == self._boot_id
        if at is not None and there and (sequence is None or sequence <= at.sequence + 1):
            self._position = at.sequence
            return
        self._position = None if sequence is None else sequence - 1
        cursor = None if self._first_sight or at is None else self._cursor(at, self._looked)
        missing = sequence - at.sequence - 1 if at and there and sequence is not None else 0
        self._wanted = _Wanted(cursor, self._boot_id, first_seconds, set(), missing)

    def _cursor(self, at: Cursor | Line, looked: float | None) -> Cursor:
        return Cursor(
            self._journal,
            at.boot_id,
            at.sequence,
            at.monotonic_seconds or 0.0,
            at.realtime_seconds if isinstance(at, Cursor) else looked,
        )

    def _is_next(self, line: Line) -> bool:
        """Whether a record is not known yet; what is lost ahead of it becomes an event."""
        position, number = self._position, line.sequence
        if position is not None and number != position + 1:
            if number <= position:
                return False
            lost = number - position - 1
            text = f"{lost} lines of the kernel's log are lost: {position + 1} to {number - 1}"
            self._lost(text, number, line.monotonic_seconds)
        self._position = number
        return True

    def _lost(self, text: str, sequence: int, at: float | None = None) -> None:
        self._fold.add(_gap(text, self._boot_id, sequence, at))

    # --- the journal

    def _catch_up(self, root: Root) -> None:
        with self._lock:
            wanted = self._wanted
            if wanted is None or self._busy:  # lost a second time: asked again when that is done
                return
            self._busy, self._wanted = True, None
            self._caught_baseline = wanted.cursor is None
        if root.path:
            self._ask(root, wanted)
            return
        seen: dict[str, bytes] = {}
        another = root.another(seen.__setitem__)

        def work() -> None:
            try:
                self._ask(another, wanted)
            finally:
                another.close()
            if sum(map(len, seen.values())) <= MOST_TOLD_BYTES:
                self._texts = seen

        threading.Thread(target=work, name="journal", daemon=True).start()

    def _ask(self, root: Root, wanted: _Wanted) -> None:
        """Ask the journal for all that is wanted; every way this can end is told."""
        problem, at = "", wanted.cursor.journal if wanted.cursor else ""
        try:
            at = self._asked(root, wanted, at)
        except AbsentError as error:
            # A recording that begins has nothing before.
            problem = "" if root.path and wanted.cursor is None else str(error)
        except (ReadError, ParseError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not pass for silence
            problem = f"bug: {trace(error)}"
        with self._lock:
            if problem:
                text = f"lines of the kernel before this are lost: {problem}"
                self._caught.add(_gap(_one_line(text), wanted.boot_id, 0, wanted.first_seconds))
            self._problem, self._journal, self._busy = problem, "" if problem else at, False
            self._lock.notify_all()

    def _asked(self, root: Root, wanted: _Wanted, at: str) -> str:
        """Return where the journal ends. Errors: AbsentError, ReadError, ParseError."""
        state, first, cursor = Classifier(), True, wanted.cursor
        boot_id, told_total = "", 0
        while True:
            found = read_messages(root, at)
            told = [m for m in found.messages if not (wanted.is_known(m) or wanted.in_ring(m))]
            told_total += len(told)
            # Where its first message is known already, only such ones are deleted.
            gap = found.gap and not (
                first and found.messages and wanted.is_known(found.messages[0])
            )
            ends = not found.more or found.cursor == at
            if ends and wanted.missing and not told_total:
                gap = True
            if first and cursor and not cursor.journal:  # without a place in it, a day is told
                since = cursor.realtime_seconds
                gap = gap or since is None or since < self._realtime() - FIRST_SIGHT_SECONDS
            with self._lock:
                if gap:
                    self._caught.add(
                        _gap(f"the journal lost lines after {at or 'the last day'}", boot_id, 0)
                    )
                for message in told:
                    if message.boot_id != boot_id:
                        self._caught_all(finish(state))
                        boot_id, state = message.boot_id, Classifier()
                    state, events = classify(state, from_message(message))
                    self._caught_all(events)
                if ends:
                    self._caught_all(finish(state))
                    return found.cursor
            at, first = found.cursor, False

    def _caught_all(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._caught.add(event)

    # --- what is known

    def _result(self, booted: float | None, looked: float | None, *, baseline: bool) -> KernelLog:
        with self._lock:
            caught, self._caught = self._caught, _Fold()
            busy, journal, problem = self._busy, self._journal, self._problem
            caught_baseline = self._caught_baseline
        ring, self._fold = self._fold, _Fold()
        told: dict[bool, tuple[Event, ...]] = {True: (), False: ()}
        for fold, old in ((caught, caught_baseline), (ring, baseline)):
            told[old] += fold.events(lambda event: self._dated(event, booted, looked))
            if not old:
                for (kind, device), row in fold.rows.items():
                    known = (kind, device) in self._totals or len(self._totals) < MOST_PAIRS
                    self._totals[kind, device if known else ""] += row.count
                self._suppressed += fold.suppressed
        self._gaps = sum(n for (kind, _), n in self._totals.items() if kind == "log_gap")
        cursor = self._value.cursor
        at = self._at
        if not busy and self._wanted is None and at is not None:
            same = cursor and (cursor.boot_id, cursor.sequence) == (at.boot_id, at.sequence)
            cursor = replace(
                self._cursor(cursor if cursor and same else at, looked), journal=journal
            )
        # A pair that is new is 0 for one look.
        shown = self._value.counts
        counts = {pair: n if pair in shown else 0 for pair, n in self._totals.items()}
        value = KernelLog(
            events=told[False],
            baseline=told[True],
            left_out=dict(Counter(caught.left_out()) + Counter(ring.left_out())),
            counts={**shown, **counts},
            gaps=self._gaps,
            suppressed=self._suppressed,
            cursor=cursor,
            problem=problem,
            boot_id=self._boot_id,
        )
        return self._value if value == self._value else value

    def _dated(self, event: Event, booted: float | None, looked: float | None) -> Event:
        """Return an event with its Unix time, where the journal has not told it.

        The kernel's stamps drift away from the clock: a line came between the last look that left
        none, and this.
        """
        at = event.monotonic_seconds
        if event.realtime_seconds is not None or at is None or booted is None or looked is None:
            return event
        earliest = booted + at if self._emptied is None else self._emptied
        return replace(event, realtime_seconds=min(max(booted + at, earliest), looked))


def _gap(text: str, boot_id: str, sequence: int, at: float | None = None) -> Event:
    return Event(
        source="kernel",
        kind="log_gap",
        text=text,
        boot_id=boot_id,
        monotonic_seconds=at,
        sequence=sequence,
    )


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:1000])


def _boot_id(root: Root) -> str:
    """Return which boot this is; '' where a recording does not tell. Errors: ReadError."""
    try:
        return root.read_kept(BOOT_ID).strip()
    except AbsentError:
        return ""


def _booted(root: Root) -> float | None:
    """Return when a recorded machine booted, as Unix time."""
    try:
        return float(stat.read_stat(root).boot_time_seconds)
    except (AbsentError, ReadError, ParseError):
        return None  # the source of that file says why


def _seam_text(text: str) -> str:
    return text[:TEXT_CHARACTERS].strip()


SOURCE: Source[KernelLog] = Source(
    name="kernel_log",
    period_seconds=1,
    may_hang=True,
    read=read_by_poller,
    families=FAMILIES,
    emit=emit,
)
