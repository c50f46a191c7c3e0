"""Errors that file systems counted themselves: ext4 and btrfs.

ext4 counts in its superblock until e2fsck clears it, btrfs in its device items until 'btrfs device
stats -z'. Neither count decreases by itself, so an increase is reported until it is cleared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import baseline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.filesystem.btrfs import BtrfsDevice
    from iowarden.collectors.filesystem.ext4 import Ext4
    from iowarden.collectors.filesystem.mountinfo import Mounts
    from iowarden.rules.signals.baseline import Remembered
    from iowarden.rules.signals.signal import Pairs, View

CLOCK_SLACK_SECONDS = 86_400.0
"""The kernel's clock may have been hours off when it dated the errors."""

EXT4_FAMILIES = (
    Family(
        "iowarden_ext4_errors_since_baseline",
        "gauge",
        "Errors of an ext4 file system since iowarden first saw it, until e2fsck clears them"
        " (errors_count).",
    ),
    Family(
        "iowarden_ext4_baseline_errors",
        "gauge",
        "Errors of an ext4 file system at baseline, until e2fsck clears them (errors_count).",
    ),
)


def _ext4_counts(remembered: Remembered, value: Mapping[str, Ext4], view: View) -> Iterator[Sample]:
    """Yield the counts of every ext4 file system, by its block device.

    An unmounted one keeps its last count while its device exists and holds no other kind of file
    system: unmounting it for e2fsck must not look like a repair.
    """
    now = view.inputs.now_seconds
    for name, filesystem in value.items():
        if filesystem.errors_total is None:
            continue
        counted = baseline.count(remembered.get(name), filesystem.errors_total, now)
        if counted.new and _before(remembered.get(name), filesystem):
            counted = counted._replace(baseline=counted.last)
        remembered[name] = baseline.pairs(counted)
        yield from _ext4_samples(name, counted)
    blocks: Mapping[str, BlockIo] = view.inputs.snapshot.diskstats or {}
    others = _other_kinds(view.inputs.snapshot.mounts)
    for name in remembered.keys() - value.keys():
        (at, last), (grew, old) = remembered[name]
        block = blocks.get(name)
        if block is not None and f"{block.major}:{block.minor}" in others:
            del remembered[name]
        elif last and block is not None:
            yield from _ext4_samples(name, baseline.ErrorCount(at, last, grew, old))


def _other_kinds(mounts: Mounts | None) -> frozenset[str]:
    """Return the numbers of the devices that now hold another kind of file system."""
    found = () if mounts is None else mounts.mounts
    return frozenset(m.device_number for m in found if not m.kind.startswith("ext"))


def _before(pairs: Pairs | None, filesystem: Ext4) -> bool:
    """Whether the errors are older than our last reading: another file system has this name now."""
    at = None if filesystem.last is None else filesystem.last.at_seconds
    return bool(pairs and at and at < pairs[0][0] - CLOCK_SLACK_SECONDS)


def _ext4_samples(name: str, counted: baseline.ErrorCount) -> list[Sample]:
    labels = (("device", name),)
    return [
        ("iowarden_ext4_errors_since_baseline", labels, counted.new),
        ("iowarden_ext4_baseline_errors", labels, counted.baseline),
    ]


def _btrfs_counts(
    remembered: Remembered, value: Iterable[BtrfsDevice], view: View
) -> Iterator[Sample]:
    """Yield the counts of every device of every btrfs file system."""
    now = view.inputs.now_seconds
    for device in value:
        labels = (
            ("fsid", device.filesystem),
            ("devid", str(device.identifier)),
            ("label", device.label),
        )
        key = f"{device.filesystem} {device.identifier}"
        lost = [
            device.write_errors_total,
            device.flush_errors_total,
            device.corruption_errors_total,
            device.generation_errors_total,
        ]
        told = [number for number in lost if number is not None]
        old = 0.0
        if told:
            counted = baseline.count(remembered.get(key), sum(told), now)
            remembered[key] = baseline.pairs(counted)
            yield "iowarden_btrfs_device_errors_since_baseline", labels, counted.new
            old += counted.baseline
        unwritten = (device.write_errors_total, device.flush_errors_total)
        if any(number is not None for number in unwritten):
            own = key + " unwritten"
            counted = baseline.count(remembered.get(own), sum(n or 0 for n in unwritten), now)
            remembered[own] = baseline.pairs(counted)
            yield (
                "iowarden_btrfs_device_write_errors_since_baseline",
                labels,
                counted.new,
            )
        if device.read_errors_total is not None:
            counted = baseline.recent(remembered.get(key + " read"), device.read_errors_total, now)
            remembered[key + " read"] = baseline.pairs(counted)
            yield "iowarden_btrfs_device_recent_read_errors", labels, counted.new
            old += counted.baseline
        yield "iowarden_btrfs_device_baseline_errors", labels, old


EXT4_GROUP = baseline.group(
    name="ext4_errors",
    sources=("ext4",),
    families=EXT4_FAMILIES,
    value_of=lambda view: view.inputs.snapshot.ext4,
    evaluate=_ext4_counts,
)


BTRFS_GROUP = baseline.group(
    name="btrfs_errors",
    sources=("btrfs",),
    families=(
        Family(
            "iowarden_btrfs_device_errors_since_baseline",
            "gauge",
            "Write, flush, corruption and generation errors of a btrfs device since iowarden"
            " first saw it, until 'btrfs device stats -z'.",
        ),
        Family(
            "iowarden_btrfs_device_write_errors_since_baseline",
            "gauge",
            "Write and flush errors of a btrfs device since iowarden first saw it, until 'btrfs"
            " device stats -z'.",
        ),
        Family(
            "iowarden_btrfs_device_baseline_errors",
            "gauge",
            "Errors of a btrfs device at baseline, including read errors, until 'btrfs device"
            " stats -z'.",
        ),
        Family(
            "iowarden_btrfs_device_recent_read_errors",
            "gauge",
            "Recent read errors of a btrfs device; each came within a day of the one before.",
        ),
    ),
    value_of=lambda view: view.inputs.snapshot.btrfs,
    evaluate=_btrfs_counts,
)
