"""SCSI host adapters and devices: queue depths, states and error counts, from '/sys/class'."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScsiHost:
    """A host adapter ('host2'). None: the kernel does not tell.

    Source: kernel, drivers/scsi/scsi_sysfs.c (can_queue, cmd_per_lun, host_busy, proc_name).
    """

    name: str
    driver: str | None
    """proc_name: 'ahci', 'megaraid_sas', '3w-9xxx', 'arcmsr' ..."""
    can_queue: int | None
    commands_per_lun: int | None
    busy: int | None
    """Commands under way; kernels from 4.4 on count them only when asked."""


@dataclass(frozen=True, slots=True)
class ScsiDevice:
    """A device 'host:channel:target:lun'. None: the kernel does not tell.

    Source: kernel, drivers/scsi/scsi_sysfs.c; the counters are printed in hexadecimal.
    """

    address: str
    host: str
    device: str | None
    """Its block device ('sda'), if it has one."""
    kind: int | None
    """Peripheral device type: 0 is a disk, 13 an enclosure. Source: SPC-4, 6.4.2."""
    state: str | None
    """'running', 'offline', 'blocked' ..."""
    queue_depth: int | None
    timeout_seconds: float | None
    requests_total: int | None
    completions_total: int | None
    errors_total: int | None
    """Rises on harmless unsupported commands as well."""
    timeouts_total: int | None
    """iotmo_cnt."""


@dataclass(frozen=True, slots=True)
class Scsi:
    """All of them; hosts by name, devices by address."""

    hosts: Mapping[str, ScsiHost]
    devices: Mapping[str, ScsiDevice]
    multi_queue: bool | None
    """Whether SCSI uses the multi-queue block layer; None: nothing says so (always from 5.0 on)."""
