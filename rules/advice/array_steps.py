"""Steps of advice about an md array and its members: show, fail, re-add, replace. Pure.

Sources: md(4), mdadm(8), smartctl(8) for 'scterc'.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from iowarden.rules.advice.facts import DeviceKind, Facts, Membership
from iowarden.rules.advice.map_steps import paths
from iowarden.rules.advice.step import MAX_DISKS, AdviceSubject, StepContext, counted
from iowarden.rules.topology.redundancy import BUILDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_RUNNING = frozenset({"clean", "active", "active-idle", "write-pending"})
_SLOW = frozenset({"slow", "stuck requests"})
"""Causes of waits for a disk that still answers."""


def take_out(step: StepContext) -> list[str]:
    """Whether the device may be removed from its array; only if that does no harm."""
    if step.kind is DeviceKind.PATH:
        return paths(step)
    if step.about.over:
        return []
    lines = []
    for each in _distinct_members(step):
        node, array = step.facts.node(each.member.device), each.array
        if not each.used:
            continue
        if each.refusal:
            lines.append(f"Do not remove {node} from {array.name}: {each.refusal}.")
            continue
        left = (each.spare_redundancy or 1) - 1
        then = "with no redundancy" if left == 0 else f"able to lose {counted(left, 'more member')}"
        lines += [
            (
                f"If it does not recover: {node} is a member of {array.name} ({array.level}), which"
                f" has all of its data without it. Without {node} the array continues, {then};"
                " afterwards it must be re-added or replaced:"
            ),
            f"  mdadm /dev/{array.name} --fail {quote(node)}",
        ]
    return lines


def _distinct_members(step: StepContext) -> list[Membership]:
    """Return its memberships, or those of all disks of an adapter, each refusal once."""
    names = [step.name or step.whole()]
    if step.adapter:
        names = [each.name for each in step.disks()]
    found: dict[str, Membership] = {}
    for name in filter(None, names):
        for each in step.facts.memberships(name):
            found.setdefault(f"{each.array.name} {each.refusal or each.member.device}", each)
    return list(found.values())


def scrub(step: StepContext) -> list[str]:
    """How an array rewrites the unreadable sectors of a member; a check changes nothing else.

    Source: md(4), 'scrubbing and mismatches': a read error during a check is corrected.
    """
    lines = []
    for each in _distinct_members(step):
        array = each.array
        if array.level in {"raid0", "linear"} or each.faulty:
            continue
        if each.last:
            lines += _copied_off(each)
        elif (
            each.spare_redundancy
            and array.sync_action in {None, "idle"}
            and len(each.troubled) <= 1
        ):
            lines += [
                (
                    f"A check of {array.name} rewrites unreadable sectors from the other members;"
                    " it reads all members:"
                ),
                f"  echo check > /sys/block/{array.name}/md/sync_action",
            ]
    return lines


def last_copy(step: StepContext) -> list[str]:
    """What to do first if a disk with errors holds the last copy of data."""
    return [line for each in _distinct_members(step) if each.last for line in _copied_off(each)]


def _copied_off(each: Membership) -> list[str]:
    name, node = each.array.name, each.member.device
    return [
        (
            f"{name} ({each.array.level}) has no redundancy left: what cannot be read from {node}"
            " exists nowhere else. Copy its data now, the most important first."
        ),
        (
            f"Until that is done do not fail, remove or pull {node}, and start no check, repair or"
            f" rebuild of {name}: that reads all of {node}, and {name} may fail with it."
        ),
    ]


def replace_member(step: StepContext) -> list[str]:
    """How to replace a failing member while it still answers."""
    lines = []
    for each in _distinct_members(step):
        node, array = step.facts.node(each.member.device), each.array
        if each.faulty and array.level in {"raid0", "linear"}:
            continue  # the kernel removes no member of these
        known = step.facts.index.devices  # without a topology it is not known what is missing
        if each.faulty and known and step.facts.device(each.member.device) is None:
            lines += [
                f"{array.name} no longer uses {node}, and the device is missing. Remove it:",
                f"  mdadm /dev/{array.name} --remove detached",
            ]
        elif each.faulty:
            lines += [
                f"{array.name} no longer uses {node}. Before you pull the disk:",
                f"  mdadm /dev/{array.name} --remove {quote(node)}",
            ]
        elif array.sync_action in BUILDING:
            lines.append(f"{array.name} is being rebuilt: replace {node} when that is done.")
        elif each.array.level not in {"raid0", "linear"} and each.used and not each.last:
            spare = next((m.device for m in array.members if _is_spare(m.states)), "")
            first = (
                f"{spare} is a spare of it"
                if spare
                else "first add a spare, a partition of a new disk (mdadm --add)"
            )
            lines += [
                (
                    f"{node} is a member of {array.name}: {first}; this copies {node} to the spare,"
                    " and the array keeps its redundancy meanwhile:"
                ),
                f"  mdadm /dev/{array.name} --replace {quote(node)}",
            ]
    return lines


def _is_spare(states: Iterable[str]) -> bool:
    return "spare" in states and not {"faulty", "in_sync"} & set(states)


def give_up_sooner(step: StepContext) -> list[str]:
    """How to limit the error recovery of a disk (SCT ERC) below the kernel's timeout."""
    safe = [m for m in step.memberships() if not m.refusal and not m.faulty and m.spare_redundancy]
    if step.kind is not DeviceKind.ATA or step.device is None or not safe:
        return []
    return [
        (
            f"Once it answers again: {safe[0].array.name} has what it cannot read, so limit its"
            " error recovery to 7 s per bad sector; valid until it is powered off:"
        ),
        f"  smartctl -l scterc,70,70 /dev/{step.device.name}",
    ]


