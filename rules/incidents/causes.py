"""What explains what among active alerts: faults, the table of kinds, times. Pure.

A explains B when its kind can bring B's about, its object carries B's or did within 300 s, and it
began at most 30 s after B and either at most 300 s before, or blocks what is above it until now. Of
several causes the deepest explains, of equals the first. What several disks share is a cause
without an alert of its own: common_parents.py.
Units: seconds of the program's clock.
"""

from __future__ import annotations

import math
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from iowarden.collectors.dataclass import dataclass
from iowarden.rules import faults
from iowarden.rules.alerting.alerts import REDUNDANCY, AlertState
from iowarden.rules.faults import (
    CAUSES,
    HARMS,
    LOST_TO_ARRAY,
    SYMPTOMS,
    TOO_FEW_MEMBERS,
    Fault,
    Layer,
)
from iowarden.rules.topology.device_identity import ADAPTER, ITSELF, Identity, device_of
from iowarden.rules.topology.graph import HOST, layer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.collectors.model import Labels
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.faults import Meaning
    from iowarden.rules.incidents.model import Incident, IncidentMember
    from iowarden.rules.topology.graph import StorageGraph

BEFORE_SECONDS, AFTER_SECONDS = 300.0, 30.0
"""So long before what it explains, and after it, a cause may begin."""
ALONE_SECONDS = 8.0
"""A disk that failed so long before others did not fail because of what they share."""
TIMED_OUT_SECONDS = 12.0
"""A disk that hangs is not the reason of a reset of its adapter sooner: a command has to time out
first, after 30 s by default and 10 s where the host sets that, and then aborts and resets of the
disk have to fail. An adapter whose firmware stops is reset as soon as its driver notices that.
Source: kernel, drivers/scsi/sd.h, SD_TIMEOUT; drivers/scsi/scsi_error.c, scsi_eh_ready_devs;
drivers/scsi/mpt3sas/mpt3sas_base.c, FAULT_POLLING_INTERVAL, 1 s.
"""
GIVEN_UP_SECONDS = 600.0
"""For so long a connection may have failed that is given up: replacement_timeout of iSCSI is 120 s,
dev_loss_tmo of Fibre Channel 60 s, ctrl_loss_tmo of NVMe 600 s by default. Source: open-iscsi,
iscsid.conf; kernel, scsi_transport_fc.c, nvme/host/fabrics.h.
"""
RECONNECTED_SECONDS = 120.0
"""So long the requests of a session of iSCSI wait after its connection failed; no line reports that
it works again. Source: open-iscsi, iscsid.conf, node.session.timeo.replacement_timeout.
"""
WRITTEN_BACK_SECONDS = 35.0
"""So late the kernel notices that a write could not be done: what is dirty expires after 30 s, and
every 5 s what has expired is written. Source: kernel, mm/page-writeback.c, dirty_expire_interval,
dirty_writeback_interval.
"""
FIRST_READ_SECONDS = 5.0
"""What iowarden finds within that time after its start may have begun before it."""
Key = tuple["Labels", str]
STOPS = frozenset((Fault.GONE, Fault.FAILED, Fault.HANGS, Fault.SUSPENDED, Fault.STOPPED))
"""Kinds after which nothing on the object works, for as long as they last."""
_BROKEN = frozenset(
    (
        Fault.ERRORS,
        Fault.MARKED_FAULTY,
        Fault.FAILED,
        Fault.DEGRADED,
        Fault.EXHAUSTED,
        Fault.LOST,
        Fault.READ_ONLY,
    )
)
EXPLAINS: Mapping[Fault, frozenset[Fault]] = MappingProxyType(
    {
        **dict.fromkeys(STOPS, SYMPTOMS | CAUSES - {Fault.FULL}),
        **dict.fromkeys((Fault.SLOW, Fault.UNPROTECTED, Fault.HOT), SYMPTOMS | {Fault.SLOW}),
        **dict.fromkeys((Fault.ERRORS, Fault.LOST), SYMPTOMS | _BROKEN),
        **dict.fromkeys(
            (Fault.READ_ONLY, Fault.MARKED_FAULTY), SYMPTOMS | _BROKEN | {Fault.STOPPED}
        ),
        **dict.fromkeys((Fault.DEGRADED, Fault.EXHAUSTED), frozenset((Fault.SLOW, Fault.LOST))),
        Fault.FULL: _BROKEN | {Fault.SUSPENDED},
        # Of an adapter or a connection, see `explains`.
        Fault.RESETS: frozenset((Fault.HANGS, Fault.STALL)),
    }
)
"""By kind what it brings about in what is stacked on its object. Nothing else explains anything."""
_OF_PATH = (CAUSES | SYMPTOMS) - {Fault.FULL}
"""What a path's fault brings about in its map."""


