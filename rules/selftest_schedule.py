"""Scheduling of drive self-tests: when one is due, why it is postponed, and its result. Pure.

A drive tests itself while in use, for minutes ('short') or hours ('long': it reads every sector).
Source: smartctl(8), '-t'. No two members of an array are tested at once: each is slower meanwhile,
and a drive that fails in its test must not coincide with a second one. Units: seconds of the
program's clock; a schedule is in wall-clock time, which is ahead of it by `ahead_seconds`.
"""

from __future__ import annotations

import enum
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import ZFS
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.quantity import duration, percentage
from iowarden.collectors.smart.drive import OfflineCollection, Protocol, ReadStatus
from iowarden.rules.calendar import Calendar  # noqa: TC001 - to be evaluated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.smart.drive import Disk, Disks, Drive, SelfTest
    from iowarden.collectors.zfs.vdevs import PoolDevices
    from iowarden.rules.incidents.model import IncidentMember

OFFLINE = "offline"
"""Off-line data collection: reads the surface when idle, and is in no log but its own status."""
KINDS = ("short", "long", "conveyance", OFFLINE)
EVERY = "*"
ROTATIONAL, SOLID_STATE = "rotational", "solid-state"
SUGGESTED = {"disks": EVERY, "short": "Wed 02:00", "long": "Sat 03:00"}
"""Each sector each week: who scrubs a disk once in one to two weeks finds latent errors before a
rebuild does (Mahdisoltani et al., USENIX ATC 2017). A short test halfway to the next long one.
"""
BUSY_RATIO = 0.5
"""A device busier than this in the last minutes gets no scheduled test."""
RETRY_INTERVAL_SECONDS = 6 * 3600.0
MAX_TRIES = 4
"""Tries of a test that is interrupted each time, until the next due date."""
SETTLE_SECONDS = 900.0
"""The result may appear in the drive's log so long after the end of the test."""
UNKNOWN_SECONDS = 3 * 86_400.0
"""Limit for a test of unknown duration: the largest disks take less than two days."""
MAX_RETAINED = 5000
_NAMES = {"short": "short", "long": "extended", "conveyance": "conveyance", OFFLINE: OFFLINE}
"""The names of the drive's log."""
_USUAL_MINUTES = {"short": 10, "conveyance": 10}
"""Upper limits, if the drive does not report a duration. Source: smartctl(8), '-t'."""
_NEVER = frozenset(
    {ReadStatus.NO_SMART, ReadStatus.LUN, ReadStatus.NO_PASS_THROUGH, ReadStatus.MISSING}
)
_QUIET = frozenset({None, "idle", "frozen"})

_RUNNING = Family(
    "iowarden_smart_self_test_running", "gauge", "1 while a self-test started by iowarden runs."
)
_BEGUN = Family(
    "iowarden_smart_self_test_last_start_timestamp_seconds",
    "gauge",
    "Unix time in seconds at which iowarden last started a self-test.",
)
_PASSED = Family(
    "iowarden_smart_self_test_last_passed_timestamp_seconds",
    "gauge",
    "Unix time in seconds at which a self-test started by iowarden was last found to have passed.",
)
_OVERDUE = Family(
    "iowarden_smart_self_test_overdue_seconds",
    "gauge",
    "Seconds for which a scheduled self-test has been postponed; 0 if none is.",
)
_REFUSED = Family(
    "iowarden_smart_self_test_refused",
    "gauge",
    "1 for a scheduled self-test that the disk, or a controller or bridge before it, refuses.",
)
FAMILIES = (_RUNNING, _BEGUN, _PASSED, _OVERDUE, _REFUSED)


class SelfTestState(enum.StrEnum):
    """Outcome of a self-test."""

    NONE = "none"
    """It was never started."""
    STARTING = "starting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """By a reset, a loss of power, or another program."""
    ABORTED = "aborted"
    """Aborted on request."""
    REFUSED = "refused"
    """The drive, or a controller or bridge before it, does not support it."""
    NOT_BEGUN = "not_begun"
    """The command to start it failed before it reached the drive."""
    UNKNOWN = "unknown"
    """It has ended, and the drive's log has no entry of it."""


