"""Root causes among active alerts: by layers, and by which object carries which. Pure.

A explains B when A's layer is deeper, A's object carries B's or did within 300 s, and A began at
most 300 s before or 30 s after B. What blocks programs (a hang, a missing object) explains stalls
of the host for as long as it lasts. Of several causes the deepest explains, of equals the first.
An adapter is a cause when its disks fail together and none failed alone before; else that disk is
the cause, and the resets of the adapter are its symptom.
Units: seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, cast

from iowarden.collectors.dataclass import dataclass
from iowarden.rules import faults
from iowarden.rules.alerting.alerts import REDUNDANCY, AlertState
from iowarden.rules.faults import CAUSES, Fault, Layer
from iowarden.rules.topology.device_identity import (
    ADAPTER,
    ARRAY,
    FABRIC,
    ITSELF,
    Identity,
    adapter_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.model import Labels
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.faults import Meaning

HOST = "host"
BEFORE_SECONDS, AFTER_SECONDS = 300.0, 30.0
"""So long before what it explains, and after it, a cause may begin."""
TOGETHER_SECONDS, TOGETHER_DISKS = 60.0, 3
"""So many disks failing within that time are a fault of the adapter; both, if it has two."""
ALONE_SECONDS = 8.0
"""A disk that failed so long before the others did not fail because of its adapter."""
GIVEN_UP_SECONDS = 600.0
"""For so long a connection may have failed that is given up: replacement_timeout of iSCSI is 120 s,
dev_loss_tmo of Fibre Channel 60 s, ctrl_loss_tmo of NVMe 600 s by default. Source: open-iscsi,
iscsid.conf; kernel, scsi_transport_fc.c, nvme/host/fabrics.h.
"""
Key = tuple["Labels", str]
_MAP_SUFFERS = frozenset((Fault.HANGS, Fault.STOPPED, Fault.DEGRADED))
_SUFFERS = frozenset((Fault.HANGS, Fault.SLOW, Fault.GONE, Fault.FAILED, Fault.RESETS))
_EXPLAINED = faults.SYMPTOMS | CAUSES - {Fault.FULL}
_LAYERS = (
    ("adapter ", Layer.ADAPTER),
    (ARRAY, Layer.VOLUME),
    ("device md", Layer.ARRAY),
    ("device dm-", Layer.MAPPED),
    ("device loop", Layer.MAPPED),
    ("device bcache", Layer.MAPPED),
    ("device drbd", Layer.MAPPED),
    ("device zd", Layer.MAPPED),
    ("device nbd", Layer.NETWORK),
    ("device rbd", Layer.NETWORK),
    ("device zram", Layer.MAPPED),
    ("disk ", Layer.DISK),
    ("device ", Layer.DISK),
    ("file system ", Layer.FILE_SYSTEM),
)


def layer_of(subject: str) -> Layer:
    """Return the layer of an object, by its key."""
    return next((layer for start, layer in _LAYERS if subject.startswith(start)), Layer.HOST)


@dataclass(frozen=True, slots=True)
class CauseContext:
    """The topology of the host, for correlation.

    Fields: `above` is by object what it carries, or carried a moment ago; `disks` is the number of
    disks of each adapter, now or a moment ago, by name; `seen` is when a missing disk was last
    seen; `maps` are the multipath maps of each disk or LUN with paths; `drivers` is the name of an
    adapter or of its driver in the kernel log.
    """

    above: Mapping[str, frozenset[str]] = field(default_factory=dict)
    disks: Mapping[str, int] = field(default_factory=dict)
    seen: Mapping[str, float] = field(default_factory=dict)
    maps: Mapping[str, frozenset[str]] = field(default_factory=dict)
    drivers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fact:
    """An active alert, for correlation.

    Fields: `subject` '' is the host; it began between `earliest` and `began`, as far as polls
    show; `silent`: no mail is due for it.
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

    def after(self, other: Fact) -> float:
        """Return the least time by which it began after another one; 0: perhaps together."""
        return max(self.earliest - other.began, 0.0)

    @property
    def is_cause(self) -> bool:
        """Whether it can be a cause: an alert without current data explains nothing new."""
        return self.firing and self.what.fault in CAUSES

    @property
    def identity(self) -> Identity:
        """Return the identity of its incident."""
        return Identity(self.subject or HOST, self.object or HOST, self.adapter)

    @property
    def order(self) -> tuple[bool, Layer, float, Key]:
        """Sort key of causes: not silenced ones first, then the deepest, then the first."""
        return self.silent, self.layer, self.began, self.key


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
    alert: Alert, now: float, *, silent: bool = False, seen: Mapping[str, float] | None = None
) -> Fact:
    """Return an alert for correlation; a lasting one began as many seconds ago as its value.

    A missing disk disappeared after it was last `seen`, as in CauseContext; a connection that is
    given up had failed before.
    """
    known = getattr(alert, "known_fact", None)  # of an event: nothing of it depends on the time
    if known is not None and known.silent is silent:
        return cast("Fact", known)
    what, began = meaning(alert), alert.active_seconds
    if what.lasts and not alert.count and alert.absent_seconds is None:
        began = min(began, now - alert.value)
    earliest = began
    if what.fault is Fault.GONE and what.layer is Layer.PATH:
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
    )
    return alert.remember("known_fact", found) if alert.count else found


