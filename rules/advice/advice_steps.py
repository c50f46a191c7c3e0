"""The steps of advice: what to look at and what to do, by what the thing is. Pure.

Each returns its lines, or none where it does not apply: sentences, and commands indented by two.
The order within one: what only looks; then the mildest act that can be taken back. What may destroy
data says so ahead of the command.
Sources: md(4), mdadm(8), smartctl(8), dmsetup(8), multipath(8), e2fsck(8), xfs_repair(8),
fsck.f2fs(8), btrfs-scrub(8), btrfs-check(8); kernel, scsi/scsi_sysfs.c (state, scan),
nvme/host/sysfs.c (state).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from iowarden.rules.advice.controller_programs import asked
from iowarden.rules.advice.facts import DISKS, MAPPED, Facts, Kind, Membership
from iowarden.rules.topology.device_identity import ADAPTER, Identity, identity, named_now
from iowarden.rules.topology.event_location import smart_way
from iowarden.rules.topology.redundancy import BUILDING, runs
from iowarden.rules.topology.slot_map import Place
from iowarden.rules.topology.stack import POOL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Device

MOST_DISKS = 24
"""Disks of an adapter, and members of an array, that a step names."""
MOST_MAPS = 8
"""Multipath maps whose paths are shown one by one."""
MOST_HELD_BACK = 2
"""Devices for each slow disk."""


@dataclass(frozen=True, slots=True)
class About:
    """What advice is for.

    Fields: `labels` are an alert's; `subject` is the key of what it is about; `others` are the
    labels of alerts of the same name, where one advice is for all of them; `over`: its condition
    does not hold any more; `part` is the partition that it is about, where labels name the disk.
    """

    labels: Mapping[str, str]
    subject: str = ""
    others: Sequence[Mapping[str, str]] = ()
    over: bool = False
    part: str = ""

    @property
    def name(self) -> str:
        """Return the device that it is about: of an array's member the member, '' for none."""
        found = self.labels.get("member") or self.labels.get("device", "")
        return found.removeprefix("/dev/")


class Step:
    """What the steps of one advice see."""

    def __init__(self, facts: Facts, about: About) -> None:
        self.facts, self.about = facts, about
        self.own = dict(about.labels)
        self.name = named_now(facts.of.map.topology, about.subject, about.name)
        self.device = self._device()
        self.kind = None if self.device is None else facts.kind(self.device)
        self.adapter = self._adapter()

    def _device(self) -> Device | None:
        """Return the block device that it is about, if there is one now."""
        if self.name:
            return self.facts.device(self.name)
        covered = self.facts.of.map.covered.get(self.own.get("disk", ""))
        leaves = [] if covered is None else [self.facts.device(leaf) for leaf in covered.leaves]
        return next((each for each in leaves if each is not None), None)

    def _adapter(self) -> str:
        """Return the SCSI host that as a whole is in trouble, where this is about that."""
        if self.about.subject.startswith(ADAPTER):
            return self.about.subject.removeprefix(ADAPTER)
        return self.own.get("host", "")

    def widened(self) -> Step:
        """Return the same about the adapter of its disk, where that is in trouble as a whole."""
        host = self.device.host if self.device and self.kind in {Kind.ATA, Kind.SCSI} else None
        if self.adapter or not host or host not in self.facts.of.adapters:
            return self
        return Step(self.facts, replace(self.about, subject=f"{ADAPTER}{host}"))

    def whole(self) -> str:
        """Return the name to look for in the log and in arrays: of the disk, else as labelled."""
        return self.name if self.device is None else self.device.name

    def disks(self) -> list[Device]:
        """Return the disks below it; of an adapter those that alerts are about, else all of it."""
        if self.adapter:
            named = (About(each).name for each in (self.own, *self.about.others))
            found = {d.name: d for name in named if name and (d := self.facts.device(name))}
            everything = (d for d in self.facts.atlas.devices if d.leaf and d.host == self.adapter)
            return list(found.values()) or list(everything)
        return [] if self.device is None else list(self.facts.leaves(self.device))

    def shown(self) -> str:
        """Return the name of its device as people call it: of LVM and multipath their own."""
        return self.name if self.device is None else self.device.dm_name or self.device.name

    def arrays(self) -> list[str]:
        """Return the array it is about, or those that it is a member of."""
        arrays = self.facts.of.map.arrays
        for name in (self.own.get("device", "").removeprefix("/dev/"), self.name):
            if name in arrays:
                return [name]
        if not self.whole():
            return []
        return list(dict.fromkeys(m.array.name for m in self.memberships()))

    def memberships(self) -> list[Membership]:
        """Return what it is a member of; a path is one of its map alone."""
        if self.kind is Kind.PATH or not self.whole():
            return []
        return self.facts.memberships(self.name or self.whole())


