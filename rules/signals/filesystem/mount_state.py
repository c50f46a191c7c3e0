"""File systems that are read-only and should be writable.

After an error the kernel makes the file system (the superblock) read-only and leaves the mount
unchanged; 'mount -o remount,ro' changes both. Source: kernel, fs/proc_namespace.c show_mountinfo
(prints both), fs/ext4/super.c ext4_handle_error; from 6.15 ext4 prints 'emergency_ro' instead.
Limits: ext4 of 6.12 to 6.14 shows nothing in this table; its error count does (FilesystemErrors).
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.mountinfo import storage
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import baseline
from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.filesystem.mountinfo import Mount, Mounts
    from iowarden.rules.signals.signal import Pairs, View

EMERGENCY = frozenset({"emergency_ro", "shutdown"})


@dataclass(frozen=True, slots=True)
class MountState:
    """When mounts were last writable, and the names of their devices.

    `writable`: when a mount was last writable. `names`: block devices by number, so that a second
    without '/proc/diskstats' does not rename them.
    """

    writable: Mapping[str, Pairs] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def step(state: MountState, view: View) -> tuple[MountState, list[Sample] | None]:
    """Return for every mounted file system on a block device whether it is read-only, and why."""
    value = view.inputs.snapshot.mounts
    if value is None:
        return state, None
    now = view.inputs.now_seconds
    blocks = view.inputs.snapshot.diskstats
    names = (
        state.names
        if blocks is None
        else {f"{b.major}:{b.minor}": b.device for b in blocks.values()}
    )
    writable = dict(state.writable)
    samples: list[Sample] = []
    for mount in storage(value.mounts):
        if not mount.source.startswith("/dev/") and not mount.kind.endswith("zfs"):
            continue  # a network file system: this kernel does not decide
        # The kernel's name ('sda1', 'dm-0'), as in the series of ext4.
        device = names.get(mount.device_number) or mount.source.removeprefix("/dev/")
        labels = (("device", device), ("fstype", mount.kind), ("mountpoint", mount.mount_point))
        key = f"{device} {mount.mount_point}"
        emergency = not EMERGENCY.isdisjoint(mount.super_options)
        read_only = "ro" in mount.options or "ro" in mount.super_options
        wanted = _wanted(mount, value)
        before = key in state.writable
        if not read_only and not emergency:
            baseline.seen(writable, key, 1.0, now)
        if wanted is False and not emergency:
            before = read_only = False
        by_command = "ro" in mount.options
        forced = emergency or (read_only and not by_command and (wanted is True or before))
        left = read_only and by_command and not forced
        samples += [
            ("iowarden_mount_forced_read_only", labels, float(forced)),
            ("iowarden_mount_unexpected_read_only", labels, float(left and wanted is True)),
            (
                "iowarden_mount_became_read_only",
                labels,
                float(left and before and wanted is not True),
            ),
        ]
    return MountState(baseline.bounded(writable), names), samples


def remember(state: MountState) -> Mapping[str, Pairs]:
    """Return which mounts were writable."""
    return state.writable


def recall(state: MountState, stored: Mapping[str, Pairs]) -> MountState:
    """Return the state with the mounts that were writable before the restart."""
    return replace(state, writable={**stored, **state.writable})


def _wanted(mount: Mount, mounts: Mounts) -> bool | None:
    """Return whether '/etc/fstab' lists the mount as writable; None: it does not list it.

    What is mounted by hand (noauto) is mounted as needed at that time: a backup disk is writable by
    night.
    """
    options = None if mounts.wanted is None else mounts.wanted.get(mount.mount_point)
    if options is None or ("noauto" in options and "ro" not in options):
        return None
    return "ro" not in options


GROUP = SignalGroup(
    name="mount_state",
    sources=("mounts",),
    families=(
        Family(
            "iowarden_mount_forced_read_only",
            "gauge",
            "1 while the kernel has made a file system read-only that should be writable.",
        ),
        Family(
            "iowarden_mount_unexpected_read_only",
            "gauge",
            "1 while a mount is read-only although '/etc/fstab' lists it as writable.",
        ),
        Family(
            "iowarden_mount_became_read_only",
            "gauge",
            "1 while a mount was remounted read-only that was writable before.",
        ),
    ),
    step=step,
    initial=MountState(),
    remember=remember,
    recall=recall,
)
