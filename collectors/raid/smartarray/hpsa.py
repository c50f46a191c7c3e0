"""Backend of HP's Smart Array controllers: 'ssacli', or its former names. Thin.

They have no event log that is easy to follow. An answer has no mark of completeness, so the
detailed one is compared with a short list. Where none of HP's programs is installed, but
'cciss_vol_status' is, that is used: it is free software, and reports volumes and disks.
The driver 'cciss' (up to Linux 4.13) has no SCSI host, so its controllers are not found here.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.model import (
    AbsentError,
    DeadlineError,
    ParseError,
    ProgramNotFoundError,
    ReadError,
    StuckError,
)
from iowarden.collectors.program import run_program
from iowarden.collectors.raid import pci_hosts
from iowarden.collectors.raid.backend import Backend, first_installed, not_listed
from iowarden.collectors.raid.smartarray import cciss_vol_status, ssacli
from iowarden.collectors.smart import scsi_hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.backend import Handle
    from iowarden.collectors.raid.controller import Controller

_DRIVERS = ("hpsa", "smartpqi")
_PROGRAMS = ("ssacli", "hpssacli", "hpacucli")
_FREE_PROGRAM = "cciss_vol_status"
_SECONDS = 60.0
_PAUSES_SECONDS = (1.0, 1.0, 1.0)
"""Only one of these programs runs at a time; another one is finished by then."""


def backend(pauses_seconds: Sequence[float] = _PAUSES_SECONDS) -> Backend:
    """Return the backend. `pauses_seconds`: pauses before retries while another program runs."""

    def ask(root: Machine, *command: str) -> tuple[ssacli.FoundController, ...]:
        for pause in () if root.path else pauses_seconds:
            try:
                return _query(root, *command)
            except ssacli.BusyError:
                time.sleep(pause)
        return _query(root, *command)

    def find(root: Machine, hosts: Sequence[str]) -> dict[str, Handle | str]:
        own = _own(root, hosts)
        if not own:
            return {}
        try:
            listed = ask(root, "ctrl", "all", "show", "status")
        except AbsentError as error:
            hiding = pci_hosts.hiding(root, own, _DRIVERS)
            nodes = {host: node for host in hiding if (node := _node(root, host))}
            if not nodes or not (isinstance(error, ProgramNotFoundError) or root.path):
                raise
            return {f"hp {host}": (node, host) for host, node in nodes.items()}
        found: dict[str, Handle | str] = {
            each.controller.name: _handle(each.controller.name, index)
            for index, each in enumerate(listed)
        }
        wanted = own if len(found) >= len(own) else pci_hosts.hiding(root, own, _DRIVERS)
        if len(found) < len(wanted):
            command = "ssacli ctrl all show status"
            found["hp unlisted"] = not_listed(command, wanted, len(found))
        return found

    def state(root: Machine, name: str, handle: Handle, _former: Controller | None) -> Controller:
        which = handle[0]
        if which.startswith("/dev/"):
            text = run_program(root, _SECONDS, _FREE_PROGRAM, "-V", which)
            found = cciss_vol_status.parse_volume_status(text)[0]
            return replace(found, name=name, host=handle[1], program=_FREE_PROGRAM)
        listed = ask(root, "ctrl", which, "show", "config", "detail")
        index = int(handle[1]) if len(handle) > 1 else 0
        if index >= len(listed):
            raise ParseError(
                f"'ssacli ctrl {which} show config detail': expected {index + 1} controllers, got"
                f" {len(listed)}"
            )
        one = listed[index]
        every_host = scsi_hosts.listed(root, scsi_hosts.HOSTS, [])
        addresses = pci_hosts.addresses_of(root, _DRIVERS, every_host)
        at = [host for host, address in addresses.items() if address == one.pci_address]
        whole = replace(one.controller, name=name, host=at[0] if len(at) == 1 else "")
        return _completed(root, whole, index, partial(ask, root, "ctrl", which, "show", "config"))

    programs = (*_PROGRAMS, _FREE_PROGRAM)
    return Backend("hp", _DRIVERS, programs, find, state, adapters=True, hiding=_hiding)


def _completed(
    root: Machine,
    found: Controller,
    index: int,
    listed: Callable[[], tuple[ssacli.FoundController, ...]],
) -> Controller:
    """Return a controller with more data from its short list. Errors: DeadlineError, StuckError."""
    try:
        short = listed()
    except (DeadlineError, StuckError):
        raise
    except (AbsentError, ReadError, ParseError) as error:
        if isinstance(error, AbsentError) and root.path:
            return found  # an older recording has none
        return replace(found, read_errors=(*found.read_errors, str(error)))
    return ssacli.completed(found, short[index].controller) if index < len(short) else found


def _hiding(root: Machine, hosts: Sequence[str]) -> list[str]:
    return pci_hosts.hiding(root, _own(root, hosts), _DRIVERS)


def _query(root: Machine, *command: str) -> tuple[ssacli.FoundController, ...]:
    """Run the installed program of the vendor. Errors: AbsentError, ReadError, ParseError."""

    def told(program: str) -> tuple[ssacli.FoundController, ...]:
        text = run_program(root, _SECONDS, program, *command)
        return tuple(
            replace(each, controller=replace(each.controller, program=program))
            for each in ssacli.parse_controllers(text)
        )

    return first_installed(root, _PROGRAMS, told)


def _handle(name: str, index: int) -> tuple[str, ...]:
    """Return the name of a controller: some have no slot, or share the name of their chassis."""
    slot = name.removeprefix("hp slot ")
    return (
        ("all", str(index))
        if slot == name or not slot.isalnum() or slot == "unknown"
        else (f"slot={slot}",)
    )


def _own(root: Machine, hosts: Sequence[str]) -> list[str]:
    shared = pci_hosts.addresses_of(root, ("smartpqi",), hosts)
    own = set(pci_hosts.addresses_of(root, ("hpsa",), hosts))
    own.update(host for host, address in shared.items() if pci_hosts.is_hp(root, address))
    return sorted(own)


def _node(root: Machine, host: str) -> str:
    """Return the '/dev/sgN' of the controller itself, '' if it has none."""
    for name in scsi_hosts.listed(root, scsi_hosts.DEVICES, []):
        path = f"{scsi_hosts.DEVICES}/{name}/device"
        if name.startswith(f"{host.removeprefix('host')}:") and scsi_hosts.text_of(
            root, f"{path}/type"
        ) == str(scsi_hosts.RAID_CONTROLLER):
            for generic in scsi_hosts.listed(root, f"{path}/scsi_generic", []):
                return f"/dev/{generic}"
    return ""


HP = backend()