def _log(step: Step) -> list[str]:
    """What the kernel logged: by every name that it may have used."""
    step = step.widened()
    names: dict[str, None] = {}
    for device in ([step.device] if step.device else []) + (step.disks() if step.adapter else []):
        names |= dict.fromkeys(_logged(step.facts, device))
    if step.adapter.startswith("host"):
        called = [n for n, host in step.facts.of.map.hosts.items() if host == step.adapter]
        own = [step.adapter, step.adapter.replace("host", "scsi"), *map(_pattern, called)]
        names = dict.fromkeys(own) | names
    if step.device is None and step.name:
        names[_pattern(step.name)] = None
    for array in step.arrays():
        names[array] = None
    if step.kind is Kind.MD:  # what an array lost, its disks tell
        for device in step.disks():
            names |= dict.fromkeys(_logged(step.facts, device))
    shown = list(names)[:MOST_DISKS]
    if not shown:
        return ["What the kernel logged last:", "  dmesg -T | tail -50"]
    of = step.adapter or step.whole()
    pattern = "|".join(shown)
    return [
        f"What the kernel logged of {of}:",
        f"  dmesg -T | grep -wE {quote(pattern)} | tail -30",
    ]


def _logged(facts: Facts, device: Device) -> list[str]:
    """Return what the kernel's log calls a device, as patterns."""
    name = _pattern(device.name)
    part = "p?[0-9]*" if name[-1:].isdigit() else "[0-9]*"
    names = [f"{name}{part}" if device.partitions else name]
    names += [_pattern(device.dm_name)] if device.dm_name else []
    names += facts.nvme_controllers(device)
    names += [rf"{device.port}(\.[0-9]+)?"] if device.port else []
    return [*names, *([device.address] if device.address else [])]


def _pattern(name: str) -> str:
    """Return a name as a pattern of grep -E that a person can read."""
    return re.sub(r"([.+*?^$|()\[\]{}\\])", r"\\\1", name)


def _state(step: Step) -> list[str]:
    """What state the kernel has it in: nothing of this touches a disk."""
    step = step.widened()
    if step.adapter:
        files = [
            each
            for device in step.disks()[:MOST_DISKS]
            for each in _state_files(step.facts, device)
        ]
        files = [each for each in files if "/state" in each]
        if not files:
            return []
        return ["Which of its disks the kernel still uses:", f"  grep -sH . {' '.join(files)}"]
    device = step.device
    if device is None:
        return []
    if step.kind is Kind.MD:
        return ["Its state:", "  cat /proc/mdstat"]
    if step.kind is Kind.MAP:
        return _paths(step)
    if step.kind in MAPPED and device.dm_name:
        return [
            "Its state, and what it is made of:",
            f"  dmsetup info {quote(device.dm_name)}",
            f"  lsblk -s {quote(step.facts.node(device.name))}",
        ]
    if step.kind is Kind.LOOP:
        return ["The file it is made of:", f"  losetup -l /dev/{device.name}"]
    files = _state_files(step.facts, device)
    return [
        "Whether the kernel still uses it, and how much it waits for (reads, writes):",
        f"  grep -sH . {' '.join(files)}",
    ]


