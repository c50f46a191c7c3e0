"""Steps of advice about a disk or adapter: kernel log, state, SMART, cable, rescan. Pure.

Sources: smartctl(8); kernel, scsi/scsi_sysfs.c (state, scan), nvme/host/sysfs.c (state).
"""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING

from iowarden.rules.advice.controller_programs import query_commands
from iowarden.rules.advice.facts import DISKS, MAPPED, DeviceKind, Facts
from iowarden.rules.advice.map_steps import paths
from iowarden.rules.advice.step import MAX_DISKS, StepContext, listed
from iowarden.rules.topology.device_identity import Identity
from iowarden.rules.topology.event_location import smartctl_command
from iowarden.rules.topology.slot_map import DeviceIndex, DeviceMap, EventPlace, is_ata_port
from iowarden.rules.topology.stack import FILE_SYSTEM

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Device

MAX_THROTTLED = 2
"""Devices that are limited for each slow disk."""


def kernel_log(step: StepContext) -> list[str]:
    """Kernel messages about the device, by every name that the kernel may use."""
    step = step.widened()
    names: dict[str, None] = {}
    for device in ([step.device] if step.device else []) + (step.disks() if step.adapter else []):
        names |= dict.fromkeys(_logged(step.facts, device))
    if step.adapter.startswith("host"):
        called = [n for n, host in step.facts.of.map.hosts.items() if host == step.adapter]
        own = [step.adapter, step.adapter.replace("host", "scsi"), *map(_pattern, called)]
        names = dict.fromkeys(own) | names
    if step.device is None:
        names |= dict.fromkeys([_pattern(step.name)] if step.name else [])
        names |= dict.fromkeys(_logged_before(step.facts.of.map, step.about.subject))
    for array in step.arrays():
        names[array] = None
    if step.kind is DeviceKind.MD:  # messages about lost members name its disks
        for device in step.disks():
            names |= dict.fromkeys(_logged(step.facts, device))
    if step.about.subject.startswith(FILE_SYSTEM) and not names:
        return ["Kernel messages of btrfs:", "  dmesg -T | grep -i btrfs | tail -30"]
    shown = list(names)[:MAX_DISKS]
    if not shown:
        return ["The latest kernel messages:", "  dmesg -T | tail -50"]
    of = step.adapter or step.whole() or "this disk"
    pattern = "|".join(shown)
    return [
        f"Kernel messages about {of}:",
        f"  dmesg -T | grep -wE {quote(pattern)} | tail -30",
    ]


def _logged(facts: Facts, device: Device) -> list[str]:
    """Return the names of a device in the kernel log, as patterns."""
    name = _pattern(device.name)
    part = "p?[0-9]*" if name[-1:].isdigit() else "[0-9]*"
    names = [f"{name}{part}" if device.partitions else name]
    names += [_pattern(device.dm_name)] if device.dm_name else []
    names += facts.nvme_controllers(device)
    names += [rf"{device.port}(\.[0-9]+)?"] if device.port else []
    return [*names, *([device.address] if device.address else [])]


def _logged_before(known: DeviceMap, subject: str) -> list[str]:
    """Return the names in the kernel log of a removed disk, and of an ATA port without a disk."""
    was = known.devices.gone.get(subject)
    host = f"host{was.address.partition(':')[0]}" if was is not None and was.address else ""
    port = DeviceIndex(known).ata_port(host) if host else subject.removeprefix("device ")
    names = [rf"{port}(\.[0-9]+)?"] if is_ata_port(port) else []
    return [*names, was.address] if was is not None and was.address else names


def _pattern(name: str) -> str:
    """Return a name as a readable pattern of grep -E."""
    return re.sub(r"([.+*?^$|()\[\]{}\\])", r"\\\1", name)


