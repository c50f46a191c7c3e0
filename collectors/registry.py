"""All sources in one table, and the one way to run one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

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
from iowarden.collectors.model import (
    AbsentError,
    Family,
    Labels,
    Outcome,
    ParseError,
    ReadError,
    Reading,
    Sample,
    StuckError,
    trace,
)
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

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Mapping

    from iowarden.collectors.machine import Root


@dataclass(frozen=True, slots=True)
class Source:
    """One source: how often it is read, what it gives. A new collector is a row of SOURCES.

    `may_hang`: to be read in a thread of its own. `emit` takes the value and the names of the whole
    devices (None: not known yet). `node`: the same value as node_exporter's series, whose names
    begin with one of `node_prefixes`. `objects`: labels by which its series name what some source
    lists. `lists`: such a label and the names of all there are ('device': sda, sda1 ...): an alert
    on one that is no longer there is unknown, not over.
    `unread`: parts of the value that could not be read, as labels and a reason ((('mountpoint',
    '/srv'),), 'silent for 30 s'): alerts with these labels are unknown while that lasts; the reason
    '': it was not looked at yet, which holds them for the first minutes.
    `parts`: as `read`, of a source with parts any of which may hang while the others answer; it
    calls its second argument ahead of each and leaves it out when that returns a reason.
    `start`: makes what takes the place of `read` where something is remembered from run to run; it
    gets the program's clock.
    """

    name: str
    period_seconds: float
    may_hang: bool
    read: Callable[[Root], Any]
    families: tuple[Family, ...]
    emit: Callable[[Any, frozenset[str] | None], list[Sample]]
    node: Callable[[Any], Iterable[Sample]] | None = None
    node_prefixes: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    lists: tuple[str, Callable[[Any], Container[str]]] | None = None
    unread: Callable[[Any], Iterable[tuple[Labels, str]]] | None = None
    parts: Callable[[Root, Callable[[Hashable], str]], Any] | None = None
    start: Callable[[Callable[[], float]], Callable[[Root], Any]] | None = None


SOURCES = (
    Source(
        name="meminfo",
        period_seconds=1,
        may_hang=False,
        read=meminfo.read_meminfo,
        families=meminfo.FAMILIES,
        emit=lambda value, _: meminfo.emit(value, ()),
        node=meminfo.node_samples,
        node_prefixes=("node_memory_",),
    ),
    Source(
        name="vmstat",
        period_seconds=1,
        may_hang=False,
        read=vmstat.read_vmstat,
        families=vmstat.FAMILIES,
        emit=lambda value, _: vmstat.emit(value, ()),
        node=vmstat.node_samples,
        node_prefixes=("node_vmstat_",),
    ),
    Source(
        name="pressure",
        period_seconds=1,
        may_hang=False,
        read=pressure.read_pressure,
        families=pressure.FAMILIES,
        emit=lambda value, _: pressure.emit(value),
        node=pressure.node_samples,
        node_prefixes=("node_pressure_",),
    ),
    Source(
        name="stat",
        period_seconds=1,
        may_hang=False,
        read=stat.read_stat,
        families=stat.FAMILIES,
        emit=lambda value, _: stat.emit(value),
        node=stat.node_samples,
        node_prefixes=(
            "node_boot_time_seconds",
            "node_context_switches_total",
            "node_cpu_guest_seconds_total",
            "node_cpu_seconds_total",
            "node_forks_total",
            "node_intr_total",
            "node_procs_",
        ),
    ),
    Source(
        name="diskstats",
        period_seconds=1,
        may_hang=False,
        read=diskstats.read_diskstats,
        families=diskstats.FAMILIES,
        emit=diskstats.emit,
        objects=("device",),
        lists=("device", lambda value: value),
        node=diskstats.node_samples,
        node_prefixes=(
            "node_disk_discard",
            "node_disk_flush_",
            "node_disk_io_",
            "node_disk_read",
            "node_disk_writ",
        ),
    ),
    Source(
        name="clock",
        period_seconds=1,
        may_hang=False,
        read=clock.read_clock,
        families=clock.FAMILIES,
        emit=lambda value, _: clock.emit(value),
        node=clock.node_samples,
        node_prefixes=("node_time_",),
    ),
    Source(
        name="vm_sysctl",
        period_seconds=15,
        may_hang=False,
        read=sysctl_vm.read_vm_sysctl,
        families=sysctl_vm.FAMILIES,
        emit=lambda value, _: sysctl_vm.emit(value),
    ),
    Source(
        name="numa",
        period_seconds=15,
        may_hang=False,
        read=numa.read_numa,
        families=numa.FAMILIES,
        emit=lambda value, _: numa.emit(value),
    ),
    Source(
        name="hung_task",
        period_seconds=15,
        may_hang=False,
        read=hung_task.read_hung_task,
        families=hung_task.FAMILIES,
        emit=lambda value, _: hung_task.emit(value),
    ),
    Source(
        name="loadavg",
        period_seconds=15,
        may_hang=False,
        read=loadavg.read_loadavg,
        families=loadavg.FAMILIES,
        emit=lambda value, _: loadavg.emit(value),
        node=loadavg.node_samples,
        node_prefixes=("node_load1", "node_load5"),
    ),
    Source(
        name="thp",
        period_seconds=60,
        may_hang=False,
        read=thp.read_thp,
        families=thp.FAMILIES,
        emit=lambda value, _: thp.emit(value),
    ),
    Source(
        name="uname",
        period_seconds=60,
        may_hang=False,
        read=uname.read_uname,
        families=uname.FAMILIES,
        emit=lambda value, _: uname.emit(value),
        node=uname.node_samples,
        node_prefixes=("node_uname_",),
    ),
    Source(
        name="udev",
        period_seconds=60,
        may_hang=True,
        read=udev.read_udev,
        families=udev.FAMILIES,
        emit=lambda value, _: udev.emit(value),
        objects=("device",),
        node=udev.node_samples,
        node_prefixes=(
            "node_disk_ata_",
            "node_disk_device_mapper_info",
            "node_disk_filesystem_info",
            "node_disk_info",
        ),
    ),
    Source(
        name="block",
        period_seconds=60,
        may_hang=True,
        read=block_devices.read_block,
        families=block_devices.FAMILIES,
        emit=lambda value, _: block_devices.emit(value),
        objects=("device",),
    ),
    Source(
        name="dm",
        period_seconds=5,
        may_hang=True,
        read=device_mapper.read_dm,
        families=device_mapper.FAMILIES,
        emit=lambda value, _: device_mapper.emit(value),
        objects=("device",),
        unread=device_mapper.unread,
    ),
    Source(
        name="tasks",
        period_seconds=5,
        may_hang=True,
        read=tasks.read_tasks,
        families=tasks.FAMILIES,
        emit=lambda value, _: tasks.emit(value),
    ),
    Source(
        name="monitors",
        period_seconds=60,
        may_hang=True,
        read=monitors.read_monitors,
        families=monitors.FAMILIES,
        emit=lambda value, _: monitors.emit(value),
    ),
    Source(
        name="queue",
        period_seconds=60,
        may_hang=True,
        read=queue.read_queue,
        families=queue.FAMILIES,
        emit=lambda value, _: queue.emit(value),
        objects=("device",),
        unread=queue.unread,
    ),
    Source(
        name="scsi",
        period_seconds=15,
        may_hang=True,
        read=scsi.read_scsi,
        families=scsi.FAMILIES,
        emit=lambda value, _: scsi.emit(value),
        objects=("device",),
        unread=scsi.unread,
    ),
    Source(
        name="md",
        period_seconds=15,
        may_hang=True,
        read=mdstat.read_md,
        families=mdstat.FAMILIES,
        emit=lambda value, _: mdstat.emit(value),
        objects=("device",),
        node=mdstat.node_samples,
        node_prefixes=("node_md_",),
    ),
    Source(
        name="bdi",
        period_seconds=15,
        may_hang=False,
        read=bdi.read_bdi,
        families=bdi.FAMILIES,
        emit=lambda value, _: bdi.emit(value),
        unread=bdi.unread,
    ),
    Source(
        name="mounts",
        period_seconds=15,
        may_hang=True,
        read=mountinfo.read_mounts,
        families=mountinfo.FAMILIES,
        emit=lambda value, _: mountinfo.emit(value),
        objects=("mountpoint",),
        lists=("mountpoint", mountinfo.mount_points),
    ),
    Source(
        name="hwmon",
        period_seconds=60,
        may_hang=True,
        read=hwmon.read_hwmon,
        families=hwmon.FAMILIES,
        emit=lambda value, _: hwmon.emit(value),
        objects=("device",),
        unread=hwmon.unread,
    ),
    Source(
        name="ext4",
        period_seconds=15,
        may_hang=False,
        read=ext4.read_ext4,
        families=ext4.FAMILIES,
        emit=lambda value, _: ext4.emit(value),
        objects=("device",),
    ),
    Source(
        name="btrfs",
        period_seconds=15,
        may_hang=False,
        read=btrfs.read_btrfs,
        families=btrfs.FAMILIES,
        emit=lambda value, _: btrfs.emit(value),
        objects=("filesystem",),
        lists=("filesystem", btrfs.filesystems),
    ),
    Source(
        name="enclosure",
        period_seconds=60,
        may_hang=True,
        read=enclosure.read_enclosure,
        families=enclosure.FAMILIES,
        emit=lambda value, _: enclosure.emit(value),
        objects=("device",),
        unread=enclosure.unread,
    ),
    Source(
        name="filesystem",
        period_seconds=15,
        may_hang=True,
        read=statfs.read_filesystems,
        families=statfs.FAMILIES,
        emit=lambda value, _: statfs.emit(value),
        node=statfs.node_samples,
        node_prefixes=("node_filesystem_",),
        objects=("mountpoint",),
        unread=statfs.unread_parts,
        parts=statfs.read_filesystems,
    ),
    Source(
        name="smart",
        period_seconds=15,
        may_hang=True,
        read=smart_poller.read_smart,
        families=smart_series.FAMILIES,
        emit=lambda value, _: smart_series.emit(value),
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
        emit=lambda value, _: kernel_log.emit(value),
        start=kernel_log.start(),
    ),
    Source(
        name="controllers",
        period_seconds=controller_poller.PERIOD_SECONDS,
        may_hang=True,
        read=vendors.read_controllers,
        families=controller.FAMILIES,
        emit=lambda value, _: controller.emit(value),
        objects=("controller",),
        lists=("controller", controller.names),
        unread=controller.unread,
        start=controller_poller.start(vendors.BACKENDS),
    ),
)


def with_readers(
    sources: Iterable[Source], readers: Mapping[str, Callable[[Root], Any]]
) -> list[Source]:
    """Return the sources, some read by what others talk to as well: by name, what reads."""
    return [
        replace(s, start=partial(_given, readers[s.name])) if s.name in readers else s
        for s in sources
    ]


def _given(read: Callable[[Root], Any], _: object) -> Callable[[Root], Any]:
    return read


def collect(source: Source, root: Root, clock: Callable[[], float]) -> Reading:
    """Run one source once; every way it can end is an outcome, none an exception.

    `clock` is monotonic, in seconds.
    """
    began = clock()
    value, error, last = None, "", ("", b"")
    root.last = last
    try:
        value = source.read(root)
        outcome = Outcome.OK
    except AbsentError as problem:
        outcome, error = Outcome.ABSENT, str(problem)
    except StuckError as problem:
        outcome, error = Outcome.STUCK, str(problem)
    except ReadError as problem:
        outcome, error = Outcome.FAILED, str(problem)
    except ParseError as problem:
        outcome, error, last = Outcome.UNPARSED, str(problem), root.last
    except Exception as problem:  # noqa: BLE001 - the one place that catches everything
        outcome, error = Outcome.BUG, trace(problem)
    ended = clock()
    return Reading(source.name, outcome, ended, ended - began, value, error, *last)
