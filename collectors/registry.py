"""All collectors, in the order in which they run: a new collector is a line of SOURCES."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iowarden.collectors import competing_monitors
from iowarden.collectors.block import (
    bdi,
    block_devices,
    device_mapper,
    diskstats,
    enclosure,
    hwmon,
    queue,
    scsi,
    udev,
)
from iowarden.collectors.device_mapper import mapped_targets
from iowarden.collectors.filesystem import (
    backups,
    bad_blocks,
    btrfs,
    btrfs_scrub,
    ext4,
    mountinfo,
    statfs,
)
from iowarden.collectors.kernel import hung_task, numa, thp, uname
from iowarden.collectors.kmsg import kernel_log
from iowarden.collectors.md import mdstat
from iowarden.collectors.procfs import (
    clock,
    loadavg,
    meminfo,
    pressure,
    process_io,
    stat,
    sysctl_vm,
    tasks,
    vmstat,
)
from iowarden.collectors.raid import controller
from iowarden.collectors.smart import smart_series
from iowarden.collectors.zfs import arc, pool_state, txgs, vdevs

if TYPE_CHECKING:
    from iowarden.collectors.source import Source

SOURCES: tuple[Source[Any], ...] = (
    meminfo.SOURCE,
    vmstat.SOURCE,
    pressure.SOURCE,
    stat.SOURCE,
    diskstats.SOURCE,
    clock.SOURCE,
    sysctl_vm.SOURCE,
    numa.SOURCE,
    hung_task.SOURCE,
    loadavg.SOURCE,
    thp.SOURCE,
    uname.SOURCE,
    udev.SOURCE,
    block_devices.SOURCE,
    device_mapper.SOURCE,
    tasks.SOURCE,
    process_io.SOURCE,
    competing_monitors.SOURCE,
    queue.SOURCE,
    scsi.SOURCE,
    mdstat.SOURCE,
    bdi.SOURCE,
    mountinfo.SOURCE,
    hwmon.SOURCE,
    ext4.SOURCE,
    btrfs.SOURCE,
    arc.SOURCE,
    pool_state.SOURCE,
    txgs.SOURCE,
    vdevs.SOURCE,
    mapped_targets.SOURCE,
    enclosure.SOURCE,
    statfs.SOURCE,
    backups.SOURCE,
    bad_blocks.SOURCE,
    btrfs_scrub.SOURCE,
    smart_series.SOURCE,
    kernel_log.SOURCE,
    controller.SOURCE,
)
