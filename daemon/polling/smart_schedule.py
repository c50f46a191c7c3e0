"""Poll schedule of a drive: when, with which options and which deadline, based on past polls.

Units: seconds of the program's clock. All under the poller's lock.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.smart import identity, smartctl_runner
from iowarden.collectors.smart.drive import AccessMethod, PollResult, ReadStatus
from iowarden.rules.signals.smart import smart_health
from iowarden.rules.smart import history_fields

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.smart.drive import Drive
    from iowarden.collectors.smart.options import Options
    from iowarden.collectors.smart.scsi_hosts import UnmonitoredDevice
    from iowarden.collectors.smart.smartctl_runner import SmartctlResult

OTHER_METHOD_SECONDS = 86_400.0
"""How often another access method is tried while a better one works."""
RETRY_INTERVAL_SECONDS = 60.0
"""Retry interval after a failure not caused by the drive; doubled up to the poll interval."""
LATE_LIMIT = 2
"""After this many timeouts in a row a drive is polled with fewer options."""
VALID_PERIODS = 3
MAX_DEADLINES = 4
"""Upper limit of the deadline for a slow drive, as a multiple of the usual one."""
MAX_SKIP_SECONDS = 86_400.0
"""A drive without I/O is polled at least so often."""
SKIPPED = "no I/O since its last poll: not polled again, for a day at most"
GOOD = frozenset({ReadStatus.READ, ReadStatus.ASLEEP})
"""After these outcomes nothing is retried before the poll interval ends."""
_PROFILES = tuple(smartctl_runner.PROFILES)


@dataclass(slots=True, eq=False)
class PolledTarget:
    """A target, and the state of its polls."""

    polled: PollResult
    identity: identity.IdentifiedPoll
    due: float
    diskseq: str
    """Sequence number of its device: a change means a different disk with the same name."""
    fixed: bool = False
    """It is never polled: its state is known."""
    best: bool = True
    busy: bool = False
    deadlines: float = 1.0
    """Its deadline, as a multiple of the usual one."""
    profile: int = 0
    lates: int = 0
    failures: int = 0
    reduced: str = ""
    """Why it is polled with fewer options."""
    alive_seconds: float = 0.0
    """When it was last read, or found in standby."""
    asleep_seconds: float | None = None
    text: tuple[str, bytes] = ("", b"")
    other_outputs: tuple[tuple[str, bytes], ...] = ()
    """Output of another program that was run as well."""
    refused: SmartctlResult | None = None
    """A timeout of smartctl while another program worked: smartctl is skipped for a day."""
    refused_seconds: float = 0.0
    activity: str = ""
    """I/O counters of its disk after the last poll; '': not known.

    After it, because some kernels count smartctl's own commands as well: 5.14, and from 6.13 on
    with queue/iostats_passthrough. Source: kernel, block/blk.h, blk_do_io_stat; block/blk-sysfs.c.
    """
    steady: bool = False
    """The last two polls show the same errors, and no heat: a further one confirms nothing."""
    requested: bool = False
    """A poll was requested: it is not skipped."""

    @property
    def target(self) -> AccessMethod:
        """Return its target."""
        return self.polled.target

    @property
    def is_minimal(self) -> bool:
        """Return whether it is already polled with the fewest options."""
        return bool(self.target.profile) or self.profile + 1 == len(_PROFILES)

    def command(self, options: Options, now: float) -> tuple[tuple[str, ...], bool]:
        """Return the command line, and whether it may wake the drive."""
        limit, since = options.wake_after_seconds, self.asleep_seconds
        wake = limit is not None and since is not None and now - since >= limit
        return smartctl_runner.command(self.target, _PROFILES[self.profile], wake=wake), wake

    def skip(self, activity: str, now: float) -> bool:
        """Skip the poll that is due if its disk did nothing since the last one; return whether.

        A disk that is read more often than its standby timer runs never spins down. The data of
        the last poll stay valid.
        """
        polled, drive = self.polled, self.polled.drive
        if (
            not activity
            or activity != self.activity
            or self.requested
            or not self.steady
            or polled.status is not ReadStatus.READ
            or drive is None
            or drive.self_test_remaining_ratio is not None
            or polled.tried_seconds is None
            or now - polled.tried_seconds >= MAX_SKIP_SECONDS
        ):
            return False
        self.alive_seconds = now
        self.polled = replace(polled, reason=SKIPPED)
        daily = polled.tried_seconds + MAX_SKIP_SECONDS
        self.due = min(next_due(now, polled.period_seconds, self.target), daily)
        return True

    def finish(
        self, answer: SmartctlResult, began: float, now: float, options: Options, *, wake: bool
    ) -> None:
        """Take the result of a poll, and schedule the next one."""
        spent = now - began
        self.text, self.other_outputs = answer.text, answer.other_outputs
        good = answer.status in GOOD
        if good:
            self.alive_seconds, self.failures = now, 0
            needed = 2 * spent / options.deadline_seconds
            self.deadlines = min(max(1.0, needed), MAX_DEADLINES)
        else:
            self.failures += 1
        if answer.status is ReadStatus.READ or wake:
            self.asleep_seconds = None
        elif answer.status is ReadStatus.ASLEEP and self.asleep_seconds is None:
            self.asleep_seconds = now
        self._mind_lateness(answer)
        before, self.requested = self.polled, False
        self.polled = replace(
            before,
            status=answer.status,
            reason=answer.reason or self.reduced,
            tried_seconds=now,
            duration_seconds=spent,
            runs_total=before.runs_total + answer.ran,
            failures_total=before.failures_total + (not good),
        )
        if answer.status is ReadStatus.READ:
            self.polled = replace(self.polled, drive=answer.drive, read_seconds=now)
            self.steady = _is_steady(before.drive, answer.drive)
        if answer.drive is not None:
            self.identity = _known(self.identity, answer.drive, now)
        self.due = next_due(now, self.polled.period_seconds, self.target)
        less = self.profile < len(_PROFILES) - 1 and self.refused is None
        if answer.passing or (answer.late and less):
            retry = RETRY_INTERVAL_SECONDS * 2 ** min(max(self.failures - 1, 0), 10)
            self.due = min(self.due, now + retry)

    def note_refusal(self, result: SmartctlResult, answer: SmartctlResult, now: float) -> None:
        """Skip smartctl for a while if it times out even with the fewest options.

        Only if another program works. Behind a controller without such commands smartctl may hang
        forever and use a full CPU.
        """
        read = answer.status is ReadStatus.READ
        if read and result.late and self.is_minimal:
            self.refused, self.refused_seconds = replace(result, late=False), now
        elif not read or result is not self.refused:
            self.refused = None

    def refusal(self, now: float) -> SmartctlResult | None:
        """Return why smartctl is skipped, None if it is not."""
        return self.refused if now - self.refused_seconds < OTHER_METHOD_SECONDS else None

    def _mind_lateness(self, answer: SmartctlResult) -> None:
        """Raise the deadline, then use fewer options: some bridges hang on certain options."""
        self.lates = self.lates + 1 if answer.late else 0
        if not answer.late:
            return
        if self.lates % LATE_LIMIT or self.is_minimal:
            self.deadlines = min(2 * self.deadlines, MAX_DEADLINES)
            return
        said, less = (
            " ".join(smartctl_runner.PROFILES[each]) for each in _PROFILES[self.profile :][:2]
        )
        self.profile += 1
        self.lates, self.deadlines = 0, 1.0
        self.reduced = f"polled with '{less}': '{said}' timed out {LATE_LIMIT} times in a row"

    def set_period(self, options: Options, now: float) -> None:
        """Set its poll interval; an earlier poll makes it due by the new interval."""
        tried = self.polled.tried_seconds
        raid = self.target.behind_raid()
        period = options.raid_interval_seconds if raid else options.interval_seconds
        if not self.best:
            period = max(period, OTHER_METHOD_SECONDS)
        if period != self.polled.period_seconds:
            self.polled = replace(self.polled, period_seconds=period)
            if tried is not None:
                self.due = max(now, tried + period)

    def expire(self, now: float) -> bool:
        """Drop SMART data that is too old; return whether there was any."""
        held = VALID_PERIODS * self.polled.period_seconds
        if self.polled.drive is None or now - self.alive_seconds <= held:
            return False
        self.polled = replace(self.polled, drive=None)
        return True


def new_target(
    target: AccessMethod, topology: Topology | None, diskseq: str, options: Options
) -> PolledTarget:
    """Return an access method that was not polled yet; the kernel may know the disk's identity."""
    polled = PollResult(target, ReadStatus.NOT_POLLED_YET, "first poll within two minutes")
    device = topology.devices.get(target.device) if topology else None
    known = identity.IdentifiedPoll(polled)
    if device is not None:
        known = identity.IdentifiedPoll(
            polled, device.serial or "", device.model or "", device.wwn or "", device.size_bytes
        )
    profile = _PROFILES.index(target.profile) if target.profile in _PROFILES else 0
    method = PolledTarget(polled, known, float("inf"), diskseq, profile=profile)
    method.set_period(options, 0.0)
    return method


