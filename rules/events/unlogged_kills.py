"""Kills for lack of memory that the kernel's counter shows and that no line of its log explains.

The kernel counts each kill and prints a line about it. Where the log cannot be read, or lost the
line, the counter is all there is: what it counted is compared with the lines. Pure.
Units: Unix time.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kernel.oom_kill import (
    COUNTED,
    GROUP_KILL,
    HOST_KILL,
    KINDS,
    OomReport,
    group_at_limit,
)
from iowarden.collectors.procfs.oom_counters import OomKills
from iowarden.collectors.procfs.process_io import unit_of_group
from iowarden.collectors.quantity import size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WAIT_SECONDS = 15.0
"""The line follows within a millisecond; so long after the count it may be read."""
MAX_UNITS = 3
"""Units that the text of an event names."""
_MEMORY = "memory.max"


@dataclass(frozen=True, slots=True)
class KillCount:
    """How many of the kills that the kernel counted are reported. Persisted.

    Fields: `reported` counts from the boot `boot_id` on, those from before the first start
    included; '' and 0: there was none in this boot. `groups` are the counters of control groups
    when all were reported last: kills, and how often it was at a limit; `logged` counts the lines
    since then, by the group at its limit. `unlogged` were reported by the counter alone, the last
    one at `unlogged_seconds`: their lines may still be read.
    """

    boot_id: str = ""
    reported: int = 0
    groups: dict[str, tuple[int, int]] = field(default_factory=dict)
    logged: dict[str, int] = field(default_factory=dict)
    unlogged: int = 0
    unlogged_seconds: float = 0.0


def of_boot(count: KillCount | None, total: int, kills: OomKills | None) -> KillCount:
    """Return the count for a reading of the counter: another boot's kills have been reported.

    At the first start so have those of this boot; `count` is None then.
    """
    if count is None:
        return settled(KillCount("" if kills is None else kills.boot_id, total), kills)
    if kills is None or kills.boot_id == count.boot_id:
        return count
    return KillCount(kills.boot_id)


def settled(count: KillCount, kills: OomKills | None) -> KillCount:
    """Return the count when all kills are reported."""
    groups = {} if kills is None else kills.groups
    now = {path: (each.killed, each.at_limit) for path, each in groups.items()}
    if (count.groups, count.logged) == (now, {}):
        return count
    return replace(count, groups=now, logged={})


def restored(stored: KillCount | None, began: int, now: KillCount | None) -> KillCount | None:
    """Return the stored count with what was reported since the start, when `began` had been."""
    if now is None or stored is None:
        return now or stored
    before = stored if stored.boot_id == now.boot_id else KillCount(now.boot_id)
    return replace(before, reported=before.reported + now.reported - began)


def with_lines(
    count: KillCount, boot_id: str, lines: Iterable[StorageEvent], left_out: int
) -> tuple[KillCount, frozenset[str]]:
    """Return the count with kernel lines of this boot, and the keys of those that come late.

    A late one is of a kill that the counter has reported already. `left_out`: further lines.
    """
    if count.boot_id != boot_id:
        count = KillCount(boot_id)
    logged, late = dict(count.logged), set()
    unlogged = count.unlogged
    reported = count.reported + left_out
    for line in lines:
        at = line.realtime_seconds
        if unlogged and (math.inf if at is None else at) <= count.unlogged_seconds:
            unlogged -= 1
            late.add(line.key)
            continue
        reported += 1
        if (limit := group_at_limit(line.place)) is not None:
            logged[limit.group] = logged.get(limit.group, 0) + 1
    count = replace(count, reported=reported, logged=logged, unlogged=unlogged)
    return count, frozenset(late)


def report(
    count: KillCount, total: int, kills: OomKills | None, realtime: float
) -> tuple[KillCount, tuple[StorageEvent, ...]]:
    """Return the count with all kills reported, and an event for those without a line.

    One for each control group at its limit, and one for the host.
    """
    left = total - count.reported
    after = settled(replace(count, reported=total), kills)
    if left <= 0:  # more lines than kills: the counter began at 0 again
        return after, ()
    kills = OomKills(count.boot_id, {}) if kills is None else kills
    events = []
    limited = _at_limit(count, kills)
    for path in limited:
        number = min(left, _rise(count, kills, path, 0) - count.logged.get(path, 0))
        if number > 0:
            events.append(_of_group(kills, path, number))
            left -= number
    if left:
        events.append(_of_host(count, kills, limited, left))
    after = replace(
        after, unlogged=count.unlogged + total - count.reported, unlogged_seconds=realtime
    )
    return after, tuple(
        replace(each, clock_seconds=realtime, realtime_seconds=realtime, sequence=total)
        for each in events
    )


def _rise(count: KillCount, kills: OomKills, path: str, index: int) -> int:
    """Return how much a counter of a control group rose; one that was made again began at 0."""
    before, now = count.groups.get(path, (0, 0))[index], kills.groups[path][index] or 0
    return now - before if now >= before else now


def _at_limit(count: KillCount, kills: OomKills) -> list[str]:
    """Return the groups that were at their own limit: of each branch the innermost."""
    risen = [path for path in kills.groups if _rise(count, kills, path, 1)]
    return [path for path in risen if not any(each.startswith(f"{path}/") for each in risen)]


def _of_group(kills: OomKills, path: str, number: int) -> StorageEvent:
    limit, unit = kills.groups[path].limit_bytes, unit_of_group(path)
    if limit is None:
        where = f"the memory limit of a control group in {unit} that is gone"
        report = OomReport(path, is_of_group=True)
    else:
        where = f"{_MEMORY} ({size(limit)}) of {unit}"
        report = OomReport(path, _MEMORY, limit >> 10, is_of_group=True)
    text = f"the kernel killed {_programs(number)} at {where}"
    return StorageEvent(COUNTED, GROUP_KILL, text, place=report.place, boot_id=kills.boot_id)


def _of_host(
    count: KillCount, kills: OomKills, limited: Iterable[str], number: int
) -> StorageEvent:
    risen = [
        path
        for path in kills.groups
        if _rise(count, kills, path, 0)
        and not any(f"{path}/".startswith(f"{each}/") for each in limited)
    ]
    inner = (path for path in risen if not any(each.startswith(f"{path}/") for each in risen))
    units = list(dict.fromkeys(unit_of_group(path) for path in inner))
    named = f" of {', '.join(units[:MAX_UNITS])}" if units else ""
    named += " and others" if len(units) > MAX_UNITS else ""
    text = f"the kernel killed {_programs(number)}{named} for lack of memory"
    return StorageEvent(COUNTED, HOST_KILL, text, boot_id=kills.boot_id)


def _programs(number: int) -> str:
    return "a program" if number == 1 else f"{number} programs"


def lines_of(
    events: Iterable[StorageEvent], boot_id: str, known: Iterable[str]
) -> list[StorageEvent]:
    """Return the lines of this boot about kills, each once, without those that are known."""
    kills = {each.key: each for each in events if each.kind in KINDS and each.source == "kernel"}
    seen = frozenset(known) if kills else frozenset()
    return [each for key, each in kills.items() if each.boot_id == boot_id and key not in seen]


def left_out(counts: Mapping[tuple[str, str], int]) -> int:
    """Return how many lines about kills were only counted."""
    return sum(number for (kind, _), number in counts.items() if kind in KINDS)
