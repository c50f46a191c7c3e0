"""Self-tests of drives: when one is due, what is in its way, and what came of it. Pure.

A drive tests itself while it works on, in minutes ('short') or hours ('long': it reads every
sector). Source: smartctl(8), '-t'. Of an array no two members are tested at once: each is slower
meanwhile, and a drive that fails under its test must not meet a second one.
Units: seconds of the program's clock; a schedule is by the wall clock, which is ahead of it by
`ahead_seconds`.
"""

from __future__ import annotations

import enum
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.collectors.smart.drive import Cover, Protocol
from iowarden.rules.calendar import Calendar  # noqa: TC001 - to be evaluated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.md.mdstat import Array
    from iowarden.collectors.smart.drive import Disk, Disks, Drive, SelfTest
    from iowarden.rules.incidents.model import Member

KINDS = ("short", "long", "conveyance")
EVERY = "*"
ROTATIONAL, SOLID_STATE = "rotational", "solid-state"
BUSY_RATIO = 0.5
"""A device that was busy for more of the last minutes is not tested by itself."""
RETRY_SECONDS = 6 * 3600.0
MOST_TRIES = 4
"""Of a test that is interrupted each time, until it is due anew."""
SETTLE_SECONDS = 900.0
"""A test that is over by the drive's own measure may be so much late to be in its log."""
UNKNOWN_SECONDS = 3 * 86_400.0
"""A test without a measure: the largest disks take less than two days."""
MOST_KEPT = 5000
_NAMES = {"short": "short", "long": "extended", "conveyance": "conveyance"}
"""How the drive's log calls them."""
_USUAL_MINUTES = {"short": 10, "conveyance": 10}
"""At most, where the drive does not say. Source: smartctl(8), '-t'."""
_NEVER = frozenset({Cover.NO_SMART, Cover.LUN, Cover.NO_PASS_THROUGH, Cover.MISSING})
_QUIET = frozenset({None, "idle", "frozen"})

_RUNNING = Family(
    "iowarden_smart_self_test_running", "gauge", "1 while a self-test that iowarden began runs."
)
_BEGUN = Family(
    "iowarden_smart_self_test_last_start_timestamp_seconds",
    "gauge",
    "When iowarden last began a self-test, Unix time.",
)
_PASSED = Family(
    "iowarden_smart_self_test_last_passed_timestamp_seconds",
    "gauge",
    "When a self-test that iowarden began was last seen to have passed, Unix time.",
)
_OVERDUE = Family(
    "iowarden_smart_self_test_overdue_seconds",
    "gauge",
    "For how long a scheduled self-test waits, 0 where none does.",
)
_REFUSED = Family(
    "iowarden_smart_self_test_refused",
    "gauge",
    "1 for a scheduled self-test that the disk, or what is before it, does not take.",
)
FAMILIES = (_RUNNING, _BEGUN, _PASSED, _OVERDUE, _REFUSED)


class Outcome(enum.StrEnum):
    """What became of a self-test."""

    NONE = "none"
    """It was never begun."""
    STARTING = "starting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """By a reset, a loss of power, or somebody else."""
    ABORTED = "aborted"
    """Somebody asked for that."""
    REFUSED = "refused"
    """The drive, or what passes the command, does not do it."""
    NOT_BEGUN = "not_begun"
    """What was to begin it failed; the drive had no say."""
    UNKNOWN = "unknown"
    """It is over and the drive's log has no word of it."""


INSTEAD = (
    "what reads every sector instead: a check of the md array that it is in (its sync_action), or a"
    " verify or patrol read of the RAID controller"
)
"""Of a disk that refuses its self-tests, or whose controller does."""
UNDER_WAY = frozenset({Outcome.STARTING, Outcome.RUNNING})
_AGAIN = frozenset({Outcome.INTERRUPTED, Outcome.NOT_BEGUN})
"""Not done: tried again."""


@dataclass(frozen=True, slots=True)
class Run:
    """The last self-test of a kind of a disk.

    Fields: from `seen_seconds` on it is known to be scheduled, what was due before is not; `text`
    is what the drive or smartctl said; `who` asked for it, '' the schedule; `minutes` is how long
    the drive says that it takes; `log` is what its log had at the start; `tries` of one due date.
    """

    seen_seconds: float
    outcome: Outcome = Outcome.NONE
    begun_seconds: float | None = None
    ended_seconds: float | None = None
    passed_seconds: float | None = None
    text: str = ""
    who: str = ""
    lba: int | None = None
    minutes: int | None = None
    tries: int = 0
    log: tuple[str, ...] = ()


