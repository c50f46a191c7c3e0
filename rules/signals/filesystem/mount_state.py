"""File systems that can no longer be written, though they should be (domain condition M2).

An error makes the kernel turn the file system (the superblock) read-only and leaves the mount as it
was; 'mount -o remount,ro' turns both. Source: kernel, fs/proc_namespace.c show_mountinfo (the two
are printed apart), fs/ext4/super.c ext4_handle_error; from 6.15 ext4 says 'emergency_ro' instead.
Limits: ext4 of 6.12 to 6.14 shows nothing in this table; its count of errors tells (M1).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.filesystem.mountinfo import storage
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import baseline
from iowarden.rules.signals.signal import Group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.filesystem.mountinfo import Mount, Mounts
    from iowarden.rules.signals.signal import Pairs, View

EMERGENCY = frozenset({"emergency_ro", "shutdown"})


@dataclass(frozen=True, slots=True)
class MountState:
    """What the next step needs of the steps before.

    `writable`: when a mount was last seen so. `names`: block devices by number, so that a second
    without '/proc/diskstats' does not rename them.
    """

    writable: Mapping[str, Pairs] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def step(state: MountState, view: View) -> tuple[MountState, list[Sample] | None]:
    """Return for every mounted file system on a block device how it can be written."""
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
            continue  # beyond the network: nothing this kernel decides
        # The kernel's name ('sda1', 'dm-0'), as ext4 has it.
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
            ("iowarden_mount_unwanted_read_only", labels, float(left and wanted is True)),
            (
                "iowarden_mount_turned_read_only",
                labels,
                float(left and before and wanted is not True),
            ),
        ]
    return MountState(baseline.bounded(writable), names), samples


def remember(state: MountState) -> Mapping[str, Pairs]:
    """Return what was seen to be writable."""
    return state.writable


def recall(state: MountState, kept: Mapping[str, Pairs]) -> MountState:
    """Return the state with what was writable before a restart."""
    return replace(state, writable={**kept, **state.writable})


def _wanted(mount: Mount, mounts: Mounts) -> bool | None:
    """Return whether '/etc/fstab' wants the mount writable; None: it says nothing of it.

    What is mounted by hand (noauto) is mounted as is wanted then: a backup disk, writable by night.
    """
    options = None if mounts.wanted is None else mounts.wanted.get(mount.mount_point)
    if options is None or ("noauto" in options and "ro" not in options):
        return None
    return "ro" not in options


GROUP = Group(
    name="mount_state",
    sources=("mounts",),
    families=(
        Family(
            "iowarden_mount_forced_read_only",
            "gauge",
            "1 while the kernel keeps a file system read-only that should be writable.",
        ),
        Family(
            "iowarden_mount_unwanted_read_only",
            "gauge",
            "1 while a mount is read-only by command and '/etc/fstab' wants it writable.",
        ),
        Family(
            "iowarden_mount_turned_read_only",
            "gauge",
            "1 while a mount is read-only by command that was writable before.",
        ),
    ),
    step=step,
    initial=MountState(),
    remember=remember,
    recall=recall,
)
