"""Disk state: a disk changed its size, became read-only or is offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import baseline, guards
from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.rules.signals.baseline import Remembered
    from iowarden.rules.signals.signal import Pairs, View

NO_DISKS: Mapping[str, float] = {}
_NAMELESS = "\0"
"""Part of the key of a disk without serial number and WWN."""
_OFFLINE = frozenset({"offline", "transport-offline"})


def _size_and_mode_changes(
    remembered: Remembered, topology: Topology, view: View
) -> Iterator[Sample]:
    """Yield the size change and the write protection of every disk.

    The state is by name and serial number: (when the size was last unchanged, that size), (when it
    was last seen, whether it was read-only at baseline). Removable disks and those of the network
    block device come and go, and are left out. A disk without serial number and WWN is remembered
    only while it is present.
    """
    now = view.inputs.now_seconds
    present = {_key(topology.devices[name]) for name in topology.leaves}
    for key in [key for key in remembered if key not in present and _NAMELESS in key]:
        del remembered[key]
    for name in topology.leaves:
        device = topology.devices[name]
        if guards.is_exchangeable(device):
            continue
        labels = (("device", name),)
        key = _key(device)
        (same, size), (at, was_read_only) = _known(remembered.get(key), device, now)
        if device.size_bytes is not None:
            change = device.size_bytes - size
            if change == 0:
                same = baseline.stamp(same, now)
            elif change > 0 and (size == 0 or now - same > baseline.RECENT_SECONDS):
                same, size, change = now, float(device.size_bytes), 0.0
            yield "iowarden_device_size_change_bytes", labels, change
        if device.read_only is not None:
            was_read_only = min(was_read_only, float(device.read_only))
            turned = float(device.read_only) - was_read_only
            yield "iowarden_device_became_read_only", labels, turned
        remembered[key] = ((same, size), (baseline.stamp(at, now), was_read_only))


def change_remember(state: Mapping[str, Pairs]) -> Mapping[str, Pairs]:
    """Return the stored state of the disks that can be recognized after a reboot."""
    return {key: pairs for key, pairs in state.items() if _NAMELESS not in key}


def _key(device: Device) -> str:
    # For a disk without serial number and WWN, diskseq recognizes a replacement within this boot.
    own = device.serial or device.wwn
    return f"{device.name} {device.model or ''} {own or f'{_NAMELESS}{device.diskseq}'}"


def _known(pairs: Pairs | None, device: Device, now: float) -> Pairs:
    match pairs:
        case ((same, size), (at, was_read_only)):
            return (min(same, now), size), (at, was_read_only)
        case _:
            return (now, float(device.size_bytes or 0)), (now, float(device.read_only or 0))


def scsi_step(
    state: Mapping[str, float], view: View
) -> tuple[Mapping[str, float], list[Sample] | None]:
    """Return the state of every SCSI disk; the group's state: since when a disk is not running."""
    value = view.inputs.snapshot.scsi
    if value is None:
        return state, None
    now = view.inputs.now_seconds
    booted = now - view.inputs.uptime_seconds
    since: dict[str, float] = {}
    samples: list[Sample] = []
    for address, device in value.devices.items():
        if device.device is None or device.state is None:
            continue
        name, seconds = device.device, 0.0
        if device.state != "running":
            key = f"{name} {address}"
            at = state.get(key, now)
            since[key] = at if at >= booted else now
            seconds = now - since[key]
        labels = (("device", name),)
        samples += [
            ("iowarden_device_offline", labels, float(device.state in _OFFLINE)),
            ("iowarden_device_not_running_seconds", labels, seconds),
        ]
    return since, samples


def scsi_remember(state: Mapping[str, float]) -> dict[str, Pairs]:
    """Return since when disks are not running."""
    return {key: ((since, 0.0),) for key, since in state.items()}


def scsi_recall(state: Mapping[str, float], stored: Mapping[str, Pairs]) -> dict[str, float]:
    """Return the state with the stored one: a disk not running now has been so since before."""
    return {**state, **{key: pairs[0][0] for key, pairs in stored.items() if pairs}}


CHANGE_GROUP = baseline.group(
    name="device_change",
    sources=("block",),
    families=(
        Family(
            "iowarden_device_size_change_bytes",
            "gauge",
            "Size of a disk in bytes less its size at baseline; a larger size becomes the"
            " baseline after a day.",
        ),
        Family(
            "iowarden_device_became_read_only",
            "gauge",
            "1 while a disk is read-only that was writable before.",
        ),
    ),
    value_of=lambda view: view.inputs.snapshot.block,
    evaluate=_size_and_mode_changes,
    remember=change_remember,
)


SCSI_GROUP = SignalGroup(
    name="scsi_state",
    sources=("scsi",),
    families=(
        Family(
            "iowarden_device_offline",
            "gauge",
            "1 while the kernel has set a SCSI device offline (offline, transport-offline).",
        ),
        Family(
            "iowarden_device_not_running_seconds",
            "gauge",
            "Seconds for which a SCSI device has been in a state other than running.",
        ),
    ),
    step=scsi_step,
    initial=NO_DISKS,
    remember=scsi_remember,
    recall=scsi_recall,
)