def _state_files(facts: Facts, device: Device) -> list[str]:
    base = "/sys/block/" + device.name.replace("/", "!")
    if device.address:
        return [f"{base}/device/state", f"{base}/inflight"]
    return [
        *(f"/sys/class/nvme/{each}/state" for each in facts.nvme_controllers(device)),
        f"{base}/inflight",
    ]


def _smart(step: Step) -> list[str]:
    """What is known of the health of the disk, as it was read last; then how it is asked."""
    facts, device = step.facts, step.device
    label = step.own.get("disk") or (facts.disk(device) if device else "")
    covered = facts.of.map.covered.get(label)
    lines = []
    if covered is not None and step.kind not in {Kind.VIRTUAL, Kind.LUN}:
        lines = [
            "What SMART said when it was read last; this does not touch the disk:",
            f"  iowarden disk show {quote(label)}",
        ]
    where = Place(Identity("", ""), disk=label, device=device.name if device else "")
    if way := smart_way(where, facts.of.map):
        if way.startswith("smartctl -x"):
            return [*lines, "Ask the disk itself, behind its controller:", f"  {way}"]
        return [*lines, f"Ask the disk itself, behind its controller: {way}."]
    if device is None:
        behind = step.own.get("controller") and not lines
        return ["How the disks are:", "  iowarden disk list"] if behind else lines
    match step.kind:
        case Kind.VIRTUAL:
            return [f"{device.name} is a virtual disk: its host knows the health of what is below."]
        case Kind.LUN:
            return [f"{device.name} is a LUN: the storage array knows the health of its disks."]
        case Kind.ATA | Kind.SCSI | Kind.NVME:
            return [*lines, "Ask it now, if it answers:", f"  smartctl -x /dev/{device.name}"]
    below = [d.name for d in step.disks() if facts.kind(d) in {*DISKS, Kind.VOLUME}]
    if not below:
        return lines
    of = "" if below == [device.name] else f" below {step.shown()} ({_listed(below)})"
    return [f"How the disks{of} are:", "  iowarden disk list"]


def _cable(step: Step) -> list[str]:
    """Where to look next, by hand."""
    step = step.widened()
    if step.adapter:
        return [
            (
                "What they have in common is the likely cause: the adapter and its firmware, its"
                " cable, expander, backplane or power supply. Look there before any disk is"
                " replaced."
            )
        ]
    if step.device is None:
        return ["Then its cable, power supply, backplane and slot."] if step.name else []
    match step.kind:
        case Kind.VIRTUAL:
            return ["Then the storage of the host that this machine runs on."]
        case Kind.LUN | Kind.MAP | Kind.PATH:
            return ["Then adapter, cable and switch on the way, and the storage array itself."]
        case Kind.NVME:
            return ["Then its slot or riser, its temperature, and its firmware."]
        case Kind.ATA | Kind.SCSI:
            return ["Then its cable, its power supply, and its bay, port or USB bridge."]
        case Kind.VOLUME:
            return [
                "Then the event log of its controller, which knows more of the disks behind it."
            ]
    below = [d.name for d in step.disks() if d.name != step.device.name]
    return [f"Then what it stands on: {_listed(below)}."] if below else []


def _rescan(step: Step) -> list[str]:
    """How a disk that was put back is looked for: at its own adapter, not at all of them."""
    name = step.name
    gone = next((g for g in step.facts.of.map.devices.gone.values() if g.name == name), None)
    if step.device is not None:
        return []
    if gone is not None and gone.adapter.startswith("host"):
        return [
            "When it is in place and does not come by itself, look for it at its adapter:",
            f"  echo '- - -' > /sys/class/scsi_host/{gone.adapter}/scan",
        ]
    if name.startswith("nvme"):
        return [
            (
                "When it is in place and does not come by itself, look for it; this goes through"
                " all of PCI:"
            ),
            "  echo 1 > /sys/bus/pci/rescan",
        ]
    return []