INSTEAD = (
    "what reads every sector instead: a check of the md array that it is in (its sync_action), or a"
    " verify or patrol read of the RAID controller"
)
"""For a disk that refuses its self-tests, or whose controller does."""
IN_PROGRESS = frozenset({SelfTestState.STARTING, SelfTestState.RUNNING})
_RETRIED = frozenset({SelfTestState.INTERRUPTED, SelfTestState.NOT_BEGUN})
"""Not run: tried again."""


_COLLECTED = {
    OfflineCollection.COMPLETED: (SelfTestState.PASSED, "completed without error"),
    OfflineCollection.ABORTED: (SelfTestState.INTERRUPTED, "aborted by a command"),
    OfflineCollection.FAILED: (SelfTestState.FAILED, "aborted by the drive: fatal error"),
}
"""Results of off-line data collection."""


@dataclass(frozen=True, slots=True)
class SelfTestRun:
    """The last self-test of one kind on one disk.

    Fields: since `seen_seconds` it is scheduled, earlier due dates do not count; `text` is the
    message of the drive or smartctl; `who` requested it, '' the schedule; `minutes` is the duration
    that the drive reports; `log` is the contents of its log at the start; `tries` for one due date.
    """

    seen_seconds: float
    outcome: SelfTestState = SelfTestState.NONE
    begun_seconds: float | None = None
    ended_seconds: float | None = None
    passed_seconds: float | None = None
    text: str = ""
    who: str = ""
    lba: int | None = None
    minutes: int | None = None
    tries: int = 0
    log: tuple[str, ...] = ()


Runs = dict[str, dict[str, SelfTestRun]]
"""By disk and kind; a document of state.db."""


@dataclass(frozen=True, slots=True)
class ScheduleGroup:
    """The schedule for some disks: those listed by key or class, or all ('*')."""

    disks: tuple[str, ...]
    calendars: Mapping[str, Calendar]
    """By kind."""
    spread_seconds: float = 0.0
    """Each disk has a moment of its own within this time after the calendar's."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A disk that may be tested, and the reasons against it.

    Fields: only one disk of each of `shares` ('array md0', 'controller host2') is tested at a time;
    `against` is why it must not be tested now, '' if nothing is; `running`: a test runs on it,
    also one started by others; `kinds`: the tests it supports, None: not reported.
    """

    disk: str
    classes: frozenset[str] = frozenset()
    shares: frozenset[str] = frozenset()
    against: str = ""
    running: bool = False
    kinds: tuple[str, ...] | None = None
    repairs: str = ""
    """The array of it that is being synchronized, as text."""


@dataclass(frozen=True, slots=True)
class DueSelfTest:
    """A test that is due since `since_seconds`: to be started now, or `postponed` for a reason."""

    disk: str
    kind: str
    since_seconds: float
    postponed: str = ""


# --- the disks


def candidates(
    disks: Disks,
    topology: Topology,
    arrays: Mapping[str, MdArray],
    busy: Mapping[str, float] | None,
    pools: Mapping[str, PoolDevices] | None,
) -> list[Candidate]:
    """Return the disks with all reasons against testing them now; without those never polled.

    `busy` has the share of the last minutes in which devices had requests in flight; None: not
    known yet. Limits: it is not known which disks a RAID controller's volume has, and whether it
    rebuilds one: all disks of the controller count as one array.
    """
    stacks, in_pools = _stacks(topology), _in_pools(topology, pools or {})
    found = []
    for disk in disks.by_key.values():
        if disk.polled.status in _NEVER:
            continue
        target, drive = disk.polled.target, disk.polled.drive
        names = {disk.device, *(other.device for other in disk.others)} & topology.devices.keys()
        if target.behind_raid():
            names = {n for n in topology.leaves if topology.devices[n].host == target.controller}
        above = {array for name in names for array in stacks.get(name, ())}
        shares = {f"array {array}" for array in above}
        shares |= {f"btrfs {uuid}" for name in names for uuid in _btrfs(topology, name)}
        of_pools = [each for name in names for each in in_pools.get(name, ())]
        shares |= {group for group, _ in of_pools}
        if target.behind_raid():
            shares.add(f"controller {target.controller or target.path}")
        action = {a: arrays[a].sync_action for a in sorted(above & arrays.keys())}
        repairs = next(
            (f"{a} is in {what}" for a, what in action.items() if what not in _QUIET), ""
        )
        repairs = repairs or next((scan for _, scan in of_pools if scan), "")
        found.append(
            Candidate(
                disk.key,
                _classes(disk, topology),
                frozenset(shares),
                _against(disk, repairs, names, busy),
                running=drive is not None and drive.self_test_remaining_ratio is not None,
                kinds=None if drive is None else drive.self_test_kinds,
                repairs=repairs,
            )
        )
    return found


