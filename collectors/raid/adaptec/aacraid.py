"""How Adaptec's controllers are asked: 'arcconf', of the drivers aacraid and smartpqi. Thin.

It keeps no log that is easy to follow: its states and its counts of errors are compared. It drops
'UcliEvt.log' where it runs, which is why the probe runs it in a directory of its own: old versions
do not know 'nologs'.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import AbsentError, LateError, ParseError, ReadError, StuckError
from iowarden.collectors.program import run_program
from iowarden.collectors.raid.adaptec import arcconf, arcconf_status
from iowarden.collectors.raid.backend import Backend
from iowarden.collectors.smart import scsi_hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iowarden.collectors.machine import Root
    from iowarden.collectors.raid.adaptec.arcconf import Config
    from iowarden.collectors.raid.controller import Controller

_DRIVERS = ("aacraid", "smartpqi")
_HP = frozenset({"0x103c", "0x1590", "0x0e11"})
"""PCI vendors: HP, HPE, Compaq."""
_SECONDS = 60.0
_FEWEST_SERIAL_CHARACTERS = 5
"""So many of a serial number's last characters tell a controller from its neighbour."""


def hosts_of(root: Root, drivers: Iterable[str], hosts: Sequence[str]) -> dict[str, str]:
    """Return the PCI addresses of hosts of drivers, by host."""
    return {
        entry: address
        for driver in drivers
        for address in scsi_hosts.listed(root, f"{scsi_hosts.PCI_DRIVERS}/{driver}", [])
        for entry in scsi_hosts.listed(root, f"{scsi_hosts.PCI_DRIVERS}/{driver}/{address}", [])
        if entry in hosts
    }


def made_by_hp(root: Root, address: str) -> bool:
    """Return whether HP sells an adapter of the driver smartpqi; its own programs tell most of it.

    Where that cannot be read, it is.
    """
    vendor = scsi_hosts.text_of(root, f"/sys/bus/pci/devices/{address}/subsystem_vendor")
    return not vendor or vendor.lower() in _HP


def _ask(root: Root, *command: str) -> str:
    return run_program(root, _SECONDS, "arcconf", *command)


def _own(root: Root, hosts: Sequence[str]) -> dict[str, str]:
    shared = hosts_of(root, ("smartpqi",), hosts)
    return hosts_of(root, ("aacraid",), hosts) | {
        host: address for host, address in shared.items() if not made_by_hp(root, address)
    }


def hiding(root: Root, hosts: Iterable[str], drivers: Iterable[str] = _DRIVERS) -> list[str]:
    """Return the hosts of drivers that may hide disks: not those that show drives alone."""
    at = {host: driver for driver in drivers for host in hosts_of(root, (driver,), [*hosts])}
    drives = scsi_hosts.Shown.DRIVES
    return [
        each
        for each in hosts
        if each not in at or scsi_hosts.shown(root, each, at[each]) is not drives
    ]


def _hiding(root: Root, hosts: Sequence[str]) -> list[str]:
    return hiding(root, sorted(_own(root, hosts)))


def _find(root: Root, hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Number the controllers; each question about one has its number, and all of their hosts.

    Of hosts that are not listed nobody knows which they are: they are one more, 'unlisted'. Plain
    adapters need not be listed.
    """
    own = sorted(_own(root, hosts))
    if not own:
        return {}
    count = arcconf.parse_count(_ask(root, "GETVERSION"))
    wanted = own if count >= len(own) else hiding(root, own)
    if not count and wanted:
        raise ReadError(
            f"'arcconf GETVERSION': expected one at {', '.join(wanted)}, got none listed"
        )
    found = {f"adaptec {number}": (str(number), *own) for number in range(1, count + 1)}
    if count < len(wanted):
        expected = f"expected {len(wanted)} controllers ({', '.join(wanted)}), got {count}"
        found["adaptec unlisted"] = ("", f"'arcconf GETVERSION': {expected}")
    return found


def _state(
    root: Root, name: str, handle: tuple[str, ...], _former: Controller | None
) -> Controller:
    number, *hosts = handle
    if not number:
        raise ReadError(hosts[0])  # why
    config = arcconf.parse_config(_ask(root, "GETCONFIG", number, "AL"), name)
    unread = list(config.controller.unread)
    if not config.lists_disks:
        unread.append(
            "'arcconf GETCONFIG': expected 'Physical Device information', got no such heading: its"
            " disks are not known"
        )

    def part(more: Callable[[], Controller], found: Controller) -> Controller:
        """Return the controller with a part; as it was where that cannot be read."""
        try:
            return more()
        except (LateError, StuckError):
            raise
        except (AbsentError, ReadError, ParseError) as error:
            if "not supported" not in str(error):
                unread.append(str(error))
            return found

    found = _at_host(root, config, hosts)
    found = part(
        lambda: arcconf_status.with_tasks(
            found, arcconf_status.parse_tasks(_ask(root, "GETSTATUS", number))
        ),
        found,
    )
    if any(len(disk.errors_total) < _FEWEST_COUNTS for disk in found.disks):
        found = part(lambda: _with_errors(root, number, found, config, unread), found)
    return replace(found, unread=tuple(unread))


_FEWEST_COUNTS = 2
"""Where a disk has no more than 'S.M.A.R.T. warnings' the log of its errors tells more."""


def _with_errors(
    root: Root, number: str, found: Controller, config: Config, unread: list[str]
) -> Controller:
    log = arcconf_status.parse_device_log(_ask(root, "GETLOGS", number, "DEVICE", "tabular"))
    if log.full:
        unread.append("its log of disks' errors is full: newer ones are not counted")
    return arcconf_status.with_errors(found, log, config)


def _at_host(root: Root, config: Config, hosts: Sequence[str]) -> Controller:
    """Return the controller with its host: by its PCI address, else by its serial number.

    Source: the driver shows the number that arcconf prints, or its last digits (linit.c,
    aac_show_serial_number). A controller that is alone is that of the only host.
    """
    addresses = hosts_of(root, _DRIVERS, hosts)
    found = [host for host, address in addresses.items() if address == config.pci_address]
    serial = config.controller.serial
    if not found and not config.pci_address and serial:
        for host in hosts:
            told = scsi_hosts.text_of(root, f"{scsi_hosts.HOSTS}/{host}/serial_number")
            if len(told) >= _FEWEST_SERIAL_CHARACTERS and serial.upper().endswith(told.upper()):
                found.append(host)
    if not found and len(hosts) == 1:
        found = list(hosts)
    if len(found) != 1:
        return config.controller
    if found[0] in hosts_of(root, ("aacraid",), hosts):
        return arcconf.at_host(config, found[0])
    return replace(config.controller, host=found[0])


ADAPTEC = Backend("adaptec", _DRIVERS, ("arcconf",), _find, _state, adapters=True, hiding=_hiding)
