"""What a software RAID array's state means over time (domain conditions M5, M6).

Source: kernel, admin-guide/md.rst ('RAID arrays in sysfs').
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.vocabulary import Family, Labels, Sample
from iowarden.rules.signals import baseline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.md import Array
    from iowarden.rules.signals.baseline import Kept
    from iowarden.rules.signals.table import Pairs, View

_PARITY = frozenset({"raid4", "raid5", "raid6"})
_COPIES = frozenset({"raid1", "raid10"})
_BUILDING = frozenset({"recover", "reshape", "resync"})
_SYNCHRONISING = _BUILDING | {"check", "repair"}
_WRITABLE = frozenset({"active", "active-idle", "clean", "write-pending"})
WHOLE_CHECK_RATIO = 0.9
"""A check that was last seen earlier than that may have been interrupted: it clears nothing."""

FAMILIES = (
    Family(
        "iowarden_md_missing_members",
        "gauge",
        "Members an array with redundancy misses; 0 while a new one is built for the first time.",
    ),
    Family(
        "iowarden_md_stopped",
        "gauge",
        "1 while an array that should run does not: it is inactive or broken.",
    ),
    Family(
        "iowarden_md_turned_read_only",
        "gauge",
        "1 while an array is read-only that was writable before.",
    ),
    Family(
        "iowarden_md_synchronising_ratio",
        "gauge",
        "Done part of a resync, recovery, reshape, check or repair; 0 while it waits.",
    ),
    Family(
        "iowarden_md_member_recent_errors",
        "gauge",
        "Corrected read errors of a member, each within a day of the one before.",
    ),
    Family(
        "iowarden_md_parity_mismatches_bytes",
        "gauge",
        "Data the last check found to differ from its parity (raid4, raid5, raid6).",
    ),
    Family(
        "iowarden_md_copy_mismatches_bytes",
        "gauge",
        "Copies the last two checks both found to differ, the less of both (raid1, raid10).",
    ),
    Family(
        "iowarden_md_unchecked_seconds",
        "gauge",
        "Time since a check or repair was last seen, or since iowarden first saw the array.",
    ),
)


def step(state: Mapping[str, Pairs], view: View) -> tuple[Kept, list[Sample] | None]:
    """Return what is to be told of every array. The state is by array and word ('md0 checked')."""
    arrays: Mapping[str, Array] | None = view.inputs.values.get("md")
    if arrays is None:
        return dict(state), None
    now = view.inputs.now_seconds
    kept = dict(state)
    samples: list[Sample] = []
    for array in arrays.values():
        if array.state == "clear":  # being made or taken apart
            continue
        labels = (("device", array.name),)
        stopped = array.state == "broken" or (
            array.state == "inactive" and not _is_container(array, arrays.values())
        )
        samples.append(("iowarden_md_stopped", labels, float(stopped)))
        if array.state == "inactive":
            continue
        samples += _access(kept, array, labels, now)
        samples += _members(kept, array, now)
        if array.sync_action in _SYNCHRONISING:
            pair = ("action", array.sync_action or "")
            ratio = array.sync_done_ratio or 0.0
            samples.append(("iowarden_md_synchronising_ratio", (pair, *labels), ratio))
        if array.level in _PARITY | _COPIES:
            samples += _missing(kept, array, labels, now)
            samples += _checked(kept, array, labels, now)
    return baseline.bounded(kept), samples


def _is_container(array: Array, arrays: Iterable[Array]) -> bool:
    """Whether an inactive array only holds the disks of one that runs (IMSM, DDF): it always is so.

    Limits: one that holds nothing but spares is taken for an array that does not run.
    """
    own = {member.device for member in array.members}
    return any(
        other.state != "inactive" and not own.isdisjoint(m.device for m in other.members)
        for other in arrays
    )


def _access(kept: Kept, array: Array, labels: Labels, now: float) -> list[Sample]:
    key = f"{array.name} writable"
    if array.state in _WRITABLE:
        baseline.seen(kept, key, 1.0, now)
    turned = array.state == "readonly" and key in kept
    return [("iowarden_md_turned_read_only", labels, float(turned))]


def _missing(kept: Kept, array: Array, labels: Labels, now: float) -> list[Sample]:
    """Return what is missing; an array that was never whole and has all its disks is being made.

    mdadm makes a raid5 one member short and recovers onto it.
    """
    if array.degraded is None:
        return []
    # Another size is another array of this name, or a grown one, and so is another number of disks
    # (a mirror's size stays): neither was seen whole.
    whole = {
        f"{array.name} whole": float(array.size_bytes or 0),
        f"{array.name} disks": float(array.raid_disks or 0),
    }
    was_whole = all(key in kept and kept[key][0][1] == value for key, value in whole.items())
    if array.degraded == 0:
        for key, value in whole.items():
            baseline.seen(kept, key, value, now)
    present = sum("faulty" not in member.states for member in array.members)
    made = (
        array.sync_action in _BUILDING
        and not was_whole
        and array.raid_disks is not None
        and present >= array.raid_disks
    )
    missing = 0.0 if made else float(array.degraded)
    return [("iowarden_md_missing_members", labels, missing)]


def _members(kept: Kept, array: Array, now: float) -> list[Sample]:
    samples: list[Sample] = []
    for member in array.members:
        if member.errors_total is None:
            continue
        key = f"{array.name} {member.device} errors"
        counted = baseline.recent(kept.get(key), member.errors_total, now)
        kept[key] = baseline.pairs(counted)
        both = (("device", array.name), ("member", member.device))
        samples.append(("iowarden_md_member_recent_errors", both, counted.new))
    return samples


def _checked(kept: Kept, array: Array, labels: Labels, now: float) -> list[Sample]:
    """Return how long ago a check was and what it found.

    mismatch_cnt counts while a check runs and then stands still; of a repair or a resync it is what
    was put right (of a raid6 just made: all). Where the kernel does not say what it is of, the
    first sight of a count takes it for that of a check: Debian's timer only checks.
    """
    checking, found, last = (f"{array.name} {word}" for word in ("checking", "found", "checked"))
    action = array.sync_action
    mismatches = array.mismatches_bytes
    if action in {"check", "repair"}:
        progress = array.sync_done_ratio
        before = kept[checking][0][1] if checking in kept else 1.0
        # A negative ratio: a repair. What says nothing of its progress counts as whole.
        ratio = before if progress is None else round(progress, 1)
        baseline.seen(kept, checking, -1.0 if action == "repair" else ratio, now)
        baseline.seen(kept, last, 0.0, now)
    elif action == "resync" and found not in kept:
        kept[found] = ((now, 0.0), (now, 0.0))
    elif action == "idle":
        ended = kept.pop(checking, None)
        if ended is not None:
            kept[last] = ((now, 0.0),)
        if mismatches is not None and (ended is not None or found not in kept):
            ratio = 1.0 if ended is None else ended[0][1]
            earlier = kept[found][0][1] if found in kept else 0.0
            if ratio < 0 or (ended is None and array.last_sync_action not in {None, "check"}):
                kept[found] = ((now, 0.0), (now, 0.0))
            elif mismatches or ratio >= WHOLE_CHECK_RATIO:
                kept[found] = ((now, float(mismatches)), (now, earlier))
    began = min(kept.setdefault(last, ((now, 0.0),))[0][0], now)
    samples: list[Sample] = [("iowarden_md_unchecked_seconds", labels, now - began)]
    if found in kept:
        (_, latest), (_, earlier) = kept[found]
        if array.level in _PARITY:
            samples.append(("iowarden_md_parity_mismatches_bytes", labels, latest))
        else:
            least = min(latest, earlier)
            samples.append(("iowarden_md_copy_mismatches_bytes", labels, least))
    return samples