def _paths(step: Step) -> list[str]:
    """How many paths of a map still work, and of others that are in trouble as well."""
    of_map = _map_of(step, step.device)
    if of_map is None:
        return []
    working, every, good = step.facts.paths(of_map)
    name = of_map.dm_name or of_map.name
    found = [
        (
            f"{working} of {_count(every, 'path')} of {name} work{'s' * (working == 1)} by what is"
            f" known here{f' ({_listed(good)})' if good else ''}; what multipathd says of them:"
        ),
        f"  multipath -ll {quote(name)}",
    ]
    named = (About(labels).name for labels in step.about.others)
    maps = (_map_of(step, step.facts.device(each)) for each in named if each)
    others = {m.dm_name or m.name: None for m in maps if m is not None and m is not of_map}
    if len(others) >= MOST_MAPS:
        of_all = f"Paths of {len(others)} other maps are in trouble as well; of all maps:"
        return [*found, of_all, "  multipath -ll"]
    if others:
        found.append(f"Paths of {_listed(others)} are in trouble as well:")
    return [*found, *(f"  multipath -ll {quote(other)}" for other in others)]


def _map_of(step: Step, device: Device | None) -> Device | None:
    """Return the multipath map that a device is, or is a path of."""
    if device is None:
        return None
    return device if step.facts.kind(device) is Kind.MAP else step.facts.map_of(device)


def _member(step: Step) -> list[str]:
    """Whether it may be taken out of its array; only if that harms nothing."""
    if step.kind is Kind.PATH:
        return _paths(step)
    if step.about.over:
        return []
    lines = []
    for each in _distinct_members(step):
        node, array = step.facts.node(each.member.device), each.array
        if not each.used:
            continue
        if each.refusal:
            lines.append(f"Do not take {node} out of {array.name}: {each.refusal}.")
            continue
        left = (each.bears or 1) - 1
        then = "with no redundancy" if left == 0 else f"able to lose {_count(left, 'more member')}"
        lines += [
            (
                f"It stays as it is? {node} is a member of {array.name} ({array.level}), which has"
                f" all that it needs without it. Taken out, the array goes on, {then}; afterwards"
                " it has to be taken back or replaced:"
            ),
            f"  mdadm /dev/{array.name} --fail {quote(node)}",
        ]
    return lines


def _distinct_members(step: Step) -> list[Membership]:
    """Return the memberships of it, or of all the disks of an adapter, a refusal said once."""
    names = [step.name or step.whole()]
    if step.adapter:
        names = [each.name for each in step.disks()]
    found: dict[str, Membership] = {}
    for name in filter(None, names):
        for each in step.facts.memberships(name):
            found.setdefault(f"{each.array.name} {each.refusal or each.member.device}", each)
    return list(found.values())


def _scrub(step: Step) -> list[str]:
    """How an array rewrites what one member cannot read; a check changes nothing else.

    Source: md(4), 'scrubbing and mismatches': a read error during a check is corrected.
    """
    lines = []
    for each in _distinct_members(step):
        array = each.array
        if array.level in {"raid0", "linear"} or each.faulty:
            continue
        if each.last:
            lines += _copied_off(each)
        elif each.bears and array.sync_action in {None, "idle"} and len(each.troubled) <= 1:
            lines += [
                (
                    f"{array.name} rewrites what cannot be read from its other members while it is"
                    " checked; this reads all of them:"
                ),
                f"  echo check > /sys/block/{array.name}/md/sync_action",
            ]
    return lines


def _last_copy(step: Step) -> list[str]:
    """What is done first where no other disk holds what one with errors has."""
    return [line for each in _distinct_members(step) if each.last for line in _copied_off(each)]


def _copied_off(each: Membership) -> list[str]:
    name, node = each.array.name, each.member.device
    return [
        (
            f"{name} ({each.array.level}) has no redundancy left: what cannot be read from {node}"
            " is in no other place. Copy what matters off it now, the most important first."
        ),
        (
            f"Until that is done do not fail, remove or pull {node}, and begin no check, repair or"
            f" rebuild of {name}: it reads all of {node}, and {name} may stop with it."
        ),
    ]


