"""Events of software RAID arrays between two reads: failed, removed, rebuilt. Pure.

Source: mdadm(8), MONITOR MODE; its name of an event is StorageEvent.code. RebuildNN is not reported
(the series show the progress), nor SparesMissing and TestMessage, which depend on mdadm's
configuration.
Limits: changes that began and ended between two reads are not detected here; the kernel log has
them. A member that a user failed by command looks the same, but without an error before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.event import StorageEvent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.md.mdstat import ArrayMember, MdArray

SOURCE = "md"
KINDS = {
    "md_member_failed": "Fail: a member of an array failed",
    "md_spare_failed": "FailSpare: a spare, or a member that was being rebuilt, failed",
    "md_member_removed": "a member was removed from an array",
    "md_member_added": "a disk was added to an array",
    "md_spare_active": "SpareActive: a spare is now an active member",
    "md_spare_moved": "MoveSpare: a spare moved from one array to another",
    "md_array_degraded": "DegradedArray: an array has members missing, or more than before",
    "md_array_recovered": "an array has all its members again",
    "md_rebuild_started": "RebuildStarted: a rebuild, resync, check or reshape began",
    "md_rebuild_finished": "RebuildFinished: a rebuild, resync, check or reshape ended",
    "md_array_new": "NewArray: an array appeared",
    "md_array_disappeared": "DeviceDisappeared: an array no longer exists, or is no longer active",
}
_CODES = {kind: meaning.partition(":")[0] for kind, meaning in KINDS.items() if ":" in meaning}
_STOPPED = frozenset({"clear", "inactive"})


def md_events(
    before: Mapping[str, MdArray] | None, now: Mapping[str, MdArray], realtime_seconds: float
) -> tuple[StorageEvent, ...]:
    """Return the changes between two readings; None: first seen, nothing has changed.

    A member's event has the member as device and the array as place, like the kernel's lines. A
    container of external metadata (IMSM, DDF) is always inactive: it has no events.
    """
    if before is None:
        return ()
    former = {name: array for name, array in before.items() if array.state not in _STOPPED}
    running = {name: array for name, array in now.items() if array.state not in _STOPPED}
    found: list[tuple[str, str, str, str]] = []
    for name in sorted(former.keys() - running.keys()):
        state = f", its state is {now[name].state}" if name in now else ""
        found.append(("md_array_disappeared", name, "", f"{name} is no longer active{state}"))
    for name in sorted(running):
        array = running[name]
        if name not in former:
            found.append(
                ("md_array_new", name, "", f"{name} is active ({array.level or 'no level'})")
            )
            if array.degraded:
                found.append(_degraded(array))
            continue
        found += _members(former, running, name)
        found += _array(former[name], array)
    return tuple(
        StorageEvent(
            SOURCE,
            kind,
            text,
            device=device,
            place=place,
            code=_CODES.get(kind, ""),
            clock_seconds=realtime_seconds,
            realtime_seconds=realtime_seconds,
        )
        for kind, device, place, text in found
    )


def _members(
    former: Mapping[str, MdArray], running: Mapping[str, MdArray], name: str
) -> Iterator[tuple[str, str, str, str]]:
    old = {member.device: _role(member) for member in former[name].members}
    new = {member.device: _role(member) for member in running[name].members}
    for device in sorted(old.keys() | new.keys()):
        was, role = old.get(device), new.get(device)
        if role == was:
            continue
        kind, words = "", ""
        if role == "faulty":
            kind = "md_spare_failed" if was == "spare" else "md_member_failed"
            words = f"{device} failed in {name}" + (", as a spare" if was == "spare" else "")
        elif role is None:
            to = _home(device, running, former)
            kind = "md_spare_moved" if was == "spare" and to else "md_member_removed"
            words = f"{device} is no longer in {name}, where it was {was}"
            words += f": it is now in {to}" if to else ""
        elif was is None:
            kind, words = "md_member_added", f"{device} was added to {name}, it is {role}"
        elif (was, role) == ("spare", "active"):
            kind, words = "md_spare_active", f"{device} is now an active member of {name}"
        if kind:
            yield kind, device, name, words


def _home(device: str, running: Mapping[str, MdArray], former: Mapping[str, MdArray]) -> str:
    """Return the array to which a device moved, '' for none."""
    for name, array in running.items():
        had = former[name].members if name in former else ()
        if any(m.device == device for m in array.members) and not any(
            m.device == device for m in had
        ):
            return name
    return ""


def _array(old: MdArray, new: MdArray) -> Iterator[tuple[str, str, str, str]]:
    name = new.name
    if old.degraded is not None and new.degraded is not None:
        if new.degraded > old.degraded:
            yield _degraded(new)
        elif not new.degraded and old.degraded:
            yield "md_array_recovered", name, "", f"{name} has all its members"
    was, action = _running(old), _running(new)
    # Unknown is not idle: an attribute that was unreadable once ends nothing.
    if was and action != was and new.sync_action is not None:
        yield "md_rebuild_finished", name, "", f"{name}: {was} ended"
    if action and action != was and old.sync_action is not None:
        yield "md_rebuild_started", name, "", f"{name}: {action} began"


def _running(array: MdArray) -> str | None:
    """Return the synchronization that runs; one that waits for another array did not begin."""
    return array.sync_action if array.is_synchronizing else None


def _degraded(array: MdArray) -> tuple[str, str, str, str]:
    of = "" if array.raid_disks is None else f" of {array.raid_disks}"
    text = f"{array.name} has {array.degraded}{of} members missing"
    return "md_array_degraded", array.name, "", text


def _role(member: ArrayMember) -> str:
    """Return 'faulty', 'spare' (also one that is being rebuilt) or 'active'."""
    return next((state for state in ("faulty", "spare") if state in member.states), "active")