@dataclass(frozen=True, slots=True)
class Fact:
    """An active alert, for correlation.

    Fields: `subject` '' is the host; it began between `earliest` and `began`, as far as polls
    show; `event`: it is a moment, and not a state; `silent`: no mail is due for it; `over`: its
    condition is false, while its alert still fires, since `ended`; `last` is the time of the last
    event.
    """

    key: Key
    subject: str
    object: str
    adapter: str
    what: Meaning
    layer: Layer
    began: float
    earliest: float
    event: bool = False
    firing: bool = True
    silent: bool = False
    over: bool = False
    last: float = -math.inf
    ended: float = -math.inf

    def after(self, other: Fact) -> float:
        """Return the least time by which it began after another one; 0: perhaps together."""
        return max(self.earliest - other.began, 0.0)

    def before(self, other: Fact) -> bool:
        """Whether it was so long before another one began that it did not bring that about.

        A write that could not be done while it lasted is noticed after its end.
        """
        noticed = self.ended if self.what.fault in STOPS and not other.what.symptom else -math.inf
        is_old = max(self.began, self.last) < other.earliest - BEFORE_SECONDS
        return is_old and noticed < other.earliest - WRITTEN_BACK_SECONDS

    @property
    def is_cause(self) -> bool:
        """Whether it can be a cause: an alert without current data explains nothing new.

        Nor does an adapter's line about a disk that is not known: one disk is not the adapter.
        """
        is_unknown_disk = self.what.fault is Fault.GONE and self.layer is Layer.DISK
        if is_unknown_disk and self.subject.startswith(ADAPTER):
            return False
        is_symptom_of_its_own = self.is_reset or self.is_connection or self.is_harm
        return self.firing and (self.what.fault in CAUSES or is_symptom_of_its_own)

    @property
    def name(self) -> str:
        """Return the name of its alert; '' of a cause without one."""
        return dict(self.key[0]).get("alertname", "")

    @property
    def is_harm(self) -> bool:
        """Whether it is that programs are blocked: that has symptoms of its own."""
        return bool(self.subject) and self.name in HARMS

    @property
    def is_lost_member(self) -> bool:
        """Whether a disk is lost to its array: gone, failed, or marked as faulty by it."""
        return self.layer is Layer.DISK and self.what.fault in LOST_TO_ARRAY

    @property
    def is_mere_symptom(self) -> bool:
        """Whether it is a symptom, and not that programs are harmed."""
        return self.what.symptom and self.name not in HARMS

    @property
    def is_reset(self) -> bool:
        """Whether an adapter was reset: a symptom of a disk, or its own fault."""
        resets = self.what.fault is Fault.RESETS and self.what.layer is not Layer.PATH
        return resets and self.subject.startswith(ADAPTER)

    @property
    def is_connection(self) -> bool:
        """Whether a connection failed and is retried: a symptom of what hangs above it."""
        return self.what.fault is Fault.RESETS and self.what.layer is Layer.PATH

    @property
    def identity(self) -> Identity:
        """Return the identity of its incident."""
        return Identity(self.subject or HOST, self.object or HOST, self.adapter)

    @property
    def order(self) -> tuple[bool, bool, Layer, bool, float, Key]:
        """Sort key of causes: not silenced ones first, then the deepest, what stops, the first.

        That programs are blocked explains only what nothing else does.
        """
        stops = self.what.fault in STOPS
        return self.silent, self.is_harm, self.layer, not stops, self.began, self.key


def meaning(alert: Alert) -> Meaning:
    """Return the meaning (fault and layer) of an alert."""
    try:
        found: Meaning = alert.known_meaning
    except AttributeError:
        return alert.remember("known_meaning", _meaning(alert))
    return found


def _meaning(alert: Alert) -> Meaning:
    condition, redundancy = alert.label("condition"), alert.annotation(REDUNDANCY)
    return faults.meaning(alert.name, condition, event=bool(alert.count), redundancy=redundancy)


