"""State of md arrays over time: degraded, not running, read-only, mismatches, overdue checks.

Source: kernel, admin-guide/md.rst ('RAID arrays in sysfs').
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Labels, Sample
from iowarden.rules.signals import baseline
from iowarden.rules.topology.redundancy import BUILDING, PARITY
from iowarden.rules.topology.stack import DeviceStack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.rules.signals.baseline import Remembered
    from iowarden.rules.signals.signal import Pairs, View

_COPIES = frozenset({"raid1", "raid10"})
_MADE_SHORT = frozenset({"raid4", "raid5"})
"""Levels that mdadm creates one member short, except in containers. Source: mdadm 4.6, Create.c."""
_WRITABLE = frozenset({"active", "active-idle", "clean", "write-pending"})
WHOLE_CHECK_RATIO = 0.9
"""A check last seen below this progress may have been interrupted, so it resets nothing."""


_READ = " read"


def complete_checks(state: Mapping[str, Pairs]) -> dict[str, float]:
    """Return when the last complete check of each array ended, as far as iowarden saw it."""
    found = {key: pairs[0][0] for key, pairs in state.items() if key.endswith(_READ) and pairs}
    return {key.removesuffix(_READ): at for key, at in found.items()}


def _array_changes(
    remembered: Remembered, arrays: Mapping[str, MdArray], view: View
) -> Iterator[Sample]:
    """Yield the samples of every array. The state is by array and name ('md0 checked')."""
    now = view.inputs.now_seconds
    for array in arrays.values():
        if array.state == "clear":  # being created or disassembled
            continue
        labels = (("device", array.name),)
        yield from _stopped(array)
        if array.state == "inactive":
            continue
        yield from _access(remembered, array, labels, now)
        yield from _members(remembered, array, now)
        if array.is_synchronizing:
            pair = ("action", array.sync_action or "")
            ratio = array.sync_done_ratio or 0.0
            yield "iowarden_md_sync_running_ratio", (pair, *labels), ratio
        yield from _missing(remembered, array, labels, view)
        if array.level in PARITY.keys() | _COPIES:
            yield from _checked(remembered, array, labels, now)


def _stopped(array: MdArray) -> list[Sample]:
    """Return whether an array does not run; nothing for a container, which is always inactive."""
    if array.is_container and array.state == "inactive":
        return []
    spare = PARITY.get(array.level or "")
    failed = spare is not None and (array.degraded or 0) > spare
    states = {
        "broken": failed or array.state == "broken",
        "inactive": array.state == "inactive",
    }
    return [
        ("iowarden_md_not_running", (("device", array.name), ("state", state)), float(holds))
        for state, holds in states.items()
    ]


def _access(remembered: Remembered, array: MdArray, labels: Labels, now: float) -> list[Sample]:
    key = f"{array.name} writable"
    if array.state in _WRITABLE:
        baseline.seen(remembered, key, 1.0, now)
    turned = array.state == "readonly" and key in remembered
    return [("iowarden_md_became_read_only", labels, float(turned))]


def _missing(remembered: Remembered, array: MdArray, labels: Labels, view: View) -> list[Sample]:
    """Return the missing members, without those that a new or growing array is being filled with.

    The kernel has no such count for a level without redundancy; a raid0 may become a raid5.
    """
    if array.degraded is None and array.level != "raid0":
        return []
    now, name = view.inputs.now_seconds, array.name
    size, disks, made = f"{name} whole", f"{name} disks", f"{name} made"
    # Another size is another array of this name, or a grown one: it was not complete before.
    own = size in remembered and remembered[size][0][1] == float(array.size_bytes or 0)
    before = remembered[disks][0][1] if own and disks in remembered else None
    grown = None if before is None else (array.raid_disks or 0) - before
    being_made = being_grown = False
    if not array.degraded:
        baseline.seen(remembered, size, float(array.size_bytes or 0), now)
        baseline.seen(remembered, disks, float(array.raid_disks or 0), now)
        remembered.pop(made, None)
    elif before is None or grown:
        being_made = before is None and _is_made(remembered, made, array, view)
        being_grown = (
            grown == array.degraded
            and array.sync_action in BUILDING
            and sum("faulty" not in each.states for each in array.members)
            >= (array.raid_disks or 0)
        )
        if grown and array.degraded > grown:  # from now on a lost member's slot may be filled
            remembered[disks] = ((now, 0.0),)
    missing = 0.0 if being_made or being_grown else float(array.degraded or 0)
    return [] if array.degraded is None else [("iowarden_md_missing_members", labels, missing)]


def _is_made(remembered: Remembered, key: str, array: MdArray, view: View) -> bool:
    """Whether an array that is one member short, and was never complete, is being created.

    mdadm creates a raid5 with its last disk as a spare, onto which it recovers. A disk replaced in
    the last slot looks the same: if the array was in use when it was first seen, it is a
    replacement.
    """
    last = (array.raid_disks or 0) - 1
    slots = {member.slot: member.states for member in array.members if member.slot is not None}
    short = (
        array.level in _MADE_SHORT
        and array.degraded == 1
        and array.sync_action == "recover"
        and not (array.metadata or "").startswith("external:")
        and all("in_sync" in slots.get(slot, ()) for slot in range(last))
        and "spare" in slots.get(last, ())
    )
    topology = view.inputs.snapshot.block
    mounts = view.inputs.snapshot.mounts
    device = topology.devices.get(array.name) if topology is not None else None
    if not short or topology is None or device is None or mounts is None or key in remembered:
        return short
    if DeviceStack(topology, mounts.mounts).on(device.name):
        return False
    remembered[key] = ((view.inputs.now_seconds, 1.0),)
    return True


def _members(remembered: Remembered, array: MdArray, now: float) -> Iterator[Sample]:
    for member in array.members:
        if member.errors_total is None:
            continue
        key = f"{array.name} {member.device} errors"
        counted = baseline.recent(remembered.get(key), member.errors_total, now)
        remembered[key] = baseline.pairs(counted)
        both = (("device", array.name), ("member", member.device))
        yield "iowarden_md_member_recent_errors", both, counted.new


def _checked(
    remembered: Remembered, array: MdArray, labels: Labels, now: float
) -> Iterator[Sample]:
    """Yield how long ago the last check was and what it found.

    mismatch_cnt increases while a check runs and then stays; after a repair or a resync it counts
    what was corrected (after the creation of a raid6: everything). Where the kernel does not report
    the kind of the last sync, the first count seen is treated as that of a check: Debian's timer
    only checks.
    """
    checking, found, last = (f"{array.name} {word}" for word in ("checking", "found", "checked"))
    action = array.sync_action
    mismatches = array.mismatches_bytes
    if action in {"check", "repair"}:
        progress = array.sync_done_ratio
        before = remembered[checking][0][1] if checking in remembered else 1.0
        # A negative ratio marks a repair. Without a reported progress it counts as complete.
        ratio = before if progress is None else round(progress, 1)
        baseline.seen(remembered, checking, -1.0 if action == "repair" else ratio, now)
        baseline.seen(remembered, last, 0.0, now)
    elif action == "resync" and found not in remembered:
        remembered[found] = ((now, 0.0), (now, 0.0))
    elif action == "idle":
        ended = remembered.pop(checking, None)
        if ended is not None:
            remembered[last] = ((now, 0.0),)
            if ended[0][1] >= WHOLE_CHECK_RATIO:
                remembered[f"{array.name}{_READ}"] = ((now, 0.0),)
        if mismatches is not None and (ended is not None or found not in remembered):
            ratio = 1.0 if ended is None else ended[0][1]
            earlier = remembered[found][0][1] if found in remembered else 0.0
            if ratio < 0 or (ended is None and array.last_sync_action not in {None, "check"}):
                remembered[found] = ((now, 0.0), (now, 0.0))
            elif mismatches or ratio >= WHOLE_CHECK_RATIO:
                remembered[found] = ((now, float(mismatches)), (now, earlier))
    began = min(remembered.setdefault(last, ((now, 0.0),))[0][0], now)
    yield "iowarden_md_last_check_age_seconds", labels, now - began
    if found in remembered:
        (_, latest), (_, earlier) = remembered[found]
        if array.level in PARITY:
            yield "iowarden_md_parity_mismatches_bytes", labels, latest
        else:
            yield "iowarden_md_copy_mismatches_bytes", labels, min(latest, earlier)


GROUP = baseline.group(
    name="md_state",
    sources=("md",),
    families=(
        Family(
            "iowarden_md_missing_members",
            "gauge",
            "Missing members of an md array with redundancy; 0 while a new array is built.",
        ),
        Family(
            "iowarden_md_not_running",
            "gauge",
            "1 while an md array that should run does not: inactive, or broken by lost members.",
        ),
        Family(
            "iowarden_md_became_read_only",
            "gauge",
            "1 while an md array is read-only that was writable before.",
        ),
        Family(
            "iowarden_md_sync_running_ratio",
            "gauge",
            "Progress of a resync, recovery, reshape, check or repair of an md array, 0 to 1;"
            " 0 while it waits.",
        ),
        Family(
            "iowarden_md_member_recent_errors",
            "gauge",
            "Recent corrected read errors of an md member; each came within a day of the one"
            " before.",
        ),
        Family(
            "iowarden_md_parity_mismatches_bytes",
            "gauge",
            "Bytes that the last check found to differ from their parity (raid4, raid5,"
            " raid6; mismatch_cnt).",
        ),
        Family(
            "iowarden_md_copy_mismatches_bytes",
            "gauge",
            "Bytes that both of the last two checks found to differ between copies, the"
            " smaller count (raid1, raid10).",
        ),
        Family(
            "iowarden_md_last_check_age_seconds",
            "gauge",
            "Seconds since a check or repair last ran, or since iowarden first saw the array.",
        ),
    ),
    value_of=lambda view: view.inputs.snapshot.md,
    evaluate=_array_changes,
)