def _layer(alert: Alert) -> Layer:
    try:
        found: Layer = alert.known_layer
    except AttributeError:
        own = meaning(alert).layer
        found = max(own, layer_of(alert.subject)) if alert.subject else own
        alert.remember("known_layer", found)
    return found


def explained(facts: Iterable[Fact], around: CauseContext) -> dict[Key, Fact]:
    """Return for each alert that another one explains the deepest known cause.

    The cause of disks that fail together may be one without an alert: their adapter.
    """
    known = list(facts)
    found, own = _together(known, around)
    causes = _Causes((*known, *own), around)
    for each in known:
        if each.key not in found:
            cause = next((a for a in causes.near(each) if explains(a, each, around)), None)
            if cause is not None:
                found[each.key] = cause
    return {key: _deepest(cause, found) for key, cause in found.items()}


class _Causes:
    """Causes in order, indexed by what they may explain: a thousand disks may fail at once."""

    def __init__(self, facts: Iterable[Fact], around: CauseContext) -> None:
        causes = sorted((each for each in facts if each.is_cause), key=lambda each: each.order)
        self._holding = [each for each in causes if each.what.blocks_programs]
        self._by_object: dict[str, list[Fact]] = {}
        reached: dict[str, list[str]] = {}
        for lower, maps in around.maps.items():
            for name in maps:
                reached.setdefault(name, []).append(lower)
        for each in causes:
            upper = (*around.above.get(each.subject, ()), *reached.get(each.subject, ()))
            # A device of an adapter is not always known to be on it, and the other way round.
            reset = {f"{ADAPTER}{each.adapter}"} if each.adapter else set()
            for subject in {*upper, *reset, each.subject}:
                self._by_object.setdefault(subject, []).append(each)

    def near(self, fact: Fact) -> Iterable[Fact]:
        """Return the causes that can explain an alert: of its adapter, or of what carries it."""
        if fact.subject in {"", ITSELF}:
            return self._holding
        below = self._by_object.get(fact.subject, [])
        adapter = f"{ADAPTER}{fact.adapter}"
        if not fact.adapter or fact.subject == adapter:
            return below
        own = [each for each in self._by_object.get(adapter, ()) if each.subject == adapter]
        return sorted({each.key: each for each in (*below, *own)}.values(), key=lambda f: f.order)


def _deepest(cause: Fact, found: Mapping[Key, Fact]) -> Fact:
    seen = {cause.key}
    while (further := found.get(cause.key)) is not None and further.key not in seen:
        seen.add(further.key)
        cause = further
    return cause