def fact(
    alert: Alert,
    now: float,
    *,
    silent: bool = False,
    seen: Mapping[str, float] | None = None,
    started: float = -math.inf,
) -> Fact:
    """Return an alert for correlation; a lasting one began as many seconds ago as its value.

    A missing disk disappeared after it was last `seen`, as in StorageGraph; a connection that is
    given up had failed before. What iowarden found when it `started` may have begun at any time.
    """
    known = getattr(alert, "known_fact", None)
    if known is not None and known.silent is silent:
        return cast("Fact", known)
    what, began = meaning(alert), alert.active_seconds
    if what.lasts and not alert.count and alert.absent_seconds is None:
        began = min(began, now - alert.value)
    earliest = began
    if not alert.count and started <= began <= started + FIRST_READ_SECONDS:
        earliest = -math.inf
    elif what.fault is Fault.GONE and what.layer is Layer.PATH:
        earliest = began - GIVEN_UP_SECONDS
    elif what.fault is Fault.GONE and not alert.count:
        earliest = min(began, (seen or {}).get(alert.subject, began))
    found = Fact(
        alert.key,
        alert.subject,
        alert.object,
        alert.adapter,
        what,
        _layer(alert),
        began,
        earliest,
        bool(alert.count),
        alert.state is AlertState.FIRING,
        silent,
        alert.absent_seconds is not None,
        alert.last_seconds if alert.last_seconds is not None else began,
        -math.inf if alert.absent_seconds is None else alert.absent_seconds,
    )
    depends = what.lasts or what.fault is Fault.GONE  # on the time, or on when it was last seen
    return found if depends and not alert.count else alert.remember("known_fact", found)


def ended_fact(member: IncidentMember, incident: Incident) -> Fact:
    """Return a member that ended, for correlation: its adapter is no longer known.

    A server that did not respond does not yet: its line is old, and none reported the end.
    """
    return Fact(
        member.key,
        member.subject,
        incident.object,
        "",
        member.what,
        member.layer,
        member.since_seconds,
        member.since_seconds,
        silent=member.silenced,
        over=not member.awaits_line,
        ended=member.over_seconds or -math.inf,
    )


def _layer(alert: Alert) -> Layer:
    try:
        found: Layer = alert.known_layer
    except AttributeError:
        own = meaning(alert).layer
        found = max(own, layer_of(alert.subject)) if alert.subject else own
        alert.remember("known_layer", found)
    return found


def explained_by(
    facts: Iterable[Fact],
    known: Mapping[Key, Fact],
    shared: Iterable[Fact],
    graph: StorageGraph,
    shortages: Shortages,
) -> dict[Key, Fact]:
    """Return for each alert that another one explains the deepest known cause.

    `shared` are causes without an alert, and `known` what they explain. Two causes that stop their
    objects and explain one fault above both belong together, to the first of them. So do two faults
    of one object: it is broken for the reason of the first.
    """
    every, found = [*facts, *shared], dict(known)
    causes = _Causes(every, graph)
    for each in every:
        if each.key in found:
            continue
        able = [cause for cause in causes.near(each) if explains(cause, each, graph)]
        able = [cause for cause in able if not shortages.was_replaced(cause, each)]
        if able:
            able = sorted(able, key=lambda a: _of_another_time(a, each, able))
            found[each.key] = able[0]
            for other in able[1:]:
                beside = _meet(able[0], other, each) and not _was_lost_before(other, each, able)
                if beside and other.key not in _chain(able[0].key, found):
                    found.setdefault(other.key, able[0])
    reasons: dict[str, tuple[float, Fact]] = {}
    for each in sorted(every, key=lambda fact: fact.began):
        if each.key in found and each.subject and not each.what.symptom:
            reasons.setdefault(each.subject, (each.began, found[each.key]))
    for each in every:
        since, cause = reasons.get(each.subject, (math.inf, each))
        if since <= max(each.began, each.last) + AFTER_SECONDS and cause.layer < each.layer:
            found.setdefault(each.key, cause)
    deepest = {key: _deepest(key, found) for key in found}
    return {key: cause for key, cause in deepest.items() if cause is not None}


