"""What stands on what, and stood there until lately: sysfs forgets it with the device. Pure.

What a device, an array or an adapter carries goes by the keys of incidents (rules/devices.py).
Units: seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.mounts import Mount
from iowarden.rules.devices import Change, adapter_identity, identity
from iowarden.rules.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block import Topology
    from iowarden.rules.devices import Event
    from iowarden.rules.stack import Carried

REMEMBERED_SECONDS = 300.0
"""So long what has ended counts as a cause of what it carried."""


@dataclass(frozen=True, slots=True)
class Above:
    """What stands on something.

    Fields: `key` is that of its incidents; `name` is the kernel's, or a mount point; `shown` is for
    people: 'md0 (raid1)'; `on` is the name of what carries it directly: 'sda1'; `mount`: it is a
    mount point.
    """

    key: str
    name: str
    shown: str
    on: str
    mount: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands on what now, and what did `until` lately; both by the key of what carries it."""

    now: Mapping[str, tuple[Above, ...]] = field(default_factory=dict)
    until: Mapping[str, Mapping[Above, float]] = field(default_factory=dict)

    def above(self, now: float) -> dict[str, frozenset[str]]:
        """Return by key of each object the keys of what stands on it, or did until lately."""
        keys = dict.fromkeys((*self.now, *self.until))
        return {
            key: frozenset(each.key for each in carried(self, key, now)) - {key} for key in keys
        }


NOTHING = Standing()


def remember(state: Standing, topology: Topology, mounts: Iterable[Mount], now: float) -> Standing:
    """Return what stands on what after a look, with what has ended since."""
    stack = Stack(topology, mounts)
    found: dict[str, dict[Above, None]] = {}
    for device in topology.devices.values():
        own = identity(topology, device.name)
        above = dict.fromkeys(_above(topology, each) for each in stack.on(device))
        found.setdefault(own.key, {}).update(above)
        if own.adapter:
            itself = Above(own.key, device.name, own.object, own.adapter)
            found.setdefault(adapter_identity(own.adapter).key, {}).update({itself: None, **above})
    until: dict[str, dict[Above, float]] = {}
    for key in dict.fromkeys((*state.until, *state.now)):
        ended = {**state.until.get(key, {}), **dict.fromkeys(state.now.get(key, ()), now)}
        there = found.get(key, {})
        lately = {a: at for a, at in ended.items() if a not in there and _is_late(at, now)}
        if lately:
            until[key] = lately
    return Standing({key: tuple(above) for key, above in found.items() if above}, until)


def carried(state: Standing, key: str, now: float) -> tuple[Above, ...]:
    """Return what stands on an object, and what did in the last 300 s."""
    ended = state.until.get(key, {}).items()
    return (*state.now.get(key, ()), *(above for above, at in ended if _is_late(at, now)))


def with_held(state: Standing, before: Topology, event: Event, now: float) -> Event:
    """Return an event of a disk that went or has another name, with what of it was held."""
    name = event.was if event.change is Change.RENAMED else event.name
    device = before.devices.get(name)
    if event.held or device is None or event.change is Change.ADDED:
        return event
    above = carried(state, event.identity.key, now)
    parts = {name, *device.partitions}
    return replace(
        event, held=tuple((a.on, a.name) for a in above if a.on in parts and not a.mount)
    )


def _is_late(at: float, now: float) -> bool:
    return now - at <= REMEMBERED_SECONDS


def _above(topology: Topology, each: Carried) -> Above:
    if isinstance(each.what, Mount):
        key = identity(topology, each.on).key
        return Above(key, each.name, f"{each.shown} ({each.what.kind})", each.on, mount=True)
    level = f" ({each.what.md.level})" if each.what is not None and each.what.md else ""
    return Above(identity(topology, each.name).key, each.name, f"{each.shown}{level}", each.on)