def _replace(step: Step) -> list[str]:
    """How a member that is failing is replaced while it still answers."""
    lines = []
    for each in _distinct_members(step):
        node, array = step.facts.node(each.member.device), each.array
        if each.faulty and array.level in {"raid0", "linear"}:
            continue  # the kernel removes no member of these
        known = step.facts.atlas.devices  # of a text nobody knows what its machine has
        if each.faulty and known and step.facts.device(each.member.device) is None:
            lines += [
                f"{array.name} uses {node} no longer, and it is gone. Have it forgotten:",
                f"  mdadm /dev/{array.name} --remove detached",
            ]
        elif each.faulty:
            lines += [
                f"{array.name} uses {node} no longer. Before the disk is pulled:",
                f"  mdadm /dev/{array.name} --remove {quote(node)}",
            ]
        elif array.sync_action in BUILDING:
            lines.append(f"{array.name} is being rebuilt: replace {node} when that is done.")
        elif each.array.level not in {"raid0", "linear"} and each.used and not each.last:
            spare = next((m.device for m in array.members if _is_spare(m.states)), "")
            first = (
                f"{spare} is a spare of it"
                if spare
                else "give it a spare first, a partition of a new disk (mdadm --add)"
            )
            lines += [
                (
                    f"{node} is a member of {array.name}: {first}; this copies {node} to the spare,"
                    " and the array stays as redundant as it is meanwhile:"
                ),
                f"  mdadm /dev/{array.name} --replace {quote(node)}",
            ]
    return lines


def _is_spare(states: Iterable[str]) -> bool:
    return "spare" in states and not {"faulty", "in_sync"} & set(states)


def _sooner(step: Step) -> list[str]:
    """How a disk of a redundant array is made to give up before the kernel does."""
    safe = [m for m in step.memberships() if not m.refusal and not m.faulty and m.bears]
    if step.kind is not Kind.ATA or step.device is None or not safe:
        return []
    return [
        (
            f"Once it answers again: {safe[0].array.name} has what it cannot read, so let it give"
            " up on a bad sector after 7 s; until it is switched off:"
        ),
        f"  smartctl -l scterc,70,70 /dev/{step.device.name}",
    ]


def _array(step: Step) -> list[str]:
    """Which members an array has, on which disks."""
    lines: list[str] = []
    for name in step.arrays():
        array = step.facts.of.map.arrays.get(name)
        if array is None:
            continue
        members = [_shown_member(step.facts, m.device, m.states) for m in array.members]
        # A spare that is filled has the place of the one that is missing, and counts for it.
        placed = {m.slot for m in array.members if m.slot is not None}
        others = [m for m in array.members if m.slot is None and not _is_spare(m.states)]
        gone = (array.raid_disks or 0) - len(placed) - len(others)
        if gone > 0:
            members.append(f"{gone} not there")
        of = f"{name} ({array.level})" if array.level else name
        if members:
            lines.append(f"Members of {of}: {'; '.join(members[:MOST_DISKS])}.")
        lines += [
            "All that the array says of itself:",
            "  cat /proc/mdstat",
            f"  mdadm --detail /dev/{name}",
        ]
    return lines


def _shown_member(facts: Facts, name: str, states: Sequence[str]) -> str:
    device = facts.device(name)
    below = () if device is None else facts.leaves(device)
    state = " ".join(states)
    if not facts.atlas.devices:  # of a text nobody knows where it is from
        return f"{name} {state}".strip()
    on = ", ".join(facts.shown(each) for each in below[:4]) or "a disk that is gone"
    return f"{name} {state or 'in an unknown state'}, on {on}"