class Shortages:
    """Since when arrays are short of members, and which disks they were short of before."""

    def __init__(self, incidents: Iterable[Incident] = ()) -> None:
        """Read nothing yet: only when a fault begins. `incidents` are those that are open."""
        self._incidents = incidents

    @cached_property
    def _reported(self) -> tuple[dict[str, float], dict[str, list[tuple[float, float]]]]:
        """When each disk was last marked as faulty, and from when until when arrays were short."""
        marked: dict[str, float] = {}
        short: dict[str, list[tuple[float, float]]] = {}
        for incident in self._incidents:
            for each in incident.members:
                if each.what.fault is Fault.MARKED_FAULTY:
                    at = max(each.since_seconds, each.last_seconds or -math.inf)
                    marked[each.subject] = max(at, marked.get(each.subject, at))
            for record in incident.faults:
                if record.fault in TOO_FEW_MEMBERS:
                    until = math.inf if record.until_seconds is None else record.until_seconds
                    times = short.setdefault(record.subject, [])
                    times.append((record.since_seconds, until))
                    if record.previous_end_seconds is not None:
                        times.append((record.began_seconds, record.previous_end_seconds))
        return marked, short

    @cached_property
    def _away(self) -> dict[str, list[tuple[float, str]]]:
        """Since when the disk of an incident is lost to its array, and its key, by array."""
        away: dict[str, list[tuple[float, str]]] = {}
        for incident in self._incidents:
            lost = [
                each.since_seconds
                for each in incident.members
                if each.subject == incident.key
                and each.layer is Layer.DISK
                and each.what.fault in LOST_TO_ARRAY
                and each.cleared_seconds is None
                and not each.count
            ]
            short = {each.subject for each in incident.faults if each.fault in TOO_FEW_MEMBERS}
            for array in short if lost else ():
                away.setdefault(array, []).append((max(lost), incident.key))
        return away

    def since(self, array: str, began: float) -> float:
        """Return since when an array is short: a raid6 that loses two since the first of them.

        `began` is when its fault of now began.
        """
        for start, end in sorted(self._reported[1].get(array, ()), reverse=True):
            if start < began <= end + FIRST_READ_SECONDS:
                began = start
        return began

    def whole_until(self, array: str, began: float) -> float:
        """Return when an array last had all of its members; -inf if that is not known."""
        since = self.since(array, began)
        ends = (end for _, end in self._reported[1].get(array, ()) if end < since)
        return max(ends, default=-math.inf)

    def of_another(self, array: Fact, disk: Fact) -> str:
        """Return the incident of the first disk that an array has been short of, and still is.

        Not of the given disk; '' if there is none. What a disk that left carried is forgotten after
        five minutes: that the array lost it, and was not whole since, its incident shows.
        """
        least = self.since(array.subject, array.began) - AFTER_SECONDS
        away = self._away.get(array.subject, ())
        before = sorted((at, key) for at, key in away if at >= least and key != disk.subject)
        return before[0][1] if before else ""

    def was_replaced(self, disk: Fact, array: Fact) -> bool:
        """Whether an array gave up a disk, and was whole before it became short now."""
        if array.what.fault not in TOO_FEW_MEMBERS or disk.layer is not Layer.DISK:
            return False
        since = self.since(array.subject, array.began)
        if disk.is_lost_member and max(disk.began, disk.last) >= since - AFTER_SECONDS:
            return False  # it was put back, and is lost anew
        at = self._reported[0].get(disk.subject, math.inf)
        return at < self.whole_until(array.subject, array.began)


def _of_another_time(cause: Fact, effect: Fact, able: Iterable[Fact]) -> tuple[bool, ...]:
    """Sort key of the causes of one effect.

    Of what began lately it is the effect, and not of what is gone for days; programs wait for what
    holds, and not for what has ended; errors that are counted are of the device that a line names.
    """
    is_over = cause.over and not effect.subject
    return (
        _is_of_another_device(cause, effect, able),
        cause.before(effect),
        _was_lost_before(cause, effect, able),
        is_over,
    )


def _is_of_another_device(cause: Fact, effect: Fact, able: Iterable[Fact]) -> bool:
    """Whether a file system counts errors of a device, and a line names another one."""
    line = faults.ERRORS_OF_DEVICES.get(effect.name)
    named = {each.subject for each in able if each.name == line}
    return bool(named) and cause.subject not in named


def _was_lost_before(disk: Fact, array: Fact, able: Iterable[Fact]) -> bool:
    """Whether an array is short not of a disk, but of another one that it lost when it became so.

    The array was whole in between: the disk that failed first is not what is to be replaced now. A
    disk that is still away is, as far as is known: a raid6 loses two one after the other. A hang
    that ended then is not the reason, of whichever disk.
    """
    since = array.began - AFTER_SECONDS
    is_older = (disk.event or disk.over) and max(disk.began, disk.last) < since
    if array.what.fault not in TOO_FEW_MEMBERS or not is_older:
        return False
    return any(
        each.is_lost_member and (disk.over or each.subject != disk.subject) and each.began >= since
        for each in able
    )


