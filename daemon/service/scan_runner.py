"""Scan runner: reads the surface of disks in small batches, and tracks what was read.

For the loop's thread only; a batch is read by the probe, in a thread that posts its result as
`ScanAnswer`. What is read, how fast, and what prevents it is in `rules.scan`.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block import surface
from iowarden.collectors.block.surface import SECTOR_ERRORS, SLOW_SECONDS, ScanReply, ScanRequest
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.event import StorageEvent
from iowarden.collectors.model import (
    SECTOR_BYTES,
    AbsentError,
    DeadlineError,
    ReadError,
    StuckError,
    trace,
)
from iowarden.collectors.quantity import duration, percentage
from iowarden.daemon import journal, json_codec
from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.control import documents
from iowarden.daemon.views import answers
from iowarden.rules.scan import guards, last_read, pace, plan, schedule
from iowarden.rules.scan.plan import Scan, ScanState
from iowarden.rules.selftest_schedule import IN_PROGRESS
from iowarden.rules.topology import inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import tzinfo

    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Sample
    from iowarden.collectors.smart.drive import Disks
    from iowarden.daemon.control.control_socket import ControlCommand
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.scan.guards import ScanDisk
    from iowarden.rules.scan.last_read import FullReads
    from iowarden.rules.scan.pace import BatchPace, Pace
    from iowarden.rules.scan.plan import ScanBatch, Scans
    from iowarden.rules.selftest_schedule import Runs, ScheduleGroup

COMMANDS = frozenset({"scan start", "scan status", "scan stop"})
"""Commands of the control socket."""
SURVEY_SECONDS, CHECK_SECONDS = 60.0, 5.0
"""How often all disks are listed, and those that are being scanned, with what prevents that."""
SAVE_SECONDS = 60.0
POLL_SECONDS = 300.0
"""How often the temperature of a disk is polled that is scanned."""
STANDBY_SECONDS = 60.0
"""A disk may have fallen asleep when it was neither read nor polled for so long: no timer of a
drive is shorter."""
OWN_KINDS = frozenset(
    {
        *("block_medium_error", "block_io_error", "block_protection_error", "block_target_error"),
        *("scsi_medium_error", "ata_medium_error", "nvme_medium_error", "buffer_io_error"),
    }
)
"""Event kinds of kernel lines that a failed read of a scan causes."""
MEANS_SECONDS = 70.0
"""Signals average over a minute: so long after a batch its reads are in what they see."""
LINE_SECONDS = 10.0
"""Such lines are read so long after the batch at most."""
RETRY_SECONDS = 60.0
"""After the probe could not read for a reason that is not the disk's."""


@dataclass(frozen=True, slots=True)
class ScanAnswer:
    """Result of a batch: the reply, or why there is none. Fields: `hung`: a read did not return."""

    disk: str
    batch: ScanBatch
    pace: BatchPace
    reply: ScanReply | None = None
    error: str = ""
    hung: bool = False


