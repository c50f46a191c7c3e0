"""Guards: facts of an object that explain what looks like a fault of it. Pure.

A USB stick pauses for 16 s, a virtual disk while it is migrated, any disk behind a long discard.
Each fact is determined here alone: alerts and signals about hangs, stalls, freezes and bandwidth
compare what follows from it, and none tests a device by itself. Units: seconds.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from iowarden.rules.signals.activity import leaves_below
from iowarden.rules.smart.plausibility import virtual_device

if TYPE_CHECKING:
    from collections.abc import Collection

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.block.scsi import ScsiTopology
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.procfs.tasks import BlockedTask
    from iowarden.rules.signals.signal import Inputs

NO_GUARD: frozenset[Guard] = frozenset()
HOST = ""
"""The object of a guard that holds for the whole host."""
BOOT_SECONDS = 120.0
RESUME_SECONDS = 30.0
"""After a suspend disks spin up, and links and controllers are initialized."""
DISCARD_RATIO = 0.1
"""From this share of the time on, discards explain slow requests."""
COMMIT_REQUESTS = 4
"""Data, log, its commit record, and a flush: one after the other."""
LOWERED_RATIO = 0.1
"""So much less is the dirty limit than a minute ago: what is above it was written before."""


class Guard(enum.StrEnum):
    """A fact that explains what looks like a fault; in the order in which they are shown."""

    REMOVABLE = "removable"
    VIRTUAL = "virtual"
    MULTIPATH = "multipath"
    DISCARDING = "discarding"
    IN_FLIGHT_LEAKED = "in_flight_leaked"
    SPINNING_UP = "spinning_up"
    REBUILDING = "rebuilding"
    OWN_SCAN = "own_scan"
    AT_LIMIT = "at_limit"
    FROZEN = "frozen"
    TASK_PAUSED = "task_paused"
    NOT_STORAGE = "not_storage"
    WRITER_ONLY = "writer_only"
    LIMIT_LOWERED = "limit_lowered"
    LAPTOP_MODE = "laptop_mode"
    BOOTING = "booting"
    SUSPENDED_MACHINE = "suspended_machine"


class Meaning(NamedTuple):
    """Why a guard explains a stall, and how long a stall or a wait may last that it explains."""

    reason: str
    min_seconds: float = 0.0
    """A shorter one is counted, and no more; 0: the guard permits none."""


MEANINGS: Mapping[Guard, Meaning] = {
    Guard.REMOVABLE: Meaning(
        "removable, and the host runs nothing on it: its pauses harm only its user", 30
    ),
    Guard.VIRTUAL: Meaning("a virtual disk or a LUN: it pauses with its host or fabric", 20),
    # The requests of a path fail over when the path is given up (fast_io_fail_tmo, 5 s by default)
    # or its checker finds it failed (every 5 to 20 s), at the latest when the command times out
    # (30 s). Source: multipath-tools, libmultipath/defaults.h.
    Guard.MULTIPATH: Meaning("a multipath map: its requests fail over to another path", 45),
    # SD_WRITE_SAME_TIMEOUT is 120 s. Source: kernel, drivers/scsi/sd.h.
    Guard.DISCARDING: Meaning("discards are queued", 120),
    Guard.IN_FLIGHT_LEAKED: Meaning("its counter of requests in flight is wrong until reboot"),
    Guard.SPINNING_UP: Meaning("it was idle and may have to spin up", 30),
    Guard.REBUILDING: Meaning("its array synchronizes, checks or rebuilds"),
    Guard.OWN_SCAN: Meaning("iowarden's surface scan reads it"),
    Guard.AT_LIMIT: Meaning("it completes as many requests or bytes a second as it is allowed"),
    # A snapshot freezes a file system, or suspends a device, for seconds on purpose.
    Guard.FROZEN: Meaning("its file system is frozen, or its device suspended", 30),
    Guard.TASK_PAUSED: Meaning("the kernel pauses programs for what they write themselves"),
    Guard.NOT_STORAGE: Meaning("tasks wait for something other than storage"),
    # An SMR disk or a cheap SSD pauses to reorganize what was written; a request times out at 30 s.
    Guard.WRITER_ONLY: Meaning("only programs that fill the disks wait for them", 30),
    Guard.LIMIT_LOWERED: Meaning("the dirty limit was lowered within the last minute"),
    # Then it spins up, which permits its stall; what was gathered meanwhile is written after that.
    Guard.LAPTOP_MODE: Meaning("in laptop mode it sleeps between writes, and was idle"),
    Guard.BOOTING: Meaning("the host booted less than two minutes ago"),
    Guard.SUSPENDED_MACHINE: Meaning("the host was suspended until just now", RESUME_SECONDS),
}

_CARD = re.compile(r"mmcblk\d+")
_REMOTE_NAME = re.compile(r"(nbd|rbd|drbd)\d+")
_REMOTE_TRANSPORTS = frozenset({"tcp", "rdma", "fc"})
"""Of NVMe over fabrics. Source: kernel, drivers/nvme/host/{tcp,rdma,fc}.c (nvme_ctrl_ops)."""
_VIRTUAL_DRIVERS = frozenset({"ibmvscsi", "scsifront", "storvsc_host", "virtio_scsi", "vmw_pvscsi"})
"""Source: proc_name in kernel 6.12, ibmvscsi.c, xen-scsifront.c, storvsc_drv.c, virtio_scsi.c,
vmw_pvscsi.c."""

GIVEN_UP_SECONDS = 60.0
"""In this time the kernel has given up a request twice (SCSI and NVMe: after 30 s)."""
_PATIENT_DRIVERS = frozenset({"storvsc_host", "virtio_scsi"})
"""A request that times out gets its time once more, as often as that takes. Source: kernel,
storvsc_drv.c (storvsc_eh_timed_out), virtio_scsi.c (virtscsi_eh_timed_out)."""

_IOCTL_CALLS = frozenset({"16", "29", "54"})
"""Its number on x86_64; arm64 and riscv; 32-bit, powerpc and s390. Source: the syscall tables."""
_COMMANDS = frozenset(
    {
        0x2285,  # SG_IO. Source: kernel, include/scsi/sg.h
        *(0x031D, 0x031E, 0x031F),  # HDIO_DRIVE_TASKFILE, _TASK, _CMD: include/uapi/linux/hdreg.h
        *(0x4E41, 0x4E42, 0x4E43, 0x4E47, 0x4E48),  # NVME_IOCTL_*: uapi/linux/nvme_ioctl.h
        0x5393,  # CDROM_SEND_PACKET: include/uapi/linux/cdrom.h
    }
)
"""Type and number of requests that pass a command of the program on to a drive."""
_COMMAND_FUNCTIONS = (
    "sg_io",  # drivers/scsi/scsi_ioctl.c, before 5.15 block/scsi_ioctl.c
    "scsi_cdrom_send_packet",
    "ata_cmd_ioctl",  # drivers/ata/libata-scsi.c
    "ata_task_ioctl",
    "nvme_submit_user_cmd",  # drivers/nvme/host/ioctl.c
)


class HostKind(NamedTuple):
    """What a SCSI host adapter is, without its counters. `fabric`: Fibre Channel or iSCSI."""

    driver: str | None
    fabric: bool
    usb: bool


Hosts = Mapping[str, HostKind]
"""By the name of a host adapter ('host2')."""
_UNKNOWN_HOST = HostKind(None, fabric=False, usb=False)


def host_kinds(scsi: ScsiTopology | None) -> dict[str, HostKind]:
    """Return what each host adapter is."""
    hosts = {} if scsi is None else scsi.hosts
    return {name: HostKind(host.driver, host.fabric, host.usb) for name, host in hosts.items()}


def is_removable(device: Device, hosts: Hosts, topology: Topology) -> bool:
    """Whether a device can be pulled: a USB disk or stick, a disc, a card.

    A card is an SD card; built-in eMMC has boot partitions (kernel, drivers/mmc/core/mmc.c).
    """
    is_card = is_flash_card(device) and f"{device.name}boot0" not in topology.devices
    is_usb = hosts.get(device.host or "", _UNKNOWN_HOST).usb
    return bool(device.removable) or is_card or is_usb


def is_flash_card(device: Device) -> bool:
    """Whether a device is an SD card or eMMC: it may take seconds for a flush."""
    return bool(_CARD.fullmatch(device.name))


def is_remote(device: Device) -> bool:
    """Whether the data of a device are at another host."""
    return bool(_REMOTE_NAME.fullmatch(device.name)) or device.transport in _REMOTE_TRANSPORTS


def is_exchangeable(device: Device) -> bool:
    """Whether the medium or export behind a device may become another one under its name."""
    return bool(device.removable) or device.name.startswith("nbd")


def is_virtual(device: Device, hosts: Hosts) -> bool:
    """Whether a disk belongs to a hypervisor, or is attached by Fibre Channel, iSCSI or network."""
    host = hosts.get(device.host or "", _UNKNOWN_HOST)
    of_host = host.fabric or host.driver in _VIRTUAL_DRIVERS
    return of_host or is_remote(device) or is_of_hypervisor(device)


def is_of_hypervisor(device: Device) -> bool:
    """Whether a disk belongs to a hypervisor by its own name, vendor or model."""
    return virtual_device(device)


def given_up_seconds(device: Device, hosts: Hosts) -> float:
    """Return how old a request can be that the kernel has not given up; inf: it never does.

    A driver without a timeout shows none: virtio-blk, xen-blkfront, rbd, those without requests.
    That of NVMe is shown from 5.0 on. Source: kernel, block/blk-sysfs.c (queue_attr_visible).
    """
    is_patient = hosts.get(device.host or "", _UNKNOWN_HOST).driver in _PATIENT_DRIVERS
    if is_patient or (device.timeout_seconds is None and not device.name.startswith("nvme")):
        return math.inf
    return max(2 * (device.timeout_seconds or 0.0), GIVEN_UP_SECONDS)


def discards_overtake(before: BlockIo, after: BlockIo, max_in_flight: int) -> bool:
    """Whether what waits between two samples waits for no discard: newer ones have completed.

    Those that were queued before it are no more than were in flight; each of the few requests of a
    commit may come behind one more.
    """
    completed = after.discards_completed_total - before.discards_completed_total
    return completed > COMMIT_REQUESTS + 2 * max_in_flight


def discards_explain(discard_seconds: float, elapsed_seconds: float) -> bool:
    """Whether a disk discarded for so much of a time that its other requests were slow by it."""
    return discard_seconds > DISCARD_RATIO * elapsed_seconds


def ioctl_request(task: BlockedTask) -> int | None:
    """Return type and number of the request of a task's ioctl(2), None: it is in another call.

    Above these 16 bits are direction and size, which differ by architecture.
    """
    number, *arguments = task.system_call.split() or ("",)
    if number not in _IOCTL_CALLS or len(arguments) < 2:
        return None
    return int(arguments[1], 16) & 0xFFFF


def is_command(task: BlockedTask) -> bool:
    """Whether a program waits for a command that it sent to a drive itself.

    To erase or to test itself (hdparm, sg_format, smartctl -C) a drive may take hours.
    """
    if task.kernel:
        return False
    return ioctl_request(task) in _COMMANDS or any(
        name.startswith(_COMMAND_FUNCTIONS) for name in (task.wait_channel, *task.stack)
    )


def rebuilding(arrays: Mapping[str, MdArray] | None, topology: Topology) -> frozenset[str]:
    """Return the leaf devices below arrays that synchronize, check or rebuild."""
    syncing = [name for name, array in (arrays or {}).items() if array.is_synchronizing]
    return frozenset(leaf for name in syncing for leaf in leaves_below(topology, name))


def of_host(inputs: Inputs) -> frozenset[Guard]:
    """Return the guards of the whole host that follow from its uptime."""
    is_booting = inputs.uptime_seconds < BOOT_SECONDS
    return frozenset({Guard.BOOTING}) if is_booting else NO_GUARD


def is_laptop(inputs: Inputs) -> bool:
    """Whether the kernel gathers writes so that disks can sleep between them."""
    sysctl = inputs.snapshot.vm_sysctl
    return sysctl is not None and bool(sysctl.laptop_mode)


def min_seconds(guards: Collection[Guard]) -> float:
    """Return the longest stall that guards explain, 0 without any."""
    return max((MEANINGS[guard].min_seconds for guard in guards), default=0.0)
