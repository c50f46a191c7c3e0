"""File systems that are read-only and should be writable, and whether a command made them so.

After an error the kernel makes the file system (the superblock) read-only and leaves the mount
unchanged; 'mount -o remount,ro' changes both, also after an error. So a command is known to be the
cause only where the file system is known to be well: the kernel logged no error of it, and ext4,
which stores its errors until e2fsck clears them, has none. That the kernel stopped a file system is
stored until it is writable again: its lines are known for a day, and not before the log is read
after a restart. Source: kernel, fs/proc_namespace.c
show_mountinfo (prints both), fs/ext4/super.c ext4_handle_error; from 6.15 ext4 prints
'emergency_ro' instead.
Limits: ext4 of 6.12 to 6.14, and of 6.1 with later updates, shows nothing in this table; its error
count does (FilesystemErrors).
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
_EXT = frozenset({"ext2", "ext3", "ext4"})
"""Mounted by ext4, whose superblock stores the number of errors."""
_STOPPED = "stopped "
"""Begins the stored keys of file systems that the kernel stopped."""


@dataclass(frozen=True, slots=True)
class MountState:
    """When mounts were last writable, and the names of their devices.

    `writable`: when a mount was last writable. `names`: block devices by number, so that a second
    without '/proc/diskstats' does not rename them. `stopped`: since when the kernel's log has had
    that the file system of a mount became read-only, or stopped, after an error; until it is
    writable again.
    `ext4_errors`: error counts in superblocks as last read, by device; None: not read.
    """

    writable: Mapping[str, Pairs] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    stopped: Mapping[str, float] = field(default_factory=dict)
    ext4_errors: Mapping[str, int | None] | None = None


def step(state: MountState, view: View) -> tuple[MountState, list[Sample] | None]:
    """Return for every mounted file system on a block device whether it is read-only, and why."""
    value = view.inputs.snapshot.mounts
    if value is None:
        return state, None
    evaluation = _Evaluation(state, view, value)
    samples: list[Sample] = []
    for mount in storage(value.mounts):
        if mount.source.startswith("/dev/") or mount.kind.endswith("zfs"):
            samples += evaluation.samples(mount)
        # else a network file system: this kernel does not decide
    return evaluation.state(), samples


class _Evaluation:
    """One evaluation of all mounts, and its working state."""

    def __init__(self, state: MountState, view: View, value: Mounts) -> None:
        self._before, self._value, self._now = state, value, view.inputs.now_seconds
        snapshot = view.inputs.snapshot
        self._names = (
            state.names
            if snapshot.diskstats is None
            else {f"{b.major}:{b.minor}": b.device for b in snapshot.diskstats.values()}
        )
        self._counts = state.ext4_errors
        if snapshot.ext4 is not None:
            self._counts = {name: each.errors_total for name, each in snapshot.ext4.items()}
        unread = "kernel_log" in view.inputs.failed
        self._logged = None if unread else view.inputs.file_system_errors
        self._writable = dict(state.writable)
        booted = self._now - view.inputs.uptime_seconds
        self._stopped_before = {key: at for key, at in state.stopped.items() if at >= booted}
        self._stopped: dict[str, float] = {}

    def state(self) -> MountState:
        """Return the state after it."""
        writable = baseline.bounded(self._writable)
        return MountState(writable, self._names, self._stopped, self._counts)

    def samples(self, mount: Mount) -> list[Sample]:
        """Return the samples of a mount."""
        # The kernel's name ('sda1', 'dm-0'), as in the series of ext4.
        device = self._names.get(mount.device_number) or mount.source.removeprefix("/dev/")
        labels = (("device", device), ("fstype", mount.kind), ("mountpoint", mount.mount_point))
        key = f"{device} {mount.mount_point}"
        emergency = not EMERGENCY.isdisjoint(mount.super_options)
        read_only = "ro" in mount.options or "ro" in mount.super_options
        wanted = _wanted(mount, self._value)
        before = key in self._before.writable
        if not read_only and not emergency:
            baseline.seen(self._writable, key, 1.0, self._now)
        if (self._logged or {}).get(device) or (key in self._stopped_before and read_only):
            self._stopped[key] = self._stopped_before.get(key, self._now)
        if wanted is False and not emergency:
            before = read_only = False
        by_error = key in self._stopped or "ro" not in mount.options
        forced = emergency or (read_only and by_error and (wanted is True or before))
        unforced = read_only and "ro" in mount.options and not forced
        unexpected = unforced and wanted is True
        became = unforced and before and wanted is not True
        return [
            ("iowarden_mount_forced_read_only", labels, float(forced)),
            ("iowarden_mount_unexpected_read_only", labels, float(unexpected)),
            ("iowarden_mount_became_read_only", labels, float(became)),
            (
                "iowarden_mount_read_only_by_command",
                labels,
                float((unexpected or became) and self._is_well(mount, device, key)),
            ),
        ]

    def _is_well(self, mount: Mount, device: str, key: str) -> bool:
        """Whether a file system is known to have had no error."""
        if self._logged is None or device in self._logged or key in self._stopped:
            return False
        return mount.kind not in _EXT or (self._counts or {}).get(device) == 0


def remember(state: MountState) -> Mapping[str, Pairs]:
    """Return which mounts were writable, and which file systems the kernel stopped."""
    stopped = {f"{_STOPPED}{key}": ((at, 1.0),) for key, at in state.stopped.items()}
    return {**state.writable, **stopped}


def recall(state: MountState, stored: Mapping[str, Pairs]) -> MountState:
    """Return the state with what was stored of the mounts before the restart."""
    before = {
        key.removeprefix(_STOPPED): pairs[0][0]
        for key, pairs in stored.items()
        if key.startswith(_STOPPED) and pairs
    }
    writable = {key: pairs for key, pairs in stored.items() if not key.startswith(_STOPPED)}
    return replace(
        state,
        writable={**writable, **state.writable},
        stopped={**state.stopped, **before},
    )


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
        Family(
            "iowarden_mount_read_only_by_command",
            "gauge",
            "1 while a mount is read-only that should be writable or was, and its file system is"
            " known to have no error: a command made it so.",
        ),
    ),
    step=step,
    initial=MountState(),
    remember=remember,
    recall=recall,
)