def _meet(first: Fact, second: Fact, upper: Fact) -> bool:
    """Whether two causes belong together because of one fault of what is stacked on both."""
    stops = first.what.fault in STOPS and second.what.fault in STOPS
    above = Layer.VOLUME <= upper.layer <= Layer.FILE_SYSTEM and upper.subject not in {"", ITSELF}
    beside = first.subject != second.subject and first.layer is second.layer is Layer.DISK
    return stops and above and beside and not upper.what.symptom


class _Causes:
    """Causes in order, indexed by what they may explain: a thousand disks may fail at once."""

    def __init__(self, facts: Sequence[Fact], graph: StorageGraph) -> None:
        causes = sorted((each for each in facts if each.is_cause), key=lambda each: each.order)
        affected = {each.subject for each in facts}
        self._holding = [
            each for each in causes if each.what.blocks_programs or each.is_harm or each.is_reset
        ]
        self._by_object: dict[str, list[Fact]] = {}
        reached: dict[str, list[str]] = {}
        for subject in affected:
            if device := device_of(subject):
                reached.setdefault(device, []).append(subject)
        for lower, maps in graph.maps.items():
            for name in maps:
                reached.setdefault(name, []).append(lower)
        for each in causes:
            upper = {each.subject, *reached.get(each.subject, ())}
            upper |= graph.above.get(each.subject, frozenset()) & affected
            if each.is_harm:  # its lines in the kernel's log are about what is below it
                upper |= {one for one in affected if graph.carries(one, each.subject)}
            if each.adapter:  # a device is not always known to be on it, and the other way round
                upper.add(f"{ADAPTER}{each.adapter}")
            for subject in upper:
                self._by_object.setdefault(subject, []).append(each)

    def near(self, fact: Fact) -> Iterable[Fact]:
        """Return the causes that can explain an alert: of its adapter, or of what carries it."""
        if fact.subject in {"", ITSELF}:
            return self._holding
        below = self._by_object.get(fact.subject, [])
        if fact.is_connection:
            return sorted(
                {each.key: each for each in (*below, *self._holding)}.values(),
                key=lambda f: f.order,
            )
        adapter = f"{ADAPTER}{fact.adapter}"
        if not fact.adapter or fact.subject == adapter:
            return below
        own = [each for each in self._by_object.get(adapter, ()) if each.subject == adapter]
        return sorted({each.key: each for each in (*below, *own)}.values(), key=lambda f: f.order)


def _chain(effect: Key, found: Mapping[Key, Fact]) -> dict[Key, Fact]:
    """Return the cause of an alert, its cause and so on, up to the last one or round once."""
    chain: dict[Key, Fact] = {}
    cause = found.get(effect)
    while cause is not None and cause.key not in chain:
        chain[cause.key] = cause
        cause = found.get(cause.key)
    return chain


def _deepest(effect: Key, found: Mapping[Key, Fact]) -> Fact | None:
    """Return the last cause of a chain; None for the first of those that explain each other."""
    chain = _chain(effect, found)
    last = list(chain.values())[-1]
    if (again := found.get(last.key)) is None:
        return last
    ring = list(chain.values())[list(chain).index(again.key) :]
    first = min(ring, key=lambda fact: fact.order)
    return None if first.key == effect else first