def keep_member(step: StepContext) -> list[str]:
    """That a slow member of an array is not to be taken out before it is replaced."""
    if not set(_levels(step)) - {"raid0", "linear"}:
        return []
    return [
        (
            f"As long as {step.whole()} answers, it holds a copy of your data: never take it out"
            " with mdadm --fail before its replacement is in sync. md's failfast makes an array"
            " give up sooner on a slow member; trade-off: a short fault of a cable or of the power"
            " then costs a member."
        )
    ]


def replace_slow_member(step: StepContext) -> list[str]:
    """How a slow disk that programs wait for leaves its array; nothing for another cause.

    The alert is about the array, or about a volume on it; the disk is in its cause.
    """
    programs_wait, device = step.facts.of.backlog, step.own.get("device", "")
    disk = programs_wait.disks.get(device, "")
    if programs_wait.causes.get(device) not in _SLOW or not disk:
        return []
    of_disk = StepContext(step.facts, AdviceSubject({"device": disk}))
    return [*keep_member(of_disk), *replace_member(of_disk)]


def _levels(step: StepContext) -> list[str | None]:
    """Return the levels of the arrays of a device; by the topology where mdstat was not read."""
    levels = [each.array.level for each in step.memberships()]
    if levels or step.device is None:
        return levels
    above = (step.facts.device(name) for name in step.device.holders)
    return [each.md.level for each in above if each is not None and each.md is not None]


def show_array(step: StepContext) -> list[str]:
    """Which members an array has, on which disks."""
    lines: list[str] = []
    for name in step.arrays():
        array = step.facts.of.map.arrays.get(name)
        if array is None:
            continue
        members = [_shown_member(step.facts, m.device, m.states) for m in array.members]
        # A spare that is being rebuilt has the slot of the missing member, and counts as it.
        placed = {m.slot for m in array.members if m.slot is not None}
        others = [m for m in array.members if m.slot is None and not _is_spare(m.states)]
        gone = (array.raid_disks or 0) - len(placed) - len(others)
        if gone > 0:
            members.append(f"{gone} missing")
        of = f"{name} ({array.level})" if array.level else name
        if members:
            lines.append(f"Members of {of}: {'; '.join(members[:MAX_DISKS])}.")
        lines += [
            "The full state of the array:",
            "  cat /proc/mdstat",
            f"  mdadm --detail /dev/{name}",
        ]
    return lines


