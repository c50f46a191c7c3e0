"""Backend of LSI's adapters with Integrated RAID: sas3ircu, sas2ircu or mpt-status.

Most of them are plain adapters: programs are run only where the kernel shows a volume, because each
query makes the firmware write into the kernel log. A volume is on channel 1 and its disks have no
block device; with parallel SCSI (mptspi) those disks are on channel 1.
They have no event log: their events are in the kernel log.
Source: kernel mpt3sas_base.h RAID_CHANNEL, mptsas.h MPTSAS_RAID_CHANNEL, mptspi.c; `unique_id` of a
host of the older drivers is the number of its adapter (mptsas.c). None was tried on hardware.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import AbsentError, ParseError
from iowarden.collectors.program import run_program
from iowarden.collectors.raid.backend import Backend, PartReader, answers_of
from iowarden.collectors.raid.controller import Controller
from iowarden.collectors.raid.mpt import mpt_status, sasircu
from iowarden.collectors.raid.pci_hosts import adapters_of
from iowarden.collectors.smart import scsi_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.backend import Handle
    from iowarden.collectors.raid.controller import ControllerArray, PhysicalDisk

_SECONDS = 60.0
_IRCU_DRIVERS = ("mpt3sas", "mpt2sas")
_IRCU_PROGRAMS = ("sas3ircu", "sas2ircu")
_STATUS_DRIVERS = ("mptsas", "mptspi")
_STATUS_PROGRAM = "mpt-status"
_RAID_CHANNEL = "1"


@dataclass(frozen=True, slots=True)
class _Seen:
    """Arrays of a host as the kernel shows them.

    Fields: `volumes` are the SCSI addresses on channel 1; `hidden`: it has disks without a block
    device, which remain after a volume has failed.
    """

    volumes: tuple[str, ...]
    hidden: bool = False


def _seen(root: Machine, hosts: Iterable[str]) -> dict[str, _Seen]:
    """Return the hosts that have, or had, an array. Limits: from sysfs names and texts alone."""
    found = {}
    addresses = [each.split(":") for each in scsi_hosts.listed(root, scsi_hosts.DEVICES, [])]
    for host in hosts:
        own = [parts for parts in addresses if len(parts) == 4 and f"host{parts[0]}" == host]
        volumes = tuple(":".join(parts) for parts in own if parts[1] == _RAID_CHANNEL)
        others = (":".join(parts) for parts in own if parts[1] != _RAID_CHANNEL)
        if volumes or any(_hidden(root, each) for each in others):
            found[host] = _Seen(volumes, hidden=not volumes)
    return found


def _hidden(root: Machine, address: str) -> bool:
    path = f"{scsi_hosts.DEVICES}/{address}/device"
    entries = scsi_hosts.listed(root, path, [])
    is_disk = scsi_hosts.text_of(root, f"{path}/type") == str(scsi_hosts.DISK)
    return is_disk and "block" not in entries


def _ircu_find(root: Machine, hosts: Sequence[str]) -> dict[str, Handle | str]:
    """Return the adapters that have arrays, by the name to use in a command: 'sas2ircu 0'.

    An adapter that has a volume and is listed by no program is named after its host.
    """
    seen = _seen(root, hosts)
    if not seen:
        return {}
    at = _addresses(root)
    found: dict[str, Handle | str] = {}
    known: set[str] = set()
    errors: list[Exception] = []

    def listed(program: str) -> tuple[sasircu.ListedAdapter, ...]:
        lost: list[str] = []
        adapters = sasircu.parse_list(run_program(root, _SECONDS, program, "LIST"), lost)
        errors.extend(map(ParseError, lost))
        return adapters

    for program, adapters in answers_of(root, _IRCU_PROGRAMS, listed, errors):
        for each in adapters:
            host = at.get(each.address, "")
            if host in seen and host not in known:  # both programs may list it
                known.add(host)
                found[f"{program} {each.index}"] = (program, str(each.index), host)
    missing = all(isinstance(error, AbsentError) for error in errors)
    for host, what in seen.items():
        if host not in known and (what.volumes or not missing):
            expected = f"'{_IRCU_PROGRAMS[-1]} LIST': expected the adapter of {host}, got none"
            found[host] = "; ".join(map(str, errors)) or expected
    return found


def _addresses(root: Machine) -> dict[str, str]:
    """Return the host of each PCI address."""
    return {
        address: entry
        for driver in _IRCU_DRIVERS
        for address, hosts in adapters_of(root, driver).items()
        for entry in hosts
    }


def _ircu_state(root: Machine, name: str, handle: Handle, _: Controller | None) -> Controller:
    program, index, host = handle
    found = sasircu.parse_display(run_program(root, _SECONDS, program, index, "DISPLAY"), name)
    parts = PartReader(partial(run_program, root, _SECONDS, program, index), [*found.read_errors])
    tasks = parts.read(sasircu.parse_status, {}, "STATUS") if found.arrays else {}
    volumes = _seen(root, [host]).get(host, _Seen(())).volumes
    arrays = (sasircu.with_task(each, tasks.get(each.name)) for each in found.arrays)
    return replace(
        found,
        host=host,
        arrays=tuple(
            replace(each, address=_address(root, each, volumes, alone=len(found.arrays) == 1))
            for each in arrays
        ),
        read_errors=tuple(parts.read_errors),
    )


def _address(root: Machine, array: ControllerArray, volumes: Sequence[str], *, alone: bool) -> str:
    """Return the kernel's SCSI address of a volume, '1:0:0', '' if it is uncertain.

    Its 64-bit number is in the kernel's `wwid`, in reverse byte order (unchecked): long enough to
    exclude a coincidence.
    """
    told = array.serial.casefold()
    ends = (told, "".join(reversed(re.findall("..", told)))) if len(told) == 16 else ()
    for each in volumes:
        wwid = (
            scsi_hosts.text_of(root, f"{scsi_hosts.DEVICES}/{each}/device/wwid").strip().casefold()
        )
        if ends and wwid.endswith(ends):
            return each.partition(":")[2]
    return volumes[0].partition(":")[2] if alone and len(volumes) == 1 else ""


def _status_find(root: Machine, hosts: Sequence[str]) -> dict[str, Handle | str]:
    """Return the adapters that have arrays by the kernel's name, 'ioc0'."""
    seen = _seen(root, hosts)
    spi = {entry for entries in adapters_of(root, "mptspi").values() for entry in entries}
    found: dict[str, Handle | str] = {}
    for host, each in seen.items():
        unit = scsi_hosts.text_of(root, f"{scsi_hosts.HOSTS}/{host}/unique_id").strip()
        known = re.fullmatch(r"[0-9]{1,3}", unit) is not None
        which = unit if known and len(hosts) > 1 else ""
        targets = [] if host in spi else [volume.split(":")[2] for volume in each.volumes]
        found[f"ioc{unit}" if known else host] = (host, which, *targets)
    return found