def _examine(step: Step) -> list[str]:
    """What the members know of an array that does not run; this only reads."""
    lines: list[str] = []
    for name in step.arrays():
        array = step.facts.of.map.arrays.get(name)
        there = [m.device for m in (array.members if array else ()) if step.facts.device(m.device)]
        if there:
            nodes = " ".join(quote(step.facts.node(each)) for each in sorted(there)[:MOST_DISKS])
            lines += [
                f"What the members of {name} know of it (compare 'Events'; this only reads):",
                f"  mdadm --examine {nodes}",
            ]
    return lines


def _hold_back(step: Step) -> list[str]:
    """How only what writes to a slow disk is held back, on what the file system stands on.

    Source: kernel, ABI/testing/sysfs-class-bdi, max_ratio: a part of what the machine may queue.
    """
    lines: list[str] = []
    for name in step.facts.of.slow:
        slow = step.facts.device(name)
        tops = [] if slow is None else step.facts.mounted_on(slow)
        for top in tops[:MOST_HELD_BACK]:
            lines += [
                f"Hold back what writes to the slow disk {name} alone; 100 takes that back:",
                f"  echo 5 > /sys/block/{top.name.replace('/', '!')}/bdi/max_ratio",
            ]
    return lines


def _take_back(step: Step) -> list[str]:
    """How a member that failed is taken back, or taken away."""
    lines: list[str] = []
    for name in step.arrays():
        array = step.facts.of.map.arrays.get(name)
        if array is None:
            continue
        if array.sync_action in BUILDING:
            lines.append(
                f"{name} is at work ({array.sync_action}): add no disk and take none out meanwhile."
            )
            continue
        if step.facts.last_copies_in_trouble(array):
            continue  # a rebuild would read all of the last copy
        faulty = [m.device for m in array.members if "faulty" in m.states]
        if array.state not in {"clean", "active", "active-idle", "write-pending"}:
            continue
        for member in faulty:
            if step.facts.device(member) is None:
                continue
            node = step.facts.node(member)
            if step.facts.is_unfit(member):
                lines.append(f"{node} is not fit to be taken back into {name}: replace its disk.")
                continue
            if array.degraded == 0:
                lines += [
                    (
                        f"{name} is whole without {node}. Its disk is in order or replaced? Then it"
                        f" can be a spare of {name}; this writes over it:"
                    ),
                    f"  mdadm /dev/{name} --remove {quote(node)}",
                    f"  mdadm /dev/{name} --add {quote(node)}",
                ]
                continue
            lines += [
                (
                    f"The disk of {member} is in order (it was a cable or power)? Then take it"
                    " back; with a write-intent bitmap only what changed is copied:"
                ),
                f"  mdadm /dev/{name} --remove {quote(node)}",
                f"  mdadm /dev/{name} --re-add {quote(node)}",
            ]
        if not faulty and array.degraded and not step.facts.of.unfit:
            lines.append(
                "A member that is gone from the list and back in the machine is taken back with"
                " 'mdadm --re-add'; a new disk with 'mdadm --add', which writes over that disk."
            )
    return lines


def _below(step: Step) -> list[str]:
    """What a device stands on, by the names on the disks' labels."""
    device = step.device
    if device is None or step.kind in {*DISKS, Kind.VIRTUAL, Kind.LUN, Kind.VOLUME, Kind.PATH}:
        return []
    below = [each for each in step.disks() if each.name != device.name]
    if not below:
        return []
    shown = "; ".join(step.facts.shown(each) for each in below[:MOST_DISKS])
    return [
        f"{step.shown()} stands on {shown}.",
        f"  lsblk -s {quote(step.facts.node(device.name))}",
    ]


