"""Polls the kernel log for storage events, live and of the time when iowarden did not run.

Live records come from '/dev/kmsg', by a file descriptor that the probe opens; their sequence
numbers increase until the boot ends, so that the next run of iowarden continues where this one
stopped. Records that the ring buffer no longer holds, and those of other boots, are read from the
journal in a thread that ends afterwards: of its lines, those between the cursor and the first
record of the ring buffer are used.

One cursor covers both; it advances when everything before it was reported, so that after a kill
before it is stored, events are reported again, with the same StorageEvent.key.

For a recorded machine the log is the file '/.kmsg', one record per line in the format of
'/dev/kmsg' ('3,1234,567890123,-;critical medium error, dev sdb, sector 8 ...': priority, sequence
number, microseconds since boot), all since boot or the new ones only; their sequence numbers show
which are new. Lines that begin with a space belong to the record above them.

Units: seconds since boot; Unix time.
*Limits:* records that the ring buffer lost while iowarden ran are not searched for in the journal.
On a machine that was suspended, the kernel log does not count that time: records from before the
start are dated too late.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.kmsg.catch_up import JournalQuery, read_backlog
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify, finish
from iowarden.collectors.kmsg.kernel_line import parse_record
from iowarden.collectors.kmsg.kernel_log import (
    FIRST_SIGHT_SECONDS,
    MAX_PAIRS,
    Fold,
    KernelCursor,
    KernelLog,
    log_gap,
)
from iowarden.collectors.kmsg.kernel_pci import storage_addresses
from iowarden.collectors.kmsg.ring import MAX_RECORDED_BYTES, Ring
from iowarden.collectors.kmsg.storage_drivers import host_drivers
from iowarden.collectors.model import AbsentError, ParseError, ReadError, trace
from iowarden.collectors.procfs import stat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.kmsg.kernel_line import KernelLine
    from iowarden.collectors.kmsg.kernel_log import DriverLevel, Pair
    from iowarden.collectors.kmsg.ring import Open
    from iowarden.collectors.machine import Machine

PATH = "/.kmsg"
HOSTS_INTERVAL_SECONDS = 300.0
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class _CatchUp:
    """Reads the journal in a thread that ends, and holds the events found so far."""

    def __init__(self, realtime: Callable[[], float]) -> None:
        self._realtime = realtime
        self._lock = threading.Condition()
        self._caught = Fold()
        self.busy = False
        self.baseline = False
        """Whether the events are a baseline, from the first poll."""
        self.journal = ""
        """Cursor of the last entry that was read."""
        self._problem = ""
        self.texts: dict[str, bytes] = {}

    def begin(self, root: Machine, wanted: JournalQuery) -> None:
        """Start reading; for a recorded machine wait until it is done."""
        self.busy, self.baseline = True, wanted.cursor is None
        if root.path:
            self._query(root, wanted)
            return
        seen: dict[str, bytes] = {}
        another = root.another(seen.__setitem__)

        def work() -> None:
            try:
                self._query(another, wanted)
            finally:
                another.close()
            if sum(map(len, seen.values())) <= MAX_RECORDED_BYTES:
                self.texts = seen

        threading.Thread(target=work, name="journal", daemon=True).start()

    def _query(self, root: Machine, wanted: JournalQuery) -> None:
        """Read all that is wanted; every outcome is reported."""
        problem = at = ""
        try:
            for events, at in read_backlog(root, wanted, self._realtime):  # noqa: B007 - the last counts
                with self._lock:
                    self._caught.add(*events)
        except AbsentError as error:
            # A recording from its beginning has nothing before it.
            problem, at = "" if root.path and wanted.cursor is None else str(error), ""
        except (ReadError, ParseError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not look like an empty journal
            problem = f"bug: {trace(error)}"
        with self._lock:
            if problem:
                problem = problem.partition("; will retry")[0]  # This is read once.
                text = f"older kernel messages could not be read from the journal: {problem}"
                gap = log_gap(_one_line(text), wanted.boot_id, 0, wanted.first_seconds)
                self._caught.add(gap)
            self._problem, self.journal, self.busy = problem, "" if problem else at, False
            self._lock.notify_all()

    def settled(self, timeout_seconds: float) -> bool:
        with self._lock:
            return self._lock.wait_for(lambda: not self.busy, timeout_seconds)

    def take(self) -> tuple[Fold, str, bool]:
        """Return the new events, why some may be missing, and whether the reading is complete."""
        with self._lock:
            caught, self._caught = self._caught, Fold()
            return caught, self._problem, not self.busy


class KernelLogPoller:
    """The kernel log of a machine. `read` is for one thread, `recall` comes before it."""

    def __init__(
        self,
        open_log: Open | None,
        clock: Callable[[], float],
        realtime: Callable[[], float] = time.time,
    ) -> None:
        """Open nothing yet. `clock` is monotonic, like the kernel's time stamps."""
        self._ring = Ring(open_log, clock)
        self._clock = clock
        self._realtime = realtime
        self._catch_up = _CatchUp(realtime)
        # The position in the ring buffer, and the parser's state for the next lines:
        self._boot_id = ""
        self._arrived = False
        self._position: int | None = None
        self._at: KernelCursor | KernelLine | None = None
        """The last reported line; one that waits for its next line is not reported yet."""
        self._state = Classifier()
        self._waiting: KernelLine | None = None
        self._hosts_due = 0.0
        """When the drivers and the PCI addresses of storage are read again."""
        self._read_seconds: float | None = None
        self._emptied: float | None = None
        """When the ring buffer was last read to its end: later records came after that."""
        self._played_text: str | None = None
        # Started by one poll, completed by the next one if an error came in between:
        self._fold = Fold()
        self._first_sight = True
        self._wanted: JournalQuery | None = None
        # The current result:
        self._totals: Counter[Pair] = Counter()
        self._suppressed = 0
        self._unrecognized: Counter[DriverLevel] = Counter()
        self._value = KernelLog()

    def recall(self, cursor: KernelCursor | None) -> None:
        """Restore the cursor of a previous run, before the first read; None: there was none."""
        if cursor is not None:
            self._at, self._catch_up.journal, self._first_sight = cursor, cursor.journal, False
            self._value = replace(self._value, cursor=cursor)

    def read(self, root: Machine) -> KernelLog:
        """Return the events since the last call; the same object if there are none.

        Errors: AbsentError (no probe; not in the recording), ReadError, ParseError (recordings).
        Events read before an error are returned by the next poll that succeeds.
        """
        now = self._clock()
        boot_id = _boot_id(root)
        if boot_id != self._boot_id:
            self._fold.add(*finish(self._state))
            self._boot_id, self._arrived = boot_id, False
            self._state, self._hosts_due = Classifier(), now
        if now >= self._hosts_due:
            self._hosts_due = now + HOSTS_INTERVAL_SECONDS
            self._state = self._state._replace(
                host_drivers=host_drivers(root), storage_addresses=storage_addresses(root)
            )
        if root.path:
            lines, booted = self._played(root), _booted(root)
        else:
            if self._ring.open(now):
                self._arrived = False
            lines, booted = self._live(), self._realtime() - now
        looked = None if booted is None else booted + now
        self._take(lines, now)
        if self._wanted is not None and not self._catch_up.busy:
            # Lost a second time: read the journal again when this reading is done.
            wanted, self._wanted = self._wanted, None
            self._catch_up.begin(root, wanted)
        baseline, self._first_sight = self._first_sight, False
        self._value = self._result(booted, looked, baseline=baseline)
        self._read_seconds = looked
        if not self._ring.cut:
            self._emptied = looked
        if not root.path:
            root.report_read([(PATH, self._ring.last_records), *self._catch_up.texts.items()])
        return self._value

    def settled(self, timeout_seconds: float) -> bool:
        """Wait until the journal was read; return whether that was reached."""
        return self._catch_up.settled(timeout_seconds)

    def close(self) -> None:
        """Close the descriptor; the next poll would start again."""
        self._ring.close()

    # --- ring buffer

    def _take(self, lines: Iterator[KernelLine], now: float) -> None:
        """Process the records of the ring buffer. Errors: ReadError, for live ones."""
        fresh, last = not self._arrived, None
        for line in lines:
            if fresh:
                self._begin(line)
            if not self._is_next(line):
                continue
            last = line
            if not self._first_sight or (line.monotonic_seconds or 0) >= now - FIRST_SIGHT_SECONDS:
                self._state, events = classify(self._state, line)
                self._fold.add(*events)
            if self._state.pending_sense:
                self._waiting = line
            else:
                self._at = line
        if not self._arrived:
            self._arrive(None, now)
        if self._state.pending_sense and (fresh or last is None):  # Its next line does not come.
            self._fold.add(*finish(self._state))
            self._state, self._at = self._state._replace(pending_sense=()), self._waiting

    def _live(self) -> Iterator[KernelLine]:
        """Yield the records available now. Errors: ReadError."""
        for record in self._ring.records(all_there=not self._arrived):
            try:
                line = parse_record(record, self._boot_id)
            except ParseError as error:
                self._lost(str(error), self._position or 0)
                continue
            yield line

    def _played(self, root: Machine) -> Iterator[KernelLine]:
        """Return the records of a recording. Errors: AbsentError, ReadError, ParseError."""
        text = root.read(PATH)
        if text == self._played_text and self._arrived:
            return iter(())
        records = re.split(r"\n(?! )", text)
        lines = [parse_record(each.encode(), self._boot_id) for each in records if each.strip()]
        self._played_text = text
        return iter(lines)

    def _begin(self, line: KernelLine) -> None:
        """Note a record of the first poll, which the journal has as well."""
        if not self._arrived:
            self._arrive(line.sequence, line.monotonic_seconds or 0.0)
        if self._wanted is not None:
            self._wanted.add(line)

    def _arrive(self, sequence: int | None, first_seconds: float) -> None:
        """Compare the first record of the ring buffer, None: it is empty, with the cursor."""
        at, self._arrived = self._at, True
        there = at is not None and at.boot_id == self._boot_id
        if at is not None and there and (sequence is None or sequence <= at.sequence + 1):
            self._position = at.sequence
            return
        self._position = None if sequence is None else sequence - 1
        cursor = None if self._first_sight or at is None else self._cursor(at, self._read_seconds)
        missing = sequence - at.sequence - 1 if at and there and sequence is not None else 0
        self._wanted = JournalQuery(cursor, self._boot_id, first_seconds, set(), missing)

    def _cursor(
        self, at: KernelCursor | KernelLine, polled_realtime_seconds: float | None
    ) -> KernelCursor:
        return KernelCursor(
            self._catch_up.journal,
            at.boot_id,
            at.sequence,
            at.monotonic_seconds or 0.0,
            at.realtime_seconds if isinstance(at, KernelCursor) else polled_realtime_seconds,
        )

    def _is_next(self, line: KernelLine) -> bool:
        """Return whether a record is new; records lost before it become an event."""
        position, number = self._position, line.sequence
        if position is not None and number != position + 1:
            if number <= position:
                return False
            lost = number - position - 1
            text = f"{lost} kernel messages were lost: {position + 1} to {number - 1}"
            self._lost(text, number, line.monotonic_seconds)
        self._position = number
        return True

    def _lost(self, text: str, sequence: int, at: float | None = None) -> None:
        self._fold.add(log_gap(text, self._boot_id, sequence, at))

    # --- result

    def _result(
        self, booted: float | None, polled_realtime_seconds: float | None, *, baseline: bool
    ) -> KernelLog:
        caught, problem, is_all = self._catch_up.take()
        ring, self._fold = self._fold, Fold()
        lines = {**caught.line_by_shape, **ring.line_by_shape}
        told: dict[bool, tuple[StorageEvent, ...]] = {True: (), False: ()}
        for fold, old in ((caught, self._catch_up.baseline), (ring, baseline)):
            told[old] += fold.events(
                lambda event: self._dated(event, booted, polled_realtime_seconds)
            )
            if not old:
                for (kind, device), row in fold.rows.items():
                    known = (kind, device) in self._totals or len(self._totals) < MAX_PAIRS
                    self._totals[kind, device if known else ""] += row.count
                self._suppressed += fold.suppressed
            # Also those of before the first start: nothing else says that they are there.
            self._unrecognized += fold.unrecognized
        cursor = self._value.cursor
        at = self._at
        if is_all and self._wanted is None and at is not None:
            same = cursor and (cursor.boot_id, cursor.sequence) == (at.boot_id, at.sequence)
            cursor = self._cursor(cursor if cursor and same else at, polled_realtime_seconds)
        value = KernelLog(
            events=told[False],
            baseline=told[True],
            left_out=dict(Counter(caught.left_out()) + Counter(ring.left_out())),
            counts=_from_zero(self._value.counts, self._totals),
            gaps=sum(n for (kind, _), n in self._totals.items() if kind == "log_gap"),
            suppressed=self._suppressed,
            unrecognized=_from_zero(self._value.unrecognized, self._unrecognized),
            unrecognized_lines=tuple(
                self._dated(line, booted, polled_realtime_seconds) for line in lines.values()
            ),
            cursor=cursor,
            problem=problem,
            boot_id=self._boot_id,
        )
        return self._value if value == self._value else value

    def _dated(
        self, event: StorageEvent, booted: float | None, polled_realtime_seconds: float | None
    ) -> StorageEvent:
        """Return an event with its Unix time, unless the journal provided it.

        The kernel's time stamps drift from the wall clock: the time is limited to the interval
        between the last poll that emptied the ring buffer, and this one.
        """
        at = event.monotonic_seconds
        if (
            event.realtime_seconds is not None
            or at is None
            or booted is None
            or polled_realtime_seconds is None
        ):
            return event
        earliest = booted + at if self._emptied is None else self._emptied
        return replace(
            event, realtime_seconds=min(max(booted + at, earliest), polled_realtime_seconds)
        )


def _from_zero(before: Mapping[Pair, int], totals: Counter[Pair]) -> dict[Pair, int]:
    """Return the totals; a pair that was not there before starts at 0 for one poll."""
    return {**before, **{pair: n if pair in before else 0 for pair, n in totals.items()}}


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:1000])


def _boot_id(root: Machine) -> str:
    """Return the boot ID; '' if a recording does not have it. Errors: ReadError."""
    try:
        return root.read_cached_open(BOOT_ID).strip()
    except AbsentError:
        return ""


def _booted(root: Machine) -> float | None:
    """Return when a recorded machine booted, as Unix time."""
    try:
        return float(stat.read_stat(root).boot_time_seconds)
    except (AbsentError, ReadError, ParseError):
        return None  # The collector of that file reports the error.