class ScanRunner:
    """All surface scans of this machine; `scans` is their persisted state."""

    def __init__(
        self,
        engine: Engine,
        transition_log: TransitionLog,
        root: Callable[[], Machine] | None,
        poll_next: Callable[[Collection[str]], object],
        post: Callable[[ScanAnswer], object],
        *,
        realtime: Callable[[float], float],
        zone: tzinfo,
        keep: Callable[[], object],
    ) -> None:
        """Start idle.

        `root` makes the access to the probe, None if there is none; `poll_next` polls the drives
        with these keys now; `keep` persists `scans`.
        """
        self.scans: Scans = {}
        self.groups: tuple[ScheduleGroup, ...] = ()
        self.full_reads: FullReads = {}
        """When each disk was last read completely."""
        self.self_tests: Callable[[], Runs] = dict
        """Returns the self-tests that iowarden started."""
        self._engine = engine
        self._transitions = transition_log
        self._machine = root
        self._poll_next = poll_next
        self._post = post
        self._realtime = realtime
        self._zone = zone
        self._store = keep
        self.report: Callable[[StorageEvent, float], object] = lambda *_: None
        """Takes an event: what cannot be read."""
        self._reported: dict[str, frozenset[tuple[int, int]]] = {}
        """Bad ranges that were reported, also by earlier scans: one sector is no news each week."""
        self._extents: dict[str, tuple[tuple[float, ScanBatch], ...]] = {}
        """What is being read of each disk, or was read lately, and until when lines belong to it:
        the kernel log may be read after the next batch has begun."""
        self._restored = False
        self._disks: dict[str, ScanDisk] = {}
        self._paces: dict[str, Pace] = {}
        self._waits: dict[str, str] = {}
        self._reading: set[str] = set()
        """Disks of which a batch is being read."""
        self._used: dict[str, float] = {}
        """When a disk was last read by a scan."""
        self._polled: dict[str, float] = {}
        self._retry: dict[str, tuple[float, str]] = {}
        self._unmet: dict[str, float] = {}
        """Due dates at which the scan before was still running."""
        self._counters: dict[str, tuple[float, BlockIo]] = {}
        self._samples: list[Sample] | None = None
        self._smart: Disks | None = None
        """The polled drives at the last survey: one may have fallen asleep."""
        self._next_survey = self._next_check = self._next_save = float("-inf")
        self._changed = False

    # --- called by the loop

    def restore(self, scans: Scans, now: float) -> None:
        """Restore the scans: running ones go on where they were stored, at most a minute ago."""
        self._restored = True
        sound = {disk: scan for disk, scan in scans.items() if plan.is_sound(scan)}
        for disk in scans.keys() - sound.keys():
            self._log(4, f"disk {disk}: its stored scan is damaged; the next one reads everything")
        self.scans = {**sound, **self.scans}
        for disk, scan in sound.items():
            self._reported[disk] = frozenset(() if scan.parts else scan.bad)
        self._next_survey = now

    def step(self, now: float) -> None:
        """Read what may be read now."""
        if not self._restored:
            return
        if now >= self._next_survey:
            self._survey(now)
        elif now >= self._next_check or self._engine.last.smart is not self._smart:
            self._check_running(now)
        self._waits = {}
        for turn in schedule.turns(list(self._disks.values()), self.scans, now):
            disk = turn.disk
            self._observe(disk, now)
            waits = turn.waits or self._not_ready(disk, now)
            self._waits[disk.disk] = waits
            if not waits and disk.disk not in self._reading:
                self._go_on(disk, now)
        self._engine.signals.scanned = frozenset(
            self._disks[key].device
            for key, used in self._used.items()
            if key in self._disks and (key in self._reading or now - used < MEANS_SECONDS)
        )
        if self._changed and now >= self._next_save:
            self._next_save, self._changed = now + SAVE_SECONDS, False
            self._store()

    def take(self, answer: ScanAnswer, now: float) -> None:
        """Handle the result of a batch."""
        self._reading.discard(answer.disk)
        self._used[answer.disk] = now
        self._extents[answer.disk] = tuple(
            (now + LINE_SECONDS if each is answer.batch else until, each)
            for until, each in self._extents.get(answer.disk, ())
        )
        self._counters.pop(answer.disk, None)
        scan, disk = self.scans.get(answer.disk), self._disks.get(answer.disk)
        if scan is None or disk is None or scan.state is not ScanState.RUNNING:
            return  # stopped meanwhile
        if answer.hung:
            after = plan.after_hang(scan, answer.batch, surface.DEADLINE_SECONDS, now)
            self._set(disk.disk, after)
            self._report_bad(disk, after, now)
            self._hold_adapter(disk, now, "a read did not return: " + answer.error)
        elif answer.reply is None:
            self._retry[disk.disk] = (now + RETRY_SECONDS, answer.error)
        elif answer.reply.refused:
            self._end(disk, ScanState.REFUSED, answer.reply.refused, now)
        else:
            self._taken(disk, scan, answer, answer.reply, now)

    def _taken(
        self, disk: ScanDisk, scan: Scan, answer: ScanAnswer, reply: ScanReply, now: float
    ) -> None:
        reads, others = reply.reads, reply.others
        known = self._pace(disk)
        known = pace.observe(known, others, now)
        known = pace.after_batch(known, answer.pace, reads, answer.batch.length)
        self._paces[disk.disk] = pace.rested(known, answer.pace, reads, now)
        alone = answer.pace.rest == pace.ALONE_REST and not others.requests
        after = plan.after_reads(scan, answer.batch, reads, now, alone=alone)
        self._set(disk.disk, after)
        found = plan.verdict(after)
        if found or not after.parts:  # before that, ranges of a piece may still grow together
            self._report_bad(disk, after, now)
        last = reads[-1] if reads else None
        if last is not None and last.error and last.error not in SECTOR_ERRORS:
            text = f"{os.strerror(last.error)} at byte {last.bad_offset}"
            self._retry[disk.disk] = (now + plan.HOLD_SECONDS, text)
        if last is not None and last.seconds > SLOW_SECONDS:
            text = f"a read at byte {last.offset} took {duration(last.seconds)}"
            self._hold_adapter(disk, now, text)
        if found:
            self._end(disk, ScanState.FAILED, found, now)
            self.report(StorageEvent("scan", "scan_gave_up", found, device=disk.device), now)
        elif not after.too_slow and plan.is_too_slow(after, now):
            self._set(disk.disk, replace(after, too_slow=True))
            self._log(
                5,
                f"disk {disk.disk}: at the pace since its start a scan takes more than"
                f" {plan.LONGEST_DAYS:.0f} days: the disk is never idle enough; start a self-test"
                f" instead: iowarden selftest start {disk.disk} long",
            )

    def samples(self, now: float) -> list[Sample]:
        """Return the samples of plan and last_read, rebuilt at each survey and batch."""
        if self._samples is None:
            ahead = self._realtime(now) - now
            self._samples = [
                *plan.samples(self.scans),
                *last_read.samples(
                    self.full_reads, self._engine.last, self.scans, now, ahead_seconds=ahead
                ),
            ]
        return self._samples

    # --- commands

    def answer(self, command: ControlCommand, now: float) -> None:
        """Execute a command and reply."""
        try:
            command.reply({"answer": self._answered(command, now)})
        except ValueError as error:  # a CodecError is one
            command.reply({"error": str(error)})

    def _answered(self, command: ControlCommand, now: float) -> documents.ScanList:
        """Return the reply. Errors: ValueError, CodecError."""
        wanted = command.arguments.get("disk")
        key = ""
        if wanted is not None or command.name != "scan status":
            wanted = json_codec.text(command.arguments, "disk")
            # A disk that was pulled out in a scan may be in no list any more.
            known = wanted in self.scans
            disks = answers.inventory_disks(self._engine)
            key = wanted if known else inventory.find(disks, wanted).disk
        self._survey(now, begin=False)
        if command.name == "scan start":
            restart = command.arguments.get("restart") is True
            self._begin_by_hand(key, now, command.who, restart=restart)
        elif command.name == "scan stop":
            self._stop(key, now, command.who)
        return self.status(now, key)

    def _begin_by_hand(self, key: str, now: float, who: str, *, restart: bool) -> None:
        """Start or resume a scan. Errors: ValueError."""
        if self._machine is None:
            raise ValueError("scans need the privileged probe, which is not used")
        disk, scan = self._disks.get(key), self.scans.get(key)
        if disk is None:
            raise ValueError(
                f"disk {key}: expected a disk that is polled, got none: iowarden disk show {key}"
            )
        if disk.refused:
            raise ValueError(disk.refused)
        if scan is not None and scan.state is ScanState.RUNNING:
            raise ValueError(
                f"disk {key}: it is being scanned; to stop it: iowarden scan stop {key}"
            )
        if scan is not None and scan.state is ScanState.STOPPED and not restart:
            if text := plan.check_size(scan, key, disk.size_bytes):
                raise ValueError(text)
            self._set(key, plan.resumed(scan, now, who))
            self._log(
                6, f"disk {key}: scan resumed at {percentage(plan.progress_ratio(scan))} by {who}"
            )
        else:
            self._begin(disk, now, who)
        self._store()

    def _stop(self, key: str, now: float, who: str) -> None:
        scan = self.scans.get(key)
        if scan is None or scan.state is not ScanState.RUNNING:
            raise ValueError(f"disk {key}: expected a running scan, got none")
        self._set(key, plan.ended(scan, ScanState.STOPPED, f"stopped by {who}", now))
        self._log(
            6, f"disk {key}: scan stopped at {percentage(plan.progress_ratio(scan))} by {who}"
        )
        self._store()

    def status(self, now: float, wanted: str) -> documents.ScanList:
        """Return the surface scans of a disk, or of all for ''."""
        shown = [k for k, s in self.scans.items() if s.scheduled_seconds or s.size_bytes]
        keys = [wanted] if wanted else sorted(shown)
        lines = tuple(self._line(key, self.scans.get(key) or Scan(now), now) for key in keys)
        return documents.ScanList(self._realtime(now), bool(self.groups), lines)

    def _line(self, key: str, scan: Scan, now: float) -> documents.ScanLine:
        disk, known = self._disks.get(key), self._paces.get(key)
        runs = scan.state is ScanState.RUNNING
        listed = self._engine.last.smart is not None
        missing = guards.MISSING if listed else "the drives are not listed yet"
        refused = "" if disk is None or scan.size_bytes else disk.refused

        def at(seconds: float | None) -> float | None:
            return None if seconds is None else self._realtime(seconds)

        return documents.ScanLine(
            disk=key,
            device="" if disk is None else disk.device,
            state=scan.state.value,
            text=scan.text or refused,
            waits="" if not runs else missing if disk is None else self._waits.get(key, ""),
            who=scan.who,
            started_seconds=at(scan.begun_seconds),
            ended_seconds=at(scan.ended_seconds),
            completed_seconds=at(scan.completed_seconds),
            progress_ratio=plan.progress_ratio(scan) if scan.size_bytes else None,
            remaining_seconds=plan.remaining_seconds(scan, now) if runs else None,
            bytes_per_second=known.rate if runs and known is not None else None,
            bad_ranges=scan.bad,
            slower_zones=scan.slower,
            next_seconds=None
            if disk is None
            else schedule.following(self.groups, disk, self._realtime(now), self._zone),
        )

    # --- what runs

    def _survey(self, now: float, *, begin: bool = True) -> None:
        """Update the disks and what prevents their scans; start scans that are due."""
        found = self._found(now)
        self._disks = {disk.disk: disk for disk in found}
        if begin:
            # Soon again while the drives are not listed yet, after a start.
            self._next_survey = now + (SURVEY_SECONDS if found else CHECK_SECONDS)
        known = schedule.met(self.scans, self.groups, found, now)
        self._changed = self._changed or known is not self.scans
        self.scans = known
        self.full_reads = last_read.full_reads(
            self._engine.last,
            self.scans,
            self.self_tests(),
            self._engine.signals.md_checks(),
            self.full_reads,
            last_read.scrub_ends(self._engine.last, self._zone, self._realtime(now) - now),
        )
        self._samples = None
        if not begin or self._machine is None or self._realtime(now) < PLAUSIBLE_SECONDS:
            return
        for disk in found:
            self._begin_due(disk, now)
            self._end_refused(disk, now)

    def _check_running(self, now: float) -> None:
        """Update only the disks that are being scanned: there may be hundreds of others."""
        running = [key for key, scan in self.scans.items() if scan.state is ScanState.RUNNING]
        found = self._found(now, running) if running else []
        self._disks = {**self._disks, **{disk.disk: disk for disk in found}}
        for disk in found:
            self._end_refused(disk, now)

    def _found(self, now: float, only: Collection[str] | None = None) -> list[ScanDisk]:
        """Return the disks as they are now, and what prevents their scans."""
        self._next_check, self._smart = now + CHECK_SECONDS, self._engine.last.smart
        tested = {
            disk
            for disk, by_kind in self.self_tests().items()
            if any(run.outcome in IN_PROGRESS for run in by_kind.values())
        }
        return guards.scan_disks(self._engine.last, self._engine.rules.alerts(), tested, only)

    def _end_refused(self, disk: ScanDisk, now: float) -> None:
        """End a running scan of a disk that can no longer be scanned."""
        scan = self.scans.get(disk.disk)
        if scan is None or scan.state is not ScanState.RUNNING or not disk.size_bytes:
            return
        text = plan.check_size(scan, disk.disk, disk.size_bytes) or disk.refused
        if text:
            self._end(disk, ScanState.REFUSED, text, now)

    def _begin_due(self, disk: ScanDisk, now: float) -> None:
        """Start a scan that is due; report one that is still running when the next is due."""
        scan = self.scans.get(disk.disk)
        ahead = self._realtime(now) - now
        due = schedule.due_since(self.groups, disk, scan, now, self._zone, ahead)
        if due is None or scan is None or disk.hold == guards.MISSING:
            return
        if scan.state is not ScanState.RUNNING:
            self._begin(disk, now, "")
        elif self._unmet.get(disk.disk) != due:
            self._unmet[disk.disk] = due
            left = plan.remaining_seconds(scan, now)
            rest = "" if left is None else f", and needs {left / plan.DAY:.1f} more days"
            self._log(
                5,
                f"disk {disk.disk}: the schedule in 'scans' cannot be met: the scan before is"
                f" {percentage(plan.progress_ratio(scan))} done{rest}; choose a longer interval",
            )

    def _begin(self, disk: ScanDisk, now: float, who: str) -> None:
        begun = plan.begun(self.scans.get(disk.disk), disk.size_bytes, now, who)
        self._set(disk.disk, begun)
        if disk.refused:
            self._end(disk, ScanState.REFUSED, disk.refused, now)
            return
        self._log(6, f"disk {disk.disk}: scan started" + (f", requested by {who}" if who else ""))

    def _go_on(self, disk: ScanDisk, now: float) -> None:
        """Read the next batch of a scan, in a thread; end a scan that has read everything."""
        scan, known, make = self.scans[disk.disk], self._pace(disk), self._machine
        if make is None:
            return
        paced = pace.next_pace(known, now, plan.PIECE_BYTES)
        batch = plan.next_batch(scan, now, paced.pieces)
        if batch is None:
            self._complete(disk, scan, now)
            return
        request = ScanRequest(
            disk.number,
            disk.serial,
            disk.size_bytes,
            batch.length,
            min(paced.step_bytes, batch.length),
            paced.gap_seconds,
            paced.rest,
            paced.others,
            batch.offsets,
        )
        self._reading.add(disk.disk)
        self._used[disk.disk] = now
        lately = (each for each in self._extents.get(disk.disk, ()) if now <= each[0])
        self._extents[disk.disk] = (*lately, (float("inf"), batch))

        def run() -> None:
            root = make()
            self._post(read_batch(root, disk.disk, batch, paced, request))
            root.close()

        threading.Thread(target=run, name="scan", daemon=True).start()

    def _not_ready(self, disk: ScanDisk, now: float) -> str:
        """Return why the next batch must wait although nothing prevents the scan, or ''."""
        until, text = self._retry.get(disk.disk, (now, ""))
        if now < until:
            return text
        known = self._engine.last.smart
        own = None if known is None else known.by_key.get(disk.disk)
        polled = None if own is None else own.polled.tried_seconds
        never = float("-inf")
        requested = self._polled.get(disk.disk, never)
        seen = max(self._used.get(disk.disk, never), never if polled is None else polled)
        awake = disk.disk in self._reading or now - seen < STANDBY_SECONDS
        due = polled is None or now - polled >= POLL_SECONDS or not awake
        if due and now - requested >= STANDBY_SECONDS:
            self._polled[disk.disk] = now
            self._poll_next([disk.disk])
        if not awake:
            return "it may have fallen asleep: its state is polled first"
        return "it rests" if now < self._pace(disk).ready_seconds else ""

    def _observe(self, disk: ScanDisk, now: float) -> None:
        """Observe what others do while nothing is read; a batch reports that itself."""
        blocks = self._engine.last.diskstats
        counters = None if blocks is None else blocks.get(disk.device)
        if counters is None or disk.disk in self._reading:
            self._counters.pop(disk.disk, None)
            return
        since, before = self._counters.get(disk.disk, (now, counters))
        if before is counters:
            self._counters[disk.disk] = (since, counters)
            return
        self._counters[disk.disk] = (now, counters)
        others = surface.other_io(before, counters, now - since)
        self._paces[disk.disk] = pace.observe(self._pace(disk), others, now)

    def _pace(self, disk: ScanDisk) -> Pace:
        return self._paces.get(disk.disk) or pace.new_pace(rotational=disk.rotational)

    def _hold_adapter(self, disk: ScanDisk, now: float, text: str) -> None:
        """Let all disks of an adapter rest after a read that was slow or hung."""
        until = now + plan.HOLD_SECONDS
        for other in self._disks.values():
            if other.disk == disk.disk or disk.shares & other.shares:
                scan = self.scans.get(other.disk) or Scan(now)
                self._set(other.disk, replace(scan, paused_seconds=until))
        self._log(4, f"disk {disk.disk}: {text}; no disk at its adapter is scanned for an hour")
        self._store()

    def _complete(self, disk: ScanDisk, scan: Scan, now: float) -> None:
        after = plan.completed(scan, now)
        self._set(disk.disk, after)
        slower = "".join(
            f"; zone {zone} of 128 has {percentage(ratio)} of its throughput in the scan before"
            for zone, ratio in after.slower[:3]
        )
        bad = f", {len(after.bad)} bad ranges" if after.bad else ""
        self._log(4 if after.bad else 6, f"disk {disk.disk}: scan complete{bad}{slower}")
        self._store()

    def _end(self, disk: ScanDisk, state: ScanState, text: str, now: float) -> None:
        self._set(disk.disk, plan.ended(self.scans[disk.disk], state, text, now))
        priority = 4 if state is ScanState.FAILED else 5
        self._log(priority, f"disk {disk.disk}: scan {state}: {text}")
        self._store()

    def _report_bad(self, disk: ScanDisk, scan: Scan, now: float) -> None:
        """Report each new range that cannot be read."""
        known = self._reported.get(disk.disk, frozenset())
        self._reported[disk.disk] = known.union(scan.bad)
        for start, length in sorted(set(scan.bad) - known):
            text = f"bytes {start} to {start + length - 1} of {disk.device} cannot be read"
            self._log(6, f"disk {disk.disk}: {text}")
            event = StorageEvent(
                "scan",
                "scan_bad_range",
                text,
                device=disk.device,
                sector=start // SECTOR_BYTES,
                sectors=length // SECTOR_BYTES,
            )
            self.report(event, now)

    def is_own(self, event: StorageEvent, now: float) -> bool:
        """Whether a kernel line is about a read of a scan: that of its disk, range and time.

        Lines without a sector count if they are about the medium; those of other errors, such as
        timeouts and resets, are incidents of their own.
        """
        if event.source != "kernel" or event.kind not in OWN_KINDS:
            return False
        at = None if event.sector is None else event.sector * SECTOR_BYTES
        for key, batches in self._extents.items():
            disk = self._disks.get(key)
            if disk is None:
                continue
            if event.device != disk.device and event.device.partition(".")[0] != (disk.port or "-"):
                continue
            for until, batch in batches:
                read = at is None or any(0 <= at - each < batch.length for each in batch.offsets)
                if now <= until and read:
                    return True
        return False

    def _log(self, priority: int, text: str) -> None:
        self._transitions.send(journal.SCAN, priority, text)

    def _set(self, disk: str, scan: Scan) -> None:
        self.scans = {**self.scans, disk: scan}
        self._changed, self._samples = True, None


def read_batch(
    root: Machine, disk: str, batch: ScanBatch, paced: BatchPace, request: ScanRequest
) -> ScanAnswer:
    """Read a batch by the probe; every outcome is a ScanAnswer."""
    begun = time.monotonic()
    try:
        if surface.on_battery(root):
            return ScanAnswer(disk, batch, paced, error="the machine runs on a battery")
        return ScanAnswer(disk, batch, paced, surface.read_pieces(root, request))
    except (StuckError, DeadlineError) as error:
        # At once if an earlier read still hangs: that is not the fault of these pieces.
        hung = time.monotonic() - begun >= surface.DEADLINE_SECONDS / 2
        return ScanAnswer(disk, batch, paced, error=str(error), hung=hung)
    except (AbsentError, ReadError) as error:
        return ScanAnswer(disk, batch, paced, error=str(error))
    except Exception as error:  # noqa: BLE001 - a bug of one scan must not end it silently
        return ScanAnswer(disk, batch, paced, error=f"bug: {trace(error)}")
