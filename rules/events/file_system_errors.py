"""Which file systems the kernel logged errors of, and which of them it stopped. Pure.

Source: kernel: fs/ext4/super.c, ext4_handle_error ('Remounting filesystem read-only'),
fs/jbd2/journal.c, jbd2_journal_abort ('Aborting journal on device'; with '-8' it is in the file
system, without in a device of its own); fs/xfs/xfs_fsops.c, fs/btrfs/messages.c ('forced
readonly'), fs/f2fs/super.c, f2fs_handle_critical_error.
Limits: bursts of the last day; of each the first and the last line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.kmsg import kernel_btrfs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.rules.events.event_state import EventGroup

_STOPPED = frozenset({"fs_readonly", "fs_shutdown"})
_ERRORS = _STOPPED | {
    *("fs_error", "fs_checksum_error", "fs_corruption", "fs_errors_remembered", "lost_write")
}
_ABORTED = re.compile(r"aborted journal|Aborting journal|Journal has aborted|stop checkpoint")


def file_system_errors(
    groups: Iterable[EventGroup], boot_id: str, topology: Topology | None
) -> dict[str, bool]:
    """Return by device whether its file system became read-only or stopped, else had an error.

    A btrfs is under each of its devices. Lines of an earlier boot do not count.
    """
    found: dict[str, bool] = {}
    for group in groups:
        if group.source != "kernel" or group.burst.kind not in _ERRORS or group.ended_seconds:
            continue
        for event in (group.burst.first, group.burst.last):
            if boot_id and event.boot_id not in {"", boot_id}:
                continue
            name = event.device or kernel_btrfs.file_system(event.place)
            stopped = group.burst.kind in _STOPPED or _ABORTED.search(event.text) is not None
            for device in _devices(name.removeprefix("/dev/"), topology):
                found[device] = found.get(device, False) or stopped
    return found


def _devices(name: str, topology: Topology | None) -> tuple[str, ...]:
    if topology is None or not name:
        return (name,) if name else ()
    own = topology.kernel_name(name)
    system = topology.btrfs.get(own)
    return (own,) if system is None else system.devices
