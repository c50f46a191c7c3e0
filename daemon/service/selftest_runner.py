"""Self-test runner: starts SMART self-tests that are due or requested, and tracks their progress.

For the loop's thread only; a drive is accessed in a thread, which posts its result as
`SelfTestAnswer`. The schedule, and what prevents a test, is in `rules.selftest_schedule`.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import Topology
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.collectors.smart import selftest, smartctl_runner
from iowarden.collectors.smart.drive import ReadStatus
from iowarden.collectors.smart.selftest import Reply, SelfTestOutcome
from iowarden.daemon import journal, json_codec
from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.control import documents
from iowarden.daemon.views import answers
from iowarden.rules import selftest_schedule
from iowarden.rules.selftest_schedule import (
    IN_PROGRESS,
    Candidate,
    DueSelfTest,
    Runs,
    SelfTestRun,
    SelfTestState,
)
from iowarden.rules.topology import inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import tzinfo

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Sample
    from iowarden.collectors.smart.drive import AccessMethod, Drive
    from iowarden.daemon.control.control_socket import ControlCommand
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.engine.engine import Engine

COMMANDS = frozenset({"selftest start", "selftest status", "selftest abort"})
"""Commands of the control socket."""
SURVEY_INTERVAL_SECONDS = 30.0
"""How often due tests are looked for."""
PROGRESS_SECONDS, SHORT_PROGRESS_SECONDS = 300.0, 60.0
"""How often a drive with a running test is polled; the second value for a test of a few minutes."""
BUSY_SECONDS = 300.0
POLL_TIMEOUT_SECONDS = 60.0
_BUSY_MILLISECONDS = 9
"""Index of the time with requests in flight. Source: kernel, admin-guide/iostats.rst, field 10."""
_SHORT_MINUTES = 10
_PRIORITY = {SelfTestState.FAILED: 4, SelfTestState.PASSED: 6, SelfTestState.ABORTED: 6}


@dataclass(frozen=True, slots=True)
class SelfTestAnswer:
    """Result of starting a self-test on a drive or, for 'abort', of ending it.

    Fields: `drive` is its SMART data right before; `asleep`: it was in standby and not woken.
    """

    disk: str
    action: str
    reply: Reply
    who: str
    drive: Drive | None = None
    asleep: bool = False


class SelfTestRunner:
    """All self-tests of this machine; `runs` is their persisted state."""

    def __init__(
        self,
        engine: Engine,
        transition_log: TransitionLog,
        root: Callable[[], Machine] | None,
        poll_next: Callable[[Collection[str]], object],
        post: Callable[[SelfTestAnswer], object],
        *,
        realtime: Callable[[float], float],
        zone: tzinfo,
        keep: Callable[[], object],
    ) -> None:
        """Start idle.

        `root` makes the access to the probe, None if there is none; `poll_next` polls the drives
        with these keys now; `keep` persists `runs`.
        """
        self.runs: Runs = {}
        self.groups: tuple[selftest_schedule.ScheduleGroup, ...] = ()
        self._engine = engine
        self._transitions = transition_log
        self._machine = root
        self._poll_next = poll_next
        self._post = post
        self._realtime = realtime
        self._zone = zone
        self._store = keep
        self._restored = False
        self._due: list[DueSelfTest] = []
        self._candidates: list[Candidate] = []
        self._samples: list[Sample] | None = None
        self._next = float("-inf")
        self._requested: dict[str, float] = {}
        self._before: dict[tuple[str, str], SelfTestRun] = {}
        self._surveys: deque[tuple[float, dict[str, int]]] = deque()

    # --- called by the loop

    def restore(self, runs: Runs, now: float) -> None:
        """Restore the self-tests; before that, no test is started automatically.

        Whether a test that was about to start did start is unknown: the drive reports it, or it is
        started again.
        """
        self._restored = True
        for disk, by_kind in runs.items():
            for kind, run in by_kind.items():
                if kind in self.runs.get(disk, {}):
                    continue
                lost = run.outcome is SelfTestState.STARTING
                known = selftest_schedule.ended(
                    run, SelfTestState.NOT_BEGUN, "iowarden was stopped", now
                )
                self.runs = selftest_schedule.with_run(
                    self.runs, disk, kind, known if lost else run
                )

    def step(self, now: float) -> None:
        """Track running tests and start those that are due."""
        if now < self._next:
            return
        self._next = now + SURVEY_INTERVAL_SECONDS
        self._follow(now)
        self._survey(now)
        for due in self._due if self._machine is not None else ():
            if not due.postponed:
                self._begin(due.disk, due.kind, now, "", due.since_seconds)

    def take(self, answer: SelfTestAnswer, now: float) -> None:
        """Handle the result of starting or aborting a test."""
        if answer.action == "abort":
            self._aborted(answer, now)
        else:
            self._answer_of(answer, now)

    def _answer_of(self, answer: SelfTestAnswer, now: float) -> None:
        run = self.runs.get(answer.disk, {}).get(answer.action)
        before = self._before.pop((answer.disk, answer.action), None)
        if run is None or run.outcome is not SelfTestState.STARTING:
            return
        reply = answer.reply
        if reply.outcome is SelfTestOutcome.DONE:
            after = selftest_schedule.begun(run, answer.action, answer.drive, now)
        elif (
            (answer.asleep or reply.outcome is SelfTestOutcome.RUNS)
            and not answer.who
            and before is not None
        ):
            self._set(answer.disk, answer.action, before)  # due, but postponed by the running test
            self._poll_next([answer.disk])
            return
        else:
            refused = reply.outcome is SelfTestOutcome.REFUSED
            outcome = SelfTestState.REFUSED if refused else SelfTestState.NOT_BEGUN
            after = selftest_schedule.ended(run, outcome, reply.text, now)
        self._set(answer.disk, answer.action, after)
        self._report_outcome(answer.disk, answer.action, after)
        self._poll_next([answer.disk])
        self._requested[answer.disk] = now

    def samples(self, now: float) -> list[Sample]:
        """Return the samples of self_tests.FAMILIES, rebuilt at each check and change."""
        if self._samples is None:
            ahead = self._realtime(now) - now
            self._samples = selftest_schedule.samples(
                self.runs, self._due, self.groups, self._candidates, now, ahead_seconds=ahead
            )
        return self._samples

    # --- commands

    def answer(self, command: ControlCommand, now: float) -> None:
        """Execute a command and reply."""
        try:
            command.reply({"answer": self._answered(command, now)})
        except ValueError as error:  # a CodecError is one
            command.reply({"error": str(error)})

    def _answered(self, command: ControlCommand, now: float) -> object:
        """Return the reply. Errors: ValueError, CodecError."""
        wanted = command.arguments.get("disk")
        disk = "" if wanted is None else self._disk(json_codec.text(command.arguments, "disk"))
        self._survey(now)
        if command.name != "selftest status":
            if self._machine is None:
                raise ValueError("self-tests need the privileged probe, which is not used")
            kind = json_codec.text(command.arguments, "kind") if "kind" in command.arguments else ""
            if command.name == "selftest start":
                self._check(disk, kind, force=command.arguments.get("force") is True)
                self._begin(disk, kind, now, command.who)
            else:
                self._abort(disk, command.who)
        return self.status(now, disk)

    def _disk(self, wanted: str) -> str:
        return inventory.find(answers.inventory_disks(self._engine), wanted).disk

    def _check(self, disk: str, kind: str, *, force: bool) -> None:
        """Check that a user may start this test. Errors: ValueError."""
        candidate = next((each for each in self._candidates if each.disk == disk), None)
        known = self._engine.last.smart
        if candidate is None or known is None:
            raise ValueError(f"disk {disk}: smartctl cannot access this disk")
        polled = known.by_key[disk].polled
        if polled.status not in (ReadStatus.READ, ReadStatus.ASLEEP):
            reason = polled.reason or polled.status.value
            raise ValueError(f"disk {disk}: its SMART data cannot be read: {reason}")
        kinds = selftest_schedule.supported(candidate)
        if kind not in kinds:
            can = ", ".join(kinds) or "no self-test"
            raise ValueError(
                f"disk {disk}: expected a self-test that it supports ({can}), got '{kind:.40}'"
            )
        if candidate.running or self._in_progress(disk):
            raise ValueError(
                f"disk {disk}: a self-test is running; abort it: iowarden selftest abort {disk}"
            )
        reason = selftest_schedule.blocked_by(candidate, self._candidates, self.runs)
        if reason and not force:
            raise ValueError(f"disk {disk}: {reason}; '--force' starts it anyway")

    def _abort(self, disk: str, who: str) -> None:
        candidate = next((each for each in self._candidates if each.disk == disk), None)
        running = candidate is not None and candidate.running
        if not running and not self._in_progress(disk):
            raise ValueError(f"disk {disk}: no self-test is running")
        for kind, run in self.runs.get(disk, {}).items():
            if run.outcome in IN_PROGRESS:
                self.runs = selftest_schedule.with_run(self.runs, disk, kind, replace(run, text=""))
        self._start(disk, "abort", who)

    def status(self, now: float, wanted: str) -> documents.SelfTestList:
        """Return the self-tests of a disk, or of all for ''."""
        known = self._engine.last.smart
        runs: list[documents.SelfTestRunLine] = []
        postponed = {(each.disk, each.kind): each for each in self._due}
        for candidate in self._candidates:
            disk = candidate.disk
            if wanted not in ("", disk):
                continue
            group = selftest_schedule.group_of(self.groups, candidate)
            calendars = {} if group is None else group.calendars
            kinds = dict.fromkeys((*self.runs.get(disk, {}), *calendars))
            drive = None if known is None else known.by_key[disk].polled.drive
            device = "" if known is None else known.by_key[disk].device
            foreign = candidate.running and not self._in_progress(disk)
            if foreign:
                ratio = None if drive is None else drive.self_test_remaining_ratio
                runs.append(
                    documents.SelfTestRunLine(
                        disk,
                        device,
                        "",
                        "running",
                        text="started by another program",
                        remaining_ratio=ratio,
                    )
                )
            for kind in kinds:
                run = self.runs.get(disk, {}).get(kind) or SelfTestRun(now)
                due = postponed.get((disk, kind))
                following = selftest_schedule.following(
                    group, disk, kind, self._realtime(now), self._zone
                )
                runs.append(self._line(disk, device, kind, run, drive, due, following, now))
        return documents.SelfTestList(self._realtime(now), bool(self.groups), tuple(runs))

    def _line(
        self,
        disk: str,
        device: str,
        kind: str,
        run: SelfTestRun,
        drive: Drive | None,
        due: DueSelfTest | None,
        following: float | None,
        now: float,
    ) -> documents.SelfTestRunLine:
        runs = run.outcome is SelfTestState.RUNNING
        ratio = None if drive is None or not runs else drive.self_test_remaining_ratio
        remaining = selftest_schedule.remaining_seconds(run, drive, now) if runs else None
        if ratio is None and remaining is not None and run.minutes:
            ratio = remaining / (60 * run.minutes)
        begun, ended = run.begun_seconds, run.ended_seconds
        return documents.SelfTestRunLine(
            disk=disk,
            device=device,
            kind=kind,
            outcome=run.outcome.value,
            text=run.text,
            who=run.who,
            started_seconds=None if begun is None else self._realtime(begun),
            ended_seconds=None if ended is None else self._realtime(ended),
            remaining_ratio=ratio,
            remaining_seconds=remaining,
            lba=run.lba,
            pending_since_seconds=None if due is None else self._realtime(due.since_seconds),
            postponed="" if due is None else due.postponed,
            next_seconds=following,
        )

    # --- what runs

    def _survey(self, now: float) -> None:
        """Update the candidates, the running tests and the due tests."""
        self._samples = None
        disks, topology = self._engine.last.smart, self._engine.last.block
        if disks is None:
            self._candidates, self._due = [], []
            return
        arrays = self._engine.last.md or {}
        known = topology if topology is not None else Topology({})
        pools = self._engine.last.zfs_vdevs
        busy = self._busy(now)
        self._candidates = selftest_schedule.candidates(disks, known, arrays, busy, pools)
        self._due = []
        realtime = self._realtime(now)
        if not self._restored or not self.groups or realtime < PLAUSIBLE_SECONDS:
            return
        met = selftest_schedule.add_scheduled(self.runs, self.groups, self._candidates, now)
        if met is not self.runs:
            self.runs = met
            self._store()
        self._due = selftest_schedule.plan(
            self.groups, self._candidates, self.runs, now, self._zone, ahead_seconds=realtime - now
        )

    def _busy(self, now: float) -> dict[str, float] | None:
        """Return each device's busy ratio over the last minutes; None: not known yet."""
        blocks = self._engine.last.diskstats
        if blocks is None:
            return None
        looks = self._surveys
        if not looks or now - looks[-1][0] >= SURVEY_INTERVAL_SECONDS:
            looks.append((now, {n: b.counters[_BUSY_MILLISECONDS] for n, b in blocks.items()}))
        while len(looks) > 1 and now - looks[1][0] >= BUSY_SECONDS:
            looks.popleft()
        (since, before), (until, after) = looks[0], looks[-1]
        if until - since < BUSY_SECONDS:
            return None
        spent = 1000 * (until - since)
        return {n: max(0, after[n] - before.get(n, after[n])) / spent for n in after}

    def _follow(self, now: float) -> None:
        """Update the running tests from polled SMART data; poll their drives now and then."""
        disks = self._engine.last.smart
        soon = []
        for disk, by_kind in list(self.runs.items()):
            for kind, run in by_kind.items():
                if run.outcome is not SelfTestState.RUNNING:
                    continue
                known = None if disks is None else disks.by_key.get(disk)
                after = selftest_schedule.follow(run, kind, known, now)
                if after is not run:
                    self._set(disk, kind, after)
                    self._report_outcome(disk, kind, after)
                    continue
                short = run.minutes is not None and run.minutes <= _SHORT_MINUTES
                every = SHORT_PROGRESS_SECONDS if short else PROGRESS_SECONDS
                if now - self._requested.get(disk, float("-inf")) >= every:
                    self._requested[disk] = now
                    soon.append(disk)
        if soon:
            self._poll_next(soon)

    def _begin(
        self, disk: str, kind: str, now: float, who: str, due_seconds: float | None = None
    ) -> None:
        before = self.runs.get(disk, {}).get(kind)
        if before is not None:
            self._before[disk, kind] = before
        self._set(disk, kind, selftest_schedule.requested(before, now, who, due_seconds))
        self._start(disk, kind, who)

    def _start(self, disk: str, action: str, who: str) -> None:
        """Start or abort a test on a drive, in a thread."""
        disks, make = self._engine.last.smart, self._machine
        assert disks is not None  # noqa: S101 - it is known, or nothing was due
        assert make is not None  # noqa: S101 - as above
        target = disks.by_key[disk].polled.target

        def run() -> None:
            root = make()
            self._post(request_test(root, disk, target, action, who))
            root.close()

        threading.Thread(target=run, name="self-test", daemon=True).start()

    def _aborted(self, answer: SelfTestAnswer, now: float) -> None:
        for kind, run in self.runs.get(answer.disk, {}).items():
            if run.outcome not in IN_PROGRESS:
                continue
            if answer.reply.outcome is SelfTestOutcome.DONE:
                after = selftest_schedule.ended(
                    run, SelfTestState.ABORTED, f"aborted by {answer.who}", now
                )
                self._report_outcome(answer.disk, kind, after)
            else:
                after = replace(run, text=f"could not be aborted: {answer.reply.text}")
            self._set(answer.disk, kind, after)
        self._poll_next([answer.disk])

    def _report_outcome(self, disk: str, kind: str, run: SelfTestRun) -> None:
        """Log the outcome of a test."""
        name = f"disk {disk}: {kind} self-test"
        by = f", requested by {run.who}" if run.who else ""
        match run.outcome:
            case SelfTestState.RUNNING:
                lasts = f", takes about {duration(60.0 * run.minutes)}" if run.minutes else ""
                text = f"{name} started{lasts}{by}"
            case SelfTestState.REFUSED:
                text = f"{name} refused: {run.text}; {selftest_schedule.INSTEAD}"
            case SelfTestState.PASSED | SelfTestState.FAILED:
                where = "" if run.lba is None else f", first bad sector {run.lba}"
                text = f"{name} {run.outcome}: {run.text}{where}"
            case (
                SelfTestState.INTERRUPTED
                | SelfTestState.ABORTED
                | SelfTestState.NOT_BEGUN
                | SelfTestState.UNKNOWN
            ):
                text = f"{name} {run.outcome.value.replace('_', ' ')}: {run.text}"
            case _:
                return
        priority = 6 if run.outcome is SelfTestState.RUNNING else _PRIORITY.get(run.outcome, 5)
        self._transitions.send(journal.SELF_TEST, priority, text)

    def _set(self, disk: str, kind: str, run: SelfTestRun) -> None:
        self.runs = selftest_schedule.with_run(self.runs, disk, kind, run)
        self._samples = None
        self._store()

    def _in_progress(self, disk: str) -> bool:
        return any(run.outcome in IN_PROGRESS for run in self.runs.get(disk, {}).values())


def request_test(
    root: Machine, disk: str, target: AccessMethod, action: str, who: str
) -> SelfTestAnswer:
    """Start or abort a self-test; scheduled tests do not wake a drive, requested ones do."""
    if action == "abort":
        return SelfTestAnswer(disk, action, selftest.abort(root, target), who)
    words = smartctl_runner.command(target, target.profile or "basic", wake=bool(who))
    found = smartctl_runner.run_smartctl(root, target, words, POLL_TIMEOUT_SECONDS)
    if found.status is not ReadStatus.READ:
        asleep = found.status is ReadStatus.ASLEEP
        reason = found.reason or found.status.value
        return SelfTestAnswer(
            disk, action, Reply(SelfTestOutcome.FAILED, reason), who, asleep=asleep
        )
    if found.drive is not None and found.drive.self_test_remaining_ratio is not None:
        return SelfTestAnswer(
            disk,
            action,
            Reply(SelfTestOutcome.RUNS, "another self-test is running"),
            who,
            found.drive,
        )
    return SelfTestAnswer(disk, action, selftest.begin(root, target, action), who, found.drive)