def unmonitored(
    found: UnmonitoredDevice, topology: Topology | None, options: Options
) -> PolledTarget:
    """Return an access method that is never polled."""
    device, what = found.device, found.what
    slot = "" if what in {device, f"/dev/{device}"} else what
    target = AccessMethod(f"/dev/{device}" if device else what, device=device, slot=slot)
    method = new_target(target, topology, "", options)
    method.fixed = True
    method.polled = replace(method.polled, status=found.status, reason=found.reason)
    return method


def share(target: AccessMethod) -> float:
    """Return a number from 0 to 1 that is the same for a target in every run."""
    return zlib.crc32(str(target).encode()) / 2**32


def next_due(now: float, period: float, target: AccessMethod) -> float:
    """Return when a target is due next: at its own offset within each poll interval.

    The first time is at least half an interval away, so that drives that were polled together at
    the start of iowarden are polled at different times afterwards.
    """
    phase = share(target) * period
    earliest = now + period / 2
    return earliest + (phase - earliest) % period


def _is_steady(before: Drive | None, drive: Drive | None) -> bool:
    """Whether two polls show the same errors: signals believe what two polls in a row show."""
    if before is None or drive is None:
        return False
    first, second = (
        {name: value for name, (value, every) in history_fields.values(each).items() if every}
        for each in (before, drive)
    )
    excess = smart_health.excess_celsius(drive)
    return first == second and (excess is None or excess < 0)


def _known(before: identity.IdentifiedPoll, drive: Drive, now: float) -> identity.IdentifiedPoll:
    """Return a drive's identity from its latest SMART data; missing fields keep their value."""
    vendor = (
        "" if drive.model.startswith(drive.vendor) else drive.vendor
    )  # smartctl has put it there
    return identity.IdentifiedPoll(
        before.polled,
        serial=drive.serial or before.serial,
        model=f"{vendor} {drive.model}".strip() or before.model,
        wwn=drive.wwn or before.wwn,
        capacity_bytes=drive.capacity_bytes or before.capacity_bytes,
        hours=before.hours if drive.power_on_hours is None else drive.power_on_hours,
        hours_seconds=before.hours_seconds if drive.power_on_hours is None else now,
    )