def explains(a: Fact, b: Fact, graph: StorageGraph) -> bool:
    """Whether a cause explains the alert of another object."""
    is_other = a.subject != b.subject and a.is_cause
    if a.is_harm or not is_other:
        return is_other and _is_of_harm(a, b, graph)
    of_path = a.subject in graph.maps.get(b.subject, ())  # a path is lost: that is the map's fault
    able = _OF_PATH if of_path else EXPLAINS.get(_kind(a), frozenset())
    # The line of a path that is not back, however long before the map was read, or after.
    is_unused_path = of_path and b.is_connection and not (a.over or b.over)
    is_of_another_time = a.after(b) > AFTER_SECONDS or (a.before(b) and not _holds(a, b))
    if b.what.fault not in able or (is_of_another_time and not is_unused_path):
        return False
    if b.subject in {"", ITSELF}:  # a host's stall, a collector that waits with it
        pressure = b.what.fault is Fault.PRESSURE
        # All disks of an adapter that is reset wait: for seconds before, and until it is done.
        resets = a.is_reset and abs(a.began - b.began) <= AFTER_SECONDS
        return (a.what.blocks_programs or resets) and b.what.symptom and not pressure
    if a.is_reset:
        own = f"{ADAPTER}{b.adapter}" == a.subject or graph.carries(a.subject, b.subject)
        return own and b.layer is Layer.DISK and a.began - b.began < TIMED_OUT_SECONDS
    if a.is_connection or (b.is_connection and _waits_for(b, a, graph)):
        return _waits_for(a, b, graph)
    if b.is_reset and b.began - a.began < TIMED_OUT_SECONDS and a.what.fault is Fault.HANGS:
        return False
    if b.subject == f"{ADAPTER}{a.adapter}":
        # It resets what does not answer; otherwise it is at fault.
        lost = b.what.fault is Fault.GONE and b.layer is Layer.DISK  # 'removing handle': it is a's
        starved = a.what.fault is Fault.SLOW and b.what.fault is Fault.PRESSURE
        return (lost or starved or b.what.fault is Fault.RESETS) and a.layer is Layer.DISK
    if a.subject == f"{ADAPTER}{b.adapter}":
        return a.layer < b.layer or (
            b.layer is Layer.ADAPTER and graph.carries(a.subject, b.subject)
        )
    is_behind = b.is_connection and a.what.fault in STOPS and _is_behind(a, b, graph)
    if of_path or is_behind or b.subject in graph.maps.get(a.subject, ()):
        return of_path or is_behind
    # A volume looks like a disk: the topology is more exact than layers.
    return graph.carries(a.subject, b.subject)


def _is_of_harm(freeze: Fact, b: Fact, graph: StorageGraph) -> bool:
    """Whether something is a line of the kernel's log about the wait that blocks programs.

    Its tasks are blocked for 120 s, or a link below it is reset.
    """
    if freeze.over or freeze.after(b) > AFTER_SECONDS:
        return False
    if b.subject in {"", ITSELF}:
        return b.what.fault is Fault.HUNG
    return b.what.fault is Fault.RESETS and graph.carries(b.subject, freeze.subject)


def _waits_for(connection: Fact, disk: Fact, graph: StorageGraph) -> bool:
    """Whether a LUN hangs because its connection failed: before a command can have timed out.

    A storage array that hangs still answers pings; only then the initiator gives up the connection.
    A path of a map is that map's matter.
    """
    is_of_host = f"{ADAPTER}{disk.adapter}" == connection.subject
    is_carried = is_of_host or graph.carries(connection.subject, disk.subject)
    hangs = disk.what.fault is Fault.HANGS and disk.layer is Layer.DISK
    later = connection.began - disk.began
    is_near = -RECONNECTED_SECONDS <= later < TIMED_OUT_SECONDS
    is_lun = is_carried and disk.subject not in graph.maps
    return connection.is_connection and hangs and is_near and is_lun


def _is_behind(a: Fact, connection: Fact, graph: StorageGraph) -> bool:
    """Whether what stands is reached through a connection that failed.

    A connection may be known by its number alone ('connection1:0', 'osd12'): then it is that of
    the multipath maps and network block devices.
    """
    if graph.carries(connection.subject, a.subject):
        return True
    is_unknown = connection.subject not in graph.above and connection.subject not in graph.parents
    return is_unknown and (a.subject in graph.all_maps() or layer_of(a.subject) is Layer.NETWORK)


def _kind(a: Fact) -> Fault:
    """Return the kind of a cause: of a disk that holds a last copy its errors are the fault."""
    last_copy = a.what.fault is Fault.EXHAUSTED and a.what.layer is Layer.DISK
    return Fault.ERRORS if last_copy else a.what.fault


def _holds(a: Fact, b: Fact) -> bool:
    """Whether a cause that began long before still has that effect.

    Programs wait for what hangs; what is gone only refuses, so that nothing of the host stands
    because of it an hour later. An adapter may be called impaired for years while its disks work.
    """
    if a.what.ends_by_line and b.what.symptom:
        return not a.over
    if a.event or a.over:
        return False
    if b.what.symptom:
        return a.what.lasts
    return a.what.fault in STOPS and a.layer > Layer.ADAPTER