Runs = dict[str, dict[str, Run]]
"""By disk and kind; a document of state.db."""


@dataclass(frozen=True, slots=True)
class Group:
    """What is scheduled for some disks: those named by key or class, or all ('*')."""

    disks: tuple[str, ...]
    calendars: Mapping[str, Calendar]
    """By kind."""
    spread_seconds: float = 0.0
    """Each disk has a moment of its own within so long after what the calendar says."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A disk that may be tested, and what speaks against it.

    Fields: of `shares` ('array md0', 'controller host2') only one disk at a time is tested;
    `against` is why it is not to be tested now, '' where nothing is; `running`: a test runs in it,
    whoever began it; `kinds`: what it can do, None: it does not say.
    """

    disk: str
    classes: frozenset[str] = frozenset()
    shares: frozenset[str] = frozenset()
    against: str = ""
    running: bool = False
    kinds: tuple[str, ...] | None = None
    repairs: str = ""
    """The array of it that is being synchronised, in words."""


@dataclass(frozen=True, slots=True)
class Due:
    """A test that is due since `since_seconds`: to be begun now, or `postponed` for a reason."""

    disk: str
    kind: str
    since_seconds: float
    postponed: str = ""


# --- what there is


def candidates(
    disks: Disks,
    topology: Topology,
    arrays: Mapping[str, Array],
    busy: Mapping[str, float] | None,
) -> list[Candidate]:
    """Return the disks with all that speaks against testing them now; not those never asked.

    `busy` has the share of the last minutes in which devices had requests in flight; None: not
    known yet. Limits: which disks a RAID controller's volume has, and whether it rebuilds one, is
    not known here: all its disks count as one array. Members of btrfs and ZFS are not known to be.
    """
    stacks = _stacks(topology)
    found = []
    for disk in disks.by_key.values():
        if disk.polled.cover in _NEVER:
            continue
        target, drive = disk.polled.target, disk.polled.drive
        names = {disk.device, *(other.device for other in disk.others)} & topology.devices.keys()
        above = {array for name in names for array in stacks.get(name, ())}
        shares = {f"array {array}" for array in above}
        if target.behind_raid():
            shares.add(f"controller {target.controller or target.path}")
            names = {n for n in topology.leaves if topology.devices[n].host == target.controller}
        action = {a: arrays[a].sync_action for a in sorted(above & arrays.keys())}
        repairs = next(
            (f"{a} is in {what}" for a, what in action.items() if what not in _QUIET), ""
        )
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
    cover = disk.polled.cover
    if cover is Cover.ASLEEP:
        return "it sleeps, and is not woken for that"
    if cover is not Cover.READ:
        return f"it is not read: {disk.polled.reason or cover.value}"
    if repairs:
        return repairs
    if busy is None:
        return "how busy it is is not known yet"
    ratio, name = max(((busy.get(name, 0.0), name) for name in names), default=(0.0, ""))
    return f"{name} is {ratio:.0%} busy" if ratio > BUSY_RATIO else ""


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
    """Return for each disk what stands on it and on others as well, arrays or volumes."""
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


# --- what is due


def group_of(groups: Sequence[Group], candidate: Candidate) -> Group | None:
    """Return the first group that has a disk."""
    names = {EVERY, candidate.disk, *candidate.classes}
    return next((group for group in groups if not names.isdisjoint(group.disks)), None)


def meet(runs: Runs, groups: Sequence[Group], found: Iterable[Candidate], now: float) -> Runs:
    """Return the runs with an entry for what is scheduled now; the same object when none is new."""
    new = [
        (candidate.disk, kind)
        for candidate in found
        if (group := group_of(groups, candidate)) is not None
        for kind in group.calendars
        if kind not in runs.get(candidate.disk, {})
    ]
    for disk, kind in new:
        runs = with_run(runs, disk, kind, Run(now))
    return runs


def with_run(runs: Runs, disk: str, kind: str, run: Run) -> Runs:
    """Return the runs with one exchanged. Beyond MOST_KEPT disks the oldest are forgotten."""
    after = {**runs, disk: {**runs.get(disk, {}), kind: run}}
    if len(after) > MOST_KEPT:
        newest = {
            d: max(r.begun_seconds or r.seen_seconds for r in after[d].values()) for d in after
        }
        del after[min(newest, key=lambda each: newest[each])]
    return after