def _against(
    disk: Disk, repairs: str, names: Iterable[str], busy: Mapping[str, float] | None
) -> str:
    cover = disk.polled.status
    if cover is ReadStatus.ASLEEP:
        return "it is asleep, and is not woken up for a self-test"
    if cover is not ReadStatus.READ:
        return f"its SMART data are unreadable: {disk.polled.reason or cover.value}"
    if repairs:
        return repairs
    if busy is None:
        return "its load is not known yet"
    ratio, name = max(((busy.get(name, 0.0), name) for name in names), default=(0.0, ""))
    return f"{name} is {percentage(ratio)} busy" if ratio > BUSY_RATIO else ""


def _classes(disk: Disk, topology: Topology) -> frozenset[str]:
    drive, device = disk.polled.drive, topology.devices.get(disk.device)
    rotates = None if device is None else device.rotational
    if drive is not None and drive.protocol is Protocol.NVME:
        rotates = False
    elif drive is not None and drive.rotation_rpm is not None:
        rotates = drive.rotation_rpm > 0
    names = {True: ROTATIONAL, False: SOLID_STATE}
    return frozenset() if rotates is None else frozenset({names[rotates]})


def _stacks(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Return for each disk what is stacked on it and on others as well: arrays or volumes."""
    below: dict[str, frozenset[str]] = {}

    def leaves(name: str, seen: frozenset[str]) -> frozenset[str]:
        if name not in below:
            device = topology.devices.get(name)
            slaves = () if device is None or name in seen else device.slaves
            under = [leaves(slave, seen | {name}) for slave in slaves]
            below[name] = frozenset({name}) if not under else frozenset().union(*under)
        return below[name]

    found: dict[str, tuple[str, ...]] = {}
    for name in topology.devices:
        under = leaves(name, frozenset())
        for leaf in under if len(under) > 1 else ():
            found[leaf] = (*found.get(leaf, ()), name)
    return found


def _btrfs(topology: Topology, name: str) -> Iterator[str]:
    """Yield the UUIDs of btrfs file systems that are on a disk and on others."""
    for part in (name, *topology.devices[name].partitions):
        system = topology.btrfs.get(part)
        if system is not None and max(len(system.devices), system.device_count or 0) > 1:
            yield system.uuid


def _in_pools(
    topology: Topology, pools: Mapping[str, PoolDevices]
) -> dict[str, list[tuple[str, str]]]:
    """Return by disk its groups in ZFS pools, each with the scrub or resilver that runs, or ''.

    Where the devices of a pool are not known, udev's labels show its disks: they count as one.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    known = {name: pool.status for name, pool in pools.items() if not pool.reason}
    for name, status in known.items():
        scan = status.scan
        doing = f"pool {name} is in {scan.kind}" if scan and scan.state == "running" else ""
        for device, group in status.groups_of_leaves().items():
            if (whole := topology.whole(device)) is not None:
                found.setdefault(whole.name, []).append((f"pool {name} {group}", doing))
    for part, signature in topology.signatures.items():
        whole = topology.whole(part)
        if signature.kind == ZFS and signature.group not in known and whole is not None:
            found.setdefault(whole.name, []).append((f"pool {signature.group}", ""))
    return found


# --- due tests


def group_of(groups: Sequence[ScheduleGroup], candidate: Candidate) -> ScheduleGroup | None:
    """Return the first group that contains a disk."""
    names = {EVERY, candidate.disk, *candidate.classes}
    return next((group for group in groups if not names.isdisjoint(group.disks)), None)


def add_scheduled(
    runs: Runs, groups: Sequence[ScheduleGroup], found: Iterable[Candidate], now: float
) -> Runs:
    """Return the runs with an entry for what is scheduled now; the same object if none is new."""
    new = [
        (candidate.disk, kind)
        for candidate in found
        if (group := group_of(groups, candidate)) is not None
        for kind in group.calendars
        if kind not in runs.get(candidate.disk, {})
    ]
    for disk, kind in new:
        runs = with_run(runs, disk, kind, SelfTestRun(now))
    return runs


def with_run(runs: Runs, disk: str, kind: str, run: SelfTestRun) -> Runs:
    """Return the runs with one replaced. Beyond MAX_RETAINED disks the oldest are dropped."""
    after = {**runs, disk: {**runs.get(disk, {}), kind: run}}
    if len(after) > MAX_RETAINED:
        newest = {
            d: max(r.begun_seconds or r.seen_seconds for r in after[d].values()) for d in after
        }
        del after[min(newest, key=lambda each: newest[each])]
    return after


def plan(
    groups: Sequence[ScheduleGroup],
    found: Sequence[Candidate],
    runs: Runs,
    now: float,
    zone: tzinfo,
    *,
    ahead_seconds: float = 0.0,
) -> list[DueSelfTest]:
    """Return the due tests in their order: to be started, or the reason why not yet.

    What was due while the host was off is done once, however often it was due. A test of minutes
    does not wait until the long ones of its array are done, which takes days: it is between two.
    """
    by_disk = {candidate.disk: candidate for candidate in found}
    due = [
        DueSelfTest(candidate.disk, kind, since)
        for candidate in found
        if (group := group_of(groups, candidate)) is not None
        for kind in group.calendars
        if kind in supported(candidate)
        if (since := _since(group, kind, candidate.disk, runs, now, zone, ahead_seconds))
        is not None
    ]
    testing = {c.disk for c in found if c.running or _in_progress(runs, c.disk)}
    used = {share: disk for disk in sorted(testing) for share in by_disk[disk].shares}
    result = []
    # Of those of hours the one that was not run for longest, then the more thorough one.
    for each in sorted(
        due,
        key=lambda d: (
            d.kind not in _USUAL_MINUTES,
            _last_seconds(runs[d.disk][d.kind]),
            -_worth(d.kind),
            d.disk,
        ),
    ):
        candidate = by_disk[each.disk]
        reason = "a test runs in it" if each.disk in testing else ""
        reason = reason or _blocked_by(candidate, runs[each.disk][each.kind], used, now, each)
        if not reason:
            testing.add(each.disk)
            used.update(dict.fromkeys(candidate.shares, each.disk))
        result.append(replace(each, postponed=reason))
    return result


def supported(candidate: Candidate) -> tuple[str, ...]:
    """Return the kinds of self-tests that a disk supports, or may support.

    Off-line data collection only if it reports that: for '-t offline' a SCSI disk runs another
    test, in the foreground. Source: smartctl(8), '-t'.
    """
    if candidate.kinds is not None:
        return candidate.kinds
    return tuple(kind for kind in KINDS if kind != OFFLINE)


def blocked_by(candidate: Candidate, found: Iterable[Candidate], runs: Runs) -> str:
    """Return why a test of a disk must not be started by hand now, or ''."""
    if candidate.repairs:
        return candidate.repairs
    for other in found:
        shared = candidate.shares & other.shares
        tested = other.running or _in_progress(runs, other.disk)
        if shared and tested and other.disk != candidate.disk:
            return f"disk {other.disk} of {min(shared)} is being tested"
    return ""


def _since(
    group: ScheduleGroup,
    kind: str,
    disk: str,
    runs: Runs,
    now: float,
    zone: tzinfo,
    ahead: float,
) -> float | None:
    """Return since when a test is due that has not run yet; None if none is."""
    run = runs.get(disk, {}).get(kind)
    if run is None:
        return None  # nothing is due when a disk is first seen
    shift = spread_share(disk) * group.spread_seconds - ahead
    at = group.calendars[kind].latest(now - shift, zone)
    if at is None or (at := at + shift) <= run.seen_seconds:
        return None
    if run.begun_seconds is None or run.begun_seconds < at:
        # Not the last date: a test that waits from one week to the next one waits for two.
        first = group.calendars[kind].following(_last_seconds(run) - shift, zone)
        return at if first is None else min(at, first + shift)
    return at if run.outcome in _RETRIED and run.tries < MAX_TRIES else None


def _last_seconds(run: SelfTestRun) -> float:
    return max(run.seen_seconds, run.begun_seconds or 0.0)


def _blocked_by(
    candidate: Candidate, run: SelfTestRun, used: Mapping[str, str], now: float, due: DueSelfTest
) -> str:
    for share in sorted(candidate.shares & used.keys()):
        return f"disk {used[share]} of {share} is being tested"
    tried = run.begun_seconds or 0.0
    again = tried + RETRY_INTERVAL_SECONDS
    if run.outcome in _RETRIED and tried >= due.since_seconds and now < again:
        return f"the last try failed, next retry in {duration(again - now)}: {run.text}"
    return candidate.against


def _in_progress(runs: Runs, disk: str) -> bool:
    return any(run.outcome in IN_PROGRESS for run in runs.get(disk, {}).values())


def _worth(kind: str) -> int:
    return (OFFLINE, "conveyance", "short", "long").index(kind)


def spread_share(disk: str) -> float:
    """Return a fixed number from 0 to 1 for each disk."""
    return zlib.crc32(disk.encode(errors="surrogateescape")) / 2**32


def following(
    group: ScheduleGroup | None, disk: str, kind: str, realtime_seconds: float, zone: tzinfo
) -> float | None:
    """Return when a test is due next, in Unix time; None if it is not scheduled."""
    if group is None or kind not in group.calendars:
        return None
    own = spread_share(disk) * group.spread_seconds
    at = group.calendars[kind].following(realtime_seconds - own, zone)
    return None if at is None else at + own


# --- results


def requested(
    run: SelfTestRun | None, now: float, who: str, due_seconds: float | None = None
) -> SelfTestRun:
    """Return a run that is to start now: requested by `who`, or due since `due_seconds`."""
    run = run or SelfTestRun(now)
    same = (
        due_seconds is not None
        and run.outcome in _RETRIED
        and (run.begun_seconds or 0) >= due_seconds
    )
    return SelfTestRun(
        run.seen_seconds,
        SelfTestState.STARTING,
        now,
        passed_seconds=run.passed_seconds,
        who=who,
        tries=run.tries + 1 if same else 1,
    )


def begun(run: SelfTestRun, kind: str, drive: Drive | None, now: float) -> SelfTestRun:
    """Return a run that has started; `drive` has the data of the drive right before."""
    minutes = None if drive is None else drive.self_test_minutes.get(kind)
    minutes = minutes or _USUAL_MINUTES.get(kind)
    log = () if drive is None else tuple(text for text, _ in _ended(drive))
    return replace(run, outcome=SelfTestState.RUNNING, begun_seconds=now, minutes=minutes, log=log)


def ended(
    run: SelfTestRun, outcome: SelfTestState, text: str, now: float, lba: int | None = None
) -> SelfTestRun:
    """Return a run that has ended, or did not start."""
    passed = now if outcome is SelfTestState.PASSED else run.passed_seconds
    return replace(
        run, outcome=outcome, text=text, ended_seconds=now, lba=lba, passed_seconds=passed, log=()
    )


def follow(run: SelfTestRun, kind: str, disk: Disk | None, now: float) -> SelfTestRun:
    """Return the outcome of a running test from the drive's data since; itself while it runs."""
    if run.outcome is not SelfTestState.RUNNING or run.begun_seconds is None:
        return run
    lasts = now - run.begun_seconds
    drive = None if disk is None else disk.polled.drive
    read = None if disk is None else disk.polled.read_seconds
    if drive is not None and read is not None and read > run.begun_seconds:
        if drive.self_test_remaining_ratio is not None:
            return run
        collected = drive.offline_collection
        # Of the one before, until the drive has had its time.
        early = collected is OfflineCollection.COMPLETED and lasts < 60 * (run.minutes or 0)
        if kind == OFFLINE and collected in _COLLECTED and not early:
            return ended(run, *_COLLECTED[collected], now)
        entries = list(_ended(drive))
        texts = [text for text, _ in entries]
        # The log shifts by one entry per test; what was in it before is at its end now.
        before = run.log
        new = next(n for n in range(len(texts) + 1) if texts[n:] == list(before[: len(texts) - n]))
        for _, test in entries[:new]:
            if test.kind in (kind, _NAMES[kind]):
                outcomes = {
                    True: SelfTestState.PASSED,
                    False: SelfTestState.FAILED,
                    None: SelfTestState.INTERRUPTED,
                }
                return ended(run, outcomes[test.passed], test.status, now, test.lba)
        if run.minutes is not None and lasts > 2 * 60 * run.minutes + SETTLE_SECONDS:
            return ended(
                run, SelfTestState.UNKNOWN, "the drive's self-test log has no entry of it", now
            )
    if lasts > UNKNOWN_SECONDS:
        return ended(
            run, SelfTestState.UNKNOWN, "the drive reported nothing of it for three days", now
        )
    return run


def seen_during(
    runs: Runs, members: Iterable[IncidentMember], now: float, date: Callable[[float], str]
) -> tuple[str, ...]:
    """Return which alerts of an incident began while iowarden had the disk test itself.

    The end of a test is noticed minutes later: an alert in these minutes may be from after its end.
    `date` formats a time for users.
    """
    own = list(members)
    disks = {m.subject: disk for m in own if (disk := dict(m.labels).get("disk"))}
    found: dict[str, list[str]] = {}
    for member in own:
        for kind, run in runs.get(disks.get(member.subject, ""), {}).items():
            until = now if run.outcome in IN_PROGRESS else run.ended_seconds
            begun = run.begun_seconds
            if begun is None or until is None or not begun <= member.since_seconds <= until:
                continue
            end = "still runs" if run.outcome in IN_PROGRESS else f"ended by {date(until)}"
            words = f"the {kind} self-test that iowarden began at {date(begun)} and that {end}"
            found.setdefault(words, []).append(member.name)
    return tuple(
        f"seen during {words}: {', '.join(dict.fromkeys(names))}" for words, names in found.items()
    )


def _ended(drive: Drive) -> Iterator[tuple[str, SelfTest]]:
    """Yield the entries of a drive's log, without that of a test that still runs."""
    for test in drive.self_tests:
        if "progress" not in test.status.lower():
            yield f"{test.kind} {test.status} {test.hours} {test.lba}", test


def remaining_seconds(run: SelfTestRun, drive: Drive | None, now: float) -> float | None:
    """Return the remaining time of a running test, if the drive reports it, or None."""
    if run.begun_seconds is None or run.minutes is None:
        return None
    left = run.begun_seconds + 60.0 * run.minutes - now
    ratio = None if drive is None else drive.self_test_remaining_ratio
    if ratio is not None:
        # The progress is in steps of 10 %: it only corrects an estimate that load made wrong.
        left = min(max(left, (ratio - 0.1) * 60 * run.minutes), ratio * 60 * run.minutes)
    return max(left, 0.0)


def samples(
    runs: Runs,
    due: Iterable[DueSelfTest],
    groups: Sequence[ScheduleGroup],
    found: Iterable[Candidate],
    now: float,
    *,
    ahead_seconds: float = 0.0,
) -> list[Sample]:
    """Return the samples of FAMILIES."""
    result: list[Sample] = []
    waits = {(each.disk, each.kind): now - each.since_seconds for each in due}
    for candidate in found:
        for kind, run in runs.get(candidate.disk, {}).items():
            labels = (("disk", candidate.disk), ("kind", kind))
            if run.outcome in IN_PROGRESS:
                result.append((_RUNNING.name, labels, 1.0))
            if run.outcome is SelfTestState.REFUSED and not run.who:
                result.append((_REFUSED.name, labels, 1.0))
            for family, at in ((_BEGUN, run.begun_seconds), (_PASSED, run.passed_seconds)):
                if at is not None:
                    result.append((family.name, labels, at + ahead_seconds))
        group = group_of(groups, candidate)
        for kind in () if group is None else group.calendars:
            labels = (("disk", candidate.disk), ("kind", kind))
            overdue = waits.get((candidate.disk, kind), 0.0)
            result.append((_OVERDUE.name, labels, round(overdue)))
    return result


def refused(runs: Mapping[str, SelfTestRun]) -> tuple[str, ...]:
    """Return which self-tests a disk refuses, and what reads the disk instead."""
    kinds = {kind: run.text for kind, run in runs.items() if run.outcome is SelfTestState.REFUSED}
    texts = [f"{kind} self-test refused: {text}" for kind, text in kinds.items()]
    return (*texts, INSTEAD) if texts else ()
