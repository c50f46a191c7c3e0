"""Who is harmed: what the object of a mail carries, or carried until lately. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.zfs.pool_state import POOL
from iowarden.rules.faults import LOST_A_DISK, UNWRITTEN
from iowarden.rules.notices.mail import distinct, listed, lost_a_disk
from iowarden.rules.topology.device_identity import ADAPTER, ARRAY, ITSELF, identity
from iowarden.rules.topology.stack import unseen_uses
from iowarden.rules.topology.topology import dependents_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Sample
    from iowarden.rules.incidents.model import IncidentMember
    from iowarden.rules.notices.mail import Mail
    from iowarden.rules.topology.topology import Dependent, Dependents

WRITE_SPEED = "iowarden_device_write_bandwidth_bytes_per_second"
"""Has a sample for each disk that takes unwritten data."""
MAX_STALLED = 6
"""Disks of a write stall of which a mail lists what they carry."""
_BEHIND = re.compile(r"disk (host[0-9]+) ", re.ASCII)
"""Key of a disk behind an adapter that no program could read: 'disk host6 port 1'."""


def lines_of(mail: Mail) -> tuple[str, ...]:
    """Return what the object of an incident carries, or carried until lately.

    Of a write stall what is on the disks that take the data, of a file system where it is mounted.
    Nothing for anything else of the host as a whole, or its settings.
    """
    key, members, sources = mail.incident.key, mail.written, mail.sources
    topology, dependents, now = sources.topology, sources.dependents, sources.now
    if all(m.cleared_seconds is not None for m in members):
        return ()
    if key == ITSELF:
        return ("the monitoring of this host by iowarden; not the host itself",)
    active = [m for m in members if m.cleared_seconds is None]
    if not key.startswith((ADAPTER, ARRAY, POOL, "device ", "disk ")):
        stalled = any(m.name in UNWRITTEN for m in active)
        there = (above for held in dependents.now.values() for above in held if above.key == key)
        mounts = distinct(f"{above.shown} is on {above.on}" for above in there)
        return (
            tuple(_stalled(sources.measured.samples, topology, dependents, now))
            if stalled
            else mounts
        )
    own = distinct(_key(m, topology) for m in active)
    if key.startswith(ADAPTER):  # only what its faulty disks carry, if they are known
        own = tuple(each for each in own if each != key) or (key,)
        if own == (key,) and all(m.what == LOST_A_DISK for m in active):
            return ("Not known yet: which of its disks it lost.",)
    else:  # a disk that an adapter lost does not affect its other disks
        own = distinct((key, *(_key(m, topology) for m in active if not lost_a_disk(m))))
    lines = tuple(_carried_lines(own, dependents, now))
    if lines or key.startswith(ADAPTER):
        return lines
    if last := distinct(dict(m.labels).get("used_by") for m in members):  # of DeviceRemoved
        return tuple(f"on it when it disappeared: {each}" for each in last)
    if topology is None:
        return ("Not known: '/sys/block' has not been read yet.",)
    present = (name for name in topology.devices if identity(topology, name).key in own)
    if (name := next(present, "")) != "":
        return tuple(unseen_uses(topology, name, dependents.pools))
    behind = _BEHIND.match(key)  # only the driver of its adapter lists it
    shown = _carried_lines((f"{ADAPTER}{behind[1]}",), dependents, now) if behind else ()
    if behind and (lines := tuple(shown)):
        return (f"It is behind {behind[1]}; devices there, of this disk or of others:", *lines)
    unseen = "it is not in '/sys/block', and was not in the last 5 minutes"
    if key.startswith(POOL):
        unseen = "it has no volume, and no file system of it is mounted"
    return (f"Not known: {unseen}.",)


def _stalled(
    samples: Iterable[Sample], topology: Topology | None, dependents: Dependents, now: float
) -> Iterator[str]:
    """Yield what a write stall affects: all that write, and what is on the disks that take it."""
    yield "Each program of this host that writes: all disks share the limit of unwritten data."
    rates = {dict(s[1]).get("device", ""): s[2] for s in samples if s[0] == WRITE_SPEED}
    disks = sorted(rates, key=lambda name: rates[name])
    if not disks:
        yield "Not known: which disk the unwritten data is for."
    elif len(disks) > MAX_STALLED:
        yield f"Not known: for which of {len(disks)} disks most of it is."
    for name in disks if len(disks) <= MAX_STALLED else ():
        lines = tuple(_carried_lines((identity(topology, name).key,), dependents, now))
        yield from lines or (f"Not known: which file systems {name} carries.",)


def _carried_lines(own: Iterable[str], dependents: Dependents, now: float) -> Iterator[str]:
    """Yield a line for each array, volume or mount on objects, or formerly, with its carriers."""
    there = {above for each in dependents.now.values() for above in each}
    names = _mapped_names(dependents)
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for each in own:
        for above in dependents_of(dependents, each, now):
            below = found.setdefault((above.shown, _placed(each, above)), {})
            carrier = names.get(above.on, above.on)
            below[carrier] = below.get(carrier, False) or above in there
    for (shown, placed), below in found.items():
        still = [name for name, is_there in below.items() if is_there]
        past = [name for name, is_there in below.items() if not is_there]
        if still:
            before = f", and was on {listed(past)}" if past else ""
            yield f"{shown} is {placed} {listed(still)}{before}"
        else:
            yield f"{shown} was {placed} {listed(past)}"


def _mapped_names(dependents: Dependents) -> dict[str, str]:
    """Return by 'dm-3' the name of a volume or map, which is on something now or was lately."""
    places = (*dependents.until.values(), *dependents.now.values())
    every = (above for own in places for above in own)
    return {above.name: above.shown for above in every if above.name.startswith("dm-")}


def _placed(key: str, above: Dependent) -> str:
    if key.startswith(ADAPTER) and above.on == key.removeprefix(ADAPTER):
        return "attached to"
    return "on" if above.mount else "built on"


def _key(member: IncidentMember, topology: Topology | None) -> str:
    """Return the key of the object of a member.

    A disk whose serial number an old kernel does not report has the key of its device name.
    """
    device = dict(member.labels).get("device", "")
    named = identity(topology, device).key if device else ""
    known = topology is None or not named.startswith("device ") or device not in topology.devices
    return (member.subject if known else "") or named
