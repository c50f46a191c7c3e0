"""Backend of Adaptec's controllers: 'arcconf', for the drivers aacraid and smartpqi. Thin.

arcconf has no event log that is easy to follow, so states and error counts are compared from poll
to poll. arcconf writes 'UcliEvt.log' into its working directory, so the probe runs it in a
directory of its own: old versions do not have the option 'nologs'.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ReadError
from iowarden.collectors.program import run_program
from iowarden.collectors.raid.adaptec import arcconf, arcconf_status
from iowarden.collectors.raid.backend import Backend, PartReader, not_listed
from iowarden.collectors.raid.pci_hosts import addresses_of, hiding, is_hp
from iowarden.collectors.smart import scsi_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.adaptec.arcconf import ArcconfConfig
    from iowarden.collectors.raid.backend import Handle
    from iowarden.collectors.raid.controller import Controller

_DRIVERS = ("aacraid", "smartpqi")
_SECONDS = 60.0
_MIN_SERIAL_CHARACTERS = 5
"""Length of the end of a serial number that identifies one controller among several."""


def _query(root: Machine, *command: str) -> str:
    return run_program(root, _SECONDS, "arcconf", *command)


def _own(root: Machine, hosts: Sequence[str]) -> dict[str, str]:
    shared = addresses_of(root, ("smartpqi",), hosts)
    return addresses_of(root, ("aacraid",), hosts) | {
        host: address for host, address in shared.items() if not is_hp(root, address)
    }


def _hiding(root: Machine, hosts: Sequence[str]) -> list[str]:
    return hiding(root, sorted(_own(root, hosts)), _DRIVERS)


def _find(root: Machine, hosts: Sequence[str]) -> dict[str, Handle | str]:
    """Return the controllers, each with its number for arcconf and the hosts of all.

    Hosts that arcconf does not list cannot be identified: they are reported as one controller,
    'unlisted'. Plain adapters need not be listed.
    """
    own = sorted(_own(root, hosts))
    if not own:
        return {}
    count = arcconf.parse_count(_query(root, "GETVERSION"))
    wanted = own if count >= len(own) else hiding(root, own, _DRIVERS)
    if not count and wanted:
        raise ReadError(
            f"'arcconf GETVERSION': expected one at {', '.join(wanted)}, got none listed"
        )
    found: dict[str, Handle | str] = {
        f"adaptec {number}": (str(number), *own) for number in range(1, count + 1)
    }
    if count < len(wanted):
        found["adaptec unlisted"] = not_listed("arcconf GETVERSION", wanted, count)
    return found


def _state(root: Machine, name: str, handle: Handle, _former: Controller | None) -> Controller:
    number, *hosts = handle
    config = arcconf.parse_config(_query(root, "GETCONFIG", number, "AL"), name)
    parts = PartReader(partial(_query, root), list(config.controller.read_errors))
    unread = parts.read_errors
    if not config.lists_disks:
        unread.append(
            "'arcconf GETCONFIG': expected 'Physical Device information', got no such heading:"
            " its disks are unknown"
        )

    found = _at_host(root, config, hosts)
    tasks = parts.read(arcconf_status.parse_tasks, {}, "GETSTATUS", number, harmless=_LACKING)
    found = arcconf_status.with_tasks(found, tasks)
    if any(len(disk.errors_total) < _MIN_COUNTS for disk in found.disks):
        question = ("GETLOGS", number, "DEVICE", "tabular")
        log = parts.read(arcconf_status.parse_device_log, None, *question, harmless=_LACKING)
        if log is not None:
            found = arcconf_status.with_errors(found, log, config)
        if log is not None and log.full:
            unread.append("its log of disk errors is full: newer errors are not counted")
    return replace(found, read_errors=tuple(unread))


_LACKING = lazy_pattern("not supported")
"""What arcconf prints for a card that lacks the requested feature."""
_MIN_COUNTS = 2
"""Where a disk reports only 'S.M.A.R.T. warnings', its error log has details."""


def _at_host(root: Machine, config: ArcconfConfig, hosts: Sequence[str]) -> Controller:
    """Return the controller with its host: matched by PCI address, else by serial number.

    Source: the driver shows the number that arcconf prints, or its last digits (linit.c,
    aac_show_serial_number). A single controller belongs to the only host.
    """
    addresses = addresses_of(root, _DRIVERS, hosts)
    found = [host for host, address in addresses.items() if address == config.pci_address]
    serial = config.controller.serial
    if not found and not config.pci_address and serial:
        for host in hosts:
            told = scsi_hosts.text_of(root, f"{scsi_hosts.HOSTS}/{host}/serial_number")
            if len(told) >= _MIN_SERIAL_CHARACTERS and serial.upper().endswith(told.upper()):
                found.append(host)
    if not found and len(hosts) == 1:
        found = list(hosts)
    if len(found) != 1:
        return config.controller
    if found[0] in addresses_of(root, ("aacraid",), hosts):
        return arcconf.at_host(config, found[0])
    return replace(config.controller, host=found[0])


ADAPTEC = Backend("adaptec", _DRIVERS, ("arcconf",), _find, _state, adapters=True, hiding=_hiding)
