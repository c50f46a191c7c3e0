"""SCSI hosts of RAID controllers by PCI driver and address, from sysfs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.smart import scsi_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iowarden.collectors.machine import Machine

_HP = frozenset({"0x103c", "0x1590", "0x0e11"})
"""PCI vendors: HP, HPE, Compaq."""
_HOST = lazy_pattern(r"host[0-9]{1,9}")


def adapters_of(root: Machine, driver: str) -> dict[str, tuple[str, ...]]:
    """Return the hosts of each PCI address of a driver; some have none."""
    at = f"{scsi_hosts.PCI_DRIVERS}/{driver}"
    return {
        address: tuple(filter(_HOST.fullmatch, scsi_hosts.listed(root, f"{at}/{address}", [])))
        for address in scsi_hosts.listed(root, at, [])
        if re.fullmatch(scsi_hosts.ADAPTER, address, re.ASCII)
    }


def addresses_of(root: Machine, drivers: Iterable[str], hosts: Sequence[str]) -> dict[str, str]:
    """Return the PCI address of each of the hosts that uses one of the drivers."""
    return {
        host: address
        for driver in drivers
        for address, found in adapters_of(root, driver).items()
        for host in found
        if host in hosts
    }


def is_hp(root: Machine, address: str) -> bool:
    """Return whether HP sells an adapter of the driver smartpqi; HP's programs report most of it.

    If that cannot be read, it is assumed.
    """
    vendor = scsi_hosts.text_of(root, f"/sys/bus/pci/devices/{address}/subsystem_vendor")
    return not vendor or vendor.lower() in _HP


def hiding(root: Machine, hosts: Iterable[str], drivers: Iterable[str]) -> list[str]:
    """Return the hosts of drivers that may hide disks, without those that show only drives."""
    at = {host: driver for driver in drivers for host in addresses_of(root, (driver,), [*hosts])}
    drives = scsi_hosts.HostRole.DRIVES
    return [
        each
        for each in hosts
        if each not in at or scsi_hosts.host_role(root, each, at[each]) is not drives
    ]