def explains(a: Fact, b: Fact, around: CauseContext) -> bool:
    """Whether a cause explains the alert of another object."""
    if a.subject == b.subject or not a.is_cause or b.what.fault not in _EXPLAINED:
        return False
    if a.what.fault is Fault.SLOW and not b.what.symptom:
        return False  # that a disk is slow breaks nothing
    early = a.began < b.began - BEFORE_SECONDS
    lasts = not a.event and a.what.lasts and b.what.symptom
    if a.after(b) > AFTER_SECONDS or (early and not lasts):
        return False
    if b.subject in {"", ITSELF}:  # a host's stall, a collector that waits with it
        pressure = b.what.fault is Fault.PRESSURE
        return a.what.blocks_programs and b.what.symptom and not pressure
    if (
        b.subject == f"{ADAPTER}{a.adapter}"
    ):  # it resets what does not answer; otherwise it is at fault
        lost = b.what.fault is Fault.GONE and b.layer is Layer.DISK  # 'removing handle': it is a's
        starved = a.what.fault is Fault.SLOW and b.what.fault is Fault.PRESSURE
        return (lost or starved or b.what.fault is Fault.RESETS) and a.layer is Layer.DISK
    if a.subject == f"{ADAPTER}{b.adapter}":
        return a.layer < b.layer
    if b.subject in around.maps.get(a.subject, ()):  # paths are lost: the fault is that of the map
        return False
    if a.subject in around.maps.get(b.subject, ()):
        return True
    # A volume looks like a disk: the topology is more exact than layers.
    return b.subject in around.above.get(a.subject, ())


def _together(facts: Iterable[Fact], around: CauseContext) -> tuple[dict[Key, Fact], list[Fact]]:
    """Return the causes of disks of one adapter that fail together, and these adapters.

    The adapter is the cause if three of its disks began within a minute (both of two), unless one
    failed alone before them: then that disk is. One disk can make others wait or fail, but not
    disappear. Multipath maps that lose paths or hang together have the fabric in common, no disk.
    """
    by_adapter: dict[str, list[Fact]] = {}
    carried = set(around.maps)
    maps = {name for own in around.maps.values() for name in own}
    for key, above in around.above.items():
        if not key.startswith(ADAPTER):
            carried |= above
    for each in facts:
        is_disk = each.layer is Layer.DISK and each.subject.startswith(("disk ", "device "))
        suffers = each.what.fault in _SUFFERS or each.event
        if each.subject in maps and each.what.fault in _MAP_SUFFERS:
            by_adapter.setdefault(FABRIC, []).append(each)
        elif each.adapter and is_disk and suffers and each.subject not in carried:
            by_adapter.setdefault(each.adapter, []).append(each)
    found: dict[Key, Fact] = {}
    adapters: list[Fact] = []
    for adapter, own in by_adapter.items():
        disks: dict[str, Fact] = {}
        for each in sorted(own, key=lambda f: (f.began, f.subject, f.key)):
            disks.setdefault(each.subject, each)
        count = len(maps) if adapter == FABRIC else around.disks.get(adapter, 0)
        group = _first_together(list(disks.values()), count)
        if not group or (adapter == FABRIC and len(group) < min(count, TOGETHER_DISKS)):
            continue
        first, second = group[:2]
        lost = sum(each.what.fault is Fault.GONE for each in group[1:])
        slow = all(each.what.fault is Fault.SLOW for each in group)
        # When a disk became slow is known to ten seconds only: their order proves nothing.
        alone = second.after(first) >= ALONE_SECONDS and lost < TOGETHER_DISKS and not slow
        if alone and adapter != FABRIC:
            cause = first
        else:
            key = f"{ADAPTER}{adapter}"
            cause = replace(
                first,
                key=((("adapter", adapter),), key),
                subject=key,
                object=adapter_text(adapter, around.drivers.get(adapter, "")),
                what=faults.Meaning(Fault.SLOW if slow else Fault.FAILED, Layer.ADAPTER),
                layer=Layer.ADAPTER,
                event=False,
                silent=all(each.silent for each in own),
            )
            adapters.append(cause)
        subjects = {each.subject for each in group} - {cause.subject}
        found |= {
            each.key: cause
            for each in own
            if each.subject in subjects and each.began >= first.earliest
        }
    return found, adapters


def _first_together(disks: list[Fact], count: int) -> list[Fact]:
    """Return the disks, in order of time, that failed together; [] if none did.

    A disk that fails within 300 s of the last of them belongs to them. A second disk that hangs
    within a minute of one that failed alone before is no incident of its own either.
    """
    least = 2 if count == 2 else TOGETHER_DISKS
    for at, first in enumerate(disks):
        rest = disks[at + 1 :]
        near = [each for each in rest if each.after(first) <= TOGETHER_SECONDS]
        hang = near and first.what.fault is near[0].what.fault is Fault.HANGS
        if len(near) + 1 >= least or (hang and near[0].after(first) >= ALONE_SECONDS):
            group = [first]
            for each in rest:
                if each.after(group[-1]) > BEFORE_SECONDS:
                    break
                group.append(each)
            return group
    return []
