"""What disks share is the cause when they fail together: expander, adapter, storage fabric. Pure.

From the third disk within 60 s on (of two both) the nearest object that all of them hang off is the
cause, without an alert of its own. A disk that hung, had errors or was reset alone for 8 s before
the others is their cause instead, unless three others are gone or failed: one disk can make others
wait, it does not make them disappear. So is the only one that was reset when the others began to
hang. An adapter that is reset while two of its disks hang together is at fault. What only SMART
shows has no moment.
Units: seconds of the program's clock.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.faults import GONE_OR_FAILED, LOST_TO_ARRAY, Fault, Layer, Meaning
from iowarden.rules.incidents.causes import (
    ALONE_SECONDS,
    BEFORE_SECONDS,
    STOPS,
    TIMED_OUT_SECONDS,
    Fact,
    Key,
    Shortages,
    explained_by,
)
from iowarden.rules.incidents.model import Explanation
from iowarden.rules.topology.device_identity import ADAPTER
from iowarden.rules.topology.graph import FABRIC_KEY, layer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iowarden.rules.topology.graph import StorageGraph

TOGETHER_SECONDS, TOGETHER_DISKS = 60.0, 3
"""So many disks that fail within that time have what they share as their cause; both of two."""
_MAP_SUFFERS = frozenset((Fault.HANGS, Fault.STOPPED, Fault.DEGRADED))
_SUFFERS = frozenset((Fault.HANGS, Fault.SLOW, Fault.GONE, Fault.FAILED, Fault.RESETS))


def explanation(
    facts: tuple[Fact, ...],
    graph: StorageGraph,
    before: Explanation | None,
    started: float = -math.inf,
    shortages: Shortages | None = None,
) -> Explanation:
    """Return what explains what; the explanation of before, if it is of the same facts.

    It is called each second, while incidents change once in minutes.
    """
    if before is not None and before.graph is graph and before.facts == facts:
        return before
    return Explanation(facts, graph, explained(facts, graph, started, shortages))


def explained(
    facts: Iterable[Fact],
    graph: StorageGraph,
    started: float = -math.inf,
    shortages: Shortages | None = None,
) -> dict[Key, Fact]:
    """Return for each alert that something else explains the deepest known cause.

    The cause of disks that fail together may be one without an alert: what they share. Its first
    disks may have left before iowarden `started`, which has not seen them then.
    """
    every = list(facts)
    known, parents = together(every, graph)
    parents = [
        replace(each, earliest=-math.inf) if each.began <= started + TOGETHER_SECONDS else each
        for each in parents
    ]
    return explained_by(every, known, parents, graph, shortages or Shortages())


def together(facts: Iterable[Fact], graph: StorageGraph) -> tuple[dict[Key, Fact], list[Fact]]:
    """Return the causes of disks that fail together, and what they share among these."""
    every = list(facts)
    by_parent = _suffering(every, graph)
    resets = sorted((each for each in every if each.is_reset), key=lambda f: f.began, reverse=True)
    reset = {each.subject: each for each in resets}  # the first of each adapter
    found: dict[Key, Fact] = {}
    causes: dict[frozenset[str], Fact] = {}
    """By the disks that failed together."""
    # The nearest first: what an expander explains is no matter of its adapter.
    for parent in sorted(by_parent, key=graph.breadth):
        mine = by_parent[parent]
        is_reset = parent in reset
        suspects = mine if is_reset else _without_shelves(mine, parent, causes.values(), graph)
        count = 2 if is_reset else _count(parent, graph)
        groups = [*_together(_first_of_each(suspects), count)] or [*_left_together(suspects, count)]
        for disks in groups or [_waiting(_first_of_each(suspects))]:
            # The host waits for a disk of another shelf as well.
            adapter = f"{ADAPTER}{disks[0].adapter}" if disks else parent
            group, blamed = _blamed(disks, by_parent.get(adapter, mine))
            subjects = frozenset(each.subject for each in (*group, *blamed))
            is_at_fault = is_reset and not blamed and _is_reset_first(reset[parent], group)
            is_known = any(subjects <= others for others in causes)
            if not (groups or blamed) or (is_known and not is_at_fault):
                continue
            if parent == FABRIC_KEY and not _is_of_fabric(group, every, graph):
                continue
            cause = _cause_of(group, blamed, parent, mine, graph)
            if is_at_fault:  # also if all of these disks are in one shelf
                cause = _as_cause(parent, group, mine, graph)
            if parent == FABRIC_KEY and (session := _session_of(group, every, graph)):
                cause = _as_cause(session, group, mine, graph)
            # More disks failed than hang off what was nearest: it was not that.
            causes = {others: own for others, own in causes.items() if not others <= subjects}
            causes[subjects] = cause
            found |= {
                each.key: cause
                for each in mine
                if each.subject in subjects - {cause.subject} and each.began >= group[0].earliest
            }
            if cause.subject == FABRIC_KEY:
                found |= dict.fromkeys(_lost_sessions(group, every, graph), cause)
    return found, [cause for cause in causes.values() if cause.subject.startswith(ADAPTER)]


def _left_together(facts: Iterable[Fact], count: int) -> Iterator[list[Fact]]:
    """Yield the disks that disappeared together: one may have failed for a while before.

    That it failed was its own fault; that it is gone as the others are is that of what they share.
    """
    left = [each for each in facts if each.what.fault is Fault.GONE and not each.event]
    yield from _together(_first_of_each(left), count)


def _waiting(disks: Iterable[Fact]) -> list[Fact]:
    """Return the disks that may wait for one that is reset: they hang, and show nothing else.

    One that is away, or that logs errors, has a reason of its own.
    """
    return [each for each in disks if each.what.fault is Fault.HANGS and not each.event]


def _blamed(group: list[Fact], facts: Sequence[Fact]) -> tuple[list[Fact], list[Fact]]:
    """Return disks that fail together, and the faults of the one that the others wait for.

    A disk that failed, or had errors, just before does not wait, and is not waited for: without it.
    """
    if blamed := _reset_alone(group, facts):
        return group, blamed
    waiting = _waiting(group)
    lost = [each for each in group if each.what.fault in GONE_OR_FAILED]
    if len(lost) < TOGETHER_DISKS and (blamed := _reset_alone(waiting, facts)):
        return waiting, blamed
    return group, []


def _cause_of(
    group: Sequence[Fact],
    blamed: Sequence[Fact],
    parent: str,
    facts: Iterable[Fact],
    graph: StorageGraph,
) -> Fact:
    """Return the cause of disks that fail together: one of them, or what they share."""
    if blamed:
        return blamed[0]
    if parent != FABRIC_KEY and _failed_alone(group):
        return group[0]
    subjects = frozenset(each.subject for each in group)
    return _as_cause(_nearest(parent, subjects, graph), group, facts, graph)


def _without_shelves(
    facts: Sequence[Fact], parent: str, causes: Iterable[Fact], graph: StorageGraph
) -> Sequence[Fact]:
    """Return the faults that an adapter may be the cause of: without those of its shelves alone.

    While a shelf is away, a disk elsewhere that is slow has a fault of its own, and one that hangs
    makes those of the same adapter wait. One that is away as well, within a minute, is the first of
    those that the adapter takes with it; so are three that fail together, for no reason among them.
    """
    whole = graph.parents.get(parent, frozenset())
    shelves = [graph.parents.get(own.subject, frozenset()) for own in causes]
    of_shelves = frozenset[str]().union(*(disks for disks in shelves if disks < whole))
    kinds = {each.what.fault for each in facts if each.subject in of_shelves}
    kinds = kinds & GONE_OR_FAILED or kinds
    last = max((each.began for each in facts if each.subject in of_shelves), default=math.inf)
    others = [each for each in facts if each.subject not in of_shelves]
    disks = _first_of_each(others)
    taken = (
        each.what.fault in kinds and each.earliest <= last + TOGETHER_SECONDS for each in disks
    )
    if not whole - of_shelves or any(taken):
        return facts
    together = next(_together(disks, len(whole - of_shelves)), [])
    has_reason = bool(_reset_alone(together, facts)) or (together and _failed_alone(together))
    return others if has_reason or not together else facts


def _is_reset_first(reset: Fact, group: Sequence[Fact]) -> bool:
    """Whether an adapter was reset before a command of disks that only hang can have timed out."""
    only_hang = len(_waiting(group)) == len(group) > 0
    return only_hang and reset.began - group[0].began < TIMED_OUT_SECONDS


def _lost_sessions(
    group: Sequence[Fact], facts: Iterable[Fact], graph: StorageGraph
) -> dict[Key, str]:
    """Return the alerts about lost sessions that carry maps that fail together."""
    subjects = {each.subject for each in group}
    return {
        each.key: each.subject
        for each in facts
        if each.is_cause
        and each.what.fault in STOPS
        and layer_of(each.subject) is Layer.ADAPTER
        and subjects & graph.above.get(each.subject, frozenset())
        and not each.before(group[0])
    }


def _is_of_fabric(group: Sequence[Fact], facts: Iterable[Fact], graph: StorageGraph) -> bool:
    """Whether maps that fail together have no more in common than the fabric: not one session."""
    subjects = {each.subject for each in group}
    sessions = {
        each
        for each in _lost_sessions(group, facts, graph).values()
        if subjects <= graph.above[each]
    }
    return len(group) >= min(len(graph.all_maps()), TOGETHER_DISKS) and len(sessions) != 1


def _session_of(group: Sequence[Fact], facts: Iterable[Fact], graph: StorageGraph) -> str:
    """Return the adapter whose paths alone failed, of maps that have other paths; '' if none.

    A lost session that leaves each map a path has no alert of its own, only its lines.
    """
    if any(each.what.fault is not Fault.DEGRADED for each in group):
        return ""
    adapters: dict[str, set[str]] = {}
    for each in facts:
        if each.event and each.adapter and abs(each.began - group[0].began) <= BEFORE_SECONDS:
            for name in graph.maps.get(each.subject, ()):
                adapters.setdefault(name, set()).add(each.adapter)
    shared = {frozenset(adapters.get(each.subject, ())) for each in group}
    only = next(iter(shared)) if len(shared) == 1 else frozenset[str]()
    return f"{ADAPTER}{next(iter(only))}" if len(only) == 1 else ""


def _first_of_each(facts: Iterable[Fact]) -> list[Fact]:
    """Return the first fault of each disk, in order of time; not the lines of an earlier one."""
    disks: dict[str, Fact] = {}
    for each in sorted(facts, key=lambda f: (f.began, f.subject, f.key)):
        first = disks.setdefault(each.subject, each)
        if first.event and not each.event and first.began < each.began - TOGETHER_SECONDS:
            disks[each.subject] = each
    return sorted(disks.values(), key=lambda f: (f.began, f.subject, f.key))


def _suffering(facts: Iterable[Fact], graph: StorageGraph) -> dict[str, list[Fact]]:
    """Return by what they share the faults of disks, and of multipath maps, that may be its own."""
    found: dict[str, list[Fact]] = {}
    maps = graph.all_maps()
    stacked: set[str] | None = None
    for each in facts:
        if each.subject in maps and each.what.fault in _MAP_SUFFERS:
            found.setdefault(FABRIC_KEY, []).append(each)
            continue
        is_disk = each.layer is Layer.DISK and each.subject.startswith(("disk ", "device "))
        suffers = each.what.fault in _SUFFERS or each.event
        if each.adapter and is_disk and suffers:
            stacked = graph.stacked() if stacked is None else stacked
            if each.subject not in stacked:
                # An alert of before a reboot has the adapter's name of then: another's now.
                by_name = (f"{ADAPTER}{each.adapter}",)
                for parent in graph.parents_of(each.subject) or by_name:
                    found.setdefault(parent, []).append(each)
    return found


def _count(parent: str, graph: StorageGraph) -> int:
    """Return how many disks, or multipath maps, something carries."""
    return len(graph.all_maps() if parent == FABRIC_KEY else graph.parents.get(parent, ()))


def _nearest(parent: str, disks: frozenset[str], graph: StorageGraph) -> str:
    return parent if parent == FABRIC_KEY else graph.common_parent(disks) or parent


def _failed_alone(group: Sequence[Fact]) -> bool:
    """Whether the first disk hung, had errors or was reset so long before the others.

    When a disk became slow is known to ten seconds only: their order proves nothing.
    """
    first, second = group[:2]
    lost = sum(each.what.fault in LOST_TO_ARRAY for each in group[1:])
    slow = all(each.what.fault is Fault.SLOW for each in group)
    alone = first.what.fault not in LOST_TO_ARRAY and second.after(first) >= ALONE_SECONDS
    return alone and lost < TOGETHER_DISKS and not slow


def _reset_alone(group: Sequence[Fact], facts: Sequence[Fact]) -> list[Fact]:
    """Return the faults of the one disk that was reset when the others began to hang; [] if none.

    From the timeout of its command on its whole SCSI host waits. It may have hung before anybody
    looked, or several times in ten minutes: the order of the first faults does not show that. Had
    they failed together, the others would have hung before the first reset. Source: kernel,
    drivers/scsi/scsi_error.c, scsi_eh_scmd_add.
    """
    resets = [each for each in facts if each.event and each.what.fault is Fault.RESETS]
    for line in resets:
        others = [each for each in group if each.subject != line.subject]
        start = min((each.began for each in others), default=-math.inf)
        now = [r for r in resets if r.began <= start + 1.0 and r.last >= start - TOGETHER_SECONDS]
        only_hang = all(each.what.fault is Fault.HANGS and not each.event for each in others)
        if only_hang and now and {each.subject for each in now} == {line.subject}:
            mine = (each for each in facts if each.subject == line.subject)
            return sorted(mine, key=lambda each: each.order)
    return []


def _as_cause(
    parent: str, group: Sequence[Fact], facts: Iterable[Fact], graph: StorageGraph
) -> Fact:
    """Return what disks share as their cause, as if it had an alert."""
    slow = all(each.what.fault is Fault.SLOW for each in group)
    return replace(
        group[0],
        key=((("adapter", parent.removeprefix(ADAPTER)),), parent),
        subject=parent,
        object=graph.object_of(parent),
        what=Meaning(Fault.SLOW if slow else Fault.FAILED, Layer.ADAPTER),
        layer=Layer.ADAPTER,
        event=False,
        silent=all(each.silent for each in facts),
    )


def _together(disks: Sequence[Fact], count: int) -> Iterator[list[Fact]]:
    """Yield the disks that failed together, in order of time.

    `count` is how many hang off what they share; where that was reset two disks are enough, as if
    it had no more. A disk that fails within 300 s of the last of them belongs to them. A second
    disk that hangs within a minute of one that failed alone before is no incident of its own.
    """
    least = 2 if count == 2 else TOGETHER_DISKS
    at = 0
    while at < len(disks):
        first, rest = disks[at], disks[at + 1 :]
        near = [each for each in rest if each.after(first) <= TOGETHER_SECONDS]
        hang = near and first.what.fault is near[0].what.fault is Fault.HANGS
        group = [first]
        if len(near) + 1 >= least or (hang and near[0].after(first) >= ALONE_SECONDS):
            for each in rest:
                if each.after(group[-1]) > BEFORE_SECONDS:
                    break
                group.append(each)
            yield group
        at += len(group)