def plan(
    groups: Sequence[Group],
    found: Sequence[Candidate],
    runs: Runs,
    now: float,
    zone: tzinfo,
    *,
    ahead_seconds: float = 0.0,
) -> list[Due]:
    """Return the tests that are due, the longest due first: to be begun, or why not yet.

    What was missed while the machine was off is made up for once, however often it was due.
    """
    by_disk = {candidate.disk: candidate for candidate in found}
    due = [
        Due(candidate.disk, kind, since)
        for candidate in found
        if (group := group_of(groups, candidate)) is not None
        for kind in group.calendars
        if candidate.kinds is None or kind in candidate.kinds
        if (since := _since(group, kind, candidate.disk, runs, now, zone, ahead_seconds))
        is not None
    ]
    testing = {c.disk for c in found if c.running or _under_way(runs, c.disk)}
    used = {share: disk for disk in sorted(testing) for share in by_disk[disk].shares}
    result = []
    # Where two kinds are due at once, the one that finds more goes first.
    for each in sorted(due, key=lambda d: (d.since_seconds, -_worth(d.kind), d.disk)):
        candidate = by_disk[each.disk]
        reason = "a test runs in it" if each.disk in testing else ""
        reason = reason or _in_the_way(candidate, runs[each.disk][each.kind], used, now, each)
        if not reason:
            testing.add(each.disk)
            used.update(dict.fromkeys(candidate.shares, each.disk))
        result.append(replace(each, postponed=reason))
    return result


def in_the_way(candidate: Candidate, found: Iterable[Candidate], runs: Runs) -> str:
    """Return why a person should not begin a test of a disk now, or ''."""
    if candidate.repairs:
        return candidate.repairs
    for other in found:
        shared = candidate.shares & other.shares
        tested = other.running or _under_way(runs, other.disk)
        if shared and tested and other.disk != candidate.disk:
            return f"disk {other.disk} of {min(shared)} is being tested"
    return ""


def _since(
    group: Group,
    kind: str,
    disk: str,
    runs: Runs,
    now: float,
    zone: tzinfo,
    ahead: float,
) -> float | None:
    """Return since when a test is due that is not done yet; None while none is."""
    run = runs.get(disk, {}).get(kind)
    if run is None:
        return None  # at first sight nothing is due
    own = _share(disk) * group.spread_seconds
    at = group.calendars[kind].latest(now + ahead - own, zone)
    if at is None or (at := at + own - ahead) <= run.seen_seconds:
        return None
    if run.begun_seconds is None or run.begun_seconds < at:
        return at
    return at if run.outcome in _AGAIN and run.tries < MOST_TRIES else None


def _in_the_way(
    candidate: Candidate, run: Run, used: Mapping[str, str], now: float, due: Due
) -> str:
    for share in sorted(candidate.shares & used.keys()):
        return f"disk {used[share]} of {share} is being tested"
    tried = run.begun_seconds or 0.0
    again = tried + RETRY_SECONDS
    if run.outcome in _AGAIN and tried >= due.since_seconds and now < again:
        return f"the last try failed, the next is in {(again - now) / 3600:.1f} h: {run.text}"
    return candidate.against


def _under_way(runs: Runs, disk: str) -> bool:
    return any(run.outcome in UNDER_WAY for run in runs.get(disk, {}).values())


def _worth(kind: str) -> int:
    return ("conveyance", "short", "long").index(kind)


def _share(disk: str) -> float:
    """Return a number from 0 to 1 that a disk always has."""
    return zlib.crc32(disk.encode(errors="surrogateescape")) / 2**32


def following(
    group: Group | None, disk: str, kind: str, realtime_seconds: float, zone: tzinfo
) -> float | None:
    """Return when a test is due next, in Unix time; None where it is not scheduled."""
    if group is None or kind not in group.calendars:
        return None
    own = _share(disk) * group.spread_seconds
    at = group.calendars[kind].following(realtime_seconds - own, zone)
    return None if at is None else at + own


# --- what comes of it


def asked(run: Run | None, now: float, who: str, due_seconds: float | None = None) -> Run:
    """Return a run that is to begin now: `who` says so, or it is due since `due_seconds`."""
    run = run or Run(now)
    same = (
        due_seconds is not None
        and run.outcome in _AGAIN
        and (run.begun_seconds or 0) >= due_seconds
    )
    return Run(
        run.seen_seconds,
        Outcome.STARTING,
        now,
        passed_seconds=run.passed_seconds,
        who=who,
        tries=run.tries + 1 if same else 1,
    )


def begun(run: Run, kind: str, drive: Drive | None, now: float) -> Run:
    """Return a run that has begun; `drive` is what the drive said right before."""
    minutes = None if drive is None else drive.self_test_minutes.get(kind)
    minutes = minutes or _USUAL_MINUTES.get(kind)
    log = () if drive is None else tuple(text for text, _ in _ended(drive))
    return replace(run, outcome=Outcome.RUNNING, begun_seconds=now, minutes=minutes, log=log)