def _fsck(step: Step) -> list[str]:
    """How a file system is looked at and repaired, when what is below it is in order."""
    name = step.name or step.own.get("device", "").removeprefix("/dev/")
    if step.device is not None and step.about.part in step.device.partitions:
        name = step.about.part
    if not name:
        return []
    facts, node = step.facts, step.facts.node(name)
    bad = _bad_below(step)
    if bad:
        return [
            (
                f"Repair nothing on {node} before this is in order: {_listed(bad)}. A repair"
                " writes, and on a disk or array that fails that destroys data."
            )
        ]
    points = facts.mounts_of(name)
    point = step.own.get("mountpoint") or next((m.mount_point for m in points), "")
    kind = step.own.get("fstype") or next((m.kind for m in points), "")
    if kind == "btrfs":
        return _btrfs_at(point) if point else []
    if point == "/":
        return [
            (
                f"It is the root file system: repair {node} from a rescue system, with a copy of"
                " it; or have it checked at the next boot (fsck.mode=force as an option of the"
                " kernel)."
            )
        ]
    command = quote(node)
    first = f"  umount {quote(point) if point else command}"
    if kind == "xfs":
        return [
            (
                "Save what matters, stop what uses it, then see what a repair would do; -n changes"
                " nothing:"
            ),
            first,
            f"  xfs_repair -n {command}",
            (
                "The repair itself is the same without -n. It may cost files: have a copy of the"
                " device first. A log that is not replayed is lost with -L: mount it once before."
            ),
        ]
    if kind == "f2fs":
        return [
            "Save what matters, stop what uses it, then see what a repair would do:",
            first,
            f"  fsck.f2fs --dry-run {command}",
            "The repair may cost files: have a copy of the device first, then:",
            f"  fsck.f2fs -f {command}",
        ]
    if kind in {"ext2", "ext3", "ext4"}:
        return [
            (
                "Save what matters, stop what uses it, then see what a repair would do; -n changes"
                " nothing:"
            ),
            first,
            f"  e2fsck -fn {command}",
            "The repair may cost files: have a copy of the device first, then:",
            f"  e2fsck -f {command}",
        ]
    return []


def _btrfs(step: Step) -> list[str]:
    """How btrfs is asked what it counts, and reads all of itself; by where it is mounted."""
    points = {m.source: m.mount_point for m in reversed(step.facts.of.mounts) if m.kind == "btrfs"}
    if len(points) != 1:  # sysfs does not tell which of several
        return [
            "Where it is mounted; 'btrfs device stats' and 'btrfs scrub start' take that place:",
            "  findmnt -t btrfs -o TARGET,SOURCE,UUID",
        ]
    (point,) = points.values()
    return _btrfs_at(point)


def _btrfs_at(point: str) -> list[str]:
    """How a mounted btrfs is looked at, then mended: from its other copies, which it needs mounted.

    Never 'btrfs check --repair', which its own manual calls dangerous.
    """
    at = quote(point)
    return [
        "What it counts of each of its devices:",
        f"  btrfs device stats {at}",
        (
            "Read all of it, while it is in use; -r changes nothing. How many blocks are wrong, it"
            " tells at the end, and the kernel's log which files have them:"
        ),
        f"  btrfs scrub start -r -Bd {at}",
        (
            "The disk, its cable, its power supply and the machine's memory are in order? Then have"
            " wrong blocks rewritten from good copies, where there are any:"
        ),
        f"  btrfs scrub start -Bd {at}",
    ]


def _pool(step: Step) -> list[str]:
    """What ZFS makes of the loss of a disk. Source: zpool-status(8), zpool-online(8)."""
    known = step.facts.of.map
    key = step.about.subject
    if not key and step.device is not None:
        key = identity(known.topology, step.device.name).key
    above = (*known.standing.now.get(key, ()), *known.standing.until.get(key, ()))
    names = (each.name.removeprefix(POOL) for each in above if each.name.startswith(POOL))
    pools = [name for name in names if known.topology and name in known.topology.pools]
    lines = [f"  zpool status -v {quote(name)}" for name in dict.fromkeys(pools)]
    if not lines:
        return []
    text = (
        "What ZFS makes of it; a disk that is back is taken in again by itself, or by"
        " 'zpool online' with the pool and the disk's name there:"
    )
    return [text, *lines]


