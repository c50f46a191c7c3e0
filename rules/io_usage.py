"""Who reads, who writes and who waits for I/O: two readings of processes, ranked. Pure."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.procfs.cgroup_io import MAX_GROUPS
from iowarden.collectors.procfs.process_io import MIN_INTERVAL_SECONDS, increases
from iowarden.collectors.procfs.stat import USER_HZ
from iowarden.collectors.quantity import duration, percentage, quantity, size
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.faults import RULES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from iowarden.collectors.model import Labels
    from iowarden.collectors.procfs.cgroup_io import CgroupIo
    from iowarden.collectors.procfs.process_io import Increase, ProcessIo, Sweep

READS, WRITES = "read", "written"
DIRECTIONS = {
    Condition.WRITE_STALL: (WRITES,),
    Condition.DEVICE_HANG: (WRITES, READS),
    Condition.QUEUE_STARVATION: (WRITES, READS),
    Condition.RECLAIM_STALL: (WRITES, READS),
    Condition.DIRECT_RECLAIM: (WRITES, READS),
    Condition.PHANTOM_READS: (READS,),
}
"""Conditions for which a mail names programs, and by what they do."""
OF_HOST = frozenset(
    {Condition.WRITE_STALL, Condition.RECLAIM_STALL, Condition.DIRECT_RECLAIM},
)
"""Those that are about the whole host, as the bytes of programs are; others are about one disk."""
MIN_ACCOUNTED_RATIO = 0.5
"""Control groups that did less of what a disk did do not show who did it: the rest is of none, or
of such as are not accounted (IOAccounting=no)."""
INTERVAL_SECONDS = 5.0
MIN_BYTES_PER_SECOND = 65_536.0
"""Less than this of all programs together is nothing: its shares do not explain a busy disk."""
MIN_AGE_SECONDS = 60.0
"""The mean rate of a program that has just started is none of a backlog of minutes."""
MAX_BEFORE_SECONDS = 300.0
"""Who wrote earlier than that filled another backlog."""
MIN_SHARE_RATIO = 0.05
MIN_WAITING_RATIO = 0.1
MAX_NAMED = 3
MAX_WAITING = 5
MAX_RANKED = 100
_INIT = 1
_WHO = {READS: "who reads", WRITES: "who writes"}
_WHERE = {READS: "from", WRITES: "to"}
_DID = {READS: "read", WRITES: "wrote"}

FAMILIES = (
    Family(
        "iowarden_processes_read_bytes_per_second",
        "gauge",
        "Bytes that all processes read from disks per second: while alerts need to know which"
        " programs do it, and for 2 minutes after.",
    ),
    Family(
        "iowarden_processes_written_bytes_per_second",
        "gauge",
        "Bytes that all processes wrote per second, counted when the page cache took them: while"
        " alerts need to know which programs do it, and for 2 minutes after.",
    ),
)


@dataclass(frozen=True, slots=True)
class IoReading:
    """What was read at one moment; None: it could not be read, see `problem`, `groups_problem`."""

    uptime_seconds: float
    sweep: Sweep | None
    groups: Sequence[CgroupIo] | None
    problem: str = ""
    groups_problem: str = ""
    groups_cut_off: bool = False
    """Whether there are more control groups than were read."""
    disk_bytes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """What all together read and wrote, by device number."""


@dataclass(frozen=True, slots=True)
class Share:
    """A program in a unit, all its processes together.

    Fields: `program` is '' if only the unit is known; `pid` is that of its busiest process;
    `ratio` its share of the bytes of all programs; `ended` its descendants that ended meanwhile,
    whose bytes are included.
    """

    program: str
    unit: str
    pid: int
    processes: int
    bytes_per_second: float
    ratio: float
    ended: int = 0


@dataclass(frozen=True, slots=True)
class Waiter:
    """A unit, and the shares of the last 10 s in which some or all of its tasks waited for I/O."""

    unit: str
    some_ratio: float
    full_ratio: float


@dataclass(frozen=True, slots=True)
class IoUsage:
    """Who did what within `seconds`; the largest first.

    `by` has READS and WRITES, without those that could not be read; `left_out` processes are
    missing in it; `top_writer` has the highest mean rate since its start, `top_writer_seconds` ago;
    `waiters` is None if not known.
    """

    seconds: float
    by: dict[str, tuple[Share, ...]]
    waiters: tuple[Waiter, ...] | None
    has_programs: bool = False
    """Whether the shares are those of programs; else of units only."""
    left_out: int = 0
    problem: str = ""
    waiters_problem: str = ""
    units_cut_off: bool = False
    """Whether there are more units than were read: one of those may write or wait most."""
    top_writer: ProcessIo | None = None
    top_writer_seconds: float = 0.0
    before: tuple[Share, ...] = ()
    """Who wrote `before_seconds` earlier, if no program does now."""
    before_seconds: float = 0.0
    on_disks: Mapping[str, dict[str, tuple[Share, ...]]] = field(default_factory=dict)
    """By device number what `by` is for all disks: shares of units in what that one did."""

    def bytes_per_second(self, what: str) -> float:
        """Return the bytes per second of all programs together."""
        return sum(share.bytes_per_second for share in self.by.get(what, ()))


def usage(before: IoReading, after: IoReading) -> IoUsage | None:
    """Return who did what between two readings; None if they are no second apart."""
    seconds = after.uptime_seconds - before.uptime_seconds
    if before.sweep is not None and after.sweep is not None:
        seconds = after.sweep.boot_seconds - before.sweep.boot_seconds
    if seconds < MIN_INTERVAL_SECONDS:
        return None
    by: dict[str, tuple[Share, ...]] = {}
    left_out, most, age = 0, None, 0.0
    if before.sweep is not None and after.sweep is not None:
        found = increases(before.sweep, after.sweep)
        by = {
            READS: _shares(((i, i.read_bytes) for i in found), seconds),
            WRITES: _shares(((i, i.write_bytes) for i in found), seconds),
        }
        left_out = len(after.sweep.not_read)
        own = [each for each in after.sweep.processes if each.pid != _INIT]
        # Not the most bytes: those are of a database that has been running for a year.
        ages = {each: after.sweep.boot_seconds - each.start_ticks / USER_HZ for each in own}
        most = max(own, key=lambda p: _net(p) / max(ages[p], MIN_AGE_SECONDS), default=None)
        age = 0.0 if most is None else ages[most]
    elif before.groups is not None and after.groups is not None:
        by = _of_units(before.groups, after.groups, seconds)
    waiters = None
    if after.groups is not None:
        waiters = tuple(
            Waiter(each.unit, each.some_ratio or 0.0, each.full_ratio or 0.0)
            for each in sorted(after.groups, key=lambda g: (-(g.full_ratio or 0.0), g.unit))
        )[:MAX_RANKED]
    programs = after.sweep is not None and before.sweep is not None
    problems = after.problem, after.groups_problem, after.groups_cut_off
    on_disks = _on_disks(before, after, seconds)
    return IoUsage(
        seconds, by, waiters, programs, left_out, *problems, most, age, on_disks=on_disks
    )


def following(old: IoUsage, new: IoUsage, elapsed_seconds: float) -> IoUsage:
    """Return a result with who wrote before if no program writes now.

    Who fills the page cache is paused when it is full: for 65 s in tests/fixtures, write-stall.
    Source: kernel, mm/page-writeback.c (balance_dirty_pages).
    """
    shares, seconds = old.before, old.before_seconds + elapsed_seconds
    if _is_noticeable(old, WRITES):
        shares, seconds = old.by[WRITES], elapsed_seconds
    if _is_noticeable(new, WRITES) or seconds > MAX_BEFORE_SECONDS:
        return new
    return replace(new, before=shares, before_seconds=seconds)


def samples(found: IoUsage) -> list[Sample]:
    """Return the samples of FAMILIES, none if processes could not be read."""
    if not found.has_programs:
        return []
    rates = map(found.bytes_per_second, (READS, WRITES))
    return [(family.name, (), rate) for family, rate in zip(FAMILIES, rates, strict=True)]


def _net(process: ProcessIo) -> int:
    return process.write_bytes - process.cancelled_write_bytes


def _shares(found: Iterable[tuple[Increase, int]], seconds: float) -> tuple[Share, ...]:
    """Return the shares of programs, all processes of one program in one unit together."""
    together: dict[tuple[str, str], list[tuple[Increase, int]]] = {}
    for one, number in found:
        if number:
            key = (one.command if one.pid != _INIT or not one.ended else "", one.unit)
            together.setdefault(key, []).append((one, number))
    total = sum(number for each in together.values() for _, number in each)
    shares = []
    for (program, unit), each in together.items():
        bytes_did = sum(number for _, number in each)
        first = max(each, key=lambda pair: (pair[1], -pair[0].pid))[0]
        ended = sum(one.ended for one, _ in each)
        shares.append(
            Share(
                program, unit, first.pid, len(each), bytes_did / seconds, bytes_did / total, ended
            )
        )
    return _ranked(shares)


def _ranked(shares: Iterable[Share]) -> tuple[Share, ...]:
    return tuple(sorted(shares, key=lambda s: (-s.ratio, s.program, s.unit))[:MAX_RANKED])


def _of_units(
    before: Sequence[CgroupIo], after: Sequence[CgroupIo], seconds: float
) -> dict[str, tuple[Share, ...]]:
    """Return the shares of units where no process can be read: the kernel counts by group."""
    old = {each.path: each for each in before}
    result = {}
    for what, name in ((READS, "read_bytes"), (WRITES, "write_bytes")):
        did: dict[str, int] = {}
        for each in after:
            was, now = getattr(old.get(each.path), name, None), getattr(each, name)
            if was is not None and now is not None and now >= was:
                did[each.unit] = did.get(each.unit, 0) + now - was
        if total := sum(did.values()):
            result[what] = _ranked(
                Share("", unit, 0, 0, number / seconds, number / total)
                for unit, number in did.items()
                if number
            )
    return result


def _on_disks(
    before: IoReading, after: IoReading, seconds: float
) -> dict[str, dict[str, tuple[Share, ...]]]:
    """Return the shares of units in what each disk did, where most of that is accounted."""
    old = {each.path: each for each in before.groups or ()}
    found: dict[str, dict[str, tuple[Share, ...]]] = {}
    for disk in after.disk_bytes.keys() & before.disk_bytes.keys():
        for index, what in enumerate((READS, WRITES)):
            did: dict[str, int] = {}
            for each in after.groups or ():
                was = old.get(each.path)
                now = each.by_disk.get(disk)
                if was is not None and now is not None:
                    increase = now[index] - was.by_disk.get(disk, (0, 0))[index]
                    did[each.unit] = did.get(each.unit, 0) + max(increase, 0)
            accounted = sum(did.values())
            total = max(after.disk_bytes[disk][index] - before.disk_bytes[disk][index], accounted)
            is_noticeable = accounted / seconds >= MIN_BYTES_PER_SECOND
            if is_noticeable and accounted >= MIN_ACCOUNTED_RATIO * total:
                found.setdefault(disk, {})[what] = _ranked(
                    Share("", unit, 0, 0, number / seconds, number / total)
                    for unit, number in did.items()
                    if number
                )
    return found


def condition(name: str, labels: Labels) -> str:
    """Return the condition of an alert if programs are to be named for it, else ''.

    Of shipped rules only: nothing follows from a user's label.
    """
    found = next((text for label, text in labels if label == "condition"), "")
    return found if name in RULES and found in DIRECTIONS else ""


def sentences(
    found: IoUsage, conditions: Collection[str], disks: Mapping[str, str] | None = None
) -> list[str]:
    """Return the sentences of a mail about these conditions.

    `disks`: names by device number of those that it is about. A process has no bytes for each disk,
    a control group may: else the sentence names the host, where it is about disks alone.
    """
    wanted = [what for each in DIRECTIONS if each in conditions for what in DIRECTIONS[each]]
    is_of_host = not OF_HOST.isdisjoint(conditions)
    lines = []
    for what in dict.fromkeys(wanted):
        of_disks = () if is_of_host else _who_on_disks(found, what, disks or {})
        lines += of_disks or [_who(found, what, "" if is_of_host else " on this host")]
    lines = [line for line in lines if line]
    if waits := _waits(found):
        lines.append(waits)
    return lines


def _who_on_disks(found: IoUsage, what: str, disks: Mapping[str, str]) -> list[str]:
    """Return which units read from or write to each of these disks, where that is known."""
    of_disks = {name: found.on_disks.get(number, {}).get(what) for number, name in disks.items()}
    return [
        f"{_WHO[what]} {_WHERE[what]} {name}: {_named(shares)}"
        for name, shares in sorted(of_disks.items())
        if shares
    ]


def _who(found: IoUsage, what: str, where: str) -> str:
    shares = found.by.get(what)
    if shares is None:
        return ""
    missing = f" (processes that could not be read: {found.left_out})" if found.left_out else ""
    missing += "" if found.has_programs else _cut_off(found)
    if not _is_noticeable(found, what):
        return _idle(found, what, where) + missing
    return f"{_WHO[what]}{where}: {_named(shares)}{missing}"


def _is_noticeable(found: IoUsage, what: str) -> bool:
    return found.bytes_per_second(what) >= MIN_BYTES_PER_SECOND


def _named(shares: Sequence[Share]) -> str:
    named = [s for s in shares if s.ratio >= MIN_SHARE_RATIO][:MAX_NAMED] or list(shares[:1])
    parts = [f"{_percent(s.ratio)} {shown(s)}" for s in named]
    rest = 1 - sum(s.ratio for s in named)
    return ", ".join([*parts, f"{_percent(rest)} others"] if rest >= MIN_SHARE_RATIO else parts)


def _idle(found: IoUsage, what: str, where: str) -> str:
    """Return that hardly anything was done; what waits to be written was written before."""
    text = (
        f"{_WHO[what]}{where}: no program {_DID[what]} noticeably within {duration(found.seconds)}"
    )
    if what == WRITES and found.before:
        return f"{text}; {duration(found.before_seconds)} before: {_named(found.before)}"
    most = found.top_writer
    if what is READS or most is None or _net(most) < MIN_BYTES_PER_SECOND:
        return text
    place = ", ".join(filter(None, (most.unit, f"pid {most.pid}")))
    since = f"{size(_net(most))} in {duration(found.top_writer_seconds)}"
    return f"{text}; highest mean rate since its start: {most.command} ({place}), {since}"


def shown(share: Share) -> str:
    """Return a share as text: 'postgres (postgresql.service, pid 812, 212.0 MiB/s)'."""
    rate = quantity("_bytes_per_second", share.bytes_per_second)
    if not share.pid:
        return f"{share.unit} ({rate})"
    if not share.program:
        return f"programs that ended meanwhile ({rate})"
    more = f" and {share.processes - 1} more" if share.processes > 1 else ""
    ended = f", with {share.ended} that it started and that ended" if share.ended else ""
    details = filter(None, (share.unit, f"pid {share.pid}{more}", rate))
    return f"{share.program} ({', '.join(details)}{ended})"


def _waits(found: IoUsage) -> str:
    units = [w for w in found.waiters or () if w.full_ratio >= MIN_WAITING_RATIO][:MAX_WAITING]
    names = ", ".join(f"{each.unit} {_percent(each.full_ratio)}" for each in units)
    return f"who waits: {names} of the last 10 s{_cut_off(found)}" if names else ""


def _cut_off(found: IoUsage) -> str:
    return f" (only the first {MAX_GROUPS} control groups were read)" if found.units_cut_off else ""


def _percent(ratio: float) -> str:
    return percentage(ratio)