def ended(run: Run, outcome: Outcome, text: str, now: float, lba: int | None = None) -> Run:
    """Return a run that is over, or did not begin."""
    passed = now if outcome is Outcome.PASSED else run.passed_seconds
    return replace(
        run, outcome=outcome, text=text, ended_seconds=now, lba=lba, passed_seconds=passed, log=()
    )


def follow(run: Run, kind: str, disk: Disk | None, now: float) -> Run:
    """Return what became of a running test by what its drive said since; itself while it runs."""
    if run.outcome is not Outcome.RUNNING or run.begun_seconds is None:
        return run
    lasts = now - run.begun_seconds
    drive = None if disk is None else disk.polled.drive
    read = None if disk is None else disk.polled.read_seconds
    if drive is not None and read is not None and read > run.begun_seconds:
        if drive.self_test_remaining_ratio is not None:
            return run
        entries = list(_ended(drive))
        texts = [text for text, _ in entries]
        # The log moves on by one entry a test; what was in it before ends it now.
        before = run.log
        new = next(n for n in range(len(texts) + 1) if texts[n:] == list(before[: len(texts) - n]))
        for _, test in entries[:new]:
            if test.kind in (kind, _NAMES[kind]):
                outcome = {True: Outcome.PASSED, False: Outcome.FAILED, None: Outcome.INTERRUPTED}
                return ended(run, outcome[test.passed], test.status, now, test.lba)
        if run.minutes is not None and lasts > 2 * 60 * run.minutes + SETTLE_SECONDS:
            return ended(run, Outcome.UNKNOWN, "the drive's log has no word of it", now)
    if lasts > UNKNOWN_SECONDS:
        return ended(run, Outcome.UNKNOWN, "nothing was heard of it for three days", now)
    return run


def seen_during(
    runs: Runs, members: Iterable[Member], now: float, date: Callable[[float], str]
) -> tuple[str, ...]:
    """Return what an incident tells that was seen while iowarden had the disk test itself.

    That a test is over is heard minutes later: what was in these may have been behind its end.
    `date` writes a moment for people.
    """
    own = list(members)
    disks = {m.subject: disk for m in own if (disk := dict(m.labels).get("disk"))}
    found: dict[str, list[str]] = {}
    for member in own:
        for kind, run in runs.get(disks.get(member.subject, ""), {}).items():
            until = now if run.outcome in UNDER_WAY else run.ended_seconds
            begun = run.begun_seconds
            if begun is None or until is None or not begun <= member.since_seconds <= until:
                continue
            end = "still runs" if run.outcome in UNDER_WAY else f"ended by {date(until)}"
            words = f"the {kind} self-test that iowarden began at {date(begun)} and that {end}"
            found.setdefault(words, []).append(member.name)
    return tuple(
        f"seen during {words}: {', '.join(dict.fromkeys(names))}" for words, names in found.items()
    )


def _ended(drive: Drive) -> Iterator[tuple[str, SelfTest]]:
    """Yield the entries of a drive's log that are not of a test that still runs."""
    for test in drive.self_tests:
        if "progress" not in test.status.lower():
            yield f"{test.kind} {test.status} {test.hours} {test.lba}", test


def remaining_seconds(run: Run, drive: Drive | None, now: float) -> float | None:
    """Return how long a running test takes yet, by the drive's own measure; None: it has none."""
    if run.begun_seconds is None or run.minutes is None:
        return None
    left = run.begun_seconds + 60.0 * run.minutes - now
    ratio = None if drive is None else drive.self_test_remaining_ratio
    if ratio is not None:
        # In tenths, rounded: it corrects a measure that the load made wrong, and no more.
        left = min(max(left, (ratio - 0.1) * 60 * run.minutes), ratio * 60 * run.minutes)
    return max(left, 0.0)


def samples(
    runs: Runs,
    due: Iterable[Due],
    groups: Sequence[Group],
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
            if run.outcome in UNDER_WAY:
                result.append((_RUNNING.name, labels, 1.0))
            if run.outcome is Outcome.REFUSED and not run.who:
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


def refused(runs: Mapping[str, Run]) -> tuple[str, ...]:
    """Return what of a disk's self-tests is refused, and what reads the disk instead."""
    kinds = {kind: run.text for kind, run in runs.items() if run.outcome is Outcome.REFUSED}
    texts = [f"{kind} self-test refused: {text}" for kind, text in kinds.items()]
    return (*texts, INSTEAD) if texts else ()
