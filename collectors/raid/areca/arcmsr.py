"""Backend of Areca's controllers: 'cli64', for the driver arcmsr. Thin.

'event clear' is never run. A second program that queries an Areca controller loses answers of the
first; the probe runs one at a time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.model import ReadError
from iowarden.collectors.program import run_program
from iowarden.collectors.raid.areca import cli64, event_info
from iowarden.collectors.raid.backend import Backend, PartReader, first_installed
from iowarden.collectors.raid.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.backend import Handle
    from iowarden.collectors.raid.controller import ControllerLog, PhysicalDisk


_PROGRAMS = ("cli64", "areca-cli", "cli32")
_SECONDS = 60.0


def run_cli64(root: Machine, which: tuple[str, ...], *command: str) -> str:
    """Run Areca's tool and return its output. Errors: AbsentError, ReadError, ParseError."""
    return first_installed(
        root, _PROGRAMS, lambda program: run_program(root, _SECONDS, program, *which, *command)
    )


def _find(_: Machine, hosts: Sequence[str]) -> dict[str, Handle | str]:
    """Name the controllers. With several it is unknown which host is which 'ctrl=N'."""
    if len(hosts) == 1:
        return {"areca 1": ()}  # old versions of the tool do not have 'ctrl='
    return {f"areca {number}": (f"ctrl={number}",) for number in range(1, len(hosts) + 1)}


def _state(root: Machine, name: str, which: Handle, former: Controller | None) -> Controller:
    parts = PartReader(partial(run_cli64, root, which), raises_absent=not root.path)
    unread = parts.read_errors
    system = parts.read(cli64.parse_system, Controller(name, "areca"), "sys", "info")
    raid_sets = parts.read(partial(cli64.parse_raid_sets, read_errors=unread), (), "rsf", "info")
    volumes = parts.read(
        partial(cli64.parse_volumes, raid_sets=raid_sets, read_errors=unread), (), "vsf", "info"
    )
    bays = parts.read(
        partial(cli64.parse_bays, raid_sets=raid_sets, read_errors=unread), (), "disk", "info"
    )
    hardware = parts.read(cli64.parse_hardware, cli64.Hardware(), "hw", "info")
    if not bays and not raid_sets:
        raise ReadError("; ".join(unread) or f"'{name}': expected disks or raid sets, got none")
    found = replace(
        system,
        name=name,
        arrays=(*raid_sets, *volumes),
        disks=tuple(
            replace(
                bay.disk,
                temperature_celsius=hardware.disk_temperatures_celsius.get(
                    int(bay.disk.slot.rpartition(" ")[2])
                    if bay.disk.slot.startswith("channel ")
                    else 0
                ),
            )
            for bay in bays
            if bay.disk is not None
        ),
        batteries=hardware.batteries,
        sensors=hardware.sensors,
        read_errors=tuple(unread),
    )
    if former is not None and _same_disks(found, former):
        return replace(found, disks=_identified(found.disks, former.disks))
    other = PartReader(parts.run)  # slot and model of the disk are known even so
    details = {
        bay.disk.slot: detail
        for bay in bays
        if bay.disk is not None and not bay.disk.serial
        if (
            detail := other.read(cli64.parse_disk_detail, None, "disk", "info", f"drv={bay.number}")
        )
    }
    known = [replace(each, slot=slot) for slot, each in details.items()]
    return replace(found, disks=_identified(found.disks, known))


def _same_disks(found: Controller, former: Controller) -> bool:
    """Whether no disk can have been replaced since: then no disk's identity is queried again."""
    told = [
        (
            [(disk.slot, disk.model, disk.usage, disk.state.word) for disk in each.disks],
            [(array.name, array.state.word) for array in each.arrays],
        )
        for each in (found, former)
    ]
    return told[0] == told[1]


def _identified(
    disks: Sequence[PhysicalDisk], known: Sequence[PhysicalDisk]
) -> tuple[PhysicalDisk, ...]:
    by_slot = {disk.slot: disk for disk in known}
    return tuple(
        replace(
            disk,
            serial=disk.serial or by_slot[disk.slot].serial,
            firmware=disk.firmware or by_slot[disk.slot].firmware,
        )
        if disk.slot in by_slot
        else disk
        for disk in disks
    )


def _log(root: Machine, name: str, which: Handle) -> ControllerLog:
    return event_info.parse_events(run_cli64(root, which, "event", "info"), name)


ARECA = Backend("areca", ("arcmsr",), _PROGRAMS, _find, _state, _log)