def _resume(step: Step) -> list[str]:
    """How a suspended mapped device goes on."""
    name = step.own.get("name") or (step.device.dm_name if step.device else "")
    if not name:
        return []
    lines = []
    if step.kind is Kind.CRYPT:
        lines = [
            "It was locked by 'cryptsetup luksSuspend'? Then it needs its passphrase:",
            f"  cryptsetup luksResume {quote(name)}",
        ]
    if step.kind is Kind.MAP:
        return [
            *_paths(step),
            "multipathd resumes it when it is done; only if that is stopped:",
            f"  dmsetup resume {quote(name)}",
        ]
    return [
        *lines,
        "Nobody works on it any more? Then let it go on:",
        f"  dmsetup resume {quote(name)}",
    ]


def _bad_below(step: Step) -> list[str]:
    """Return what is wrong below a file system: arrays, pools and disks in trouble."""
    facts, device = step.facts, step.device
    if device is None:
        return [f"{step.name} is gone"] if step.name else []
    found: dict[str, None] = {}
    todo, seen = [device], {device.name}
    borne: set[str] = set()
    """What goes on without a disk that is gone."""
    while todo:
        each = todo.pop(0)
        array = facts.of.map.arrays.get(each.name)
        if array is not None and not runs(array):
            found[f"{each.name} does not run"] = None
        elif array is not None and array.level not in {"raid0", "linear"}:
            borne.add(each.name)
        elif facts.kind(each) is Kind.MAP and facts.paths(each)[0]:
            borne.add(each.dm_name or each.name)
        if each.name in facts.of.full:
            found[f"{each.dm_name or each.name} has no space left"] = None
        for name in each.slaves:
            below = facts.atlas.whole(name)
            if below is None:
                found[f"{name} is gone"] = None
            elif name not in seen:
                seen.add(name)
                todo.append(below)
        if each.leaf and (each.name in facts.of.troubled or each.host in facts.of.adapters):
            found[f"{each.name} is in trouble"] = None
    # sysfs forgets at once what a disk carried that is gone
    points = (mount.mount_point for mount in facts.mounts_of(device.name))
    own = {device.name, device.dm_name or "", *points}
    for gone in facts.of.map.devices.gone.values():
        if not own.isdisjoint(gone.carried) and borne.isdisjoint(gone.carried):
            found[f"{gone.name} is gone"] = None
    return list(found)


def _controller(step: Step) -> list[str]:
    """How a RAID controller is asked of itself, its arrays and its disks."""
    name = step.own.get("controller", "")
    if not name and step.device is not None:
        name = step.facts.controller_of(step.device)
    card = step.facts.atlas.card(name)
    commands = asked(name, "" if card is None else card.program)
    if commands:
        return ["What the controller says of its arrays and disks:", *commands]
    if card is None:
        return []
    return [f"See the arrays, the disks and the event log of {name} by its maker's program."]


def _listed(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    more = len(found) - MOST_DISKS
    return ", ".join(found[:MOST_DISKS]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _space(step: Step) -> list[str]:
    """What takes the space of a file system; of one that is not known, which one is full."""
    points = step.facts.mounts_of(step.about.part or step.name)
    if not points:
        return [
            "Which file systems have no room left, by bytes and by inodes:",
            "  df -h",
            "  df -i",
        ]
    point = quote(points[0].mount_point)
    return [
        "Whether bytes or inodes are used up (if neither, a quota is); what takes the space:",
        f"  df -h {point}",
        f"  df -i {point}",
        f"  du -xh --max-depth=2 {point} | sort -h | tail -20",
    ]


STEPS: Mapping[str, Callable[[Step], list[str]]] = {
    "array": _array,
    "below": _below,
    "btrfs": _btrfs,
    "cable": _cable,
    "controller": _controller,
    "examine": _examine,
    "fsck": _fsck,
    "hold_back": _hold_back,
    "last_copy": _last_copy,
    "log": _log,
    "member": _member,
    "paths": _paths,
    "pool": _pool,
    "replace": _replace,
    "rescan": _rescan,
    "resume": _resume,
    "scrub": _scrub,
    "smart": _smart,
    "sooner": _sooner,
    "space": _space,
    "state": _state,
    "take_back": _take_back,
}
