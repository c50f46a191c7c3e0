"""All sources, in the order in which they are read: a new collector is a line of SOURCES."""

from __future__ import annotations

from typing import Any

from iowarden.collectors import monitors
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
from iowarden.collectors.filesystem import btrfs, ext4, mountinfo, statfs
from iowarden.collectors.kernel import hung_task, numa, thp, uname
from iowarden.collectors.kmsg import kernel_log
from iowarden.collectors.md import mdstat
from iowarden.collectors.procfs import (
    clock,
    loadavg,
    meminfo,
    pressure,
    stat,
    sysctl_vm,
    tasks,
    vmstat,
)
from iowarden.collectors.raid import controller, controller_poller, vendors
from iowarden.collectors.smart import smart_poller, smart_series, smartctl_exporter
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
    monitors.SOURCE,
    queue.SOURCE,
    scsi.SOURCE,
    mdstat.SOURCE,
    bdi.SOURCE,
    mountinfo.SOURCE,
    hwmon.SOURCE,
    ext4.SOURCE,
    btrfs.SOURCE,
    enclosure.SOURCE,
    statfs.SOURCE,
    Source(
        name="smart",
        period_seconds=15,
        may_hang=True,
        read=smart_poller.read_smart,
        families=smart_series.FAMILIES,
        emit=smart_series.emit,
        node=smartctl_exporter.samples,
        node_prefixes=smartctl_exporter.PREFIXES,
        objects=("disk",),
        lists=("disk", smart_poller.keys),
        unread=smart_poller.unread,
        start=smart_poller.start(),
    ),
    Source(
        name="kernel_log",
        period_seconds=1,
        may_hang=True,
        read=kernel_log.read_kernel_log,
        families=kernel_log.FAMILIES,
        emit=kernel_log.emit,
        start=kernel_log.start(),
    ),
    Source(
        name="controllers",
        period_seconds=controller_poller.PERIOD_SECONDS,
        may_hang=True,
        read=vendors.read_controllers,
        families=controller.FAMILIES,
        emit=controller.emit,
        objects=("controller",),
        lists=("controller", controller.names),
        unread=controller.unread,
        start=controller_poller.start(vendors.BACKENDS),
    ),
)