def _shown_member(facts: Facts, name: str, states: Sequence[str]) -> str:
    device = facts.device(name)
    below = () if device is None else facts.leaves(device)
    state = " ".join(states)
    if not facts.index.devices:  # without a topology its disks are not known
        return f"{name} {state}".strip()
    on = ", ".join(facts.shown(each) for each in below[:4]) or "a missing disk"
    return f"{name} {state or 'in an unknown state'}, on {on}"


def examine(step: StepContext) -> list[str]:
    """The superblocks of the members of an array that does not run; this only reads."""
    lines: list[str] = []
    for name in step.arrays():
        array = step.facts.of.map.arrays.get(name)
        there = [m.device for m in (array.members if array else ()) if step.facts.device(m.device)]
        if there:
            nodes = " ".join(quote(step.facts.node(each)) for each in sorted(there)[:MAX_DISKS])
            lines += [
                f"The superblocks of the members of {name} (compare 'Events'; this only reads):",
                f"  mdadm --examine {nodes}",
            ]
    return lines


def take_back(step: StepContext) -> list[str]:
    """How to re-add a failed member, or remove it."""
    lines: list[str] = []
    for name in step.arrays():
        array = step.facts.of.map.arrays.get(name)
        if array is None:
            continue
        if array.sync_action in BUILDING:
            lines.append(
                f"{name} is busy ({array.sync_action}): add no disk and remove none meanwhile."
            )
            continue
        if array.sync_action == "frozen":
            lines.append(
                f"{name} is frozen: mdadm does so while it changes an array. No rebuild begins"
                " before it has ended; if no mdadm is running, it was killed."
            )
        if step.facts.last_copies_in_trouble(array):
            continue  # a rebuild would read all of the last copy
        faulty = [m.device for m in array.members if "faulty" in m.states]
        if array.state not in _RUNNING:
            continue
        for member in faulty:
            if step.facts.device(member) is None:
                continue
            node = step.facts.node(member)
            if step.facts.is_unfit(member):
                lines.append(f"{node} is not fit to be re-added to {name}: replace its disk.")
                continue
            if array.degraded == 0:
                lines += [
                    (
                        f"{name} is complete without {node}. If its disk is in order or replaced,"
                        f" it can become a spare of {name}; this overwrites it:"
                    ),
                    f"  mdadm /dev/{name} --remove {quote(node)}",
                    f"  mdadm /dev/{name} --add {quote(node)}",
                ]
                continue
            lines += [
                (
                    f"If the disk of {member} is in order (a cable or power was the cause), re-add"
                    " it; with a write-intent bitmap only what changed is copied:"
                ),
                f"  mdadm /dev/{name} --remove {quote(node)}",
                f"  mdadm /dev/{name} --re-add {quote(node)}",
            ]
        if not faulty and array.degraded and not step.facts.of.unfit:
            lines.append(
                "If a member that is no longer listed is back in the host, re-add it with"
                " 'mdadm --re-add'."
            )
    return lines


def add_member(step: StepContext) -> list[str]:
    """How a new disk takes the place of a dead one; not while a rebuild would read a bad disk."""
    lines: list[str] = []
    for name in step.arrays():
        array = step.facts.of.map.arrays.get(name)
        if array is None or not array.degraded or array.level in {"raid0", "linear"}:
            continue
        if array.sync_action in {*BUILDING, "frozen"} or array.state not in _RUNNING:
            continue
        is_served = any(_is_spare(member.states) for member in array.members)
        if is_served or step.facts.last_copies_in_trouble(array):
            continue
        lines += [
            (
                f"If a disk of {name} is dead: replace it, partition the new disk like its"
                f" neighbours, and add that partition. This overwrites PARTITION, and rebuilds"
                f" {name} on it:"
            ),
            f"  mdadm /dev/{name} --add PARTITION",
        ]
    return lines