def kernel_state(step: StepContext) -> list[str]:
    """The state of the device in the kernel; this does not access the disk."""
    step = step.widened()
    if step.adapter:
        files = [
            each for device in step.disks()[:MAX_DISKS] for each in _state_files(step.facts, device)
        ]
        files = [each for each in files if "/state" in each]
        if not files:
            return []
        return ["Which of its disks the kernel still uses:", f"  grep -sH . {' '.join(files)}"]
    device = step.device
    if device is None:
        return []
    if step.kind is DeviceKind.MD:
        return ["Its state:", "  cat /proc/mdstat"]
    if step.kind is DeviceKind.MAP:
        return paths(step)
    if step.kind in MAPPED and device.dm_name:
        return [
            "Its state, and the devices below it:",
            f"  dmsetup info {quote(device.dm_name)}",
            f"  lsblk -s {quote(step.facts.node(device.name))}",
        ]
    if step.kind is DeviceKind.LOOP:
        return ["Its backing file:", f"  losetup -l /dev/{device.name}"]
    files = _state_files(step.facts, device)
    return [
        "Whether the kernel still uses it, and its requests in flight (reads, writes):",
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


def smart_data(step: StepContext) -> list[str]:
    """The SMART data of the disk as last read; then the command that reads it now."""
    facts, device = step.facts, step.device
    label = step.own.get("disk") or (facts.disk(device) if device else "")
    covered = facts.of.map.disks.get(label)
    lines = []
    if covered is not None and step.kind not in {DeviceKind.VIRTUAL, DeviceKind.LUN}:
        lines = [
            "The SMART data as last read; this does not access the disk:",
            f"  iowarden disk show {quote(label)}",
        ]
    where = EventPlace(Identity("", ""), disk=label, device=device.name if device else "")
    if way := smartctl_command(where, facts.of.map):
        if way.startswith("smartctl -x"):
            return [*lines, "Query the disk itself, behind its controller:", f"  {way}"]
        return [*lines, f"Query the disk itself, behind its controller: {way}."]
    if device is None:
        behind = step.own.get("controller") and not lines
        return ["The health of the disks:", "  iowarden disk list"] if behind else lines
    match step.kind:
        case DeviceKind.VIRTUAL:
            return [
                f"{device.name} is a virtual disk: only its hypervisor has the health of the disks."
            ]
        case DeviceKind.LUN:
            return [f"{device.name} is a LUN: only the storage array has the health of its disks."]
        case DeviceKind.ATA | DeviceKind.SCSI | DeviceKind.NVME:
            return [*lines, "Query it now, if it answers:", f"  smartctl -x /dev/{device.name}"]
    below = [d.name for d in step.disks() if facts.kind(d) in {*DISKS, DeviceKind.VOLUME}]
    if not below:
        return lines
    of = "" if below == [device.name] else f" below {step.shown()} ({listed(below)})"
    return [f"The health of the disks{of}:", "  iowarden disk list"]


def cable(step: StepContext) -> list[str]:
    """What to check next, by hand."""
    step = step.widened()
    if step.adapter:
        return [
            (
                "What the disks have in common is the likely cause: the adapter and its firmware,"
                " its cable, expander, backplane or power supply. Check these before you replace a"
                " disk."
            )
        ]
    if step.device is None:
        return ["Then check its cable, power supply, backplane and slot."] if step.name else []
    match step.kind:
        case DeviceKind.VIRTUAL:
            return ["Then check the storage of the hypervisor that this host runs on."]
        case DeviceKind.LUN | DeviceKind.MAP | DeviceKind.PATH:
            return [
                "Then check the adapter, the cables and switches, and the storage array itself."
            ]
        case DeviceKind.NVME:
            return ["Then check its slot or riser, its temperature, and its firmware."]
        case DeviceKind.ATA | DeviceKind.SCSI:
            return ["Then check its cable, its power supply, and its bay, port or USB bridge."]
        case DeviceKind.VOLUME:
            return ["Then check the event log of its controller, which has more about its disks."]
    below = [d.name for d in step.disks() if d.name != step.device.name]
    return [f"Then check the devices below it: {listed(below)}."] if below else []


def rescan(step: StepContext) -> list[str]:
    """How to rescan for a disk that was put back: on its own adapter, not on all of them."""
    name = step.name
    gone = next((g for g in step.facts.of.map.devices.gone.values() if g.name == name), None)
    if step.device is not None:
        return []
    if gone is not None and gone.adapter.startswith("host"):
        return [
            "If it is in place and not detected automatically, rescan its adapter:",
            f"  echo '- - -' > /sys/class/scsi_host/{gone.adapter}/scan",
        ]
    if name.startswith("nvme"):
        return [
            "If it is in place and not detected automatically, rescan; this covers all of PCI:",
            "  echo 1 > /sys/bus/pci/rescan",
        ]
    return []


def hold_back(step: StepContext) -> list[str]:
    """How to throttle only the writers of a slow disk, on the device of its file system.

    Nothing where all file systems are on slow disks: then only the limits of the host help. Nor
    where programs wait for another reason: a disk that starves is slow because of its neighbour.
    Source: kernel, ABI/testing/sysfs-class-bdi, max_ratio: a share of the host's dirty limit.
    """
    facts = step.facts
    if not facts.of.backlog.explains(step.own.get("device", ""), {"backlog", "journal"}):
        return []
    slow = [device for name in facts.of.slow if (device := facts.device(name)) is not None]
    if not _is_another_mounted(facts, {device.name for device in slow}):
        return []
    lines: list[str] = []
    for device in slow:
        for top in facts.mounted_on(device)[:MAX_THROTTLED]:
            only = f"the slow disk {device.name} only{_carried(top, device)}"
            lines += [
                f"Limit the unwritten data of {only} (default: 100):",
                f"  echo 5 > /sys/block/{top.name.replace('/', '!')}/bdi/max_ratio",
            ]
    return lines


def _carried(top: Device, disk: Device) -> str:
    """Return which device on a disk has the limit: a reader knows 'dm-0' by another name."""
    if top.name == disk.name:
        return ""
    name = f" ({top.dm_name})" if top.dm_name else ""
    return f", at {top.name}{name}, which is on it: 'iowarden storage' shows both"


def _is_another_mounted(facts: Facts, slow: set[str]) -> bool:
    """Whether a file system is on other disks than these."""
    topology = facts.of.map.topology
    disks = () if topology is None else topology.leaves
    tops = (
        top
        for name in disks
        if name not in slow and (device := facts.device(name)) is not None
        for top in facts.mounted_on(device)
    )
    return any(slow.isdisjoint(leaf.name for leaf in facts.leaves(top)) for top in tops)


def stands_on(step: StepContext) -> list[str]:
    """The disks below a device, with what is on their labels."""
    device = step.device
    if device is None or step.kind in {
        *DISKS,
        DeviceKind.VIRTUAL,
        DeviceKind.LUN,
        DeviceKind.VOLUME,
        DeviceKind.PATH,
    }:
        return []
    below = [each for each in step.disks() if each.name != device.name]
    if not below:
        return []
    shown = "; ".join(step.facts.shown(each) for each in below[:MAX_DISKS])
    return [
        f"{step.shown()} is built on {shown}.",
        f"  lsblk -s {quote(step.facts.node(device.name))}",
    ]


def controller_program(step: StepContext) -> list[str]:
    """Commands that query a RAID controller, its arrays and its disks."""
    name = step.own.get("controller", "")
    if not name and step.device is not None:
        name = step.facts.controller_of(step.device)
    card = step.facts.index.card(name)
    commands = query_commands(name, "" if card is None else card.program)
    if commands:
        return ["Arrays and disks, as the controller reports them:", *commands]
    if card is None:
        return []
    return [f"Check arrays, disks and event log of {name} with the program of its vendor."]
