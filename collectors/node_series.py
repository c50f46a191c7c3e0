"""Families of the series that a collector also exports under another exporter's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Group, Kind, Sample
from iowarden.collectors.smart import smartctl_exporter

if TYPE_CHECKING:
    from collections.abc import Iterable

_HELP = (
    ("node_boot_time_seconds", "When the machine booted, as Unix time."),
    ("node_context_switches_total", "Context switches."),
    ("node_cpu_guest_seconds_total", "CPU time of virtual machines, by mode."),
    ("node_cpu_seconds_total", "CPU time, by mode."),
    ("node_disk_ata_", "A property of an ATA disk from the udev database."),
    ("node_disk_device_mapper_info", "Names of a device-mapper device from the udev database."),
    ("node_disk_filesystem_info", "The file system on a device from the udev database."),
    ("node_disk_info", "Identity of a block device from the udev database."),
    ("node_disk_", "I/O of a block device, from '/proc/diskstats'."),
    ("node_filesystem_device_error", "1 if the file system could not be queried."),
    ("node_filesystem_files", "Inodes of a file system."),
    ("node_filesystem_readonly", "1 if the file system is mounted read-only."),
    ("node_filesystem_", "Space of a file system."),
    ("node_forks_total", "Tasks started since boot."),
    ("node_intr_total", "Interrupts since boot."),
    ("node_load", "Load average: tasks that run or wait for I/O."),
    ("node_md_", "A software RAID array."),
    ("node_memory_", "A line of '/proc/meminfo'."),
    ("node_pressure_", "Time in which tasks waited for a resource, from '/proc/pressure'."),
    ("node_procs_", "Tasks in this state."),
    ("node_time_clocksource_", "Clock source of the kernel, in use or available."),
    ("node_time_seconds", "The machine's time of day, as Unix time."),
    ("node_time_zone_offset_seconds", "How far the local time is ahead of UTC."),
    ("node_uname_info", "Kernel version and host name of this machine."),
    ("node_zfs_zpool_state", "1 for the state that an imported ZFS pool is in."),
    ("node_vmstat_", "A line of '/proc/vmstat'."),
)
"""By name prefix; the first match is used."""


def family(name: str) -> Family:
    """Return the family of a name, with the type that its exporter uses."""
    if name.startswith(smartctl_exporter.PREFIXES):
        return smartctl_exporter.family(name)
    kind: Kind = "gauge"
    if name.startswith("node_vmstat_"):
        kind = "untyped"
    elif name.endswith("_total"):
        kind = "counter"
    text = next((text for start, text in _HELP if name.startswith(start)), "As node_exporter's.")
    return Family(name, kind, text)


def groups(samples: Iterable[Sample]) -> tuple[Group, ...]:
    """Return the samples of a `Source.node` by family."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample[0], []).append(sample)
    return tuple((family(name), tuple(found)) for name, found in by_name.items())