def _status_state(root: Machine, name: str, handle: Handle, _: Controller | None) -> Controller:
    host, unit, *targets = handle
    which = ("-u", unit) if unit else ()
    if not targets:
        # It finds the first volume alone; behind parallel SCSI others cannot be found.
        found = mpt_status.parse_ids(run_program(root, _SECONDS, _STATUS_PROGRAM, *which, "-p"))
        targets = [str(number) for number in found]
    arrays: list[ControllerArray] = []
    disks: dict[str, PhysicalDisk] = {}
    unread: list[str] = []
    for target in targets:
        command = (_STATUS_PROGRAM, "-n", *which, "-i", target)
        told = mpt_status.parse_status(run_program(root, _SECONDS, *command))
        channel = _RAID_CHANNEL if len(handle) > 2 else "0"
        arrays += [replace(each, address=f"{channel}:{target}:0") for each in told.arrays]
        disks.update({disk.slot: disk for disk in told.disks if disk.slot not in disks})
        unread += told.read_errors
    return Controller(
        name=name,
        vendor="mpt",
        host=host,
        arrays=tuple(arrays),
        disks=tuple(disks.values()),
        read_errors=tuple(unread),
    )


IRCU = Backend("mpt", _IRCU_DRIVERS, _IRCU_PROGRAMS, _ircu_find, _ircu_state, adapters=True)
MPT_STATUS = Backend(
    "mpt", _STATUS_DRIVERS, (_STATUS_PROGRAM,), _status_find, _status_state, adapters=True
)
BACKENDS = (IRCU, MPT_STATUS)
